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
# # 4. The softmax bottleneck: how many directions can log P have?
#
# **Question.** A context is a vector of d numbers; how much of a language's true probabilities can a softmax over it express, and does it matter?
#
# ![A language model from left to right: matrix E reads words, encoder, context h, matrix W predicts words, softmax. In colour: h and W and softmax. log P has rank d + 2 at most.](images/04_model.svg)
#
# **Figure 1.** The context $h$ has $d$ numbers. Every log-probability of the model comes out of them.

# %% [markdown]
# ## What you will learn
#
# - to derive the bound on the rank of log P and verify it on a trained model;
# - to measure what a softmax with too few dimensions loses on a language whose true probabilities are
#   known;
# - to compute two ranks of a matrix that is too large to store, and to see how fragile one of them is;
# - to read the hidden size of a model off its outputs.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** You have read [lesson 1](01_output_layer.ipynb), and you know singular values from
# [lesson 2](02_degeneration.ipynb).
#
# **Reading.** 28 minutes. **Difficulty.** 2 of 3.
#
# | profile | minutes | runs on | what changes |
# |---|---|---|---|
# | smoke | 0.5 | any CPU | fewer seeds, a model of seconds |
# | quick | 3 | two CPU cores | two seeds, a Transformer on 200,000 tokens |
# | standard | 15 | two CPU cores | the Transformer, five passes over the whole corpus |
# | full | 5 | one GPU | the same, twenty passes |
#
# On Google Colab, run this in a first cell and restart the session:
#
# `!git clone -q https://github.com/output-embedding-course/output-embedding-course && pip install -q -c output-embedding-course/constraints.txt -e "./output-embedding-course[lab]"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
SEED = 1  # of the languages and of the model

# %%
import tempfile

import numpy as np
import pandas as pd
import torch
from IPython.display import Markdown, display

# %%
import course_lab
from course_lab import corpora, plots
from course_lab.fragility import fragility
from course_lab.progress import check
from course_lib import output_layers, theory
from course_lib.evaluation.log_prob import log_prob_blocks
from course_lib.metrics import rank
from course_lib.output_layers import FullWords, MixtureOfSoftmaxes, Softmax

# %% [markdown]
# ## Predict
#
# A language has 200 words and 80 different contexts. Its true log-probabilities, a table of 80 rows
# and 200 columns, have rank 14. You fit a softmax over contexts of $d$ dimensions, with all the
# data in the world.
#
# 1. From which $d$ on can the fit be perfect?
# 2. Below that $d$, does the loss rise in one jump or in many steps?
# 3. Another language has rank 80. A mixture of four softmaxes is a weighted mean of them, and its log P can
#    have any rank. Does it fit this language much better than one softmax of the same $d$?

# %% [markdown]
# ## The bound
#
# Write the contexts as the rows of $H$ ($M \times d$), the words as those of $W$ ($N \times d$). Then
#
# $$\log P = H W^\top + \mathbf 1 b^\top - z \mathbf 1^\top.$$
#
# Here the bias $b$ has a number for each word, the logits $l$ are the first two terms, and $z_i =
# \log\sum_j e^{l_{ij}}$ is the logarithm of the normaliser of row $i$. A product of $M\times d$ and
# $d\times N$ has rank at most $d$. A column times a row has rank 1. The rank of a sum is at most the sum
# of the ranks. So
#
# $$\operatorname{rank}(\log P) \le d + 2,$$
#
# however many contexts there are and however large the vocabulary is. Yang et al. (2018) called this
# bound the **softmax bottleneck**: if the truth has a higher rank, no training can reach it.

# %%
# NBVAL_CHECK_OUTPUT
random = np.random.default_rng(SEED)
H, W = random.normal(size=(300, 7)), random.normal(size=(500, 7))
logits = H @ W.T + random.normal(size=500)
log_p = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
print("rank of log P:", np.linalg.matrix_rank(log_p))
print("bound, d + 2: ", theory.rank_bound(7))

# %% [markdown]
# ## Two languages whose truth is known
#
# The corpus `zipf` draws text from probabilities that we choose. The last word decides which of 80
# contexts we are in, and each context has its own distribution over 200 words.
#
# - In the first language the truth is a softmax over 12 dimensions, with rank $12 + 2 = 14$.
# - In the second language the truth is a **mixture of softmaxes**, $P = \sum_{k=1}^4 \pi_k
#   \operatorname{softmax}(W h_k + b)$, with four vectors $h_k$ and weights $\pi_k$ in each context. The
#   logarithm of a sum is no sum of logarithms, so a mixture escapes the bound, and this one's log P has full rank.
#
# In the table the *rank* counts the singular values above rounding, by PyTorch's rule; Press' rule follows
# below. The *effective* rank counts the singular values whose squares make up all but a share ε of their sum.
# The entropy is in *nats*, the unit of natural logarithms.

# %%
options = dict(N=200, d=12, states=80, tokens=1000, seed=SEED)
languages = {
    "one softmax": corpora.load("zipf", **options).truth,
    "mixture of four": corpora.load("zipf", components=4, **options).truth,
}
rows = {
    name: [
        str(truth.rank),
        str(rank.effective_rank(torch.linalg.svdvals(truth.matrix), 1e-3)),
        f"{truth.entropy:.3f}",
    ]
    for name, truth in languages.items()
}
columns = ["rank", "effective rank, ε = 1e-3", "entropy, nats"]
pd.DataFrame(rows, index=columns).T

# %% [markdown]
# With the truth at hand, no text is needed: we minimise the *expected* cross-entropy over all contexts. Its
# lowest possible value is the entropy of the language. What a model pays above the entropy is its **excess**.
# The optimiser is L-BFGS, which uses curvature.
#
# Three output layers compete: a softmax; a mixture of four softmaxes; and **GSS** ([lesson
# 10](10_monotone_softmaxes.ipynb)), a softmax whose logits are first bent by a fixed increasing curve. The
# contexts are parameters, too. The mixture's have more numbers than $d$, as in the LSTMs of Yang et al., so that
# each of its four components has a context of its own.


# %%
def fit(truth, layer, steps=250):
    """Return what a layer pays above the entropy, and its log P."""
    P, share, layer = truth.matrix.exp(), truth.stationary, layer.double()
    H = torch.randn(len(P), layer.hidden_size).double().requires_grad_()
    settings = {"max_iter": steps, "line_search_fn": "strong_wolfe"}
    optimizer = torch.optim.LBFGS([H, *layer.parameters()], **settings)

    def loss():
        optimizer.zero_grad()
        loss = -(share @ (P * layer.log_prob(H)).sum(1))
        loss.backward()
        return loss

    optimizer.step(loss)
    paid = loss().item() - truth.entropy
    return paid, layer.log_prob(H).detach()


# %%
def mixture(words):
    """Return four softmaxes; their contexts have 4 d + 4 numbers."""
    wide = 4 * words.shape[1] + 4
    return MixtureOfSoftmaxes(words, hidden_size=wide, components=4)


layers = {"softmax": Softmax, "GSS": output_layers.GeneralizedSigSoftmax}
layers["mixture of 4"] = mixture
sizes = [4, 8, 12] if PROFILE == "smoke" else list(range(2, 15))
seeds = range(1 if PROFILE == "smoke" else 2)

# %%
fits, fitted = [], {}
for language, truth in languages.items():
    for name, make in layers.items():
        for d in sizes:
            for seed in seeds:
                torch.manual_seed(seed)
                paid, found = fit(truth, make(FullWords(200, d)))
                press = rank.spectrum(found).press_rank()
                fits.append((language, name, d, paid, press))
                fitted[language, name, d] = found
columns = ["language", "layer", "d", "excess", "rank"]
table = pd.DataFrame(fits, columns=columns)
means = table.pivot_table("excess", ["language", "layer"], "d")

# %% tags=["hide-input", "gallery"]
figure, axes = plots.panels(2, 1, height=3.4, sharex=True)
for ax, language in zip(axes, languages, strict=True):
    curves = {name: (sizes, means.loc[language, name]) for name in layers}
    title = f"the truth: {language}"
    plots.lines(curves, "d", "excess, nats a word", title=title, ax=ax)
plain = means.xs("softmax", level="layer")
low, high = plain.loc["one softmax"].iloc[[0, -1]]
plots.show(
    figure,
    alt="Excess cross-entropy against the dimension d for softmax, GSS "
    "and a mixture of four, one panel for each language. Above, softmax "
    f"falls from {low:.1f} nats at d = {sizes[0]} to {high:.4f} at d = "
    f"{sizes[-1]}, a little less with each dimension; below, it falls "
    "smoothly, and the mixture is lowest.",
)

# %%
# NBVAL_CHECK_OUTPUT
soft = plain.loc["one softmax"]
falls = soft[soft.index <= 12].diff()[1:]
print("excess falls up to d = 12:", bool((falls < 0).all()))
print("at d = 12, where it can be 0:", bool(soft[12] < 2e-3))
print("at d = 4 above 0.1 nats:", bool(soft[4] > 0.1))
mixed = means.loc["mixture of four", :]
better = mixed.loc["mixture of 4", 12] < mixed.loc["softmax", 12]
print("a mixture fits its own language better:", bool(better))

# %%
last = mixed.loc["mixture of 4", 12] / mixed.loc["softmax", 12]
bent = mixed.loc["GSS", 12] / mixed.loc["softmax", 12]
wide = table[(table.language == "mixture of four") & (table.d == 12)]
ranks = wide.groupby("layer", sort=False)["rank"].mean()
told = ", ".join(f"{value:.0f} ({name})" for name, value in ranks.items())
steps = ", ".join(f"{soft[d]:.3f} at d = {d}" for d in sizes[-5:])
display(
    Markdown(
        f"On the language of rank 14 the softmax has an excess of "
        f"{steps}. On the language of full rank, at d = 12, GSS keeps "
        f"{bent:.0%} of the softmax's excess and the mixture keeps "
        f"{last:.0%} of it. Press' ranks of log P are there {told}."
    )
)

# %% [markdown]
# **Figure 2.** Here the predictions are answered.
#
# 1. The bound is sharp. On the first language one softmax reaches the truth at $d = 12$.
#    By the bound, fewer than 12 cannot reach it. Twelve are enough because a softmax of 12 dimensions
#    made this table.
# 2. Below 12 there is no jump. Each further dimension takes its part of the excess. That a matrix *has* rank 80
#    says little about how much is lost: in the lower panel the excess falls smoothly.
# 3. A mixture fits better at every $d$ on the language that *is* a mixture, with more numbers for each context
#    and four times the work. On the first language it falls behind at the larger $d$, and from $d = 12$ on it
#    could be exact on its own: what it keeps there is the optimiser's failure.
#
# GSS lifts Press' rank of log P at no cost in parameters, and gains nothing on the language of full
# rank: a high rank need not lie in the directions that the truth has.
#
# Parthiban et al. (2021) find in their experiments that a high rank is **neither necessary nor sufficient** for
# a good perplexity. Our second language shows that a high rank is not sufficient.
#
# Give the softmax more dimensions on the language of rank 14:

# %% tags=["hide-input"]
of_size = [fitted["one softmax", "softmax", d] for d in sizes]
captions = [f"The excess is {soft[d]:.3f} nats a word." for d in sizes]
truth = languages["one softmax"].matrix
plots.show(
    plots.bottleneck_explorer(truth, of_size, sizes, captions, d=4),
    alt="Singular values of log P, of the truth and of a softmax, and "
    "their probabilities of ten words in one context. A slider sets d. "
    "At d = 4 the curve of the softmax ends at k = 6.",
)

# %% [markdown]
# **Figure 3.** The softmax has no singular value beyond $d + 2$. Those of the truth
# fall slowly after the first, and each dimension adds a further part.

# %% [markdown]
# ## A real model
#
# How many directions does log P have in a model of English? We train the Transformer of lesson 2 briefly. The
# Transformer has $d = 128$ and no bias, so its bound is $d + 1$. We collect log P over a stretch of text, block
# by block, and never store the table. We keep the sum of $x x^\top$ over its rows $x$; the eigenvalues of
# this sum are the squares of the singular values.
#
# Two ranks come out of the singular values.
#
# - **Press' rank** counts the singular values above $\frac12\sqrt{m+n+1}\,\sigma_1 u$, for $m$ rows and $n$
#   columns, where $u$ is the precision of the numbers, here `float32`. Press' rank asks which directions are
#   more than rounding.
# - The **ε-effective rank** is the number of directions that carry all but a share ε of the sum of squares. The
#   effective rank asks which directions are large.

# %%
recipe = course_lab.recipes["docstrings/transformer-128/tied"]
experiment = course_lab.profile(recipe, PROFILE, seed=SEED)
if PROFILE == "quick":
    small = {"train": 200_000, "valid": 5_000, "test": 5_000}
    small["words"] = 2_000
    experiment = experiment.change(corpus={"small": small})
corpus = experiment.load_corpus()
with tempfile.TemporaryDirectory() as folder:
    run = course_lab.run(experiment, folder=folder, progress=False)
model, d = run.model, experiment.size

# %%
contexts = 400 if PROFILE == "smoke" else 4_000
blocks = log_prob_blocks(
    model, corpus.test, corpus.eos, contexts=contexts, progress=False
)
spectrum = rank.spectrum(blocks)
values = spectrum.singular_values / spectrum.singular_values[0]

# %% tags=["hide-input"]
figure = plots.lines({"log P": values}, "k", "σ / σ₁", log="xy")
axes = figure.axes[0]
axes.axvline(d + 1, color=plots.INK, linestyle=":")
axes.text(d + 8, 0.1, f"d + 1 = {d + 1}")
axes.set_ylim(1e-9, 2)
plots.show(
    figure,
    alt="Singular values of log P, both axes logarithmic. The first is "
    f"{1 / values[1]:.0f} times the second; at about {d + 1} they drop by "
    "several orders of magnitude, to the level of rounding.",
)

# %%
# NBVAL_CHECK_OUTPUT
press = spectrum.press_rank()
print("Press' rank is at most d + 1:", press <= d + 1)
print("and not below d - 1:", press >= d - 1)

# %%
m, N = spectrum.shape
effective = {e: spectrum.effective_rank(e) for e in (1e-3, 1e-4, 1e-5)}
listed = ", ".join(f"{k} at ε = {e:g}" for e, k in effective.items())
display(
    Markdown(
        f"{m:,} contexts, {N:,} words, d = {d}: Press' rank **{press}**; "
        f"effective rank {listed}."
    )
)

# %% [markdown]
# **Figure 4.** The two ranks could not differ more. The bottleneck is *filled*: Press' rank is $d + 1$ or
# one less. Yet the first direction is nearly everything. A typical entry of log P is far below zero, so
# what all rows share outweighs what distinguishes one context from another. The effective rank sees
# hardly more than this common part.

# %% [markdown]
# ## How fragile a rank is
#
# Take a matrix of $n$ rows and columns and rank 10, with $\sigma_1 = 1$, and add noise that no experiment could
# detect: Gaussian noise of variance $c/n^2$ (Parthiban et al., supplement). Press' rank uses the precision $u$
# of `float64`.

# %%
n = 200 if PROFILE == "smoke" else 600
c = 10.0 ** np.arange(-28, -19)
study = list(fragility(n, c))
curves = {
    "Press' rank, float64": (c, [f.press_float64 for f in study]),
    "effective rank, ε = 1e-5": (c, [f.effective[1e-5] for f in study]),
}

# %% tags=["hide-input"]
figure = plots.lines(curves, "c, n² × variance of the noise", "rank", "x")
plots.show(
    figure,
    alt=f"Ranks of a {n} × {n} matrix of rank 10 against the size of "
    "added noise. Press' rank jumps from 10 to nearly the full size as "
    "the noise passes the rounding of the numbers; the effective rank "
    "stays.",
)

# %%
# NBVAL_CHECK_OUTPUT
first, last = study[0].press_float64, study[-1].press_float64
print("Press' rank jumps:", first == 10 and last > 0.8 * n)
steady = {f.effective[1e-5] for f in study}
print("the effective rank stays:", len(steady) == 1)

# %% [markdown]
# **Figure 5.** Press' rank jumps from 10 to nearly the full size. The effective rank stays where it is.
#
# Parthiban et al. (Table 2) count a rank of 9,981 for a mixture of softmaxes on a vocabulary of 10,000 words.
# Press' rank counts whatever lies above rounding, so it does not say how many directions matter.

# %% [markdown]
# ## Reading the hidden size off the outputs
#
# The bound has an unintended use: whoever sees a model's log-probabilities can count its dimensions
# (Carlini et al. 2024; Finlayson et al. 2024). Subtract each row's mean, which removes the normaliser. Subtract
# the first row from all rows, which removes the bias. Then count the singular values above a great fall as in
# Figure 4:

# %%
# NBVAL_CHECK_OUTPUT
blocks = log_prob_blocks(
    model, corpus.valid, corpus.eos, contexts=d + 150, progress=False
)
size = theory.hidden_size(blocks)
print("the hidden size is found, or one less:", size.d in (d - 1, d))

# %% [markdown]
# One dimension may be missing for a reason that [lesson 3](03_why_it_happens.ipynb) explains. A layer
# normalisation holds all contexts in a plane, so their differences span $d - 1$ dimensions.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $M$, $N$, $d$ | `m`, `N`, `d` | contexts, words, dimensions |
# | $H$, $W$, $b$ | `H`, `layer.words`, bias | contexts, word matrix, bias |
# | $z$ | `np.logaddexp.reduce(…)` | logarithm of the normaliser, one a row |
# | $\log P$ | `log_p`, `truth.matrix` | log-probabilities, one context a row |
# | $\sigma_k$ | `spectrum.singular_values` | singular values of log P |
# | $\varepsilon$, ε | `effective[1e-3]` | share of the squares left out |
# | $u$ | `np.finfo(dtype).eps` | precision: the gap between 1 and the next number |
# | $c$ | `c` | $n^2$ times the variance of the noise |

# %% [markdown]
# ## Exercises
#
# Replace `None` by your answer and run the cell below it.
#
# ### 1. A sharper language
# *Difficulty 2/3, importance 2/3, ten minutes.* Load a language with `sharpness=4` beside the other `options`,
# so that contexts differ more. Does the excess at small $d$ grow? What happens to the effective rank of the
# truth?
#
# To compare two languages one must know how much there is to gain. How many nats a word does a model that knows
# the context gain over a model that knows only how frequent each word is? Assign `to_gain`: a function of the
# truth that gives this number. `truth.matrix` is log P, a row for each context; `truth.stationary` says how
# often each context comes; `truth.unigram` has the words' frequencies.
#
# <details><summary>Hint</summary>
#
# `sharpness` is the standard deviation of the logits. The best model of some knowledge pays an entropy: of
# which distribution, for each of the two models?
#
# </details>
# <details><summary>Second hint</summary>
#
# A model that knows the frequencies alone pays their entropy. A model that knows the language pays the
# entropy of the language.
#
# </details>

# %% tags=["exercise"]
to_gain = None  # a function of the truth: nats a word


# %%
def by_words(to_gain):
    sharp = corpora.load("zipf", sharpness=4.0, **options).truth
    for truth in (*languages.values(), sharp):
        better = truth.matrix - truth.unigram.log()
        true = truth.stationary @ (truth.matrix.exp() * better).sum(1)
        gain = float(to_gain(truth))
        if gain < 0:
            return "a gain is positive: which entropy is the larger one?"
        if abs(gain - true / np.log(2)) < 0.01:
            return "these are bits, not nats"
        if abs(gain - np.log(200) + truth.entropy) < 0.01:
            return "the rival is to know the words' frequencies"
        if abs(gain - true) > 1e-3:
            return f"the gain is {true:.3f} nats, not {gain:.3f}"
    return True


# %%
check("04.1", to_gain, by_words)

# %% [markdown]
# ### 2. What is fair?
# *Difficulty 2/3, importance 3/3, ten minutes.* Cut `steps` to 20: which layer suffers most? Then give the
# mixture contexts of only $d$ numbers (`hidden_size=d`): what is left of its lead?
#
# For the mixture of Figure 2 count the numbers that a fit may choose: those of the layer and those of the 80
# contexts. Assign `fair`: the greatest $d$ at which one softmax has no more of them than this mixture at $d =
# 12$. What is left of the mixture's lead over that softmax?
#
# <details><summary>Hint</summary>
#
# `sum(p.numel() for p in layer.parameters())`, and 80 times `layer.hidden_size` for the contexts. A
# fair rival has the same number of them, not the same $d$.
#
# </details>

# %% tags=["exercise"]
fair = None  # the d of the softmax, an integer


# %%
def as_many(fair):
    def numbers(layer):
        own = sum(p.numel() for p in layer.parameters())
        return own + 80 * layer.hidden_size

    if not isinstance(fair, (int, np.integer)):
        return "assign an integer"
    words = FullWords(200, 12)
    most = numbers(MixtureOfSoftmaxes(words, 4 * 12 + 4, components=4))
    if numbers(Softmax(FullWords(200, fair))) > most:
        return "that softmax may choose more numbers than the mixture"
    return numbers(Softmax(FullWords(200, fair + 1))) > most or (
        "a larger softmax would still have no more numbers: count the "
        "mixture's contexts, and what turns a context into four"
    )


check("04.2", fair, as_many)

# %% [markdown]
# ### 3. Rounded outputs
# *Difficulty 2/3, importance 3/3, fifteen minutes.* Suppose a model's log-probabilities are published with a
# few decimals. Round `log_p`, the table of *The bound*, before asking for `np.linalg.matrix_rank` and for
# `theory.hidden_size`. Assign `decimals`, two integers: the fewest decimals at which `matrix_rank` still says
# $d + 2$, and the fewest at which `hidden_size` still finds $d = 7$. Why do the two differ?
#
# <details><summary>Hint</summary>
#
# `log_p.round(3)`. Rounding is noise of a known size. Compare it with the singular values on either
# side of the gap, and ask which size of noise each of the two puts up with.
#
# </details>

# %% tags=["exercise"]
decimals = None  # for np.linalg.matrix_rank, for theory.hidden_size


# %%
def fewest(decimals):
    def seen(k):
        rounded = log_p.round(k)
        d = theory.hidden_size(rounded).d
        return np.linalg.matrix_rank(rounded) == 9, d == 7

    both = np.array(decimals)
    if both.shape != (2,) or both.dtype.kind != "i":
        return "assign two integers"
    for i, name in enumerate(("matrix_rank", "hidden_size")):
        k = int(decimals[i])
        if not seen(k)[i]:
            return f"{name} does not see it with {k} decimals"
        if k and seen(k - 1)[i]:
            return f"{name} could do with fewer than {k} decimals"
    return True


# %%
check("04.3", decimals, fewest)

# %% [markdown]
# ## What we saw

# %%
ratio = means.loc[("mixture of four", "mixture of 4"), 12]
rival = means.loc[("mixture of four", "softmax"), 12]
display(
    Markdown(
        f"A softmax of 4 dimensions loses {soft[4]:.2f} nats a word on a "
        f"language of rank {languages['one softmax'].rank}, one of 8 "
        f"dimensions loses {soft[8]:.2f}, and one of 12 only "
        f"{soft[12]:.5f}. On a language that is a mixture, at d = 12, a "
        f"mixture of four, which could be exact, stays {ratio:.3f} nats "
        f"above the truth, and one softmax {rival:.3f}. The trained model "
        f"fills its bottleneck to rank {press}; the effective rank of its "
        f"log P is {effective[1e-3]} for ε = 1e-3."
    )
)

# %% [markdown]
# ## References
#
# - Z. Yang, Z. Dai, R. Salakhutdinov, W. W. Cohen (2018). *Breaking the Softmax Bottleneck: A
#   High-Rank RNN Language Model.* ICLR. [arXiv:1711.03953](https://arxiv.org/abs/1711.03953)
# - D. Parthiban, Y. Mao, D. Inkpen (2021). *On the Softmax Bottleneck of Recurrent Language
#   Models.* AAAI.
# - N. Carlini et al. (2024). *Stealing Part of a Production Language Model.* ICML.
#   [arXiv:2403.06634](https://arxiv.org/abs/2403.06634)
# - M. Finlayson, X. Ren, S. Swayamdipta (2024). *Logits of API-Protected LLMs Leak Proprietary
#   Information.* [arXiv:2403.09539](https://arxiv.org/abs/2403.09539)
# - W. H. Press, S. A. Teukolsky, W. T. Vetterling, B. P. Flannery (2007). *Numerical Recipes*, 3rd
#   edition, section 2.6. Cambridge University Press.

# %% [markdown] tags=["way"]
# ← Previous: [3. Why it happens: the words that never come](03_why_it_happens.ipynb)
#
# → Next: [5. Tying and the augmented loss: may one matrix do both jobs?](05_tying_and_augmented_loss.ipynb)
