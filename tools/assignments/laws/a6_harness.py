"""What stands below a student's `METHODS` and `Layer` in the sandbox: it calls them with arrays.

At home these functions are imported. In the sandbox this file's text follows the student's cell,
and the marker calls the three functions at the end. None of them holds a verdict.
"""

import torch

WINDOW, WIDTH, ROWS = 3, 24, 64  # words read before a prediction; size of a vector; a batch
EARLY, FIRST = 60, 64  # the step after which the first rows of W are kept, and how many


def values(Layer, methods, W, bias, p, strengths, h, y, block):
    """Return log P (n, N) of at most four contexts, the loss, and its gradients in W, bias and h.

    methods is what the law calls the layer's methods; a layer does not see it.
    """
    W, bias, h = (torch.tensor(x, dtype=torch.double, requires_grad=True) for x in (W, bias, h))
    layer = Layer(W, bias, torch.tensor(p), tuple(strengths))
    loss = layer.loss(h, torch.tensor(y), int(block))
    slopes = torch.autograd.grad(loss, (W, bias, h), allow_unused=True)
    slopes = [torch.zeros_like(x) if g is None else g for x, g in zip((W, bias, h), slopes)]  # noqa: B905
    log_prob = layer.log_prob(h[:4])
    return (log_prob.detach().numpy(), loss.item(), *(g.numpy() for g in slopes))


def trained(Layer, X, Y, p, strengths, rate, seed, steps):
    """Return W, A, a, bias of a trained model, and W's first rows early on.

    X (n, 3), Y (n,): the words that are read, and the one that follows; p (N,): shares of the
    words; strengths: of the layer's methods; rate: of learning. The context is
    tanh(A of the three vectors + a), and W is both the input's matrix and the layer's.
    """
    torch.manual_seed(int(seed))
    X, Y, p = torch.tensor(X), torch.tensor(Y), torch.tensor(p).float()
    W = torch.randn(len(p), WIDTH) / WIDTH**0.5
    A = torch.randn(WINDOW * WIDTH, WIDTH) / (WINDOW * WIDTH) ** 0.5
    parts = [W, A, torch.zeros(WIDTH), torch.zeros(len(p))]
    W, A, a, bias = parts = [torch.nn.Parameter(x) for x in parts]
    batches = torch.Generator().manual_seed(int(seed))
    optimiser, early = torch.optim.Adam(parts, float(rate)), W[:FIRST]
    for step in range(int(steps)):
        rows = torch.randint(len(X), (ROWS,), generator=batches)
        h = torch.tanh(W[X[rows]].flatten(1) @ A + a)
        optimiser.zero_grad()
        Layer(W, bias, p, tuple(strengths)).loss(h, Y[rows], ROWS).backward()
        optimiser.step()
        if step + 1 == EARLY:
            early = W[:FIRST].detach().clone()
    return tuple(x.detach().numpy() for x in (*parts, early))


def predicted(Layer, W, bias, p, strengths, h):
    """Return log P (n, N) for contexts h (n, d), in float64; no target is seen here."""
    W, bias, p, h = (torch.tensor(x, dtype=torch.double) for x in (W, bias, p, h))
    with torch.no_grad():
        return Layer(W, bias, p, tuple(strengths)).log_prob(h).numpy()


def answer(*arguments):
    """Return the values of the student's layer; without arguments, its methods."""
    return values(Layer, *arguments) if arguments else tuple(map(str, METHODS))  # noqa: F821


def train(*arguments):
    """Train the student's layer."""
    return trained(Layer, *arguments)  # noqa: F821


def predict(*arguments):
    """Predict with the student's layer."""
    return predicted(Layer, *arguments)  # noqa: F821
