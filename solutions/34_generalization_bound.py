"""Answers to the exercises of lesson 34: each block takes the place of a cell tagged `exercise`."""

# %% 34.1
half_at = 4

# %% 34.1 wrong: a root is missing
half_at = 2 * 2**0.5

# %% 34.1 wrong: half of m = 1
half_at = 2

# %% 34.2
factor = 100

# %% 34.2 wrong: in proportion
factor = 10
