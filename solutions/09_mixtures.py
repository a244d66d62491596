"""Answers to the exercises of lesson 09: each block takes the place of a cell tagged `exercise`."""


# %% 09.1
def of_contexts(h, U, c, Q, W):
    """The components come together before W: a mean of contexts, and then one softmax."""
    h_k = torch.tanh(torch.einsum("kdm,nm->nkd", U, h) + c)
    pi = (h @ Q.T).softmax(-1)
    return ((pi[..., None] * h_k).sum(1) @ W.T).log_softmax(-1)


# %% 09.1 wrong: the mixture of softmaxes
# says: this is the mixture of softmaxes
of_contexts = mixture


# %% 09.1 wrong: no logarithm
# says: these are probabilities
def of_contexts(h, U, c, Q, W):
    h_k = torch.tanh(torch.einsum("kdm,nm->nkd", U, h) + c)
    pi = (h @ Q.T).softmax(-1)
    return ((pi[..., None] * h_k).sum(1) @ W.T).softmax(-1)


# %% 09.1 wrong: all contexts weigh the same
# says: weight h_k by π_k
def of_contexts(h, U, c, Q, W):
    h_k = torch.tanh(torch.einsum("kdm,nm->nkd", U, h) + c)
    return (h_k.mean(1) @ W.T).log_softmax(-1)


# %% 09.1 wrong: tanh of the mean
# says: tanh comes before the mean
def of_contexts(h, U, c, Q, W):
    before = torch.einsum("kdm,nm->nkd", U, h) + c
    pi = (h @ Q.T).softmax(-1)
    return ((pi[..., None] * before).sum(1).tanh() @ W.T).log_softmax(-1)


# %% 09.1 wrong: a mean of logarithms that is not normalised
# says: no softmax of W times a mean
def of_contexts(h, U, c, Q, W):
    h_k = torch.tanh(torch.einsum("kdm,nm->nkd", U, h) + c)
    pi = (h @ Q.T).softmax(-1)
    return (pi[..., None] * (h_k @ W.T).log_softmax(-1)).sum(1)


# %% 09.2
# The tanh bounds the contexts, so a larger scale adds little. A small scale a makes all rows of
# log P nearly alike: the terms of its power series have rank one each and fall with a, a², a³, and
# all but the first few vanish in rounding. None of them is 0, so the exact rank is 50 at any scale.
def rank_at(scale):
    return torch.linalg.matrix_rank(mos.log_prob(scale * contexts / 2))


# %% 09.2 wrong: of the probabilities
# says: this is the rank of P, not of log P
def rank_at(scale):
    return torch.linalg.matrix_rank(mos.log_prob(scale * contexts / 2).exp())


# %% 09.2 wrong: the contexts are scaled twice
# says: without a scale the numbers are contexts / 2
def rank_at(scale):
    return torch.linalg.matrix_rank(mos.log_prob(scale * contexts))


# %% 09.2 wrong: in single precision
# says: in float64, please
def rank_at(scale):
    return torch.linalg.matrix_rank(mos.log_prob(scale * contexts / 2).float())


# %% 09.2 wrong: of the mixture of contexts
# says: one softmax has rank 2 at most
def rank_at(scale):
    return torch.linalg.matrix_rank(layers["MoC"].log_prob(scale * contexts / 2))


# %% 09.2 wrong: the bound of a softmax
# says: one softmax has rank 2 at most
def rank_at(scale):
    return 2
