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
# # 6. Cosine regularisation: pushing the words apart
#
# **Question.** If training may no longer let all word vectors point the same way, does the model become better, or only its cloud rounder?
#
# ![A language model from left to right: matrix E reads words, encoder, context h, matrix W predicts words, softmax. An arc ties E and W. In colour: W. A penalty shortens the mean direction of the rows of W.](images/06_model.svg)
#
# **Figure 1.** The penalty acts on $W$ alone.

# %% [markdown]
# ## What you will learn
#
# - to derive the penalty of Gao et al. (2019), and why it costs $Nd$ and not $N^2d$ multiplications;
# - to draw its gradient from memory, and to read off what the penalty can do and what it cannot;
# - to judge a remedy by measures that it does not minimise, and against a rival that costs nothing.
#
# **Deeper.** [Lesson 6b](06b_the_penalty_in_numbers.ipynb) has the theorem behind it, the words on which it acts,
# larger models, and the cost.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 2](02_degeneration.ipynb) shows the cone, [lesson
# 3](03_why_it_happens.ipynb) its cause. You know the gradient of a norm.
#
# **Reading.** 28 minutes. **Difficulty.** 2 of 3.
#
# | profile | minutes | runs on | what is trained before your eyes |
# |---|---|---|---|
# | smoke | 0.3 | any CPU | two Transformers on 30,000 tokens |
# | quick | 1 | two CPU cores | two Transformers on 100,000 tokens |
# | standard | 30 | two CPU cores | the same on the whole corpus, five times |
# | full | 10 | one GPU | the same on the whole corpus, twenty times |
#
# The sweep over weights and seeds is read from results that are kept with the course.
#
# On Google Colab, run this in a first cell and restart the session:
#
# `!git clone -q https://github.com/output-embedding-course/output-embedding-course && pip install -q -c output-embedding-course/constraints.txt -e "./output-embedding-course[lab]"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
SEED = 1  # of the models and of every random draw below

# %%
import copy  # noqa: I001
import inspect
import tempfile
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from IPython.display import Code, Markdown, display
from torch.nn import functional as F

# %%
import course_lab
from course_lab import claims, plans, plots, tables, untested
from course_lab.progress import check
from course_lib.evaluation.perplexity import perplexity
from course_lib.metrics import geometry, neighbours
from course_lib.metrics.registry import summary
from course_lib.output_layers import FullWords
from course_lib.regularizers import CosineRegularizer

_ = torch.manual_seed(SEED)

# %% [markdown]
# ## Predict
#
# A tied Transformer is trained twice on the same text: once as usual, the **plain** model, and once with a
# **penalty** on the mean cosine of all pairs of words. In the plain model the rare words end in a cone.
#
# 1. What will be the mean cosine of the rare words with the penalty: a little smaller, about half, near 0,
#    or negative? What becomes of the frequent words?
# 2. Does the test perplexity fall or rise, and by how many per cent?
# 3. Subtract the mean row from the *plain* model's output matrix, after training. What happens to the
#    cosines, and what to the perplexity?

# %% [markdown]
# ## The penalty
#
# Let $w_i$ be the rows of the word matrix $W$, $N$ rows of $d$ numbers. Let $\hat w_i = w_i / \|w_i\|$ be
# their directions. The cosine of two words is $\hat w_i^\top \hat w_j$. Gao et al. add the mean cosine of
# all pairs to the loss, with a weight $\gamma$ (equation 6):
#
# $$L = L_\text{likelihood} + \gamma R,\qquad
# R = \frac1{N^2}\sum_i\sum_{j\ne i}\hat w_i^\top\hat w_j.$$
#
# Nobody has to compute the $N(N-1)$ terms of $R$ one by one. A product of sums is the sum of all products, and
# every term with $j = i$ is 1:
#
# $$\sum_i\sum_{j\neq i}\hat w_i^\top\hat w_j
# = \Big(\sum_i\hat w_i\Big)^{\!\top}\Big(\sum_j\hat w_j\Big) - \sum_i \hat w_i^\top\hat w_i
# = \Big\|\sum_i \hat w_i\Big\|^2 - N.$$
#
# One pass is enough. With the **mean direction** $m = \frac1N\sum_i\hat w_i$ the whole
# penalty is
#
# $$R = \|m\|^2 - \frac1N.$$
#
# The penalty speaks of *pairs* of words, but it sees one vector, $m$, and makes $m$ shorter. In PyTorch:


# %%
def penalty(W):
    """Return R, the sum of the cosines of all pairs of rows, over N²."""
    m = F.normalize(W, dim=1).mean(0)
    return m @ m - 1 / len(W)


def loss(logits, target, W, gamma=1.0):
    """Return the loss of Gao et al., equation 6."""
    return F.cross_entropy(logits, target) + gamma * penalty(W)


# %%
# NBVAL_CHECK_OUTPUT
cloud = torch.randn(400, 32).double() + 0.5  # with a common direction
unit = F.normalize(cloud, dim=1)
pairs = ((unit @ unit.T).sum() - 400) / 400**2
words = FullWords(400, 32).double()
words.weight.data = cloud
library, R = CosineRegularizer()(words), penalty(cloud)
print("R agrees with all pairs:  ", R.isclose(pairs).item())
print("R agrees with the library:", R.isclose(library).item())

# %% [markdown]
# The library's class stands below.

# %% tags=["hide-input"]
display(Code(inspect.getsource(CosineRegularizer), language="python"))

# %% [markdown]
# ## The push on one word
#
# What does a step along $-\nabla R$ do to a single row?
#
# 1. $R = m^\top m - \frac1N$, so $dR = 2\, m^\top dm$. If only $w_i$ moves, then $dm = \frac1N\, d\hat
#    w_i$.
# 2. A direction changes only by the part of the step that is not along it:
#    $d\hat w_i = \frac{1}{\|w_i\|}\,(I - \hat w_i\hat w_i^\top)\, dw_i$.
# 3. Together, with $\theta_i$ the angle between $w_i$ and $m$,
#
# $$\nabla_{w_i} R = \frac{2}{N\,\|w_i\|}\,\big(m - (\hat w_i^\top m)\,\hat w_i\big),\qquad
# \|\nabla_{w_i} R\| = \frac{2\,\|m\|}{N\,\|w_i\|}\,\sin\theta_i.$$
#
# The bracket is the part of $m$ at right angles to $w_i$. The step goes the opposite way, so each word
# turns away from $m$.

# %%
# NBVAL_CHECK_OUTPUT
(slope,) = torch.autograd.grad(penalty(cloud.requires_grad_()), cloud)
m = unit.mean(0)
across = m - (unit @ m)[:, None] * unit
formula = 2 / (400 * cloud.norm(dim=1, keepdim=True)) * across
print("autograd gives the same:", torch.allclose(slope, formula))

# %% [markdown]
# Here is the picture in a plane, for words of norm 1. Put dots on a circle, draw the arrow
# from the centre to their mean, and let every dot slide along the circle away from that arrow.


# %%
def on_circle(degrees):
    """Return unit vectors (n, 2) at these angles."""
    angle = torch.deg2rad(torch.as_tensor(degrees, dtype=torch.float64))
    return torch.stack([angle.cos(), angle.sin()], 1)


def follow(W, steps=400):
    """Return unit vectors after steps against the penalty's gradient."""
    for _ in range(steps):
        W = W.detach().requires_grad_()
        (slope,) = torch.autograd.grad(penalty(W), W)
        W = F.normalize(W - len(W) / 8 * slope, dim=1)
    return W.detach()


# %% tags=["hide-input", "gallery"]
cone = on_circle([-30, -5, 15, 32, 45, 58, 75, 95, 120])
bunches = on_circle([45, 50, 52, 58, 225, 230, 232, 238])
ends = {"followed to the end": follow(cone), "an end as well": bunches}
plots.show(
    plots.pushes_on_a_circle({"the push": cone} | ends),
    alt="Three circles with dots for directions. Left: dots in a cone, "
    "their mean m, and arrows that lead the dots away from m, long at the "
    "edge, short in the middle. Middle: the dots all around the circle; m "
    "is 0. Right: two tight bunches on opposite sides; m is 0 as well.",
)

# %% [markdown]
# **Figure 2.** The right circle shows another way to end.
#
# - **Only directions move.** No gradient points along its word. Adam rescales each coordinate, so under Adam
#   the arrows are only a guide.
# - **The edge goes first.** The push grows with $\sin\theta_i$. A word in the very middle of the cone
#   hardly moves until the other words have moved $m$.
# - **Each word goes its own way.** A word turns along its *own* deviation from $m$, whether this deviation
#   is meaning or chance.
# - **Neighbours do not matter.** Equal words get equal pushes, so the penalty never parts them.
# - **The push stops as soon as $m = 0$**, whatever the cloud then looks like. Two bunches on opposite sides
#   satisfy the penalty.

# %% [markdown]
# ## With and without
#
# We train the Transformer of lesson 2 twice, from the same start. The recipes differ in one line, the
# penalty with the paper's $\gamma = 1$.

# %%
plan = plans.read_plan("lessons-06")
methods = {"plain": "tied", "penalty": "cosine"}


def experiment(name):
    """Return that of the plan, or that of another profile."""
    key = f"docstrings/transformer-128/{methods[name]}"
    if PROFILE != "quick":
        return course_lab.profile(course_lab.recipes[key], PROFILE, SEED)
    first = next(p for p in plan.runs if p.recipe == key)
    return first.experiment().change(seed=SEED)


# %%
snapshots, runs = {name: {} for name in methods}, {}
every = 7 if PROFILE in ("smoke", "quick") else 200


def watch(step, model):
    if step % every == 0:
        W = model.words.matrix().detach()
        snapshots[name][step] = W.cpu().clone()


for name in methods:
    with tempfile.TemporaryDirectory() as folder:
        settings = dict(folder=folder, callback=watch, progress=False)
        runs[name] = course_lab.run(experiment(name), **settings)

# %%
W = {n: r.model.words.matrix().detach().cpu() for n, r in runs.items()}
corpus = runs["plain"].corpus
counts = corpus.counts.numpy()
rare, frequent = geometry.by_frequency(counts)
groups = {"rare": rare, "500 most frequent": frequent}
of_rare = [geometry.mean_cosine(V[rare]) for V in W.values()]
of_frequent = [geometry.mean_cosine(V[frequent]) for V in W.values()]

# %% tags=["hide-input"]
plots.show(
    plots.cosines_over_training(snapshots, groups),
    alt=f"Mean cosine over training. Rare words end at {of_rare[0]:.2f}, "
    f"with the penalty at {of_rare[1]:z.2f}. Frequent words end at "
    f"{of_frequent[0]:z.2f}, with the penalty at {of_frequent[1]:z.2f}.",
)

# %%
# NBVAL_CHECK_OUTPUT
print("plain: rare words above 0.5:", of_rare[0] > 0.5)
print("penalty: less than half:    ", of_rare[1] < of_rare[0] / 2)

# %% [markdown]
# **Figure 3.** This answers the first prediction. At first the rare words gather in both models. Once $m$
# is long, the penalty is felt, and the rare words come apart again: to far below half of the plain model's
# cosine, but not to 0. The *frequent* words draw together.
#
# Here is the cloud, as in the paper's Figures 1a and 2a.

# %% tags=["hide-input"]
plots.show(
    plots.stacked_clouds(W, groups),
    alt="Two clouds of word vectors with the origin marked. In the plain "
    "model the rare words form a tongue far out to one side. With the "
    "penalty they form a fan, nearer and wider, still on one side.",
)

# %% [markdown]
# **Figure 4.** The tongue has become a fan, but not the cloud around the origin of the paper's Figure 2a: at
# $\gamma = 1$ the mean direction is short, not zero.

# %% [markdown]
# ## What else has changed?
#
# A small mean cosine proves nothing, because it is what was minimised. So we measure other things and add a
# third matrix: the plain model's, **centred** after training by subtracting its mean row.

# %%
plain = W["plain"]
shown = {"plain": plain, "centred": plain - plain.mean(0)} | W
measured, spectra = {}, {}
for name, V in shown.items():
    found = summary(V, counts)
    near = neighbours.nearest_neighbours(F.normalize(V, dim=1))[0]
    spectra[name] = s = np.array(found["singular_values"])
    measured[name] = {
        "mean cosine, all pairs": found["mean_cosine"],
        "share of positive cosines": found["positive_share"],
        "σ₂ / σ₁": s[1] / s[0],
        "cosine with the nearest word": 1 - np.median(near) ** 2 / 2,
    }
pd.DataFrame(measured).map("{:z.3g}".format)

# %% [markdown]
# Centring shortens $m$ more than the penalty does. Yet in the last row a word's nearest neighbour is farther
# away in angle with the penalty.
#
# The paper's Figure 2b is the spectrum, in which each curve is divided by its own largest value, as in the left
# panel below. That picture has a trap. Make only $\sigma_1$ smaller, and the *whole* curve rises, although no
# other singular value changes.

# %% tags=["hide-input", "gallery"]
middle = {n: s[len(s) // 2] for n, s in spectra.items()}
plots.show(
    plots.spectra_twice(spectra),
    alt="Singular values, logarithmic. Left, divided by the largest, the "
    "curve of the plain model is lowest, then centred, then the penalty. "
    "Right, undivided, centring changes the first value only; the penalty "
    f"raises that of the middle rank from {middle['plain']:.2f} to "
    f"{middle['penalty']:.2f}.",
)

# %%
# NBVAL_CHECK_OUTPUT
a, b, c = middle.values()
print("only the penalty raises σ₆₅:", bool(c > 1.2 * a and b < 1.02 * a))

# %% [markdown]
# **Figure 5.** The centred matrix is an example of the trap. The penalty does more: the other singular
# values have really grown, as section 5 of the paper expects. Figure 2 suggests why: each word turns along
# its own deviation from $m$, and the deviations point everywhere.

# %% [markdown]
# ## A rival that costs nothing
#
# Lesson 1 subtracts the same vector $c$ from every row of the *output* matrix. Every logit of a context $h$
# falls by the same number $c^\top h$, and the softmax does not notice. Take for $c$ the **geometric median**
# of the rows, the point whose summed distance $\sum_i\|w_i - c\|$ to them is least. Unless the median is
# itself a row, the gradient of that sum is 0 there. The gradient is $-\sum_i (w_i - c)/\|w_i - c\|$, and
# this is $-N$ times the mean *direction* of the shifted rows. So $m = 0$ after this shift.
#
# **The matrix has a twin, with the same probabilities for every context, at which the penalty is as small as
# it can be.**


# %%
def geometric_median(V, steps=100):
    """Return c (d,) with Σ (w_i − c) / ‖w_i − c‖ = 0: Weiszfeld."""
    V = V.double()
    c = V.mean(0)
    for _ in range(steps):
        near = 1 / (V - c).norm(dim=1, keepdim=True)
        c = (near * V).sum(0) / near.sum()
    return c.float()


def perplexity_with(read, write):
    """Return the validation perplexity of the plain model with these."""
    model = copy.deepcopy(runs["plain"].model.cpu())
    model.output_layer.words = copy.deepcopy(model.words)  # untied
    model.words.weight.data.copy_(read)
    model.output_layer.words.weight.data.copy_(write)
    return perplexity(model, corpus.valid, corpus.eos, batch=20, length=64)


# %%
centred, median = shown["centred"], plain - geometric_median(plain)
tried = {
    "as trained": (plain, plain, plain),
    "predicts with its mean subtracted": (plain, centred, centred),
    "predicts with its median subtracted": (plain, median, median),
    "reads with its mean subtracted": (centred, plain, centred),
}
rows = {}
for name, (read, write, V) in tried.items():
    rows[name] = geometry.mean_cosine(V), perplexity_with(read, write)
after = pd.DataFrame(rows, ["mean cosine", "validation perplexity"]).T
tables.with_ngrams(after.map("{:z.4g}".format), corpus)

# %%
# NBVAL_CHECK_OUTPUT
cosine, p = after.to_numpy().T
print("same perplexity when the output is shifted:",
      abs(p[1:3] / p[0] - 1).max() < 1e-4)  # fmt: skip
print("mean cosine after the median below 0.001:", abs(cosine[2]) < 1e-3)

# %% [markdown]
# This answers the third prediction: the cosines vanish and no probability changes. So the cone, as far as
# the mean cosine sees it, does not limit what the *softmax* can express. Biś et al. (2021) say the same of
# larger models. *Kneser-Ney 5* only counts runs of up to five words and has the lowest perplexity in the
# table, so these models are no evidence. Whatever the penalty does for a model comes from elsewhere: from the matrix as it *reads*,
# whose shift costs perplexity in the last row, or from the way that training takes.

# %% [markdown]
# ## The weight, swept
#
# The plan `data/plans/lessons-06.toml` has other weights $\gamma$, three seeds each.

# %%
rows = []
for p, content in zip(plan.runs, untested.read(plan.runs)):
    e, kept = p.experiment(), content["metrics"]
    rate, start = e.optimisation.learning_rate, e.words.options["init"]
    if rate == 1e-3 and start == 0.01 and "centred" not in p.recipe:
        γ = sum(r.options["weight"] for r in e.regularizers)
        shape, test = kept["geometry"], kept["test_perplexity"]
        cosines = shape["mean_cosine_rare"], shape["mean_cosine_frequent"]
        rows.append([γ, p.seed, test, *cosines])
swept = pd.DataFrame(rows, columns=["γ", "seed", "p", "rare", "frequent"])
by_seed = swept.pivot(index="seed", columns="γ", values="p")
changes = 100 * (by_seed.div(by_seed[0.0], axis=0) - 1)

# %% tags=["hide-input"]
cosines = dict(swept.groupby("γ")[["rare", "frequent"]].mean())
fall = ", ".join(f"{v:+.0f} % at {g:g}" for g, v in changes.mean().items())
plots.show(
    plots.swept(cosines, changes, "weight γ"),
    alt="Left: as γ grows the mean cosine of rare words falls and that of "
    f"frequent ones rises. Right: change of test perplexity: {fall}.",
)

# %% [markdown]
# **Figure 6.** The rare words come apart, and at strong weights the perplexity of all seeds falls. The frequent
# words draw together. So $m$ could vanish while the rare words stay together, if the two groups lie on opposite
# sides of the origin.
#
# Is it the penalty? A fair comparison gives methods equal care. Three models were tried with two learning rates
# and two starts: `tied` is the plain model, `cosine` has the penalty, and `centred` has its mean row subtracted
# after each step. The other weights of Figure 6 are candidates, too. `init` is the standard deviation with
# which $W$ begins; a row without `init` has the smaller start. The best setting of each is chosen on the
# validation text and compared on the test text. Runs of one seed are compared in pairs. Brackets are 95 %
# intervals, and $p$ is corrected for all settings of its plan. A verdict is *better* or *worse* where $p$ is
# below 5 %, *no difference* where the 90 % interval lies within the margin that it names, else *undecided*.

# %%
valid = untested.table_of(plan, split="valid").models.perplexity
best = valid.fillna(1e9).groupby(lambda name: name.split()[0]).idxmin()
compared = untested.table_of(plan, baseline=best["tied"])
tried = compared.models.loc[best[["tied", "cosine", "centred"]]]
tables.worded(replace(compared, models=tried))

# %% [markdown]
# This answers the second prediction twice. *All else equal*, a strong penalty lowers the perplexity of every
# seed in the figure. *Each at its best*, the table decides nothing: a plain or centred model whose words begin
# longer gets most of the gain ([lesson 6b](06b_the_penalty_in_numbers.ipynb)). None of these small models is
# good: in the table, counting runs of words beats them all. So the runs do not refute the paper.

# %% [markdown]
# ## When not to use it
#
# - Do not use it to make the cloud of an untied output matrix rounder: subtract the mean.
# - The penalty is no guard against *equal* words. Look at margins (lesson 7) or the spectrum (lesson 8).
# - Beside the mean cosine, report the spectrum with the mean taken out, the nearest words and perplexity.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $w_i$, $\hat w_i$ | rows of `W[name]`, `unit` | word vector; the same divided by its norm |
# | $m$ | `m`, `unit.mean(0)` | mean direction |
# | $R$ | `penalty(W)` | the penalty, $\lVert m\rVert^2 - \frac1N$ |
# | $\gamma$ | `gamma`, `weight` | its weight in the loss |
# | $\theta_i$ | `theta` | angle between $w_i$ and $m$ |
# | $\sigma_k$ | `spectra` | singular values of $W$ |

# %% [markdown]
# ## Exercises
#
# Replace `None` by your answer, and run the next cell.
#
# ### 1. How fast does it turn?
# *Difficulty 2/3, importance 2/3, ten minutes.* In a plane, let $w_i$ have length $\rho$ and stand at angle
# $\theta$ to $m$. One step of gradient descent with rate $\eta$ on $\gamma R$ turns it away from $m$ by which
# angle, in radians, to first order? Assign to `turn` a function of the six numbers $\rho$, $\theta$, $\eta$,
# $\gamma$, $\|m\|$ and $N$. One rare word is ten times as long as another: which of the two leaves the cone
# first?
#
# <details><summary>Hint</summary>
#
# The step is tangential, so the angle is the step's length divided by the radius.
#
# </details>
# <details><summary>Which leaves first?</summary>
#
# The gradient has a factor $1/\rho$, and dividing by the radius gives another. The long word turns a hundred
# times more slowly. Under Adam the size of the gradient drops out, and the long word turns ten times more
# slowly.
#
# </details>

# %% tags=["exercise"]
turn = None  # a function of rho, theta, eta, gamma, m_length, N


# %%
def one_step(rho, degrees, eta, gamma):
    """Return a word's angle to m before and after a step, and ‖m‖."""
    W = torch.cat([cone, rho * on_circle([degrees])]).requires_grad_()
    (slope,) = torch.autograd.grad(gamma * penalty(W), W)
    m = F.normalize(W.detach(), dim=1).mean(0)
    moved = torch.stack([W[-1], (W - eta * slope)[-1]]).detach()
    angles = (F.normalize(moved, dim=1) @ F.normalize(m, dim=0)).acos()
    return *angles.tolist(), m.norm().item()


# %%
def mistake(ratio, rho, theta, length):
    """Return what an angle that is `ratio` times the right one lacks."""
    known = {
        10: "m is a mean of N words, and one of them moves",
        rho: "this is how far the word moves, not the angle",
        1 / 2: "R is a square: its slope has a factor of 2",
        -1: "it turns away from m, so the angle to m grows",
        1 / np.tan(theta): "only the part of m across the word turns it",
        180 / np.pi: "these are degrees, not radians",
        length: "the slope of ‖m‖² has one factor ‖m‖, not two",
    }
    near = (s for f, s in known.items() if abs(ratio / f - 1) < 0.02)
    return next(near, f"for a ρ of {rho} it is {ratio:.3g} times "
                "the angle")  # fmt: skip


# %%
def as_measured(turn):
    """Return whether steps of gradient descent turn words so far."""
    steps = (1, 80, 0.1, 0.5), (4, -5, 0.3, 2), (0.5, 130, 0.01, 0.5)
    for rho, degrees, eta, gamma in steps:
        theta, after, length = one_step(rho, degrees, eta, gamma)
        ratio = turn(rho, theta, eta, gamma, length, 10) / (after - theta)
        if abs(ratio - 1) > 0.02:
            return mistake(ratio, rho, theta, length)
    return True


check("06.1", turn, as_measured)

# %% [markdown]
# ### 2. Into a cone
# *Difficulty 2/3, importance 3/3, ten minutes.* The geometric median takes a matrix out of the cone. The
# opposite works as well: assign to `in_a_cone` a function that takes any matrix $W$ ($N\times d$, of `float64`)
# to a matrix with the same probabilities for every context, whose $R$ is above 0.99.
#
# <details><summary>Hint</summary>
#
# What may be subtracted from all rows may be added to all rows. What does a long common vector do to the
# directions?
#
# </details>

# %% tags=["exercise"]
in_a_cone = None  # a function of W (N, d) that gives a matrix (N, d)


# %%
def same_in_a_cone(function):
    """Return whether it keeps all probabilities and makes R large."""
    given, H = torch.randn(2, 300, 16).double()
    for V in (given, 40 * given):
        found, longest = function(V.clone()), V.norm(dim=1).max()
        log_p, before = ((H @ M.T).log_softmax(1) for M in (found, V))
        if (found - found[0]).norm() == 0:
            return "all words have become one word"
        if not torch.allclose(log_p, before, atol=1e-6):
            return "some context gets other probabilities than before"
        if (R := penalty(found)) < 0.99:
            low = f"where the longest word has {longest:.0f}, R is {R:.2f}"
            return "this is no cone" if R < 0 else low
    return True


check("06.2", in_a_cone, same_in_a_cone)

# %% [markdown]
# ## What we saw
#
# [Notebook 30](30_leaderboard.ipynb) reads the best evidence from all kept results and explains its terms:

# %%
tested = ["gao2019-cone", "gao2019-cosines", "gao2019-perplexity"]
display(Markdown(claims.conclusions(*tested)))

# %% [markdown]
# The small runs of this lesson show:

# %%
strong = compared.models.loc[best["cosine"]]
low, high = strong[["difference low", "difference high"]]
display(Markdown(
    f"At γ = 1 the mean cosine of the rare words ended at "
    f"{of_rare[1]:z.2f} instead of {of_rare[0]:.2f}, that of frequent "
    f"words at {of_frequent[1]:z.2f} instead of {of_frequent[0]:z.2f}. "
    f"At its best, the penalty changes the test perplexity by "
    f"{strong.difference:+.0f} % [{low:+.0f}, {high:+.0f}]. The "
    f"softmax never saw the cone: a shift of the plain matrix takes "
    f"its mean cosine to {cosine[2]:z.3f} at the same perplexity."
))  # fmt: skip
display(Markdown(claims.beside("gao2019-perplexity", strong.difference)))

# %% [markdown]
# ## References
#
# - J. Gao, D. He, X. Tan, T. Qin, L. Wang, T.-Y. Liu (2019). *Representation Degeneration Problem
#   in Training Natural Language Generation Models.* ICLR.
#   [arXiv:1907.12009](https://arxiv.org/abs/1907.12009)
# - D. Biś, M. Podkorytov, X. Liu (2021). *Too Much in Common: Shifting of Embeddings in Transformer
#   Language Models and its Implications.* NAACL.
#   [doi:10.18653/v1/2021.naacl-main.403](https://doi.org/10.18653/v1/2021.naacl-main.403)
# - E. Weiszfeld (1937). *Sur le point pour lequel la somme des distances de n points donnés est
#   minimum.* Tohoku Mathematical Journal 43.

# %% [markdown] tags=["way"]
# ← Previous: [5. Tying and the augmented loss: may one matrix do both jobs?](05_tying_and_augmented_loss.ipynb)
#
# ↓ Deeper: [6b. Going deeper: the cosine penalty in numbers](06b_the_penalty_in_numbers.ipynb)
#
# → Next: [7. The adversarial softmax: words that must win by a margin](07_adversarial_softmax.ipynb)
