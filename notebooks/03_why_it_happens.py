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
# # 3. Why it happens: the words that never come
#
# **Question.** Why do the vectors of rare words all flee to one side, and what would have to be different for them to stay?
#
# ![A language model from left to right: matrix E reads words, encoder, context h, matrix W predicts words, softmax. An arc ties E and W. In colour: h and W. All contexts h lie on one side; rare rows of W flee from them.](images/03_model.svg)
#
# **Figure 1.** The cause lies in the contexts $h$. The effect is seen in the rows of $W$.

# %% [markdown]
# ## What you will learn
#
# - to follow three theorems of Gao et al. (2019) that explain degeneration;
# - to decide whether a cloud of contexts has the origin inside its convex hull, with a linear
#   programme that proves its answer either way;
# - to see why a layer normalisation at the top of a model all but guarantees the answer, whatever the
#   text is.
#
# **Deeper.** [Lesson 3b](03b_three_more_theorems.ipynb) links the cone with singular values, margins and
# generalisation.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 1](01_output_layer.ipynb) explains the push and the pull, [lesson
# 2](02_degeneration.ipynb) explains the cone. You have met convex sets.
#
# **Reading.** 28 minutes. **Difficulty.** 2 of 3.
#
# | profile | minutes | runs on | what is trained before your eyes |
# |---|---|---|---|
# | smoke | 0.5 | any CPU | a Transformer on 30,000 tokens |
# | quick | 1.5 | two CPU cores | a Transformer on 200,000 tokens |
# | standard | 15 | two CPU cores | five passes over the whole corpus |
# | full | 5 | one GPU | twenty passes over the whole corpus |
#
# On Google Colab, run this in a first cell and restart the session:
#
# `!git clone -q https://github.com/output-embedding-course/output-embedding-course && pip install -q -c output-embedding-course/constraints.txt -e "./output-embedding-course[lab]"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
SEED = 1  # of the model and of every random draw below

# %%
import tempfile

import numpy as np
import pandas as pd
import torch
from IPython.display import Markdown, display
from scipy.optimize import nnls
from torch.nn import functional as F

import course_lab
from course_lab import plots
from course_lab.progress import check
from course_lib import data, theory
from course_lib.metrics import geometry

_ = torch.manual_seed(SEED)

# %% [markdown]
# ## Predict
#
# Think of a word that is in the vocabulary but never in the training text. At every position the
# loss pushes the word's vector $w$ away from the context $h_i$. Nothing ever pulls $w$ back.
#
# 1. Does $w$ end at zero, or at some other finite place, or does it never stop?
# 2. Suppose that the contexts lie all around the origin, in every direction. Does your answer change?
# 3. In a trained Transformer, do the contexts lie all around the origin?

# %% [markdown]
# ## A word that never comes
#
# Let $h_1, \dots, h_M$ be the contexts of the training text and $C_i = \sum_l e^{w_l^\top h_i}$ the
# sum over all *other* words $l$. A word that is never the target enters the loss only through the
# normaliser:
#
# $$L(w) = \frac1M\sum_{i=1}^M \log\big(e^{h_i^\top w} + C_i\big).$$
#
# Each term falls when $h_i^\top w$ falls. A direction $v$ with $v^\top h_i < 0$ for *all* $i$ is called
# **uniformly negative**. Along such a direction every term falls for ever. We try this on fourteen
# contexts in a plane. The loss takes one line, with `rest` for the logarithms of $C_i$:

# %%
def loss_of(w, H, rest):
    """Return L for each vector in w (…, d), with contexts H (M, d)."""
    return torch.logaddexp(w @ H.T, rest).mean(-1)


# %%
chance = torch.Generator().manual_seed(SEED)
# %% tags=["hide-input"]
draw = dict(dtype=torch.float64, generator=chance)
plane = 0.6 * torch.randn(14, 2, **draw)
plane = plane - plane.mean(0) + torch.tensor([1.5, 0.6])
rest = torch.zeros(len(plane), dtype=torch.float64)  # all C_i are 1
hull = theory.uniformly_negative_direction(plane)
v = hull.direction
across = torch.stack([-v[1], v[0]])
length = torch.linspace(0, 8, 60, dtype=torch.float64)
ways = {"along v": v, "across v": across, "against v": -v}
losses = {
    name: (length, loss_of(length[:, None] * way, plane, rest))
    for name, way in ways.items()
}

# %% tags=["hide-input", "gallery"]
plots.show(
    plots.hull_and_loss(plane, v, losses),
    alt="Left: fourteen contexts on one side of the origin, their convex "
    "hull, and on the other side of the origin the wedge of directions in "
    "which all inner products are negative. Right: the loss falls towards "
    "zero along v, and rises across it and against it.",
)

# %% [markdown]
# **Figure 2.** All directions in the wedge are uniformly negative. Along one of them, $v$, the loss falls.
#
# **Theorem 1** (Gao et al.). The uniformly negative directions form a convex set, the wedge: if $u$ and $v$
# have negative inner products with all contexts, every mixture of $u$ and $v$ has them, too. If there is a
# uniformly negative direction, $L$ has no minimum. Along the wedge $L$ falls towards its lower bound
# $\frac1M\sum_i\log C_i$, which it reaches only at infinity. This answers the first question: $w$ never stops,
# it only slows down.

# %%
# NBVAL_CHECK_OUTPUT
angles = torch.linspace(0, 2 * torch.pi, 721, dtype=torch.float64)
circle = torch.stack([angles.cos(), angles.sin()], 1)
wedge = circle[(circle @ plane.T < 0).all(1)]
mixtures = wedge + wedge.flip(0)  # of two negative directions each
print("mixtures are negative too:", bool((mixtures @ plane.T < 0).all()))
far = loss_of(50 * v, plane, rest)
print("the loss far out along v is below 1e-6:", bool(far < 1e-6))

# %% [markdown]
# ## Around the origin or beside it
#
# **Theorem 2.** A uniformly negative direction exists if and only if the origin lies *outside* the
# convex hull of the contexts. One of two certificates always exists, and never both:
#
# - a direction $v$ with $v^\top h_i < 0$ for all $i$; its **margin** is $-\max_i v^\top h_i > 0$;
# - weights $\lambda_i \ge 0$ that add up to 1 with $\sum_i \lambda_i h_i = 0$, which put the origin
#   inside the hull.
#
# The two cannot coexist, because $v^\top \sum_i \lambda_i h_i = \sum_i \lambda_i\, v^\top h_i$ would be 0 and
# negative at the same time. One always exists, because a plane separates a convex set from a point outside it,
# and $v$ is at right angles to that plane, away from the contexts.
#
# A linear programme finds the certificate: it looks for the $v$ that is negative by the widest margin, with
# contexts scaled to length 1 and entries of $v$ between −1 and 1. Then $v$ is scaled to length 1. Where no
# direction exists, the programme returns the weights.

# %%
shifts = np.linspace(0, 3.2, 41)
step = torch.tensor([-1.0, -0.25], dtype=torch.float64)
hulls = [
    theory.uniformly_negative_direction(plane + shift * step)
    for shift in shifts
]
captions = []
for shift, found in zip(shifts, hulls, strict=True):
    weighted = int((found.weights > 1e-9).sum())
    text = f"none: {weighted} contexts, weighted, add up to 0"
    if found.margin > 0:
        text = f"a direction, margin {found.margin:.2f}"
    captions.append(f"shift {shift:.2f}: {text}")

# %% tags=["hide-input"]
moved = [plane + shift * step for shift in shifts]
plots.show(
    plots.moving_hull(moved, [h.direction for h in hulls], captions),
    alt="A cloud of contexts and the outline of its hull move over the "
    "origin. While the origin is outside the hull a vector v points away "
    "from the contexts; when it is inside there is none; on the other "
    "side v points the other way.",
)

# %% [markdown]
# **Figure 3.** The certificate changes when the outline of the hull crosses the origin.


# %%
def to_hull(points):
    """Return the distance of the origin from the hull of points."""
    heavy = 1e4  # holds the sum of the weights at 1
    rows = np.vstack([points.T, np.full(len(points), heavy)])
    weights, _ = nnls(rows, [0, 0, heavy])
    return np.linalg.norm(points.T @ weights)


away = [to_hull(points.numpy()) for points in moved]
curves = {
    "margin of v": (shifts, [h.margin for h in hulls]),
    "distance from the hull": (shifts, away),
}
inside = [s for s, h in zip(shifts, hulls, strict=True) if h.margin == 0]

# %% tags=["hide-input"]
plots.show(
    plots.lines(curves, "shift of the contexts", "margin, distance"),
    alt="The margin of v and the distance of the origin from the hull "
    "against the shift of the contexts. Both fall to zero at a shift of "
    f"{inside[0]:.2f}, where the origin enters the hull, and rise again "
    f"from {inside[-1]:.2f}, where it leaves the hull.",
)

# %%
# NBVAL_CHECK_OUTPUT
one = [(h.margin > 0) != (h.residual < 1e-9) for h in hulls]
print("always exactly one certificate:", all(one))
pairs = zip(hulls, away, strict=True)
agree = [(h.margin > 0) == (distance > 1e-3) for h, distance in pairs]
print("outside the hull exactly where there is a v:", all(agree))

# %% [markdown]
# **Figure 4.** A direction exists exactly where the distance from the hull is positive.
#
# So the second question has another answer than the first. If the origin is well inside the hull, every
# direction meets some context with a positive inner product, and the loss rises without bound that way.
# So the set where $L(w) \le L(0)$ is bounded. A continuous function has a minimum there, and a word that
# never comes ends at a finite place.

# %% [markdown]
# ## The contexts of a real model
#
# In a plane a few contexts surround the origin. In $d$ dimensions it takes more: of random clouds of $2d$
# directions, half have the origin in their hull (Wendel 1962). A text has
# far more contexts than $2d$. Do the contexts of a trained model surround the origin, as the third question
# asks? Here is the Transformer of lesson 2.

# %%
recipe = course_lab.recipes["docstrings/transformer-128/tied"]
experiment = course_lab.profile(recipe, PROFILE, seed=SEED)
if PROFILE == "quick":
    small = {"train": 200_000, "valid": 20_000, "test": 2_000}
    small["words"] = 10_000
    experiment = experiment.change(corpus={"small": small})
corpus = experiment.load_corpus()
untrained = experiment.build(len(corpus)).eval()
with tempfile.TemporaryDirectory() as folder:
    run = course_lab.run(experiment, folder=folder, progress=False)
trained = run.model.cpu()


# %%
def contexts(model, many=2_000):
    """Return contexts of the validation split, and what followed."""
    tokens, target = next(data.batches(data.columns(corpus.valid, 40), 50))
    with torch.no_grad():
        hidden = model(tokens).hidden
    return hidden.flatten(0, 1)[:many].double(), target.flatten()[:many]


def top(model):
    """Return gain g and bias b of the last layer normalisation, copies."""
    norm = model.encoder.layers[-1].feedforward_norm
    return norm.weight.detach().clone(), norm.bias.detach().clone()


# %% [markdown]
# The model ends in a **layer normalisation**: each context is $h = g \circ z + b$ with gain $g$, bias
# $b$, and a vector $z$ whose entries add up to 0, because their mean has been subtracted. Products and
# quotients of vectors are taken entry by entry, and $\mathbf 1$ is the vector of ones. Divide $h$ by the
# gain and add up the entries:
#
# $$\mathbf 1^\top (h/g) = \mathbf 1^\top z + \mathbf 1^\top (b/g) = \mathbf 1^\top (b/g) =: c.$$
#
# Every context lies in one plane $\{h : (1/g)^\top h = c\}$. Unless $c = 0$, that plane misses the origin. Then
# $v = -\operatorname{sign}(c)/g$ has $v^\top h = -|c|$, so $v$ is uniformly negative *for every text there could
# be*. Before training $b = 0$, and the plane passes through the origin; training moves it off.

# %%
rows = {}
for name, model in [("untrained", untrained), ("trained", trained)]:
    H, _ = contexts(model)
    found = theory.uniformly_negative_direction(H)
    rows[name] = {
        "contexts": len(H),
        "dimensions": H.shape[1],
        "margin of the linear programme": found.margin,
        "c = 1ᵀ(b/g)": theory.layer_norm_condition(*top(model)),
    }
shape_of = rows["trained"]
pd.DataFrame(rows).T.round(3)

# %% [markdown]
# There are far more contexts than dimensions. Yet after training the solver finds a direction that is
# negative for *all* contexts, so the third answer is no. Which of the many uniformly
# negative directions do the rare words take?

# %%
H, target = contexts(trained)
v = theory.layer_norm_direction(*top(trained))
constant = (H @ v).numpy()
lp = theory.uniformly_negative_direction(H).direction
W = trained.words.matrix().detach().double()
counts = corpus.counts.numpy()
rare, frequent = geometry.by_frequency(counts)
axis = F.normalize(F.normalize(W[rare], dim=1).mean(0), dim=0)
mean = F.normalize(H.mean(0), dim=0)

# %%
# NBVAL_CHECK_OUTPUT
print("vᵀh is the same for all contexts:", bool(np.ptp(constant) < 1e-3))
print("and negative:", bool((constant < 0).all()))
print("the linear programme agrees:", bool(((H @ lp) < 0).all()))

# %%
unit = F.normalize(H, dim=1)
directions = {
    "v of the layer norm": F.normalize(v, dim=0),
    "v of the linear programme": lp,
    "against the mean context": -mean,
}
pd.DataFrame(
    {
        name: {
            "largest cosine with a context": float((unit @ u).max()),
            "cosine with the axis of the rare words": float(axis @ u),
        }
        for name, u in directions.items()
    }
).T.round(3)

# %% [markdown]
# The last column compares three directions with the mean direction of the rare words in $W$.
#
# - The layer normalisation *guarantees* a direction, but by a hair: the largest cosine is barely below 0. The rare words do not go there.
# - The linear programme's direction has a wide margin, and so has $-\bar h$.
# - The rare words are nearest to $-\bar h$. From a small start every probability is about $1/N$, and the loss
#   falls fastest close to $-\bar h$.

# %% [markdown]
# ## Rare instead of never
#
# A word with a share $\varepsilon$ of the tokens minimises $F = (1-\varepsilon) f + \varepsilon q$. Here
# $f$ is the loss of a word that never comes, and $q$ is the loss of its own occurrences. Weight decay
# gives both $f$ and $F$ a minimum, $w^*$ and $w^*_\varepsilon$.
#
# **Theorem 3.** The rarer the word, the nearer $w^*_\varepsilon$ is to $w^*$: the squared distance is at most
# $4\varepsilon B/(\alpha - \varepsilon(\alpha+\beta))$ where $\varepsilon < \alpha/(\alpha+\beta)$. $B$ bounds
# $|q|$ at both minima. $f$ curves upwards by at least $\alpha$, and $q$ downwards by at most $\beta$. [Lesson
# 3b](03b_three_more_theorems.ipynb) proves theorem 3 and measures both sides. The theorem holds *whatever the
# word means*: a word that is rare enough ends near a word that never comes.

# %%
seen = torch.bincount(target, minlength=len(corpus))
word = int(seen.argsort(descending=True)[12])
away, there = H[target != word], H[target == word]
rests = [theory.log_rest(W, part, word) for part in (away, there)]


def never(w):
    """Return the loss of the word where it does not come."""
    return theory.non_appearing_loss(w, away, rests[0])


def own(w):
    """Return its loss where it comes: the mean of −log P(word | h)."""
    loss = theory.non_appearing_loss(w, there, rests[1])
    return loss - (there @ w).mean()


# %% [markdown]
# ## Let a word drift
#
# We take the contexts of the trained model and a word of the vocabulary. Each step draws how many of 1,024
# positions are the word's, and weighs the two mean losses by this share. The vector begins at the origin, and
# Adam moves it. We do this for a word that never comes and for words with four shares of the tokens. These four
# borrow the contexts of one frequent word as their own. There is no weight decay, so the figure illustrates
# theorem 3 and does not test it.


# %%
def drift(share, steps=400, tokens=1024):
    """Return the vector of the word after each step, at a share."""
    w, path = torch.zeros_like(H[0], requires_grad=True), []
    optimizer = torch.optim.Adam([w], lr=1e-3, betas=(0.9, 0.98))
    chance = np.random.default_rng(SEED)
    for times in chance.binomial(tokens, share, steps):
        optimizer.zero_grad()
        part = times / tokens
        ((1 - part) * never(w) + part * own(w)).backward()
        optimizer.step()
        path.append(w.detach().clone())
    return torch.stack(path)


# %%
paths = {share: drift(share) for share in (0, 1e-5, 1e-4, 1e-3, 1e-2)}
common = torch.linalg.qr(torch.stack([mean, paths[0][-1]], dim=1)).Q
special = there.mean(0) - away.mean(0)
special = F.normalize(special - common @ (common.T @ special), dim=0)
curves = {
    f"share {share:g}": ((path @ -mean).numpy(), path @ special)
    for share, path in paths.items()
}

# %% tags=["hide-input"]
names = "against the mean context", "towards its own contexts"
figure = plots.lines(curves, *names)
figure.axes[0].axhline(0, color=plots.INK, linewidth=0.8)
plots.show(
    figure,
    alt="Paths of one word's vector, from the origin, for five shares of "
    "the tokens. The word that never comes moves against the mean "
    "context and ends at height 0; the more often it comes, the earlier "
    "its path turns towards its own contexts.",
)

# %% [markdown]
# **Figure 5.** A vector that moves to the right flees from the mean context. A
# vector that moves upwards goes towards its own contexts. The upward axis is the direction of its own contexts
# less the parts along the mean context and along the absent word's last vector. The rarer a word, the farther
# right it is carried and the less it has climbed. A frequent word is held back or even drawn to the left, and
# climbs.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $h_i$ | `H`, `plane` | contexts, one a row |
# | $w$ | `w` | vector of one word |
# | $C_i$ | `theory.log_rest` (its logarithm) | sum over the other words |
# | $L(w)$ | `theory.non_appearing_loss` | loss of a word that never comes |
# | $v$ | `hull.direction`, `v`, `lp` | uniformly negative direction |
# | $\lambda_i$ | `hull.weights` | convex weights with $\sum\lambda_i h_i = 0$ |
# | $g$, $b$ | `top(model)` | gain and bias of the last layer normalisation |
# | $\varepsilon$ | `share` | share of the word |
# | $f$, $q$ | `never`, `own` | loss of the word where it does not come, and where it does |

# %% [markdown]
# ## Exercises
#
# Replace `None` by your answer and run the cell below it.
#
# ### 1. How many contexts surround the origin?
# *Difficulty 2/3, importance 2/3, ten minutes.* Draw $M$ random vectors in $d$ dimensions and ask for a
# uniformly negative direction, many times. Assign `outside`: a function of `M`, `d` and `draws`, the number of
# times, which gives the share of the draws with such a direction, a number from 0 to 1. Use it for $d = 20$ and
# $M$ from 10 to 80, with twenty draws each. Where does the share change from nearly 1 to nearly 0? Compare with
# Wendel's formula, $2^{1-M}\sum_{k<d}\binom{M-1}{k}$.
#
# <details><summary>Hint</summary>
#
# `torch.randn(M, d)` has one vector a row. The solver answers with a margin; a positive margin means that
# there is a direction.
#
# </details>

# %% tags=["exercise"]
outside = None  # a function of M, d and draws: a share


# %%
def as_wendel(outside):
    from math import comb

    for M, d, draws in ((2, 3, 10), (20, 3, 10), (12, 6, 61), (6, 3, 119)):
        true = sum(comb(M - 1, k) for k in range(d)) / 2 ** (M - 1)
        share = float(outside(M, d, draws))
        if round(share * draws, 3) % 1 or abs(share - true) > 0.2:
            inverse = abs(1 - share - true) < 0.05
            if share > 1:
                return "a share lies between 0 and 1"
            if inverse and abs(share - 0.5) > 0.1:
                return "this is the share without such a direction"
            return f"{draws} draws of {M} vectors in {d}: {share:.3f}"
    return True


check("03.1", outside, as_wendel)

# %% [markdown]
# ### 2. A layer normalisation that cannot
# *Difficulty 3/3, importance 2/3, fifteen minutes.* Take `top(trained)` and change the bias so that $\mathbf
# 1^\top(b/g) = 0$: subtract the same number from every entry of $b/g$. Then all contexts change, too. Assign
# `rebiased`: what becomes of the contexts `H`, in the same shape. Is there still a uniformly negative direction?
# Ask the solver.
#
# <details><summary>Hint</summary>
#
# A bias is added to every context, so a change of the bias is added to every context. If a number is
# taken from each entry of $b/g$, what is taken from the entries of $b$?
#
# </details>
#
# <details><summary>Hint for the question</summary>
#
# The origin can lie in the hull only if $\mathbf 1^\top(b/g) = 0$, but this is not enough: within the plane
# the contexts may still lie to one side.
#
# </details>

# %% tags=["exercise"]
rebiased = None  # contexts, in the shape of H


# %%
def through_origin(rebiased):
    gain, bias = (values.double() for values in top(trained))
    change, c = rebiased - H, (bias / gain).sum()
    if not torch.allclose(change, change[:1], rtol=1e-3):
        return "every context changes by the same vector"
    if ((rebiased / gain).sum(1).abs() > 0.1 * c.abs()).any():
        return "the entries of h/g do not add up to 0"
    return torch.allclose(change / gain, -c / len(gain), rtol=1e-3) or (
        "it is b/g whose entries change all by the same number"
    )


check("03.2", rebiased, through_origin)

# %% [markdown]
# ### 3. Who drifts faster?
# *Difficulty 2/3, importance 3/3, ten minutes.* Run `drift` with `torch.optim.SGD` and the same rate in place of
# Adam, for the word that never comes. Assign `slow`: its path (400, d), one row after each step. How much longer
# is the last row of Adam's path, `paths[0]`, and why?
#
# <details><summary>Hint</summary>
#
# The word's gradient is the mean of $p_i h_i$, where $p_i$ is its probability, so the gradient is minute.
# Adam divides the gradient by its size.
#
# </details>

# %% tags=["exercise"]
slow = None  # the path by SGD, (400, d)


# %%
def downhill(slow):
    if slow.shape != paths[0].shape:
        return f"its shape is {tuple(slow.shape)}"
    for k in (0, 1, 399):
        w = slow[k - 1] if k else torch.zeros_like(H[0])
        slope = torch.autograd.functional.jacobian(never, w)
        ratio = ((slow[k] - w).norm() / (1e-3 * slope).norm()).item()
        if not 0.99 < ratio < 1.01:
            return f"step {k + 1} is {ratio:.3g} times the rate × slope"
        if (slow[k] - w) @ slope > 0:
            return "it goes uphill"
    return True


check("03.3", slow, downhill)

# %% [markdown]
# ### 4. An open one
# *Difficulty 3/3, importance 2/3, half an hour.* The theorems speak of contexts that stay where they are. In
# training the contexts move, too. Which of the figures would look different if the contexts could move? Test
# your idea on snapshots of the model, taken by the `callback` of `course_lab.run` as in lesson 2.
#
# <details><summary>Hint</summary>
#
# Follow `theory.layer_norm_condition` and the margin of the contexts over the steps.
#
# </details>

# %% [markdown]
# ## What we saw

# %%
absent = paths[0][-1]
apart = {e: (p[-1] - absent).norm() for e, p in paths.items()}
display(
    Markdown(
        f"All {len(H):,} contexts of the trained model lie far to one "
        f"side of the origin, and from that side the rare words flee: "
        f"their mean direction has a cosine of "
        f"{float(axis @ -mean):.2f} with the direction against the mean "
        f"context. The rarer a word, the nearer it ends to a word that "
        f"never comes: at a share of 1e-5 the two vectors end "
        f"{apart[1e-5] / absent.norm():.0%} of the absent vector's length "
        f"apart, at a share of 0.01 {apart[1e-2] / absent.norm():.0%}."
    )
)

# %% [markdown]
# ## References
#
# - J. Gao, D. He, X. Tan, T. Qin, L. Wang, T.-Y. Liu (2019). *Representation Degeneration Problem
#   in Training Natural Language Generation Models.* ICLR.
#   [arXiv:1907.12009](https://arxiv.org/abs/1907.12009)
# - J. G. Wendel (1962). *A Problem in Geometric Probability.* Mathematica Scandinavica 11.
#   [doi:10.7146/math.scand.a-10655](https://doi.org/10.7146/math.scand.a-10655)

# %% [markdown] tags=["way"]
# ← Previous: [2. Degeneration: a cloud of words collapses into a cone](02_degeneration.ipynb)
#
# ↓ Deeper: [3b. Going deeper: rare words proved, and three more theorems](03b_three_more_theorems.ipynb)
#
# → Next: [4. The softmax bottleneck: how many directions can log P have?](04_softmax_bottleneck.ipynb)
