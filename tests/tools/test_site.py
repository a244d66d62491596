"""The website without a browser: what is on the pages, and that nothing comes from elsewhere."""

import html
import json
import re
from html.parser import HTMLParser
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
import site_sample
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from benchmarks import reference_training
from course_lab import comparison, results, tables
from course_lib.errors import CourseError
from tools import cli, lesson_page, reference, site, site_pages

ELSEWHERE = re.compile(r"^\s*(?:https?:)?//", re.I)
HOSTS = re.compile(r"//[\w.-]*(?:cdn|unpkg|googleapis|gstatic|cloudflare|bootstrap)", re.I)
CSS_LOAD = re.compile(r"(?:url\(|@import)\s*[\"']?\s*(?:https?:)?//", re.I)
SCRIPT_LOAD = re.compile(r"(?:fetch|import|importScripts|open)\(?\s*[\"'`](?:https?:)?//", re.I)


class Loads(HTMLParser):
    """Collects what a page makes the browser load from another host (links to follow are fine)."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            follows = tag in {"a", "area"} or (tag == "link" and ("rel", "canonical") in attributes)
            if name in {"src", "srcset", "data", "poster", "href", "action"} and not follows:
                if ELSEWHERE.match(value or ""):
                    self.found.append(f"<{tag} {name}={value}>")
            if name == "style" and CSS_LOAD.search(value or ""):
                self.found.append(f"<{tag} style={value}>")


def loads(text: str, suffix: str) -> list[str]:
    """What a file of the site would load from elsewhere."""
    patterns = {
        ".js": (HOSTS, SCRIPT_LOAD),
        ".css": (CSS_LOAD,),
        ".svg": (CSS_LOAD,),
        ".html": (CSS_LOAD, SCRIPT_LOAD),
    }[suffix]
    found = [match[0] for pattern in patterns for match in pattern.finditer(text)]
    if suffix == ".html":
        page = Loads()
        page.feed(text)
        found += page.found
    return found


@pytest.fixture(scope="module", autouse=True)
def record(tmp_path_factory):
    """A reader's record, in which one exercise of the sample is right."""
    folder = tmp_path_factory.mktemp("progress")
    right = {"01.1": "2026-03-01T12:30+00:00", "99.1": "2026-03-02T12:30+00:00"}
    (folder / "progress.json").write_text(json.dumps(right))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_PROGRESS", str(folder))
        yield


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    executed = site_sample.lessons(folder / "executed")
    return site.build(executed, folder / "site", cli.command_lines()).parent


@pytest.fixture
def source(tmp_path) -> Path:
    """A Sphinx source folder as `build` prepares it before it reads the lessons."""
    (tmp_path / "source" / "lessons").mkdir(parents=True)
    (tmp_path / "source" / "_static" / "figures").mkdir(parents=True)
    return tmp_path / "source"


@pytest.mark.parametrize(
    "text, suffix",
    [
        ("<script src='https://cdn.jsdelivr.net/npm/mathjax@3'></script>", ".html"),
        ("<link rel='stylesheet' href='//fonts.googleapis.com/css2?family=Inter'>", ".html"),
        ("<img src='HTTPS://example.org/a.png'>", ".html"),
        ("<div style=\"background: url('http://example.org/a.png')\"></div>", ".html"),
        ("<script>fetch('https://example.org/data.json')</script>", ".html"),
        ("@import 'https://example.org/a.css';", ".css"),
        ("@font-face { src: url(https://example.org/a.woff2) }", ".css"),
        ("script.src = 'https://unpkg.com/plotly.js'", ".js"),
        ("import('https://example.org/module.js')", ".js"),
    ],
)
def test_what_comes_from_elsewhere_is_recognised(text, suffix):
    assert loads(text, suffix)


def test_links_to_papers_are_no_loads():
    assert not loads("<a href='https://arxiv.org/abs/1611.01462'>paper</a>", ".html")


def test_nothing_on_the_site_comes_from_elsewhere(built):
    files = [f for f in built.rglob("*") if f.suffix in {".html", ".css", ".js", ".svg"}]
    found = {str(f.relative_to(built)): loads(f.read_text("utf-8"), f.suffix) for f in files}
    assert len(files) > 20
    assert not {name: what for name, what in found.items() if what}


def test_everything_a_page_loads_is_there(built):
    for page in [*built.glob("*.html"), *built.glob("[!_]*/*.html")]:
        text = page.read_text("utf-8")
        local = re.findall(r'<(?:img|script|link)\b[^>]*?(?:src|href)="([^"#?:]+)', text)
        assert [name for name in local if not (page.parent / name).exists()] == []


def test_a_lesson_arrives_whole_without_what_readers_should_not_see(built):
    page = (built / "lessons" / "01_small.html").read_text("utf-8")
    assert 'alt="Arrows from one corner: a &quot;narrow cone&quot; &amp; more"' in page
    assert 'width="900" height="600"' in page
    assert page.count('<img class="course-plot"') == 1 and '<canvas id="sample"' in page
    assert "hide-input" in page or "above-input" in page
    for hidden in ("injected", "secret", "not for readers", "widget-view", "NBVAL"):
        assert hidden not in page
    assert "mathjax/startup.js" in page


def test_links_lead_to_pages_or_are_text(built):
    page = (built / "lessons" / "01_small.html").read_text("utf-8")
    assert re.search(r'href="\.\./symbols\.html"[^>]*>(<span[^>]*>)?the symbols', page)
    assert re.search(r'href="20_other\.html#setting"', page)
    assert 'href="https://arxiv.org/abs/1611.01462"' in page
    assert "a file of the repository and" in re.sub(r"\s+", " ", page)


def test_navigation_names_the_parts_in_order(built):
    page = (built / "index.html").read_text("utf-8")
    captions = re.findall(r'class="caption-text">([^<]+)', page)
    assert captions[:2] == ["The problem", "Full-scale training"]
    assert "Does everything a lesson needs arrive on the page?" in page


def test_gallery_shows_a_small_copy_of_the_main_figure(built):
    page = (built / "gallery.html").read_text("utf-8")
    assert page.count('src="_static/figures/01_small.png" alt="Arrows from one corner') == 1
    assert 'href="lessons/01_small.html"' in page.partition("course-card")[2]
    with Image.open(built / "_static" / "figures" / "01_small.png") as picture:
        assert picture.size == (640, 427)


def test_progress_links_every_exercise_and_says_how_it_stands(built):
    page = (built / "progress.html").read_text("utf-8")
    article = re.sub(r"\s+", " ", page.partition("<article")[2].partition("</article")[0])
    assert "1 of 1 exercises are right." in article
    assert 'href="lessons/01_small.html"' in article
    assert re.search(
        r'✓ <a [^>]*href="lessons/01_small.html#small-exercise-1"[^>]*>.*?How <em>long'
        r"</em> is .*?</a>: right, 1 March 2026",
        article,
    )
    assert re.search(r'href="lessons/01_small.html#small-exercise-2"[^>]*>.*?</a>: open', article)
    assert "20_other" not in article  # it has no exercises
    lesson = (built / "lessons" / "01_small.html").read_text("utf-8")
    assert 'id="small-exercise-1"' in lesson and 'id="small-exercise-2"' in lesson
    assert 'href="progress.html"' in (built / "index.html").read_text("utf-8")


def test_every_command_is_described(built):
    page = (built / "commands.html").read_text("utf-8")
    text = html.unescape(re.sub(r"<[^>]*>", "", page))
    programs = {
        "course_lab": ("train", "data fetch", "batch run"),
        "tools": ("course", "notebooks pair"),
        "benchmarks": ("models",),
    }
    for program, commands in programs.items():
        for command in commands:
            assert f'id="{command.replace(" ", "-")}"' in page
            assert f"python -m {program} {command} [OPTIONS]" in text
    assert "--budget <float>" in text and "Minutes; then runs pause" in text
    assert "with --change also what differs" in text  # no dash for two hyphens
    assert 'href="commands.html"' in (built / "index.html").read_text("utf-8")


def test_the_page_of_speeds_has_every_measured_row(tmp_path, monkeypatch):
    """In tables that hold together; without a measurement it says so."""
    site_pages.write_speed(tmp_path)
    text = (tmp_path / "speed.md").read_text("utf-8")
    measured = results.tables("benchmarks/models") | results.tables("benchmarks/layers")
    # each table stands once, below its machine, and above them the bars
    machines = {table["machine"] for table in measured.values()}
    assert text.count("\n### Our bars\n") == len(machines) > 1
    assert text.count("\n### ") == len(measured) + len(machines)
    for part in text.split("\n### Our bars\n")[1:]:  # small vocabularies first
        words = [
            int(n.replace(",", "")) for n in re.findall(r"### Output layers of ([\d,]+)", part)
        ]
        assert words == sorted(words) and words
    for name, table in results.tables("benchmarks/models").items():
        part = text.split(f"## {table['machine']}\n")[1].split("\n## ")[0]
        part = part.split(f"### Models in {name.rpartition('/')[2]}\n")[1].split("\n##")[0]
        for row in table["rows"]:
            # A model is in the tables of speed and of where the time goes, beside a reference, and
            # where its launches were counted.
            more = bool(row.get("reference")) + ("launches" in row)
            times = 2 + more if "model" in row else 1
            assert part.count(f"| `{row.get('model', row.get('method'))}` |") == times
        for table in re.findall(r"(?:^\|.*\n)+", part, re.M):
            assert len({line.count("|") for line in table.splitlines()}) == 1
    monkeypatch.setattr(results, "kept_folder", lambda: tmp_path / "nothing")
    site_pages.write_speed(tmp_path)
    assert "No measurement is kept yet" in (tmp_path / "speed.md").read_text("utf-8")


def test_the_page_of_speeds_says_what_bf16_costs(monkeypatch):
    """By runs of one seed as pairs, beside n-grams; without a kept run the part is missing."""
    scores = {"fp32": {1: 100.0, 2: 104.0, 3: 102.0}, "bf16": {1: 100.1, 2: 103.9, 3: 102.05}}
    outcome = tables.Table(comparison.compare(scores, "fp32", 1.0), {"Kneser-Ney 5": 141.2}, [])
    monkeypatch.setattr(tables, "table_of", lambda plan: outcome)
    heading, about, table = site_pages._cost_of_bf16()
    assert heading.startswith("## What bf16 costs") and "batch run precision" in about
    bf16 = next(line for line in table.splitlines() if line.startswith("| `bf16` |"))
    assert "| +0.02 [" in bf16 and "no difference larger than 1 %" in bf16
    assert "| `Kneser-Ney 5` |" in table
    assert len({line.count("|") for line in table.splitlines()}) == 1

    def refused(plan):
        raise CourseError("no run is done")

    monkeypatch.setattr(tables, "table_of", refused)
    assert site_pages._cost_of_bf16() == []


def test_the_page_of_speeds_sets_each_kept_pair_side_by_side(monkeypatch):
    """The same training by the course and plainly, with how far they are apart."""
    pairs = {1: ([200.0, 150.0], [100.0, 150.0]), 2: ([100.0, 90.0], [200.0, 100.0])}
    monkeypatch.setattr(reference_training, "kept_pairs", lambda: pairs)
    check = {"same_weights": {"segments": 24, "largest_difference": 2e-6}}
    check["iterates"] = {"course": [110.0, 90.0], "plain": [100.0, 100.0]}
    monkeypatch.setattr(results, "read_table", lambda name: check)
    text = "\n".join(site_pages._same_training())
    assert "| `seed 1, epoch 1` | 200.00 | 100.00 | +100.00% |" in text
    assert "| `all seeds, epoch 1` |  |  | +25.00% |" in text
    assert "| `all seeds, epoch 2` |  |  | -5.00% |" in text
    assert "24 segments" in text and "is 2.0e-06" in text
    assert "swings by 20% and 0%" in text and "runs are +0.0% apart" in text
    monkeypatch.setattr(reference_training, "kept_pairs", dict)
    assert site_pages._same_training() == []


def test_an_exercise_not_done_is_to_do(tmp_path, monkeypatch, source):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path))
    path = site_sample.lessons(tmp_path / "executed") / "01_small.ipynb"
    site_pages.write_progress([lesson_page.lesson(path, source)], tmp_path)
    text = (tmp_path / "progress.md").read_text("utf-8")
    assert "**0 of 1 exercises are right.**" in text
    assert "- [How *long* is $w_i$?](project:#01-small-exercise-1): to do\n" in text


def test_search_index_knows_the_words_of_lessons_and_library(built):
    index = (built / "searchindex.js").read_text("utf-8")
    index = json.loads(index.removeprefix("Search.setIndex(").removesuffix(")"))
    pages = index["terms"]["softmax"]
    names = {index["docnames"][page] for page in (pages if isinstance(pages, list) else [pages])}
    assert {"lessons/01_small", "symbols"} <= names
    assert "reference/course_lib.output_layers" in index["docnames"]


def test_the_site_has_no_sources_of_a_build_in_it(built):
    assert not [f for f in built.rglob("*") if f.suffix in {".ipynb", ".doctree", ".md"}]
    size = sum(f.stat().st_size for f in built.rglob("*") if f.is_file())
    assert size < 20e6, f"{size / 1e6:.1f} MB"


def test_a_lesson_that_sphinx_warns_about_is_named_and_the_old_site_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(reference, "write_pages", lambda folder: None)  # most of a build's time
    executed = site_sample.lessons(tmp_path / "executed")
    path = executed / "20_other.ipynb"
    path.write_text(path.read_text().replace("Yes.", "{nosuchrole}`x`"))
    output = tmp_path / "site"
    output.mkdir()
    (output / "index.html").write_text("old")
    with pytest.raises(CourseError, match=r"lessons/20_other.ipynb.*nosuchrole"):
        site.build(executed, output, {})
    assert (output / "index.html").read_text() == "old"


def test_without_an_executed_lesson_the_error_says_what_to_run(tmp_path):
    with pytest.raises(CourseError, match=r"no executed lesson in .*nothing; run .* course"):
        site.build(tmp_path / "nothing", tmp_path / "site", {})


def test_without_the_package_that_carries_mathjax_the_error_says_so(tmp_path, monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(site, "distribution", missing)
    with pytest.raises(CourseError, match="sphinx-mathjax-offline .* tools setup"):
        site.copy_mathjax(tmp_path)


@pytest.mark.parametrize("alt", [None, "  "])
def test_a_figure_without_alternative_text_is_refused(source, tmp_path, alt):
    executed = site_sample.lessons(tmp_path / "executed", alt=alt)
    with pytest.raises(CourseError, match=r"01_small.ipynb: a figure .* `show\(figure\)`"):
        lesson_page.lesson(executed / "01_small.ipynb", source)


def test_a_cell_tagged_gallery_gives_the_thumbnail(source, tmp_path):
    path = site_sample.lessons(tmp_path / "executed") / "01_small.ipynb"
    assert lesson_page.lesson(path, source).alt == site_sample.ALT
    notebook = json.loads(path.read_text())
    for cell in notebook["cells"]:
        if "animate" in "".join(cell["source"]):
            cell["metadata"]["tags"].append("gallery")
    path.write_text(json.dumps(notebook))
    lesson = lesson_page.lesson(path, source)
    assert lesson.alt == "The last position of the dot"
    assert lesson.thumbnail == site_sample.png(640, 320)


@pytest.mark.parametrize(
    "name, part",
    [
        ("01_output_layer", "The problem"),
        ("04_x", "The problem"),
        ("05_x", "The remedies"),
        ("20_train_language_model", "Full-scale training"),
        ("36_x", "Analyses"),
        ("project", "More"),
    ],
)
def test_the_number_of_a_lesson_gives_its_part(name, part):
    assert lesson_page.Lesson(name, "", "", None, "").part == part


def test_title_and_question_are_the_first_two_paragraphs():
    markdown = "# A *title*\n\n> **Question.** *Does* the `word_matrix`\n> fall apart?\n\nMore."
    cells = [{"cell_type": "markdown", "source": [markdown]}]
    title, question = lesson_page.heading(cells, "01_x")
    assert title == "A *title*"
    assert question == "*Does* the `word_matrix` fall apart?"


def test_the_minutes_of_reading_are_those_that_the_lesson_states():
    cells = [{"cell_type": "markdown", "source": ["**Reading.** 26 minutes. **Diff", "iculty.**"]}]
    assert lesson_page.reading_minutes(cells) == 26
    assert lesson_page.reading_minutes([]) == 0


def test_a_lesson_without_a_title_is_named():
    with pytest.raises(CourseError, match="01_x: the lesson has no title"):
        lesson_page.heading([{"cell_type": "markdown", "source": "no title"}], "01_x")


@given(st.text(st.characters(exclude_characters="[")))
def test_text_without_links_is_left_alone(text):
    assert lesson_page.keep_known_links(text, Path("/nonexistent")) == text


DOCSTRING = """Scale `x` < 3 by a_b* and |c|.

1. Not a list: `course`s of ``code``,
which go on here.

    x   an integer

name   aligned

- a list
  of one
"""


def test_a_docstring_is_set_as_it_is_meant():
    """Paragraphs without markup but `code`; indented, aligned and listed lines as they stand."""
    from docutils.core import publish_string

    text = reference.as_rst(DOCSTRING)
    settings = {"halt_level": 2, "report_level": 2}  # warnings are errors
    page = publish_string(text, writer="html5", settings_overrides=settings).decode()
    body = html.unescape(
        re.sub(r"<[^>]*>", "", page.partition("<main>")[2].partition("</main>")[0])
    )
    assert "Scale x < 3 by a_b* and |c|." in body
    assert "1. Not a list: courses of code, which go on here." in body
    for lines in ("\nx   an integer", "\nname   aligned", "\n- a list\n  of one"):
        assert lines in body
    assert page.count('class="docutils literal"') == 3


@given(st.text("ab `*|_\\\\-.:\n<>1)([]"))
def test_no_docstring_is_markup_that_sphinx_warns_about(docstring):
    from docutils.core import publish_doctree

    settings = {"halt_level": 2, "report_level": 5}
    publish_doctree(reference.as_rst(docstring), settings_overrides=settings)


def test_reference_shows_signatures_methods_and_values_by_default(built):
    page = (built / "reference" / "course_lib.output_layers.html").read_text("utf-8")
    for name in ("layer.OutputLayer", "layer.OutputLayer.log_prob", "words.FullWords"):
        assert f'id="course_lib.output_layers.{name}"' in page
    assert "_forward_block" not in page and "Alias for field" not in page
    assert (
        page.count('id="course_lib.output_layers.layer.Softmax"') == 1
    )  # not where it is gathered


@pytest.mark.parametrize("package", reference.PACKAGES)
def test_reference_has_every_public_module_with_its_first_sentence(built, package):
    index = (built / "reference" / "index.html").read_text("utf-8")
    for module in reference.public_modules(package):
        subpackage = len(module.split(".")) > 2 or (site.ROOT / module.replace(".", "/")).is_dir()
        name = ".".join(module.split(".")[: 2 if subpackage else 1])
        page = (built / "reference" / f"{name}.html").read_text("utf-8")
        assert f'id="module-{module}"' in page, module
        assert f"{name}.html" in index
    rows = re.findall(r"<tr.*?</tr>", index, re.S)
    assert len(rows) >= 3 and all(re.search(r"<td><p>\w", row) for row in rows)
