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
# # A3. Words that must win, in any ball
#
# **After lessons 07, 07b and 09.** Eight steps, 100 points, about two hours of your time and twenty minutes
# of your machine's.
#
# Wang, Gong and Liu (2019) train a softmax against an adversary who moves the target's vector by at most
# $\varepsilon$, in the round ball. Why round? The word vectors of a real model are no round cloud. And why should
# the adversary move one word, and not all of them? What is left of the theorems then, and of the gain?
#
# ## What you will be able to do
#
# - find the worst perturbation in a ball of any norm, and in an ellipsoid;
# - say when moving all words by half as much is the same as moving one, and when not;
# - find the one direction that hurts a mixture of softmaxes most;
# - read from one context how safe a word is;
# - tell an adversary's gain from that of a temperature.
#
# ## How it is marked
#
# Each function is called with numbers drawn at that moment, and must obey the laws in the folder
# `tools` beside this notebook; `check` tries them here. An answer that obeys the laws on small
# instances but not at the large size has half of the points. A function may not change its arguments.
# Each answer cell stands alone: the marker runs no other cell, gives it `np`, `special` and `linalg`,
# and no file, no network and no `course_lib`. A context `h` has shape (d,) and is never 0, `W` is (N, d) with
# a row for each word, `y` and `i` are numbers of words.
#
# Below each question, `hint` opens the hints of its step one by one. They cost nothing; your teacher sees
# how many were opened.

# %% tags=["given"]
VARIANT = "aaaaaa"  # your six letters, from the roster

import numpy as np
from scipy import linalg, special

from tools.assignments.laws.home import check, hint

# %% [markdown]
# ## 3.1 Derive: the worst in a ball ●○○ (12 minutes, 12 points)
#
# Write `worst(h, r, ball)`: of all $\delta$ with $\|\delta\| \le r$, the one that lowers
# $\delta^\top h$ most. `ball` names the norm: `"l2"`, `"linf"` (the largest entry in size) or `"l1"` (the
# sum of sizes). At $d = 100{,}000$ a list of corners has no place: you have 400 MB.
#
# <details><summary>What to look at</summary>
#
# Draw the three balls in the plane, and a line $\delta^\top h = $ constant that you push outwards.
#
# </details>
#
# <details><summary>The first line</summary>
#
# In the cube each entry is chosen by itself. In the ball of l1 all of $r$ goes to one entry.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# The product that can be reached is $-r$ times the dual norm of $h$: l2 for l2, l1 for linf, linf for l1.
#
# </details>

# %% tags=["answer"] step="3.1"
def worst(h, r, ball):
    raise NotImplementedError("3.1")


# %% tags=["check"] step="3.1"
check("A3", "3.1", worst)

# %% [markdown]
# ## 3.2 Derive: the worst in an ellipsoid ●●○ (10 minutes, 10 points)
#
# Write `worst_in_ellipsoid(h, A, r)`: the same for $\delta^\top A^{-1}\delta \le r^2$, where `A` (d, d) is
# symmetric and positive definite, as the covariance of the word vectors is. At $d = 1{,}000$ you have ten
# seconds and 400 MB.
#
# <details><summary>What to look at</summary>
#
# With $A = I$ this is 3.1 for l2. Where is the ellipsoid long?
#
# </details>
#
# <details><summary>The first line</summary>
#
# Write $\delta = A^{1/2}u$. In $u$ the ellipsoid is a round ball.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# The product that can be reached is $-r\sqrt{h^\top A h}$; no root of a matrix is needed.
#
# </details>

# %% tags=["answer"] step="3.2"
def worst_in_ellipsoid(h, A, r):
    raise NotImplementedError("3.2")


# %% tags=["check"] step="3.2"
check("A3", "3.2", worst_in_ellipsoid)

# %% [markdown]
# ## 3.3 Derive: every word moves ●●○ (18 minutes, 16 points)
#
# Now the adversary moves *every* word $j$, within its own radius `radii[j]` in l2, to lower the
# probability of $y$. Write `adversarial_log_prob(h, W, y, radii)`, the logarithm of what is left of
# it. Logits may be as large as ±10³. At $N = 30{,}000$ you have 400 MB, and no table of N × N has a place in
# them.
#
# Then try: with all radii $\varepsilon/2$, compare with an adversary who moves $y$ alone by $\varepsilon$
# (theorem 3.1). Does it also hold for radii that are proportional to $\|w_j\|$?
#
# <details><summary>What to look at</summary>
#
# Which way does the adversary move the rivals?
#
# </details>
#
# <details><summary>The first line</summary>
#
# A word that moves by $\delta$ changes its logit by $\delta^\top h$, between $-r\|h\|$ and $r\|h\|$.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# Move all logits first; then one log-softmax over the moved ones.
#
# </details>

# %% tags=["answer"] step="3.3"
def adversarial_log_prob(h, W, y, radii):
    raise NotImplementedError("3.3")


# %% tags=["check"] step="3.3"
check("A3", "3.3", adversarial_log_prob)

# %% [markdown]
# ## 3.4 Derive: one enemy for all components ●●● (20 minutes, 18 points)
#
# In a mixture, $P(y) = \sum_k \pi_k \operatorname{softmax}(W h_k)_y$, and all components share $W$. Write
# `shared_worst(contexts, prior, W, y, r)`: the one $\delta$ with $\|\delta\| = r$ that, added to $w_y$,
# lowers $P(y)$ most for small $r$, to first order. `contexts` is (K, d), `prior` (K,). Logits may be as large
# as ±10³ in a component. At $N = 10{,}000$ and $d = 500$ you have ten seconds, which are too few for a
# derivative entry by entry.
#
# <details><summary>What to look at</summary>
#
# To first order the worst direction is the same for any smooth function.
#
# </details>
#
# <details><summary>The first line</summary>
#
# The gradient of a softmax' probability in its own logit is $p(1-p)$.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# Which components drop out of the gradient: those that are sure of $y$, those that never expect it, or
# both?
#
# </details>

# %% tags=["answer"] step="3.4"
def shared_worst(contexts, prior, W, y, r):
    raise NotImplementedError("3.4")


# %% tags=["check"] step="3.4"
check("A3", "3.4", shared_worst)

# %% [markdown]
# ## 3.5 Certify: how safe is a word? ●○○ (8 minutes, 8 points)
#
# Word $i$ is ε-recognisable if some context $h$ has $w_i^\top h - \varepsilon\|h\| > w_j^\top h$ for all
# other $j$. Write `certificate(W, i, h)`: the ε up to which this context shows it. It is negative where
# another word wins. Contexts may be as long as 10¹² or as short as 10⁻¹². At
# $N = 20{,}000$ you have 400 MB, and no table of all pairs has a place in them.
#
# <details><summary>What to look at</summary>
#
# Solve the inequality for ε, one rival at a time.
#
# </details>
#
# <details><summary>The first line</summary>
#
# Where is ε multiplied by ‖h‖? Use a context of length 1 from the beginning.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# A word is no rival of its own.
#
# </details>

# %% tags=["answer"] step="3.5"
def certificate(W, i, h):
    raise NotImplementedError("3.5")


# %% tags=["check"] step="3.5"
check("A3", "3.5", certificate)

# %% [markdown]
# ## 3.6 Experiment: which ball ●●● (30 minutes and 20 of your machine's, 18 points)
#
# The code below trains an LSTM on *your* tokens without an adversary, and with one in the round ball, in
# the cube, and in the ellipsoid of the word vectors' own covariance, five seeds each. The adversary takes
# $r$ times the dual norm of $h$ from the target's logit; this is its margin, in nats. The radius $r$ is
# such that the mean margin of a batch is *yours*: otherwise the largest ball would win or lose by its
# size. The code needs the course's environment, with PyTorch.
#
# **First predict**, in a sentence or two: which ball has the lowest loss on the last 2,000 tokens, and what
# is left of the difference when each run has its best temperature? The prediction has points for being
# there, not for being right. A well measured "no effect" has full marks.
#
# The numbers of a run are the mean loss on the last 2,000 tokens, which no run is trained on, and the
# lowest that a temperature from ½ to 2 makes of it: all logits are divided by the same number.
#
# Hand in one zip with this notebook, `3.6.safetensors` (the arrays), `3.6.csv` (your numbers), `3.6.json`
# (your prediction) and the figure `3.6.png`. The code writes the first three beside the notebook. The marker
# computes your numbers again from your arrays, and they must agree to $10^{-6}$. The marker also
# begins one run, drawn at random, again, and the matrices must agree to 1 %. A zip may have 40
# files. The notebook may have 5 MB, and all other files together 64 MB.

# %% tags=["answer"] step="3.6"
PREDICTION = ""

# %% tags=["given"]
def experiment(prediction, folder="."):
    """Train the 20 runs of the variant, and save what is to be handed in."""
    from tools.assignments import variant
    from tools.assignments.laws import a3_experiment

    own = variant.parameters("A3", variant.own(VARIANT))
    text = a3_experiment.tokens(own)
    print(own)
    trained = {}
    claims = {}
    for run in a3_experiment.runs(own):
        trained[run] = a3_experiment.train(text, own, *run)
        claims[run] = a3_experiment.losses(trained[run], text)
        print(a3_experiment.name(*run), {k: round(float(v), 4) for k, v in claims[run].items()})
    a3_experiment.save(folder, trained, claims, prediction)
    return claims


# %% tags=["given"]
if len(PREDICTION) > 30:  # letters: the experiment waits for the prediction
    claims = experiment(PREDICTION)
else:
    print("write a prediction of more than 30 letters first")

# %% [markdown]
# **Figure.** The differences of the loss to the run without adversary, paired by seed, for the three
# balls, with intervals; beside them the same at the best temperature. Save it as `3.6.png`.

# %% [markdown]
# ## 3.7 A law of your own ●●○ (8 minutes, 8 points)
#
# Write `is_right(f, rng)`: it gets a function `f(h, W, y, radii)` that somebody wrote for 3.3, and
# a NumPy generator, and returns True if the function is right. It may call `f` at most 5,000 times,
# on instances of at most 500 numbers. It has ten seconds for each function, in which the time of the
# calls counts: a hundred calls on small instances are enough. It is tried with wrong functions that you
# do not see, and with right ones. A law that refuses a right function earns nothing, so allow for
# rounding. Of any other law the points are the cube of the share of wrong functions that it refuses: a
# law that refuses half of them earns an eighth of the points. No one property refuses many more than
# half.
#
# <details><summary>What to look at</summary>
#
# What must hold when all radii are 0? When one of them grows? Is that enough?
#
# </details>
#
# <details><summary>The first line</summary>
#
# Move the words yourself, and take the softmax of what comes out.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# Radii that differ, a context that is no unit vector, and every word $y$ in its turn. A single $y$ tells little.
#
# </details>

# %% tags=["answer"] step="3.7"
def is_right(f, rng):
    raise NotImplementedError("3.7")


# %% tags=["check"] step="3.7"
check("A3", "3.7", is_right)

# %% [markdown]
# ## 3.8 Discuss ●●○ (12 minutes, 10 points)
#
# In at most 250 words: is it an adversary, or an additive margin? Which part of your difference would a
# temperature explain?
#
# You are marked for: a claim (2), a number from your own figure (3), a rival explanation (3), and the
# measurement that would decide between both (2).

# %% [markdown] tags=["manual"] step="3.8"
# *Your answer here.*
