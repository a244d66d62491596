"""Answers to the exercises of lesson 07: each block takes the place of a cell tagged `exercise`."""


# %% 07.1
def constant(h, w, alpha):
    length = h.norm(dim=1)
    return float(alpha * (w.norm(dim=1) * length).mean() / length.mean())


# %% 07.1 wrong: the share, not the noise
# says: alpha is a share: of which norm?
def constant(h, w, alpha):
    return alpha


# %% 07.1 wrong: the mean norm, though long words come after long contexts
# says: long words come after long contexts here
def constant(h, w, alpha):
    return float(alpha * w.norm(dim=1).mean())


# %% 07.1 wrong: the margin in nats
# says: this is the mean margin; ε is yet to be multiplied by ‖h‖
def constant(h, w, alpha):
    return float(alpha * (w.norm(dim=1) * h.norm(dim=1)).mean())


# %% 07.1 wrong: one for each position
# says: only one element tensors can be converted
def constant(h, w, alpha):
    return alpha * w.norm(dim=1)


# %% 07.1 wrong: the norm without the share
# says: alpha is missing
def constant(h, w, alpha):
    length = h.norm(dim=1)
    return float((w.norm(dim=1) * length).mean() / length.mean())
