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
# # 35. What it costs
#
# **Question.** What does a lower perplexity cost, in seconds and in megabytes?

# %% [markdown]
# ## What you will learn
#
# - to compare the time of two methods by runs that share a machine and a seed;
# - to read a Pareto front: which settings are worth running at all;
# - to tell how much of a method's cost is arithmetic, and how much comes from the way it is computed.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Notebook 23](23_run_a_batch.ipynb) on the paired test, [notebook 30](30_leaderboard.ipynb)
# on the tiers of our runs. Nothing is trained and nothing is timed here: this notebook reads the times of kept
# results and of the kept benchmarks. `docs/speed.md` says how the benchmarks are made.
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

from course_lab import evidence, families, kept_costs, plots, published
from course_lab.progress import check
from course_lab.tables import with_ngrams

of = evidence.read(OWN)
runs = kept_costs.runs(of)
bench = kept_costs.models()
layers = kept_costs.layers()

# %% [markdown]
# ## Predict
#
# A mixture of 15 softmaxes forms 15 times as many logits as one softmax. On a GPU, parthiban2021 measured 100
# seconds an epoch for the mixture and 55 for the softmax. How many times the softmax's time will a mixture of 4
# take on one core of a CPU? How many times will SigSoftmax take, which adds a few elementwise operations to
# each logit?

# %% [markdown]
# ## Each method against the softmax
#
# We compare each method with the tied softmax, by runs that share the seed, the model, the text, the machine and
# the number of threads. The column *family* names the model. The ratio is the exponential of the mean difference
# of $\log(\text{seconds})$ over $n$ seeds, with its 95 % interval. The published ratio comes from Table 2 of
# parthiban2021, for an AWD-LSTM on a V100 GPU. The encoder of this AWD-LSTM takes a larger share of the time than
# the encoder of our small model. A method has a published ratio only where the table has the method with as many
# components as ours; its mixture of softmaxes has 15, and it has no mixture of contexts (*moc*). The intervals
# are not corrected for the number of methods. The column $p$ is corrected by Holm for all methods that the family
# declares. A method differs from the softmax where $p$ is below 0.05.

# %% tags=["hide-input"]
ratios = kept_costs.ratios(runs)
if len(ratios):
    dearest = ratios.iloc[-1]
    title = f"{dearest.method} takes {dearest.ratio:.1f} times as long"
    plots.show(
        plots.multiples(ratios, title),
        alt="For each method the ratio of its seconds an epoch to "
        "the softmax's: a dot with its interval for ours, a diamond for "
        f"the published ratio. {title} as the softmax.",
    )
ratios.round(3)

# %% [markdown]
# **Figure 1.** A dot to the right of 1 is dearer than the softmax. A diamond is the ratio that the paper prints.

# %% [markdown]
# ### The desk beside it
#
# The desk has more methods than the small Transformer, but its runs of one seed were made on several machines.
# So the next table takes the ratio of medians on each machine and in each precision, whatever the seeds are.
# The column *n* has the runs of the method there. Such a ratio has no interval. The column *swing* says how
# many times as long the slow epochs of these runs took as the quick ones, the ninth tenth over the first. A
# ratio below the swing of `tied` may be one of two loads of the machine. With one run of `tied` on a machine,
# the noise of this run is in all ratios of its column. Several runs may have shared a GPU, and a model this
# small may wait there for other work than that of its output layer. A method is left out where the softmax has
# no run in its precision. *Transformer* has the paired ratio from above. The last two columns have what the
# papers print for an AWD-LSTM, where they have the same method: parthiban2021 on the Penn Treebank, with as
# many components as ours, and wang2020 on WikiText-2.

# %%
rows = published.rows()
rows = rows[rows.metric.isin(["seconds-per-epoch", "gigabytes"])]
names = ["paper", "metric", "corpus", "model"]
printed = rows.pivot_table(index=names, columns="method", values="value")
plain = printed["softmax"]
relative = printed.div(plain, axis=0).drop(columns="softmax")
wang = relative.loc["wang2020", "seconds-per-epoch", "wikitext-2"].iloc[0]

# %%
desk = kept_costs.by_machine(of)
if len(desk):
    of_desk = runs[runs.family == "ptb/desk"].groupby("method").components
    counted = of_desk.max().reindex(desk.index).fillna(1)
    seconds = kept_costs.published_seconds()
    paired = ratios.set_index("method").ratio
    desk["Transformer", "ratio"] = paired.reindex(desk.index)
    desk["parthiban2021", "ratio"] = [
        seconds.get(pair, np.nan) for pair in counted.items()]
    desk["wang2020", "ratio"] = wang.reindex(desk.index)
    display(desk.round(2).astype(object).fillna(""))

# %%
members = [
    run for run in of.runs
    if evidence.family_of(run.setting.recipe) == "ptb/desk"
]  # fmt: skip
marks = families.other_precisions(members)
marked = ", ".join(f"`{name}`" for name in marks.values()) or "none"
told = f"*In another precision than the softmax: {marked}.*"
display(Markdown(told))

# %% [markdown]
# The next table has the memory of the runs of the first table, as a ratio to the softmax's. The code of this course never
# forms the whole table of logits, so we expect a ratio near 1 even where a layer has more logits. The peak of a
# process varies from seed to seed, and the intervals say by how much:

# %%
memory = kept_costs.ratios(runs, "megabytes").drop(columns="published")
memory.round(2)

# %% [markdown]
# ## What the papers say of time and memory
#
# Each cell is a ratio to the softmax. The last column has the softmax itself, in seconds an epoch or gigabytes.

# %%
relative["softmax itself"] = plain
relative.round(2).astype(object).fillna("")

# %% [markdown]
# ## Whole models against plain PyTorch
#
# The kept benchmarks train each model in turn with this course's code and with a plain form of the same model in
# PyTorch. There is one benchmark for each kind of processor. *Ours* is our speed in tokens a second. *Times
# plain* divides our speed by that of the plain form. The products of matrices and the memory of the machine would
# allow a certain speed, and *share of limit* is our speed divided by this limit. *Times reference* divides our
# speed by that of the papers' released code on another machine, so it does not compare the codes alone. The rows
# *cache* and *dynamic* adapt a trained model to the test text. *Memory* is our peak divided by that of the plain
# form.

# %%
shown = bench.set_index(["machine", "model", "precision"])
factors = pd.DataFrame({
    "ours": shown.ours.round(),
    "times plain": shown["times plain"],
    "share of limit": shown.ours / shown.floor,
    "times reference": shown.ours / shown.reference,
    "memory": shown.megabytes / shown["plain megabytes"],
})
for machine in bench.machine.unique():
    display(Markdown(f"**{machine}**"))
    display(factors.loc[machine].round(2).astype(object).fillna(""))

# %% [markdown]
# ## Seconds an epoch
#
# The table has the kept trainings of each model with its plain softmax: the median of the seconds an epoch over
# *n* runs, and the median peak of the process in megabytes. A machine that ran other work beside the training
# shows more seconds.

# %%
kept_costs.by_model(runs).round().astype("Int64")

# %% [markdown]
# ## Each output layer and each penalty alone
#
# The tables time the forward and the backward pass from given contexts of size 400, by the number of words.
# *Times plain* again divides our speed by that of the layer's plain PyTorch form, so above 1 our code is
# quicker. *Time of softmaxes* is the layer's time divided by the time of our softmax. The mixtures have 15
# components here, and there is no encoder beside the layer, so the mixture's factor is larger than in the first
# figure. The row of the softmax compares it with itself, so its distance from 1 shows what chance alone does to
# a ratio. Single cells may be off by more, because each row has its own measurement. *Softmax by torch* is
# PyTorch's own chunked cross-entropy. A cell is empty where the plain form does not fit into the machine's
# memory, or where nothing is kept. *ms* are milliseconds, and *MB* megabytes beyond the parameters and their
# gradients. Each number of words is measured with another number of positions, so *MB* can be compared within a
# column only. The rows were timed one after the other on a machine whose speed changes. So compare methods by
# *time of softmaxes* and never by *ms*: the ratio of a row was taken in turn with a softmax of its own.

# %%
layers["times plain"] = 1 / layers["times naive"]
layers["time of softmaxes"] = layers["times softmax"]
ratios_of = ["times plain", "time of softmaxes"]
for (machine, precision), rows in layers.groupby(["machine", "precision"]):
    wide = rows.pivot_table(ratios_of, "method", "words", sort=False)
    display(Markdown(f"**{machine}, {precision}**"))
    display(wide.round(2).astype(object).fillna(""))
    spent = rows.pivot_table(["ms", "MB"], "method", "words", sort=False)
    display(spent.round().astype(object).fillna(""))

# %%
# NBVAL_CHECK_OUTPUT
cost = np.array([1.0, 2, 2, 3, 4])
loss = np.array([5.0, 4, 6, 4, 3])
print("on the front:", kept_costs.front(cost, loss).tolist())

# %% [markdown]
# ## Quality against cost
#
# A setting is on the **Pareto front** if no other setting is at least as cheap and at least as good, and better
# in one of the two. A setting that is far from the front need not be run. Cost is in core minutes: the epochs
# of a run times its median epoch, times its threads. So an epoch during which the machine stood still does not
# count for more. How good a setting is, its *validation* perplexity decides. The figure shows the test
# perplexity, for which nothing was chosen. Each mark is the median over the seeds of a setting on the Penn
# Treebank, and the column *n* of the table below says how many seeds there are. With one seed a place on the
# front may be luck.
#
# A Kneser–Ney model of [notebook 30](30_leaderboard.ipynb) is a setting like any other. It takes seconds of one
# core, so a network with a higher perplexity than `ptb/kneser-ney/order-5` is never on the front. The last rows of
# the table below the figure are the unigram and the Kneser–Ney models of this text, without a cost.
#
# Two kinds of runs are left out. The minutes of a run that started from the weights of another run are only a
# part of its cost. The minutes of a GPU are no core's, and several runs may have shared the card.

# %%
points = kept_costs.settings_of(runs)
best = points["on front"]
on_gpus = kept_costs.on_gpus_only(of)
named = ", ".join(f"`{name}`" for name in on_gpus) or "no recipe"
told = f"*Left out, because all of their runs used a GPU: {named}.*"
display(Markdown(told))

# %% tags=["hide-input"]
if len(points):
    title = f"{int(best.sum())} of {len(points)} settings are on the front"
    plots.show(
        plots.priced(points, best, "core minutes", title),
        alt="Test perplexity against core minutes on the Penn Treebank, a "
        "mark a setting, the front joined by a dashed line and numbered. "
        f"{title}: "
        f"{', '.join(points[best].sort_values('cost').recipe)}.",
    )

# %% [markdown]
# **Figure 2.** A setting on the front has no other setting that is both cheaper and better. The numbers are those of the table below.

# %%
front = points[best].sort_values("cost").round(1)
front["cost"] = [float(f"{cost:.2g}") for cost in points.cost[front.index]]
front = front.drop(columns=["family", "on front"])
numbers = range(1, len(front) + 1)  # as in the figure
front.index = pd.Index(numbers, name="number")
text = next((run.setting.text for run in of.runs if
             evidence.title_of(run.setting.text) == "ptb"), "no text")
display(with_ngrams(front, text, test="perplexity", valid="valid"))
ptb = runs[(runs.text == "ptb") & ~runs.continued]
machines = ptb.groupby("machine").size()
display(machines.rename("runs").to_frame())

# %% [markdown]
# The marks belong to several machines and precisions, which change the minutes of a run, too. So neighbours on
# the front are not told apart, and a setting may be off the front only because it ran on a slower machine than
# another one. The column *machine* has the processors of its runs. The ratios above are within one machine.

# %% [markdown]
# ## What would change the answer
#
# - **A vocabulary of another size.** The cost of an output layer grows with the number of words, and the cost
#   of the encoder does not. The tables of layers above have the sizes that are kept; `python -m benchmarks
#   output-layers` measures others on your machine.
# - **A GPU.** Elementwise work makes PLIF and SigSoftmax expensive on a core. The published ratios, of a GPU, are
#   smaller. The GPU or the larger encoder may be the reason. The table of the desk has a small encoder on a GPU, but
#   only few runs of it.
# - **A quiet machine.** Some of the runs shared their machine with other work. The two runs of a pair ran one
#   after the other, so other work may have slowed only one of the two.
# - **More settings at the same budget** would move the front.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $n$ | `ratios.n` | seeds that a method and the softmax share |
# | $t / t_0$ | `ratios.ratio` | seconds an epoch over those of the softmax |
# | $p$ | `ratios.p` | of the paired t-test on $\log t$, corrected by Holm |

# %% [markdown]
# ## Exercises
#
# ### 1. On the front
#
# *Difficulty 2/3, importance 2/3, ten minutes.* Assign to `on_front` a function of two arrays, costs and losses,
# that returns for each point whether the point is on the front: no other point has at most its cost and at most
# its loss, and less of one of the two.
#
# <details><summary>Hint</summary>
#
# Compare each point with all others by broadcasting, `cost[:, None] <= cost`. Two equal points do not
# beat each other.
#
# </details>

# %% tags=["exercise"]
on_front = None  # a function of costs and losses


# %%
def undominated(on_front):
    cost = np.array([3.0, 1, 5, 1, 2, 4, 3])
    loss = np.array([3.0, 5, 1, 5, 4, 3, 4])
    ours = np.asarray(on_front(cost, loss), dtype=bool)
    right = kept_costs.front(cost, loss)
    if (ours <= right).all() and (ours != right).any():
        return "too few: equal points do not beat each other"
    return bool((ours == right).all())


check("35.1", on_front, undominated)

# %% [markdown]
# ### 2. What a mixture may cost
#
# *Difficulty 2/3, importance 3/3, ten minutes.* Suppose that perplexity falls by 1 % each time that the training
# is made 1.3 times as long, and that a mixture at 3.2 times the softmax's time lowers it by 4 %. By how many per
# cent would the softmax lower its perplexity in the mixture's time? Assign the number to `gain`, positive.
#
# <details><summary>Hint</summary>
#
# $3.2 = 1.3^x$. Each of the $x$ steps multiplies perplexity by 0.99.
#
# </details>

# %% tags=["exercise"]
gain = None  # per cent


# %%
def as_long(gain):
    steps = np.log(3.2) / np.log(1.3)
    if abs(gain - 3.2 / 1.3) < 0.02:
        return "lengthening is a factor: take logarithms"
    return abs(gain - 100 * (1 - 0.99**steps)) < 0.1


check("35.2", gain, as_long)

# %% [markdown]
# ## What we saw

# %%
said = [f"{row.method} {row.ratio:.1f} [{row.low:.1f}, {row.high:.1f}]"
        for row in ratios.itertuples()]  # fmt: skip
adapts = factors.index.get_level_values("model").str.startswith("cache")
kept = factors["times plain"][~adapts]
cached = factors["times plain"][adapts]

# %%
display(
    Markdown(
        "An epoch takes so many times as long as with the tied softmax: "
        f"{', '.join(said) or 'no pairs are kept'}. The course's code is "
        f"{kept.min():.2f} to {kept.max():.2f} times as fast as plain "
        f"PyTorch, {kept.median():.2f} in the median of {len(kept)} kept "
        f"rows, and with the cache {cached.min():.0f} to "
        f"{cached.max():.0f} times."
    )
)

# %%
machines = desk.columns.unique(0) if len(desk) else ()
on_desk = [kept_costs.desk_told(desk, machine)
           for machine in machines if "n" in desk[machine]]  # fmt: skip
display(Markdown("\n\n".join(filter(None, on_desk))))

# %%
if len(memory):
    display(
        Markdown(
            f"The peak of memory is {memory.ratio.min():.2f} to "
            f"{memory.ratio.max():.2f} times that of the softmax. The "
            f"intervals of these ratios reach from {memory.low.min():.2f} "
            f"to {memory.high.max():.2f}, because the peak of a process "
            "varies from seed to seed: smaller changes cannot be seen."
        )
    )

# %%
prices = zip(front.perplexity, front.cost, strict=True)
steps = [f"{perplexity:.1f} for {cost:,g}" for perplexity, cost in prices]
display(
    Markdown(
        f"{len(steps)} of {len(points)} settings on the Penn Treebank are "
        "on the front. Their test perplexities, each with its price in "
        f"minutes of a core, are {', '.join(steps) or 'not kept'}."
    )
)

# %% [markdown]
# ## References
#
# - D. Parthiban, Y. Mao, D. Inkpen (2021). *On the Softmax Bottleneck of Recurrent Language Models.*
#   AAAI. Table 2.
# - L. Wang, J. Huang, K. Huang, Z. Hu, G. Wang, Q. Gu (2020). *Improving Neural Language Generation with
#   Spectrum Control.* ICLR. Table 7.

# %% [markdown] tags=["way"]
# ← Previous: [34. The generalisation bound](34_generalization_bound.ipynb)
#
# → Next: [36. Examine a checkpoint: what ails a word matrix?](36_examine_a_checkpoint.ipynb)
