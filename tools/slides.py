"""Decks of slides from the committed lessons: one page each, which needs no network and no server.

A deck has the lesson's question, what the reader is to predict, the figures with their captions,
the formulas in boxes with the key lines around them, the one number and the exercises. All of it is
read out of the `.ipynb`, so a deck changes with its lesson. `slides.html` is the page around the
slides.
"""

import base64
import html
import itertools
import re
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbconvert.filters.markdown_mistune import markdown2html_mistune

from course_lab.notebook_source import rows
from course_lib.errors import CourseError

MATHJAX = "sphinx-mathjax-offline/static/mathjax/tex-svg-full.js"  # all of TeX in one script
LEFT_OUT = {"What you will learn", "Before you start", "Exercises", "References"}
LINES = 13  # of a slide of text
CHARACTERS = 75  # of a line
FORMULA = 3.5  # lines that a formula takes
CAPTION = 350  # characters beside a figure; a longer caption is cut behind a sentence
WIDE = 1.5  # from this ratio of width to height on, the caption stands below the figure
NUMBER = r"[+−-]?\d[\d.,]*(?<![.,])(?: ?%)?(?: \[[^]]*\])?"  # with its unit and its interval
REMEMBERED = {  # by lesson: the words of `What we saw` before the number that answers its question
    "1": "the mean cosine between their gradients is",
    "2": "their mean cosine rose to",
    "3": "their mean direction has a cosine of",
    "4": "and one of 12 only",
    "5": "the rare words have a mean cosine of",
    "6": "in those of the list by",
    "7": "changes the test perplexity of the best plain LSTM by",
    "8": "the mean vector can have a share of at most",
    "9": "d = 64: MoS, K = 4 − MoC, K = 4:",
    "10": "and moves its perplexity by",
    "11": "in those of the list by",
    "12": "a rare row of the matrix that reads for",
}


class Block(NamedTuple):
    """A paragraph, formula or picture of a lesson, in the order of the lesson.

    kind is "text", "formula", "caption", "computed", "exercise" or "picture"; of a picture `text`
    is its address and `alt` what it shows.
    """

    section: str
    kind: str
    text: str
    alt: str = ""
    ratio: float = 0.0


class Slide(NamedTuple):
    """A slide: its heading, its body as HTML, and the look that `slides.html` gives to it."""

    heading: str
    body: str
    kind: str = "text"


def write(notebook: Path, folder: Path) -> Path:
    """Write the deck of a lesson into `folder`; return the page.

    Raises CourseError where the notebook has not been executed.
    """
    cells = nbformat.read(notebook, as_version=4).cells
    lesson = list(blocks(cells, notebook.parent))
    if not any(block.kind == "picture" and block.section for block in lesson):
        raise CourseError(f"{notebook.name} has no outputs; run `python -m tools course`")
    deck = slides(lesson)
    total = len(deck)
    sections = [
        f'<section class="slide {slide.kind}" id="{n}" aria-label="Slide {n} of {total}">\n'
        f"<h{1 + (n > 1)}>{named(slide.heading)}</h{1 + (n > 1)}>\n"
        f'<div class="body">{slide.body}</div>\n'
        f"<footer><span>{named(deck[0].heading)}</span><span>{n} / {total}</span></footer>\n"
        "</section>"
        for n, slide in enumerate(deck, 1)
    ]
    slots = {
        "TITLE": html.escape(plain(deck[0].heading)),
        "SLIDES": "\n".join(sections),
        "MATHJAX": mathjax(),
    }
    page = Path(__file__).with_suffix(".html").read_text("utf-8")
    page = re.sub(r"@([A-Z]+)@", lambda slot: slots[slot[1]], page)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{notebook.stem}.html"
    target.write_text(page, "utf-8")
    return target


def mathjax() -> str:
    """Return MathJax as one script that may stand in a page."""
    package = distribution("sphinx-mathjax-offline")
    script = Path(package.locate_file(MATHJAX)).read_text("utf-8")
    return script.replace("</script", r"<\/script")


# --- the blocks of a lesson ----------------------------------------------------------------------


def blocks(cells: list, folder: Path) -> Iterator[Block]:
    """Yield the blocks of a lesson; those above the first `##` have the section ""."""
    section = ""
    for cell in cells:
        if cell.cell_type == "markdown":
            text = re.sub(r"(?s)<details>.*?</details>", "", cell.source)
            for paragraph in re.split(r"\n\s*\n", text):
                heading = re.match(r"(#+) +(.*)\n*", paragraph)
                if heading and section == "Exercises" and heading[1] == "###":
                    yield Block(section, "exercise", paragraph[4:])
                    continue
                if heading:
                    section = heading[2] if len(heading[1]) > 1 else ""
                    yield Block(section, "heading", heading[2])
                    paragraph = paragraph[heading.end() :]
                if paragraph.strip():
                    yield paragraph_block(section, paragraph.strip(), folder)
        for output in cell.get("outputs", ()):
            yield from output_blocks(section, output)


def paragraph_block(section: str, text: str, folder: Path) -> Block:
    """Return the block of a paragraph of Markdown."""
    if drawing := re.fullmatch(r"!\[(.*?)\]\(([^)]*)\)", text, re.S):
        picture = (folder / drawing[2]).read_bytes()
        size = re.search(r"viewBox='0 0 (\S+) (\S+)'", picture.decode())
        address = f"data:image/svg+xml;base64,{base64.b64encode(picture).decode()}"
        return Block(section, "picture", address, drawing[1], float(size[1]) / float(size[2]))
    if text.startswith("$$"):
        return Block(section, "formula", text)
    return Block(section, "caption" if text.startswith("**Figure") else "text", text)


def output_blocks(section: str, output) -> Iterator[Block]:
    """Yield the figure of an output, and its sentences with computed numbers."""
    data = output.get("data", {})
    if png := data.get("image/png"):
        header = base64.b64decode(png)[:24]
        width, height = (int.from_bytes(header[at : at + 4], "big") for at in (16, 20))
        alt = output.metadata["image/png"]["alt"]
        address = f"data:image/png;base64,{''.join(png.split())}"
        yield Block(section, "picture", address, alt, width / height)
    for text in re.split(r"\n\s*\n", data.get("text/markdown", "").strip()):
        if text:
            yield Block(section, "caption" if text.startswith("**Figure") else "computed", text)


# --- the slides ----------------------------------------------------------------------------------


def slides(lesson: list[Block]) -> list[Slide]:
    """Return the slides of a lesson, in its order; the questions of `Predict` come back last."""
    deck: list[Slide] = []
    predict: list[str] = []
    by_section = itertools.groupby(lesson, lambda block: block.section)
    sections = [(name, list(inside)) for name, inside in by_section]
    for name, inside in sections:
        said = [b.text for b in inside if b.kind == "text"]
        if name == "":
            deck.append(first_slide(inside))
        elif name == "Predict":
            predict = said
            deck += text_slides("Predict", said)
        elif name == "Symbols":
            deck += symbols_slides(said)
        elif name == "What we saw":
            number = deck[0].heading.partition(".")[0]
            deck += takeaway_slides(number, [b.text for b in inside if b.kind == "computed"])
        elif name not in LEFT_OUT:
            deck += section_slides(name, inside)
    questions = [text for text in predict if text.startswith("1. ")]
    deck += text_slides("What do you answer now?", questions)
    asked = [block.text.partition("\n") for block in lesson if block.kind == "exercise"]
    lines = [f"**{title}** {minutes(text)}" for title, _, text in asked]
    return deck + text_slides("Exercises", lines)


def minutes(text: str) -> str:
    """Return what the first words of an exercise, in italics, say of its minutes and difficulty."""
    stated = re.match(r"\*([^*]+)\*", text.strip())
    return stated[1] if stated else ""


def first_slide(inside: list[Block]) -> Slide:
    """Return the slide with title, question and the drawing of the model."""
    title = next(b.text for b in inside if b.kind == "heading")
    question = next(b.text for b in inside if b.kind == "text" and "**Question.**" in b.text)
    words = markdown(question.replace("**Question.**", "").strip())
    caption = " ".join(b.text for b in inside if b.kind == "caption")
    drawings = [figure(b, caption) for b in inside if b.kind == "picture"]
    return Slide(title, f'<p class="question">{words}</p>{"".join(drawings)}', "first")


def section_slides(heading: str, inside: list[Block]) -> list[Slide]:
    """Return the slides of a section: its figures, and its formulas and key lines between them."""
    deck: list[Slide] = []
    lines: list[str] = []
    picture = None
    before = Block(heading, "heading", heading)
    for block in inside:
        if block.kind == "picture":
            deck += key_slides(heading, lines)
            lines = []
            picture = block
            deck.append(figure_slide(picture, ""))
        elif block.kind == "caption" and picture:
            deck[-1] = figure_slide(picture, cut(block.text))  # what stood between is in `lines`
            picture = None
        elif block.kind == "formula":
            lead = sentences(before.text)[-1] if before.kind == "text" else ""
            lines += [lead] if lead and lead not in " ".join(lines) else []
            lines.append(block.text)
        elif block.kind == "computed":
            lines.append(block.text)
        elif block.kind == "text" and not block.text.startswith("|"):
            open_line = before.text if lines and before.text.endswith(lines[-1]) else ""
            lines += key_lines(block.text, before, open_line.endswith(":"))
        before = block
    return deck + key_slides(heading, lines)


def figure_slide(picture: Block, caption: str) -> Slide:
    """Return the slide of a figure, with its caption below or to the right of it."""
    kind = "figure wide" if picture.ratio >= WIDE else "figure tall"
    return Slide(picture.section, figure(picture, caption), kind)


def key_lines(text: str, before: Block, announced: bool) -> list[str]:
    """Return what of a paragraph goes on a slide, given the block before it.

    That is a theorem, a list whose items begin with a bold word, a list below a caption or one that
    is announced on the slide, and the sentences that have a bold word, that answer a prediction in
    more than three words, or that go on where a formula stops.
    """
    if re.match(r"\*\*(Theorem|Definition|Proposition)", text):
        return [text]
    if re.match(r"(- |1\. )", text):
        bold = re.match(r"(- |1\. )\*\*", text)
        return [text] if bold or announced or before.kind == "caption" else []
    parts = sentences(text)
    goes_on = before.kind == "formula" and parts[0][0].islower()
    marked = re.compile(r"\*\*[^*]+\*\*|answers the \w+ (prediction|question)[,:] ")
    told = [s for n, s in enumerate(parts) if marked.search(s) or (n == 0 and goes_on)]
    return [" ".join(told)] if told else []


def key_slides(heading: str, lines: list[str]) -> list[Slide]:
    """Return the slides of key lines; a lone sentence fills none unless it answers a prediction."""
    lone = len(lines) == 1 and len(sentences(lines[0])) == 1
    if lone and not re.match(r"\$\$|- |\d+\. |.*answers the \w+ (prediction|question): ", lines[0]):
        return []
    return text_slides(heading, lines)


def text_slides(heading: str, lines: list[str]) -> list[Slide]:
    """Return the slides of paragraphs and formulas, as many as it takes."""
    deck, body, height = [], [], 0.0
    for line, after in itertools.pairwise([*lines, ""]):
        if line.endswith(":") and not re.match(r"\$\$|- |\d+\. ", after):
            line = line[:-1] + "."  # what the colon announces is not on the slide
        items = re.split(r"\n(?=- |\d+\. )", line) if re.match(r"- |\d+\. ", line) else [line]
        takes = sum(0.5 + -(-len(plain(item)) // CHARACTERS) for item in items)
        takes = FORMULA * (1 + line.count(r"\\") / 2) if line.startswith("$$") else takes
        with_next = takes + FORMULA * after.startswith("$$") * (not line.startswith("$$"))
        goes_on = line[:1].islower()  # after a formula
        if body and height + with_next > LINES and not goes_on:
            deck.append(Slide(heading, "".join(body)))
            body, height = [], 0.0
        body.append(block_of(line))
        height += takes
    return deck + [Slide(heading, "".join(body))] * bool(body)


def symbols_slides(paragraphs: list[str]) -> list[Slide]:
    """Return the slide with the symbols of a lesson and their meanings."""
    table = rows("\n".join(paragraphs), ("symbol", "code", "meaning"))
    lines = [f"<tr><td>{markdown(row[0])}</td><td>{markdown(row[2])}</td></tr>" for row in table]
    return [Slide("Symbols", f"<table>{''.join(lines)}</table>")] if lines else []


def takeaway_slides(lesson: str, texts: list[str]) -> list[Slide]:
    """Return the slides of what a lesson saw: the verdicts on claims, then its one number.

    The number is set large, above its sentence. A lesson without one has all that it saw instead.
    """
    verdicts = []
    for claim in re.findall(r"(?m)^- .*", "\n".join(texts)):
        verdict = re.match(r"- .*?: \*\*.*?\*\*", claim)
        verdicts.append(verdict[0] if verdict else claim)
    deck = text_slides("What the course's best evidence says", verdicts)
    told = [s for text in texts if not text.startswith("- ") for s in sentences(text)]
    wanted = REMEMBERED.get(lesson)
    for sentence in told:
        if wanted and (found := re.search(rf"{re.escape(wanted)} ({NUMBER})", sentence)):
            body = f'<p class="number">{found[1]}</p>{block_of(sentence)}'
            return [*deck, Slide("The number to remember", body)]
    return deck + text_slides("What we saw", told)


# --- Markdown and HTML ---------------------------------------------------------------------------


def markdown(text: str) -> str:
    """Return a paragraph of Markdown as HTML without a `<p>`; links to other files are text."""
    text = re.sub(r"(?<!!)\[([^\]]*)\]\((?!https?:)[^)]*\)", r"\1", text)
    return re.sub(r"^<p>(.*)</p>$", r"\1", markdown2html_mistune(text).strip(), flags=re.S)


def named(heading: str) -> str:
    """Return a heading as HTML; a number at its beginning makes no list of it."""
    return markdown(re.sub(r"^(\w+)\. ", r"\1\\. ", heading))


def block_of(line: str) -> str:
    """Return a line of a slide as HTML: a formula in its box, a list, or a paragraph."""
    if line.startswith("$$"):
        return f'<div class="formula">{html.escape(line, quote=False)}</div>'
    found = markdown(line)
    return found if re.match(r"<(ul|ol|p)\b", found) else f"<p>{found}</p>"


def figure(picture: Block, caption: str) -> str:
    """Return a picture with its alternative text and the caption in words."""
    image = f'<img src="{picture.text}" alt="{html.escape(picture.alt)}">'
    words = f"<figcaption>{markdown(caption)}</figcaption>" if caption else ""
    return f'<figure><div class="picture">{image}</div>{words}</figure>'


def plain(text: str) -> str:
    """Return about what a reader sees of Markdown, to measure or to name it."""
    text = re.sub(r"\]\([^)]*\)|\\\w+|[*`\[{}$]", "", text)
    return " ".join(text.split())


def sentences(text: str) -> list[str]:
    """Return the sentences of a paragraph; stops within formulas and code end none."""
    hidden = re.sub(r"\$[^$]*\$|`[^`]*`", lambda m: m[0].replace(".", "x"), text)
    ends = [m.end() for m in re.finditer(r"(?<=[.!?])[*]{0,3}\s+(?=[A-Z$*`\[“(])", hidden)]
    return [text[a:b].strip() for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]


def cut(caption: str) -> str:
    """Return the first sentences of a caption, as many as fit beside a figure."""
    parts = sentences(caption)
    many = 2  # the figure's number and one sentence
    while many < len(parts) and len(plain(" ".join(parts[: many + 1]))) <= CAPTION:
        many += 1
    return " ".join(parts[:many])
