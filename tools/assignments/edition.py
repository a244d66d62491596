"""Editions: from a source to what students get, to the solution, and to Gradescope's zip.

Sources are percent-format files whose cells carry tags and a step. Solutions of the large
assignments lie in an instructor's pack, a folder outside of the repository with one file an
assignment, in which a block `# %% 1.1` is the answer to the step.
"""

import json
import re
import shutil
import zipfile
from pathlib import Path

import nbformat

from course_lab import notebook_source
from course_lib.errors import CourseError
from tools.assignments import laws, marking

SOURCES = notebook_source.FOLDER / "assignments" / "source"
HOME = ("__init__.py", "common.py", "home.py", "runs.py")  # of `laws`, for the student's checks
SECRET = re.compile("_(mistakes|claims)")  # of an assignment's files, what students do not get
HINT = re.compile(r"(?s)<details><summary>(.*?)</summary>\n+(.*?)\n+</details>\n*")
NAIVE = " (a naive definition among the laws has the same line: write yours otherwise)"
COMMON = 12  # characters: shorter lines of a solution may occur anywhere


def source(name: str) -> Path:
    """Return the source of an assignment."""
    marking.module(name)  # which raises for an unknown one
    return next(SOURCES.glob(f"{name}_*.py"))


def solutions(name: str, pack: Path | None) -> dict[str, str]:
    """Return the solutions by step: those of the source, and those of the pack."""
    cells = notebook_source.read(source(name)).cells
    own = {c.metadata["step"]: c.source for c in cells if "solution" in notebook_source.tags(c)}
    path = pack / f"{name}.py" if pack else None
    if path and path.is_file():
        blocks = re.split(r"(?m)^# %% (\d\.\d+).*\n", path.read_text("utf-8"))
        own |= {step: code.strip() for step, code in zip(blocks[1::2], blocks[2::2], strict=True)}
    return own


def hints(name: str) -> dict[str, list[tuple[str, str]]]:
    """Return the hints by step, title and text, which a source folds below its questions."""
    cells = notebook_source.read(source(name)).cells
    folded = {asked(cell): HINT.findall(cell.source) for cell in cells}
    return {step: pairs for step, pairs in folded.items() if pairs}


def asked(cell) -> str:
    """Return the step that a cell's heading names, "" where it names none."""
    heading = re.match(r"## (\d\.\d+) ", cell.source)
    return heading[1] if heading else ""


def opened(name: str, cells: list) -> list:
    """Return the cells with the hints taken out; a cell below the question opens them.

    What a browser unfolds leaves no trace. The number in this cell does, and the dashboard has it.
    """
    made = []
    for cell in cells:
        made.append(cell)
        if HINT.search(cell.source):
            step = asked(cell)
            cell.source = HINT.sub("", cell.source).rstrip()
            cell_id = f"hint-{step.replace('.', '-')}"
            own = {"metadata": {"tags": ["hint"], "step": step}, "id": cell_id}
            made.append(nbformat.v4.new_code_cell(f'hint("{name}", "{step}", 0)', **own))
    return made


def notebook(name: str, answers: dict[str, str] | None = None):
    """Return the student's notebook, or with `answers` the solution.

    Its cells carry nbgrader's metadata: an answer is graded by hand, which is where our marks go,
    and everything else is locked.
    """
    points = {step.name: step.points for step in marking.module(name).STEPS}
    book = notebook_source.read(source(name))
    book.cells = [c for c in book.cells if "solution" not in notebook_source.tags(c)]
    book.cells = opened(name, book.cells)
    for cell in book.cells:
        tags = notebook_source.tags(cell)
        kind = next((t for t in ("answer", "manual", "check", "hint") if t in tags), "given")
        step = cell.metadata.get("step")
        graded = kind in ("answer", "manual")
        if graded and answers and step in answers:
            cell.source = answers[step]
        locked = cell.cell_type == "code" and kind != "hint" and "VARIANT =" not in cell.source
        if graded or locked:
            label = step.replace(".", "-") if step else cell["id"]
            cell.metadata["nbgrader"] = {
                "grade": graded,
                "solution": graded,
                "locked": not graded,
                "task": False,
                "grade_id": f"{kind}-{label}",
                "schema_version": 3,
                "cell_type": cell.cell_type,
            }
        if graded:
            cell.metadata["nbgrader"]["points"] = points[step]
    nbformat.validate(book)
    return book


def leaks(folder: Path, answers: dict[str, str]) -> list[str]:
    """Return the lines of solutions that stand in a student's files, which should be none."""
    lines = {}
    for step, code in answers.items():
        for line in code.splitlines():
            plain = re.sub(r"\s+", "", line.partition("#")[0])
            if len(plain) >= COMMON and not plain.startswith(("def", "import", "from", "return")):
                lines[plain] = f"{step}: {line.strip()}"
    problems = []
    for path in sorted(filter(Path.is_file, folder.rglob("*"))):
        content = re.sub(r"\s+", "", path.read_text("utf-8", "replace"))
        leaked = [told for line, told in lines.items() if line in content]
        why = NAIVE if path.parent.name == "laws" else ""
        problems += [f"{path.name} has a line of {told}{why}" for told in leaked]
    return problems


def write_student(name: str, folder: Path) -> None:
    """Write the folder that students get: the notebook, and the laws that its checks call."""
    package = Path(laws.__file__).parent
    target = folder / "tools" / "assignments" / "laws"
    target.mkdir(parents=True)
    nbformat.write(notebook(name), folder / f"{name}.ipynb")
    for parent in (target.parent, target.parent.parent):
        (parent / "__init__.py").write_text("")
    shutil.copy(package.parent / "variant.py", folder / "tools" / "assignments")
    own = [p.name for p in package.glob(f"{name.lower()}*.py") if not SECRET.search(p.name)]
    for file in (*HOME, *own):
        shutil.copy(package / file, target)
    folded = json.dumps(hints(name), ensure_ascii=False, indent=1)
    (target / f"{name.lower()}_hints.json").write_text(folded, "utf-8")


def write(name: str, folder: Path, pack: Path | None = None) -> list[Path]:
    """Write the editions of an assignment into a folder: student, solution, Gradescope.

    pack: the instructor's folder of solutions. Where neither pack nor source has any, no solution
    is written. Raises CourseError, and writes nothing, where a student's file has a line of one, or
    where the folder holds other things than earlier editions, which are replaced.
    """
    folder = folder.resolve()
    if folder.exists() and any(folder.iterdir()) and not (folder / "gradescope.zip").exists():
        raise CourseError(f"{folder} holds other files, which would be lost: name a new folder")
    answers = solutions(name, pack)
    made = folder.with_name(f".{folder.name}-new")
    shutil.rmtree(made, ignore_errors=True)
    write_student(name, made / "student")
    found = leaks(made / "student", answers)
    if found:
        shutil.rmtree(made)
        raise CourseError("solutions would leak:\n" + "\n".join(found))
    if answers:
        (made / "solution").mkdir()
        nbformat.write(notebook(name, answers), made / "solution" / f"{name}.ipynb")
    gradescope(name, made / "gradescope.zip")
    shutil.make_archive(str(made / "student"), "zip", made / "student")
    if folder.exists():
        shutil.rmtree(folder)
    shutil.move(made, folder)
    return sorted(folder.iterdir())


TORCH = "/autograder/venv/bin/pip install {} --index-url https://download.pytorch.org/whl/cpu\n"


def gradescope(name: str, path: Path) -> None:
    """Write Gradescope's zip: the same laws and catalogue, marked at the level of a container."""
    root = notebook_source.ROOT
    own = root / "tools" / "assignments"
    setup = (own / "templates" / "setup.sh").read_text("utf-8")
    run = (own / "templates" / "run_autograder").read_text("utf-8").format(name=name)
    if any(step.limits.torch for step in marking.module(name).STEPS):
        pinned = (root / "constraints.txt").read_text("utf-8")
        setup += TORCH.format(re.search(r"(?m)^torch==\S+", pinned)[0])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in [*sorted(own.rglob("*.py")), root / "course_lib" / "errors.py"]:
            archive.write(file, file.relative_to(root).as_posix())
        for package in ("tools", "course_lib"):
            archive.writestr(f"{package}/__init__.py", "")
        for script, text in (("setup.sh", setup), ("run_autograder", run)):
            info = zipfile.ZipInfo(script)
            info.external_attr = 0o755 << 16
            archive.writestr(info, text)
