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
# # Tying and the augmented loss: may one matrix do both jobs?
#
# **Question.** Why may the matrix that reads words also predict them, what is gained by it, and is it tying that makes the cone?

# %% [markdown]
# ## What you will learn
#
# - to write down the augmented loss of Inan, Khosravi and Socher (2017), and to say what its two
#   knobs, a weight and a temperature, do to the gradient;
# - to derive why this loss drives the output matrix into the column space of the input matrix, and
#   to watch it happen in a network;
# - to compare four models, tied or not, with the loss or without, by parameters, operations,
#   perplexity and geometry;
# - to tell which of the two matrices of an untied model degenerates.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 1](01_output_layer.ipynb) for tying, the pull and the push; [lesson
# 2](02_degeneration.ipynb) for the cone and its measures. You should know the Kullback-Leibler
# divergence and least squares.
#
# | profile | minutes | runs on | what is trained before your eyes |
# |---|---|---|---|
# | smoke | 0.3 | any CPU | the same models for seconds |
# | quick | 1.5 | two CPU cores | two small LSTMs, two small Transformers |
# | standard | 15 | two CPU cores | the Transformers on the whole corpus |
# | full | 10 | one GPU | the same, for longer |
#
# Sweeps and comparisons over seeds are read from results that are kept with the course, in every
# profile.
#
# On Google Colab, run this in a first cell and restart the session:
#
# `%pip install -q -c https://raw.githubusercontent.com/output-embedding-course/output-embedding-course/main/constraints.txt -e "git+https://github.com/output-embedding-course/output-embedding-course#egg=course-lib"`

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
from torch.nn import functional as F

# %%
import course_lab
from course_lab import (
    claims, cost, plans, plots, published, results, statistics,
)
from course_lib import theory
from course_lib.evaluation import cache
from course_lib.evaluation.log_prob import log_prob_blocks
from course_lib.metrics import geometry, subspaces
from course_lib.output_layers import AugmentedLoss, FullWords, Softmax
from course_lib.progress import check

_ = torch.manual_seed(SEED)

# %% [markdown]
# ## Predict
#
# A language model has an input matrix $E$, whose row $e_i$ is what it reads for word $i$, and an
# output matrix $W$, whose row $w_i$ it compares with the context to predict word $i$. Both are
# $N\times d$. **Untied** they are two matrices, **tied** they are one.
#
# 1. Lesson 2 showed a tied matrix that collapses into a cone. Train the same model untied. Which of
#    its two matrices has the cone: $E$, $W$, both or neither?
# 2. In an untied model, add a loss that asks the logits for target $y$ to look like the inner
#    products $E e_y$ of the target's vector with all words. It never mentions $W$ and $E$ together.
#    What becomes of the angle between their column spaces?
# 3. That loss works with a softened target, a softmax of $E e_y/\tau$ with $\tau = 20$. In a
#    trained model of a few thousand words, how much probability does it give to the target itself:
#    about one half, about one in a hundred, or hardly more than to any other word?

# %% [markdown]
# ## The idea in one picture
#
# The cross-entropy compares the prediction with a **one-hot** target: one for the word that came,
# zero for every other. If *cat* came, then *dog* is as wrong as *the*. The model's own word vectors
# know better. Take the target's vector, its inner products with all words, and a softmax: the
# **soft target**. Six words with vectors in a plane:

# %%
names = ["cat", "dog", "cow", "car", "bus", "the"]
first = [2.0, 1.5, 0.8, 1.8, 1.2, -0.8]
second = [1.0, 1.6, 1.9, -1.0, -1.7, 0.1]
toy = torch.tensor([first, second]).T
bars = {"one-hot target": F.one_hot(torch.tensor(0), 6).float()}
for tau in (1, 3, 20):
    bars[f"soft, τ = {tau}"] = (toy @ toy[0] / tau).softmax(-1)

# %%
figure, (left, right) = plots.panels(1, 2, height=4.2)
plots.arrows(toy, names, left)
plots.origin(left)
left.margins(0.25)
left.set(title="word vectors", xlabel="first coordinate", ylabel="second")
for k, (name, height) in enumerate(bars.items()):
    right.bar(np.arange(6) + (k - 1.5) / 5, height, 1 / 5, label=name,
              color=plots.COLOURS[k], hatch=["", "//", "..", "xx"][k],
              edgecolor=plots.PAPER, linewidth=0.5)  # fmt: skip

# %%
right.set_xticks(range(6), names)
right.set(title="the target is cat", ylabel="probability in the target")
right.legend()
plots.show(
    figure,
    alt="Left: vectors of six words in a plane, cat, dog and cow close "
    "together. Right: targets for cat. The one-hot target is 1 for cat; "
    f"the soft one gives dog {bars['soft, τ = 1'][1]:.2f} at τ = 1 and is "
    "nearly flat at τ = 20.",
)

# %% [markdown]
# The temperature $\tau$ decides how much of the similarity is left. At 1 the target gives *dog* two
# thirds of what it gives *cat*; at 20 it hardly distinguishes one word from another. Remember that
# flatness: the theory needs it, and it has a price.

# %% [markdown]
# ## The augmented loss
#
# With logits $l = Wh$ for a context $h$ and the target $y$, let
#
# $$\tilde y = \operatorname{softmax}\Big(\frac{E e_y}{\tau}\Big),\qquad
# \hat y = \operatorname{softmax}\Big(\frac{l}{\tau}\Big),\qquad
# L = \underbrace{-\log \operatorname{softmax}(l)_y}_{\text{cross-entropy}} +
# \alpha\,\underbrace{\mathrm{KL}(\tilde y \,\|\, \hat y)}_{L_\text{aug}}.$$
#
# Only the second term is softened; the cross-entropy stays at temperature 1, and so do evaluation
# and perplexity. Here is the class that the training loop uses:

# %% tags=["hide-input"]
display(Code(inspect.getsource(AugmentedLoss), language="python"))

# %% [markdown]
# A `block` is a handful of positions with their logits and targets, and its `soft_logits` are
# their $E e_y$, which come from the input matrix, whichever matrix predicts. `_Softened` is the
# divergence with the gradient that follows; the case of a mixture belongs to lesson 9. By default the
# soft target $\tilde y$ is a constant for the gradient (`detach`); the paper does not say
# whether its gradient should flow into $E$ as well, and `gradient=True` lets it. We try both below;
# in a tied model it turns out to matter.
#
# The gradient with respect to the logits is what one expects of a softmax with the target
# $\tilde y$, divided by $\tau$, for the logits enter as $l/\tau$:
#
# $$\frac{\partial L_\text{aug}}{\partial l} = \frac{\hat y - \tilde y}{\tau}.$$

# %%
# NBVAL_CHECK_OUTPUT
E, W = torch.randn(50, 8).double(), torch.randn(50, 8).double()
hidden, y = torch.randn(5, 8).double(), torch.tensor([3, 1, 4, 1, 5])
layer = Softmax(FullWords(50, 8), bias=False).double()
layer.words.weight.data = W
loss, _ = layer(hidden, y, AugmentedLoss(1.0, 2.0), (E[y], E))
logits = (hidden @ W.T).requires_grad_()
soft = (E[y] @ E.T / 2.0).softmax(-1)
terms = F.kl_div((logits / 2.0).log_softmax(-1), soft, reduction="none")
naive = terms.sum(-1).mean()
print("library and plain formula agree:", loss.isclose(naive).item())
(slope,) = torch.autograd.grad(5 * naive, logits)
formula = theory.augmented_gradient(logits.detach(), E[y] @ E.T, 2.0)
print("the gradient is (ŷ − ỹ) / τ:    ", slope.allclose(formula))

# %% [markdown]
# ## High temperature: a softmax becomes a straight line
#
# For large $\tau$ the exponential is nearly linear: with $\bar x$ the mean of $x$ over the words,
#
# $$\operatorname{softmax}\Big(\frac x\tau\Big)_i = \frac1N\Big(1 + \frac{x_i - \bar x}{\tau}\Big) +
# O\Big(\frac1{\tau^2}\Big).$$
#
# Put this into the gradient, with $s = E e_y$ the soft target's logits, and the ones cancel:
#
# $$\frac{\partial L_\text{aug}}{\partial l} \approx \frac{(l - \bar l) - (s - \bar s)}{N\tau^2}.$$
#
# That is the gradient of a squared distance, $\frac1{2N\tau^2}\|(l-\bar l)-(s-\bar s)\|^2$. **At a
# high temperature the loss asks the logits to equal $s$, up to a constant that no softmax sees.**
# How high is high? Compare the two gradients for logits drawn at random, small ones and large ones:

# %%
taus = np.logspace(-0.5, 3, 15)
curves = {}
for size in (1, 5):
    l, s = size * torch.randn(2, 20, 1000).double()  # noqa: E741
    error = []
    for tau in taus:
        exact = theory.augmented_gradient(l, s, tau)
        matched = theory.matched_gradient(l, s, tau)
        error.append(((exact - matched).norm() / exact.norm()).item())
    curves[f"logits of standard deviation {size}"] = (taus, error)

# %%
figure = plots.lines(curves, "temperature τ", "relative error", log="xy")
figure.axes[0].axvline(20, color=plots.INK, linestyle=":")
figure.axes[0].text(23, 0.9, "the paper's τ = 20")
at_20 = [float(np.interp(20, taus, e)) for _, e in curves.values()]
plots.show(
    figure,
    alt="Relative error of the high-temperature gradient against τ, both "
    "axes logarithmic. It falls as 1/τ. At τ = 20 it is "
    f"{at_20[0]:.0%} for logits of standard deviation 1 and "
    f"{at_20[1]:.0%} for 5.",
)

# %%
# NBVAL_CHECK_OUTPUT
ratio = [e[-5] / e[-1] for _, e in curves.values()]
print("ten times the temperature, a tenth of the error:",
      all(8 < r < 12 for r in ratio))  # fmt: skip

# %% [markdown]
# What counts is $\tau$ relative to the spread of the logits. Two ways of weighing the loss follow
# from the formula, and the paper uses both:
#
# - $\alpha = \gamma\tau$ for language models. Then the added gradient is $\gamma(\hat y - \tilde
#   y)$, a difference of probabilities like that of the cross-entropy, and $\gamma$ is a plain ratio.
#   But at a high temperature that difference is itself of order $1/\tau$: for a fixed $\gamma$ a
#   larger $\tau$ means *less* of the loss.
# - $\alpha = \beta\tau^2$, beside $1-\beta$ of the cross-entropy, for the experiment of its
#   Figure 1. Then the temperature cancels from the gradient's size.

# %% [markdown]
# ## From matched logits to tied matrices
#
# The paper argues as follows. Suppose the loss reaches zero at a high temperature. Then $W h_t = E
# e_{y_t}$ at every position $t$ (up to constants). With enough positions the contexts $h_t$ span all
# $d$ dimensions. Then these equations determine $W$, each of its columns is a combination of the
# columns of $E$, and $W = EA$ for some $d\times d$ matrix $A$: the same column space. But then $Wh =
# E(Ah)$: the network could apply $A$ itself and use $E$ for both jobs. **Tying loses nothing.**
#
# Zero loss is a bold assumption. The same context is followed by different words, and no $Wh$ can
# equal two targets at once. It is not needed. At a high temperature we have a least-squares
# problem, $\min_W \sum_t \|W h_t - E e_{y_t}\|^2$ (columns centred), and least squares are solved by
# the normal equations:
#
# $$W \sum_t h_t h_t^\top = E \sum_t e_{y_t} h_t^\top
# \quad\Longrightarrow\quad W = E A,\qquad
# A = \Big(\sum_t e_{y_t} h_t^\top\Big)\Big(\sum_t h_t h_t^\top\Big)^{-1}.$$
#
# So the best $W$ lies in the column space of $E$ **however large the loss stays**. $A$ is the
# regression of the target's vector on the context, and `theory.zero_loss_map` computes it, with the
# **residual** that says how far zero loss is out of reach: 0 if the contexts give the targets'
# vectors exactly, 1 if they say nothing of them. Try it: contexts that know the target exactly, and
# contexts that are mostly noise; $W$ fitted to the augmented loss alone, from zero.
#
# We measure as the paper does, by **principal angles**. The first is the smallest angle between a
# direction of the one space and a direction of the other, the second the smallest at right angles
# to that pair, and so on, $d$ in all. The **distance** of two column spaces is the root mean square
# of their sines, 0 if the spaces are the same, 1 if they are perpendicular. A random direction has
# a share of about $d/N$ of its squared length in a space of $d$ of $N$ dimensions, so two random
# spaces are at about $\sqrt{1-d/N}$, nearly perpendicular when $N$ is much larger than $d$.

# %%
N, d, T = 200, 10, 400
E = 3 * F.normalize(torch.randn(N, d).double(), dim=1)
E = E - E.mean(0)
y = torch.randint(N, (T,))
mixing, noise = torch.randn(d, d).double() / d**0.5, torch.randn(T, d)
contexts = {
    "contexts that know the target": E[y] @ mixing,
    "mostly noise": 0.5 * E[y] @ mixing + noise.double(),
}


# %%
def fitted(H, tau, steps=40):
    """W after so many steps down the augmented loss, H fixed."""
    W = torch.zeros(N, d, dtype=torch.float64, requires_grad=True)
    soft = (E[y] @ E.T / tau).softmax(-1)
    optimizer = torch.optim.LBFGS(
        [W], 1, steps, line_search_fn="strong_wolfe", tolerance_change=0
    )

    def loss():
        optimizer.zero_grad()
        predicted = (H @ W.T / tau).log_softmax(-1)
        value = tau**2 * F.kl_div(predicted, soft, reduction="batchmean")
        value.backward()
        return value

    optimizer.step(loss)
    return W.detach()


# %%
taus = [0.5, 1, 3, 10, 30, 100]
found, curves = {}, {}
for name, H in contexts.items():
    found[name] = {tau: fitted(H, tau) for tau in taus}
    distances = [
        subspaces.subspace_distance(W - W.mean(0), E)
        for W in found[name].values()
    ]
    residual = theory.zero_loss_map(E, H, y).residual
    label = f"{name}, residual {residual:.2f}"
    curves[label] = (taus, distances)
chance = (1 - d / N) ** 0.5

# %%
label = "distance of W from E"
figure = plots.lines(curves, "temperature τ", label, log="x")
ax = figure.axes[0]
ax.set_ylim(0, 1.12)
ax.axhline(chance, color=plots.INK, linestyle=":")
ax.text(100, chance + 0.03, "two random spaces", ha="right")
ax.legend_.remove()
_ = figure.legend(loc="outside lower center")
known, noisy = (distances for _, distances in curves.values())

# %%
plots.show(
    figure,
    alt="Distance between the column spaces of the fitted W and of E "
    f"against the temperature. From τ = 0.5 to 100 it falls from "
    f"{known[0]:.2f} to {known[-1]:.2f} where the contexts know the "
    f"target, and from {noisy[0]:.2f} to {noisy[-1]:.2f} where not.",
)

# %%
# NBVAL_CHECK_OUTPUT
H = contexts["mostly noise"]
W, best = found["mostly noise"][100], E @ theory.zero_loss_map(E, H, y).A
gap = ((W - W.mean(0) - best).norm() / best.norm()).item()
print("far from zero loss:", theory.zero_loss_map(E, H, y).residual > 0.8)
print("yet at τ = 100 the best W is E A, within 10 %:", gap < 0.1)
print("and its column space near E's:", noisy[-1] < 0.2)

# %% [markdown]
# The noisy contexts are far from the targets' vectors, as their residual says, and still $W$ goes into
# the column space of $E$ as $\tau$ rises. At a low temperature the loss looks at the few words that
# the soft target favours; all others it hardly constrains. Where the contexts know the target, $W = EA$
# makes the loss zero at *every* temperature. That the other curve does not start at 0 says only that
# forty steps from zero do not get there, so flat is the loss.

# %% [markdown]
# ## In a network: the paper's Figure 1
#
# In training nothing is fixed: $E$ moves, the encoder moves, and the cross-entropy pulls $W$ where
# it predicts best. The paper tests it with a small LSTM, untied, on a short text, without any
# regularisation, with the rows of $E$ held at norm 1. Its loss weighs the cross-entropy
# $L_\text{CE}$ against the augmented loss $L_\text{aug}$, with a share $\beta$ between 0 and 1:
#
# $$(1-\beta)\,L_\text{CE} + \beta\tau^2 L_\text{aug}.$$
#
# We do the same at a size for a lesson. All settings stand in a plan, `data/plans/lessons-05.toml`;
# its 3 seeds a setting were run beforehand and their results are kept with the course. Two of the
# runs are repeated here, step by step: no augmented loss ($\beta=0$), and nothing else ($\beta=1$).

# %%
plan = plans.read_plan("lessons-05")


def settings(experiment):
    """Weights and temperature of the two losses of an experiment."""
    ce, *more = [o.options for o in experiment.objectives]
    predicts = experiment.output_words or experiment.words
    more = more[0] if more else {}
    return {
        "β": round(1 - ce.get("weight", 1.0), 3),
        "α": more.get("weight", 0.0),
        "τ": more.get("temperature", 0.0),
        "through": more.get("gradient", False),
        "epochs": experiment.optimisation.epochs,
        "start": predicts.options.get("init"),
    }


# %%
kept = [course_lab.read_kept(p.key) for p in plan.runs]
rows = [
    {"recipe": p.recipe.split("/")[-1], "seed": p.seed}
    | settings(p.experiment())
    | content["metrics"]
    | {"training": content["epochs"][-1]["train_perplexity"]}
    for p, content in zip(plan.runs, kept, strict=True)
]
runs = pd.DataFrame(rows)
display(Markdown(course_lab.describe_origin(kept)))

# %%
pair = {}
for p in plan.runs:
    e = p.experiment()
    β, τ = settings(e)["β"], settings(e)["τ"]
    if "subspace" in p.recipe and β in (0, 1) and τ == 10:
        epochs = 5 if PROFILE == "smoke" else e.optimisation.epochs
        later = e.change(seed=SEED, optimisation={"epochs": epochs})
        pair.setdefault(int(β), later)  # the first: others train longer


# %%
def watched(experiment):
    """Steps and distances of the two column spaces, and the run."""
    steps, distances = [], []

    def watch(step, model):
        if step % 10 == 0:
            E, W = model.words.matrix(), model.output_layer.words.matrix()
            steps.append(step)
            distances.append(subspaces.subspace_distance(W, E))

    with tempfile.TemporaryDirectory() as folder:
        options = dict(folder=folder, callback=watch, progress=False)
        run = course_lab.run(experiment, **options)
    return (steps, distances), run


# %%
pairs = {β: watched(experiment) for β, experiment in pair.items()}
curves = {f"β = {β}": path for β, (path, _) in pairs.items()}
ends = {β: path[1][-1] for β, (path, _) in pairs.items()}
figure = plots.lines(curves, "training step", "distance of W from E")
figure.axes[0].set_ylim(0, 1.05)
plots.show(
    figure,
    alt="Distance between the column spaces of input and output matrix "
    f"over training. Without the augmented loss it ends at {ends[0]:.2f}; "
    f"with nothing else it ends at {ends[1]:.2f}.",
)

# %% [markdown]
# What do the theory's two maps say of these two networks? `tying_map` asks how much of $W$ is not
# $EA$, `zero_loss_map` how far the contexts of the training text are from knowing their targets:

# %%
rows = {}
for β, (_, run) in pairs.items():
    model, text = run.model, run.corpus.train
    with torch.no_grad():
        contexts = model(text[:-1, None]).hidden.flatten(0, 1)
    E, W = model.words.matrix(), model.output_layer.words.matrix()
    zero = theory.zero_loss_map(E, contexts, text[1:])
    rows[f"β = {β}"] = {
        "training perplexity": run.epochs[-1]["train_perplexity"],
        "share of W outside E": theory.tying_map(E, W).residual,
        "residual of zero loss": zero.residual,
    }
pd.DataFrame(rows).T.round(2)

# %% [markdown]
# With the augmented loss alone, most of $W$ is $EA$ although the loss is far from zero, as least
# squares promised. The distance is larger than that share, because it counts all $d$ directions
# alike, also those in which $W$ is short.
#
# Now all of Figure 1, from the kept runs: first $\beta$ at $\tau = 10$, then $\tau$. (The paper
# varies $\tau$ at $\beta = 0.5$. There, as the left picture shows, $W$ has hardly moved at our size,
# so we take 0.9.) The seed decides where a run begins and in what order it reads, so each setting was
# run with several. Bars are **95 % intervals** of the mean over seeds: made so that of a hundred such
# intervals, each from new seeds, about 95 would hold the mean of all seeds there are.

# %%
subspace = runs[runs.recipe == "subspace"]
usual = (subspace.epochs == 80) & (subspace.start == 0.1)
figure1 = subspace[usual]

# %%
panels = {
    "β, share of the augmented loss": figure1[figure1.τ == 10],
    "temperature τ": figure1[figure1.β == 0.9],
}
by = dict(zip(panels, "βτ", strict=True))


def interval_of(values):
    """Mean and 95 % interval over seeds; of one seed, only its value."""
    if len(values) == 1:
        return statistics.Mean(*[float(values[0])] * 3, 0.0, 1)
    return statistics.mean_interval(values)


def intervals(table, column, of):
    """{setting: values} and {setting: mean with its interval}."""
    groups = {k: g[of].to_numpy() for k, g in table.groupby(column)}
    return groups, {k: interval_of(v) for k, v in groups.items()}


# %%
figure, axes = plots.panels(1, 2, height=4, sharey=True)
means = {}
for ax, (label, table) in zip(axes, panels.items(), strict=True):
    groups, means[label] = intervals(table, by[label], "subspace_distance")
    plots.seeds(groups, means[label], label, "", ax=ax)
axes[0].set(ylabel="distance of W from E", ylim=(0, 1.05), title="τ = 10")
axes[1].set(xscale="log", title="β = 0.9")
across, along = means.values()
plots.show(
    figure,
    alt="Left: distance of the column spaces against β, falling from "
    f"{across[0].mean:.2f} at 0 to {across[1].mean:.2f} at 1. Right: "
    f"against τ, from {along[min(along)].mean:.2f} at the lowest to "
    f"{along[max(along)].mean:.2f} at the highest temperature.",
)

# %%
# NBVAL_CHECK_OUTPUT
print("no augmented loss: above 0.9: ", across[0].mean > 0.9)
print("only augmented loss: below 0.8:", across[1].mean < 0.8)
print("the intervals do not touch:    ", across[0].low > across[1].high)

# %% [markdown]
# So much for your second prediction. The direction is as the theory says: the more augmented loss,
# the nearer $W$ comes to $E$, seed by seed. The amount is not the paper's. There the distance falls rapidly with $\beta$ and ends near
# 0 (Figure 1); here equal shares of both losses leave $W$ about where chance put it, and even the augmented
# loss alone goes only part of the way. Two guesses why:
#
# - **The runs are too short.** The weight $\beta\tau^2$ cancels the temperature from the gradient, but
#   not $N$: each logit is pulled with $(l-s)/N$, while the cross-entropy pulls the target's logit with a
#   force near 1 until the text is known by heart. The paper aims at the least training loss that can be
#   had; our runs end after a few hundred steps.
# - **$W$ keeps what it was drawn with** in every direction that the contexts hardly visit, and the
#   distance counts such a direction as much as any other.
#
# Both can be tested: train three and ten times as long, and begin with a $W$ a hundred times smaller.

# %%
longer = subspace[(subspace.start == 0.1) & (subspace.τ == 10)]
longer = longer[longer.β.isin(longer[longer.epochs > 80].β)]
figure, (left, right) = plots.panels(1, 2, height=4.3, sharey=True)

# %%
paths = {}
for β, table in longer.groupby("β"):
    means_of = intervals(table, "epochs", "subspace_distance")[1]
    paths[β] = {e: m.mean for e, m in means_of.items()}
    for e, m in means_of.items():
        left.plot([e, e], [m.low, m.high], "-", color=plots.INK, lw=1)
curves = {
    f"β = {β:g}": (np.array(list(path)), np.array(list(path.values())))
    for β, path in paths.items()
}
_ = plots.lines(curves, "epochs", "distance of W from E", log="x", ax=left)

# %%
small = subspace[subspace.start < 0.1]
alike = figure1[(figure1.τ == 10) & figure1.β.isin(small.β)]
both = {"as before": alike, "÷ 100": small}
starts = {
    f"{β:g}\n{how}": table.subspace_distance[table.β == β].to_numpy()
    for β in sorted(set(small.β))
    for how, table in both.items()
}
bars = {name: interval_of(values) for name, values in starts.items()}
_ = plots.seeds(starts, bars, "β, and how W begins", "", ax=right)

# %%
left.set(ylim=(0, 1.05), title="longer training")
ticks = sorted(set(longer.epochs))
left.set_xticks(ticks, [str(e) for e in ticks])
left.minorticks_off()
right.set_title("a smaller start")
first, *_, last = ticks
fall = "; ".join(
    f"{path[first]:.2f} to {path[last]:.2f} at β = {β:g}"
    for β, path in paths.items()
)
level = "; ".join(f"{n}: {m.mean:.2f}" for n, m in bars.items())

# %%
drawn = level.replace("\n", ", ")
plots.show(
    figure,
    alt="Distance of the column spaces. Left, against epochs: from "
    f"{fall}. Right, for two shares β with W drawn as before and a "
    f"hundred times smaller: {drawn}",
)

# %%
gains = []
for β in sorted(set(small.β)):
    test = statistics.paired(
        *(t.subspace_distance[t.β == β].to_numpy() for t in both.values())
    )
    gains.append(test.difference)
    print(
        f"β = {β:g}, as before minus ÷ 100: {test.difference:+.3f}, "
        f"95 % interval {test.low:+.3f} to {test.high:+.3f}"
    )

# %%
# NBVAL_CHECK_OUTPUT
print("ten times as long, at less than half the distance, β = 1:",
      paths[1][last] < paths[1][first] / 2)  # fmt: skip
print("at β = 0, no nearer:", paths[0][last] > paths[0][first] - 0.02)
print("a smaller start brings W nearer by 0.05:", max(gains) > 0.05)

# %% [markdown]
# The first guess holds: time makes a large difference. The second finds no support: at these two shares
# what $W$ is drawn with makes none that three seeds would show. With nothing but the augmented loss, $W$
# goes where the paper says, and is still on its way after 800 epochs. One direction it may never
# give up, since the loss cannot see it: a vector added to all rows of $W$ (exercise 1). Of $d=16$
# directions a single wrong one costs up to $1/\sqrt{16}$.
#
# Where the cross-entropy has a share, ten times the epochs are not enough, though the curves still
# fall. How far they can fall the formulas do not say, but that it need not be to 0. Both losses are at rest where their
# pulls on every logit cancel,
#
# $$l - s \approx N\,\frac{1-\beta}{\beta}\,(\mathbf 1_y - p)$$
#
# up to a shift of all logits, with $\mathbf 1_y$ the one-hot target and $p$ the prediction. So the
# logits should be those of the soft target *and* stand out at the target. The first part lies in the
# column space of $E$. The second is a one for each word, which no $d < N$ directions hold, and only at
# $\beta = 1$ does it vanish.
#
# The temperature does little here, and what it does is the wrong way round: $W$ comes nearest at the
# lowest. The straight line does not cover that end. The target's own entry of $s$ is 1, so that at
# $\tau = 0.5$ it counts $e^2\approx 7.4$ in the softmax where the straight line has $1 + 2$; and
# nothing holds the logits $l$ at such a size.
#
# So the mechanism shows, but in a sum of both losses only where nearly all of the sum is the augmented
# one. And at the paper's size, 20,000 tokens, 10,000 words and 300 dimensions? These runs of the plan
# `inan2017-figure-1` are kept, 60 epochs or some 1,700 steps each:

# %%
full_size = plans.read_plan("inan2017-figure-1").runs
kept_full = [
    (p, course_lab.read_kept(p.key))
    for p in full_size
    if (results.kept_folder() / p.key).exists()
]

# %%
rows = [
    settings(p.experiment())
    | {"seed": p.seed, "distance": content["metrics"]["subspace_distance"]}
    | {"training perplexity": content["epochs"][-1]["train_perplexity"]}
    for p, content in kept_full
]
table = pd.DataFrame(rows).sort_values(["τ", "β"])
contents = [content for _, content in kept_full]
display(Markdown(course_lab.describe_origin(contents)))
shown = ["epochs", "seed", "distance", "training perplexity"]
table.set_index(["β", "τ"])[shown].round(2)

# %% [markdown]
# One seed each, and too short as well: only where nothing but the augmented loss pulls has $W$ begun to
# move, as at our size in the first epochs. (Two random spaces are $\sqrt{1-300/10000}\approx 0.985$
# apart.) Ten times the epochs at the paper's size are in the plan too, and wait for a GPU: whether
# they end near 0 there, we have not seen.

# %% [markdown]
# ## Four models, before your eyes
#
# Tied or untied, with the augmented loss or without: four models, each the Transformer of lesson 2
# on a short text. The loss has $\tau = 20$ and $\gamma = 0.65$, the middle of the paper's range for
# its smaller corpus. The two without the loss we train now; all four, with three seeds each, are
# among the kept runs below.

# %%
columns = ["untied", "augmented", "tied", "tied-augmented"]
first = {}
for p in plan.runs:  # the first of each recipe has its own constants
    first.setdefault(p.recipe.split("/")[-1], p)


def experiment(name):
    """That of the plan, or that of a longer profile."""
    if PROFILE in ("standard", "full"):
        recipe = course_lab.recipes[f"docstrings/transformer-128/{name}"]
        return course_lab.profile(recipe, PROFILE, seed=SEED)
    e = first[name].experiment().change(seed=SEED)
    epochs = 1 if PROFILE == "smoke" else e.optimisation.epochs
    return e.change(optimisation={"epochs": epochs})


# %%
def trained(name):
    """The run of one column."""
    chosen = experiment(name)
    with tempfile.TemporaryDirectory() as folder:
        return course_lab.run(chosen, folder=folder, progress=False)


names = ("untied", "tied")
live = {name: trained(name) for name in names}

# %%
corpus = live["tied"].corpus
rare, frequent = geometry.by_frequency(corpus.counts)
text = (
    f"{len(corpus.train):,} tokens, {len(corpus):,} words, of which "
    f"{len(rare):,} are rarer than one token in ten thousand."
)
display(Markdown(text))


# %%
def matrices(model):
    """The word matrices of a model by what they do."""
    if model.tied:
        return {"both": model.words.matrix().detach().cpu()}
    E, W = model.words.matrix(), model.output_layer.words.matrix()
    return {"reads": E.detach().cpu(), "predicts": W.detach().cpu()}


# %%
rows = {}
for name, run in live.items():
    for job, M in matrices(run.model).items():
        rows[name, job] = {
            "cosine, rare": geometry.mean_cosine(M[rare]),
            "cosine, frequent": geometry.mean_cosine(M[frequent]),
            "σ₂/σ₁": geometry.singular_values(M, normalised=True)[1],
            "test perplexity": run.metrics["test_perplexity"],
        }
table = pd.DataFrame(rows).T.rename_axis(["model", "matrix"])
table.round(2)

# %% [markdown]
# ## Does tying cause the cone?
#
# Lesson 2 showed the cone in a tied matrix. If tying were to blame, an untied model would have
# none. Here are the cosines of pairs of rare words in each matrix of each model. Before training
# they are all a narrow bell around zero, as in lesson 2.

# %%
figure, axes = plots.panels(1, 2, height=3.9, sharey=True)
both = {"untied": axes[0], "tied": axes[1]}
for name, ax in both.items():
    groups = {
        f"matrix that {job}".replace("that both", "that does both"):
        geometry.pair_cosines(M[rare])
        for job, M in matrices(live[name].model).items()
    }  # fmt: skip
    plots.cosine_histogram(groups, ax=ax, title=name)

# %%
axes[1].set(ylabel="")
cone = table["cosine, rare"]
read, predict = cone["untied", "reads"], cone["untied", "predicts"]
one = cone["tied", "both"]
plots.show(
    figure,
    alt="Cosines of pairs of rare words. Left, untied: the matrix that "
    f"reads stays a bell around {read:.2f}, the matrix that predicts "
    f"has moved to {predict:.2f} on average. Right, tied: the one matrix "
    f"is at {one:.2f}.",
)

# %% [markdown]
# Your first prediction: the cone is in the matrix that **predicts**, tied or not. In the untied model the rare words
# of the matrix that reads stay as far apart as they were drawn: such a row moves only when the word is
# read, and nothing pushes it in between. So tying does not cause the cone. It comes from the push that
# lesson 1 derived, every word that did not come being pushed away from the context at every position,
# and from Adam, which turns the small pushes on rare words into large steps (lesson 11 compares it with
# other optimisers). What tying does is to hand the cone on to the input, where rare words may then be
# hard to tell apart.
#
# Is that a matter of one seed? The kept runs say no. Means and 95 % intervals over three seeds:

# %%
words = runs[runs.recipe != "subspace"].copy()
for job, column in {"W": "geometry", "E": "input_geometry"}.items():
    words[f"cosine {job}"] = [
        shape["mean_cosine_rare"] if isinstance(shape, dict) else np.nan
        for shape in words[column]
    ]
plain = words[~words.through]
default = plain[plain.α.isin([0, 13]) & plain.τ.isin([0, 20])]
by_model = dict(list(default.groupby("recipe")))


def interval(values, digits=2):
    """Mean and 95 % interval over seeds, as text."""
    m = statistics.mean_interval(values)
    return f"{m.mean:.{digits}f} [{m.low:.{digits}f}, {m.high:.{digits}f}]"


# %%
rows = {}
for name in columns:
    group, untied = by_model[name], "tied" not in name[:4]
    rows[name] = {
        "parameters": f"{group.parameters.iloc[0]:,}",
        "training perplexity": interval(group.training, 0),
        "test perplexity": interval(group.test_perplexity, 0),
        "cosine, rare, W": interval(group["cosine W"]),
    }
    if untied:
        rows[name]["cosine, rare, E"] = interval(group["cosine E"])
        apart = interval(group.subspace_distance)
        rows[name]["distance of W from E"] = apart
pd.DataFrame(rows).T.fillna("the same matrix")

# %% [markdown]
# Two things can be read off this table.
#
# In the table above the **augmented loss** lowers the test perplexity of both models, while the training
# perplexity stays where it was. So it does not help to fit the text. Perhaps it helps not to be too sure of it,
# as a softened target would; the paper, too, sees the largest gains where data are few, and ours are
# very small.
#
# **Tying** makes the model worse here, which the paper reports for no size. Look at the training
# perplexity before you conclude anything: in these few steps the tied model has learned far less of
# the training text than the untied one. It does not overfit more; it is behind. One reason may be
# that it must read with a matrix that is just falling into the cone. The paper trains on far
# more text, and surely for longer. Ours is a comparison of speed, and leaves open which is better in
# the end.

# %% [markdown]
# ## At the paper's size
#
# Which is better in the end? The smallest model of the paper's Table 1 is an LSTM with two layers of
# 200 units and dropout, trained by SGD on all of the Penn Treebank. The course has trained its four
# columns with the recipes `ptb/vd-lstm-200/…`, one run each, and one of them with another seed. The
# learning rate of these runs begins to fall one epoch earlier than that of today's recipes, which
# have been corrected since. Here are the learning curves of the first seed, from the fifth epoch on. On the left the validation
# perplexity; on the right the same less that of the untied model after as many epochs, so that below
# zero is better than untied. The fifth curve, of a shorter run, is explained below.

# %%
def told_apart(name, experiment):
    """The run's name in the table below; None for runs of your own."""
    known = {
        "": name,
        "optimisation.epochs=26": name.replace("second", "longer"),
        "30477d906d4f": name.replace("second", "whole"),
        "objectives.1.gradient=false,optimisation.epochs=23":
            "constant target",
    }  # fmt: skip
    name = known.get(experiment.get("variant", ""))
    if name and experiment["seed"] != 1:
        name += f", seed {experiment['seed']}"
    return name and name.replace("baseline", "untied")


# %%
full = {}
for folder in course_lab.kept_results():
    content = course_lab.read_result(folder)
    made = content["experiment"]
    model, _, name = made["name"].partition("-200/")
    own = model == "ptb/vd-lstm" and made["profile"] == "standard"
    if own and (name := told_apart(name, made)):
        full[name] = content

# %%
valid = {
    name: np.array([e["valid_perplexity"] for e in full[name]["epochs"]])
    for name in (*columns, "constant target")
}

# %%
took = [c["provenance"]["wall_seconds"] / 3600 for c in full.values()]
hours = f"{min(took):.1f} to {max(took):.1f} hours each."
origin = course_lab.describe_origin(list(full.values()))
display(Markdown(f"{origin} {hours}"))
behind = valid["tied"] > valid["untied"]
last = int(np.flatnonzero(behind)[-1]) + 1  # epoch at which tied is behind

# %%
figure, (left, right) = plots.panels(1, 2, height=4.3)
curves, apart = {}, {}
for name, v in valid.items():
    at = np.arange(5, len(v) + 1)
    curves[name] = at, v[4:]
    apart[name] = at, (v - valid["untied"][: len(v)])[4:]
plots.lines(curves, "epoch", "validation perplexity", ax=left)
plots.lines(apart, "epoch", "difference from untied", ax=right)
left.legend_.remove()

# %%
ends = ", ".join(f"{name} {v[-1]:.1f}" for name, v in valid.items())
plots.show(
    figure,
    alt="Validation perplexity by epoch, and its difference from the "
    f"untied model's. After the last epoch: {ends}. The tied model is "
    f"behind the untied one up to epoch {last}.",
)

# %% [markdown]
# The test perplexity, beside the paper's. The paper went on for a second session from the final
# weights, and does not say for how long; a *longer* one goes on with the same schedule for some more
# epochs (their number in brackets). The *whole* session is the first one's schedule once more, from
# the final weights of the other seed. A cell is empty where we did not.

# %%
said = published.rows().query(
    "paper == 'inan2017' & table == '1' & split == 'test'"
    " & corpus == 'ptb' & model == 'vd-lstm-200'"
)
named = {"baseline": "untied", "augmented-loss": "augmented"}
named |= {"tied+augmented-loss": "tied-augmented"}
said = said.assign(name=said.method.replace(named)).set_index("name").value

# %%
rows = {}
for name in columns:
    now, epochs = full[name]["metrics"], full[name]["epochs"]
    best = min(epochs, key=lambda e: e["valid_perplexity"])
    rows[name] = {
        "parameters": f"{now['parameters']:,}",
        "training perplexity": f"{best['train_perplexity']:.1f}",
        "test perplexity": f"{now['test_perplexity']:.1f}",
    }
    for kind in ("second", "longer"):
        if again := full.get(f"{name}/{kind}-session"):
            reached = again["metrics"]["test_perplexity"]
            epochs = len(again["epochs"])
            rows[name] |= {f"{kind} session": f"{reached:.1f} ({epochs})"}
    rows[name]["the paper's"] = f"{said[name]:.1f}"

# %%
for name in columns:
    if other := full.get(f"{name}, seed 2"):
        reached = other["metrics"]["test_perplexity"]
        rows[name]["another seed"] = f"{reached:.1f}"
    if other := full.get(f"{name}/whole-session, seed 2"):
        reached = other["metrics"]["test_perplexity"]
        epochs = len(other["epochs"])
        rows[name]["its whole session"] = f"{reached:.1f} ({epochs})"
    if measured := full[name]["metrics"].get("geometry"):
        cosine = measured["mean_cosine_rare"]
        rows[name]["cosine of rare words"] = f"{cosine:.2f}"

# %%
order = ["parameters", "training perplexity", "test perplexity"]
order += ["second session", "longer session"]
order += ["another seed", "its whole session", "the paper's"]
order += ["cosine of rare words"]
compared = pd.DataFrame(rows).T.reindex(columns=order)
compared.dropna(axis=1, how="all").fillna("")

# %% [markdown]
# After the second session the four stand in the paper's order, but with one run each the last step,
# from augmented to tied and augmented, is too small to count; before it the augmented loss brings the
# two to about the same perplexity. The steps between the models are smaller than the paper's.
#
# - **Tying** is behind the untied model for most of the training, as in the small runs, and has caught
#   up in the end, with little more than half of the parameters.
# - **The augmented loss** lowers the perplexity of either model: in the first session by less than
#   half as much as in the paper, after the second by more.
# - **A second session**, the recipes `ptb/vd-lstm-200/*/second-session`, from the final weights, with the
#   learning rate high again at first, lowers the perplexity by tenths, too few to count in single runs, but
#   where both remedies are at work by more.
#   It makes up for a part of what is missing. The whole session, of the other seed, lowers it by more
#   than the short ones did theirs: how long the paper trained again is likely a part of the rest.
# - **No cone**: where the geometry was kept (the first sessions but the tied one's) the rare words of
#   the matrix that predicts have a mean cosine near 0. These models are trained by SGD, from a wider
#   start, with dropout and on far more text; which of these it is, is not separated here.
# - These are single runs. The augmented model, trained with another seed, ends farther from its first
#   run than the second session moved it: differences of that size say nothing. And the paper does not
#   tell how long it trained, which $\gamma$ of its range it took, and whether word vectors were
#   dropped; the table at the end of the lesson has what we chose.
#
# ### Which way the gradient flows
#
# In the model above that is tied and augmented the gradient flows through the soft target
# (`gradient=True`); in the small runs before, the soft target is a constant. At the paper's size the
# choice decides, as the last curve shows: with a constant target the same model falls far behind. The
# formula for high temperatures gives a reason.
#
# In a tied model one matrix makes both logits, $l_i = w_i^\top h$ and $s_i = w_i^\top w_y$. Let the
# target's vector lie along the context, $w_y = c\,h$. Then $l_i - s_i = (1-c)\,l_i$ for every word, and
# the loss is zero at $c = 1$. Which way does a step take $c$? With $\tilde y$ a constant, a row moves
# along $h$ only; the target's own by a multiple of $-(l_y - s_y)\,h$ (up to a constant that all words share), and with
# $l_y - s_y = c\,(1-c)\,\lVert h\rVert^2$ that changes $c$ by a multiple of
#
# $$-\,c\,(1-c)\,\lVert h\rVert^2 .$$
#
# Below 1 it falls, above 1 it grows: the step leads *away* from the state in which the loss is zero.
# The reason is that $s_y$ grows with the square of $c$ and $l_y$ only with $c$. Where the target's logit
# should be larger, making $w_y$ longer makes the demand larger still. With the gradient through
# $\tilde y$ the step descends a loss that has its minimum at $c = 1$, and leads there.
#
# Here is that in numbers: one context, and 200 words with random vectors, except for the target's,
# which is $c\,h$. We descend the loss itself, with either gradient, and watch
# $c = h^\top w_y/h^\top h$.


# %%
def reach(c, through, steps=30, tau=20.0):
    """How far the target's vector reaches along the context, by step."""
    torch.manual_seed(SEED)
    h, words = torch.randn(16), torch.randn(200, 16)
    words[0] = c * h  # word 0 is the target
    reached = []
    for _ in range(steps):
        reached.append((words[0] @ h / h.square().sum()).item())
        words.requires_grad_()
        s = words @ words[0] if through else (words @ words[0]).detach()
        a, b = (words @ h / tau).log_softmax(0), (s / tau).log_softmax(0)
        kl = F.kl_div(a, b, reduction="sum", log_target=True)
        (slope,) = torch.autograd.grad(len(words) * tau**2 * kl, words)
        words = (words - 2e-3 * slope).detach()
    return reached


# %%
figure, axes = plots.panels(1, 2, height=3.9, sharey=True)
choices = {"soft target a constant": False, "gradient through it": True}
starts, ends = (0.5, 0.9, 1.0, 1.1, 1.5), {}
for ax, (title, through) in zip(axes, choices.items(), strict=True):
    paths = {f"from {c:g}": reach(c, through) for c in starts}
    ends[through] = [path[-1] for path in paths.values()]
    curves = {c: (range(len(path)), path) for c, path in paths.items()}
    plots.lines(curves, "step", "reach c of the target's vector", ax=ax)
    ax.set(title=title, ylim=(-0.1, 2.6))

# %%
axes[0].legend_.remove()
axes[1].set(ylabel="")
plots.show(
    figure,
    alt="Reach of the target's vector along the context by step, from "
    "five starts. Left, with the soft target a constant, it falls to "
    f"{ends[False][0]:.2f} and {ends[False][1]:.2f} from the two below 1 "
    "and leaves the picture from the two above. Right, with the gradient "
    f"through it, it comes to {np.mean(ends[True]):.2f} from all.",
)

# %% [markdown]
# A constant target makes of $c = 1$, where the loss is zero, a point that nothing returns to: below it
# the target's vector shrinks, and above it grows without end. With the gradient through the target all
# starts come to 1. In a whole model the cross-entropy has its say as well: it makes the target's vector
# longer, and in time can push it over the edge. Is the small model that we trained above near it?

# %%
found = cache.predictions(live["tied"].model, corpus.test, corpus.eos)
W = matrices(live["tied"].model)["both"]
along = (W[found.target] * found.hidden).sum(-1)
reached = along / found.hidden.square().sum(-1)
beyond = (reached > 1).double().mean()
print(f"c = {reached.median():.2f} (median); beyond 1: {beyond:.1%}")

# %% [markdown]
# ## The knobs swept
#
# The tied model again: more and more of the loss, $\gamma = \alpha/\tau$, at $\tau = 20$; and low
# temperatures beside the high one at $\gamma = 0.65$. Above the perplexity, below the mean cosine of
# rare words, three seeds each. The band is the tied model without the loss.

# %%
swept = plain[plain.recipe == "tied-augmented"].copy()
swept["γ"] = (swept.α / swept.τ).round(3)
sweeps = {
    "γ = α / τ": ("γ", swept[swept.τ == 20]),
    "temperature τ": ("τ", swept[swept.γ == 0.65]),
}
measures = {
    "test_perplexity": "test perplexity",
    "cosine W": "mean cosine, rare words",
}
baseline = by_model["tied"]

# %%
figure, axes = plots.panels(2, 2, height=3.3, sharex="col", sharey="row")
for row, (measure, ylabel) in zip(axes, measures.items(), strict=True):
    m = statistics.mean_interval(baseline[measure])
    for ax, (label, (by, table)) in zip(row, sweeps.items(), strict=True):
        groups, means = intervals(table, by, measure)
        plots.seeds(groups, means, "", "", ax=ax)
        ax.axhspan(m.low, m.high, color=plots.COLOURS[2], alpha=0.25)
        ax.axhline(m.mean, color=plots.COLOURS[2], linestyle="-.")
        ax.set(xscale="log", xlabel=label if measure == "cosine W" else "")
        ax.set_xticks(list(groups), [f"{k:g}" for k in groups])
        ax.minorticks_off()
        if ax is not axes[0, 0]:
            ax.legend_.remove()
    row[0].set_ylabel(ylabel)

# %%
without = baseline.test_perplexity.mean()
best = swept.groupby(["γ", "τ"]).test_perplexity.mean()
plots.show(
    figure,
    alt="Test perplexity and mean cosine of rare words against γ and "
    "against the temperature, with intervals, and the tied model without "
    f"the loss as a band at perplexity {without:.1f}. The "
    f"lowest mean is {best.min():.1f}, at γ = {best.idxmin()[0]:g}, "
    f"τ = {best.idxmin()[1]:g}.",
)


# %%
untied, al, tied, both = (by_model[name] for name in columns)
pairs_of = {
    "untied − tied": (untied, tied),
    "untied: loss − none": (al, untied),
    "tied: loss − none": (both, tied),
    "tied: gradient through ỹ − without": (words[words.through], both),
    "tied: label smoothing − none": (by_model["smoothed"], tied),
    "tied: label smoothing − loss": (by_model["smoothed"], both),
}

# %% [markdown]
# Are these differences more than the chance of three seeds? Welch's $t$-test compares two means
# whose spreads may differ; its $p$ is the
# chance of a difference at least as large if both settings were equally good. Six tests at once find
# one small $p$ more easily than one does; Holm's correction raises them for that. Where $p$ is still
# below 0.05 we say that two settings differ, else that it is inconclusive. Three of
# the six concern the tied model with something else: the loss with its gradient flowing through
# $\tilde y$, and **label smoothing** in place of the loss, which takes a share of 0.1 of the target
# from the word that came and spreads it evenly over all words. Below, a difference of test
# perplexities with its 95 % interval:


# %%
def difference(name, what="test_perplexity"):
    """Difference of two settings' means over seeds, by Welch's test."""
    one, other = pairs_of[name]
    return statistics.welch(one[what], other[what])


tests = {name: difference(name) for name in pairs_of}
corrected = statistics.holm([t.p for t in tests.values()])
rows = {
    name: {
        "perplexity": f"{t.difference:+.0f} [{t.low:+.0f}, {t.high:+.0f}]",
        "p, Holm": f"{p:.3f}",
        "verdict": "differs" if p < 0.05 else "inconclusive",
    }
    for (name, t), p in zip(tests.items(), corrected, strict=True)
}
pd.DataFrame(rows).T

# %% [markdown]
# What the sweeps and the tests say:
#
# - More of the loss is better here, far beyond the paper's $\gamma$ of 0.5 to 0.8: our text is far
#   shorter, and the paper, too, finds that the loss gains more where there is less text. (All settings
#   were compared on the test text; the best of several is flattered a little.)
# - At the same $\gamma$ the temperatures of 1 and 5 do more than that of 20, as the formula said
#   they would: at a high temperature $\hat y - \tilde y$ is itself of order $1/\tau$. Between 1 and
#   5 the perplexity shows no difference, only the cosine does.
# - Label smoothing, which spreads a share of the target evenly over all words, knows nothing of them
#   and costs nothing, does more than the loss at the paper's $\gamma$. (A larger $\gamma$ goes
#   further; the share of 0.1 was not tuned either.) It is a rival to be taken seriously; exercise 2
#   asks what similarity adds.
# - Whether the gradient flows through $\tilde y$ makes no difference that three seeds could show, and
#   the interval leaves room for one either way. In these few steps no vector has grown as long as the
#   picture above supposes.
# - The loss loosens the cone, most at the lowest temperature, and does not open it. A likely reason,
#   which is not measured here: it pulls the logits of rare words back from where the push drives them.

# %% [markdown]
# ## What does the soft target know?

# %%
M = matrices(live["tied"].model)["both"].double()
target = corpus.test[:2000]
rows = {}
for tau in (1, 5, 20, 80):
    soft = (M[target] @ M.T / tau).softmax(-1)
    entropy = -(soft * soft.log()).sum(1)
    rows[f"τ = {tau}"] = {
        "probability of the target": soft.gather(
            1, target[:, None]
        ).mean(),
        "1 / N": 1 / len(corpus),
        "perplexity of ỹ": entropy.mean().exp(),
        "N": len(corpus),
    }
pd.DataFrame(rows).T.astype(float).map("{:.5g}".format)

# %% [markdown]
# Your third prediction. At $\tau = 20$ the soft target *is* the uniform distribution, for all that
# one can see: its perplexity, the exponential of its entropy, is the size of the vocabulary, and the target itself gets hardly more than any other
# word. That alone would not make it empty: the softened prediction flattens as well, and at a high
# temperature the loss still asks that the logits $l$ equal the target's, $s$. But after so short a
# training the word vectors are short, and $s$ is nearly the same for all words: not even at $\tau = 1$
# does the target stand out by much. What the loss asks for, then, is that the logits hardly spread, a
# relative of label smoothing. That would explain why nothing is seen of the gradient through
# $\tilde y$, and why the perplexity falls in the sweep although the similarity of words can have
# been of little help. What similarity adds needs longer vectors, that is, longer training than ours.

# %% [markdown]
# ## The cost
#
# Tying saves a whole word matrix. The augmented loss needs the products $E e_y$ of every target's
# vector with all words: one more product beside the three that the output layer takes in training
# (logits, and the gradients of contexts and of words), and two more softmaxes, of $s/\tau$ and of
# $l/\tau$. If the gradient is to
# flow through $\tilde y$ there are two more. Counted for our small model and for the paper's
# largest on its 10,000 words, in millions of multiplications and additions (MFLOP):


# %%
def costs(e, N):
    """Parameters and operations a token of training, in millions."""
    with torch.device("meta"):  # shapes only
        built = e.build(N)
    layer, rest = cost.output_macs(built, e), cost.encoder_macs(built, e)
    return {
        "parameters": f"{sum(p.numel() for p in built.parameters()):,}",
        "output layer, MFLOP a token": f"{6 * layer / 1e6:.1f}",
        "whole model, MFLOP a token": f"{6 * (layer + rest) / 1e6:.1f}",
    }


# %%
rows = {}
for name in columns:
    rows["here", name] = costs(first[name].experiment(), len(corpus))
for name in columns:
    recipe = "ptb/vd-lstm-1500/" + name.replace("untied", "baseline")
    large = costs(course_lab.recipes[recipe], 10_000)
    rows["the paper's largest", name] = large
pd.DataFrame(rows).T

# %% [markdown]
# Tying takes a whole word matrix away and adds no operation. The loss makes the output layer a third
# dearer in products, and twice as dear where the gradient flows through the soft target, as in the
# paper's tied models here. It also takes three softmaxes in place of one, which on a processor can cost as
# much again; `python -m benchmarks output-layers` measures it on your machine.

# %% [markdown]
# ## What the paper says and what it leaves open
#
# The authors released no code, so here is where the text is silent or where it says more than it
# shows, and what we do.
#
# | in the paper | here |
# |---|---|
# | The theory assumes zero training loss and a mean logit of 0. | Neither is needed: least squares put the best $W$ for the augmented loss alone at a high temperature into the column space of $E$, after centring, however large the loss. |
# | It does not say whether gradients flow through $\tilde y$. | Default no, `gradient=True` yes. The recipes of its tables let them flow in tied models, where a constant failed in the one run at full size; both above. |
# | "We don't use dropout in the input embedding layer", and the same share for "inputs and hidden states". | The recipes drop nothing of the word vectors; `encoder.input_dropout` is there for the other reading. |
# | The distance is called the average of the sines of the principal angles. | Its formula, $\lVert Q_1 - Q_2 Q_2^\top Q_1\rVert_F/\sqrt d$, is their root mean square ($Q_1$, $Q_2$: orthonormal bases of the two spaces); we use the formula. |
# | Small models on the Penn Treebank were trained a second time from their final weights, which helped all but the baseline. | The recipes `…/second-session` do it; the small runs here are of one session. |
# | One result a model, no seeds. | Three seeds and an interval of the small runs; at the paper's size one run, too, and of one model two. |
# | No optimiser and no length is named for Figure 1, only "the minimum training loss possible". | Adam, and the last epoch counts, for nothing regularises; the length decides how near $W$ comes, see above. |
# | Tying removes the output bias. | None of our small models has one; at the paper's size the untied ones have. |

# %% [markdown]
# ## When not to use it
#
# - **Tying** needs a context as wide as a word vector. A model whose hidden size differs needs a
#   map between them, which is the $A$ of the theory made explicit.
# - Do not tie where the two jobs differ: input and output in different languages without a shared
#   vocabulary, or an output that is not text.
# - In a very large model the word matrix is a small share of the parameters and tying saves little.
# - **The augmented loss** costs a fourth product with a word matrix, beside the three of each step. It
#   needs a temperature and a weight, and pays, if at all, where data are few.
# - Neither is a remedy for the cone.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $E$, $e_i$ | `model.words`, `E` | input matrix, its row for word $i$ |
# | $W$, $w_i$ | `model.output_layer.words`, `W` | output matrix; the same object when tied |
# | $N$, $d$ | `len(corpus)`, `experiment("tied").size` | words, dimensions |
# | $h$, $l = Wh$ | `hidden`, `logits` | context, logits |
# | $y$, $e_y$ | `y`, `E[y]` | target, its vector |
# | $\tau$ | `temperature`, `tau` | temperature |
# | $\tilde y$, $\hat y$ | `soft`, `predicted` | soft target and softened prediction |
# | $s = E e_y$ | `soft_logits` | logits of the soft target |
# | $\alpha = \gamma\tau$ | `weight` | weight of the augmented loss; $\gamma$ is its ratio to $\tau$ |
# | $\beta$ | `objectives` of the plan | share of the augmented loss in Figure 1, weight $\beta\tau^2$ |
# | $c$ | `reach` | reach of the target's vector along the context, $h^\top w_y/h^\top h$ |
# | $A$ | `theory.zero_loss_map`, `theory.tying_map` | the map with $W = EA$ |

# %% [markdown]
# ## Exercises
#
# ### 1. Centre first
# Adding the same vector to all rows of $W$ changes no probability, but it can turn the column space
# of $W$. Compute the distance of the two LSTMs' matrices (`pairs`) again after subtracting the mean
# row from both. Is the augmented loss better at its job than Figure 1 says? Assign the two distances
# to `centred`, a dict `{0: …, 1: …}` from $\beta$ to the distance of $W$ from $E$.
#
# <details><summary>Hint</summary>
#
# `pairs[1][1].model` is the model trained with $\beta = 1$; `.words.matrix()` reads and
# `.output_layer.words.matrix()` predicts.
#
# </details>
# <details><summary>Second hint</summary>
#
# A common vector adds one direction to the column space: that of $(1, 1, \dots, 1)$. One wrong
# direction of $d$ costs up to $1/\sqrt d$.
#
# </details>
# <details><summary>Third hint</summary>
#
# `subspaces.subspace_distance(W - W.mean(0), E - E.mean(0))`. Look also at
# `subspaces.principal_angles` before and after: how many angles are large?
#
# </details>

# %% tags=["exercise"]
centred = None  # {0: the distance at β = 0, 1: at β = 1}, both centred


# %%
def apart_again(found):
    """Whether these are the distances of the centred matrices."""
    for β, (_, run) in pairs.items():
        both = run.model.words, run.model.output_layer.words
        E, W = (words.matrix().detach() for words in both)
        plain = subspaces.subspace_distance(W, E)
        away = subspaces.subspace_distance(W - W.mean(0), E - E.mean(0))
        if not np.isclose(found[β], away, rtol=1e-3):
            if np.isclose(found[β], plain, rtol=1e-3):
                return "these are the matrices as they are, not centred"
            return f"at β = {β} it is another; both have a mean row"
    return True


check("05.1", centred, apart_again)

# %% [markdown]
# ### 2. Is it the meaning or the smoothing?
# At $\tau = 20$ the soft target is nearly flat. Does it matter *which* word gets the little extra?
# Write a loss like the augmented one in which similar words are no longer similar: the target keeps
# its entry of $E e_y$, and the entries of the other words are shuffled, in the same way in every
# step. Assign its class to `shuffled`; like `AugmentedLoss` it is called with a weight and a
# temperature, and it takes any number of words. Then train the tied model with it, and compare.
#
# <details><summary>Hint</summary>
#
# Shuffling must keep the target the likeliest word of its own soft target, or the loss contradicts
# the cross-entropy. Shuffle the *other* entries.
#
# </details>
# <details><summary>Second hint</summary>
#
# Subclass `AugmentedLoss` and set `block.soft_logits` in `__call__` to entries of itself in another
# order. A fixed permutation of all words moves one wrong word into the target's place: exchange the
# two (`gather`, `scatter`).
#
# </details>
# <details><summary>Third hint</summary>
#
# Enter it among the losses, `from course_lab import parts` and
# `parts.KINDS["objective"] += (shuffled,)`. Then `part = course_lab.part` and
# `experiment("tied").change(objectives=(part("CrossEntropy"), part(shuffled.__name__, weight=13.0,
# temperature=20.0)))`, run as in `trained`. Use three seeds and `statistics.welch`.
#
# </details>

# %% tags=["exercise"]
shuffled = None  # a class: shuffled(weight, temperature) is the loss


# %%
def seen_targets(loss, y):
    """Logits of the soft target of a loss, the word's own made 0."""
    draw = dict(generator=torch.Generator().manual_seed(SEED))
    E = torch.randn(50, 8, **draw).double()
    layer = Softmax(FullWords(50, 50), bias=False).double()
    layer.words.weight.data = torch.eye(50).double()  # logits as contexts
    l = torch.zeros(5, 50).double().requires_grad_()  # noqa: E741
    value, _ = layer(l, y, loss, (E[y], E))
    (slope,) = torch.autograd.grad(5 * value, l)
    s = 3 * (1 / 50 - 3 * slope).log()  # τ = 3: the slope is (ŷ − ỹ) / τ
    return s - s.gather(1, y[:, None])


# %%
def only_shuffled(loss):
    """Whether a loss has the augmented one's targets in another order."""
    one, y = loss(1.0, 3.0), torch.arange(5)
    plain = seen_targets(AugmentedLoss(1.0, 3.0), y)
    s, again = seen_targets(one, y), seen_targets(one, y.flip(0)).flip(0)
    if not s.sort().values.allclose(plain.sort().values):
        return "its entries, less the target's own, are not those of E e_y"
    if not s.allclose(again):
        return "a word's target is not always shuffled in the same way"
    if (s - plain).abs().lt(1e-9).double().mean() > 0.3:
        return "most words still have their own entry"
    return True


check("05.2", shuffled, only_shuffled)

# %% [markdown]
# ### 3. Fewer *a*, *an*, *the* and `<unk>`?
# The paper reports that its model, tied and with the augmented loss, gives less probability to
# `<unk>` and to very frequent words. Compute how much these four words get *together*, on average
# over the positions of the test text, from `live["untied"]`, `live["tied"]` and
# `trained("tied-augmented")`. Assign the first two to `given`, a dict from the name to a
# probability, and judge the third yourself.
#
# <details><summary>Hint</summary>
#
# `log_prob_blocks(model, corpus.test, corpus.eos)` yields log P, a row for every position, block by
# block, as in [lesson 4](04_softmax_bottleneck.ipynb); `corpus.index["the"]` is a column.
#
# </details>
# <details><summary>Second hint</summary>
#
# Compare with the share that each word really has in the test text. A model whose probability is
# lower may be better or worse calibrated.
#
# </details>

# %% tags=["exercise"]
given = None  # {"untied": mean probability of the four, "tied": …}


# %%
def share_of_four(found):
    """Whether the models give the four words these shares."""
    four = [corpus.index[word] for word in ("a", "an", "the", "<unk>")]
    of = dict(tokens=corpus.test, eos=corpus.eos, progress=False)
    for name, run in live.items():
        blocks = log_prob_blocks(run.model, **of)
        p = torch.cat([block[:, four].exp() for block in blocks]).mean(0)
        if np.isclose(found[name], p.mean().item(), rtol=0.02):
            return "this is the mean of one of the four, not their sum"
        if not np.isclose(found[name], p.sum().item(), rtol=0.02):
            return f"{name} is off: exp, sum of four words, mean of rows"
    return True


check("05.3", given, share_of_four)

# %% [markdown]
# ### 4. An open one: between tied and untied
# The theory says $W = EA$ with a free $d \times d$ matrix $A$. Tying sets $A$ to the identity and
# leaves the rest to the network. Build the model in between, with $A$ learned, and decide whether
# the extra $d^2$ parameters buy anything. What would a convincing comparison have to hold fixed?
#
# <details><summary>Hint</summary>
#
# $W h = E (A h)$: a linear layer behind the encoder is enough, and no word matrix changes.
#
# </details>
# <details><summary>Second hint</summary>
#
# An encoder that ends in a feed-forward block can already compute $Ah$. Try it with an encoder that
# cannot.
#
# </details>
# <details><summary>Third hint</summary>
#
# Same parameters, same tokens, same search over learning rates, at least three seeds; then
# `statistics.welch`.
#
# </details>

# %% [markdown]
# ## What we saw
#
# First what the best evidence of the repository says, wherever it was made. It is read from the kept
# results by the ledger of [notebook 30](30_leaderboard.ipynb), so that it changes when new runs are kept.

# %%
evidence_of = [
    "inan2017-tying", "inan2017-augmented", "inan2017-both",
    "inan2017-subspace", "inan2017-frequent-words",
]
display(Markdown(claims.conclusions(*evidence_of)))

# %% [markdown]
# Then what the small runs and sweeps of this lesson show. They are for the eye: they are made on a part of a
# text, and where they contradict the list above, the list counts.

# %%
gain, price = tests["tied: loss − none"], tests["untied − tied"]
saved = int(untied.parameters.iloc[0] - tied.parameters.iloc[0])
text = (
    f"In an untied model the rare words have a mean cosine of "
    f"{predict:.2f} in the matrix that predicts and {read:.2f} in the one "
    f"that reads: trained by Adam, the cone is where the model predicts, "
    f"tied or not. The "
    f"augmented loss alone takes the column spaces from a distance of "
    f"{across[0].mean:.2f} to {across[1].mean:.2f}, the way the theory "
    f"says and not as far as the paper. It changes the tied model's test "
    f"perplexity by {gain.difference:+.0f} [{gain.low:+.0f}, "
    f"{gain.high:+.0f}]; tying saves {saved:,} parameters, and after "
    f"these few steps the untied model is {-price.difference:.0f} ahead."
)

# %%
display(Markdown(f"{text}"))

# %% [markdown]
# ## References
#
# - H. Inan, K. Khosravi, R. Socher (2017). *Tying Word Vectors and Word Classifiers: A Loss
#   Framework for Language Modeling.* ICLR. [arXiv:1611.01462](https://arxiv.org/abs/1611.01462)
# - O. Press, L. Wolf (2017). *Using the Output Embedding to Improve Language Models.* EACL.
#   [arXiv:1608.05859](https://arxiv.org/abs/1608.05859)
# - G. Hinton, O. Vinyals, J. Dean (2015). *Distilling the Knowledge in a Neural Network.*
#   [arXiv:1503.02531](https://arxiv.org/abs/1503.02531)
# - Å. Björck, G. H. Golub (1973). *Numerical Methods for Computing Angles Between Linear
#   Subspaces.* Mathematics of Computation 27.
#   [doi:10.1090/S0025-5718-1973-0348991-3](https://doi.org/10.1090/S0025-5718-1973-0348991-3)
# - J. Gao, D. He, X. Tan, T. Qin, L. Wang, T.-Y. Liu (2019). *Representation Degeneration Problem
#   in Training Natural Language Generation Models.* ICLR.
#   [arXiv:1907.12009](https://arxiv.org/abs/1907.12009)
