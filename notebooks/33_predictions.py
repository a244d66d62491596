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
CONTEXTS = [1, 8, 15]  # numbers of the contexts that are not folded up

# %%
import numpy as np  # noqa: I001
from IPython.display import HTML, Markdown, display

from course_lab import claims, evidence, families, likely_words, plots
from course_lab import predictions, published, token_gains
from course_lab.progress import check
from course_lab.tables import with_ngrams

of = evidence.read(OWN)
every = predictions.chosen(of)
runs, losing = predictions.sort_out(of, every)
family = predictions.name_of(every) or "no family"

# %%
declared = families.declared(family)
marks = families.other_precisions(runs)
marked = {"method": marks}  # to replace names in tables
alike = [run for run in runs if run.method not in marks]
ours = likely_words.own_words(runs).replace(marked)
printed = likely_words.printed_words()

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
# in which the most methods have kept their predictions. The methods come from lessons
# [5](05_tying_and_augmented_loss.ipynb) to [11b](11b_more_remedies.ipynb). The method `tied-then-untied` shares
# one matrix for two thirds of the training, as [lesson 12](12_record_holders.ipynb) explains. We leave out models
# that predict worse than Kneser-Ney of order 5, by the rule of [notebook 30](30_leaderboard.ipynb). A method that
# computes in another precision than the tied softmax has its precision behind its name, because a part of its
# difference may come from the precision.

# %%
methods = sorted({marks.get(run.method, run.method) for run in runs})
seeds = sorted({run.seed for run in runs})
lost = {run.method: run.perplexity("test") for run in losing}
lost = [f"{name} (test perplexity {p:,.0f})" for name, p in lost.items()]
planned = [run for _, run in evidence.of_plan(of, "desk")]
in_plan = sum(run in planned for run in every)
display(Markdown(
    f"*Family `{family}`, {len(every)} runs, of which {in_plan} belong to "
    f"the plan `desk` with its {len(planned)} runs. Methods: "
    f"{', '.join(methods) or 'none'}. Seeds: "
    f"{', '.join(map(str, seeds)) or 'none'}. Left out, because they lose "
    f"to Kneser-Ney 5: {', '.join(lost) or 'none'}.*"
))  # fmt: skip

# %% [markdown]
# ## Eighteen contexts
#
# parthiban2021's Table S2 has the five likeliest words of ten models at 18 places of the Penn Treebank's test
# split. The authors of the mixture of softmaxes had picked six of the places, parthiban2021 picked another
# six, and the last six were drawn at random. Below is one context of each kind, and all eighteen are folded up behind
# it. One star marks models trained by
# NT-ASGD, an optimiser that averages the weights once the validation loss stalls ([lesson
# 9b](09b_inside_a_mixture.ipynb)). Rows with two stars have words at the first six places only. The tables have the
# printed words, as far as they could be read, and the words of our models. The word that really follows is in
# the heading.

# %%
places = published.contexts("S2").set_index("number")
for number in CONTEXTS:
    place, word = places.loc[number, ["place", "next"]]
    display(Markdown(f"**Context {number}: the next word is “{word}”.**"))
    display(likely_words.beside(ours, printed, place))

# %%
page = "<summary>All eighteen contexts</summary>"
for number, place in places.iterrows():
    best = likely_words.beside(ours, printed, place.place)
    said = f"Context {number}: the next word is “{place.next}”."
    page += f"<p><b>{said}</b></p>{best.to_html()}"
display(HTML(f"<details>{page}</details>"))

# %% [markdown]
# How often does the right word come first, and how often is it among five? The readable part of the printed
# table differs from model to model, so each share has its own number of contexts:

# %%
right = likely_words.right_words(ours, printed)
right.round(2)

# %% [markdown]
# In the rows with two stars, all of hand-picked contexts, the mixture of softmaxes has the right word among its
# five in all four readable contexts, though never first. The mixture of contexts has it among its five in none
# of five. Such a result looks decisive, but it cannot be: whoever picks places where one model is right chooses
# the result.
#
# Eighteen contexts say little. Many results of ours keep the same shares over all tokens of the test split:

# %%
over_all = likely_words.right_of_all(runs).rename(index=marks)
none = "*No run of this family keeps these shares so far.*"
display(over_all if len(over_all) else Markdown(none))
among = likely_words.orders_told(alike, right) or none
display(Markdown(among))

# %% [markdown]
# How many of their five likeliest words do two models share? Two *methods* differ in the output layer, the loss,
# a penalty or the optimiser. Two *seeds* of one method differ in nothing but chance. Where two methods share as
# many words as two seeds do, the likeliest words do not tell the methods apart. Two methods of one seed have their
# start and their batches in common, and two seeds of one method do not. So the sentence below the table compares the
# seeds with two methods *of two seeds*. The column *pairs* counts every pair of models at every context. Models of
# another precision are left out.

# %%
words_alike = likely_words.own_words(alike)
pairs = likely_words.pairs_of_lists(words_alike, printed)
display(likely_words.shared_words(pairs).round(2))
lists = likely_words.apart_told(pairs)
lists = lists or "*No two methods of ours can be compared so far.*"
display(Markdown(lists))

# %%
# NBVAL_CHECK_OUTPUT
by_print = likely_words.pairs_of_lists(ours.iloc[:0], printed)
by_method = likely_words.shared_words(by_print)["shared of five"].iloc[0]
print(f"two printed methods share {by_method:.1f} of five words")
gain = np.tile([1.0, -1.0], 500)  # a mean of 0 in every block
low_high = token_gains.bootstrap(gain)
print("gains of 1 and -1 in turn have the interval", low_high)

# %% [markdown]
# ## inan2017's Table 4
#
# The paper's Table 4 shows the likeliest words after four phrases of the test split, for an untied model and for one with
# both remedies. The paper prints no probabilities. The words themselves are missing in the text of the paper that we
# read, so they are not here. Our table has the probability of the word that follows each phrase, the mean over
# seeds, and below it are our five words.

# %%
follows = likely_words.next_words(runs).drop(columns="phrase").T
display(follows.rename(index=marks).round(3))
for phrase in published.contexts("4").itertuples():
    best = likely_words.beside(ours, ours[:0], phrase.place)
    if len(best):  # newer results keep the five likeliest words here
        said = f"**{phrase.phrase}: the next word is “{phrase.next}”.**"
        display(Markdown(said), best)

# %% [markdown]
# The paper's claim can be tested on every token: with tying and the augmented loss together, the words
# “&lt;unk&gt;”, “a”, “an” and “the” are predicted with *less* probability, because they are near to no other
# word.
#
# The table has the mean probability of each word over seeds. *There* means the places where it is the next word,
# and *elsewhere* means all other places. The probabilities are small, so we compare their logarithms: a
# difference is 100 times that of logarithms, nearly per cent, and a difference of 1 counts as none. The column *p*
# is corrected by Holm for two methods times four words. A verdict of *undecided* says how many seeds would decide.

# %%
watched = predictions.watched(runs)
remedies = ["untied", "tied", "tied-augmented"]
watched = watched[watched.method.isin(remedies)]
means = watched.groupby(["word", "method"], sort=False)
display(means[["there", "elsewhere"]].mean().unstack("word").round(4))
watched = watched.assign(log=np.log(watched.elsewhere))
elsewhere = predictions.differences(
    watched, "word", "log", "untied", declared=len(remedies) - 1
)
elsewhere.round(3) if len(elsewhere) else None

# %%
four = []
for name, rows in elsewhere.groupby("method"):
    less = rows[rows.verdict == "lower"].index.get_level_values("word")
    less = ", ".join(f"“{word}”" for word in less) or "none"
    four.append(f"in `{name}` {less} ({rows.n.min()} pairs of seeds)")
four = ", ".join(four) or "untested, as no two methods share two seeds"
four = (
    "Where another word follows, these of inan2017's four words surely "
    f"have less probability than in `untied`: {four}."
)
four = four.replace("<", "&lt;")
display(Markdown(four))

# %% [markdown]
# ## Loss by frequency
#
# Perplexity comes from a mean over tokens, and a handful of words make up a large share of the tokens. A
# remedy for rare words should lower the loss where the words are rare. The table has the loss in nats a
# token, by how often a word occurs in the training split. Below are the differences from the tied softmax in
# hundredths of a nat, with 95 % intervals over seeds. The last table has the groups of words in which a method
# surely differs. Its *p* is corrected by Holm for every method that the family declares, times the groups of words.
# Methods without runs so far count, too.

# %%
every_loss = predictions.by_group(runs).replace(marked)
groups = predictions.decades(every_loss)
losses = every_loss[every_loss.group.isin(groups)]
wide = losses.groupby(["group", "method"], sort=False).loss.mean()
tokens = losses.groupby("group", sort=False).tokens.first()
table = wide.unstack("method")
table.insert(0, "tokens", tokens)
display(table.round(2))

# %%
changes = predictions.differences(
    losses, "group", "loss", "tied", declared=len(declared)
)
surely = changes[changes.verdict.isin(["lower", "higher"])]
names = changes.difference.abs().groupby("method").max()
names = names.sort_values(ascending=False).index[:5]
x = predictions.occurrences(groups)
curves = {name: (x, predictions.gaps(losses, name, "tied"))
          for name in names}  # fmt: skip
frequency = predictions.frequency_told(changes, table.tokens)
title = frequency.partition(":")[0]

# %% tags=["hide-input"]
if len(curves):
    xlabel = "occurrences in training, at least"
    ylabel = "loss − the softmax's, 0.01 nats"
    plots.show(
        plots.lines(curves, xlabel, ylabel, "x", title=title),
        alt="Difference of the loss from the tied softmax, by frequency "
        f"of the word in training. {title}. The {len(names)} methods that "
        f"differ most: {', '.join(names)}.",
    )

# %% [markdown]
# **Figure 1.** A line is a method's loss less that of the tied softmax. A value below zero is a gain.

# %%
interim = sum(claims.is_interim(family, name.partition(" (")[0], n)
              for (name, _), n in surely.n.items())  # fmt: skip
display(Markdown(
    f"{frequency} Of the {len(surely)} rows below, {interim} are interim, "
    "by fewer than five pairs of seeds, or than are planned."
))  # fmt: skip
surely.round(2) if len(surely) else None

# %% [markdown]
# ### The loss of four words
#
# inan2017's claim is about “&lt;unk&gt;”, “a”, “an” and “the”. What does it cost where one of these words *is* the next
# one? The table has the loss in nats where it is, and the second table the differences from the tied softmax in
# hundredths of a nat, of those methods that surely differ. The correction counts every declared method times the four
# words, which are in the groups above as well.

# %%
of_four = every_loss[~every_loss.group.isin(groups)]
means = of_four.groupby(["method", "group"], sort=False)
four_losses = means.loss.mean().unstack("group").round(2)
tokens = of_four.groupby("group", sort=False).tokens.first()
four_losses = four_losses.astype(object)
four_losses.loc["tokens"] = tokens
display(four_losses)
changed = predictions.differences(
    of_four, "group", "loss", "tied", declared=len(declared)
)
sure = changed[changed.verdict.isin(["lower", "higher"])]
sure.round(2) if len(sure) else Markdown("*No method surely differs.*")

# %%
share = tokens.sum() / table.tokens.sum() if len(table) else np.nan
said = [f"`{name}` ({len(rows)} of {len(tokens)})"
        for name, rows in sure.groupby("method")]  # fmt: skip
four_told = (
    f"The four words are {share:.0%} of the tokens. Their loss surely "
    f"differs from the tied softmax's in {', '.join(said) or 'no method'}."
)
display(Markdown(four_told))

# %% [markdown]
# ## Calibration
#
# Where a model gives its likeliest word a probability of about 0.3, this word should be right three times in
# ten. The *expected calibration error* sorts all places into ten bins by this probability. The error is the
# mean distance between the probability and the share of right words, in which each bin weighs by its tokens.
# *Min* and *max* are over seeds. The column *confident* has the same mean with its sign, which is above 0 where
# the probabilities are too great. Its *standard error* is that of one seed, over the tokens. All seeds read the
# same tokens, so more seeds do not lower it. The title of the figure counts the methods whose *confident* is
# above two of them.
#
# A model that gives the most frequent word its share of the text at every place is well calibrated and useless.
# So the error can be read only among models of similar perplexity, which has a column of its own:

# %%
bins = predictions.calibration(runs).replace(marked)
errors = predictions.calibration_error(bins)
errors.insert(0, "test perplexity", [
    np.mean([r.perplexity("test") for r in runs
             if marks.get(r.method, r.method) == name])
    for name in errors.index
])  # fmt: skip
text = runs[0].setting.text if runs else "no text"
display(with_ngrams(errors.round(4), text))

# %%
empty = predictions.calibration(losing)
useless = [
    f"`{name}` is left out: its calibration error is {error:.3f}, at a "
    f"mean probability of {p:.0%} for its likeliest word, which is right "
    f"in {right:.0%}."
    for name, p, right, error in predictions.likeliest(empty).to_numpy()
]
display(Markdown("\n".join(useless)))

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
    sure = (errors.confident > 2 * errors["standard error"]).sum()
    title = f"{sure} of {len(errors)} methods are too sure of their words"
    xlabel = "probability of the likeliest word"
    ylabel = "share right − probability"
    figure = plots.lines(curves, xlabel, ylabel, title=title)
    (ax,) = figure.axes
    ax.axhline(0, color=plots.INK, linewidth=1)
    if ax.get_legend():  # it would lie on the line of 0
        ax.get_legend().remove()
        figure.legend(loc="outside lower center", ncols=3)

# %% tags=["hide-input"]
if len(errors):
    plots.show(
        figure,
        alt="How much more often the likeliest word is right than its "
        "probability says, against this probability, for "
        f"{', '.join(shown)}; 0 is calibrated. {title}.",
    )

# %% [markdown]
# **Figure 2.** Above zero the likeliest word is right more often than its probability says, and below zero less often.

# %% [markdown]
# ## Which tokens gain
#
# Two models read the same test split, so each token has a pair of losses. The difference of the two losses,
# averaged over the seeds that both models have, is the token's *gain*. We compare the tied softmax with the
# method of least validation perplexity among those of its precision that share two seeds or more with it. The interval of the mean
# gain comes from a bootstrap over blocks of 100 tokens, because the losses of neighbours depend on each other.
# The interval says how much the gain depends on this text. The interval says nothing about another seed.

# %%
pair = token_gains.two(alike)
kept_losses = [token_gains.token_losses(t.runs.values()) for t in pair]
gain = token_gains.gained(*kept_losses[::-1]) if pair else np.empty(0)
if len(gain):
    common = len(kept_losses[0].keys() & kept_losses[1].keys())
    gains = token_gains.gain_told(pair, gain, common)
else:
    gains = "no two methods with losses of tokens are kept"
display(Markdown(f"*{gains}.*"))

# %% [markdown]
# The table sorts the tokens into classes by the geometric mean of the probabilities that *both* models gave
# them, $e^{-(\ell_1+\ell_2)/2}$. The column *part* has what a class adds to the mean gain over all tokens. If
# we sorted by the loss of one model alone, its worst tokens would gain with any other model. Such a gain is
# regression to the mean, and no finding.

# %%
likely = token_gains.by_likelihood(*(kept_losses[::-1] or [{}, {}]))
likely.round(4)

# %%
spread_said = ""
if len(gain):
    shares = np.linspace(0, 1, 101)
    part = token_gains.concentration(gain, shares)
    up = (gain > 0).mean()
    most = likely.part.abs().idxmax()
    spread_said = (
        f" {up:.0%} of the tokens gain. The tenth that changes most makes "
        f"{part[10]:.0%} of all change. The class of probabilities {most} "
        f"adds {likely.part[most]:+.3f} nats, the most of all classes."
    )

# %% tags=["hide-input"]
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
# **Figure 3.** The curve rises steeply: few tokens make most of the change. A straight line from corner to corner would mean that all
# tokens change alike.

# %% [markdown]
# ### Which words gain
#
# The same losses can be sorted by word. The word whose gain is largest in a text has been lucky there, too. So the words
# are chosen in one half of the text, by what each adds to the mean gain, and their gain is measured in the other half.
# The halves are every other block of 100 tokens. The table has the words that add most and those that take most
# away, in the order of the half that *chose* them. All other columns are of the half that measured, with a bootstrap over
# its blocks. The intervals are not corrected for the number of words.

# %%
tokens = token_gains.tokens_of(every[0], len(gain)) if len(gain) else None
words_said = "the test split is not here, so the words are not named"
if tokens is not None:
    words = token_gains.by_word(gain, tokens)
    display(words.round(4))
    up, down = words[words.low > 0], words[words.high < 0]
    named = [", ".join(f"“{w}”" for w in part.index) or "none"
             for part in (up, down)]  # fmt: skip
    words_said = (
        f"of {len(words)} words that one half of the text chose, these "
        f"gain in the other half, with an interval above 0: {named[0]}. "
        f"These lose, with an interval below 0: {named[1]}"
    ).replace("<", "&lt;")
display(Markdown(f"*By words, {words_said}.*"))

# %% [markdown]
# ## Samples
#
# Here is what three models write when words are drawn from their distributions: the method of least validation
# perplexity, the tied softmax and the method of greatest validation perplexity. A sample is one draw, which
# shows how a model writes and ranks no model.

# %%
by_loss = sorted(runs, key=lambda run: run.perplexity("valid"))
three = [run.method for run in (by_loss[:1] + by_loss[-1:])]
three[1:1] = {"tied"} & set(methods)
texts = predictions.samples(runs)
lines = [f"- **{name}**: {' '.join(texts[name].split())}"
         for name in dict.fromkeys(three)]  # fmt: skip
display(Markdown("\n".join(lines).replace("<", "&lt;") or "*None kept.*"))

# %% [markdown]
# ## What would change the answer
#
# - **More methods, and five seeds each.** The sentence under *What is here* says how many runs the plan `desk`
#   lacks. Each of them also keeps the right word among five over all tokens.
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
display(
    Markdown(
        f"{frequency}\n\n{lists}\n\n{among}\n\n{four}\n\n"
        f"{four_told}\n\n"
        f"By tokens, {gains}.{spread_said} By words, {words_said}. "
        f"All are runs of `{family}`."
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
# ↓ Deeper: [33b. Going deeper: a second seed as a yardstick](33b_second_seed.ipynb)
#
# → Next: [34. The generalisation bound](34_generalization_bound.ipynb)
