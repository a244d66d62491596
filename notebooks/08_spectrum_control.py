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
# # 8. Spectrum control: choose how the singular values fall
#
# **Question.** If we fix in advance how fast the singular values of the word matrix fall, does the cone go away, and does the model predict better for it?
#
# ![A language model from left to right: matrix E reads words, encoder, context h, matrix W predicts words, softmax. An arc ties E and W. In colour: W. The singular values of W are chosen.](images/08_model.svg)
#
# **Figure 1.** The word matrix $W$ is written as a product of three factors. The singular values are one of
# them.

# %% [markdown]
# ## What you will learn
#
# - to read and predict with a word matrix $U \Sigma V^\top$ that is never multiplied out;
# - to derive a ceiling on the cone from the spectrum alone;
# - to write the penalties of spectrum control in ten lines;
# - to tell what the factors, the penalties for orthogonality and the prior each do.
#
# **Deeper.** [Lesson 8b](08b_spectrum_taken_apart.ipynb) has a translator, the penalties that fail, the settings
# swept, and the cost.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 2](02_degeneration.ipynb) explains singular values and the cone, [lesson
# 3](03_why_it_happens.ipynb) the push that makes it. You know the singular value decomposition, and that a
# matrix with orthonormal columns keeps lengths.
#
# **Reading.** 28 minutes. **Difficulty.** 2 of 3.
#
# | profile | minutes | runs on | what is trained before your eyes |
# |---|---|---|---|
# | smoke | 0.3 | any CPU | a language model, twice, for a few steps |
# | quick | 1 | two CPU cores | the same on 15,000 tokens |
# | standard | 20 | two CPU cores | the same on the whole corpus |
# | full | 10 | one GPU | the same, for longer |
#
# On Google Colab, run this in a first cell and restart the session:
#
# `!git clone -q https://github.com/output-embedding-course/output-embedding-course && pip install -q -c output-embedding-course/constraints.txt -e "./output-embedding-course[lab]"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
SEED = 1  # of every random draw and of the models trained here

# %%
import inspect  # noqa: I001
import tempfile

import numpy as np
import pandas as pd
import torch
from IPython.display import Code, Markdown, display

# %%
import course_lab
from course_lab import claims, planned, plans, plots, published, untested
from course_lab.progress import check
from course_lib import regularizers
from course_lib.metrics import geometry, subspaces
from course_lib.output_layers import SpectralWords

_ = torch.manual_seed(SEED)

# %% [markdown]
# ## Predict
#
# Let $m$ be the mean of all word vectors $w_i$. The **share** of $m$ in the cloud is $s = \|m\|^2 /
# \overline{\|w_i\|^2}$: its squared length over the mean squared length of a word vector. In a narrow cone of
# vectors of about one length, $s$ is large.
#
# 1. A word matrix $W$ has a row for each word and 64 columns. Suppose that its 64 singular values stay equal.
#    How large can $s$ become: 1, 1/2, or less than 1/50?
# 2. Write $W = U \Sigma V^\top$, and train $U$, $\Sigma$ and $V$ with no penalty. Does the cone go away?

# %% [markdown]
# ## The idea in one picture
#
# Every matrix $W$ with $N$ rows and $d \le N$ columns is a product $U \Sigma V^\top$ of three factors:
#
# - $U$ ($N \times d$) has orthonormal columns, $U^\top U = I$;
# - $\Sigma$ is diagonal, with the singular values $\sigma_1 \ge \dots \ge \sigma_d \ge 0$;
# - $V$ ($d \times d$) is orthogonal.
#
# The product takes a round cloud of words, stretches it along its axes, and turns it.

# %%
dots = np.random.default_rng(0).normal(size=(400, 2))
round_cloud = np.linalg.qr(dots)[0] * np.sqrt(len(dots))
c, s = np.cos(np.deg2rad(35)), np.sin(np.deg2rad(35))
stretch, turn, none = np.diag([1.9, 0.5]), [[c, -s], [s, c]], np.eye(2)
stages = {"U: round": (none, none), "U Σ: stretched": (stretch, none)}
stages["U Σ Vᵀ: turned"] = stretch, np.array(turn)

# %% tags=["hide-input"]
plots.show(
    plots.stretched_and_turned(round_cloud, stages),
    alt="Three clouds of points with two arrows each. The first is round, "
    "with arrows of one length. The second is stretched along one arrow "
    "and flattened along the other. The third is the second, turned by 35 "
    "degrees.",
)

# %% [markdown]
# **Figure 2.** The three factors act on 400 words in a plane. $U$ is drawn enlarged by $\sqrt N$. An arrow is
# twice as long as its name says.
#
# In ordinary training the push of lesson 3 makes $\sigma_1$ outgrow the other singular values. **Spectrum
# control** (Wang et al. 2020) makes these factors the parameters, and holds $U$ and $V$ near orthonormal, and
# the $\sigma_k$ near a chosen curve, the **prior**. The model still learns *which* words lie where on the round
# cloud, but it no longer learns the shape of the cloud.

# %% [markdown]
# ## Why it limits the cone
#
# Let $\mathbf 1$ be the vector of $N$ ones. The mean row is
# $m = \frac1N W^\top \mathbf 1 = \frac1N V \Sigma U^\top \mathbf 1$. $V$ keeps lengths, $\Sigma$ multiplies
# them by $\sigma_1$ at most, and $U^\top$, whose rows are orthonormal, makes no vector longer. The vector
# $\mathbf 1$ has length $\sqrt N$, hence
#
# $$\|m\| \;\le\; \tfrac1N\,\sigma_1\,\|\mathbf 1\| \;=\; \sigma_1/\sqrt N.$$
#
# The mean squared length of the rows is $\frac1N \|W\|_F^2 = \frac1N \sum_k \sigma_k^2$. We divide by this mean:
#
# $$s \;=\; \frac{\|m\|^2}{\overline{\|w_i\|^2}} \;\le\; \frac{\sigma_1^2}{\sum_k \sigma_k^2}
# \;=\; \frac{1}{r}.$$
#
# The number $r = \sum_k\sigma_k^2/\sigma_1^2$ is the **stable rank**. The stable rank is 1 if only one singular
# value is above 0, and $d$ if all are equal. So the spectrum alone limits how much all words can have in
# common. With equal singular values $s \le 1/d$, which answers the first prediction.
#
# We check this bound, which the paper does not state, on a random cloud that is shifted into a cone.

# %%
# NBVAL_CHECK_OUTPUT
cloud = torch.randn(1000, 64)
for shift in (0.0, 0.3, 3.0):
    shifted = cloud + shift
    share = geometry.common_drift(shifted).share
    ceiling = 1 / geometry.stable_rank(geometry.singular_values(shifted))
    print(f"shift {shift}: share {share:.3f}, ceiling {ceiling:.3f}")

# %% [markdown]
# ## Never form the matrix
#
# A training step reads the rows of some words, and it multiplies contexts by all rows. No step has to
# build $U\Sigma V^\top$, which would be one more matrix of $N \times d$ numbers:
#
# $$\text{rows of the words } i:\ (U_i \circ \sigma)\,V^\top, \qquad
# \text{logits of a context } h:\ \big((h^\top V) \circ \sigma\big)\,U^\top .$$
#
# $U_i$ has the rows of $U$ for the words $i$, and $\circ$ multiplies entry by entry.


# %%
def rows(ids, U, s, V):
    """Return the word vectors (…, d) of ids (…)."""
    return (U[ids] * s) @ V.T


def logits(h, U, s, V):
    """Return the logits (…, N) of contexts h (…, d)."""
    return ((h @ V) * s) @ U.T


# %% [markdown]
# ## Three penalties
#
# Nothing in these lines keeps $U$ and $V$ orthonormal, or the $k$-th largest $\sigma_k$ near the prior $p_k$.
# Three penalties do:
#
# $$\lambda\Big(\|U^\top U - I\|_F^2 + \|U^\top U - I\|_2^2\Big)
# + \lambda\Big(\|V^\top V - I\|_F^2 + \|V^\top V - I\|_2^2\Big)
# + \lambda \sum_k (\sigma_k - p_k)^2 .$$
#
# Each matrix in a norm is symmetric, so its squared **Frobenius norm** $\|\cdot\|_F^2$ is the sum of its
# squared eigenvalues. The squared **spectral norm** $\|\cdot\|_2^2$ is the largest of these squares. The paper
# gives each of the five terms a weight of its own. [Lesson 8b](08b_spectrum_taken_apart.ipynb) sweeps the
# weights, and shows what each norm does.


# %%
def penalty(U, s, V, prior, weight=0.1):
    """Return what spectrum control adds to the loss; prior: (d,)."""
    total = (s.sort(descending=True).values - prior).square().sum()
    for Q in (U, V):
        G = Q.T @ Q - torch.eye(len(s))
        spectral = torch.linalg.matrix_norm(G, 2) ** 2
        total = total + G.square().sum() + spectral
    return weight * total


# %% [markdown]
# Here are the library's two products.

# %% tags=["hide-input"]
methods = (SpectralWords.forward, SpectralWords.factors)
source = "\n".join(map(inspect.getsource, methods))
display(Code(inspect.cleandoc(source), language="python"))

# %%
# NBVAL_CHECK_OUTPUT
words = SpectralWords(500, 32, init=0.1)
with torch.no_grad():
    words.U.mul_(torch.linspace(0.5, 1.4, 32))  # no longer orthonormal
ours = words.U, words.sigma, words.V
W, ids, h = words.matrix(), torch.tensor([3, 1, 4]), torch.randn(6, 32)
print("rows:     ", torch.allclose(rows(ids, *ours), W[ids], atol=1e-5))
print("logits:   ", torch.allclose(logits(h, *ours), h @ W.T, atol=1e-5))
curve = regularizers.ExponentialPrior(0.1, c1=3.4, c2=0.05, gamma=0.6)
norms = regularizers.Orthogonality(0.1, 0.1, 0.1, 0.1, iterations=50)
total = penalty(*ours, curve.values(32))
same = total.isclose((curve(words) + norms(words)).double(), rtol=1e-3)
print("penalties:", same.item())

# %% [markdown]
# ## Two priors for the spectrum
#
# The paper offers two curves $p_k$:
#
# $$\text{exponential: } p_k = c_1 e^{-c_2 k^\gamma}, \qquad
# \text{polynomial: } p_k = c_1 k^{-\gamma}.$$
#
# Drag the sliders, and watch the stable rank $r$, whose reciprocal is the ceiling on the share.

# %%
k = np.arange(1, 65)
sliders = {
    "c₂": np.array([0.01, 0.02, 0.05, 0.1, 0.2]),
    "γ": np.array([0.2, 0.3, 0.6, 0.9, 1.2, 1.5]),
}
c2, gamma = np.meshgrid(*sliders.values(), indexing="ij")
c2, gamma = c2[..., None], gamma[..., None]
priors = {"exponential": np.exp(-c2 * k**gamma)}
priors["polynomial"] = k**-gamma + 0 * c2
r = {name: (p**2).sum(-1) / p[..., 0] ** 2 for name, p in priors.items()}

# %% tags=["hide-input"]
line = "stable rank: exponential {:.1f}, polynomial {:.1f}"
captions = np.vectorize(line.format)(*r.values())
curves = {name: (k, p) for name, p in priors.items()}
panel = plots.Panel(
    curves, "k", "pₖ / c₁", (0, 65), (1e-3, 1.5), "Two priors", log=True
)
at = (2, 2)  # c₂ = 0.05, γ = 0.6
plots.show(
    plots.explorer(sliders, [panel], captions, at),
    alt="Exponential and polynomial prior against k, on a logarithmic "
    "axis, at c₂ = 0.05, γ = 0.6. The exponential prior falls gently all "
    "the way. The polynomial prior falls steeply at first. "
    f"{captions[at].capitalize()}.",
)

# %% [markdown]
# **Figure 3.** At the same $\gamma$ the polynomial prior falls more steeply at first. Then all later values are
# small beside the first, and the stable rank is lower. The scale $c_1$ decides how long the word vectors are,
# and it changes no stable rank.

# %% [markdown]
# ## Training with it and without
#
# We train the Transformer of lesson 2 twice: once with a plain matrix, and once with the recipe
# `docstrings/transformer-128/spectrum`. In `quick` the Transformer has half the width, $d = 64$, and reads
# 15,000 tokens twelve times.
#
# A step of $U$ moves $W$ by $\sigma$ times as much. Here the $\sigma_k$ are about 2 to 3, and the plain
# model's learning rate will do. With $\sigma_k$ near 10 the factors would need a tenth of this rate.

# %%
MODEL = "docstrings/transformer-128"
small = dict(plans.read_plan("lessons-08").runs[0].change)
sizes = {n: v for n, v in small.items() if "size" in n or "feed" in n}
changes = {"smoke": sizes, "quick": small}.get(PROFILE, {})
live = {
    name: planned.Planned(f"{MODEL}/{recipe}", PROFILE, SEED, changes)
    for name, recipe in {"plain": "tied", "control": "spectrum"}.items()
}
controlled = live["control"].experiment()
for component in (controlled.words, *controlled.regularizers):
    print(component.kind, component.options)


# %%
def trained(experiment):
    """Return the run, and {step: word matrix} at some of its steps."""
    seen, moments = {}, {round(1.6**i) for i in range(40)}

    def watch(step, model):
        if step + 1 in moments:
            seen[step + 1] = model.words.matrix().detach().cpu().clone()

    with tempfile.TemporaryDirectory() as folder:
        options = dict(folder=folder, callback=watch, progress=False)
        return course_lab.run(experiment, **options), seen


# %%
runs, curves, final = {}, {}, {}
for name, plan in live.items():
    runs[name], seen = trained(plan.experiment())
    final[name] = runs[name].model.words.matrix().detach().cpu()
    shares = [geometry.common_drift(W).share for W in seen.values()]
    spectra = [geometry.singular_values(W) for W in seen.values()]
    ceilings = [1 / geometry.stable_rank(values) for values in spectra]
    curves[name] = list(seen), shares, ceilings
(*_, plain), (*_, held) = [c[1] for c in curves.values()]
(*_, plain_top), (*_, top) = [c[2] for c in curves.values()]

# %% tags=["hide-input"]
plots.show(
    plots.share_under_ceiling(curves),
    alt="Share of the common vector and its ceiling over the training "
    "steps, both axes logarithmic. In the plain model the share climbs to "
    f"{plain:.2f}, under a ceiling of {plain_top:.2f}. With spectrum "
    f"control it ends at {held:.4f}, under a ceiling of {top:.3f}.",
)

# %% [markdown]
# **Figure 4.** The plain model lifts its own ceiling: as the mean vector $m$ grows, $\sigma_1$ grows, and $r$
# falls. With spectrum control the ceiling hardly moves.

# %%
# NBVAL_CHECK_OUTPUT
print("plain: more than a fifth is common to all words:", plain > 0.2)
print("control: less than a twentieth:", held < 0.05)
below = [s <= c + 1e-9 for _, *y in curves.values() for s, c in zip(*y)]
print("no share above its ceiling:", all(below))

# %% [markdown]
# ## The two clouds
#
# As in lesson 2, a rare word is less than one in 10,000 tokens, the 500 most frequent words are frequent, and
# the others lie between.

# %%
bands = geometry.by_frequency(runs["plain"].corpus.counts)
group = np.ones(len(final["plain"]), dtype=int)
group[bands.frequent], group[bands.rare] = 2, 0
names = ["rare", "between", "frequent"]
clouds = {n: subspaces.project(W).points for n, W in final.items()}
values = {n: geometry.singular_values(W) for n, W in final.items()}
cosines = {n: geometry.pair_cosines(W) for n, W in final.items()}
prior = controlled.regularizers[1].build("regularizer")
values["prior"] = prior.values(len(values["plain"])).numpy()

# %% tags=["hide-input", "gallery"]
second = [v[1] / v[0] for v in values.values()]
means = [c.mean() for c in cosines.values()]
plots.show(
    plots.two_clouds(clouds, group, names, values, cosines),
    alt="Above, words on the plane of their two largest singular values, "
    "without control and with it. Below left, the singular values: the "
    f"second is {second[0]:.2f} and {second[1]:.2f} of the first. Below "
    f"right, cosines of pairs: means {means[0]:.2f} and {means[1]:.2f}.",
)

# %% [markdown]
# **Figure 5.** Without control one singular value stands far above the rest, and the rare words share one
# direction. In `quick` the separate clump holds the words that never occur in training. With control the
# spectrum follows the prior, and the cosines of pairs lie around 0.
#
# The paper measures how round a cloud is by $Z(a) = \sum_i e^{w_i^\top a}$, with $a$ the eigenvectors of
# $W^\top W$ and their opposites: $I_1 = \min_a Z / \max_a Z$, and $I_2$ is the standard deviation of $Z$ over
# its mean. A round cloud has $I_1 = 1$ and $I_2 = 0$. The table ends with the paper's Table 3.


# %%
def shape(W):
    """Return how round the rows of W are."""
    (I1, I2), drift = geometry.isotropy(W), geometry.common_drift(W)
    r = geometry.stable_rank(geometry.singular_values(W))
    told = {"stable rank": r, "share s": drift.share}
    return told | {"mean cosine": drift.cosine, "I₁": I1, "I₂": I2}


table = pd.DataFrame({n: shape(W) for n, W in final.items()}).T.round(3)
three = published.rows().query("paper == 'wang2020' and table == '3'")
three = three.pivot_table("value", ["corpus", "method"], "metric")
three.columns, three.index = ["I₁", "I₂"], map(", ".join, three.index)
pd.concat([table, three]).astype(object).fillna("")

# %% [markdown]
# In the table $I_1$ is higher and $I_2$ lower with control, in the paper's models and in ours. Read both with
# care: short vectors look isotropic, whatever their directions are. The other measures ignore length.

# %% [markdown]
# ## Piece by piece
#
# The method has three parts: the factors, the penalties for orthogonality, and the prior. The method also
# changes the *start*: $W$ begins with the norm of the prior, several times the norm of the plain matrix. So the
# plain model also gets a *wide* start, with the norm of the prior, and a *very wide* start, with three times
# this norm.
#
# All runs are kept results of the plan `lessons-08`, with three seeds each and 95 % intervals as in [lesson
# 5](05_tying_and_augmented_loss.ipynb).


# %%
def kept(recipe, change):
    """Return the kept results of a recipe with other settings."""
    of, own = f"{MODEL}/{recipe}", small | change
    runs = [planned.Planned(of, "quick", seed, own) for seed in (1, 2, 3)]
    return untested.read(runs)


# %%
norms = "frobenius_U", "frobenius_V", "spectral_U", "spectral_V"
free = dict.fromkeys((f"regularizers.0.{norm}" for norm in norms), 0.0)
unpulled = {"regularizers.1.weight": 0.0}
parts = {
    "plain": kept("tied", {}),
    "plain, wide start": kept("tied", {"words.init": 0.053}),
    "plain, very wide": kept("tied", {"words.init": 0.156}),
    "factors alone": kept("spectrum", free | unpulled),
    "+ orthogonality": kept("spectrum", unpulled),
    "+ prior = control": kept("spectrum", {}),
}

# %%
metrics = {n: [c["metrics"] for c in found] for n, found in parts.items()}
shares, scores = {}, {}
for n, found in metrics.items():
    shares[n] = [m["geometry"]["drift"] for m in found]
    scores[n] = [m["test_perplexity"] for m in found]
measures = {"share s": shares, "test perplexity": scores}

# %% tags=["hide-input"]
both = {n: (np.mean(shares[n]), np.mean(scores[n])) for n in parts}
told = "; ".join(f"{n} {s:.3f}, {p:.0f}" for n, (s, p) in both.items())
plots.show(
    plots.seeds_by_row(measures),
    alt="Share of the common vector and test perplexity of six models, "
    f"three seeds each, with mean and interval. The means: {told}.",
)

# %% [markdown]
# **Figure 6.** The rows show, from the top down:
#
# - **The start.** In the figure the wide start lowers the share and the perplexity of the plain model. With
#   the very wide start the cone is all but gone, and the perplexity is high again: roundness is no aim in
#   itself.
# - **The factors alone** build a cone again, which answers the second prediction. Nothing keeps a column of
#   $U$ from growing, and then the $\sigma_k$ are no singular values.
# - **Orthogonality** takes the cone away in the figure, and the perplexity falls with it.
# - **The prior's pull** adds next to nothing here. Training begins at the prior, and Adam moves a number by
#   about its learning rate in a step:

# %%
run = parts["plain"][0]
o, tokens = run["experiment"]["optimisation"], run["provenance"]
steps = tokens["tokens_seen"] // (o["batch"] * o["length"])
rate = o["learning_rate"]
text = f"In {steps} steps at a rate of {rate:g} or less no σ can go "
display(Markdown(f"{text}farther than about **{steps * rate:.2f}**."))

# %% [markdown]
# Does the model predict better? For the plain matrix we take the start with the lowest *validation*
# perplexity. Runs of one seed are pairs, and the paired test of [notebook 23](23_run_a_batch.ipynb) compares
# this model with spectrum control on the test text, its $p$ corrected for all models of the plan.

# %%
*_, last = parts
valid = {n: sum(m["valid_perplexity"] for m in metrics[n]) for n in parts}
best = min(list(parts)[:3], key=valid.get)
tied = dict(zip(parts, ("tied", "tied init=0.053", "tied init=0.156")))
pair = {last: ("spectrum", tied[best])}
test = untested.compared(plans.read_plan("lessons-08"), pair).loc[last]
differs = untested.difference(test)
text = f"Spectrum control against “{best}”, test perplexity: {differs}"
display(Markdown(f"{text}, p = {test['p']:.2g}: **{test['verdict']}**."))

# %% [markdown]
# ## What the paper leaves open
#
# The paper names no $c_1$, $c_2$, $\gamma$, no start and no learning rate of the factors.
# [Lesson 8b](08b_spectrum_taken_apart.ipynb) lists our decisions. One decision is the paper's: its theory is
# about all matrices whose spectrum falls *at least* as fast as the prior, but its penalty pulls from both
# sides. So a smaller $\sigma_{50}$ is punished, although the theory allows it.

# %% [markdown]
# ## When not to use it
#
# - The batches are small: a step pays for the penalties however few tokens it reads.
# - There are fewer words than dimensions: no $N \times d$ matrix has orthonormal columns then.
# - A trained model is at hand: [notebook 36](36_examine_a_checkpoint.ipynb) centres its matrix at no cost.
# - All you want is a better perplexity: first tune the start of the plain matrix, as in Figure 6, and its learning rate.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $W$; $N$, $d$ | `words.matrix()`; `words.shape` | word matrix; words, dimensions |
# | $U$, $\sigma$, $V$ | `words.U`, `words.sigma`, `words.V` | factors of $W$, the parameters |
# | $m$, $s$ | `geometry.common_drift(W).share` | mean row; its share of the mean squared length |
# | $r$ | `geometry.stable_rank(values)` | stable rank $\sum\sigma_k^2/\sigma_1^2$ |
# | $p_k$; $c_1$, $c_2$, $\gamma$ | `prior.values(d)` | prior; its scale, speed, exponent |
# | $I_1$, $I_2$ | `geometry.isotropy(W)` | isotropy, from $Z(a)$ |

# %% [markdown]
# ## Exercises
#
# Replace `None` by your answer, and run the next cell.
#
# ### 1. A small share, a large cosine
# *Difficulty 2/3, importance 2/3, fifteen minutes.* Does the spectrum limit the mean cosine, too? Assign
# `narrow`: a tensor with $N$ rows and $d$ orthonormal columns, $N \ge 10\,d$ and $d \ge 8$, whose share is below
# 0.01 and whose mean cosine is above 0.5.
#
# <details><summary>Hint</summary>
#
# With rows of one length, the share and the mean cosine are equal up to $1/N$. Let the rows differ in length.
# Which rows decide the share, and which decide the mean cosine?
#
# </details>
# <details><summary>Second hint</summary>
#
# Take a few long rows and many short rows, and make the columns orthonormal with `torch.linalg.qr`.
#
# </details>

# %% tags=["exercise"]
narrow = None  # a tensor (N, d) with orthonormal columns


# %%
def is_narrow(U):
    """Return whether U has a small share and a large mean cosine."""
    N, d = U.shape
    if d < 8 or N < 10 * d:
        return f"{N} rows, {d} columns: at least 8 columns and 10 d rows"
    if not torch.allclose(U.T @ U, torch.eye(d).to(U), atol=1e-4):
        return "its columns are not orthonormal: UᵀU is not I"
    share, cosine = geometry.common_drift(U).share, geometry.mean_cosine(U)
    if share >= 0.01:
        return f"the share is {share:.3f}: do the long rows point one way?"
    return cosine > 0.5 or f"the mean cosine is only {cosine:.2f}"


check("08.1", narrow, is_narrow)

# %% [markdown]
# ### 2. Spend a column
# *Difficulty 2/3, importance 3/3, ten minutes.* Build a $U$ with orthonormal columns, of which the first is
# constant. Assign `spend`: a function of $N$ and of a tensor $\sigma$ ($d$,) of `float64`, largest first, that
# returns two matrices $W$ ($N \times d$). The constant column has $\sigma_1$ in the first, and $\sigma_d$ in the
# second. $V = I$ will do. Which of the two would the push of lesson 3 make?
#
# <details><summary>Hint</summary>
#
# Use `torch.linalg.qr` on a matrix whose first column is ones.
#
# </details>
# <details><summary>Which one, and why?</summary>
#
# The first: a step of the constant column moves all words the same way, farthest with $\sigma_1$. This
# column tells no word from another.
#
# </details>

# %% tags=["exercise"]
spend = None  # a function of N and σ (d,): two tensors (N, d)


# %%
def spends_a_column(spend):
    """Return whether both matrices have the shares they should have."""
    sigma, found = torch.linspace(3, 1, 24).double(), []
    wanted = ((sigma[[0, -1]] / sigma.norm()) ** 2).tolist()
    for W in spend(300, sigma):
        if (torch.linalg.svdvals(W) - sigma).norm() > 1e-3:
            return "the singular values are not σ: is U orthonormal?"
        found.append(geometry.common_drift(W).share)
    if np.allclose(found, wanted[::-1], 0.01):
        return "the two matrices come in the other order"
    if np.allclose(found, wanted[0], 0.01):
        return "both matrices have σ₁ at the constant column"
    far = "the shares are {:.4f} and {:.4f}: is a column of U constant?"
    return np.allclose(found, wanted, 0.01) or far.format(*found)


check("08.2", spend, spends_a_column)

# %% [markdown]
# ## What we saw
#
# The ledger of [notebook 30](30_leaderboard.ipynb) reads the best evidence from the kept results. A percentage
# compares a method with its baseline:

# %%
told = claims.conclusions("wang2020-perplexity", "wang2020-isotropy-1")
display(Markdown(told))

# %% [markdown]
# The small runs of this lesson show:

# %%
of = shares[last], shares[best], shares["factors alone"]
held, tuned, alone = map(untested.mean, of)
line = "{0.mean:.3f} [{0.low:.3f}, {0.high:.3f}]"
display(
    Markdown(
        f"With the singular values held at a prior, the mean vector can "
        f"have a share of at most {top:.3f} in the cloud. Its measured "
        f"share is {line.format(held)} over three seeds. The plain matrix "
        f"with its best start has {line.format(tuned)}, the factors "
        f"without penalties {line.format(alone)}. The test perplexity "
        f"differs from the plain matrix's by {differs}: {test['verdict']}."
    )
)
display(Markdown(claims.beside("wang2020-perplexity", test["difference"])))

# %% [markdown]
# ## References
#
# - L. Wang, J. Huang, K. Huang, Z. Hu, G. Wang, Q. Gu (2020). *Improving Neural Language Generation
#   with Spectrum Control.* ICLR. [OpenReview](https://openreview.net/forum?id=ByxY8CNtvr)

# %% [markdown] tags=["way"]
# ← Previous: [7. The adversarial softmax: words that must win by a margin](07_adversarial_softmax.ipynb)
#
# ↓ Deeper: [8b. Going deeper: spectrum control taken apart](08b_spectrum_taken_apart.ipynb)
#
# → Next: [9. Mixtures: several softmaxes instead of one](09_mixtures.ipynb)
