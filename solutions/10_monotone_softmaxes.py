# %% 10.1
# The slope lies between k and 1, so PL never falls for k ≥ 0. At k = 0 all words far below c share
# one probability, a floor; a low c leaves the likely words alone.
tail = -2.0, 0.25

# %% 10.1 wrong: PL falls below c
tail = -2.0, -0.2

# %% 10.1 wrong: the tail becomes lighter
tail = -2.0, 2.5

# %% 10.1 wrong: the bend lies among the likely words
tail = 4.0, 0.0

# %% 10.1 wrong: the bend lies below all logits
tail = -30.0, 0.0

# %% 10.1 wrong: the softmax
tail = 0.0, 1.0

# %% 10.2
level = raw["GSS"] - raw["GSS"].mean(1, keepdim=True) + raw["GSS"].mean()
fixed = perplexity(bend(live["GSS"].model.output_layer, level).log_softmax(1))

# %% 10.2 wrong: the mean over all is lost, and the bend stands elsewhere
level = raw["GSS"] - raw["GSS"].mean(1, keepdim=True)
fixed = perplexity(bend(live["GSS"].model.output_layer, level).log_softmax(1))

# %% 10.2 wrong: not bent
level = raw["GSS"] - raw["GSS"].mean(1, keepdim=True) + raw["GSS"].mean()
fixed = perplexity(level.log_softmax(1))

# %% 10.2 wrong: the model as it is
fixed = perplexity(log_p["GSS"])

# %% 10.2 wrong: of the softmax
level = raw["softmax"] - raw["softmax"].mean(1, keepdim=True) + raw["softmax"].mean()
fixed = perplexity(level.log_softmax(1))

# %% 10.2 wrong: the means of the columns, the words
level = raw["GSS"] - raw["GSS"].mean(0, keepdim=True) + raw["GSS"].mean()
fixed = perplexity(bend(live["GSS"].model.output_layer, level).log_softmax(1))


# %% 10.3
# A staircase: rounding is small and its errors know nothing of each other, so they fill all
# dimensions. The threshold lies between the hundredth singular value and the next.
def stairs(step):
    return lambda logits: (logits / step).round() * step


low, high = 1e-4, 1e-2
for _ in range(14):
    step = (low * high) ** 0.5
    found = rank.spectrum(stairs(step)(raw["softmax"]).log_softmax(1)).press_rank()
    if 90 <= found <= 110:
        break
    low, high = (step, high) if found < 100 else (low, step)
s = spectra["GSS"].singular_values
hundred = stairs(step), (s[99] + s[100]) / 2 / s[0]

# %% 10.3 wrong: no change at all
s = spectra["GSS"].singular_values
hundred = lambda logits: logits, (s[99] + s[100]) / 2 / s[0]

# %% 10.3 wrong: far too many directions
s = spectra["GSS"].singular_values
hundred = lambda logits: (100 * logits).round() / 100, (s[99] + s[100]) / 2 / s[0]

# %% 10.3 wrong: the function falls
s = spectra["GSS"].singular_values
hundred = lambda logits: -logits, (s[99] + s[100]) / 2 / s[0]


# %% 10.3 wrong: the threshold is no share
low, high = 1e-4, 1e-2
for _ in range(14):
    step = (low * high) ** 0.5
    found = rank.spectrum(((raw["softmax"] / step).round() * step).log_softmax(1)).press_rank()
    if 90 <= found <= 110:
        break
    low, high = (step, high) if found < 100 else (low, step)
s = spectra["GSS"].singular_values
hundred = lambda logits: (logits / step).round() * step, (s[99] + s[100]) / 2
