"""Answers to the exercises of lesson 33: each block takes the place of a cell tagged `exercise`."""


# %% 33.1
def error_of(tokens, probability, right):
    return np.average(np.abs(right - probability), weights=tokens)


# %% 33.1 wrong: bins of few tokens weigh as much as others
def error_of(tokens, probability, right):
    return np.abs(right - probability).mean()


# %% 33.1 wrong: errors of opposite sign cancel
def error_of(tokens, probability, right):
    return abs(np.average(right - probability, weights=tokens))


# %% 33.2
each = -np.log(0.98) / 0.3

# %% 33.2 wrong: the mean over all tokens
each = -np.log(0.98)

# %% 33.2 wrong: in per cent
each = 2 / 0.3
