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
# # 30. The leaderboard and the ledger of claims
#
# **Question.** Of what the five papers claim, how much do our own runs confirm?

# %% [markdown]
# ## What you will learn
#
# - to read our number beside a published one, and to see at once how far the two may be compared;
# - to say which claims our runs support, which they contradict, and which nobody here has tested;
# - to work out what it would take to change a verdict.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Notebook 23](23_run_a_batch.ipynb): seeds, intervals, the paired test. Lessons
# [5](05_tying_and_augmented_loss.ipynb) to [10](10_monotone_softmaxes.ipynb) explain the methods. This notebook
# trains nothing: it reads the results that are kept in `data/results`.
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
from IPython.display import HTML, Markdown, display

from course_lab import claims, comparison, evidence, leaderboard, plots
from course_lab.progress import check
from course_lab.statistics import holm
from course_lab.tables import with_ngrams

of = evidence.read(OWN)
rows = leaderboard.rows(of)
ledger = claims.ledger(of)
pd.set_option("display.max_colwidth", None, "display.max_rows", None)


# %% [markdown]
# ## Predict
#
# The five papers make dozens of claims that a comparison of two kinds of runs can test, such as
# “the cosine penalty lowers perplexity”. A published run takes hours to days on a GPU. How many of
# these claims will be tested at all by what is kept here? Of a claim that is tested, how often will our
# runs agree?

# %% [markdown]
# ## What counting reaches
#
# A language model is worth its training if it beats counts of short word sequences. The best-known way of
# counting is interpolated Kneser–Ney smoothing; order 5 means that four words of context are used. The counts
# take seconds, on exactly the tokens that our models were trained on. The table has the test perplexity of
# counting. A part of a text is named with its number of training tokens. Each of these models is a recipe, too:
# `python -m course_lab train ptb/kneser-ney/order-5` counts one.

# %%
texts = leaderboard.counted_texts(of)
titles = {text: evidence.title_of(text) for text in texts}
counted = pd.DataFrame(of.ngrams)[texts].rename(columns=titles).T
counted.index.name = "training text"
counted.round(1)

# %% [markdown]
# Two rules follow. A comparison is **no evidence** if its baseline loses to Kneser–Ney of order 5. What helps a
# model that has not learned what counting finds says nothing about the papers' models, which have learned it.
# The method itself may lose, because a claim may be that it does harm. And a conclusion needs the whole of a
# real text. Runs on a part of a text only illustrate. For translation there is no such test of the baseline, so
# all runs on the whole of a corpus of sentence pairs count. A third rule is a judgement of ours, made after the
# runs were seen. The comparisons of spectrum control, of which one untuned scale was tried, and those of
# spectral normalisation, whose softmax has no bias, are **withdrawn**. The column *why untested* says so, and
# the last section says how many of them go against the paper.

# %% [markdown]
# ## Every published row, and ours
#
# The column *tier* says what our number is:
#
# | tier | what ours is |
# |---|---|
# | at scale | the row's own recipe, on the row's text |
# | desk | the same method in a model of the row's kind with another size or budget, on a whole real text |
# | another model | the same method in a model of another kind, on a whole real text |
# | small | the same method on a part of a text |
# | recipe only | nothing yet: the recipe is there and has not been run |
# | no recipe | nothing: the row cannot be run here, and `data/published.csv` says why |
# | counted | an n-gram model |
#
# Brackets hold the 95 % interval of the mean where there are two seeds or more. The budget is that of one run:
# tokens read in training, minutes, and threads or a GPU. Where a run began with the weights of a first session,
# the budget names the tokens of this session, too. The first table below has the rows at scale, and the second
# one, folded up, has all rows. Except at scale our number may belong to another text than the published number.
# The column *text* names it, and the two perplexities then cannot be compared.
#
# Our numbers of two rows cannot be compared either: they may belong to two models or two budgets. The ledger
# below compares runs that differ in their method alone.

# %%
tiers = rows.tier.value_counts().reindex(leaderboard.TIERS, fill_value=0)
display(tiers.rename("rows").to_frame().T)
shown = leaderboard.shown(rows)
named = {title: text for text, title in titles.items()}
at_scale = shown[rows.tier == "at scale"].drop(columns="run")
for (corpus, metric), group in at_scale.groupby(["corpus", "metric"]):
    if metric == "perplexity":
        text = named.get(corpus, corpus)
        group = with_ngrams(group, text, "ours", digits=2)
    display(group)
page = f"<summary>All {len(shown)} rows</summary>{shown.to_html()}"
display(HTML(f"<details>{page}</details>"))

# %% tags=["hide-input"]
ptb = leaderboard.on_text(rows, "ptb")
lines = leaderboard.counted_on(of, "ptb")
worse = int((ptb.ours > lines.get(evidence.COUNTING, np.inf)).sum())
if len(ptb):
    title = f"{worse} of our {len(ptb)} rows lose to counting words"
    plots.show(
        plots.beside(ptb, lines, "test perplexity", title),
        alt="A line for each published row of the Penn Treebank: a ring "
        "at the published test perplexity, a mark at ours, and upright "
        f"lines at Kneser-Ney models, beyond which lie {worse} of ours.",
    )
else:
    display(Markdown("*No run on the Penn Treebank is kept.*"))

# %% [markdown]
# **Figure 1.** A ring stands at the published test perplexity of a row, and a mark at ours, with its interval where several seeds were
# run. An upright line is a model that counts words. Perplexity falls to the left.

# %% [markdown]
# ## The desk board
#
# The desk tier is the widest comparison that we have: one model, one text, one budget, and a row for each
# method. All rows are trained on the whole Penn Treebank, and they differ in what their name says. Only the two
# `plif` differ in their precision, too: they are trained in full precision, and the others in half precision.
# `python -m course_lab recipes "ptb/desk/*"` lists the recipes.
#
# Brackets hold the 95 % interval over *n* seeds. The *rare cosine* is the mean cosine of pairs of rare words,
# and *positive pairs* is the share of all pairs with a cosine above 0. *Flatness* is the median singular value
# of the word matrix over its largest. *Press' rank* and the *effective rank*, which leaves out a thousandth of
# the energy, are ranks of $\log P$. Neither can be greater than the number of contexts that are measured, and ≥
# marks a Press' rank that this number limits. The letter *ρ* stands for word similarity, the mean over the
# lists with enough pairs, with the matrix as it is and *centred*. *Seconds* are those of the median epoch of a
# run, and *minutes* are its number of epochs times the median epoch, so an epoch during which the machine stood
# still does not count for more. *MB* are the peak of memory. All three are of the runs on one core, if there
# are any, else of the runs on a GPU. The column *machine* counts the runs of each machine, and minutes of two
# machines do not compare.

# %%
board = leaderboard.board(of)
ran = board[board.tier == "desk"]
text = named.get("ptb", "ptb")
display(with_ngrams(leaderboard.board_shown(board), text, digits=2))
others = ", ".join(f"`{name}`" for name in board.index.drop(ran.index))
display(Markdown(f"*Recipe only, without a run:* {others or 'none'}."))

# %% tags=["hide-input"]
close = ran[ran.ours < lines.get(evidence.COUNTING, np.inf)]
beyond = len(ran) - len(close)
if len(close):
    title = f"The desk: {len(close)} rows beat counting, {beyond} do not"
    plots.show(
        plots.beside(close.assign(published=np.nan), lines,
                     "test perplexity", title),
        alt="A line for each row of the desk that beats counting: its "
        "mean test perplexity and the interval over seeds, and upright "
        f"lines at Kneser-Ney. From the least: {', '.join(close.index)}.",
    )  # fmt: skip

# %% [markdown]
# **Figure 2.** Each mark is the mean over the seeds of a row, with its interval. Rows that lose to counting are left out.

# %% [markdown]
# ### Which difference the seeds can see
#
# A row differs from `tied` only if the seeds can show it. For each model of the plan `desk` that shares two
# seeds or more with `tied`, the next table has the number of *pairs* of such seeds, and the spread *sd* of
# their differences. A true difference that is *detectable* is found in four of five tries by so many pairs, at
# a level of 5 %. The column *corrected* has the same for a level that is divided by the number of models in the
# plan `desk`. The differences are in per cent of perplexity. The last column says how many pairs see a
# difference of 2 % in four of five tries, without a correction. With two pairs the spread is hardly known, so
# these rows are rough guesses.

# %%
seen = leaderboard.seeds_of_family(of)
known = seen[(seen.pairs >= 3) & seen.index.isin(close.index)]
two = int((known.detectable <= 2).sum())
corrected_two = int((known.corrected <= 2).sum())
display(Markdown(
    f"{len(known)} rows beat counting and have three pairs or more. A "
    f"difference of 2 % can be seen in {two} of them, and in "
    f"{corrected_two} with the correction."
))  # fmt: skip
seen.round(2)

# %% [markdown]
# ### The search that chose the desk model
#
# Three shapes of a network were tried, each in one cycle of three epochs with little dropout, one seed each: the
# plan `desk-search`. The curves show what each has learned after so many minutes of one core.

# %%
curves = {}
for planned, run in evidence.of_plan(of, "desk-search"):
    if run is not None:
        epochs = pd.DataFrame(run.content["epochs"])
        shape = planned.recipe.removeprefix("ptb/")
        minutes = epochs.seconds.cumsum() / 60
        curves[shape] = minutes, epochs.valid_perplexity

# %% tags=["hide-input"]
if curves:
    least = min(curves, key=lambda shape: curves[shape][1].min())
    title = f"{least} predicts best"
    axes = "minutes of training on one core", "validation perplexity"
    plots.show(
        plots.lines(curves, *axes, title=title),
        alt="Validation perplexity against minutes of training, three "
        f"epochs of each of {len(curves)} shapes. {title}.",
    )

# %% [markdown]
# **Figure 3.** A line is one shape of the desk, and a mark on the line is one epoch. Of two shapes the better one is lower at
# the same minutes.

# %% [markdown]
# The desk has the shape that predicted best. Its number of epochs and its greater dropout were then guessed
# once and kept. Much was not tried: a Transformer, other widths, larger batches, another learning rate, a mean of the
# weights of the last epochs, and a second seed of any shape. So the desk is one good model for its minutes, and
# nothing says that it is the best. The plan `desk-tuning` searches as hard for the baseline as for each main method.
# The table of hours in the section *What would change the answer* says how many of its runs are kept.

# %% [markdown]
# ## The ledger
#
# The ledger has one row for each claim. The columns *published* and *ours* have the difference between the method
# and its baseline, in the quantity that the column *figure* names. *Published* is the mean over the rows that the
# paper prints for the claim. *Ours* is the mean over pairs of runs that share a seed, with its 95 % interval, and
# *pairs* counts them. Some claims compare a figure with a level, such as a share of 0.9. Then each seed counts as a
# pair.
#
# A difference is 100 times the difference of logarithms, in per cent. So −4 % means a perplexity of 96 where the
# baseline has 100. A large difference in logarithms is not the same as in ordinary per cent, and a very large
# difference is printed as a factor. The correlation $\rho$ of word similarity may be 0 or less, where no logarithm
# exists. The differences of $\rho$, and the margin of 2, are therefore in hundredths.
#
# The test is the paired t-test. Its $p$ is corrected by Holm over all claims that a comparison of runs can
# test, whether runs are kept or not: the smallest p is multiplied by their number, as the first exercise shows.
# So a claim that gets its first runs does not weaken the verdict of another. Further runs of a claim whose p
# was small may: p is at most multiplied by the number of claims. The printed interval is not corrected. The
# interval of an undecided claim may therefore lie wholly on one side of 0. These are the verdicts:
#
# - **agrees**, **disagrees**: the corrected p is below 0.05, and the difference goes the claimed or the
#   other way. This speaks of the sign alone. A distance that is 0.4 % smaller agrees, though it is hardly
#   smaller;
# - **agrees**, **disagrees** of a claim of *no* difference: an *equivalence test* decides (Schuirmann 1987).
#   The claim agrees when the 90 % interval lies within ±2 %. It disagrees when the 95 % interval lies wholly
#   beyond 2 % on one side and the corrected p is below 0.05. A claim that there is *no gain* is tested on the
#   side of a gain alone. This agreement is not corrected for the number of claims, and the column p, which is
#   of a difference of 0, has no part in it;
# - **no difference larger than x %**: the data exclude x, because the *90 %* interval lies within ±x. The 95 %
#   interval of the table may reach beyond x. The number x is the published difference, rounded down to a tenth,
#   at least 0.5 and at most 10, and 2 where none is published. This verdict is not corrected;
# - **undecided: at most about n seeds would decide**: the data show neither a difference nor that there is none.
#   If the pairs spread as these do, n seeds give one of the other verdicts whatever the true difference is. A
#   large difference needs fewer. For a claim of no difference or of no gain the verdict says *about n seeds*: this n
#   holds only if further pairs have the mean of the pairs at hand. The spread of two or three pairs is hardly
#   known, so n may be wrong by a factor of several;
# - **untested**: fewer than two pairs of runs count as evidence. The column *why untested* says why. Numbers that are
#   no evidence are shown, but they decide nothing.
#
# A verdict is **interim** while its comparison has fewer pairs than the plans of the course give it, or fewer
# than five. The plan `desk` gives ten to the headlines of the lessons, and five to other methods. More pairs
# may change a verdict.
#
# Where the method and the baseline both have their greatest possible rank, every pair differs by the same amount. The
# interval then has no width, and the column p says so. This is no test: the verdict follows from how the models are
# made.
#
# Models of several kinds may test one claim. Then the comparison of the best tier and the most seeds decides,
# and *elsewhere* counts the verdicts of the other comparisons. The column *tuning* says how the settings were chosen,
# and *note* what else limits the comparison. `claims.tests(claims.claim(NAME), of)` lists the runs
# behind a row, and those that decide come first. The column *runs* names these, and *place* says where the paper has
# its claim. The cell under *One claim by hand* shows all runs of one claim.

# %%
claims.shown(ledger)

# %% [markdown]
# The figure has the claims with evidence. Up to 10 % either way its axis is in per cent. Beyond 10 % its ticks are
# factors. A claim in hundredths says so in its name.

# %% tags=["hide-input"]
number = claims.counts(ledger)
said = [f"{n} {kind.removesuffix('s')}" for kind, n in number.items()]
title = f"{len(ledger)} claims: {', '.join(said)}. "
title += f"{claims.interim(ledger)} of the verdicts are interim"
if number["untested"] < len(ledger):
    plots.show(
        plots.tested_claims(ledger, title),
        alt="A line for each claim that has evidence, as its sentence: a "
        "diamond at the published difference, and a mark with its "
        f"interval at ours, in the colour of the verdict. {title}.",
    )

# %% [markdown]
# **Figure 4.** A diamond is what the paper prints, and a mark is ours. Where the interval crosses the line at zero, the sign is
# not known.

# %% [markdown]
# ## What is covered
#
# Several comparisons may test one claim. The table has for each claim with runs, and for each tier, how many
# pairs of seeds the comparison with the most of them has. Here *desk* holds *another model* as well. In the
# ledger another comparison may decide, because a better tier counts for more than the pairs do. The third
# column counts the pairs that are no evidence: pairs of models that lose to counting, pairs on a part of a
# text, single pairs, and pairs of comparisons that are withdrawn.

# %%
pairs = claims.coverage(of)
covered = int((pairs[["at scale", "desk"]].sum(axis=1) > 0).sum())
kinds = [claims.kind_of(verdict) for verdict in ledger.verdict]
with_runs = pairs.assign(verdict=kinds)[pairs.sum(axis=1) > 0]
print(f"Evidence for {covered} of {len(pairs)} claims")
with_runs.replace(0, "")

# %% [markdown]
# ## One claim by hand
#
# The ledger computes nothing that you could not compute. We take the claim about two models with the most pairs,
# and compute from the kept results the figure of each seed, the paired differences $d_s$, their mean, and the
# interval $\bar d \pm t_{n-1}\, s / \sqrt n$.

# %%
two_models = [isinstance(name, str) for name in ledger.baseline]
most = ledger.n.where(two_models).fillna(0).astype(int)
name = most.idxmax()
tests = claims.tests(claims.claim(name), of)
if tests:
    test = tests[0]
    print(f"{name}: {ledger.says[name]}")
    print("method  ", *test.method[:3])
    print("baseline", *np.atleast_1d(test.baseline)[:3])
    label = f"d, {ledger.unit[name]}"
    by_seed = pd.Series(test.differences, test.seeds, name=label)
    display(by_seed.rename_axis("seed").round(2).to_frame().T)

# %%
# NBVAL_CHECK_OUTPUT
by_hand = True
if tests and len(test.seeds) > 1:
    d = test.differences
    low, high = comparison.interval(d)
    told = ledger.loc[name, ["ours", "low", "high"]].astype(float)
    by_hand = np.allclose([d.mean(), low, high], told)
print("the ledger says what the runs say:", bool(by_hand))
print("each claim has a verdict:", sum(number.values()) == len(ledger))

# %% [markdown]
# ## Add your own run
#
# 1. Train a recipe of a row: `python -m course_lab train ptb/vd-lstm-200/tied --seed 2`. Use a seed that
#    the other side of the claim has as well, since only pairs are compared.
# 2. Give this notebook the folder, `OWN = ["../runs/ptb/vd-lstm-200/tied/standard-seed2"]`, and run it
#    again. In a terminal, `python -m course_lab claims FOLDER …` prints the ledger with your run in it.
# 3. To share it, `python -m course_lab results --keep FOLDER` copies its figures to `data/results`; a
#    text that was not there before gets its n-grams by `python -m course_lab claims --count`.
#
# A claim that is left with fewer than two pairs, because runs were removed from `data/results`, becomes *untested*
# at the next call.

# %% [markdown]
# ## What would change the answer
#
# More pairs would. Fix their number before you look: who adds a pair after each look until p is below 0.05
# finds differences that are not there, and more often than in one of twenty tests. For each untested claim with
# a single pair, these commands give it a second one. A recipe that begins with the weights of another one takes
# `--starts` as well.

# %%
nearly, commands = [], []
for one in ledger.index[ledger.verdict == "untested"]:
    single = [test for test in claims.tests(claims.claim(one), of)
              if test.against == claims.FEW and len(test.seeds) == 1]
    if single:
        nearly.append(one)
        commands += claims.commands(single[0], of, seeds=2)
print(*dict.fromkeys(commands), sep="\n")

# %% [markdown]
# Hours decide what is tested. Here are all plans that come with the course. *Kept* counts the runs whose results are
# kept, of all *runs* of the plan. *Hours of a CPU core* are the minutes of the kept runs times their threads, and *hours of
# a GPU* are those of the runs on a GPU. *Estimated* is what the plan's author expected for all of its runs, in hours of a
# core. The last column has the plan's own reason why runs are missing. A run of two plans counts in both.

# %%
spent = evidence.hours(of)
missing = int((spent.runs - spent.kept).sum())
untouched = int((spent.kept == 0).sum())
display(Markdown(
    f"Of {len(spent)} plans {untouched} have no kept run. All in all "
    f"{missing} runs are missing."
))  # fmt: skip

# %%
spent.insert(0, "runs kept", [f"{row.kept} of {row.runs}"
                              for row in spent.itertuples()])  # fmt: skip
names = {"core": "hours of a CPU core", "gpu": "hours of a GPU",
         "missing": "why runs are missing"}  # fmt: skip
told = spent.drop(columns=["runs", "kept"]).rename(columns=names)
told = told.round(1).astype(object).fillna("")
display(told[spent.kept > 0])
unkept = told[spent.kept == 0]
page = f"<summary>{untouched} plans without a kept run</summary>"
display(HTML(f"<details>{page}{unkept.to_html()}</details>"))

# %% [markdown]
# Other things would change it, too:
#
# - **A stronger baseline.** If the plain models of a tier are tuned better, a remedy may lose what it won. The plan
#   `desk-tuning` searches as hard for the baseline as for each main method.
# - **Another optimiser.** The cone, and so what a remedy can cure, depends on it.
# - **A larger model.** Most of our models predict worse than the papers' models, as the figure above shows. What
#   helps ours may not help theirs. The last section has the best perplexity of both on the Penn Treebank.
# - **Another margin.** We take the published difference as the one that matters. A reader who cares for half of
#   this difference needs more seeds: four times as many where they are many, and about twice as many where they
#   are five. The verdicts by the sign alone do not depend on the margin.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $d_s$ | `test.differences` | difference of seed $s$: 100 times that of the logarithms, or of the figures |
# | $n$ | `len(test.seeds)` | seeds that method and baseline share |
# | $\bar d$ | `ledger.ours` | their mean, in the unit of the claim |
# | $s$ | `d.std(ddof=1)` | their spread |
# | $p$ | `ledger.p` | two-sided p of the paired t-test, corrected by Holm |

# %% [markdown]
# ## Exercises
#
# ### 1. Many claims, one level
#
# *Difficulty 1/3, importance 3/3, ten minutes.* Fifty tests at 5 % find two or three differences where there is
# none. Holm's correction prevents this. Sort the $k$ p-values. Multiply the smallest by $k$, the next by $k-1$,
# and so on. Let no p-value be smaller than the one before it, and none larger than 1. Assign to `corrected` a
# function of an array of p-values that returns the corrected ones in the order of the array.
#
# <details><summary>Hint</summary>
#
# `np.argsort` gives the order, and `np.maximum.accumulate` the largest so far. Write the result back
# through the order.
#
# </details>

# %% tags=["exercise"]
corrected = None  # a function of an array of p-values


# %%
def as_holm(corrected):
    p = np.array([0.04, 0.001, 0.7, 0.012, 0.9, 0.0005, 0.012])
    ours = np.asarray(corrected(p))
    if (ours > 1).any():
        return "no p-value is larger than 1"
    if np.allclose(ours, np.minimum(1, len(p) * p)):
        return "that is Bonferroni's: every p times their number"
    if np.allclose(ours, np.sort(holm(p))):
        return "the numbers are right, but sorted: restore p's order"
    return np.allclose(ours, holm(p))


check("30.1", corrected, as_holm)

# %% [markdown]
# ### 2. How many seeds?
#
# *Difficulty 1/3, importance 2/3, five minutes.* Two models whose paired differences spread by $s = 0.5$ %
# differ by 0.4 % in truth. How many pairs are needed to see it in four of five tries, at 5 % and with no
# correction? Assign the least such number to `seeds`.
#
# <details><summary>Hint</summary>
#
# `comparison.paired_power(difference, sd, n)` is the share of tries that see it. Try n from 2 on.
#
# </details>

# %% tags=["exercise"]
seeds = None  # a whole number


# %%
def enough(seeds):
    power = comparison.paired_power(0.4, 0.5, seeds)
    if power < 0.8:
        return f"with {seeds} pairs {power:.0%} of tries see it: too few"
    fewer = comparison.paired_power(0.4, 0.5, seeds - 1)
    return fewer < 0.8 or f"{seeds - 1} pairs see it often enough, too"


check("30.2", seeds, enough)

# %% [markdown]
# ## What we saw

# %%
best_said = ""
if len(ptb):
    best_said = (
        f" The least perplexity of these rows is {ptb.ours.min():.1f}, "
        f"and the least published one is {ptb.published.min():.1f}."
    )

# %%
display(
    Markdown(
        f"There is evidence for {covered} of {len(ledger)} claims. "
        f"{claims.told(ledger)} Only a second pair of runs is missing to "
        f"{len(nearly)} of the untested claims."
        f"\n\nOn the Penn Treebank {worse or 'none'} of our {len(ptb)} "
        f"rows lose{'s' * (worse < 2)} to Kneser-Ney of order 5. A "
        "comparison whose baseline is such a row would be no evidence."
        f"{best_said}"
    )
)

# %% [markdown]
# ## References
#
# - R. Kneser, H. Ney (1995). *Improved backing-off for m-gram language modeling.* ICASSP.
# - S. F. Chen, J. Goodman (1999). *An empirical study of smoothing techniques for language modeling.*
#   Computer Speech and Language 13.
# - S. Holm (1979). *A Simple Sequentially Rejective Multiple Test Procedure.* Scandinavian Journal of
#   Statistics 6.
# - D. J. Schuirmann (1987). *A comparison of the two one-sided tests procedure and the power approach
#   for assessing the equivalence of average bioavailability.* Journal of Pharmacokinetics and
#   Biopharmaceutics 15.
# - The five papers stand in the README.

# %% [markdown] tags=["way"]
# ← Previous: [23. Run a batch](23_run_a_batch.ipynb)
#
# → Next: [31. Rank and perplexity](31_rank_and_perplexity.ipynb)
