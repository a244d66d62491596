"""The README's pictures: two of a lesson, and what the kept runs say of the papers' claims."""

import base64
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image, PngImagePlugin

from course_lab import claims, evidence, plots
from course_lib.errors import CourseError

if TYPE_CHECKING:
    import pandas as pd

PATH = Path("docs/images/claims.png")  # from the repository's root
# Pictures that are figures of an executed lesson: the notebook, and how the figure's text begins.
OF_LESSONS = {
    "collapse.png": ("02_degeneration", "Three curves over"),
    "cone.png": ("02_degeneration", "Left: all word vectors on the plane"),
}


def draw(root: Path) -> list[Path]:
    """Make all pictures anew from the kept results and the executed lessons; return their paths."""
    paths = [draw_claims(root)]
    for name, (lesson, begins) in OF_LESSONS.items():
        figure = figure_of(root / f"notebooks/{lesson}.ipynb", begins)
        paths.append(root / PATH.with_name(name))
        paths[-1].write_bytes(figure)
    return paths


def figure_of(notebook: Path, begins: str) -> bytes:
    """Return the one figure of an executed notebook whose alternative text begins so, as a PNG.

    Raises CourseError where none or several begin so.
    """
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    found = [
        output["data"]["image/png"]
        for output in outputs
        if output.get("metadata", {}).get("image/png", {}).get("alt", "").startswith(begins)
    ]
    if len(found) != 1:
        raise CourseError(f"{notebook} has {len(found)} figures whose text begins {begins!r}")
    return base64.b64decode(found[0])


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
    interim = claims.interim(ledger)
    return f"{tested} of {len(ledger)} claims are tested: {said}; {interim} verdicts are interim"


def shown(ledger: "pd.DataFrame") -> dict[str, str]:
    """Return what the picture says of each claim that is tested, by its name."""
    tested = ledger[ledger.verdict != "untested"]
    return {
        row.Index: f"{claims.verdict_of(row)}, {claims.by(row.ours, unit=row.unit)}, {row.n}"
        for row in tested.itertuples()
    }


def written(root: Path) -> dict[str, str]:
    """Return what the committed picture says of each claim, which it carries as text."""
    with Image.open(root / PATH) as picture:
        return json.loads(picture.info["ledger"])
