"""Answers to the exercises of lesson 05b, each in place of a cell tagged `exercise`."""

# %% 05b.1
centred = {}
for β, (_, run) in pairs.items():
    E = run.model.words.matrix().detach()
    W = run.model.output_layer.words.matrix().detach()
    centred[β] = subspaces.subspace_distance(W - W.mean(0), E - E.mean(0))

# %% 05b.1 wrong: as they are
centred = {β: path[1][-1] for β, (path, _) in pairs.items()}

# %% 05b.1 wrong: only W is centred
centred = {}
for β, (_, run) in pairs.items():
    E = run.model.words.matrix().detach()
    W = run.model.output_layer.words.matrix().detach()
    centred[β] = subspaces.subspace_distance(W - W.mean(0), E)

# %% 05b.1 wrong: the mean column subtracted
centred = {}
for β, (_, run) in pairs.items():
    E = run.model.words.matrix().detach()
    W = run.model.output_layer.words.matrix().detach()
    E, W = (M - M.mean(1, keepdim=True) for M in (E, W))
    centred[β] = subspaces.subspace_distance(W, E)


# %% 05b.2
class Shuffled(AugmentedLoss):
    """The augmented loss with the soft target's other words in a fixed disorder."""

    def __call__(self, block):
        s, y = block.soft_logits, block.target[:, None]
        fixed = torch.Generator().manual_seed(0)
        order = torch.randperm(s.shape[1], generator=fixed).to(s.device).expand(s.shape)
        order = order.where(order != y, order.gather(1, y)).scatter(1, y, y)
        block.soft_logits = s.gather(1, order)
        return super().__call__(block)


shuffled = Shuffled

# %% 05b.2 wrong: nothing is shuffled
shuffled = AugmentedLoss


# %% 05b.2 wrong: the target's own entry goes elsewhere
class Shuffled(AugmentedLoss):
    def __call__(self, block):
        s, fixed = block.soft_logits, torch.Generator().manual_seed(0)
        block.soft_logits = s[:, torch.randperm(s.shape[1], generator=fixed)]
        return super().__call__(block)


shuffled = Shuffled


# %% 05b.2 wrong: another order at every call
class Shuffled(AugmentedLoss):
    def __call__(self, block):
        s, y = block.soft_logits, block.target[:, None]
        order = torch.randperm(s.shape[1]).expand(s.shape)
        order = order.where(order != y, order.gather(1, y)).scatter(1, y, y)
        block.soft_logits = s.gather(1, order)
        return super().__call__(block)


shuffled = Shuffled


# %% 05b.2 wrong: another order at every call of the same loss
class Shuffled(AugmentedLoss):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        object.__setattr__(self, "drawn", torch.Generator().manual_seed(0))

    def __call__(self, block):
        s, y = block.soft_logits, block.target[:, None]
        order = torch.randperm(s.shape[1], generator=self.drawn).expand(s.shape)
        order = order.where(order != y, order.gather(1, y)).scatter(1, y, y)
        block.soft_logits = s.gather(1, order)
        return super().__call__(block)


shuffled = Shuffled


# %% 05b.2 wrong: an order for each place in the batch, whichever word stands there
class Shuffled(AugmentedLoss):
    def __call__(self, block):
        s, y = block.soft_logits, block.target[:, None]
        fixed = torch.Generator().manual_seed(0)
        order = torch.rand(s.shape, generator=fixed).argsort(1)
        at_y = (order == y).nonzero()[:, 1:]
        order = order.scatter(1, at_y, order.gather(1, y)).scatter(1, y, y)
        block.soft_logits = s.gather(1, order)
        return super().__call__(block)


shuffled = Shuffled


# %% 05b.2 wrong: the largest entry is kept, but for no word its own size
class Shuffled(AugmentedLoss):
    def __call__(self, block):
        block.soft_logits = torch.zeros_like(block.soft_logits).scatter(
            1, block.target[:, None], block.soft_logits.amax(1, keepdim=True)
        )
        return super().__call__(block)


shuffled = Shuffled
