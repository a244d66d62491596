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
# # 12. What the record holders do
#
# **Question.** Which tricks with the word matrix made small language models train faster, what does each do to the matrix, and which of them survive a repetition with seeds?
#
# ![A language model from left to right: matrix E reads words, encoder, context h, matrix W predicts words, softmax. An arc ties E and W. In colour: E and W and tying and softmax. One matrix or two? A cap? Which start?](images/12_model.svg)
#
# **Figure 1.** The tricks of this lesson concern the tie, the cap of the logits, the start and, not drawn, the
# optimiser.

# %% [markdown]
# ## What you will learn
#
# - to read a speed record as evidence;
# - to measure whether reading or predicting shapes a tied matrix;
# - to say what a cap, a start and a missing momentum do to it;
# - to hold a claim against a repetition with seeds.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** Lessons [5](05_tying_and_augmented_loss.ipynb) on tying,
# [8](08_spectrum_control.ipynb) on the spectrum, [11](11_modern_remedies.ipynb) on the optimiser and
# [11b](11b_more_remedies.ipynb) on the cap.
#
# **Reading.** 28 minutes. **Difficulty.** 2 of 3.
#
# | profile | minutes | runs on | what is trained before your eyes |
# |---|---|---|---|
# | smoke | 0.5 | any CPU | a small Transformer for thirty steps |
# | quick | 1 | one CPU core | the same, for six epochs |
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
import copy  # noqa: I001
import inspect

import numpy as np
import pandas as pd
import torch
from IPython.display import Code, Markdown, display
from torch.nn import functional as F

# %%
import course_lab
from course_lab import claims, evidence, overrides, plans, plots, records
from course_lab.progress import check
from course_lib import data, regularizers
from course_lib.metrics import geometry
from course_lib.models.input_embedding import InputEmbedding
from course_lib.training import optimizers, tying

pd.set_option("display.max_colwidth", None)

# %% [markdown]
# ## Predict
#
# 1. One matrix reads and predicts, so it receives two gradients. Which is larger after a hundred steps?
# 2. One record caps the logits by $15\tanh(l/15)$, others write $30\,\sigma(l/7.5)$ with the sigmoid
#    $\sigma$. How far apart are the two distributions?
# 3. Adam moves a rare row of a matrix that only reads. What share of the row's path falls into steps in which the
#    word does not occur?
# 4. A record of 2024 untied the two matrices, and a record of 2025 tied them again. Both were faster than
#    what was there before. Can both tell the truth about tying?

# %% [markdown]
# ## What a record is
#
# In the speed run [modded-nanogpt](https://github.com/KellerJordan/modded-nanogpt) everybody trains a language
# model on one text until its validation loss is 3.28 nats, on eight H100 GPUs. The first record took 45 minutes,
# and the fastest of 2026 take less than 90 seconds. In **parameter-golf** a model of 16 MB trains for ten
# minutes, in **slowrun** one trains long on little text. The log of **nanochat**, a small public language
# model, also reports what failed.
#
# A record is good evidence in two ways. Today each record is run many times, because the rules ask that its mean
# loss is below the target with $p < 0.01$. It has to beat all that was found before. It is weak evidence in three ways: it
# changes several things together, it speaks of one model and one budget, and it is the best of many tries.

# %% [markdown]
# ## One matrix or two
#
# A small tied Transformer learns our docstrings, in the profile `quick` with the small vocabulary of lesson 11. Its
# matrix receives the sum $G =
# G_\text{read} + G_\text{predict}$. Reading reaches only the rows of words in the batch. Predicting reaches
# all rows. The **share of reading** is $\|G_\text{read}\|^2 / (\|G_\text{read}\|^2 + \|G_\text{predict}\|^2)$
# in the rows of a group of words. The **spread** of the contexts is the share of their squared length that is not
# in their mean.

# %%
recipe = course_lab.recipes["docstrings/transformer-128/tied"]
experiment = course_lab.profile(recipe, PROFILE, seed=SEED)
if PROFILE == "quick":
    change = plans.read_plan("lessons-11").runs[0].change
    experiment = overrides.override(experiment, change)
corpus = experiment.load_corpus()
N, d = len(corpus), experiment.size
rare, frequent = geometry.by_frequency(corpus.counts.numpy())
between = np.setdiff1d(np.arange(N), [*rare, *frequent])
groups = {"frequent words": frequent, "between": between}
groups["rare words"] = rare
batches = list(data.batches(data.columns(corpus.train, 8), 64))[:500]
steps = {"smoke": 30, "quick": 354}.get(PROFILE, 1_000)
model = experiment.build(N)


# %%
def sides(tokens, target):
    """Return the gradients of the tied matrix: reading, predicting."""
    W, step = model.words.weight, model(tokens, target=target)
    (whole,) = torch.autograd.grad(step.loss, W)
    loss, _ = model.output_layer(step.hidden.detach(), target)
    (predicting,) = torch.autograd.grad(loss, W)
    return whole - predicting, predicting


# %%
def look():
    """Return reading's share of the squared gradient, and the spread."""
    energy = torch.zeros(2, N)
    for batch in batches[:5]:
        energy += torch.stack([G.square().sum(1) for G in sides(*batch)])
    sums = {name: energy[:, rows].sum(1) for name, rows in groups.items()}
    shares = {name: float(e[0] / e.sum()) for name, e in sums.items()}
    h = model(*batches[0][:1]).hidden.flatten(0, 1).detach()
    spread = (h - h.mean(0)).square().sum() / h.square().sum()
    shares["spread of contexts"] = spread.item()
    return shares, (energy.sum(1) / 5).sqrt().tolist()


# %% [markdown]
# Record 53 of modded-nanogpt ties for two thirds of the training and unties then. The second matrix
# begins as a copy of the first, with Adam's memory.


# %%
def untie(model, optimizer):
    """Let a copy of the matrix read from now on, with Adam's memory."""
    predicts = model.words.weight
    model.words = copy.deepcopy(model.words)  # reads
    optimizer.add_param_group({"params": [model.words.weight]})
    memory = copy.deepcopy(optimizer.state[predicts])
    optimizer.state[model.words.weight] = memory


def cosines():
    """Return the mean cosine between both rows of a word, by group."""
    E, W = model.words.weight, model.output_layer.words.weight
    cosine = F.cosine_similarity(E, W).detach()
    return {name: float(cosine[g].mean()) for name, g in groups.items()}


# %%
adam = torch.optim.AdamW(model.parameters(), 2e-3, betas=(0.9, 0.98))
until = steps * 2 // 3
looks = {*(np.linspace(0, 1, 8) ** 2 * until).astype(int)}
reading, lengths, apart = {}, {}, {}
for t in range(steps):
    if t in looks:
        reading[t], lengths[t] = look()
    if t == until:
        untie(model, adam)
    tokens, target = batches[t % len(batches)]
    adam.zero_grad()
    model(tokens, target=target).loss.backward()
    adam.step()
    if t >= until:
        apart[t + 1 - until] = cosines()

# %% tags=["hide-input", "gallery"]
reading, apart = pd.DataFrame(reading).T, pd.DataFrame(apart).T
first, last, end = reading.iloc[0], reading.iloc[-1], apart.iloc[-1]
least = reading.min()
curves = {name: (reading.index, reading[name]) for name in reading}
plots.show(
    plots.lines(curves, "step", "share of reading, or spread", "y"),
    alt="Share of reading in the squared gradient of the tied matrix, for "
    "frequent words, rare words and those between, and the spread of the "
    "contexts, against the step. Frequent words begin at "
    f"{first.iloc[0]:.2f}, fall to {least.iloc[0]:.5f} and end at "
    f"{last.iloc[0]:.2f}; the spread begins at {first.iloc[3]:.2f}, falls "
    f"to {least.iloc[3]:.5f} and ends at {last.iloc[3]:.2f}.",
)

# %%
lengths = pd.DataFrame(lengths, ["‖G_read‖", "‖G_predict‖"])
lengths.T.rename_axis("step").map("{:.1e}".format)

# %%
# NBVAL_CHECK_OUTPUT
print("reading begins with over a third:", first.iloc[:3].min() > 1 / 3)
print("and falls below a hundredth:", least.iloc[:3].max() < 0.01)

# %% [markdown]
# **Figure 2.** At the start both gradients weigh the same. Then the share of reading falls with the spread, and
# the table shows that the gradient of reading itself becomes small. The model first learns how frequent the words
# are. For this all contexts may be the same, and then hardly any gradient reaches the words that were read. For frequent words reading returns with the spread; for the others its share
# stays small. So after a hundred steps, the first prediction, most of the gradient comes from predicting.
#
# Lopardo et al. (2026) find that the gradient of predicting rules a tied matrix early in training. Therefore they
# multiply the gradient of reading, in the library by a hook:

# %% tags=["hide-input"]
display(Code(inspect.getsource(InputEmbedding.forward), language="python"))

# %% tags=["hide-input"]
curves = {name: (apart.index, apart[name]) for name in apart}
plots.show(
    plots.lines(curves, "steps after untying", "cosine of both copies"),
    alt="Mean cosine between a word's row that reads and its row that "
    f"predicts, over {len(apart)} steps after untying. All curves begin "
    f"at 1. That of the frequent words falls to {end.iloc[0]:.2f}, that "
    f"of the rare words to {end.iloc[2]:.2f}.",
)

# %%
# NBVAL_CHECK_OUTPUT
fall = bool((apart.diff().dropna() < 0).to_numpy().all())
print("the copies part at every step:", fall)
print("frequent words part furthest:", end.idxmin() == "frequent words")

# %% [markdown]
# **Figure 3.** Once untied, the copies part at every step, those of frequent words furthest. The library has
# two matrices from the beginning. Until the tie ends, the one that reads takes every step for both:

# %% tags=["hide-input"]
for method in (tying.TiedUntil.before_step, tying.TiedUntil.after_step):
    display(Code(inspect.getsource(method), language="python"))

# %% [markdown]
# ## Rows that move without a gradient
#
# The matrix that reads has no gradient in most rows of a step. Adam's momentum $m$ still moves such a row. And
# Adam's second moment $v$ falls with every silent step, so that the path after the next gradient is long. **Ember**
# (Shah 2026) keeps no momentum, and its second moment is one number a row times one number a column. Its author
# uses it on both matrices.
#
# Here are both steps, and how far they move the rows of the matrix that reads. We hold the model still,
# so that both optimisers get the same gradients. A path of 1 is a step of the learning rate in every coordinate.


# %%
def adam_step(G, m, v, t):
    """Return Adam's step in learning rates; m and v are (N, d)."""
    m.lerp_(G, 0.1)
    v.lerp_(G.square(), 0.02)
    return m / (1 - 0.9**t) / ((v / (1 - 0.98**t)).sqrt() + 1e-8)


def ember_step(G, r, c, t):
    """Return Ember's step; r is (N, 1), and c is (d,)."""
    in_use = G.abs().sum(1) > 0
    r.lerp_(G.square().mean(1, keepdim=True), 0.001)
    c.lerp_(G[in_use].square().mean(0), 0.001)
    v = r / r.mean() * c / (1 - 0.999**t)  # of r only the share counts
    return G / (v.sqrt() + 1e-8)


# %%
E, some = model.words.weight, batches[: 15 if PROFILE == "smoke" else 59]
losses = (model(x, target=y).loss for x, y in some)
gradients = [torch.autograd.grad(loss, E)[0] for loss in losses]


# %%
def ways(step, *memory):
    """Return by group the path of a row for one use, and what is idle."""
    far = torch.zeros(3, N)  # in all, without a gradient, and the uses
    for t, G in enumerate(gradients * 3, 1):
        way = step(G, *memory, t).norm(dim=1) / d**0.5
        in_use = G.abs().sum(1) > 0
        if t > len(gradients):  # after a pass that fills the memory
            far += torch.stack([way, way * ~in_use, 1.0 * in_use])
    rows = {name: far[:, g].sum(1).tolist() for name, g in groups.items()}
    way, idle, uses = np.array(list(rows.values())).T
    figures = {"path for a use": way / uses, "idle share": idle / way}
    return pd.DataFrame(figures, rows)


# %%
by_adam = ways(adam_step, torch.zeros(N, d), torch.zeros(N, d))
by_ember = ways(ember_step, torch.zeros(N, 1), torch.zeros(d))
moved = pd.concat({"Adam": by_adam, "Ember": by_ember}, axis=1)
moved.round(2)

# %%
# NBVAL_CHECK_OUTPUT
idle = by_adam["idle share"]
print("Adam moves rare rows most:", idle.idxmax() == "rare words")
print("Ember moves none idly:", bool((by_ember["idle share"] == 0).all()))
x = torch.nn.Parameter(torch.zeros(N, d))
x.grad = gradients[0]
optimizers.Ember([x], 1.0).step()
ours = ember_step(x.grad, torch.zeros(N, 1), torch.zeros(d), 1)
print("the library's step is ours:", torch.allclose(-x, ours, rtol=1e-3))

# %% [markdown]
# The *path for a use* is the whole path of a row, divided by the number of steps in which its word occurs. The
# *idle share* of the path falls into steps without the word. This answers the third prediction: nearly all of
# the path of a rare row is idle under Adam. The reason is $\beta_1 = 0.9$: a gradient goes $1 - \beta_1$ of its
# path at once and the rest in the steps after it. Momentum mostly delays the path. With
# Ember, too, one use moves a rare row several times as far as a frequent row.
#
# [Ember's author](https://github.com/katop1234/ember) blames the second moment for steps on rare rows that are a
# hundred times too large and more; exercise 1 asks about one.
#
# ## The cap
#
# Lesson 11b capped logits by $s\tanh(l/s)$. Later records write a sigmoid, and $\sigma(x) = \frac12 +
# \frac12\tanh\frac x2$ gives
#
# $$a\,\sigma\!\left(\frac{l+b}{c}\right) = \frac a2 + \frac a2\tanh\frac{l+b}{2c} .$$
#
# The constant $\frac a2$ changes no probability. So the sigmoid is a cap with $s = \frac a2$, width $2c$ and
# shift $b$.

# %%
# NBVAL_CHECK_OUTPUT
model.eval()
with torch.no_grad():
    contexts = model(*batches[0][:1]).hidden.flatten(0, 1)
    logits = contexts @ model.output_layer.words.weight.T
tanh, sigmoid = 15 * (logits / 15).tanh(), 30 * (logits / 7.5).sigmoid()
same = torch.allclose(tanh.softmax(1), sigmoid.softmax(1), atol=1e-6)
print("15 tanh(l / 15) and 30 σ(l / 7.5) are one softmax:", same)

# %%
caps = {  # bound, width, shift
    "30 tanh(l/30)": (30, 30, 0),
    "15 tanh(l/15)": (15, 15, 0),
    "23 σ((l+5)/7.5)": (11.5, 15, 5),
}


def slope(x, s, w, b):
    """Return what a cap leaves of the gradient at logit x."""
    return s / w * (1 - np.tanh((x + b) / w) ** 2)


grid, high = np.linspace(-40, 40, 401), np.quantile(logits, 0.999)
slopes = {name: (grid, slope(grid, *cap)) for name, cap in caps.items()}
left = ", ".join(f"{slope(high, *cap):.2f}" for cap in caps.values())

# %% tags=["hide-input"]
plots.show(
    plots.caps(slopes, logits.numpy().ravel()),
    alt="Factor on the gradient against the logit for three caps, and the "
    "histogram of the model's logits behind them. The bell of 15 is half "
    "as wide as that of 30. The bell of the sigmoid with a shift lies to "
    f"the left. At a logit of {high:.0f} the factors are {left}.",
)

# %% [markdown]
# **Figure 4.** To the second prediction: the two distributions are the same. The cap of
# record 54 has a shift. It brakes likely words, at the right, more than unlikely ones. Its slope is below 1
# everywhere, because its width exceeds its bound. A cap of 30 hardly touches our model's logits, in grey, which
# learned without a cap.
#
# ## The start
#
# A record of parameter-golf lets the singular values of the tied matrix begin at $\sigma_k = \sigma_1
# k^{-1/2}$. That is the polynomial prior of lesson 8 with $\gamma = \frac12$, without its penalty. In our
# library it is `FullWords(…, decay=0.5)`.


# %%
def start_at(W, gamma):
    """Return W with σ_k = σ_1 k^−γ."""
    U, sigma, Vh = torch.linalg.svd(W, full_matrices=False)
    k = torch.arange(1.0, len(sigma) + 1)
    return (U * sigma[0] * k**-gamma) @ Vh


torch.manual_seed(SEED)
plain, trained = 0.01 * torch.randn(N, d), model.output_layer.words.weight
matrices = {
    "plain start": plain,
    "remedy: start at 1/√k": start_at(plain, 0.5),
    "trained": trained.detach(),
    "centred, trained": (trained - trained.mean(0)).detach(),
}
spectra = {name: torch.linalg.svdvals(W) for name, W in matrices.items()}
two = ", ".join(f"{s[1] / s[0]:.2f}" for s in spectra.values())

# %% tags=["hide-input"]
plots.show(
    plots.singular_values(spectra),
    alt="Singular values over the largest, on a logarithmic axis. Those "
    "of the plain start hardly fall. Those of the start at 1/√k fall "
    f"faster, and those of the trained matrix fastest. From the plain "
    f"start to the matrix without its mean σ₂/σ₁ is {two}.",
)

# %% [markdown]
# **Figure 5.** A random start is flat, and training bends it. The values of the trained matrix are no power
# of $k$: a few are large, and the rest is nearly flat. Much of the first fall is the mean row. The
# start at $1/\sqrt k$ is shorter than the plain one, because only $\sigma_1$ stays.
#
# ## Two losses
#
# **Past-decode regularisation** (Brahma 2018) asks the predicted distribution $p$ which word was just read. It
# adds the cross-entropy of that word under a layer of our choice, $\mathrm{softmax}(W\tanh(A\sum_j p_j w_j))$, with a
# learned matrix $A$ and two biases that the formula leaves out. **Dispersion** (Liu et al. 2026) drives the contexts of a
# sequence apart. Its loss is the logarithm of the mean of $\exp(-\angle(h_t, h_u)/(\pi\tau))$ over pairs of contexts.
# In the library:

# %% tags=["hide-input"]
for loss in (regularizers.PastDecode, regularizers.ContextDispersion):
    display(Code(inspect.getsource(loss.__call__), language="python"))

# %% [markdown]
# ## Beside our own runs
#
# The plan `data/plans/record-holders.toml` is to repeat every trick in one small recurrent network on the
# Penn Treebank, with no learning rate tuned. We call these runs the *desk*. **Muon**, whose steps have equal
# singular values, is there because its author warns against it on word matrices.
#
# - *source*: *ours* means that nobody else claims it.
# - *claimed*: the effect of all that changed together.
# - *ours*: 100 times the logarithm of the ratio of test perplexities, which is nearly per cent, with its 95 %
#   interval over *pairs* of runs that share a seed.
# - *verdict*: corrected for the number of rows, untested rows included. So an interval may leave out 0 where
#   the verdict is *undecided*. *Untested* are fewer than two pairs. *No difference larger than x %* is decided
#   by one-sided tests at 5 %, not corrected.

# %%
everything = evidence.read()
desk = records.desk(everything)
display(Markdown(evidence.done_of(everything, "record-holders")))
table = records.beside(everything)
table.set_index("trick")

# %% [markdown]
# Most rows of *claimed* are of time or steps, of which only the sign compares. Ember's row claims less than the
# margin of 2 %. The first two rows are one comparison, read both ways. To the fourth prediction: a record
# compares a whole model with the one before it, so both may be true.

# %% [markdown]
# ## The evidence against
#
# These statements speak against some tricks, or against all.

# %%
records.against()

# %% [markdown]
# So a fault that is real, such as updates that rounding swallows, may change no loss. A setting tuned
# in a small model may harm a larger one. The shape of the cloud does not tell how well a model predicts.

# %% [markdown]
# ## When not to use them
#
# - **Untying** adds a second matrix, which may hold most parameters of a small model.
# - **A cap** $s$ below about $\frac12 \ln N$ lets no word have half of the probability, because no word is more
#   than $e^{2s}$ times as likely as another.
# - **Ember** spares idle rows only in a matrix that reads. A tied matrix has no idle rows, because predicting gives
#   each row a gradient in every step.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $W$ | `model.output_layer.words.weight` | matrix that predicts (N, d), and reads while tied |
# | $G_\text{read}$, $G_\text{predict}$ | `sides(…)` | the two parts of its gradient |
# | $m$, $v$, $\beta_1$ | `adam_step` | Adam's moments, decay of the first |
# | $l$, $s$ | `logits`, `caps` | logit, cap |
# | $\sigma(x)$, $a$, $b$, $c$ | `caps` | sigmoid; height, shift, half the width |
# | $\sigma_k$ | `spectra` | singular values |
# | $h_t$, $\tau$ | `hidden`, `temperature` | contexts, temperature of their dispersion |

# %% [markdown]
# ## Exercises
#
# ### 1. After a long silence
# *Difficulty 2/3, importance 3/3, fifteen minutes.* A row had no gradient for so long that $m = v = 0$, and the
# corrections $1 - \beta^t$ are 1. Now a gradient $g$ arrives. How long is Adam's first step, in learning rates?
# Assign a function of `beta1` and `beta2` to `first_step`. Compare it with the path in the table.
#
# <details><summary>Hint</summary>
#
# Write down $m$ and $v$ after this one gradient, and divide. Does $g$ stay?
#
# </details>

# %% tags=["exercise"]
first_step = None  # a function of beta1 and beta2


# %%
def wakes_up(first_step):
    for betas in ((0.9, 0.98), (0.5, 0.95), (0.0, 0.9)):
        x = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
        optimizer = torch.optim.Adam([x], 1.0, betas, 0.0)
        for g in [1e-9] + [0.0] * 900 + [3.0]:
            x.grad, before = torch.full_like(x, g), x.item()
            optimizer.step()
        step, said = before - x.item(), first_step(*betas)
        told = {1 / step: "it is upside down", step: ""}
        told[(1 - betas[0]) / (1 - betas[1])] = "divide by the root of v"
        near = [why for x, why in told.items() if abs(said / x - 1) < 1e-3]
        if "" not in near:
            return near[0] if near else f"not so with {betas}"
    return True


check("12.1", first_step, wakes_up)

# %% [markdown]
# ### 2. A cap as a sigmoid
# *Difficulty 1/3, importance 2/3, ten minutes.* Write the cap $s\tanh(l/s)$ as a sigmoid $a\,\sigma(l/c)$ that
# gives the same probabilities. Assign a function of a tensor of logits `x` and of `s` to `as_sigmoid`. Its values
# lie between 0 and $a$.
#
# <details><summary>Hint</summary>
#
# Which $a$ and $c$ make the two hyperbolic tangents equal?
#
# </details>

# %% tags=["exercise"]
as_sigmoid = None  # a function of the logits x and the cap s


# %%
def is_a_cap(as_sigmoid):
    """Return whether it gives the cap's probabilities."""
    for s in (30.0, 4.0):
        wanted = (s * (logits[:50] / s).tanh()).softmax(1)
        given = as_sigmoid(logits[:50], s)
        if given.min() < 0 or given.max() > 2 * s:
            return f"it leaves the range from 0 to {2 * s:g}"
        if (given.softmax(1) - wanted).abs().max() > 1e-5:
            return f"with s = {s:g} the probabilities are others"
    return True


check("12.2", as_sigmoid, is_a_cap)

# %% [markdown]
# ### 3. Judge a record (open)
# *Difficulty 2/3, importance 3/3, an hour.* Choose a trick that is not in the table from the [list of
# records](https://github.com/KellerJordan/modded-nanogpt#world-record-history). Write down what changed together,
# and a comparison that would separate the trick from the rest: models, seeds, and which difference would matter.
#
# <details><summary>Hint</summary>
#
# `data/plans/record-holders.toml` is such a design; see [how to run a batch](../docs/how-to/batch.md).
#
# </details>

# %% [markdown]
# ## What we saw
#
# This is what the desk says of claims with two pairs or more. *Disagrees* means a difference against the claim,
# and does not refute the record.

# %%
names = table.index[table.pairs > 1]
display(Markdown(claims.conclusions(*names, of=desk)))

# %%
display(
    Markdown(
        f"{records.told(table)} In the small model reading has "
        f"{first.iloc[0]:.0%} of "
        f"the squared gradient of frequent words at the start, "
        f"{least.iloc[0]:.3%} where the contexts are nearly the same, and "
        f"{last.iloc[0]:.0%} after {until} steps. Once untied, the copies "
        f"of frequent words have a cosine of {end.iloc[0]:.2f} after "
        f"{len(apart)} steps. Adam moves a rare row of the matrix that "
        f"reads for {idle['rare words']:.0%} of its path without a "
        f"gradient. 15 tanh(l/15) and 30 σ(l/7.5) are one softmax."
    )
)

# %% [markdown]
# ## References
#
# - K. Jordan et al. (2024–2026). *modded-nanogpt*, with its table of records and their logs.
#   [github.com/KellerJordan/modded-nanogpt](https://github.com/KellerJordan/modded-nanogpt)
# - A. Karpathy (2026). *nanochat*, experiment log.
#   [dev/LOG.md](https://github.com/karpathy/nanochat/blob/master/dev/LOG.md)
# - OpenAI (2026). *parameter-golf.* Pull requests 59 and 2000.
#   [github.com/openai/parameter-golf](https://github.com/openai/parameter-golf)
# - Q Labs (2026). *slowrun*, pull request 25.
#   [github.com/qlabs-eng/slowrun](https://github.com/qlabs-eng/slowrun/pull/25)
# - K. Jordan et al. (2024). *Muon.* [github.com/KellerJordan/Muon](https://github.com/KellerJordan/Muon)
# - K. Shah (2026). *Token Geometry.* [arXiv:2607.01455](https://arxiv.org/abs/2607.01455), with
#   [Ember](https://github.com/katop1234/ember)
# - A. Lopardo, A. Harish, C. Arnett, A. Gupta (2026). *Weight Tying Biases Token Embeddings Towards the
#   Output Space.* [arXiv:2603.26663](https://arxiv.org/abs/2603.26663)
# - S. Brahma (2018). *Improved Language Modeling by Decoding the Past.*
#   [arXiv:1808.05908](https://arxiv.org/abs/1808.05908)
# - C. Liu, X. Sun, X. Xiao et al. (2026). *Dispersion Loss Counteracts Embedding Condensation and Improves
#   Generalization in Small Language Models.* [arXiv:2602.00217](https://arxiv.org/abs/2602.00217)
# - A. Kulkarni, J. M. Springer, A. Subramonian, S. Swayamdipta (2026). *Disentangling Geometry,
#   Performance, and Training in Language Models.* [arXiv:2602.20433](https://arxiv.org/abs/2602.20433)
# - W. Chung, J. Kim (2025). *Exploiting Vocabulary Frequency Imbalance in Language Model Pre-training.*
#   [arXiv:2508.15390](https://arxiv.org/abs/2508.15390)

# %% [markdown] tags=["way"]
# ← Previous: [11. Modern remedies: the loss, the step, the matrix](11_modern_remedies.ipynb)
#
# → Next: [20. Train a language model](20_train_language_model.ipynb)
