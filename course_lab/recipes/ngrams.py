"""The n-gram models that every neural model should beat, interpolated modified Kneser-Ney."""

from course_lab.parts import part
from course_lab.recipes.registry import add

_TITLES = {1: "words by their frequency", 3: "two words of context", 5: "four words of context"}
for _corpus in ("ptb", "wikitext-2", "docstrings"):
    for _order, _title in _TITLES.items():
        add(
            name=f"{_corpus}/kneser-ney/order-{_order}",
            source=f"the course's own: {_title}",
            corpus=part(_corpus),
            encoder=part("Ngrams", order=_order),
        )
