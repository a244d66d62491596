"""Step 5.6: a softmax and a mixture of as many numbers, on two languages whose truth is known."""

import itertools

import numpy as np

from tools.assignments.laws.runs import save_runs

# Two layers are a pair: with as many contexts as words both have equally many numbers.
WIDTHS = {"softmax": (5, 8, 11), "mixture": (3, 5, 7)}
COMPONENTS = {"softmax": 1, "mixture": 2}
MIXED = 5  # width of the language that is a mixture
SHARPNESS = 2.0  # standard deviation of a language's logits, in nats
STEPS, EARLY = 400, 15
NUMBERS = ("excess", "press", "effective", "numbers")
ARRAYS, EARLIER = ("W", "b", "H", "prior"), ("W15",)


def runs(variant):
    """Return the 60 runs of a variant: (language, layer, width, seed)."""
    layers = [(layer, width) for layer in WIDTHS for width in WIDTHS[layer]]
    languages = ("softmax", "mixture")
    return [
        (language, *layer, seed)
        for language, layer, seed in itertools.product(languages, layers, variant.seeds)
    ]


def name(language, layer, width, seed) -> str:
    """Return the name of a run in the files that are handed in."""
    return f"{language}-language-{layer}-{width}-{seed}"


def shapes(variant, language, layer, width, seed) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a run's arrays by name."""
    n, K = variant.words, COMPONENTS[layer]
    return {"W": (n, width), "b": (n,), "H": (n, K, width), "prior": (n, K), "W15": (n, width)}


def log_probabilities(W, b, H, prior):
    """Return log P (contexts, words) of a layer's tensors; a softmax has one component."""
    return (prior.log_softmax(-1)[..., None] + (H @ W.T + b).log_softmax(-1)).logsumexp(1)


def truth(variant, language) -> np.ndarray:
    """Return a language's true log P, (words, words): as many contexts as words, equally often.

    The first language is one softmax, and log P has the variant's rank. The second is a mixture of
    two softmaxes of width 5, and log P has full rank.
    """
    import torch

    rng = np.random.default_rng([variant.language, language == "mixture"])
    n, K = variant.words, COMPONENTS[language]
    width = variant.rank - 2 if language == "softmax" else MIXED
    drawn = [(n, width), (n,), (n, K, width), (n, K)]
    W, b, H, prior = (torch.as_tensor(rng.normal(size=shape)) for shape in drawn)
    return log_probabilities(W, b, H * SHARPNESS / width**0.5, prior).numpy()


def tokens(variant) -> dict[str, np.ndarray]:
    """Return the true log P of both languages: no text is drawn, since the truth is known."""
    return {language: truth(variant, language) for language in ("softmax", "mixture")}


def train(text, variant, language, layer, width, seed, steps=STEPS):
    """Fit a layer to a language; return its arrays, and its words after 15 steps.

    text: the languages' true log P. Every context has vectors and weights of its own, as if an
    encoder of any width had made them. The optimiser is L-BFGS.
    """
    import torch

    # the start
    rng = np.random.default_rng(seed)
    n, K = variant.words, COMPONENTS[layer]
    start = {
        "W": rng.normal(size=(n, width)) / 2,
        "b": np.zeros(n),
        "H": rng.normal(size=(n, K, width)),
        "prior": np.zeros((n, K)),
    }
    learned = {k: torch.nn.Parameter(torch.as_tensor(x)) for k, x in start.items()}
    P = torch.as_tensor(text[language]).exp()

    # the fit, in two parts: what has been done after a few steps is what the marker repeats
    settings = {"line_search_fn": "strong_wolfe", "history_size": 20}
    optimiser = torch.optim.LBFGS(list(learned.values()), **settings)

    def loss():
        optimiser.zero_grad()
        value = -(P * log_probabilities(**learned)).sum(1).mean()
        value.backward()
        return value

    arrays = {}
    for count in (min(steps, EARLY), steps - EARLY):
        optimiser.param_groups[0] |= {"max_iter": count, "max_eval": 3 * count}
        if count > 0:
            optimiser.step(loss)
        arrays.setdefault("W15", learned["W"].detach().numpy().copy())
    return arrays | {k: x.detach().numpy().copy() for k, x in learned.items()}


def log_p(arrays) -> np.ndarray:
    """Return the log P of a run, (contexts, words)."""
    import torch

    return log_probabilities(*(torch.as_tensor(arrays[k]).double() for k in ARRAYS)).numpy()


def excess(arrays, true) -> float:
    """Return how far a run's expected cross-entropy is above the language's entropy, in nats."""
    return float((np.exp(true) * (true - log_p(arrays))).sum(1).mean())


def press(values, shape) -> int:
    """Return Press' rank of a matrix of this shape with these singular values, for float32."""
    from course_lib.metrics import rank

    return rank.press_rank(values, shape)


def effective(values) -> int:
    """Return the ε-effective rank for ε = 0.001."""
    from course_lib.metrics import rank

    return rank.effective_rank(values, 1e-3)


def count(arrays) -> int:
    """Return how many numbers a run has learned."""
    return sum(arrays[k].size for k in ARRAYS)


def interval(r: float, n: int) -> tuple[float, float]:
    """Return Fisher's 95 % interval of a correlation over n independent pairs."""
    half = 1.96 / np.sqrt(n - 3)
    return float(np.tanh(np.arctanh(r) - half)), float(np.tanh(np.arctanh(r) + half))


def save(folder, trained: dict, claims: dict, prediction: str) -> None:
    """Write what is to be handed in for step 5.6."""
    save_runs("5.6", folder, name, NUMBERS, trained, claims, prediction)
