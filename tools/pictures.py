"""The README's pictures: two of a lesson, and what the kept runs say of the papers' claims."""

import base64
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image, PngImagePlugin

from course_lab import claims, evidence, plots

if TYPE_CHECKING:
    import pandas as pd

PATH = Path("docs/images/claims.png")  # from the repository's root
# Pictures that are figures of a lesson as it was executed: its notebook, and the figure's number.
OF_LESSONS = {"collapse.png": ("02_degeneration", 0), "cone.png": ("02_degeneration", 2)}


def draw(root: Path) -> list[Path]:
    """Make all pictures anew from the kept results and the executed lessons; return their paths."""
    paths = [draw_claims(root)]
    for name, (lesson, number) in OF_LESSONS.items():
        paths.append(root / PATH.with_name(name))
        paths[-1].write_bytes(figures_of(root, lesson)[number])
    return paths


def figures_of(root: Path, lesson: str) -> list[bytes]:
    """Return the figures that an executed lesson shows, as PNG files."""
    cells = json.loads((root / f"notebooks/{lesson}.ipynb").read_text(encoding="utf-8"))["cells"]
    shown = [output.get("data", {}) for cell in cells for output in cell.get("outputs", ())]
    return [base64.b64decode(data["image/png"]) for data in shown if "image/png" in data]


def draw_claims(root: Path) -> Path:
    """Draw the picture of the claims anew from the kept results, and return its path."""
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
