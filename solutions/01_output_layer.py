# %% 01.1
def rescale(p, s):
    """exp(s log p), and the sum divided out: logits scale with the context, being linear in it."""
    powers = p**s
    return powers / powers.sum(-1, keepdim=True)


# %% 01.1 wrong: a common factor cancels
# says: a common factor cancels
def rescale(p, s):
    return s * p / (s * p).sum(-1, keepdim=True)


# %% 01.1 wrong: the sum is forgotten
# says: do not add up to one
def rescale(p, s):
    return p**s


# %% 01.1 wrong: the wrong way round
# says: should the winner gain or lose
def rescale(p, s):
    powers = p ** (1 / s)
    return powers / powers.sum(-1, keepdim=True)


# %% 01.1 wrong: probabilities taken for logits
# says: what are they, given p alone
def rescale(p, s):
    return (s * p).softmax(-1)


# %% 01.1 wrong: summed over the contexts
# says: do not add up to one
def rescale(p, s):
    return p**s / (p**s).sum(0)


# %% 01.2
# Σ_i (p_i − y_i) h = (1 − 1) h = 0. The input side has no such law, and Adam divides each number
# by its own size.
kept = {"untied, SGD"}

# %% 01.2 wrong: the input side adds up to something
# says: in the case 'tied, SGD' the mean row moves
kept = {"untied, SGD", "tied, SGD"}

# %% 01.2 wrong: Adam does not keep it
# says: in the case 'untied, Adam' the mean row moves
kept = {"untied, SGD", "untied, Adam"}

# %% 01.2 wrong: all of them
# says: in the case 'untied, Adam' the mean row moves
kept = {"untied, SGD", "tied, SGD", "untied, Adam", "tied, Adam"}

# %% 01.2 wrong: a name that is none of the four
# says: assign a set of the four names
kept = {"untied, SGD", "tied,SGD"}

# %% 01.2 wrong: none of them
# says: in the case 'untied, SGD' the mean row stays where it is
kept = set()

# %% 01.2 wrong: no set
# says: assign a set of the four names
kept = "tied, Adam"

# %% 01.3
counted = 267_735 * 410, 267_735 * 410 * 4 / 1e6, 60 * 150 * 267_735

# %% 01.3 wrong: bits for bytes
# says: four bytes a number
counted = 267_735 * 410, 267_735 * 410 * 32 / 1e6, 60 * 150 * 267_735

# %% 01.3 wrong: mebibytes
# says: a million bytes a megabyte
counted = 267_735 * 410, 267_735 * 410 * 4 / 2**20, 60 * 150 * 267_735

# %% 01.3 wrong: one row of logits
# says: a row of logits for each position
counted = 267_735 * 410, 267_735 * 410 * 4 / 1e6, 267_735

# %% 01.3 wrong: hidden numbers for logits
# says: a row of logits for each position
counted = 267_735 * 410, 267_735 * 410 * 4 / 1e6, 60 * 150 * 410

# %% 01.3 wrong: the logits are missing
# says: assign three numbers
counted = 267_735 * 410, 267_735 * 410 * 4 / 1e6
