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
# # Why it happens: the words that never come
#
# **Question.** Why do the vectors of rare words all flee to one side, and what would have to be different for them to stay?

# %% [markdown]
# ## What you will learn
#
# - to follow the four theorems of Gao et al. (2019) that explain degeneration, each on numbers;
# - to decide whether a cloud of contexts has the origin inside its convex hull, with a linear
#   programme that proves its answer either way;
# - to see why a layer normalisation at the top of a model all but guarantees the answer, whatever the
#   text;
# - to connect the cone with two later theories: margins (Wang et al. 2019) and the decay of
#   singular values (Wang et al. 2020).

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 1](01_output_layer.ipynb) for the push and the pull, [lesson
# 2](02_degeneration.ipynb) for the cone. You should have met convex sets; no linear programming is
# needed.
#
# | profile | minutes | runs on | what is trained before your eyes |
# |---|---|---|---|
# | smoke | 0.5 | any CPU | a Transformer on 30,000 tokens |
# | quick | 1.5 | two CPU cores | a Transformer on 200,000 tokens |
# | standard | 15 | two CPU cores | the same on the whole corpus, five times |
# | full | 5 | one GPU | the same on the whole corpus, twenty times |
#
# On Google Colab, run this in a first cell and restart the session:
#
# `%pip install -q -c https://raw.githubusercontent.com/output-embedding-course/output-embedding-course/main/constraints.txt -e "git+https://github.com/output-embedding-course/output-embedding-course#egg=course-lib"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
SEED = 1  # of the model and of every random draw below

# %%
import inspect
import tempfile

import numpy as np
import pandas as pd
import torch
from IPython.display import Code, Markdown, display
from scipy.spatial import ConvexHull
from torch.nn import functional as F

import course_lab
from course_lab import plots
from course_lib import data, theory
from course_lib.metrics import geometry, neighbours
from course_lib.progress import check

_ = torch.manual_seed(SEED)

# %% [markdown]
# ## Predict
#
# Think of a word that is in the vocabulary but never in the training text. At every position the
# loss pushes its vector $w$ away from the context $h_i$; nothing ever pulls it back.
#
# 1. Where does $w$ end: at zero, at some finite place, or does it never stop?
# 2. Suppose the contexts lie all around the origin, in every direction. Does your answer change?
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
# Each term falls when $h_i^\top w$ falls. If there is a direction $v$ with $v^\top h_i < 0$ for
# *all* $i$, a **uniformly negative direction**, then every term falls along it for ever. Here is
# the loss as the library has it, and fourteen contexts in a plane to try it on.

# %% tags=["hide-input"]
source = inspect.getsource(theory.non_appearing_loss)
display(Code(source, language="python"))

# %%
plane = 0.6 * torch.randn(14, 2, dtype=torch.float64)
plane = plane - plane.mean(0) + torch.tensor([1.5, 0.6])
rest = torch.zeros(len(plane))  # log C_i: here all C_i are 1
hull = theory.uniformly_negative_direction(plane)
angles = np.linspace(0, 2 * np.pi, 721)
circle = np.stack([np.cos(angles), np.sin(angles)], 1)
negative = (circle @ plane.numpy().T < 0).all(1)
length = np.linspace(0, 8, 60)
v = hull.direction
across = torch.stack([-v[1], v[0]])
ways = {"along v": v, "across v": across, "against v": -v}

# %%
figure, (left, right) = plots.panels(1, 2, height=3.9)
corners = ConvexHull(plane).vertices
left.fill(*plane[corners].T, alpha=0.25, color=plots.COLOURS[0])
left.plot(*plane.T, "o", label="contexts and their hull")
left.fill(*np.r_[[[0, 0]], circle[negative]].T, alpha=0.35,
          color=plots.COLOURS[1], label="negative directions")  # fmt: skip
left.quiver(0, 0, *v, angles="xy", scale_units="xy", scale=1, width=0.012)
left.annotate("v", (1.15 * v - 0.1).tolist(), fontsize=14)
plots.origin(left)
left.legend(loc="upper left", fontsize=10)
left.set(xlabel="first coordinate", ylabel="second")
left.set_aspect("equal")

# %%
curves = {}
for name, way in ways.items():
    vectors = torch.from_numpy(length)[:, None] * way
    loss = theory.non_appearing_loss(vectors, plane, rest)
    curves[name] = (length, loss)
plots.lines(curves, "length of w", "loss L(w)", ax=right)
right.set_ylim(-0.1, 4)
plots.show(
    figure,
    alt="Left: fourteen contexts on one side of the origin, their convex "
    "hull, and on the other side of the origin the wedge of directions in "
    "which all inner products are negative. Right: the loss falls towards "
    "zero along v, and rises across it and against it.",
)


# %% [markdown]
# **Theorem 1** (Gao et al.). The uniformly negative directions form a convex set, the wedge: if $u$ and
# $v$ have negative inner products with all contexts, so has every mixture of them. And if there is
# one, $L$ has no minimum: it goes on falling along the wedge, towards its lower bound
# $\frac1M\sum_i\log C_i$ (here 0), which it reaches only at infinity. The answer to the first
# question is that $w$ never stops, it only slows down.

# %%
# NBVAL_CHECK_OUTPUT
draws = torch.from_numpy(circle[negative])
mixtures = draws + draws.flip(0)  # of two negative directions each
print("mixtures are negative too:", bool((mixtures @ plane.T < 0).all()))
far = theory.non_appearing_loss(50 * hull.direction, plane, rest)
print("the loss far out along v is below 1e-6:", bool(far < 1e-6))

# %% [markdown]
# ## Around the origin or beside it
#
# **Theorem 2.** A uniformly negative direction exists if and only if the origin lies *outside* the
# convex hull of the contexts. One of two certificates always exists, and never both:
#
# - a direction $v$ with $v^\top h_i < 0$ for all $i$; its **margin** is $-\max_i v^\top h_i > 0$;
# - or weights $\lambda_i \ge 0$ that add up to 1 with $\sum_i \lambda_i h_i = 0$, which put the
#   origin inside the hull; we call the length of the left side the **residual**.
#
# Never both, because $v^\top \sum_i \lambda_i h_i = \sum_i \lambda_i\, v^\top h_i$ would be 0 and
# negative at the same time. Always one, because a point outside a convex set can be separated from
# it by a plane, and $v$ is at right angles to that plane.
#
# A linear programme (a linear function made as large as linear inequalities allow) finds whichever
# there is: it looks for a $v$ that is negative by a wide margin (the widest for contexts scaled to
# length 1 and entries of $v$ between −1 and 1, which keeps everything linear), and where there is
# none it is left with weights of residual 0. Move the contexts across the origin and watch it change its
# mind. (Drag the slider; the square is the tip of $v$, at the origin where there is none.)

# %%
shifts = np.linspace(0, 3.2, 41)
step = torch.tensor([-1.0, -0.25], dtype=torch.float64)
hulls, frames, captions = [], [], []
for shift in shifts:
    moved = plane + shift * step
    found = theory.uniformly_negative_direction(moved)
    hulls.append(found)
    frames.append(torch.cat([moved, found.direction[None]]).numpy())
    if found.margin > 0:
        text = f"a direction, margin {found.margin:.2f}"
    else:
        some = int((found.weights > 1e-9).sum())
        text = f"none: {some} contexts, weighted, add up to 0"
    captions.append(f"shift {shift:.2f}: {text}")

# %%
group = np.r_[np.zeros(len(plane), int), 1]
moving = plots.collapse_animation(
    np.array(frames), group, ["contexts", "v"], captions
)
moving.last.axes[0].set(xlabel="first coordinate", ylabel="second")
plots.show(
    moving,
    alt="A cloud of contexts moves over the origin. While the origin is "
    "outside their hull a vector v points away from them; when it is "
    "inside there is none; on the other side v points the other way.",
)


# %%
def solved(shift, degrees):
    """The contexts, moved your way, and what the solver finds."""
    turn = np.deg2rad(degrees)
    points = plane + shift * torch.tensor([np.cos(turn), np.sin(turn)])
    found = theory.uniformly_negative_direction(points)
    weighted = found.weights.numpy() > 1e-9
    kinds, text = 2 * weighted, "The weighted contexts add up to 0."
    if found.margin > 0:
        points = torch.cat([points, found.direction[None]])
        kinds, text = np.r_[0 * weighted, 1], "Here is a direction."
    text += f" Margin {found.margin:.2f}, residual {found.residual:.2f}."
    names = ["contexts", "v", "contexts with a weight"]
    figure = plots.groups_of_points(points, kinds, names)
    figure.axes[0].set(xlabel="first coordinate", ylabel="second")
    return figure, text


# %%
plots.live(
    solved,
    shift=("shift", np.linspace(0, 3.2, 33), 0.0),
    degrees=("way of the shift, degrees", np.arange(0, 360, 15), 195),
)

# %%
curves = {
    "margin of v": (shifts, [h.margin for h in hulls]),
    "residual of the weights": (shifts, [h.residual for h in hulls]),
}
inside = [s for s, h in zip(shifts, hulls, strict=True) if h.margin == 0]
plots.show(
    plots.lines(curves, "shift of the contexts", "margin, residual"),
    alt="Margin and residual against the shift of the contexts. Both fall "
    f"to zero at a shift of {inside[0]:.2f}, where the origin enters the "
    f"hull, and rise again from {inside[-1]:.2f}, where it leaves it.",
)

# %%
# NBVAL_CHECK_OUTPUT
one = [(h.margin > 0) != (h.residual < 1e-9) for h in hulls]
print("always exactly one certificate:", all(one))

# %% [markdown]
# So the second question has another answer than the first. If the origin is well inside the hull,
# every direction meets some context with a positive inner product, and the loss rises without
# bound that way. Then $L$ has a minimum, and a word that never comes ends at a finite place.

# %% [markdown]
# ## The contexts of a real model
#
# In a plane it is easy to stand around the origin. In $d$ dimensions it takes many contexts:
# $2d$ directions drawn at random have the origin in their hull as often as not, fewer less often, more
# of them more often (Wendel 1962). A text has far more. So do the contexts of a trained model surround the
# origin, as the third question asks? Here is the Transformer of lesson 2, briefly trained.

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
    """Contexts of the validation split, and the words that followed."""
    tokens, target = next(data.batches(data.columns(corpus.valid, 40), 50))
    with torch.no_grad():
        hidden = model(tokens).hidden
    return hidden.flatten(0, 1)[:many].double(), target.flatten()[:many]


def top(model):
    """Gain g and bias b of the last layer normalisation."""
    norm = model.encoder.layers[-1].feedforward_norm
    return norm.weight.detach(), norm.bias.detach()


# %%
rows = {}
for name, model in [("untrained", untrained), ("trained", trained)]:
    H, _ = contexts(model)
    found = theory.uniformly_negative_direction(H)
    rows[name] = {
        "contexts": len(H),
        "dimensions": H.shape[1],
        "margin": found.margin,
        "residual": found.residual,
        "1ᵀ(b/g)": theory.layer_norm_condition(*top(model)),
    }
shape_of = rows["trained"]
pd.DataFrame(rows).T.round(3)

# %% [markdown]
# Far more contexts than dimensions, and after training the solver finds a direction that is negative
# for *all* of them: the answer is no. The last column gives a reason why there must be one. The model
# ends in a **layer normalisation**: each context is $h = g \circ z + b$ with gain $g$, bias
# $b$, and $z$ a vector whose entries add up to 0, because their mean has been subtracted. (Products
# and quotients of vectors are taken entry by entry; $\mathbf 1$ is the vector of ones.) Divide by the
# gain and add up the entries:
#
# $$\mathbf 1^\top (h/g) = \mathbf 1^\top z + \mathbf 1^\top (b/g) = \mathbf 1^\top (b/g) =: c.$$
#
# Whatever the input, every context lies in one plane $\{h : (1/g)^\top h = c\}$, and unless $c = 0$
# exactly, that plane misses the origin: $v = -\operatorname{sign}(c)/g$ has $v^\top h = -|c|$, so it
# is uniformly negative, *for every text there could be*. Before training $b = 0$ and the plane
# passes through the origin; any change of $c$ moves it off.

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
# So uniformly negative directions exist, and there are many. Which one do the rare words take? The
# last column compares each with the mean direction of the rare words in $W$.
#
# Read the first row with care. The layer normalisation *guarantees* a direction, but by a hair: no
# context has a cosine with it that differs much from 0, and the rare words do not go there. The
# linear programme finds a direction with a wide margin, and $-\bar h$, against the mean context, has
# a wide one, too: the contexts of our model lean to one side far more than they must. A theorem
# that says that *some* direction exists does not say which one training takes. From a small start every
# $p_i$ is about $1/N$ and the loss falls fastest close to $-\bar h$; Adam rescales every entry and need
# not follow it exactly. And
# of the three the rare words are nearest to $-\bar h$.

# %% [markdown]
# ## Rare instead of never
#
# A word that comes with a share $\varepsilon$ of the tokens minimises the same loss with a little of
# another mixed in:
# $F = (1-\varepsilon) f + \varepsilon g$, where $f$ is the loss of a word that never comes and $g$
# that of its own occurrences (not the gain of before). Let $w^*$ be where $f$ is least and
# $w^*_\varepsilon$ where $F$ is. **Theorem 3.** If $f$ curves upwards by at least $\alpha$ in every
# direction (it is *$\alpha$-strongly convex*), if $g$ curves downwards by at most $\beta$, if $|g|$ is
# at most $B$, and if $\varepsilon < \alpha/(\alpha+\beta)$, so that the denominator below is positive,
# the two minima are close:
#
# $$\|w^* - w^*_\varepsilon\|^2 \le \frac{4\varepsilon B}{\alpha - \varepsilon(\alpha+\beta)}.$$
#
# The proof is short. $F$ curves upwards by at least $m = (1-\varepsilon)\alpha -
# \varepsilon\beta$, the denominator, so that it lies above a parabola that touches it at its minimum:
#
# $$\begin{aligned}
# \tfrac m2 \|w^* - w^*_\varepsilon\|^2 &\le F(w^*) - F(w^*_\varepsilon) \\
# &= (1-\varepsilon)\big(f(w^*) - f(w^*_\varepsilon)\big) \\
# &\quad + \varepsilon\big(g(w^*) - g(w^*_\varepsilon)\big) \\
# &\le 0 + 2\varepsilon B,
# \end{aligned}$$
#
# because nowhere is $f$ less than at $w^*$.
#
# We take the contexts of the trained model and a word of the vocabulary, and add
# $\frac\alpha2\|w\|^2$ (weight decay) to make $f$ strongly convex. The negative log-likelihood $g$ is
# convex, so $\beta = 0$; it is not bounded, but the proof uses $B$ at the two minima only.

# %%
seen = torch.bincount(target, minlength=len(corpus))
word = int(seen.argsort(descending=True)[12])
away, there = H[target != word], H[target == word]
rests = [theory.log_rest(W, part, word) for part in (away, there)]


def never(w):
    """The loss of the word where it does not come."""
    return theory.non_appearing_loss(w, away, rests[0])


def own(w):
    """Its loss where it does: −log P(word | h), on average."""
    return (
        theory.non_appearing_loss(w, there, rests[1]) - (there @ w).mean()
    )


# %%
def minimum(share, alpha=0.05):
    """Where (1 − ε) f + ε g is least, ε the share of the word."""
    w = torch.zeros_like(H[0], requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [w], 1, 500, line_search_fn="strong_wolfe"
    )

    def loss():
        optimizer.zero_grad()
        f = never(w) + alpha / 2 * w.square().sum()
        value = (1 - share) * f + share * own(w)
        value.backward()
        return value

    optimizer.step(loss)
    return w.detach()


# %%
shares, star = np.logspace(-5, -1.5, 8), minimum(0)
minima = [minimum(share) for share in shares]
measured = [float((star - w).square().sum()) for w in minima]
bounds = [
    theory.rare_word_bound(e, 0.05, 0, float(max(own(star), own(w))))
    for e, w in zip(shares, minima, strict=True)
]
slack = np.array(bounds) / measured
curves = {
    "measured": (shares, measured),
    "bound of theorem 3": (shares, bounds),
}

# %%
plots.show(
    plots.lines(curves, "share ε of the word", "‖w* − w*ε‖²", log="xy"),
    alt="Squared distance between the vector of a word that never comes "
    "and of the same word with share ε, against ε, both axes logarithmic. "
    f"Both rise; the bound lies {slack.min():,.0f} to {slack.max():,.0f} "
    "times higher.",
)

# %%
# NBVAL_CHECK_OUTPUT
print("the bound holds for every share:", bool((slack >= 1).all()))
print("rarer is nearer:", measured == sorted(measured))

# %% [markdown]
# The bound holds, and it is generous: it grows like $\varepsilon$, what we measure like
# $\varepsilon^2$ at first, and here even at the smallest share it allows a distance longer than $w^*$
# itself. The trend is right: the rarer the word, the nearer its vector is to
# that of a word that never comes. The theorem says so *whatever the word means*; we have tried one. And
# the vectors of all words that never come should be near each other, because $f$ is nearly the same
# function for all of them.

# %% [markdown]
# ## Let a word drift
#
# Now without weight decay, step by step, as training does it. Each step sees 1,024 positions; the
# word is the target at as many of them as chance has it, and its vector moves by Adam, with the
# settings of our model, from the origin. We do this five times, for a word that never comes and for
# words with four shares of the tokens. All borrow the contexts of one frequent word as their own.


# %%
def drift(share, steps=400, tokens=1024):
    """The vector of the word, step by step, at a share of the tokens."""
    w, path = torch.zeros_like(H[0], requires_grad=True), []
    optimizer = torch.optim.Adam([w], lr=1e-3, betas=(0.9, 0.98))
    for times in np.random.default_rng(SEED).binomial(
        tokens, share, steps
    ):
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

# %%
figure = plots.lines(
    curves, "against the mean context", "towards its own contexts"
)
figure.axes[0].axhline(0, color=plots.INK, linewidth=0.8)
plots.show(
    figure,
    alt="Paths of one word's vector, from the origin, for five shares of "
    "the tokens. The word that never comes moves against the mean "
    "context and ends at height 0; the more often it comes, the earlier "
    "its path turns towards its own contexts.",
)

# %% [markdown]
# That is the cone in one picture. To the right lies the flight from the mean context. Upwards is
# what distinguishes the word: the direction of its own contexts, as far as it is neither that of the
# mean nor the way that the absent word went. A word seen often is held back or even drawn to the left,
# and climbs. The rarer a word, the farther right it is carried, and the less it has climbed. All
# five paths borrow the contexts of one word; the way to the right, the mean context's doing, is the
# same for others.

# %% [markdown]
# ## From cosines to singular values
#
# **Theorem 4** links two of our measures. Let $\hat W$ have the rows $\hat w_i = w_i/\|w_i\|$. The
# entries of the table $\hat W\hat W^\top$ are the cosines of all pairs; their sum is
# $\|\sum_i \hat w_i\|^2$, which is $N$ plus $N(N-1)$ times the mean cosine. Its largest eigenvalue is
# $\hat\sigma_1^2$, and the squares of all singular values add up to $N$.
#
# That eigenvalue is the most that $x^\top \hat W\hat W^\top x / x^\top x$ can be. So it is *always at
# least the sum divided by $N$*, which is the quotient for $x = \mathbf 1$: a high mean cosine forces a
# large first singular value, and leaves little for the others. And *if no cosine is negative, it is
# at most the sum* (Merikoski 1984): of a table without negative numbers the largest eigenvalue does
# not exceed the largest sum of a row. But that sum is then never below $N$, which no eigenvalue
# exceeds anyway; lesson 6 comes back to this. It is the lower bound that says something.

# %%
after = {"rare words": W[rare], "500 most frequent": W[frequent],
         "rare words, centred": W[rare] - W[rare].mean(0)}  # fmt: skip
rows = {}
for name, part in after.items():
    m = theory.merikoski(part)
    rows[name] = {
        "least cosine": f"{m.smallest_cosine:.2f}",
        "sum / N": f"{m.total / len(part):,.1f}",
        "first eigenvalue": f"{m.eigenvalue:,.1f}",
        "sum": f"{m.total:,.0f}",
        "share of all": f"{m.eigenvalue / len(part):.0%}",
    }
pd.DataFrame(rows).T

# %% [markdown]
# (The last column divides the first eigenvalue by the sum of all of them.) Where the least cosine is
# not negative the upper bound of the theorem applies; it is $N$ times the lower one, and far away. The
# lower one needs no condition, and for the rare words it is nearly sharp: their first eigenvalue is
# almost the sum divided by $N$, because nearly everything they share *is* their mean. Take the mean
# away (the last row), and the first eigenvalue is a share like that of the frequent words, whose mean
# is still there.

# %% [markdown]
# ## Two later theories
#
# **Margins** (Wang et al. 2019). A word is *$\varepsilon$-recognisable* if some vector $h$ in
# $\mathbb R^d$ (it need not be a context of the model) prefers
# it even when its vector is moved against $h$ by $\varepsilon$: if $w_i^\top h - \varepsilon\|h\| >
# w_j^\top h$ for all other $j$. (This $\varepsilon$ is a length, not a share.) Theorem 3.3: such a word
# is farther than $\varepsilon$ from every other row: $\varepsilon\|h\|$ is less than
# $(w_i - w_j)^\top h$, and that is at most $\|w_i - w_j\|\,\|h\|$. So a model that recognises words
# robustly cannot have them crowded together. We take six hundred words, half of them rare and half
# frequent. For twelve of the rare and the twelve most frequent, here is the largest such
# $\varepsilon$ among the six hundred, the word's **margin**, against the distance to its nearest neighbour:

# %%
chance = np.random.default_rng(SEED)
some = np.r_[chance.choice(rare, 300, False), frequent[:300]]
part = W[some]
distance = neighbours.nearest_neighbours(part)[0]
ids = {"rare": range(0, 12), "frequent": range(300, 312)}
margins = {
    name: [theory.margin_witness(part, i).margin for i in group]
    for name, group in ids.items()
}

# %%
figure, axes = plots.panels()
for (name, found), mark in zip(margins.items(), "os", strict=True):
    axes.plot(distance[ids[name]], found, mark, label=f"{name} words")
end = [0, float(max(distance[:12].max(), distance[300:312].max()))]
axes.plot(end, end, "--", color=plots.INK, label="margin = distance")
axes.set(xlabel="distance to the nearest row", ylabel="margin")
axes.legend()
plots.show(
    figure,
    alt="Margin against the distance to the nearest row for rare and "
    "frequent words. All points lie below the diagonal. The median margin "
    f"of the rare words is {np.median(margins['rare']):.2f}, that of the "
    f"frequent ones {np.median(margins['frequent']):.2f}.",
)

# %%
# NBVAL_CHECK_OUTPUT
below = [
    margin <= distance[i] + 1e-9
    for name in ids
    for i, margin in zip(ids[name], margins[name], strict=True)
]
print("no margin exceeds the distance:", all(below))

# %%
usual = torch.pdist(part[:300]).median()
began = experiment.words.options["init"] * (2 * W.shape[1]) ** 0.5
print(f"rare words are {usual:.2f} apart; drawn at random, {began:.2f}")

# %% [markdown]
# A narrow cone is narrow in angle, and need not be narrow in distance. What rare words share, the
# common push, does not bring them nearer to each other: as the last line says, they are no nearer
# than their random starts were, $\sqrt{2d}$ times the standard deviation of an entry.
#
# **Spectra** (Wang et al. 2020). If the singular values of $W$ fall at least like $k^{-\gamma}$ with
# $\gamma > \frac12$, Theorem 4.1 bounds the gap between test and training loss, with high probability
# and up to a factor and a term that do not depend on the spectrum, by
#
# $$\min_{2\le m\le d}\ \sqrt{\textstyle\sum_{j<m}\sigma_j^2} +
# \sqrt{m^{1-2\gamma}/(2\gamma-1)},$$
#
# where $m$ says how many are counted as large. The first term stands for those, the second for what
# is left of the small ones. For any $m$ a spectrum that falls faster makes the second term smaller and
# the first no larger. (At the kink the best $m$ jumps.) But a model with too few directions cannot fit the text. Degeneration is the
# fast fall of *everything after the first*; spectrum control, lesson 8, chooses the fall instead of
# suffering it. The two terms, for 400 singular values that are exactly $k^{-\gamma}$:

# %%
gammas = np.linspace(0.55, 2, 30)
k = np.arange(1, 401)
gaps = [theory.generalisation_gap(k**-g, g, N=1, n=1, B=0) for g in gammas]
best = [gap.least_m - 2 for gap in gaps]
pairs = list(zip(gaps, best, strict=True))
curves = {
    "both terms": (gammas, [gap.least for gap in gaps]),
    "large singular values": (gammas, [g.head[m] for g, m in pairs]),
    "small ones": (gammas, [g.tail[m] for g, m in pairs]),
}

# %%
plots.show(
    plots.lines(curves, "exponent γ of the decay", "bound, relative"),
    alt="The bound on the generalisation gap and its two terms against "
    "the exponent of the decay. Their sum falls as the spectrum falls "
    f"faster, from {gaps[0].least:.1f} to {gaps[-1].least:.1f}; the term "
    "of the large ones jumps where it pays to count more as large.",
)

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
# | $\varepsilon$, $\alpha$ | `share`, `alpha` | share of the word; weight decay |
# | $f$, $g$ | `never`, `own` | loss of the word where it does not come, and where it does |
# | $w^*$, $w^*_\varepsilon$ | `star`, `minima` | where $f$ is least, and where the mixture is |
# | $\hat\sigma_1^2$ | `theory.merikoski(W).eigenvalue` | largest eigenvalue of $\hat W\hat W^\top$ |
# | $\gamma$ | `gammas` | exponent of the singular values' decay |

# %% [markdown]
# ## Exercises
#
# Replace `None` by your answer and run the cell below it, which tries the answer out.
#
# ### 1. How many contexts surround the origin?
# Draw $M$ random vectors in $d$ dimensions and ask for a uniformly negative direction, many times.
# Assign `outside`: a function of `M`, `d` and `draws`, the number of times, which gives the share of
# the draws with such a direction, a number from 0 to 1. Use it for $d = 20$ and $M$ from 10 to 80,
# with twenty draws each. Where does the answer change from nearly always to nearly never? Compare
# with Wendel's formula, $2^{1-M}\sum_{k<d}\binom{M-1}{k}$.
#
# <details><summary>Hint</summary>
#
# `theory.uniformly_negative_direction(torch.randn(M, 20)).margin > 0`. The share is one half at
# $M = 2d$ exactly.
#
# </details>

# %% tags=["exercise"]
outside = None  # a function of M, d and draws: a share


# %%
def as_wendel(outside):
    from math import comb

    for M, draws in ((2, 10), (20, 10), (6, 120)):
        true = sum(comb(M - 1, k) for k in range(3)) / 2 ** (M - 1)
        share = float(outside(M, 3, draws))
        if abs(share - true) > 0.2:
            return (
                f"for {M} vectors in 3 dimensions it gives {share:.2f}: "
                "are they drawn all around the origin, one a row, and is "
                "it the share that has a direction?"
            )
    return True


check("03.1", outside, as_wendel)

# %% [markdown]
# ### 2. A layer normalisation that cannot
# Take `top(trained)` and change the bias so that $\mathbf 1^\top(b/g) = 0$: subtract the same number
# from every entry of $b/g$. Then all contexts change, too. Assign `rebiased`: what becomes of the
# contexts `H`, in the same shape. Is there still a uniformly negative direction? Ask the solver.
#
# <details><summary>Hint</summary>
#
# A bias is added to every context, so its change is, too. If a number is taken from each entry of
# $b/g$, what is taken from the entries of $b$?
#
# </details>
#
# <details><summary>Hint for the question</summary>
#
# The condition is necessary for the hull to contain the origin, not sufficient: within the plane,
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
# Run `drift` with `torch.optim.SGD` and the same rate in place of Adam, for the word that never comes.
# Assign `slow`: its path (400, d), one row after each step. How long is the last row, how long that of
# Adam (`paths[0]`), and why?
#
# <details><summary>Hint</summary>
#
# Its gradient is the mean of $p_i h_i$, with $p_i$ its probability: minute. Adam divides by its
# size.
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
# The theorems speak of contexts that stay where they are. In training they move, too, and a tied
# model reads with the same matrix. Which of the pictures above would you draw differently if the
# contexts could answer? Test your idea on snapshots of the model (the `callback` of
# `course_lab.run`, as in lesson 2).
#
# <details><summary>Hint</summary>
#
# Follow `theory.layer_norm_condition` and the margin of the contexts over the steps.
#
# </details>

# %% [markdown]
# ## What we saw

# %%
apart = np.sqrt(measured) / float(star.norm())
display(
    Markdown(
        f"All {len(H):,} contexts of the trained model lie on one side "
        f"of the origin. The last layer normalisation guarantees a side "
        f"(1ᵀ(b/g) = {shape_of['1ᵀ(b/g)']:.2f}; it was 0 before training)"
        f", if only by a hair; they lean much farther to another. From "
        f"that one the rare words flee: the cosine of their mean "
        f"direction with that against the mean context is "
        f"{float(axis @ -mean):.2f}. The rarer a word, the nearer its "
        f"vector is to that of a word that never comes: at a share of "
        f"{shares[0]:.0e} they are {apart[0]:.0%} of its length apart, at "
        f"{shares[2]:.0e} {apart[2]:.0%}."
    )
)

# %% [markdown]
# ## References
#
# - J. Gao, D. He, X. Tan, T. Qin, L. Wang, T.-Y. Liu (2019). *Representation Degeneration Problem
#   in Training Natural Language Generation Models.* ICLR.
#   [arXiv:1907.12009](https://arxiv.org/abs/1907.12009)
# - D. Wang, C. Gong, Q. Liu (2019). *Improving Neural Language Modeling via Adversarial Training.*
#   ICML. [arXiv:1906.03805](https://arxiv.org/abs/1906.03805)
# - L. Wang, J. Huang, K. Huang, Z. Hu, G. Wang, Q. Gu (2020). *Improving Neural Language Generation
#   with Spectrum Control.* ICLR. [OpenReview](https://openreview.net/forum?id=ByxY8CNtvr)
# - J. G. Wendel (1962). *A Problem in Geometric Probability.* Mathematica Scandinavica 11.
#   [doi:10.7146/math.scand.a-10655](https://doi.org/10.7146/math.scand.a-10655)
# - J. K. Merikoski (1984). *On the trace and the sum of elements of a matrix.* Linear Algebra and
#   its Applications 60. [doi:10.1016/0024-3795(84)90078-8](https://doi.org/10.1016/0024-3795(84)90078-8)
