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
# # The adversarial softmax: words that must win by a margin
#
# **Question.** If in training every target must win even when its vector is moved against it, do the words move apart, and are the predictions better for it?
#
# ![A language model from left to right: matrix E reads words, encoder, context h, matrix W predicts words, softmax. An arc ties E and W. In colour: W. The row of the target is moved away from h before it is scored.](images/07_model.svg)

# %% [markdown]
# ## What you will learn
#
# - to find the worst perturbation of a word vector in closed form, and to see that training with it
#   is training with a margin;
# - to say when a word is recognised within a ball, and to test the three theorems of Wang et al.
#   (2019) on numbers;
# - to tell three gradients of one loss apart, and to find out by experiment which of them
#   regularises, and by what means;
# - to test a claim about geometry against a mere change of scale, and a regulariser against the
#   plain rivals that it should have been compared with.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 1](01_output_layer.ipynb) for the push and the pull, [lesson
# 2](02_degeneration.ipynb) for the cone. The margin of a word was met at the end of [lesson
# 3](03_why_it_happens.ipynb); everything needed of it is said again here.
#
# | profile | minutes | runs on | what is trained before your eyes |
# |---|---|---|---|
# | smoke | 0.5 | any CPU | toy languages; a Transformer on 10,000 tokens, twice |
# | quick | 1.5 | two CPU cores | toy languages; a Transformer on 10,000 tokens, ten times over, twice |
# | standard | 30 | two CPU cores | the same on the whole corpus, five times over, twice |
# | full | 10 | one GPU | the same on the whole corpus, twenty times over, twice |
#
# The sweeps and ablations were trained beforehand, three seeds for each setting; the lesson reads
# their results in every profile.
#
# On Google Colab, run this in a first cell and restart the session:
#
# `%pip install -q -c https://raw.githubusercontent.com/output-embedding-course/output-embedding-course/main/constraints.txt -e "git+https://github.com/output-embedding-course/output-embedding-course#egg=course-lib"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
SEED = 1  # of the models and of every random draw below
ALPHA = 0.4  # noise of the live run, as a share of the word's norm
GRADIENT = "hidden"  # of the live run: none, hidden or full

# %%
import inspect
import tempfile

import numpy as np
import pandas as pd
import torch
from IPython.display import Code, Markdown, display
from torch.nn import functional as F

import course_lab
from course_lab import claims, corpora, plans, plots, published, statistics
from course_lib import data, theory
from course_lib.evaluation.perplexity import perplexity
from course_lib.metrics import geometry, neighbours
from course_lib.output_layers import AdversarialSoftmax, FullWords
from course_lib.progress import check

# %% [markdown]
# As in lesson 1, a context is a vector $h$ of $d$ numbers, every word $i$ has a vector $w_i$, and
# the model gives word $i$ the logit $w_i^\top h$. The word that really comes next is the target
# $y$; $\|h\|$ is the length, the norm, of $h$.

# %% [markdown]
# ## Predict
#
# While a model is trained an adversary may move the target's vector $w_y$ by at most $\varepsilon$,
# in any direction, at every position anew.
#
# 1. By how much can it lower the target's logit? Does the answer depend on the number of
#    dimensions?
# 2. Suppose that the noise is just as long but has a *random* direction. How much of that is left,
#    on average, with $d = 128$?
# 3. The logit falls by an amount that depends on $h$. If training follows the gradient of that
#    amount too, do contexts grow longer or shorter?
# 4. After training against such an adversary, is the nearest neighbour of a word farther away?

# %% [markdown]
# ## The idea in one picture
#
# Seven words in a plane. Draw a disc of radius $\varepsilon$ around the target $w_y$: that is where
# the adversary may put it. For a context $h$, shown as an arrow, the logit of a word is how far the
# word lies in the direction of $h$, times $\|h\|$. So the worst place in the disc is the one
# farthest *against* $h$. Draw the line through it at a right angle to $h$: whatever lies beyond this
# line has a higher logit than the moved target.

# %%
plane = np.array([[1.5, 1.1], [0.7, 1.6], [-0.9, 1.2], [-1.5, -0.3],
                  [-0.1, -1.3], [1.3, -0.6], [0.3, 0.3]])  # fmt: skip
radius = 0.3


def disc(ax, angle, title):
    """The target's disc, a context, and what beats the moved target."""
    h = np.array([np.cos(angle), np.sin(angle)])
    worst = plane[0] + theory.worst_perturbation(h, radius).numpy()
    along, corner = 9 * np.array([-h[1], h[0]]), worst + 9 * h
    edge = [worst - along, worst + along, corner + along, corner - along]
    ax.fill(*np.transpose(edge), alpha=0.15, color=plots.COLOURS[1])
    turn = np.linspace(0, 2 * np.pi, 100)
    circle = radius * np.stack([np.cos(turn), np.sin(turn)], 1)
    place = np.transpose(plane[0] + circle)
    ax.fill(*place, alpha=0.5, color=plots.COLOURS[0])
    draw_words(ax, h, worst, title)


# %%
def draw_words(ax, h, worst, title):
    """The words, the context, and where the adversary puts the target."""
    ax.plot(*plane[1:].T, "o", color=plots.INK)
    ax.plot(*plane[0], "o", color=plots.COLOURS[0], markersize=8)
    ax.plot(*worst, "X", color=plots.COLOURS[1], markersize=9)
    ax.annotate("$w_y$", plane[0] + [0.3, 0.2], fontsize=13)
    ax.annotate("rival", plane[1] + [-0.1, 0.12], ha="right")
    arrow = {"arrowstyle": "-|>", "color": plots.INK, "lw": 1.6}
    ax.annotate("", 1.1 * h, (0, 0), arrowprops=arrow)
    ax.annotate(r"$w_y+\delta^*$", worst + [-0.1, -0.4], fontsize=12)
    ax.annotate("$h$", 1.15 * h + [0.08, -0.12], fontsize=13)
    ax.plot(0, 0, "+", color=plots.INK, markersize=14)
    ax.set(xlim=(-1.9, 2.6), ylim=(-1.8, 2.6), title=title)
    ax.set(aspect="equal", xlabel="first dimension", ylabel="second")


# %%
figure, axes = plots.panels(1, 2, height=4.2)
disc(axes[0], np.radians(15), "wins by the margin")
disc(axes[1], np.radians(48), "wins, but not by the margin")
plots.show(
    figure,
    alt="Two drawings of seven words in a plane with a disc around the "
    "target. A line through the disc's worst point, at a right angle to "
    "the context, bounds a shaded half-plane. Left: no other word is in "
    "it. Right, with the context turned: the nearest rival is in it.",
)

# %% [markdown]
# On the left the shaded side of the line holds no other word: the target wins wherever in its disc
# it is put. On the right it still has the highest logit, but the adversary can make it lose.
#
# The picture proves a theorem. The whole disc lies on the shaded side. So a rival *inside the disc*
# always beats the moved target, whatever the context: a word can only be recognised robustly if no
# other word is within $\varepsilon$ of it. This is how the paper hopes to spread the words.

# %% [markdown]
# ## The worst perturbation
#
# The adversary chooses $\delta$ with $\|\delta\| \le \varepsilon$ to make $(w_y+\delta)^\top h$ as
# small as it can. By the inequality of Cauchy and Schwarz,
#
# $$(w_y + \delta)^\top h = w_y^\top h + \delta^\top h \ge w_y^\top h - \|\delta\|\,\|h\|
# \ge w_y^\top h - \varepsilon\|h\|,$$
#
# and $\delta^* = -\varepsilon\, h/\|h\|$ attains it. There is nothing to search for, and the number
# of dimensions does not enter. With the probability of the target
#
# $$\mathrm{AdvSoft}_\varepsilon(y, h) = \frac{\exp(w_y^\top h - \varepsilon\|h\|)}
# {\exp(w_y^\top h - \varepsilon\|h\|) + \sum_{j\ne y}\exp(w_j^\top h)},$$
#
# training minimises $-\log \mathrm{AdvSoft}_\varepsilon$ instead of $-\log$ of the softmax.
#
# **Theorem 3.1** says that this is even the worst case when the adversary may move *every* word, by
# $\varepsilon/2$ each: it takes $\frac\varepsilon2\|h\|$ from the target's logit and adds
# $\frac\varepsilon2\|h\|$ to all others. A softmax does not notice when the same number is taken from
# all logits, so take $\frac\varepsilon2\|h\|$ from each: the target has lost $\varepsilon\|h\|$, and the
# others nothing. We attack 50 words in 8 dimensions ten thousand times at random, and once as the
# theorem says.

# %%
# NBVAL_CHECK_OUTPUT
_ = torch.manual_seed(SEED)
W, h = torch.randn(50, 8), torch.randn(8)
y, eps = 3, 0.8
closed = float(theory.adversarial_probability(W, h, y, eps))
attacks = eps / 2 * F.normalize(torch.randn(10_000, 50, 8), dim=-1)
tried = ((W + attacks) @ h).softmax(-1)[:, y]
worst = -theory.worst_perturbation(h, eps / 2).float().repeat(50, 1)
worst[y] = -worst[y]
reached = float(((W + worst) @ h).softmax(-1)[y])
print(
    "no random attack goes below the formula:", float(tried.min()) > closed
)
print("the theorem's attack reaches it:", abs(reached - closed) < 1e-6)

# %% [markdown]
# A random attack is a poor one. The logit moves by $\delta^\top h = \varepsilon \|h\| \cos(\delta, h)$,
# and in many dimensions two random directions are nearly at right angles: the cosine has mean 0 and
# standard deviation $1/\sqrt d$.

# %%
groups = {}
for size in (2, 8, 128):
    draws = F.normalize(torch.randn(20_000, size), dim=1)
    groups[f"d = {size}"] = draws[:, 0].numpy()
spread = float(groups["d = 128"].std())

# %%
figure = plots.cosine_histogram(groups)
ax = figure.axes[0]
ax.axvline(-1, color=plots.INK, linestyle=":", linewidth=2)
ax.set(xlabel="change of the logit, in units of ε‖h‖", xlim=(-1.05, 1.05))
ax.annotate("← the adversary", (-0.97, 3.4))
ax.legend(loc="upper right")
plots.show(
    figure,
    alt="Densities of the change of a logit by noise of one length in "
    "random directions. In 2 dimensions all changes occur; in 128 they "
    f"crowd around 0 with a standard deviation of {spread:.2f}, far from "
    "the adversary's, which is always at −1.",
)

# %% [markdown]
# ## A margin, in nats
#
# Let $z = w_y^\top h - \log\sum_{j\ne y}\exp(w_j^\top h)$ be the target's **lead** over all other words
# together, in nats, the unit of natural logarithms. Divide numerator and denominator of the softmax
# by $\exp(w_y^\top h)$: the plain loss is $\log(1 + e^{-z})$. With the **margin** $m = \varepsilon\|h\|$,
#
# $$L = \log\big(1 + e^{m - z}\big),\qquad -\frac{\partial L}{\partial z} = 1 - \tilde p,\qquad
# \tilde p = \mathrm{AdvSoft}_\varepsilon(y, h):$$
#
# the same curve, moved to the right by $m$. A target that leads by a little is treated as if it were
# behind; its pull, and the push of the others, is as strong as if it had been predicted worse.
#
# The paper makes the noise proportional to the word, $\varepsilon = \alpha\|w_y\|$. Then $m =
# \alpha\|w_y\|\|h\|$, and with the angle $\theta$ between the two, the target's logit is
# $\|w_y\|\|h\|(\cos\theta - \alpha)$: $\alpha$ is a margin in the cosine. The paper uses $\alpha =
# 0.005$.

# %%
z = np.linspace(-4, 6, 101)
figure, axes = plots.panels(1, 2, height=3.7)
curves = {f"m = {m}": (z, np.logaddexp(0, m - z)) for m in (0, 1, 3)}
pulls = {f"m = {m}": (z, 1 / (1 + np.exp(z - m))) for m in (0, 1, 3)}
plots.lines(curves, "lead z, nats", "loss, nats", ax=axes[0])
plots.lines(pulls, "lead z, nats", "pull on the target", ax=axes[1])
axes[1].legend_.remove()
plots.show(
    figure,
    alt="Loss and pull on the target against its lead, for margins of 0, "
    "1 and 3 nats: the same falling curves, moved to the right by the "
    "margin.",
)

# %% [markdown]
# ## The code
#
# The layer adds $-\varepsilon\|h\|$ to the target's logit in training and does nothing in evaluation.
# `contexts` are the $h$ of a batch, one or, for a mixture, several a position; `self.words(target)`
# are the rows $w_y$. Both the paper's settings and those of its released code are here: they are
# taken up below.

# %% tags=["hide-input"]
source = inspect.getsource(AdversarialSoftmax.target_offset)
display(Code(source, language="python"))

# %% [markdown]
# ## What it aims at
#
# The plain loss is smallest when the model's probabilities are the true ones. With a margin this is
# no longer so. Take one context in which the true probabilities are $q_k$, and a margin that is the
# same for all words. Setting the gradient of the expected loss to zero gives, for small $m$,
#
# $$p_k \approx q_k\Big(1 + m\big(q_k - \textstyle\sum_j q_j^2\big)\Big):$$
#
# what is likely becomes likelier, what is unlikely less likely. The distribution is **sharpened**.
# (This is not in the paper; exercise 3 derives it.) With two words there is
# a closed form for every $m$, which we draw, and we check the formula with six words by minimising
# the expected loss.

# %%
q = np.linspace(0.001, 0.999, 199)
curves = {"m = 0, the truth": (q, q)}
for m in (0.5, 1, 2):
    M = np.exp(m)
    root = np.sqrt((M * (1 - 2 * q)) ** 2 + 4 * q * (1 - q))
    odds = (root - M * (1 - 2 * q)) / (2 * (1 - q))
    curves[f"m = {m}"] = (q, odds / (1 + odds))

# %%
near = np.abs(q - 0.7).argmin()
at = {name: curve[near] for name, (_, curve) in curves.items()}
axis = "the model's probability"
figure = plots.lines(curves, "true probability of a word", axis)
plots.show(
    figure,
    alt="Probability that minimises the adversarial loss against the "
    "true one, for two words. Above one half it is higher than the "
    f"truth, below one half lower: at 0.7 it is {at['m = 0.5']:.2f} with "
    f"m = 0.5 and {at['m = 2']:.2f} with m = 2.",
)

# %%
truth, m = torch.tensor([0.4, 0.25, 0.15, 0.1, 0.06, 0.04]).double(), 0.02
l = truth.log().requires_grad_()  # noqa: E741
solver = torch.optim.LBFGS([l], 1, 200, 1000, 1e-12, 1e-15)


def expected():
    """Σ q_y · (−log AdvSoft) with a margin of m for every target."""
    solver.zero_grad()
    moved = l - m * torch.eye(6)  # row y: the logits when y is the target
    loss = -(truth * moved.log_softmax(1).diagonal()).sum()
    loss.backward()
    return loss


# %%
# NBVAL_CHECK_OUTPUT
_ = solver.step(expected)
change = (l.detach().softmax(0) - truth) / m
formula = truth * (truth - truth.square().sum())
off = float((change / formula - 1).abs().max())
print("as the formula says, within 10 %:", off < 0.1)

# %% [markdown]
# So the method has a price that no amount of data takes away. It can only pay where something else is
# gained: where a model with the plain loss overfits.

# %% [markdown]
# ## Three gradients
#
# The loss contains $m = \varepsilon\|h\| = \alpha\|w_y\|\|h\|$, which depends on what is trained. How
# much of it is differentiated is a choice, and the library has all three:
#
# | `gradient` | held constant | whose |
# |---|---|---|
# | `"hidden"` | $\varepsilon$, but not $\lVert h\rVert$ | the paper's Algorithm 1, and its released code |
# | `"none"` | all of $m$ | one sentence of the paper's text |
# | `"full"` | nothing | the true gradient of $-\log\mathrm{AdvSoft}$ |
#
# With $\tilde p_j$ the probabilities after the target was moved,
#
# $$\frac{\partial L}{\partial h} = \underbrace{\sum_j \tilde p_j w_j - w_y}_{\text{none}}
# + \underbrace{(1-\tilde p_y)\,\varepsilon\,\frac{h}{\|h\|}}_{\text{added by hidden and full}},
# \qquad
# \frac{\partial L}{\partial w_y} = \underbrace{-(1-\tilde p_y)\,h}_{\text{none, hidden}}
# + \underbrace{(1-\tilde p_y)\,\alpha\|h\|\frac{w_y}{\|w_y\|}}_{\text{added by full}}.$$
#
# The added terms are easy to read. Descent goes *against* the gradient, so the first one makes $h$
# **shorter**, and the second makes $w_y$ shorter. The paper contradicts itself about the first term.
# Algorithm 1 *has* it: the algorithm fixes $\delta^*$ and ascends the log-likelihood of $w_y+\delta^*$,
# and the derivative of $(w_y+\delta^*)^\top h$ contains that of $\delta^{*\top} h$, which is
# $-\varepsilon h/\|h\|$. The released code does the same. One sentence of section 3.1 holds the term
# back: it reports that training otherwise diverges, and supposes that the term forces $\|h\|$ to be
# large. The formula says the opposite, because the worst case is milder for a short context. This
# course follows Algorithm 1, and keeps the sentence's gradient, `"none"`, for comparison.
#
# We take the layer's gradients apart first:

# %%
words = FullWords(30, 8)
h, target = torch.randn(1, 8), torch.tensor([4])
found = {}
for gradient in ("none", "hidden", "full"):
    options = dict(alpha=0.3, bias=False, gradient=gradient)
    layer, x = AdversarialSoftmax(words, **options), h.clone()
    loss, _ = layer(x.requires_grad_(), target)
    found[gradient] = torch.autograd.grad(loss, x)[0]

# %%
# NBVAL_CHECK_OUTPUT
eps = 0.3 * words(target).norm()
rest = 1 - torch.exp(-loss.detach())
shrink = rest * eps * h / h.norm()
added = found["hidden"] - found["none"]
print("added by hidden: (1 − p̃) ε h/‖h‖:", torch.allclose(added, shrink))
same = torch.equal(found["full"], found["hidden"])
print("full adds the same to h:", same)

# %% [markdown]
# ### Settled by experiment
#
# A language whose truth is known, as in [lesson 4](04_softmax_bottleneck.ipynb): 30 contexts, 80 words.
# The model is a softmax with free vectors for contexts and words. It sees only 2,000 tokens, so that
# it overfits, and is measured against the true probabilities: its **excess** is the expected loss
# above the entropy. Six models are trained for a range of $\alpha$, on six samples each: the three
# gradients with $\varepsilon = \alpha\|w_y\|$; Algorithm 1's with an $\varepsilon$ that is the same for all
# words; noise of the same size in a random direction; and a rival. For if what matters is that contexts
# become shorter, a plain penalty $\lambda\|h\|^2$ should do the same. (It is the activation
# regularisation that AWD-LSTM, the paper's base model, has anyway.) Bars are **95 % intervals** of the
# mean: of a hundred such intervals, each from new samples, about 95 would hold the mean of all.

# %%
options = dict(N=80, d=8, states=30, tokens=1000, seed=SEED)
truth = corpora.load("zipf", **options).truth
joint = (truth.stationary[:, None] * truth.matrix.exp()).float()
alphas = [0, 0.003, 0.01, 0.03, 0.1, 0.3]


def sample(seed, tokens=2000):
    """The shares of (context, word) among that many tokens."""
    draw = dict(generator=torch.Generator().manual_seed(seed))
    pairs = torch.multinomial(joint.flatten(), tokens, True, **draw)
    counts = torch.bincount(pairs, minlength=joint.numel())
    return counts.view_as(joint) / tokens


# %%
seen = torch.stack([sample(seed) for seed in range(6)])
seen = seen.repeat(len(alphas), 1, 1)  # all fits at once: alphas × samples
alpha = torch.tensor(alphas).repeat_interleave(6)[:, None, None]


# %%
def margins(H, W, kind):
    """m of every fit, context and word, with the gradient asked for."""
    h = H if kind in ("hidden", "full", "constant") else H.detach()
    w = W if kind == "full" else W.detach()
    if kind == "constant":  # ε = 2.4 α for every word: their usual norm
        w = torch.full_like(w, 2.4 / w.shape[-1] ** 0.5)
    m = alpha * h.norm(dim=-1)[..., None] * w.norm(dim=-1)[:, None]
    if kind == "random":
        m = m * torch.randn(m.shape) / 8**0.5  # times a random cosine
    return m


# %%
def objective(log_p, H, W, kind):
    """Expected loss, the sum of all fits, from the plain log P."""
    if kind == "rival":  # λ ‖h‖², with λ = α
        length = alpha * H.square().sum(-1, keepdim=True)
        return (seen * (length - log_p)).sum()
    m = margins(H, W, kind)  # only the target's term of the sum moves
    normaliser = (log_p.exp() * (-m).expm1()).log1p()
    return (seen * (m - log_p + normaliser)).sum()


# %%
def fit(kind, steps=200):
    """Excess over the entropy and mean ‖h‖: (alphas, samples) each."""
    torch.manual_seed(SEED)
    H, W = torch.randn(len(seen), 30, 8), torch.randn(len(seen), 80, 8)
    free = [H, 0.1 * W, torch.zeros(len(seen), 1, 80)]
    H, W, b = (x.requires_grad_() for x in free)
    optimizer = torch.optim.Adam(free, lr=0.05)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        log_p = (H @ W.mT + b).log_softmax(-1)
        objective(log_p, H, W, kind).backward()
        optimizer.step()
        decay.step()
    return log_p.detach(), H.norm(dim=-1).mean(1).detach().view(-1, 6)


# %%
kinds = {
    "none": "none, the text",
    "hidden": "hidden, the code",
    "full": "full",
    "random": "random noise",
    "rival": "rival, λ‖h‖²",
    "constant": "hidden, constant ε",
}
steps = 20 if PROFILE == "smoke" else 200
excess, length = {}, {}
for kind in kinds:
    log_p, length[kind] = fit(kind, steps)
    loss = -(joint * log_p).sum((1, 2))
    excess[kind] = (loss - truth.entropy).view(-1, 6)


# %%
def bars(ax, x, samples, i, label):
    """Means over `samples`, with intervals, in the i-th style."""
    found = [statistics.mean_interval(values)[:3] for values in samples]
    mean, low, high = np.transpose(found)
    style = dict(color=plots.COLOURS[i], linestyle=plots.LINES[i])
    style |= dict(marker=plots.MARKERS[i], capsize=3)
    ax.errorbar(x, mean, (mean - low, high - mean), label=label, **style)


figure, axes = plots.panels(1, 2, height=4.8)
for ax, values in zip(axes, (length, excess), strict=True):
    for i, (kind, table) in enumerate(values.items()):
        bars(ax, alphas[1:], table[1:], i, kinds[kind])
    start = float(values["none"][0].mean())
    ax.axhline(start, color=plots.INK, lw=1, label="plain softmax")
    ax.set(xscale="log", xlabel="α, or λ of the rival")

# %%
best = {kind: float(table.mean(1).min()) for kind, table in excess.items()}
axes[0].set_ylabel("mean length of a context")
axes[1].set_ylabel("excess, nats a word")
handles = axes[0].get_legend_handles_labels()
figure.legend(*handles, loc="outside lower center", ncols=3)
plots.show(
    figure,
    alt="Two panels against α. The mean length of a context stays level "
    "for the gradient none and for random noise, and falls for hidden, "
    "full and the rival penalty. The excess never falls clearly below "
    f"{start:.2f} nats for the first two, and falls to "
    f"{best['hidden']:.2f}, {best['full']:.2f} and {best['rival']:.2f} "
    "for the others.",
)

# %%
# NBVAL_CHECK_OUTPUT
shorter = length["hidden"][-1].mean() < length["none"][0].mean()
print("Algorithm 1 makes contexts shorter:", bool(shorter))
finite = np.isfinite(list(excess.values())).all()
print("everything stayed finite:", bool(finite))
apart = abs(excess["none"][1] - excess["random"][1]).mean()
print("α = 0.003: none and random noise within 0.05:", bool(apart < 0.05))

# %% [markdown]
# Three results, all at once.
#
# - The gradient `none`, which one sentence recommends, regularises nothing here: the excess is that of
#   the plain softmax, and rises for large $\alpha$, perhaps by the sharpening. Random noise does as little.
# - The gradients that run through the norm regularise strongly, and everything stays finite. Their
#   formula pulls at the margin $\alpha\|w\|\|h\|$: `hidden` shortens the contexts, and `full` may shorten
#   the words as well, so at the same excess its contexts can be longer.
# - A penalty on $\|h\|^2$, with no adversary in it, does it as well. So does a constant $\varepsilon$: that the
#   noise adapts to the word is of little consequence here.
#
# What works here is not the worst case as such but the *norm* in its formula. Whether that carries
# over to text is the question of the rest of the lesson. A Transformer may well be different: a layer
# normalisation sets the length of all its contexts at once.

# %% [markdown]
# ## Does it have to spread the words?
#
# The paper's second promise is diversity. **Definition 3.2**: a word $i$ is
# *$\varepsilon$-recognisable* if there is a context in which it wins by the margin, $w_i^\top h -
# \varepsilon\|h\| > w_j^\top h$ for all $j\ne i$. The largest such $\varepsilon$, or 0 if none is
# positive, is the word's **margin**; `theory.margin_witness` computes it with the context that attains it. For the seven words
# of the first picture:

# %%
distance = neighbours.nearest_neighbours(plane)[0]
widest = [theory.margin_witness(plane, i).margin for i in range(7)]
names = ["target", "rival", *"bcde", "inside"]
rows = {"margin": widest, "distance to the nearest": distance}
pd.DataFrame(rows, index=names).T.round(2)

# %% [markdown]
# **Theorem 3.3** is the picture's: a margin is at most the distance to the nearest other word. It is
# not more than that. The word *inside* is far from all others, and yet no context ever prefers it,
# because whichever way $h$ points some other word lies farther out. To be apart is necessary, not
# sufficient.
#
# **Theorem 3.4** puts a number on it: with $\sigma$ the logistic function,
#
# $$\mathrm{AdvSoft}_\varepsilon(i, h) \le \sigma(\Phi_i),\qquad
# \Phi_i = -\log\sum_{j\ne i}\exp\big(-\|h\|(\|w_i - w_j\| - \varepsilon)\big).$$
#
# It is Cauchy and Schwarz once more: the logit of $i$ exceeds that of $j$ by at most
# $\|h\|\|w_i - w_j\|$, before $\varepsilon\|h\|$ is taken from it. With another word within
# $\varepsilon$ the adversarial probability is at most one half, whatever the context; with all others
# farther away than that the bound goes to 1 as $\|h\|$ grows. Both theorems on random clouds of 60 words; for the second each word gets the context of its margin, and random ones, at three lengths.

# %%
clouds, witnesses, rows = {}, {}, {}
for size in (2, 8, 32):
    rows[size] = W = torch.randn(60, size) / size**0.5  # length about 1
    witnesses[size] = [theory.margin_witness(W, i) for i in range(60)]
    found = np.array([w.margin for w in witnesses[size]])
    clouds[size] = neighbours.nearest_neighbours(W)[0], found

# %%
own = torch.stack([w.h for w in witnesses[8]])
chance = F.normalize(torch.randn(60, 8).double(), dim=1)
ways = torch.cat([own, F.normalize(own + chance, dim=1)])
i, pairs = torch.arange(60).repeat(2), {}
for norm in (2, 8, 32):
    p = theory.adversarial_probability(rows[8], norm * ways, i, 0.2)
    bound = theory.recognition_bound(rows[8], i, torch.tensor(norm), 0.2)
    pairs[norm] = bound, p

# %%
figure, (left, right) = plots.panels(1, 2, height=4.1)
marks = zip(clouds.items(), plots.MARKERS, strict=False)
for (size, points), mark in marks:
    left.plot(*points, mark, label=f"d = {size}", alpha=0.7)
for (norm, points), mark in zip(pairs.items(), "vDP", strict=True):
    right.plot(*points, mark, label=f"‖h‖ = {norm}", alpha=0.7)
end = [0, max(float(nearest.max()) for nearest, _ in clouds.values())]
left.plot(end, end, "--", color=plots.INK)
right.plot([1e-4, 1], [1e-4, 1], "--", color=plots.INK)
left.set(xlabel="distance to the nearest row", ylabel="margin")
right.set(xlabel="bound of theorem 3.4, σ(Φ)", xscale="log", yscale="log")
right.set(ylabel="AdvSoft", ylim=(1e-6, 2))
for ax in (left, right):
    ax.legend(loc="best")

# %%
lost = float((clouds[2][1] == 0).mean())
ratio = float(np.mean(clouds[32][1] / clouds[32][0]))
plots.show(
    figure,
    alt="Left: margin against the distance to the nearest row in 2, 8 and "
    f"32 dimensions; all points lie below the diagonal, {lost:.0%} of the "
    "words in the plane have margin 0, and in 32 dimensions the margin is "
    f"on average {ratio:.0%} of the distance. Right: adversarial "
    "probabilities against their bound, all below the diagonal.",
)

# %%
# NBVAL_CHECK_OUTPUT
third = [bool((m <= far + 1e-9).all()) for far, m in clouds.values()]
fourth = [bool((p <= bound + 1e-12).all()) for bound, p in pairs.values()]
print("theorem 3.3 holds:", all(third))
print("theorem 3.4 holds:", all(fourth))

# %% [markdown]
# So the theorems are true. Are they a reason for words to move apart? In the plane space is scarce
# and most words have no margin at all. In 32 dimensions random words, which nobody has spread, have
# margins of most of their distance. Where words lie so, margins far above $\alpha\|w\|$ with
# $\alpha = 0.005$ need no word to move. (A trained cloud is no random one; its margins are not computed
# here.) And the bound of theorem 3.4 is next to 1 as soon as contexts have a length of 8, even here, where 0.2 is about a fifth of a word's
# length: it says nothing then. The theorems permit spreading; they do not force it.

# %% [markdown]
# ## With and without
#
# Now a Transformer on real text, the one of lesson 2. To see whether a regulariser regularises, the
# model must have something to overfit: it reads few tokens several times. It is trained twice from the
# same start, with the softmax and with the adversarial softmax at the `ALPHA` and `GRADIENT` of the
# parameters at the top; change them and run again. (Our $\alpha$ is far above the paper's. What counts
# is the margin in nats, and below it is given for both.)


# %%
def experiment(method):
    """The recipe at this profile; in `quick` as in the sweep."""
    recipe = course_lab.recipes[f"docstrings/transformer-128/{method}"]
    chosen = course_lab.profile(recipe, PROFILE, seed=SEED)
    kept = plans.read_plan("lessons-07").runs[-1].experiment()
    if PROFILE in ("smoke", "quick"):
        chosen = chosen.change(corpus=kept.corpus.options)
    if PROFILE == "quick":
        o = {n: getattr(kept.optimisation, n) for n in ("epochs", "batch")}
        chosen = chosen.change(optimisation=o)
    if method == "adversarial":
        noise = {"alpha": ALPHA, "gradient": GRADIENT}
        chosen = chosen.change(output_layer=noise)
    return chosen


# %%
recipes = {"softmax": "tied", "adversarial": "adversarial"}
runs = {}
for name, method in recipes.items():
    with tempfile.TemporaryDirectory() as folder:
        settings = dict(folder=folder, progress=False)
        runs[name] = course_lab.run(experiment(method), **settings)
corpus = runs["softmax"].corpus
models = {name: run.model.cpu().eval() for name, run in runs.items()}
W = {n: model.words.matrix().detach() for n, model in models.items()}
noisy = runs["adversarial"].experiment.output_layer.options
print({name: noisy[name] for name in ("alpha", "gradient")})

# %% [markdown]
# The **training perplexity** that a run reports for the adversarial softmax is that of the *moved*
# targets: a harder task, and no sign of a bad fit. (The paper's Figure 1c compares the two curves as they are
# logged.) So we evaluate both models on a piece of the training text once more, with the plain
# softmax. We also ask for the best **temperature** $T$: dividing all logits by $T$ sharpens or flattens
# every distribution, and $T > 1$ is best for a model that is too sure.


# %%
@torch.no_grad()
def contexts(model, tokens):
    """Contexts (n, d) and the words that follow them (n,)."""
    batches = list(data.batches(data.columns(tokens, 20), 64))
    hidden = [model(inputs).hidden.flatten(0, 1) for inputs, _ in batches]
    return torch.cat(hidden), torch.cat([y.flatten() for _, y in batches])


seen_by = {n: contexts(model, corpus.valid) for n, model in models.items()}


def temperature(name):
    """The least loss on validation text over T, and its T."""
    h, target = seen_by[name]
    logits = h @ W[name].T
    losses = []
    for t in np.geomspace(0.7, 2.5, 25):
        losses.append((float(F.cross_entropy(logits / t, target)), t))
    return min(losses)


# %%
def measured(name):
    """What one of the two models does on training and validation text."""
    model, metrics = models[name], runs[name].metrics
    logged = runs[name].epochs[metrics["best_epoch"] - 1]
    h, target = seen_by[name]
    part, settings = corpus.train[:5_000], dict(eos=corpus.eos, length=64)
    return {
        "training, as logged": logged["train_perplexity"],
        "training, plain": perplexity(model, part, **settings),
        "validation": metrics["valid_perplexity"],
        "best temperature": temperature(name)[1],
        "mean ‖h‖": float(h.norm(dim=1).mean()),
        "mean ‖w‖, targets": float(W[name][target].norm(dim=1).mean()),
    }


# %%
figures = pd.DataFrame({name: measured(name) for name in runs})
figures.round(2)

# %% [markdown]
# Each model is shown at its best epoch. Compare the two models in the first row and then in the second:
# most of the gap in what is logged is the moved target. If the adversary sharpens the predictions, its
# model wants a higher temperature, in the row below. (The grid has steps of about five per cent: equal
# temperatures mean that no sharpening larger than that was there.)

# %% [markdown]
# ## The geometry
#
# The paper's **Figure 1a** shows the density of the distance of each word to its nearest neighbour,
# larger with its method, as evidence of diversity. But a distance has a scale. Multiply all word vectors by two and
# every distance doubles, while no word has moved relative to the others. We draw the distances as
# they are, and divided by the root mean square of the norms.

# %%
far = {name: neighbours.nearest_neighbours(w)[0] for name, w in W.items()}
scale = {n: float(w.square().sum(1).mean().sqrt()) for n, w in W.items()}
raw = {n: statistics.density(d) for n, d in far.items()}
scaled = {n: statistics.density(d / scale[n]) for n, d in far.items()}
middle = {
    n: (np.median(d), np.median(d) / scale[n]) for n, d in far.items()
}

# %%
figure, axes = plots.panels(1, 2, height=4)
label = "distance to the nearest word"
plots.lines(raw, label, "density of words", ax=axes[0])
plots.lines(scaled, f"{label} / norm", "", ax=axes[1])
axes[1].legend_.remove()
plots.show(
    figure,
    alt="Densities of the distance to the nearest word, softmax and "
    "adversarial. The medians are "
    f"{middle['softmax'][0]:.2f} and {middle['adversarial'][0]:.2f}; "
    "divided by the norm of the vectors "
    f"{middle['softmax'][1]:.2f} and {middle['adversarial'][1]:.2f}.",
)

# %% [markdown]
# **Figure 1b** shows singular values divided by the largest, which do not depend on the scale.

# %%
values = {name: geometry.singular_values(w) for name, w in W.items()}
second = {n: s[1] / s[0] for n, s in values.items()}
plots.show(
    plots.singular_values(values),
    alt="Singular values of the two word matrices divided by the largest, "
    f"on a logarithmic axis. The second is {second['softmax']:.2f} of the "
    f"first for the softmax, {second['adversarial']:.2f} for the "
    "adversarial softmax.",
)

# %% [markdown]
# So has the adversary spread the words, your fourth prediction? Only distances relative to the norms
# and the spectrum can tell:

# %%
hot, cold = figures.loc["best temperature"]
near = [middle[name][1] for name in W]
display(
    Markdown(
        f"Best temperature {hot:.2f} without and {cold:.2f} with the "
        f"adversary; the nearest word at {near[0]:.2f} and {near[1]:.2f} "
        f"norms; σ₂/σ₁ {second['softmax']:.2f} and "
        f"{second['adversarial']:.2f}."
    )
)

# %% [markdown]
# And the rest: the cone, measured as in
# lesson 2, and how many targets of the validation text win, plainly and by the margin
# $\alpha\|w_y\|\|h\|$ of the live run.


# %%
@torch.no_grad()
def winners(name):
    """Shares of the targets that win, and that win by the margin."""
    h, target = seen_by[name]
    logits = h @ W[name].T
    margin = ALPHA * W[name][target].norm(dim=1) * h.norm(dim=1)
    own = logits.gather(1, target[:, None])[:, 0]
    rival = logits.scatter(1, target[:, None], -torch.inf).amax(1)
    lead = own - rival
    return [float((lead > m).float().mean()) for m in (0, margin)]


# %%
rare, frequent = geometry.by_frequency(corpus.counts.numpy())
labels = ["mean cosine, rare words", "mean cosine, 500 most frequent"]
labels += ["targets that win", "and by the margin"]
shapes = {}
for name, w in W.items():
    cosines = [geometry.mean_cosine(w[ids]) for ids in (rare, frequent)]
    shapes[name] = [*cosines, *winners(name)]
pd.DataFrame(shapes, index=labels).round(3)

# %% [markdown]
# ## The noise, swept
#
# What follows was trained beforehand, the plan `lessons-07` in the profile `quick`, three seeds for each
# setting, on two occasions: 30,000 tokens read five times, where training and validation perplexity still
# fall together at the end, and 10,000 tokens read ten times, where the validation perplexity has levelled
# off while the training perplexity goes on falling. The figures are those of the
# epoch with the best validation perplexity, so that every model has the benefit of early stopping.


# %%
def called(e):
    """What a run is called in the figures below."""
    o = e.output_layer.options
    noise = e.input_embedding.options.get("noise")
    if "Adversarial" in e.output_layer.kind:
        size = "constant ε" if "epsilon" in o else f"α = {o['alpha']:g}"
        how = "random" if o.get("random") else o.get("gradient", "hidden")
        return f"{how}{', gated' * o.get('gated', False)}, {size}"
    if noise:
        return f"input noise {noise:g}"
    dropout = e.encoder.options["dropout"]
    return f"dropout {dropout:g}" if dropout else "plain softmax"


# %%
rows = []
for planned in plans.read_plan("lessons-07").runs:
    kept = course_lab.read_kept(planned.key)
    e, epochs = planned.experiment(), kept["epochs"]
    row = {"called": called(e), "seed": planned.seed}
    row["passes"] = e.optimisation.epochs
    row["alpha"] = e.output_layer.options.get("alpha")
    row["test"] = kept["metrics"]["test_perplexity"]
    for column in ("train", "valid"):
        row[column] = [epoch[f"{column}_perplexity"] for epoch in epochs]
    rows.append(row | kept["metrics"]["geometry"])
table = pd.DataFrame(rows)
few, many = (table[table.passes == n] for n in (5, 10))
source = kept["provenance"]
print(len(table), "runs, the last at commit", source["commit"][:7])

# %% [markdown]
# The course of training on 10,000 tokens, means of three seeds, as in the paper's **Figure 1c**. Mind
# that the training perplexity of the adversarial models is that of the moved targets.

# %%
wanted = ["plain softmax", "none, α = 0.1", "hidden, α = 0.1"]
wanted += ["none, α = 1", "hidden, α = 1"]
figure, axes = plots.panels(1, 2, height=4.2)
parts = {"train": "training perplexity", "valid": "validation perplexity"}
for ax, (column, label) in zip(axes, parts.items(), strict=True):
    curves = {}
    for name in wanted:
        runs_of = many[many.called == name][column]
        curves[name] = np.mean(list(runs_of), 0)
    plots.lines(curves, "epoch", label, log="y", ax=ax)
axes[1].legend_.remove()
least = ", ".join(f"{curve.min():.0f}" for curve in curves.values())

# %%
plots.show(
    figure,
    alt="Training and validation perplexity over ten epochs for the plain "
    "softmax and two gradients with α = 0.1 and α = 1. The training "
    "curves of the adversarial models lie higher, and with α = 1 they "
    f"rise again. The minima of the validation curves are {least}.",
)

# %% [markdown]
# At $\alpha = 1$ what is logged falls and then rises: the margin $\alpha\|w_y\|\|h\|$ grows with the
# model, most under `none`, which does not hold the margin back. The paper's sentence reports that
# training diverges with the other gradient; here the validation perplexity hardly notices either.
#
# The sweep of $\alpha$, the counterpart of the paper's **Figure 2**. The paper's values, 0.001 to 0.01,
# are not in it, because they could hardly do anything here: what counts is the margin in nats, $\alpha\|w_y\|\|h\|$.

# %%
product = figures.loc["mean ‖h‖"] * figures.loc["mean ‖w‖, targets"]
nats = {a: a * float(product["softmax"]) for a in (0.005, 0.1, 1)}
listed = ", ".join(f"{n:.2g} nats with α = {a:g}" for a, n in nats.items())
display(Markdown(f"The margin of the live model: about {listed}."))

# %%
figure, axes = plots.panels(1, 2, height=4.3)
labels = {"test": "test perplexity", "mean_norm": "mean norm of a word"}
for ax, (column, label) in zip(axes, labels.items(), strict=True):
    for i, how in enumerate(["none", "hidden"]):
        like = many[many.called.str.match(f"{how}, α")]
        groups = like.groupby("alpha")[column]
        bars(ax, list(groups.groups), [v for _, v in groups], i, how)
    plain = many[many.called == "plain softmax"][column]
    low, high = statistics.mean_interval(plain)[1:3]
    ax.axhspan(low, high, color="grey", alpha=0.3, label="plain softmax")
    ax.set(xscale="log", xlabel="α", ylabel=label)
    ax.set_xticks(list(groups.groups), map(str, groups.groups))
    ax.minorticks_off()
handles = axes[0].get_legend_handles_labels()
_ = figure.legend(*handles, loc="outside lower center", ncols=3)

# %%
at = many.groupby("called")["test"].mean()
top = f"α = {many['alpha'].max():g}"
plots.show(
    figure,
    alt="Test perplexity and mean norm of the words against α, for two "
    "gradients, with a band for the plain softmax, whose perplexity is "
    f"{at['plain softmax']:.0f}. At α = 0.1 and {top} it is "
    f"{at['none, α = 0.1']:.0f} and {at['none, ' + top]:.0f} without "
    f"the gradient, {at['hidden, α = 0.1']:.0f} and "
    f"{at['hidden, ' + top]:.0f} with it.",
)

# %% [markdown]
# And every variant against the plain softmax, in perplexity on the test split. ("Gated": only targets
# with $w_y^\top h > 0$ are moved, as in the paper's code.) Models of one seed begin with the same
# numbers and read the text in the same order, so we compare seed by seed: a paired $t$-test, whose $p$
# is the chance of a difference at least as large if the variant changed nothing, and the 95 % interval
# around the mean of the three differences. Of twenty such intervals one misses 0 by chance,
# so the $p$-values of a table are corrected for their number (Holm's method).
# "Better" and "worse" need a corrected $p$ below 0.05, which three seeds seldom reach; an interval that
# misses 0 without it is a **hint**, the rest **inconclusive**.


# %%
def verdict(test):
    """Better or worse, for sure, by a hint, or not to be told."""
    side = "better" if test["difference"] < 0 else "worse"
    if test["corrected p"] < 0.05:
        return side
    outside = test["low"] > 0 or test["high"] < 0
    return f"{side} (hint)" if outside else "inconclusive"


# %%
def against_plain(part):
    """Every setting minus the plain softmax of the same seed."""
    wide = part.pivot(index="seed", columns="called", values="test")
    plain = wide.pop("plain softmax")
    tests = {name: statistics.paired(wide[name], plain) for name in wide}
    table = pd.DataFrame(tests, index=statistics.Difference._fields).T
    table.insert(0, "perplexity", wide.mean())
    table["corrected p"] = statistics.holm(table["p"])
    table["verdict"] = table.apply(verdict, axis=1)
    return table.drop(columns=["t", "df"]).sort_values("perplexity")


# %%
display(Markdown("10,000 tokens, ten times:"))
ten = against_plain(many)
ten.round(dict.fromkeys(ten.columns[:4], 1)).round(3)

# %%
display(Markdown("30,000 tokens, five times:"))
five = against_plain(few)
five.round(dict.fromkeys(ten.columns[:4], 1)).round(3)

# %% [markdown]
# Read the two tables together.
#
# - On few tokens the order of the means is like that of the toy language. Noise in a **random** direction, the noise
#   ablation, changes nothing. The gradient `none` changes little. Only Algorithm 1's, `hidden`,
#   has hints of a gain, with or without its **gate**; corrected for the number of tests none is left
#   that three seeds could show. A **constant** $\varepsilon$ and a larger $\alpha$ scatter more; at the
#   largest, a margin of several nats, nothing is gained.
# - **Noise on the input**, which AWD-LSTM models of the paper have and which falls to 0 over the run,
#   is another thing: it blurs what is read, not what is predicted. Our words begin with a standard
#   deviation of 0.01, so that a noise of 0.2, the paper's, drowns them.
# - On more tokens, where nothing is overfitted, the hints point the other way: by the means the
#   gradients through the norm cost perplexity, and the full one most. None survives the correction.
# - The mean norms of the words go up with `hidden`, and raw distances would go up with them, which is
#   no spreading. With `none` they differ from the plain model's by no more than its own seeds do.
#
# ### Why so little?
#
# In the toy language the norm did the work: contexts were free to become as short as they liked. Those
# of a Transformer leave a layer normalisation, which makes all of them about $\sqrt d$ long, times a gain
# that is trained slowly and serves every context at once. This may be why so little is gained; it is not
# tested here, and the same $\alpha$ in both would not be the same margin. (AWD-LSTM has no layer
# normalisation; its contexts are free.)

# %%
free = [
    float(x.mean()) for x in (length["hidden"][0], length["hidden"][4])
]
norms = figures.loc["mean ‖h‖"]
display(
    Markdown(
        f"Toy language, gradient hidden, α = {alphas[4]:g}: contexts "
        f"**{1 - free[1] / free[0]:.0%}** shorter. Transformer, gradient "
        f"{GRADIENT}, α = {ALPHA:g}: "
        f"**{1 - norms['adversarial'] / norms['softmax']:.0%}** shorter; "
        f"√d is {W['softmax'].shape[1] ** 0.5:.1f}."
    )
)

# %% [markdown]
# ## What the paper says and what its code does
#
# | | the paper | the released code | here |
# |---|---|---|---|
# | gradient of $\varepsilon\lVert h\rVert$ | through $h$ in Algorithm 1: `"hidden"`; none in a sentence of section 3.1, where "training diverges" with it | through $h$: `"hidden"` | `"hidden"`; beside it `"none"` and `"full"`; nothing became infinite, but with $\alpha = 1$ the logged training perplexity rises, more with `"none"` |
# | which targets | all | those with $\cos(h, w_y) > 0$ | `gated=True` for the code's |
# | a word that is the target twice in a batch | a $\delta$ for each position | one $\delta$ for the word, that of the last position | a $\delta$ for each position |
# | noise on the vectors read | "variance" 0.2, falling to 0 | standard deviation 0.15 or 0.175, constant | 0.2, a standard deviation, falling |
# | the baseline's settings | untouched | input dropout 0.3 and 0.5 instead of 0.4 and 0.65 | as the code in the paper's recipes |
# | fine-tuning | | $\alpha = 0.028$, more than five times the text's | as the code in the paper's recipes |
#
# The published gain is this, in perplexity on the test split; every row is for the whole bundle of
# adversary, input noise and changed dropout, against a quoted baseline, from one seed. (With *dynamic
# evaluation* a model goes on learning on the text that it is tested on.)

# %%
rows = published.rows()
rows = rows[(rows.paper == "wang2019") & (rows.split == "test")]
rows = rows[(rows.metric == "perplexity") & (rows.method != "")]
wanted = rows.method.isin(["softmax", "adversarial"])
told = rows[wanted].pivot_table(
    "value", ["corpus", "model", "setting"], "method", sort=False
)
told["difference"] = told["adversarial"] - told["softmax"]
told.round(2)

# %% [markdown]
# ## What it costs
#
# For every position the layer computes two norms, $\|h\|$ and $\|w_y\|$, of $d$ numbers each; the
# logits and their gradients take $3 N d$ multiplications.

# %%
N, d = W["softmax"].shape
share = 2 * d / (3 * N * d)
display(
    Markdown(
        f"With N = {N:,} words that is **{share:.3%}** more work in the "
        f"output layer, no further parameter, and nothing at all in "
        f"evaluation."
    )
)

# %% [markdown]
# Its true cost is the search for $\alpha$, which has to be made anew for every model: the margin
# $\alpha\|w\|\|h\|$ depends on how long its vectors are.
#
# ## When not to use it
#
# - **When the model does not overfit.** The loss aims at a sharpened distribution, and has nothing to
#   give in return for that. One epoch over a large corpus, as large models are trained today, is such
#   a case.
# - **When probabilities matter** and not only the order of the words: compare the best temperatures, as
#   above (ours differed little), calibrate afterwards, or use the plain loss.
# - **Instead of tuning** the dropout and the weight decay that are there already: compare with them
#   first.
# - **To spread the words.** Measure distances relative to the norms before you believe in it; lessons 6
#   and 8 have remedies that act on the geometry directly.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $h$, $\lVert h\rVert$ | `h`, `contexts` | context, its length |
# | $w_y$, $w_i$ | `words(target)`, `W` | vectors of the target and of a word |
# | $\varepsilon$ | `epsilon`, `eps` | how far the adversary may move the target |
# | $\alpha$ | `alpha`, `ALPHA` | $\varepsilon/\lVert w_y\rVert$: the noise as a share of the word's norm |
# | $\delta^*$ | `theory.worst_perturbation` | the worst perturbation, $-\varepsilon h/\lVert h\rVert$ |
# | $m$ | `m`, `-target_offset` | margin in nats, $\varepsilon\lVert h\rVert$ |
# | $z$ | `z` | lead of the target over all other words |
# | $\tilde p$, AdvSoft | `theory.adversarial_probability` | probability of the moved target |
# | $\Phi_i$ | `theory.energy` | how far word $i$ is from all others |
# | $q_k$, $p_k$ | `truth`, `l.softmax(0)` | true and fitted probability of word $k$ |
# | $T$ | `temperature` | what all logits are divided by |

# %% [markdown]
# ## Exercises
#
# ### 1. Move the target
# In the first picture find, by trying, the angle of $h$ (in degrees, from the first axis) at which the
# target's lead over the best of the *other six words* is largest. Compare it with
# `theory.margin_witness(plane, 0).h`. Then move the rival, `plane[1]`, to `[1.6, 1.3]` in a copy. What
# becomes of the target's margin, and of the rival's (a margin is never below 0)? Assign the three numbers to `by_hand`: the angle
# before, and the two margins after.
#
# <details><summary>Hint</summary>
#
# The lead of $w_y$ over one word, per unit of length of $h$, is $(w_y - w_j)^\top h/\|h\|$. Which
# $h$ makes it largest if there is only one rival? Does the target win there in the picture?
#
# </details>
#
# <details><summary>Another hint</summary>
#
# With several rivals the margin is the distance from the origin to the convex hull of the
# differences $w_y - w_j$. A target that moves into the hull of the others has margin 0.
#
# </details>

# %% tags=["exercise"]
by_hand = None  # (degrees of h, then the margins of target and rival)


# %%
def least_leads(words, i):
    """The lead of word i over the best other, at every tenth degree."""
    turn = np.radians(np.arange(0, 360, 0.1))
    others = words[i] - np.delete(words, i, axis=0)
    return (others @ np.stack([np.cos(turn), np.sin(turn)])).min(0)


# %%
def by_trying(found):
    """Whether angle and margins are those of all angles tried."""
    degrees, *margins = found
    leads = least_leads(plane, 0)
    here = leads[round(degrees % 360 * 10) % 3600]
    if here < leads.max() - 0.01:
        return f"at {degrees:.0f}° its lead is {here:.2f}, elsewhere more"
    moved = np.vstack([plane[:1], [[1.6, 1.3]], plane[2:]])
    widest = [max(0, least_leads(moved, i).max()) for i in (0, 1)]
    right = np.allclose(margins, widest, atol=0.01)
    return right or "a margin is another when the rival has moved"


check("07.1", by_hand, by_trying)

# %% [markdown]
# ### 2. A margin of one's own
# The layer gives long vectors a larger margin. Which constant $\varepsilon$ gives the adversarial model
# of the live run the same *mean* margin over the validation text (`seen_by`)? Assign it to `constant`.
# Then run that model with `noise = {"epsilon": constant, "gradient": GRADIENT}` in `experiment`. Which
# words' norms change?
#
# <details><summary>Hint</summary>
#
# The margin of a position is $\varepsilon\|h\|$, and now $\alpha\|w_y\|\|h\|$. About the right answer is
# `ALPHA` times the last row of the table of perplexities. It is not quite right if words with long
# vectors come after long contexts.
#
# </details>
#
# <details><summary>Another hint</summary>
#
# `plots.against_frequency(w.norm(dim=1), corpus.counts, "norm")` for both models.
#
# </details>

# %% tags=["exercise"]
constant = None  # an ε, the same for all words


# %%
def as_wide(epsilon):
    """Whether the mean margin is that of the live run."""
    h, target = seen_by["adversarial"]
    length = h.norm(dim=1)
    margin = ALPHA * W["adversarial"][target].norm(dim=1) * length
    if abs(epsilon / margin.mean() - 1) < 0.003:
        return "this is the mean margin; ε is yet to be multiplied by ‖h‖"
    ratio = float((epsilon * length).mean() / margin.mean())
    if abs(ratio - 1) > 0.003:
        return f"the mean margin would be {ratio:.3f} times the run's"
    return True


check("07.2", constant, as_wide)

# %% [markdown]
# ### 3. Derive the sharpening
# Show that $p_k \approx q_k(1 + m(q_k - \sum_j q_j^2))$ for a small margin that is the same for all
# words. Then let the margins differ, $m_y$ if the target is $y$, as they do where $\varepsilon =
# \alpha\|w_y\|$. Assign to `sharpened` a function of two tensors, $q$ and the margins ($N$ numbers each),
# that gives all $p_k$ to first order. What do equal margins do to a distribution in which all $N$ words
# are equally likely, and what do unequal ones?
#
# <details><summary>Hint</summary>
#
# Write $p^{(y)}$ for the softmax after the logit of $y$ was lowered by $m$. The gradient of the
# expected loss with respect to the logit of $k$ is $\sum_y q_y p^{(y)}_k - q_k$.
#
# </details>
#
# <details><summary>Another hint</summary>
#
# To first order $p^{(y)}_k = p_k(1 + m p_y)$ for $k\ne y$, and $p^{(k)}_k = p_k(1 - m(1-p_k))$.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# Set the sum to zero and replace $p$ by $q$ in the terms that have an $m$ already. What remains is
# $p_k + m q_k(\sum_j q_j^2 - q_k) = q_k$. If the margins differ, see which of the two terms gets which
# $m$.
#
# </details>

# %% tags=["exercise"]
sharpened = None  # a function of q (N,) and m (N,) that gives p (N,)


# %%
def minimised(q, m):
    """The p of the least expected loss, by the solver."""
    l = q.log().requires_grad_()  # noqa: E741
    solver = torch.optim.LBFGS([l], 1, 200, 1000, 1e-12, 1e-15)

    def expected():
        solver.zero_grad()
        moved = (l - m.diag()).log_softmax(1)
        loss = -(q * moved.diagonal()).sum()
        loss.backward()
        return loss

    solver.step(expected)
    return l.detach().softmax(0)


# %%
def to_first_order(sharpened):
    """Whether the changes are the solver's, within a tenth."""
    q = torch.tensor([0.4, 0.25, 0.15, 0.1, 0.06, 0.04]).double()
    equal = torch.full((6,), 0.01).double()
    margins = {"equal": equal, "unequal": equal * q.flip(0) / q.mean()}
    for name, m in margins.items():
        change = minimised(q, m) - q
        off = sharpened(q, m) - q - change
        if off.abs().max() > 0.1 * change.abs().max():
            return f"not what the solver finds for {name} margins"
    return True


check("07.3", sharpened, to_first_order)

# %% [markdown]
# ### 4. An open one
# The gradient through $\|h\|$ is a penalty of $(1-\tilde p)\,\varepsilon\|h\|$: large where the model is
# surprised, small where it is sure. The rival of the toy language punishes every context alike. Does the
# weighting matter? Invent a penalty that tells the two apart, add it to `objective` and compare them
# at the best strength of each.
#
# <details><summary>Hint</summary>
#
# $\lambda\,(1 - \tilde p)\,\|h\|$ with $\tilde p$ detached is the adversary's; $\lambda\|h\|$ is the
# same without the weighting.
#
# </details>
#
# <details><summary>Another hint</summary>
#
# Give both a fine grid, three samples and more, and compare the intervals. If they overlap, say so.
#
# </details>

# %% [markdown]
# ## What we saw
#
# First what the best evidence of the repository says, wherever it was made. It is read from the kept
# results by the ledger of [notebook 30](30_leaderboard.ipynb), so that it changes when new runs are kept.

# %%
evidence_of = [
    "wang2019-perplexity", "wang2019-spectrum", "wang2019-bleu",
]
display(Markdown(claims.conclusions(*evidence_of)))

# %% [markdown]
# Then what the small runs and sweeps of this lesson show. They are for the eye: they are made on a part of a
# text, and where they contradict the list above, the list counts.

# %%
gap, toy = ten.loc["hidden, α = 0.1"], excess["none"][0].mean()
interval = f"{gap['low']:+.1f} to {gap['high']:+.1f}"
display(
    Markdown(
        f"Toy models on little data had an excess of {toy:.2f} nats; the "
        f"gradient none left it at {best['none']:.2f} at best, that of "
        f"Algorithm 1 took it to {best['hidden']:.2f}, and a penalty on "
        f"the contexts' length to {best['rival']:.2f}. In a Transformer "
        f"that gradient with α = 0.1 changed the test perplexity of "
        f"{at['plain softmax']:.1f} by {gap['difference']:+.1f} "
        f"({interval}): {gap['verdict']}. The nearest word is at "
        f"{middle['softmax'][1]:.2f} norms without the adversary, at "
        f"{middle['adversarial'][1]:.2f} with it."
    )
)

# %% [markdown]
# ## References
#
# - D. Wang, C. Gong, Q. Liu (2019). *Improving Neural Language Modeling via Adversarial Training.*
#   ICML. [arXiv:1906.03805](https://arxiv.org/abs/1906.03805)
# - J. Gao, D. He, X. Tan, T. Qin, L. Wang, T.-Y. Liu (2019). *Representation Degeneration Problem
#   in Training Natural Language Generation Models.* ICLR.
#   [arXiv:1907.12009](https://arxiv.org/abs/1907.12009)
# - S. Merity, N. S. Keskar, R. Socher (2018). *Regularizing and Optimizing LSTM Language Models.*
#   ICLR. [arXiv:1708.02182](https://arxiv.org/abs/1708.02182)
# - F. Wang, J. Cheng, W. Liu, H. Liu (2018). *Additive Margin Softmax for Face Verification.* IEEE
#   Signal Processing Letters 25. [arXiv:1801.05599](https://arxiv.org/abs/1801.05599)
# - C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger (2017). *On Calibration of Modern Neural Networks.*
#   ICML. [arXiv:1706.04599](https://arxiv.org/abs/1706.04599)
