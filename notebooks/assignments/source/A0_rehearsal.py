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
# # A0. Rehearsal
#
# **Goal.** In fifteen minutes you hand in a wrong answer, read what the marker says about it, mend
# the answer, and hand it in again. The points count nothing; the next assignments work in the same
# way.
#
# You write functions into the cells that ask for them. Each function is called with numbers that are
# drawn at that moment, and what it gives must obey *laws*. The laws are public: they lie in the
# folder `tools` beside this notebook, and the cell `check` tries them. The marker tries the same laws
# with other numbers, and knows the commonest mistakes by name.
#
# Below each question, `hint` opens the hints of its step one by one. They cost nothing; your teacher sees
# how many were opened.
#
# Imports are given: `np` is NumPy, `special` and `linalg` are SciPy's. Each cell stands alone: the
# marker runs no other. Your functions must leave their arguments as they are.

# %% tags=["given"]
VARIANT = "aaaaaa"  # your six letters, from the roster

import numpy as np
from scipy import linalg, special

from tools.assignments.laws.home import check, hint

# %% [markdown]
# ## 0.1 The logarithm of a softmax (8 minutes, 2 points)
#
# Write `log_softmax(l)`. The logits `l` are an array of shape (N,); return the N log-probabilities.
#
# Write the definition, $\log\big(e^{l_i}/\sum_j e^{l_j}\big)$, and let the check refuse it. Leave it wrong
# for now.
#
# <details><summary>What to look at</summary>
#
# Which number does `np.exp` give for 10,000?
#
# </details>
#
# <details><summary>The first line</summary>
#
# `l = l - l.max()` changes no probability.
#
# </details>

# %% tags=["answer"] step="0.1"
def log_softmax(l):
    raise NotImplementedError("0.1")


# %% tags=["solution"] step="0.1"
def log_softmax(l):
    shifted = l - l.max()
    return shifted - np.log(np.exp(shifted).sum())


# %% tags=["check"] step="0.1"
check("A0", "0.1", log_softmax)

# %% [markdown]
# ## 0.2 What were you told? (5 minutes, 1 point)
#
# Hand this notebook in with the answer to 0.1 that the check refused. When the page with your feedback has
# arrived, paste the instance on which your function failed into a cell and run it. Then write one sentence:
# what did the marker say, and what was wrong? Now mend 0.1, and hand in again.

# %% [markdown] tags=["manual"] step="0.2"
# *Your answer here.*
