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
# # A4. Choose a spectrum, or only a ceiling
#
# **After lessons 08 and 08b.** Eight steps, 100 points, about two hours of your time and ten minutes of
# your machine's.
#
# Wang and others (2020) write the word matrix as $W = U\Sigma V^\top$ and choose how its singular values
# fall. Their theory is about a *class* of matrices, all those with
#
# $$\sigma_k \le c_k, \qquad c_k = c_1 k^{-\gamma} \ \text{ or } \ c_1 e^{-c_2 k^\gamma},$$
#
# where $\sigma_k$ is the $k$-th largest. The bound is a ceiling: a matrix with a smaller $\sigma_7$ is as good a
# member as one that touches it. Theorem 4.1 needs no more. Their *penalty*, however, is
# $\lambda\sum_k(\sigma_k - c_k)^2$. It pulls from both sides, and a model that would do better with a smaller
# $\sigma_7$ pays for it. Which of the two makes the model better, the chosen curve or the bound? And
# which of the two makes the words isotropic?
#
# You will build what this question needs:
#
# - a matrix in factors that is never multiplied out, with fewer directions than coordinates and a vector
#   $m$ that all words share;
# - a penalty that knows only the ceiling;
# - an iteration that gives a matrix orthonormal columns again, without any decomposition;
# - a measure of the cone that counts words as a text does.
#
# Then you will fool this measure, to know how far you may trust it.
#
# ## What you will be able to do
#
# - read and predict with a product of matrices from the right end;
# - differentiate a penalty on *sorted* values, and say why this is no harder than on unsorted ones;
# - find the nearest matrix with orthonormal columns by products alone, and say when this diverges;
# - measure the cone that a text sees, and name what the measure does not see;
# - tell a bound from a target in an experiment that somebody else will repeat.
#
# ## How it is marked
#
# Each function is called with numbers drawn at that moment, and must obey the laws in the folder
# `tools` beside this notebook; `check` tries them here. An answer that obeys the laws on small
# instances but not at the large size has half of the points. A function may not change its arguments.
# Each answer cell stands alone: the marker runs no other cell, gives it `np`, `special` and `linalg`,
# and no file, no network and no `course_lib`. Matrices have a row for each word, `W` is (N, d).
#
# Below each question, `hint` opens the hints of its step one by one. They cost nothing; your teacher sees
# how many were opened.

# %% tags=["given"]
VARIANT = "aaaaaa"  # your six letters, from the roster

import numpy as np
from scipy import linalg, special

from tools.assignments.laws.home import check, hint

# %% [markdown]
# ## 4.1 Implement: never form the matrix ●○○ (15 minutes, 14 points)
#
# Let $W = U\Sigma V^\top + \mathbf 1 m^\top$: `U` is (N, r), `s` (r,) is the diagonal of $\Sigma$, `V` is
# (d, r), and the vector `m` (d,) is added to every row. For $r = d$ and $m = 0$ this is the paper's matrix;
# for $r < d$ its last $\sigma$ are 0. Neither `U` nor `V` need have orthonormal columns.
#
# Write `read_and_predict(U, s, V, m, ids, H)`. It returns two arrays together: the rows of $W$ that `ids`
# (n,) names, (n, d), and the logits $H W^\top$ of the contexts `H` (b, d), (b, N). With N = 200,000 and
# d = 512 there is no room for $W$.
#
# Then think: if you left $m$ out of the rows, or out of the logits, which of the two would change a
# probability?
#
# <details><summary>What to look at</summary>
#
# A product of three matrices can be computed from either end. What is small at which end?
#
# </details>
#
# <details><summary>The first line</summary>
#
# A row of $W$ needs one row of $U$. A logit needs $h$ in the coordinates of $V$ first.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# $\big((h^\top V) \circ \sigma\big)U^\top$, and $h^\top m$ for every word: one number a context.
#
# </details>

# %% tags=["answer"] step="4.1"
def read_and_predict(U, s, V, m, ids, H):
    raise NotImplementedError("4.1")


# %% tags=["check"] step="4.1"
check("A4", "4.1", read_and_predict)

# %% [markdown]
# ## 4.2 Derive: only a ceiling ●●○ (15 minutes, 14 points)
#
# The parameter `s` (d,) is free: in any order, of any sign. The singular value that belongs to $s_i$ is
# $|s_i|$. The bounds `c` (d,) are positive and fall. Write `ceiling(s, c)`, which returns two things together:
# the number
#
# $$\sum_k \max(0,\ \sigma_{(k)} - c_k)^2, \qquad \sigma_{(1)} \ge \sigma_{(2)} \ge \dots \ \text{ the sizes of } s,$$
#
# and its gradient in `s`, (d,), in the order of `s`. No two sizes are equal where it is asked, and a value
# at or below its bound has the gradient 0, a value of 0 among them. There may be 20,000 values.
#
# No other pairing of values with bounds would cost less: the check compares with the cheapest one.
#
# <details><summary>What to look at</summary>
#
# Nudge one entry of `s`. As long as no two sizes change places, which bound does it meet?
#
# </details>
#
# <details><summary>The first line</summary>
#
# `np.argsort` of the negative sizes names the entries from the largest size to the smallest.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# Compute the slopes in sorted order, and put each back where its entry stands: assign to an empty array
# at `order`. How does the slope of $|s_i|$ depend on the sign?
#
# </details>

# %% tags=["answer"] step="4.2"
def ceiling(s, c):
    raise NotImplementedError("4.2")


# %% tags=["check"] step="4.2"
check("A4", "4.2", ceiling)

# %% [markdown]
# ## 4.3 Implement: back to orthonormal columns ●●● (18 minutes, 16 points)
#
# The paper holds $U^\top U$ near $I$ by penalties. One can also go back to $U^\top U = I$ at once. Write
# `orthonormalise(X, tol)` for `X` (n, d) of full rank, $n \ge d$: the iteration
#
# $$X \leftarrow \tfrac32 X - \tfrac12 X X^\top X,$$
#
# until $\|X^\top X - I\|_F \le$ `tol`. It leads to the matrix with orthonormal columns that is *nearest* to
# where it began, if it leads anywhere. Return that matrix and the number of steps, together: a step is one
# application of the formula, and what you do to `X` before the first one is none. `X` may be a thousand
# times too long or too short. From a condition of 10⁴ you have 40 steps; `n` may be 20,000.
#
# <details><summary>What to look at</summary>
#
# Put $X = P\Sigma Q^\top$ into one step. What happens to $P$, to $Q$ and to a single $\sigma$?
#
# </details>
#
# <details><summary>The first line</summary>
#
# A step makes $\sigma$ into $\frac32\sigma - \frac12\sigma^3$. From which $\sigma$ does this lead to 1? From which
# does it lead to −1, or nowhere?
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# The nearest matrix of $X$ is that of $X/c$ for every $c > 0$. A norm that is easily computed is not smaller
# than the largest $\sigma$. And $X X^\top X$ is $X (X^\top X)$.
#
# </details>

# %% tags=["answer"] step="4.3"
def orthonormalise(X, tol):
    raise NotImplementedError("4.3")


# %% tags=["check"] step="4.3"
check("A4", "4.3", orthonormalise)

# %% [markdown]
# ## 4.4 Implement: the cone as the text sees it ●●○ (12 minutes, 12 points)
#
# The paper's $I_1$ and $I_2$ count every word once. Let `p` (N,) be the words' shares in a text, positive and
# with sum 1, and
#
# $$Z_p(a) = \sum_i p_i\,e^{w_i^\top a}, \qquad I_1 = \frac{\min_a Z_p(a)}{\max_a Z_p(a)}, \qquad
# I_2 = \frac{\text{standard deviation of } Z_p}{\text{mean of } Z_p}.$$
#
# The $a$ are the $d$ unit eigenvectors of $\sum_i p_i w_i w_i^\top$ *and* their opposites, since an
# eigenvector's sign is arbitrary. The standard deviation is that of these $2d$ numbers, divided by $2d$.
# Write `isotropy(W, p)`, which returns $I_1$ and $I_2$ together. For equal shares they are the paper's, and a
# word that is split into two of half its share changes nothing. No two eigenvalues are equal where it is
# asked. Words may be ten thousand times as long as usual.
#
# <details><summary>What to look at</summary>
#
# $e^{1000}$ is no number for a computer. Do you need it, or only ratios?
#
# </details>
#
# <details><summary>The first line</summary>
#
# $\log Z = t + \log\sum_i p_i e^{x_i - t}$ for every $t$. Which $t$ is safe?
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# Both measures stay the same if all $Z$ are divided by the largest of them.
#
# </details>

# %% tags=["answer"] step="4.4"
def isotropy(W, p):
    raise NotImplementedError("4.4")


# %% tags=["check"] step="4.4"
check("A4", "4.4", isotropy)

# %% [markdown]
# ## 4.5 Break: fool it ●○○ (8 minutes, 8 points)
#
# Write `fool(W)`: it returns a matrix of the same shape in which every two words have the cosine that they
# have in `W`, and whose $I_1$, at equal shares, is above 0.99. `W` is a narrow cone of long words.
#
# <details><summary>What to look at</summary>
#
# What does a cosine not see? What does $I_1$ see of it?
#
# </details>
#
# <details><summary>The first line</summary>
#
# What is $Z(a)$ where all $w_i^\top a$ are nearly 0?
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# $w^\top a$ lies between $-\|w\|$ and $\|w\|$. How long may the longest word be for $I_1 > 0.99$?
#
# </details>

# %% tags=["answer"] step="4.5"
def fool(W):
    raise NotImplementedError("4.5")


# %% tags=["check"] step="4.5"
check("A4", "4.5", fool)

# %% [markdown]
# ## 4.6 Experiment: two-sided, or a ceiling ●●○ (30 minutes and 10 of your machine's, 18 points)
#
# The code below trains an LSTM over $W = U\Sigma V^\top$ on *your* tokens, with no penalty on $\Sigma$, with the
# paper's two-sided one, and with the ceiling, three seeds each. The bounds are $c_k = c_1 k^{-\gamma}$ with
# *your* $c_1$ and $\gamma$. All begin with the same $U$ and $V$ and with $\sigma_k = c_k/2$, in the middle of the
# class, and the same penalties hold $U$ and $V$. The code needs the course's environment, with PyTorch.
#
# **First predict**, in a sentence or two: where do the three spectra end? Which has the highest $I_1$, and
# which the lowest loss on the last 2,000 tokens? The prediction has points for being there, not for being
# right. A well measured "no effect" has full marks.
#
# The numbers of a run are the excess over the ceiling by your 4.2, $I_1$ by your 4.4 at the shares of your text, the loss, and
# $\|U^\top U - I\|_F$. The last tells whether the sizes of `s` may be called singular values: above 0.2 they
# may not.
#
# Hand in one zip with this notebook, `4.6.safetensors` (the arrays), `4.6.csv` (your numbers), `4.6.json`
# (your prediction) and the figure `4.6.png`. The code writes the first three beside the notebook. The marker
# computes your numbers again from your arrays, and they must agree to $10^{-6}$. The marker also
# begins one run, drawn at random, again, and the matrices must agree to 1 %. A zip may have 40
# files. The notebook may have 5 MB, and all other files together 64 MB.

# %% tags=["answer"] step="4.6"
PREDICTION = ""

# %% tags=["given"]
def experiment(prediction, folder="."):
    """Train the 9 runs of the variant, and save what is to be handed in."""
    from tools.assignments import variant
    from tools.assignments.laws import a4_experiment

    own = variant.parameters("A4", variant.own(VARIANT))
    text = a4_experiment.tokens(own)
    c = a4_experiment.bounds(own)
    p = a4_experiment.frequencies(text)
    trained = {}
    claims = {}
    for run in a4_experiment.runs(own):
        trained[run] = a4_experiment.train(text, own, *run)
        s = trained[run]["s"].astype(float)
        claims[run] = {
            "above": float(ceiling(s, c)[0]),  # your 4.2
            "I1": float(isotropy(a4_experiment.matrix(trained[run]), p)[0]),  # your 4.4
            "off": a4_experiment.off(trained[run]),
            "loss": a4_experiment.hidden_loss(trained[run], text),
        }
        print(a4_experiment.name(*run), {k: round(float(v), 4) for k, v in claims[run].items()})
    a4_experiment.save(folder, trained, claims, prediction)
    return claims, trained


# %% tags=["given"]
if len(PREDICTION) > 30:  # letters: the experiment waits for the prediction
    claims, trained = experiment(PREDICTION)
else:
    print("write a prediction of more than 30 letters first")

# %% [markdown]
# **Figure.** Left, the three spectra, the sizes of `s` from the largest to the smallest, on two logarithmic
# axes, a line a seed, with everything above the ceiling shaded. Right, the perplexity $e^{\text{loss}}$ of each
# seed for the three kinds. Label the axes; let line styles differ, not only colours. Save it as `4.6.png`.

# %% [markdown]
# ## 4.7 A law of your own ●●○ (8 minutes, 8 points)
#
# Write `is_right(f, rng)`: it gets a function `f(s, c)` that somebody wrote for 4.2, and a NumPy
# generator, and returns True if the function is right. It may call `f` at most 5,000 times, on instances
# of at most 500 numbers, with bounds that fall. It has ten seconds for each function, in which the time
# of the calls counts: a hundred calls on small instances are enough. It is tried with wrong functions that
# you do not see, and with right ones. A law that refuses a right function earns nothing, so allow for
# rounding. Of any other law the points are the cube of the share of wrong functions that it refuses: a law
# that refuses half of them earns an eighth of the points. No one property refuses many more than half.
#
# <details><summary>What to look at</summary>
#
# Which spectra hide a floor, a missing sort, a missing sign?
#
# </details>
#
# <details><summary>The first line</summary>
#
# Take values of both signs, in no order, some above and some below their bounds; and more than one instance.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# The value from its definition; the gradient from the value, by central differences with a step of 10⁻⁵.
#
# </details>

# %% tags=["answer"] step="4.7"
def is_right(f, rng):
    raise NotImplementedError("4.7")


# %% tags=["check"] step="4.7"
check("A4", "4.7", is_right)

# %% [markdown]
# ## 4.8 Discuss ●●○ (12 minutes, 10 points)
#
# In at most 250 words: what does theorem 4.1 say about a minimiser of each of the two penalties? Which term of
# its bound could you see in your runs? And how much of a change of $I_1$ is a change of length, as in 4.5?
#
# You are marked for: a claim (2), a number from your own figure (3), a rival explanation (3), and the
# measurement that would decide between both (2).

# %% [markdown] tags=["manual"] step="4.8"
# *Your answer here.*
