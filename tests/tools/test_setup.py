"""The set-up: one list of versions, a bootstrap that says what is wrong, a README that agrees."""

import json
import os
import re
import subprocess
import sys
import tomllib
import venv

import pytest
import yaml

from tools import bootstrap, lesson_linter
from tools.bootstrap import ROOT, SetupError

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def pins():
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonical(name): version for name, version in pairs}


# --- one list of versions ------------------------------------------------------------------------


def test_constraints_are_exact_sorted_and_portable():
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pinned = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", line) for line in pinned)
    assert pinned == sorted(pinned) and len(pins()) == len(pinned)


def test_every_requirement_has_an_exact_version():
    wanted = [*PROJECT["dependencies"], *sum(PROJECT["optional-dependencies"].values(), [])]
    names = {canonical(re.match(r"[\w.-]+", requirement)[0]) for requirement in wanted}
    names.remove(PROJECT["name"])  # one extra asks for another
    assert names <= pins().keys(), names - pins().keys()
    assert "torch>=2.11,<2.16" in PROJECT["dependencies"]
    assert PROJECT["requires-python"] == ">=3.11,<3.14"


def test_the_environment_has_the_pinned_versions():
    """What is installed here is what constraints.txt promises (a CPU build's +cpu aside)."""
    from importlib.metadata import distributions

    installed = {canonical(d.name): d.version.split("+")[0] for d in distributions()}
    shared = pins().keys() & installed.keys()
    wrong = {n: (installed[n], pins()[n]) for n in shared if installed[n] != pins()[n]}
    assert not wrong and len(shared) > 150


def test_conda_installs_the_same_list():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))
    python, pip, packages = environment["dependencies"]
    assert pip == "pip" and environment["name"] == lesson_linter.repository().rsplit("/", 1)[1]
    low, high = bootstrap.OLDEST, bootstrap.NEWEST
    assert low <= tuple(map(int, python.removeprefix("python=").split("."))) <= high
    assert packages["pip"] == ["--constraint constraints.txt", "--editable .[course,test]"]
    assert set(PROJECT["optional-dependencies"]) == {"core", "lab", "course", "test", "cluster"}


def test_bootstrap_knows_the_supported_versions():
    low, high = bootstrap.OLDEST, bootstrap.NEWEST
    assert PROJECT["requires-python"] == f">={low[0]}.{low[1]},<{high[0]}.{high[1] + 1}"


def test_the_embedded_corpus_is_made_from_the_pinned_versions():
    from course_lab.corpora.docstrings import PACKAGES

    assert {name: pins()[name] for name, _ in PACKAGES.values()} == dict(PACKAGES.values())


# --- bootstrap -----------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with the files that decide the installation, and a record of what would be run."""
    (tmp_path / "tools").mkdir()
    for name in ("pyproject.toml", "constraints.txt", "tools/bootstrap.py"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    commands = []

    def record(command, log, what):
        commands.append([str(word) for word in command])
        (tmp_path / ".venv").mkdir(exist_ok=True)

    monkeypatch.setattr(bootstrap, "run", record)
    found = sys.version_info[:2]
    monkeypatch.setattr(
        bootstrap, "works", lambda python: found if (tmp_path / ".venv").is_dir() else None
    )
    return tmp_path, commands


def test_setup_installs_torch_first_by_its_exact_version_then_the_project(project, capsys):
    root, commands = project
    assert bootstrap.setup(root) == bootstrap.environment_python(root)
    make, torch, rest = commands
    assert make[:3] == [sys.executable, "-m", "venv"]
    assert torch[-1] == f"torch=={pins()['torch']}"
    assert rest[-2:] == ["--editable", f"{root}[course,test]"]
    for command in (torch, rest):
        assert command[command.index("--constraint") + 1] == str(root / "constraints.txt")
        assert "--upgrade" not in command and "-U" not in command
    kernel = json.loads((root / ".venv/share/jupyter/kernels/python3/kernel.json").read_text())
    assert kernel["argv"][0] == str(bootstrap.environment_python(root))
    assert kernel["argv"][-1] == "--IPKernelApp.log_level=ERROR"
    printed = capsys.readouterr().out
    assert len(re.findall(r"setup: .* \d+\.\d s", printed)) == 4  # the time of each step


def test_a_warm_start_installs_nothing_until_the_versions_change(project, monkeypatch, capsys):
    root, commands = project
    bootstrap.setup(root)
    del commands[:]
    bootstrap.setup(root)
    assert commands == []
    assert "make clean" not in capsys.readouterr().out
    monkeypatch.setattr(bootstrap, "works", lambda python: (3, 99))
    bootstrap.setup(root)
    assert ".venv has Python 3.99; make clean ALL=1 first for 3." in capsys.readouterr().out
    with (root / "constraints.txt").open("a") as stream:
        stream.write("zzz==1.0\n")
    bootstrap.setup(root)
    assert len(commands) == 2  # both installations; the environment itself is kept


def test_an_interrupted_setup_is_not_taken_for_a_finished_one(project, monkeypatch):
    root, commands = project

    def fail(root):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(bootstrap, "install_kernel", fail)
        with pytest.raises(KeyboardInterrupt):
            bootstrap.setup(root)
    del commands[:]
    bootstrap.setup(root)
    assert len(commands) == 2


@pytest.mark.parametrize("version", [(3, 10, 13), (3, 14, 0), (2, 7, 18)])
def test_an_unsupported_python_is_named_with_the_way_out(version):
    message = f"needs Python 3.11 to 3.13, and /bin/py is Python {version[0]}.{version[1]}"
    with pytest.raises(SetupError, match=message) as error:
        bootstrap.check_python(version, "/bin/py")
    assert "make course PYTHON=" in str(error.value)


def test_supported_pythons_pass():
    for minor in (11, 12, 13):
        bootstrap.check_python((3, minor, 0), "python")


def test_a_missing_venv_module_is_explained(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    with pytest.raises(SetupError, match=r"lacks the venv module.*sudo apt install python3\."):
        bootstrap.make_environment(tmp_path, tmp_path / "log")


OFFLINE = "WARNING: Retrying ... NewConnectionError('Failed to establish a new connection')"


def test_a_missing_network_is_told_from_another_failure(tmp_path):
    log = tmp_path / "build" / "setup.log"
    command = [sys.executable, "-c", "import sys; print(sys.argv[1]); sys.exit(1)"]
    with pytest.raises(SetupError, match=r"installing x: the package registry could not be"):
        bootstrap.run([*command, OFFLINE], log, "installing x")
    with pytest.raises(SetupError, match=r"(?s)installing x failed.*no space left") as error:
        bootstrap.run([*command, "no space left"], log, "installing x")  # the old log is not read
    assert str(log) in str(error.value)
    bootstrap.run([sys.executable, "-c", "print(1)"], log, "installing x")


def test_works_wants_a_python_that_starts(tmp_path):
    assert bootstrap.works(sys.executable)
    assert not bootstrap.works(tmp_path / "python")
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    assert not bootstrap.works(broken)
    venv.create(tmp_path / "half", with_pip=False)  # as an interruption leaves it
    assert not bootstrap.works(next((tmp_path / "half").glob("*/python*")))


def test_commands_run_inside_the_environment_with_their_options(monkeypatch):
    calls = []
    monkeypatch.setattr(bootstrap, "setup", lambda: "/venv/python")
    monkeypatch.setattr(bootstrap.subprocess, "call", lambda words, env: calls.append(words) or 7)
    assert bootstrap.main(["course", "--profile", "quick"]) == 7
    assert calls == [["/venv/python", "-m", "tools", "course", "--profile", "quick"]]
    assert bootstrap.main(["setup"]) == 0 and len(calls) == 1


def test_errors_are_one_message_and_exit_code_2(monkeypatch, capsys):
    def fail():
        raise SetupError("what to do")

    monkeypatch.setattr(bootstrap, "setup", fail)
    assert bootstrap.main(["course"]) == 2
    assert capsys.readouterr().err == "error: what to do\n"
    assert bootstrap.main(["clean", "--al"]) == 2
    assert bootstrap.main(["setup", "--fast"]) == 2


def test_clean_removes_what_was_built_and_keeps_corpora_and_runs(tmp_path):
    kept = ("data/corpora/ptb", "runs/a", "course_lib/data", ".venv/bin")
    gone = ("build/course", "course_lib/__pycache__", "notebooks/.ipynb_checkpoints")
    for name in kept + gone:
        (tmp_path / name).mkdir(parents=True)
    bootstrap.clean(tmp_path)
    assert all((tmp_path / name).is_dir() for name in kept)
    assert not any((tmp_path / name).exists() for name in gone)
    bootstrap.clean(tmp_path, everything=True)
    assert not (tmp_path / ".venv").exists() and (tmp_path / "runs/a").is_dir()


def test_bootstrap_needs_nothing_but_the_standard_library():
    """With site-packages switched off, the entry point still answers."""
    command = [sys.executable, "-S", "-I", "-c"]
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tools import bootstrap; " + (
        "print(bootstrap.inside_environment.__name__, bootstrap.main(['clean', '--x']))"
    )
    done = subprocess.run([*command, code], capture_output=True, text=True)
    assert done.stdout == "inside_environment 2\n", done.stderr


def test_the_command_runs_in_the_environment_and_may_keep_its_bytecode(monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr(bootstrap, "setup", lambda: "python-of-the-course")
    started = []
    monkeypatch.setattr(
        bootstrap.subprocess, "call", lambda command, env: started.append((command, env)) or 7
    )
    assert bootstrap.main(["course", "--workers", "2"]) == 7
    (command, environment), *others = started
    assert not others and command[1:] == ["-m", "tools", "course", "--workers", "2"]
    assert "PYTHONDONTWRITEBYTECODE" not in environment
    assert environment["PYTHONUTF8"] == "1" and "PATH" in environment


def test_the_environment_of_the_tests_is_recognised():
    assert bootstrap.inside_environment()


def clone(folder):
    """Another checkout, as far as the question is whose code an environment runs."""
    (folder / "course_lib").mkdir(parents=True)
    (folder / "course_lib" / "__init__.py").touch()
    return folder


def test_another_checkouts_environment_is_named_and_not_taken(tmp_path, monkeypatch, capsys):
    """Kernels would run the other's code: this checkout takes its own environment."""
    other = clone(tmp_path / "other")
    monkeypatch.setenv("PYTHONPATH", str(other))  # as an editable installation of the other one
    assert bootstrap.installed_checkout() == other
    assert not bootstrap.inside_environment()
    said = capsys.readouterr().err
    assert f"belongs to {other}" in said and str(ROOT / ".venv") in said
    monkeypatch.setattr(bootstrap, "ROOT", other)
    assert bootstrap.inside_environment()


def test_an_environment_without_the_course_is_not_taken(monkeypatch, tmp_path):
    monkeypatch.setattr(bootstrap, "installed_checkout", lambda: None)
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    assert not bootstrap.inside_environment()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    assert bootstrap.inside_environment()  # its own, half made


def test_the_command_finds_this_checkout_before_another(monkeypatch):
    """Else the command inside would find the other's code and begin once more, for ever."""
    monkeypatch.setenv("PYTHONPATH", "/other")
    monkeypatch.setattr(bootstrap, "setup", lambda: "python")
    paths = []
    monkeypatch.setattr(
        bootstrap.subprocess, "call", lambda command, env: paths.append(env["PYTHONPATH"]) or 0
    )
    bootstrap.main(["course"])
    assert paths == [os.pathsep.join([str(ROOT), "/other"])]


# --- Makefile, README and licences ---------------------------------------------------------------


def make(*words):
    """What `make` would run, whatever variables an outer `make` was given."""
    outer = ("MAKE", "PYTHON", "PROFILE", "WORKERS", "ALL")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(outer)}
    command = ["make", "--dry-run", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=clean)
    return done.stdout.split()


def test_make_passes_its_options_on():
    words = make("course", "PROFILE=full", "WORKERS=3", "PYTHON=python3.12")
    assert words == "python3.12 -m tools course --profile full --workers 3".split()
    assert make("test", "WORKERS=3")[-2:] == ["--workers", "3"]
    assert make("clean", "ALL=1")[-1] == "--all"


@pytest.mark.parametrize("target", ["setup", "course", "test", "lab", "site", "clean"])
def test_make_is_a_thin_shell(target):
    assert make(target) == ["python3", "-m", "tools", target]


def test_readme_and_citation_name_the_one_repository():
    readme = (ROOT / "README.md").read_text("utf-8")
    name = lesson_linter.repository().removeprefix("https://github.com/")
    for kind in (r"mybinder\.org/v2/gh", r"colab\.research\.google\.com/github"):
        found = re.findall(kind + r"/([\w-]+/[\w-]+)", readme)
        assert found and set(found) == {name}
    install = (ROOT / "docs/how-to/install.md").read_text("utf-8")
    slugs = re.findall(r"github\.com/([\w-]+/output-[\w-]+)", readme + install)
    assert "github.com/" in install and set(slugs) == {name}
    for extra in PROJECT["optional-dependencies"]:  # the table says which to take
        assert f"| `course-lib[{extra}]` |" in install
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["repository-code"] == lesson_linter.repository()
    assert citation["version"] == PROJECT["version"]
    from course_lib import __version__

    assert __version__ == PROJECT["version"]


def test_readme_links_lead_somewhere():
    for page in ("README.md", "CONTRIBUTING.md", "AGENTS.md", "CHANGELOG.md"):
        text = (ROOT / page).read_text("utf-8")
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text):
            assert (ROOT / target).exists(), f"{page}: {target}"
        for source, alt in re.findall(r'<img src="([^"]+)"[^>]* alt="([^"]*)"', text):
            assert (ROOT / source).is_file() and len(alt) > lesson_linter.ALT
        for name in re.findall(r"colab\.research\S+?/blob/main/([^)\s]+)", text):
            assert (ROOT / name).is_file(), f"{page}: {name}"


def test_readme_starts_with_the_two_commands():
    text = (ROOT / "README.md").read_text("utf-8")
    first = re.search(r"```\w*\n(.*?)```", text, re.S)[1]
    assert first.split("#")[0].split() == ["make", "course"] and "make test" in first


def test_contributing_lists_what_the_linter_wants():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    for heading in lesson_linter.LESSON:
        assert f"`## {heading}`" in text
    L, flat = lesson_linter, " ".join(text.split())
    for words in (
        f"at most {L.LINES} lines of at most {L.WIDTH} characters",
        f"at least {L.ALT} characters",
        f"at most {L.WORDS:,} words, {L.CODE_LINES} lines of code, {L.FIGURES} figures "
        f"and {L.MINUTES} minutes",
    ):
        assert words in flat


def test_licences_of_code_and_text():
    assert PROJECT["license"] == "MIT"
    assert (ROOT / "LICENSE").read_text("utf-8").startswith("MIT License")
    assert "CC BY 4.0" in (ROOT / "LICENSE-TEXT").read_text("utf-8")
