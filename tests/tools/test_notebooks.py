"""Pairs stay pairs, and the linter finds every broken item of the lesson contract."""

import re
import subprocess
import sys

import nbformat
import pytest

from course_lab import notebook_source
from course_lab.plots import schematic
from course_lib.errors import CourseError
from tools import lesson_linter, lesson_way, new_lesson, notebooks

CODE = ("course_lib", "course_lab", "benchmarks", "tools", "tests")

LESSON = f"""# %% [markdown]
# # 2. The cone
#
# **Question.** Why does the cloud of word vectors collapse?

# %% [markdown]
# ## What you will learn
#
# - to see the cone
# - to measure it

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** Lesson 01.
#
# **Reading.** 1 minutes. **Difficulty.** 1 of 3.
#
# | profile | minutes | runs on |
# |---|---|---|
# | `smoke` | 0.1 | anything |
# | `quick` | 2.5 | 2 cores |
# | `standard` | 30 | 2 cores |
# | `full` | 90 | a GPU |
#
# On Google Colab, run this in a first cell and restart the session:
# `{lesson_linter.colab_command()}`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
SEED = 1  # of the initialisation

# %% [markdown]
# ## Predict
#
# How large will the mean cosine be?

# %%
plots.show(
    figure, alt=f"The cloud, {{share:.0%}} of it inside a narrow cone"
)

# %%
# NBVAL_CHECK_OUTPUT
print("a cone:", True)

# %% [markdown]
# **Figure 1.** The cloud lies to one side of the origin.
#
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $W$ | `words` | the word matrix |
# | $h$ | `hidden` | a context |
# | $P(w \\| h)$ | `log_prob` | what is predicted, a \\| b |

# %% [markdown]
# ## Exercises
#
# ### 1. Turn it (open)
#
# *Difficulty 1/3, importance 2/3, five minutes.* Rotate the matrix.
#
# <details><summary>Hint</summary>
#
# Orthogonal matrices keep angles.
#
# </details>
#
# ### 2. Scale it (open)
#
# *Difficulty 2/3, importance 3/3, half an hour.* Double the matrix.
#
# <details><summary>Hint</summary>
#
# Cosines do not change.
#
# </details>

# %% [markdown]
# ## What we saw

# %%
display(Markdown(f"The mean cosine is {{cosine:.2f}}."))

# %% [markdown]
# ## References
#
# - Gao et al. (2019), Representation degeneration.
"""


def write(folder, text=LESSON, name="02_cone"):
    source = folder / f"{name}.py"
    titled = text.replace("# # 2. The cone", f"# # {notebook_source.numeral(name)}. The cone")
    source.write_text(titled, "utf-8")
    notebooks.pair(source)
    fill(source.with_suffix(".ipynb"), {6: ("stream", {"text": "a cone: True"})})
    return executed(source)


def executed(source):
    """As if the outputs beside the source were those of its code."""
    target = source.with_suffix(".ipynb")
    notebook = nbformat.read(target, as_version=4)
    notebook.metadata[notebooks.EXECUTED] = notebook_source.digest(notebook)
    nbformat.write(notebook, target)
    return source


def fill(target, outputs):
    """Give cells of a notebook, by index, an output of this kind and content."""
    notebook = nbformat.read(target, as_version=4)
    for number, (kind, content) in outputs.items():
        notebook.cells[number].outputs = [nbformat.v4.new_output(kind, **content)]
    nbformat.write(notebook, target)


def without(heading):
    """The lesson with one section's heading renamed."""
    return LESSON.replace(f"# ## {heading}\n", f"# ## Not {heading.lower()}\n")


def test_a_good_lesson_passes(tmp_path):
    assert lesson_linter.lint(write(tmp_path)) == []


ASKED = "# *Difficulty 2/3, importance 3/3, half an hour.* Double"
EARLY = "# %%\nprint(1)\n\n"
HINT = "<details><summary>Hint</summary>\n#\n# "
BROKEN = {
    "title": (LESSON.replace("# # 2. The cone", "# The cone"), "start with `# Title`"),
    "number of the title": (LESSON.replace("# # 2. The cone", "# # Cone"), "number, `# 2. Title`"),
    "number of a link": (LESSON.replace("Turn it (open)", "Turn [it](03b_x.ipynb) (open)"), "3b"),
    "foot": (LESSON + '\n# %% [markdown] tags=["way"]\n# → Next: 3\n', "does not lead on"),
    "difficulty": (LESSON.replace(ASKED, "# Double"), "must begin with words as `*Difficulty"),
    "importance": (LESSON.replace("importance 3/3", "importance 4/3"), "must begin with words"),
    "question": (LESSON.replace("**Question.** Why", "Why"), "**Question.**"),
    "question mark": (LESSON.replace("vectors collapse?", "vectors collapses."), "**Question.**"),
    "objectives": (LESSON.replace("# - to measure it\n", ""), "at least two objectives"),
    "prerequisites": (LESSON.replace("**Prerequisites.** ", ""), "**Prerequisites.**"),
    "minutes of a profile": (LESSON.replace("# | `full` | 90 | a GPU |\n", ""), "row `full`"),
    "minutes as a number": (LESSON.replace("| 2.5 |", "| some |"), "row `quick`"),
    "reading minutes": (LESSON.replace("** 1 minutes", "** 9 minutes"), "`**Reading.** 1 minutes"),
    "words": (LESSON.replace("to see the cone", "to see " * 1800), "words, at most 1,800"),
    "lines": (LESSON.replace("SEED = 1  #", "SEED = 1  # x\n" * 250 + "#"), "lines, at most 250"),
    "colab": (LESSON.replace("pip install -q", "pip install"), "Google Colab"),
    "parameters tag": (LESSON.replace('tags=["parameters"]', ""), "tagged `parameters`, found 0"),
    "default profile": (LESSON.replace('"quick"  #', '"smoke"  #'), 'PROFILE = "quick"'),
    "parameter literal": (LESSON.replace("SEED = 1", "SEED = 1 + one"), "a parameter is"),
    "parameter explained": (LESSON.replace("  # of the init", " # "), "a parameter is"),
    "prediction": (LESSON.replace("cosine be?", "cosine be."), "must ask the reader"),
    "result too early": (
        LESSON.replace("# %% [markdown]\n# ## Predict", EARLY + "# %% [markdown]\n# ## Predict"),
        "a result is shown before `## Predict`",
    ),
    "symbol rows": (re.sub(r"# \| \$h\$.*\n", "", LESSON), "three rows"),
    "symbol code": (LESSON.replace("`hidden`", "hidden"), "a row is"),
    "one exercise": (LESSON.replace("# ### 2. Scale it (open)\n", ""), "at least two, each under"),
    "hint": (LESSON.replace(f"{HINT}Cosines", "Cosines"), "'2. Scale it (open)'"),
    "number": (LESSON.replace("2. Scale it", "Scale it"), "must be headed `### 2. …`"),
    "answer": (LESSON.replace("1. Turn it (open)", "1. Turn it"), "02.1 needs one cell tagged"),
    "solution": (LESSON.replace("2. Scale it (open)", "2. Scale it"), "a block `# %% 02.2`"),
    "takeaway": (LESSON.replace('f"The mean cosine', '"The mean cosine'), "computed numbers"),
    "checked cell": (LESSON.replace("# NBVAL_CHECK_OUTPUT\n", ""), "no checked cell"),
    "references": (LESSON.replace("# - Gao", "# Gao"), "`References` needs a list"),
    "long cell": (LESSON.replace('print("a cone:", True)', "x = 1\n" * 15), "16 lines of code"),
    "long line": (LESSON.replace('"a cone:"', f'"{"a" * 70}"'), "at most 75"),
    "alt missing": (re.sub(r"figure, alt=f.*", "figure", LESSON), 'needs alt="…"'),
    "alt too short": (re.sub(r"alt=f.*", 'alt="the cloud"', LESSON), 'needs alt="…"'),
    "no caption": (LESSON.replace("**Figure 1.** The", "The"), "no `**Figure n.** …` follows"),
    "one caption for two": (
        LESSON.replace("# %%\nplots.show", '# %%\nplots.show(figure, alt="a round cloud here")\n\n'
                       "# %%\nplots.show"),
        "no `**Figure n.** …` follows",
    ),
    "caption's number": (LESSON.replace("**Figure 1.**", "**Figure 2.**"), "are numbered [2]"),
    "plt.show": (LESSON.replace('print("a cone:", True)', "plt.show()"), "not `plt.show()`"),
    "image alt": (LESSON.replace("Rotate the matrix.", "![](a.png)"), "without alternative text"),
    "order": (
        LESSON.replace("## Predict", "## SWAP").replace("## Symbols", "## Predict?!").replace(
            "## SWAP", "## Symbols").replace("## Predict?!", "## Predict"),
        "in the order",
    ),
    **{h: (without(h), f"no heading `## {h}`") for h in lesson_linter.LESSON},
}  # fmt: skip


@pytest.mark.parametrize("item", BROKEN)
def test_every_broken_item_of_the_contract_is_found(tmp_path, item):
    text, message = BROKEN[item]
    assert text != LESSON
    found = lesson_linter.lint(write(tmp_path, text))
    assert any(message in problem for problem in found), found
    assert all(problem.startswith("02_cone.py: ") for problem in found)


def test_a_deeper_notebook_has_no_limits_but_states_its_minutes(tmp_path):
    text = LESSON.replace("to see the cone", "to see " * 1800)
    problems = lesson_linter.lint(write(tmp_path, text, "02b_cone"))
    (problem,) = [problem for problem in problems if "**Reading.**" in problem]
    assert "**Reading.** 19 minutes" in problem


def test_a_core_lesson_has_limits(tmp_path):
    text = LESSON.replace("to see the cone", "to see " * 1800)
    problems = lesson_linter.lint(write(tmp_path, text))
    assert any("words, at most 1,800 in a core lesson" in problem for problem in problems)


def test_length_counts_what_a_reader_reads():
    from tools.lesson_length import words

    assert words("Two [words](https://example.org/a/b) here, $x < 1$ and $y > 2$.") == 6
    assert words("![a drawing](a.svg) one <summary>two</summary> `!git clone x` three") == 3


def test_the_drawings_are_those_of_the_code():
    folder = notebook_source.FOLDER / "images"
    drawn = {path.name: path.read_text("utf-8") for path in folder.glob("*.svg")}
    assert drawn == schematic.drawings()


def test_full_scale_notebooks_have_lighter_rules(tmp_path):
    text = without("Exercises").replace("## What you will learn", "## Other")
    assert lesson_linter.lint(write(tmp_path, text, "20_train")) == []
    text = without("References")
    assert "no heading `## References`" in lesson_linter.lint(write(tmp_path, text, "20_train"))[0]


FEET = {
    "02_cone": "→ Next: [3. The cone](03_cone.ipynb)",
    "03_cone": "← Previous: [2. The cone](02_cone.ipynb)\n\n"
    "↓ Deeper: [3b. The cone](03b_cone.ipynb)\n\n→ Next: [20. The cone](20_cone.ipynb)",
    "03b_cone": "↑ Back: [3. The cone](03_cone.ipynb)\n\n→ Next: [20. The cone](20_cone.ipynb)",
    "20_cone": "← Previous: [3. The cone](03_cone.ipynb)",
}


def test_the_foot_of_a_lesson_leads_to_the_lessons_around_it(tmp_path):
    """A core lesson does not lead to the deeper half of another one."""
    for name in FEET:
        write(tmp_path, name=name)
    problems = lesson_linter.lint(tmp_path / "03_cone.py")
    assert problems == [
        "03_cone.py: its foot does not lead on; run `python -m tools notebooks link`"
    ]
    changed = lesson_way.link(tmp_path)
    assert [source.stem for source in changed] == list(FEET)
    for source in changed:
        last = notebook_source.read(source).cells[-1]
        assert (last.source, last.cell_type) == (FEET[source.stem], "markdown")
        notebooks.pair(source)
        assert lesson_linter.lint(source) == []
    assert lesson_way.link(tmp_path) == []
    # A lesson goes, and the feet of its neighbours are written anew.
    (tmp_path / "03b_cone.py").unlink()
    assert [source.stem for source in lesson_way.link(tmp_path)] == ["03_cone"]
    assert "Deeper" not in (tmp_path / "03_cone.py").read_text("utf-8")


def test_a_new_lesson_is_linked_with_the_lessons_around_it(tmp_path):
    folder = tmp_path / "notebooks"
    folder.mkdir()
    older = write(folder)
    new_lesson.write_lesson("13_my_lesson", "Mine", "Why?", folder)
    assert lesson_linter.lint(older) == []
    assert "→ Next: [13. Mine](13_my_lesson.ipynb)" in older.read_text("utf-8")


def links(text):
    """The lessons to which a page links, as (text of the link, number in the file's name)."""
    return re.findall(r"\[([^\]]*)\]\((?:[./\w]*/)?(\d\d[b-z]?)_\w+\.ipynb", text)


def test_the_guide_has_every_lesson_in_the_order_of_the_feet():
    guide = (notebook_source.ROOT / "docs" / "which-lesson.md").read_text("utf-8")
    numbers = [notebook_source.number(path.name) for path in notebook_source.sources()]
    assert links(guide) == [(number, number) for number in numbers]


@pytest.mark.parametrize("folder", ["docs", "."])
def test_every_page_that_links_to_a_lesson_gives_its_number(folder):
    pages = sorted((notebook_source.ROOT / folder).glob("**/*.md" if folder == "docs" else "*.md"))
    read = {"read", "Colab"}  # the README's map, whose rows begin with the file's name
    found = [link for page in pages for link in links(page.read_text("utf-8"))]
    wrong = [(text, n) for text, n in found if text not in read and n.lstrip("0") not in text]
    assert found and not wrong


FIGURE = {"data": {"image/png": "iVBORw0KGgo="}}
LINTED = {
    "a figure in the output has no alternative text": {5: ("display_data", FIGURE)},
    "the committed output is the error ValueError": {5: ("error", {"ename": "ValueError"})},
    "a warning in the output: 'f.py:1: DeprecationWarning'": {
        5: ("stream", {"name": "stderr", "text": "f.py:1: DeprecationWarning"})
    },
    "the output shows an object's address in memory": {
        5: ("display_data", {"data": {"text/plain": "<Legend at 0x7f771bb99ed0>"}})
    },
    "02_cone.ipynb is over 1 MiB": {5: ("stream", {"text": "x" * lesson_linter.SIZE})},
}


@pytest.mark.parametrize("message", LINTED)
def test_outputs_are_linted(tmp_path, message):
    source = write(tmp_path)
    fill(source.with_suffix(".ipynb"), LINTED[message])
    (problem,) = lesson_linter.lint(source)
    assert message in problem


def test_alternative_text_in_the_output_is_seen(tmp_path):
    source = write(tmp_path)
    described = FIGURE | {"metadata": {"image/png": {"alt": "a cone"}}}
    fill(source.with_suffix(".ipynb"), {5: ("display_data", described)})
    assert lesson_linter.lint(source) == []


def test_a_checked_cell_needs_an_output_and_a_lesson_its_notebook(tmp_path):
    source = write(tmp_path)
    source.with_suffix(".ipynb").unlink()
    assert "02_cone.ipynb is missing" in lesson_linter.lint(source)[0]
    notebooks.pair(source)
    assert "cell 7: a checked cell has no output" in lesson_linter.lint(executed(source))[0]


@pytest.mark.parametrize(
    ("old", "new", "stale"),
    [
        ("SEED = 1", "SEED = 2", True),  # a cell whose own output says nothing of it
        ('print("a cone:"', "print('a cone:'", False),
        ("SEED = 1", "SEED  =  1  # again", False),
        ("Rotate the matrix.", "Turn the matrix.", False),
    ],
)
def test_outputs_of_other_code_are_found(tmp_path, old, new, stale):
    source = write(tmp_path)
    assert old in LESSON
    source.write_text(LESSON.replace(old, new), "utf-8")
    notebooks.pair(source)
    found = [p for p in lesson_linter.lint(source) if "those of other code" in p]
    assert bool(found) == stale
    # An execution of the older code does not make them the outputs of the newer one.
    older = nbformat.read(source.with_suffix(".ipynb"), as_version=4)
    nbformat.write(older, tmp_path / "executed.ipynb")
    source.write_text(LESSON.replace(old, new) + "\n# %%\nlater = 1\n", "utf-8")
    notebooks.pair(source, tmp_path / "executed.ipynb")
    assert any("those of other code" in p for p in lesson_linter.lint(source))


def test_minutes_are_read_from_the_table(tmp_path):
    stated = {"smoke": 0.1, "quick": 2.5, "standard": 30.0, "full": 90.0}
    assert notebook_source.minutes(write(tmp_path)) == stated


def test_drift_is_found(tmp_path):
    source = write(tmp_path)
    assert notebooks.check(source) == []
    source.write_text(LESSON.replace("SEED = 1", "SEED = 2"), "utf-8")
    assert notebooks.check(source) == ["02_cone.py, cell 4: text differs from 02_cone.ipynb"]
    source.write_text(LESSON.replace('tags=["parameters"]', ""), "utf-8")
    assert "cell 4: tags differs" in notebooks.check(source)[0]
    source.write_text(LESSON + "\n# %%\nextra = 1\n", "utf-8")
    assert "cells" in notebooks.check(source)[0]
    source.with_suffix(".ipynb").unlink()
    assert "missing" in notebooks.check(source)[0]


def test_pairing_keeps_outputs_of_unchanged_cells_and_is_stable(tmp_path):
    source = write(tmp_path)
    target = source.with_suffix(".ipynb")
    fill(target, {number: ("stream", {"text": f"out {number}"}) for number in (3, 6)})
    source.write_text(LESSON.replace("SEED = 1", "SEED = 2"), "utf-8")
    assert notebooks.pair(source)
    assert not notebooks.pair(source)  # the second time there is nothing to do
    cells = nbformat.read(target, as_version=4).cells
    assert cells[6].outputs[0].text == "out 6"
    assert "SEED = 2" in cells[3].source
    before = target.read_bytes()
    target.unlink()
    notebooks.pair(source)
    notebooks.pair(source, executed=write_executed(tmp_path, before))
    assert nbformat.read(target, as_version=4).cells[6].outputs[0].text == "out 6"


def test_tags_come_from_the_source(tmp_path):
    source = write(tmp_path)
    notebooks.pair(source)
    source.write_text(LESSON.replace('tags=["parameters"]', 'tags=["parameters", "x"]'), "utf-8")
    assert notebooks.pair(source) and notebooks.check(source) == []


def write_executed(folder, content):
    """What papermill makes of a notebook: an injected cell, warnings on stderr."""
    notebook = nbformat.reads(content.decode(), as_version=4)
    injected = nbformat.v4.new_code_cell("PROFILE = 'quick'")
    injected.metadata.tags = ["injected-parameters"]
    notebook.cells.insert(4, injected)
    notebook.cells[7].outputs.append(nbformat.v4.new_output("stream", name="stderr", text="hm"))
    nbformat.write(notebook, folder / "executed.ipynb")
    return folder / "executed.ipynb"


def test_outputs_of_an_execution_come_over_clean(tmp_path):
    source = write(tmp_path)
    executed = write_executed(tmp_path, source.with_suffix(".ipynb").read_bytes())
    notebooks.pair(source, executed)
    cells = nbformat.read(source.with_suffix(".ipynb"), as_version=4).cells
    assert len(cells) == len(notebook_source.read(source).cells)
    assert [len(cell.get("outputs", ())) for cell in cells] == [i == 6 for i in range(len(cells))]


def test_full_scale_notebooks_keep_only_the_outputs_of_checked_cells(tmp_path):
    source = write(tmp_path, name="20_train")
    target = source.with_suffix(".ipynb")
    fill(target, {5: ("stream", {"text": "epoch 1"}), 6: ("stream", {"text": "a cone: True"})})
    notebooks.pair(source)
    cells = nbformat.read(target, as_version=4).cells
    assert (cells[5].outputs, cells[6].outputs[0].text) == ([], "a cone: True")


def test_smoke_copies_inject_the_profile_and_keep_outputs(tmp_path):
    lessons, target = tmp_path / "lessons", tmp_path / "smoke"
    lessons.mkdir()
    target.mkdir()
    (target / "99_gone.ipynb").write_text("{}")
    write(lessons)
    write(lessons, LESSON.replace("SEED = 1", 'FOLDER = ""'), "20_train")
    lesson, train = notebooks.smoke_copies(target, notebook_source.sources(lessons))
    cells = nbformat.read(lesson, as_version=4).cells
    assert cells[4].source == '# Parameters\nPROFILE = "smoke"\n'
    cells = nbformat.read(train, as_version=4).cells
    assert f'FOLDER = "{target / "runs" / "20_train"}"' in cells[4].source
    assert sorted(target.iterdir()) == [lesson, train]
    (lessons / "20_train.ipynb").unlink()
    with pytest.raises(CourseError, match="20_train.ipynb is missing; run"):
        notebooks.smoke_copies(target, notebook_source.sources(lessons))


QUESTION = """# %% [markdown]
# ### 3. Turn it back

# %% tags=["exercise"]
angle = None  # of the turn

# %%
print("tried:", angle)
check("02.3", angle, lambda angle: angle == 1)

# %% [markdown]
# ## What we saw
"""


def test_smoke_copies_have_their_exercises_solved(tmp_path):
    (tmp_path / "solutions").mkdir()
    (tmp_path / "lessons").mkdir()
    answers = "# %% 02.3\nangle = 1\n# %% 02.3 wrong\nangle = 2\n"
    (tmp_path / "solutions" / "02_cone.py").write_text(answers)
    text = LESSON.replace("# %% [markdown]\n# ## What we saw\n", QUESTION)
    source = write(tmp_path / "lessons", text)
    assert notebooks.exercises.lint(source, notebook_source.read(source).cells) == []
    (copy,) = notebooks.smoke_copies(tmp_path / "smoke", [source])
    sources = [cell.source for cell in nbformat.read(copy, as_version=4).cells]
    answer = sources.index("angle = 1")
    assert sources[answer + 1].startswith('print("tried:", angle)')
    assert "refuse('angle', ['angle = 2'], 'print(\"tried:\"" in sources[answer + 2]
    shipped = nbformat.read(source.with_suffix(".ipynb"), as_version=4).cells
    assert "angle = None  # of the turn" in [cell.source for cell in shipped]


@pytest.mark.parametrize("name", ["13_my_lesson", "13b_my_lesson"])
def test_a_new_lesson_lacks_only_what_its_author_writes_and_its_outputs(tmp_path, name):
    """The skeleton keeps the contract; each line with the mark is named until it is written."""
    folder = tmp_path / "notebooks"
    paths = new_lesson.write_lesson(name, "My lesson in NN", "Why?", folder)
    assert [path.suffix for path in paths] == [".py", ".ipynb", ".py"]
    source = paths[0]
    problems = lesson_linter.lint(source)
    outputs = [p for p in problems if "of other code" in p or "has no output to compare" in p]
    unwritten = [p for p in problems if "still to be written" in p]
    marks = source.read_text("utf-8").splitlines()
    assert len(unwritten) == sum("✎" in line for line in marks) > 5
    assert len(outputs) == 2 and sorted(problems) == sorted(outputs + unwritten)
    heading = f"# # {name.partition('_')[0]}. My lesson in NN"
    assert heading in marks and "# **Question.** Why?" in marks
    # Written and executed, it has no problem left.
    source.write_text(source.read_text("utf-8").replace("✎ ", "").replace("  # ✎", ""), "utf-8")
    notebooks.pair(source)
    checked = [c.source[:7] for c in notebook_source.read(source).cells].index("# NBVAL")
    fill(source.with_suffix(".ipynb"), {checked: ("stream", {"text": "close to ten: True"})})
    assert lesson_linter.lint(executed(source)) == []


@pytest.mark.parametrize("names", [("13_core", "13b_deeper"), ("13b_deeper", "13_core")])
def test_a_lesson_and_its_deeper_half_are_two(tmp_path, names):
    folder = tmp_path / "notebooks"
    for name in names:
        new_lesson.write_lesson(name, "One", "Why?", folder)
    with pytest.raises(CourseError, match="the number 13b belongs to the lesson 13b_deeper"):
        new_lesson.write_lesson("13b_again", "One", "Why?", folder)


def test_a_new_lesson_runs_and_its_exercise_is_solved(tmp_path, monkeypatch):
    """In the smoke profile, with the wrong answer refused."""
    from course_lab import plots

    monkeypatch.setenv("COURSE_EXERCISES", "strict")
    monkeypatch.setattr(plots, "show", lambda figure, alt: None)
    source, *_ = new_lesson.write_lesson("13_my_lesson", "Mine", "Why?", tmp_path / "notebooks")
    cells = notebooks.exercises.solve(source, notebook_source.read(source).cells)
    scope = {"__name__": "__main__"}
    for _, cell in notebook_source.code(cells):
        exec(cell.source.replace('PROFILE = "quick"', 'PROFILE = "smoke"'), scope)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("my_lesson", "T", "Why?"), "NN_name, such as 13_my_lesson, not 'my_lesson'"),
        (("13_my lesson", "T", "Why?"), "NN_name"),
        (("13_my_lesson", " ", "Why?"), "title is one line"),
        (("13_my_lesson", "T", "Because."), "ends in a question mark, not 'Because.'"),
        (("02_other", "T", "Why?"), "02 belongs to the lesson 02_cone"),
    ],
)
def test_a_new_lesson_that_cannot_be_is_refused_before_anything_is_written(
    tmp_path, words, message
):
    write(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(CourseError, match=re.escape(message)):
        new_lesson.write_lesson(*words, tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_names_select_notebooks(tmp_path):
    write(tmp_path)
    write(tmp_path, name="20_train")
    assert [p.stem for p in notebook_source.select([], tmp_path)] == ["02_cone", "20_train"]
    assert [p.stem for p in notebook_source.select(["20_train"], tmp_path)] == ["20_train"]
    with pytest.raises(CourseError, match="did you mean 02_cone"):
        notebook_source.select(["02_con"], tmp_path)


@pytest.mark.parametrize("source", notebook_source.sources(), ids=lambda path: path.stem)
def test_committed_lesson_keeps_the_contract(source):
    assert notebooks.check(source) == []
    assert lesson_linter.lint(source) == []


def test_every_committed_notebook_has_a_source():
    found = {path.stem for path in notebook_source.FOLDER.glob("*.ipynb")}
    assert found == {path.stem for path in notebook_source.sources()}


def test_code_is_clean():
    folders = [*CODE, "notebooks", "solutions", "docs"]
    command = [sys.executable, "-m", "ruff", "check", *folders]
    done = subprocess.run(command, cwd=notebook_source.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_code_is_laid_out():
    command = [sys.executable, "-m", "ruff", "format", "--check", *CODE]
    done = subprocess.run(command, cwd=notebook_source.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_every_command_that_a_page_names_exists():
    """Over line ends too: a command may be broken over two lines of a comment."""
    import typer

    from benchmarks.cli import app as benchmarks
    from course_lab.cli import application as lab
    from tools.cli import application as making

    applications = {"course_lab": lab(), "tools": making(), "benchmarks": benchmarks}
    known = {n: typer.main.get_command(a).commands for n, a in applications.items()}
    known["tools"] = known["tools"] | {"setup": None, "clean": None}
    root = notebook_source.ROOT
    pages = [*notebook_source.sources(), *root.glob("docs/**/*.md"), *root.glob("*.md")]
    pages += [*root.glob("solutions/*.py"), *root.glob("data/*.md"), *root.glob("data/plans/*")]
    for page in pages:
        text = re.sub(r"\n#? *", " ", page.read_text("utf-8"))
        words = r"python3? -m (\w+) +`?([\w-]*)(?: +([\w-]+))?"
        for package, name, second in re.findall(words, text):
            assert package != "course_lib", page
            if package in known and name and name[0] != "-":
                assert name in known[package], f"{page}: python -m {package} {name}"
                within = getattr(known[package][name], "commands", None)
                if within and second and second[0] != "-":
                    assert second in within, f"{page}: python -m {package} {name} {second}"
