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
# # 9b. Going deeper: inside a mixture
#
# **Question.** What does a mixture of softmaxes need to fit a language that is a mixture, what do its components do, and do more of them pay?
#
# This notebook goes on where [lesson 9](09_mixtures.ipynb) stops. Nothing later needs it.

# %% [markdown]
# ## What you will learn
#
# - to tell what a layer can say from what training finds;
# - to look into a trained mixture: which component predicts what, and how much the components differ;
# - to change the rank of log P by the number of components and by dropout, and to watch the perplexity;
# - to compute a mixture in bounded memory, and to read which settings the papers compare.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 9](09_mixtures.ipynb), whose symbols this notebook uses.
#
# **Reading.** 37 minutes. **Difficulty.** 3 of 3.
#
# | profile | minutes | runs on | what is trained before your eyes |
# |---|---|---|---|
# | smoke | 0.3 | any CPU | the same models for seconds |
# | quick | 1.5 | two CPU cores | layers on an exact language, a small Transformer |
# | standard | 8 | two CPU cores (estimated) | the Transformer on 600,000 tokens, 10,000 words |
# | full | 10 | one GPU (estimated) | the same on the whole corpus, five times |
#
# Comparisons over seeds are read from results that are kept with the course.
#
# On Google Colab, run this in a first cell and restart the session:
#
# `!git clone -q https://github.com/output-embedding-course/output-embedding-course && pip install -q -c output-embedding-course/constraints.txt -e "./output-embedding-course[lab]"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
SEED = 1  # of the models and of every random draw below

# %%
import tempfile

import numpy as np
import pandas as pd
import torch
from IPython.display import Markdown, display

# %%
import course_lab
from course_lab import (
    claims,
    corpora,
    plans,
    plots,
    published,
    tables,
    untested,
)
from course_lab.progress import check

# %%
from course_lib import data
from course_lib.output_layers import (
    FullWords,
    MixtureOfSoftmaxes,
    Softmax,
)

# %% [markdown]
# ## Predict
#
# 1. The truth is a mixture of four softmaxes. You fit a mixture of four, and a softmax that learns as many
#    numbers. Which comes closer to the truth?
# 2. Dropout of the contexts lowers the rank of log P. Is that a reason to leave it out?

# %% [markdown]
# ## A language that is a mixture
#
# [Lesson 4](04_softmax_bottleneck.ipynb) fitted a language whose truth *is* a mixture of four softmaxes, with
# 200 words, 80 contexts, $d = 12$ and rank 80. A mixture of four came closer than one softmax of the same $d$.
# That mixture had an $h$ with room for all its contexts. In a language model all $h_k$ are made of one $h$,
# and if $h$ has only $d$ numbers, four contexts of $d$ numbers each cannot be chosen freely. We compare three
# layers:
#
# - one softmax;
# - the mixture as it is built, with all contexts made of one $h$ of $d$ numbers;
# - a **free** mixture: each of the 80 contexts of the language has four vectors $h_k$ and four weights $\pi_k$
#   of its own, as if an encoder of any width had made them.
#
# As in lesson 4 we minimise the expected cross-entropy, so the **excess** over the entropy of the language is
# due to the model and the optimiser alone. Each layer has three random starts.

# %%
options = dict(N=200, d=12, states=80, tokens=1000, seed=SEED)
truth = corpora.load("zipf", components=4, **options).truth
P, states = truth.matrix.exp().float(), truth.stationary.float()
STEPS = 20 if PROFILE == "smoke" else 300


def excess(log_prob, learned, rate=0.05):
    """Return nats above the entropy after training, numbers learned."""
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
    """Fit a layer of the library on one h of d numbers a context."""
    layer = kind(FullWords(200, d, init=0.5, normal=True), **options)
    H = torch.randn(80, d, requires_grad=True)
    return excess(lambda: layer.log_prob(H), [H, *layer.parameters()])


def free_mixture(d, start=None, rate=0.05):
    """Fit W, b, and four contexts and weights for each context."""
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
    """Fit the mixture as it is built."""
    return one_context(MixtureOfSoftmaxes, d, components=4)


makers = {
    "plain softmax": (lambda d: one_context(Softmax, d), 4, 8, 12, 16, 24),
    "MoS, one h": (mixture, 4, 8, 12),
    "MoS, free": (free_mixture, 4, 8, 12),
}
fits = []
for name, (make, *sizes) in makers.items():
    for d in sizes:
        for seed in range(1 if PROFILE == "smoke" else 3):
            torch.manual_seed(seed)
            fits.append((name, d, *make(d)))

# %%
fits = pd.DataFrame(fits, columns=["layer", "d", "excess", "numbers"])
fitted = fits.groupby(["layer", "d"])[["excess", "numbers"]].mean()
fitted = fitted.reset_index("d")
at12 = fitted[fitted.d == 12].excess
fits.pivot_table("excess", "layer", "d").round(3).astype(object).fillna("")

# %% tags=["hide-input"]
columns = ["d", "numbers", "excess"]
drawn = {n: fitted.loc[n, columns].T.to_numpy() for n in makers}
plots.show(
    plots.excess_and_size(drawn),
    alt="Excess over the entropy, logarithmic, left against d, right "
    "against the numbers learned. At d = 12 the softmax has "
    f"{at12['plain softmax']:.3f} nats, the mixture on one h "
    f"{at12['MoS, one h']:.3f}, the free mixture {at12['MoS, free']:.3f}. "
    "Against the numbers learned no mixture lies below the softmax.",
)

# %% [markdown]
# **Figure 1.** At equal $d$ the free mixture is well ahead, and the mixture on one $h$ gains next to nothing.
# So one $h$ of $d$ numbers is too little, though the free contexts also lack the layer's $\tanh$. But two
# layers with the same $d$ do not cost the same. A softmax that learns as many *numbers* as the free mixture is
# wider. The panel on the right answers the first prediction: the mixture is no better than this softmax, on a
# language made for the mixture.
#
# Could the mixture be better? We start at the truth, with every number disturbed a little:

# %%
exact = (truth.word_matrix, truth.bias, truth.contexts, truth.log_weights)
torch.manual_seed(SEED)
near = [p.float() + 0.3 * torch.randn(p.shape) for p in exact]
from_truth, _ = free_mixture(12, near, rate=0.02)
print(f"excess from near the truth: {from_truth:.4f} nats")
print(f"from random starts:         {at12['MoS, free']:.4f} nats")

# %% [markdown]
# So the mixture can say the truth, and from a random start the optimiser does not find the truth in the steps
# that it has. Mixtures are known for losses with many valleys. These runs do not tell whether the valleys, the
# larger learning rate or the lack of time is to blame. The rank is about what a layer can say. What training
# finds is another matter.

# %% [markdown]
# ## Who predicts what
#
# We train the mixture of four of lesson 9 again and look at every position of the test text. We look at the
# weights $\pi_k$, at the probability that each component gave to the word that came, and at the
# responsibilities.

# %%
plan = plans.read_plan("lessons-09")
LEVEL = {"standard": "quick", "full": "standard"}  # sizes of the recipes
recipe = "docstrings/transformer-128/mos"
if PROFILE in LEVEL:
    whole = course_lab.recipes[recipe]
    experiment = course_lab.profile(whole, LEVEL[PROFILE], SEED)
else:
    planned = next(p for p in plan.runs if p.recipe == recipe)
    e = planned.experiment().change(seed=SEED)
    epochs = 1 if PROFILE == "smoke" else e.optimisation.epochs
    experiment = e.change(optimisation={"epochs": epochs})
with tempfile.TemporaryDirectory() as folder:
    run = course_lab.run(experiment, folder=folder, progress=False)
corpus, layer = run.corpus, run.model.output_layer


# %%
@torch.no_grad()
def look_inside(tokens):
    """Return h (n, d), targets (n,), log π (n, K), log P_k (n, K, N)."""
    length = experiment.optimisation.length
    rows = data.columns(tokens, len(tokens) // (length + 1))
    h = run.model.eval()(rows[:-1].to(device)).hidden.flatten(0, 1)
    logits, log_pi = layer.logits(h)
    log_P = logits.log_softmax(-1)
    return rows, h, rows[1:].flatten(), log_pi.cpu(), log_P.cpu()


device, K = layer.words.weight.device, layer.components
text, h, y, log_pi, log_P = look_inside(corpus.test[:4_000])
given = log_P[torch.arange(len(y)), :, y]  # log P_k(y), (n, K)
pi, r = log_pi.exp(), (log_pi + given).softmax(-1)


# %%
def perplexity(log_p):
    """Return the perplexity of log P (n,) of the words that came."""
    return log_p.mean().neg().exp().item()


with torch.no_grad():
    mean = (pi.to(h)[:, None] @ layer.contexts(h)[0])[:, 0]
    merged = (mean @ layer.words.matrix().T).log_softmax(-1).cpu()
ways = {
    "the mixture": (log_pi + given).logsumexp(-1),
    "equal weights": given.logsumexp(-1) - np.log(K),
    "one softmax of its mean context": merged[torch.arange(len(y)), y],
}
ways |= {f"component {k + 1} alone": given[:, k] for k in range(K)}
rows = {name: perplexity(log_p) for name, log_p in ways.items()}
ways = pd.DataFrame(rows, index=["perplexity"]).T.round(1)
tables.with_ngrams(ways, corpus, "perplexity")

# %% [markdown]
# Each row below the first changes the trained mixture and does not train it again. One row makes all weights
# equal, one puts a single softmax of the mean context in place of the mixture, and the last rows keep one
# component each. The more the perplexity of a row rises in the table, the more the mixture uses what this row
# lacks. The n-grams, which only count runs of words, stand below for the whole test text; the other rows are for its
# first 4,000 tokens. Which words do the components answer for?

# %% tags=["hide-input"]
counts = torch.bincount(y, minlength=len(corpus))
top = counts.argsort(descending=True)[:24]
by_word = torch.stack([r[y == i].mean(0) for i in top])
words = [corpus.words[i].replace("\n", "⏎") for i in top]
word, best = divmod(int(by_word.argmax()), K)
plots.show(
    plots.responsibilities(by_word, words),
    alt="Mean responsibility of each component for each of the 24 most "
    "frequent words. Some words belong to one component: "
    f"“{words[word]}” comes from component {best + 1} with "
    f"{by_word.max():.0%} of its probability.",
)

# %% [markdown]
# **Figure 2.** Each column has the mean responsibilities for one frequent word, over the positions at which the
# word came, and adds up to one. A light cell means that the component gives most of the word's probability.
#
# Three numbers sum up how the components are used. The **entropy of the weights**, $-\sum_k\pi_k\log\pi_k$,
# lies between 0, where one component decides, and $\log K$, where all share alike. The entropy of the *mean*
# weights has the same range, and is large if the text as a whole uses all components. The **mutual
# information** of component and word is what one would learn about the next word if one were told which
# component draws it,
#
# $$I = \mathcal H\Big(\sum_k \pi_k P_k\Big) - \sum_k \pi_k\,\mathcal H(P_k) \ge 0,$$
#
# with $\mathcal H$ the entropy of a distribution over words. $I$ is zero if all components say the same, and
# never more than the entropy of the weights.


# %%
def entropy(log_p):
    """Return entropies (…) of distributions (…, n), in nats."""
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
# Here are three of the positions with the largest $I$: the last words of the context, the word that came, and
# the weight of each component with its three likeliest words.

# %%
width, told = text.shape[1], {}
for n in information.argsort(descending=True).tolist():
    t, column = divmod(n, width)
    before = corpus.decode(text[max(0, t - 4) : t + 1, column])
    fresh = before.split()[-1:] not in [b.split()[-1:] for b in told]
    broken = "\n" in before or "<unk>" in before
    if t >= 5 and fresh and not broken:
        told[before] = n
    if len(told) == 3:
        break

# %%
rows = {}
for before, n in told.items():
    likely = log_P[n].topk(3).indices
    rows[f"… {before} → {corpus.words[y[n]]}"] = [
        f"{pi[n, k]:.0%}: " + ", ".join(corpus.words[i] for i in likely[k])
        for k in range(K)
    ]
pd.DataFrame(rows, index=[f"component {k + 1}" for k in range(K)])

# %% [markdown]
# At these positions the components bet on partly different continuations, as in the triangle of lesson 9. But
# these positions are extremes. The mean mutual information above is that of the whole text.

# %% [markdown]
# ## More components
#
# The plan `data/plans/lessons-09.toml` has runs with 1, 2, 4 and 8 components, three seeds each, without
# dropout of the contexts.

# %%
def gap(epoch):
    """Return log validation over training perplexity of an epoch."""
    return np.log(epoch["valid_perplexity"] / epoch["train_perplexity"])


figures = ["mean_cosine", "positive_share", "I1"]

# %%
NAMES = {"MixtureOfSoftmaxes": "MoS", "MixtureOfContexts": "MoC"}


def line(planned, content):
    """Return settings and results of a kept run."""
    e = planned.experiment()
    m, epochs = content["metrics"], content["epochs"]
    options, ranks = e.output_layer.options, m["log_prob"]
    return {
        "layer": NAMES.get(e.output_layer.kind, "softmax"), "d": e.size,
        "K": options.get("components", 1), "seed": planned.seed,
        "rate": e.optimisation.learning_rate, "last": gap(epochs[-1]),
        "dropout": options.get("dropout", e.output_dropout),
        "test": m["test_perplexity"], "Press' rank": ranks["press_rank"],
        "effective": ranks["effective_rank"]["0.0001"],
        "best": gap(epochs[m["best_epoch"] - 1]),
    } | {figure: m["geometry"][figure] for figure in figures}  # fmt: skip


# %%
table = pd.DataFrame(map(line, plan.runs, untested.read(plan.runs)))
table["model"] = tables.models_of(plan)
usual = table[(table.d == 64) & (table.rate == 0.004)]
swept = usual[(usual.layer == "MoS") & (usual.dropout == 0)]
swept = swept.sort_values(["seed", "K"])

# %% tags=["hide-input"]
means = swept.groupby("K")[["Press' rank", "effective"]].mean()
ranks = means.rename(columns={"effective": "effective, ε = 1e-4"})
tests = {s: dict(zip(g.K, g.test)) for s, g in swept.groupby("seed")}
plots.show(
    plots.rank_and_perplexity(tests, ranks.to_dict(), "components K"),
    alt="Left, test perplexity against the number of components, a line "
    "for each seed: it hardly changes. Right, the ranks: Press' rank "
    f"goes from {ranks.iloc[0, 0]:.0f} with one component to "
    f"{ranks.iloc[1, 0]:.0f} with two, the effective rank from "
    f"{ranks.iloc[0, 1]:.0f} to {ranks.iloc[1, 1]:.0f}.",
)

# %%
names = {m: f"K = {n}" for n, m in zip(swept.K, swept.model)}
first, *_ = names
compared = untested.table_of(plan, first).models.loc[list(names)]
compared = compared.rename(names)
shown = ["perplexity", "difference", "difference low", "difference high"]
shown = compared[[*shown, "p", "verdict"]].round(2)
of_plan = plan.runs[0].experiment().load_corpus()
tables.with_ngrams(shown, of_plan, "perplexity", digits=2)

# %% [markdown]
# **Figure 3.** Press' rank leaps with the *second* component from $d + 1$ to nearly the number of words, and
# the perplexity does not leap with the rank. The left axis covers a short range: the seeds differ by more than
# the means do. The effective rank hardly moves: the directions that a mixture adds are real, and carry next to
# nothing. In the table the differences are per cent of the perplexity with $K = 1$.
#
# In Parthiban et al. (2021) the rank rises step by step from $K = 1$ to 15, and the perplexity falls. But
# components bring parameters as well, and lesson 9 shows how far MoC comes without the rank. [Notebook
# 31](31_rank_and_perplexity.ipynb) sets the two knobs of the paper, $K$ and dropout, beside the knobs of our
# runs.
#
# The paper sees the price of capacity in the **gap**, the logarithm of the ratio of test to training
# perplexity: every further component helps on the training text more than on the test text. Here is the gap of
# validation and training perplexity at the best epoch and at the last one. The training perplexity of
# `data/plans/lessons-09.toml` is the mean over an epoch, in which the weights improve. So it is too high, and
# the gap can be negative.

# %%
rows = {}
for K_, runs in swept.groupby("K"):
    for moment in ("best", "last"):
        m = untested.mean(runs[moment])
        told = f"{m.mean:+.2f} [{m.low:+.2f}, {m.high:+.2f}]"
        rows.setdefault(f"K = {K_}", {})[f"{moment} epoch"] = told
pd.DataFrame(rows).T

# %%
said = published.rows().query("paper == 'parthiban2021'")
theirs = said[(said.table == "S4") & (said.metric == "perplexity")]
theirs = theirs.pivot_table("value", "setting", "split", sort=False)
np.log(theirs.test / theirs.train).rename("published gap").round(2)

# %% [markdown]
# The published gap on the Penn Treebank widens with every step of $K$. Our gap does not, not even at the last
# epoch, where many runs are past their best one. But three seeds leave wide intervals.

# %% [markdown]
# ## Dropout: the rank is not the perplexity
#
# Parthiban et al. (2021) found a knob that turns the rank at fixed $K$: the dropout of the components'
# contexts. Here are their figures for 15 components.

# %%
knob = said[(said.table == "S12") & (said.split == "test")]
shape = dict(index="setting", columns=["corpus", "metric"], sort=False)
knob.pivot_table("value", **shape).iloc[::-1]

# %% [markdown]
# In the table above, less dropout gives a higher rank and *worse* predictions. In our short runs Press' rank is
# at its limit, so the effective rank takes its place. The next table shows what a dropout of 0.3 changes in
# pairs of one seed. The table has the change of the perplexity in per cent, and the mean effective rank at
# $\varepsilon = 10^{-4}$ without dropout and with dropout.

# %%
rows, pairs = {}, {}
for name, runs in usual[usual.K.isin([1, 4])].groupby(["layer", "K"]):
    if len(runs) == 6 and set(runs.dropout) == {0, 0.3}:
        by = dict(list(runs.groupby("dropout")))
        pairs[name[0]] = by[0.3].model.iloc[0], by[0].model.iloc[0]
        ranks = (g.effective.mean() for g in by.values())
        rows[name[0]] = dict(zip(["rank without", "rank with"], ranks))
tested = untested.compared(plan, pairs).loc[:, "difference":"verdict"]
tested.join(pd.DataFrame(rows).T.round(1))

# %% [markdown]
# In the table the effective rank of the mixture of four falls with dropout, and its perplexity hardly changes.
# For the softmax the rank falls and the mean perplexity rises, but three seeds decide nothing. This answers the
# second prediction: the rank is no reason to leave dropout out. The perplexity alone decides.

# %% [markdown]
# ## The word matrix
#
# Does a mixture heal the cone of lesson 2? Its word matrix receives the pushes of $K$ contexts instead of one.
# Here are the mean cosine of all pairs of words, the share of positive pairs and the isotropy $I_1$, over the
# seeds of the kept runs without dropout:

# %%
shapes = usual[(usual.dropout == 0) & (usual.layer != "MoC")]
shapes.groupby(["layer", "K"])[figures].agg(["mean", "std"]).round(2)

# %% [markdown]
# All these models have a wide cone. Nothing in a mixture forbids the cone: the mixture's contexts, too, can lie
# on one side of the origin, and by lesson 3 a cone needs no more.

# %% [markdown]
# ## What it costs
#
# A mixture multiplies $K$ contexts with the word matrix at every position, and takes $K N$ exponentials. The
# plain formula holds all $K$ tables of logits in memory. Here is what the tables take for steps of 20 columns
# of 70 words, with the vocabularies of the paper, and the paper's times on one V100. A part of the mixture's
# time is due to its smaller batch.

# %%
shapes = {"ptb": (20 * 70, 10_000), "wikitext-2": (20 * 70, 33_278)}
timed = said[said.metric == "seconds-per-epoch"]
timed = timed.set_index(["corpus", "method"]).value
rows = {}
for name, (n, N) in shapes.items():
    rows[name] = {
        "logits of a step, softmax": f"{4 * n * N / 1e6:,.0f} MB",
        "logits of a step, K = 15": f"{4 * n * 15 * N / 1e6:,.0f} MB",
        "seconds an epoch, softmax": f"{timed[name, 'softmax']:.0f}",
        "seconds an epoch, MoS": f"{timed[name, 'mos']:.0f}",
    }
pd.DataFrame(rows)

# %% [markdown]
# The library never holds such a table. Its kernel walks over **blocks** of positions. The kernel makes a
# block's logits of all $K$ components in one piece of memory of a stated size, and overwrites the logits with
# their gradient. The kernel adds this gradient to those of contexts and words, and goes on to the next block.
# The work stays $K$ times that of a softmax; the memory does not.

# %%
# NBVAL_CHECK_OUTPUT
_ = torch.manual_seed(0)
block = MixtureOfSoftmaxes(FullWords(500, 16), components=4).double()
hidden = torch.randn(35, 20, 16).double()
target = torch.randint(500, (35, 20))
loss, _ = block(hidden, target)
loss.backward()
blockwise = block.words.weight.grad.clone()
block.words.weight.grad = None
plain = -block.log_prob(hidden).gather(-1, target[..., None]).mean()
plain.backward()
same = torch.allclose(blockwise, block.words.weight.grad)
print("a block may take, MiB:", block.scratch.limit // 2**20)
print("same loss:", torch.allclose(loss, plain), " same gradient:", same)

# %% [markdown]
# ## What the papers say and what their code does
#
# **The settings are not the same.** Yang et al. compare their mixture with AWD-LSTM (Merity et al. 2018) as
# published, but give the mixture settings of its own. The recipes follow the released codes:

# %%
compared_in_print = ["softmax/nt-asgd", "mos", "softmax/equal-capacity",
                     "mos/equal-capacity"]  # fmt: skip
rows = {}
for name in compared_in_print:
    e = course_lab.recipes[f"ptb/awd-lstm/{name}"]
    units = e.encoder.options["units"]
    rows[name] = {
        "d": e.size,
        "units of the encoder": ", ".join(map(str, units)),
        "batch": e.optimisation.batch,
        "input dropout": e.encoder.options["input_dropout"],
    }
pd.DataFrame(rows).T

# %% [markdown]
# In the second row the encoder of the mixture ends in 620 numbers where $d = 280$. Such a wide $h$ is what the
# free mixture had in Figure 1. In the comparison of equal capacity the encoder's inner layers, the batch and
# the number of parameters are equal, and by Table 5 of Parthiban et al. the difference is gone. But in the last
# row $h$ has as many numbers as $d$. The wide $h$ and the extra parameters went, and the dropouts and the
# trigger changed, so the comparison does not tell what had helped.
#
# **The trigger.** These models end with averaged gradient descent (ASGD), which predicts with the mean of the
# weights over the last epochs. When the averaging starts is a setting, too. Parthiban et al. start it at epoch
# 200 for all models (ET-ASGD), where earlier papers wait until the validation loss stalls (NT-ASGD). Every model
# gains, and a comparison across the two triggers is worth nothing. These are test perplexities:

# %%
trigger = said[(said.table == "S10") & (said.metric == "perplexity")]
trigger = trigger[trigger.split == "test"].set_index("method")
trigger = trigger.loc[["softmax", "mos", "moc"]].reset_index()
trigger.setting = trigger.setting.str.split().str[0]
trigger.pivot_table("value", "method", "setting", sort=False)

# %% [markdown]
# **Logarithms.** The released code of Yang et al. adds $10^{-8}$ to the probabilities before the logarithm, in
# training and in evaluation. The sum over the vocabulary is then $1 + N\cdot10^{-8}$, so this is no
# distribution, and no word can cost more than $-\log 10^{-8} = 18.4$ nats. This is what the floor does to our
# live mixture:

# %%
exact = log_mix[torch.arange(len(y)), y].double()
shifted = (exact.exp() + 1e-8).log()
print(f"perplexity, exact:            {perplexity(exact):.4f}")
print(f"perplexity, with 1e-8 added:  {perplexity(shifted):.4f}")
print(f"the dearest word costs:       {exact.min().neg():.1f} nats")

# %% [markdown]
# Here the floor hardly matters. The floor may matter with a large vocabulary, with a text unlike the training
# text, and beside a softmax that has no such floor.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $\pi$, $r$ | `pi`, `r` | weights and responsibilities of the components |
# | $P_k$ | `log_P.exp()` | distribution of component $k$ over words |
# | $\mathcal H$ | `entropy` | entropy of a distribution |
# | $I$ | `information` | mutual information of component and word |
#
# The other symbols are those of [lesson 9](09_mixtures.ipynb).

# %% [markdown]
# ## Exercises
#
# ### 1. Make them share
# *Difficulty 3/3, importance 2/3, half an hour.* The mixture of a trained model may lean on a few components.
# Write `Sharing`, a class derived from `MixtureOfSoftmaxes`, whose `forward(hidden, target, …)` rewards a large
# entropy of the *mean* weights over a batch. It returns what the inherited `forward` returns, but 0.1 times that
# entropy, in nats, is subtracted from the loss, which is the first number. Why is the entropy of each position's
# weights not the right reward? Train the class, and compare perplexity, entropies and mutual information.
#
# <details><summary>Hint</summary>
#
# Components can share the work evenly although each position uses only one of them.
#
# </details>
# <details><summary>Second hint</summary>
#
# In `def forward(self, hidden, target, *rest, **named)`, `self.contexts(hidden)[1]` is $\log\pi$ at every
# position.
#
# </details>
# <details><summary>How to train it</summary>
#
# Enter the class among the layers, `from course_lab import parts` and
# `parts.KINDS["output_layer"] += (Sharing,)`; then run
# `experiment.change(output_layer=course_lab.part("Sharing", components=4, bias=False))`.
#
# </details>

# %% tags=["exercise"]
Sharing = None  # a class derived from MixtureOfSoftmaxes


# %%
def losses(Sharing):
    """Return what the class's loss is, and whether it is learned."""
    torch.manual_seed(0)
    layer = Sharing(FullWords(50, 8, init=1.0), components=3).double()
    h, y = 5 * torch.randn(6, 5, 8).double(), torch.randint(50, (6, 5))
    loss, nll = layer(h, y)
    plain, same = MixtureOfSoftmaxes.forward(layer, h, y)
    log_pi = layer.contexts(h)[1]
    reward = 0.1 * entropy(log_pi.exp().mean((0, 1)).log())
    each, off = 0.1 * entropy(log_pi).mean(), loss - plain
    learned = torch.autograd.grad(off + reward, layer.prior.weight)[0]
    learned = learned.norm() < 1e-6
    return off, reward, each, learned, torch.equal(nll, same)


# %%
def is_sharing(Sharing):
    off, reward, each, learned, same = losses(Sharing)
    told = {"nothing is taken from the loss": 0 * each,
            "the entropy is added: take it away": reward,
            "the entropy is in bits": -reward / np.log(2),
            "this is the mean of the entropies": -each}  # fmt: skip
    for hint, mistake in told.items():
        if torch.isclose(off, mistake):
            return hint
    if not torch.isclose(off, -reward):
        return "another number is taken from the loss"
    if not learned:
        return "no gradient of the entropy reaches the weights"
    return same or "the second number, the cross-entropy, has changed"


# %%
check("09b.1", Sharing, is_sharing)

# %% [markdown]
# ### 2. Open: is a wider $h$ the secret?
# *Difficulty 3/3, importance 3/3, some hours.* The free mixture of Figure 1 had an $h$ with more than $d$
# numbers, and so had the first mixture of Yang et al.; the mixture of equal capacity had not. Build a language
# model whose encoder hands over $4d$ numbers to a mixture with word vectors of $d$, and a fair rival with one
# softmax. What makes the rival fair? Take three seeds each, and write down before you start which result would
# change your mind.
#
# <details><summary>Hint</summary>
#
# The recurrent encoders end in a width of their own: `course_lab.recipes["ptb/awd-lstm/mos"]` has `size` for $d$
# and the last of `units` for the width of $h$. A mixture with `components=1` is a rival that projects $4d$ numbers
# to $d$. `course_lab.cost` counts parameters and products.
#
# </details>

# %% [markdown]
# ## What we saw
#
# The ledger of [notebook 30](30_leaderboard.ipynb) reads the best evidence from the kept results:

# %%
evidence_of = ["components", "dropout", "dropout-rank", "trigger"]
names = [f"parthiban2021-{name}" for name in evidence_of]
display(Markdown(claims.conclusions(*names)))

# %% [markdown]
# The small runs of this notebook show the following. Where they contradict the list, the list counts.

# %%
by = fitted.set_index("d", append=True)
wide, free = by.loc["plain softmax", 24], by.loc["MoS, free", 12]
first, last = compared.perplexity.iloc[[0, -1]]
display(
    Markdown(
        f"On a language that is a mixture, {free.numbers:,.0f} numbers in "
        f"a free mixture leave {free.excess:.3f} nats of excess, "
        f"{wide.numbers:,.0f} in a wider softmax {wide.excess:.3f}, and a "
        f"start near the truth {from_truth:.3f}. In a trained mixture "
        f"component and word share {information.mean():.2f} nats. From "
        f"one component to eight, the mean perplexity goes from "
        f"{first:.1f} to {last:.1f}, which three seeds do not tell apart."
    )
)

# %% [markdown]
# ## References
#
# - Z. Yang, Z. Dai, R. Salakhutdinov, W. W. Cohen (2018). *Breaking the Softmax Bottleneck: A
#   High-Rank RNN Language Model.* ICLR. [arXiv:1711.03953](https://arxiv.org/abs/1711.03953)
# - D. G. Parthiban, Y. Mao, D. Inkpen (2021). *On the Softmax Bottleneck of Recurrent Language
#   Models.* AAAI 35(15). [doi:10.1609/aaai.v35i15.17608](https://doi.org/10.1609/aaai.v35i15.17608)
# - S. Merity, N. S. Keskar, R. Socher (2018). *Regularizing and Optimizing LSTM Language Models.*
#   ICLR. [arXiv:1708.02182](https://arxiv.org/abs/1708.02182)

# %% [markdown] tags=["way"]
# ↑ Back: [9. Mixtures: several softmaxes instead of one](09_mixtures.ipynb)
#
# → Next: [10. Monotone softmaxes: full rank for nothing](10_monotone_softmaxes.ipynb)
