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
# # Cosine regularisation: pushing the words apart
#
# **Question.** If training may no longer let all word vectors point the same way, does the model become better, or only its cloud rounder?
#
# ![A language model from left to right: matrix E reads words, encoder, context h, matrix W predicts words, softmax. An arc ties E and W. In colour: W. A penalty shortens the mean direction of the rows of W.](images/06_model.svg)

# %% [markdown]
# ## What you will learn
#
# - to derive the penalty of Gao et al. (2019), why it costs $Nd$ and not $N^2d$ multiplications,
#   and why it is nothing but the squared length of one vector;
# - to draw its gradient from memory, and to read off the drawing what the penalty can do and what
#   it cannot;
# - what the eigenvalue theorem behind it proves, and which half of it matters;
# - to judge a remedy by measures that it does not itself minimise, and against a rival that costs
#   nothing.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 2](02_degeneration.ipynb) for the cone, [lesson
# 3](03_why_it_happens.ipynb) for its cause. You should know the gradient of a norm, and that the
# eigenvalues of a symmetric matrix add up to its trace.
#
# | profile | minutes | runs on | what is trained before your eyes |
# |---|---|---|---|
# | smoke | 0.3 | any CPU | two Transformers on 30,000 tokens |
# | quick | 1.2 | two CPU cores | two Transformers on 100,000 tokens |
# | standard | 30 | two CPU cores | the same on the whole corpus, five times |
# | full | 10 | one GPU | the same on the whole corpus, twenty times |
#
# The sweeps are not live in any profile. They were run once, three seeds each, and their results
# are kept with the course.
#
# On Google Colab, run this in a first cell and restart the session:
#
# `%pip install -q -c https://raw.githubusercontent.com/output-embedding-course/output-embedding-course/main/constraints.txt -e "git+https://github.com/output-embedding-course/output-embedding-course#egg=course-lib"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
SEED = 1  # of the models and of every random draw below

# %%
import copy
import inspect
import tempfile

import numpy as np
import pandas as pd
import torch
from IPython.display import Code, Markdown, display
from matplotlib.patches import Circle
from torch.nn import functional as F

from course_lib.metrics import neighbours, subspaces

_ = torch.manual_seed(SEED)

# %%
import course_lab
from course_lab import claims, plans, plots, published, statistics
from course_lib import data, regularizers, theory
from course_lib.data import bpe
from course_lib.evaluation.perplexity import perplexity
from course_lib.metrics import geometry
from course_lib.metrics.registry import summary
from course_lib.output_layers import FullWords, centring
from course_lib.progress import check
from course_lib.regularizers import CosineRegularizer

# %% [markdown]
# ## Predict
#
# A Transformer with tied words is trained twice on the same text, once as usual and once with a
# penalty on the mean cosine of all pairs of words. Without it, the rare words end in a narrow
# cone, as in lesson 2.
#
# 1. What will be the mean cosine of the rare words with the penalty: a little smaller, about half,
#    near 0, or negative?
# 2. By how many percent will the test perplexity change, and in which direction?
# 3. Take the model trained *without* the penalty and subtract the mean row from its output matrix.
#    What happens to the cosines, and what to the perplexity?

# %% [markdown]
# ## The penalty
#
# Let $w_i$ be the rows of the word matrix $W$, $N$ rows of $d$ numbers, and $\hat w_i = w_i /
# \|w_i\|$ their directions. The cosine of two words is $\hat w_i^\top \hat w_j$. Gao et al. add
# the mean of all of them to the loss, with a weight $\gamma$ (equation 6):
#
# $$L = L_\text{likelihood} + \gamma R,\qquad
# R = \frac1{N^2}\sum_i\sum_{j\ne i}\hat w_i^\top\hat w_j.$$
#
# The sum has $N(N-1)$ terms of $d$ multiplications each. Do not compute it. A product of sums is the
# sum of all products, and the terms with $j = i$ are $\hat w_i^\top \hat w_i = 1$:
#
# $$\sum_i\sum_{j\neq i}\hat w_i^\top\hat w_j
# = \Big(\sum_i\hat w_i\Big)^{\!\top}\Big(\sum_j\hat w_j\Big) - \sum_i \hat w_i^\top\hat w_i
# = \Big\|\sum_i \hat w_i\Big\|^2 - N.$$
#
# One pass over the matrix is enough: $\Theta(Nd)$. And it is worth writing the result once more, with
# the **mean direction** $m = \frac1N\sum_i\hat w_i$:
#
# $$R = \|m\|^2 - \frac1N.$$
#
# That is the whole penalty. Although it was introduced as something about *pairs* of words, it
# knows nothing about any pair. It sees one vector, $m$, and wants it to be short. Here it is as the
# library has it, and a check against the sum over all pairs. (What the code says of spectral words
# belongs to lesson 8.)

# %% tags=["hide-input"]
source = inspect.getsource(CosineRegularizer)
display(Code(source, language="python"))

# %%
# NBVAL_CHECK_OUTPUT
words = FullWords(400, 32, init=1.0, normal=True).double()
with torch.no_grad():
    words.weight += 0.5  # a common direction
unit = F.normalize(words.matrix().detach(), dim=1)
cosines = unit @ unit.T
pairs = ((cosines.sum() - cosines.trace()) / 400**2).item()
m = unit.mean(0)
print("all pairs, one by one:", round(pairs, 6))
print("‖m‖² − 1/N:           ", round(float(m @ m - 1 / 400), 6))
R = CosineRegularizer()(words).item()
print("the library:          ", round(R, 6))

# %% [markdown]
# ## The push on one word
#
# What does a step along $-\nabla R$ do to a single row? Go through the chain from the outside.
#
# 1. $R = m^\top m - \frac1N$, so $dR = 2\, m^\top dm$, and $dm = \frac1N\, d\hat w_i$ if only $w_i$
#    moves.
# 2. A direction changes only by the part of the step that is not along it:
#    $d\hat w_i = \frac{1}{\|w_i\|}\,(I - \hat w_i\hat w_i^\top)\, dw_i$.
# 3. Together, with $\theta_i$ the angle between $w_i$ and $m$,
#
# $$\nabla_{w_i} R = \frac{2}{N\,\|w_i\|}\,\big(m - (\hat w_i^\top m)\,\hat w_i\big),\qquad
# \|\nabla_{w_i} R\| = \frac{2\,\|m\|}{N\,\|w_i\|}\,\sin\theta_i.$$
#
# The bracket is the part of $m$ at right angles to $w_i$. The step goes the opposite way: each word
# turns away from $m$, along the circle on which its direction lies.

# %%
# NBVAL_CHECK_OUTPUT
words.zero_grad()
CosineRegularizer()(words).backward()
norms = words.matrix().detach().norm(dim=1, keepdim=True)
formula = 2 / (400 * norms) * (m - (unit @ m)[:, None] * unit)
same = torch.allclose(words.weight.grad, formula, atol=1e-12)
radial = (words.weight.grad * unit).sum(1).abs().max().item()
print("the formula is the library's gradient:", same)
print("no part of it is along the word itself:", radial < 1e-12)

# %% [markdown]
# Here is the picture to remember, in a plane and for nine words of norm 1. You can redraw it: put
# dots on a circle, draw the arrow from the centre to their mean, and let every dot slide along the
# circle away from that arrow's tip.


# %%
def on_circle(degrees):
    """Unit vectors (n, 2) at these angles."""
    angle = torch.deg2rad(torch.as_tensor(degrees, dtype=torch.float64))
    return torch.stack([angle.cos(), angle.sin()], 1)


def follow(start, steps=400, rate=1.0):
    """The directions after steps against the gradient of the penalty."""
    words = FullWords(*start.shape, constraint="unit").double()
    words.weight.data.copy_(start)
    optimizer = torch.optim.SGD(words.parameters(), rate * len(start) / 8)
    for _ in range(steps):
        optimizer.zero_grad()
        CosineRegularizer()(words).backward()
        optimizer.step()
        words.after_step()  # norm 1 again
    return words.weight.detach()


# %%
def circle(ax, dots, title, pushes=False):
    """Directions on the unit circle, their mean, and the push on each."""
    ax.add_patch(Circle((0, 0), 1, fill=False, color=plots.INK, lw=0.8))
    m = dots.mean(0)
    arrow = dict(angles="xy", scale_units="xy", scale=1, width=0.016)
    if pushes:
        push = 0.8 * ((dots @ m)[:, None] * dots - m)
        ax.quiver(*dots.T, *push.T, **arrow, color=plots.COLOURS[1])
        ax.quiver(0, 0, *m, **arrow, color=plots.INK)
    ax.plot(*dots.T, "o", color=plots.COLOURS[0])
    ax.plot(0, 0, "+", color=plots.INK, ms=12)
    text = "m" if pushes else "m = 0"
    ax.annotate(text, (m / 2 + torch.tensor([0.08, -0.2])).tolist())
    ax.set(title=title, xlim=(-1.35, 1.35), ylim=(-1.35, 1.35), aspect=1)
    ax.axis("off")


# %% tags=["gallery"]
cone = on_circle([-30, -5, 15, 32, 45, 58, 75, 95, 120])
bunches = on_circle([45, 50, 52, 58, 225, 230, 232, 238])
figure, (left, middle, right) = plots.panels(1, 3, height=2.8)
circle(left, cone, "the push", pushes=True)
circle(middle, follow(cone), "followed to the end")
circle(right, bunches, "an end as well")
plots.show(
    figure,
    alt="Three circles with dots for directions. Left: nine dots in a "
    "cone; their mean m points into it, and arrows along the circle lead "
    "the dots away from it, long at the edge of the cone, short in its "
    "middle. Middle: the dots where the arrows lead, all around the "
    "circle, their mean is zero. Right: two tight bunches on opposite "
    "sides, whose mean is zero as well.",
)

# %% [markdown]
# Five things can be read off it.
#
# - **Only directions move.** The push is tangential: to first order it neither shortens nor lengthens
#   a word. (So it is for gradient descent. Adam, which trains the models below, rescales each coordinate
#   of the summed gradient: there the arrows are a guide, not the step.)
# - **The edge goes first.** The push grows with $\sin\theta_i$, so a word in the very middle of the
#   cone is hardly touched, until the others have moved $m$.
# - **Each goes its own way.** A word is pushed along its *own* deviation from $m$: whatever
#   distinguishes it from the mean direction grows, be it meaning or chance.
# - **Neighbours do not matter.** No term of $R$ asks which words are near. Equal words get equal
#   pushes and stay together for ever. Two that differ a little move apart while they are less than 90°
#   from $m$, and towards each other beyond; neither is by design.
# - **It stops as soon as $m = 0$**, whatever the cloud then looks like. Two bunches on opposite sides,
#   a line through the origin, satisfy it perfectly.
#
# The last two say what to look for below: measures that are not the mean cosine, such as the
# distance to the nearest neighbour, and the whole spectrum. (Physicists know this motion. With the
# sign reversed it is Kuramoto's model of oscillators that fall into step; $\|m\|$ is its order
# parameter.)

# %%
# NBVAL_CHECK_OUTPUT
twins = torch.cat([cone, cone[:1] + 1e-3])
moved = follow(F.normalize(twins, dim=1))
print("‖m‖ before and after:", round(cone.mean(0).norm().item(), 2),
      round(follow(cone).mean(0).norm().item(), 2))  # fmt: skip
apart = (moved[0] - moved[-1]).norm() / (twins[0] - twins[-1]).norm()
print("two neighbours are still neighbours:", bool(apart < 10))
pushed = FullWords(*bunches.shape).double()
pushed.weight.data.copy_(bunches)
CosineRegularizer()(pushed).backward()
print("push on two bunches:", round(pushed.weight.grad.norm().item(), 6))

# %% [markdown]
# ## The theorem behind it
#
# Why should a short $m$ make a model more expressive? Gao et al. argue with the eigenvalues
# $\lambda_1\ge\lambda_2\ge\dots\ge 0$ of the matrix of all cosines, $A = \hat W\hat W^\top$, where
# $\hat W$ has the rows $\hat w_i$. They are the squares of $\hat W$'s singular values. Three facts:
#
# - All diagonal entries are 1, so $\sum_k\lambda_k = \operatorname{trace} A = N$. What the first
#   eigenvalue loses, the others gain.
# - **Upper bound** (theorem 4, after Merikoski 1984): if no entry of $A$ is negative, then
#   $\lambda_1 \le \operatorname{Sum}(A)$, the sum of all entries, which is $N^2\|m\|^2 = N + N^2R$.
#   (No eigenvalue exceeds the largest sum of a row, and no row's sum the sum of all.)
# - **Lower bound**: $\lambda_1 \ge x^\top A x$ for every $x$ of norm 1. Take $x = (1,\dots,1)/\sqrt N$:
#   $\lambda_1 \ge \operatorname{Sum}(A)/N = N\|m\|^2$, whatever the signs.
#
# The paper builds on the first bound: a smaller $R$ lowers it. Look at it twice. The diagonal alone
# contributes $N$ to the sum, so where the theorem applies, $\operatorname{Sum}(A) \ge N$. But
# $\lambda_1\le N$ holds anyway, since the eigenvalues add up to $N$ and none is negative. **The upper
# bound never says more than the trace does.**
#
# The lower bound is the one that bites. In shares of the whole,
#
# $$\|m\|^2 \;\le\; \frac{\lambda_1}{N} \;\le\; 1.$$
#
# A long $m$ *forces* a dominant first direction and leaves at most $1 - \|m\|^2$ for all others. So a
# short $m$ is **necessary** for a flat spectrum. It is not sufficient: for the two bunches $m = 0$,
# and yet the first direction has nearly everything.

# %%
rng = torch.Generator().manual_seed(SEED)
axis = F.normalize(torch.randn(64, generator=rng), dim=0).double()
noise = torch.randn(1000, 64, generator=rng).double() / 8
sign = torch.ones(1000, 1).double()
sign[::2] = -1
clouds = {
    "narrow cone": 4 * axis + noise,
    "wide cone": axis + noise,
    "two bunches": 4 * sign * axis + noise,
    "round": noise,
}

# %%
rows = {}
for name, cloud in clouds.items():
    found, n = theory.merikoski(cloud), len(cloud)
    rows[name] = {
        "R": f"{found.total / n**2 - 1 / n:z.3f}",
        "least cosine": f"{found.smallest_cosine:.2f}",
        "lower bound ‖m‖²": f"{found.total / n**2:.3f}",
        "λ₁ / N": f"{found.eigenvalue / n:.3f}",
        "theorem 4: Sum(A) / N": f"{found.total / n:.1f}",
    }
pd.DataFrame(rows).T

# %% [markdown]
# In the two cones the lower bound is nearly sharp and the bound of theorem 4 far above 1, where it
# excludes nothing. For the two bunches $R$ is as small as for the round cloud, and the spectrum is
# as bad as that of the narrow cone; there the least cosine is negative and theorem 4 is silent.

# %%
# NBVAL_CHECK_OUTPUT
checked = {name: theory.merikoski(cloud) for name, cloud in clouds.items()}
share = {name: f.eigenvalue / 1000 for name, f in checked.items()}
lower = [f.total / 1000 <= f.eigenvalue + 1e-9 for f in checked.values()]
positive = [f for f in checked.values() if f.smallest_cosine >= 0]
print("lower bound holds:", all(lower))
print("where no cosine is negative, Sum(A) ≥ N:",
      all(f.total >= 1000 for f in positive))  # fmt: skip
print("two bunches: R below 0.01, λ₁/N above 0.8:", bool(
    checked["two bunches"].total / 1e6 < 0.01
    and share["two bunches"] > 0.8))  # fmt: skip

# %% [markdown]
# ## With and without
#
# Now the real thing: the Transformer of lesson 2, trained twice from the same start on the same
# text. The recipes differ in one line, the penalty with the paper's $\gamma = 1$.

# %%
recipes = {
    "without": "docstrings/transformer-128/tied",
    "with": "docstrings/transformer-128/cosine",
}


def experiment(name):
    """The recipe at this profile, `quick` cut down to a minute."""
    recipe = course_lab.recipes[name]
    chosen = course_lab.profile(recipe, PROFILE, seed=SEED)
    if PROFILE != "quick":
        return chosen
    small = {"train": 100_000, "valid": 10_000, "test": 10_000}
    small |= {"words": 10_000}
    changes = {"corpus": {"small": small}, "optimisation": {"batch": 8}}
    return chosen.change(**changes)


# %%
for name in recipes.values():
    print(experiment(name).regularizers or "no penalty")

# %%
snapshots = {}


def watch(step, model):
    """Keep the word matrix at thirty moments, closer at the start."""
    if step in moments:
        W = model.words.matrix().detach().cpu().clone()
        snapshots.setdefault(name, {})[step] = W


# %%
runs = {}
for name, recipe in recipes.items():
    chosen = experiment(recipe)
    corpus = chosen.load_corpus()
    o = chosen.optimisation
    rows = len(data.columns(corpus.train, o.batch)) - 1
    last = o.epochs * -(-rows // o.length)
    moments = {round(last * (k / 30) ** 2) for k in range(31)}
    with tempfile.TemporaryDirectory() as folder:
        settings = dict(folder=folder, callback=watch, progress=False)
        runs[name] = course_lab.run(chosen, **settings)
models = {name: run.model.cpu() for name, run in runs.items()}
W = {name: snapshots[name][last] for name in runs}

# %%
counts = corpus.counts.numpy()
rare, frequent = geometry.by_frequency(counts)
groups = {"rare": rare, "500 most frequent": frequent}
curves = {}
for name, taken in snapshots.items():
    for group, ids in groups.items():
        cosines = [geometry.mean_cosine(V[ids]) for V in taken.values()]
        curves[f"{group}, {name}"] = (list(taken), cosines)

# %%
ends = {name: float(y[-1]) for name, (_, y) in curves.items()}
plots.show(
    plots.lines(curves, "training step", "mean cosine"),
    alt="Mean cosine of rare and of frequent words over training. The "
    f"rare words' climbs to {ends['rare, without']:.2f} without the "
    f"penalty; with it it turns round and ends at "
    f"{ends['rare, with']:z.2f}. The frequent words' ends at "
    f"{ends['500 most frequent, without']:z.2f} without and at "
    f"{ends['500 most frequent, with']:z.2f} with the penalty.",
)

# %%
# NBVAL_CHECK_OUTPUT
print(
    "without: rare words' cosine above 0.5:", ends["rare, without"] > 0.5
)
print("with: less than half of that:",
      ends["rare, with"] < ends["rare, without"] / 2)  # fmt: skip

# %% [markdown]
# The rare words begin to gather as before. Then $m$ is long enough for the penalty to be felt, and
# they come apart again: your first prediction. (Keep an eye on the frequent words.) Here is the cloud after training, on the
# plane of its own two largest singular values, as in the paper's Figures 1a and 2a:

# %%
kind = np.ones(len(corpus), int)
kind[rare], kind[frequent] = 0, 2
names = ["rare", "between", "500 most frequent"]

# %%
figure, axes = plots.panels(1, 2, height=4.4)
for ax, name in zip(axes, W, strict=True):
    flat = subspaces.project(W[name]).points
    plots.groups_of_points(flat, kind, names, f"{name} the penalty", ax)
    ax.legend_.remove()
reach = max(abs(end) for ax in axes for end in ax.get_xlim())
for ax in axes:  # the same scale for both
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), adjustable="box")

# %%
marks, labels = axes[0].get_legend_handles_labels()
place = {"loc": "outside lower center", "markerscale": 2}
figure.legend(marks, labels, ncols=3, **place)
plots.show(
    figure,
    alt="Two clouds of word vectors with the origin marked. Without the "
    "penalty the rare words form a tongue far out to one side of the "
    "origin. With it they form a fan, nearer and wider, still on one "
    "side; the frequent words lie at the origin and on the other side.",
)

# %% [markdown]
# The tongue has become a fan. It is not the cloud around the origin of the paper's Figure 2a: at
# $\gamma = 1$ the mean direction is short, not zero. The cosines of pairs of words say the same.

# %%
figure, axes = plots.panels(1, 2)
for ax, (group, ids) in zip(axes, groups.items(), strict=True):
    drawn = {n: geometry.pair_cosines(V[ids]) for n, V in W.items()}
    plots.cosine_histogram(drawn, ax=ax, title=f"{group} words")
    ax.legend_.remove()
lines, labels = axes[0].get_legend_handles_labels()
figure.legend(lines, labels, loc="outside lower center", ncols=2)
plots.show(
    figure,
    alt="Cosines of pairs of words, with and without the penalty. That of "
    "the rare words lies near one without it, and is a bell a little to "
    "the right of zero with it. That of the frequent words moves the "
    "other way: to the right.",
)

# %% [markdown]
# ## What else has changed?
#
# That the mean cosine is small proves nothing: it is what was minimised. So we measure other things
# too, those of lesson 2. And we put a third matrix beside the two: that of the plain model, its mean row subtracted
# *after* training. Nothing was trained for it.

# %%
shown = {
    "without": W["without"],
    "without, mean subtracted": centring.centred(W["without"]),
    "with": W["with"],
}


def nearest(V):
    """Median over the words of the cosine with the nearest other one."""
    unit = F.normalize(V, dim=1)
    return 1 - np.median(neighbours.nearest_neighbours(unit)[0]) ** 2 / 2


# %%
measured, spectra = {}, {}
for name, V in shown.items():
    shape = summary(V, counts)
    spectra[name] = s = np.array(shape["singular_values"])
    measured[name] = {
        "mean cosine, all pairs": shape["mean_cosine"],
        "share of positive cosines": shape["positive_share"],
        "σ₂ / σ₁": s[1] / s[0],
        "σ of the middle rank": s[len(s) // 2],
        "isotropy I₁": shape["I1"],
        "nearest word's cosine, median": nearest(V),
        "mean norm of a word": shape["mean_norm"],
    }
pd.DataFrame(measured).map("{:z.3g}".format)

# %% [markdown]
# Now the spectrum, the paper's Figure 2b. On the left as the paper draws it, each curve divided by its
# own largest value. That picture has a trap: make only $\sigma_1$ smaller, and the *whole* curve rises,
# although no other singular value has changed. The third matrix is an example. On the right the same
# values undivided.

# %% tags=["gallery"]
k = np.arange(1, chosen.size + 1)
figure, (left, right) = plots.panels(1, 2, height=4)
scaled = {n: (k, s / s[0]) for n, s in spectra.items()}
plots.lines(scaled, "k", "σₖ / σ₁", "y", "as the paper draws it", left)
undivided = {n: (k, s) for n, s in spectra.items()}
plots.lines(undivided, "k", "σₖ", "y", "undivided", right)
for ax in (left, right):
    ax.legend_.remove()
    ax.set_xticks([1, *(chosen.size * q // 4 for q in (1, 2, 3, 4))])
lines, labels = left.get_legend_handles_labels()
place = {"loc": "outside lower center", "ncols": 3}
_ = figure.legend(lines, labels, **place)

# %%
second = {n: s[1] / s[0] for n, s in spectra.items()}
middle = {n: s[len(s) // 2] for n, s in spectra.items()}
plots.show(
    figure,
    alt="Singular values on a logarithmic axis. Left, divided by the "
    f"largest: the second is {second['without']:.2f} of the first "
    f"without the penalty and {second['with']:.2f} with it. Right, "
    "undivided: subtracting the mean changes only the first value, the "
    "penalty raises all the others, that of the middle rank from "
    f"{middle['without']:.2f} to {middle['with']:.2f}.",
)

# %%
# NBVAL_CHECK_OUTPUT
print(
    "with the penalty the middle one is larger:",
    bool(middle["with"] > 1.2 * middle["without"]),
)
same = middle["without, mean subtracted"] / middle["without"]
print(
    "subtracting the mean leaves it as it is:", bool(abs(same - 1) < 0.02)
)

# %% [markdown]
# Here the penalty does more than the trap: the other singular values have really grown, as the paper
# claims. Subtracting the mean cannot do that: a projection makes no singular value larger. By the other
# rows of the table it is a serious rival. It parts a word from its nearest one too, if not as far, and
# by the mean cosine, the share of positive cosines and $I_1$ it even does better than the penalty.
# Theorem 4 did not promise the growth: the trace says that the others gain *together*, not that
# they gain evenly. The picture with the circle suggests it: each word is pushed along its own deviation
# from $m$, and the deviations point everywhere.

# %% [markdown]
# ## Where does a difference in perplexity come from?
#
# Before we believe a difference in perplexity, look at which words make it. Here is the loss of the
# validation split, word by word, sorted by how often the word came in *training*. Some never did:
# they are in the vocabulary, and they are the words that the theorem of lesson 3 is about.


# %%
def losses(model):
    """−log P of the validation words; these words; those before them."""
    model.eval()
    found = []
    text = data.batches(data.columns(corpus.valid, 20), 64)
    for tokens, target in text:
        with torch.no_grad():
            hidden = model(tokens).hidden.flatten(0, 1)
            log_p = model.output_layer.log_prob(hidden)
        own = log_p.gather(1, target.flatten()[:, None])[:, 0]
        found.append((-own, target.flatten(), tokens.flatten()))
    return [torch.cat(part).numpy() for part in zip(*found, strict=True)]


# %%
loss = {}
for name, model in models.items():
    loss[name], predicted, read = losses(model)
change = loss["with"] - loss["without"]
edges = {"never": 0, "1–9": 1, "10–99": 10, "100–999": 100, "1,000+": 1000}


# %%
def parts(words):
    """Losses by how often these words came in training."""
    came = counts[words]
    group = np.searchsorted(list(edges.values()), came, side="right") - 1
    rows = {}
    for i, name in enumerate(edges):
        here = group == i
        rows[name] = {"share of the tokens": here.mean()}
        for n, v in loss.items():
            rows[name][f"loss, {n}"] = v[here].mean()
        rows[name]["adds"] = change[here].sum() / len(here)
    return pd.DataFrame(rows).T


# %%
by_word, by_context = parts(predicted), parts(read)
titles = {"the word itself": by_word, "the word before it": by_context}
figure, axes = plots.panels(1, 2, height=3.7, sharey=True)
for ax, (title, rows) in zip(axes, titles.items(), strict=True):
    ax.bar(list(rows.index), rows["adds"], color=plots.COLOURS[0])
    ax.axhline(0, color=plots.INK, lw=1)
    ax.set(xlabel="occurrences in training", title=f"by {title}")
    ax.tick_params(axis="x", labelsize=9)
_ = axes[0].set_ylabel("with − without, nats a token")

# %%
total, unseen = change.mean(), by_word["adds"]["never"]
plots.show(
    figure,
    alt="How much each group of words adds to the difference in "
    f"validation loss, with minus without the penalty: {total:+.3f} nats "
    f"in all. Left by the word to be predicted: {unseen:+.3f} are of "
    "words that never came in training. Right by the word before it.",
)

# %%
by_word.rename(columns={"adds": "adds to the difference"}).round(3)

# %%
came = counts[predicted] > 0
seen = {n: np.exp(v[came].mean()) for n, v in loss.items()}
display(
    Markdown(
        f"Perplexity on all validation words: "
        f"{np.exp(loss['without'].mean()):.1f} without and "
        f"{np.exp(loss['with'].mean()):.1f} with the penalty. On those "
        f"that came in training at least once: "
        f"**{seen['without']:.1f}** and **{seen['with']:.1f}**."
    )
)

# %% [markdown]
# Two things stand out.
#
# - On the right, nearly all of the difference comes after *frequent* words. After rare ones, whose
#   vectors the penalty has pulled apart, there is next to none. In this run it did not help that a rare
#   word just read can be told from others (what earlier words do for a context is not counted here).
# - On the left, the most frequent words make the largest part. Next come the words that never came, a
#   small part of the text and a large part of the difference. Training says nothing about them but "not here", so the plain model has sent them where
#   no context finds them (theorem 1 of lesson 3), and whatever holds them back makes them cheaper. A
#   fair gain, but an odd one: it depends on how many such words the vocabulary has. Where the
#   vocabulary is taken from the training text, as in the paper's corpora, there are none. We leave such
#   words out of the comparison of settings below.

# %% [markdown]
# ## A rival that costs nothing
#
# Now for the third prediction.
# Lesson 1 had this: subtract the same vector $c$ from every row of the *output* matrix, and every
# logit of a context $h$ falls by the same number $c^\top h$; the softmax does not notice. Two choices
# of $c$:
#
# - the mean row $\mu = \frac1N\sum_i w_i$. The library calls $W - \mathbf 1\mu^\top$ `centring.centred`;
# - the **geometric median** of the rows, the point whose summed distance $\sum_i\|w_i - c\|$ to them
#   is least. Unless it is itself one of the rows, the gradient of that sum,
#   $-\sum_i (w_i - c)/\|w_i - c\|$, is 0 there; and this is $-N$ times the mean *direction* of the
#   shifted rows. So after this shift $m = 0$ exactly. (If it is one of the rows, and that row comes
#   once, $\|m\|$ is at most $1/N$.)
#
# The geometric median always exists. Therefore every output matrix of different rows has an equal one,
# with the same probabilities for every context, in which the penalty is at its smallest value, $-1/N$,
# or as good as there.


# %%
def geometric_median(V, steps=100):
    """c (d,) with Σ (w_i − c) / ‖w_i − c‖ = 0, by Weiszfeld's steps."""
    V = V.double()
    c = V.mean(0)
    for _ in range(steps):
        near = 1 / (V - c).norm(dim=1, keepdim=True)
        c = (near * V).sum(0) / near.sum()
    return c.float()


def perplexity_with(read, write):
    """Validation perplexity of the plain model with these matrices."""
    model = copy.deepcopy(models["without"])
    model.output_layer.words = copy.deepcopy(model.words)  # untied
    model.words.weight.data.copy_(read)
    model.output_layer.words.weight.data.copy_(write)
    return perplexity(model, corpus.valid, corpus.eos, batch=20, length=64)


# %%
plain, centre = W["without"], shown["without, mean subtracted"]
median = plain - geometric_median(plain)
tried = {
    "as trained": (plain, plain),
    "predicts with its mean subtracted": (plain, centre),
    "predicts with its median subtracted": (plain, median),
    "reads with its mean subtracted": (centre, plain),
}
after = {name: perplexity_with(*pair) for name, pair in tried.items()}

# %%
rows = {}
for name, (read, write) in tried.items():
    V = read if name.startswith("reads") else write
    rows[name] = {
        "mean cosine": f"{geometry.mean_cosine(V):z.3f}",
        "of the rare words": f"{geometry.mean_cosine(V[rare]):z.3f}",
        "validation perplexity": f"{after[name]:.2f}",
    }
pd.DataFrame(rows).T

# %%
# NBVAL_CHECK_OUTPUT
moved = [after[f"predicts with its {n} subtracted"] / after["as trained"]
         for n in ("mean", "median")]  # fmt: skip
print("same perplexity when the output is shifted:",
      all(abs(r - 1) < 1e-4 for r in moved))  # fmt: skip
print("mean cosine after the median, below 0.001:",
      abs(geometry.mean_cosine(median)) < 1e-3)  # fmt: skip

# %% [markdown]
# Not a single probability has changed, and the penalty is at its smallest value. (`perplexity` cuts the text at other
# places than `losses` above, so that the plain model's figure is not quite the same.) So the cone, as far as the mean cosine
# sees it, does not limit what the *softmax* can express. (Biś et al. 2021 say the same of larger
# models: their words share a drift, and taking it out brings isotropy back.) Whatever the penalty may
# do for a model must come from elsewhere: from the matrix as it *reads*, where a tied model cannot be
# shifted freely, as the last row shows; or from the way that training takes. The sweep below has
# therefore another rival, a model that is centred after every step of training (recipe `centred`;
# lesson 11 has more of its kind).

# %% [markdown]
# ## Has the cause gone?
#
# Lesson 3 found the cause not in the words but in the contexts: they all lie on one side of the
# origin. Does the penalty change that? The same linear programme as there, on the contexts of both
# models: its **margin** is how far all of them lie on one side, 0 if they do not. Beside it is the
# number $\mathbf 1^\top(b/g)$ of the last layer normalisation with gain $g$ and bias $b$ (not the
# bias of the output layer, which goes by the same letter elsewhere): unless it is
# 0, the contexts lie in a plane that misses the origin.


# %%
def contexts(model, many=2_000):
    """Contexts of the validation split."""
    tokens, _ = next(data.batches(data.columns(corpus.valid, 40), 50))
    with torch.no_grad():
        return model(tokens).hidden.flatten(0, 1)[:many].double()


# %%
rows = {}
for name, model in models.items():
    H, norm = contexts(model), model.encoder.layers[-1].feedforward_norm
    gain, bias = norm.weight.detach(), norm.bias.detach()
    condition = theory.layer_norm_condition(gain, bias)
    found = theory.uniformly_negative_direction(H)
    m = F.normalize(W[name], dim=1).mean(0).double()
    rows[name] = {
        "margin": f"{found.margin:.2f}",
        "1ᵀ(b/g)": f"{condition:.2f}",
        "norm of the mean context": f"{H.mean(0).norm():.2f}",
        "contexts with mᵀh < 0": f"{(H @ m < 0).double().mean():.0%}",
        "‖m‖": f"{m.norm():.2f}",
    }
pd.DataFrame(rows).T

# %%
# NBVAL_CHECK_OUTPUT
margins = [float(row["margin"]) for row in rows.values()]
print("both still have a uniformly negative direction:", min(margins) > 0)

# %% [markdown]
# The cause is untouched. With the penalty, too, all the contexts that we looked at lie on one side of
# the origin, and the margin is about as wide. There is still a direction along which a word that never
# comes lowers the loss at every position, and a rare word at all positions but its own few; the penalty
# only holds the words back from taking it together.

# %% [markdown]
# ## Whose vector is m?
#
# $m$ is a mean over the *vocabulary*, in which every word counts once, not over the text. Gao et al.
# report that more than 90 % of the vocabulary is rarer than one token in ten thousand (their Figure
# 3). Ours, in words and, as in their translation corpus, in pieces of words (byte pairs):

# %%
text = corpus.decode(corpus.train).split("\n")
encoding = bpe.learned(text, 4_000, corpus.sha256["train"], 0)
ids = np.concatenate(list(bpe.encode_all(encoding, text, False)))
kinds = {"words": counts, "pieces": np.bincount(ids.astype(int))}

# %%
figure, axes = plots.panels(1, 2, height=3.8, sharey=True)
for ax, (kind, seen) in zip(axes, kinds.items(), strict=True):
    plots.frequency_rank(seen, title=f"{len(seen):,} {kind}", ax=ax)
    ax.set_xlabel(f"rank among the {kind}")
axes[1].set_ylabel("")
axes[1].legend_.remove()
below = {kind: (n < 1e-4 * n.sum()).mean() for kind, n in kinds.items()}
plots.show(
    figure,
    alt="Share of the tokens against rank, both axes logarithmic, for "
    f"words and for pieces of words. {below['words']:.0%} of the words "
    f"and {below['pieces']:.0%} of the pieces are below one in ten "
    "thousand.",
)

# %% [markdown]
# The number is nearly a law. If the word of rank $r$ has the share $\frac{1}{r \ln N}$ (Zipf), those
# above $10^{-4}$ are the first $10^4/\ln N$, about a thousand, *however large the vocabulary*. Of the
# 37,000 pieces that are usual for a translator that is 3 %. (The paper's text has "10e-4", which read literally is $10^{-3}$; for
# that threshold it would be even more.) So $m$ is the mean direction of the rare words, and it is
# on these that the penalty works.
#
# Does it work *hard*? Take the model trained without the penalty and compare, word by word, the
# length of the penalty's gradient at $\gamma = 1$ with that of the likelihood, averaged over some
# thousands of positions of the text.

# %%
model = models["without"].eval()
model.zero_grad()
some = data.batches(data.columns(corpus.train, 16), 64)
for _, (tokens, target) in zip(range(8), some, strict=False):
    (model(tokens, None, target).loss / 8).backward()
likelihood = model.words.weight.grad.norm(dim=1)
model.zero_grad()
CosineRegularizer(weight=1.0)(model.words).backward()
penalty = model.words.weight.grad.norm(dim=1)
ratio = (penalty / likelihood).log10().numpy()
label = "log₁₀ (penalty / likelihood)"
figure = plots.against_frequency(ratio, counts, label)
figure.axes[0].axhline(0, color=plots.INK, lw=1)
typical = 10 ** np.median(ratio[rare])

# %%
plots.show(
    figure,
    alt="Length of the penalty's gradient over that of the likelihood's, "
    "one dot a word, against the number of occurrences. For rare words "
    f"the median ratio is {typical:.2g}; it falls with frequency.",
)

# %%
display(
    Markdown(
        f"For a rare word the penalty's gradient at γ = 1 is, in the "
        f"median, **{typical:.2g}** times that of the likelihood; for "
        f"the 500 most frequent words "
        f"**{10 ** np.median(ratio[frequent]):.2g}** times."
    )
)

# %% [markdown]
# So $\gamma = 1$ is neither small nor large by nature. It happens to be about where the two gradients
# of a rare word balance; the factor $1/N$ in the gradient and the tiny probability of a rare word are of
# the same order. Expect little from a $\gamma$ ten times smaller, and the penalty to have its way at one
# ten times larger. For a word that comes a thousand times it is a whisper.

# %% [markdown]
# ## The weight, swept
#
# What follows was trained beforehand: the plan `data/plans/lessons-06.toml`, profile `quick` on 100,000
# tokens, three seeds for each setting. The lesson only reads the results, which are kept with the
# course. Here the vocabulary has 3,000 words, *all of which come in training*; the others are read as
# `<unk>`. So nothing below is due to words that were never seen.

# %%
planned_runs = plans.read_plan("lessons-06").runs
committed = [course_lab.read_kept(p.key)
             for p in planned_runs]  # fmt: skip
rows = []
for planned, kept in zip(planned_runs, committed, strict=True):
    e, figures = planned.experiment(), kept["metrics"]
    weight = [r.options["weight"] for r in e.regularizers]
    row = {"method": planned.recipe.split("/")[-1]}
    row |= {"γ": (weight or [0.0])[0], "seed": planned.seed}
    row |= {"rate": e.optimisation.learning_rate}
    row |= {"start": e.words.options["init"]}
    row |= {"seconds": kept["provenance"]["wall_seconds"]}
    rows.append(row | figures | figures["geometry"])
table = pd.DataFrame(rows)
display(Markdown(course_lab.describe_origin(committed)))

# %%
usual = table[(table.rate == 1e-3) & (table.start == 0.01)]
swept = usual[usual.method != "centred"]
weights = sorted(swept["γ"].unique())
names = [f"{weight:g}" for weight in weights]
groups = {"mean_cosine": "all words", "mean_cosine_rare": "rare"}
groups["mean_cosine_frequent"] = "500 most frequent"
figure, (left, right) = plots.panels(1, 2, height=4.2)
for i, (column, name) in enumerate(groups.items()):
    part = [swept[swept["γ"] == g][column] for g in weights]
    found = np.array([statistics.mean_interval(v)[:3] for v in part]).T
    style = {"marker": plots.MARKERS[i], "linestyle": plots.LINES[i]}
    reach = np.abs(found[1:] - found[0])
    left.errorbar(names, found[0], reach, label=name, capsize=4, **style)
_ = left.set(xlabel="weight γ", ylabel="mean cosine")

# %%
by_weight = swept.groupby("γ")["test_perplexity"]
score = {f"{g:g}": v.to_numpy() for g, v in by_weight}
means = {n: statistics.mean_interval(v) for n, v in score.items()}
listed = ", ".join(f"{m.mean:.0f} at γ = {n}" for n, m in means.items())
plots.seeds(score, means, "weight γ", "test perplexity", ax=right)
right.legend_.remove()
key = [ax.get_legend_handles_labels() for ax in (left, right)]
handles, labels = ([*a, *b[-2:]] for a, b in zip(*key, strict=True))
_ = figure.legend(handles, labels, loc="outside lower center", ncols=3)

# %%
at = swept.groupby("γ")[list(groups)].mean()
from_, to = at.iloc[0], at.iloc[-1]
plots.show(
    figure,
    alt="Left: mean cosines against the weight γ, means and intervals. "
    f"That of the rare words falls from {from_['mean_cosine_rare']:.2f} "
    f"to {to['mean_cosine_rare']:z.2f}, that of the frequent words rises "
    f"from {from_['mean_cosine_frequent']:z.2f} to "
    f"{to['mean_cosine_frequent']:.2f}. Right: test perplexity, every "
    f"seed, means and intervals: {listed}.",
)

# %% [markdown]
# The penalty does its work: the rare words come apart, and $m$ vanishes. And the mean perplexity of
# three seeds falls, the more so the larger $\gamma$. Whether three seeds are enough to say so, the table
# tells for each weight, against none. Welch's test compares two means whose spreads may differ: $p$ is
# the chance of a difference at least as large if the weight changed nothing, and the verdict is
# "better" or "worse" where it is below 0.05. It is corrected for the number of weights; the 95 % interval of the difference is
# not, so that it can leave out 0 where the verdict is "inconclusive":

# %%
columns = ["mean", "difference", "difference low", "difference high"]
against = statistics.summary(score, baseline="0")
against[[*columns, "p", "verdict"]].rename_axis("γ").round(2)

# %% [markdown]
# But look at the third curve on the left. While the rare words come apart, the *frequent* ones draw together. It is
# the loophole of the right-hand circle. The sum of all directions is short if every word goes its own
# way; it is also short if one group leans against another. The likelihood wants the rare words on the
# far side of the contexts, and the penalty lets it have that, at the price of a few hundred
# frequent words that lean to the other side.
#
# ### Is it the penalty?
#
# A fair comparison gives every method the same care. Ours comes near it only for two: the plain model,
# the penalty and the centred model each got a second learning rate, three times the first; but only the
# plain model and the penalty also a wider start ($W$ drawn with standard deviation 0.1 in place of
# 0.01). The table lists all that was
# tried. The best setting of each is
# chosen on the *validation* split, by the mean of its seeds, and compared on the *test* split.

# %%
keys = ["method", "rate", "start", "γ"]
columns = ["valid_perplexity", "test_perplexity", "mean_cosine_rare"]
every = table.groupby(keys)[[*columns, "mean_cosine_frequent"]].mean()
every.round(2)

# %% [markdown]
# For comparison, the test perplexity of a model that knows no context, only how often each word comes:

# %%
text = planned_runs[0].experiment().load_corpus()
share = text.counts / text.counts.sum()
without_context = (-share[text.test].log().mean()).exp().item()
print(f"by the frequencies of the words alone: {without_context:.1f}")

# %%
best = every["valid_perplexity"].groupby("method").idxmin()
scores = {}
for method in ["tied", "cosine", "centred"]:
    setting = pd.Series(best[method], index=keys)
    same = (table[keys] == setting).all(axis=1)
    scores[method] = table[same]["test_perplexity"].to_numpy()
    print(", ".join(f"{name} {value}" for name, value in setting.items()))
verdicts = statistics.summary(scores, baseline="tied")
columns = ["mean", "low", "high", "difference", "difference low"]
columns += ["difference high", "p", "verdict"]
verdicts[columns].round(2)

# %%
means = {m: statistics.mean_interval(v) for m, v in scores.items()}
listed = ", ".join(f"{m} {v.mean:.1f}" for m, v in means.items())
plots.show(
    plots.seeds(scores, means, "method", "test perplexity"),
    alt="Test perplexity of the plain tied model, with the penalty and "
    "centred after every step, each at its best setting: three seeds "
    f"each, mean and interval. The means are: {listed}.",
)

# %%
plain = table[table.method == "tied"].groupby(["rate", "start"])
first = statistics.welch(score["1"], score["0"])
test = statistics.welch(scores["cosine"], scores["tied"])
reach = np.ptp(plain["test_perplexity"].mean())
display(
    Markdown(
        f"The paper's γ = 1 against none, all else equal: "
        f"**{first.difference:+.1f}** points of perplexity "
        f"({first.difference / np.mean(score['0']):+.0%}), 95 % interval "
        f"{first.low:+.1f} to {first.high:+.1f}. Each at its best "
        f"setting: **{test.difference:+.1f}**, {test.low:+.1f} to "
        f"{test.high:+.1f}. For scale: learning rate and start alone move "
        f"the plain model by {reach:.0f} points."
    )
)

# %% [markdown]
# That was your second prediction, and the answer changes with the question. *All else equal*, at the
# narrow start with which this course makes degeneration visible, a strong penalty lowers the
# perplexity of every seed, though three are too few for the test; at the higher rate the plain model
# fails there, no better than the frequencies of the words, and with the penalty it does not. *Each at its best*, the gap is within what the seeds
# do by themselves: a plain model whose words merely begin farther apart gets most of the gain, and it
# has hardly a cone either. Why? A likely reason, which nothing here tests: the common push on the rare
# words is about the same from any start, but added to longer random vectors it turns them less
# (exercise 3 of lesson 2). And the penalty turns each word towards its own deviation from the mean,
# which so early in training may be mostly the chance it began with. A wider start has that chance in it
# from the beginning.
#
# And the rival that is centred after every step? At the same start its mean perplexity
# in the sweep is worse than the plain model's at the lower rate, and at the higher both fail, and its
# frequent words lean together even more. The verdict of the last table compares it with a plain model that had the wider start, which it was not given.
#
# This is one small model, read once through a short text; it does not refute the paper's figures. It
# says what to ask of them: how was $W$ initialised, and was the baseline's start tuned as well?

# %% [markdown]
# ## What it costs
#
# Count multiplications. A training step on $n$ positions costs the output layer $3\,nNd$: logits,
# gradient of the contexts, gradient of $W$. The penalty takes about $2Nd$ forwards (norms, sum) and
# $3 N d$ backwards, once a step, whatever $n$ is.

# %%
n = o.batch * o.length
display(
    Markdown(
        f"With n = {n:,} positions a step, as here, the penalty adds "
        f"**{5 / (3 * n):.2%}** to the output layer's multiplications. At "
        f"3,500 tokens a step, usual for translators, it would be "
        f"{5 / (3 * 3500):.2%}."
    )
)

# %% [markdown]
# They are done element by element, which is slower than in a product of matrices; `python -m
# benchmarks output-layers softmax cosine` measures both on your machine. Memory: one $N\times d$
# gradient while it is formed, the size of the one that $W$ has anyway. This is
# how the library writes it, with $r_i = 1/\|w_i\|$, so that autograd does not keep three such
# matrices (for a plain word matrix `A` is `None` and the case of spectral words, lesson 8, does not
# matter):

# %% tags=["hide-input"]
unit_sum = regularizers._UnitSum
source = inspect.getsource(unit_sum.forward)
source += inspect.getsource(unit_sum.backward)
display(Code(inspect.cleandoc(source), language="python"))

# %% [markdown]
# ## What the paper says
#
# Its figures, one run each, as published:

# %%
rows = published.rows()
rows = rows[rows.paper == "gao2019"]
order = ["corpus", "model", "setting", "metric", "split"]
printed = rows.pivot(index=order, columns="method", values="value")
printed = printed[["softmax", "cosine"]]
printed["difference"] = (printed["cosine"] - printed["softmax"]).round(2)
printed.reset_index()

# %% [markdown]
# Where the text leaves a gap, or says more than it shows:
#
# | the paper | what we found, or had to decide |
# |---|---|
# | the penalty takes $\Theta(N)$ time (proposition 1) | $\Theta(Nd)$: each of the $N$ rows has $d$ numbers |
# | $R$ is defined once with $1/N^2$ (equation 6) and once without | $\gamma = 1$ belongs to the first; without the factor it would be $N^2$ times as strong |
# | theorem 4 bounds $\lambda_1$ by $\operatorname{Sum}(A)$, so that making $R$ small makes the others larger | never below the trace; the lower bound is the useful one, and it is necessary only |
# | the singular values are more uniform (Figure 2b) | drawn divided by $\sigma_1$, which is the one that falls |
# | "$\gamma$ is not very sensitive" | no sweep is shown; ours is above |
# | the theorem is about $\hat W$, the figure about $W$ | we draw $W$, as the figure does |
# | perplexity and BLEU, one number a cell | no seeds, so no interval |
#
# We know of no code that its authors released. And the course's own two translators of Multi30k,
# captions of pictures in English and German, trained with and without the penalty, one seed each.
# (BLEU is the share of a translation's word sequences that a reference has as well, of 100.)

# %%
rows = []
for folder in course_lab.kept_results():
    kept = course_lab.read_result(folder)
    setting = kept["experiment"]
    model, _, way = setting["name"].rpartition("/")
    ways = {"softmax": "without", "cosine": "with"}
    own = not setting.get("variant") and setting["profile"] == "standard"
    if model == "multi30k/transformer-small" and own and way in ways:
        row = {"the penalty": ways[way], "seed": setting["seed"]}
        rows.append(row | kept["metrics"])
scores_of = ["valid_bleu", "test_bleu"]
scores_of += ["valid_perplexity", "test_perplexity"]
translators = pd.DataFrame(rows).set_index(["the penalty", "seed"])
translators = translators[scores_of].astype(float)
translators.sort_index(ascending=False).round(2)

# %%
gained = translators.loc["with"].mean() - translators.loc["without"].mean()
display(
    Markdown(
        f"With the penalty test BLEU is {gained['test_bleu']:+.2f}, "
        f"validation BLEU {gained['valid_bleu']:+.2f}, and the perplexity "
        f"of a piece is *higher* on both splits "
        f"({gained['test_perplexity']:+.2f} on test). One seed each, and "
        f"the two differences in BLEU, from the same two models, disagree "
        f"by {abs(gained['test_bleu'] - gained['valid_bleu']):.1f}: "
        f"**inconclusive**."
    )
)

# %% [markdown]
# ## When not to use it
#
# - When a matrix only predicts, as in an untied model, and a rounder cloud is all you want: subtract
#   its mean. The probabilities stay exactly as they are.
# - As a guard against *equal* words. Rows that coincide stay together, and the penalty does not ask
#   which words are confused; look at margins (lesson 7) or at the spectrum (lesson 8).
# - As *evidence*. A small mean cosine in a model that was trained to have one says nothing about the
#   model. Report the spectrum with the mean taken out, the neighbours and the perplexity.
# - When lengths matter: the penalty sees directions only, and rare words may grow as long as before.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $w_i$, $\hat w_i$ | rows of `W[name]`, `unit` | word vector; the same divided by its norm |
# | $m$ | `m`, `unit.mean(0)` | mean direction, $\frac1N\sum_i\hat w_i$ |
# | $R$ | `CosineRegularizer()(words)` | the penalty, $\lVert m\rVert^2 - \frac1N$ |
# | $\gamma$ | `weight` | its weight in the loss |
# | $\theta_i$ | `cones.cone_angles(W, m)` | angle between $w_i$ and $m$ |
# | $A$, $\lambda_k$ | `theory.merikoski` | $\hat W\hat W^\top$, all cosines; its eigenvalues, the largest first |
# | $\sigma_k$ | `spectra` | singular values of $W$ |
# | $\mu$ | `centring.centred(W)` is $W - \mathbf 1\mu^\top$ | mean row |
# | $g$, $b$ | `norm.weight`, `norm.bias` | gain and bias of the last layer normalisation |
# | $n$ | `n` | positions of text in one step |

# %% [markdown]
# ## Exercises
#
# ### 1. How fast does it turn?
# In a plane, let $w_i$ have length $\rho$ and stand at angle $\theta$ to $m$. One step of gradient
# descent with rate $\eta$ on $\gamma R$ turns it away from $m$ by which angle, in radians, to first
# order? Assign to `turn` a function of the six numbers $\rho$, $\theta$, $\eta$, $\gamma$, $\|m\|$ and
# $N$. One rare word is ten times as long as another: which of the two leaves the cone first?
#
# <details><summary>Hint</summary>
#
# The step is tangential, so the angle is its length divided by the radius.
#
# </details>
#
# <details><summary>Second hint</summary>
#
# The gradient already has a factor $1/\rho$; dividing by the radius gives a second one.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# $\Delta\theta \approx 2\eta\gamma\,\|m\|\sin\theta / (N\rho^2)$: a hundred times slower. With Adam the
# size of the gradient drops out, and it is about $\eta/\rho$ in each coordinate.
#
# </details>

# %% tags=["exercise"]
turn = None  # a function of rho, theta, eta, gamma, m_length, N


# %%
def one_step(rho, degrees, eta, gamma):
    """A word's angle to m before and after one step; the length of m."""
    words = FullWords(10, 2).double()
    rows = torch.cat([cone, rho * on_circle([degrees])])
    words.weight.data.copy_(rows)
    m = F.normalize(rows, dim=1).mean(0)
    CosineRegularizer(gamma)(words).backward()
    moved = torch.stack([rows[-1], (rows - eta * words.weight.grad)[-1]])
    return *(F.normalize(moved, dim=1) @ (m / m.norm())).acos(), m.norm()


# %%
def as_measured(turn):
    """Whether steps of gradient descent turn words by these angles."""
    steps = (1, 80, 0.1, 0.5), (4, -5, 0.3, 2), (0.5, 130, 0.01, 0.5)
    for rho, degrees, eta, gamma in steps:
        theta, after, length = one_step(rho, degrees, eta, gamma)
        ratio = turn(rho, theta, eta, gamma, length, 10) / (after - theta)
        if abs(ratio / 10 - 1) < 0.02:
            return "N times the measured angle: m is a mean of N words"
        if abs(ratio / rho - 1) < 0.02 < abs(ratio - 1):
            return "this is how far the word moves, not the angle"
        if abs(ratio - 1) > 0.02:
            return f"it is {ratio:.3g} times the angle for a ρ of {rho}"
    return True


check("06.1", turn, as_measured)

# %% [markdown]
# ### 2. Without Adam
# Plain gradient descent does not divide a small gradient by its own size. Begin with the words of the
# plain model, `W["without"]`, and take 100 steps with rate 0.5 against the gradient of $\gamma R$, with
# no text at all. Which power of ten is the smallest $\gamma$ for which the mean cosine of the rare words
# falls below half of what it was? Assign it to `strong`.
#
# Then train `docstrings/transformer-128/cosine` in the profile `smoke` with
# `optimisation={"optimizer": "sgd", "learning_rate": 0.5, "weight_decay": 0.0}` and $\gamma = 1$. Is
# there anything for the penalty to do, and does it do it? Is it seen with your $\gamma$?
#
# <details><summary>Hint</summary>
#
# `follow` is such a loop. Leave out its constraint, so that words keep their lengths, and its
# factor in the rate.
#
# </details>
#
# <details><summary>Second hint</summary>
#
# Each row's share of the gradient has the factor $1/N$, and SGD does not divide it away:
# `CosineRegularizer(gamma)` for $\gamma = 1, 10, 100, \dots$
#
# </details>
#
# <details><summary>Hint for the training</summary>
#
# Lesson 2, exercise 2: without Adam the rare words hardly move. Measure the mean cosine first with
# $\gamma = 0$. The weight is changed by
# `recipe.change(regularizers=(course_lab.part("CosineRegularizer", weight=10.0),))`.
#
# </details>

# %% tags=["exercise"]
strong = None  # the smallest γ that is enough, a power of ten


# %%
def cosine_after(gamma):
    """Mean cosine of the rare words after the steps on γ R alone."""
    words = FullWords(*W["without"].shape)
    words.weight.data.copy_(W["without"])
    optimizer = torch.optim.SGD(words.parameters(), 0.5)
    for _ in range(100):
        optimizer.zero_grad()
        CosineRegularizer(gamma)(words).backward()
        optimizer.step()
    return geometry.mean_cosine(words.weight.detach()[rare])


# %%
def just_enough(gamma):
    """Whether γ is enough and a tenth of it is not."""
    if not float(np.log10(gamma)).is_integer():
        return "it is not a power of ten"
    half = geometry.mean_cosine(W["without"][rare]) / 2
    if cosine_after(gamma) > half:
        return "the rare words are still closer together than asked for"
    if cosine_after(gamma / 10) < half:
        return "a tenth of it is enough"
    return True


check("06.2", strong, just_enough)

# %% [markdown]
# ### 3. Where is it felt?
# In an untied model the penalty sees only the matrix that predicts. The argument of the geometric
# median says that it changes nothing which the softmax can express. Neither does its opposite: assign
# to `in_a_cone` a function that takes any matrix $W$ ($N\times d$, of `float64`) to a matrix with the
# same probabilities for every context, whose $R$ is above 0.99.
#
# Then train `docstrings/transformer-128/untied` with and without the penalty. Does the perplexity
# change? If it does, what is left that the penalty may have acted on?
#
# <details><summary>Hint</summary>
#
# What may be subtracted from all rows may be added to all rows. What does a long common vector do to
# the directions?
#
# </details>
#
# <details><summary>Hint for the training</summary>
#
# `recipe.change(regularizers=(course_lab.part("CosineRegularizer"),))`, in the profile `smoke` or
# `quick`, and more than one seed before you believe a difference.
#
# </details>
#
# <details><summary>Second hint for the training</summary>
#
# That two matrices express the same does not mean that the optimiser reaches them equally fast. Adam
# is not indifferent to a shift: it treats every coordinate of every row on its own.
#
# </details>

# %% tags=["exercise"]
in_a_cone = None  # a function of W (N, d) that gives a matrix (N, d)


# %%
def same_in_a_cone(function):
    """Whether it keeps all probabilities and makes R large."""
    draw = torch.Generator().manual_seed(SEED)
    given, H = torch.randn(2, 300, 16, generator=draw).double()
    for V in (given, 40 * given):
        found = function(V.clone())
        log_p, before = ((H @ M.T).log_softmax(1) for M in (found, V))
        if not torch.allclose(log_p, before, atol=1e-6):
            return "some context gets other probabilities than before"
        R = F.normalize(found, dim=1).mean(0).square().sum() - 1 / 300
        if R < 0.99:
            longest = V.norm(dim=1).max()
            return f"where the longest word is {longest:.0f}, R is {R:.2f}"
    return True


check("06.3", in_a_cone, same_in_a_cone)

# %% [markdown]
# ### 4. An open one
# Gao et al. end by saying that better penalties may exist. Replace the mean cosine by the mean
# *squared* cosine, $\frac1{N^2}\sum_{i\ne j}(\hat w_i^\top\hat w_j)^2$. Which of the clouds of the table
# above does it tell apart that $R$ does not? Can it be computed without the $N\times N$ table? Write it
# as a frozen dataclass like `CosineRegularizer`, train with it, and report it by the measures of this
# lesson.
#
# <details><summary>Hint</summary>
#
# $\sum_{i,j}(\hat w_i^\top\hat w_j)^2 = \|\hat W\hat W^\top\|_F^2 = \|\hat W^\top\hat W\|_F^2$, and the last
# matrix is $d\times d$.
#
# </details>
#
# <details><summary>Second hint</summary>
#
# In eigenvalues it is $\sum_k\lambda_k^2$ with $\sum_k\lambda_k = N$ fixed: least when all are equal.
# That is the flat spectrum that theorem 4 was to bring about. What does it cost, in multiplications?
#
# </details>

# %% [markdown]
# ## What we saw
#
# First what the best evidence of the repository says, wherever it was made. It is read from the kept
# results by the ledger of [notebook 30](30_leaderboard.ipynb), so that it changes when new runs are kept.

# %%
evidence_of = [
    "gao2019-cone", "gao2019-perplexity", "gao2019-cosines",
    "gao2019-bleu",
]
display(Markdown(claims.conclusions(*evidence_of)))

# %% [markdown]
# Then what the small runs and sweeps of this lesson show. They are for the eye: they are made on a part of a
# text, and where they contradict the list above, the list counts.

# %%
away = at["mean_cosine_frequent"]
did = (
    f"The penalty does what it says: in the two models trained here, "
    f"the mean cosine of the rare words ended at "
    f"{ends['rare, with']:z.2f} at γ = 1 instead of "
    f"{ends['rare, without']:.2f}; in the sweep that was in part by "
    f"leaning the frequent words together, from "
    f"{away[0.0]:z.2f} to {away[10.0]:.2f} at γ = 10. "
)

# %%
gain = (
    f"In the sweep, all else equal, the mean test perplexity at γ = 1 "
    f"differs by {first.difference:+.1f} (95 % interval {first.low:+.1f} "
    f"to {first.high:+.1f}; {against['verdict']['1']}), with each method "
    f"at its best setting by {test.difference:+.1f} ({test.low:+.1f} to "
    f"{test.high:+.1f}; {verdicts['verdict']['cosine']}). "
)

# %%
unseen = (
    f"And the softmax never saw the cone: a shift of the plain output "
    f"matrix takes its mean cosine to "
    f"{geometry.mean_cosine(median):z.3f} at the same perplexity."
)
display(Markdown(did + gain + unseen))

# %% [markdown]
# ## References
#
# - J. Gao, D. He, X. Tan, T. Qin, L. Wang, T.-Y. Liu (2019). *Representation Degeneration Problem
#   in Training Natural Language Generation Models.* ICLR.
#   [arXiv:1907.12009](https://arxiv.org/abs/1907.12009)
# - J. K. Merikoski (1984). *On the trace and the sum of elements of a matrix.* Linear Algebra and
#   its Applications 60. [doi:10.1016/0024-3795(84)90078-8](https://doi.org/10.1016/0024-3795(84)90078-8)
# - D. Biś, M. Podkorytov, X. Liu (2021). *Too Much in Common: Shifting of Embeddings in Transformer
#   Language Models and its Implications.* NAACL.
#   [doi:10.18653/v1/2021.naacl-main.403](https://doi.org/10.18653/v1/2021.naacl-main.403)
# - J. Mu, P. Viswanath (2018). *All-but-the-Top: Simple and Effective Postprocessing for Word
#   Representations.* ICLR. [arXiv:1702.01417](https://arxiv.org/abs/1702.01417)
# - S. Rudman, N. Gillman, T. Rayne, C. Eickhoff (2022). *IsoScore: Measuring the Uniformity of
#   Embedding Space Utilization.* Findings of ACL.
#   [arXiv:2108.07344](https://arxiv.org/abs/2108.07344)
# - D. Elliott, S. Frank, K. Sima'an, L. Specia (2016). *Multi30K: Multilingual English-German Image
#   Descriptions.* [arXiv:1605.00459](https://arxiv.org/abs/1605.00459)
