"""Test-time adaptation as data: a model is evaluated while it remembers or learns the text.

An adaptation is a frozen object that is called with a model and a corpus. A setting may be a list
of values: then all combinations are tried on the validation split, and the best one is evaluated on
both splits, at batch 1. A search may take hours. Every figure is therefore asked of a function
`cached(name, figure)`, which calls `figure()` unless it knows the figure of that name already.
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
from course_lib.ranges import Count, Finite, InRange, NonNegative

Weight = Annotated[float, Ge(0), Lt(1)]  # of the cache; at 1 the model would have no say


def compute(name: str, figure: Callable[[], Any]) -> Any:
    """Return `figure()`: the `cached` of a caller that keeps no figures."""
    return figure()


@dataclass(frozen=True)
class _Adaptation(InRange):
    """Both adaptations check their settings in the same way."""

    def __post_init__(self):
        """Raise CourseError unless every value is in its range and no list of them is empty."""
        super().__post_init__()
        for field in fields(self):
            if _tuple(getattr(self, field.name)) == ():
                owner = type(self).__name__
                raise CourseError(f"{field.name} of {owner} is an empty list: give a value to try")


@dataclass(frozen=True)
class ContinuousCache(_Adaptation):
    """The continuous cache, p = (1−λ) p_model + λ p_cache (Grave et al. 2017).

    The formula of p_cache is that of `cache.cache_probability`.

    window: how many words back the cache reaches.
    theta: θ, how sharply it attends to similar contexts.
    weight: λ.
    """

    window: Count | Sequence[Count] = 500
    theta: Finite | Sequence[Finite] = 1.0
    weight: Weight | Sequence[Weight] = 0.1

    def __call__(
        self, model, corpus, length: int = 512, progress: bool = True, cached=compute
    ) -> dict:
        """Return {"valid_perplexity", "test_perplexity", "adaptation": the settings chosen}.

        model, corpus: what is evaluated, on which text.
        length: how many tokens go through the encoder at once.
        progress: not used, because no bar is shown.
        cached: as the module says.
        """

        # The model passes over a split only if a figure of that split is not known.
        @functools.cache
        def valid_predictions():
            return cache.predictions(model, corpus.valid, corpus.eos, length)

        def searched(window, theta) -> list[dict]:
            return cache.search(valid_predictions(), [window], [theta], _tuple(self.weight))

        def tested(**best) -> float:
            predictions = cache.predictions(model, corpus.test, corpus.eos, length)
            settings = {f"{name}s": [value] for name, value in best.items()}
            return cache.search(predictions, **settings)[0]["perplexity"]

        # The weights are searched with every pair, as they need no other p_cache.
        rows = []
        for pair in product(_tuple(self.window), _tuple(self.theta)):
            rows += cached(f"search {pair}", partial(searched, *pair))
        best = dict(best_first(rows)[0])
        valid = best.pop("perplexity")
        test = cached("test", partial(tested, **best))
        return {"valid_perplexity": valid, "test_perplexity": test, "adaptation": best}


@dataclass(frozen=True)
class DynamicEvaluation(_Adaptation):
    """A gradient step after every segment (Krause et al. 2018).

    The formula of the step is that of `dynamic.dynamic_perplexity`. The rates and decays that are
    tried by default are those of the released search, which takes its means as this one does.

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

    def __call__(
        self, model, corpus, length: int = 512, progress: bool = True, cached=compute
    ) -> dict:
        """Return {"valid_perplexity", "test_perplexity", "adaptation": the settings chosen}.

        model, corpus: what is evaluated, on which text.
        length: not used; a segment decides how much goes through the encoder at once.
        progress: whether bars are shown.
        cached: as the module says.

        CourseError where the weights diverge.
        """

        # The pass over the train split, which is left out if every figure is known.
        @functools.cache
        def mean_squares():
            where = f"for dynamic evaluation (adaptation.batch) the train split of {corpus.name}"
            options = self.batch, self.segment, progress, where
            return dynamic.mean_squares(model, corpus.train, *options)

        def adapted(split, settings) -> float:
            options = {"length": self.segment, "progress": progress} | settings
            return dynamic.dynamic_perplexity(model, split, corpus.eos, mean_squares(), **options)

        # The search, on the beginning of the validation split.
        values = map(_tuple, (self.rate, self.decay, self.epsilon))
        tried = [dict(rate=r, decay=d, epsilon=e) for r, d, e in product(*values)]
        best = tried[0]
        if len(tried) > 1:
            beginning = corpus.valid[: self.search_tokens]
            rows = []
            for settings in tried:
                value = cached(f"search {settings}", partial(adapted, beginning, settings))
                rows.append({"perplexity": value} | settings)
            best = best_first(rows)[0]
            del best["perplexity"]

        # Both splits with the best settings.
        valid = cached("valid", partial(adapted, corpus.valid, best))
        test = cached("test", partial(adapted, corpus.test, best))
        if not math.isfinite(valid + test):
            raise CourseError(
                f"dynamic evaluation diverged with {best}: perplexity {valid} and {test}; give it "
                "smaller rates"
            )
        return {"valid_perplexity": valid, "test_perplexity": test, "adaptation": best}


def _tuple(values) -> tuple:
    return tuple(values) if isinstance(values, Sequence) else (values,)
