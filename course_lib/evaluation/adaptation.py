"""Test-time adaptation as data: a model is evaluated while it remembers or learns the text.

Settings given as a list are searched: all combinations on the validation split, the best of them
then on both splits. The perplexities are those at batch 1. Every figure is asked for by
`noted(name, compute)`, which may know it from before: a search may take hours.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

from course_lib.errors import CourseError
from course_lib.evaluation import cache, dynamic
from course_lib.evaluation.perplexity import best_first


def compute(name: str, figure: Callable[[], Any]) -> Any:
    """Return `figure()`, where a caller keeps no figures from an earlier call."""
    return figure()


@dataclass(frozen=True)
class ContinuousCache:
    """p = (1−λ) p_model + λ p_cache (Grave et al. 2017): `course_lib.evaluation.cache`."""

    window: int | Sequence[int] = 500
    theta: float | Sequence[float] = 1.0
    weight: float | Sequence[float] = 0.1  # λ

    def __post_init__(self):
        window, theta, weight = map(_tuple, (self.window, self.theta, self.weight))
        _each("window", window, "a number of words, at least 1", lambda x: x >= 1)
        _each("theta", theta, "finite", math.isfinite)
        _each("weight", weight, "a share, at least 0 and below 1", lambda x: 0 <= x < 1)

    def __call__(
        self, model, corpus, length: int = 512, progress: bool = True, noted=compute
    ) -> dict:
        """{"valid_perplexity", "test_perplexity", "adaptation": the settings chosen}."""
        seen = functools.cache(lambda: cache.predictions(model, corpus.valid, corpus.eos, length))

        def searched(window, theta) -> list[dict]:
            return cache.search(seen(), [window], [theta], _tuple(self.weight))

        def tested() -> float:
            found = cache.predictions(model, corpus.test, corpus.eos, length)
            cached = cache.cache_probability(found, best["window"], best["theta"])
            return cache.mixed_perplexity(found, cached, best["weight"])

        rows = []
        for pair in product(_tuple(self.window), _tuple(self.theta)):
            rows += noted(f"search {pair}", partial(searched, *pair))
        best = dict(best_first(rows)[0])
        valid = best.pop("perplexity")
        return {
            "valid_perplexity": valid,
            "test_perplexity": noted("test", tested),
            "adaptation": best,
        }


@dataclass(frozen=True)
class DynamicEvaluation:
    """A gradient step after every segment (Krause et al. 2018): `course_lib.evaluation.dynamic`.

    search_tokens: how much of the validation split a search reads; None all of it. The rates and
    decays tried by default are those of the released search, whose means are taken as here.
    CourseError where the weights diverge.
    """

    rate: float | Sequence[float] = (3e-5, 4e-5, 5e-5, 6e-5, 7e-5, 1e-4)  # η
    decay: float | Sequence[float] = (1e-3, 2e-3, 3e-3, 5e-3)  # λ
    epsilon: float | Sequence[float] = dynamic.EPSILON
    segment: int = dynamic.SEGMENT
    batch: int = 100  # of the pass over the train split that collects MS_g
    search_tokens: int | None = None

    def __post_init__(self):
        for name in ("rate", "decay", "epsilon"):
            values = _tuple(getattr(self, name))
            _each(name, values, "0 or more", lambda x: 0 <= x < math.inf)
        sizes = {name: getattr(self, name) for name in ("segment", "batch", "search_tokens")}
        for name, value in sizes.items():
            if value is not None:
                _each(name, (value,), "at least 1", lambda x: x >= 1)

    def __call__(
        self, model, corpus, length: int = 512, progress: bool = True, noted=compute
    ) -> dict:
        """{"valid_perplexity", "test_perplexity", "adaptation": the settings chosen}."""

        @functools.cache
        def squares():
            where = f"for dynamic evaluation (adaptation.batch) the train split of {corpus.name}"
            options = self.batch, self.segment, progress, where
            return dynamic.mean_squares(model, corpus.train, *options)

        def adapted(split, settings) -> float:
            options = {"length": self.segment, "progress": progress} | settings
            return dynamic.dynamic_perplexity(model, split, corpus.eos, squares(), **options)

        tried = dynamic.combinations(*map(_tuple, (self.rate, self.decay, self.epsilon)))
        best, part = tried[0], corpus.valid[: self.search_tokens]
        if len(tried) > 1:
            rows = [
                {"perplexity": noted(f"search {settings}", partial(adapted, part, settings))}
                | settings
                for settings in tried
            ]
            best = best_first(rows)[0]
            del best["perplexity"]
        valid = noted("valid", partial(adapted, corpus.valid, best))
        test = noted("test", partial(adapted, corpus.test, best))
        if not math.isfinite(valid + test):
            raise CourseError(
                f"dynamic evaluation diverged with {best}: perplexity {valid} and {test}; give it "
                "smaller rates"
            )
        return {"valid_perplexity": valid, "test_perplexity": test, "adaptation": best}


def _each(name: str, values: tuple, wanted: str, fits) -> None:
    """CourseError unless there are values and each of them fits."""
    if not values or not all(isinstance(x, int | float) and fits(x) for x in values):
        shown = values[0] if len(values) == 1 else list(values)
        raise CourseError(f"{name} must be {wanted}, not {shown}")


def _tuple(values) -> tuple:
    return tuple(values) if isinstance(values, Sequence) else (values,)


def compute(name: str, figure: Callable[[], Any]) -> Any:
    """Return `figure()`, where a caller keeps no figures from an earlier call."""
    return figure()
