"""Tiny executed notebooks for the tests of the website, made without a kernel."""

import base64
import io
from pathlib import Path

import nbformat
import pandas as pd
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image, ImageDraw

CANVAS = """<div class="course-figure">
<canvas id="sample" role="img" aria-label="A dot that moves with the slider"
  width="640" height="320" style="max-width:100%"></canvas>
<input type="range" aria-label="step" min="0" max="10" value="0" style="width:100%">
</div>
<script>(() => {
  const canvas = document.getElementById("sample"), ink = canvas.getContext("2d");
  const slider = canvas.parentElement.querySelector("input");
  const draw = () => {
    ink.clearRect(0, 0, 640, 320); ink.fillRect(60 * slider.value, 150, 20, 20);
  };
  slider.addEventListener("input", draw);
  draw();
})();</script>"""

WIDE_TABLE = pd.DataFrame([[1.5] * 25] * 3).add_prefix("column_").to_html()

INTRODUCTION = r"""# 1. A small lesson

Does everything a lesson needs arrive on the page?

## Mathematics

The softmax is $P(i \mid h) = e^{\ell_i} / Z$, and on its own line

$$
\log P(y \mid h) = \langle w_y, h \rangle + b_y - \log \sum_{i=1}^{N} \exp(\langle w_i, h \rangle
+ b_i) \quad\text{with}\quad \boldsymbol{W} = \boldsymbol{U} \boldsymbol{\Sigma} \boldsymbol{V}^\top
,\qquad \mathbf{u}_1, \dots, \mathbf{u}_d \in \mathbb{R}^N
$$

Long code in the text such as
`https://raw.githubusercontent.com/output-embedding-course/output-embedding-course/main` wraps.
See [the symbols](../docs/symbols.md), [the other lesson](20_other.ipynb#setting), [a file of the
repository](../course_lib/errors.py) and [a paper](https://arxiv.org/abs/1611.01462).

| symbol | code | a third column | a fourth column | a fifth column | a sixth column |
|---|---|---|---|---|---|
| $W$ | `words.matrix()` | something_long_without_spaces | something_long_without_spaces | x | y |
"""


EXERCISES = """## Exercises

### 1. How *long* is $w_i$?
Assign `answer`."""


def png(width: int = 900, height: int = 600) -> bytes:
    """A picture with something to see, as a plot would be saved."""
    picture = Image.new("RGB", (width, height), "white")
    ink = ImageDraw.Draw(picture)
    for k in range(12):
        ink.line((40, height - 40, 200 + 50 * k, 40 + 40 * k), fill=(0, 114, 178), width=4)
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    return stream.getvalue()


def figure(alt: str | None, picture: bytes, extra: dict | None = None):
    """The output that `plots.show` leaves in a notebook."""
    data = {"image/png": base64.b64encode(picture).decode(), "text/plain": alt or ""}
    metadata = {"image/png": {"alt": alt}} if alt else {}
    return new_output("display_data", data | (extra or {}), metadata=metadata)


def code(source: str, *outputs, tags=()):
    cell = new_code_cell(source, execution_count=1, outputs=list(outputs))
    cell.metadata["tags"] = list(tags)
    return cell


ALT = 'Arrows from one corner: a "narrow cone" & more'


def lessons(folder: Path, alt: str | None = ALT) -> Path:
    """Two executed notebooks in `folder`: `01_small` with everything, `20_other` nearly empty."""
    printed = new_output("stream", name="stdout", text="perplexity 85.1 " * 20 + "\n")
    warned = new_output("stream", name="stderr", text="UserWarning: not for readers\n")
    table = new_output(
        "execute_result", {"text/html": WIDE_TABLE, "text/plain": "table"}, execution_count=1
    )
    animation = figure("The last position of the dot", png(640, 320), {"text/html": CANVAS})
    widget = new_output(
        "display_data",
        {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}, "text/plain": "slider"},
    )
    small = [
        new_markdown_cell(INTRODUCTION),
        code("PROFILE = 'injected'", tags=["injected-parameters"]),
        code("secret = 'removed'", tags=["remove-cell"]),
        code("print('folded')", printed, tags=["hide-input"]),
        code("long_line = " + " + ".join(f"term_{i}" for i in range(40)), printed, warned),
        code("# NBVAL_CHECK_OUTPUT\nshow(figure)", figure(alt, png())),
        code("table", table),
        code("animate()", animation),
        code("slider", widget),
        new_markdown_cell(EXERCISES),
        code("answer = None  # a number", tags=["exercise"]),
        code('check("01.1", answer, bool)'),
        new_markdown_cell("### 2. An open one\n\nThink."),
    ]
    text = "# 20. Another lesson\n\nIs there more than one?\n\n## Setting\n\nYes."
    other = [new_markdown_cell(text)]
    folder.mkdir(parents=True, exist_ok=True)
    for name, cells in {"01_small": small, "20_other": other}.items():
        language = {"language_info": {"name": "python", "pygments_lexer": "ipython3"}}
        nbformat.write(new_notebook(cells=cells, metadata=language), folder / f"{name}.ipynb")
    return folder
