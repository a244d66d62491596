"""Kept results whose truth is known, for the analyses: some runs of the plans of the desk.

Nothing is trained. `keep` writes results of three plans into an empty folder of kept results:

    desk             METHODS, SEEDS of each, with predictions, losses of tokens and pairs of words;
    gss-grid         every cell, its rank and perplexity a function of c and k;
    generalisation   every run, its gap proportional to 1/√n and falling with γ.
"""

import numpy as np

from course_lab import plans, predicting, published, results
from course_lab.final_figures import TEST_LOSSES
from course_lab.pair_cosines import COSINES, COUNTS
from course_lab.planned import Planned
from course_lab.similarities import EMBEDDED, at_hand

METHODS = ("tied", "untied", "tied-augmented", "mos", "gss")
SEEDS = (1, 2, 3)
TOKENS = 20_000  # of the test split
RARE = 1_000  # tokens of the rarest words, which alone gain from a mixture
GAIN = 0.6  # nats that each of them gains
LESS = 0.01  # probability that the two remedies of inan2017 take from each watched word elsewhere
ORIGIN = {"tokens_seen": 1_000, "wall_seconds": 60.0, "threads": 1, "device": "cpu"}
PTB = '{"kind": "ptb", "options": {}}'
COUNTED = {"unigram": 600.0, "Kneser-Ney 3": 150.0, "Kneser-Ney 5": 140.0}


def keep(folder) -> None:
    """Write the results of all three plans and the n-grams of their text below a folder."""
    for method in METHODS:
        for seed in SEEDS:
            _keep_desk(folder, method, seed)
    for planned in plans.read_plan("gss-grid").runs:
        options = planned.experiment().output_layer.options
        rank, perplexity = grid_truth(options["c"], options["k"])
        figures = {"log_prob": ranked(rank)} | _perplexities(perplexity)
        _write(folder, planned, figures)
    for planned in plans.read_plan("generalisation").runs:
        gamma = planned.experiment().regularizers[1].options["gamma"]
        n = planned.experiment().corpus.options["small"]["train"]
        _write(folder, planned, _perplexities(100.0), gap=gap_truth(gamma, n, planned.seed), n=n)
    results.write_table("ngrams", {"rows": [{"text": PTB, "test": COUNTED}]})


def grid_truth(c: float, k: float) -> tuple[int, float]:
    """Return rank and perplexity of a cell of the grid."""
    return int(1_000 * np.exp(-c) + 100 * k), 95.0 + 0.2 * c + 0.1 * (k - 2) ** 2


def gap_truth(gamma: float, n: int, seed: int) -> float:
    """Return the gap of a run, in nats; seeds differ by a factor that n does not change."""
    return (1 + seed / 50) * np.exp(-gamma) * np.sqrt(15_000 / n)


def ranked(rank: int) -> dict:
    """Return the ranks of log P, as results have them."""
    return {"press_rank": rank, "effective_rank": dict.fromkeys(("0.001", "0.0001", "1e-05"), 50)}


def _perplexities(value: float) -> dict:
    return {"test_perplexity": value, "valid_perplexity": 1.05 * value}


def _keep_desk(folder, method: str, seed: int) -> None:
    rng = np.random.default_rng(seed)  # the same tokens are hard for all methods of a seed
    losses = rng.gamma(2.0, 2.2, TOKENS) + 0.02
    if method == "mos":
        losses[:RARE] = np.maximum(losses[:RARE] - GAIN + 0.01 * seed, 0.01)
    figures = _perplexities(float(np.exp(losses.mean()))) | {"log_prob": ranked(200)}
    lists = at_hand()
    lists = {name: lists[name] for name in EMBEDDED}
    arrays = {TEST_LOSSES: losses.astype(np.float16)} | _pairs(lists, seed)
    number = METHODS.index(method)
    level = 0.3 + number / 100 + np.random.default_rng([seed, number]).normal(0, 0.002)
    told = {"rho": level, "rho_centred": level - 0.1, "missing": 0}
    scores = {name: told | {"found": len(one.pairs)} for name, one in lists.items()}
    figures |= {"predictions": _told(method, seed, losses), "word_similarity": scores}
    _write(folder, Planned(f"ptb/desk/{method}", "standard", seed), figures, arrays)


def _told(method: str, seed: int, losses: np.ndarray) -> dict:
    """Return the predictions of a run: the mixture has each right word second, others never."""
    wobble = seed / 1_000
    places = {}
    for row in published.contexts("S2").itertuples():
        words = ["the", row.next if method == "mos" else "it", "<unk>", "N", "of"]
        shares = (0.3, 0.2, 0.1, 0.05, 0.01)
        places[str(row.place)] = [list(pair) for pair in zip(words, shares, strict=True)]
    less = LESS if method == "tied-augmented" else 0.0
    watched = {w: [100, 0.2, 0.05 - less + wobble / 10] for w in predicting.WATCHED}
    over = 0.02 if method == "tied" else 0.0
    bins = [[TOKENS // 10, (i + 0.5) / 10, (i + 0.5) / 10 - over] for i in range(10)]
    groups = {
        "1 to 9": [RARE, float(losses[:RARE].mean())],
        "10,000 and more": [TOKENS - RARE, float(losses[RARE:].mean())],
        "<unk>": [100, 2.5 + wobble],
    }
    sample = f"a sample of {method}"
    among = {"1": 0.2, "5": 0.42 if method == "mos" else 0.4}
    parts = {"places": places, "calibration": bins, "watched": watched, "among": among}
    return parts | {"losses": groups, "sample": sample}


def _pairs(lists, seed: int) -> dict[str, np.ndarray]:
    """Return cosines of pairs: raw knows frequency, centred some of the scores, whitened all."""
    rng = np.random.default_rng(seed)
    scores = np.concatenate([one.scores for one in lists.values()]) / 10
    often = rng.uniform(1, 7, len(scores))
    noise = 0.3 * rng.standard_normal(len(scores))
    cosines = np.stack([-often / 8, (scores + noise) / 2, scores], axis=1)
    counts = np.repeat(np.exp(often)[:, None], 2, axis=1)
    return {COSINES: cosines.astype(np.float16), COUNTS: counts.astype(np.int32)}


def _write(folder, planned, figures: dict, arrays=None, gap: float = 0.1, n: int = 1_000) -> None:
    valid = figures["valid_perplexity"]
    losses = {"train_perplexity": valid * float(np.exp(-gap)), "valid_perplexity": valid}
    epochs = [{"epoch": number, "tokens": n, "seconds": 1.0} | losses for number in (1, 2)]
    geometry = {"singular_values": [3.0, 2.0, 1.0], "positive_share": 0.5, "drift": 0.1}
    geometry |= {"mean_cosine_rare": 0.1, "I1": 0.5, "I2": 0.5}
    figures = {"best_epoch": 1, "parameters": 10, "geometry": geometry} | figures
    path = folder / planned.key
    results.write_result(path, planned.experiment(), epochs, figures, ORIGIN, arrays)
