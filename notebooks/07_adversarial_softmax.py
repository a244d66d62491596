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
# **Question.** If every target must win in training even when its vector is moved against it, do the words move apart, and are the predictions better?
#
# ![A language model from left to right: matrix E reads words, encoder, context h, matrix W predicts words, softmax. An arc ties E and W. In colour: W. The row of the target is moved away from h before it is scored.](images/07_model.svg)
#
# **Figure 1.** The method moves one row of $W$ at each position, that of the target, and only in training.

# %% [markdown]
# ## What you will learn
#
# - to find the worst perturbation of a word vector in closed form, and to see that training with it is
#   training with a margin;
# - to tell two gradients of one loss apart, and to find out by experiment which of them regularises;
# - to compare a regulariser with a plain rival that does the same;
# - to tell words that have moved apart from vectors that have only become longer.
#
# [Going deeper](07b_margins_in_numbers.ipynb) tests the theorems of Wang et al. (2019), derives the price
# of the margin, and holds the paper beside its code.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 1](01_output_layer.ipynb) explains the push and the pull, [lesson
# 2](02_degeneration.ipynb) the cone.
#
# **Reading.** 26 minutes. **Difficulty.** 2 of 3.
#
# | profile | minutes | runs on | what is trained before your eyes |
# |---|---|---|---|
# | smoke | 0.5 | any CPU | the same models for seconds |
# | quick | 1.5 | two CPU cores | models of a toy language, two small LSTMs |
# | standard | 30 | two CPU cores | the LSTMs on the whole corpus |
# | full | 10 | one GPU | the same, for longer |
#
# The comparison over seeds is read from results that are kept with the course.
#
# On Google Colab, run this in a first cell and restart the session:
#
# `%pip install -q -c https://raw.githubusercontent.com/output-embedding-course/output-embedding-course/main/constraints.txt -e "git+https://github.com/output-embedding-course/output-embedding-course#egg=course-lib"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
SEED = 1  # of every random draw and of the models trained here
ALPHA = 0.05  # noise of the live run, as a share of the word's norm
GRADIENT = "hidden"  # of the live run: none or hidden

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
from course_lab import claims, corpora, plans, plots, tables
from course_lib import data, theory
from course_lib.evaluation.perplexity import perplexity
from course_lib.metrics import geometry, neighbours
from course_lib.output_layers import AdversarialSoftmax, FullWords
from course_lib.progress import check

_ = torch.manual_seed(SEED)

# %% [markdown]
# ## Predict
#
# A context is a vector $h$ of $d$ numbers. Every word $i$ has a vector $w_i$ and the logit $w_i^\top h$.
# The word that really comes next is the target $y$. While a model is trained, an adversary may move the
# target's vector $w_y$ by at most $\varepsilon$, in any direction, at every position anew.
#
# 1. By how much can the adversary lower the target's logit? Does the answer depend on the number of
#    dimensions?
# 2. Noise of the same length has a *random* direction in $d = 128$ dimensions. How much of the effect is
#    left?
# 3. The logit falls by an amount that depends on $h$. If training follows the gradient of that amount too,
#    do contexts grow longer or shorter?
# 4. After such training, is the nearest neighbour of a word farther away?

# %% [markdown]
# ## The idea in one picture
#
# Seven words lie in a plane. The adversary may put the target $w_y$ anywhere in a disc of radius
# $\varepsilon$. For a context $h$, the logit of a word is how far the word lies in the direction of $h$,
# times $\|h\|$. So the worst place in the disc is the one farthest *against* $h$. Draw the line through
# this place at a right angle to $h$. Whatever lies beyond the line has a higher logit than the moved target.

# %%
plane = np.array([[1.5, 1.1], [0.7, 1.6], [-0.9, 1.2], [-1.5, -0.3],
                  [-0.1, -1.3], [1.3, -0.6], [0.3, 0.3]])  # fmt: skip
degrees = {"wins by the margin": 15, "wins, but not by the margin": 48}

# %% tags=["hide-input", "gallery"]
plots.show(
    plots.moved_targets(plane, 0.3, degrees),
    alt="Two drawings of seven words in a plane with a disc around the "
    "target. A line through the disc's worst point, at a right angle to "
    "the context, bounds a shaded half-plane. Left: no other word is in "
    "it. Right, with the context turned: the nearest rival is in it.",
)

# %% [markdown]
# **Figure 2.** On the left the shaded side of the line holds no other word, so the target wins wherever
# the adversary puts it. On the right the target has the highest logit, but the adversary can make it lose.
#
# The whole disc lies on the shaded side. So a rival *inside the disc* beats the moved target in every
# context. A word can only win robustly if no other word is within $\varepsilon$ of it. This is how the
# paper hopes to spread the words.

# %% [markdown]
# ## The worst perturbation
#
# The adversary chooses $\delta$ with $\|\delta\| \le \varepsilon$. By the inequality of Cauchy and Schwarz,
#
# $$(w_y + \delta)^\top h = w_y^\top h + \delta^\top h \ge w_y^\top h - \|\delta\|\,\|h\|
# \ge w_y^\top h - \varepsilon\|h\|,$$
#
# and $\delta^* = -\varepsilon\, h/\|h\|$ attains the bound. Nothing has to be searched for, and the number
# of dimensions does not enter. The moved target has the probability
#
# $$\mathrm{AdvSoft}_\varepsilon(y, h) = \frac{\exp(w_y^\top h - \varepsilon\|h\|)}
# {\exp(w_y^\top h - \varepsilon\|h\|) + \sum_{j\ne y}\exp(w_j^\top h)},$$
#
# and training minimises $-\log \mathrm{AdvSoft}_\varepsilon$.
#
# **Theorem 3.1** of the paper lets the adversary move *every* word by $\varepsilon/2$. The worst attack takes
# $\frac\varepsilon2\|h\|$ from the target's logit and adds as much to all others. A softmax does not notice
# what is added to all logits alike. So the target has lost $\varepsilon\|h\|$ as before, and the other words
# nothing. We attack 50 words ten thousand times at random, and once as the theorem says.

# %%
# NBVAL_CHECK_OUTPUT
W, h = torch.randn(50, 8), torch.randn(8)
y, eps = 3, 0.8
closed = float(theory.adversarial_probability(W, h, y, eps))
attacks = eps / 2 * F.normalize(torch.randn(10_000, 50, 8), dim=-1)
tried = ((W + attacks) @ h).softmax(-1)[:, y]
worst = -theory.worst_perturbation(h, eps / 2).float().repeat(50, 1)
worst[y] = -worst[y]
reached = float(((W + worst) @ h).softmax(-1)[y])
print("no random attack goes below:", float(tried.min()) > closed)
print("the theorem's attack reaches it:", abs(reached - closed) < 1e-6)
cosines = F.normalize(torch.randn(20_000, 128), dim=1)[:, 0]
print(f"cosine of random directions, d = 128: 0 ± {cosines.std():.2f}")

# %% [markdown]
# This answers the first two predictions. A random direction changes the logit by $\varepsilon\|h\|$ times
# the cosine of $\delta$ and $h$, which has mean 0 and standard deviation $1/\sqrt d$. With $d=128$ that is
# less than a tenth of the adversary's effect.

# %% [markdown]
# ## A margin, in nats
#
# Let $z = w_y^\top h - \log\sum_{j\ne y}\exp(w_j^\top h)$ be the target's **lead** over all other words
# together, in nats. The plain loss is $\log(1 + e^{-z})$. With the **margin** $m = \varepsilon\|h\|$ the loss
# is
#
# $$L = \log\big(1 + e^{m - z}\big),\qquad -\frac{\partial L}{\partial z} = 1 - \tilde p,\qquad
# \tilde p = \mathrm{AdvSoft}_\varepsilon(y, h).$$

# %%
z = np.linspace(-4, 6, 101)
curves = {
    "loss, nats": {f"m = {m}": (z, np.logaddexp(0, m - z)) for m in (0, 1, 3)},
    "pull on the target": {
        f"m = {m}": (z, 1 / (1 + np.exp(z - m))) for m in (0, 1, 3)
    },
}

# %% tags=["hide-input"]
plots.show(
    plots.beside_each_other(curves, "lead z of the target, nats"),
    alt="Loss and pull on the target against its lead, for margins of 0, "
    "1 and 3 nats: the same falling curves, moved to the right by the "
    "margin.",
)

# %% [markdown]
# **Figure 3.** The margin moves both curves to the right. A target that leads by a little is pulled as hard
# as if it were behind.
#
# The paper makes the noise proportional to the word, $\varepsilon = \alpha\|w_y\|$. With the angle $\theta$
# between $w_y$ and $h$, the target's logit becomes $\|w_y\|\|h\|(\cos\theta - \alpha)$, so $\alpha$ is a
# margin in the cosine. The paper takes $\alpha = 0.005$. What a model feels is the margin in nats,
# $\alpha\|w_y\|\|h\|$, and this depends on how long the model's vectors are.
#
# The margin has a price: the loss is smallest when likely words are predicted as likelier than they are.
# [The deeper notebook](07b_margins_in_numbers.ipynb) derives by how much. So the method can only pay where a
# model overfits.

# %% [markdown]
# ## The code
#
# In PyTorch the loss takes a few lines. `detach` holds $\varepsilon = \alpha\|w_y\|$ constant. In evaluation
# there is no margin.

# %%
def adversarial_loss(h, W, y, alpha, gradient="hidden"):
    """Return the loss of contexts h (n, d), words W (N, d), targets y."""
    epsilon = alpha * W[y].norm(dim=1).detach()
    length = h.norm(dim=1)
    if gradient == "none":
        length = length.detach()
    margin = F.one_hot(y, len(W)) * (epsilon * length)[:, None]
    return F.cross_entropy(h @ W.T - margin, y)


# %% [markdown]
# The library's layer does the same. It also knows two variants of the released code, which the deeper
# notebook takes up.

# %% tags=["hide-input"]
source = inspect.getsource(AdversarialSoftmax.target_offset)
display(Code(source, language="python"))

# %% [markdown]
# ## Two gradients
#
# The margin $\alpha\|w_y\|\|h\|$ depends on what is trained, and how much of it is differentiated is a
# choice. The gradient `"hidden"` follows $\|h\|$, as Algorithm 1 of the paper and its released code do. The
# gradient `"none"` holds the whole margin constant, as one sentence of section 3.1 says. With $\tilde p_j$
# the probabilities after the target was moved,
#
# $$\frac{\partial L}{\partial h} = \underbrace{\sum_j \tilde p_j w_j - w_y}_{\text{none}}
# + \underbrace{(1-\tilde p_y)\,\varepsilon\,\frac{h}{\|h\|}}_{\text{added by hidden}}.$$
#
# Descent goes *against* the gradient, so the added term makes $h$ **shorter**. This answers the third
# prediction. The sentence of section 3.1 reports that training diverges with the term, and supposes that the
# term makes $\|h\|$ large. The formula says the opposite: the worst case is milder for a short context.

# %%
# NBVAL_CHECK_OUTPUT
W, h, y = torch.randn(30, 8), torch.randn(1, 8), torch.tensor([4])
h.requires_grad_()
loss = {g: adversarial_loss(h, W, y, 0.3, g) for g in ("none", "hidden")}
slope = {g: torch.autograd.grad(loss[g], h)[0] for g in loss}
eps, rest = 0.3 * W[y].norm(), 1 - torch.exp(-loss["hidden"])
shrink = rest * eps * h / h.norm()
added = slope["hidden"] - slope["none"]
print("added: (1 − p̃) ε h/‖h‖:", added.allclose(shrink, atol=1e-6))
layer = AdversarialSoftmax(FullWords(30, 8), alpha=0.3, bias=False)
layer.words.weight.data = W
own, _ = layer(h, y)
print("the library's loss is ours:", own.isclose(loss["hidden"]).item())

# %% [markdown]
# ### Which gradient regularises?
#
# The toy language of [lesson 4](04_softmax_bottleneck.ipynb) has a known truth: 30 contexts and 80 words.
# The model has a free vector for each context and each word. It sees only 2,000 tokens, so it overfits. Its
# **excess** is its expected loss above the entropy of the language; a perfect model has none. We train with
# both gradients on six samples. A plain **rival** is trained beside them: the penalty $\lambda\|h\|^2$ on
# the contexts' length. AWD-LSTM, the paper's base model, has this penalty anyway.

# %%
options = dict(N=80, d=8, states=30, tokens=1000, seed=SEED)
truth = corpora.load("zipf", **options).truth
joint = (truth.stationary[:, None] * truth.matrix.exp()).float()
alphas = [0, 0.003, 0.01, 0.03, 0.1, 0.3]


def sample(seed, tokens=2000):
    """Return the shares of (context, word) among that many tokens."""
    draw = dict(generator=torch.Generator().manual_seed(seed))
    pairs = torch.multinomial(joint.flatten(), tokens, True, **draw)
    counts = torch.bincount(pairs, minlength=joint.numel())
    return counts.view_as(joint) / tokens


# %%
seen = torch.stack([sample(seed) for seed in range(6)])
seen = seen.repeat(len(alphas), 1, 1)  # all fits at once: alphas × samples
alpha = torch.tensor(alphas).repeat_interleave(6)[:, None, None]


def objective(log_p, H, W, kind):
    """Return the expected loss, the sum of all fits, from the plain log P."""
    if kind == "rival, λ‖h‖²":
        return (seen * (alpha * H.square().sum(-1, True) - log_p)).sum()
    length = (H.detach() if kind == "none" else H).norm(dim=-1)
    m = alpha * length[..., None] * W.detach().norm(dim=-1)[:, None]
    normaliser = (log_p.exp() * (-m).expm1()).log1p()
    return (seen * (m - log_p + normaliser)).sum()


# %%
def fit(kind, steps):
    """Return excess and mean ‖h‖ of all fits, (samples, alphas) each."""
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
    excess = -(joint * log_p.detach()).sum((1, 2)) - truth.entropy
    length = H.detach().norm(dim=-1).mean(1)
    return excess.view(-1, 6).T, length.view(-1, 6).T


# %%
kinds = ("none", "hidden", "rival, λ‖h‖²")
steps = 20 if PROFILE == "smoke" else 200
fits = {kind: fit(kind, steps) for kind in kinds}
curves = {
    name: {kind: (alphas[1:], fits[kind][i][:, 1:]) for kind in kinds}
    for i, name in enumerate(["excess, nats a word", "mean length ‖h‖"])
}
plain = [float(part[:, 0].mean()) for part in fits["none"]]
best = {kind: float(fits[kind][0].mean(0).min()) for kind in kinds}

# %% tags=["hide-input"]
plots.show(
    plots.beside_each_other(curves, "α, or λ of the rival", "x", plain),
    alt="Two panels against α. The excess of the gradient none stays at "
    f"the plain softmax's {plain[0]:.2f} nats or above. It falls to "
    f"{best['hidden']:.2f} for hidden and {best['rival, λ‖h‖²']:.2f} for "
    "the rival. The contexts keep their length for none and shorten for "
    "the other two.",
)

# %%
# NBVAL_CHECK_OUTPUT
shorter = fits["hidden"][1][:, -1].mean() < plain[1]
print("the gradient hidden makes contexts shorter:", bool(shorter))
finite = all(part.isfinite().all() for pair in fits.values() for part in pair)
print("everything stayed finite:", finite)

# %% [markdown]
# **Figure 4.** Lines are means over six samples, and bands are their 95 % intervals.
#
# - The gradient `none` regularises nothing. At large $\alpha$ it does harm.
# - The gradient `hidden` shortens the contexts and lowers the excess. Nothing diverges.
# - The rival does the same without any adversary.
#
# So what works here is not the worst case but the *norm* in its formula.
