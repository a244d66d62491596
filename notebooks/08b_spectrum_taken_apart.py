# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 8b. Going deeper: spectrum control taken apart
#
# **Question.** What does each part of spectrum control do, why do simpler penalties fail, and which settings matter?
#
# This notebook goes on where [lesson 8](08_spectrum_control.ipynb) stops. Nothing later needs it.

# %% [markdown]
# ## What you will learn
#
# - to tell what a Frobenius norm mends and what a spectral norm mends;
# - to see spectrum control in a translator, and to fit a law to a spectrum;
# - to say why spectral normalisation and the D-optimal penalty fail;
# - to know how much the weights and constants matter, and what the method costs.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 8](08_spectrum_control.ipynb), whose symbols this notebook uses.
#
# **Reading.** 36 minutes. **Difficulty.** 3 of 3.
#
# | profile | minutes | runs on | what is trained before your eyes |
# |---|---|---|---|
# | smoke | 0.3 | any CPU | a translator, twice, for a few steps |
# | quick | 1 | two CPU cores | the same on 4,000 phrases |
# | standard | 15 | two CPU cores | the same on the whole corpus |
# | full | 10 | one GPU | the same |
#
# Comparisons over seeds and settings are read from results that are kept with the course.
#
# On Google Colab, run this in a first cell and restart the session:
#
# `!git clone -q https://github.com/output-embedding-course/output-embedding-course && pip install -q -c output-embedding-course/constraints.txt -e "./output-embedding-course[lab]"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
SEED = 1  # of every random draw and of the models trained here

# %%
import contextlib  # noqa: I001
import tempfile

import numpy as np
import pandas as pd
import torch
from IPython.display import Markdown, display
from torch.utils.flop_counter import FlopCounterMode

# %%
import course_lab
from course_lab import claims, kept_costs, part, planned, plans, plots
from course_lab import published, tables, untested
from course_lab.progress import check
from course_lib import regularizers
from course_lib.errors import CourseError
from course_lib.metrics import decay, geometry, subspaces
from course_lib.output_layers import SpectralWords

_ = torch.manual_seed(SEED)

# %% [markdown]
# ## Predict
#
# 1. Spectral normalisation divides all singular values by the largest and leaves the shape of the cloud as
#    it is. Why may it harm a language model all the same?
# 2. The paper searches the weights of the penalties for orthogonality from 0.01 to 10. Over this range, does
#    the perplexity change more, or the share $s$ of the common vector?

# %% [markdown]
# ## Two penalties for orthogonality
#
# Let $G = U^\top U - I$, a $d\times d$ matrix that is zero when the columns of $U$ are orthonormal. The
# squared Frobenius norm $\|G\|_F^2$ is the sum of the squared eigenvalues of $G$. The squared spectral norm
# $\|G\|_2^2$ is the largest of these squares. We let gradient descent minimise each norm alone, from a $U$
# whose columns are far from orthonormal.

# %%
NORMS = "frobenius_U", "frobenius_V", "spectral_U", "spectral_V"


def descend(steps, **weights):
    """Return the eigenvalues of UᵀU after steps down one penalty."""
    weights = dict.fromkeys(NORMS, 0.0) | weights
    penalty = regularizers.Orthogonality(**weights, iterations=20)
    words = SpectralWords(300, 24).double()
    with torch.no_grad():
        words.U.mul_(torch.linspace(0.5, 1.4, 24))
    for _ in range(steps):
        (slope,) = torch.autograd.grad(penalty(words), words.U)
        with torch.no_grad():
            words.U.sub_(0.05 * slope)
    return torch.linalg.eigvalsh(words.U.T @ words.U).detach().flip(0)


# %%
eigenvalues = {
    "start": descend(0),
    "Frobenius, 12 steps": descend(12, frobenius_U=1.0),
    "spectral, 12 steps": descend(12, spectral_U=1.0),
}
start, frobenius, spectral = eigenvalues.values()

# %% tags=["hide-input"]
plots.show(
    plots.lines(eigenvalues, "number", "eigenvalue of UᵀU"),
    alt="Eigenvalues of UᵀU, the largest first. At the start they fall "
    f"from {start[0]:.1f} to {start[-1]:.2f}. Twelve steps down the "
    f"Frobenius norm bring them to between {frobenius.min():.2f} and "
    f"{frobenius.max():.2f}. Twelve steps down the spectral norm have "
    "moved the outermost alone.",
)

# %%
# NBVAL_CHECK_OUTPUT
mended = (frobenius - 1).abs().max() < 0.2
print("Frobenius: every column is mended:", mended.item())
same = (spectral - start).abs() < 1e-6
print("spectral: some were never touched:", same.any().item())

# %% [markdown]
# **Figure 1.** The Frobenius norm brings all eigenvalues to 1 at once. A step down the spectral norm moves
# only the eigenvalue that is farthest from 1. The sum of both norms, which the paper uses, is a Frobenius norm
# with extra weight on this eigenvalue.
#
# The library finds the spectral norm by the **power method**: if a vector is multiplied by $G$ again and
# again, it turns to the eigenvector of the eigenvalue farthest from 0. $G$ changes little from step to step.
# So the library begins where the last step ended, and three products suffice.

# %% [markdown]
# ## A translator too
#
# The paper shows its pictures for a language model and for a translator. Ours translates the German phrases
# of [notebook 21](21_train_translator.ipynb). One matrix, $d = 64$, reads German, reads English and predicts
# English. We choose the scale $c_1$ so that $\|W\|_F$ is the norm with which the plain model begins. In the
# profile `quick` the $\sigma_k$ are near 5 then. As a step of $U$ moves $W$ by $\sigma$ times as much, the
# learning rate of the factors is the plain rate over a typical $\sigma$, the root mean square of all
# $\sigma_k$.

# %%
sizes = {
    "smoke": {"train": 400, "valid": 50, "test": 4, "words": 400},
    "quick": {"train": 4000, "valid": 200, "test": 10, "words": 1500},
}
base = course_lab.recipes["cldr/transformer-tiny"]
base = course_lab.profile(base, "quick", seed=SEED)
if PROFILE in sizes:
    few = {"epochs": 3 if PROFILE == "quick" else 1, "average_last": None}
    base = base.change(corpus={"small": sizes[PROFILE]}, optimisation=few)

# %%
init = base.words.options
norm = init["init"] * np.sqrt(len(base.load_corpus()) * base.size)
typical = norm / np.sqrt(base.size)  # root mean square of the σ
shape = {"weight": 0.1, "c1": 1.0, "c2": 0.05, "gamma": 0.6}
unit = regularizers.ExponentialPrior(**shape).values(base.size)
shape["c1"] = norm / unit.norm().item()
tight = part("Orthogonality", **dict.fromkeys(NORMS, 0.1))
slower = {"learning_rate": base.optimisation.learning_rate / typical}
held = base.change(
    words=part("SpectralWords", **init),
    regularizers=(tight, part("ExponentialPrior", **shape)),
    optimisation={"groups": {"words.": slower}},
)


# %%
def trained(experiment):
    """Return the run of an experiment."""
    with tempfile.TemporaryDirectory() as folder:
        return course_lab.run(experiment, folder=folder, progress=False)


runs = {"plain": trained(base), "control": trained(held)}
final = {n: r.model.words.matrix().detach().cpu() for n, r in runs.items()}

# %%
counts = runs["plain"].corpus.counts
bands = geometry.by_frequency(counts)
group = np.ones(len(counts), dtype=int)
group[bands.frequent], group[bands.rare] = 2, 0
names = ["rare", "between", "frequent"]
clouds = {n: subspaces.project(W).points for n, W in final.items()}
values = {n: geometry.singular_values(W) for n, W in final.items()}
cosines = {n: geometry.pair_cosines(W) for n, W in final.items()}
values["prior"] = shape["c1"] * unit.numpy()

# %% tags=["hide-input"]
second = [v[1] / v[0] for v in values.values()]
means = [c.mean() for c in cosines.values()]
plots.show(
    plots.two_clouds(clouds, group, names, values, cosines),
    alt="Above, words of the translator on the plane of their two largest "
    "singular values, without control and with it. Below left, the "
    f"singular values: the second is {second[0]:.2f} and {second[1]:.2f} "
    "of the first. Below right, cosines of pairs: means "
    f"{means[0]:.2f} and {means[1]:.2f}.",
)

# %%
rows = {}
for name, W in final.items():
    isotropy, drift = geometry.isotropy(W), geometry.common_drift(W)
    r = geometry.stable_rank(values[name])
    rows[name] = {"stable rank": r, "share s": drift.share}
    rows[name] |= {"mean cosine": drift.cosine}
    rows[name] |= {"I₁": isotropy.I1, "I₂": isotropy.I2}
    rows[name] |= {"mean length": float(W.norm(dim=1).mean())}
pd.DataFrame(rows).T.round(3)

# %% [markdown]
# **Figure 2.** The translator has hardly a cone after so short a training, so there is little to mend. In the
# table above, control raises $I_1$ and lowers $I_2$ in this one run. Control does the same in the paper's Table
# 3, which [lesson 8](08_spectrum_control.ipynb) shows. Shorter rows alone would do so, too: compare the last
# column before you read this as a rounder cloud.

# %% [markdown]
# ## Which law did the spectrum follow?
#
# `metrics.decay` fits both priors to a spectrum, by least squares in $\log\sigma$. We take the language
# models of lesson 8 from the kept runs. Is a free spectrum polynomial or exponential? And does a fit to the
# spectrum under control return the constants of the prior? In the table the *typical error* is the root mean
# square error of $\log\sigma$, so 0.1 means an error of about 10 %.

# %%
MODEL = "docstrings/transformer-128"
plan = plans.read_plan("lessons-08")
small = dict(plan.runs[0].change)


def kept(recipe, change):
    """Return the kept results of a recipe with other settings."""
    of, own = f"{MODEL}/{recipe}", small | change
    runs = [planned.Planned(of, "quick", seed, own) for seed in (1, 2, 3)]
    return untested.read(runs)


plain, control = kept("tied", {}), kept("spectrum", {})
wide = kept("tied", {"words.init": 0.053})  # the best start of lesson 8

# %%
pair = {"plain": plain[0], "control": control[0]}
first = {n: content["metrics"]["geometry"] for n, content in pair.items()}
spectra = {
    name: np.broadcast_to(shape["singular_values"], small["size"])
    for name, shape in first.items()
}
controlled = planned.Planned(f"{MODEL}/spectrum", "quick", SEED, small)
prior = controlled.experiment().regularizers[1].build("regularizer")

# %%
fits = {}
measured = {n: σ for n, σ in spectra.items() if np.isfinite(σ).all()}
for name, spectrum in measured.items():
    for fitted in (decay.fit_exponential, decay.fit_polynomial):
        fit = fitted(spectrum)
        quality = {"typical error": fit.error, "R²": fit.r2}
        fits[name, type(fit.law).__name__] = vars(fit.law) | quality
own = {name: getattr(prior, name) for name in ("c1", "c2", "gamma")}
fits["prior", "Exponential"] = own
pd.DataFrame(fits).T.map("{:.3g}".format).replace("nan", "")

# %%
# NBVAL_CHECK_OUTPUT
wanted, off = prior.values(64).numpy(), np.inf
if "control" in measured:
    law = decay.fit_exponential(measured["control"]).law
    off = np.abs(law(np.arange(1, 65)) / wanted - 1).max()
print("the fitted law is the prior's, to a fifth:", bool(off < 0.2))

# %% [markdown]
# With control the fitted *curve* is nearly that of the prior. The fitted constants are not those of the prior,
# because quite different $c_1$, $c_2$ and $\gamma$ draw nearly the same curve over so few values. So constants
# that are read off a spectrum say little.
#
# A free spectrum has no law of its own: a first value stands apart, and a long flat stretch follows. Neither
# curve describes such a spectrum well, and a fitted law hides the first value, which matters most. The
# exponential law of the plain model has the least $\gamma$ that the fit tries. For so small a $\gamma$,
# $k^\gamma \approx 1 + \gamma\log k$, and the exponential law is nearly a polynomial one.

# %% [markdown]
# ## The penalties that fail
#
# Jiang et al. (2019) controlled the spectra of generative adversarial networks before. Why not take their
# penalties, or a simpler one, on the singular values of a plain $W$? Ask what each penalty wants of a single
# $\sigma_k$. A penalty $f$ moves $\sigma_k$ by $-\partial f/\partial\sigma_k$:
#
# | penalty | moves $\sigma_k$ by | so the fall of the spectrum … |
# |---|---|---|
# | weight decay, $\frac12\sum\sigma_k^2$ | $-\sigma_k$ | stays: all values shrink by the same factor |
# | nuclear norm, $\sum \sigma_k$ | $-1$ | gets faster: the small values reach 0 first |
# | spectral norm, $\frac12\sigma_1^2$ | $-\sigma_1$, the first only | is cut at the top until the next value takes over |
# | spectral normalisation, $\sigma/\sigma_1$ | | stays; $W$ loses its scale |
# | D-optimal, $-\sum\log\sigma_k$ | $+1/\sigma_k$ | gets slower without end: all values become equal |
# | a prior, $\frac12\sum(\sigma_k - p_k)^2$ | $p_k - \sigma_k$ | becomes that of the prior |
#
# Only the prior has a chosen fall as its goal. The figure shows how far a thousand small steps down some of the
# penalties take the spectrum of the plain model if the loss has no say.

# %%
begin = torch.tensor(spectra["plain"]).nan_to_num(1.0)  # flat if not kept
goal = prior.values(len(begin))
goal = goal * begin[0] / goal[0]  # the prior's shape at our scale
pushes = {
    "nuclear norm": lambda s: -begin.mean(),
    "spectral norm": lambda s: -s * (s == s.max()),
    "D-optimal": lambda s: begin.mean() ** 2 / s.clamp(min=1e-3),
    "prior": lambda s: goal - s,
}
flows = {"plain model": begin}
for name, push in pushes.items():
    s = begin.clone()
    for _ in range(1000):
        s = (s + 2e-3 * push(s)).clamp(min=1e-3)
    flows[name] = s.sort(descending=True).values

# %% tags=["hide-input"]
least = {name: float(s[-1] / s[0]) for name, s in flows.items()}
plots.show(
    plots.where_penalties_lead({n: s.numpy() for n, s in flows.items()}),
    alt="Singular values over the largest, those of the plain model and "
    "where four penalties take them. The smallest is "
    f"{least['plain model']:.2f} of the largest in the plain model, "
    f"{least['D-optimal']:.2f} after the D-optimal penalty, "
    f"{least['spectral norm']:.2f} after the spectral norm and "
    f"{least['prior']:.2f} after the prior. The nuclear norm takes all "
    "but the first to 0.",
)

# %% [markdown]
# **Figure 3.** The nuclear norm makes the fall faster. The spectral norm lowers the first value until it meets
# the second, and so on. The D-optimal penalty lifts the last values, and with more steps it would lift them to
# the first. The prior takes the spectrum to its own curve. Weight decay would leave the curve of the plain
# model where it is.
#
# The paper's Table 6 has two of these methods, both of Jiang et al.: spectral normalisation, and the same
# with the D-optimal penalty. Each takes the place of the prior; the factors and the penalties for orthogonality
# stay. The first column is the paper's, on WikiText-2. The other columns are means over three seeds of our kept
# runs of the plan `lessons-08`.


# %%
def figures(content):
    """Return what is compared, of one run."""
    m, last = content["metrics"], content["epochs"][-1]
    train = np.log(last["train_perplexity"])
    gap = np.log(last["valid_perplexity"]) - train
    σ = np.square(m["geometry"]["singular_values"])
    r = np.sum(σ) / np.max(σ)
    told = {"test perplexity": m["test_perplexity"]}
    told |= {"training loss": train, "gap": gap, "stable rank": r}
    return told | {"share s": m["geometry"]["drift"]}


# %%
def means(settings):
    """Return a table of all figures, means over the seeds."""
    rows = {
        name: pd.DataFrame(map(figures, found)).mean()
        for name, found in settings.items()
    }
    table = pd.DataFrame(rows).T.round(3)
    text = controlled.experiment().load_corpus()
    return tables.with_ngrams(table, text)


# %%
normalised = "spectral-normalization"
optimal = f"{normalised}+d-optimal"
failing = {
    "plain": ("softmax", plain),
    "plain, wide start": (None, wide),  # not in the paper
    "spectral normalisation": (normalised, kept(normalised, {})),
    "… and D-optimal": (optimal, kept(optimal, {})),
    "spectrum control": ("spectrum-control", control),
}
six = published.rows().query("paper == 'wang2020' and table == '6'")
six = six[six.split == "test"].set_index("method").value
table = means({name: found for name, (_, found) in failing.items()})
theirs = {name: six.get(method) for name, (method, _) in failing.items()}
table.insert(0, "paper, test", pd.Series(theirs))
table.fillna("")

# %% [markdown]
# Both methods raise the perplexity in the table, in the paper's model and in ours. The n-grams are those of our text.
# Kneser-Ney of either order has a lower perplexity in the table than any of our models, so our columns are no evidence
# about models that have learned more than counting finds. The *training loss* is the
# mean of the last epoch in nats a word. The *gap* is the validation loss after this epoch minus the training
# loss.
#
# Our softmax has no bias, and the paper's has one. Without a bias short rows cannot even give the words their
# frequencies, so our rise of the perplexity is no evidence about the paper's. The likely reason of the rise is
# not the shape of the cloud, which is round, but its size. With $\sigma_1 = 1$ and orthonormal $U$ the rows of
# $W$ have a mean squared length of at most $\frac1N\sum_k\sigma_k^2 \le d/N$. A logit is $w^\top h$, and the
# contexts $h$ come from a layer normalisation, so their length is about $\sqrt d$. Hence the logits of two
# words of the mean length $\|w\|$ differ by about $2\|w\|\sqrt d$ at most, so one of these words is at most
# about $e^{2\|w\|\sqrt d}$ times as likely as the other. Longer rows and the gain of the normalisation allow
# more:

# %%
size, N = (small[name] for name in ("size", "corpus.small.words"))
rows = {}
for name, (_, found) in failing.items():
    shapes = [c["metrics"]["geometry"] for c in found]
    norm = np.mean([s["mean_norm"] for s in shapes])
    largest = norm * np.sqrt(size)
    rows[name] = {"mean length of a row": norm}
    rows[name]["largest logit, length × √d"] = largest
    rows[name]["two mean words: likelier by at most"] = np.exp(2 * largest)
    highest = [s["singular_values"][0] for s in shapes]
    rows[name]["σ₁ of W"] = np.mean(highest)
text = "Ceiling on the root mean square length, if σ₁ = 1: "
display(Markdown(f"{text}{np.sqrt(size / N):.2f}."))
pd.DataFrame(rows).T.round(2)

# %% [markdown]
# This answers the first prediction: the logits of most words can hardly leave 0. The D-optimal penalty has
# little to do here, because training begins with the $\sigma_k$ of a random matrix, which are nearly equal. The
# stable rank ends far below $d$ for another reason: by the table the $\sigma_1$ of $W$ ends above 1, while the
# $\sigma_1$ of $\Sigma$ is 1. So the columns of $U$ and $V$ do not all stay orthonormal, and the D-optimal
# penalty sees $\Sigma$ only.

# %% [markdown]
# ## The settings swept
#
# The paper tunes the weights of the penalties on a grid: from 0.01 to 10 for orthogonality, from 0.1 to 100
# for the prior. The plan `lessons-08-constants` takes the prior's weight through its range, and the four weights
# for orthogonality, together, through theirs. All else is as in the recipe, where every weight is 0.1.

# %%
ORTHOGONALITY = [f"regularizers.0.{norm}" for norm in NORMS]
grid = {
    f"prior, λ = {λ:g}": {"regularizers.1.weight": λ}
    for λ in (0.0, 0.1, 1.0, 10.0, 100.0)
} | {
    f"orthogonality, λ = {λ:g}": dict.fromkeys(ORTHOGONALITY, λ)
    for λ in (0.01, 0.1, 1.0, 10.0)
}

# %%
swept = {}
for name, change in grid.items():
    with contextlib.suppress(CourseError):  # a damaged result is left out
        swept[name] = kept("spectrum", change)
told = {n: list(map(figures, found)) for n, found in swept.items()}
measures = {
    what: {n: [run[what] for run in found] for n, found in told.items()}
    for what in ("share s", "test perplexity")
}

# %% tags=["hide-input"]
both = {n: [np.mean(m[n]) for m in measures.values()] for n in swept}
listed = "; ".join(f"{n}: {s:.3f}, {p:.0f}" for n, (s, p) in both.items())
figure = plots.seeds_by_row(measures)
figure.axes[0].set_xlim(left=0)
plots.show(
    figure,
    alt="Share of the common vector and test perplexity for weights of "
    "the prior and of orthogonality, three seeds each, with mean and "
    f"interval. The means: {listed}.",
)

# %% [markdown]
# **Figure 4.** The weight of the prior makes no difference that three seeds would show, from 0 to 100: training
# begins at the prior. Over the paper's range of the weights for orthogonality the share falls by more than
# half, and the mean perplexity changes by a few per cent. Three seeds do not tell whether the perplexity is
# highest at the weight 1 or at 10. This answers the second prediction: relative to its size the share changes
# more. The change of the share is small beside its distance from any plain model, whose rows are the last ones
# of the next table. The change of the perplexity is not small. The plain model with the wide start, the best of
# three starts of lesson 8, is hardly farther from *the recipe* than some settings of Figure 4 are from each
# other.
#
# The other constants are changed one at a time. The recipe has $c_1 = 3.4$, $c_2 = 0.05$, $\gamma = 0.6$. The
# polynomial prior has $\gamma = 0.3$ and the same norm as the recipe's prior. The paper's language model on
# WikiText-103, a Transformer-XL (Dai et al. 2019), also has a **memory**: it keeps the hidden vectors of the
# piece of text that it read before. By the last rows of the next table the memory hardly changes the spectrum
# and the share.

# %%
polynomial = {"regularizers.1.c1": 5.65}
memory = {"encoder.memory": 64}
means(
    {
        "the recipe": control,
        "c₁ = 1": kept("spectrum", {"regularizers.1.c1": 1.0}),
        "c₁ = 10": kept("spectrum", {"regularizers.1.c1": 10.0}),
        "c₂ = 0.2": kept("spectrum", {"regularizers.1.c2": 0.2}),
        "polynomial, same norm": kept("spectrum-polynomial", polynomial),
        "with a memory": kept("spectrum", memory),
        "plain, with a memory": kept("tied", memory),
        "plain": plain,
        "plain, wide start": wide,
    }
)

# %% [markdown]
# By the means of the table the scale $c_1$ matters most: at 1 the perplexity is far higher than at the
# recipe's 3.4, and at 10 it is a tenth higher.

# %% [markdown]
# ## What it costs
#
# We count the multiplications and additions of one training step of 1,024 tokens, forwards and backwards,
# and the parameters.


# %%
def operations(experiment):
    """Return what one step costs, and the parameters."""
    model = experiment.build(len(experiment.load_corpus())).train()
    tokens = torch.zeros(64, 16, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        model(tokens, target=tokens).loss.backward()
    numbers = sum(p.numel() for p in model.parameters())
    billions = counter.get_total_flops() / 1e9
    return {"10⁹ operations a step": billions, "parameters": numbers}


tied = planned.Planned(f"{MODEL}/tied", "quick", SEED, small)
costs = {"plain": operations(tied.experiment())}
costs["control"] = operations(controlled.experiment())
pd.DataFrame(costs).T.round(2)

# %% [markdown]
# The extra work is $2 N d^2$ operations for $U^\top U$ and as many again for its gradient, once a step however
# many tokens the step has. A product with $V$ is added for each token that is read or predicted. At test time
# $W = U\Sigma V^\top$ is multiplied out once, and the model costs what the plain model does.
#
# The paper's Table 7 has seconds and gigabytes for an epoch on V100 GPUs:

# %%
seven = published.rows().query("paper == 'wang2020' and table == '7'")
seven = seven.pivot_table("value", ["metric", "corpus"], "method")
seven["ratio"] = seven["spectrum-control"] / seven["softmax"]
seven.round(2)

# %% [markdown]
# For WikiText-2 the paper's text says 1.17, which is not quite the ratio of the times in its table. The
# course has timed its own layer against its own softmax: alone, and with 10,000 words within a training step
# of an AWD-LSTM's size, too. *Memory* is what the layer takes beyond parameters and gradients. The numbers
# are multiples of the softmax's.

# %%
at = ["machine", "words", "precision"]
layers = kept_costs.layers().set_index(at)
soft, ours = (layers[layers.method == m] for m in ("softmax", "spectrum"))
pd.DataFrame(
    {
        "time of the layer": ours["times softmax"],
        "time of the training step": ours.step,
        "memory of the layer": ours.MB / soft.MB,
    }
).round(2).astype(object).fillna("")

# %% [markdown]
# ## What one has to decide
#
# The paper points to the code that it builds on, and not to code of its own. Whoever repeats the paper has to
# decide:
#
# | the paper … | here |
# |---|---|
# | names no $c_1$, $c_2$, $\gamma$ | The constants are swept above. |
# | says that $\sigma_k$ is the $k$-th largest | The $\sigma_k$ cross in training, so the library sorts them at every step. |
# | assumes $\sigma_k \le p_k$ in its theory | The penalty is the paper's: it pulls $\sigma_k$ to $p_k$ from both sides. |
# | is silent on where training begins | $\sigma$ begins at the prior. $U$ and $V$ begin at those of a random matrix. |
# | is silent on the learning rates | The translator's factors have the plain rate over a typical $\sigma$. The language model, whose $\sigma_k$ are small, has the plain rate. |
# | evaluates $Z(a)$ at eigenvectors, whose sign is arbitrary | Both signs count. |
#
# The sign of a $\sigma_k$ is no freedom, because a column of $U$ can change its sign instead. So the library
# takes the absolute value of a free parameter. The bound of the paper's theorem 4.1 and its Remark 4.2 are in
# [notebook 34](34_generalization_bound.ipynb).

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $U$, $\sigma$, $V$ | `words.U`, `words.sigma`, `words.V` | factors of $W$, the parameters |
# | $G$ | `words.U.T @ words.U - torch.eye(d)` | how far $U$ is from orthonormal columns |
# | $p_k$ | `prior.values(64)` | the prior of $\sigma_k$ |
# | $\lambda$ | `weight`, `frobenius_U`, … | weight of a penalty |

# %% [markdown]
# ## Exercises
#
# ### 1. A prior for your spectrum
# *Difficulty 2/3, importance 2/3, twenty minutes.* Take the constants that `decay.fit_exponential` finds for
# `spectra["plain"]`, and train `controlled.experiment()` with them as its prior. Assign `again`: what `trained`
# returns. Compare the share $s$ and the test perplexity with the row "plain" of the table above. Is the result
# the plain model again?
#
# <details><summary>Hint</summary>
#
# The fitted `law` has the constants, `vars(law)`. Exchange the second of the two regularizers for
# `part("ExponentialPrior", weight=0.1, …)`, by `change(regularizers=(…, …))`.
#
# </details>
# <details><summary>Is it the plain model again?</summary>
#
# No. First, the fitted law is not the plain spectrum: its first value is far below the plain model's
# $\sigma_1$, which stands apart. Second, even the right values would not say *which* direction has the large
# $\sigma$, nor whether it is the common direction.
#
# </details>

# %% tags=["exercise"]
again = None  # trained(…)


# %%
def has_the_plain_law(again):
    """Return whether a run has the plain spectrum's law as its prior."""
    experiment, before = again.experiment, controlled.experiment()
    penalties = {one.kind: one for one in experiment.regularizers}
    if experiment.words.kind != "SpectralWords":
        return "this model has no factors: train `controlled` anew"
    if "ExponentialPrior" not in penalties:
        return "this model has no exponential prior"
    wanted = decay.fit_exponential(spectra["plain"]).law(np.arange(1, 65))
    own = penalties["ExponentialPrior"].build("regularizer").values(64)
    far = np.abs(own.numpy() / wanted - 1).max()
    if before.regularizers[0] not in experiment.regularizers:
        return "the penalties for orthogonality are to stay"
    return far < 0.1 or f"the prior is up to {far:.0%} off the plain fit"


check("08b.1", again, has_the_plain_law)

# %% [markdown]
# ### 2. Without the factors (open)
# *Difficulty 3/3, importance 2/3, two hours.* Is the parametrisation needed? The singular values of a plain $W$
# are the roots of the eigenvalues of $W^\top W$, a $d\times d$ matrix, and PyTorch can differentiate them. Write
# the prior as a penalty on `FullWords`, train, and compare geometry, perplexity and operations. What happens to
# gradients where two singular values are nearly equal? Tune the weight of your penalty before you judge.
#
# <details><summary>Hint</summary>
#
# A regularizer is anything that is called with the words and the activations and returns a scalar. Append
# yours to `model.regularizers` of `experiment.build(len(corpus))`.
#
# </details>
# <details><summary>Second hint</summary>
#
# `W = words.matrix(); s = torch.linalg.eigvalsh(W.T @ W).clamp(min=1e-12).sqrt().flip(0)`. A sum over all
# $\sigma_k$ needs only $\partial\sigma_k/\partial W = u_k v_k^\top$, which is harmless. A penalty on single
# *vectors* would divide by differences of eigenvalues.
#
# </details>

# %% [markdown]
# ## What we saw
#
# The ledger of [notebook 30](30_leaderboard.ipynb) reads the best evidence from the kept results:

# %%
of = "cosine", "prior", "normalisation", "d-optimal", "seconds"
display(Markdown(claims.conclusions(*(f"wang2020-{name}" for name in of))))

# %%
share, score = [max(ends) - min(ends) for ends in zip(*both.values())]
most = "two mean words: likelier by at most"
of_two = [rows[n][most] for n in ("spectral normalisation", "plain")]
steps = [cost["10⁹ operations a step"] for cost in costs.values()]
display(
    Markdown(
        f"Over the swept weights the mean share changes by {share:.4f} "
        f"and the mean test perplexity by {score:.0f}. Spectral "
        "normalisation leaves the words so short that of two words of "
        f"mean length one is at most about {of_two[0]:.0f} times as "
        "likely as the other; in the plain model it is at most about "
        f"{of_two[1]:.0f} times as likely. A step with spectrum control "
        f"takes {steps[1] / steps[0]:.2f} times a plain step's operations."
    )
)

# %% [markdown]
# ## References
#
# - L. Wang, J. Huang, K. Huang, Z. Hu, G. Wang, Q. Gu (2020). *Improving Neural Language Generation
#   with Spectrum Control.* ICLR. [OpenReview](https://openreview.net/forum?id=ByxY8CNtvr)
# - H. Jiang, Z. Chen, M. Chen, F. Liu, D. Wang, T. Zhao (2019). *On Computation and Generalization of
#   Generative Adversarial Networks under Spectrum Control.* ICLR.
#   [ICLR](https://iclr.cc/virtual/2019/poster/866)
# - Z. Dai, Z. Yang, Y. Yang, J. Carbonell, Q. V. Le, R. Salakhutdinov (2019). *Transformer-XL.*
#   ACL. [arXiv:1901.02860](https://arxiv.org/abs/1901.02860)

# %% [markdown] tags=["way"]
# ↑ Back: [8. Spectrum control: choose how the singular values fall](08_spectrum_control.ipynb)
#
# → Next: [9. Mixtures: several softmaxes instead of one](09_mixtures.ipynb)
