"""Lessons as files: the `.py` source, its paired `.ipynb`, and the copies that the tests execute.

The percent-format `.py` is the source and always wins; the `.ipynb` beside it is what readers
open, with the outputs of the `quick` profile.
"""

import shutil
from pathlib import Path

import nbformat
from jupytext.combine import combine_inputs_with_outputs

from course_lab.notebook_source import METADATA, digest, full_scale, read, tags
from course_lib.errors import CourseError
from tools import exercises

EXECUTED = "executed"  # where a notebook's metadata has the digest of the code behind its outputs
CHECK = "# NBVAL_CHECK_OUTPUT"  # the first line of a cell whose output the tests compare


def pair(source: Path, executed: Path | None = None) -> bool:
    """Bring the `.ipynb` beside `source` up to date; return whether that changed the file.

    Outputs of unchanged cells stay, or come from the notebook `executed`, whose code's digest is
    kept with them. Of full-scale notebooks only those of checked cells are kept.
    """
    target = source.with_suffix(".ipynb")
    before = target.read_text("utf-8") if target.is_file() else None

    # The outputs, from an execution or from the older pair.
    notebook = read(source)
    identity = [(cell["id"], tags(cell)) for cell in notebook.cells]
    metadata = dict(METADATA)
    if executed:
        outputs = nbformat.read(executed, as_version=4)
        outputs.cells = [c for c in outputs.cells if "injected-parameters" not in tags(c)]
        metadata |= {EXECUTED: digest(outputs)}
        notebook = combine_inputs_with_outputs(notebook, outputs)
    elif before:
        outputs = nbformat.reads(before, as_version=4)
        metadata |= {EXECUTED: outputs.metadata.get(EXECUTED, "")}
        notebook = combine_inputs_with_outputs(notebook, outputs)

    # Names and tags as the source has them, and no outputs that readers should not see.
    for cell, (name, labels) in zip(notebook.cells, identity, strict=True):
        cell["id"] = name
        # jupytext would take the tags of the older notebook, but the .py decides
        cell.metadata = nbformat.from_dict({"tags": list(labels)} if labels else {})
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]
            if full_scale(source) and not cell.source.startswith(CHECK):
                cell.outputs, cell.execution_count = [], None
    notebook.metadata = nbformat.from_dict(metadata)

    after = nbformat.writes(notebook) + "\n"
    if after != before:
        target.write_text(after, "utf-8")
    return after != before


def check(source: Path) -> list[str]:
    """Return how the pair of `source` has drifted apart, one line for each difference."""
    target = source.with_suffix(".ipynb")
    if not target.is_file():
        return [f"{target.name} is missing; run `python -m tools notebooks pair`"]
    cells = read(source).cells
    paired = nbformat.read(target, as_version=4).cells
    problems = []
    if len(cells) != len(paired):
        problems.append(f"{source.name} has {len(cells)} cells, {target.name} has {len(paired)}")
    for number, (cell, other) in enumerate(zip(cells, paired, strict=False), 1):
        differs = {
            "kind": cell.cell_type != other.cell_type,
            "text": cell.source != other.source,
            "tags": tags(cell) != tags(other),
        }
        for what in (name for name, yes in differs.items() if yes):
            problems.append(f"{source.name}, cell {number}: {what} differs from {target.name}")
    return problems


def smoke_copies(target: Path, chosen: list[Path]) -> list[Path]:
    """Write copies of notebooks with PROFILE = "smoke" injected into an emptied folder.

    Outputs come along, so that nbval compares the checked cells with the committed `quick` run. A
    notebook with a parameter FOLDER trains into a fresh one, never going on with an older run.
    Exercises are solved, and their wrong answers tried (`exercises.solve`).
    """
    from papermill import inspect_notebook
    from papermill.iorw import load_notebook_node
    from papermill.parameterize import parameterize_notebook

    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    copies = []
    for source in chosen:
        if not source.with_suffix(".ipynb").is_file():
            raise CourseError(check(source)[0])
        notebook = load_notebook_node(str(source.with_suffix(".ipynb")))
        notebook.cells = exercises.solve(source, notebook.cells)
        parameters = {"PROFILE": "smoke"}
        if "FOLDER" in inspect_notebook(notebook):
            parameters["FOLDER"] = str(target / "runs" / source.stem)
        copies.append(target / source.with_suffix(".ipynb").name)
        nbformat.write(parameterize_notebook(notebook, parameters), copies[-1])
    return copies
