"""Answers to the exercises of lesson 35: each block takes the place of a cell tagged `exercise`."""


# %% 35.1
def on_front(cost, loss):
    at_most = (cost[:, None] <= cost) & (loss[:, None] <= loss)
    below = (cost[:, None] < cost) | (loss[:, None] < loss)
    return ~(at_most & below).any(0)


# %% 35.1 wrong: equal points beat each other
def on_front(cost, loss):
    at_most = (cost[:, None] <= cost) & (loss[:, None] <= loss)
    np.fill_diagonal(at_most, False)
    return ~at_most.any(0)


# %% 35.1 wrong: only what is better in both beats
def on_front(cost, loss):
    return ~((cost[:, None] < cost) & (loss[:, None] < loss)).any(0)


# %% 35.2
gain = 100 * (1 - 0.99 ** (np.log(3.2) / np.log(1.3)))

# %% 35.2 wrong: in proportion
gain = 3.2 / 1.3

# %% 35.2 wrong: a per cent for each multiple of the time
gain = 2.2
