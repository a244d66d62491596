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
# # 7. The adversarial softmax: words that must win by a margin
#
# **Question.** If every target must win in training even when its vector is moved against it, do the words move apart, and are the predictions better?
#
# ![A language model from left to right: matrix E reads words, encoder, context h, matrix W predicts words, softmax. An arc ties E and W. In colour: W. The row of the target is moved away from h.](images/07_model.svg)
#
# **Figure 1.** The method moves one row of $W$ at each position, that of the target, and only in training.

# %% [markdown]
# ## What you will learn
#
# - to find the worst perturbation of a word vector in closed form, and to see that training with it is
#   training with a margin;
# - to tell two gradients of one loss apart, and to find out by experiment which of them regularises;
# - to tell words that have moved apart from vectors that have only become longer.
#
# **Deeper.** [Lesson 7b](07b_margins_in_numbers.ipynb) tests the theorems of Wang et al. (2019), derives the price
# of the margin, and holds the paper beside its code.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 1](01_output_layer.ipynb) explains the push and the pull, [lesson
# 2](02_degeneration.ipynb) the cone.
#
# **Reading.** 28 minutes. **Difficulty.** 2 of 3.
#
# | profile | minutes | runs on | what is trained before your eyes |
# |---|---|---|---|
# | smoke | 0.5 | any CPU | the same models for seconds |
# | quick | 1.5 | two CPU cores | a toy language, three small LSTMs |
# | standard | 30 | two CPU cores | the LSTMs on the whole corpus |
# | full | 10 | one GPU | the same, for longer |
#
# On Google Colab, run this in a first cell and restart the session:
#
# `!git clone -q https://github.com/output-embedding-course/output-embedding-course && pip install -q -c output-embedding-course/constraints.txt -e "./output-embedding-course[lab]"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
SEED = 1  # of every random draw and of the models trained here
ALPHA = 0.2  # noise of the live run, as a share of the word's norm
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
from course_lab import claims, corpora, plans, plots, tables, untested
from course_lab.progress import check
from course_lib import data, theory
from course_lib.evaluation.perplexity import perplexity
from course_lib.metrics import geometry, neighbours
from course_lib.output_layers import AdversarialSoftmax, FullWords

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
# **Figure 2.** On the left the shaded side holds no other word, so the target wins wherever
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
# what is added to all logits alike. The target has lost $\varepsilon\|h\|$ as before.

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
    "loss, nats": lambda m: np.logaddexp(0, m - z),
    "pull on the target": lambda m: 1 / (1 + np.exp(z - m)),
}
curves = {
    name: {f"m = {m}": (z, curve(m)) for m in (0, 1, 3)}
    for name, curve in curves.items()
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
# between $w_y$ and $h$, the target's logit becomes $\|w_y\|\|h\|(\cos\theta - \alpha)$. So $\alpha$ is a
# margin in the cosine, as in face verification (F. Wang et al. 2018). The paper takes $\alpha = 0.005$. What
# a model feels is the margin in nats, $\alpha\|w_y\|\|h\|$, which grows with its vectors.
#
# The margin has a price: the loss is smallest when likely words are predicted as likelier than they are.
# [Lesson 7b](07b_margins_in_numbers.ipynb) derives by how much. More data do not lower this price,
# so a margin pays only where it also works against overfitting.

# %% [markdown]
# ## The code
#
# In PyTorch, `detach` holds $\varepsilon = \alpha\|w_y\|$ constant:

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
# The library's layer does the same. It returns the margin with a minus sign. The lesson does not use `gated`,
# `random` and `"full"`.

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
# The toy language of [lesson 4](04_softmax_bottleneck.ipynb) has 30 contexts and 80 words, and we know its
# probabilities. The model has a free vector for each context and each word and sees only 2,000 tokens, so it
# overfits. The **excess** is the expected loss above the entropy; a perfect model has none. We fit six samples
# with both gradients and with a plain **rival**: the penalty $\lambda\|h\|^2$ on the contexts' length, which
# AWD-LSTM, the paper's base model, has. In the code, $p$ is the plain probability, and
# $-\log\tilde p = m - \log p + \log(1 + p\,(e^{-m} - 1))$.

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
    """Return the expected loss, summed over all fits, from log P."""
    if kind == "rival, λ‖h‖²":
        return (seen * (alpha * H.square().sum(-1, True) - log_p)).sum()
    length = (H.detach() if kind == "none" else H).norm(dim=-1)
    m = alpha * length[..., None] * W.detach().norm(dim=-1)[:, None]
    normaliser = (log_p.exp() * (-m).expm1()).log1p()
    return (seen * (m - log_p + normaliser)).sum()


# %%
def fit(kind, steps):
    """Return log P and the contexts of all fits."""
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
    return log_p.detach(), H.detach()


# %%
def told(log_p, H):
    """Return excess and mean ‖h‖ of all fits, (samples, alphas) each."""
    excess = -(joint * log_p).sum((1, 2)) - truth.entropy
    return excess.view(-1, 6).T, H.norm(dim=-1).mean(1).view(-1, 6).T


kinds = ("none", "hidden", "rival, λ‖h‖²")
steps = 20 if PROFILE == "smoke" else 200
fits = {kind: told(*fit(kind, steps)) for kind in kinds}
curves = {
    name: {kind: (alphas[1:], fits[kind][i][:, 1:]) for kind in kinds}
    for i, name in enumerate(["excess, nats a word", "mean length ‖h‖"])
}
plain = [float(part[:, 0].mean()) for part in fits["none"]]
best = {kind: float(fits[kind][0].mean(0).min()) for kind in kinds}

# %% tags=["hide-input"]
plots.show(
    plots.beside_each_other(curves, "α, or λ of the rival", "x", plain),
    alt="Two panels against α. The excess of the gradient none stays near "
    f"the plain softmax's {plain[0]:.2f} nats or above. It falls to "
    f"{best['hidden']:.2f} for hidden and {best['rival, λ‖h‖²']:.2f} for "
    "the rival. The contexts keep their length for none and shorten for "
    "the other two.",
)

# %%
# NBVAL_CHECK_OUTPUT
shorter = fits["hidden"][1][:, -1].mean() < plain[1]
print("the gradient hidden makes contexts shorter:", bool(shorter))
finite = [bool(x.isfinite().all()) for pair in fits.values() for x in pair]
print("everything stayed finite:", all(finite))

# %% [markdown]
# **Figure 4.** Lines are means over six samples, and bands are their 95 % intervals.
#
# - The gradient `none` regularises nothing. At large $\alpha$ it does harm.
# - The gradient `hidden` shortens the contexts and lowers the excess.
# - The rival does the same without any adversary.
#
# So what works here is not the worst case but the *norm* in its formula.

# %% [markdown]
# ## With and without
#
# Does the norm do the work on a text, too? We train an LSTM, whose contexts are free: a layer normalisation
# would fix their length. The LSTM reads 10,000 tokens ten times. Three runs share everything
# but the loss. The **plain** run has the softmax. The **adversarial** run has the `ALPHA` and
# `GRADIENT` set at the top. The **rival** has AWD-LSTM's penalty on $\|h\|^2$.

# %%
plan = plans.read_plan("lessons-07-lstm")
noise = {"alpha": ALPHA, "gradient": GRADIENT}


def experiment(method):
    """Return that of the plan, or that of another profile."""
    name = f"docstrings/vd-lstm-128/{method}"
    e = next(p for p in plan.runs if p.recipe == name).experiment()
    epochs = 1 if PROFILE == "smoke" else e.optimisation.epochs
    rate = {"epochs": epochs, "learning_rate": 0.003}
    e = e.change(optimisation=rate)
    if PROFILE in ("standard", "full"):
        e = course_lab.profile(course_lab.recipes[name], PROFILE)
    changed = {"output_layer": noise} if method == "adversarial" else {}
    return e.change(seed=SEED, **changed)


# %%
runs = {}
methods = dict(plain="tied", adversarial="adversarial", rival="activation")
for name, method in methods.items():
    with tempfile.TemporaryDirectory() as folder:
        settings = dict(folder=folder, progress=False)
        runs[name] = course_lab.run(experiment(method), **settings)
corpus = runs["plain"].corpus


# %%
@torch.no_grad()
def of_text(run):
    """Return what a run does on training and validation text."""
    model, x = run.model.cpu().eval(), data.columns(corpus.valid, 20)
    logged = run.epochs[run.metrics["best_epoch"] - 1]
    part, settings = corpus.train[:5000], dict(eos=corpus.eos, length=64)
    length = model(x[:-1]).hidden.norm(dim=-1)
    norms = model.words.matrix().norm(dim=1)
    return {
        "training perplexity, logged": logged["train_perplexity"],
        "the same, plain": perplexity(model, part, **settings),
        "validation perplexity": run.metrics["valid_perplexity"],
        "mean ‖h‖": float(length.mean()),
        "mean ‖w_y‖‖h‖": float((norms[x[1:]] * length).mean()),
    }


# %%
def of_words(run):
    """Return how the word vectors of a run lie."""
    W = run.model.words.matrix().detach()
    far = np.median(neighbours.nearest_neighbours(W)[0])
    σ = geometry.singular_values(W)
    return {
        "distance to the nearest word": float(far),
        "the same, in mean norms": float(far / W.norm(dim=1).mean()),
        "σ₂ / σ₁": float(σ[1] / σ[0]),
    }


# %%
columns = {
    name: {"best epoch": run.metrics["best_epoch"]}
    | of_text(run)
    | of_words(run)
    for name, run in runs.items()
}
figures = pd.DataFrame(columns)
tables.with_ngrams(figures.T.round(2), corpus).T

# %% [markdown]
# Each run is shown at its best epoch. The plain model overfits, so its best epoch comes early. The *logged*
# perplexity is a mean over an epoch, and in the adversarial run it is that of the moved targets. So judge the
# models by the table's validation perplexity: the adversary and the rival shorten the contexts, and both
# predict the validation text better than the plain model.
#
# In Figure 1a of the paper its method moves the nearest word away. But if all vectors become twice as long,
# every distance doubles. Here the distance itself grows, but in mean norms it falls. This answers the fourth
# prediction: the words are longer and no farther apart. The rival, without an adversary, shows the same; both
# trained longer than the plain model.
#
# Is the difference a matter of the seed, or of a badly tuned plain model? The plan
# `data/plans/lessons-07-lstm.toml` has three seeds a model, paired as in lesson 6. The baseline is the plain
# model without dropout at the best of four learning rates, which the plan `lessons-07-lstm-search` tried with
# one seed. All rows of the next figure have the rate 0.003.

# %%
brief = {
    "tied": "plain", "activation": "penalty on ‖h‖²", "learning_": "",
    " rate=0.003": "", " gradient=hidden": "", " gradient": ", gradient",
    " weight=20.0": ", ten times as strong", "alpha": "α", "=": " = ",
}  # fmt: skip


def short(name):
    """Return the name of a model without what all have in common."""
    for long, word in brief.items():
        name = name.replace(long, word)
    return "adversarial α = 0.005" if name == "adversarial" else name


table = untested.table_of(plan)
models = table.models.rename(index=short)
gaps = models["difference"].dropna()
counted, level = table.ngrams["Kneser-Ney 3"], models["perplexity"].iloc[0]
print(f"test perplexity: triples {counted:.0f}, baseline {level:.0f}")

# %% tags=["hide-input"]
listed = "; ".join(f"{name} {gap:+.0f} %" for name, gap in gaps.items())
plots.show(
    untested.drawn(models, plan.margin, "LSTMs on 10,000 tokens"),
    alt="Differences of test perplexity from the baseline, with their "
    f"intervals: {listed}.",
)

# %% [markdown]
# **Figure 5.** Differences are those of log perplexity, with 95 % intervals. The gradient `hidden` with $\alpha
# = 0.2$ takes the perplexity far below the baseline's, and the gradient `none` does not. The plain penalty, with
# AWD-LSTM's weight, goes lower still.
#
# So on this text, too, the norm does the work and needs no adversary. Counting triples of words beats all these
# models, so they are no evidence about AWD-LSTM. In a Transformer, whose contexts have a fixed length, little
# is left of the effect, as [lesson 7b](07b_margins_in_numbers.ipynb) shows.

# %% [markdown]
# ## What it costs, and when not to use it
#
# For every position the layer computes two norms of $d$ numbers, beside the $3 N d$ multiplications of the
# logits and their gradients.
#
# - **When the model does not overfit**, as in one epoch over a large corpus, the loss sharpens the
#   distribution and gives nothing in return.
# - **Where a plain penalty is at hand**, compare with it first.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $h$, $\lVert h\rVert$ | `h`, `length` | context, its length |
# | $w_y$, $w_i$ | `W[y]`, `W` | vectors of the target and of a word |
# | $\varepsilon$ | `epsilon`, `eps` | how far the adversary may move the target |
# | $\alpha$ | `alpha`, `ALPHA` | $\varepsilon/\lVert w_y\rVert$: the noise as a share of the word's norm |
# | $m$ | `margin`, `m` | margin in nats, $\varepsilon\lVert h\rVert$ |
# | $z$ | `z` | lead of the target over all other words |
# | $\tilde p$ | `theory.adversarial_probability` | probability of the moved target |

# %% [markdown]
# ## Exercises
#
# Replace `None` by your answer, and run the next cell.
#
# ### 1. A margin of one's own
# *Difficulty 2/3, importance 2/3, ten minutes.* With $\varepsilon = \alpha\|w_y\|$ the layer gives long vectors
# a larger margin. Which constant $\varepsilon$, the same for all words, gives the same *mean* margin over a
# text? Assign to `constant` a function of the contexts `h` (n, d), their targets' vectors `w` (n, d), and
# `alpha`.
#
# <details><summary>Hint</summary>
#
# The margin of a position is $\alpha\|w_y\|\|h\|$. With a constant it would be $\varepsilon\|h\|$.
#
# </details>

# %% tags=["exercise"]
constant = None  # a function of h (n, d), w (n, d) and alpha that gives ε


# %%
def as_wide(constant, alpha=0.1):
    h = torch.randn(500, 8) * torch.rand(500, 1)
    w = torch.randn(500, 8) * h.norm(dim=1, keepdim=True)
    length, norm = h.norm(dim=1), w.norm(dim=1)
    mean = alpha * (norm * length).mean()
    known = {
        "this is the mean margin; ε is yet to be multiplied by ‖h‖": mean,
        "long words come after long contexts here": alpha * norm.mean(),
        "alpha is missing": mean / length.mean() / alpha,
        "alpha is a share: of which norm?": alpha,
    }
    ε = float(constant(h, w, alpha))  # one number for all words
    told = [said for said in known if np.isclose(ε, known[said])]
    return told[0] if told else bool(np.isclose(ε, mean / length.mean()))


# %%
check("07.1", constant, as_wide)

# %% [markdown]
# ### 2. Is surprise worth a weight? (open)
# *Difficulty 3/3, importance 2/3, an hour.* The gradient through $\|h\|$ is that of a penalty
# $\varepsilon\|h\|$ with the weight $1-\tilde p$, which is large where the model is surprised. The rival has no
# such weight. Does the weight matter? Add a penalty to `objective` that decides this, and compare both at their
# best strength.
#
# <details><summary>Hint</summary>
#
# The adversary's penalty without the weight is $\alpha\|w_y\|\|h\|$, the `m` of `objective`. Give both a fine
# grid and more samples.
#
# </details>

# %% [markdown]
# ## What we saw
#
# [Notebook 30](30_leaderboard.ipynb) reads the best evidence from all kept results and explains its terms:

# %%
evidence_of = ["wang2019-perplexity", "wang2019-spectrum"]
display(Markdown(claims.conclusions(*evidence_of)))

# %% [markdown]
# The small models of this lesson show the following. Where they contradict the list, the list counts.

# %%
first, last = figures["plain"], figures["adversarial"]
display(
    Markdown(
        f"Toy models on few data have an excess of {plain[0]:.2f} nats. "
        f"The gradient none leaves it at {best['none']:.2f} at best, the "
        f"gradient hidden takes it to {best['hidden']:.2f}, and a plain "
        f"penalty to {best['rival, λ‖h‖²']:.2f}. In the plan "
        f"`data/plans/lessons-07-lstm.toml` the gradient hidden with "
        f"α = 0.2 changes the test perplexity of the best plain LSTM by "
        f"{gaps['adversarial α = 0.2']:+.0f} %. The nearest word is at "
        f"{first['the same, in mean norms']:.2f} mean norms without the "
        f"adversary and at {last['the same, in mean norms']:.2f} with it."
    )
)

# %% [markdown]
# ## References
#
# - D. Wang, C. Gong, Q. Liu (2019). *Improving Neural Language Modeling via Adversarial Training.*
#   ICML. [arXiv:1906.03805](https://arxiv.org/abs/1906.03805)
# - S. Merity, N. S. Keskar, R. Socher (2018). *Regularizing and Optimizing LSTM Language Models.*
#   ICLR. [arXiv:1708.02182](https://arxiv.org/abs/1708.02182)
# - F. Wang, J. Cheng, W. Liu, H. Liu (2018). *Additive Margin Softmax for Face Verification.* IEEE
#   Signal Processing Letters 25. [arXiv:1801.05599](https://arxiv.org/abs/1801.05599)

# %% [markdown] tags=["way"]
# ← Previous: [6. Cosine regularisation: pushing the words apart](06_cosine_regularization.ipynb)
#
# ↓ Deeper: [7b. Going deeper: margins in numbers](07b_margins_in_numbers.ipynb)
#
# → Next: [8. Spectrum control: choose how the singular values fall](08_spectrum_control.ipynb)
