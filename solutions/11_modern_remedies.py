# %% 11.1
# The update is D m with D diagonal, one number a row: 1ᵀ D m is no multiple of 1ᵀ m, so the mean
# moves. What matters is that words are treated unequally, not coordinates.
class HalfCoupled(CoupledAdam):
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            lr, (beta1, beta2) = group["lr"], group["betas"]
            for W in group["params"]:
                state, square = self.state[W], W.grad.square().mean(1, keepdim=True)
                if not state:
                    state["step"] = 0
                    state["exp_avg"], state["exp_avg_sq"] = W * 0, square * 0
                state["step"] += 1
                m = state["exp_avg"].lerp_(W.grad, 1 - beta1)
                v = state["exp_avg_sq"].lerp_(square, 1 - beta2)
                deviation = (v / (1 - beta2 ** state["step"])).sqrt() + group["eps"]
                W.addcdiv_(m, deviation * (1 - beta1 ** state["step"]), value=-lr)


# %% 11.1 wrong: coupled Adam
class HalfCoupled(CoupledAdam):
    pass


# %% 11.1 wrong: Adam
class HalfCoupled(torch.optim.Adam):
    pass


# %% 11.1 wrong: no divisor at all
class HalfCoupled(torch.optim.SGD):
    def __init__(self, params, lr, betas):
        super().__init__(params, lr=lr, momentum=betas[0])


# %% 11.1 wrong: the dimension is lost, and rows do not fit
class HalfCoupled(CoupledAdam):
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for W in group["params"]:
                W.addcdiv_(W.grad, W.grad.square().mean(1).sqrt(), value=-group["lr"])


# %% 11.1 wrong: the mean of the squares and no memory
class HalfCoupled(CoupledAdam):
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for W in group["params"]:
                square = W.grad.square().mean(1, keepdim=True)
                W.addcdiv_(W.grad, square.sqrt(), value=-group["lr"])


# %% 11.2
# It drifts a little less. The bias takes over what is common to a word's logits in all contexts;
# pushes on rare words are still a mean over contexts that lie to one side.
biased = Softmax(first_words := FullWords(len(corpus), d, 0.01, True, None), bias=True)
first_words.weight.data.copy_(first)
biased.bias.data.copy_(torch.tensor(counts + 1.0).log())
_ = learn(biased)

# %% 11.2 wrong: no bias
biased = over(learned["Adam"])

# %% 11.2 wrong: it begins at 0
biased = over(learned["Adam"])
biased.bias = torch.nn.Parameter(0.03 * torch.randn(len(corpus)))

# %% 11.2 wrong: it is as it was made
biased = Softmax(FullWords(len(corpus), d), bias=True)
biased.words.weight.data.copy_(learned["Adam"])

# %% 11.2 wrong: nothing is learned
biased = over(first)
biased.bias = torch.nn.Parameter(torch.tensor(counts + 1.0).log())

# %% 11.2 wrong: the frequencies themselves
biased = over(learned["Adam"])
biased.bias = torch.nn.Parameter(torch.tensor(counts / counts.sum()))

# %% 11.2 wrong: the bias is added after training
biased = over(learned["Adam"])
biased.bias = torch.nn.Parameter(torch.tensor(counts + 1.0).log())

# %% 11.3
# A copy of the words predicts, so each matrix receives its own part.
from copy import deepcopy

both = deepcopy(model).eval()
both.output_layer.words = deepcopy(both.words)
tokens, target = next(data.batches(data.columns(corpus.train, 20), 64))
both(tokens, target=target).loss.backward()
parts = both.words.weight.grad, both.output_layer.words.weight.grad
imbalances = [(G.sum(0).norm() / G.norm(dim=1).sum()).item() for G in parts]

# %% 11.3 wrong: exchanged
from copy import deepcopy

both = deepcopy(model).eval()
both.output_layer.words = deepcopy(both.words)
tokens, target = next(data.batches(data.columns(corpus.train, 20), 64))
both(tokens, target=target).loss.backward()
parts = both.output_layer.words.weight.grad, both.words.weight.grad
imbalances = [(G.sum(0).norm() / G.norm(dim=1).sum()).item() for G in parts]

# %% 11.3 wrong: one matrix, so both parts together
tokens, target = next(data.batches(data.columns(corpus.train, 20), 64))
(G,) = torch.autograd.grad(model.eval()(tokens, target=target).loss, model.words.weight)
imbalances = [(G.sum(0).norm() / G.norm(dim=1).sum()).item(), 0.0]

# %% 11.3 wrong: both parts in balance
imbalances = [0.0, 0.0]

# %% 11.3 wrong: lengths in place of imbalances
from copy import deepcopy

both = deepcopy(model).eval()
both.output_layer.words = deepcopy(both.words)
tokens, target = next(data.batches(data.columns(corpus.train, 20), 64))
both(tokens, target=target).loss.backward()
imbalances = [m.weight.grad.norm().item() for m in (both.words, both.output_layer.words)]
