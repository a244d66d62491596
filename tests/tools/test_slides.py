"""Decks of slides hold what the lessons show, and work in a browser without a network."""

import html
import re
from collections.abc import Iterator

import nbformat
import pytest
from headless import launched
from playwright.sync_api import Browser
from site_sample import code, figure, png
from typer.testing import CliRunner

from course_lab import notebook_source
from course_lib.errors import CourseError
from tools import cli, slides

CORES = [path for path in notebook_source.sources() if re.match(r"[01]\d_", path.name)]
CELLS = r"""# 2. The cone: a *cloud*

**Question.** Why does the cloud collapse?

![A model](images/02_model.svg)

**Figure 1.** Everything acts on $W$.
---
## Before you start

**Prerequisites.** Not for a slide.
---
## Predict

Think of a cloud.

1. How large will the cosine be?
---
## The push

One sentence fills no slide: this is **lone**.
---
figure
---
A plain sentence is left out. The **push** acts on [every row](03_x.ipynb) by

$$\Delta w_i = -p_i\, h,$$

where $p_i$ is small. <details>A hint is left out.</details>
---
figure
---
**Figure 2.** The cosine rises to 0.9. It rises by v1.2 of the law.
---
## Symbols

| symbol | code | meaning |
|---|---|---|
| $W$ | `W` | the *matrix* |
---
## Exercises

### 1. Turn $W$
*Ten minutes, difficulty 2 of 3.* Assign `turn`.
---
## What we saw
---
numbers
---
## References

- Nobody (2000).
"""


@pytest.fixture
def notebook(tmp_path):
    """An executed lesson with one of everything."""
    cells = []
    for source in CELLS.split("\n---\n"):
        cell = nbformat.v4.new_markdown_cell(source)
        if source == "figure":
            cell = code("show(figure)", figure("A curve & more", png()))
        elif source == "numbers":
            data = {"text/markdown": "- *It pays.* (a, Table 1): **untested**; so.\n"}
            ledger = nbformat.v4.new_output("display_data", data)
            data = {"text/markdown": "In it, their mean cosine rose to 0.90. It fell by 5 %."}
            told = nbformat.v4.new_output("display_data", data)
            cell = code("display(told)", ledger, told)
        cells.append(cell)
    (tmp_path / "images").mkdir()
    drawing = (notebook_source.FOLDER / "images" / "02_model.svg").read_text("utf-8")
    (tmp_path / "images" / "02_model.svg").write_text(drawing, "utf-8")
    path = tmp_path / "02_cone.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


def test_a_deck_has_the_parts_of_its_lesson_in_order(notebook):
    cells = nbformat.read(notebook, as_version=4).cells
    deck = slides.slides(list(slides.blocks(cells, notebook.parent)))
    headings = [slide.heading for slide in deck]
    assert headings == [
        "2. The cone: a *cloud*",
        "Predict",
        "The push",
        "The push",
        "The push",
        "Symbols",
        "What the course's best evidence says",
        "The number to remember",
        "What do you answer now?",
        "Exercises",
    ]
    assert slides.named(headings[0]) == "2. The cone: a <em>cloud</em>"  # and no list
    first, predict, bare, formula, drawn, symbols, evidence, number, again, exercises = deck
    assert "Why does the cloud collapse?" in first.body and "data:image/svg+xml" in first.body
    assert predict.body.endswith(again.body) and "How large will the cosine be?" in again.body
    assert "Think of a cloud." in predict.body and "Think" not in again.body
    assert bare.kind == "figure wide" and "<figcaption>" not in bare.body
    assert r"$$\Delta w_i = -p_i\, h,$$" in formula.body
    assert "<strong>push</strong> acts on every row by" in formula.body  # a link to a file is text
    assert "where $p_i$ is small." in formula.body and "hint" not in formula.body
    assert "plain sentence" not in formula.body
    assert drawn.kind == "figure wide" and 'alt="A curve &amp; more"' in drawn.body
    assert "The cosine rises to 0.9. It rises by v1.2 of the law." in drawn.body
    assert "<td><code>" not in symbols.body and "<em>matrix</em>" in symbols.body
    assert "<strong>untested</strong>" in evidence.body and "so." not in evidence.body
    assert '<p class="number">0.90</p><p>In it, their mean cosine rose to 0.90.</p>' == number.body
    assert "Turn $W$" in exercises.body and "Ten minutes, difficulty 2 of 3." in exercises.body
    for left_out in ("Prerequisites", "Nobody", "Assign", "lone"):
        assert left_out not in "".join(slide.body for slide in deck)


def test_long_texts_and_captions_go_on_on_the_next_slide():
    lines = ["A **word** " + "is long " * 35 + "."] * 4
    assert len(slides.text_slides("Long", lines)) == 2
    caption = slides.cut("**Figure 1.** " + f"It says {'much ' * 30}here. " * 4)
    assert caption.count("here.") == 2 and caption.endswith("here.")


@pytest.mark.parametrize(
    "lines, shown",
    [
        (["It is **one** sentence."], False),
        (["It is **one** sentence.", "And **another**."], True),
        (["It is **one** sentence. And **another**."], True),
        (["- **one** item"], True),
        (["$$x$$"], True),
        (["This answers the first prediction: it **falls**."], True),
        (["This answers the first prediction, in two ways."], False),
    ],
)
def test_a_lone_sentence_fills_no_slide(lines, shown):
    assert bool(slides.key_slides("Title", lines)) == shown


@pytest.mark.parametrize(
    "said, number",
    [
        ("rose to 0.89.", "0.89"),
        ("rose to -7.2 [-16.1, +1.6]: undecided.", "-7.2 [-16.1, +1.6]"),
        ("rose to 1,024, more than 5.", "1,024"),
        ("rose to 0.0053 %, at 4.", "0.0053 %"),
    ],
)
def test_the_number_to_remember_has_its_unit_and_interval(said, number):
    texts = ["- *It pays.* (a): **agrees**. 5 %", f"It fell by 3 %. Here their mean cosine {said}"]
    _, slide = slides.takeaway_slides("2", texts)
    assert f'<p class="number">{number}</p>' in slide.body and "fell" not in slide.body


def test_a_lesson_without_a_number_to_remember_has_all_that_it_saw():
    (slide,) = slides.takeaway_slides("2b", ["It fell by 3 %. Their mean cosine rose to 0.9."])
    assert slide.heading == "What we saw" and slide.body.count("<p>") == 2


def test_sentences_end_at_stops_outside_of_formulas_and_code():
    text = "Take $a. B$ and `x. Y`. **It holds.** So does `z`! Is it $3.5$? Yes."
    assert slides.sentences(text) == [
        "Take $a. B$ and `x. Y`.", "**It holds.**", "So does `z`!", "Is it $3.5$?", "Yes.",
    ]  # fmt: skip


def test_a_lesson_without_outputs_has_no_deck(tmp_path, notebook):
    bare = nbformat.read(notebook, as_version=4)
    for cell in bare.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    nbformat.write(bare, notebook)
    with pytest.raises(CourseError, match="02_cone.ipynb has no outputs"):
        slides.write(notebook, tmp_path / "decks")
    assert not (tmp_path / "decks").exists()


@pytest.mark.parametrize("source", CORES, ids=lambda path: path.stem)
def test_a_deck_has_every_figure_and_caption_of_its_lesson(source):
    notebook = nbformat.read(source.with_suffix(".ipynb"), as_version=4)
    deck = slides.slides(list(slides.blocks(notebook.cells, source.parent)))
    body = "".join(slide.body for slide in deck)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert body.count("data:image/png") == sum("image/png" in o.get("data", {}) for o in outputs)
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    text += "".join(output.get("data", {}).get("text/markdown", "") for output in outputs)
    for number in re.findall(r"(?m)^\*\*(Figure \d+\.)\*\*", text):
        assert f"<figcaption><strong>{number}</strong>" in body
    for formula in re.findall(r"(?ms)^\$\$.*?\$\$", text):
        assert html.escape(formula, quote=False) in body
    (number,) = [slide.body for slide in deck if slide.heading == "The number to remember"]
    assert re.match(r'<p class="number">[+-]?[\d.,]*\d\b', number)


# --- in a browser --------------------------------------------------------------------------------

FAULTS = """() => {
  const faults = [], wide = innerWidth > innerHeight, root = document.documentElement;
  const say = (slide, what) => faults.push(`slide ${slide.id}: ${what}`);
  if (root.scrollWidth > root.clientWidth) faults.push(`sideways: ${root.scrollWidth}`);
  for (const slide of document.querySelectorAll(".slide")) {
    const frame = slide.getBoundingClientRect(), body = slide.querySelector(".body");
    if (wide && Math.abs(frame.height - innerHeight) > 1) say(slide, `is ${frame.height} high`);
    const foot = slide.querySelector("footer").getBoundingClientRect();
    if (foot.bottom > frame.bottom + 1) say(slide, "its foot is cut off");
    const parts = "p, li, td, figure, figcaption, img, .formula";
    for (const part of [body, ...body.querySelectorAll(parts)]) {
      const box = part.getBoundingClientRect();
      if (box.bottom > foot.top + 1 || box.right > frame.right + 1 || box.top < frame.top - 1)
        say(slide, "cut off: " + part.outerHTML.slice(0, 80));
    }
    for (const image of slide.querySelectorAll("img")) {
      const box = image.getBoundingClientRect();
      if (!image.naturalWidth || !image.alt) say(slide, "an image is missing or says nothing");
      if (box.height < (wide ? 0.3 * innerHeight : 60)) say(slide, `an image ${box.height} high`);
    }
    const letters = parseFloat(getComputedStyle(body).fontSize);
    if (letters < (wide ? innerHeight / 50 : 15)) say(slide, `letters of ${letters}`);
    for (const box of slide.querySelectorAll(".formula")) {
      const drawn = box.querySelector("svg")?.getBoundingClientRect();
      if (!drawn?.width) say(slide, "no formula");
      const low = box.getBoundingClientRect().bottom;
      if (drawn?.bottom > low) say(slide, "a formula is cut off");
      if (wide && box.scrollWidth > box.clientWidth + 1) say(slide, "a formula is too wide");
    }
    const text = body.innerText;
    if (/\\$[^$]+\\$/.test(text)) say(slide, "TeX is left: " + text.slice(0, 80));
  }
  for (const error of document.querySelectorAll("mjx-merror, [data-mjx-error]"))
    faults.push("formula with an error: " + error.outerHTML.slice(0, 80));
  return faults;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    yield from launched()


def opened(browser, page_path, width, height):
    """Open a deck from the file system; return the page and the list of what goes wrong in it."""
    page = browser.new_page(viewport={"width": width, "height": height})
    wrong = []
    loud = {"error", "warning"}
    page.on("console", lambda said: said.type in loud and wrong.append(f"console: {said.text}"))
    page.on("pageerror", lambda error: wrong.append(f"script: {error}"))
    page.on("request", lambda r: r.url.startswith(("file:", "data:")) or wrong.append(r.url))
    page.goto(page_path.as_uri())
    page.wait_for_selector("html[data-ready]", state="attached")
    return page, wrong


@pytest.mark.parametrize("source", CORES, ids=lambda path: path.stem)
def test_no_slide_of_a_lesson_overflows(browser, tmp_path, source):
    """At the size of a projector, and on a phone."""
    deck = slides.write(source.with_suffix(".ipynb"), tmp_path)
    for width, height in ((1280, 720), (390, 844)):
        page, wrong = opened(browser, deck, width, height)
        wrong += page.evaluate(FAULTS)
        page.close()
        assert not wrong, f"{width}: " + "\n".join(wrong)


def test_keys_turn_the_slides(browser, tmp_path, notebook):
    page, wrong = opened(browser, slides.write(notebook, tmp_path), 1280, 720)
    shown = "() => document.elementFromPoint(640, 360).closest('.slide').id"
    seen = []
    for key in ("ArrowRight", "PageDown", "ArrowLeft", "End", "Space", "Home"):
        page.keyboard.press(key)
        page.wait_for_timeout(100)
        seen.append(page.evaluate(shown))
    page.close()
    assert seen == ["2", "3", "2", "10", "10", "1"] and not wrong


def test_an_overflowing_slide_is_noticed(browser, tmp_path, notebook):
    page, wrong = opened(browser, slides.write(notebook, tmp_path), 1280, 720)
    page.evaluate("document.querySelector('.formula').style.height = '2000px'")
    page.evaluate("document.querySelector('img').style.width = '3000px'")
    page.evaluate("document.querySelector('table').outerHTML = '<p>$x$</p>'")
    found = page.evaluate(FAULTS)
    page.close()
    assert not wrong
    for fault in ("slide 4: cut off", "slide 1: cut off", "TeX is left"):
        assert any(fault in line for line in found), found


def test_the_command_writes_the_core_lessons_or_those_that_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(slides, "mathjax", lambda: "")
    run = CliRunner().invoke
    told = run(cli.application(), ["notebooks", "slides", "--to", str(tmp_path)])
    assert told.exit_code == 0, told.output
    assert sorted(p.stem for p in tmp_path.iterdir()) == [source.stem for source in CORES]
    named = ["05b_tying_in_numbers", "--to", str(tmp_path)]
    one = run(cli.application(), ["notebooks", "slides", *named])
    assert one.exit_code == 0 and (tmp_path / "05b_tying_in_numbers.html").is_file()
