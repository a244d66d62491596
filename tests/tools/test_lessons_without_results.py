"""Lessons run without kept results: a figure that is not kept is blank, and a sentence says so.

Of a lesson only the cells are run that read results or use what such a cell has made, with what
they need. Nothing is trained: a cell that needs a trained model is left out.
"""

import ast
import re
import shutil
import types

import matplotlib
import pytest

import course_lab
from course_lab import results, untested
from course_lab.notebook_source import FOLDER, code, plain, read, sources, tags

READS = re.compile(r"untested\.|side_by_side\.runs_of")  # in a cell that reads kept results
LESSONS = [path for path in sources(FOLDER) if READS.search(path.read_text("utf-8"))]


class Untrained(Exception):
    """A cell would train a model."""


def names(source: str) -> tuple[set[str], set[str]]:
    """Return the names that a cell binds or changes, and those that it uses."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    bound = {
        node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    bound |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            bound |= {inner.id for inner in ast.walk(node.value) if isinstance(inner, ast.Name)}
    return bound, {node.id for node in nodes if isinstance(node, ast.Name)}


def chosen(cells: list[str]) -> list[str]:
    """Return the cells that read results, those after them that use these, and what they need."""
    told = [names(cell) for cell in cells]
    wanted = [bool(READS.search(cell)) and "import" not in cell for cell in cells]
    made: set[str] = set()
    for number, (bound, used) in enumerate(told):
        wanted[number] |= bool(used & made)
        made = made | bound if wanted[number] else made - bound
    needed: set[str] = set()
    for number in reversed(range(len(cells))):
        bound, used = told[number]
        if wanted[number] or bound & needed:
            wanted[number] = True
            needed |= used
    return [cell for cell, want in zip(cells, wanted, strict=True) if want]


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_runs_without_any_kept_result(path, tmp_path, monkeypatch, capsys):
    shutil.copy(results.kept_folder() / "ngrams.json", tmp_path)  # counting takes seconds
    monkeypatch.setattr(results, "kept_folder", lambda: tmp_path)
    monkeypatch.setattr(course_lab, "run", lambda *args, **options: untrained())
    matplotlib.use("agg")
    cells = [
        plain(cell.source) for _, cell in code(read(path).cells) if "exercise" not in tags(cell)
    ]
    cells = [re.sub(r'(?m)^PROFILE = "quick"', 'PROFILE = "smoke"', cell) for cell in cells]
    lesson = types.ModuleType("lesson").__dict__
    said: list[str] = []
    monkeypatch.setattr(untested, "say", said.append)
    left_out = []
    lost = {  # what the reader's own cells would have made, and cells that train
        name
        for _, cell in code(read(path).cells)
        if "exercise" in tags(cell)
        for name in names(plain(cell.source))[0]
    }
    for cell in chosen(cells):
        try:
            exec(compile(cell, path.name, "exec"), lesson)
        except (Untrained, NameError) as error:
            if isinstance(error, NameError):
                assert error.name in lost, f"{error!r}: {cell}"
            left_out.append(f"{error!r}: {cell}")
            lost |= names(cell)[0]
            for name in names(cell)[0]:  # what it would have made or filled is not there
                if isinstance(lesson.get(name), dict | list | types.NoneType):
                    lesson.pop(name, None)
    missed = [cell for cell in left_out if re.search("untested.read|side_by_side", cell)]
    assert not missed, left_out
    assert any(untested.UNTESTED in sentence for sentence in said)


def untrained():
    """Say that a cell would train."""
    raise Untrained
