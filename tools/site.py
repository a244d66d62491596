"""The website: executed lessons and the pages under `docs/`, built by Sphinx without a network.

`build` copies `docs/` into a temporary folder, puts each executed notebook beside it in the form
the pages need (`lesson`), writes the pages that depend on what there is (navigation, gallery, API
reference), adds MathJax from the installed package, and runs Sphinx with warnings as errors.
"""

import ast
import base64
import hashlib
import html
import inspect
import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

from course_lib.errors import CourseError
from course_lib.progress import count, recorded, standing
from tools import exercises
from tools.exercises import Exercise

PACKAGE = Path(__file__).resolve().parent
DOCS = PACKAGE.parent / "docs"
PROGRAM = "python -m course_lab"
PARTS = {  # a lesson's part follows from its number
    "The problem": range(1, 5),
    "The remedies": range(5, 20),
    "Full-scale training": range(20, 30),
    "Analyses": range(30, 100),
}
MATHJAX = (
    "startup.js",
    "core.js",
    "input/tex.js",
    "input/tex/extensions",
    "output/svg.js",
    "output/svg/fonts",
    "a11y/assistive-mml.js",
)  # SVG output: needs no web fonts
HIDDEN = {"injected-parameters"}
DROPPED = {"application/vnd.jupyter.widget-view+json", "application/javascript"}


class Lesson(NamedTuple):
    """What the other pages say about a lesson; `thumbnail` is a PNG or None."""

    name: str
    title: str
    question: str
    thumbnail: bytes | None
    alt: str
    exercises: tuple[Exercise, ...] = ()

    @property
    def part(self) -> str:
        number = int(re.match(r"\d*", self.name)[0] or 0)
        return next((part for part, numbers in PARTS.items() if number in numbers), "More")


def build(executed: Path, output: Path, quiet: bool = True) -> Path:
    """Build the site from the executed notebooks `executed/*.ipynb`; returns its `index.html`.

    `output` is replaced when the new site is complete. Raises CourseError when there is no
    executed notebook, a figure has no alternative text, or Sphinx warns.
    """
    executed, output = Path(executed), Path(output)
    notebooks = sorted(executed.glob("*.ipynb"))
    if not notebooks:
        raise CourseError(f"no executed lesson in {executed}; run `python -m tools course`")
    with tempfile.TemporaryDirectory(prefix="course-site-") as folder:
        source, site = Path(folder, "source"), Path(folder, "site")
        shutil.copytree(DOCS, source)
        (source / "lessons").mkdir()
        figures = source / "_static" / "figures"
        figures.mkdir()
        for path in notebooks:  # all names exist before links between lessons are looked up
            (source / "lessons" / path.name).touch()
        lessons = [lesson(path, source) for path in notebooks]
        write_course_pages(lessons, source)
        write_progress(lessons, source / "generated")
        write_commands(source / "generated")
        write_speed(source / "generated")
        write_reference(source / "reference")
        contributing = (PACKAGE.parent / "CONTRIBUTING.md").read_text("utf-8")
        below = re.sub(r"\]\((?!\w+:|[#./])", "](../", contributing)  # the page lies a level deeper
        text = keep_known_links(below, source / "how-to")
        (source / "generated" / "contributing.md").write_text(text, "utf-8")
        guide = source / "which-lesson.md"  # of all lessons, where some may have failed
        above = guide.read_text("utf-8").replace("](../notebooks/", "](notebooks/")
        guide.write_text(keep_known_links(above, source), "utf-8")
        copy_mathjax(source / "_static" / "mathjax")
        sphinx(source, site, Path(folder, "doctrees"), quiet)
        for page in site.rglob("*.html"):
            page.write_text(labelled(page.read_text("utf-8")), "utf-8")
        shutil.rmtree(output, ignore_errors=True)
        output.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(site, output)
    return output / "index.html"


def sphinx(source: Path, site: Path, doctrees: Path, quiet: bool) -> None:
    """Run Sphinx in its own process; a warning is an error that names its file."""
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-b",
        "html",
        "-d",
        str(doctrees),
        str(source),
        str(site),
    ]
    done = subprocess.run(command + ["-q"] * quiet, capture_output=quiet, text=True)
    if done.returncode:
        report = (done.stderr or "see above").replace(f"{source}/", "").strip()
        raise CourseError(f"the website was not built, Sphinx reported:\n{report}")


def labelled(page: str) -> str:
    """A page with what screen readers miss in it: a name for the buttons that fold the navigation,
    no empty headers of tables, no lists of definitions that define nothing (long signatures)."""
    page = page.replace(
        '<summary><span class="toctree-toggle"',
        '<summary aria-label="Show or hide the pages below"><span class="toctree-toggle"',
    )
    page = re.sub(r'<th(?: class="head[^"]*")?>\s*(?:<p>\s*</p>)?</th>', "<td></td>", page)

    def lines(found: re.Match) -> str:
        inner = found[1].replace("<dd>", '<span class="sig-line">').replace("</dd>", "</span>")
        return f'<span class="sig-lines">{inner}</span>'

    return re.sub(r'<dl>\n((?:<dd><em class="sig-param">.*</dd>\n)+)</dl>', lines, page)


def copy_mathjax(target: Path) -> None:
    """Copy the parts of MathJax 3 that the pages load out of the installed package."""
    try:
        package = distribution("sphinx-mathjax-offline")
    except PackageNotFoundError:
        raise CourseError(
            "sphinx-mathjax-offline (MathJax for the website) is not installed; "
            "run `python -m tools setup`"
        ) from None
    origin = Path(package.locate_file("sphinx-mathjax-offline")) / "static" / "mathjax"
    for name in MATHJAX:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (origin / name).is_dir() else shutil.copy
        copy(origin / name, target / name)


# --- lessons -----------------------------------------------------------------------------------


def lesson(path: Path, source: Path) -> Lesson:
    """Write the page's copy of an executed notebook under `source/lessons` and describe it.

    Figures become `<img>` with their alternative text (output metadata `image/png: {alt}`), so
    that Sphinx keeps it; widgets, which a static page cannot show, are dropped.
    """
    notebook = json.loads(path.read_text("utf-8"))
    notebook["metadata"].pop("widgets", None)
    cells = [cell for cell in notebook["cells"] if HIDDEN.isdisjoint(tags(cell))]
    pictures = []  # (tagged for the gallery, PNG, alt)
    for cell in cells:
        if cell["cell_type"] == "markdown":
            cell["source"] = keep_known_links("".join(cell["source"]), source / "lessons")
        else:  # marks for the test runner, not for readers
            cell["source"] = re.sub(r"^# *NBVAL_\w+\n", "", "".join(cell["source"]), flags=re.M)
        for output in cell.get("outputs", ()):
            bundle = output.get("data", {})
            for kind in DROPPED & bundle.keys():
                del bundle[kind]
            if "image/png" in bundle:
                alt = output["metadata"].get("image/png", {}).get("alt", "").strip()
                if not alt:
                    last = "".join(cell["source"]).strip().splitlines()[-1:]
                    raise CourseError(
                        f"{path.name}: a figure without alternative text, in the "
                        f"cell that ends with `{''.join(last)}`; show it with "
                        "`course_lib.plots.show(figure, alt=...)`"
                    )
                png = base64.b64decode("".join(bundle.pop("image/png")))
                pictures.append(("gallery" in tags(cell), png, alt))
                bundle.setdefault("text/html", image(png, alt, source / "_static" / "figures"))
    asked = tuple(exercises.find(path.stem, cells))
    for one in asked:
        name_heading(path.stem, one, cells)
    notebook["cells"] = cells
    (source / "lessons" / path.name).write_text(json.dumps(notebook), "utf-8")
    title, question = heading(cells, path.stem)
    _, png, alt = max(pictures, key=lambda picture: picture[0], default=(False, None, ""))
    return Lesson(path.stem, title, question, png, alt, asked)


def tags(cell: dict) -> list[str]:
    return cell["metadata"].get("tags", [])


def image(png: bytes, alt: str, folder: Path) -> str:
    """Write a figure into `folder`; the `<img>` that shows it in a lesson, its size known."""
    name = hashlib.sha256(png).hexdigest()[:16] + ".png"
    (folder / name).write_bytes(png)
    width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
    return (
        f'<img class="course-plot" src="../_static/figures/{name}" alt="{html.escape(alt)}" '
        f'width="{width}" height="{height}">'
    )


def heading(cells: list[dict], name: str) -> tuple[str, str]:
    """The title and the first paragraph below it, as Markdown on one line."""
    text = "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    found = re.search(r"^# +(.+?)\s*$(.*?)(?=^#|\Z)", text, re.M | re.S)
    if not found:
        raise CourseError(f"{name}: the lesson has no title (a Markdown cell with '# Title')")
    paragraphs = [p for p in re.split(r"\n\s*\n", found[2]) if p.strip()]
    first = paragraphs[0] if paragraphs else ""
    return found[1], " ".join(re.sub(r"^\s*>|\*\*Question\.?\*\*", "", first, flags=re.M).split())


def name_heading(lesson: str, exercise: Exercise, cells: list[dict]) -> None:
    """Give the heading of an exercise a name, to which the page of the reader's progress links."""
    number = exercise.name.partition(".")[2]
    line = re.compile(rf"^### {number}\. {re.escape(exercise.title)}", re.M)
    for cell in cells:
        if cell["cell_type"] == "markdown":
            named = rf"\n({target(lesson, exercise)})=\n\g<0>"
            cell["source"] = line.sub(named, cell["source"])


def target(lesson: str, exercise: Exercise) -> str:
    return f"{lesson}-exercise-{exercise.name.partition('.')[2]}".replace("_", "-")


def keep_known_links(markdown: str, folder: Path) -> str:
    """Relative links that lead to a page of the site; others keep only their text.

    Lessons and CONTRIBUTING.md name `docs/…` and `notebooks/…` as they lie in the repository.
    """

    def replace(link: re.Match) -> str:
        text, target, anchor = link.groups()
        target = re.sub(r"^((?:\.\./)*)docs/", r"\1", target)
        target = re.sub(r"^((?:\.\./)*)notebooks/", r"\1lessons/", target)
        return f"[{text}]({target}{anchor or ''})" if (folder / target).is_file() else text

    return re.sub(r"(?<!!)\[([^\]]*)\]\((?![a-z]+:)([^)#\s]+)(#[^)\s]*)?\)", replace, markdown)


# --- pages that depend on what there is ------------


def write_course_pages(lessons: list[Lesson], source: Path) -> None:
    """Navigation and course map (included by index.md and map.md) and the gallery's cards."""
    folder = source / "generated"
    folder.mkdir()
    navigation, course_map, cards = [], [], []
    for part in [*PARTS, "More"]:
        members = [lesson for lesson in lessons if lesson.part == part]
        if not members:
            continue
        pages = "\n".join(f"lessons/{lesson.name}" for lesson in members)
        navigation.append(f"```{{toctree}}\n:hidden:\n:caption: {part}\n\n{pages}\n```\n")
        rows = [
            f"| [{cell(one.title)}](lessons/{one.name}.ipynb) | {cell(one.question)} |\n"
            for one in members
        ]
        course_map.append(f"## {part}\n\n| lesson | asks |\n|---|---|\n{''.join(rows)}")
        cards += [
            card(lesson, source / "_static" / "figures") for lesson in members if lesson.thumbnail
        ]
    (folder / "navigation.md").write_text("\n".join(navigation), "utf-8")
    (folder / "map.md").write_text("\n".join(course_map), "utf-8")
    grid = f":::::{{container}} course-gallery\n{''.join(cards)}:::::\n"
    (folder / "gallery.md").write_text(grid, "utf-8")


def write_progress(lessons: list[Lesson], folder: Path) -> None:
    """The exercises of every lesson as they stand in the reader's record (for progress.md)."""
    right, parts = recorded(), []
    every = [one for lesson in lessons for one in lesson.exercises]
    for lesson in filter(lambda lesson: lesson.exercises, lessons):
        rows = [
            f"- {'✓ ' * (one.name in right)}[{one.title}]"
            f"(project:#{target(lesson.name, one)}): {standing(one, right)}\n"
            for one in lesson.exercises
        ]
        heading = f"## [{lesson.title}](lessons/{lesson.name}.ipynb)"
        parts.append(f"{heading}\n\n{count(lesson.exercises, right)} right\n\n{''.join(rows)}")
    summary = f"**{count(every, right)} exercises are right.**"
    (folder / "progress.md").write_text("\n".join([summary + "\n", *parts]), "utf-8")


def cell(text: str) -> str:
    """Text for one cell of a Markdown table."""
    return text.replace("|", r"\|")


def card(lesson: Lesson, folder: Path) -> str:
    """A gallery card: the lesson's figure at 640 pixels, its title and its question."""
    from PIL import Image

    picture = Image.open(io.BytesIO(lesson.thumbnail)).convert("RGB")
    picture.thumbnail((640, 640))
    picture.save(folder / f"{lesson.name}.png", optimize=True)
    return (
        f"::::{{container}} course-card\n"
        f'<img src="_static/figures/{lesson.name}.png" alt="{html.escape(lesson.alt)}" '
        f'width="{picture.width}" height="{picture.height}">\n\n'
        f"[{lesson.title}](lessons/{lesson.name}.ipynb)\n\n{lesson.question}\n::::\n"
    )


def write_commands(folder: Path) -> None:
    """Every command with its arguments and options (for commands.md)."""
    import typer

    from course_lab.cli import application

    def described(command, name, above=None):
        here = typer.Context(command, info_name=name, parent=above)
        for below, one in getattr(command, "commands", {}).items():
            yield from described(one, below, here)
        if not hasattr(command, "commands"):
            usage = here.get_usage().removeprefix("Usage: ")
            rows = (record for p in command.params if (record := p.get_help_record(here)))
            items = "".join(f"- `{option}`: {coded(meaning)}\n" for option, meaning in rows)
            title = here.command_path.removeprefix(PROGRAM).strip()
            yield f"## {title}\n\n```text\n{usage}\n```\n\n{coded(command.help)}\n\n{items}"

    def coded(text):  # an option in it, which would get a dash for its hyphens
        return re.sub(r"(?<![\w`-])--\w[\w-]*", r"`\g<0>`", text)

    text = "\n".join(described(typer.main.get_command(application()), PROGRAM))
    (folder / "commands.md").write_text(text, "utf-8")


def write_speed(folder: Path) -> None:
    """The tables that `benchmark models --keep` has kept (for speed.md)."""
    from benchmarks.models import TABLE, ratios
    from course_lab import results

    if not (results.kept_folder() / f"{TABLE}.json").exists():
        (folder / "speed.md").write_text("No measurement is kept yet.\n", "utf-8")
        return
    kept = results.read_table(TABLE)

    def table(heads, rows, rule="---:"):
        named = [[f"`{name}`", *cells] for name, *cells in rows]  # as code, which keeps on one line
        lines = [heads, ["---", *[rule] * (len(heads) - 1)], *named]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"

    made = kept["provenance"]
    text = (
        f"Measured on {made['device']}, {made['threads']} threads, torch "
        f"{made['packages']['torch']}, {kept['rounds']} rounds, commit `{made['commit'][:7]}`.\n"
    )
    for precision, rows in kept["rows"].items():
        models = [row for row in rows if "model" in row]
        layers = [row for row in rows if "method" in row]
        heads = ["", "tokens/s", "plain", "over plain", "of the floor", "MB", "of plain"]
        own = [
            [
                row["model"],
                f"{row['tokens/s']:,.0f}",
                f"{row['plain']:,.0f}",
                f"{row['tokens/s'] / row['plain']:.2f}",
                f"{row['tokens/s'] / row['floor']:.2f}",
                f"{row['MB']:,.0f}",
                f"{row['MB'] / row['plain MB']:.2f}",
            ]
            for row in models
        ]
        text += f"\n## In {precision}\n\n{table(heads, own)}"
        heads = ["", "reference", "our speed over it", "aim", "our memory over it", "aim"]
        beside = [ratios(row, precision) for row in models]
        text += f"\nBeside the references:\n\n{table(heads, beside)}"
        places = [
            [r["model"], ", ".join(f"`{n}` {s:.0%}" for n, s in r["where"].items())] for r in models
        ]
        text += "\nWhere our step spends its time, of that inside of PyTorch's operators:\n\n"
        text += table(["", "operators"], places, ":---")
        if layers:
            steps = [[r["method"], f"{r['ms']:,.0f}", f"{r['of softmax']:.2f}"] for r in layers]
            text += "\nA step of AWD-LSTM on the Penn Treebank with each output layer:\n\n"
            text += table(["", "ms", "over our softmax"], steps)
    (folder / "speed.md").write_text(text, "utf-8")


def write_reference(folder: Path) -> None:
    """API reference from the sources, parsed and never imported: a page for each subpackage."""
    private = {"__init__", "__main__", "bootstrap", "cli", "site"}
    entries = sorted(
        path
        for path in PACKAGE.iterdir()
        if path.stem not in private and (path.suffix == ".py" or (path / "__init__.py").exists())
    )
    for entry in entries:
        modules = [entry] if entry.is_file() else sorted(entry.glob("*.py"))
        text = "\n".join(filter(None, (module_reference(module) for module in modules)))
        page = f"# course_lib.{entry.stem}\n\n{text}"
        (folder / f"{entry.stem}.md").write_text(page, "utf-8")
    names = "\n".join(entry.stem for entry in entries)
    with (folder / "index.md").open("a", encoding="utf-8") as index:
        index.write(f"\n```{{toctree}}\n:maxdepth: 1\n\n{names}\n```\n")


def module_reference(path: Path) -> str:
    """The module's docstring, its public classes with their methods, and its functions."""
    tree = ast.parse(path.read_text("utf-8"))
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    name = name.removesuffix(".__init__")
    public = {node.name: node for node in tree.body if documented(node)}
    title = f"## {name.removeprefix('course_lib.')}\n\n" if name.count(".") > 1 else ""
    if not public and not ast.get_docstring(tree):
        return ""
    parts = [f"{title}```{{py:module}} {name}\n```\n", prose(tree)]
    for node in public.values():
        if isinstance(node, ast.ClassDef):
            methods = [n for n in node.body if documented(n) and not isinstance(n, ast.ClassDef)]
            inner = "".join(directive("method", method, "", 4) for method in methods)
            parts.append(directive("class", node, inner, 5))
        else:
            parts.append(directive("function", node, "", 5))
    return "\n".join(parts)


def documented(node: ast.AST) -> bool:
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return isinstance(node, kinds) and node.name[0] != "_" and bool(ast.get_docstring(node))


def directive(kind: str, node: ast.AST, inner: str, fence: int) -> str:
    ticks = "`" * fence
    return f"{ticks}{{py:{kind}}} {node.name}{signature(node)}\n\n{prose(node)}{inner}{ticks}\n\n"


def signature(node: ast.AST) -> str:
    """`(arguments) -> result`; of a class, what constructs it: `__init__` or its fields."""
    if not isinstance(node, ast.ClassDef):
        method = node.args.args and node.args.args[0].arg in {"self", "cls"}
        del node.args.args[: 1 if method else 0]
        result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        return f"({ast.unparse(node.args)}){result}"
    init = next((n for n in node.body if getattr(n, "name", "") == "__init__"), None)
    if init:
        init.returns = None
        return signature(init)
    fields = [ast.unparse(n) for n in node.body if isinstance(n, ast.AnnAssign)]
    return f"({', '.join(fields)})" if fields else ""


def prose(node: ast.AST) -> str:
    """A docstring: its paragraphs, aligned or indented ones as they stand, `code` set as code."""
    text = html.escape(inspect.cleandoc(ast.get_docstring(node) or ""), quote=False)
    blocks = []
    for paragraph in filter(str.strip, re.split(r"\n\s*\n", text)):
        kind = "pre" if re.search(r"^ |\S  +\S", paragraph, re.M) else "p"
        if kind == "p":
            paragraph = re.sub(r"`+([^`]+)`+", r"<code>\1</code>", paragraph)
        blocks.append(f"<{kind}>{paragraph}</{kind}>")
    inner = f'<div class="docstring">{"".join(blocks)}</div>'
    return f"~~~{{raw}} html\n{inner}\n~~~\n" if blocks else ""
