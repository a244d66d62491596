"""Answers to the exercises of lesson 09b, each in place of a cell tagged `exercise`."""


# %% 09b.1
# A position may well need only one component. What should be spread is the work over the text, so
# the reward is the entropy of the mean weights.
class Sharing(MixtureOfSoftmaxes):
    def forward(self, hidden, target, *rest, **named):
        loss, nll = super().forward(hidden, target, *rest, **named)
        mean = self.contexts(hidden)[1].exp().mean((0, 1))
        return loss + 0.1 * (mean * mean.log()).sum(), nll


# %% 09b.1 wrong: the sign
# says: the entropy is added
class Sharing(MixtureOfSoftmaxes):
    def forward(self, hidden, target, *rest, **named):
        loss, nll = super().forward(hidden, target, *rest, **named)
        mean = self.contexts(hidden)[1].exp().mean((0, 1))
        return loss - 0.1 * (mean * mean.log()).sum(), nll


# %% 09b.1 wrong: the mean of the entropies
# says: this is the mean of the entropies
class Sharing(MixtureOfSoftmaxes):
    def forward(self, hidden, target, *rest, **named):
        loss, nll = super().forward(hidden, target, *rest, **named)
        log_pi = self.contexts(hidden)[1]
        return loss + 0.1 * (log_pi.exp() * log_pi).sum(-1).mean(), nll


# %% 09b.1 wrong: nothing is learned from it
# says: no gradient of the entropy reaches the weights
class Sharing(MixtureOfSoftmaxes):
    def forward(self, hidden, target, *rest, **named):
        loss, nll = super().forward(hidden, target, *rest, **named)
        mean = self.contexts(hidden)[1].exp().mean((0, 1)).detach()
        return loss + 0.1 * (mean * mean.log()).sum(), nll


# %% 09b.1 wrong: in bits
# says: the entropy is in bits
class Sharing(MixtureOfSoftmaxes):
    def forward(self, hidden, target, *rest, **named):
        loss, nll = super().forward(hidden, target, *rest, **named)
        mean = self.contexts(hidden)[1].exp().mean((0, 1))
        return loss + 0.1 * (mean * mean.log2()).sum(), nll


# %% 09b.1 wrong: the penalty is left out
# says: nothing is taken from the loss
class Sharing(MixtureOfSoftmaxes):
    pass
