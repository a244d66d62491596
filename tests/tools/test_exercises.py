"""The exercises of a lesson: found, linted, solved, and wrong answers refused."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

from course_lab.progress import NotRight
from course_lib.errors import CourseError
from tools import exercises

LESSON = "06_turn"
QUESTION = "## Exercises\n\n### 1. How fast?\nAssign `turn`, a function of the radius."
OTHER = "### 2. An open one\nThink.\n\n### 3. Is $W$ square?\nAssign `square`."
SOLUTIONS = """# The answers.
# %% 06.1
turn = lambda rho: 1 / rho**2
# %% 06.1 wrong: one factor too few
turn = lambda rho: 1 / rho
# %% 06.1 wrong: no function
turn = 0.25
# %% 06.3
square = "no"

# %% 06.3 wrong
square = "yes"
"""


def code(source, *tags):
    cell = new_code_cell(source)
    cell.metadata = nbformat.from_dict({"tags": list(tags)} if tags else {})
    return cell


def cells():
    return [
        new_markdown_cell("# Turn\n\n### 9. No exercise"),
        code("from course_lab.progress import check\nfactor = 1"),
        new_markdown_cell(QUESTION),
        code("rho = 2.0"),
        code("turn = None  # a function of rho: the angle", "exercise"),
        code('check("06.1", turn, lambda f: f(rho) == factor / rho**2)'),
        new_markdown_cell(OTHER),
        code("square = None  # yes or no", "exercise"),
        code('progress.check(\n    "06.3", square, lambda _: square == "no"\n)'),
        new_markdown_cell("## What we saw\n\n### 4. Nothing"),
        code("print(turn(1))"),
    ]


@pytest.fixture
def source(tmp_path):
    """The path of the lesson, with solutions beside its folder."""
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions" / f"{LESSON}.py").write_text(SOLUTIONS)
    return tmp_path / "notebooks" / f"{LESSON}.py"


def test_exercises_are_found_with_their_cells():
    lesson = cells()
    one, two, three = exercises.find(LESSON, lesson)
    assert [e.name for e in (one, two, three)] == ["06.1", "06.2", "06.3"]
    assert [e.title for e in (one, two, three)] == ["How fast?", "An open one", "Is $W$ square?"]
    assert [e.open for e in (one, two, three)] == [False, True, False]
    assert one.code == lesson[3:6] and one.answers == [lesson[4]] and one.check is lesson[5]
    assert two.code == [] and three.check is lesson[8]


def test_cells_as_a_notebook_file_has_them_are_found_too():
    lesson = [
        {"cell_type": "markdown", "source": ["## Exercises\n", "### 1. Turn  \n", "now"]},
        {"cell_type": "code", "source": ["x = None\n"], "metadata": {"tags": ["exercise"]}},
        {"cell_type": "code", "source": ['check("02.1", x,\n', "  bool)"], "metadata": {}},
    ]
    (exercise,) = exercises.find("02_cone", lesson)
    assert (exercise.name, exercise.title) == ("02.1", "Turn")
    assert exercise.check is lesson[2]


@pytest.mark.parametrize(
    ("title", "verdict"),
    [
        ("A combination of your own (open-ended)", True),
        ("Open: is a wider $h$ the secret?", True),
        ("What regularizes? (open)", True),
        ("Opening angles", False),
        ("Reopened", False),
    ],
)
def test_the_heading_says_which_exercise_is_open(title, verdict):
    assert exercises.Exercise("06.1", title, []).open == verdict


@pytest.mark.parametrize(
    "text",
    ["", "x = 1", "x = None\ny = None", "x = y = None", "x.y = None", "x: int = None", "x =", "1"],
)
def test_a_cell_for_an_answer_holds_one_name_and_none(text):
    assert exercises.assigned(code(text)) is None


def test_a_complete_lesson_passes(source):
    assert exercises.lint(source, cells()) == []


def changed(number, text, tags=()):
    lesson = cells()
    lesson[number] = code(text, *tags)
    return lesson


def headed(old, new):
    lesson = cells()
    for cell in lesson:
        cell.source = cell.source.replace(old, new)
    return lesson


LACKING = {
    "untagged": (lambda: changed(4, "turn = None"), "06.1 needs one cell tagged `exercise`"),
    "two tagged": (
        lambda: changed(3, "x = None", ["exercise"]),
        "06.1 needs one cell tagged `exercise`",
    ),
    "solved": (
        lambda: changed(4, "turn = 1", ["exercise"]),
        "`name = None  # what to assign`",
    ),
    "no check": (lambda: changed(5, "turn"), '06.1 needs a cell `check("06.1", turn, …)`'),
    "other answer": (
        lambda: changed(5, 'check("06.1", rho, bool)'),
        '06.1 needs a cell `check("06.1", turn, …)`',
    ),
    "other exercise": (
        lambda: changed(5, 'check("06.2", turn, bool)'),
        '06.1 needs a cell `check("06.1", turn, …)`',
    ),
    "no number": (
        lambda: headed("### 3. Is", "### Is"),
        "the exercise 'Is $W$ square?' must be headed `### 3. …`",
    ),
    "number twice": (lambda: headed("### 2. An", "### 1. An"), "headed `### 2. …`"),
    "one more": (
        lambda: [*cells()[:9], new_markdown_cell("### 4. More"), *cells()[9:]],
        "solutions/06_turn.py needs a block `# %% 06.4`",
    ),
    "one less": (lambda: cells()[:6], "solutions/06_turn.py answers 06.3, which"),
}


@pytest.mark.parametrize("item", LACKING)
def test_what_an_exercise_lacks_is_named(source, item):
    lesson, message = LACKING[item]
    found = exercises.lint(source, lesson())
    assert any(message in problem for problem in found), found


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('# %% 06.3\nsquare = "no"\n', "", "wrong answers to 06.3, but no right one"),
        ("# %% 06.1 wrong: one factor", "# %% 06.1: one factor", "two blocks `# %% 06.1`"),
        ("# %% 06.3 wrong\n", "", "needs a block `# %% 06.3 wrong`"),
    ],
)
def test_solutions_are_linted(source, tmp_path, old, new, message):
    assert old in SOLUTIONS
    (tmp_path / "solutions" / f"{LESSON}.py").write_text(SOLUTIONS.replace(old, new))
    (problem,) = exercises.lint(source, cells())
    assert message in problem


def test_without_a_file_every_solution_is_missed(source, tmp_path):
    (tmp_path / "solutions" / f"{LESSON}.py").unlink()
    assert exercises.solutions(source) == {}
    assert [p.split("`")[1] for p in exercises.lint(source, cells())] == ["# %% 06.1", "# %% 06.3"]


def run(lesson):
    """Execute the code cells in turn, as a notebook does."""
    scope = {"__name__": "__main__"}
    exec("from course_lab import progress", scope)
    for cell in lesson:
        if cell.cell_type == "code":
            exec(compile(cell.source, "cell", "exec"), scope)
    return scope


@pytest.fixture
def strict(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_EXERCISES", "strict")
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "nobody"))


def test_solved_lessons_pass_their_checks_and_refuse_wrong_answers(source, strict, capsys):
    lesson = exercises.solve(source, cells())
    assert len(lesson) == len(cells()) + 2
    assert lesson[4].source == "turn = lambda rho: 1 / rho**2"
    scope = run(lesson)
    out = capsys.readouterr().out.splitlines()
    assert out == ["Exercise 06.1 is right.", "Exercise 06.3 is right.", "1.0"]
    assert scope["square"] == "no"  # wrong answers leave no trace


def test_an_unsolved_lesson_fails_strictly(source, strict):
    with pytest.raises(NotRight, match="Exercise 06.1 is not tried yet"):
        run(cells())


@pytest.mark.parametrize(
    ("old", "new", "error", "message"),
    [
        ("1 / rho**2", "2 / rho**2", NotRight, "06.1 is not right yet"),
        ("turn = 0.25", "turn = lambda rho: 0.25", CourseError, "taken for right:\nturn = lambda"),
        ("turn = 0.25", "turn = None", CourseError, "does not assign turn:\nturn = None"),
        ("turn = 0.25", "torn = 0.25", CourseError, "does not assign turn:\ntorn = 0.25"),
        ("turn = 0.25", "turn = lambda rho: roh", NotRight, "NameError: name 'roh'"),
        ("turn = 0.25", "turn = roh", NameError, "roh"),
        ('"yes"', '"no"', CourseError, "taken for right:\nsquare"),
    ],
)
def test_what_solutions_get_wrong_is_noticed(source, strict, tmp_path, old, new, error, message):
    assert old in SOLUTIONS
    (tmp_path / "solutions" / f"{LESSON}.py").write_text(SOLUTIONS.replace(old, new))
    with pytest.raises(error, match=message):
        run(exercises.solve(source, cells()))


@pytest.mark.parametrize("words, fits", [("one factor too few", True), ("too large", False)])
def test_a_refusal_must_say_what_the_catalogue_asks_of_it(strict, words, fits):
    check = 'check("06b.1", turn, lambda f: f(2) == 0.25 or "one factor too few")'
    wrong = f"# says: {words}\nturn = lambda rho: 1 / rho"
    scope = run([code("from course_lab.progress import check")])
    if fits:
        exercises.refuse("turn", [wrong], check, scope)
        return
    with pytest.raises(CourseError, match="one factor too few.*not 'too large'"):
        exercises.refuse("turn", [wrong], check, scope)


def test_a_deeper_notebook_has_exercises_of_its_own(tmp_path):
    found = exercises.find("06b_turn", cells())
    assert [each.name for each in found] == ["06b.1", "06b.2", "06b.3"]
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions" / "06b_turn.py").write_text(SOLUTIONS.replace("06.", "06b."))
    known = exercises.solutions(tmp_path / "notebooks" / "06b_turn.py")
    assert known["06b.1"].wrong == ["turn = lambda rho: 1 / rho", "turn = 0.25"]
