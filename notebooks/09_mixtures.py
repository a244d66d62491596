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
# # Mixtures: several softmaxes instead of one
#
# **Question.** A mixture of softmaxes escapes the softmax bottleneck. If it predicts better, is that why?
#
# ![A language model from left to right: matrix E reads words, encoder, context h, matrix W predicts words, softmax. An arc ties E and W. In colour: h and softmax. Several contexts give several softmaxes, which are mixed.](images/09_model.svg)

# %% [markdown]
# ## What you will learn
#
# - to see in a triangle what one softmax cannot say and a mixture of two can;
# - to derive why the log-probabilities of a mixture leave the subspace of lesson 4, and how the
#   gradient divides the words among the components;
# - to look into a trained mixture: which component predicts what, and how much they differ;
# - to separate three explanations of its success, rank, parameters and regularisation, by three
#   controls: a mixture of contexts, a wider softmax, dropout;
# - to say what a mixture costs, and when a wider softmax is the better purchase.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 4](04_softmax_bottleneck.ipynb): the bound on the rank of log P, Press'
# rank and the effective rank. [Lesson 2](02_degeneration.ipynb) for the shape of a word matrix.
#
# | profile | minutes | runs on | what is trained before your eyes |
# |---|---|---|---|
# | smoke | 0.3 | any CPU | two Transformers on 6,000 tokens |
# | quick | 1.5 | two CPU cores | two small Transformers on 20,000 tokens |
# | standard | 15 | two CPU cores | two Transformers on 600,000 tokens, 10,000 words |
# | full | 20 | one GPU | the same on the whole corpus, five times |
#
# On Google Colab, run this in a first cell and restart the session:
#
# `%pip install -q -c https://raw.githubusercontent.com/output-embedding-course/output-embedding-course/main/constraints.txt -e "git+https://github.com/output-embedding-course/output-embedding-course#egg=course-lib"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
SEED = 1  # of the models and of every random draw below

# %%
import inspect
import tempfile

import numpy as np
import pandas as pd
import torch
from IPython.display import Code, Markdown, display

import course_lab
from course_lab import claims, corpora, plans, plots, published, statistics
from course_lab.cost import encoder_macs, output_macs
from course_lib import data
from course_lib.evaluation.log_prob import log_prob_blocks
from course_lib.metrics import geometry, rank

plan = plans.read_plan("lessons-09")  # the committed runs, see below

# %%
from course_lib.output_layers import (
    FullWords,
    MixtureOfContexts,
    MixtureOfSoftmaxes,
    Softmax,
)
from course_lib.progress import check

# %% [markdown]
# Where a number below comes from *live* training it is made in this notebook, once. Comparisons
# come from runs with three seeds that were made before and are *committed* with the course; each
# figure says which.

# %% [markdown]
# ## Predict
#
# 1. A softmax over contexts of **one** number has a log P of rank 2 at most (no bias). Mix two such
#    softmaxes, $P = \pi_1 P_1 + \pi_2 P_2$. What can the rank of $\log P$ be now?
# 2. A *mixture of contexts* has exactly the same parameters, but averages the two contexts before
#    one softmax. Its rank is bounded as before. Will it predict worse than the mixture of softmaxes?
# 3. Dropout makes the rank of log P smaller. Is that a reason to leave it out?

# %% [markdown]
# ## The idea in one picture
#
# Three words: *cold*, *warm*, *hot*. A context is one number $h$, a temperature; the word vectors
# are $-1, 0, 1$, and *warm* has a small bias, as the most common of the three. Every distribution
# over three words is a point in a triangle, and as $h$ runs from
# $-\infty$ to $\infty$ the softmax draws a **curve** from the corner *cold* past *warm* to *hot*.
#
# Now let the text be "the tap gives only two kinds of water, …": cold or hot, not warm. No $h$
# says that. Wherever *cold* and *hot* are equally likely, *warm* is likelier than both. A mixture
# of two softmaxes takes two points of the curve and goes along the **chord** between them. Averaging
# the two contexts instead stays on the curve, and lands on *warm*.

# %%
vectors, bias = torch.tensor([-1.0, 0, 1]), torch.tensor([0, 0.5, 0])


def one_softmax(h):
    """Contexts (n,) → probabilities (n, 3) of cold, warm, hot."""
    return (h[:, None] * vectors + bias).softmax(-1)


curve = one_softmax(torch.linspace(-7, 7, 200))
cold, hot = ends = one_softmax(torch.tensor([-3.0, 3.0]))
share = torch.linspace(0, 1, 60)[:, None]  # π₁
chord = share * cold + (1 - share) * hot
of_softmaxes = ends.mean(0, keepdim=True)
of_contexts = one_softmax(torch.zeros(1))

# %%
corners = torch.tensor([[0, 0], [0.5, 0.75**0.5], [1, 0]])


def in_triangle(P):
    return (P @ corners).T


def log_ratios(P):
    """log P(cold)/P(warm) and log P(hot)/P(warm)."""
    return (P[:, [0, 2]] / P[:, [1]]).log().T


# %%
figure, axes = plots.panels(1, 2, height=3.9)
axes[0].plot(*corners[[0, 1, 2, 0]].T, color=plots.INK, linewidth=1)
for corner, name in zip(corners, ["cold", "warm", "hot"], strict=True):
    above = (0, 6 if corner[1] else -16)
    axes[0].annotate(name, corner, above, textcoords="offset points",
                     ha="center")  # fmt: skip

# %%
ways = {"one softmax": curve, "mixture of two": chord}
points = {"mean of softmaxes": of_softmaxes}
points["mean of contexts"] = of_contexts
for ax, place in zip(axes, [in_triangle, log_ratios], strict=True):
    for i, (name, P) in enumerate(ways.items()):
        ax.plot(*place(P), label=name, color=plots.COLOURS[i],
                linestyle=plots.LINES[i])  # fmt: skip
    ax.plot(*place(ends), "o", color=plots.INK, markersize=6)
    for i, (name, P) in enumerate(points.items(), start=2):
        ax.plot(*place(P), plots.MARKERS[i], label=name, markersize=9,
                color=plots.COLOURS[(1, 0)[i - 2]])  # fmt: skip
axes[0].set(title="probabilities", aspect="equal", ylim=(-0.15, 1.05))
_ = axes[0].axis("off")

# %%
axes[1].set(title="log-probabilities", xlim=(-5, 5), ylim=(-5, 5))
axes[1].set(xlabel="log cold / warm", ylabel="log hot / warm")
handles, names = axes[1].get_legend_handles_labels()
figure.legend(handles, names, loc="outside lower center", ncols=2)
warm = of_softmaxes[0, 1].item(), of_contexts[0, 1].item()
plots.show(
    figure,
    alt="Left: a triangle with corners cold, warm and hot. The softmax "
    "draws a curve from cold past warm to hot; the mixture is the "
    "straight chord between two of its points, where warm has "
    f"{warm[0]:.2f}; the mean of the contexts lies on the curve, where "
    f"warm has {warm[1]:.2f}. Right: in log-ratios the softmax is a "
    "straight line and the mixture an arc away from it.",
)

# %% [markdown]
# In log-probabilities the two change places. The softmax, whose log-ratios
# $\log p_i/p_j = (w_i - w_j)^\top h + b_i - b_j$ are linear in $h$, draws a **straight line**: the
# subspace of lesson 4, of $d = 1$ dimension. The chord becomes an **arc** that leaves it. Chang and
# McCallum (2022) found the same with word vectors of GPT-2: when the likely words have other words
# between them, one context cannot serve them all.

# %% [markdown]
# ## The mixture
#
# Write $h$ for what the encoder hands over and $K$ for the number of **components**. Yang et al.
# (2018) compute $K$ contexts and $K$ weights from it, with parameters $U_k, c_k, Q$, and share one
# word matrix $W$:
#
# $$h_k = \tanh(U_k h + c_k), \qquad \pi = \mathrm{softmax}(Q h), \qquad
# P(y\mid h) = \sum_{k=1}^K \pi_k\,\frac{e^{w_y^\top h_k}}{Z_k},\quad Z_k=\sum_j e^{w_j^\top h_k}.$$
#
# This is the **mixture of softmaxes, MoS**. The **mixture of contexts, MoC**, is its control:
#
# $$P(y\mid h) \propto \exp\Big(w_y^\top \sum_k \pi_k h_k\Big).$$
#
# It has the same parameters in the same places, and is one softmax: the bound of lesson 4 holds.
#
# **Why the bound is gone.** Take $K = 2$ and draw the first component out of the sum:
# $\pi_1 P_1 + \pi_2 P_2 = \pi_1 P_1\,(1 + \pi_2 P_2 / \pi_1 P_1)$. With $l_{k} = W h_k$,
# $\rho = \log\frac{\pi_2 Z_1}{\pi_1 Z_2}$, a number of the context, and
# $\mathrm{softplus}(x) = \log(1 + e^x)$,
#
# $$\log P_y = \underbrace{l_{1y} + \log\pi_1 - \log Z_1}_{\text{one softmax: rank} \le d+1}
#   + \underbrace{\log\big(1 + e^{\,l_{2y}-l_{1y}+\rho}\big)}_{\text{softplus of a matrix of rank} \le d + 1}.$$
#
# The second matrix is bent *entry by entry*, and bending entries respects no rank. (Lesson 10 bends
# the logits by hand, with no mixture at all.) With $d = 1$, 200 contexts and 50 words:

# %%
# NBVAL_CHECK_OUTPUT
_ = torch.manual_seed(1)
words = FullWords(50, 1, init=1.0, normal=True)
contexts = 2 * torch.randn(200, 1).double()
layers = {
    "softmax": Softmax(words, bias=False),
    "MoC, K = 2": MixtureOfContexts(words, bias=False, components=2),
    "MoS, K = 2": MixtureOfSoftmaxes(words, bias=False, components=2),
}
small = {
    n: layer.double().log_prob(contexts) for n, layer in layers.items()
}
ranks = {n: int(torch.linalg.matrix_rank(p)) for n, p in small.items()}
for name, found in ranks.items():
    print(f"{name:10}  rank of log P at most d + 1 = 2: {found <= 2}")

# %%
values = torch.linalg.svdvals(small["MoS, K = 2"])
print("rank of log P:", ranks)
shares = (values / values[0])[:8].tolist()
print("MoS, σ/σ₁:", ", ".join(f"{s:.0e}" for s in shares))

# %% [markdown]
# From 2 to as many directions as double precision can tell apart. But read the last line too: each
# direction is several times smaller than the one before. A high rank is cheap; it says nothing
# about how *much* of log P lies outside the subspace.

# %%
# NBVAL_CHECK_OUTPUT
mos = layers["MoS, K = 2"]
(h, log_pi), Wt = mos.contexts(contexts), words.matrix().T
l1, l2 = h[:, 0] @ Wt, h[:, 1] @ Wt
log_Z = torch.stack([l1, l2]).logsumexp(-1)
ratio = log_pi[:, 1] - log_pi[:, 0] + log_Z[0] - log_Z[1]
first = l1 + (log_pi[:, 0] - log_Z[0])[:, None]
bent = torch.nn.functional.softplus(l2 - l1 + ratio[:, None])
same = torch.allclose(first + bent, small["MoS, K = 2"])
print("one softmax plus a softplus is the mixture:", same)

# %% [markdown]
# ## The code
#
# Of the four hooks that an output layer may change (see the how-to page on methods), a mixture
# changes one: what the contexts are. In training some of the entries of the $h_k$ may be dropped,
# the same ones at all positions of a sequence; the paper calls it *latent* dropout.

# %% tags=["hide-input"]
for function in (MixtureOfSoftmaxes.contexts, MixtureOfContexts.contexts):
    source = inspect.getsource(function)
    display(Code(inspect.cleandoc("\n" + source), language="python"))

# %% [markdown]
# Everything after it stays in logarithms,
#
# $$\log P = \operatorname{logsumexp}_k(\log\pi_k + \operatorname{log\,softmax}(W h_k)),$$
#
# so that a word whose probability underflows in every component keeps a finite loss.

# %% tags=["hide-input"]
source = inspect.getsource(MixtureOfSoftmaxes.log_prob)
display(Code(inspect.cleandoc("\n" + source), language="python"))

# %% [markdown]
# ## Who learns from a word?
#
# Let $y$ be the word that came and $P_k$ the distribution of component $k$. The share of $P(y)$
# that component $k$ provided is its **responsibility**,
#
# $$r_k = \frac{\pi_k P_k(y)}{\sum_m \pi_m P_m(y)}, \qquad \sum_k r_k = 1.$$
#
# Differentiate
#
# $$-\log P(y) = -\log\sum_k \exp(\log\pi_k + \log P_k(y)).$$
#
# A logsumexp passes its gradient on in the proportions of its terms, which are the $r_k$. So component $k$ receives $r_k$
# times the gradient of a softmax of its own (lesson 1), and the scores $Qh$ are drawn from $\pi$
# towards $r$:
#
# $$\frac{\partial(-\log P(y))}{\partial l_k} = r_k\,(P_k - e_y), \qquad
#   \frac{\partial(-\log P(y))}{\partial (Qh)} = \pi - r,$$
#
# $e_y$ being the vector with a one at $y$. The component that provided most of $P(y)$ has the largest
# share in learning from it; and every component that gave $y$ more than the mixture did, $P_k(y) >
# P(y)$, has $r_k > \pi_k$ and is asked more often next time. Nothing tells the components to differ;
# this feedback can make the small differences of their random start grow, as in expectation
# maximisation. Autograd agrees:

# %%
# NBVAL_CHECK_OUTPUT
scores = torch.randn(6, 3).double().requires_grad_()  # Qh: 6 positions
l = torch.randn(6, 3, 20).double().requires_grad_()  # noqa: E741
y, at = torch.arange(6), torch.arange(6)
P_k = l.softmax(-1)
joint = scores.log_softmax(-1) + P_k[at, :, y].log()
joint.logsumexp(-1).neg().sum().backward()
r, pi = joint.softmax(-1), scores.softmax(-1)
e_y = torch.nn.functional.one_hot(y, 20)[:, None]
print("logits:", torch.allclose(l.grad, r[..., None] * (P_k - e_y)))
print("scores:", torch.allclose(scores.grad, pi - r))

# %% [markdown]
# ## A language that is a mixture
#
# [Lesson 4](04_softmax_bottleneck.ipynb) fitted a language whose truth *is* a mixture of four
# softmaxes (200 words, 80 contexts, $d = 12$, rank 80), and a mixture of four came closer than one
# softmax of the same $d$. It had been given an $h$ with room for all its contexts. In a language model
# all $h_k$ are made of one $h$, and if that has only $d$ numbers, four contexts of $d$ numbers each
# cannot be chosen freely. What is left of the gain then? We compare three layers:
#
# - one softmax;
# - the mixture as it is built, all contexts from one $h$ of $d$ numbers;
# - a **free** mixture: for each of the 80 contexts of the language four vectors $h_k$ and four
#   weights $\pi_k$ of its own, whatever they like, as if an encoder of any width had made them.
#
# As in lesson 4 we minimise the expected cross-entropy, so that the **excess** over the entropy of
# the language is due to the model, and to the optimiser, alone. Three random starts each.

# %%
options = dict(N=200, d=12, states=80, tokens=1000, seed=SEED)
truth = corpora.load("zipf", components=4, **options).truth
P, states = truth.matrix.exp().float(), truth.stationary.float()
STEPS = 20 if PROFILE == "smoke" else 300


# %%
def excess(log_prob, learned, rate=0.05):
    """Expected cross-entropy above the entropy; numbers learned."""
    adam = torch.optim.Adam(learned, lr=rate)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(adam, STEPS)
    for _ in range(STEPS):
        loss = -(states @ (P * log_prob()).sum(1))
        adam.zero_grad()
        loss.backward()
        adam.step(), decay.step()
    return loss.item() - truth.entropy, sum(p.numel() for p in learned)


# %%
def one_context(kind, d, **options):
    """A layer of the library on one h of d numbers for each context."""
    layer = kind(FullWords(200, d, init=0.5, normal=True), **options)
    H = torch.randn(80, d, requires_grad=True)
    return excess(lambda: layer.log_prob(H), [H, *layer.parameters()])


# %%
def free_mixture(d, start=None, rate=0.05):
    """W, b, contexts and weights of their own for each context."""
    if start is None:
        W, H = 0.5 * torch.randn(200, d), torch.randn(80, 4, d)
        start = W, torch.zeros(200), H, torch.zeros(80, 4)
    learned = W, b, H, q = [p.clone().requires_grad_() for p in start]

    def log_prob():
        weights = q.log_softmax(-1)[..., None]
        return (weights + (H @ W.T + b).log_softmax(-1)).logsumexp(1)

    return excess(log_prob, learned, rate)


# %%
def mixture(d):
    return one_context(MixtureOfSoftmaxes, d, components=4)


makers = {
    "softmax": (lambda d: one_context(Softmax, d), [4, 8, 12, 16, 24]),
    "MoS, one h": (mixture, [4, 8, 12]),
    "MoS, free": (free_mixture, [4, 8, 12]),
}

# %%
fits = []
for name, (make, sizes) in makers.items():
    for d in sizes:
        for seed in range(1 if PROFILE == "smoke" else 3):
            torch.manual_seed(seed)
            fits.append((name, d, *make(d)))
fits = pd.DataFrame(fits, columns=["layer", "d", "excess", "numbers"])
shown = fits.pivot_table("excess", "layer", "d")
shown.map("{:.3f}".format).replace("nan", "")

# %%
figure, axes = plots.panels(1, 2, height=4.2, sharey=True)
fitted = fits.groupby(["layer", "d"])[["excess", "numbers"]].mean()
for ax, by in zip(axes, ["d", "numbers learned, thousands"], strict=True):
    curves = {}
    for name in makers:
        x = fitted.loc[name].numbers / 1000
        x = fitted.loc[name].index if by == "d" else x
        curves[name] = (np.array(x), fitted.loc[name].excess.values)
    plots.lines(curves, by, "", log="y", ax=ax)
axes[1].legend_.remove()
_ = axes[0].set_ylabel("excess, nats a word")

# %%
at = fitted.excess.unstack().min(axis=1)
at12 = fitted.excess.xs(12, level="d")
plots.show(
    figure,
    alt="Excess over the entropy, logarithmic, left against d, right "
    "against the numbers learned. At d = 12 the softmax has "
    f"{at12['softmax']:.3f} nats, the mixture on one h "
    f"{at12['MoS, one h']:.3f}, the free mixture {at12['MoS, free']:.3f}. "
    "Against the numbers learned no mixture lies below the softmax.",
)

# %% [markdown]
# At equal $d$ the mixture is well ahead with contexts of its own, and gains next to nothing with one
# $h$ of $d$ numbers. But two layers with the same $d$ do not cost the same. A softmax that learns as many
# *numbers* as the free mixture is wider, and the mixture is no better than this softmax, on a language made
# for the mixture.
#
# Could it be better? Start at the truth, with every number disturbed a little:

# %%
exact = (truth.word_matrix, truth.bias, truth.contexts, truth.log_weights)
torch.manual_seed(SEED)
near = [p.float() + 0.3 * torch.randn(p.shape) for p in exact]
from_truth, _ = free_mixture(12, near, rate=0.02)
display(
    Markdown(
        f"Excess from near the truth: **{from_truth:.4f}** nats; from "
        f"random starts: {at12['MoS, free']:.4f}."
    )
)

# %% [markdown]
# So the truth is a mixture, the mixture can say it, and from a random start the optimiser does not
# find it in the steps it has. Mixtures are known for losses with many valleys; whether it was that or
# lack of time, these runs do not tell. Expressiveness, which the rank is about, is one thing; what
# training makes of it is another.

# %% [markdown]
# ## With and without, live
#
# Now text. A small Transformer learns the docstrings twice, with one softmax and with a mixture of
# four; everything else is equal. The committed runs below use the same settings.

# %%
LEVEL = {"standard": "quick", "full": "standard"}  # sizes of the recipes


# %%
def settings(recipe):
    """The first run of a recipe in the plan; else the recipe itself."""
    name = f"docstrings/transformer-128/{recipe}"
    if PROFILE in LEVEL:
        whole = course_lab.recipes[name]
        return course_lab.profile(whole, LEVEL[PROFILE], SEED)
    first = next(p for p in plan.runs if p.recipe == name).experiment()
    if PROFILE == "smoke":
        small = dict(train=6_000, valid=1_500, test=1_500, words=1_000)
        first = first.change(corpus={"small": small})
        first = first.change(optimisation={"epochs": 1})
    return first.change(seed=SEED, variant="live")


# %%
live = {}
for name, recipe in {"softmax": "tied", "MoS": "mos"}.items():
    with tempfile.TemporaryDirectory() as folder:
        live[name] = course_lab.run(
            settings(recipe), folder=folder, progress=False
        )
corpus, d = live["MoS"].corpus, live["MoS"].experiment.size
K = live["MoS"].model.output_layer.components

# %%
shown = ["parameters", "valid_perplexity", "test_perplexity"]
lines = {
    name: [f"{run.metrics[shown[0]]:,}"]
    + [f"{run.metrics[k]:.1f}" for k in shown[1:]]
    for name, run in live.items()
}
pd.DataFrame(lines, index=[k.replace("_", " ") for k in shown]).T

# %% [markdown]
# One run each: no verdict yet. First the spectrum of log P on test contexts, as in lesson 4.

# %%
spectra = {}
for name, run in live.items():
    blocks = log_prob_blocks(
        run.model, corpus.test, corpus.eos, contexts=4_000, progress=False
    )
    spectra[name] = rank.spectrum(blocks)
curves = {n: s.singular_values / s.singular_values[0]
          for n, s in spectra.items()}  # fmt: skip
figure = plots.lines(curves, "k", "σₖ / σ₁", log="xy")
axes = figure.axes[0]
axes.axvline(d + 1, color=plots.INK, linestyle=":")
axes.annotate(f"d + 1 = {d + 1}", (d + 1, 0.2), (5, 0),
              textcoords="offset points")  # fmt: skip
_ = axes.set_ylim(1e-8, 2)

# %%
plots.show(
    figure,
    alt="Singular values of log P divided by the largest, both axes "
    f"logarithmic. Both curves begin alike; at d + 1 = {d + 1} that of "
    "the softmax drops to the level of rounding, that of the mixture "
    "goes on falling smoothly to the end.",
)

# %%
lines = {
    name: {
        "Press' rank": s.press_rank(),
        **{f"effective, ε = {e:g}": s.effective_rank(e)
           for e in (1e-3, 1e-4, 1e-5)},
    }
    for name, s in spectra.items()
}  # fmt: skip
pd.DataFrame(lines).T

# %%
# NBVAL_CHECK_OUTPUT
press = {name: s.press_rank() for name, s in spectra.items()}
print("softmax: Press' rank at most d + 1:", press["softmax"] <= d + 1)

# %% [markdown]
# The bottleneck is broken: the curve of the mixture passes $d + 1$ as if nothing were there. What
# lies beyond is small, though.
#
# ### The word matrix, before and after
#
# Does a mixture also heal the cone of lesson 2? Its word matrix receives the pushes of $K$ contexts
# instead of one.

# %%
untrained = live["MoS"].experiment.build(len(corpus)).words.matrix()
matrices = {"before training": untrained.detach()}
for name, run in live.items():
    matrices[name] = run.model.words.matrix().detach().cpu()
rarest = corpus.counts.argsort()[: len(corpus) // 5]
common = corpus.counts.argsort()[-len(corpus) // 5 :]
values = {n: geometry.singular_values(W) for n, W in matrices.items()}
shape = {
    name: {
        "σ₂/σ₁": values[name][1] / values[name][0],
        "mean cosine, rarest fifth": geometry.mean_cosine(W[rarest]),
        "most frequent fifth": geometry.mean_cosine(W[common]),
    }
    for name, W in matrices.items()
}

# %%
plots.show(
    plots.singular_values(values),
    alt="Singular values of the word matrix divided by the largest. "
    "Before training the curve is nearly flat; after it the softmax's "
    f"second is {shape['softmax']['σ₂/σ₁']:.2f} of its first, the "
    f"mixture's {shape['MoS']['σ₂/σ₁']:.2f}.",
)
pd.DataFrame(shape).T.round(2)

# %% [markdown]
# The cone is there in both (one run each, so no more than that can be said). Nothing in a mixture
# forbids it: its contexts, too, can lie on one side of the origin, and lesson 3 asked for no more.

# %% [markdown]
# ## Who predicts what
#
# Take the test text in pieces as long as in training and look at every position: the weights
# $\pi_k$, what each component gave to the word that came, and the responsibilities.


# %%
@torch.no_grad()
def look_inside(run, tokens):
    """Contexts h (n, d), targets (n,), log π (n, K), log P_k (n, K, N)."""
    length = run.experiment.optimisation.length
    rows = data.columns(tokens, len(tokens) // (length + 1))
    model, layer = run.model.eval(), run.model.output_layer
    h = model(rows[:-1].to(layer.words.weight.device)).hidden.flatten(0, 1)
    logits, log_pi = layer.logits(h)
    log_P = logits.log_softmax(-1)
    return h, rows[1:].flatten(), log_pi.cpu(), log_P.cpu()


# %%
h, y, log_pi, log_P = look_inside(live["MoS"], corpus.test[:4_000])
given = log_P[torch.arange(len(y)), :, y]  # log P_k(y), (n, K)
pi, r = log_pi.exp(), (log_pi + given).softmax(-1)


# %%
def perplexity(log_p):
    return log_p.mean().neg().exp().item()


with torch.no_grad():
    trained = live["MoS"].model.output_layer
    merged = pi.to(h)[:, None] @ trained.contexts(h)[0]
    scores = merged[:, 0] @ trained.words.matrix().T
    collapsed = scores.log_softmax(-1).cpu()[torch.arange(len(y)), y]
# %%
alone = {f"component {k + 1} alone": perplexity(given[:, k])
         for k in range(K)}  # fmt: skip
ways = {
    "the mixture": perplexity((log_pi + given).logsumexp(-1)),
    "equal weights": perplexity(given.logsumexp(-1) - np.log(K)),
    "one softmax of its mean context": perplexity(collapsed),
} | alone
pd.DataFrame(ways, index=["perplexity"]).T.round(1)

# %% [markdown]
# The rows below the first take something away from the mixture without training it anew: its
# weights, or all but one softmax of the mean context (what a MoC would make of these contexts), or
# all components but one. How much worse they are says how much the mixture uses its parts. Which
# words do the components answer for?

# %%
counts = torch.bincount(y, minlength=len(corpus))
top = counts.argsort(descending=True)[:24]
by_word = torch.stack([r[y == i].mean(0) for i in top])
figure, ax = plots.panels(height=2.6)
drawn = ax.imshow(by_word.T, aspect="auto", cmap="cividis", vmin=0)
names = [corpus.words[i] for i in top]
ax.set_xticks(range(len(top)), names, rotation=90, fontsize=10.5)
ax.set_yticks(range(K), range(1, K + 1))
ax.grid(False)
_ = ax.set(xlabel="word that came", ylabel="component")

# %%
figure.colorbar(drawn, ax=ax, label="responsibility")
best = by_word.max(1)
word = names[int(best.values.argmax())]
plots.show(
    figure,
    alt="Mean responsibility of each component for each of the 24 most "
    "frequent words. Some words belong to one component: "
    f"“{word}” comes from component "
    f"{by_word[names.index(word)].argmax() + 1} with "
    f"{best.values.max():.0%} of its probability.",
)

# %% [markdown]
# Two numbers sum up how the components are used. The **entropy of the weights**,
# $-\sum_k\pi_k\log\pi_k$, is between 0 (one component decides) and $\log K$ (all share alike). And
# the **mutual information** of component and word, what one would learn about the next word by
# being told which component is asked,
#
# $$I = \mathcal H\Big(\sum_k \pi_k P_k\Big) - \sum_k \pi_k\,\mathcal H(P_k) \ge 0,$$
#
# with $\mathcal H$ the entropy of a distribution over words: zero if all components say the same,
# and never more than the entropy of the weights.


# %%
def entropy(log_p):
    return -(log_p.exp() * log_p).sum(-1)


log_mix = (log_pi[..., None] + log_P).logsumexp(1)
weights = entropy(log_pi)
information = entropy(log_mix) - (pi * entropy(log_P)).sum(-1)
used = {
    "mean entropy of the weights": weights.mean().item(),
    "entropy of the mean weights": entropy(pi.mean(0).log()).item(),
    "the most there can be, log K": np.log(K),
    "mean mutual information": information.mean().item(),
}
pd.DataFrame(used, index=["nats"]).T.round(2)

# %%
# NBVAL_CHECK_OUTPUT
bounded = (information > -1e-4) & (information < weights + 1e-4)
print("0 ≤ I ≤ entropy of the weights:", bool(bounded.all()))

# %% [markdown]
# And here are three positions where the components disagree most: the last words of the context,
# the word that came, and of each component its weight and its three likeliest words.

# %%
length = live["MoS"].experiment.optimisation.length
text = data.columns(corpus.test[:4_000], 4_000 // (length + 1))
width = text.shape[1]
told, seen = [], set()
for n in information.argsort(descending=True).tolist():
    t, column = divmod(n, width)
    before = corpus.decode(text[max(0, t - 4) : t + 1, column])
    if t < 5 or "\n" in before or "<unk>" in before or len(told) == 3:
        continue
    if before.split()[-1] in seen:
        continue
    seen.add(before.split()[-1])
    told.append(n)


# %%
def guesses(n, k):
    """Component k at position n: its weight and three likeliest words."""
    likely = log_P[n, k].topk(3).indices
    return f"{pi[n, k]:.0%}: " + ", ".join(corpus.words[i] for i in likely)


rows = {}
for n in told:
    t, column = divmod(n, width)
    before = corpus.decode(text[t - 4 : t + 1, column])
    came = corpus.words[y[n]].replace("\n", "⏎")
    rows[f"… {before} → {came}"] = [guesses(n, k) for k in range(K)]
pd.DataFrame(rows, index=[f"component {k + 1}" for k in range(K)]).T

# %% [markdown]
# Here the components bet on partly different continuations, as in the triangle. Whether the words in
# between get little, and how often this happens, three positions do not tell; the mean mutual
# information says how much it amounts to over the whole text.

# %% [markdown]
# ## Is it the rank? Three controls
#
# From here on the numbers are committed: the runs of the plan `lessons-09`, three seeds each, of
# the size of the live ones in `quick` (20,000 tokens, 1,000 words, six epochs). Intervals are 95 %
# intervals of the mean: of a hundred such, each from new seeds, about 95 would hold the mean of all
# seeds there are. $p$ is the chance of a difference at least as large if there were none. Ranks are those of log P over the first contexts of the test text. The **gap** is the
# logarithm of test perplexity over training perplexity, in nats a word; training perplexity is the
# one that the training loop reports, with dropout on, as in the paper.


# %%
NAMES = {"MixtureOfSoftmaxes": "MoS", "MixtureOfContexts": "MoC"}
TIMES = ["device", "wall_seconds"]


# %%
def figures(planned):
    """A line of the table: settings and results of a run."""
    kept = course_lab.read_kept(planned.key)
    e, m = planned.experiment(), kept["metrics"]
    layer, options = e.output_layer.kind, e.output_layer.options
    train = kept["epochs"][m["best_epoch"] - 1]["train_perplexity"]
    return m["log_prob"] | m["geometry"] | {
        "layer": NAMES.get(layer, "softmax"), "d": e.size,
        "K": options.get("components", 1),
        "rate": e.optimisation.learning_rate,
        "dropout": options.get("dropout", e.output_dropout),
        "test": m["test_perplexity"], "valid": m["valid_perplexity"],
        "gap": np.log(m["test_perplexity"] / train),
        "parameters": m["parameters"], "work": work(e, m["log_prob"]),
    } | {name: kept["provenance"][name] for name in TIMES}  # fmt: skip


# %%
def work(e, log_prob):
    """Multiplications and additions for a word, forwards."""
    model = e.build(log_prob["words"])
    return encoder_macs(model, e) + output_macs(model, e)


table = pd.DataFrame([figures(planned) for planned in plan.runs])
table["effective"] = [ranks["0.0001"] for ranks in table.effective_rank]
minutes, device = table.wall_seconds.sum() / 60, table.device[0]
display(
    Markdown(
        f"{len(table)} runs, {minutes:.0f} minutes in all, of one core: "
        f"{device.split(',')[0]}."
    )
)

# %% [markdown]
# A comparison is worth as much as its baseline. Here is what was tried for each layer, and its
# perplexity on the *validation* text: a second learning rate, with one seed; and for the softmax
# and the mixture of softmaxes dropout of the contexts, for a mixture of each $h_k$, for a softmax
# of $h$. The rest is the mean of three seeds.

# %%
first_run = plan.runs[0].experiment()
width, RATE = first_run.size, first_run.optimisation.learning_rate
tuned = table[(table.d == width) & table.K.isin([1, 4])]
tuned = tuned[(tuned.layer == "softmax") | (tuned.K == 4)]
grid = tuned.groupby(["layer", "rate", "dropout"]).valid.mean()
grid.unstack("dropout").map("{:.1f}".format).replace("nan", "")


# %%
def pick(**wanted):
    """The runs with these settings."""
    return table[(table[list(wanted)] == pd.Series(wanted)).all(axis=1)]


def draw(runs, by, metric, label, ax, xlabel=None):
    """Seeds and intervals of one figure against one setting."""
    groups = {k: g[metric].tolist() for k, g in runs.groupby(by)}
    means = {k: statistics.mean_interval(v) for k, v in groups.items()}
    plots.seeds(groups, means, xlabel or by, label, ax=ax)
    ax.legend_.remove()
    return means


# %%
rows = published.rows()
rows = rows[rows.paper == "parthiban2021"]


def paper(tables, corpus, split="test"):
    """The paper's mixtures: a column for each metric, a row a setting."""
    found = rows[rows.table.isin(tables) & (rows.corpus == corpus)]
    found = found[(found.method == "mos") & (found.split == split)]
    found = found.pivot_table("value", "setting", "metric").reset_index()
    found["K"] = found.setting.str.extract(r"([\d.]+)$").astype(float)
    return found.sort_values("K")


# %% [markdown]
# ### More components

# %%
panels = {
    "test": "test perplexity",
    "gap": "gap, nats a word",
    "press_rank": "Press' rank",
    "effective": "effective rank, ε = 1e-4",
}

# %%
figure, axes = plots.panels(2, 2, height=3.0)
still = dict(rate=RATE, dropout=0.0)  # of the sweeps
mixtures, swept = pick(layer="MoS", d=width, **still), {}
for ax, (metric, label) in zip(axes.flat, panels.items(), strict=True):
    swept[metric] = draw(mixtures, "K", metric, label, ax, "components K")
    ax.set_xscale("log", base=2)
    ax.set_xticks(sorted(swept[metric]), sorted(swept[metric]))
axes[1, 0].axhline(width + 1, color=plots.INK, linestyle=":")
handles, names = axes[0, 0].get_legend_handles_labels()
_ = figure.legend(handles[-2:], names[-2:], loc="outside lower center",
              ncols=2)  # fmt: skip

# %%
first, most = min(swept["test"]), max(swept["test"])
plots.show(
    figure,
    alt="Four panels against the number of components, "
    f"{first} to {most}. Test perplexity goes from "
    f"{swept['test'][first].mean:.1f} to "
    f"{swept['test'][most].mean:.1f}, the gap from "
    f"{swept['gap'][first].mean:.2f} to {swept['gap'][most].mean:.2f}, "
    f"Press' rank from {swept['press_rank'][first].mean:.0f} to "
    f"{swept['press_rank'][most].mean:.0f}, the effective rank from "
    f"{swept['effective'][first].mean:.0f} to "
    f"{swept['effective'][most].mean:.0f}.",
)

# %%
by_K = {f"K = {k}": g.test.tolist() for k, g in mixtures.groupby("K")}
against = statistics.summary(by_K, "K = 1")
display(
    Markdown(
        "Test perplexity against K = 1: "
        + "; ".join(
            f"{name} {v.difference:+.1f} ({v['difference low']:+.1f} to "
            f"{v['difference high']:+.1f}), {v.verdict}"
            for name, v in against.iloc[1:].iterrows()
        )
        + "."
    )
)

# %%
theirs = paper(["S4"], "ptb", split="train").set_index("K").perplexity
tested = paper(["S4"], "ptb").set_index("K").perplexity
gaps = np.log(tested / theirs).sort_index()
display(
    Markdown(
        f"Published gap on Penn Treebank: {gaps.iloc[0]:.2f} nats with "
        f"K = {gaps.index[0]:.0f}, {gaps.iloc[-1]:.2f} with "
        f"K = {gaps.index[-1]:.0f}."
    )
)

# %% [markdown]
# The gap is where the paper sees the price of capacity: each component fits the training text a
# little better than the test text. Ours is about zero at every $K$, even below (a training
# perplexity is an average over an epoch, over weights that were worse at its start). But it is taken at
# the epoch that was best on the validation text, which is where the gap has hardly opened. So this part
# of the paper's figure does *not* show here; in runs that go on to the end it might.
#
# Press' rank leaps with the *second* component from $d + 1$ (dotted) to nearly the number of words,
# and has nowhere to go from there. The perplexity does not leap with it. In the paper both moved
# together, from $K = 1$ to 15, where with 10,000 words and an LSTM the rank filled up slowly; a
# correlation of two things that both change with $K$ says little about either. And the effective rank
# hardly moves at all: the directions that the mixture adds are real, and carry next to nothing.
#
# $K = 1$ deserves a second look. It is one softmax with a layer $\tanh(U_1 h + c_1)$ before it: the
# mixture's parameters begin here.

# %% [markdown]
# ### Control 1: the same parameters, no rank
#
# The mixture of contexts has every parameter of the mixture of softmaxes, and a rank of $d + 1$ at
# most. If rank were the reason, MoS should beat MoC; and most where the bottleneck is tightest. So
# compare them at two widths.

# %%
pairs = {}
figure, axes = plots.panels(1, 2, height=3.9)
for ax, size in zip(axes, sorted(table.d.unique())[:2], strict=True):
    runs = pick(d=size, **still)
    runs = runs[(runs.layer == "softmax") | (runs.K == 4)]
    means = draw(runs, "layer", "test", "", ax, f"d = {size}")
    both = [runs[runs.layer == kind].test for kind in ("MoS", "MoC")]
    pairs[size] = statistics.welch(*both)
    ax.set_xlabel(f"d = {size}")
_ = axes[0].set_ylabel("test perplexity")

# %%
told = "; ".join(
    f"at d = {size} by {p.difference:+.1f} ({p.low:+.1f} to {p.high:+.1f})"
    for size, p in pairs.items()
)
plots.show(
    figure,
    alt="Test perplexity, three seeds each, of the mixtures of contexts "
    "and of softmaxes at two widths, and of one softmax at the larger. "
    f"The mixture of softmaxes differs from that of contexts {told}.",
)

# %%
tight = pick(layer="MoS", K=4, d=min(pairs), **still).press_rank
display(
    Markdown(
        f"MoS minus MoC, perplexity with 95 % interval: {told}. Press' "
        f"rank of MoS at d = {min(pairs)}: {tight.min():.0f} to "
        f"{tight.max():.0f}."
    )
)

# %% [markdown]
# Read the intervals, not the means. Both include zero: *inconclusive*. At the smaller width the
# seeds lie far apart, all models are still improving when training ends, and the mixture of softmaxes
# has hardly passed $d + 1$: the sharper half of the prediction, most where the bottleneck is tightest,
# cannot be tested with these runs. At the larger one, where the rank leaps from tens to a thousand, the
# intervals above could hide a gain of two points of perplexity, and nothing larger. In the paper the same
# control came out *for* the mixture of
# softmaxes, clearly on the larger corpus (test perplexities of its supplement, one seed each, all
# with the same rule for when to begin averaging the weights, the *trigger*; the softmax has another
# width and other settings, see below):

# %%
tests = rows[(rows.metric == "perplexity") & (rows.split == "test")]
theirs = tests[tests.setting == "ET-ASGD authors' seed"]
theirs = theirs.pivot_table("value", "corpus", "method")
theirs[["softmax", "moc", "mos"]]

# %% [markdown]
# MoS and MoC share every setting there, so the number of parameters does not explain the difference.
# (Tuning might, in part: the settings are those chosen for MoS; and it is one seed each.) It is this
# comparison, not the one with the softmax, that speaks for the mixture of probabilities.

# %% [markdown]
# ### Control 2: rank without perplexity
#
# Parthiban et al. (2021) found a knob that turns the rank at fixed $K$: the dropout of the
# components' contexts. Here are its figures for Penn Treebank and WikiText-2, read off the table of
# their supplement, and ours.


# %%
figure, axes = plots.panels(1, 2, height=4.0)
for ax, corpus_name in zip(axes, ["ptb", "wikitext-2"], strict=True):
    curves = {}
    for name, tables in {"K": ["S4", "S5"], "dropout": ["S12"]}.items():
        found = paper(tables, corpus_name)
        curves[f"{name} = {', '.join(f'{x:g}' for x in found.K)}"] = (
            found["rank"].values, found.perplexity.values)  # fmt: skip
    plots.lines(curves, "Press' rank", "", title=corpus_name, ax=ax)
    ax.locator_params(axis="x", nbins=4)
_ = axes[0].set_ylabel("test perplexity")

# %%
wiki = paper(["S12"], "wikitext-2").sort_values("rank")
plots.show(
    figure,
    alt="Published test perplexity against Press' rank, left Penn "
    "Treebank, right WikiText-2. With more components the rank rises and "
    "the perplexity falls. With less dropout both rise: on "
    f"WikiText-2 the rank from {wiki['rank'].iloc[0]:,.0f} to "
    f"{wiki['rank'].iloc[-1]:,.0f}, the perplexity from "
    f"{wiki.perplexity.iloc[0]:.1f} to {wiki.perplexity.iloc[-1]:.1f}.",
)

# %%
figure, axes = plots.panels(2, 2, height=3.0)
dropped = {}
for row, layer in zip(axes.T, ["softmax", "MoS"], strict=True):
    runs = pick(layer=layer, d=width, rate=RATE)
    runs = runs[(layer == "softmax") | (runs.K == 4)]
    for ax, metric in zip(row, ["test", "effective"], strict=True):
        label = panels[metric] if layer == "softmax" else ""
        dropped[layer, metric] = draw(runs, "dropout", metric, label, ax)
        ax.set_xticks(sorted(runs.dropout.unique()))
    row[0].set(title=layer, xlabel="")
    row[1].set_xlabel("dropout of the contexts")

# %%
told = {}
for (layer, metric), means in dropped.items():
    first, *_, last = means.values()
    told[layer, metric] = f"{first.mean:.1f} to {last.mean:.1f}"
levels = sorted(table.dropout.unique())
plots.show(
    figure,
    alt="Test perplexity and effective rank against the dropout of the "
    f"contexts from {levels[0]:g} to {levels[-1]:g}. Softmax: perplexity "
    f"{told['softmax', 'test']}, rank {told['softmax', 'effective']}. "
    f"Mixture: perplexity {told['MoS', 'test']}, rank "
    f"{told['MoS', 'effective']}.",
)

# %% [markdown]
# In the published runs dropout is a knob that moves the rank one way and the perplexity the other:
# less dropout, higher rank, *worse* predictions. Why the rank rises when dropout is taken away these
# figures do not say; the predictions do not gain by it. In ours Press' rank is at its limit anyway
# ($d + 1$, or the number of words) and the effective rank takes its place. In the mixture of
# the figure it falls with dropout too, and the perplexity hardly moves. In the softmax the mean of the seeds falls as well, but
# their ranks overlap, and there it is the model *without* dropout that predicts better: not the paper's
# picture. What ours share with it is that the rank can be turned without a gain. So the third
# prediction: no, the rank is no reason. Whether dropout pays is a matter of perplexity alone.

# %% [markdown]
# ### Control 3: the same parameters or the same work, in one softmax
#
# A mixture adds parameters (the $U_k$) and work ($K$ logits for each word). Spend them elsewhere:
# a softmax with wider word vectors, once with as many parameters as the mixture, once with about as
# many operations. Of the settings that were tried for a layer the one that was best on the
# validation text counts; the widest softmax needed half the learning rate. The care was not the same:
# the mixture and the softmax of its width were tried with dropout of the contexts as well, the wider
# softmaxes and the mixture of contexts without any, which leans towards the mixture.


# %%
def at_best(layer, K, d):
    """The three runs of a layer that are best on validation text."""
    settings = pick(layer=layer, K=K, d=d).groupby(["rate", "dropout"])
    whole = [runs for _, runs in settings if len(runs) == 3]
    return min(whole, key=lambda runs: runs.valid.mean())


# %%
widths = sorted(table.d[table.d > width].unique())
rivals = {
    f"softmax, d = {width}": at_best("softmax", 1, width),
    f"MoS, K = 4, d = {width}": at_best("MoS", 4, width),
    f"MoC, K = 4, d = {width}": at_best("MoC", 4, width),
    **{f"softmax, d = {d}": at_best("softmax", 1, d) for d in widths},
}
perplexities = {name: runs.test.tolist() for name, runs in rivals.items()}
baseline = f"MoS, K = 4, d = {width}"
verdicts = statistics.summary(perplexities, baseline)

# %%
shown = verdicts[["mean", "low", "high", "difference", "p"]]
shown = shown.map("{:.2f}".format).replace("nan", "")
spent = {
    name: {"parameters": f"{runs.parameters.iloc[0]:,}",
           "products a word": f"{runs.work.iloc[0]:,.0f}"}
    for name, runs in rivals.items()
}  # fmt: skip
shown = pd.DataFrame(spent).T.join(shown)
shown["against MoS"] = verdicts.verdict
shown.sort_values("mean")

# %% [markdown]
# (*products a word*: multiplications for one predicted word, forwards; *low*, *high*: the interval
# of the mean; *difference*: in test perplexity, to the mixture; *p*: Welch's test, corrected for the
# number of comparisons; *inconclusive*: three seeds do not tell.)

# %%
figure, axes = plots.panels(1, 2, height=4.0, sharey=True)
more_components = [g for _, g in mixtures.groupby("K")]
wider_words = [at_best("softmax", 1, d) for d in [width, *widths]]
groups = {"softmax, wider": wider_words,
          "MoS, more components": more_components}  # fmt: skip

# %%
for ax, by in zip(axes, ["parameters", "work"], strict=True):
    curves = {
        name: (np.array([g[by].iloc[0] / 1000 for g in runs]),
               np.array([g.test.mean() for g in runs]))
        for name, runs in groups.items()
    }  # fmt: skip
    plots.lines(curves, f"{by}, thousands", "", ax=ax)
    for i, runs in enumerate(groups.values()):
        x = [g[by].iloc[0] / 1000 for g in runs]
        m = [statistics.mean_interval(g.test) for g in runs]
        ax.vlines(x, [v.low for v in m], [v.high for v in m],
                  color=plots.COLOURS[i], linewidth=1.2)  # fmt: skip
axes[0].set_ylabel("test perplexity")
axes[1].set_xlabel("products for a word, thousands")
_ = axes[1].legend_.remove()

# %%
costs = {n: r.work.iloc[0] / 1000 for n, r in rivals.items()}
wider = f"softmax, d = {widths[-1]}"
plots.show(
    figure,
    alt="Test perplexity with intervals, left against parameters, right "
    "against products for a word, for wider softmaxes and for mixtures of "
    f"more components. The mixture of four costs {costs[baseline]:.0f} "
    f"thousand products and reaches {verdicts['mean'][baseline]:.1f}; the "
    f"softmax with d = {widths[-1]} costs {costs[wider]:.0f} thousand and "
    f"reaches {verdicts['mean'][wider]:.1f}.",
)

# %% [markdown]
# In the figure above *nothing* is shown to pay: neither more components nor wider words reach a perplexity
# that is surely better than that of the cheapest layer. Perhaps the short text limits them all. Note how
# little parameters tell about work: the mixture adds few numbers and multiplies the whole word
# matrix $K$ times.

# %% [markdown]
# ### All runs of one width: rank against perplexity

# %%
figure, axes = plots.panels(1, 2, height=4.0, sharey=True)
found, these = {}, table[table.d == width]
for ax, rank_of in zip(axes, ["press_rank", "effective"], strict=True):
    for i, (layer, runs) in enumerate(these.groupby("layer")):
        dots = dict(color=plots.COLOURS[i], alpha=0.7, markersize=7)
        marker = plots.MARKERS[i]
        ax.plot(runs[rank_of], runs.test, marker, label=layer, **dots)
    x, y_ = these[[rank_of, "test"]].values.T
    found[rank_of] = statistics.pearson(x, np.log(y_))
    ax.set(xlabel=panels[rank_of])
axes[0].set_ylabel("test perplexity")
_ = axes[0].legend()

# %%
told = {k: f"{c.r:+.2f} ({c.low:+.2f} to {c.high:+.2f})"
        for k, c in found.items()}  # fmt: skip
plots.show(
    figure,
    alt=f"Every run with d = {width} as a dot: test perplexity against "
    "Press' rank and the effective rank, a marker for each kind of layer. "
    f"The correlations are {told['press_rank']} and {told['effective']}.",
)
display(
    Markdown(
        f"Correlation of the logarithm of perplexity with Press' rank: "
        f"**{told['press_rank']}**; with the effective rank: "
        f"**{told['effective']}** ({found['press_rank'].n} runs)."
    )
)

# %% [markdown]
# Two clusters, and within each of them the perplexity takes the same range of values. That is the
# paper's finding in one picture (the intervals are too narrow, since seeds of one setting are not
# unrelated runs; both hold 0 all the same): for these perplexities a high rank is neither necessary (the
# dots on the left) nor sufficient (those on the right). Whether it helps a little they cannot tell.

# %% [markdown]
# ## What it costs
#
# For every position a softmax multiplies one context with $N$ words. A mixture multiplies $K$, and
# then needs $K$ normalisers, $K N$ exponentials and, backwards, the same again. Nothing can be
# shared: each $Z_k$ is a sum over all words of its own. In memory the plain formula is worse still.
# Here it is for steps of 20 × 70 words, with the vocabularies of the paper:

# %%
shapes = {"ptb": (20 * 70, 10_000), "wikitext-2": (20 * 70, 33_278)}
timed = rows[rows.metric == "seconds-per-epoch"]
timed = timed.set_index(["corpus", "method"]).value
lines = {}
for name, (n, N) in shapes.items():
    lines[name] = {
        "logits of a step, softmax": f"{4 * n * N / 2**20:,.0f} MB",
        "logits of a step, K = 15": f"{4 * n * 15 * N / 2**20:,.0f} MB",
        "seconds an epoch, softmax": f"{timed[name, 'softmax']:.0f}",
        "seconds an epoch, MoS": f"{timed[name, 'mos']:.0f}",
    }
pd.DataFrame(lines)

# %% [markdown]
# (Positions of a step: 20 columns of 70 words. Times: Parthiban et al., on one V100; part of the
# factor is the smaller batch of the mixture.)
#
# The library never holds such a table. Its kernel walks over **blocks** of positions. A block's
# logits of all $K$ components are made in one piece of memory of a stated size, turned into their
# own gradient, added to the gradients of contexts and words, and overwritten by the next block. A
# mixture also has $K$ contexts for each position, so where these are many it walks over a few
# columns of the batch at a time. The work stays $K$ times that of a softmax; the memory does not.

# %%
# NBVAL_CHECK_OUTPUT
_ = torch.manual_seed(0)
layer = MixtureOfSoftmaxes(FullWords(500, 16), components=4).double()
hidden = torch.randn(35, 20, 16).double()
target = torch.randint(500, (35, 20))
loss, _ = layer(hidden, target)
loss.backward()
blockwise = layer.words.weight.grad.clone()
layer.words.weight.grad = None
plain = -layer.log_prob(hidden).gather(-1, target[..., None]).mean()
plain.backward()
same = torch.allclose(blockwise, layer.words.weight.grad)
print("a block may take, MB:", layer.scratch.limit // 2**20)
print("same loss:", torch.allclose(loss, plain), " same gradient:", same)

# %% [markdown]
# ## What the papers say and what their code does
#
# **The settings are not the same.** Yang et al. compare their mixture with AWD-LSTM as published,
# but give the mixture settings of its own. From the recipes, which follow the released codes:

# %%
both = ["softmax/nt-asgd", "mos", "softmax/equal-capacity",
        "mos/equal-capacity"]  # fmt: skip
lines = {}
for name in both:
    e = course_lab.recipes[f"ptb/awd-lstm/{name}"]
    units = e.encoder.options["units"]
    lines[name] = {
        "d": e.size,
        "units of the encoder": ", ".join(map(str, units)),
        "batch": e.optimisation.batch,
        "input dropout": e.encoder.options["input_dropout"],
    }
pd.DataFrame(lines).T

# %% [markdown]
# The encoder of the mixture ends in 620 numbers where $d = 280$: it has a wide $h$, as the mixture that
# fitted our synthetic language had. With the encoder's inner layers, the batch and the number of parameters
# equal ($d$ is 340 for the softmax, 280 for the mixture), and a search of the regularisation for both, Parthiban et al. find no difference any more (their
# Table 5). But mind the last row above: that mixture's $h$ has as many numbers as $d$. Its wide $h$ went
# with the extra parameters, so the comparison does not tell which of the two had helped.

# %%
table5 = rows[rows.table == "5"]
fair = table5[(table5.metric == "perplexity") & (table5.split == "test")]
p_value = table5[table5.metric == "p-value"].value.iloc[0]
averaged = tests[tests.table == "S10"]
averaged = averaged.set_index(["method", "setting"]).value
for _, line in fair.iterrows():
    print(f"{line.method:8} {line.value} ± {line.sd}  {line.setting}")
print("p =", p_value)

# %% [markdown]
# **The trigger.** These models end with averaged gradient descent (ASGD): predictions are made with
# the mean of the weights over the last epochs. When averaging starts is a setting too. Parthiban et
# al. start it at epoch 200 for all models (ET-ASGD) where earlier papers wait for a stall (NT-ASGD),
# and every model gains; a comparison across the two is worth nothing. Test perplexities:

# %%
triggers = ["NT-ASGD authors' seed", "ET-ASGD authors' seed"]
methods = ["softmax", "mos", "moc"]
pd.DataFrame(
    {t.split()[0]: [averaged[m, t] for m in methods] for t in triggers},
    index=methods,
)

# %% [markdown]
# **Logarithms.** The released code of Yang et al. adds $10^{-8}$ to the probabilities before the
# logarithm, in training and in evaluation. The sum over the vocabulary is then
# $1 + N\cdot10^{-8}$: no longer a distribution, and no word can cost more than
# $-\log 10^{-8} = 18.4$ nats. On our live mixture:

# %%
exact = log_mix[torch.arange(len(y)), y].double()
shifted = (exact.exp() + 1e-8).log()
worst = exact.min().neg().item()
display(
    Markdown(
        f"Perplexity {perplexity(exact):.4f} exactly, "
        f"{perplexity(shifted):.4f} with 1e-8 added; the least likely "
        f"word that came cost {worst:.1f} nats."
    )
)

# %% [markdown]
# Here it hardly matters. It may with a large vocabulary, with a text unlike the training text, and
# in a softmax that is to be compared and has no such floor.
#
# **Ours** differs from both papers: a Transformer in the place of an LSTM, no bias, no averaging,
# a thousand words. What carries over is how the comparison is made, not the perplexities.

# %% [markdown]
# ## When not to use it
#
# - **When the vocabulary is large.** With 50,000 words and a small encoder the output layer is most
#   of the work, and the mixture multiplies just that.
# - **When $d$ can be raised instead.** A wider softmax is the first rival to try, at equal
#   operations.
# - **When the word vectors are all you want.** Parthiban et al. find those of MoC better than those
#   of MoS on most benchmarks of word similarity; [notebook 32](32_word_similarity.ipynb) repeats it
#   and asks how much of that is chance.
# - It **may** be worth a try where $d$ is fixed and small, the encoder's output is wider than $d$ (exercise
#   4), and a few components do. Mixtape (Yang et al. 2019) cuts the cost with sigmoid trees; Chang and
#   McCallum (2022) mix only where the words in between are in the way.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $K$ | `components` | number of components |
# | $h$ | `hidden` | what the encoder hands over |
# | $h_k$, $U_k$, $c_k$ | `contexts(hidden)`, `latent` | context of component $k$, what makes it of $h$ |
# | $\pi$, $Q$ | `log_pi.exp()`, `prior` | weights, what makes them of $h$ |
# | $P_k$ | `log_P.exp()` | distribution of component $k$ over words |
# | $Z_k$ | `l.logsumexp(-1)` | normaliser of component $k$ |
# | $r$ | `r` | responsibilities for the word that came |
# | $I$ | `information` | mutual information of component and word |
# | $\rho$ | `ratio` | $\log(\pi_2 Z_1 / \pi_1 Z_2)$ |

# %% [markdown]
# ## Exercises
#
# ### 1. Draw it yourself
# In the first picture, where would the mixture of contexts with weights $\pi_1 = 0.8$ lie, and
# where the mixture of softmaxes? Assign to `both` a function of $\pi_1$, the weight of the context
# $h = -3$ of `cold`, that returns the two distributions, the mixture of contexts first: two tensors
# of three probabilities. Mark them in the triangle and in the log-ratios. For which weights do the
# two agree?
#
# <details><summary>Hint</summary>
#
# One moves along the curve, the other along the chord. They share two points.
#
# </details>
# <details><summary>A further hint: how to compute it</summary>
#
# At $\pi_1 = 0.8$: `0.8 * cold + 0.2 * hot` and `one_softmax(torch.tensor([0.8 * -3 + 0.2 * 3]))[0]`.
# `in_triangle` and `log_ratios` take several rows: `torch.stack(both(0.8))`.
#
# </details>

# %% tags=["exercise"]
both = None  # π₁ → (of contexts, of softmaxes), tensors (3,)


# %%
def lie_there(both):
    for pi in (0.0, 0.3, 0.8, 1.0):
        found = [torch.as_tensor(P).reshape(3) for P in both(pi)]
        h = torch.tensor([3 - 6 * pi])
        wanted = [one_softmax(h)[0], pi * cold + (1 - pi) * hot]
        for name, a, b in zip(("contexts", "softmaxes"), found, wanted,
                              strict=True):  # fmt: skip
            if not torch.allclose(a.float(), b, atol=1e-4):
                where = f"π₁ = {pi} is the weight of h = −3"
                return f"the mixture of {name} lies elsewhere; {where}"
    return True


check("09.1", both, lie_there)

# %% [markdown]
# ### 2. How high can the rank go?
# In the check of the ranks, raise the scale of `contexts` from 2 to 20, then lower it to 0.1. What
# happens to the rank of the mixture, and why? Assign to `rank_at` a function of the scale that
# returns the rank of log P of the mixture `mos`, a number. (The random numbers without a scale are
# `contexts / 2`.) What would exact arithmetic say?
#
# <details><summary>Hint</summary>
#
# What do the contexts $h_k = \tanh(U_k h + c_k)$ of the mixture do when $h$ grows? And how much do
# they differ from one row to the next when $h$ is small?
#
# </details>
# <details><summary>A further hint: nearly the answer</summary>
#
# The tanh keeps the $h_k$ between −1 and 1, so there is an end to growing. With a small scale $a$ all
# $h_k$ are nearly the same, and log P is a power series in $a$: its terms, of rank one each, fall with
# $a, a^2, a^3, \dots$, and all but the first few vanish in rounding. Exactly, none of them is 0.
#
# </details>

# %% tags=["exercise"]
rank_at = None  # scale → rank of log P of `mos`


# %%
def ranks_agree(rank_at):
    for scale in (0.1, 2.0, 20.0):
        log_p = mos.log_prob(scale * contexts / 2)
        wanted = int(torch.linalg.matrix_rank(log_p))
        if int(rank_at(scale)) != wanted:
            which = "log P (not P), in float64, of scale · contexts / 2"
            return f"another rank at a scale of {scale}: {which}?"
    return True


check("09.2", rank_at, ranks_agree)

# %% [markdown]
# ### 3. Make them share
# The mixture of a trained model may lean on a few components. Write `Sharing`, a class derived from
# `MixtureOfSoftmaxes` whose `forward(hidden, target, …)` rewards a large entropy of the *mean*
# weights over a batch (not of each position's weights: why not?): it returns what the inherited one
# does, with 0.1 times that entropy, in nats, taken from the first number, the loss. Train it, and
# compare perplexity, entropies and mutual information.
#
# <details><summary>Hint</summary>
#
# Components can share the work evenly although each position uses one of them only.
#
# </details>
# <details><summary>A further hint: where to put it</summary>
#
# `def forward(self, hidden, target, *rest, **named)`: call `super().forward` with all of them, compute
# `self.contexts(hidden)[1].exp().mean((0, 1))`, and add the negative entropy times 0.1 to the loss.
#
# </details>
# <details><summary>A last hint: how to train it</summary>
#
# Enter it among the layers, `from course_lab import parts` and
# `parts.KINDS["output_layer"] += (Sharing,)`; then run
# `settings("mos").change(output_layer=course_lab.part("Sharing", components=4, bias=False))` as above.
#
# </details>

# %% tags=["exercise"]
Sharing = None  # a class derived from MixtureOfSoftmaxes


# %%
def shares_the_work(Sharing):
    torch.manual_seed(0)
    layer = Sharing(FullWords(50, 8, init=1.0), components=3).double()
    h, y = 5 * torch.randn(6, 5, 8).double(), torch.randint(50, (6, 5))
    loss, nll = layer(h, y)
    plain, same = MixtureOfSoftmaxes.forward(layer, h, y)
    log_pi = layer.contexts(h)[1]
    wanted = plain - 0.1 * entropy(log_pi.exp().mean((0, 1)).log())
    each = plain - 0.1 * entropy(log_pi).mean()
    close = {"": wanted, "the mean entropy": each,
             "the wrong sign": 2 * plain - wanted}  # fmt: skip
    near = [name for name, x in close.items() if torch.isclose(loss, x)]
    (gap,) = torch.autograd.grad(loss - wanted, layer.prior.weight)
    return near, bool(gap.norm() < 1e-6), torch.equal(nll, same)


# %%
def is_sharing(Sharing):
    near, learns, same = shares_the_work(Sharing)
    if near != [""]:
        told = near[0] if near else "another number"
        return f"from the loss is taken: {told}"
    if not learns:
        return "no gradient of the entropy reaches the weights"
    return same or "the second number, the cross-entropy, has changed"


check("09.3", Sharing, is_sharing)

# %% [markdown]
# ### 4. Open: is a wider $h$ the secret?
# The mixture that fitted our synthetic language had contexts of its own for every component, so an $h$
# with more than $d$ numbers; the paper's
# first mixture had one, the one of equal capacity had not. Build a language model whose encoder hands over $4d$ numbers to a mixture with
# word vectors of $d$, and a fair rival with one softmax. What makes the rival fair? Three seeds
# each, and write down before you start which result would change your mind.
#
# <details><summary>Hint</summary>
#
# `AWDLSTM` and the other recurrent encoders end in a width of their own. The rival needs a
# projection from $4d$ to $d$: a mixture with one component is nearly that.
#
# </details>
# <details><summary>A further hint: the pieces</summary>
#
# `course_lab.recipes["ptb/awd-lstm/mos"]` shows how: `size` is $d$, the last of `units` the width
# of $h$. Put `corpus=course_lab.part("docstrings", small=…)` in its place, `components=1` for the
# rival, and count parameters and products with `course_lab.cost`.
#
# </details>

# %% [markdown]
# ## What we saw
#
# First what the best evidence of the repository says, wherever it was made. It is read from the kept
# results by the ledger of [notebook 30](30_leaderboard.ipynb), so that it changes when new runs are kept.

# %%
evidence_of = [
    "parthiban2021-mos", "parthiban2021-mos-rank",
    "parthiban2021-dropout", "parthiban2021-components",
]
display(Markdown(claims.conclusions(*evidence_of)))

# %% [markdown]
# Then what the small runs and sweeps of this lesson show. They are for the eye: they are made on a part of a
# text, and where they contradict the list above, the list counts.

# %%
one, four = verdicts.loc[f"softmax, d = {width}"], verdicts.loc[baseline]
ranks = {k: at_best("MoS", k, width).press_rank.mean() for k in (1, 4)}
apart = pairs[width]
wider_one, free_12 = fitted.loc["softmax", 24], fitted.loc["MoS, free", 12]
first = (
    f"Four components instead of one lift Press' rank of log P from "
    f"{ranks[1]:.0f} to {ranks[4]:.0f} of 1,000, and test perplexity is "
    f"{four['mean']:.1f} ({four.low:.1f} to {four.high:.1f}) where one "
    f"softmax, tuned as hard, has {one['mean']:.1f} ({one.low:.1f} to "
    f"{one.high:.1f}; {one.verdict})."
)

# %%
second = (
    f"The mixture of contexts, with the same parameters and rank "
    f"{width + 1}, differs from that of softmaxes, both without dropout, "
    f"by {-apart.difference:+.1f} ({-apart.high:+.1f} to "
    f"{-apart.low:+.1f})."
)
third = (
    f"On a language that is a mixture, {free_12.numbers:,.0f} numbers in "
    f"a free mixture leave {free_12.excess:.3f} nats of excess, "
    f"{wider_one.numbers:,.0f} in a wider softmax {wider_one.excess:.3f}, "
    f"and a start near the truth {from_truth:.3f}."
)
display(Markdown(" ".join([first, second, third])))

# %% [markdown]
# ## References
#
# - Z. Yang, Z. Dai, R. Salakhutdinov, W. W. Cohen (2018). *Breaking the Softmax Bottleneck: A
#   High-Rank RNN Language Model.* ICLR. [arXiv:1711.03953](https://arxiv.org/abs/1711.03953)
# - D. G. Parthiban, Y. Mao, D. Inkpen (2021). *On the Softmax Bottleneck of Recurrent Language
#   Models.* AAAI 35(15). [doi:10.1609/aaai.v35i15.17608](https://doi.org/10.1609/aaai.v35i15.17608)
# - H.-S. Chang, A. McCallum (2022). *Softmax Bottleneck Makes Language Models Unable to Represent
#   Multi-mode Word Distributions.* ACL.
#   [doi:10.18653/v1/2022.acl-long.554](https://doi.org/10.18653/v1/2022.acl-long.554)
# - Z. Yang, M.-T. Luong, R. Salakhutdinov, Q. V. Le (2019). *Mixtape: Breaking the Softmax
#   Bottleneck Efficiently.* NeurIPS.
# - S. Merity, N. S. Keskar, R. Socher (2018). *Regularizing and Optimizing LSTM Language Models.*
#   ICLR. [arXiv:1708.02182](https://arxiv.org/abs/1708.02182)
