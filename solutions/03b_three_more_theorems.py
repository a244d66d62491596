# %% 03b.1
def least(c, N):
    """The sum of the table, divided by N twice."""
    return (1 + (N - 1) * c) / N


# %% 03b.1 wrong: divided once
# says: divide by N once more
def least(c, N):
    return 1 + (N - 1) * c


# %% 03b.1 wrong: the diagonal is forgotten
# says: the bound is
def least(c, N):
    return (N - 1) * c / N
