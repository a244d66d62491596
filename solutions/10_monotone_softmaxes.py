"""Answers to the exercises of lesson 10: each block takes the place of a cell tagged `exercise`."""

# %% 10.1
# The slope lies between k and 1, so PL never falls for k ≥ 0. At k = 0 all words far below c share
# one probability, a floor; a low c leaves the likely words alone.
tail = -2.0, 0.25

# %% 10.1 wrong: PL falls below c
# says: PL falls: its slope far below c is -0.2
tail = -2.0, -0.2

# %% 10.1 wrong: the tail becomes lighter
# says: the tail is lighter
tail = -2.0, 2.5

# %% 10.1 wrong: the bend lies among the likely words
# says: the bend hits likely words
tail = 4.0, 0.0

# %% 10.1 wrong: the bend lies below all logits
# says: hardly a logit is bent
tail = -30.0, 0.0

# %% 10.1 wrong: the softmax
# says: hardly a logit is bent
tail = 0.0, 1.0

# %% 10.1 wrong: one number
# says: assign two numbers
tail = 0.5


# %% 10.2
# A staircase: rounding is small and its errors know nothing of each other, so they fill all
# dimensions.
def stairs(step):
    return lambda logits: (logits / step).round() * step


low, high = 1e-4, 1e-2
for _ in range(14):
    step = (low * high) ** 0.5
    found = rank.spectrum(stairs(step)(raw["softmax"]).log_softmax(1)).press_rank()
    if abs(found / (3 * (d + 1)) - 1) < 0.1:
        break
    low, high = (step, high) if found < 3 * (d + 1) else (low, step)
tripled = stairs(step)

# %% 10.2 wrong: no change at all
# says: a larger change
tripled = lambda logits: logits

# %% 10.2 wrong: far too many directions
# says: a smaller change
tripled = lambda logits: (100 * logits).round() / 100

# %% 10.2 wrong: noise is no increasing function
# says: the function falls somewhere
tripled = lambda logits: logits + 1.15e-3 * (torch.rand_like(logits) - 0.5)

# %% 10.2 wrong: the function falls
# says: the function falls somewhere
tripled = lambda logits: -logits


# %% 10.2 wrong: a bend has the rank, at too large a change of perplexity
# says: the perplexity changes by
def bend(epsilon):
    return lambda logits: PL(logits, 0.0, 1 + epsilon)


low, high = 1e-4, 1.0
for _ in range(14):
    epsilon = (low * high) ** 0.5
    found = rank.spectrum(bend(epsilon)(raw["softmax"]).log_softmax(1)).press_rank()
    if abs(found / (3 * (d + 1)) - 1) < 0.1:
        break
    low, high = (epsilon, high) if found < 3 * (d + 1) else (low, epsilon)
tripled = bend(epsilon)
