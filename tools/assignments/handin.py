"""Hand-ins are read as data: notebooks, claims and weights, each within its size.

Nothing is executed here. A folder of collected work is one notebook, zip or folder a student, under
the names that Moodle, Canvas and nbgrader give to downloads.
"""

import ast
import csv
import io
import json
import re
import unicodedata
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PurePosixPath
from typing import NamedTuple

from course_lib.errors import DAMAGED, CourseError
from tools.assignments import variant

NOTEBOOK = 5 << 20  # bytes: text and figures of a solved notebook stay far below
FILES = 64 << 20  # bytes of all other files together
COUNT = 40  # files of a zip or a folder
KINDS = (".safetensors", ".csv", ".json", ".png", ".txt")
# Names of Moodle and of Canvas: their numbers are their own, and may be another student's id.
NUMBERED = re.compile(r"_\d+_assignsubmission_|^[^\W\d_]+(_LATE)?_\d+_\d+_")


@dataclass
class Submission:
    """The work that one student handed in.

    cells: code and text by step; defined: the last code cell that defines a name; loose: texts of a
    student's own Markdown cells by section, which is a step's name; section: the one that is being
    read; files: by name; variant: the six letters in the notebook; problem: why it cannot be read,
    "" where it can; hints: how many were opened, by step.
    """

    cells: dict[str, str] = field(default_factory=dict)
    defined: dict[str, str] = field(default_factory=dict)
    loose: dict[str, str] = field(default_factory=dict)
    section: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    variant: str = ""
    problem: str = ""
    hints: dict[str, int] = field(default_factory=dict)

    def answer(self, step) -> str:
        """Return the cell that carries the step's id, else the last that defines its name.

        A tagged cell that lost the asked definition, or still has the one that was given out, gives
        way. A text has what its author wrote into other cells of the step's section, too.
        """
        tagged = self.cells.get(step.name, "")
        if step.kind == "manual":
            return "\n\n".join(filter(None, (tagged, self.loose.get(step.name))))
        if step.function not in ("", *defines(tagged)) or blank(tagged, step.function):
            return self.defined.get(step.function, tagged)
        return tagged


def defines(code: str) -> set[str]:
    """Return the names that a cell defines at its top."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    definitions = ast.FunctionDef | ast.ClassDef
    names = {node.name for node in tree.body if isinstance(node, definitions)}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            names |= targets(node)
    return names


def blank(code: str, name: str = "") -> bool:
    """Return whether an answer is still the one that was given out.

    The asked function, or each method of the asked class, does nothing but raise
    NotImplementedError; without a name, each function of the cell. A comment or a guard that says
    so is part of an answer. A cell that only names empty values is blank, too.
    """
    text = code.replace("*Your answer here.*", "")  # below which some write theirs
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    if "raise NotImplementedError" not in text:
        unset = all(is_empty(node.value) for node in assigned) and assigned == tree.body != []
        return not text.strip() or unset
    if any(name and name in targets(node) and not is_empty(node.value) for node in assigned):
        return False  # the asked name is given to something else below
    asked = [node for node in tree.body if getattr(node, "name", None) == name] or [tree]
    nodes = (node for part in asked for node in ast.walk(part))
    bodies = [node.body for node in nodes if isinstance(node, ast.FunctionDef)]
    return bool(bodies) and all(map(is_given, bodies))


def targets(node: ast.Assign) -> set[str]:
    """Return the names that an assignment binds."""
    return {target.id for target in node.targets if isinstance(target, ast.Name)}


def is_empty(value: ast.expr) -> bool:
    """Return whether a literal is empty, or holds nothing but empty ones."""
    if isinstance(value, ast.Dict):
        return all(map(is_empty, value.values))
    if isinstance(value, ast.Tuple | ast.List):
        return all(map(is_empty, value.elts))
    return isinstance(value, ast.Constant) and value.value in ("", None)


def is_given(body: list[ast.stmt]) -> bool:
    """Return whether the body of a function is `raise NotImplementedError(…)` and nothing else."""
    last = body[-1]
    documented = all(isinstance(node, ast.Expr) for node in body[:-1])
    return documented and isinstance(last, ast.Raise) and "NotImplementedError" in ast.dump(last)


def read(path: Path, own: str = "") -> Submission:
    """Return what a path holds; a problem is told in the submission, never raised.

    own: the student's variant, by which one's own notebook is told from a classmate's.
    """
    submission = Submission()
    try:
        if path.is_dir():
            take(submission, folder_files(path), own)
        elif kind(path.name) == ".zip":
            take(submission, zip_files(path), own)
        else:
            take(submission, {path.name: sized(path, NOTEBOOK)}, own)
    except CourseError as error:
        submission.problem = str(error)
    except (*DAMAGED, MemoryError) as error:
        submission.problem = f"{path.name} is damaged: {type(error).__name__}"
    except RuntimeError as error:  # as `zipfile` tells of a password
        submission.problem = f"{path.name} cannot be opened: {error}"
    return submission


def sized(path: Path, most: int) -> bytes:
    """Return a file's content; raise CourseError for one that is too large or leads elsewhere."""
    if path.is_symlink():
        raise CourseError(f"{path.name} is a link; hand in the file itself")
    size = path.stat().st_size
    if size > most:
        raise CourseError(f"{path.name} has {size / 1e6:,.0f} MB, allowed are {most >> 20}")
    return path.read_bytes()


def folder_files(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder and of its zips by their paths, however deep they lie in it."""
    paths = sorted(p for p in folder.rglob("*") if p.is_file() and known(p.relative_to(folder)))
    if len(paths) > COUNT:
        raise CourseError(f"{folder.name} has {len(paths)} files, allowed are {COUNT}")
    packed: dict[str, bytes] = {}
    for path in paths:
        if kind(path.name) == ".zip":
            place = path.relative_to(folder)
            packed |= {(place / name).as_posix(): c for name, c in zip_files(path).items()}
            if sum(map(len, packed.values())) > FILES + COUNT * NOTEBOOK:  # as much as one zip may
                raise CourseError(f"the zips in {folder.name} are too large: hand in one zip")
    plain, total = {}, 0
    for path in paths:
        if kind(path.name) != ".zip":
            is_notebook = kind(path.name) == ".ipynb"
            content = sized(path, NOTEBOOK if is_notebook else FILES - total)
            total += 0 if is_notebook else len(content)
            plain[path.relative_to(folder).as_posix()] = content
    return packed | plain


def kind(name: str) -> str:
    """Return the ending of a file's name, ".ipynb" for A1.IPYNB, too."""
    return PurePosixPath(name).suffix.lower()


def known(place: PurePath) -> bool:
    """Return whether a file may be handed in: by its kind, and where no folder is hidden."""
    hidden = any(part.startswith(".") or part == "__MACOSX" for part in place.parts)
    return kind(place.name) in (*KINDS, ".ipynb", ".zip") and not hidden


def zip_files(path: Path) -> dict[str, bytes]:
    """Return the files of a zip by their paths in it; a member that leads outside is refused."""
    files, total = {}, 0
    with zipfile.ZipFile(io.BytesIO(sized(path, FILES + NOTEBOOK))) as archive:
        for member in archive.infolist():
            place = PurePosixPath(member.filename.replace("\\", "/"))
            if place.is_absolute() or ".." in place.parts:
                raise CourseError(f"{path.name} has a file outside of it: {member.filename!r}")
            if member.is_dir() or not known(place):
                continue
            most = NOTEBOOK if kind(place.name) == ".ipynb" else FILES - total
            with archive.open(member) as stream:
                content = stream.read(most + 1)  # whatever size the archive states
            if len(content) > most:
                raise CourseError(f"{place.name} in {path.name} is larger than is allowed")
            total += len(content) * (kind(place.name) != ".ipynb")
            files[str(place)] = content
            if len(files) > COUNT:
                raise CourseError(f"{path.name} has more than {COUNT} files, which are allowed")
    return files


def take(submission: Submission, files: dict[str, bytes], own: str) -> None:
    """Enter files by their paths into a submission: the notebook's cells, and the rest as it is.

    Of several notebooks, such as one of notes or the one that was given out, the one counts that
    has the student's own variant and something filled in, then the one with the most steps filled
    in; of equal ones the one that lies on top, since what lies beside a zip is newer than what was
    packed into it. Files beside the notebook count before files of the same names in other folders.
    Those beside a notebook of another variant, as of a classmate, do not count.
    """
    notebooks = [path for path in files if kind(path) == ".ipynb"]
    if not notebooks:
        packed = any(kind(path) == ".zip" for path in files)
        inner = ", but a zip lies inside of the zip: unpack the inner zip" * packed
        raise CourseError(f"no notebook (.ipynb) was handed in{inner}")
    found = {path: filled(files[path]) for path in notebooks}
    on_top = sorted(sorted(notebooks, reverse=True), key=depth)
    best = max(on_top, key=lambda path: found[path].rank(own))
    folder = PurePosixPath(best).parent

    # Files of the student's own, the nearest of a name.
    mine = ("", variant.NOBODY, own, found[best].variant)
    foreign = [p for p, one in found.items() if one.variant not in mine and one.done > 0]
    others = {PurePosixPath(path).parent for path in foreign}
    others -= {folder, *folder.parents}
    rest = [p for p in files if kind(p) in KINDS and not others & {*PurePosixPath(p).parents}]
    for path in sorted(rest, key=lambda p: (PurePosixPath(p).parent != folder, depth(p), p)):
        place = PurePosixPath(path)
        submission.files.setdefault(place.stem + kind(path), files[path])
    for cell in cells_of(files[best]):
        enter(submission, cell)


def depth(path: str) -> int:
    """Return how many folders a path has, itself included."""
    return len(PurePosixPath(path).parts)


def cells_of(notebook: bytes) -> list[dict]:
    """Return the cells of a notebook; raise CourseError, or one of DAMAGED, where it has none."""
    content = json.loads(notebook)
    cells = content.get("cells") if isinstance(content, dict) else None
    if not isinstance(cells, list):
        raise CourseError("the notebook has no cells; save it in JupyterLab and hand it in again")
    return [cell for cell in cells if isinstance(cell, dict)]


class Filled(NamedTuple):
    """How much a notebook holds: steps that are filled in, all steps, definitions; its variant."""

    done: int
    steps: int
    names: int
    variant: str

    def rank(self, own: str) -> tuple:
        """Return what decides between notebooks; one of notes has no steps, and defines little."""
        is_own = bool(own) and self.variant in ("", variant.NOBODY, own) and self.done > 0
        return is_own, self.done, self.steps, 0 if self.steps else self.names


def filled(notebook: bytes) -> Filled:
    """Return how much a notebook holds; numbers are −1 where it cannot be read."""
    tried = Submission()
    try:
        for cell in cells_of(notebook):
            enter(tried, cell)
    except (CourseError, *DAMAGED):
        return Filled(-1, -1, -1, "")
    written = [  # in the step's own cell, or in a new one that defines the same name
        not blank(source) or any(not blank(tried.defined.get(n, ""), n) for n in defines(source))
        for source in tried.cells.values()
    ]
    names = sum(not blank(source, name) for name, source in tried.defined.items())
    return Filled(sum(written), len(written), names, tried.variant)


def legible(text: str) -> str:
    """Return a text that any file can hold: half of a character becomes a question mark."""
    return text.encode("utf-8", "replace").decode()


def enter(submission: Submission, cell: dict) -> None:
    """Enter one cell: of a step, of a name, of the variant, or a text of the student's own."""
    source = cell.get("source") or ""
    source = legible("".join(map(str, source)) if isinstance(source, list) else str(source))
    metadata = cell.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    step = metadata.get("step")
    if cell.get("cell_type") == "markdown" and not step:
        if heading := re.match(r"## (\d\.\d+) .*points?\)", source):  # of a question
            submission.section = heading[1]
        elif not blank(source):
            before = submission.loose.get(submission.section)
            texts = filter(None, (before, source))
            submission.loose[submission.section] = "\n\n".join(texts)
    tags = str(metadata.get("tags"))
    if isinstance(step, str) and not any(tag in tags for tag in ("check", "given", "hint")):
        # Of duplicates, one that is filled in; a text that was split into cells is one again.
        before = submission.cells.get(step, "")
        if cell.get("cell_type") == "markdown" and not blank(before) and not blank(source):
            source = before if source.strip() in before else f"{before}\n\n{source}"
        if not blank(source) or step not in submission.cells:
            submission.cells[step] = source
    if cell.get("cell_type") == "code":
        for name in defines(source):
            if not blank(source, name) or name not in submission.defined:
                submission.defined[name] = source
        if named := re.search(r"""(?m)^VARIANT *= *["'] *([A-Za-z]{6}) *["']""", source):
            submission.variant = named[1].lower()
        for step, count in re.findall(r"""(?m)^hint\("\w+", "([\d.]+)", (\d)\)""", source):
            submission.hints[step] = max(int(count), submission.hints.get(step, 0))


# --- tables and the roster -----------------------------------------------------------------------


def table(path: Path) -> list[dict[str, str]]:
    """Return the lines of a CSV by the names of its columns; raise CourseError for no UTF-8."""
    try:
        return list(csv.DictReader(io.StringIO(Path(path).read_text("utf-8-sig"))))
    except UnicodeDecodeError:
        raise CourseError(f"{path} is not in UTF-8: save it as CSV UTF-8, with commas") from None


def write_table(path: Path, rows: Iterable) -> Path:
    """Write a CSV as spreadsheets and platforms read it."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


class Student(NamedTuple):
    """A line of the roster: pseudonym, name, id of the learning platform, variant."""

    student: str
    name: str
    id: str
    variant: str


def roster(path: Path) -> list[Student]:
    """Return the students of a roster, a CSV with the columns student, name, id, variant."""
    try:
        found = [Student(*(line[n].strip() for n in Student._fields)) for line in table(path)]
    except (KeyError, AttributeError, *DAMAGED) as error:
        raise CourseError(
            f"{path} is no roster with the columns student, name, id, variant ({error}); "
            "`python -m tools assignments roster` makes one"
        ) from None
    unlike(found, path)
    return found


def unlike(students: Iterable[Student], path: Path) -> None:
    """Raise CourseError where two lines of a roster have one pseudonym or one id."""
    seen: dict[tuple[str, str], int] = {}
    for number, one in enumerate(students, 2):
        for kind, value in (("pseudonym", one.student), ("id", one.id)):
            first = seen.setdefault((kind, value), number)
            if value and first != number:
                raise CourseError(
                    f"{path}: lines {first} and {number} have the same {kind} {value!r}, so that "
                    "their marks would be one; another secret makes other pseudonyms"
                )


def plain(text: str) -> str:
    """Return a name's letters and digits of any script, without case and accents."""
    text = unicodedata.normalize("NFKD", text).casefold()
    letters = (letter for letter in text if not unicodedata.combining(letter))
    return re.sub(r"[\W_]", "", "".join(letters))


def owner(path: Path, students: list[Student]) -> Student | None:
    """Return whose work a path is: by pseudonym, by name, else by id; None where two may be meant.

    An id tells students of one name apart. Alone it counts where the platform puts no number of
    its own into the name.
    """
    stem = path.name if path.is_dir() else path.stem
    words = stem.split("_")
    names = {plain(stem), plain(words[0])} - {""}
    exact = [s for s in students if s.student in (stem, words[0])]
    by_id = [s for s in students if s.id and s.id in words]
    by_name = [s for s in students if names & spellings(s.name)]
    alone = [] if NUMBERED.search(stem) else by_id
    meant = exact or [s for s in by_name if s in by_id] or by_name or alone
    return meant[0] if len(meant) == 1 else None


def spellings(name: str) -> set[str]:
    """Return a name as platforms spell it: as it is, and with the last names first."""
    words = name.split()
    return {plain("".join(words[k:] + words[:k])) for k in range(len(words))}


class Collected(NamedTuple):
    """A folder of hand-ins: the latest of each student, and the names of all others.

    strangers: of those that are nobody's; older: of those that a later one replaces; unread: of
    files of other kinds.
    """

    latest: dict[Student, Path]
    strangers: list[str]
    older: list[str]
    unread: list[str]


def collected(folder: Path, students: list[Student]) -> Collected:
    """Return each student's latest hand-in by its file's time, and the names of all others."""
    latest: dict[Student, Path] = {}
    strangers, older, unread = [], [], []
    for path in sorted(Path(folder).iterdir()):
        if path.name.startswith("."):
            continue
        if not (path.is_dir() or kind(path.name) in (".ipynb", ".zip")):
            unread.append(path.name)
            continue
        student = owner(path, students)
        if student is None:
            strangers.append(path.name)
        elif student not in latest:
            latest[student] = path
        else:
            early, late = sorted((latest[student], path), key=lambda p: p.stat().st_mtime)
            latest[student] = late
            older.append(early.name)
    return Collected(latest, strangers, older, unread)


def works(folder: Path, students: list[Student]) -> Iterator[tuple[Student, Submission]]:
    """Yield each student with the latest hand-in, one read after the other."""
    for student, path in collected(folder, students).latest.items():
        yield student, read(path, student.variant)
