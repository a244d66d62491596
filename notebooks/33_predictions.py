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
# # 33. Predictions
#
# **Question.** Two output layers differ in perplexity: in which predictions do they differ?

# %% [markdown]
# ## What you will learn
#
# - to read a table of likeliest words without taking a hand-picked context for evidence;
# - to divide a difference of perplexity among words, by how frequent and how likely they are;
# - to tell what a bootstrap over tokens can show from what only further seeds can.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 5](05_tying_and_augmented_loss.ipynb) on the augmented loss, [lesson
# 9](09_mixtures.ipynb) on mixtures, and [notebook 23](23_run_a_batch.ipynb) on pairs of runs. Nothing is
# trained: this notebook reads what kept results say of their predictions, and the figures that the papers
# printed.
#
# | profile | minutes | runs on |
# |---|---|---|
# | smoke | 0.2 | any CPU |
# | quick | 0.2 | any CPU |
# | standard | 0.2 | any CPU |
# | full | 0.2 | any CPU |
#
# On Google Colab, run this in a first cell and restart the session:
#
# `!git clone -q https://github.com/output-embedding-course/output-embedding-course && pip install -q -c output-embedding-course/constraints.txt -e "./output-embedding-course[lab]"`

# %% tags=["parameters"]
PROFILE = "quick"  # all profiles read the same results
OWN = []  # folders of finished runs of yours, to count as kept ones do
CONTEXTS = [1, 2, 4, 8, 15]  # numbers of the contexts that are shown whole

# %%
import numpy as np
from IPython.display import Markdown, display

from course_lab import evidence, plots, predictions, published
from course_lab.progress import check

of = evidence.read(OWN)
runs = predictions.chosen(of)
family = predictions.name_of(runs) or "no family"
ours = predictions.own_words(runs)
printed = predictions.printed_words()

# %% [markdown]
# ## Predict
#
# A mixture of softmaxes has a perplexity 3 % below that of one softmax. Take the five likeliest words of both
# models at one place of the text. How many of the five do the two models share? And where does the gain come
# from: from a few words that became much likelier, or from most of them, a little each?

# %% [markdown]
# ## What is here
#
# Methods are compared within a *family*: one model, text and budget. The predictions below belong to the family
# in which the most methods have kept their predictions.

# %%
methods = sorted({run.method for run in runs})
seeds = sorted({run.seed for run in runs})
display(Markdown(
    f"*Family `{family}`, {len(runs)} of its runs. Methods: "
    f"{', '.join(methods) or 'none'}. Seeds: "
    f"{', '.join(map(str, seeds)) or 'none'}. "
    f"{evidence.done_of(of, 'desk')}*"
))  # fmt: skip

# %% [markdown]
# ## Eighteen contexts
#
# parthiban2021's Table S2 has the five likeliest words of ten models at 18 places of the Penn Treebank's test
# split. The authors of the mixture of softmaxes had picked six of the places, parthiban2021 picked another
# six, and the last six were drawn at random. One star marks models trained by NT-ASGD, an optimiser that
# averages the weights. Rows with two stars have words at the first six places only. The tables have the
# printed words, as far as they could be read, and the words of our models. The word that really follows is in
# the heading.

# %%
places = published.contexts("S2").set_index("number")
for number in CONTEXTS:
    place, word = places.loc[number, ["place", "next"]]
    display(Markdown(f"**Context {number}: the next word is “{word}”.**"))
    display(predictions.beside(ours, printed, place))

# %% [markdown]
# How often does the right word come first, and how often is it among five? The readable part of the printed
# table differs from model to model, so each share has its own number of contexts:

# %%
right = predictions.right_words(ours, printed)
right.round(2)

# %% [markdown]
# In the rows with two stars, all of hand-picked contexts, the mixture of softmaxes has the right word in all
# four readable contexts, and the mixture of contexts has it in none of five. Such a result looks decisive,
# but it cannot be: whoever picks places where one model is right chooses the result.
#
# Eighteen contexts say little. Newer results of ours keep the same shares over all tokens of the test split:

# %%
over_all = predictions.right_of_all(runs)
none = "*No run of this family keeps these shares so far.*"
display(over_all if len(over_all) else Markdown(none))

# %% [markdown]
# Over all contexts, how much do models agree? Two *layers* differ in what they compute. Two *seeds* of one
# layer differ in nothing but chance. Where two layers share as many words as two seeds do, the likeliest
# words do not tell the layers apart. The column *pairs* counts every pair of models at every context. Two layers
# of ours share their seed.

# %%
shared = predictions.shared_words(ours, printed)
shared.round(2)

# %%
# NBVAL_CHECK_OUTPUT
by_print = predictions.shared_words(ours.iloc[:0], printed)
by_layer = by_print.loc["two layers in print", "shared of five"]
print(f"two printed layers share {by_layer:.1f} of five words")
gain = np.tile([1.0, -1.0], 500)  # a mean of 0 in every block
low_high = predictions.bootstrap(gain)
print("gains of 1 and -1 in turn have the interval", low_high)

# %% [markdown]
# ## inan2017's Table 4
#
# The paper's Table 4 shows what the augmented loss does with the five likeliest words after four phrases of
# the test split. The paper prints these words without their probabilities, so there is no number to compare.
# Our table has the probability that our models give to the word that follows:

# %%
follows = predictions.next_words(runs)
display(follows.round(4))
for four in published.contexts("4").itertuples():
    best = predictions.beside(ours, ours[:0], four.place)
    if len(best):  # newer results keep the five likeliest words here
        said = f"**{four.phrase}: the next word is “{four.next}”.**"
        display(Markdown(said), best)

# %% [markdown]
# The paper makes a claim that can be tested on every token. With tying and the augmented loss together, the
# words “&lt;unk&gt;”, “a”, “an” and “the” are predicted with *less* probability, because they are near to no
# other word. A family without the augmented loss can test only the part of tying. The table has the mean
# probability of each word over seeds. *There* means the places where it is the next word, and *elsewhere*
# means all other places. The probabilities are small, so we compare their logarithms: a difference is 100 times
# that of logarithms, nearly per cent, and a difference of 1 counts as none.

# %%
watched = predictions.watched(runs)
means = watched.groupby(["word", "method"], sort=False)
display(means[["there", "elsewhere"]].mean().unstack("word").round(4))
base = "untied" if "untied" in methods else "tied"
watched["log"] = np.log(watched.elsewhere)
elsewhere = predictions.differences(watched, "word", "log", base)
display(Markdown(
    f"*Elsewhere, against {base}, in hundredths of log probability: "
    f"{len(elsewhere)} comparisons with two seeds or more.*"
))  # fmt: skip
elsewhere.round(3) if len(elsewhere) else None

# %% [markdown]
# ## Loss by frequency
#
# Perplexity comes from a mean over tokens, and a handful of words make up a large share of the tokens. A
# remedy for rare words should lower the loss where the words are rare. The table has the loss in nats a
# token, by how often a word occurs in the training split. Its last four rows are single words, which the
# groups above hold, too. Below are the differences from the tied softmax in hundredths of a nat, with 95 %
# intervals over seeds. The last table has the groups of words in which a method surely differs:

# %%
losses = predictions.by_group(runs)
wide = losses.groupby(["group", "method"], sort=False).loss.mean()
tokens = losses.groupby("group", sort=False).tokens.first()
table = wide.unstack("method")
table.insert(0, "tokens", tokens)
display(table.round(2))

# %%
changes = predictions.differences(losses, "group", "loss", "tied")
names = changes.difference.abs().groupby("method").max()
names = names.sort_values(ascending=False).index[:5]
groups = predictions.decades(losses)
x = predictions.occurrences(groups)
curves = {name: (x, predictions.gaps(losses, name, "tied"))
          for name in names}  # fmt: skip
ylabel = "loss − the softmax's, 0.01 nats"
if not len(curves):
    by_word = losses.groupby("group").loss.mean().reindex(groups)
    curves, ylabel = {"": (x, by_word)}, "loss, nats a token"

# %%
if len(runs):
    title = "The rarer a word, the greater its loss"
    if len(names):
        title = f"{len(names)} methods that differ most from the softmax"
    xlabel = "occurrences in training, at least"
    plots.show(
        plots.lines(curves, xlabel, ylabel, "x", title=title),
        alt=f"Loss by frequency of the word in training. {title}. "
        f"Methods: {', '.join(names) or 'the tied softmax alone'}.",
    )
surely = changes[changes.verdict.isin(["lower", "higher"])]
surely.round(2) if len(surely) else None

# %% [markdown]
# ## Calibration
#
# Where a model gives its likeliest word a probability of about 0.3, this word should be right three times in
# ten. The *expected calibration error* sorts all places into ten bins by this probability. The error is the
# mean distance between the probability and the share of right words, in which each bin weighs by its tokens.
# *Min* and *max* are over seeds. The column *confident* has the same mean with its sign, which is above 0
# where the probabilities are too great.

# %%
bins = predictions.calibration(runs)
errors = predictions.calibration_error(bins)
display(errors.round(4))

# %%
extremes = [*errors.index[:1], *errors.index[-1:]]  # least, greatest
shown = dict.fromkeys([*set(methods) & {"tied"}, *extremes])
mean = bins.groupby(["method", "bin"])[["probability", "right"]].mean()
curves = {}
for name in shown:
    probability, are_right = mean.loc[name].to_numpy().T
    curves[name] = (probability, are_right - probability)

# %% tags=["hide-input"]
if len(errors):
    span = sorted({f"{error:.3f}" for error in errors["mean"]})
    title = f"Calibration error: {' to '.join(span[:1] + span[1:][-1:])}"
    xlabel = "probability of the likeliest word"
    ylabel = "share right − probability"
    figure = plots.lines(curves, xlabel, ylabel, title=title)
    figure.axes[0].axhline(0, color=plots.INK, linewidth=1)
    plots.show(
        figure,
        alt="How much more often the likeliest word is right than its "
        "probability says, against this probability, for "
        f"{', '.join(shown)}; 0 is calibrated. {title}.",
    )

# %% [markdown]
# ## Which tokens gain
#
# Two models read the same test split, so each token has a pair of losses. The difference of the two losses,
# averaged over the seeds that both models have, is the token's *gain*. We compare the tied softmax with the
# method of least validation perplexity among those that share two seeds or more with it. Where no method shares
# a seed with the tied softmax, we compare two models of the same text that differ in more than the output
# layer. The interval of the mean gain comes from a bootstrap over blocks of 100 tokens, because the losses of
# neighbours depend on each other. The interval says how much the gain depends on this text. The interval says
# nothing about another seed.

# %%
pair = predictions.two(of, runs)
kept_losses = [predictions.token_losses(t.runs.values()) for t in pair]
gain = predictions.gained(*kept_losses[::-1]) if pair else np.empty(0)
if len(gain):
    common = len(kept_losses[0].keys() & kept_losses[1].keys())
    gains = predictions.gain_told(pair, gain, common)
else:
    gains = "no two settings with losses of tokens are kept"
display(Markdown(f"*{gains}.*"))

# %% [markdown]
# The table sorts the tokens into classes by the geometric mean of the probabilities that *both* models gave
# them, $e^{-(\ell_1+\ell_2)/2}$. The column *part* has what a class adds to the mean gain over all tokens. If
# we sorted by the loss of one model alone, its worst tokens would gain with any other model. Such a gain is
# regression to the mean, and no finding.

# %%
likely = predictions.by_likelihood(*(kept_losses[::-1] or [{}, {}]))
likely.round(4)

# %%
spread_said = ""
if len(gain):
    shares = np.linspace(0, 1, 101)
    part = predictions.concentration(gain, shares)
    up = (gain > 0).mean()
    most = likely.part.abs().idxmax()
    spread_said = (
        f" {up:.0%} of the tokens gain. The tenth that changes most makes "
        f"{part[10]:.0%} of all change. The class of probabilities {most} "
        f"adds {likely.part[most]:+.3f} nats, the most of all classes."
    )

# %%
if len(gain):
    title = f"{up:.0%} of tokens gain, and a tenth make {part[10]:.0%}"
    title += " of all change"
    plots.show(
        plots.lines({"": (shares, part)}, "share of the tokens",
                    "share of all change", title=title),
        alt="Share of the sum of absolute gains that the most changed "
        f"tokens make up, rising steeply at first. {title}.",
    )  # fmt: skip

# %% [markdown]
# ## Samples
#
# Here is what each model writes when words are drawn from its distribution. A sample is one draw, which shows
# how a model writes and ranks no model.

# %%
texts = predictions.samples(runs)
lines = [f"- **{name}**: {text}" for name, text in texts.items()]
display(Markdown("\n".join(lines).replace("<", "&lt;") or "*None kept.*"))

# %% [markdown]
# ## What would change the answer
#
# - **More methods, and five seeds each.** The sentence under *What is here* says how many runs of the plan
#   are kept. More seeds would narrow the intervals above.
# - **The right word among five over all tokens, for more methods.** Newer results keep these shares. The plan `desk`
#   makes them for every method.
# - **Another text.** The bootstrap speaks for texts like this one, newspaper English of 1989.
# - **Words that mean nearly the same.** A loss counts a near miss as a miss. Only the lists of likeliest words
#   show a near miss.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $P(w \mid h)$ | `ours.probability` | probability of a word at a place |
# | $\ell_1, \ell_2$ | `kept_losses` | losses of a token by the two models, in nats |
# | $\ell_1 - \ell_2$ | `gain` | what the token gains |

# %% [markdown]
# ## Exercises
#
# ### 1. The calibration error
#
# *Difficulty 1/3, importance 3/3, ten minutes.* Assign to `error_of` a function of three arrays, a number for
# each bin: tokens, mean greatest probability, share right. The function returns the expected calibration error.
#
# <details><summary>Hint</summary>
#
# The mean of |share right − probability| in which each bin weighs by its tokens.
#
# </details>

# %% tags=["exercise"]
error_of = None  # a function of tokens, probability and right


# %%
def as_weighed(error_of):
    tokens = np.array([700, 200, 100])
    p, right = np.array([0.1, 0.5, 0.9]), np.array([0.1, 0.4, 1.0])
    value = error_of(tokens, p, right)
    if abs(value - np.abs(right - p).mean()) < 1e-6:
        return "each bin weighs as many tokens as it has"
    if abs(value - abs(np.sum(tokens * (right - p)) / 1000)) < 1e-6:
        return "bins of opposite sign must not cancel"
    return abs(value - 0.03) < 1e-6


check("33.1", error_of, as_weighed)

# %% [markdown]
# ### 2. A few words
#
# *Difficulty 2/3, importance 2/3, ten minutes.* A method lowers perplexity by 2 %, and only the 30 % rarest
# tokens gain, all by the same. By how many nats does each of them gain? Assign the number to `each`.
#
# <details><summary>Hint</summary>
#
# The mean gain over all tokens is $-\log 0.98$.
#
# </details>

# %% tags=["exercise"]
each = None  # nats


# %%
def shared_by_few(each):
    if abs(each + np.log(0.98)) < 1e-4:
        return "that is the mean over all tokens"
    return abs(each + np.log(0.98) / 0.3) < 1e-3


check("33.2", each, shared_by_few)

# %% [markdown]
# ## What we saw

# %%
own = right["among five"].filter(like="ours")
among = [f"{n.split(',')[0]} {share:.0%}" for n, share in own.items()]
among = ", ".join(among) or "untested, as no run is kept"
differ = ~changes.verdict.str.startswith(("undecided", "no difference"))
groups_said = "By frequency no two methods are compared, because no two "
groups_said += "methods of this family share two seeds"
if len(changes):
    groups_said = f"In {int(differ.sum())} of {len(changes)} pairs of a "
    groups_said += "method and a group of words the corrected test finds "
    groups_said += "a difference from the tied softmax"

# %%
display(
    Markdown(
        f"Two printed layers share {by_layer:.1f} of their five best "
        "words at the paper's contexts. How often our models have the "
        f"right word among five: {among} (runs of `{family}`).\n\n"
        f"{groups_said}.\n\nBy tokens, {gains}.{spread_said}"
    )
)

# %% [markdown]
# ## References
#
# - D. Parthiban, Y. Mao, D. Inkpen (2021). *On the Softmax Bottleneck of Recurrent Language Models.*
#   AAAI. Figure 3 and Table S2.
# - H. Inan, K. Khosravi, R. Socher (2017). *Tying Word Vectors and Word Classifiers: A Loss Framework for
#   Language Modeling.* ICLR. Section 6.4 and Table 4.
# - Z. Yang, Z. Dai, R. Salakhutdinov, W. W. Cohen (2018). *Breaking the Softmax Bottleneck: A High-Rank
#   RNN Language Model.* ICLR. [arXiv:1711.03953](https://arxiv.org/abs/1711.03953)
# - C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger (2017). *On Calibration of Modern Neural Networks.* ICML.
#   [arXiv:1706.04599](https://arxiv.org/abs/1706.04599)

# %% [markdown] tags=["way"]
# ← Previous: [32. Word similarity](32_word_similarity.ipynb)
#
# → Next: [34. The generalisation bound](34_generalization_bound.ipynb)
