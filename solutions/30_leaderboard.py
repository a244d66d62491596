"""Answers to the exercises of lesson 30: each block takes the place of a cell tagged `exercise`."""


# %% 30.1
def corrected(p):
    order = np.argsort(p, kind="stable")
    result = np.empty(len(p))
    factors = np.arange(len(p), 0, -1)
    result[order] = np.minimum(1, np.maximum.accumulate(factors * p[order]))
    return result


# %% 30.1 wrong: Bonferroni
def corrected(p):
    return np.minimum(1, len(p) * p)


# %% 30.1 wrong: in the order of the sorted p-values
def corrected(p):
    factors = np.arange(len(p), 0, -1)
    return np.minimum(1, np.maximum.accumulate(factors * np.sort(p)))


# %% 30.1 wrong: the p-values may fall again
def corrected(p):
    order = np.argsort(p, kind="stable")
    result = np.empty(len(p))
    result[order] = np.minimum(1, np.arange(len(p), 0, -1) * p[order])
    return result


# %% 30.1 wrong: above 1
# says: larger than 1
def corrected(p):
    order = np.argsort(p, kind="stable")
    result = np.empty(len(p))
    factors = np.arange(len(p), 0, -1)
    result[order] = np.maximum.accumulate(factors * p[order])
    return result


# %% 30.2
seeds = comparison.seeds_for(0.4, 0.5)

# %% 30.2 wrong: the normal approximation, which forgets that s is estimated
seeds = 13

# %% 30.2 wrong: enough and too many
seeds = 30
