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
# # A1. One matrix, two jobs
#
# **After lessons 01, 05 and 05b.** Eight steps, 100 points, about two hours of your time and twenty
# minutes of your machine's.
#
# Inan, Khosravi and Socher (2017) add a loss that compares the model's prediction with a *softened*
# target, a softmax of the inner products of the target's vector with all word vectors. At a high
# temperature, they argue, this loss drives the output matrix $W$ into the column space of the input
# matrix $E$. Three things are taken for granted on the way: both distributions have one temperature,
# logits have mean 0, and in the paper's figure the rows of $E$ have norm 1. What happens where one of
# them does not hold?
#
# ## What you will be able to do
#
# - derive the gradient of a divergence through two temperatures, and its leading term;
# - compute a loss over 400,000 words without a table of that width;
# - say how much of one matrix another explains, and which changes leave this number alone;
# - find the words for which the softened target argues against the word itself;
# - claim a number from an experiment that somebody else will repeat.
#
# ## How it is marked
#
# Each function is called with numbers drawn at that moment, and must obey the laws in the folder
# `tools` beside this notebook; `check` tries them here. An answer that obeys the laws on small
# instances but not at the large size has half of the points. A function may not change its arguments.
# Each answer cell stands alone: the marker runs no other cell, gives it `np`, `special` and `linalg`,
# and no file, no network and no `course_lib`. Vectors and matrices are float64 arrays of NumPy.
#
# Below each question, `hint` opens the hints of its step one by one. They cost nothing; your teacher sees
# how many were opened.

# %% tags=["given"]
VARIANT = "aaaaaa"  # your six letters, from the roster

import numpy as np
from scipy import linalg, special

from tools.assignments.laws.home import check, hint

# %% [markdown]
# ## 1.1 Derive: two temperatures ●●○ (15 minutes, 12 points)
#
# Let $\tilde y = \operatorname{softmax}(s/\tau_s)$ be the target and
# $\hat y = \operatorname{softmax}(l/\tau_l)$ the prediction. Write
#
# `softened_gradient(l, s, tau_l, tau_s)`, the gradient of $\mathrm{KL}(\tilde y \,\|\, \hat y)$ in
# $l$. `l` and `s` have shape (N,), so has the result. At $N = 100{,}000$ you have ten seconds and 400 MB.
#
# <details><summary>What to look at</summary>
#
# The target does not depend on $l$: its entropy is a constant. What is left is a cross-entropy.
#
# </details>
#
# <details><summary>The first line</summary>
#
# With $z = l/\tau_l$, the gradient of a cross-entropy in $z$ is in lesson 1. Then the chain rule.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# The special case $\tau_l = \tau_s$ is equation 9 of the paper. Which of the two temperatures came
# from the derivative, and which from the target?
#
# </details>

# %% tags=["answer"] step="1.1"
def softened_gradient(l, s, tau_l, tau_s):
    raise NotImplementedError("1.1")


# %% tags=["check"] step="1.1"
check("A1", "1.1", softened_gradient)

# %% [markdown]
# ## 1.2 Derive: far from one-hot ●●○ (12 minutes, 12 points)
#
# Let both temperatures grow while their ratio stays. Write `high_temperature(l, s, tau_l, tau_s)`,
# the leading term of the gradient of 1.1: the relative distance between both must halve when both
# temperatures double. The logits may have any mean.
#
# <details><summary>What to look at</summary>
#
# $e^x \approx 1 + x$ in each softmax, in the numerator and in the denominator.
#
# </details>
#
# <details><summary>The first line</summary>
#
# $\operatorname{softmax}(x)_i \approx \frac{1 + x_i}{N + \sum_j x_j}$. Expand the quotient, too.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# The entries of a softmax add up to 1 exactly. So must your approximation's; what has to be taken
# off each $x_i$?
#
# </details>

# %% tags=["answer"] step="1.2"
def high_temperature(l, s, tau_l, tau_s):
    raise NotImplementedError("1.2")


# %% tags=["check"] step="1.2"
check("A1", "1.2", high_temperature)

# %% [markdown]
# ## 1.3 Implement: the loss, streamed ●●● (20 minutes, 18 points)
#
# Write `augmented_loss(h, W, E, y, tau, block)`: for each of $b$ contexts, $\mathrm{KL}(\tilde y \,\|\, \hat y)$ with
# $\hat y = \operatorname{softmax}(W h/\tau)$ and $\tilde y = \operatorname{softmax}(E e_y/\tau)$.
# Shapes: `h` (b, d), `W` and `E` (N, d), `y` (b,) integers; the result (b,).
#
# Read the vocabulary in blocks of `block` words and keep no array of shape (b, N). At $N = 400{,}000$,
# $b = 64$, $d = 4$ and blocks of 4,096 words you have 200 MB. Logits may be as large as ±10⁴. `block` need
# not divide N.
#
# <details><summary>What to look at</summary>
#
# $\mathrm{KL} = \sum_i \tilde y_i\,(s_i - l_i)/\tau - \log Z_s + \log Z_l$. Which sums run over words?
#
# </details>
#
# <details><summary>The first line</summary>
#
# For each context keep the largest logit so far, and the sum of exponentials relative to it.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# When the largest logit grows from $m$ to $m'$, every sum that was kept is multiplied by
# $e^{m - m'}$. Three sums are enough.
#
# </details>

# %% tags=["answer"] step="1.3"
def augmented_loss(h, W, E, y, tau, block):
    raise NotImplementedError("1.3")


# %% tags=["check"] step="1.3"
check("A1", "1.3", augmented_loss)

# %% [markdown]
# ## 1.4 Analyse: one matrix by the other ●●○ (15 minutes, 12 points)
#
# Write `tying_map(W, E)`, which returns `A` (d, d), `c` (d,) and `share`: the best approximation
# $W \approx E A + \mathbf 1 c^\top$ in the least-squares sense, and the share of $W$'s spread about
# its mean row that the approximation explains. A column of $E$ may be zero. $N$ may be 30,000.
#
# Why $c$? The same vector added to all rows of $W$ changes no probability.
#
# <details><summary>What to look at</summary>
#
# The residual of a least-squares solution is orthogonal to everything that was fitted with.
#
# </details>
#
# <details><summary>The first line</summary>
#
# Take the mean row off both matrices; `c` follows from the means at the end.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# `np.linalg.lstsq` does not mind a zero column. The share is 1 − ‖residual‖²/‖spread‖².
#
# </details>

# %% tags=["answer"] step="1.4"
def tying_map(W, E):
    raise NotImplementedError("1.4")


# %% tags=["check"] step="1.4"
check("A1", "1.4", tying_map)

# %% [markdown]
# ## 1.5 Find out: contradicted words ●○○ (10 minutes, 8 points)
#
# The softened target of word $i$ is a softmax of $E e_i$. It *contradicts* the word where another
# word has a larger probability in it. Write `contradicted(E)`, which returns N truth values. A word
# with an equal vector does not contradict. $N$ may be 20,000, where a table of all pairs takes 3 GB. Take both
# numbers from one table: two ways to compute a product differ in the last digit.
#
# Before you write: can it happen where all rows have norm 1? (Cauchy and Schwarz know.)
#
# <details><summary>What to look at</summary>
#
# A softmax does not change the order of its logits.
#
# </details>
#
# <details><summary>The first line</summary>
#
# For a block of words: their inner products with all words, and the largest of each row.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# Compare the largest with the word's product with itself, *from the same table*: computed in another
# way it may differ in the last digit.
#
# </details>

# %% tags=["answer"] step="1.5"
def contradicted(E):
    raise NotImplementedError("1.5")


# %% tags=["check"] step="1.5"
check("A1", "1.5", contradicted)

# %% [markdown]
# ## 1.6 Experiment: Figure 1 anew ●●○ (25 minutes and 20 of your machine's, 20 points)
#
# The code below trains an LSTM on *your* 20,000 tokens. The share $\beta$ of the augmented loss is 0, ½ or 1,
# the rows of $E$ are free or have norm 1, and each of the six settings has three seeds. The code needs the
# course's environment, with PyTorch.
#
# **First predict**, in a sentence or two: what becomes of the distance between the column spaces and of
# the explained share as $\beta$ grows, and how many words are contradicted? The prediction has points for being
# there, not for being right. A well measured "no effect" has full marks.
#
# The numbers of a run are the share by your 1.4, the contradicted words by your 1.5, and the distance of
# both column spaces: 0 where they are the same, 1 where they are orthogonal.
#
# Hand in one zip with this notebook, `1.6.safetensors` (the arrays), `1.6.csv` (your numbers), `1.6.json`
# (your prediction) and the figure `1.6.png`. The code writes the first three beside the notebook. The marker
# computes your numbers again from your arrays, and they must agree to $10^{-6}$, the share of contradicted words to
# $10^{-4}$. The marker also
# begins one run, drawn at random, again, and the matrices must agree to 1 %. A zip may have 40
# files. The notebook may have 5 MB, and all other files together 64 MB.

# %% tags=["answer"] step="1.6"
PREDICTION = ""

# %% tags=["given"]
def experiment(prediction, folder="."):
    """Train the 18 runs of the variant, and save what is to be handed in."""
    from tools.assignments import variant
    from tools.assignments.laws import a1_experiment

    own = variant.parameters("A1", variant.own(VARIANT))
    text = a1_experiment.tokens(own)
    print(own)
    trained = {}
    claims = {}
    for run in a1_experiment.runs(own):
        trained[run] = a1_experiment.train(text, own, *run)
        W = trained[run]["W"].astype(float)
        E = trained[run]["E"].astype(float)
        claims[run] = {
            "distance": a1_experiment.distance(W, E),
            "share": tying_map(W, E)[2],  # your 1.4
            "contradicted": contradicted(E).mean(),  # your 1.5
        }
        print(a1_experiment.name(*run), {k: round(float(v), 4) for k, v in claims[run].items()})
    a1_experiment.save(folder, trained, claims, prediction)
    return claims


# %% tags=["given"]
if len(PREDICTION) > 30:  # letters: the experiment waits for the prediction
    claims = experiment(PREDICTION)
else:
    print("write a prediction of more than 30 letters first")

# %% [markdown]
# **Figure.** Draw distance and share against $\beta$, for free rows and for norm 1: a point a seed,
# the mean and its interval. Beneath, the share of contradicted words. Save it as `1.6.png`.

# %% [markdown]
# ## 1.7 A law of your own ●●○ (10 minutes, 8 points)
#
# Write `is_right(f, rng)`: it gets a function `f(l, s, tau_l, tau_s)` that somebody wrote for 1.1, and
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
# What does a gradient predict? You know the divergence.
#
# </details>
#
# <details><summary>The first line</summary>
#
# Move one entry of $l$ by a little; compare the divergence's change with the entry of the gradient.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# Central differences with a step of 10⁻⁵ are right to about 10⁻⁹. Which instance would hide a wrong
# temperature?
#
# </details>

# %% tags=["answer"] step="1.7"
def is_right(f, rng):
    raise NotImplementedError("1.7")


# %% tags=["check"] step="1.7"
check("A1", "1.7", is_right)

# %% [markdown]
# ## 1.8 Discuss ●●○ (12 minutes, 10 points)
#
# In at most 250 words: does the loss tie the matrices, or does it shorten the logits? What do
# contradicted words do to the argument of the paper's section 4?
#
# You are marked for: a claim (2), a number from your own figure (3), a rival explanation (3), and the
# measurement that would decide between both (2).

# %% [markdown] tags=["manual"] step="1.8"
# *Your answer here.*
