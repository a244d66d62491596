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
# # 32. Word similarity
#
# **Question.** Can a word-similarity score of the output matrix tell a better model from a worse one?

# %% [markdown]
# ## What you will learn
#
# - to read a benchmark's score with its interval, and to see which benchmarks say nothing here;
# - to see how much of a score comes from the mean row, the common direction of a cone;
# - to judge what it means that one model “wins” on eight of thirteen benchmarks.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 2](02_degeneration.ipynb) on the cone and [notebook 30](30_leaderboard.ipynb).
# Nothing is trained: this notebook reads the scores of kept results, the scores that parthiban2021 published,
# and lists of pairs. The package gensim has two of the thirteen lists, and `python -m course_lab data` says how
# to fetch the others. Without them the section on frequency has two lists. A list, or
# benchmark, has pairs such as *tiger* and *cat* with people's judgement of how similar the two words are.
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

# %%
import numpy as np
import pandas as pd
from IPython.display import Markdown, display
from scipy.stats import binom, binomtest

from course_lab import claims, evidence, families, plots, similarities
from course_lab.corpora import similarity
from course_lab.progress import check
from course_lab.statistics import spearman_interval, written

of = evidence.read(OWN)
scores = similarities.scores(of)
family = "ptb/desk"
fair = scores[scores.beats & (scores.family == family)]

# %% [markdown]
# ## Predict
#
# People judged how similar two words are, on a scale of 0 to 10. A model's answer is the cosine of the two
# words' rows in its output matrix. Its score is Spearman's $\rho$, the rank correlation between the answers and
# the judgements of a list. Take two runs of *one* model that differ in the seed only. On how many of eight
# lists will the first run have the greater score? And how many lists will a model win over a model with another
# output layer?

# %% [markdown]
# ## Names of models
#
# The name of a model has its text, its network and its method. A *family* is one network on one text with one
# budget, so its models differ in their method alone. *The softmax* means the method `tied`, one softmax whose
# output matrix is the word matrix. The method `untied` has two matrices. These lessons explain the other methods:
#
# | lesson | methods |
# |---|---|
# | [5](05_tying_and_augmented_loss.ipynb) | `augmented`, `tied-augmented` |
# | [6](06_cosine_regularization.ipynb) | `cosine` |
# | [7](07_adversarial_softmax.ipynb) | `adversarial` |
# | [8](08_spectrum_control.ipynb), [8b](08b_spectrum_taken_apart.ipynb) | `spectrum-control`, `spectrum-polynomial`, `spectral-normalization`, `d-optimal` |
# | [9](09_mixtures.ipynb) | `mos`, `moc` |
# | [10](10_monotone_softmaxes.ipynb), [10b](10b_learned_bends.ipynb) | `sigsoftmax`, `gss`, `plif`, `plif-frozen` |
# | [11](11_modern_remedies.ipynb) | `coupled-adam` |
# | [12](12_record_holders.ipynb) | `tied-then-untied`, past-decode, dispersion |
#
# As in [notebook 30](30_leaderboard.ipynb), a model that loses to Kneser-Ney 5 has not learned what counting finds.
# Such models are left out below, except where a table says *all settings*.

# %% [markdown]
# ## Which lists say anything
#
# A pair counts only if the vocabulary has both of its words. Some lists have hardly a word among the 10,000 of
# the Penn Treebank. With $m$ pairs the 95 % interval of a $\rho$ near 0.3 is about $\pm 2/\sqrt m$, so we ask
# for 100 pairs or more. In the table *best* is the greatest $\rho$ of all settings, those that lose to counting
# included. It was chosen by the same pairs, so its interval lies too high: the interval shows how wide an
# interval is, and not where the best model stands. A list that lies wholly within another one that counts is
# left out of all means and counts of wins below, since its pairs would count twice.

# %%
known = similarities.known(scores)
rows = {}
for name, pairs in known.items():
    row = scores[scores["list"] == name]
    rho = row.groupby("model").rho.mean().max()
    low, high = spearman_interval(rho, pairs)
    rows[name] = [pairs, rho, low, high]
columns = ["pairs", "best ρ", "low", "high"]
lists = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
lists = lists.assign(counts=similarities.told_whether(known))
lists.round(2)

# %% [markdown]
# The paper has thirteen lists. They are not thirteen witnesses, because some of them are parts of others. The
# next table shows how many pairs two lists share:

# %% tags=["hide-input"]
overlap = similarity.overlap()
parts = sum(map(bool, similarity.holders().values()))
title = f"{parts} of {len(overlap)} lists lie wholly within another"
plots.show(
    plots.shares(overlap, title),
    alt="A table of lists by lists with the share of a row's pairs that "
    f"the column's list has as well. {title}.",
)

# %% [markdown]
# **Figure 1.** A dark field says that the row's list lies mostly within the column's list. Such two lists are no two witnesses.

# %% [markdown]
# ## What the cosine knows
#
# In a cone all rows share a direction. The cosine of two words then tells, above all, how strongly both words
# follow this direction, which depends on how rare they are. So each score is taken twice: of the matrix as it
# is, and of the matrix without its mean row, called *centred*. A score that vanishes with the mean row was not about
# meaning. The figure has means over the lists that count and over seeds, and of each recipe the setting of least
# validation perplexity.

# %% tags=["hide-input"]
means = similarities.by_recipe(scores)
half = int((means.centred < means.rho / 2).sum())
lost = 1 - means.centred / means.rho if len(means) else None
if len(means):
    title = f"{half} of {len(means)} models owe most of ρ to the mean row;"
    title += f" {lost.idxmax()} loses most, {lost.max():.0%}"
    plots.show(
        plots.centring(means, title),
        alt="For each model a dot at its mean score as it is and a square "
        f"at that without its mean row. {title}.",
    )

# %% [markdown]
# **Figure 2.** A dot is the score of the matrix as it is, and a square is the score without the mean row. A long way between the two says
# that the mean row made the score.

# %% [markdown]
# ## Score and perplexity
#
# Does a greater score go with a lower perplexity? The table has Spearman's rank correlation of perplexity and
# score, with its 95 % interval. A negative number says that the score is greater where perplexity is less.

# %%
going = similarities.with_perplexity(scores, family)
told = {k: going[k].map(similarities.written) for k in ("raw", "centred")}
going.assign(**told)

# %% [markdown]
# The rows mix ever less. The first row has models that have learned little, several networks, and several stages of
# one training. Its correlation can tell that training changes both numbers. Its correlation cannot tell whether
# the score has a use once two models are trained. The interval is also too narrow there, because stages of one
# training are not independent. The last row has methods that were trained alike, so our answer rests on this row.

# %% tags=["hide-input"]
r = going.centred.iloc[-1]
of_family = similarities.by_run(fair.assign(model=fair.method))
of_family = of_family.groupby("model").mean()
if r:
    title = f"{family}, perplexity and centred score: "
    title += similarities.written(r)
    at = of_family.perplexity, of_family.centred, of_family.index
    axes = "test perplexity", "mean ρ, centred"
    plots.show(
        plots.numbered_points(*at, *axes, title),
        alt="A numbered point for each method: test perplexity from left "
        "to right, the mean score of the centred matrix upwards. "
        f"{title}.",
    )

# %% [markdown]
# **Figure 3.** Each number is a method. If a better model had better vectors, the numbers would lie on a falling line.

# %% [markdown]
# How often would the score pick the better of two methods? And does the correlation hang on one method, or on one
# list? We leave out each in turn.

# %%
right, of_all = similarities.in_order(fair, family)
fragile, said = [], []
for column in ("method", "list"):
    without = similarities.leaving_one_out(fair, family, column)
    names = [f"`{name}`" for name, c in without.items()
             if c is None or c.low <= 0 <= c.high]  # fmt: skip
    fragile += names
    said.append(f"Without one {column} at a time the interval contains 0 "
                f"for {len(names)} of {len(without)}"
                f"{': ' if names else ''}{', '.join(names)}.")  # fmt: skip
display(Markdown(
    f"Of {of_all} pairs of methods the one of less perplexity has the "
    f"greater centred score in {right}, and a coin would pick it in about "
    f"{of_all // 2}. {' '.join(said)}"
))  # fmt: skip

# %% [markdown]
# ## What frequency knows
#
# Runs of whole texts keep the cosine of every pair for three matrices. *Raw* is the matrix as it is.
# *Centred* is the matrix without its mean row. *Whitened* is the matrix turned and stretched so that its
# rows, weighed by their frequency, have the mean 0 and the covariance $I$. The runs also keep how often the
# two words occur. So three questions have an answer:
#
# - How much does $\rho$ depend on the pairs that happen to be on the list? A bootstrap over pairs gives an interval.
# - How much of the *cosine* is frequency? *Frequency* is the rank correlation of the cosine with the mean logarithm
#   of the two counts.
# - What is left of $\rho$ when frequency is held fixed? *Held* is the partial rank correlation.
#
# The figure is for the model of least validation perplexity among those that have kept the cosines.

# %%
judged = similarities.at_hand()
models = similarities.with_pairs(of)
tables = {" ".join(filter(None, run.setting[:3])):
          similarities.pairs_of(run, judged) for run in models[:6]}
best = next(iter(tables), "")
kinds = similarities.by_kind(tables[best]) if best else pd.DataFrame()
display(Markdown(
    f"*{len(models)} of {scores.model.nunique()} settings with scores "
    "have kept the cosines of pairs"
    f"{f'; the best is `{best}`' if best else ''}. "
    f"{evidence.done_of(of, 'desk')}*"
))  # fmt: skip

# %% tags=["hide-input"]
if len(kinds):
    knows = kinds.frequency.unstack("kind")[list(similarities.KINDS)]
    means_of = ", ".join(f"{k} {v:+.2f}" for k, v in knows.mean().items())
    title = f"Rank correlation of cosine and frequency: {means_of}"
    plots.show(
        plots.kinds(kinds, title),
        alt="Two panels with a row for each list. Left: rho with its "
        "bootstrap interval for raw, centred and whitened matrices. "
        f"Right: the cosine's correlation with frequency. {title}.",
    )

# %% [markdown]
# **Figure 4.** On the left stand the scores of the three kinds of matrices. On the right stands how far a cosine follows frequency, which has
# nothing to do with meaning.

# %% [markdown]
# If the judgements themselves hardly depend on frequency, then what frequency adds to a cosine is noise to $\rho$.
# How much of $\rho$ does one regain when frequency is held fixed? The table has the means over the lists that count
# for the six models of least validation perplexity, and *regained* is *held* less *rho*.

# %%
by_model = similarities.by_model(tables)
wide = by_model.unstack("kind")
order = [(c, k) for c in by_model.columns for k in similarities.KINDS]
columns = pd.MultiIndex.from_tuples(order)
display(wide.reindex(list(tables), columns=columns).round(2))

# %%
frequency = by_model.frequency.unstack("kind")
if len(frequency):
    less = frequency.whitened.abs() < frequency.raw.abs()
    said = [f"{name}, from {row.raw:+.2f} to {row.whitened:+.2f}"
            for name, row in frequency[~less].iterrows()]  # fmt: skip
    more = ("Whitening strengthens this correlation in "
            f"{'; '.join(said)}." if said else "")  # fmt: skip
    display(Markdown(
        "Whitening weakens the correlation of cosine and frequency in "
        f"{int(less.sum())} of these {len(less)} models. "
        f"{more}"
    ))  # fmt: skip

# %%
if len(by_model) > 2:
    raw = kinds.xs("raw", level="kind")
    more = int((raw.frequency.abs() > raw.rho.abs()).sum())
    low, high = raw.judged.min(), raw.judged.max()
    display(Markdown(
        f"In `{best}` the raw cosine tells more about frequency than "
        f"about similarity on {more} of {len(raw)} lists. The judgements "
        f"and frequency correlate between {low:+.2f} and {high:+.2f}."
    ))  # fmt: skip

# %%
if len(by_model) > 2:
    regained = by_model.regained[best]
    display(Markdown(
        "Held fixed, frequency gives back "
        f"{', '.join(f'{v:+.2f} ({k})' for k, v in regained.items())}. "
        "Over all models and kinds it gives back "
        f"{by_model.regained.max():+.2f} at most."
    ))  # fmt: skip

# %% [markdown]
# The judgements hardly depend on frequency. So the formula makes what is held fixed nearly $\rho / \sqrt{1 -
# f^2}$, where $f$ is the column *frequency*. A cosine that depends more on frequency then regains more,
# whatever the model has learned, and only the size of the gain is a measurement.

# %% [markdown]
# ## Winning
#
# parthiban2021 counts on how many of 13 lists one model's score is greater than another model's. In the
# paper's Figure 4 a mixture of contexts (*moc*), which has a low rank, wins over a mixture of softmaxes
# (*mos*). The scores behind the counts are in the paper's Table S3, from which the figure counts again.

# %% tags=["hide-input"]
theirs = {title: similarities.published_wins(corpus)
          for title, corpus in (("Penn Treebank", "ptb"),
                                ("WikiText-2", "wikitext-2"))}  # fmt: skip
ptb = theirs["Penn Treebank"]
won = ptb.loc["moc", "mos"]
title = f"Published: moc wins over mos on {won} of 13 lists (PTB)"
plots.show(
    plots.win_matrices(theirs, 13, title),
    alt="Two tables, one for each corpus: on how many of 13 lists the "
    f"row's model has a greater ρ than the column's. {title}.",
)

# %% [markdown]
# **Figure 5.** A field says on how many of the thirteen lists the row's model wins. The two tables are of two corpora.

# %% [markdown]
# A sign test gives each count its $p$: how often would thirteen coins fall as unevenly? The coins are independent
# and the lists are not, so the true $p$ is larger.

# %%
enough = next(k for k in range(7, 14) if binomtest(k, 13).pvalue < 0.05)
clear = {name: int((counts >= enough).to_numpy().sum())
         for name, counts in theirs.items()}  # fmt: skip
told = ", ".join(f"{n} on the {name}" for name, n in clear.items())
display(Markdown(
    f"By coins, *p* is below 0.05 from {enough} wins on. The {won} wins "
    "of *moc* over *mos* on the Penn Treebank have a *p* of "
    f"{binomtest(int(won), 13).pvalue:.2f}. Of "
    f"{len(ptb) * (len(ptb) - 1) // 2} pairs of models so many have "
    f"a winner: {told}."
))  # fmt: skip

# %% [markdown]
# ### What a second seed does to a count of wins
#
# If a win says something about the output layer, the same model wins at another seed. We count on how many of the
# lists that count each method of the family wins over each other method, once for seed 1 and once for seed 2. The
# paper counts the scores of matrices as they are, and the figure counts the centred scores. In the figure a row has
# the number of its column, and the order is that of all wins at seed 1.

# %%
pair = similarities.win_matrices(fair, family)
raw_pair = similarities.win_matrices(fair, family, "rho")
changed, compared = similarities.changed_winners(*pair) if pair else (0, 0)
raw_changed = similarities.changed_winners(*raw_pair)[0] if pair else 0
wins = similarities.wins_of(fair, family)
most = int(wins.lists.max()) if len(wins) else 0

# %%
heads = np.arange(most + 1)
odds = binom.pmf(heads, most, 0.5)
ends_of = np.sign(2 * heads - most)  # the one wins, a draw, the other
alike = sum(odds[ends_of == end].sum() ** 2 for end in (-1, 0, 1))
display(Markdown(
    "A pair of methods ends in one of three ways: the one wins more "
    "lists, the other does, or it is a draw. At the other seed "
    f"{changed} of {compared} pairs end otherwise by the centred scores, "
    f"and {raw_changed} by the raw scores. Coins, {most} for each pair, "
    f"would make about {(1 - alike) * compared:.0f} end otherwise."
))  # fmt: skip

# %% tags=["hide-input"]
if pair:
    title = f"{changed} of {compared} pairs end otherwise at seed 2"
    both = dict(zip(("seed 1", "seed 2"), pair, strict=True))
    plots.show(
        plots.wins_beside(both, most, title),
        alt="Two tables side by side, seed 1 and seed 2, of methods by "
        "methods: on how many lists the row's method has a greater "
        f"centred ρ than the column's. {title}.",
    )

# %% [markdown]
# **Figure 6.** Both tables have the same methods, trained with two seeds. A winner that a method owes to its output layer is the same
# in both.

# %% [markdown]
# The next table has all seeds. If a win says something about the output layer, two layers must also win and lose
# more unevenly than two seeds of one layer. Runs of one seed share their start and their batches, so that they are
# more alike than other runs. For this reason both rows compare runs of two seeds.

# %%
per_score = {}
for score in ("rho", "centred"):
    counts = similarities.wins_of(fair, family, score)
    off = (counts.wins - counts.lists / 2).abs()
    per_score[score] = off.groupby(counts.kind).mean()
by_kind = pd.DataFrame(per_score).assign(pairs=wins.kind.value_counts())
names = {"rho": "lists off half, raw", "pairs": "pairs of runs",
         "centred": "lists off half, centred"}  # fmt: skip
display(by_kind.rename(columns=names).round(2))

# %% tags=["hide-input"]
off = by_kind.centred.round(1)
per_kind = [f"{kind}: {n}" for kind, n in off.items()]
title = f"Lists off half, on average: {'; '.join(per_kind)}"
if len(wins):
    plots.show(
        plots.off_half(wins, title),
        alt="Bars: share of the pairs of runs by how many lists their "
        f"count of wins is off half of the lists. {title}.",
    )

# %% [markdown]
# **Figure 7.** A bar is a share of the pairs of runs. Bars further to the right are of pairs that win and lose more
# unevenly. Compare two runs of one method with two runs of
# different methods.

# %% [markdown]
# ## Methods against the softmax
#
# A count of wins uses only the sign of each difference. The mean $\rho$ over the lists that count uses its
# size, too. The next table has the difference of the mean $\rho$ from the softmax in hundredths, for runs that
# share a seed, tested as in [notebook 30](30_leaderboard.ipynb). *No difference larger than 2 hundredths* means
# that the 90 % interval, which is not printed, lies within ±2. This verdict is not corrected for the number of
# methods, and the printed 95 % interval may reach beyond 2. *Raw* and *centred* stand side by side. The last
# column has the difference of perplexity over the same seeds, in per cent. A method that computes in another
# precision than the softmax has it in brackets: its difference may come from the precision.

# %%
within = evidence.family_of
runs = [r for r in of.runs if within(r.setting.recipe) == family]
marks = families.other_precisions(runs)
table = similarities.compared(fair, family).rename(marks)
raw_table = similarities.compared(fair, family, "rho").rename(marks)

# %%
ends = ["difference", "low", "high"]
costs = ["perplexity", "perplexity low", "perplexity high"]
spans = {"raw": raw_table[ends], "centred": table[ends],
         "perplexity, %": table[costs]}  # fmt: skip
shown = {name: [written(*row, "+.1f") for row in span.to_numpy()]
         for name, span in spans.items()}  # fmt: skip
tests = {"n": table.n, "p, raw": raw_table.p, "p, centred": table.p}
order = ["n", "raw", "p, raw", "centred", "p, centred", "perplexity, %"]
pd.DataFrame({**tests, **shown}, index=table.index)[order].round(3)

# %%
verdicts = pd.DataFrame({"raw": raw_table.verdict,
                         "centred": table.verdict})  # fmt: skip
kinds_of = verdicts.astype(str).apply(lambda v: v.str.partition(":")[0])
other = kinds_of[kinds_of.raw != kinds_of.centred]
display(verdicts)
display(Markdown(
    f"Centring changes the kind of verdict for {len(other)} of "
    f"{len(table)} methods{': ' if len(other) else ''}"
    f"{', '.join(f'`{name}`' for name in other.index)}."
))  # fmt: skip

# %% [markdown]
# Which of the two scores should one believe? Add one vector to all rows of an output matrix, and let the model
# go on reading with its old matrix. Then all logits of a context rise by the same number, and a softmax gives
# the same probabilities. The raw score changes all the same, because each cosine changes. So a raw score
# depends on something of which the output of a softmax knows nothing. A tied model reads its matrix, too, so
# this holds for its output alone. It does not hold for `sigsoftmax`, `gss`, the two `plif` and the capped
# methods, which bend the logits. A method that makes the cone narrower or wider changes the raw score by this
# alone. The centred score stays as it was. For this reason our answer rests on the centred score.

# %%
# NBVAL_CHECK_OUTPUT
pairs = overlap.loc["WS-353", "SimLex-999"]
print(f"of WordSim-353 {pairs:.0%} of the pairs are in SimLex-999, too")
low, high = spearman_interval(0.3, 100)
print(f"rho of 0.3 over 100 pairs: {low:.2f} to {high:.2f}")

# %% [markdown]
# ## What would change the answer
#
# - **A larger vocabulary.** WikiText-2 has 33,278 words, so more pairs of each list would count.
# - **More seeds.** The plan `desk` has a family of small models on the whole Penn Treebank with five seeds.
#   The line under *What frequency knows* says how many of its runs are kept.
# - **More cosines.** Older results have scores alone. The same line says how many settings have the cosines of pairs.
# - **Another matrix.** A centred cosine still follows frequency, and a whitened one follows it less. Scores of
#   whitened matrices need the cosines of pairs.
# - **Another use.** Similarity of meaning is not what an output matrix is trained for.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $\rho$ | `scores.rho`, `scores.centred` | Spearman's rank correlation of cosines and judgements |
# | $m$ | `scores.pairs` | pairs of a list that the vocabulary knows |
# | $p$ | `table.p` | of the paired t-test, corrected by Holm |

# %% [markdown]
# ## Exercises
#
# ### 1. How many pairs?
#
# *Difficulty 1/3, importance 2/3, ten minutes.* Two models have $\rho = 0.30$ and $0.35$ on one list. From how
# many pairs on does the interval of the first, by `spearman_interval`, no longer contain the second? Assign the
# least such number to `pairs_needed`.
#
# <details><summary>Hint</summary>
#
# Double the number until the upper end is below 0.35, then halve the gap.
#
# </details>

# %% tags=["exercise"]
pairs_needed = None  # a whole number


# %%
def separates(pairs_needed):
    if spearman_interval(0.3, pairs_needed)[1] >= 0.35:
        return "0.35 is still inside: more pairs"
    before = spearman_interval(0.3, pairs_needed - 1)[1]
    return before >= 0.35 or "fewer pairs suffice"


check("32.1", pairs_needed, separates)

# %% [markdown]
# ### 2. A coin's wins
#
# *Difficulty 1/3, importance 3/3, five minutes.* Assign to `chance` the probability that one of two models that
# do not differ wins on at least 9 of 13 independent lists, whichever of the two it is.
#
# <details><summary>Hint</summary>
#
# Sum the binomial probabilities of 9 to 13 heads, and remember that either model may be the one.
#
# </details>

# %% tags=["exercise"]
chance = None  # a probability


# %%
def as_coins(chance):
    p = binomtest(9, 13).pvalue
    if abs(chance - p / 2) < 5e-4:
        return "that is for one of the models; either may win"
    return abs(chance - p) < 5e-4


check("32.2", chance, as_coins)

# %% [markdown]
# ## What we saw

# %%
told_off = "; ".join(per_kind) or "no number yet"
display(Markdown(
    f"{int((lists.counts == 'yes').sum())} of {len(lists)} lists count. "
    f"The others have fewer than {similarities.ENOUGH} pairs here or lie "
    f"within another list. Of {len(means)} models {half} "
    "owe over half of their score to the mean row. A count of wins says "
    "something if it is further from one half of the lists for two "
    "methods than for two seeds. The mean distances of the centred "
    f"scores are these: {told_off}. Of {compared} pairs of methods "
    f"{changed} end otherwise at another seed."
))  # fmt: skip

# %%
decided = table[kinds_of.centred != "undecided"]
alike = decided.verdict.astype(str).str.startswith("no").sum()
few = sum(claims.is_interim(family, name.partition(" (")[0], n)
          for name, n in decided.n.items())  # fmt: skip

# %%
said = [f"The centred ρ is {verdict} with `{name}`, whose perplexity "
        f"differs by {claims.by(*table.loc[name, costs])}."
        for verdict in ("better", "worse")
        for name in table.index[table.verdict == verdict]]  # fmt: skip
display(Markdown(
    f"The centred ρ of {len(table)} methods is compared with that of the "
    f"softmax. {' '.join(said) or 'No method is sure to differ.'} For "
    f"{alike} methods the runs exclude a difference of "
    f"{similarities.MARGIN:g} hundredths. The others are undecided. "
    f"Of these {len(decided)} verdicts so many are interim, because they "
    f"rest on fewer than five pairs of seeds, or than are planned: {few}."
))  # fmt: skip

# %%
raw_better = raw_table.index[raw_table.verdict == "better"]
kind_of = kinds_of.centred[raw_better]
gone = [f"`{name}` {kind}" for name, kind in kind_of.items()
        if kind != "better"]  # fmt: skip
display(Markdown(
    f"The raw ρ is better with {len(raw_better)} methods. When the mean "
    f"row is gone, {len(gone)} of these have another verdict"
    f"{': ' if gone else ''}{', '.join(gone)}."
))  # fmt: skip

# %%
tells = ("So nothing here shows that this score tells a better method "
         "from a worse one.")  # fmt: skip
if r and r.high < 0:
    tells = "So a greater score goes with a better method here."
    if fragile:
        tells = (
            "The interval excludes 0, and it contains 0 once "
            f"{' or '.join(fragile)} is left out. So a greater score "
            "hints at a better method and does not prove it."
        )
share = f"{right} of {of_all} pairs of methods"

# %%
mixed = going.centred.iloc[0]
display(Markdown(
    "**Can a word-similarity score tell a better model from a worse "
    f"one?** Over {going.settings.iloc[-1]} settings of `{family}` "
    "perplexity and the centred score correlate at "
    f"{similarities.written(r)}. The score picks the better of two in "
    f"{share}. {tells} Over all settings the correlation is "
    f"{similarities.written(mixed)}, which mixes networks and stages of "
    "training."
))  # fmt: skip

# %% [markdown]
# ## References
#
# - D. Parthiban, Y. Mao, D. Inkpen (2021). *On the Softmax Bottleneck of Recurrent Language Models.*
#   AAAI. Figure 4 and Table S3.
# - M. Faruqui, C. Dyer (2014). *Community Evaluation and Exchange of Word Vectors at wordvectors.org.*
#   ACL, System Demonstrations.
# - F. Hill, R. Reichart, A. Korhonen (2015). *SimLex-999: Evaluating Semantic Models with (Genuine)
#   Similarity Estimation.* Computational Linguistics 41.
# - D. G. Bonett, T. A. Wright (2000). *Sample size requirements for estimating Pearson, Kendall and
#   Spearman correlations.* Psychometrika 65.

# %% [markdown] tags=["way"]
# ← Previous: [31. Rank and perplexity](31_rank_and_perplexity.ipynb)
#
# → Next: [33. Predictions](33_predictions.ipynb)
