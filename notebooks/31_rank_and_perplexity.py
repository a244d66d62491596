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
# # 31. Rank and perplexity
#
# **Question.** Does a model predict better because the rank of its log P is higher?

# %% [markdown]
# ## What you will learn
#
# - to tell an intervention, which sets the rank and nothing else, from a correlation;
# - to compare two ways of measuring the rank of $\log P$, and to say why they disagree;
# - to see through two traps: a correlation between groups that does not hold within them, and a correlation
#   that shrinks because somebody has removed outliers.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 4](04_softmax_bottleneck.ipynb) on the rank of $\log P$, lessons
# [9](09_mixtures.ipynb) and [10](10_monotone_softmaxes.ipynb) on the layers that raise it, and [notebook
# 30](30_leaderboard.ipynb) on the tiers of our runs. Nothing is trained: this notebook reads kept results, and
# the figures that parthiban2021 published.
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
SEED = 1  # of the simulated correlation

# %%
import numpy as np
import pandas as pd
from IPython.display import HTML, Markdown, display

from course_lab import evidence, plots, ranks
from course_lab.progress import check
from course_lab.tables import with_ngrams
from course_lib.metrics.rank import effective_rank

of = evidence.read(OWN)
points = ranks.points(of)
published = ranks.published_points()
named = {evidence.title_of(text): text for text in of.ngrams}

# %% [markdown]
# ## Predict
#
# One softmax over $d$ numbers gives a matrix of $\log P$ of rank $d+2$ at most. Some output layers lift
# that bound with no other change: you turn a knob, and the rank rises tenfold. What happens to
# perplexity when only the knob is turned: does it fall by more than 5 %, by less, or does it rise?

# %% [markdown]
# ## Interventions
#
# An exchange and three knobs set the rank:
#
# - The softmax is exchanged for a *layer* without its bound, and all else stays equal. A cap on the logits, as in
#   `capped-15`, is such a layer, too.
# - The generalised SigSoftmax, GSS or `gss`, bends the logits by the numbers $c$ and $k$, and adds no parameters.
# - The number of components of a mixture of softmaxes, MoS or `mos`, sets the rank, and changes the number of
#   parameters as well.
# - The *latent dropout* of a mixture's contexts acts in training only. With less dropout the rank is higher.
#
# Our reference of an exchange is the *tied* softmax, whose output matrix is the word matrix. Lesson
# [10](10_monotone_softmaxes.ipynb) explains `sigsoftmax`, lessons 10 and [10b](10b_learned_bends.ipynb) explain
# `plif` and `plif-frozen`, and lesson [11b](11b_more_remedies.ipynb) explains the capped logits. The two `plif` are
# trained in full precision and the softmax in half precision, so their exchange is no intervention here.
#
# Two ranks measure the rise. The *effective rank* at $\varepsilon = 10^{-3}$ counts the directions that hold all but
# a thousandth of the energy. *Press' rank* counts every direction above the rounding error, as the papers do, and is
# at most the number of contexts. Where Press' rank nearly reaches that number, more contexts would give a higher
# rank. The tables then say ≥, the text says *at least*, and the figure has an arrow.
#
# In each group all settings but the knob are equal, and runs of one seed are pairs. The setting with the least
# Press' rank is the reference: of our values of $c$ and $k$ it is GSS(30, 3), the control of lesson 10. All
# rows of a group share their reference, so its luck is in all of them, and they are no independent witnesses.
# The columns *softmax* have the difference from a second reference, the softmax with all else equal, and its
# interval. For an exchange the two references are the same, so its row leaves these columns empty.
#
# A row is **evidence** by the rule of [notebook 30](30_leaderboard.ipynb): the reference has read a whole text and
# beats Kneser-Ney 5 there, and two seeds or more are pairs. The other rows prove
# nothing.
#
# A *difference* in the tables is 100 times the change of log perplexity from the reference, nearly per cent.
# One of our settings whose Press' rank is within 1 % of the reference's is left out. The column *p* is
# corrected by Holm over all that the plans declare for these models, including what has not been run. A setting
# that enters both by a knob and by an exchange has two rows, and counts once in what is said of all. Filled
# marks are our runs, with the 95 % interval over seeds, and they are pale where they are no evidence. Hollow
# marks are published rows, which have one seed each. The title goes by the interval: whether it contains 0, and
# whether the whole of it lies within ±2 %. These intervals are not corrected.

# %%
changes = ranks.interventions(points)
printed = ranks.published_interventions()

# %%
counted = ranks.distinct(changes[changes.evidence])
higher = int((counted.low > 0).sum())
lower = int((counted.high < 0).sum())
least = int(ranks.hardly_any(counted).sum())
rest = len(counted) - higher - lower - least
title = (
    f"Of {len(counted)} rises of Press' rank that are evidence perplexity "
    f"rises in {higher}, falls in {lower}, and changes by less than "
    f"{ranks.LITTLE:g} % in {least}; {rest} settle nothing"
)

# %% tags=["hide-input"]
plots.show(
    plots.turned(changes, printed, title),
    alt="Change of perplexity in per cent against the ratio of effective "
    "ranks, and against that of Press' ranks with an arrow where it is at "
    "least so much, for each setting of a knob and each exchange of the "
    "softmax; pale where a row is no evidence, hollow where it is "
    f"published. {title}.",
)

# %% [markdown]
# **Figure 1.** Each mark is one change of a setting or of the output layer. To the right the rank grows. The vertical axis is
# the change of perplexity. Pale marks are no evidence.

# %%
several = changes[changes.n > 1]  # of one pair there is no interval
shown = ranks.shown(several).round(3)
if len(counted):
    display(shown[several.evidence].drop(columns="rate").round(2))
small = shown[~several.evidence].to_html()
page = f"<summary>Our rows that are no evidence</summary>{small}"
display(HTML(f"<details>{page}</details>"))
display(printed.rename(columns={"rank": "Press' rank, ratio"}).round(2))

# %% [markdown]
# Look at the two published knobs together. In the paper, more components raise the rank and lower the
# perplexity, while less dropout raises both on WikiText-2. In the table less dropout also raises the
# perplexity on the Penn Treebank, where the mixture's rank is nearly full at every dropout. If rank were what
# matters, perplexity would go the same way with both knobs. More components bring more parameters, and less
# dropout brings less regularisation. Capacity and regularisation explain both directions, while rank explains
# only one.

# %% [markdown]
# ## The last epoch, too
#
# The numbers above belong to the best epoch of each run. A layer of more freedom may overfit sooner, and then
# its best epoch comes sooner. The best epoch hides what happens later. So we compare the differences of
# validation perplexity at the two epochs:

# %%
best, last = (ranks.interventions(points, column)
              for column in ("valid", "last valid"))  # fmt: skip
if len(counted):
    display(Markdown(ranks.at_last_told(best, last)))

# %% [markdown]
# Here are the two knobs of a mixture at both epochs. *Best* and *last* are validation perplexities, the means over *n*
# seeds, and *change* is the rise from the best epoch to the last one in per cent. Only the weights of the best epoch are
# kept, so both ranks are known for them alone. What the ranks do after the best epoch we cannot say.

# %%
for knob in ("components", "latent dropout"):
    both = ranks.at_two_epochs(points, knob)
    display(Markdown(f"**{knob.capitalize()} of the mixture**"))
    if both.empty:
        display(Markdown("*No two values are kept with all else equal.*"))
    for title, rows in both.round(2).groupby("text"):
        rows = rows.droplevel("text")
        text = named.get(title, title)
        display(Markdown(f"*Text: {title}*"))
        display(with_ngrams(rows, text, valid="best"))

# %%
cells = ranks.grid(of)
done = evidence.done_of(of, "gss-grid")
over = ranks.over_grid(cells)
some = bool(cells.perplexity.notna().any())
if some:
    title = f"{cells.perplexity.count()} cells: {over.correlation.iloc[0]}"
    display(Markdown(
        "## The grid of c and k\n\nThe plan `gss-grid` trains a small "
        "recurrent network for each cell of the grid. In the table the "
        "second row takes the half of the cells whose perplexity is in "
        "the middle. *Spread* is the share of the spread of all cells "
        "that is left."
    ))  # fmt: skip

# %% tags=["hide-input"]
if some:
    plots.show(
        plots.grids(cells, title),
        alt="Two tables of c by k, a cell a model: Press' rank on the "
        f"left, test perplexity on the right. {dict(over.correlation)}.",
    )
    display(Markdown(
        "**Figure 2.** Each cell of a table is one model. If rank "
        "decided, one table would be dark where the other is pale."
    ))  # fmt: skip
    display(over.round(2))

# %% [markdown]
# ## Two ranks
#
# Press' rule counts the singular values of an $m\times n$ matrix that lie above $\frac12\sqrt{m+n+1}\,
# s_1\,\delta$, with $\delta$ the rounding error of a number. The rule counts even directions that are tens of
# thousands of times smaller than the largest. The effective rank counts how many singular values hold all but
# a share $\varepsilon$ of the energy $\sum_i s_i^2$. The table has the ranks of parthiban2021's Table 6, and
# our own ranks where a method has been run. We take fewer contexts than the paper, and a rank is at most the
# number of contexts, so ours do not compare with the published ranks. A ≥ marks each Press' rank of ours that nearly
# reaches the number of contexts. All rows of ours are of one model and one text, so their effective ranks compare
# with each other:

# %%
table = ranks.table_6(of)
effective = [name for name in table if name.startswith("ε")]
table = table.astype(dict.fromkeys(effective, int))
press = ranks.at_least(table.Press, table.limited, ".0f")
table.assign(Press=press)[[*effective, "Press", "text"]]

# %%
# NBVAL_CHECK_OUTPUT
six = ranks.table_6(of)[["Press", "ε = 1e-03"]].astype(float)
ratio = six.loc["mos, published"] / six.loc["softmax, published"]
print("a mixture's rank is that of a softmax, times")
print(ratio.round(1).to_string())

# %% [markdown]
# In print a mixture has twenty-five times Press' rank of a softmax, and one and a half times its effective
# rank at $\varepsilon = 10^{-3}$. So nearly all of the new dimensions together hold less than a thousandth of
# the energy. That is no proof that they are useless: a softmax has directions of so little energy, too, and needs
# some of them. [Lesson 10](10_monotone_softmaxes.ipynb) cuts them off and looks at the perplexity.

# %% [markdown]
# ## A correlation taken apart
#
# Over all runs of one experiment, rank and perplexity have some correlation. This correlation has two parts.
# The part *between* settings compares the means of settings, which differ in much beside the rank. The part
# *within* a setting compares runs that differ only in the seed. But the settings share their seeds, and a seed
# that is good for one setting is good for most of them. So the mean of the seed is taken away, too, and only the
# seeds count as points. With three seeds the interval is then all of $[-1, 1]$.
#
# We take the experiment that has the most settings of layers that set the rank, and one on a whole text before any
# on a part. An experiment here is one model, one text, one budget and one learning rate. The rate changes perplexity
# and hardly the rank, so several rates at once would hide what the rank does. The effective rank comes first, because
# the number of contexts does not limit it.

# %%
chosen = ranks.most_settings(points)
text = chosen.text.iloc[0] if len(chosen) else "no text"
figures = {ranks.EFFECTIVE: ranks.EPSILONS[0], "Press' rank": "rank"}
logs = np.log(chosen[[*figures.values(), "perplexity"]].astype(float))
labels = chosen.setting, chosen.seed
of_run = {name: (logs[column], logs.perplexity, *labels)
          for name, column in figures.items()}  # fmt: skip
parts = ranks.divided(*of_run[ranks.EFFECTIVE])

# %%
told = {name: ranks.divided(*columns)._asdict()
        for name, columns in of_run.items()}  # fmt: skip
told = pd.DataFrame(told).map(ranks.written)
words = told[ranks.EFFECTIVE].to_dict()

# %% tags=["hide-input"]
if len(chosen):
    columns = [ranks.EPSILONS[0], "perplexity", "setting", "method"]
    of_points = [chosen[column] for column in columns]
    r = [f"{p.r:+.2f}" if p else "unknown" for p in parts[1:]]
    title = f"Correlation: {r[1]} between settings, {r[0]} within"
    axes = ranks.EFFECTIVE, "test perplexity"
    plots.show(
        plots.correlated(*of_points, *axes, title),
        alt="Test perplexity against the effective rank, a point a run, "
        "named by its output layer and joined "
        f"to the mean of its setting, on {text}. {words}.",
    )

# %% [markdown]
# **Figure 3.** Small marks are runs, and each run is joined to the mean of its setting. The correlation between the means and the
# correlation within a setting can differ in sign.

# %%
if len(chosen):
    display(told.T)
    display(Markdown(ranks.two_groups(chosen["rank"])))

# %%
low, high = ranks.leaving_one_out(*of_run[ranks.EFFECTIVE])
if low == low:  # known
    display(Markdown(
        "Leave out any one setting: the correlation of effective rank and "
        "perplexity within settings then "
        f"lies between {low:+.2f} and {high:+.2f}."
    ))  # fmt: skip

# %% [markdown]
# What a correlation says depends on what varies. From one seed to the next a run that has learned more may
# have a higher rank *and* a lower perplexity: the training would then be the cause of both. Between settings
# the layer sets the rank. If rank were what lowers perplexity, this correlation would be negative. The
# correlation over all runs counts the seeds of a setting as independent, so its interval is too narrow.

# %% [markdown]
# Here is the correlation of Press' rank and perplexity over all published rows that have both, by corpus. They
# are of a few methods, some with several settings, and the rows of one method are not independent. So the
# intervals are too narrow. *Off by < 1* leaves out the rows whose perplexity is further than 1 from the median.

# %%
rows = {}
for corpus, group in published.groupby("corpus"):
    every = group.drop_duplicates(["method", "rank", "perplexity"])
    off = (every.perplexity - every.perplexity.median()).abs()
    for name, part in (("all", every), ("off by < 1", every[off < 1])):
        x, y = np.log(part["rank"]), np.log(part.perplexity)
        r = ranks.divided(x, y, np.arange(len(part))).over_all
        rows[f"{corpus}, {name}"] = {"correlation": ranks.written(r)}
pd.DataFrame(rows).T

# %% [markdown]
# ## What removing outliers does
#
# Over its grid parthiban2021 finds a correlation of 0.48 on the Penn Treebank, and of 0.24 once the models
# outside perplexities of 56.6 to 57.6 are left out: “fairly weak”. But a narrower range alone lowers a
# correlation. Suppose that one variable depends on the other by a straight line, with the same noise
# everywhere. If the spread of the other shrinks to a share $u$, a correlation $r$ becomes
#
# $$ r' = \frac{r\,u}{\sqrt{1 - r^2 + r^2u^2}} . $$
#
# We simulate pairs of normal numbers with a correlation of 0.48, and keep only the pairs whose second number
# lies near the middle.

# %%
rng = np.random.default_rng(SEED)
sizes = {"smoke": 200_000, "quick": 400_000}
n = sizes.get(PROFILE, 1_000_000)
r_paper = 0.48
y = rng.standard_normal(n)
noise = np.sqrt(1 - r_paper**2) * rng.standard_normal(n)
x = r_paper * y + noise
measured = {}
for window in (0.4, 0.6, 0.8, 1, 1.5, 2, 3):
    near = np.abs(y) < window
    measured[y[near].std()] = np.corrcoef(x[near], y[near])[0, 1]
share = np.linspace(0.2, 1, 50)
formula = [ranks.restricted(r_paper, u) for u in share]
left = ranks.restricted(r_paper, 0.45)

# %% tags=["hide-input"]
curves = {"formula": (share, formula)}
curves["simulated"] = (np.array(list(measured)), list(measured.values()))
title = f"A spread of 45 % leaves {left:.2f} of a correlation of {r_paper}"
figure = plots.lines(curves, "share of the spread that is kept",
                     "correlation that is left", title=title)  # fmt: skip
figure.axes[0].plot(0.45, left, "o", color=plots.INK, markersize=9)
plots.show(
    figure,
    alt="Correlation against the share of the spread that is kept: the "
    "formula and the simulation agree, rising from 0.1 to 0.48. A dot "
    f"marks a share of 0.45, where {left:.2f} is left.",
)

# %% [markdown]
# **Figure 4.** One line is the formula, and the other one is the simulation. The dot is the share of the spread
# that is left where only good models are compared.

# %%
# NBVAL_CHECK_OUTPUT
gaps = [abs(ranks.restricted(r_paper, u) - measured[u]) for u in measured]
off = max(gaps)
print("formula and simulation agree within 0.01:", bool(off < 0.01))
print(f"left of 0.48 at a share of 0.45: {left:.2f}")

# %% [markdown]
# The published drop, from 0.48 to 0.24, is what narrowing alone does if the spread falls to 45 %. The paper does
# not print the spread. So the drop shows neither that the correlation is weak nor that it is strong.

# %% [markdown]
# ## What would change the answer
#
# - **The grid of c and k.** parthiban2021 trained 72 models on the Penn Treebank, $c$ from −2 to 2 and $k$ from
#   1.25 to 3 (their Figure 2). The plan `gss-grid` has the same cells for a small recurrent network. The plan
#   `parthiban2021-figure-2` has them as in the paper, for AWD-LSTM.
# - **More interventions by models that beat counting.** The plan `desk` has further seeds of each exchange.
#   The plan `desk-mixture` varies the mixture's number of components and its latent dropout at the desk.
# - **An intervention that lowers perplexity through the rank alone**: no more parameters, no less noise,
#   the same best epoch or a later one, and an interval below zero.
# - **A task whose true $\log P$ needs the rank.** [Lesson 4](04_softmax_bottleneck.ipynb) builds such a task,
#   and in this task the rank decides.

# %%
display(Markdown(done))

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $d$ | `size` | numbers of a context, which bound the rank of one softmax |
# | $c, k$ | `points.c`, `points.k` | where the generalised SigSoftmax bends, and how far |
# | $s_i$ | `singular_values` | singular values of the matrix of $\log P$ |
# | $\varepsilon$ | `ranks.EPSILONS` | the share of energy that an effective rank leaves out |
# | $r, r'$ | `restricted(r, share)` | correlation before and after the range is narrowed |
# | $u$ | `share` | spread that is kept, over the spread before |

# %% [markdown]
# ## Exercises
#
# ### 1. The effective rank
#
# *Difficulty 1/3, importance 3/3, five minutes.* Assign to `rank_for` a function of singular values (largest
# first) and $\varepsilon$ that returns the least $k$ with $\sum_{i\le k} s_i^2 \ge (1-\varepsilon) \sum_i
# s_i^2$.
#
# <details><summary>Hint</summary>
#
# `np.cumsum` of the squares, then the number of places where it is still below.
#
# </details>

# %% tags=["exercise"]
rank_for = None  # a function of singular values and epsilon


# %%
def as_defined(rank_for):
    s = np.geomspace(100, 1e-3, 60)
    ours = [int(rank_for(s, epsilon)) for epsilon in (1e-1, 1e-3, 1e-5)]
    right = [effective_rank(s, epsilon) for epsilon in (1e-1, 1e-3, 1e-5)]
    if ours == [k - 1 for k in right]:
        return "one too few: the sum has to reach the share"
    if ours[0] > right[0]:
        return "too many: is it the squares that are summed?"
    return ours == right


check("31.1", rank_for, as_defined)

# %% [markdown]
# ### 2. The other corpus
#
# *Difficulty 2/3, importance 2/3, ten minutes.* On WikiText-2 the correlation falls from 0.53 to 0.21 when
# outliers go. To which share must the spread have shrunk if narrowing alone did it? Assign the number to
# `needed`.
#
# <details><summary>Hint</summary>
#
# Solve the formula for $u$, or look for the $u$ at which `ranks.restricted(0.53, u)` is 0.21.
#
# </details>

# %% tags=["exercise"]
needed = None  # a share between 0 and 1


# %%
def gives(needed):
    if not 0 < needed < 1:
        return "a share lies between 0 and 1"
    if abs(needed - 0.21 / 0.53) < 0.003:
        return "not the ratio of the two: the formula has a root in it"
    return abs(ranks.restricted(0.53, needed) - 0.21) < 0.003


check("31.2", needed, gives)

# %% [markdown]
# ## What we saw
#
# These interventions are evidence:

# %%
display(Markdown(ranks.told(counted)))

# %%
others = ranks.distinct(changes)
others = others[~others.evidence]
surely = others[others.p < 0.05]
falls = int((surely.difference < 0).sum())
said = [
    f"{len(others)} of our other settings raise Press' rank, up to "
    f"{others['rank'].max():.0f}-fold, and are no evidence. By Holm's "
    f"correction perplexity falls in {falls} and rises in "
    f"{len(surely) - falls} of these settings."
] if len(others) else []  # fmt: skip
if some:
    r = over.correlation.iloc[0]
    said.append(f"Over the grid of c and k the correlation is {r}.")

# %%
dropout = printed[printed.knob == "latent dropout"]
said.append(
    "In print less dropout raises perplexity by up to "
    f"{dropout.difference.max():.0f} % and never lowers the rank, while "
    "more components raise the rank and lower perplexity."
)
display(Markdown(" ".join(said)))

# %%
r = parts.between
unsure = r is None or r.low * r.high <= 0
worth = (
    "The correlation between settings says nothing about the sign."
    if unsure else "Settings differ in more than the rank, too."
)  # fmt: skip
display(Markdown(
    f"**Does a model predict better because the rank is higher?** "
    f"{ranks.answer(changes)}\n\nOver the {len(chosen)} runs of this one "
    "experiment the correlation of effective rank and perplexity is "
    f"{words['between']} between settings "
    f"and {words['within']} within. {worth} A correlation of {r_paper} "
    f"becomes {left:.2f} by a narrower range alone."
))  # fmt: skip

# %% [markdown]
# ## References
#
# - D. Parthiban, Y. Mao, D. Inkpen (2021). *On the Softmax Bottleneck of Recurrent Language Models.*
#   AAAI.
# - Z. Yang, Z. Dai, R. Salakhutdinov, W. W. Cohen (2018). *Breaking the Softmax Bottleneck: A High-Rank
#   RNN Language Model.* ICLR. [arXiv:1711.03953](https://arxiv.org/abs/1711.03953)
# - S. Kanai, Y. Fujiwara, Y. Yamanaka, S. Adachi (2018). *Sigsoftmax: Reanalysis of the Softmax
#   Bottleneck.* NeurIPS. [arXiv:1805.10829](https://arxiv.org/abs/1805.10829)
# - R. L. Thorndike (1949). *Personnel Selection.* Wiley. Case 2 of the restriction of range.

# %% [markdown] tags=["way"]
# ← Previous: [30. The leaderboard and the ledger of claims](30_leaderboard.ipynb)
#
# → Next: [32. Word similarity](32_word_similarity.ipynb)
