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
# # 34. The generalisation bound
#
# **Question.** Does a word matrix whose singular values fall faster generalise better, as theorem 4.1 of wang2020 suggests?

# %% [markdown]
# ## What you will learn
#
# - to evaluate a bound term by term, and to see which of its terms changes;
# - to compare a bound with measured gaps, and to say what the comparison can show;
# - to keep apart two things that fall together: the gap, and what the model has learned.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 8](08_spectrum_control.ipynb) on spectrum control, and [notebook
# 23](23_run_a_batch.ipynb) on pairs of runs. Nothing is trained: this notebook reads kept results.
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

from course_lab import evidence, gaps, plots
from course_lab.progress import check
from course_lab.statistics import spearman
from course_lib.theory.wang2020 import generalisation_gap

of = evidence.read(OWN)
runs = gaps.runs(of)
sweep = gaps.sweep(runs)
counted = {evidence.title_of(text): of.ngrams[text] for text in of.ngrams}
where = "no text"  # that of the sweep
if len(sweep):
    where = runs[runs["all but gamma"].notna()].text.mode()[0]

# %% [markdown]
# ## Predict
#
# Spectrum control asks that the $k$-th singular value of the word matrix be near $c_1 e^{-c_2 k^\gamma}$. You
# raise $\gamma$ from 0.3 to 1.5 and change nothing else. What happens to the training loss and to the test
# loss? What happens to the *gap*, which is the loss on other text minus the training loss?

# %% [markdown]
# ## The bound, term by term
#
# Let $W$ be the matrix of $N$ words, with $d$ columns. Let its singular values $\sigma_k$ fall at least like
# $k^{-\gamma_T}$ with $\gamma_T > \frac12$. The power $\gamma_T$ of the theorem is not the $\gamma$ of spectrum
# control. With $n$ training tokens the gap is then, with a probability of at least $1-\delta$, at most
#
# $$ \frac{C_1 A N \left(\sqrt{\textstyle\sum_{j<m}\sigma_j^2} + \sqrt{m^{1-2\gamma_T}/(2\gamma_T-1)}\right) + C_2 B \sqrt{\log(1/\delta)}}{\sqrt n} $$
#
# for any $m$ from 2 to $d$. The first root, the *head*, grows with $m$. The second root, the *tail*, falls.
# $A$ grows with the size of the contexts and the slope of the loss, and $B$ bounds the loss. The theorem
# leaves the constants $C_1, C_2$ open, so only ratios mean anything. Here are both terms for $\sigma_k =
# k^{-\gamma_T}$, divided by $C_1 A N / \sqrt n$:

# %%
d, n = 400, 929_589
k = np.arange(1, d + 1)
curves = {}
for gamma in (0.6, 1.0, 1.5):
    bound = generalisation_gap(k**-gamma, gamma, N=1, n=n)
    power = f"$\\gamma_T$ = {gamma}"
    curves[f"head, {power}"] = (bound.m, bound.head * np.sqrt(n))
    curves[f"tail, {power}"] = (bound.m, bound.tail * np.sqrt(n))

# %% tags=["hide-input"]
unit = "$C_1 A N / \\sqrt{n}$"
title = "The head grows with m, and the tail falls"
ylabel = f"term of the bound, in {unit}"
figure = plots.lines(curves, "m", ylabel, "x", title=title)
for i, line in enumerate(figure.axes[0].lines):  # a colour for each power
    line.set(color=plots.COLOURS[i // 2], linestyle=("-", "--")[i % 2])
    line.set_markeredgecolor(plots.COLOURS[i // 2])
figure.legends[0].remove()
figure.legend(loc="outside lower center", ncols=3)
plots.show(
    figure,
    alt="Head and tail of the bound against m for three powers: heads "
    "rise to a plateau and tails fall. Both are lower for a larger power.",
)

# %% [markdown]
# **Figure 1.** A full line is a head, a broken line is a tail, and both have one colour for a power. Where the two meet, their sum
# is greatest. The sum is least at one of the ends.

# %%
gammas = np.round(np.arange(0.55, 2.01, 0.05), 2)
least = [generalisation_gap(k**-g, g, N=1, n=n) for g in gammas]
values = np.array([(bound.least - bound.confidence) for bound in least])
values *= np.sqrt(n)
norms = np.array([np.linalg.norm(k**-g) for g in gammas])
curves = {
    "least bound over m": (gammas, values),
    "norm of W, Frobenius": (gammas, norms),
}
above = bool((values >= norms).all())
lower, shrinks = values[-1] / values[0], norms[-1] / norms[0]
ratios = values / norms

# %%
beyond = (d + 1) ** (1 - 2 * gammas[0]) / (2 * gammas[0] - 1)
whole = np.sqrt(norms[0] ** 2 + beyond)
more, split = whole / norms[0], values[0] / whole
title = f"The bound falls to {lower:.0%}, and the norm to {shrinks:.0%}"

# %% tags=["hide-input"]
xlabel, ylabel = "power of the theorem, $\\gamma_T$", f"bound, in {unit}"
plots.show(
    plots.lines(curves, xlabel, ylabel, title=title),
    alt="The least of the bound over m and the Frobenius norm of the "
    "matrix against the power. Both fall steeply at first. "
    f"{title}.",
)

# %% [markdown]
# **Figure 2.** Both curves fall. What the norm alone explains is the fall of the second curve.

# %%
two_causes = (
    f"Where the power of the theorem rises from {gammas[0]:g} to "
    f"{gammas[-1]:g}, the bound falls to {lower:.0%}. Two things make it "
    f"fall. The norm of W falls to {shrinks:.0%}. And the ratio of the "
    f"bound to the norm falls from {ratios[0]:.2f} to {ratios[-1]:.2f}, "
    "because the tail counts singular values beyond d and because the "
    f"split adds two roots. At {gammas[0]:g} the values beyond d multiply "
    f"the norm by {more:.2f}, and the split into two roots multiplies it "
    f"by {split:.2f} again."
)
display(Markdown(two_causes))

# %% [markdown]
# The curve of the norm shows where the theorem comes from. Its proof first bounds the gap by the size of the
# matrix, $\|W\|_F = \sqrt{\sum_k \sigma_k^2}$, and then splits the sum after $m$. The split can only make the
# bound larger. Before the split, a flat spectrum and a steep spectrum of the same norm have the same bound.
#
# The head of the theorem ends at $m-1$, and the head of its proof ends at $m$. So the theorem leaves $\sigma_m$
# out of both terms. For these spectra the sum of the two terms is still above the norm.

# %% [markdown]
# ## What was measured
#
# Remark 4.2 of the paper reads the bound as a trade: a larger $\gamma$ leaves fewer matrices to choose from,
# so the training loss rises and the gap falls. In these runs only $\gamma$ differs, the decay of the prior
# $c_1 e^{-c_2 k^\gamma}$. Losses are in nats a token. The training
# loss is the mean over an epoch while the model was learning. The gap is the loss on *validation* text minus
# the training loss. The column *gap* belongs to the best epoch, and *last gap* to the last epoch. A *change*
# is the difference from the smallest $\gamma$, in hundredths of a nat over pairs of seeds, with its 95 %
# interval. The column *loses* says whether a setting loses to Kneser-Ney of order 5 on test text. Adversarial recipes
# have no gap and are left out of this notebook, because their training loss is of perturbed targets.

# %%
if len(sweep):
    told = gaps.shown(sweep)
    display(gaps.with_counting(told, counted.get(where, {})))

# %%
if len(sweep):
    names = {"train": "training loss", "test": "test loss"}
    names |= {"gap": "gap, best epoch", "last gap": "gap, last epoch"}
    curves = {n: (sweep.index, sweep[c]) for c, n in names.items()}
    fall = sweep.gap.iloc[0] - sweep.gap.iloc[-1]
    rise = sweep.train.iloc[-1] - sweep.train.iloc[0]
    title = f"The gap falls by {fall:.2f}, training loss rises {rise:.2f}"
    if sweep.loses.any():
        title += f", in models that lose to {evidence.COUNTING}"

# %% tags=["hide-input"]
if len(sweep):
    xlabel = "decay of the prior, γ"
    plots.show(
        plots.lines(curves, xlabel, "nats a token", title=title),
        alt="Training loss, test loss and the gap at the best and at the "
        f"last epoch against gamma, in nats a token. {title}.",
    )
else:
    display(Markdown("*No sweep of γ is kept.*"))

# %% [markdown]
# **Figure 3.** The gap is the distance of the validation loss, which is not drawn, from the training loss. The gap can fall
# because the training loss rises.

# %% [markdown]
# In this sweep $W$ becomes smaller as $\gamma$ grows, as in the theorem. Which of the two changes the gap,
# the size of the spectrum or the shape of the spectrum? In the next runs the scale $c_1$ follows $\gamma$ so
# that $\|W\|_F$ stays the same. By the bound before the split the gap should then stay the same, too.

# %%
alike = runs[runs.text == where] if len(sweep) else runs
shape = gaps.sweep(alike, "all but shape")
if len(shape):
    told = gaps.shown(shape)
    display(gaps.with_counting(told, counted.get(where, {})))
answer = gaps.steeper_told(shape)
display(Markdown(f"Does a steeper spectrum generalise better? {answer}."))

# %%
settings = pd.concat([sweep, shape])
weight = "no setting is kept"
if len(settings):  # a setting may stand in both tables
    loses = settings.drop_duplicates(["train", "test"]).loses
    weight = f"{loses.sum()} of {len(loses)} settings lose to "
    weight += evidence.COUNTING
if len(settings) and loses.any():
    weight += ", and by the rule of [notebook 30](30_leaderboard.ipynb) "
    weight += "such a setting says nothing about the models of the paper"
weight = f"The text of both tables is {where}: {weight}."
display(Markdown(weight))

# %% [markdown]
# A smaller gap is worth something only if the loss on other text is smaller, too. On validation text the
# change of the loss is the change of the training loss plus the change of the gap. A row that stands in both
# tables belongs to the same runs, so it is one result and not two.

# %%
# NBVAL_CHECK_OUTPUT
one, four = (generalisation_gap(k**-1.0, 1.0, 1, n) for n in (1e5, 4e5))
ratio = four.least / one.least
print(f"four times the text, times the bound: {ratio:.2f}")
tail = generalisation_gap(k**-1.0, 1.0, N=1, n=1).tail[:2]
print("the tail falls with m:", bool(tail[0] > tail[1]))
print("the bound is never below the norm of W:", above)

# %% [markdown]
# ## The bound at trained matrices
#
# The family of the plan `desk` has models of one encoder on the whole Penn Treebank, which differ in tying, the
# output layer, the loss, a penalty or the optimiser. Where does the bound rank them? A trained matrix does not
# satisfy $\sigma_k \le k^{-\gamma_T}$. For each $\gamma_T$ above $\frac12$ we take the least $c$ with $\sigma_k \le
# c\,k^{-\gamma_T}$, apply the theorem to $W/c$, and multiply the bound by $c$. The column *bound* has the least
# bound over $m$ and over $\gamma_T$, in units of $C_1 A N / \sqrt n$. *Norm* is $\|W\|_F$, and *gap* and *test* are
# in nats a token. Methods that lose to Kneser-Ney of order 5 are left out, and so are the adversarial ones, which have
# no gap. The methods come from lessons
# [5](05_tying_and_augmented_loss.ipynb) to [11b](11b_more_remedies.ipynb), but for `tied-then-untied` from
# [lesson 12](12_record_holders.ipynb), which shares one matrix for two thirds of the training.

# %%
trained = gaps.at_trained(runs[runs.loses.eq(False)], "ptb/desk")
ptb = counted.get("ptb", {})
gaps.with_counting(trained, ptb, digits=2)

# %% tags=["hide-input"]
told = trained[["bound", "norm", "gap", "test"]]
enough = len(trained) > 3 and (told.nunique() > 1).all()
if enough:
    r = {name: spearman(trained.bound, trained[name])
         for name in ("norm", "gap", "test")}  # fmt: skip
    title = f"Bound and gap: rank correlation {r['gap'].r:.2f}"
    axes = f"bound, in {unit}", "gap, nats a token"
    plots.show(
        plots.numbered_points(trained.bound, trained.gap, trained.index,
                              *axes, title),
        alt="The gap at the best epoch against the bound, a numbered "
        f"point for each method in the order of the table. {title}.",
    )  # fmt: skip

# %% [markdown]
# **Figure 4.** Each number is a method. If the bound told which method generalises, the numbers would lie on a rising line.

# %%
ranked = "the bound is untested at trained matrices"
if enough:
    said = {name: f"{one.r:+.2f} [{one.low:+.2f}, {one.high:+.2f}]"
            for name, one in r.items()}  # fmt: skip
    ranked = (
        f"over {len(trained)} methods the bound has the rank correlation "
        f"{said['norm']} with the norm, {said['gap']} with the gap, and "
        f"{said['test']} with the test loss"
    )
display(Markdown(f"{ranked[0].upper()}{ranked[1:]}."))

# %% [markdown]
# $A$ differs between methods and was not measured, so the column *bound* has no more than the part of the bound
# that $W$ decides. A small gap is not a small loss: a model that learns less has less to lose on other text. The
# methods were not drawn at random, so the intervals say little about methods that nobody tried.

# %% [markdown]
# ## Text of another size
#
# The bound falls like $1/\sqrt n$: the slope of $\log$ gap against $\log n$ would be $-\frac12$. The plan
# `generalisation` can show this. It trains on 15,000, 50,000, 150,000 and 900,000 tokens of the Penn Treebank,
# with all of its words and the same number of updates. At each size it has three values of $\gamma$, whose
# priors have the same norm, and three seeds. Nothing else differs.

# %%
grid = gaps.decay(of)
display(Markdown(f"*{evidence.done_of(of, 'generalisation')}*"))
slopes = {name: gaps.slopes(grid, name) for name in ("gap", "last gap")}
if len(grid):
    means = grid.groupby(["γ", "n"])[["gap", "last gap", "test"]].mean()
    display(means.unstack("γ").round(3))
    display(pd.concat(slopes, axis=1).round(2))

# %%
curves = {}
if len(grid):
    gap = grid.pivot_table(index="n", columns="γ", values="last gap")
    positive = gap.where(gap > 0)
    curves = {f"γ = {g:g}": (gap.index, positive[g]) for g in gap}
    root = positive.iloc[0, 0] * np.sqrt(gap.index[0] / gap.index)
    curves["falling like 1/√n"] = (gap.index, root)

# %% tags=["hide-input"]
if curves:
    steep = slopes["last gap"].slope.mean()
    title = f"At the last epoch the gap's slope is {steep:.2f}"
    axes = "training tokens n", "gap at the last epoch, nats a token"
    plots.show(
        plots.lines(curves, *axes, "xy", title=title),
        alt="The gap at the last epoch against the number of training "
        "tokens on logarithmic axes, a line for each gamma, beside a "
        f"line that falls like one over the root. {title}.",
    )
    display(Markdown(
        "**Figure 5.** Both axes are logarithmic. A gap that falls like "
        "$1/\\sqrt n$ is parallel to the last line."
    ))  # fmt: skip

# %%
trade = gaps.remark(grid)
if len(trade):
    display(Markdown(
        "Remark 4.2 can be tested at each size by the differences between "
        "the largest and the smallest γ, in hundredths of a nat:"
    ))  # fmt: skip
    display(trade.round(1))

# %% [markdown]
# ## What would change the answer
#
# - **All pairs of $\gamma$ and $n$**, which the plan `generalisation` has. Only texts that differ in nothing but
#   $n$ can show $1/\sqrt n$.
# - **A prior that falls like a power**, which is what the theorem is about. The sweeps above have the exponential
#   prior.
# - **A sweep on a whole text**, with models that beat counting.
# - **The training loss of the final weights**, without dropout, in place of the epoch's mean.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $W$, $d$ | `d` | the word matrix, its number of columns |
# | $\sigma_k$ | `runs.sigma` | singular values of $W$, the largest first |
# | $\gamma_T$ | `gammas` | the power of the theorem, $\sigma_k \le k^{-\gamma_T}$ |
# | $\gamma$ | `sweep.index` | how fast the prior $c_1 e^{-c_2 k^\gamma}$ on the singular values falls |
# | $c_1$, $c_2$ | `ExponentialPrior` | scale of the prior, and the factor of its exponent |
# | $m$ | `bound.m` | where head and tail of the spectrum are divided |
# | $N$, $n$ | `N`, `n` | words, training tokens |
# | $C_1, C_2$ | `C1`, `C2` | constants that the theorem leaves open |
# | $A$, $B$ | `A`, `B` | size of the contexts and slope of the loss; bound of the loss |
# | $\delta$ | `delta` | the bound holds with a probability of at least $1-\delta$ |

# %% [markdown]
# ## Exercises
#
# ### 1. The tail
#
# *Difficulty 1/3, importance 2/3, five minutes.* At which $m$ has the tail, $\sqrt{m^{1-2\gamma_T}/(2\gamma_T-1)}$,
# fallen to half of its value at $m = 2$, for $\gamma_T = 1.5$? Assign the number to `half_at`.
#
# <details><summary>Hint</summary>
#
# For $\gamma_T = 1.5$ the tail is $m^{-1}/\sqrt 2$.
#
# </details>

# %% tags=["exercise"]
half_at = None  # a number


# %%
def halves(half_at):
    def tail(m, gamma=1.5):
        return np.sqrt(m ** (1 - 2 * gamma) / (2 * gamma - 1))

    ratio = tail(half_at) / tail(2)
    if abs(ratio - 2**-0.5) < 0.01:
        return "it has fallen to 1/√2 there: is a root missing?"
    return abs(ratio - 0.5) < 0.01


check("34.1", half_at, halves)

# %% [markdown]
# ### 2. More text
#
# *Difficulty 1/3, importance 2/3, five minutes.* By which factor must the training text grow for the bound to
# fall to a tenth, all else equal? Assign it to `factor`.
#
# <details><summary>Hint</summary>
#
# Every term is divided by $\sqrt n$.
#
# </details>

# %% tags=["exercise"]
factor = None  # a number


# %%
def a_tenth(factor):
    small, large = (
        generalisation_gap(k**-1.0, 1.0, N=1, n=size)
        for size in (1e4, 1e4 * factor)
    )
    return abs(large.least / small.least - 0.1) < 0.002


check("34.2", factor, a_tenth)

# %% [markdown]
# ## What we saw

# %%
falls = "; ".join(
    f"γ = {row.Index:g} has slope {row.slope:.2f} of the last gap"
    f" [{row.low:.2f}, {row.high:.2f}]"
    for row in slopes["last gap"].dropna().itertuples()
) or "1/√n is untested, as `generalisation` has not been run"

# %%
remark = "Remark 4.2 is untested, as no sweep of γ is kept"
if "gap change" in sweep:
    both = sweep["train low"].iloc[-1] > 0 > sweep["gap high"].iloc[-1]
    remark = (
        f"From γ = {sweep.index.min():g} to {sweep.index.max():g}, while "
        "the norm falls, the training loss changes by "
        f"{gaps.change_told(sweep, 'train')} nats, the gap by "
        f"{gaps.change_told(sweep, 'gap')}, and the test loss by "
        f"{gaps.change_told(sweep, 'test')}. Remark 4.2 expects a greater "
        "training loss and a smaller gap, and "
        f"{'both' if both else 'not both'} are sure"
    )
    remark = gaps.weighed(remark, sweep)

# %%
display(
    Markdown(
        f"Does a steeper spectrum generalise better? {answer}.\n\n"
        f"{weight}\n\n{remark}.\n\n"
        f"{two_causes}\n\n"
        f"At trained matrices: {ranked}.\n\nAs n grows: {falls}."
    )
)

# %% [markdown]
# ## References
#
# - L. Wang, J. Huang, K. Huang, Z. Hu, G. Wang, Q. Gu (2020). *Improving Neural Language Generation with
#   Spectrum Control.* ICLR. Theorem 4.1 and Remark 4.2.

# %% [markdown] tags=["way"]
# ← Previous: [33. Predictions](33_predictions.ipynb)
#
# → Next: [35. What it costs](35_cost.ipynb)
