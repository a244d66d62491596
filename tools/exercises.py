"""The exercises of a lesson: where they stand, what checks them, and the course's own answers.

An exercise is a heading `### n. …` under `## Exercises`. Below it, but for the open ones, stand a
cell tagged `exercise` with one line `name = None  # what to assign`, where the reader's answer
goes, and a cell with `check("NN.n", name, …)` (`course_lab.progress`). `solutions/NN_name.py` has
a block `# %% NN.n` for each, code that takes the place of the tagged cell, and blocks
`# %% NN.n wrong`, whose answers the check must refuse. A line `# says: …` in such a block holds
words that the refusal must say. The tests try them all.
"""

import ast
import re
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from course_lab.notebook_source import number as lesson_number
from course_lab.progress import NotRight
from course_lib.errors import CourseError

TAG = "exercise"
HEADING = re.compile(r"(?m)^(##|###) (?:(\d+)\. )?(.+?)\s*$")


class Exercise(NamedTuple):
    """An exercise as it stands in a lesson."""

    name: str  # "06.1"; "06." where the heading has no number
    title: str  # Markdown
    code: list  # its code cells, in order

    @property
    def open(self) -> bool:
        """True for a question that no cell can judge."""
        return bool(re.search(r"\bopen\b", self.title, re.I))

    @property
    def answers(self) -> list:
        """The cells tagged `exercise`; a good exercise has one."""
        return [cell for cell in self.code if TAG in cell["metadata"].get("tags", ())]

    @property
    def check(self):
        """The cell that checks what the first tagged cell assigns, None where there is none."""
        variable = assigned(self.answers[0]) if self.answers else None
        wanted = [repr(self.name), variable]
        for cell in self.code:
            for node in ast.walk(parse(cell)):
                if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("check"):
                    if [ast.unparse(given) for given in node.args[:2]] == wanted:
                        return cell
        return None


class Solution(NamedTuple):
    """Code that takes the place of an exercise's tagged cell: the right answer, and wrong ones."""

    right: str
    wrong: list[str]


def standing(exercise: Exercise, right: dict[str, datetime]) -> str:
    """Return how an exercise stands: "right, 21 November 2026", "to do" or "open".

    right: when each exercise was first right, by name.
    """
    if exercise.name in right:
        when = right[exercise.name]
        return f"right, {when.day} {when:%B %Y}"
    return "open" if exercise.open else "to do"


def count(exercises: list[Exercise], right: dict[str, datetime]) -> str:
    """Return how many of the exercises that can be checked are right: "2 of 3"."""
    names = [each.name for each in exercises if not each.open]
    return f"{sum(name in right for name in names)} of {len(names)}"


def parse(cell) -> ast.Module:
    """Return the syntax tree of a code cell, an empty one where the code has an error."""
    try:
        return ast.parse("".join(cell["source"]))
    except SyntaxError:
        return ast.Module([], [])


def assigned(cell) -> str | None:
    """Return the variable of a cell that holds `variable = None` and nothing else."""
    match parse(cell).body:
        case [ast.Assign(targets=[ast.Name(id=variable)], value=ast.Constant(value=None))]:
            return variable
    return None


def find(lesson: str, cells: list) -> list[Exercise]:
    """Return the exercises of a lesson, in order; `cells` are those of its notebook."""
    exercises: list[Exercise] = []
    inside = False
    for cell in cells:
        if cell["cell_type"] != "markdown":
            if inside and exercises and cell["cell_type"] == "code":
                exercises[-1].code.append(cell)
            continue
        for level, number, title in HEADING.findall("".join(cell["source"])):
            if level == "##":
                inside = title == "Exercises"
            elif inside:
                exercises.append(Exercise(f"{lesson_number(lesson)}.{number}", title, []))
    return exercises


def solutions(source: Path) -> dict[str, Solution]:
    """Return the solutions to the exercises of a lesson, {"06.1": …}, from the folder `solutions`.

    Raises CourseError for an exercise with two right answers or only wrong ones.
    """
    path = source.parent.parent / "solutions" / source.name
    if not path.is_file():
        return {}
    blocks = re.split(r"(?m)^# %% (\d\d[b-z]?\.\d+)( wrong\b)?.*\n", path.read_text("utf-8") + "\n")
    right, wrong = {}, {}
    for name, no, code in zip(blocks[1::3], blocks[2::3], blocks[3::3], strict=True):
        if not no and name in right:
            raise CourseError(f"solutions/{path.name} has two blocks `# %% {name}`")
        right |= {} if no else {name: code.strip()}
        wrong.setdefault(name, []).extend([code.strip()] if no else [])
    for name in wrong.keys() - right:
        raise CourseError(f"solutions/{path.name} has wrong answers to {name}, but no right one")
    return {name: Solution(right[name], wrong[name]) for name in right}


def lint(source: Path, cells: list) -> list[str]:
    """Return what the exercises of a lesson lack, one line each."""
    try:
        known = solutions(source)
    except CourseError as error:
        return [str(error)]
    exercises = find(source.stem, cells)
    place = f"solutions/{source.name}"
    problems = []
    for number, exercise in enumerate(exercises, 1):
        name = exercise.name
        if name != f"{lesson_number(source.stem)}.{number}":
            problems.append(f"the exercise {exercise.title!r} must be headed `### {number}. …`")
        if exercise.open:
            continue
        variable = assigned(exercise.answers[0]) if len(exercise.answers) == 1 else None
        if not variable:
            problems.append(
                f"exercise {name} needs one cell tagged `{TAG}` with the one line "
                "`name = None  # what to assign`"
            )
        elif not exercise.check:
            problems.append(f'exercise {name} needs a cell `check("{name}", {variable}, …)`')
        if name not in known:
            problems.append(f"{place} needs a block `# %% {name}`, the answer to the exercise")
        elif not known[name].wrong:
            problems.append(f"{place} needs a block `# %% {name} wrong`, which the check refuses")
    for name in sorted(known.keys() - {exercise.name for exercise in exercises}):
        problems.append(f"{place} answers {name}, which the lesson does not ask")
    return problems


def solve(source: Path, cells: list[NotebookNode]) -> list[NotebookNode]:
    """Return the cells of a lesson with its solutions in place of the tagged cells.

    They are to be executed under `COURSE_EXERCISES=strict`. After each check comes a cell that
    tries the wrong answers, for which the kernel must find `tools` on its path.
    """
    known = solutions(source)
    trials = {}
    for exercise in find(source.stem, cells):
        if exercise.name in known and (check := exercise.check):
            answer = exercise.answers[0]
            solution = known[exercise.name]
            arguments = assigned(answer), solution.wrong, check.source
            answer.source = solution.right
            line = f"refuse({', '.join(map(repr, arguments))}, globals())"
            text = f"from tools.exercises import refuse\n\n{line}"
            trials[check["id"]] = [new_code_cell(text, metadata={"tags": []})]
    return [each for cell in cells for each in (cell, *trials.get(cell["id"], ()))]


def refuse(variable: str, wrong: list[str], check: str, scope: dict) -> None:
    """Try wrong answers on an exercise's check, which must refuse each of them.

    variable  the name to which an answer assigns
    wrong     the answers, as code
    check     the code of the cell that checks
    scope     the notebook's names; each answer has a copy of its own

    Raises CourseError where an answer is taken for right, and lets through what hides whether it
    is: an error in the answer's own code, and a NameError, which is a misspelt answer.
    """
    for code in wrong:
        trial = {**scope, variable: None}
        exec(code, trial)
        if trial[variable] is None:
            raise CourseError(f"this wrong answer does not assign {variable}:\n{code}")
        try:
            exec(check, trial)
        except NotRight as refusal:
            if isinstance(refusal.__cause__, NameError):
                raise
            said = re.search(r"(?m)^# says: (.+)$", code)
            if said and said[1] not in str(refusal):
                raise CourseError(
                    f"this wrong answer is told {str(refusal)!r}, not {said[1]!r}:\n{code}"
                ) from None
        else:
            raise CourseError(f"this wrong answer is taken for right:\n{code}")
