"""Answers to the exercises of lesson 11: each block takes the place of a cell tagged `exercise`."""


# %% 11.1
# The step is D m with D diagonal, one number a row: 1ᵀ D m is no multiple of 1ᵀ m, so the mean
# moves, about as with Adam. What matters is that words are treated unequally, not coordinates.
def half_coupled(W, m, v, t):
    m.lerp_(W.grad, 0.1)
    v.lerp_(W.grad.square().mean(1, keepdim=True), 0.02)
    divisor = (v / (1 - 0.98**t)).sqrt() + 1e-8
    W -= 1e-3 * m / (1 - 0.9**t) / divisor


# %% 11.1 wrong: coupled Adam
# says: its divisors are coupled Adam's
half_coupled = coupled_adam

# %% 11.1 wrong: Adam
# says: its divisors are Adam's
half_coupled = adam

# %% 11.1 wrong: no divisor at all
# says: no Adam's steps
half_coupled = sgd


# %% 11.1 wrong: the dimension is lost, and rows do not fit
# says: its shapes do not fit
def half_coupled(W, m, v, t):
    m.lerp_(W.grad, 0.1)
    v.lerp_(W.grad.square().mean(1), 0.02)
    divisor = (v / (1 - 0.98**t)).sqrt() + 1e-8
    W -= 1e-3 * m / (1 - 0.9**t) / divisor


# %% 11.1 wrong: the mean of the squares and no memory
# says: no Adam's steps
def half_coupled(W, m, v, t):
    divisor = W.grad.square().mean(1, keepdim=True).sqrt()
    W -= 1e-3 * W.grad / divisor


# %% 11.1 wrong: a new tensor in place of W
# says: steps, or none
def half_coupled(W, m, v, t):
    m.lerp_(W.grad, 0.1)
    v.lerp_(W.grad.square().mean(1, keepdim=True), 0.02)
    divisor = (v / (1 - 0.98**t)).sqrt() + 1e-8
    W = W - 1e-3 * m / (1 - 0.9**t) / divisor
