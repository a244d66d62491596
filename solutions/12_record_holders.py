"""Answers to the exercises of lesson 12: each block takes the place of a cell tagged `exercise`."""


# %% 12.1
# m = (1 − β₁) g and v = (1 − β₂) g², so g falls out. With Adam's usual 0.9 and 0.999 the step is
# 3.2 learning rates: long, and far from hundreds of times too long.
def first_step(beta1, beta2):
    return (1 - beta1) / (1 - beta2) ** 0.5


# %% 12.1 wrong: Adam's step is never longer than the learning rate
# says: not so with
def first_step(beta1, beta2):
    return 1.0


# %% 12.1 wrong: the root is left out
# says: divide by the root of v
def first_step(beta1, beta2):
    return (1 - beta1) / (1 - beta2)


# %% 12.1 wrong: the wrong way round
# says: it is upside down
def first_step(beta1, beta2):
    return (1 - beta2) ** 0.5 / (1 - beta1)


# %% 12.2
# a / 2 = s and 2 c = s. Record 53 has s = 15, which gives 30 σ(l / 7.5).
def as_sigmoid(x, s):
    return 2 * s * (2 * x / s).sigmoid()


# %% 12.2 wrong: the height is the cap
# says: the probabilities are others
def as_sigmoid(x, s):
    return s * (2 * x / s).sigmoid()


# %% 12.2 wrong: the width is the cap
# says: the probabilities are others
def as_sigmoid(x, s):
    return 2 * s * (x / s).sigmoid()


# %% 12.2 wrong: the tangent itself
# says: it leaves the range
def as_sigmoid(x, s):
    return s * (x / s).tanh()


# %% 12.2 wrong: the slope of the cap is made 1, but the height is not
# says: the probabilities are others
def as_sigmoid(x, s):
    return s * (4 * x / s).sigmoid()
