# %% 09.1
# One moves along the curve, the other along the chord; they meet at the ends, π₁ = 0 and π₁ = 1.
def both(pi):
    of_contexts = one_softmax(torch.tensor([pi * -3 + (1 - pi) * 3]))[0]
    return of_contexts, pi * cold + (1 - pi) * hot


# %% 09.1 wrong: exchanged
def both(pi):
    of_contexts = one_softmax(torch.tensor([pi * -3 + (1 - pi) * 3]))[0]
    return pi * cold + (1 - pi) * hot, of_contexts


# %% 09.1 wrong: the weight of hot
def both(pi):
    of_contexts = one_softmax(torch.tensor([pi * 3 + (1 - pi) * -3]))[0]
    return of_contexts, pi * hot + (1 - pi) * cold


# %% 09.1 wrong: for one weight only
def both(pi):
    return one_softmax(torch.tensor([0.8 * -3 + 0.2 * 3]))[0], 0.8 * cold + 0.2 * hot


# %% 09.1 wrong: a mean of logarithms that is not normalised
def both(pi):
    of_contexts = (pi * cold.log() + (1 - pi) * hot.log()).exp()
    return of_contexts, pi * cold + (1 - pi) * hot


# %% 09.2
# The tanh bounds the contexts, so a larger scale adds little; a small one makes all rows of log P
# nearly alike, and what tells them apart sinks below rounding. Exactly, the rank is 50 throughout.
def rank_at(scale):
    return torch.linalg.matrix_rank(mos.log_prob(scale * contexts / 2))


# %% 09.2 wrong: of the probabilities
def rank_at(scale):
    return torch.linalg.matrix_rank(mos.log_prob(scale * contexts / 2).exp())


# %% 09.2 wrong: the contexts are scaled twice
def rank_at(scale):
    return torch.linalg.matrix_rank(mos.log_prob(scale * contexts))


# %% 09.2 wrong: in single precision
def rank_at(scale):
    return torch.linalg.matrix_rank(mos.log_prob(scale * contexts / 2).float())


# %% 09.2 wrong: of the mixture of contexts
def rank_at(scale):
    moc = layers["MoC, K = 2"]
    return torch.linalg.matrix_rank(moc.log_prob(scale * contexts / 2))


# %% 09.2 wrong: the bound of a softmax
def rank_at(scale):
    return 2


# %% 09.3
# A position may well need one component only; what should be spread is the work over the text.
class Sharing(MixtureOfSoftmaxes):
    def forward(self, hidden, target, *rest, **named):
        loss, nll = super().forward(hidden, target, *rest, **named)
        mean = self.contexts(hidden)[1].exp().mean((0, 1))
        return loss + 0.1 * (mean * mean.log()).sum(), nll


# %% 09.3 wrong: the sign
class Sharing(MixtureOfSoftmaxes):
    def forward(self, hidden, target, *rest, **named):
        loss, nll = super().forward(hidden, target, *rest, **named)
        mean = self.contexts(hidden)[1].exp().mean((0, 1))
        return loss - 0.1 * (mean * mean.log()).sum(), nll


# %% 09.3 wrong: the mean of the entropies
class Sharing(MixtureOfSoftmaxes):
    def forward(self, hidden, target, *rest, **named):
        loss, nll = super().forward(hidden, target, *rest, **named)
        log_pi = self.contexts(hidden)[1]
        return loss + 0.1 * (log_pi.exp() * log_pi).sum(-1).mean(), nll


# %% 09.3 wrong: nothing is learned from it
class Sharing(MixtureOfSoftmaxes):
    def forward(self, hidden, target, *rest, **named):
        loss, nll = super().forward(hidden, target, *rest, **named)
        mean = self.contexts(hidden)[1].exp().mean((0, 1)).detach()
        return loss + 0.1 * (mean * mean.log()).sum(), nll


# %% 09.3 wrong: in bits
class Sharing(MixtureOfSoftmaxes):
    def forward(self, hidden, target, *rest, **named):
        loss, nll = super().forward(hidden, target, *rest, **named)
        mean = self.contexts(hidden)[1].exp().mean((0, 1))
        return loss + 0.1 * (mean * mean.log2()).sum(), nll


# %% 09.3 wrong: the penalty is left out
class Sharing(MixtureOfSoftmaxes):
    pass
