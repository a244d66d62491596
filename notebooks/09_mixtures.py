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
# # 9. Mixtures: several softmaxes instead of one
#
# **Question.** A mixture of softmaxes escapes the softmax bottleneck. If it predicts better, is the rank the reason?
#
# ![A language model from left to right: matrix E reads words, encoder, context h, matrix W predicts words, softmax. An arc ties E and W. In colour: h and softmax. Several contexts give several softmaxes, which are mixed.](images/09_model.svg)
#
# **Figure 1.** A softmax has one context. A mixture makes several contexts of $h$ and mixes their softmaxes.

# %% [markdown]
# ## What you will learn
#
# - to see in a triangle what one softmax cannot say and a mixture of two can;
# - to derive why a mixture escapes the bound of lesson 4, and how its gradient divides the words among the
#   components;
# - to separate three reasons why a mixture may predict better: rank, parameters and work.
#
# **Deeper.** [Lesson 9b](09b_inside_a_mixture.ipynb) fits a language that is a mixture, looks into a trained
# mixture, and varies its components and its dropout.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 4](04_softmax_bottleneck.ipynb) explains the bound on the rank of log P, Press'
# rank and the effective rank. [Lesson 1](01_output_layer.ipynb) derives the gradient of a softmax.
#
# **Reading.** 28 minutes. **Difficulty.** 2 of 3.
#
# | profile | minutes | runs on | what is trained before your eyes |
# |---|---|---|---|
# | smoke | 0.3 | any CPU | the same models for one epoch |
# | quick | 1 | two CPU cores | two small Transformers on 20,000 tokens |
# | standard | 15 | two CPU cores | two Transformers on 600,000 tokens, 10,000 words |
# | full | 20 | one GPU | the same on the whole corpus, five times |
#
# On Google Colab, run this in a first cell and restart the session:
#
# `!git clone -q https://github.com/output-embedding-course/output-embedding-course && pip install -q -c output-embedding-course/constraints.txt -e "./output-embedding-course[lab]"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
SEED = 1  # of the models and of every random draw below

# %%
import inspect  # noqa: I001
import tempfile

import pandas as pd
import torch
from IPython.display import Code, Markdown, display

# %%
import course_lab
from course_lab import claims, plans, plots, published, tables, untested
from course_lab.cost import encoder_macs, output_macs
from course_lab.progress import check
from course_lib.evaluation.log_prob import log_prob_blocks
from course_lib.metrics import rank
from course_lib.output_layers import (
    FullWords,
    MixtureOfContexts,
    MixtureOfSoftmaxes,
    Softmax,
)

# %% [markdown]
# ## Predict
#
# 1. A softmax without bias, whose contexts are **one** number each, has a log P of rank 2 at most. You mix two
#    of them, $P = \pi_1 P_1 + \pi_2 P_2$. What can the rank of $\log P$ be now?
# 2. A *mixture of contexts* has the same parameters, but it averages the contexts before a single softmax.
#    Will it predict worse than the mixture of softmaxes?
# 3. You may spend the work of a mixture on a softmax with wider word vectors. Which predicts better?

# %% [markdown]
# ## The idea in one picture
#
# Take three words: *cold*, *warm* and *hot*. A context is one number $h$, a temperature. The word vectors are
# $-1$, $0$ and $1$, and *warm*, the most common word, has a small bias. Every distribution over three words
# is a point in a triangle. As $h$ rises, the softmax draws a **curve** from *cold* past *warm* to *hot*.
#
# Now suppose a tap that gives cold or hot water, never warm. No $h$ says that: wherever *cold* and *hot*
# are equally likely, *warm* is likelier than both. A mixture of two softmaxes lies on the **chord** between two
# points of the curve. The mean of the two contexts stays on the curve and lands on *warm*.

# %%
vectors, bias = torch.tensor([-1.0, 0, 1]), torch.tensor([0, 0.5, 0])


def one_softmax(h):
    """Return probabilities (n, 3) of cold, warm and hot for h (n,)."""
    return (h[:, None] * vectors + bias).softmax(-1)


curve = one_softmax(torch.linspace(-7, 7, 200))
cold, hot = ends = one_softmax(torch.tensor([-3.0, 3.0]))
share = torch.linspace(0, 1, 60)[:, None]  # π₁
chord = share * cold + (1 - share) * hot
means = torch.stack([ends.mean(0), one_softmax(torch.zeros(1))[0]])

# %% tags=["hide-input"]
words = ["cold", "warm", "hot"]
plots.show(
    plots.softmax_and_mixture(words, curve, chord, ends, means),
    alt="Left: a triangle with corners cold, warm and hot. The softmax "
    "draws a curve from cold past warm to hot; the mixture is the "
    "straight chord between two of its points, where warm has "
    f"{means[0, 1]:.2f}; the mean of the contexts lies on the curve, "
    f"where warm has {means[1, 1]:.2f}. Right: in log-ratios the softmax "
    "is a straight line and the mixture an arc away from it.",
)

# %% [markdown]
# **Figure 2.** The log-ratios of a softmax, $\log p_i/p_j = (w_i - w_j)^\top h + b_i - b_j$, are linear in $h$,
# so in log-ratios the softmax draws a **straight line**: the bound of lesson 4 allows no more with $d =
# 1$. The chord becomes an **arc** that leaves the line. Chang and McCallum (2022) find the same in
# GPT-2: where other words lie between the likely words, no single context serves all of them.

# %% [markdown]
# ## The mixture
#
# Write $h$ for what the encoder hands over and $K$ for the number of **components**. Yang et al. (2018) make
# $K$ contexts and $K$ weights from $h$, with parameters $U_k$, $c_k$ and $Q$. All components share one word
# matrix $W$:
#
# $$h_k = \tanh(U_k h + c_k), \qquad \pi = \mathrm{softmax}(Q h), \qquad
# P(y\mid h) = \sum_{k=1}^K \pi_k\,\frac{e^{w_y^\top h_k}}{Z_k},\quad Z_k=\sum_j e^{w_j^\top h_k}.$$
#
# This is the **mixture of softmaxes**, MoS. We compare it with the **mixture of contexts**, MoC:
#
# $$P(y\mid h) \propto \exp\Big(w_y^\top \sum_k \pi_k h_k\Big).$$
#
# MoC has the same parameters, and it is one softmax, so the bound of lesson 4 holds. MoS takes four lines, in
# logarithms, where no probability underflows.

# %%
def mixture(h, U, c, Q, W):
    """Return log P (n, N) for h (n, m), U (K, d, m), c (K, d), Q, W."""
    h_k = torch.tanh(torch.einsum("kdm,nm->nkd", U, h) + c)
    log_pi = (h @ Q.T).log_softmax(-1)
    log_P_k = (h_k @ W.T).log_softmax(-1)  # (n, K, N)
    return torch.logsumexp(log_pi[..., None] + log_P_k, 1)


# %%
_ = torch.manual_seed(SEED)
W = FullWords(50, 1, init=1.0, normal=True)
options = dict(bias=False, components=2)
layers = {
    "softmax": Softmax(W, bias=False).double(),
    "MoC": MixtureOfContexts(W, **options).double(),
    "MoS": MixtureOfSoftmaxes(W, **options).double(),
}
contexts = 2 * torch.randn(200, 1).double()
log_P = {name: layer.log_prob(contexts) for name, layer in layers.items()}

# %%
# NBVAL_CHECK_OUTPUT
mos = layers["MoS"]
U = mos.latent.weight.unflatten(0, (2, 1))
c = mos.latent.bias.unflatten(0, (2, 1))
ours = mixture(contexts, U, c, mos.prior.weight, W.matrix())
print("the library says the same:", torch.allclose(ours, log_P["MoS"]))

# %% [markdown]
# Here is what the library's classes add to their base. In training the classes may drop entries of the $h_k$,
# the *latent dropout* of the paper.

# %% tags=["hide-input"]
for function in (MixtureOfSoftmaxes.contexts, MixtureOfContexts.contexts):
    source = inspect.getsource(function)
    display(Code(inspect.cleandoc("\n" + source), language="python"))

# %% [markdown]
# ## Why the bound is gone
#
# Take $K = 2$ and factor the first component out of the sum: $\pi_1 P_1 + \pi_2 P_2 = \pi_1 P_1\,(1 + \pi_2 P_2
# / \pi_1 P_1)$. Write $l_{k} = W h_k$ for the logits and $\rho = \log\frac{\pi_2 Z_1}{\pi_1 Z_2}$, a number for
# each context. Then
#
# $$\log P_y = \underbrace{l_{1y} + \log\pi_1 - \log Z_1}_{\text{one softmax: rank} \le d+1}
#   + \underbrace{\log\big(1 + e^{\,l_{2y}-l_{1y}+\rho}\big)}_{\text{a matrix of rank} \le d + 1\text{, bent}}.$$
#
# The second matrix is bent **entry by entry** by $\mathrm{softplus}(x) = \log(1 + e^x)$, and bending entries
# respects no rank. With $d = 1$, 200 contexts and 50 words:

# %%
# NBVAL_CHECK_OUTPUT
h_k, log_pi = mos.contexts(contexts)
l1, l2 = (h_k @ W.matrix().T).unbind(1)
log_Z = torch.stack([l1, l2]).logsumexp(-1)
rho = log_pi[:, 1] - log_pi[:, 0] + log_Z[0] - log_Z[1]
first = l1 + (log_pi[:, 0] - log_Z[0])[:, None]
bent = torch.nn.functional.softplus(l2 - l1 + rho[:, None])
print("their sum is log P:", torch.allclose(first + bent, log_P["MoS"]))
for name, p in log_P.items():
    low = torch.linalg.matrix_rank(p) <= 2
    print(f"{name:7}  rank at most d + 1 = 2: {low.item()}")

# %%
print("MoS, rank:", int(torch.linalg.matrix_rank(log_P["MoS"])))
values = torch.linalg.svdvals(log_P["MoS"])[:8]
print("MoS, σ/σ₁:", ", ".join(f"{s:.0e}" for s in values / values[0]))

# %% [markdown]
# This answers the first prediction. The rank rises from 2 to as many directions as double precision can tell
# apart. But each singular value is at least about ten times smaller than the one before. A high rank is cheap,
# and does not say how *much* of log P lies beyond the first $d + 1$ directions.

# %% [markdown]
# ## Who learns from a word?
#
# Let $y$ be the word that came and $P_k$ the distribution of component $k$. The share of $P(y)$ that
# component $k$ gave is its **responsibility**,
#
# $$r_k = \frac{\pi_k P_k(y)}{\sum_m \pi_m P_m(y)}, \qquad \sum_k r_k = 1.$$
#
# The loss is $-\log\sum_k \exp(\log\pi_k + \log P_k(y))$. A logsumexp passes its gradient on in the proportions
# of the terms of its sum, which are the $r_k$. So component $k$ receives $r_k$ times the gradient of a
# softmax of its own, and a step against the gradient of the scores $Qh$ moves $\pi$ towards $r$:
#
# $$\frac{\partial(-\log P(y))}{\partial l_k} = r_k\,(P_k - e_y), \qquad
#   \frac{\partial(-\log P(y))}{\partial (Qh)} = \pi - r,$$
#
# where $e_y$ is the vector with a one at $y$.
#
# The component that gave most of $P(y)$ learns most from $y$. A component with $P_k(y) > P(y)$ has $r_k >
# \pi_k$, so it gets more weight next time. Autograd agrees:

# %%
# NBVAL_CHECK_OUTPUT
scores = torch.randn(6, 3).double().requires_grad_()  # Qh: 6 positions
l = torch.randn(6, 3, 20).double().requires_grad_()  # noqa: E741
y, at = torch.arange(6), torch.arange(6)
P_k = l.softmax(-1)
joint = scores.log_softmax(-1) + P_k[at, :, y].log()
joint.logsumexp(-1).neg().sum().backward()
r, pi = joint.softmax(-1), scores.softmax(-1)
e_y = torch.nn.functional.one_hot(y, 20)[:, None]
print("logits:", torch.allclose(l.grad, r[..., None] * (P_k - e_y)))
print("scores:", torch.allclose(scores.grad, pi - r))

# %% [markdown]
# ## With and without, live
#
# A small Transformer learns the docstrings twice, with one softmax and with a mixture of four. All else is as in
# the kept runs of the plan `data/plans/lessons-09.toml`.

# %%
plan = plans.read_plan("lessons-09")
LEVEL = {"standard": "quick", "full": "standard"}  # sizes of the recipes


def settings(recipe):
    """Return the plan's first run of a recipe, or a longer profile."""
    name = f"docstrings/transformer-128/{recipe}"
    if level := LEVEL.get(PROFILE):
        return course_lab.profile(course_lab.recipes[name], level, SEED)
    first = next(p for p in plan.runs if p.recipe == name).experiment()
    epochs = 1 if PROFILE == "smoke" else first.optimisation.epochs
    return first.change(seed=SEED, optimisation={"epochs": epochs})


# %%
live, spectra = {}, {}
for name, recipe in {"softmax": "tied", "MoS": "mos"}.items():
    with tempfile.TemporaryDirectory() as folder:
        options = dict(folder=folder, progress=False)
        run = live[name] = course_lab.run(settings(recipe), **options)
    corpus, d = run.corpus, run.experiment.size
    of = dict(contexts=4_000, progress=False)
    blocks = log_prob_blocks(run.model, corpus.test, corpus.eos, **of)
    spectra[name] = rank.spectrum(blocks)

# %% tags=["hide-input"]
curves = {name: s.singular_values for name, s in spectra.items()}
plots.show(
    plots.layer_spectra(curves, d + 1),
    alt="Singular values of log P divided by the largest, both axes "
    f"logarithmic. Both curves begin alike; at d + 1 = {d + 1} that of "
    "the softmax drops to the level of rounding, that of the mixture "
    "goes on falling smoothly to the end.",
)

# %%
rows = {}
for name, s in spectra.items():
    reached = live[name].metrics["test_perplexity"]
    rows[name] = {"test perplexity": f"{reached:.1f}"}
    rows[name]["Press' rank"] = s.press_rank()
    for e in (1e-3, 1e-4, 1e-5):
        rows[name][f"effective, ε = {e:g}"] = s.effective_rank(e)
tables.with_ngrams(pd.DataFrame(rows).T, corpus).T

# %%
# NBVAL_CHECK_OUTPUT
bound = spectra["softmax"].press_rank()
print("softmax: Press' rank at most d + 1:", bound <= d + 1)

# %% [markdown]
# **Figure 3.** The bottleneck is broken: the curve of the mixture passes $d + 1$ smoothly. But what lies beyond
# is small. The effective ranks of the two layers are much nearer to each other than their Press' ranks.

# %% [markdown]
# ## Is it the rank? Two controls
#
# The numbers below come from the kept runs, three seeds a setting. Runs of one seed are pairs: they share the
# order of their batches. The mean difference of their log perplexities is given in hundredths, which are nearly
# per cent, with its 95 % interval, and $p$ is the chance of a difference at least as large if there were none.
# $p$ is corrected for all the plan's models. Lesson 6 explains the verdicts.

# %%
text = plan.runs[0].experiment().load_corpus()
NAMES = {"MixtureOfSoftmaxes": "MoS", "MixtureOfContexts": "MoC"}


def line(planned, content):
    """Return settings and results of a kept run."""
    e, m = planned.experiment(), content["metrics"]
    layer, built = e.output_layer, e.build(len(text))
    products = encoder_macs(built, e) + output_macs(built, e)
    return {
        "layer": NAMES.get(layer.kind, "softmax"), "d": e.size,
        "K": layer.options.get("components", 1), "seed": planned.seed,
        "rate": e.optimisation.learning_rate, "products": products,
        "dropout": layer.options.get("dropout", e.output_dropout),
        "rank": m["log_prob"]["press_rank"], "test": m["test_perplexity"],
    } | {k: m[k] for k in ("valid_perplexity", "parameters")}  # fmt: skip


# %%
table = pd.DataFrame(map(line, plan.runs, untested.read(plan.runs)))
table["model"] = tables.models_of(plan)
usual = table[(table.rate == 0.004) & (table.dropout == 0)]
usual = usual[(usual.layer != "softmax") & usual.K.isin([1, 4])]

# %% [markdown]
# ### Control 1: the same parameters, a low rank
#
# The mixture of contexts has every parameter of the mixture of softmaxes, and a rank of $d + 1$ at most. If
# rank were the reason, MoS should beat MoC, and it should do so most where the bottleneck is tightest. A
# second model of low rank is the mixture with $K = 1$: one softmax with the layer $\tanh(U_1 h + c_1)$ before
# it.

# %%
groups, names, pairs = {}, {}, {}
for (size, K, layer), runs in usual.groupby(["d", "K", "layer"]):
    label = f"{layer}\nK = {K}\nrank {runs['rank'].mean():.0f}"
    models = groups.setdefault(f"d = {size}", {})
    models[label] = dict(zip(runs.seed, runs.test))
    names[f"d = {size}", label] = runs.model.iloc[0]
for size, models in groups.items():
    *others, best = models  # MoS with K = 4 is the last
    for other in others:
        name = f"{size}: MoS, K = 4 − " + ", ".join(other.splitlines()[:2])
        pairs[name] = names[size, best], names[size, other]
tested = untested.compared(plan, pairs)
tested.loc[:, "difference":"verdict"].round(2)

# %% tags=["hide-input"]
lines = [f"{n}: {untested.difference(t)}" for n, t in tested.iterrows()]
plots.show(
    plots.joined_by_seed(groups, "test perplexity"),
    alt="Test perplexity of the mixtures of contexts and of softmaxes at "
    "two widths, and of the mixture of one component at the larger, a "
    f"line for each seed. Mean differences: {'; '.join(lines)}.",
)

# %% [markdown]
# **Figure 4.** Each line joins the runs of a seed. Below a model's name is its mean Press' rank.
#
# This answers the second prediction. At $d = 64$ in the figure, MoC predicts a little worse than MoS in every
# pair. But the table, which compares MoS of $K = 4$ with the others, shows no gain by rank alone: MoS of $K = 1$
# has the low rank, too, and is as good. At $d = 16$ the seeds lie far apart, and MoS has hardly passed $d + 1$,
# so they tell nothing of a tight bottleneck.

# %% [markdown]
# ### Control 2: the same parameters or the same work, in one softmax
#
# A mixture multiplies $K$ contexts with the word matrix. We give a softmax wider word vectors, once with about
# as many parameters as the mixture, once with about as many multiplications. For each layer we take the setting
# that is best on the validation text.

# %%
def at_best(layer, d, K):
    """Return the three runs of a layer that are best on validation."""
    runs = table[(table.layer == layer) & (table.d == d) & (table.K == K)]
    tried = runs.groupby(["rate", "dropout"])
    whole = [r for _, r in tried if len(r) == 3]
    return min(whole, key=lambda r: r.valid_perplexity.mean())


rivals = {f"softmax, d = {d}": ("softmax", d, 1) for d in (64, 72, 128)}
rivals |= {f"{n}, d = 64, K = 4": (n, 64, 4) for n in ("MoC", "MoS")}
rivals = {name: at_best(*setting) for name, setting in rivals.items()}
names = {r.model.iloc[0]: name for name, r in rivals.items()}
*_, four = names
compared = untested.table_of(plan, four).models
compared = compared.loc[[*names]].rename(names)

# %%
for name in ("parameters", "products"):
    compared[name] = [f"{r[name].iloc[0]:,.0f}" for r in rivals.values()]
shown = compared[["parameters", "products", "perplexity", "p", "verdict"]]
tables.with_ngrams(shown.round(2), text, "perplexity", digits=2)

# %% tags=["hide-input"]
gaps = compared.difference.dropna()
title = "rivals against the mixture of four"
told = "; ".join(f"{name} {gap:+.1f} %" for name, gap in gaps.items())
plots.show(
    untested.drawn(compared, 2.0, title),
    alt="Differences of test perplexity from the mixture of four, in per "
    f"cent, with intervals over pairs of seeds: {told}.",
)

# %% [markdown]
# **Figure 5.** In the table, *products* are the multiplications for one predicted word, forwards.
#
# This answers the third prediction: in the figure no wider softmax is ahead of the mixture. But three seeds
# separate the mixture from no rival, not even from the softmax with $d = 64$, which has less than half the
# products. The care was not the same: we tried dropout of the contexts only for MoS and for this softmax. The
# mixture here has dropout, unlike that of Figure 4.

# %% [markdown]
# ### The same controls in print
#
# Parthiban et al. (2021) trained the layers on whole corpora, with an LSTM. Here are their test perplexities:

# %%
said = published.rows().query(
    "paper == 'parthiban2021' & metric == 'perplexity' & split == 'test'"
)
single = said.setting.isin(["NT-ASGD authors' seed", "NT-ASGD K=1"])
kinds = {
    "own settings, 11 seeds": said.table == "2",
    "control 1, one seed": single,
    "equal parameters, tuned": said.table == "5",
}
rows = pd.concat([said[k].assign(setting=n) for n, k in kinds.items()])
rows.loc[said.setting == "NT-ASGD K=1", "method"] = "mos, K = 1"
rows = rows[rows.method.isin(["softmax", "mos, K = 1", "moc", "mos"])]
shape = dict(index=["setting", "corpus"], columns="method", sort=False)
rows.pivot_table("value", **shape).astype(object).fillna("")

# %% [markdown]
# - **Own settings.** MoS is well ahead of the softmax, but the $h$ of MoS is wider.
# - **Control 1.** Here MoS and MoC have fifteen components. On the Penn Treebank, MoS with $K = 1$ is far worse
#   than MoS, but it is far worse than the softmax, too. So this row is no clean control. On WikiText-2, MoC is
#   behind the softmax and MoS is ahead, which speaks for mixing softmaxes.
# - **Equal parameters.** With equal inner layers and parameters, and with a search of the dropout for both
#   layers, the difference is gone. In this row $h$ has only $d$ numbers. [Lesson
#   9b](09b_inside_a_mixture.ipynb) shows why a mixture may need more.

# %% [markdown]
# ## When not to use it
#
# - **The vocabulary is large.** Then the output layer is most of the work, and a mixture multiplies that work
#   by $K$.
# - **$d$ can be raised instead.** A wider softmax of equal work is the first rival to try.
# - **You want the word vectors.** By the paper's count in [notebook 32](32_word_similarity.ipynb), those of MoC
#   win more benchmarks than those of MoS.
#
# A mixture may be worth a try where $d$ is small and fixed, and $h$ is wider. Mixtape (Yang et al.
# 2019) mixes logits, with a gate for each word, and so needs one softmax only.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $K$ | `components` | number of components |
# | $h$ | `h`, `contexts` | what the encoder hands over |
# | $h_k$, $U_k$, $c_k$ | `h_k`, `U`, `c` | context of component $k$; parameters that make it from $h$ |
# | $\pi$, $Q$ | `log_pi.exp()`, `Q` | weights; parameters that make them from $h$ |
# | $P_k$ | `P_k` | distribution of component $k$ over words |
# | $Z_k$ | `log_Z.exp()` | normaliser of component $k$ |
# | $r$ | `r` | responsibilities for the word that came |
# | $\rho$ | `rho` | $\log(\pi_2 Z_1 / \pi_1 Z_2)$ |

# %% [markdown]
# ## Exercises
#
# Replace `None` by your answer, and run the next cell.
#
# ### 1. The control in your own lines
# *Difficulty 1/3, importance 3/3, ten minutes.* Assign `of_contexts`, a function with the arguments of
# `mixture`, which returns the log-probabilities (n, N) of the mixture of contexts.
#
# <details><summary>Hint</summary>
#
# MoC takes the mean of the contexts $h_k$, weighted by $\pi$, and then one softmax. In which line of `mixture`
# do the components come together now?
#
# </details>

# %% tags=["exercise"]
of_contexts = None  # (h, U, c, Q, W) → log P (n, N)


# %%
def is_of_contexts(of_contexts):
    sizes = (5, 4), (3, 2, 4), (3, 2), (3, 4), (9, 2)
    given = h, U, c, Q, W = [2 * torch.randn(s).double() for s in sizes]
    latent = torch.einsum("kdm,nm->nkd", U, h) + c
    pi = (h @ Q.T).softmax(-1)[..., None]
    answer, right = of_contexts(*given), (pi * latent.tanh()).sum(1)
    means = {"": right, "weight h_k by π_k": latent.tanh().mean(1)}
    means["tanh comes before the mean"] = (pi * latent).sum(1).tanh()
    told = {"this is the mixture of softmaxes": mixture(*given)}
    told["these are probabilities"] = (right @ W.T).softmax(-1)
    told |= {n: (m @ W.T).log_softmax(-1) for n, m in means.items()}
    for hint, table in told.items():
        if torch.allclose(answer, table):
            return hint or True
    return "no softmax of W times a mean of the h_k, weighted by π"


# %%
check("09.1", of_contexts, is_of_contexts)

# %% [markdown]
# ### 2. How high can the rank go?
# *Difficulty 2/3, importance 3/3, fifteen minutes.* The `contexts` of the check of the ranks are random numbers
# with a scale of 2. Take a scale of 20, then of 0.1. What happens to the rank of the mixture, and why? Assign
# `rank_at`: a function of the scale that returns the rank of log P of the layer `mos`, in `float64`. The numbers
# without a scale are `contexts / 2`. What would exact arithmetic say?
#
# <details><summary>Hint</summary>
#
# What does $\tanh$ do to large numbers? For a small scale $a$, log P is a power series in $a$: what is the rank
# of each term, and how large is it?
#
# </details>

# %% tags=["exercise"]
rank_at = None  # scale → rank of log P of `mos`


# %%
def ranks_agree(rank_at):
    tables = [mos.log_prob(a * contexts / 2) for a in (0.1, 2, 20)]
    twice = [mos.log_prob(a * contexts) for a in (0.1, 2, 20)]
    told = {
        "": tables,
        "this is the rank of P, not of log P": [t.exp() for t in tables],
        "without a scale the numbers are contexts / 2": twice,
        "in float64, please": [t.float() for t in tables],
    }
    given = [int(rank_at(scale)) for scale in (0.1, 2, 20)]
    for hint, tables in told.items():
        if given == [int(torch.linalg.matrix_rank(t)) for t in tables]:
            return hint or True
    return "one softmax has rank 2 at most, the layer `mos` more"


check("09.2", rank_at, ranks_agree)

# %% [markdown]
# ## What we saw
#
# The ledger of [notebook 30](30_leaderboard.ipynb) reads the best evidence from the kept results. A percentage
# compares a method with its baseline:

# %%
evidence_of = ["mos", "equal-capacity", "mos-rank"]
names = [f"parthiban2021-{name}" for name in evidence_of]
display(Markdown(claims.conclusions(*names)))

# %% [markdown]
# The small runs of this lesson show:

# %%
low, high = (f(compared.perplexity) for f in (min, max))
display(
    Markdown(
        f"Four components lift the rank of log P from {bound} to "
        f"{spectra['MoS'].press_rank()}. The perplexity of MoS with K = 4 "
        f"differs as follows: {'; '.join(lines)}. The mixture of four and "
        f"its rivals in Figure 5 have perplexities from {low:.1f} to "
        f"{high:.1f}; {(gaps < 0).sum()} rivals have a lower mean."
    ),
    Markdown(claims.beside("parthiban2021-mos", -gaps["softmax, d = 64"])),
)

# %% [markdown]
# ## References
#
# - Z. Yang, Z. Dai, R. Salakhutdinov, W. W. Cohen (2018). *Breaking the Softmax Bottleneck: A
#   High-Rank RNN Language Model.* ICLR. [arXiv:1711.03953](https://arxiv.org/abs/1711.03953)
# - D. G. Parthiban, Y. Mao, D. Inkpen (2021). *On the Softmax Bottleneck of Recurrent Language
#   Models.* AAAI 35(15). [doi:10.1609/aaai.v35i15.17608](https://doi.org/10.1609/aaai.v35i15.17608)
# - H.-S. Chang, A. McCallum (2022). *Softmax Bottleneck Makes Language Models Unable to Represent
#   Multi-mode Word Distributions.* ACL.
#   [doi:10.18653/v1/2022.acl-long.554](https://doi.org/10.18653/v1/2022.acl-long.554)
# - Z. Yang, M.-T. Luong, R. Salakhutdinov, Q. V. Le (2019). *Mixtape: Breaking the Softmax
#   Bottleneck Efficiently.* NeurIPS.

# %% [markdown] tags=["way"]
# ← Previous: [8. Spectrum control: choose how the singular values fall](08_spectrum_control.ipynb)
#
# ↓ Deeper: [9b. Going deeper: inside a mixture](09b_inside_a_mixture.ipynb)
#
# → Next: [10. Monotone softmaxes: full rank for nothing](10_monotone_softmaxes.ipynb)
