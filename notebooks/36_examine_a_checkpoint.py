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
# # 36. Examine a checkpoint: what ails a word matrix?
#
# **Question.** Given nothing but a word matrix, can you say whether it is ill, with what, how badly, and whether anything helps?

# %% [markdown]
# ## What you will learn
#
# - to recognise five diseases of a word matrix by their pictures: common drift, cone, low rank, a
#   few rogue dimensions, and rare words in a place of their own;
# - to measure how severe each is, on one scale that means the same for a matrix of any shape;
# - to read the examination of a real checkpoint, and to judge what a repair after training can and
#   cannot do.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 1](01_output_layer.ipynb) and [lesson 2](02_degeneration.ipynb): the
# output matrix, singular values, cosines.
#
# | profile | minutes | runs on | what is examined |
# |---|---|---|---|
# | smoke | 0.5 | any CPU | matrices of 600 × 32, a model of 30,000 tokens |
# | quick | 1 | two CPU cores | matrices of 2,000 × 64, a model of 30,000 tokens |
# | standard | 4 | two CPU cores | matrices of 10,000 × 128, a model of 600,000 tokens |
# | full | 5 | two CPU cores | matrices of 20,000 × 256, a model of 600,000 tokens |
#
# On Google Colab, run this in a first cell and restart the session:
#
# `!git clone -q https://github.com/output-embedding-course/output-embedding-course && pip install -q -c output-embedding-course/constraints.txt -e "./output-embedding-course[lab]"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
SEED = 5  # of the matrices and of the order in which they are shown

# %%
import tempfile

import numpy as np
import pandas as pd
from IPython.display import Markdown, display

import course_lab
from course_lab import examine, plots, published
from course_lab.examine import figures
from course_lab.progress import check
from course_lib.metrics import geometry, subspaces

shapes = {"smoke": (600, 32), "quick": (2000, 64)}
shapes |= {"standard": (10_000, 128), "full": (20_000, 256)}
N, d = shapes[PROFILE]
series = examine.graded_series(N, d, seed=SEED)
groups = examine.frequency_groups(series[0].counts)

# %% [markdown]
# ## Six patients
#
# `graded_series` makes matrices $W$ of $N$ rows, one a word, and $d$ columns. Each matrix begins as a round
# cloud of independent Gaussian numbers. Then the matrix is made ill, so that the disease takes the share $s$ of
# the cloud's **energy**, the mean of $\|w_i\|^2$ over the rows $w_i$. There are five diseases:
#
# - **common drift**: one and the same vector is added to every row;
# - **cone**: one vector is added to every row, and then every row is stretched by a factor of its own, so the
#   rows point one way but differ in length;
# - **low rank**: a few directions, turned at random, hold what should be spread over all $d$;
# - **rogue dimensions**: three of the $d$ *coordinates* are stretched (Timkey and van Schijndel 2021);
# - **frequency split**: a vector is added to the rows of the rarer half of the words, and takes the share $s$
#   of the energy of these rows.
#
# Words are in the order of their frequency, which follows Zipf's law. Here is one patient with each
# disease at $s = 0.8$, and a healthy one, in an order that you do not know.

# %%
ill = [one for one in series if one.strength in (0.0, 0.8)]
order = np.random.default_rng(SEED).permutation(6)
patients = dict(zip("ABCDEF", [ill[i] for i in order]))
names = {"rare": groups.rare, "frequent": groups.frequent}
few = np.concatenate([ids[:300] for ids in names.values()])
which = np.repeat([0, 1], [len(ids[:300]) for ids in names.values()])


def together(figure, xlabel, ylabel):
    """One legend, and one label an axis, for all panels."""
    shown = figure.axes[0].get_legend_handles_labels()
    for ax in figure.axes:
        ax.legend_.remove()
        ax.set(xlabel="", ylabel="")
    figure.legend(*shown, loc="outside upper center", ncols=2)
    figure.supxlabel(xlabel)
    figure.supylabel(ylabel)


# %% [markdown]
# ## Predict
#
# Below are three pictures of each patient: the cloud on the plane of its two largest singular
# values, the cosines of pairs of words, and the singular values. **Write down a disease for each
# letter before you read on.** Ask yourself:
#
# 1. Where is the origin: in the middle of the cloud, or outside it?
# 2. Are the bells of the cosines about 0? Do rare and frequent words have the same bell?
# 3. Do the singular values follow those of a random matrix? If not: does *one* stand out, do a
#    *few*, or do they fall all the way?
# 4. One pair of patients has nearly the same singular values and cosines. Another pair differs only in the
#    number of large singular values, and in single coordinates. Which patients are these?

# %% tags=["hide-input"]
figure, axes = plots.panels(3, 2, height=3.1)
for ax, (letter, one) in zip(axes.flat, patients.items()):
    points = subspaces.project(one.W).points[few]
    plots.groups_of_points(points, which, names, letter, ax)
together(figure, "first singular direction", "second singular direction")
plots.show(
    figure,
    alt="Six clouds, A to F, on the plane of their two largest singular "
    "values, with the origin marked: some round about it, some to one "
    "side, one in two clumps of rare and of frequent words.",
)

# %% [markdown]
# **Figure 1.** Each cloud is shown in the plane of its two largest singular values, with the origin marked.

# %% tags=["hide-input"]
figure, axes = plots.panels(3, 2, height=2.6)
for ax, (letter, one) in zip(axes.flat, patients.items()):
    pairs = {g: geometry.pair_cosines(one.W[i]) for g, i in names.items()}
    plots.cosine_histogram(pairs, ax, letter)
together(figure, "cosine of two word vectors", "density")
plots.show(
    figure,
    alt="Densities of the cosines of pairs of rare and of pairs of "
    "frequent words for A to F. Some bells stand about 0, narrow or "
    "wide, others far to the right of it.",
)

# %% [markdown]
# **Figure 2.** A bell at 0 belongs to pairs of words that have nothing in common. Two bells far apart tell rare words from frequent ones.

# %% tags=["hide-input"]
chance = examine.random_spectrum(N, d, seed=SEED)
figure, axes = plots.panels(3, 2, height=2.6, sharex=True, sharey=True)
for ax, (letter, one) in zip(axes.flat, patients.items()):
    values = geometry.singular_values(one.W)
    both = {"patient": values, "random matrix": chance}
    plots.singular_values(both, ax, letter)
together(figure, "rank of the singular value / d", "σₖ / σ₁")
plots.show(
    figure,
    alt="Singular values over the largest on a logarithmic axis, each "
    "beside those of a random matrix: one follows it, the others drop "
    "after the first, after a few, or run below it.",
)

# %% [markdown]
# **Figure 3.** A patient that follows the random matrix has no direction that is stronger than chance allows.

# %% [markdown]
# ## How ill is ill?
#
# A number alone says nothing. Is a mean row with 2 % of the energy much? With 50 words chance gives as much,
# and with 50,000 words it does not. So every severity is a comparison with a **random matrix of the same
# shape**. For most diseases a severity is the **share of the energy that is not where it should be**. A round
# cloud has severity 0, and a cloud of which nothing is left has severity 1. A frequency split and a loss of length
# have measures of their own, between 0 and 1 as well.
#
# For drift that share is simple: with the mean row $m = \frac1N\sum_i w_i$ it is $\|m\|^2 /
# \frac1N\sum_i\|w_i\|^2$. Chance gives $1/N$. Where frequencies are known, $m_r^\top m_f$ takes the place of
# $\|m\|^2$. Here $m_r$ is the mean row of the rare words and $m_f$ that of the frequent words. Only what both
# groups share is a drift.
#
# For low rank the rows are scaled to length 1 and centred. Let $F(k) = \sum_{j\le k}\sigma_j^2 /
# \sum_j\sigma_j^2$ be the share of the energy in their first $k$ singular directions, and $F_0(k)$ the same
# share in the random matrix. The severity is the widest gap, $\max_k\,[F(k) - F_0(k)]$. At least this share of
# the energy would have to move elsewhere to make the spectrum a random one.
#
# For a frequency split the rows are scaled to length 1, too. Let $\delta$ be the mean row of the rare words
# less that of the frequent words, and $v$ the variance of the rare words about their mean. The severity is
# $\|\delta\|^2/(\|\delta\|^2 + v)$, less what chance adds. If the origin is moved to the mean of the frequent
# words, this is about the mean cosine of two rare words, in which a row far from that origin counts more. The severity is
# computed for three groups: the rare words, the rarer half and the rarest tenth. The largest of the three
# counts. A disease that is named is called a *finding*, and the text of every finding says how its severity is
# measured. A sixth finding can turn up, although none of the six patients has it. In a *norm collapse* words have hardly any length, and the severity is the
# share of length that they lack on average.

# %%
low = next(one for one in patients.values() if one.disease == "low_rank")
unit = low.W / low.W.norm(dim=1, keepdim=True)
values = geometry.singular_values(unit - unit.mean(0))
F, F0 = (np.cumsum(s**2) / np.sum(s**2) for s in (values, chance))
widest = int(np.argmax(F - F0))
k = np.arange(1, d + 1)
curves = {"patient, F": (k, F), "random matrix, F₀": (k, F0)}

# %% tags=["hide-input"]
figure = plots.lines(curves, "number of directions k", "share of energy")
ax = figure.axes[0]
ax.vlines(widest + 1, F0[widest], F[widest], plots.INK, lw=3)
middle = (F0[widest] + F[widest]) / 2
ax.annotate("  widest gap", (widest + 1, middle), va="center")
plots.show(
    figure,
    alt="Share of the energy in the first k directions: it climbs at once "
    "in the patient and slowly in a random matrix. A bar marks the widest "
    f"gap, {F[widest] - F0[widest]:.2f}, at k = {widest + 1}.",
)

# %% [markdown]
# **Figure 4.** The bar is the widest gap between the patient and a random matrix. The length of the bar is the severity.

# %%
# NBVAL_CHECK_OUTPUT
by_hand = F[widest] - F0[widest]
severity = examine.diagnose(low.W)["low_rank"].severity
print("by hand and by diagnose the same:", abs(by_hand - severity) < 0.02)

# %% [markdown]
# A drift and a cone have the same cosines and nearly the same singular values, because in both all words
# share a direction. Uneven lengths only let the cone's singular values fall a little faster. What tells a
# drift from a cone is how a word's length $t$ *along* the shared direction depends on the word's distance $p$
# *from* this direction. If one vector was added to every row, $t$ does not depend on $p$, and the slope of
# $\log t$ over $\log p$ is 0. If whole rows were stretched, $t$ grows in proportion to $p$, and this slope
# equals 1.
#
# Rogue dimensions and low rank are another such pair: a rotation of the cloud turns rogue dimensions into a low
# rank. Only the coordinate axes tell the two diseases apart. If a *few* coordinates explain the large singular
# values, the finding is rogue dimensions and not low rank.

# %% [markdown]
# ## The verdicts
#
# `diagnose` ranks what it finds. A finding is named from a severity of 0.1 on, a tenth of the energy. Chance
# gives less at every shape that the tests try, among them 300 × 768 and 50,000 × 16. A finding is *mild* from a
# tenth on, and *marked* from a half on.

# %%
verdicts = {}
for letter, one in patients.items():
    verdicts[letter] = examine.diagnose(one.W, groups)
said = {letter: [verdict.sentence] for letter, verdict in verdicts.items()}
pd.set_option("display.max_colwidth", None)
pd.DataFrame(said, index=["verdict"]).T

# %%
# NBVAL_CHECK_OUTPUT
right = [verdicts[p].name == one.disease for p, one in patients.items()]
print("named correctly:", sum(right), "of", len(right))

# %% [markdown]
# For low rank and rogue dimensions the severity is below $s$, because a random matrix has some energy in their
# directions, too, and only the excess counts.
#
# How many did you have? The hardest pair is drift and cone, because their cosines and their spectra agree. In
# the pictures of the cloud the points of the cone fan out from the origin, while the points of the drift are a
# round ball far from the origin. Low rank and rogue dimensions have similar pictures, too. Their difference is
# in the energy of the single coordinates, $\frac1N\sum_i w_{ij}^2$ for $j = 1 \dots d$:

# %% tags=["hide-input"]
curves = {}
for letter, one in patients.items():
    if one.disease in ("low_rank", "rogue"):
        energy = np.sort(one.W.square().mean(0).numpy())[::-1]
        name = one.disease.replace("_", " ")
        curves[f"{letter}: {name}"] = energy / energy.mean()
xlabel = "coordinate, largest first"
figure = plots.lines(curves, xlabel, "energy / average", "y")
plots.show(
    figure,
    alt="Energy of each coordinate over the average, largest first. In "
    "the matrix with rogue dimensions three are far above all others; in "
    "that of low rank it falls smoothly.",
)

# %% [markdown]
# **Figure 5.** Three coordinates stand far above the others in the matrix with rogue dimensions. In the matrix of low rank no coordinate does.

# %% [markdown]
# Now we examine all twelve matrices of the series: each disease weak ($s = 0.3$) and strong ($s = 0.8$), the
# healthy matrix, and a matrix in which everything has collapsed: each row is nearly the same direction, which
# is called a cone. The *overall* severity is $1 - \prod_k (1 - s_k)$ over all diseases $k$ that the examination
# measures, those too weak to be named included. This is the share of the cloud that is lost if each disease
# takes its share of what the others leave. Where rogue dimensions are found, the other $s_k$ are of the
# remaining coordinates, times the share of the energy that these coordinates have.

# %%
def plain(names):
    return [name.replace("_", " ") for name in names]


# %%
found = [examine.diagnose(one.W, groups) for one in series]
ranked = sorted(zip(found, series), key=lambda pair: pair[0].severity)
figure, ax = plots.panels(height=4.6)
labels = [f"{one.disease} {one.strength}" for _, one in ranked]
severities = [finding.severity for finding, _ in ranked]
bars = ax.barh(plain(labels), severities, color=plots.COLOURS[0])
ax.bar_label(bars, plain(f" {f.name}" for f, _ in ranked), fontsize=10)
ax.set(xlabel="overall severity", xlim=(0, 1.35), xticks=[0, 0.5, 1])
plots.show(
    figure,
    alt="Overall severity of the twelve matrices, sorted, with the name "
    "of the verdict at each bar: the healthy one near 0, then the weakly "
    "ill, then the strongly ill, the collapsed one near 1.",
)

# %% [markdown]
# **Figure 6.** The bars are sorted by severity, and each has the name that the examination gives.

# %%
# NBVAL_CHECK_OUTPUT
names_right = [f.name == one.disease for f, one in zip(found, series)]
print("of twelve, the first eleven named:", all(names_right[:11]))
print("the collapsed one is:", found[-1].name, "and the worst:",
      found[-1].severity == max(f.severity for f in found))  # fmt: skip

# %% [markdown]
# ## A real patient
#
# We train the small tied Transformer of [lesson 2](02_degeneration.ipynb) for a moment, and examine its
# checkpoint as any other. The command in a terminal is
#
# `python -m course_lab examine RUN_OR_CHECKPOINT`
#
# with a run of the course, any `.safetensors` file, a Hugging Face model folder or a NumPy array. Before you
# look: which of the five diseases do you expect in a model that was trained for a minute? And what would the
# verdict have been before the first step?

# %%
profile = "smoke" if PROFILE in ("smoke", "quick") else "quick"
recipe = course_lab.recipes["docstrings/transformer-128/tied"]
experiment = course_lab.profile(recipe, profile, seed=1)
before = []


def keep_first(step, model):
    if step == 0:
        before.append(model.words.matrix().detach().cpu().clone())


folder = tempfile.TemporaryDirectory()
settings = dict(folder=folder.name, callback=keep_first, progress=False)
run = course_lab.run(experiment, **settings)

# %%
patient = examine.examine(folder.name)
untrained = examine.diagnose(before[0], patient.groups)
first = patient.diagnosis.findings[0]
display(
    Markdown(
        f"**Before training.** {untrained.sentence}\n\n"
        f"**After training.** {patient.diagnosis.sentence}\n\n"
        f"{first.seen}\n\n*Why this is the measure.* {first.reason}\n\n"
        f"*What to do.* {first.remedy}"
    )
)

# %%
# NBVAL_CHECK_OUTPUT
print("before training:", untrained.name)
print("after training:", patient.diagnosis.name)

# %% [markdown]
# The mean cosine of *all* words is high, too, as the table under *Repairs* shows, so this number alone would have
# said "drift". But frequent words
# do not share the direction. Most words are rare, so the mean over all words shows the common place of the rare
# words. This is why the examination asks for counts. Lessons 2 to 5 call this shape the cone of the rare words. In
# this notebook *cone* is the name of another shape: a direction that *all* words share, with lengths that differ.
#
# The whole report is one HTML file that opens anywhere. The report has every number, all pictures and their
# sources. One of its pictures shows the length of the word vectors:

# %%
report = examine.save_report(patient, f"{folder.name}/report")
print(f"{report.stat().st_size / 1000:.0f} kB in one file")
picture = figures.lengths(patient)
plots.show(
    picture.figure, alt=f"Points, one a word, and a line. {picture.alt}"
)

# %% [markdown]
# **Figure 7.** Each point is a word. Lengths that differ with the count tell how training treated words that it
# seldom saw.
#
# ## Repairs
#
# Two repairs need no training: **centring** subtracts the mean row; **all-but-the-top** (Mu and Viswanath 2018)
# also takes away the first $d/100$ principal directions, a number that is rounded and at least one.
#
# Predict once more: what do the two repairs do to the perplexity, if only the *output* matrix is replaced and
# the model still reads with its old matrix? The perplexity is that of validation text. The *IsoScore* (Rudman et al. 2022) in the table is 0 for a cloud
# on a line, and 1 for a cloud that spreads alike in all directions.

# %%
kept = ["mean cosine", "mean cosine, rare words", "IsoScore"]
rows = {"as it is": [patient.metrics[name] for name in kept]}
perplexities = []
for name, repair in patient.repairs.items():
    rows[name] = [repair["metrics"][m] for m in kept]
    perplexities.append(repair["perplexity"])
original = patient.repairs["centring"]["perplexity_before"]
table = pd.DataFrame(rows, index=kept).T
table["perplexity"] = [original, *perplexities]
display(table.round(2))
for name, repair in patient.repairs.items():
    print(f"after {name}: {repair['verdict']}")

# %%
# NBVAL_CHECK_OUTPUT
centred, topped = perplexities
same = abs(centred / original - 1) < 1e-3
print("centring leaves the perplexity:", same)
print("all-but-the-top ruins it:", topped > 1.5 * original)

# %% [markdown]
# Centring subtracts $m^\top h$ from every logit of a context $h$. This number is the same for all words, so a
# softmax does not see the change. All-but-the-top also takes away the direction along which the words spread
# most, which is probably the direction from rare to frequent words. With this direction goes much of what the
# model knows about frequency. In the lines above the matrix after all-but-the-top has the best verdict of the
# three, and it is of no use to the model. All-but-the-top is a repair for *comparing* words, not for predicting
# them: **a healthy shape is not a good model**.
#
# So the treatment depends on what you want. If you want to compare words, repair the matrix. If you want better
# predictions, a repair does not help. What another training can do is the subject of [lessons
# 5](05_tying_and_augmented_loss.ipynb) to [11](11_modern_remedies.ipynb).
#
# ## A verdict is a symptom
#
# Does the shape of a matrix at least *tell* how well its model predicts? Kulkarni et al. (2026) measured the geometry of
# many language models, and compared it with how well they do:

# %%
records = published.records()
of_geometry = records.url.str.endswith("2602.20433")
for row in records[of_geometry].itertuples():
    display(Markdown(f"> {row.says} ({row.source}, {row.place})"))

# %% [markdown]
# So every verdict of this notebook is a **symptom, not a disease**, whatever its name. It says that the matrix has a
# shape that a random matrix does not have. It does not say that the model is bad, and a matrix without a finding does
# not belong to a better model. [Notebook 30](30_leaderboard.ipynb) has our own example: one of its tables lists models of
# one size and text, with their geometry beside their perplexity.

# %% [markdown]
# ## What would change the answer
#
# - **Another measure of severity.** The threshold of a tenth of the energy is a choice. The report therefore compares
#   each severity with those of public matrices, too, which we call the *atlas*. `examine CHECKPOINT --atlas FILE` adds
#   matrices of your own.
# - **The words of the model's own text.** Without counts a frequency split looks like a drift.
# - **A measure that predicts quality.** The cited study found none in the models and tasks that it looked at. A measure
#   that orders models of one size and one text by their perplexity, on checkpoints that did not help to choose
#   it, would turn a symptom into a diagnosis.
# - **A repair that lowers the perplexity.** Neither of the two repairs above does. If one did without training,
#   the shape would have been the cause.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $W$, $w_i$ | `one.W` | word matrix, one row a word |
# | $N$, $d$ | `N`, `d` | words, dimensions |
# | $s$ | `one.strength` | share of the energy that the disease was given |
# | $m$ | `one.W.mean(0)` | mean row |
# | $\sigma_k$ | `geometry.singular_values(W)` | singular values, largest first |
# | $F(k)$, $F_0(k)$ | `F`, `F0` | share of the energy in the first $k$ directions, of the patient and of a random matrix |
# | $t$, $p$ | `diagnose` | length of a row along the common direction, and its distance from it |
# | $s_k$ | `finding.severity` | severity of finding $k$ |

# %% [markdown]
# ## Exercises
#
# ### 1. Two diseases at once
# *Difficulty 2/3, importance 3/3, fifteen minutes.* Add the drift of one patient to the rogue dimensions of
# another and let `diagnose` rank them. Why is neither severity the $s$ it was made with? Assign to `twice_ill`
# such a sum, a matrix ($N$, $d$), of which `diagnose` names both diseases and no other, each with a severity of
# 0.3 or more.
#
# <details><summary>Hint</summary>
#
# Make both strong. In energy, $s/(1-s)$, the rogue dimensions may be as strong as the drift, or twice as strong. If
# they are much weaker, they are named low rank. If they are much stronger, the drift is left too small a share.
# `examine.diseased(name, s, N, d, seed).W` makes a patient; take two seeds, and add the matrices. Each
# matrix brings a healthy cloud along, so each disease has a smaller share of the sum's energy than of its own
# matrix. What the rogue coordinates explain does not count for the other findings.
#
# </details>

# %% tags=["exercise"]
twice_ill = None  # a matrix (N, d), a drift and rogue dimensions


# %%
def has_both(W):
    found = examine.diagnose(W, groups).named
    severe = {f.form or f.name: f.severity for f in found}
    if set(severe) != {"drift", "rogue"}:
        return f"diagnose names: {', '.join(severe) or 'nothing'}"
    least = min(severe.values())
    return least >= 0.3 or f"the lesser severity is {least:.2f}"


check("36.1", twice_ill, has_both)

# %% [markdown]
# ### 2. Hide a drift
# *Difficulty 2/3, importance 2/3, ten minutes.* Give half of the rows of a healthy cloud the vector $v$ and the
# other half $-v$. The halves have nothing to do with frequency. The mean row is about 0. Does the examination
# find anything, and under which name? Assign to `hidden` such a matrix ($N$, $d$), with a $v$ so long that
# something is named. And what if the halves are the rare and the frequent words?
#
# <details><summary>Hint</summary>
#
# Begin with `W = series[0].W.clone()`. Then `W[::2] += v; W[1::2] -= v`, with `v` several times as long as a coordinate in the cloud, in a random
# direction. Look at `examine.diagnose(W, groups).findings`: a direction that is not common to all is
# one direction of the spectrum.
#
# </details>

# %% tags=["exercise"]
hidden = None  # a matrix (N, d)


# %%
def is_hidden(W):
    if geometry.common_drift(W).share > 0.02:
        return "the mean row is not 0: have the halves the same size?"
    along = W @ np.linalg.svd(W, full_matrices=False)[2][0]
    halves = np.abs(along).mean() / np.sqrt((along**2).mean())
    found = {finding.name for finding in examine.diagnose(W, groups).named}
    if "frequency_split" in found:
        return "the halves differ in frequency, and that is seen"
    if not found:
        return "nothing is found: make v longer"
    return bool(halves > 0.9) or "the rows are not in two clumps"


check("36.2", hidden, lambda W: is_hidden(np.asarray(W)))

# %% [markdown]
# ### 3. Your own checkpoint (open)
# *Difficulty 1/3, importance 3/3, half an hour.* Examine a model that you have: a Hugging Face folder, or
# `np.save` of any word vectors. Give it counts with `--corpus` or `--counts` and see whether the verdict
# changes.
#
# <details><summary>Hint</summary>
#
# The page *Examine a checkpoint* under *How to* on the course's site lists what can be read. Without
# counts a frequency split looks like a drift, because most words are rare.
#
# </details>

# %% [markdown]
# ## What we saw

# %%
display(
    Markdown(
        f"Of eleven matrices, ten of them made ill on purpose, the "
        f"examination named {sum(names_right[:11])} as intended, and "
        f"put the healthy one at {found[0].severity:.2f}. "
        f"A model trained on {len(run.corpus.train):,} tokens went from "
        f"“{untrained.name}” to “{first.title}” with severity "
        f"{first.severity:.2f}. "
        f"Centring its output matrix left the perplexity at "
        f"{centred:,.1f} (it was {original:,.1f}); all-but-the-top made "
        f"the cloud round and the perplexity {topped:,.1f}."
    )
)

# %% [markdown]
# ## References
#
# - J. Gao, D. He, X. Tan, T. Qin, L. Wang, T.-Y. Liu (2019). *Representation Degeneration Problem
#   in Training Natural Language Generation Models.* ICLR.
#   [arXiv:1907.12009](https://arxiv.org/abs/1907.12009)
# - J. Mu, P. Viswanath (2018). *All-but-the-Top: Simple and Effective Postprocessing for Word
#   Representations.* ICLR. [arXiv:1702.01417](https://arxiv.org/abs/1702.01417)
# - W. Timkey, M. van Schijndel (2021). *All Bark and No Bite: Rogue Dimensions in Transformer
#   Language Models Obscure Representational Quality.* EMNLP.
#   [arXiv:2109.04404](https://arxiv.org/abs/2109.04404)
# - W. Rudman, N. Gillman, T. Rayne, C. Eickhoff (2022). *IsoScore: Measuring the Uniformity of
#   Embedding Space Utilization.* Findings of ACL.
#   [arXiv:2108.07344](https://arxiv.org/abs/2108.07344)
# - A. Kulkarni, J. M. Springer, A. Subramonian, S. Swayamdipta (2026). *Disentangling Geometry,
#   Performance, and Training in Language Models.* [arXiv:2602.20433](https://arxiv.org/abs/2602.20433)
# - I. Dumitriu, A. Edelman (2002). *Matrix models for beta ensembles.* Journal of Mathematical
#   Physics 43. [arXiv:math-ph/0206043](https://arxiv.org/abs/math-ph/0206043). The random matrix's singular values are
#   drawn by their method.

# %% [markdown] tags=["way"]
# ← Previous: [35. What it costs](35_cost.ipynb)
#
# → Next: [37. A real model: does what the course says hold in one that people use?](37_a_real_model.ipynb)
