"""The README's picture of the evidence: what the papers claim, and what the kept runs say."""

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image, PngImagePlugin

from course_lab import claims, evidence, plots

if TYPE_CHECKING:
    import pandas as pd

PATH = Path("docs/images/claims.png")  # from the repository's root


def draw(root: Path) -> Path:
    """Draw the picture anew from the kept results, and return its path."""
    ledger = claims.ledger(evidence.read())
    figure = plots.tested_claims(ledger, title(ledger))
    text = PngImagePlugin.PngInfo()
    text.add_text("ledger", json.dumps(shown(ledger)))
    picture = Image.open(io.BytesIO(plots.png(figure)))
    picture.save(root / PATH, pnginfo=text, optimize=True)
    return root / PATH


def title(ledger: "pd.DataFrame") -> str:
    """Return how many claims are tested, and how many of these have each verdict."""
    number = claims.counts(ledger)
    tested = len(ledger) - number.pop("untested")
    said = ", ".join(f"{n} {kind.removesuffix('s')}" for kind, n in number.items())
    return f"{tested} of {len(ledger)} claims are tested: {said}"


def shown(ledger: "pd.DataFrame") -> dict[str, str]:
    """Return what the picture says of each claim that is tested, by its name."""
    tested = ledger[ledger.verdict != "untested"]
    return {
        row.Index: f"{row.verdict}, {claims.by(row.ours)}, {row.n}" for row in tested.itertuples()
    }


def written(root: Path) -> dict[str, str]:
    """Return what the committed picture says of each claim, which it carries as text."""
    with Image.open(root / PATH) as picture:
        return json.loads(picture.info["ledger"])
