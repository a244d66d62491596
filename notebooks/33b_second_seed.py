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
# # 33b. Going deeper: a second seed as a yardstick
#
# **Question.** Does a remedy change what a model predicts by more than another seed does, and is its gain still there in an ensemble of two seeds?
#
# This notebook goes on where [lesson 33](33_predictions.ipynb) stops. Nothing later needs it.

# %% [markdown]
# ## What you will learn
#
# - to compute what an ensemble of several seeds gains, from losses that are kept;
# - to measure how far two models disagree, and how far two methods differ beyond a seed;
# - to ask of a remedy whether its gain is still there in an ensemble.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 4](04_softmax_bottleneck.ipynb) on the rank, [lesson 9](09_mixtures.ipynb) on mixtures,
# [notebook 23](23_run_a_batch.ipynb) on pairs of runs, and [lesson 33](33_predictions.ipynb).
#
# **Reading.** 21 minutes. **Difficulty.** 2 of 3.
#
# | profile | minutes | runs on |
# |---|---|---|
# | smoke | 0.2 | any CPU |
# | quick | 0.2 | any CPU |
# | standard | 0.2 | any CPU |
# | full | 0.2 | any CPU |
#
# Nothing is trained: all tables are computed from results that are kept with the course.
#
# On Google Colab, run this in a first cell and restart the session:
#
# `!git clone -q https://github.com/output-embedding-course/output-embedding-course && pip install -q -c output-embedding-course/constraints.txt -e "./output-embedding-course[lab]"`

# %% tags=["parameters"]
PROFILE = "quick"  # all profiles read the same results
OWN = []  # folders of finished runs of yours, to count as kept ones do

# %%
import numpy as np
import pandas as pd
from IPython.display import Markdown, display

from course_lab import ensembles, evidence, families, plots, predictions
from course_lab.progress import check

of = evidence.read(OWN)
every = predictions.chosen(of)
runs, losing = predictions.sort_out(of, every)
marks = families.other_precisions(runs)
alike = [run for run in runs if run.method not in marks]
losses = ensembles.losses_of(alike)
family = predictions.name_of(every) or "no family"

# %% [markdown]
# ## Predict
#
# Two tied softmaxes are trained alike but for their seeds. An *ensemble* of the two models averages their
# probabilities. The perplexities of the two models differ by less than one per cent. By how many per cent does the
# ensemble lower their perplexity: 0.5, 2 or 6? A third model is a tied softmax with the cosine penalty and another
# seed. Does an ensemble of this model and a tied softmax gain more than an ensemble of two tied softmaxes?

# %% [markdown]
# ## An ensemble of two models
#
# A model gives the right word at a place the probability $p = e^{-\ell}$, where $\ell$ is the model's loss. An
# ensemble of two models gives this word the probability $(p_1+p_2)/2$. It averages probabilities, and it does not
# average weights. The losses of the ensemble follow from the losses that both runs keep, one number for each token of
# the test split. No model has to be loaded.
#
# Since $-\log$ is convex, the ensemble's loss is never above the mean $(\ell_1+\ell_2)/2$ of both losses. This is
# Jensen's inequality. Let $\delta = \ell_1-\ell_2$. Divide $(p_1+p_2)/2$ by $\sqrt{p_1 p_2}$: the quotient is
# $(e^{\delta/2}+e^{-\delta/2})/2$, which is called $\cosh(\delta/2)$. So the ensemble's loss lies below the mean of
# both losses by
#
# $$ \log\frac{(p_1+p_2)/2}{\sqrt{p_1 p_2}} = \log\cosh\frac{\delta}{2}
# \quad\big(\text{about } \delta^2/8 \text{ for a small } \delta\big). $$
#
# This number is 0 only where both models give the word the same probability. Its mean over all tokens, times 100, is
# what the ensemble gains, in per cent. It is also a measure of how far two models $A$ and $B$ differ, and we call it
# their *disagreement* $\Delta(A,B)$. The literature on ensembles has the word *diversity* for such measures.
#
# Every per cent in this notebook is 100 times a difference of logarithms of perplexity, as in [notebook
# 30](30_leaderboard.ipynb). A small difference is nearly the same in ordinary per cent. A large one is not.

# %%
# NBVAL_CHECK_OUTPUT
rng = np.random.default_rng(1)
first, second = rng.gamma(2.0, 2.0, (2, 1_000))  # losses, in nats
both = ensembles.ensemble_losses([first, second])
naive = -np.log((np.exp(-first) + np.exp(-second)) / 2)
gain = 100 * ((first + second) / 2 - both).mean()
disagreement = ensembles.disagreement(first, second)
print("the mean of probabilities:", np.allclose(both, naive))
print("it gains the disagreement:", np.allclose(gain, disagreement))

# %% [markdown]
# ## What a second seed gains
#
# We compare the methods of one family of lesson 33, which is one model, text and budget. We leave out methods that
# lose to Kneser-Ney of order 5 and methods that compute in another precision than `tied`.

# %%
names = sorted({run.method for run in losing} | set(marks))
left_out = ", ".join(f"`{name}`" for name in names) or "none"
display(Markdown(f"*Family `{family}`. Left out: {left_out}.*"))

# %% [markdown]
# In the table *one* is the perplexity of a single model and *two* that of an ensemble of two seeds. Both are geometric
# means, over the models and over the pairs of seeds. *Gain* is the mean disagreement of two seeds, in per cent.
#
# The columns *low* and *high* bound its 95 % interval. Two pairs that share a seed are not independent. The
# *jackknife* of Tukey therefore leaves out one seed at a time and computes the gain again. How far these gains differ
# gives the interval. It needs three seeds. All intervals of this notebook are over seeds and speak of this text only.
# They are not corrected for the number of methods.

# %%
pairs = ensembles.of_two(losses)
pairs.loc[:, "seeds":"gain high"].astype(float).round(2)

# %%
gain_said, tied_said = "no method has two seeds", "no two are kept"
if len(pairs):
    gain_said = (
        f"an ensemble of two seeds gains {pairs.gain.min():.1f} to "
        f"{pairs.gain.max():.1f} %, over {len(pairs)} methods"
    )
if "tied" in pairs.index:
    each = [np.exp(model.mean()) for model in losses["tied"].values()]
    tied_said = (
        f"the perplexities of {len(each)} models lie within "
        f"{100 * np.log(max(each) / min(each)):.1f} %, and an ensemble of "
        f"two gains {pairs.gain['tied']:.1f} %"
    )
display(Markdown(f"*In `{family}` {gain_said}. Of `tied`, {tied_said}.*"))

# %% [markdown]
# The last sentence answers the first prediction. More seeds gain more, though each gains less than the one before. The
# next table has the perplexity by the number of models in the ensemble, for the methods with the most seeds:

# %%
most = max(map(len, losses.values()), default=0)
by_size = {name: ensembles.sizes(own) for name, own in losses.items()
           if len(own) == most}  # fmt: skip
number = pd.RangeIndex(1, most + 1, name="models")
sizes = pd.DataFrame(by_size, index=number).round(2)
sizes.sort_values(1, axis=1) if most else sizes

# %%
price_said = "no ensemble of `tied` models is kept"
if "tied" in pairs.index and len(pairs) > 1:
    best = pairs.one.idxmin()
    alone = ensembles.sizes(losses["tied"])
    price_said = (
        f"a single `{best}` has a perplexity of {pairs.one[best]:.1f}, an "
        f"ensemble of two `tied` models {alone[1]:.1f}, and one of "
        f"{len(alone)} `tied` models {alone[-1]:.1f}"
    )
display(Markdown(f"*For comparison, {price_said}.*"))

# %% [markdown]
# An ensemble of $K$ softmax models is a mixture of $K$ softmaxes with constant weights. Unlike in lesson 9, each
# component has its own encoder and its own word matrix. By lesson 4, $\log P$ of one softmax has at most the rank
# $d+1$, where $d$ is the size of a context. This bound does not hold for the ensemble. The ensemble costs $K$ times the
# parameters, the training and the time of a prediction. A comparison with a single model has to name this price.

# %% [markdown]
# ## Beyond a seed
#
# Models of two methods $A$ and $B$ always disagree, since two seeds of one method do. What the methods add is
#
# $$ D(A,B) = \mathrm{E}\,\Delta(A_i,B_j)
# - \tfrac12\big(\mathrm{E}\,\Delta(A_i,A_j)+\mathrm{E}\,\Delta(B_i,B_j)\big), \qquad i \neq j , $$
#
# where $A_i$ is the model of method $A$ and seed $i$, and $\mathrm{E}$ is the mean over pairs of different seeds. The
# formula leaves out pairs of one seed, since such models have the order of their batches in common, and their start
# where the parameters are the same. In words, $D$ is what an ensemble of one model of each method gains over the mean
# of the two ensembles of one method.
#
# $D$ is half an *energy distance*: the mean distance across two distributions, less the mean distance within each.
# Székely and Rizzo show that an energy distance is never negative where the distance is *of negative type*, as
# $\log\cosh$ is. $D$ is 0 only if the loss of each token has the same distribution over seeds in both methods. An
# estimate from few seeds may lie below 0.
#
# <details><summary>Why log cosh is of negative type</summary>
#
# By a theorem of Schoenberg a function $f$ is of negative type if $e^{-sf}$ is positive definite for every $s>0$. For
# $f=\log\cosh$ these are the positive powers of $1/\cosh$, which are characteristic functions of probability
# distributions. All of these distributions have a density above 0 everywhere, so that no difference escapes $D$.
#
# </details>
#
# The disagreement grows with the square of a difference of losses. So a method that lowers every loss by a little has a
# $D$ near 0, though the paired test of notebook 30 finds its gain. We therefore also give the *root* of the ratio of $D$
# to the disagreement within the methods. The root compares nats with nats.
#
# In the table *across* is the disagreement of a model of the method and a model of `tied` with different seeds, and
# *same* that with equal seeds. *Own* is the disagreement of two seeds of the method, *plain* that of two seeds of
# `tied`. *Beyond* is $D$: *across* less the mean of *own* and *plain*. *Seeds* counts the seeds that both methods have.
# A method that shares fewer than three is left out.

# %%
beyond = ensembles.beyond_a_seed(losses)
beyond.astype(float).round(2)

# %% tags=["hide-input"]
if len(beyond):
    least, most = beyond.beyond.iloc[[0, -1]]
    title = (
        f"Beyond a seed, {beyond.index[0]} differs from tied by "
        f"{least:.2f}\u00a0%, {beyond.index[-1]} by {most:.1f}\u00a0%"
    )
    plots.show(
        plots.beyond_a_seed(beyond, title),
        alt="A bar for each method: the disagreement of two seeds, and "
        f"at its end what lies beyond a seed. {title}.",
    )

# %%
beyond_said = "no method shares three seeds with it"
cosine_said = "no three seeds of `cosine` are kept"
if len(beyond):
    listed = [f"`{m}` {r:.0%}" for m, r in beyond.root.items()]
    beyond_said = "the root of the ratio is " + ", ".join(listed)
if "cosine" in beyond.index:
    row = beyond.loc["cosine"]
    cosine_said = (
        f"two tied models disagree by {row.plain:.2f} %, a tied model and "
        f"one with the cosine penalty by {row.across:.2f} %, of which "
        f"{row.beyond:.2f} % lie beyond a seed"
    )
display(Markdown(
    f"*Against `tied`, {beyond_said}. Further, {cosine_said}.*"
))  # fmt: skip

# %% [markdown]
# **Figure 1.** The last sentence answers the second prediction. A short coloured part means that the method predicts
# nearly like another seed of `tied`. Such a method can still be a little better or worse in every pair, which the paired
# test of [notebook 30](30_leaderboard.ipynb) finds. A long coloured part means that the method gives the right words other probabilities than `tied` does. The
# length does not say which of the two is better. Figure 2 shows this.
#
# The ledger of notebook 30 withdraws the perplexities of spectrum control with either prior, because the scale of the
# prior has not been tuned. In both figures spectrum control may stand elsewhere at another scale.

# %% [markdown]
# ## Ensembles of a method
#
# An ensemble of $K$ models removes about $(K-1)/K$ of what all seeds together could remove. Suppose that a
# remedy lowers only the part of the loss that differs from seed to seed. With ever more seeds, ensembles with
# the remedy are then no better than plain ones. Two models remove only half of this part, so in an ensemble of
# two such a remedy keeps about half of its difference. We compare ensembles of equally many models, of two. The
# figure has each method's difference from `tied`, for single models and for ensembles of two.

# %% tags=["hide-input"]
others = pairs[pairs.together.notna() & (pairs.index != "tied")]
told = []
for name in {"untied", "adversarial", "mos"} & set(others.index):
    row = others.loc[name]
    told += [f"{name} {row.single:+.1f}, then {row.together:+.1f}\u00a0%"]
if len(others):
    title = "Against tied: " + ("; ".join(sorted(told)) or "few pairs")
    plots.show(
        plots.single_and_together(pairs, "tied", title),
        alt="A ring and a mark for each method: the difference from tied "
        f"of single models, and of ensembles of two. {title}.",
    )

# %% [markdown]
# **Figure 2.** The way from the ring to the mark is the part of the difference that an ensemble of two changes.
# Where the mark lies nearer to 0, about half of the part that differs from seed to seed is gone. Twice the way
# estimates the whole of this part. Where the mark lies farther from 0, ensembles differ by more than single
# models do. A mark on the other side of 0 belongs to a method that is worse alone and better in an ensemble, or
# the reverse.
#
# In the table *mixed* is the perplexity of an ensemble of one model of the method and one of `tied`, over different
# seeds. It can be below those of both ensembles of one method, which stand in the first table. The list under the table
# compares means and is no test.

# %%
shown = ["shared", "single", "together", "together low", "together high"]
others[[*shown, "mixed"]].astype(float).round(2)

# %%
wins = others.mixed < np.minimum(others.two, pairs.two.get("tied", np.nan))
better = ", ".join(f"`{name}`" for name in others.index[wins])
display(Markdown(
    "*An ensemble with a tied model beats both ensembles of one method "
    f"for: {better or 'none'}.*"
))  # fmt: skip

# %% [markdown]
# Lesson 33 finds that the lists of likeliest words hardly tell methods apart. The lists count which words come first.
# The probabilities of the right word tell methods apart where the lists hardly do.

# %% [markdown]
# ## What would change the answer
#
# - **More seeds.** A method that shares two seeds with `tied` has no interval, and its way from ring to mark may be
#   chance.
# - **Tuned methods.** No method of this family has been tuned on its own. Two methods at their best settings
#   may be nearer to each other, or farther apart.
# - **Another model or text.** All figures are of one family. A model with less dropout may differ more from seed to
#   seed.
# - **A temperature.** An ensemble is less sure than its models, and lesson 33 finds most models too sure. A temperature
#   that is fitted on the validation split may gain a part of what an ensemble gains.
# - **All words of a place.** Kept losses are those of the right word. Two models can agree on the right word and
#   disagree on all others.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $\ell_1, \ell_2$; $p_1, p_2$ | `first`, `second` | losses of a token by two models, in nats; $p=e^{-\ell}$ |
# | $\delta$ | `first - second` | difference of the losses of a token |
# | $\Delta(A,B)$ | `ensembles.disagreement` | mean of $\log\cosh(\delta/2)$ over the tokens, in per cent |
# | $A_i$ | `losses[method][seed]` | the model of method $A$ and seed $i$ |
# | $D(A,B)$ | `beyond.beyond` | what two methods differ beyond a seed, in per cent |
# | $K$ | `sizes.index` | models of an ensemble |

# %% [markdown]
# ## Exercises
#
# ### 1. Many models
#
# *Difficulty 1/3, importance 3/3, ten minutes.* Assign to `gain_of` a function of a list of arrays: the losses of
# the same tokens by $K$ models, in nats. The function returns by how many per cent the ensemble of all $K$ models lowers
# the geometric mean of their perplexities. A per cent is here, as above, 100 times a difference of logarithms.
#
# <details><summary>Hint</summary>
#
# Average the probabilities of each token over the models first. The logarithm of the geometric mean of the
# perplexities is the mean of all losses.
#
# </details>

# %% tags=["exercise"]
gain_of = None  # a function of a list of arrays


# %% tags=["hide-input"]
def as_averaged(gain_of):
    models = list(np.random.default_rng(2).gamma(2.0, 2.0, (4, 500)))
    saved = np.mean(models) - ensembles.ensemble_losses(models).mean()
    value = gain_of(models)
    if np.isclose(value, -100 * saved):
        return "the ensemble is better, so its gain is above 0"
    if np.isclose(value, saved):
        return "that is in nats; per cent are 100 times as many"
    if np.isclose(value, -100 * np.expm1(-saved)):
        return "here a per cent is 100 times a difference of logarithms"
    if abs(value) < 1e-9:
        return "a mean of losses gains nothing: average probabilities"
    return bool(np.isclose(value, 100 * saved))


check("33b.1", gain_of, as_averaged)

# %% [markdown]
# ### 2. How far apart?
#
# *Difficulty 2/3, importance 2/3, ten minutes.* An ensemble of two models gains 5 %. Suppose that $|\delta|$ is the
# same for every token: at half of the tokens the first model has the smaller loss, at the other half the second. How
# large is $|\delta|$, in nats? Assign the number to `apart`.
#
# <details><summary>Hint</summary>
#
# The section *An ensemble of two models* has what an ensemble saves at one token. Write 5 % in nats first.
#
# </details>

# %% tags=["exercise"]
apart = None  # nats


# %% tags=["hide-input"]
def far_enough(apart):
    if np.isclose(apart, np.arccosh(np.exp(0.05)), rtol=0.02):
        return "that is δ/2: the argument of cosh is half the difference"
    if apart > 2:
        return "5 % are 0.05 nats"
    return bool(np.isclose(apart, 2 * np.arccosh(np.exp(0.05)), rtol=0.02))


check("33b.2", apart, far_enough)

# %% [markdown]
# ## What we saw

# %%
kept_said = "tying gains nothing here"
if others.single.get("untied", 0) > 0:
    row = others.loc["untied"]
    kept_said = (
        f"a single model without tying stands {row.single:+.1f} % from "
        f"`tied`, an ensemble of two {row.together:+.1f} %"
    )
    if {"tied", "untied"} <= by_size.keys():
        left = np.divide(by_size["untied"], by_size["tied"])
        left = 100 * np.log(left)
        kept_said += (
            f", and one of {len(left)} {left[-1]:+.1f} %. So "
            f"{1 - left[-1] / left[0]:.0%} of what tying gains, more "
            "seeds gain, too"
        )

# %%
if "mos" in others.index:
    row = others.loc["mos"]
    kept_said += f". `mos` goes from {row.single:+.1f} "
    kept_said += f"to {row.together:+.1f} %"

# %%
display(
    Markdown(
        f"**A second seed.** In `{family}`, {gain_said}. For comparison, "
        f"{price_said}.\n\n"
        f"**Beyond a seed.** Against `tied`, {beyond_said}. By so much a "
        "method moves the loss of a typical token, where another seed "
        "counts as 100 %.\n\n"
        f"**In ensembles.** In `{family}`, {kept_said}."
    )
)

# %% [markdown]
# ## References
#
# - G. J. Székely, M. L. Rizzo (2013). *Energy statistics: A class of statistics based on distances.* Journal of
#   Statistical Planning and Inference 143(8).
#   [doi:10.1016/j.jspi.2013.03.018](https://doi.org/10.1016/j.jspi.2013.03.018)
# - I. J. Schoenberg (1938). *Metric Spaces and Positive Definite Functions.* Transactions of the American
#   Mathematical Society 44(3). [doi:10.1090/S0002-9947-1938-1501980-0](https://doi.org/10.1090/S0002-9947-1938-1501980-0)
# - J. W. Tukey (1958). *Bias and Confidence in Not-Quite Large Samples* (abstract). Annals of Mathematical Statistics
#   29(2). [doi:10.1214/aoms/1177706647](https://doi.org/10.1214/aoms/1177706647)
# - D. Wood and others (2023). *A Unified Theory of Diversity in Ensemble Learning.* JMLR 24.
#   [arXiv:2301.03962](https://arxiv.org/abs/2301.03962)

# %% [markdown] tags=["way"]
# ↑ Back: [33. Predictions](33_predictions.ipynb)
#
# → Next: [34. The generalisation bound](34_generalization_bound.ipynb)
