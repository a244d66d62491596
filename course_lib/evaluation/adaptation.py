"""Test-time adaptation as data: a model is evaluated while it remembers or learns the text.

Settings given as a list are searched: all combinations on the validation split, the best of them
then on both splits. The perplexities are those at batch 1. A search may take hours; so every figure
is computed through a function `cached(name, compute)`, which may know it from before.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import product
from typing import Annotated, Any

from annotated_types import Ge, Lt

from course_lib.errors import CourseError
from course_lib.evaluation import cache, dynamic
from course_lib.evaluation.perplexity import best_first
from course_lib.ranges import Count, Finite, NonNegative, check_fields

Weight = Annotated[float, Ge(0), Lt(1)]  # of the cache; at 1 the model would have no say


def compute(name: str, figure: Callable[[], Any]) -> Any:
    """Return `figure()`, where a caller keeps no figures from an earlier call."""
    return figure()


@dataclass(frozen=True)
class ContinuousCache:
    """The continuous cache, p = (1−λ) p_model + λ p_cache (Grave et al. 2017).

    `course_lib.evaluation.cache` has its formula. Each setting is one value or a list to search.

    window: how many words back the cache reaches.
    theta: θ, how sharply it attends to similar contexts.
    weight: λ.
    """

    window: Count | Sequence[Count] = 500
    theta: Finite | Sequence[Finite] = 1.0
    weight: Weight | Sequence[Weight] = 0.1

    def __post_init__(self):
        _check(self)

    def __call__(
        self, model, corpus, length: int = 512, progress: bool = True, cached=compute
    ) -> dict:
        """Return {"valid_perplexity", "test_perplexity", "adaptation": the settings chosen}.

        model, corpus: what is evaluated, on which text.
        length: how many tokens go through the encoder at once.
        progress: no bar is shown either way.
        cached: computes a figure of a name, or knows it from before.
        """

        @functools.cache
        def valid_predictions():
            return cache.predictions(model, corpus.valid, corpus.eos, length)

        def searched(window, theta) -> list[dict]:
            return cache.search(valid_predictions(), [window], [theta], _tuple(self.weight))

        def tested(window, theta, weight) -> float:
            predictions = cache.predictions(model, corpus.test, corpus.eos, length)
            p_cache = cache.cache_probability(predictions, window, theta)
            return cache.mixed_perplexity(predictions, p_cache, weight)

        rows = []
        for pair in product(_tuple(self.window), _tuple(self.theta)):
            rows += cached(f"search {pair}", partial(searched, *pair))
        best = dict(best_first(rows)[0])
        valid = best.pop("perplexity")
        test = cached("test", partial(tested, **best))
        return {"valid_perplexity": valid, "test_perplexity": test, "adaptation": best}


@dataclass(frozen=True)
class DynamicEvaluation:
    """A gradient step after every segment (Krause et al. 2018).

    `course_lib.evaluation.dynamic` has its formula. Rate, decay and ε are one value each or a list
    to search. The rates and decays tried by default are those of the released search, whose means
    are taken as here.

    rate: η.
    decay: λ.
    epsilon: ε.
    segment: tokens between two updates.
    batch: columns of the pass over the train split that collects MS_g.
    search_tokens: how much of the validation split a search reads; None all of it.
    """

    rate: NonNegative | Sequence[NonNegative] = (3e-5, 4e-5, 5e-5, 6e-5, 7e-5, 1e-4)
    decay: NonNegative | Sequence[NonNegative] = (1e-3, 2e-3, 3e-3, 5e-3)
    epsilon: NonNegative | Sequence[NonNegative] = dynamic.EPSILON
    segment: Count = dynamic.SEGMENT
    batch: Count = 100
    search_tokens: Count | None = None

    def __post_init__(self):
        _check(self)

    def __call__(
        self, model, corpus, length: int = 512, progress: bool = True, cached=compute
    ) -> dict:
        """Return {"valid_perplexity", "test_perplexity", "adaptation": the settings chosen}.

        model, corpus: what is evaluated, on which text.
        length: not used; a segment decides how much goes through the encoder at once.
        progress: whether bars are shown.
        cached: computes a figure of a name, or knows it from before.
        Raises CourseError where the weights diverge.
        """

        @functools.cache
        def mean_squares():
            where = f"for dynamic evaluation (adaptation.batch) the train split of {corpus.name}"
            options = self.batch, self.segment, progress, where
            return dynamic.mean_squares(model, corpus.train, *options)

        def adapted(split, settings) -> float:
            options = {"length": self.segment, "progress": progress} | settings
            return dynamic.dynamic_perplexity(model, split, corpus.eos, mean_squares(), **options)

        # the search on the beginning of the validation split
        tried = dynamic.combinations(*map(_tuple, (self.rate, self.decay, self.epsilon)))
        best = tried[0]
        if len(tried) > 1:
            beginning = corpus.valid[: self.search_tokens]
            rows = []
            for settings in tried:
                value = cached(f"search {settings}", partial(adapted, beginning, settings))
                rows.append({"perplexity": value} | settings)
            best = best_first(rows)[0]
            del best["perplexity"]

        # both splits with the best settings
        valid = cached("valid", partial(adapted, corpus.valid, best))
        test = cached("test", partial(adapted, corpus.test, best))
        if not math.isfinite(valid + test):
            raise CourseError(
                f"dynamic evaluation diverged with {best}: perplexity {valid} and {test}; give it "
                "smaller rates"
            )
        return {"valid_perplexity": valid, "test_perplexity": test, "adaptation": best}


def _check(settings) -> None:
    """Raise CourseError unless every value is in its range and no list of them is empty."""
    check_fields(settings)
    for field in fields(settings):
        if _tuple(getattr(settings, field.name)) == ():
            owner = type(settings).__name__
            raise CourseError(f"{field.name} of {owner} is an empty list: give a value to try")


def _tuple(values) -> tuple:
    return tuple(values) if isinstance(values, Sequence) else (values,)
