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
# # A5. What rank is worth
#
# **After lessons 04, 09, 09b, 10 and 31.** Eight steps, 100 points, about two hours of your time and a
# minute of your machine's.
#
# One softmax over contexts of $d$ numbers has a $\log P$ of rank $d + 2$ at most. Yang and others (2018)
# called this a bottleneck. Mixtures and bent logits lift the rank, and models that have them predict
# better. Does the rank do it? Parthiban and others (2021) trained many models with bends of many shapes.
# Over all of them the rank of $\log P$ and the perplexity on the Penn Treebank have a correlation of 0.48.
# After a few outliers are left out, the correlation is 0.24. They conclude that the correlation is "fairly weak".
#
# Three questions are left open. How would one *set* the rank and leave the rest alone? What is a rank, if
# the computation of the spectrum loses half of its digits? And is 0.24 less than 0.48 for any reason but that
# something was left out?
#
# You will build what these questions need:
#
# - a bend with two places and two slopes, which lifts the rank at no cost;
# - a spectrum to the last digit, of a table that is too large to store;
# - contexts and words whose $\log P$ has the most rank that a softmax can have, and others whose normaliser
#   adds no rank at all;
# - a mixture whose components do not know all words;
# - the law that says what leaving out does to a correlation.
#
# Then you fit a softmax and a mixture of as many numbers to two languages whose truth is known,
# one that a softmax has made and one that a mixture has made.
#
# ## What you will be able to do
#
# - bend logits below and above, and compute the bend where $e^x$ is no number;
# - read singular values of $10^{-12}\sigma_1$ off a table that passes by once;
# - say when the normaliser adds a direction to $\log P$, and when it adds none;
# - differentiate a mixture, and compute with a probability of 0;
# - tell a correlation that has become weaker from a range that has become narrower.
#
# ## How it is marked
#
# Each function is called with numbers drawn at that moment, and must obey the laws in the folder
# `tools` beside this notebook; `check` tries them here. An answer that obeys the laws on small
# instances but not at the large size has half of the points. A function may not change its arguments.
# Each answer cell stands alone: the marker runs no other cell, gives it `np`, `special` and `linalg`,
# and no file, no network and no `course_lib`. Contexts are rows of `H` (m, d), words are rows of `W` (N, d).
#
# Below each question, `hint` opens the hints of its step one by one. They cost nothing; your teacher sees
# how many were opened.

# %% tags=["given"]
VARIANT = "aaaaaa"  # your six letters, from the roster

import numpy as np
from scipy import linalg, special

from tools.assignments.laws.home import check, hint

# %% [markdown]
# ## 5.1 Derive: two bends ●○○ (12 minutes, 10 points)
#
# The lesson's bend has the slope $k$ far below $c$ and the slope 1 far above:
# $\mathrm{PL}(x; c, k) = x - (k - 1)\log(1 + e^{c - x})$. You want another bend above. Write
# `two_bends(x, c1, k1, c2, k2)` for logits `x` (n, N), with $c_1 < c_2$: its slope is $k_1$ far below $c_1$, 1
# between, and $k_2$ far above $c_2$. Three sentences say which function it is:
#
# - For $k_2 = 1$ it is $\mathrm{PL}(x; c_1, k_1)$.
# - For $k_1 = 1$ it is the mirror image, $-\mathrm{PL}(-x; -c_2, k_2)$.
# - What both bends add to $x$ is the sum of what each adds.
#
# Slopes are 0 or more. There may be a million logits, and logits of ±10,000.
#
# <details><summary>What to look at</summary>
#
# Put $-x$, $-c_2$ and $k_2$ into the lesson's formula, and turn the sign. Which term is new?
#
# </details>
#
# <details><summary>The first line</summary>
#
# $-\mathrm{PL}(-x; -c_2, k_2) - x$ is a multiple of $\log(1 + e^{x - c_2})$. Of which sign?
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# $\log(1 + e^z) = \log(e^0 + e^z)$, and NumPy has a function for the logarithm of a sum of two exponentials.
#
# </details>

# %% tags=["answer"] step="5.1"
def two_bends(x, c1, k1, c2, k2):
    raise NotImplementedError("5.1")


# %% tags=["check"] step="5.1"
check("A5", "5.1", two_bends)

# %% [markdown]
# ## 5.2 Implement: the spectrum in one pass ●●○ (20 minutes, 16 points)
#
# A table of $\log P$ has a row for each context and a column for each of N words, and is never stored. Write
# `singular_values(blocks)`: it returns the N singular values of the whole table, from the largest to the
# smallest, (N,). `blocks` is a tuple of arrays (b, N), the table's rows in some division: a block may have one
# row, or more rows than there are words. Where the whole table has fewer rows than words, the values beyond
# are 0.
#
# An error of at most $10^{-14}\sigma_1$ is allowed, so that a value of $10^{-12}\sigma_1$ is right within 1 %. A sum of
# $X^\top X$ over the blocks cannot do that. You may keep about $N^2$ numbers, and one block as float64. In
# the large table the blocks are float16, as a GPU hands them over; together they have no room as float64.
#
# <details><summary>What to look at</summary>
#
# Which $N \times N$ matrix has the same singular values as a tall table, and is not its $X^\top X$?
#
# </details>
#
# <details><summary>The first line</summary>
#
# $X = QR$ with orthonormal columns in $Q$: the singular values of $X$ are those of $R$.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# Put the next block below the $R$ of all rows before, and decompose again. What stands in the place of $R$ before
# the first block?
#
# </details>

# %% tags=["answer"] step="5.2"
def singular_values(blocks):
    raise NotImplementedError("5.2")


# %% tags=["check"] step="5.2"
check("A5", "5.2", singular_values)

# %% [markdown]
# ## 5.3 Construct: as much rank as can be, and as little ●●● (12 minutes, 12 points)
#
# Let $\log P$ be the log softmax of each row of $HW^\top + \mathbf 1 b^\top$. Write `extremal(N, d, m, flat)`, which
# returns contexts `H` (m, d), words `W` (N, d) and a bias `b` (N,) together. `d` is 3 at least, `N` is $2d$ at
# least, and `m` lies between $d + 3$ and $2d + 2$.
#
# With `flat = False`, $\log P$ has rank $d + 2$, as much as can be; a singular value below $10^{-8}$ of the
# first one counts as 0. With `flat = True`, the bias is 0 and $\log P$ has rank $d$ only: the normaliser adds no
# direction. With `flat = True` tricks of size or lack are excluded, too:
#
# - no two contexts are parallel;
# - `H` has rank $d$, and `W` with a column of ones beside it has rank $d + 1$, where the last singular value is
#   at least a hundredth of the first;
# - every word has a probability of $10^{-6}$ at least in every context;
# - of $\log P$, the singular value number $d$ is at least a hundredth of the first, and the next is below $10^{-10}$
#   of it.
#
# <details><summary>What to look at</summary>
#
# $\log P = HW^\top - z\mathbf 1^\top$ with $z_i = \log Z_i$. For which $z$ is this again a matrix of $d$ columns times one of $d$
# rows?
#
# </details>
#
# <details><summary>The first line</summary>
#
# If $z = Hv$, then $\log P = H(W - \mathbf 1 v^\top)^\top$. The simplest $z$ is the same for all contexts. Which coordinate
# of $h$ would make a constant linear?
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# With the words $\pm e_k$, $Z = \sum_k 2\cosh h_k$: it does not change when coordinates of $h$ change places or signs.
# A word of zeros adds 1 to every $Z$. Keep the last coordinate the same in all contexts, and take signs and orders
# from all over, or a direction of $h$ is missing.
#
# </details>

# %% tags=["answer"] step="5.3"
def extremal(N, d, m, flat):
    raise NotImplementedError("5.3")


# %% tags=["check"] step="5.3"
check("A5", "5.3", extremal)

# %% [markdown]
# ## 5.4 Derive: a mixture that does not know all words ●●● (18 minutes, 16 points)
#
# `logits` (n, K, N) are those of K components in n contexts; `prior` (n, K) are the components' scores, whose
# softmax $\pi$ are their shares; `y` (n,) are the words that came. Component $k$ gives the words
# $P_k = \mathrm{softmax}(\text{logits}_k)$, and $P = \sum_k \pi_k P_k$. Write `mixture(logits, prior, y)`, which returns two things
# together:
#
# - $\log P$, (n, N), for all words;
# - the gradient of $-\log P(y)$ of each context in its own K scores, (n, K).
#
# A component may not know a word: then the logit is $-\infty$ and the word's probability 0. Every component knows
# some words, and every $y$ is known to some component. A word that no component knows has $\log P = -\infty$.
# Nothing may be NaN. Logits may be ±10,000, scores may be 10,000, and N may be 200,000.
#
# <details><summary>What to look at</summary>
#
# In lesson 09 the gradient in the scores is drawn from $\pi$ towards something. What is it where a component
# does not know $y$?
#
# </details>
#
# <details><summary>The first line</summary>
#
# $\log\pi_k + \log P_k$ for all $k$, and the logarithm of the sum of their exponentials. Where does $-\infty - (-\infty)$ come
# in?
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# `special.log_softmax` and `special.logsumexp` of one axis; the second can sum over nothing but $-\infty$. The
# responsibilities of $y$ are a softmax, too: of which K numbers?
#
# </details>

# %% tags=["answer"] step="5.4"
def mixture(logits, prior, y):
    raise NotImplementedError("5.4")


# %% tags=["check"] step="5.4"
check("A5", "5.4", mixture)

# %% [markdown]
# ## 5.5 Derive: what leaving out does ●●○ (15 minutes, 12 points)
#
# Over all models, several variables have the correlations `r` (k, k), a matrix with ones on its diagonal. The first
# variable is the perplexity, say, the others are ranks. Somebody leaves out models for their perplexity
# alone, so that its standard deviation is cut to `u` of what it was. Nothing else changes: among models of the
# same perplexity the other variables are what they were, and their means are linear in the perplexity, as
# for normal variables. Write `restricted(r, u)`, which returns all correlations that are left, (k, k). A `u`
# above 1 widens the range in the same way.
#
# For two variables this tells what the published 0.48 becomes. At $u = 0.45$, what is left of it?
#
# <details><summary>What to look at</summary>
#
# Write another variable as $y = r x + e$, both of standard deviation 1. Now $x$ becomes $u x$. Which spread
# does $y$ have then?
#
# </details>
#
# <details><summary>The first line</summary>
#
# Take covariances first, correlations at the end. How does the covariance of two others change, whose parts
# $r_{i1}x$ and $r_{j1}x$ both shrink?
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# The variance of $x$ changes from 1 to $u^2$, and the covariance of $i$ and $j$ by $r_{i1}r_{j1}$ times as much. Then
# divide by the roots of the new diagonal.
#
# </details>

# %% tags=["answer"] step="5.5"
def restricted(r, u):
    raise NotImplementedError("5.5")


# %% tags=["check"] step="5.5"
check("A5", "5.5", restricted)

# %% [markdown]
# ## 5.6 Experiment: what rank is worth ●●○ (25 minutes and one of your machine's, 16 points)
#
# The code below draws two languages with *your* number of words and as many contexts. The first is made by
# one softmax, and its $\log P$ has *your* rank. The second is made by a mixture of two softmaxes, and its
# $\log P$ has full rank. To be fair, each layer meets the language of its own kind and the other's. Each layer
# has three widths, and each width five seeds. A softmax of 5, 8 or 11 has exactly as many numbers as a
# mixture of two of 3, 5 or 7. No text is drawn: the expected cross-entropy is minimised, so that what a
# layer stays above the entropy, its *excess*, is due to the layer and the optimiser alone. The code needs the
# course's environment, with PyTorch.
#
# **First predict**, in a sentence or two: on which language is which layer better, at equal numbers? And which
# sign has the correlation of rank and excess within a language, for Press' rank and for the effective one? The
# prediction has points for being there, not for being right. A well measured "no effect" has full marks.
#
# The numbers of a run are its excess in nats, Press' rank and the effective rank of its $\log P$ for
# $\varepsilon = 0.001$, both from your 5.2, and how many numbers it has learned.
#
# Hand in one zip with this notebook, `5.6.safetensors` (the arrays), `5.6.csv` (your numbers), `5.6.json`
# (your prediction) and the figure `5.6.png`. The code writes the first three beside the notebook. The marker
# computes your numbers again from your arrays, and they must agree to $10^{-6}$. The marker also
# begins one run, drawn at random, again, and the matrices must agree to 1 %. A zip may have 40
# files. The notebook may have 5 MB, and all other files together 64 MB.

# %% tags=["answer"] step="5.6"
PREDICTION = ""

# %% tags=["given"]
def experiment(prediction, folder="."):
    """Fit the 60 runs of the variant, and save what is to be handed in."""
    from tools.assignments import variant
    from tools.assignments.laws import a5_experiment

    own = variant.parameters("A5", variant.own(VARIANT))
    languages = a5_experiment.tokens(own)
    trained = {}
    claims = {}
    for run in a5_experiment.runs(own):
        trained[run] = a5_experiment.train(languages, own, *run)
        log_p = a5_experiment.log_p(trained[run])
        values = singular_values((log_p,))  # your 5.2
        claims[run] = {
            "excess": a5_experiment.excess(trained[run], languages[run[0]]),
            "press": a5_experiment.press(values, log_p.shape),
            "effective": a5_experiment.effective(values),
            "numbers": a5_experiment.count(trained[run]),
        }
        print(a5_experiment.name(*run), {k: round(float(v), 4) for k, v in claims[run].items()})
    a5_experiment.save(folder, trained, claims, prediction)
    return claims, trained


# %% tags=["given"]
if len(PREDICTION) > 30:  # letters: the experiment waits for the prediction
    claims, trained = experiment(PREDICTION)
else:
    print("write a prediction of more than 30 letters first")

# %% [markdown]
# **Figure.** Two rows, one a language; two columns, Press' rank and the effective rank. Each panel has the rank on
# its horizontal axis and the excess on a vertical one, a point a run, a colour and a marker a layer. In
# its title stand three numbers: the correlation $r$ over all 30 runs with its 95 % interval, which
# `a5_experiment.interval(r, n)` gives; the $r$ over the half of the runs with the lowest excess, with its
# interval; and the $r$ that your 5.5 predicts for this half from the first. Its `u` is the standard deviation of the
# excess in the half over that in all. Label the axes. Save it as `5.6.png`. `claims[run]` has the
# numbers of a run; a run is (language, layer, width, seed).

# %% [markdown]
# ## 5.7 A law of your own ●●○ (8 minutes, 8 points)
#
# Write `is_right(f, rng)`: it gets a function `f(logits, prior, y)` that somebody wrote for the *gradient*
# of 5.4 alone, (n, K), and a NumPy generator, and returns True if the function is right. It may call
# `f` at most 5,000 times, on instances of at most 500 numbers. It has ten seconds for each function, in
# which the time of the calls counts: a hundred calls on small instances are enough. It is tried with wrong
# functions that you do not see, and with right ones. A law that refuses a right function earns nothing, so
# allow for rounding. Of any other law the points are the cube of the share of wrong functions that it
# refuses: a law that refuses half of them earns an eighth of the points. No one property refuses many more
# than half. The wrong ones add up to 0 in every context.
#
# <details><summary>What to look at</summary>
#
# Which instances hide a missing $\pi$, a wrong word, a wrong context?
#
# </details>
#
# <details><summary>The first line</summary>
#
# Take three components or more, several contexts with different words, and a component that does not know one of
# them.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# $-\log P(y)$ from its definition; the gradient from it, by central differences with a step of $10^{-5}$ in each
# score.
#
# </details>

# %% tags=["answer"] step="5.7"
def is_right(f, rng):
    raise NotImplementedError("5.7")


# %% tags=["check"] step="5.7"
check("A5", "5.7", is_right)

# %% [markdown]
# ## 5.8 Discuss ●●○ (12 minutes, 10 points)
#
# In at most 250 words: is rank a cause? What does your figure say about it, within a language and across both?
# Is the correlation in the lower half weaker than the restriction alone predicts? And which experiment would
# *set* the rank and leave the rest?
#
# You are marked for: a claim (2), a number from your own figure (3), a rival explanation (3), and the
# experiment that would decide between both (2).

# %% [markdown] tags=["manual"] step="5.8"
# *Your answer here.*
