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
# # 23. Run a batch
#
# **Question.** How many runs does it take before one may say that one setting is better than another?
#
# One training run is an anecdote: another seed gives another perplexity. A
# claim needs several seeds of everything that is compared, so tables come
# from *plans*: recipes × seeds × settings in a small file. This notebook
# writes a plan, runs it, several runs at a time, and asks statistics what it
# shows. Hundreds of runs on a cluster go the same way, as the how-to page on
# batches shows.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** Notebook 20, which the batch executes for every run.
#
# | profile | minutes | corpus and machine |
# |---|---|---|
# | `smoke` | 0.5 | four runs of a second, for the tests |
# | `quick` | 1.5 | twelve runs of seconds, 2 CPU cores |
# | `standard` | 1200 | twelve runs of one to two hours, 2 CPU cores |
# | `full` | 60 | the same on eight GPUs (estimated), with `WORKERS = 8` |
#
# On Google Colab, run this in a first cell and restart the session:
# `!git clone -q https://github.com/output-embedding-course/output-embedding-course && pip install -q -c output-embedding-course/constraints.txt -e "./output-embedding-course[lab]"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
WORKERS = 2  # runs at the same time
BUDGET = None  # minutes, after which it pauses; None: no end
DROPOUT = [0.0, 0.2, 0.4]  # settings to compare
SEEDS = [1, 2, 3, 4]  # of each

# %%
import tempfile  # noqa: I001
from pathlib import Path

import pandas as pd
from IPython.display import Markdown, clear_output, display

from course_lab import batch, batch_states, comparison, plans
from course_lab import plots, statistics, tables
from course_lab.planned import Planned
from course_lib.errors import CourseError

if PROFILE == "smoke":
    DROPOUT, SEEDS = DROPOUT[:2], SEEDS[:2]
small = PROFILE in ("smoke", "quick")

# %% [markdown]
# ## The plan
#
# A plan names recipes, a profile, seeds and the settings that differ from the
# recipe; `grid` takes all combinations. Our question here is how much dropout
# a small LSTM should have. In `quick` the runs are as small as they can be,
# so that you see the machinery at work. What these runs say about dropout
# holds for a model of a few thousand weights on a few pages of text, and no
# further.

# %%
text = f"""
title = "Dropout of a small LSTM"

[[runs]]
recipes = ["ptb/vd-lstm-200/tied"]
profile = "{"smoke" if small else PROFILE}"
seeds = {SEEDS}
change = {{"optimisation.epochs" = {4 if small else 40}}}
grid = {{"encoder.dropout" = {DROPOUT}}}
"""
path = Path(tempfile.mkdtemp()) / "dropout.toml"
path.write_text(text, encoding="utf-8")
plan = plans.read_plan(path)
print(f"{plan.title}: {len(plan.runs)} runs, the first {plan.runs[0].key}")

# %% [markdown]
# A misspelt setting is refused before anything runs, and the message names
# the settings that may have been meant:

# %%
try:
    typo = {"encoder.dropuot": 0}
    Planned("ptb/vd-lstm-200/tied", "smoke", seed=1, change=typo)
except CourseError as error:
    print(error)

# %% [markdown]
# ## Running it
#
# Each run is notebook 20, executed by papermill in a process of its own. The
# folder of a run says how far the run has come. A run that is done is never
# done again, and a run that was interrupted goes on from its checkpoint. So
# the next cell can be stopped, killed and called again at any time.

# %%
states = batch.run_plan(plan, workers=WORKERS, minutes=BUDGET)
clear_output()
print(batch_states.summary(states))
left = [s for s in states if s.name != "done"]
if left:
    print(batch_states.table(left))
if any(s.name in ("failed", "blocked") for s in left):
    raise CourseError(
        "Runs failed or are blocked, see above. Remove the cause; then "
        "batch.run_plan with retry=True tries those that failed again."
    )
if left:
    raise CourseError("Not all are done: run this cell again to go on.")

# %%
# NBVAL_CHECK_OUTPUT
def written():
    """When each result was written."""
    paths = [s.folder / "result.json" for s in states]
    return [path.stat().st_mtime_ns for path in paths]


before = written()
again = batch.run_plan(plan, WORKERS, BUDGET, progress=False)
print("every run is done:", {s.name for s in states} == {"done"})
print("a second call does nothing:", before == written())

# %% [markdown]
# ## What it shows
#
# The table has one row a setting: the mean of its seeds with a 95 % interval, and the standard deviation $s$
# from seed to seed. The interval is that of Student's $t$ distribution, and few seeds make it wide. The last rows
# only count: *unigram* counts words, and *Kneser-Ney n* counts runs of up to $n$ words of the same text. A model that
# does not beat them has learned less than counting, and no comparison of such models is evidence.

# %%
rows = [
    {"dropout": run.change.get("encoder.dropout", 0.3), "seed": run.seed,
     "perplexity": state.figures["test_perplexity"]}
    for run, state in zip(plan.runs, states, strict=True)
]  # fmt: skip
table = pd.DataFrame(rows)
found = {
    dropout: statistics.mean_interval(group)
    for dropout, group in table.groupby("dropout").perplexity
}
columns = ["mean", "low", "high", "s", "seeds"]
means = pd.DataFrame(found.values(), index=found.keys(), columns=columns)
corpus = plan.runs[0].experiment().load_corpus()
tables.with_ngrams(means.round(2), corpus, "mean", digits=2)

# %%
groups = dict(iter(table.groupby("dropout").perplexity))
figure = plots.seeds(groups, found, "dropout", "test perplexity")
listed = "; ".join(f"{d:g}: {m.mean:.1f}" for d, m in found.items())
plots.show(
    figure,
    alt="Test perplexity of every seed against dropout, and the means "
    f"with their intervals. Means by dropout: {listed}.",
)

# %% [markdown]
# ## Is the difference real?
#
# Take the best setting and the next. Runs of one seed share their start and the order of their batches, so they
# are **pairs**. What a seed brings to both of a pair cancels in the difference, for seed $k$,
#
# $$d_k = 100\,(\log \text{perplexity of the one} - \log \text{perplexity of the other}) \quad\text{per cent.}$$
#
# The paired $t$-test divides the mean of these differences by its standard error. Its $p$ says how often this
# ratio would be at least as far from 0 if the true mean were 0 and the differences were normal. The verdict is
# *better* or *worse* where $p$ is below 5 %, *no difference larger than* 1 % where the 90 % interval lies
# within ±1 %, and *undecided* otherwise. That second verdict is two one-sided tests at 5 %, not corrected, so
# the 95 % interval shown may reach a little beyond. The spread of the pairs tells how many seeds show a
# difference of 1 % in four of five such experiments. A spread that is measured on a few pairs may be wrong by a
# factor of two, and then the number of seeds by a factor of four.
#
# The two settings were picked by looking at the results. So $p$ is corrected by Holm's method for all pairs of
# settings, from which this pair was picked, and so is the number of seeds. `batch table` corrects for the
# settings but one, because it compares all settings with one that the plan names beforehand.

# %%
order = sorted(found, key=lambda d: found[d].mean)
best, second = order[:2]
scores = {
    dropout: dict(zip(group.seed, group.perplexity, strict=True))
    for dropout, group in table.groupby("dropout")
}
d = comparison.paired_differences(scores, best, second)
family = len(found) * (len(found) - 1) // 2  # all pairs of settings
test = comparison.tested({best: d}, margin=1.0, family=family)[best]

# %%
spread = d.std(ddof=1)
needed = comparison.seeds_for(1.0, spread, alpha=0.05 / family)
differs = "{difference:+.2f} % [{low:+.2f}, {high:+.2f}]".format(**test)
display(Markdown(
    f"Dropout {best:g} against {second:g}: the perplexity differs by"
    f" {differs}, p = {test['p']:.2g}: **{test['verdict']}**. The pairs"
    f" spread by s = {spread:.2f} %: a difference of one per cent would"
    f" take **{needed} seeds** of each."
))

# %%
# NBVAL_CHECK_OUTPUT
print(
    "the interval contains the difference:",
    test["low"] <= d.mean() <= test["high"],
)
print(
    "half the difference needs more seeds:",
    comparison.seeds_for(0.5, spread, alpha=0.05 / family) > needed,
)

# %% [markdown]
# ## From here
#
# * `python -m course_lab batch run PLAN --workers 8 --budget 55` does the
#   same from a terminal, `batch status PLAN` shows how far it is, `batch
#   merge` brings results from another machine, and `batch keep` copies them
#   to `data/results`.
# * `data/plans` holds a plan for every table of the five papers that needs
#   trained models.
#
# ## References
#
# * Parthiban, Mao and Inkpen (2021). *On the Softmax Bottleneck of Recurrent
#   Language Models*. AAAI. Ten or eleven seeds of each model, and a test of
#   each difference.
# * Student (1908). *The Probable Error of a Mean*. Biometrika 6. The test of pairs.
# * Holm (1979). *A Simple Sequentially Rejective Multiple Test Procedure*. Scandinavian Journal of Statistics
#   6.

# %% [markdown] tags=["way"]
# ← Previous: [22. Adapt a model at test time](22_adapt_at_test_time.ipynb)
#
# → Next: [30. The leaderboard and the ledger of claims](30_leaderboard.ipynb)
