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
# # 11. Modern remedies: the loss, the step, the matrix
#
# **Question.** Who moves the mean of the word vectors, the loss or the optimiser, and does a model with a rounder cloud of words predict better?
#
# ![A language model from left to right: matrix E reads words, encoder, context h, matrix W predicts words, softmax. An arc ties E and W. In colour: W. Who moves the mean of the rows of W?](images/11_model.svg)
#
# **Figure 1.** Every remedy of this lesson acts on the mean row of $W$.

# %% [markdown]
# ## What you will learn
#
# - to say which link of a training step a remedy changes;
# - to prove in two lines which optimisers can move the mean of the word vectors, and that the loss
#   cannot see this mean;
# - to keep apart what a remedy does to the cloud and to the probabilities;
# - to compare many methods over few seeds.
#
# **Deeper.** [Lesson 11b](11b_more_remedies.ipynb) has capping, gating, Muon, All-but-the-top and costs.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** Lessons [1](01_output_layer.ipynb), [2](02_degeneration.ipynb) and
# [3](03_why_it_happens.ipynb).
#
# **Reading.** 28 minutes. **Difficulty.** 2 of 3.
#
# | profile | minutes | runs on | what is trained before your eyes |
# |---|---|---|---|
# | smoke | 0.3 | any CPU | a small Transformer, a dozen word matrices |
# | quick | 1 | one CPU core | the same, for longer |
# | standard | 15 | two CPU cores | the same, on the whole corpus |
# | full | 5 | one GPU | the same |
#
# On Google Colab, run this in a first cell and restart the session:
#
# `!git clone -q https://github.com/output-embedding-course/output-embedding-course && pip install -q -c output-embedding-course/constraints.txt -e "./output-embedding-course[lab]"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
SEED = 1  # of the model and of every random draw below

# %%
import inspect  # noqa: I001
import tempfile

import numpy as np
import pandas as pd
import torch
from IPython.display import Code, Markdown, display

# %%
import course_lab
from course_lab import claims, evidence, overrides, plans
from course_lab import plots, side_by_side
from course_lab.progress import check
from course_lib import data, output_layers as layers
from course_lib.metrics import geometry
from course_lib.output_layers import CrossEntropy, FullWords, Softmax
from course_lib.regularizers import CosineRegularizer, MuLoss
from course_lib.training import CoupledAdam

# %% [markdown]
# ## Predict
#
# 1. After every step of training you subtract the mean of all word vectors from each word vector. The
#    model uses this matrix only to predict. By how much do its probabilities change?
# 2. You train the same words by plain gradient descent and by Adam. With which of them does their mean
#    leave the origin?
# 3. Some remedies make the cloud round, others do not. Will the models with round clouds have the
#    lower perplexity?

# %% [markdown]
# ## Where a remedy can take hold
#
# A training step is a chain, and every remedy changes one link. This lesson is about the remedies in bold.
#
# | link | remedies |
# |---|---|
# | logits $l = Wh$ | adversarial margin of [lesson 7](07_adversarial_softmax.ipynb), soft-capping |
# | loss $L$ | cosine penalty of [lesson 6](06_cosine_regularization.ipynb), **z-loss**, **μ-loss** |
# | gradient $G = \partial L/\partial W$ | gradient gating |
# | step $\Delta$ | **coupled Adam**, Muon |
# | matrix $W$ | **centring**, spectrum control of [lesson 8](08_spectrum_control.ipynb) |
# | after training | All-but-the-top |

# %% [markdown]
# ## A laboratory in which only W moves
#
# In a whole model everything moves at once. We train a small Transformer briefly and hold its contexts still.
# Then we learn **new word vectors for these fixed contexts**, once for each remedy, from the same start, on the
# same batches.

# %%
recipe = course_lab.recipes["docstrings/transformer-128/tied"]
experiment = course_lab.profile(recipe, PROFILE, seed=SEED)
if PROFILE == "quick":  # the baseline of the comparison below
    change = plans.read_plan("lessons-11").runs[0].change
    experiment = overrides.override(experiment, change)
corpus = experiment.load_corpus()
with tempfile.TemporaryDirectory() as folder:
    run = course_lab.run(experiment, folder=folder, progress=False)
model = run.model.cpu().eval()
rare, frequent = geometry.by_frequency(corpus.counts.numpy())


# %%
@torch.no_grad()
def contexts(split):
    """Return the contexts of a split (n, d), and the words after them."""
    pairs = []
    for tokens, target in data.batches(data.columns(split, 20), 64):
        hidden = model(tokens).hidden
        pairs.append((hidden.flatten(0, 1), target.flatten()))
    return [torch.cat(part) for part in zip(*pairs, strict=True)]


H, y = contexts(corpus.train)
H_new, y_new = contexts(corpus.valid)
N, d = len(corpus), H.shape[1]
steps = 30 if PROFILE == "smoke" else 120
chance = torch.Generator().manual_seed(SEED)
batches = torch.randint(len(H), (steps, 256), generator=chance)

# %% [markdown]
# Here are three optimisers in plain PyTorch. Adam keeps a running mean $m$ of the gradients and a
# running mean $v$ of their squares, the **second moment**. **Coupled Adam** (Stollenwerk & Stollenwerk
# 2025) differs in one line: all words share the mean of their squares.


# %%
def sgd(W, m, v, t):
    """Take a step of plain gradient descent."""
    W -= 0.3 * W.grad


def adam(W, m, v, t):
    """Take step t of Adam; the moments m and v are (N, d), as W is."""
    m.lerp_(W.grad, 0.1)
    v.lerp_(W.grad.square(), 0.02)
    divisor = (v / (1 - 0.98**t)).sqrt() + 1e-8
    W -= 1e-3 * m / (1 - 0.9**t) / divisor


# %%
def coupled_adam(W, m, v, t):
    """Take step t of Adam with one divisor for all words."""
    m.lerp_(W.grad, 0.1)
    v.lerp_(W.grad.square().mean(0), 0.02)  # the mean over the words
    divisor = (v / (1 - 0.98**t)).sqrt() + 1e-8
    W -= 1e-3 * m / (1 - 0.9**t) / divisor


# %%
def learn(step=adam, objective=None, penalty=None, constraint=None):
    """Return new words, and for each step the loss and the mean's norm."""
    torch.manual_seed(SEED)
    words = FullWords(N, d, 0.01, True, constraint)
    layer, W = Softmax(words, bias=False), words.weight
    m, v, path = torch.zeros_like(W), torch.zeros_like(W), []
    for t, batch in enumerate(batches, 1):
        loss, nll = layer(H[batch], y[batch], objective)
        W.grad = None
        (loss + (penalty(words) if penalty else 0)).backward()
        with torch.no_grad():
            step(W, m, v, t)
        words.after_step()
        path.append((nll.item(), W.mean(0).norm().item()))
    return W.detach(), np.array(path).T


# %% [markdown]
# The library's coupled Adam stands below.

# %% tags=["hide-input"]
display(Code(inspect.getsource(CoupledAdam.step), language="python"))

# %%
# NBVAL_CHECK_OUTPUT
rivals = {adam: torch.optim.Adam, coupled_adam: CoupledAdam}
for ours, library in rivals.items():
    A, B = (torch.nn.Parameter(torch.zeros(50, 8)) for _ in range(2))
    m, v = torch.zeros(2, 50, 8)
    optimizer = library([B], lr=1e-3, betas=(0.9, 0.98))
    for t in (1, 2, 3):
        A.grad = torch.randn(50, 8, generator=chance)
        B.grad = A.grad.clone()
        with torch.no_grad():
            ours(A, m, v, t)
        optimizer.step()
    print(ours.__name__, "as the library's:", A.allclose(B, atol=1e-6))

# %% [markdown]
# ## The step: which optimiser moves the mean?
#
# **The gradient sums to zero.** With $M$ positions, contexts $h_t$, targets $y_t$ and predicted
# probabilities $p_{ti}$, row $i$ of the gradient is
#
# $$G_i = \frac1M\sum_{t=1}^M \big(p_{ti} - [y_t = i]\big)\,h_t ,$$
#
# where $[y_t = i]$ is 1 if word $i$ is the target and 0 if not. Add up the rows. At each position the
# probabilities sum to 1, and exactly one word is the target. So $\sum_i G_i = 0$: the pull on the target and
# the pushes on all words cancel. The loss cannot see the mean: add one vector $a$ to all rows, and every logit
# grows by the same $a^\top h$, which a softmax ignores.
#
# **Which steps keep the balance?** Write $\mathbf 1^\top X$ for the sum of the rows of a matrix $X$. If
# the step is the gradient times some $d\times d$ matrix $A$ *on the right*, then
#
# $$\mathbf 1^\top \Delta = (\mathbf 1^\top G)\,A = 0 ,$$
#
# whatever $A$ is. The same holds for $m$, which is a weighted sum of gradients.
#
# | optimiser | $\Delta$, up to the learning rate | of the form $m A$? |
# |---|---|---|
# | SGD | $-G$ | yes, $A = -I$ and $m = G$ |
# | coupled Adam | $-m_{ik}/\sqrt{\bar v_k}$, with $\bar v_k$ the mean of $v_{ik}$ over the words | yes, $A$ is diagonal |
# | Adam | $-m_{ik}/\sqrt{v_{ik}}$ | **no**, each word has its own divisors |
#
# For a rare word $v_{ik}$ is small, so Adam enlarges the pushes on rare words until they outweigh the
# pulls on the other words.

# %%
learned, paths = {}, {}
optimisers = {"SGD": sgd, "Adam": adam, "coupled Adam": coupled_adam}
for name, step in optimisers.items():
    learned[name], paths[name] = learn(step)
ends = {name: float(means[-1]) for name, (_, means) in paths.items()}

# %% tags=["hide-input"]
plots.show(
    plots.means_and_losses(paths),
    alt="Left: length of the mean word vector against the step, on a "
    f"logarithmic axis. Adam's climbs to {ends['Adam']:.2f}; those of "
    f"SGD and coupled Adam stay where they began, near "
    f"{ends['SGD']:.4f}. Right: the losses fall, Adam's from above.",
)

# %% [markdown]
# **Figure 2.** On the left SGD and coupled Adam leave the mean where the random start put it. Adam carries
# the mean away. This answers the second prediction. The second moment is the cause, because Adam and
# coupled Adam have everything else in common.
#
# A word is **rare** if fewer than one token in ten thousand is that word. The **drift** is the share of the
# cloud's energy that lies in its mean $\mu = \frac1N\sum_i w_i$, which is $\|\mu\|^2 \big/
# \frac1N\sum_i\|w_i\|^2$. Lesson 8 calls the drift the share $s$ of the mean $m$. The drift is 0 if the words
# balance about the origin, and 1 if all words are the same vector.


# %%
def measures(W):
    """Return the loss of words W on new contexts, and their cloud."""
    layer = Softmax(FullWords(N, d), bias=False).eval()
    layer.words.weight.data = W
    with torch.no_grad():
        loss = layer(H_new, y_new)[1].item()
    drift = geometry.common_drift(W).share
    names = "loss on new contexts, nats", "drift", "cosine of rare words"
    cosine = geometry.mean_cosine(W[rare])
    return dict(zip(names, (loss, drift, cosine), strict=True))


# %%
table = pd.DataFrame({name: measures(W) for name, W in learned.items()}).T
W = learned["Adam"]
table.loc["Adam, centred"] = measures(W - W.mean(0))
table.round(3)

# %%
# NBVAL_CHECK_OUTPUT
still = [name for name, (_, m) in paths.items() if m[-1] < 2 * m[0]]
print("the mean stays with:", ", ".join(still))
print("with Adam ten times as long:", ends["Adam"] > 10 * ends["SGD"])
cosines = table["cosine of rare words"]
print("the largest cosine of rare words:", cosines.idxmax())

# %% [markdown]
# The losses of Adam and coupled Adam are nearly the same, and only Adam's cloud is a cone. In the last
# row the mean is subtracted from Adam's matrix. Most of the cosine is gone, and the loss is *exactly*
# the same.
#
# So most of the cone is a matter of where the origin lies, and the optimiser chooses the origin. Rare
# words do flee from the mean context, as lesson 3 derived. But a loss that sees only differences between
# words cannot say which words moved.

# %% tags=["hide-input", "gallery"]
pair = {name: learned[name] for name in ("Adam", "coupled Adam")}
plots.show(
    plots.from_frequent_to_rare(pair, rare, frequent),
    alt="Two clouds of word vectors, the rare words to the right of the "
    "frequent ones in both. Under Adam the origin lies far to the left of "
    "the rare words. Under coupled Adam it lies among the rare words.",
)

# %% [markdown]
# **Figure 3.** The horizontal axis runs from the mean of the frequent words to that of the rare words.
# In both clouds the rare words lie on the right. Adam leaves the origin far from the rare words, and
# coupled Adam leaves the origin among them.

# %% [markdown]
# ## The matrix: centring
#
# If no probability depends on the mean, subtract the mean after every step: $w_i \leftarrow w_i - \mu$.
# The gradient depends on $W$ only through the probabilities, which stay. So Adam's moments stay, and
# so does every later step.

# %%
# NBVAL_CHECK_OUTPUT
W, path = learn(constraint="centred")
apart = np.abs(path[0] - paths["Adam"][0]).max()
print("all losses agree to 0.001 nats:", bool(apart < 1e-3))
angle = geometry.mean_cosine(W[rare])
print("cosine of rare words below half:", angle < cosines["Adam"] / 2)

# %% [markdown]
# This answers the first prediction. **Centring removes most of the cone of the last table and changes no
# probability.** By cosine alone it succeeds. Centring *can* matter in two ways. In a **tied** model the same
# matrix reads, so each input loses $\mu$, too. At high learning rates logits may diverge, and Stollenwerk et
# al. (2026) centre against that. Their **μ-loss** $\lambda\|\mu\|^2$ is centring as a loss.
#
# ## The loss: the z-loss sees the mean
#
# Write $Z = \sum_i e^{l_i}$. The **z-loss** (PaLM, Chowdhery et al. 2022) adds $\lambda(\log Z)^2$, which
# holds the free constant of the logits near 0. Its gradient with respect to a logit is $2\lambda\log
# Z\;p_i$. Summed over the words, these gradients are *not* zero:
#
# $$\sum_i \frac{\partial}{\partial w_i}\,\frac{\lambda}{M}\sum_t(\log Z_t)^2
# = \frac{2\lambda}{M}\sum_t \log Z_t\; h_t .$$
#
# At the start all logits are near 0, and $\log Z\approx\log N$ is positive. To bring $\log Z$ down, every
# word moves against the mean context, as the rare words do anyway. What will that do to the cone?

# %%
swept = {"μ-loss": {}, "z-loss": {}}
for weight in (1e-4, 1, 10, 100):
    W, _ = learn(penalty=MuLoss(weight))
    swept["μ-loss"][weight] = measures(W)
for weight in (1e-4, 1e-2, 0.1):
    W, _ = learn(objective=CrossEntropy() + layers.ZLoss(weight))
    swept["z-loss"][weight] = measures(W)
swept = {loss: pd.DataFrame(rows).T for loss, rows in swept.items()}

# %% tags=["hide-input"]
plain, shown = table.loc["Adam"], ["drift", "cosine of rare words"]
low, high = (rows["drift"].iloc[-1] for rows in swept.values())
plots.show(
    plots.swept_losses({k: t[shown] for k, t in swept.items()}, plain),
    alt="Drift and mean cosine of the rare words against the weight of "
    "two losses; dotted lines mark Adam alone. From a drift of "
    f"{plain['drift']:.2f} the μ-loss goes down to {low:.2f} as its "
    f"weight grows, and the z-loss up to {high:.2f}.",
)

# %%
# NBVAL_CHECK_OUTPUT
print("the strongest μ-loss ends the drift:", bool(low < 0.2))
print("the strongest z-loss adds to it:   ", bool(high > plain["drift"]))

# %% [markdown]
# **Figure 4.** A strong μ-loss ends the drift. In the figure the z-loss *deepens* the cone, because it lowers $\log Z$ by
# moving the mean. At the weight of the papers, $10^{-4}$, neither loss does anything in our short runs.
#
# ## Who breaks the balance?
#
# Do the rows of the gradient sum to zero? For one batch, at the matrix that Adam has learned, we compute
# the **imbalance** $\|\sum_i G_i\|\,/\sum_i\|G_i\|$. The imbalance is 0 if pulls and pushes cancel, and
# 1 if all rows point the same way.


# %%
def imbalance(layer=Softmax, objective=None, penalty=None):
    """Return ‖Σ_i G_i‖ / Σ_i ‖G_i‖ on one batch."""
    words = FullWords(N, d)
    words.weight.data = learned["Adam"].clone()
    batch = H[batches[0]], y[batches[0]]
    loss, _ = layer(words, bias=False)(*batch, objective)
    loss = loss + (penalty(words) if penalty else 0)
    (G,) = torch.autograd.grad(loss, [words.weight])
    return (G.sum(0).norm() / G.norm(dim=1).sum()).item()


# %%
z_loss = CrossEntropy() + layers.ZLoss(0.01)
ratios = {
    "softmax": imbalance(),
    "adversarial margin": imbalance(layers.AdversarialSoftmax),
    "z-loss, λ = 0.01": imbalance(objective=z_loss),
    "μ-loss, λ = 1": imbalance(penalty=MuLoss(1.0)),
    "cosine penalty, γ = 1": imbalance(penalty=CosineRegularizer(1.0)),
}
pd.DataFrame({"imbalance": ratios}).round(4)

# %%
# NBVAL_CHECK_OUTPUT
kept = [name for name, ratio in ratios.items() if ratio < 1e-5]
print("in balance:", ", ".join(kept))

# %% [markdown]
# The adversarial margin lowers the target's logit by a number that the gradient treats as constant. The
# μ-loss and the cosine penalty pull the mean back. The z-loss pushes the mean away from the mean context.
#
# ## Whole models
#
# Now the contexts move, too. The plan `data/plans/lessons-11.toml` trains the whole Transformer with every
# remedy, in three passes over 30,000 tokens, with three seeds a setting. Each method takes the best of
# several settings by its loss on *validation* text, and is judged on *test* text. A method has the name of
# its recipe; *tied* is the baseline, trained by Adam. A name after a plus is the optimiser of $W$.

# %%
everything = evidence.read()
runs = side_by_side.runs_of(everything, "lessons-11")
best = side_by_side.at_best(runs)
display(Markdown(evidence.done_of(everything, "lessons-11")))
drift = best.groupby("method")["drift"].mean()
drift.filter(regex="tied|^coupled").to_frame().round(3)

# %% [markdown]
# The drift follows the optimiser of $W$. Under coupled Adam and SGD the mean stays, although a tied matrix also
# receives gradients from reading.
#
# ## All side by side
#
# Three rules hold:
#
# - **Tune the baseline, too.** The column *tried* counts the settings of a method.
# - **Pair the seeds.** Runs of one seed share their start and their batches. The
#   difference of their log perplexities is in per cent, with its 95 % interval over the pairs.
# - **Correct for the number of tests.** Many tests find something by chance. Holm's correction (1979)
#   raises $p$ for all settings of the plan; the interval stays.

# %%
rivals = best[~best.method.str.startswith("untied")]
judged = side_by_side.judged(rivals, "lessons-11", "tied")
rivals = rivals.groupby("method")
judged["tried"] = rivals["tried"].first()
judged[list(side_by_side.SHAPE)] = rivals[list(side_by_side.SHAPE)].mean()
judged = judged.sort_values("difference", na_position="first")
judged.loc[:, "difference":"tried"].round(3).astype(object).fillna("")

# %%
figures = judged[list(side_by_side.SHAPE)]
figures = figures.assign(loss=judged.difference.fillna(0) / 100)
alike = side_by_side.alike(figures, within=0.02)
first = judged.loc[list(alike)]
first.index = [" = ".join([name, *same]) for name, same in alike.items()]
rounder = side_by_side.roundest(first)
its_loss = first.difference.get(rounder, torch.nan)

# %% tags=["hide-input"]
plots.show(
    plots.loss_and_cosine(first),
    alt="A row for each method, sorted by test perplexity relative to the "
    f"baseline at the top, up to {first.difference.iloc[-1]:+.0f} % for "
    f"{first.index[-1]}. Beside it the mean cosine of the rare words, "
    f"from {first['cosine of rare words'].iloc[0]:.2f} at the top down to "
    f"{first['cosine of rare words'].min():.2f} for {rounder}.",
)

# %%
display(
    Markdown(
        f"**Figure 5.** Methods whose figures all agree within 0.02 share "
        f"a row. At their chosen setting {', '.join(alike['tied'])} do "
        f"nothing. {sum(judged.verdict == 'better')} of {len(judged) - 1} "
        f"methods are better than the baseline. The cloud of {rounder} is "
        f"the roundest, at {its_loss:+.0f} % perplexity."
    )
)

# %% [markdown]
# This answers the third prediction for short runs: in the figure no cloud rounder than the baseline's has a
# lower mean perplexity. Here even centring changes the probabilities, because the tied $W$ reads, too. Three
# warnings follow:
#
# - **The runs are short.**
# - **A verdict is not a cause.** Coupled Adam makes the cloud round *and* moves rare words less. In the
#   laboratory centring only makes the cloud round, but there $W$ does not read.
# - ***Undecided* means that three seeds could not tell.** The interval says how large the difference
#   could still be. *No difference* means that the 90 % interval lies within ±2 %.

# %% [markdown]
# ## When not to use them
#
# - **Centring** leaves every probability of an untied softmax as it was.
# - **Coupled Adam** needs a learning rate of its own, and a second look where words must be learned from
#   a few occurrences.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $W$, $w_i$ | `words.weight`, `W` | word matrix (N, d), its rows |
# | $h_t$, $y_t$ | `H`, `y` | contexts, and the words that followed |
# | $\mu$ | `W.mean(0)` | mean of the word vectors |
# | $G$, $\Delta$ | `W.grad`, what `step` adds | gradient of $W$, change of $W$ |
# | $Z$ | `logits.exp().sum()` | normaliser of the softmax |

# %% [markdown]
# ## Exercises
#
# Replace `None` by your answer, and run the next cell.
#
# ### 1. Half-coupled
# *Difficulty 2/3, importance 3/3, fifteen minutes.* Let each *word* have one divisor, made from the mean of its
# squares over the dimensions. Does the mean of $W$ stay? Answer by the form $m A$ first. Then assign
# `half_coupled`, a function of `W`, `m`, `v` and `t` as `coupled_adam` is, and measure:
# `learn(half_coupled)[1][1]`.
#
# <details><summary>Hint</summary>
#
# The step is $\Delta = D m$ with a diagonal $D$ on the *left*. What is $\mathbf 1^\top D m$ if $D$ is
# not a multiple of $I$?
#
# </details>
# <details><summary>Second hint</summary>
#
# `W.grad.square()` is (N, d). A mean that keeps its dimension, (N, 1), fits into `v`.
#
# </details>

# %% tags=["exercise"]
half_coupled = None  # a function of W, m, v and t


# %%
MEANS = {
    "a word's own": lambda q: q.mean(1, keepdim=True),
    "coupled Adam's": lambda q: q.mean(0),
    "Adam's": lambda q: q,
}


def two_steps(G, mean):
    """Return two steps of Adam with some mean of the squares."""
    q1, q2 = (mean(g.square()).expand_as(g) for g in G)
    m, v = (0.9 * G[0] + G[1]) / 1.9, (0.98 * q1 + q2) / 1.98
    return 1e-3 * (G[0] / q1.sqrt() + m / v.sqrt())


# %%
@torch.no_grad()
def divides_words(step):
    G = torch.randn(2, 7, 3, generator=chance)
    (m, v), W = torch.zeros(2, 7, 3), torch.nn.Parameter(torch.zeros(7, 3))
    for t in (1, 2):
        W.grad = G[t - 1].clone()
        try:
            step(W, m, v, t)
        except RuntimeError:
            return "its shapes do not fit: a mean over d is (N, 1)"
    for name, mean in MEANS.items():
        if torch.allclose(-W, two_steps(G, mean), rtol=1e-3):
            return name == "a word's own" or f"its divisors are {name}"
    return "no Adam's steps, or none: change one line of coupled_adam"


# %%
check("11.1", half_coupled, divides_words)

# %% [markdown]
# ### 2. A combination of your own (open)
# *Difficulty 2/3, importance 2/3, an hour.* Join two remedies of different links. Write down what you expect of
# drift, cosine and perplexity. Then write a plan with three seeds, run it, and let `comparison.compare` judge
# against the better of the two parts.
#
# <details><summary>Hint</summary>
#
# Copy an entry of `data/plans/lessons-11.toml` into a file of your own; see [how to run a
# batch](../docs/how-to/batch.md).
#
# </details>

# %% [markdown]
# ## What we saw
#
# First, here is what the ledger of [notebook 30](30_leaderboard.ipynb) says, which reads the best results
# that are kept.

# %%
names = ["own-centred", "own-mu-loss", "own-z-loss", "own-coupled-adam"]
display(Markdown(claims.conclusions(*names, of=everything)))

# %% [markdown]
# In the small runs of this lesson, over three seeds, the optimiser moves the mean, and no cloud rounder than
# the baseline's surely predicts better.

# %%
a, b = table.loc["Adam"], table.loc["coupled Adam"]
here = judged.difference["coupled-adam"]
display(
    Markdown(
        f"With fixed contexts Adam and coupled Adam reach {a.iloc[0]:.2f} "
        f"and {b.iloc[0]:.2f} nats, and the drift is {a['drift']:.2f} and "
        f"{b['drift']:.3f}. In whole, tied models the drift is "
        f"{drift['tied']:.2f} and {drift['coupled-adam']:.3f}. "
        f"Centring changes no loss by more than {apart:.1g} nats where "
        f"the matrix only predicts."
    )
)
display(Markdown(claims.beside("own-coupled-adam", here, everything)))

# %% [markdown]
# ## References
#
# - F. Stollenwerk, T. Stollenwerk (2025). *Better Embeddings with Coupled Adam.* ACL.
#   [doi:10.18653/v1/2025.acl-long.1321](https://doi.org/10.18653/v1/2025.acl-long.1321)
# - F. Stollenwerk, A. Lokrantz, N. Hertzberg (2026). *Output Embedding Centering for Stable LLM
#   Pretraining.* [arXiv:2601.02031](https://arxiv.org/abs/2601.02031)
# - A. Chowdhery et al. (2022). *PaLM: Scaling Language Modeling with Pathways.*
#   [arXiv:2204.02311](https://arxiv.org/abs/2204.02311)
# - D. P. Kingma, J. Ba (2015). *Adam: A Method for Stochastic Optimization.* ICLR.
#   [arXiv:1412.6980](https://arxiv.org/abs/1412.6980)
# - S. Holm (1979). *A Simple Sequentially Rejective Multiple Test Procedure.* Scandinavian Journal
#   of Statistics 6, 65–70. [JSTOR](https://www.jstor.org/stable/4615733)

# %% [markdown] tags=["way"]
# ← Previous: [10. Monotone softmaxes: full rank for nothing](10_monotone_softmaxes.ipynb)
#
# ↓ Deeper: [11b. Going deeper: more remedies of the word matrix](11b_more_remedies.ipynb)
#
# → Next: [12. What the record holders do](12_record_holders.ipynb)
