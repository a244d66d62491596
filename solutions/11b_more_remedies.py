"""Answers to the exercises of lesson 11b, each in place of a cell tagged `exercise`."""

# %% 11b.1
# The mean drifts a little less. The bias takes over what is common to a word's logits in all
# contexts. The pushes on rare words are still a mean over contexts that lie to one side.
biased = start(bias=True)
biased.bias.data.copy_((corpus.counts + 1.0).log())
_ = learn(biased)

# %% 11b.1 wrong: no bias
# says: the layer has no bias
biased = over(learned["Adam"])

# %% 11b.1 wrong: the words instead of the layer
# says: assign the layer
biased = learned["Adam"]

# %% 11b.1 wrong: it begins at 0
# says: did not begin at the logarithms
biased = start(bias=True)
_ = learn(biased)

# %% 11b.1 wrong: it is as it was made
# says: did not begin at the logarithms
biased = start(bias=True)

# %% 11b.1 wrong: nothing is learned
# says: its words have hardly moved
biased = start(bias=True)
biased.bias.data.copy_((corpus.counts + 1.0).log())

# %% 11b.1 wrong: the frequencies themselves
# says: did not begin at the logarithms
biased = start(bias=True)
biased.bias.data.copy_(corpus.counts / corpus.counts.sum())
_ = learn(biased)

# %% 11b.1 wrong: the bias is set after training
# says: its bias is not trained
biased = start(bias=True)
_ = learn(biased)
biased.bias.data.copy_((corpus.counts + 1.0).log())

# %% 11b.2
# A copy of the words predicts, so each matrix receives its own part. The reading part has rows for
# the words of the batch only, and its sum is divided by all N words.
from copy import deepcopy

both = deepcopy(model)
both.output_layer.words = deepcopy(both.words)
tokens, target = next(data.batches(data.columns(corpus.train, 20), 64))
both(tokens, target=target).loss.backward()
parts = both.words.weight.grad, both.output_layer.words.weight.grad
imbalances = [(G.sum(0).norm() / G.norm(dim=1).sum()).item() for G in parts]

# %% 11b.2 wrong: exchanged
# says: the wrong way round
from copy import deepcopy

both = deepcopy(model)
both.output_layer.words = deepcopy(both.words)
tokens, target = next(data.batches(data.columns(corpus.train, 20), 64))
both(tokens, target=target).loss.backward()
parts = both.output_layer.words.weight.grad, both.words.weight.grad
imbalances = [(G.sum(0).norm() / G.norm(dim=1).sum()).item() for G in parts]

# %% 11b.2 wrong: one matrix, so both parts together
# says: that of the whole gradient
tokens, target = next(data.batches(data.columns(corpus.train, 20), 64))
(G,) = torch.autograd.grad(model(tokens, target=target).loss, model.words.weight)
imbalances = [(G.sum(0).norm() / G.norm(dim=1).sum()).item(), 0.0]

# %% 11b.2 wrong: both parts in balance
# says: must its rows sum to zero
imbalances = [0.0, 0.0]

# %% 11b.2 wrong: lengths in place of imbalances
# says: an imbalance is a ratio
from copy import deepcopy

both = deepcopy(model)
both.output_layer.words = deepcopy(both.words)
tokens, target = next(data.batches(data.columns(corpus.train, 20), 64))
both(tokens, target=target).loss.backward()
imbalances = [m.weight.grad.norm(dim=1).sum().item() for m in (both.words, both.output_layer.words)]

# %% 11b.2 wrong: only one of the two
# says: assign two numbers
imbalances = [0.5]
