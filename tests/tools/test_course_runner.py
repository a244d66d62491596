"""The runner: failures named, parameters checked, only what changed is executed again."""

import json
import os

import nbformat
import pytest
from joblib import cpu_count
from typer.testing import CliRunner

from course_lib.errors import CourseError
from tools import cli as command
from tools import run_lessons

PARAMETERS = '# %% tags=["parameters"]\nPROFILE = "quick"  # profile\nSEED = 1  # seed\n\n'
GOOD = PARAMETERS + "# %%\nimport os\nprint(PROFILE, SEED, os.environ['OMP_NUM_THREADS'])\n"
BAD = PARAMETERS + "# %% [markdown]\n# prose\n\n# %%\nvalues = [1]\n\n# %%\nvalues[7]\n"
DEAD = PARAMETERS + "# %%\nimport os\nos._exit(3)\n"
KILLER = PARAMETERS + "# %%\nimport os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n"


@pytest.fixture
def lessons(tmp_path, monkeypatch):
    """Three notebooks; the library does not count as changed while others edit it."""
    monkeypatch.setattr(run_lessons, "library_hash", lambda: "library")
    for name, text in {"01_good": GOOD, "02_bad": BAD, "03_dead": DEAD}.items():
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


def run(folder, **options):
    return run_lessons.run_course(
        run_lessons.notebook_source.sources(folder),
        folder / "out",
        {"PROFILE": "smoke", **options},
        progress=False,
    )


def test_failures_are_named_and_only_what_changed_or_failed_runs_again(lessons):
    good, bad, dead = run(lessons)
    assert (good.status, bad.status, dead.status) == ("done", "failed", "failed")
    assert (bad.cell, bad.error) == (4, "IndexError: list index out of range")
    assert "DeadKernelError" in dead.error
    assert {p.name for p in (lessons / "out").glob("*.ipynb")} == {"01_good.ipynb"}
    executed = lessons / "out" / "01_good.ipynb"
    cells = nbformat.read(executed, as_version=4).cells
    assert cells[-1].outputs[0].text == f"smoke 1 {max(1, cpu_count() // 2)}\n"

    (lessons / "02_bad.py").write_text(GOOD)
    (lessons / "03_dead.py").write_text(GOOD)
    before = executed.read_bytes()
    assert [o.status for o in run(lessons)] == ["unchanged", "done", "done"]
    assert executed.read_bytes() == before
    assert (lessons / "out" / "02_bad.ipynb").read_bytes() == before  # the same source

    (lessons / "01_good.py").write_text(GOOD + "\n# %%\n1 + 1\n")
    (lessons / "out" / "03_dead.done").write_text('{"hash": ')  # cut off while it was written
    assert [o.status for o in run(lessons)] == ["done", "unchanged", "done"]


def test_parameters_are_passed_and_unknown_ones_refused_before_anything_runs(lessons):
    (lessons / "02_bad.py").unlink()
    (lessons / "03_dead.py").unlink()
    with pytest.raises(CourseError, match="parameter of 01_good 'SED'; did you mean SEED"):
        run(lessons, SED=3)
    assert not (lessons / "out").exists()
    assert run(lessons, SEED=3)[0].status == "done"
    cells = nbformat.read(lessons / "out" / "01_good.ipynb", as_version=4).cells
    assert cells[-1].outputs[0].text.startswith("smoke 3 ")
    assert run(lessons, SEED=4)[0].status == "done"  # other parameters, another execution


RUN = """# %% tags=["parameters"]
PROFILE = "quick"  # profile
FOLDER = ""  # of the run

# %%
from pathlib import Path
print("run found:", Path(FOLDER, "run").exists() if FOLDER else "in runs/")
if FOLDER:
    Path(FOLDER).mkdir(parents=True)
    Path(FOLDER, "run").touch()
"""


def test_short_profiles_train_anew_and_long_ones_keep_their_folder(tmp_path, monkeypatch):
    source = tmp_path / "20_train.py"
    source.write_text(RUN)
    for library, profile, found in [
        ("old", "quick", "False"),
        ("new", "quick", "False"),
        ("new", "standard", "in runs/"),
    ]:
        monkeypatch.setattr(run_lessons, "library_hash", lambda library=library: library)
        target = tmp_path / profile
        (outcome,) = run_lessons.run_course([source], target, {"PROFILE": profile}, 1, False)
        assert outcome.status == "done"
        cells = nbformat.read(target / "20_train.ipynb", as_version=4).cells
        assert cells[-1].outputs[0].text == f"run found: {found}\n"
    own = {"PROFILE": "quick", "FOLDER": "mine"}
    assert run_lessons.complete(source, own, tmp_path) == own


def test_a_killed_worker_is_a_failure_of_its_notebook(lessons):
    """Not of those that wait for its place."""
    for name in ("02_bad", "03_dead"):
        (lessons / f"{name}.py").unlink()
    (lessons / "00_killer.py").write_text(KILLER)
    sources = [lessons / "00_killer.py", lessons / "01_good.py"]
    killed, good = run_lessons.run_course(sources, lessons / "out", {"PROFILE": "smoke"}, 1, False)
    assert killed.status == "failed" and "killed" in killed.error
    assert good.status == "done"


def test_workers_must_be_positive(lessons):
    with pytest.raises(CourseError, match="workers must be at least 1"):
        run_lessons.run_course([], lessons / "out", {}, workers=0)


def test_hash_covers_source_library_parameters_and_threads(tmp_path):
    source, library = tmp_path / "01_a.py", tmp_path / "library"
    library.mkdir()
    source.write_text("x = 1")
    (library / "a.py").write_text("1")
    first = run_lessons.library_hash(library)
    (library / "__pycache__").mkdir()
    (library / "__pycache__" / "a.pyc").write_text("anything")
    assert run_lessons.library_hash(library) == first
    (library / "a.py").write_text("2")
    assert run_lessons.library_hash(library) != first
    alone, both = run_lessons.library_hash(source), run_lessons.library_hash(source, library)
    assert len({alone, both, run_lessons.library_hash(library)}) == 3
    hashes = [
        run_lessons.job_hash(source, {"SEED": 1}, 1, "a"),
        run_lessons.job_hash(source, {"SEED": 2}, 1, "a"),
        run_lessons.job_hash(source, {"SEED": 1}, 2, "a"),
        run_lessons.job_hash(source, {"SEED": 1}, 1, "b"),
    ]
    source.write_text("x = 2")
    hashes.append(run_lessons.job_hash(source, {"SEED": 1}, 1, "a"))
    assert len(set(hashes)) == 5
    assert run_lessons.job_hash(source, {"SEED": 1}, 1, "a") == hashes[-1]


def test_a_marker_without_its_notebook_does_not_count(tmp_path):
    job = run_lessons.Job(tmp_path / "01_a.py", tmp_path, {}, 1, "hash")
    assert run_lessons.is_done(job) is None
    (tmp_path / "01_a.done").write_text(json.dumps({"hash": "hash", "minutes": 1}))
    assert run_lessons.is_done(job) is None
    (tmp_path / "01_a.ipynb").write_text("{}")
    assert run_lessons.is_done(job)["minutes"] == 1
    (tmp_path / "01_a.done").write_text(json.dumps({"hash": "other", "minutes": 1}))
    assert run_lessons.is_done(job) is None


def test_table_names_cell_and_error():
    text = run_lessons.table(
        [
            run_lessons.Outcome("01_output_layer", "done", 0.96),
            run_lessons.Outcome("02_cone", "failed", 12.5, 7, "ValueError: no"),
            run_lessons.Outcome("03_why", "failed", 0, None, "DeadKernelError: gone"),
        ]
    )
    assert text.splitlines() == [
        "notebook         minutes  status",
        "01_output_layer      1.0  done",
        "02_cone             12.5  failed  cell 7: ValueError: no",
        "03_why               0.0  failed  DeadKernelError: gone",
    ]


def test_an_error_is_one_short_line_without_colours():
    assert run_lessons.first_line("\x1b[31mValueError\x1b[0m: a\n  b") == "ValueError: a b"
    assert len(run_lessons.first_line("x" * 500)) == 160


@pytest.fixture
def app(monkeypatch, tmp_path):
    """The command line with `build/` elsewhere and the website's build recorded."""
    built = []
    monkeypatch.setattr(command, "build_folder", lambda *parts: tmp_path.joinpath(*parts))
    monkeypatch.setattr(
        "tools.site.build", lambda executed, site, commands: built.append(site) or site
    )
    app = command.application()
    app.built = built
    return app


@pytest.mark.parametrize(
    ("statuses", "code", "sites"),
    [(["done", "done"], 0, 1), (["done", "failed"], 1, 1), (["failed", "failed"], 1, 0)],
)
def test_course_command_exits_non_zero_after_a_failure(app, monkeypatch, statuses, code, sites):
    outcomes = [run_lessons.Outcome(f"0{i}_a", status, 1) for i, status in enumerate(statuses)]
    monkeypatch.setattr(run_lessons, "run_course", lambda *arguments: outcomes)
    result = CliRunner().invoke(app, ["course", "--profile", "smoke"])
    assert result.exit_code == code, result.output
    assert len(app.built) == sites
    assert ("failed: 0" in result.output) == bool(code)
    assert "01_a" in result.output


def test_course_command_passes_typed_parameters(app, monkeypatch):
    seen = {}
    monkeypatch.setattr(
        run_lessons,
        "run_course",
        lambda s, t, p, w: seen.update(p) or [run_lessons.Outcome("a", "done", 0)],
    )
    arguments = ["course", "-p", "SEED=3", "-p", "RECIPE=ptb/vd-lstm-200/tied", "--no-site"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert seen == {"PROFILE": "quick", "SEED": 3, "RECIPE": "ptb/vd-lstm-200/tied"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["course", "--profile", "quik"], "unknown profile 'quik'; did you mean quick"),
        (["course", "-p", "SEED"], "NAME=VALUE, not 'SEED'"),
        (["course", "-p", "SEED={1, 2}"], "or a list or table of such, not {1, 2}"),
        (["course", "-p", "SEED=b'x'"], "or a list or table of such, not b'x'"),
        (["course", "99_none"], "unknown notebook '99_none'"),
        (["site", "--profile", "ful"], "did you mean full"),
        (["notebooks", "outputs", "--profile", "smok"], "did you mean smoke"),
    ],
)
def test_bad_input_is_refused_with_near_matches(app, arguments, message):
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, CourseError) and message in str(result.exception)


@pytest.fixture
def calls(monkeypatch):
    """What the command line asks for: copies (target, sources), and commands (words, options)."""
    calls = []
    monkeypatch.setattr("tools.notebooks.smoke_copies", lambda *given: calls.append(given))
    monkeypatch.setattr(
        command.subprocess, "call", lambda words, **rest: calls.append((words, rest)) or 5
    )
    return calls


def test_test_command_runs_smoke_copies_under_nbval(app, calls, tmp_path):
    result = CliRunner().invoke(app, ["test", "--workers", "1", "--", "-k", "one"])
    (target, sources), (words, rest), (notebooks, _) = calls
    assert result.exit_code == 5
    assert "tests" in words and words[-2:] == ["-k", "one"]
    assert target == tmp_path / "smoke" and str(target) in notebooks and "--nbval-lax" in notebooks
    assert "tools.nbval_sockets" in notebooks and notebooks[-4:-2] == ["-n", "1"]
    assert sources == run_lessons.notebook_source.sources()
    assert rest["env"]["OMP_NUM_THREADS"] == str(cpu_count())
    assert rest["env"]["COURSE_EXERCISES"] == "strict"
    root = str(run_lessons.notebook_source.ROOT)
    assert rest["env"]["PYTHONPATH"].split(os.pathsep)[0] == root == rest["cwd"]


def test_solve_command_runs_the_named_copies_only(app, calls):
    assert CliRunner().invoke(app, ["notebooks", "solve", "02_degeneration"]).exit_code == 5
    (_, sources), (words, rest) = calls
    assert [source.stem for source in sources] == ["02_degeneration"]
    assert "--nbval-lax" in words and rest["env"]["COURSE_EXERCISES"] == "strict"


@pytest.mark.parametrize(("user", "allowed"), [(0, True), (1000, False)])
def test_lab_starts_as_root_too(app, calls, monkeypatch, user, allowed):
    """In a container, where JupyterLab refuses root unless it is told."""
    monkeypatch.setattr(command.os, "geteuid", lambda: user, raising=False)
    assert CliRunner().invoke(app, ["lab"]).exit_code == 5
    ((words, _),) = calls
    assert ("--allow-root" in words) == allowed and "jupyterlab" in words


ASKED = """# %% [markdown]
# # The cone
#
# Why?
#
# ## Exercises
#
# ### 1. Turn it

# %% tags=["exercise"]
angle = None  # of the turn

# %% [markdown]
# ### 2. An open one
"""


def test_progress_command_lists_every_exercise(app, monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path))
    sources = [tmp_path / "02_cone.py", tmp_path / "20_train.py"]
    sources[0].write_text(ASKED)
    sources[1].write_text(GOOD)
    monkeypatch.setattr(run_lessons.notebook_source, "sources", lambda: sources)

    def printed():
        lines = CliRunner().invoke(app, ["progress"]).output.splitlines()
        return [" ".join(line.split()) for line in lines]

    head, one, two, total = printed()
    assert (head, one, two) == ("The cone (0 of 1 right)", "02.1 Turn it to do",
                                "02.2 An open one open")  # fmt: skip
    assert total == f"0 of 1 exercises are right; the record is {tmp_path / 'progress.json'}"
    (tmp_path / "progress.json").write_text('{"02.1": "2026-03-01T12:30+00:00"}')
    head, one, two, total = printed()
    assert (head, one) == ("The cone (1 of 1 right)", "02.1 Turn it right, 1 March 2026")
    assert total.startswith("1 of 1 exercises")


def test_progress_without_lessons_says_so(app, monkeypatch):
    monkeypatch.setattr(run_lessons.notebook_source, "sources", lambda: [])
    result = CliRunner().invoke(app, ["progress"])
    assert isinstance(result.exception, CourseError) and "no lessons" in str(result.exception)
