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
# # A2. Push the cone apart, by weight
#
# **After lessons 02, 03, 06 and 06b.** Eight steps, 100 points, about two hours of your time and ten
# minutes of your machine's.
#
# Gao and others (2019) add to the loss the mean cosine of all pairs of words,
# $R = \frac{1}{N^2}\sum_{i\neq j}\cos(w_i, w_j)$. Every word counts once in it. A batch of text sees the
# words otherwise: *the* comes in every sentence, and half of the vocabulary hardly ever comes. What if words
# have weights? And where does the cone come from that the penalty pushes apart?
#
# ## What you will be able to do
#
# - compute a sum over all pairs, and its gradient, without any table of pairs;
# - tell an unbiased estimate from one that only looks like it, by an exact experiment;
# - find the direction that drives words into the cone, or show that there is none;
# - bound the largest eigenvalue of a table that you cannot store;
# - claim a number from an experiment that somebody else will repeat.
#
# ## How it is marked
#
# Each function is called with numbers drawn at that moment, and must obey the laws in the folder
# `tools` beside this notebook; `check` tries them here. An answer that obeys the laws on small
# instances but not at the large size has half of the points. A function may not change its arguments.
# Each answer cell stands alone: the marker runs no other cell, gives it `np`, `special` and `linalg`,
# and no file, no network and no `course_lib`. Matrices have a row for each word, `W` is (N, d), weights
# `p` are N positive numbers that add up to 1. No row is 0.
#
# Below each question, `hint` opens the hints of its step one by one. They cost nothing; your teacher sees
# how many were opened.

# %% tags=["given"]
VARIANT = "aaaaaa"  # your six letters, from the roster

import numpy as np
from scipy import linalg, special

from tools.assignments.laws.home import check, hint

# %% [markdown]
# ## 2.1 Implement: every pair by weight ●○○ (12 minutes, 12 points)
#
# Write `weighted_cosine(W, p)`, which returns $\sum_{i\neq j} p_i\,p_j \cos(w_i, w_j)$ in time and
# memory proportional to $Nd$. Rows may have any length, 10⁻¹² as well as 10¹². $N$ may be 200,000.
#
# <details><summary>What to look at</summary>
#
# $\cos(w_i, w_j) = \hat w_i^\top \hat w_j$, with $\hat w = w/\|w\|$.
#
# </details>
#
# <details><summary>The first line</summary>
#
# $\sum_{i,j} p_i p_j\,\hat w_i^\top\hat w_j = \big\|\sum_i p_i \hat w_i\big\|^2$.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# Which pairs are in that square, but not in the question? How much do they add up to?
#
# </details>

# %% tags=["answer"] step="2.1"
def weighted_cosine(W, p):
    raise NotImplementedError("2.1")


# %% tags=["check"] step="2.1"
check("A2", "2.1", weighted_cosine)

# %% [markdown]
# ## 2.2 Derive: its gradient ●●○ (18 minutes, 16 points)
#
# Write `weighted_cosine_gradient(W, p)`, the (N, d) gradient of 2.1 in $W$, by hand. At $N = 200{,}000$
# it takes well under a second.
#
# <details><summary>What to look at</summary>
#
# What happens to the sum if a row grows along itself? What does this say about the gradient?
#
# </details>
#
# <details><summary>The first line</summary>
#
# The Jacobian of $w/\|w\|$ is $(I - \hat w\hat w^\top)/\|w\|$.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# Differentiate $\|S\|^2$ with $S = \sum_i p_i\hat w_i$; the constant that you take off has no gradient.
#
# </details>

# %% tags=["answer"] step="2.2"
def weighted_cosine_gradient(W, p):
    raise NotImplementedError("2.2")


# %% tags=["check"] step="2.2"
check("A2", "2.2", weighted_cosine_gradient)

# %% [markdown]
# ## 2.3 Derive: from a sample ●●○ (15 minutes, 14 points)
#
# For a large vocabulary one takes $m$ rows, drawn without replacement. Write `estimate(W, rows)`:
# `rows` are the $m \ge 2$ different numbers of the sampled words. It reads the sampled rows alone, and
# knows $N$. Its mean over *all* samples of a size must be exactly the paper's $R$, which has equal weights and
# is divided by $N^2$.
#
# <details><summary>What to look at</summary>
#
# How probable is it that a given pair of words is in the sample?
#
# </details>
#
# <details><summary>The first line</summary>
#
# The mean cosine of the sample's ordered pairs is unbiased for the mean cosine of all ordered pairs.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# $R$ is a sum over $N(N-1)$ ordered pairs divided by $N^2$.
#
# </details>

# %% tags=["answer"] step="2.3"
def estimate(W, rows):
    raise NotImplementedError("2.3")


# %% tags=["check"] step="2.3"
check("A2", "2.3", estimate)

# %% [markdown]
# ## 2.4 Implement: a uniformly negative direction ●●● (20 minutes, 16 points)
#
# A word that never comes is pushed along a $v$ with $v^\top h < 0$ for every context $h$, where there is
# such a $v$. Write `negative_direction(H, most)` with contexts `H` (n, d): the perceptron. Begin at $v = 0$;
# while some $v^\top h \ge 0$, add or subtract one such $h$, whichever helps, and count one update. Return
# `v, updates` as soon as all products are negative, which may be after the last of `most` updates. If
# they are not, return `None, updates`.
#
# Novikoff's theorem bounds the updates by $(\max\|h\|/\text{margin})^2$ where a direction exists; you
# have at most 10,000.
#
# <details><summary>What to look at</summary>
#
# A product of 0 is not negative. What does that mean at $v = 0$?
#
# </details>
#
# <details><summary>The first line</summary>
#
# All products at once; if the largest is below 0, you are done.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# An update takes the context *off*: the product with this context falls by $\|h\|^2$.
#
# </details>

# %% tags=["answer"] step="2.4"
def negative_direction(H, most):
    raise NotImplementedError("2.4")


# %% tags=["check"] step="2.4"
check("A2", "2.4", negative_direction)

# %% [markdown]
# ## 2.5 Prove: between two sums ●●○ (10 minutes, 8 points)
#
# Let $A$ be the table of all cosines, none of which is negative here. The paper bounds the largest
# eigenvalue of $A$ by the sum of all its entries. Write `eigenvalue_bracket(W)`, which returns
# `low, high` around the largest eigenvalue, without the table: `high` must be far below the sum of all
# entries, and far below $N$ where most rows are orthogonal; `low` must not be below the sum of all entries
# divided by $N$; and both must be equal for parallel rows.
#
# <details><summary>What to look at</summary>
#
# Below: $x^\top A x$ for a unit vector $x$. Above: a matrix of non-negative entries and its row sums.
#
# </details>
#
# <details><summary>The first line</summary>
#
# The sum of row $i$ of $A$ is $\hat w_i^\top \sum_j \hat w_j$.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# If $Ax = \lambda x$, look at the entry of $x$ that is largest in size.
#
# </details>

# %% tags=["answer"] step="2.5"
def eigenvalue_bracket(W):
    raise NotImplementedError("2.5")


# %% tags=["check"] step="2.5"
check("A2", "2.5", eigenvalue_bracket)

# %% [markdown]
# ## 2.6 Experiment: which words move ●●○ (25 minutes and 10 of your machine's, 16 points)
#
# The code below trains an LSTM with one word matrix on *your* tokens: without a penalty, with the
# paper's equal weights, and with $p \propto f^\kappa$ for frequency $f$ and *your* exponent $\kappa$,
# three seeds each. The code needs the course's environment, with PyTorch.
#
# **First predict**, in a sentence or two: which words move apart under which weights, the frequent tenth
# or the rare half, and what does it cost? The prediction has points for being there, not for being
# right. A well measured "no effect" has full marks.
#
# The numbers of a run are the mean loss on the last 2,000 tokens, which no run is trained on, and by your
# 2.1 the mean cosine among the frequent tenth of all words, and among the rare half.
#
# Hand in one zip with this notebook, `2.6.safetensors` (the arrays), `2.6.csv` (your numbers), `2.6.json`
# (your prediction) and the figure `2.6.png`. The code writes the first three beside the notebook. The marker
# computes your numbers again from your arrays, and they must agree to $10^{-6}$. The marker also
# begins one run, drawn at random, again, and the matrices must agree to 1 %. A zip may have 40
# files. The notebook may have 5 MB, and all other files together 64 MB.

# %% tags=["answer"] step="2.6"
PREDICTION = ""

# %% tags=["given"]
def experiment(prediction, folder="."):
    """Train the 9 runs of the variant, and save what is to be handed in."""
    from tools.assignments import variant
    from tools.assignments.laws import a2_experiment

    own = variant.parameters("A2", variant.own(VARIANT))
    text = a2_experiment.tokens(own)
    print(own)
    trained = {}
    claims = {}
    for run in a2_experiment.runs(own):
        trained[run] = a2_experiment.train(text, own, *run)
        claims[run] = {"loss": a2_experiment.hidden_loss(trained[run], text)}
        for group, ids in a2_experiment.groups(text).items():
            W = trained[run]["W"][ids].astype(float)
            equal = np.full(len(W), 1 / len(W))
            claims[run][group] = weighted_cosine(W, equal)  # your 2.1
        print(a2_experiment.name(*run), {k: round(float(v), 4) for k, v in claims[run].items()})
    a2_experiment.save(folder, trained, claims, prediction)
    return claims


# %% tags=["given"]
if len(PREDICTION) > 30:  # letters: the experiment waits for the prediction
    claims = experiment(PREDICTION)
else:
    print("write a prediction of more than 30 letters first")

# %% [markdown]
# **Figure.** Left, the mean cosine of the frequent tenth and of the rare half for the three weights, a
# point a seed. Right, the change of the loss against no penalty. Save it as `2.6.png`.

# %% [markdown]
# ## 2.7 A law of your own ●●○ (10 minutes, 8 points)
#
# Write `is_right(f, rng)`: it gets a function `f(W, p)` that somebody wrote for 2.2, and a NumPy generator,
# and returns True if the function is right. It may call `f` at most 5,000 times, on instances of at
# most 500 numbers. It has ten seconds for each function, in which the time of the calls counts: a hundred
# calls on small instances are enough. It is tried with wrong functions that you do not see, and with
# right ones. A law that refuses a right function earns nothing, so allow for rounding. Of any other law
# the points are the cube of the share of wrong functions that it refuses: a law that refuses half of them
# earns an eighth of the points. No one property refuses many more than half.
#
# <details><summary>What to look at</summary>
#
# Which laws of the gradient hold for a wrong factor, too?
#
# </details>
#
# <details><summary>The first line</summary>
#
# Move one entry of $W$ by a little, and compare the change of 2.1 with the entry of the gradient.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# Central differences with a step of 10⁻⁵. Which weights would hide a forgotten $p$?
#
# </details>

# %% tags=["answer"] step="2.7"
def is_right(f, rng):
    raise NotImplementedError("2.7")


# %% tags=["check"] step="2.7"
check("A2", "2.7", is_right)

# %% [markdown]
# ## 2.8 Discuss ●●○ (12 minutes, 10 points)
#
# In at most 250 words: which words should carry the weight? Is 2.5 an argument for the penalty? What
# does the simple rival "subtract the mean vector" leave to it?
#
# You are marked for: a claim (2), a number from your own figure (3), a rival explanation (3), and the
# measurement that would decide between both (2).

# %% [markdown] tags=["manual"] step="2.8"
# *Your answer here.*
