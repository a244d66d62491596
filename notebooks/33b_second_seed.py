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
# **Question.** Does a remedy change what a model predicts by more than another seed does, and what do several seeds reach together?
#
# This notebook goes on where [lesson 33](33_predictions.ipynb) stops. Nothing later needs it.

# %% [markdown]
# ## What you will learn
#
# - to compute what the mean probability of several models gains, from losses that are kept;
# - to measure how far two models disagree, and how far two methods differ beyond a seed;
# - to ask of a remedy whether its gain is still there when seeds are averaged.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 33](33_predictions.ipynb), whose symbols this notebook uses, and [lesson
# 9](09_mixtures.ipynb) on mixtures.
#
# **Reading.** 2 minutes. **Difficulty.** 2 of 3.
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
from IPython.display import Markdown, display

from course_lab import averaging, evidence, families, plots, predictions
from course_lab.progress import check

of = evidence.read(OWN)
every = predictions.chosen(of)
runs, _ = predictions.sort_out(of, every)
marks = families.other_precisions(runs)
alike = [run for run in runs if run.method not in marks]
losses = averaging.losses_of(alike)
family = predictions.name_of(every) or "no family"

# %% [markdown]
# ## Predict
#
# Two tied softmaxes are trained alike but for their seeds. Their perplexities are equal to about one per cent.
# The two models read the same text, and their probabilities are averaged. By how many per cent is the perplexity
# of the mean below theirs: 0.5, 2 or 6? And a tied softmax with the cosine penalty is trained from a third seed.
# Does it disagree with the two models more than they disagree with each other?

# %% [markdown]
# ## The mean of two models
#
# A model gives the right word at a place the probability $p = e^{-\ell}$, where $\ell$ is its loss. The mean of
# two models gives it $(p_1+p_2)/2$, and its loss is $-\log$ of that. So the losses of the mean follow from the
# losses that both runs keep, one number for each token of the test split. No model has to be loaded.
#
# The mean is never worse than the two models are on average. With $\delta = \ell_1-\ell_2$, the loss of the mean
# lies below $(\ell_1+\ell_2)/2$ by
#
# $$ -\log\frac{\sqrt{p_1 p_2}}{(p_1+p_2)/2} = \log\cosh\frac{\delta}{2}. $$
#
# This number is 0 where both models give the word the same probability, and about $\delta^2/8$ where they nearly
# do. Its mean over all tokens, in per cent, is what the mean of two models gains. It is also a measure of how far
# the two models disagree, and we call it their *disagreement* $d$. It looks at the right word of each place only.

# %%
# NBVAL_CHECK_OUTPUT
rng = np.random.default_rng(1)
first, second = rng.gamma(2.0, 2.0, (2, 1_000))  # losses, in nats
both = averaging.mean_losses([first, second])
naive = -np.log((np.exp(-first) + np.exp(-second)) / 2)
gain = 100 * ((first + second) / 2 - both).mean()
d = averaging.disagreement(first, second)
print("the mean of probabilities:", np.allclose(both, naive))
print("it gains the disagreement:", bool(np.isclose(gain, d)))

# %% [markdown]
# ## What a second seed gains
#
# Methods are compared within the family of [lesson 33](33_predictions.ipynb), those that beat Kneser-Ney of order
# 5 and compute in the precision of the tied softmax. In the table *one* is the perplexity of a single model, *two* that of the mean of two
# seeds, and *every* that of the mean of all seeds. The first two are geometric means. The column *gain* has the
# mean disagreement of two seeds in per cent, with its 95 % interval where there are three seeds or more. The pairs of one seed
# depend on each other, so the interval is the jackknife's: it tells how much the gain moves when a seed is left out.

# %%
means = averaging.means(losses)
means.loc[:, "seeds":"high"].astype(float).round(2)

# %%
gain_said = "no method has two seeds with losses of tokens"
if len(means):
    low, high = means.gain.min(), means.gain.max()
    gain_said = (
        f"the perplexity of the mean of two seeds lies {low:.1f} to "
        f"{high:.1f} % below that of one model, over {len(means)} methods"
    )
display(Markdown(f"*In `{family}` {gain_said}.*"))

# %% [markdown]
# A mean of $K$ softmax models is a mixture of softmaxes in the sense of [lesson 9](09_mixtures.ipynb): its weights are
# constant, and every component has an encoder and a word matrix of its own. Its $\log P$ is therefore not bound to
# the rank $d+1$. It costs $K$ times the parameters, the training and the time of a prediction, where the mixture of
# lesson 9 shares the encoder. A fair comparison with a single model has to name this price.

# %% [markdown]
# ## Beyond a seed
#
# Models of two methods $A$ and $B$ always disagree, since two seeds of one method do. What the methods add is
#
# $$ D(A,B) = \mathrm{E}\,d(A_i,B_j) - \tfrac12\big(\mathrm{E}\,d(A_i,A_j)+\mathrm{E}\,d(B_i,B_j)\big),
# \qquad i \neq j . $$
#
# This is an *energy distance*. The function $\log\cosh$ is of negative type: every power of $1/\cosh$ is positive
# definite, which by a theorem of Schoenberg is the same. So $D$ is never negative over all seeds. It is 0 only if
# both methods give each token the same distribution of losses. Its estimate from few seeds may lie below 0.
#
# Two models of one seed share their start and the order of their batches, and they disagree less. Only pairs
# of different seeds count here.

# %%
beyond = averaging.beyond_a_seed(losses)
beyond.astype(float).round(2)

# %% tags=["hide-input"]
if len(beyond):
    least, *_, most = beyond.beyond
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
beyond_said = "no method shares three seeds with `tied`"
if len(beyond):
    part = 100 * beyond.beyond / beyond.own
    small = ", ".join(f"`{m}`" for m in part.index[part < 10])
    beyond_said = (
        f"what the methods differ from `tied` beyond a seed is "
        f"{part.min():.0f} to {part.max():.0f} % of what two seeds of one "
        f"method disagree. Below a tenth: {small or 'none'}"
    )
display(Markdown(f"*In `{family}` {beyond_said}.*"))

# %% [markdown]
# **Figure 1.** A remedy can change the perplexity of every model by little, and always in one direction: then it is better, and
# its predictions are those of another seed. Or it can change the predictions much and the perplexity hardly. The
# length of the coloured part tells the two apart. It says nothing about better or worse. Spectrum control begins at
# a scale that nobody has searched, as [notebook 30](30_leaderboard.ipynb) says, so its bar is that of one scale.

# %% [markdown]
# ## Together
#
# A mean of seeds takes away what differs from seed to seed. A remedy that only takes away the same has nothing left to
# gain. The figure has each method's difference from the tied softmax for single models, and for the means of all
# seeds that both have.

# %% tags=["hide-input"]
others = means[means.single.notna() & (means.index != "tied")]
together_said = "no method shares two seeds with `tied`"
if len(others):
    most = (others.together - others.single).abs().idxmax()
    told = others.loc[most]
    together_said = (
        f"`{most}` stands {told.single:+.1f} % from `tied` as a single "
        f"model, {told.together:+.1f} % as a mean of its "
        f"{told.seeds:.0f} seeds"
    )
    plots.show(
        plots.single_and_together(means, "tied", together_said),
        alt="A ring and a mark for each method: its difference from the "
        f"tied softmax alone and as a mean of seeds. {together_said}.",
    )

# %%
others[["seeds", "single", "together"]].astype(float).round(2)

# %% [markdown]
# **Figure 2.** A method whose mark lies nearer to 0 than its ring gains or loses mostly what a mean of seeds takes
# away. Where the mark lies farther out, the method and the mean of seeds add up. Means of more seeds move the marks.
# No interval stands here, because there is one mean of all seeds.

# %% [markdown]
# ## What would change the answer
#
# - **More seeds.** The plan `desk` asks for five of each method. A method with two has no interval.
# - **A better tuned model.** Where models overfit, their seeds disagree more and a mean gains more.
# - **All words of a place.** Kept losses are those of the right word. Two models can agree on it and
#   disagree on all others.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $\ell_1, \ell_2$ | `first`, `second` | losses of the tokens by two models, in nats |
# | $\delta$ | `first - second` | difference of the losses of a token |
# | $d$ | `averaging.disagreement` | mean of $\log\cosh(\delta/2)$ over the tokens, in per cent |
# | $A_i$ | `losses[method][seed]` | the model of method $A$ and seed $i$ |
# | $D$ | `beyond.beyond` | what two methods differ beyond a seed, in per cent |

# %% [markdown]
# ## Exercises
#
# ### 1. Many models
#
# *Difficulty 1/3, importance 3/3, ten minutes.* Assign to `gain_of` a function of a list of arrays: the losses of
# the same tokens by $K$ models, in nats. The function returns by how many per cent (100 times a difference of
# logarithms) the perplexity of the mean lies below the geometric mean of the $K$ perplexities.
#
# <details><summary>Hint</summary>
#
# Average the probabilities of each token over the models first. The geometric mean of perplexities is the mean of
# the losses.
#
# </details>

# %% tags=["exercise"]
gain_of = None  # a function of a list of arrays


# %%
def as_averaged(gain_of):
    models = list(np.random.default_rng(2).gamma(2.0, 2.0, (4, 500)))
    mean = averaging.mean_losses(models).mean()
    value, right = gain_of(models), 100 * (np.mean(models) - mean)
    if np.isclose(value, -right):
        return "the mean is better, so its gain is above 0"
    if np.isclose(value, right / 100):
        return "that is in nats; per cent are 100 times as many"
    if abs(value) < 1e-9:
        return "a mean of losses gains nothing: average probabilities"
    return bool(np.isclose(value, right))


check("33b.1", gain_of, as_averaged)

# %% [markdown]
# ### 2. How far apart?
#
# *Difficulty 2/3, importance 2/3, ten minutes.* The mean of two models gains 5 %. Suppose that their losses of
# every token differ by the same amount, once one way and once the other. By how many nats? Assign the number to
# `apart`.
#
# <details><summary>Hint</summary>
#
# Solve $\log\cosh(\delta/2) = 0.05$. The approximation $\delta^2/8$ is near enough.
#
# </details>

# %% tags=["exercise"]
apart = None  # nats


# %%
def far_enough(apart):
    if np.isclose(apart, np.arccosh(np.exp(0.05)), rtol=0.02):
        return "that is half of it: the cosine is of δ/2"
    if apart > 2:
        return "5 % are 0.05 nats"
    return bool(np.isclose(apart, 2 * np.arccosh(np.exp(0.05)), rtol=0.02))


check("33b.2", apart, far_enough)

# %% [markdown]
# ## What we saw

# %%
display(
    Markdown(
        f"In `{family}`, {gain_said}.\n\n"
        f"Over different seeds, {beyond_said}.\n\n"
        f"The mean of seeds changes this method most: {together_said}."
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
# - J. W. Tukey (1958). *Bias and Confidence in Not-Quite Large Samples.* Annals of Mathematical Statistics 29.
# - Z. Yang, Z. Dai, R. Salakhutdinov, W. W. Cohen (2018). *Breaking the Softmax Bottleneck: A High-Rank
#   RNN Language Model.* ICLR. [arXiv:1711.03953](https://arxiv.org/abs/1711.03953)

# %% [markdown] tags=["way"]
# ↑ Back: [33. Predictions](33_predictions.ipynb)
#
# → Next: [34. The generalisation bound](34_generalization_bound.ipynb)
