"""The storeys: which package may import which, and no circle of files anywhere."""

import ast
import subprocess
import sys
from pathlib import Path

import networkx
import pytest

ROOT = Path(__file__).resolve().parents[1]
MAY_IMPORT = {
    "course_lib": {"course_lib"},
    "course_lab": {"course_lib", "course_lab"},
    "benchmarks": {"course_lib", "course_lab", "benchmarks"},
    "tools": {"course_lib", "course_lab", "benchmarks", "tools"},
}
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in MAY_IMPORT
    for path in sorted((ROOT / package).rglob("*.py"))
}


def imported(path: Path, everywhere: bool = True) -> set[str]:
    """Return the project's modules that a file imports; without `everywhere`, as it is loaded."""
    tree = ast.parse(path.read_text("utf-8"))
    nodes = list(ast.walk(tree)) if everywhere else tree.body
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                names.add(inner if inner in FILES else node.module)
    return {name for name in names if name.partition(".")[0] in {*MAY_IMPORT, "tests", "notebooks"}}


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_only_what_lies_below_it(package):
    for name, path in FILES.items():
        if name.partition(".")[0] == package:
            above = {m for m in imported(path) if m.partition(".")[0] not in MAY_IMPORT[package]}
            assert not above, f"{path} imports {above}"


def test_no_files_import_each_other_in_a_circle():
    arrows = networkx.DiGraph()
    for name, path in FILES.items():
        # a package's __init__ gathers the names of its files, which is no arrow back to them
        arrows.add_edges_from((name, module) for module in imported(path) if module != name)
    circles = [sorted(c) for c in networkx.strongly_connected_components(arrows) if len(c) > 1]
    assert not circles, circles


def test_the_test_sees_an_arrow_that_points_up(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text("def f():\n    from course_lab import results\n")
    assert imported(bad) == {"course_lab.results"}
    assert imported(bad, everywhere=False) == set()


LIGHT = "output_layers models regularizers metrics training evaluation data".split()
# What runs, commands, notebooks and single measures need, but not who imports a layer.
HEAVY = "accelerate typer papermill pydantic seaborn gensim pandas sklearn matplotlib".split()
# SciPy itself takes some milliseconds, and its parts a second together: they wait for their use.
HEAVY += [f"scipy.{part}" for part in ("linalg", "optimize", "sparse", "special", "stats")]


def test_the_library_is_light_to_import():
    """In a process of its own: what other tests have imported does not count."""
    names = [f"course_lib.{name}" for name in (*LIGHT, "metrics.registry")]
    names += [f"course_lib.metrics.{name}" for name in ("rank", "similarity", "subspaces")]
    names += ["course_lib.training.checkpoint", "course_lib.training.batches"]
    names += ["course_lib.evaluation.perplexity", "course_lib.evaluation.generation"]
    code = f"import sys, {', '.join(names)}; print(*[m for m in {HEAVY} if m in sys.modules])"
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert loaded.stdout.split() == []
