"""Answers to the exercises of lesson 32: each block takes the place of a cell tagged `exercise`."""

# %% 32.1
pairs_needed = 4
while spearman_interval(0.3, pairs_needed)[1] >= 0.35:
    pairs_needed += 1

# %% 32.1 wrong: 2/√m = 0.05
pairs_needed = 1600

# %% 32.1 wrong: both intervals are asked to be apart
pairs_needed = 5000

# %% 32.2
chance = binomtest(9, 13).pvalue

# %% 32.2 wrong: one side only
chance = binomtest(9, 13).pvalue / 2

# %% 32.2 wrong: exactly nine
chance = 2 * 715 / 2**13
