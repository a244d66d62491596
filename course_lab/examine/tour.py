"""Lesson 37's figures: what the course says of word matrices, seen in SmolLM2.

`tour` computes them from the model's file, which `data fetch smollm2` brings. Where the file is not
there, the lesson shows the figures that are kept beside this module, with where they come from.
`python -m course_lab tour` computes those anew.
"""

import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from course_lab import plots, results
from course_lab.corpora.docstrings import load_docstrings
from course_lab.corpora.packaged import PACKAGED
from course_lab.examine import frequencies as counting
from course_lab.examine import unargmaxable
from course_lab.examine.atlas import atlas
from course_lab.examine.chance import random_spectrum
from course_lab.examine.crowds import Crowd, crowds
from course_lab.examine.groups import frequency_groups
from course_lab.examine.kept import FILE, kept
from course_lab.examine.llama_files import read_llama
from course_lab.examine.lost_gradient import lost_at_the_start
from course_lab.examine.matrices import read
from course_lab.examine.measures import Spectra
from course_lab.examine.real_models import Reading, encoding
from course_lab.examine.record import as_json
from course_lab.examine.repairs import REPAIRS
from course_lab.examine.small_model import small_model
from course_lab.examine.weighted import weighted_measures
from course_lab.provenance import origin
from course_lib.metrics import geometry, inputs
from course_lib.metrics.neighbours import nearest_neighbours
from course_lib.training.checkpoint import write_atomically

__all__ = ["FILE", "kept", "tour"]
MODEL = PACKAGED["smollm2"]
TOKENS = 512  # of English prose, read in one context
ASKED = 100  # words nearest to the middle of which the first place is decided
SECONDS = 20  # for that, at most
SENTENCE = "The capital of France is"
BANDS = 12  # of frequency
TWINS = 12  # pairs of words with the highest cosine
OWN = "docstrings/transformer-128/tied"  # the small model of lesson 2
# Its kept runs of the plan lessons-05, which change only the text's length, epochs and batch.
PLAIN = "f69623913077"


def is_here() -> bool:
    """Return whether the model's file is on this machine."""
    return MODEL.path.is_file()


def where_from(figures: dict, live: bool) -> str:
    """Return the sentence that says where figures come from.

    figures: of `tour` or `kept`. live: whether they were computed now.
    """
    made = figures["provenance"]
    when = "computed now" if live else "kept"
    spent = f"{sum(figures['seconds'].values()):.0f} s on {made['threads']} threads"
    said = f"These figures are {when}: {made['model'][0]}, SHA-256 {made['sha256'][:12]}…, {spent}."
    if not is_here():
        said += " The model is not on this machine; `data fetch smollm2` brings it."
    return said


def keep(figures: dict, path: Path) -> None:
    """Write figures where `kept` finds them."""
    write_atomically(path, as_json(figures))


def tour(threads: int = 2) -> dict:
    """Return every figure of the lesson, computed from the model's file.

    threads: how many cores may be used.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return _tour()
    finally:
        torch.set_num_threads(before)


def _tour() -> dict:
    began = time.perf_counter()
    seconds = {}

    def clock(stage: str) -> None:
        seconds[stage] = round(time.perf_counter() - began - sum(seconds.values()), 1)

    source = read(MODEL.path)
    W = source.W
    corpus = load_docstrings(words=None)
    encode = encoding(source)
    assert encode is not None and source.words is not None  # this file has both
    counts = counting.from_text(corpus, encode, len(W)).counts
    clock("reading and counting")
    shape = shape_of(W, counts)
    clock("the shape of the cloud")
    together = crowds(W)
    words = names_of(W, source.words, counts, together)
    words["twins"] = twins_of(W, source.words, counts, together)
    clock("words by name")
    ids = encode.encode(corpus.decode(corpus.valid[: 2 * TOKENS])).ids[: TOKENS + 1]
    model = read_llama(MODEL.path)
    reading = Reading(model.contexts(torch.tensor(ids[:-1])), torch.tensor(ids[1:]))
    goes_on = encode.decode(model.generate(encode.encode(SENTENCE).ids, 2))
    clock("the model's run")
    repairs = repairs_of(reading, W)
    clock("repairs")
    lost = reading.lost(W)
    start = lost_at_the_start(W, counts)
    clock("the lost gradient")
    small = in_short(_small())
    clock("the small model")
    return {
        "words": len(W),
        "size": W.shape[1],
        "text": f"{TOKENS} tokens of the validation split of docstrings, whole vocabulary",
        **shape,
        **words,
        "repairs": repairs,
        "lost": lost._asdict() | {"start": start.squared},
        "goes_on": goes_on,
        "small": small,
        "seconds": seconds,
        "provenance": {
            "model": [wheel.requirement for wheel in MODEL.wheels],
            "sha256": MODEL.sha256,
            **origin(torch.device("cpu")),
        },
    }


def _small() -> dict:
    """Return the same figures of the course's own small model."""
    W, words, counts, reading = small_model(TOKENS)
    return {
        "words": len(W),
        "size": W.shape[1],
        **shape_of(W, counts),
        **names_of(W, words, counts, crowds(W)),
        "repairs": repairs_of(reading, W),
        "lost": reading.lost(W)._asdict(),
    }


def in_short(figures: dict) -> dict[str, float]:
    """Return a number for each question that the lesson asks of a model."""
    cosine = figures["cosine"]
    repairs = figures["repairs"]
    return {
        "words for a dimension, N/d": figures["words"] / figures["size"],
        "mean cosine": cosine["all"],
        "mean cosine of rare words": cosine["rare"],
        "mean cosine of frequent words": cosine["frequent"],
        "share of the mean row": figures["share"],
        "rows in the largest crowd": len(figures["crowd"]),
        f"never first, of the {ASKED} nearest to the middle": len(figures["never"]),
        "perplexity": repairs["as it is"]["perplexity"],
        "perplexity, centred": repairs["centring"]["perplexity"],
        "perplexity, all-but-the-top": repairs["all-but-the-top"]["perplexity"],
        "kept of ‖g‖², %": 100 * (1 - figures["lost"]["squared"]),
        "kept by a random matrix, %": 100 * (1 - figures["lost"]["chance"]),
    }


def side_by_side(figures: dict) -> pd.DataFrame:
    """Return SmolLM2 and the course's own small model, a column each."""
    return pd.DataFrame({"SmolLM2": in_short(figures), "our small model": figures["small"]})


def shape_of(W: Tensor, counts: np.ndarray) -> dict:
    """Return the cone of W (N, d): spectrum, cosines of pairs, and both by frequency (N,)."""
    spectra = Spectra.of(W)
    groups = frequency_groups(counts)
    # histograms of the cosines of pairs
    edges = np.linspace(-0.3, 1, 66)
    rows = {"rare": W[groups.rare], "frequent": W[groups.frequent], "all": W}
    pairs = {}
    for name, vectors in (*rows.items(), ("all, centred", W - W.mean(0))):
        values = geometry.pair_cosines(vectors)
        pairs[name] = np.histogram(values, edges, density=True)[0].round(4).tolist()
    # bands of frequency, the rarest first; words that never come are the first band
    order = np.argsort(counts, kind="stable")
    never = int((counts == 0).sum())
    bands = [order[:never], *np.array_split(order[never:], BANDS)]
    mean = W.double().mean(0)
    table = [
        {
            "words": len(ids),
            "count": float(counts[ids].mean()),
            "cosine": geometry.mean_cosine(W[ids]),
            "norm": float(W[ids].double().norm(dim=1).mean()),
            "from_mean": float((W[ids].double() - mean).norm(dim=1).mean()),
        }
        for ids in bands
        if len(ids) > 1
    ]
    by_frequency = weighted_measures(W, counts)
    return {
        "counted": int(counts.sum()),
        "seen": int((counts > 0).sum()),
        "spectrum": [float(f"{s:.5g}") for s in spectra.whole],
        "random": [float(f"{s:.5g}") for s in random_spectrum(*W.shape)],
        "cosine": {name: geometry.mean_cosine(vectors) for name, vectors in rows.items()},
        "share": geometry.common_drift(W).share,
        "edges": edges.round(3).tolist(),
        "pairs": pairs,
        "bands": table,
        "cosine_by_frequency": by_frequency["mean cosine, by frequency"],
        "share_by_frequency": by_frequency["share of the mean vector, by frequency"],
    }


def names_of(W: Tensor, names: list[str], counts: np.ndarray, together: list[Crowd]) -> dict:
    """Return the words of the largest crowd, and those that no context puts first."""
    crowd = next(iter(together), Crowd(*(np.arange(0) for _ in range(3))))
    places = unargmaxable.first_places(W, SECONDS, asked=ASKED, progress=False)
    typical = W.double().norm(dim=1).median()
    return {
        "crowd": [names[row] for row in crowd.rows],
        "crowd_seen": int((counts[crowd.rows] > 0).sum()),
        "around": [
            [names[row], float(distance)]
            for row, distance in zip(crowd.around, crowd.distances, strict=True)
        ],
        "crowd_norm": float(W[torch.from_numpy(crowd.rows)].double().norm(dim=1).mean() / typical),
        "never": [names[row] for row in places.never],
        "open": places.open,
        "asked": places.asked,
    }


def twins_of(W: Tensor, names: list[str], counts: np.ndarray, together: list[Crowd]) -> list[list]:
    """Return the pairs of rows with the highest cosine as [word, word, cosine], highest first.

    Only words with a count are asked, none of them in a crowd, and each has its nearest word.
    """
    seen = counts > 0
    for crowd in together:
        seen[crowd.rows] = False
    ids = np.flatnonzero(seen)
    unit = inputs.unit_rows(W[torch.from_numpy(ids)])
    distance, nearest = nearest_neighbours(unit)
    pairs = {}
    for one in np.argsort(distance, kind="stable"):
        pair = tuple(sorted((one, nearest[one])))
        pairs.setdefault(pair, float(unit[pair[0]] @ unit[pair[1]]))
        if len(pairs) == TWINS:
            break
    return [[names[ids[a]], names[ids[b]], cosine] for (a, b), cosine in pairs.items()]


def repairs_of(reading: Reading, W: Tensor) -> dict:
    """Return perplexities after each repair, and the largest change of a log-probability.

    "centring, stored": the centred matrix rounded to the file's own numbers, which are of eight
    bits; its change is that of the rounding.
    """
    matrices = {"as it is": W} | {name: repair(W) for name, repair in REPAIRS.items()}
    matrices["centring, stored"] = rounded(matrices["centring"])
    few = reading.contexts[:64].double()
    whole = (few @ W.double().T).log_softmax(-1)
    exact = {name: matrix.double() for name, matrix in matrices.items()}
    exact["centring"] = W.double() - W.double().mean(0)
    return {
        name: {
            "perplexity": reading.perplexity(matrix),
            "moved": float(((few @ exact[name].T).log_softmax(-1) - whole).abs().max()),
        }
        for name, matrix in matrices.items()
    }


def beside() -> pd.DataFrame:
    """Return the measures of the course's own small model and of the atlas, a row a matrix."""
    own = results.frame()
    tied = own.loc[(own.recipe == OWN) & (own.variant == PLAIN)]
    sizes = tied["geometry.singular_values"].map(len)
    rows = [
        {
            "matrix": f"{OWN}, mean of {len(tied)} seeds",
            "N/d": (tied["log_prob.words"] / sizes).mean(),
            "mean cosine": tied["geometry.mean_cosine"].mean(),
            "share of the mean row": tied["geometry.drift"].mean(),
            "rows in crowds": "not counted",
        }
    ]
    rows += [
        {
            "matrix": row["title"].partition(":")[0],
            "N/d": row["words"] / row["size"],
            "mean cosine": row["measures"]["mean cosine"],
            "share of the mean row": row["measures"]["share of the mean vector"],
            "rows in crowds": f"{row['measures']['equal rows']:,}",
        }
        for row in atlas()
    ]
    return pd.DataFrame(rows).set_index("matrix")


def bars(shares: dict[str, float], xlabel: str, title: str) -> Figure:
    """Return a bar for each share, in per cent, with its number beside it."""
    figure, ax = plots.panels(height=2.6)
    values = [100 * share for share in shares.values()]
    drawn = ax.barh(list(shares), values, color=plots.COLOURS[0], hatch="//", edgecolor=plots.PAPER)
    ax.bar_label(drawn, [f" {share:.2%}" for share in shares.values()])
    ax.invert_yaxis()
    ax.grid(False, axis="y")
    ax.set(xlabel=xlabel, xlim=(0, 1.3 * max(values)), title=title)
    return figure


def rounded(W: Tensor) -> Tensor:
    """Return W (N, d) as Q8_0 stores it: 32 numbers share a scale, their largest over 127."""
    from gguf import GGMLQuantizationType, quants  # takes half a second

    kind = GGMLQuantizationType.Q8_0
    return torch.from_numpy(quants.dequantize(quants.quantize(W.numpy(), kind), kind))
