"""The website's pages that depend on what there is, such as navigation, gallery and commands."""

import html
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from typer.cli import get_docs_for_click

from course_lab import notebook_source
from course_lab.progress import recorded
from course_lib.errors import CourseError
from tools.exercises import count, standing
from tools.lesson_page import PARTS, Lesson, keep_known_links, target

if TYPE_CHECKING:
    from course_lab.tables import Table


def write_course_pages(lessons: list[Lesson], source: Path) -> None:
    """Write the navigation and the map of the course, for index.md, and the gallery's cards."""
    folder = source / "generated"
    navigation = []
    course_map = []
    cards = []
    for part in [*PARTS, "More"]:
        members = [lesson for lesson in lessons if lesson.part == part]
        if not members:
            continue
        pages = "\n".join(f"lessons/{lesson.name}" for lesson in members)
        navigation.append(f"```{{toctree}}\n:hidden:\n:caption: {part}\n\n{pages}\n```\n")
        rows = [
            f"| [{cell(lesson.title)}](lessons/{lesson.name}.ipynb) | {cell(lesson.question)} "
            f"| {lesson.minutes or ''} |\n"
            for lesson in members
        ]
        head = "| lesson | asks | minutes to read |\n|---|---|---|\n"
        course_map.append(f"## {part}\n\n{head}{''.join(rows)}")
        cards += [
            card(lesson, source / "_static" / "figures") for lesson in members if lesson.thumbnail
        ]
    (folder / "navigation.md").write_text("\n".join(navigation), "utf-8")
    (folder / "map.md").write_text("\n".join(course_map), "utf-8")
    grid = f":::::{{container}} course-gallery\n{''.join(cards)}:::::\n"
    (folder / "gallery.md").write_text(grid, "utf-8")


def write_progress(lessons: list[Lesson], folder: Path) -> None:
    """Write the exercises of every lesson as they stand in the reader's record, for progress.md."""
    right = recorded()
    every = [exercise for lesson in lessons for exercise in lesson.exercises]
    parts = []
    for lesson in filter(lambda lesson: lesson.exercises, lessons):
        rows = [
            f"- {'✓ ' * (exercise.name in right)}[{exercise.title}]"
            f"(project:#{target(lesson.name, exercise)}): {standing(exercise, right)}\n"
            for exercise in lesson.exercises
        ]
        heading = f"## [{lesson.title}](lessons/{lesson.name}.ipynb)"
        parts.append(f"{heading}\n\n{count(lesson.exercises, right)} right\n\n{''.join(rows)}")
    summary = f"**{count(every, right)} exercises are right.**"
    (folder / "progress.md").write_text("\n".join([summary + "\n", *parts]), "utf-8")


def cell(text: str) -> str:
    """Return a text as one cell of a Markdown table holds it."""
    return text.replace("|", r"\|")


def card(lesson: Lesson, folder: Path) -> str:
    """Return a gallery card: the lesson's figure at 640 pixels, its title and its question."""
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


def write_commands(commands: dict[str, typer.Typer], folder: Path) -> None:
    """Write every command with its arguments and options, for commands.md."""
    pages = []
    for name, application in commands.items():
        command = typer.main.get_command(application)
        context = typer.Context(command, info_name=name)
        page = get_docs_for_click(obj=command, ctx=context, name=name, indent=1)
        page = re.sub(r"(?m)^\*\*Commands\*\*:\n\n(\* .*\n)+\n", "", page)  # they follow below
        pages.append(re.sub(rf"(?m)^(#+) `{name} (.*)`$", r"\1 \2", page))
    (folder / "commands.md").write_text("\n".join(pages), "utf-8")


def write_guides(source: Path) -> None:
    """Write the pages that name lessons or files of the repository, with the links that lead on."""
    # CONTRIBUTING.md, whose page lies a level deeper than the file.
    contributing = (notebook_source.ROOT / "CONTRIBUTING.md").read_text("utf-8")
    below = re.sub(r"\]\((?!\w+:|[#./])", "](../", contributing)
    text = keep_known_links(below, source / "how-to")
    (source / "generated" / "contributing.md").write_text(text, "utf-8")

    # The guide to all lessons, of which some may have failed.
    guide = source / "which-lesson.md"
    above = guide.read_text("utf-8").replace("](../notebooks/", "](notebooks/")
    guide.write_text(keep_known_links(above, source), "utf-8")


def write_lab_log(folder: Path) -> None:
    """Write what was tried and did not help, for lab-log.md."""
    from course_lab import evidence
    from tools import lab_log

    (folder / "lab-log.md").write_text(lab_log.page(evidence.read()), "utf-8")


def write_speed(folder: Path) -> None:
    """Write the kept tables of `benchmarks models` and `output-layers`, machine by machine."""
    from benchmarks.models import TABLE as MODELS
    from benchmarks.output_layers import TABLE as LAYERS
    from course_lab import results

    parts = []
    models, layers = (results.tables(table.split("/KIND")[0]) for table in (MODELS, LAYERS))
    layers = dict(sorted(layers.items(), key=lambda named: _of_layers(named[0].rpartition("/")[2])))
    measured = {**models, **layers}
    for machine in dict.fromkeys(table["machine"] for table in measured.values()):
        parts.append(f"## {machine}\n")
        parts += _bars({n: table for n, table in measured.items() if table["machine"] == machine})
        for name, table in measured.items():
            if table["machine"] == machine:
                title = name.rpartition("/")[2]
                parts += _speed_of_models(title, table) if name in models else []
                parts += _speed_of_layers(title, table) if name in layers else []
    parts += [*_same_training(), *_cost_of_bf16(), *_cost_of_tf32()]
    text = "\n".join(parts) or "No measurement is kept yet.\n"
    (folder / "speed.md").write_text(text, "utf-8")


def write_examinations(folder: Path) -> None:
    """Write what it takes to examine the packaged models, and what other tools say of them."""
    from benchmarks.examining import BESIDE
    from benchmarks.examining import TABLE as EXAMINED
    from course_lab import results

    kept = results.tables(EXAMINED.split("/KIND")[0])
    beside = kept.pop(BESIDE, None)
    parts = []
    for table in kept.values():
        heads = ["", "words × size", "seconds", "peak memory, GB", "never first"]
        rows = [
            [
                row["model"],
                f"{row['words']:,} × {row['size']}",
                f"{row['seconds']:.0f}",
                f"{row['MB'] / 1024:.1f}",
                "not asked" if row["never first"] is None else f"{row['never first']:,}",
            ]
            for row in table["rows"]
        ]
        parts += [f"On {table['machine']}. {_measured_on(table)}", markdown_table(heads, rows)]
        # verdicts, each once: a search for first places changes none
        said: dict[str, str] = {}
        for row in table["rows"]:
            told = f"{row['verdict']} {' '.join(['*Advice:*', *row['advice']])}"
            said.setdefault(told if row["advice"] else row["verdict"], row["model"])
        verdicts = "\n".join(f"- `{model}`: {told}" for told, model in said.items())
        parts.append(f"What is found, and advised:\n\n{verdicts}\n")
    text = "\n".join(parts) or "No examination is kept yet.\n"
    (folder / "examinations.md").write_text(text, "utf-8")
    (folder / "other-tools.md").write_text(_other_tools(beside), "utf-8")


def _other_tools(table: dict | None) -> str:
    """Return the table of our numbers beside those of IsoScore and WeightWatcher."""
    if table is None:
        return "No comparison is kept yet.\n"
    heads = ["", "IsoScore, ours", "the package", "stable rank, ours", "WeightWatcher", "its α"]
    rows = [
        [
            row["model"],
            f"{row['IsoScore']:.4f}",
            f"{row['their IsoScore']:.4f}",
            f"{row['stable rank']:.4g}",
            f"{row['their stable rank']:.4g}",
            f"{row['alpha']:.2f}",
        ]
        for row in table["rows"]
    ]
    versions = ", ".join(f"{k} {v}" for k, v in table["rows"][0]["versions"].items())
    commit = table["provenance"]["commit"][:7]
    return f"Computed with {versions}, commit `{commit}`.\n\n{markdown_table(heads, rows)}"


def _measured_on(table: dict) -> str:
    """Return a sentence on how a table, or a row of it, was measured."""
    origin = table["provenance"]
    rounds = f"{table['rounds']} round" + "s" * (table["rounds"] > 1)
    return (
        f"Measured with {origin['threads']} threads, torch {origin['packages']['torch']}, "
        f"{rounds}, commit `{origin['commit'][:7]}`.\n"
    )


def _bars(tables: dict[str, dict]) -> list[str]:
    """Return the page's part on which of the course's bars a machine's tables meet."""
    from benchmarks import bars

    judged: list[bars.Judged] = []
    for name, table in tables.items():
        title = name.rpartition("/")[2]
        if "-" in title:
            judged += bars.of_layers(*_of_layers(title), table)
        else:
            judged += bars.of_models(title, table)
    if not judged:
        return []
    rows = [
        [
            bar.what,
            bar.precision,
            f"{bar.measured:.3f}",
            f"{'≤' if bar.at_most else '≥'}\N{NO-BREAK SPACE}{bar.bar:g}",
            "met" if bar.met else "**missed**",
        ]
        for bar in judged
    ]
    told = f"Met: {sum(bar.met for bar in judged)} of {len(judged)}.\n"
    heads = ["", "precision", "measured", "bar", ""]
    return ["### Our bars\n", told, markdown_table(heads, rows, ":---", code=False)]


def _speed_of_models(precision: str, table: dict) -> list[str]:
    """Return the page's parts for whole models in a precision."""
    from benchmarks.models import over_plain, ratios, with_reference

    models = [row for row in table["rows"] if "model" in row]
    layers = [row for row in table["rows"] if "method" in row]
    failed = ", ".join(f"`{name}`" for name in table.get("failed", []))

    # Beside plain PyTorch and the machine's floor.
    heads = ["", "tokens/s", "plain", "over plain", "of the floor", "MB", "of plain"]
    own = [
        [
            row["model"],
            f"{row['tokens/s']:,.0f}",
            f"{row['plain']:,.0f}",
            over_plain(row),
            f"{row['tokens/s'] / row['floor']:.2f}",
            f"{row['MB']:,.0f}",
            f"{row['MB'] / row['plain MB']:.2f}",
        ]
        for row in models
    ]
    parts = [f"### Models in {precision}\n", _measured_on(table), markdown_table(heads, own)]
    if failed:
        parts.append(f"Not in the tables, because the measurement failed: {failed}.\n")
    if any("over plain" in row for row in models):
        parts.append("In brackets: the least and the greatest ratio within a round.\n")

    # How many operators a step starts, which a table from before they were counted lacks.
    counted = [row for row in models if "launches" in row]
    if counted:
        numbers = [
            [row["model"], f"{row['launches']:,}", f"{row['plain launches']:,}"] for row in counted
        ]
        heads = ["", "operators a step starts", "plain"]
        parts.append(
            "Operators; on a GPU, launches of kernels and graphs:\n\n"
            f"{markdown_table(heads, numbers)}"
        )

    # Beside the papers' released code.
    heads = ["", "reference", "our speed over it", "our memory over it"]
    beside = [ratios(row) for row in with_reference(models)]
    parts.append(f"Beside the references:\n\n{markdown_table(heads, beside)}")

    # Where the time goes.
    places = [[row["model"], _operators(row)] for row in models]
    where = "Where our step spends its time, of that inside of PyTorch's operators:"
    parts.append(f"{where}\n\n{markdown_table(['', 'operators'], places, ':---')}")

    # The output layers.
    steps = [[row["method"], f"{row['ms']:,.0f}", f"{row['of softmax']:.2f}"] for row in layers]
    if steps:
        step = "A step of AWD-LSTM on the Penn Treebank with each output layer:"
        parts.append(f"{step}\n\n{markdown_table(['', 'ms', 'over our softmax'], steps)}")
    return parts


def _operators(row: dict) -> str:
    """Return the operators that take a row's time, each with its share."""
    return ", ".join(f"`{name}` {share:.0%}" for name, share in row["where"].items())


def _figure(x: float | None, digits: int) -> str:
    return "" if x is None else f"{x:,.{digits}f}"


def _of_layers(title: str) -> tuple[int, str]:
    """Return words and precision of a table of output layers from its title, words-precision."""
    words, precision = title.split("-")
    return int(words), precision


def _speed_of_layers(title: str, table: dict) -> list[str]:
    """Return the page's part for output layers alone; `title` is words-precision."""
    words, precision = _of_layers(title)
    heads = ["", "ms", "naive ms", "over naive", "over our softmax", "MB", "naive MB", "step"]
    figures = ["ms", "naive ms", "of naive", "of softmax", "MB", "naive MB", "step"]
    rows = [
        [
            row["method"],
            *(_figure(row[name], 0 if name[-2:] in ("ms", "MB") else 2) for name in figures),
        ]
        for row in table["rows"]
    ]
    later: dict[str, list[str]] = {}
    for row in table["rows"]:
        if "provenance" in row:
            later.setdefault(_measured_on(row), []).append(f"`{row['method']}`")
    remarks = [f"Added later, {', '.join(names)}. {told}" for told, names in later.items()]
    for row in table["rows"]:
        if "of floor" in row:  # which tables from before it was measured lack
            remarks.append(
                f"`{row['method']}` reaches {row['of floor']:.2f} of its floor, which is "
                f"{row['floor ms']:,.0f} ms. Its time goes to {_operators(row)}.\n"
            )
    return [
        f"### Output layers of {words:,} words in {precision}\n",
        _measured_on(table),
        *remarks,
        markdown_table(heads, rows),
    ]


def _same_training() -> list[str]:
    """Return the page's part on whether the course trains as a plain loop does, of what is kept."""
    from benchmarks.reference_training import kept_check, kept_pairs

    pairs = kept_pairs()
    if not pairs:
        return []
    rows = []
    apart: dict[int, list[float]] = {}
    for seed, (course, plain) in pairs.items():
        for epoch, (a, b) in enumerate(zip(course, plain, strict=True), 1):
            ratio = a / b - 1
            rows.append([f"seed {seed}, epoch {epoch}", f"{a:.2f}", f"{b:.2f}", f"{ratio:+.2%}"])
            apart.setdefault(epoch, []).append(ratio)
    for epoch, each in apart.items():
        rows.append([f"all seeds, epoch {epoch}", "", "", f"{sum(each) / len(each):+.2%}"])
    check = kept_check()
    once = check["same_weights"]
    looks = list(check["iterates"].values())
    means = [sum(x) / len(x) for x in looks]
    swings = [max(x) - min(x) for x in looks]
    swing = " and ".join(f"{s / m:.0%}" for s, m in zip(swings, means, strict=True))
    return [
        "## The same training\n",
        "`python -m benchmarks training` trains AWD-LSTM on the Penn Treebank for three epochs "
        "twice: by this library, and plainly, by a loop written after the released code around "
        "PyTorch's own LSTM. Both begin with the same weights and draw the same lengths and "
        "masks. Perplexity of the validation split:\n",
        markdown_table(["", "the course", "plainly", "apart"], rows),
        f"On {once['segments']} segments with the same weights and masks the largest difference of "
        f"the two losses is {once['largest_difference']:.1e}. Between single steps the perplexity "
        f"of one run swings by {swing}; over the steps that were looked at the means of the two "
        f"runs are {means[0] / means[1] - 1:+.1%} apart.\n",
    ]


def _cost_of_bf16() -> list[str]:
    """Return the page's part on what bf16 costs in perplexity, if runs of its plan are kept."""
    from course_lab import plans, tables

    try:
        plan = plans.read_plan("precision")
    except CourseError:
        return []
    about = (
        f"{plan.title}. Runs of one seed are pairs. The plan was run by "
        "`python -m course_lab batch run precision`; `batch table precision` prints this table.\n"
    )
    return _compared("What bf16 costs in perplexity", about, lambda: tables.table_of(plan))


def _cost_of_tf32() -> list[str]:
    """Return the page's part on what TF32 costs in perplexity, if runs that imitate it are kept."""
    from benchmarks import tf32

    about = (
        "Only a GPU computes TF32. `python -m benchmarks tf32` trains the same model on a CPU. Of "
        "each number that enters a product, in the backward pass, too, it leaves out the last "
        f"{tf32.DROPPED_BITS} of 23 binary digits, as a tensor core does. A library that rounds "
        "where this cuts changes a number by at most half as much. Runs of one seed are pairs.\n"
    )
    return _compared("What TF32 costs in perplexity", about, tf32.table)


def _compared(heading: str, about: str, compare: Callable[[], "Table"]) -> list[str]:
    """Return a part of a page with the table that `compare` makes; none if nothing is kept."""
    from course_lab import tables

    try:
        table = tables.worded(compare())
    except CourseError:
        return []
    rows = [[name, *row] for name, *row in table.itertuples()]
    return [f"## {heading}\n", about, markdown_table(["", *table.columns], rows)]


def markdown_table(
    heads: list[str], rows: list[list[str]], rule: str = "---:", code: bool = True
) -> str:
    """Return a Markdown table.

    heads  the columns' headings, the first of them empty
    rows   the rows' cells
    rule   how all columns but the first are aligned
    code   whether each row's first cell is set as code, which keeps on one line
    """
    named = [[f"`{name}`" if code else name, *cells] for name, *cells in rows]
    lines = [heads, ["---", *[rule] * (len(heads) - 1)], *named]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
