"""Answers to the exercises of lesson 33b, each in place of a cell tagged `exercise`."""


# %% 33b.1
def gain_of(models):
    mean = np.exp(-np.array(models)).mean(0)
    return 100 * (np.mean(models) + np.log(mean).mean())


# %% 33b.1 wrong: the sign
# says: above 0
def gain_of(models):
    mean = np.exp(-np.array(models)).mean(0)
    return -100 * (np.mean(models) + np.log(mean).mean())


# %% 33b.1 wrong: in nats
# says: 100 times as many
def gain_of(models):
    mean = np.exp(-np.array(models)).mean(0)
    return np.mean(models) + np.log(mean).mean()


# %% 33b.1 wrong: ordinary per cent
# says: difference of logarithms
def gain_of(models):
    mean = np.exp(-np.array(models)).mean(0)
    return 100 * (1 - np.exp(-np.mean(models) - np.log(mean).mean()))


# %% 33b.1 wrong: losses are averaged
# says: average probabilities
def gain_of(models):
    return 100 * (np.mean(models) - np.mean(models, axis=0).mean())


# %% 33b.2
apart = np.sqrt(8 * 0.05)

# %% 33b.2 wrong: the whole difference in cosh
# says: half the difference
apart = np.sqrt(2 * 0.05)

# %% 33b.2 wrong: per cent for nats
# says: 0.05 nats
apart = np.sqrt(8 * 5)
