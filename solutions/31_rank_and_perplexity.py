"""Answers to the exercises of lesson 31: each block takes the place of a cell tagged `exercise`."""


# %% 31.1
def rank_for(s, epsilon):
    energy = np.cumsum(np.square(s))
    return int((energy < (1 - epsilon) * energy[-1]).sum()) + 1


# %% 31.1 wrong: one too few
def rank_for(s, epsilon):
    energy = np.cumsum(np.square(s))
    return int((energy < (1 - epsilon) * energy[-1]).sum())


# %% 31.1 wrong: the values, not their squares
def rank_for(s, epsilon):
    total = np.cumsum(s)
    return int((total < (1 - epsilon) * total[-1]).sum()) + 1


# %% 31.2
# From r' = r u / √(1 − r² + r²u²) follows u = r' √(1 − r²) / (r √(1 − r'²)).
needed = 0.21 / 0.53 * np.sqrt((1 - 0.53**2) / (1 - 0.21**2))

# %% 31.2 wrong: the ratio of the two
needed = 0.21 / 0.53

# %% 31.2 wrong: the share of the variance
needed = (0.21 / 0.53 * np.sqrt((1 - 0.53**2) / (1 - 0.21**2))) ** 2
