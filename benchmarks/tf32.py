"""What TF32 costs in perplexity, on a machine that cannot compute it.

A GPU's tensor core reads the sign, the exponent and the first ten digits of each float32 number
that enters a product, and adds up in float32. `CutProducts` leaves the other digits out before each
product of a training on a CPU, so that the training loses what it would lose on a GPU. It gains no
time. A library that rounds where this cuts changes a number by at most half as much.
"""

import re
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from course_lab import comparison, plans, results, tables
from course_lab.experiment import Experiment
from course_lab.run import run
from course_lib.errors import CourseError

PLAN = "precision"
IMITATED = "tf32-imitated"
NAMES = ("fp32", IMITATED)
TABLE = "benchmarks/tf32"
DROPPED_BITS = 13  # of the 23 behind the point
# Where a product has its two operands. oneDNN arranges a matrix first and multiplies it later.
PRODUCTS = {
    "aten::mm": (0, 1),
    "aten::bmm": (0, 1),
    "aten::mv": (0, 1),
    "aten::dot": (0, 1),
    "aten::addmm": (1, 2),
    "aten::addmm_": (1, 2),
    "aten::addmv": (1, 2),
    "aten::baddbmm": (1, 2),
    "aten::baddbmm_": (1, 2),
    "mkldnn::_reorder_linear_weight": (0,),
    "mkldnn::_linear_pointwise": (0,),
}
PRODUCT = re.compile(r"mm|mv|dot|linear|matmul|rnn|lstm|gru|conv|attention")


def cut(x: Tensor) -> Tensor:
    """Return float32 numbers without the digits that a tensor core does not read."""
    if x.dtype != torch.float32 or x.layout != torch.strided:
        return x
    return (x.view(torch.int32) & -(1 << DROPPED_BITS)).view(torch.float32)


class CutProducts(TorchDispatchMode):
    """Cuts what enters a product wherever the training asks for TF32, gradients included.

    Raises CourseError for a product that is not in PRODUCTS, because it would go on uncut.
    """

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if torch.backends.cuda.matmul.fp32_precision == "tf32":
            name = func._schema.name
            places = PRODUCTS.get(name, ())
            if not places and PRODUCT.search(name.partition("::")[2]):
                raise CourseError(f"the product {name} is not known, so TF32 cannot be imitated")
            args = tuple(cut(x) if place in places else x for place, x in enumerate(args))
        return func(*args, **kwargs)


def experiments() -> list[tuple[Experiment, Experiment]]:
    """Return the plan's run in fp32 and its imitation in TF32, for each seed.

    The imitation has a name of its own, since no recipe is trained so.
    """
    pairs = []
    for planned in plans.read_plan(PLAN).runs:
        exact = planned.experiment()
        if exact.optimisation.precision == "fp32":
            change = planned.change | {"optimisation.precision": "tf32"}
            narrow = replace(planned, change=change).experiment()
            pairs.append((exact, narrow.change(name=f"{exact.name}/{IMITATED}")))
    return pairs


def train(imitation: Experiment, progress: bool = True) -> Path:
    """Train with cut products on the CPU, if that is not done yet; return the result's folder."""
    folder = results.run_folder(imitation)
    with CutProducts():
        run(imitation, folder, device="cpu", progress=progress)
    return folder


def keep() -> Path:
    """Keep both perplexities of each seed whose two runs are done; return the table's file.

    The run in fp32 is one of this clone, or else a kept one. CourseError without two pairs.
    """
    rows = []
    for exact, imitation in experiments():
        done = [tables.done_result(exact), tables.done_result(imitation)]
        if None not in done:
            figures = [content["metrics"]["test_perplexity"] for content in done]
            sources = [content["provenance"] for content in done]
            row = {"seed": exact.seed, **dict(zip(NAMES, figures, strict=True))}
            rows.append(row | {"provenance": dict(zip(NAMES, sources, strict=True))})
    if len(rows) < 2:
        raise CourseError(
            "a comparison needs two seeds, and the number of those that are trained in both "
            f"precisions is {len(rows)}"
        )
    return results.write_table(TABLE, {"rows": rows})


def table() -> tables.Table:
    """Compare the kept perplexities as `batch table` does: runs of one seed are pairs.

    CourseError where none are kept.
    """
    rows = results.read_table(TABLE)["rows"]
    scores = {name: {row["seed"]: row[name] for row in rows} for name in NAMES}
    text = rows[0]["provenance"][NAMES[0]]["corpus_sha256"]
    models = comparison.compare(scores, NAMES[0], plans.read_plan(PLAN).margin)
    return tables.Table(models, tables.kept_ngrams(text, "test"), [])
