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
# # 22. Adapt a model at test time
#
# **Question.** How much better does a trained model predict a text if it may remember what it has just read there, or go on learning from it?
#
# Published perplexities come in threes: the model alone, with a *continuous cache*, and with *dynamic
# evaluation*. Both extras use nothing but the words that have already been scored, so they are fair. Both are
# applied after training, to any model that carries a state from one segment of text to the next. This notebook
# applies them to a recipe of the course and looks at which words gain.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** Lesson 1 explains what an output layer is, and notebook
# 20 trains the same recipes.
#
# | profile | minutes | corpus and machine |
# |---|---|---|
# | `smoke` | 0.2 | a few thousand tokens, for the tests |
# | `quick` | 3.5 | `docstrings`, 2 CPU cores |
# | `standard` | 110 | the recipe's corpus, 2 CPU cores; less where notebook 20 trained it |
# | `full` | 110 | the paper's configuration; larger models want a GPU |
#
# On Google Colab, run this in a first cell and restart the session:
# `!git clone -q https://github.com/output-embedding-course/output-embedding-course && pip install -q -c output-embedding-course/constraints.txt -e "./output-embedding-course[lab]"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
RECIPE = "ptb/vd-lstm-200/tied"  # python -m course_lab recipes lists them
SEED = 1  # initialisation, dropout and shuffling
FOLDER = ""  # where the trained model is or goes; empty: runs/RECIPE/…
CHANGE = {}  # settings that differ from the recipe, dotted
SEARCH_TOKENS = 2_500  # of the validation split, to choose settings on
TEST_TOKENS = 6_000  # of the test split, to compare on

# %%
import dataclasses
import math

import numpy as np
import pandas as pd
from IPython.display import Markdown, clear_output, display

import course_lab
from course_lab import plots, tables
from course_lab.planned import Planned
from course_lib.errors import CourseError
from course_lib.evaluation import cache, dynamic

experiment = Planned(RECIPE, PROFILE, SEED, CHANGE).experiment()
if experiment.translates:
    raise CourseError(f"{RECIPE} translates; choose a language model")

# %%
o = experiment.optimisation
lasting = experiment.encoder.options.get("memory", 1)
if not (lasting or o.evaluation_memory):
    raise CourseError(f"{RECIPE} forgets each segment; choose another")

# %%
result = course_lab.launch(experiment, folder=FOLDER or None)
clear_output()  # the progress bar has done its work
model, corpus = result.model, result.corpus
if o.evaluation_memory:
    clamp = o.evaluation_clamp or model.encoder.clamp
    model.encoder = model.encoder.with_memory(o.evaluation_memory, clamp)
valid, test = corpus.valid[:SEARCH_TOKENS], corpus.test[:TEST_TOKENS]

# %% [markdown]
# ## Predict
#
# 1. A word has just occurred on this page. Is it more or less likely now than
#    a model thinks that was trained on other pages?
# 2. Which words will gain more from remembering the page: frequent or rare
#    ones?
# 3. A model takes a gradient step on five words, then a step on the next
#    five, and so on through thousands of words, and it never starts over.
#    Will the model get better, or forget what it knew?

# %% [markdown]
# ## A cache of contexts
#
# The model reads the text once. At each position $t$ it has a context $h_t$, a
# vector, and gives the word that came the probability
# $p_\text{model}(y_t)$. Grave et al. (2017) keep the last contexts, each with
# the word that followed it, and ask how much today's context resembles them:
#
# $$p_\text{cache}(w) \propto \sum_{i=t-n}^{t-1} [y_i = w]\, e^{\theta h_t^\top h_i},
# \qquad p = (1-\lambda)\,p_\text{model} + \lambda\,p_\text{cache},$$
#
# where $w$ is a word, and $[y_i = w]$ is 1 where this word followed and 0
# elsewhere.
#
# Three numbers have to be chosen: the window $n$, the sharpness $\theta$ and
# the weight $\lambda$; we fix $n = 500$ and search the other two. Nothing is
# trained, so a search on the validation split costs seconds: one pass of the
# model serves the whole search.

# %%
seen = cache.predictions(model, valid, corpus.eos)
alone = math.exp(-seen.log_prob.double().mean().item())
length = seen.hidden.norm(dim=1).square().mean().item()  # of hᵀh
thetas = [round(s / length, 3) for s in (1, 2, 4, 8, 16)]
weights = [0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5]
found = pd.DataFrame(cache.search(seen, [500], thetas, weights))
best = found.iloc[0]
print(f"model alone {alone:.1f}; with the best cache", end=" ")
print(f"{best.perplexity:.1f}, at θ = {best.theta}, λ = {best.weight}")

# %%
curves = {}
for theta, group in found.groupby("theta"):
    rows = group.sort_values("weight")
    curves[f"θ = {theta}"] = (rows.weight, rows.perplexity)
figure = plots.lines(curves, "weight λ of the cache", "valid perplexity")
plots.show(
    figure,
    alt="Validation perplexity against the weight of the cache, one curve "
    f"for each θ. At λ = 0 all meet at {alone:.1f}; the lowest point, "
    f"{best.perplexity:.1f}, is at λ = {best.weight}, θ = {best.theta}.",
)

# %% [markdown]
# At $\lambda = 0$ the model is alone; at $\lambda = 1$ every word that is not in
# the cache would be impossible. Between them lies the best weight: a word that
# is not in the cache gets $(1-\lambda)\,p_\text{model}$, less than before.

# %% [markdown]
# ## Which words gain?
#
# We take the test split and these settings. For every word of the text, how
# many tokens ago did it occur last? And by how many nats did the cache raise
# or lower its log-probability?

# %%
read = cache.predictions(model, test, corpus.eos)
cached = cache.cache_probability(read, 500, best.theta)
plain = read.log_prob.double()
mixed = (1 - best.weight) * plain.exp() + best.weight * cached.double()
gain = (mixed.log() - plain).cpu().numpy()
gain[0] = 0  # before the first word nothing has been read

last, ago = {}, np.full(len(test), np.inf)
for t, word in enumerate(test.tolist()):
    ago[t] = t - last.get(word, -np.inf)
    last[word] = t

# %%
edges = [1, 10, 30, 100, 300, 501, np.inf]
names = ["1–9", "10–29", "30–99", "100–299", "300–500", "over 500"]
rare = corpus.counts[test].numpy() < 1e-3 * len(corpus.train)
table = pd.DataFrame(
    {"last seen": pd.cut(ago, edges, right=False, labels=names),
     "words": np.where(rare, "rarer than 1 in 1,000", "others"),
     "gain": gain}
)  # fmt: skip
table = table.dropna()  # ∞ falls outside the last edge: never
never = gain[np.isinf(ago)].mean()
means = table.pivot_table("gain", "last seen", "words", observed=False)
places = np.arange(len(names))
curves = {name: (places, means[name]) for name in means}

# %%
figure = plots.lines(curves, "tokens since the same word", "gain, nats")
axes = figure.axes[0]
axes.set_xticks(places, names)
axes.axhline(0, color=plots.INK, linewidth=1)
soon = [f"{name}: {means[name].iloc[0]:.2f}" for name in means]
plots.show(
    figure,
    alt="Mean gain in log-probability against the number of tokens since "
    f"the word occurred last. Within ten tokens {'; '.join(soon)} nats. "
    f"Words never seen before lose {-never:.2f}.",
)

# %% [markdown]
# Text is bursty. A rare word that has come once is likely to come again soon.
# The word matrix, which is the same for all pages, cannot know this, but the
# cache can. A word that is not in the
# window pays the full price, $-\log(1-\lambda)$ nats, whatever the word.

# %%
price = -math.log(1 - best.weight)
display(Markdown(
    "Your first two predictions: within ten tokens of its last "
    f"occurrence a word gains, in nats, {'; '.join(soon)}. "
    f"With λ = {best.weight} the full price is {price:.2f} nats. Words "
    f"that had not occurred at all lose {-never:.2f} on average."
))

# %% [markdown]
# ## Learning on
#
# Dynamic evaluation (Krause et al. 2018) goes further: after every segment of
# five words the weights take a gradient step on that segment. Let
# $\text{MS}_g$ be the mean square of a weight's gradients in training.
# Weights with a large $\text{MS}_g$ move more cautiously, and are drawn back
# to the trained $\theta_0$ more strongly:
#
# $$\Delta\theta = -\eta\,\frac{g}{\sqrt{\text{MS}_g}+\varepsilon}
# + \lambda\,(\theta_0-\theta)\,\frac{\sqrt{\text{MS}_g}}{\text{mean}\sqrt{\text{MS}_g}},$$
#
# where $g$ is the gradient of the segment's loss, $\eta$ a learning rate and $\varepsilon$ a small number. The
# factor of $\theta_0-\theta$ is cut off at 1, so no weight is drawn past $\theta_0$. The symbols $\theta$ and
# $\lambda$ have nothing to do with those of the cache. The mean is taken within each matrix and each vector of
# biases, and then over all of these. The released code does so, and a published $\lambda$ means nothing without
# this mean. Gradients of biases are larger than those of matrices; with the mean of all numbers the same
# $\lambda$ would pull a matrix back several times more strongly. We compute the gradients' mean squares first,
# and then search for $\eta$ on the validation split; $\lambda$ and $\varepsilon$ are fixed beforehand.

# %% tags=["hide-output"]
squares = dynamic.mean_squares(
    model, corpus.train[:50_000], batch=20, progress=False
)
tried = []
for rate in (3e-5, 1e-4, 3e-4):  # few, to be quick
    chosen = {"rate": rate, "decay": 2e-3, "epsilon": dynamic.EPSILON}
    reached = dynamic.dynamic_perplexity(
        model, valid, corpus.eos, squares, progress=False, **chosen
    )
    tried.append(chosen | {"perplexity": reached})
tried = pd.DataFrame(tried).sort_values("perplexity")
chosen = tried.iloc[0].drop("perplexity").to_dict()
tried

# %%
before = {n: p.detach().clone() for n, p in model.named_parameters()}
steps = dynamic.losses(model, test, corpus.eos, squares, **chosen)
segments = [(float(nll), count) for nll, count in steps]
same = all((p == before[n]).all() for n, p in model.named_parameters())
learned = np.repeat(*map(np.array, zip(*segments, strict=True)))
scores = {
    "model alone": -plain.cpu().numpy(),
    "continuous cache": -mixed.log().cpu().numpy(),
    "dynamic evaluation": learned,
}
scores["continuous cache"][0] = scores["model alone"][0]

# %% [markdown]
# The figure shows the perplexity of all words read so far, as the reading
# goes on:

# %%
words = np.arange(1, len(test) + 1)
first = len(test) // 50
curves = {
    name: (words[first:], np.exp(np.cumsum(nll) / words)[first:])
    for name, nll in scores.items()
}
figure = plots.lines(curves, "words of the test split", "perplexity")
ends = {name: math.exp(nll.mean()) for name, nll in scores.items()}
listed = "; ".join(f"{name} {value:.1f}" for name, value in ends.items())
plots.show(
    figure,
    alt="Perplexity of all words read so far against their number, for "
    f"the model alone and for both adaptations. At the end: {listed}.",
)

# %%
# NBVAL_CHECK_OUTPUT
at_zero = found[found.weight == 0].perplexity
print(
    "a cache of weight 0 is the model alone:",
    bool(np.allclose(at_zero, alone, rtol=1e-5)),
)
print("the weights are back where they were:", same)
print("one loss for every word:", len(learned) == len(test))

# %%
def ahead(count):
    """How far dynamic evaluation is below the model alone by then."""
    names = ("model alone", "dynamic evaluation")
    before, now = (math.exp(scores[n][:count].mean()) for n in names)
    return before - now


middle = len(test) // 2
display(Markdown(
    f"Your third prediction: after {middle:,} words the perplexity of"
    f" dynamic evaluation is {ahead(middle):.1f} below that of the model"
    f" alone, and after {len(test):,} words {ahead(len(test)):.1f} below."
))

# %% [markdown]
# ## Result

# %%
display(Markdown(
    f"On the first {len(test):,} words of the test split of"
    f" `{corpus.name}` the model alone has perplexity"
    f" **{ends['model alone']:.1f}**, with a continuous cache"
    f" **{ends['continuous cache']:.1f}** and with dynamic evaluation"
    f" **{ends['dynamic evaluation']:.1f}**. Chosen on {len(valid):,}"
    f" words of the validation split: θ = {best.theta} and λ ="
    f" {best.weight} of the cache, η = {chosen['rate']:g} of dynamic"
    f" evaluation. Fixed: a window of 500, a decay λ of"
    f" {chosen['decay']:g}."
))

# %% [markdown]
# Here are the three beside models that only count on the training text: *unigram* counts words, and *Kneser-Ney
# n* counts runs of up to $n$ words. A model that does not beat them has learned less than counting does. What an
# adaptation does to it is then no evidence about a good model.

# %%
same = dataclasses.replace(corpus, test=test)  # the words read above
beside = ends | tables.ngram_perplexities(same)
pd.DataFrame({"test perplexity": beside}).round(1)

# %% [markdown]
# ## From here
#
# * The published rows are recipes of their own, such as
#   `wikitext-2/awd-lstm/cosine/continuous-cache` and
#   `ptb/awd-lstm/mos/dynamic-evaluation`: notebook 20 runs them on whole
#   splits, with the papers' settings or their search. These recipes begin with
#   the weights of others: `python -m course_lab train RECIPE --starts` trains all
#   of them in turn, and notebook 20 then shows the result at the same profile
#   and seed.
# * A fair comparison adapts every model, each with settings searched anew:
#   a cache that was tuned for one model favours this model.
#
# ## References
#
# * Grave, Joulin and Usunier (2017). *Improving Neural Language Models with a
#   Continuous Cache*. ICLR. arXiv:1612.04426.
# * Krause, Kahembwe, Murray and Renals (2018). *Dynamic Evaluation of Neural
#   Sequence Models*. ICML. arXiv:1709.07432.

# %% [markdown] tags=["way"]
# ← Previous: [21. Train a translator](21_train_translator.ipynb)
#
# → Next: [23. Run a batch](23_run_a_batch.ipynb)
