"""What the forge and the dev container run exists: commands, targets, files, actions by version."""

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import typer
import yaml

from course_lab import notebook_source
from course_lab.corpora.packaged import PACKAGED
from tools import __main__ as tools
from tools import bootstrap, cli

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = {path.stem: path for path in sorted((ROOT / ".github/workflows").glob("*.yml"))}
CONTAINER = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text("utf-8"))
# Of the forge's own machines; everything else that is run is the course's.
PROGRAMS = {"pip", "git", "docker", "curl", "npx", "jupyter-repo2docker", "$CONDA/bin/conda"}
OF_SHELLS = {"if", "then", "else", "fi"}
PYTHONS = ("python", "python3", ".venv/bin/python")


def read(name: str) -> dict:
    return yaml.safe_load(WORKFLOWS[name].read_text("utf-8"))


def steps(name: str) -> list[dict]:
    return [step for job in read(name)["jobs"].values() for step in job["steps"]]


def commands(script: str) -> list[list[str]]:
    """Return the commands of a step, each as words; what the forge fills in is `filled`."""
    script = re.sub(r"\$\{\{.*?\}\}", "filled", script)
    script = re.sub(r"(\w+)=\$\((.*?)\)\n", r"\2\n", script)  # a variable for what is printed
    found = []
    for line in re.split(r"\n|;", script):
        words = shlex.split(line)
        while words and (words[0] in {*OF_SHELLS, "sudo"} or words[0].startswith("--preserve")):
            words.pop(0)
        if words:
            found.append(words)
    return found


def fault(words: list[str]) -> str | None:
    """Return what is wrong with a command, if it cannot be run."""
    if "-m" in words and not words[0].startswith(PYTHONS):  # a program that starts Python
        words = words[next((i for i, w in enumerate(words) if w in PYTHONS), 0) :]
    program, *rest = words
    if program == "make":
        targets = re.findall(r"^([a-z ]+):", (ROOT / "Makefile").read_text("utf-8"), re.M)
        named = [word for word in rest if "=" not in word]
        unknown = [word for word in named if word not in " ".join(targets).split()]
        options = re.findall(r"\$\(if \$\((\w+)\)", (ROOT / "Makefile").read_text("utf-8"))
        unknown += [w for w in rest if "=" in w and w.partition("=")[0] not in {*options, "PYTHON"}]
        return f"make has no {unknown}" if unknown or not named else None
    if program in PYTHONS:
        return fault_of_python(rest)
    if program in {"apt-get", "sysctl"} or program in PROGRAMS:
        files = [word for word in rest if re.fullmatch(r"[\w/]+\.(yml|txt|toml)", word)]
        absent = [name for name in files if not (ROOT / name).exists()]
        return f"{absent} are not there" if absent else None
    return f"{program} is no program of ours"


def fault_of_python(words: list[str]) -> str | None:
    module, *rest = words[1:]
    if words[0] != "-m" or module not in ("tools", "course_lab", "pytest", "pip"):
        return f"python does not run {words}"
    if module == "pytest":
        paths = [word for word in rest if "/" in word and not (ROOT / word).exists()]
        return f"{paths} are not there" if paths else None
    if module == "pip" or (module == "tools" and rest[0] in tools.SETUP - set(names_of_tools())):
        return None
    command = typer.main.get_command(cli.command_lines()[f"python -m {module}"])
    name = module
    try:
        while hasattr(command, "commands"):
            name, *rest = rest
            command = command.commands[name]
        parsed = command.make_context(name, list(rest)).params
        names = parsed.get("names") or []
        if module == "tools":
            notebook_source.select(names)
        elif absent := set(names) - PACKAGED.keys():
            return f"{absent} are in no package"
        cli.check_profile(parsed.get("profile") or "quick")
    except Exception as error:
        return f"{words}: {error!r}"
    return None


def names_of_tools() -> list[str]:
    return list(typer.main.get_command(cli.application()).commands)


def unpinned(words: list[str]) -> list[str]:
    """Return what a command of pip or npx would install in whatever version is the newest."""
    named = [word for word in words if not word.startswith("-")]
    if words[0] == "npx":
        named = named[1:2]
    elif "install" in named and "pip" in named and "--constraint" not in words:
        named = named[named.index("install") + 1 :]
    else:
        return []
    return [name for name in named if not re.search(r"==|.@\d", name)]


# --- the forge -----------------------------------------------------------------------------------


def test_there_is_a_workflow_for_pushes_nights_and_pages():
    when = {name: read(name)[True] for name in WORKFLOWS}  # YAML reads `on` as true
    assert {"push", "pull_request"} <= when["check"].keys()
    assert {"schedule", "workflow_dispatch"} <= when["nightly"].keys()
    assert when["pages"]["push"] == {"branches": ["main"], "tags": ["v*"]}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_command_of_a_workflow_exists(name):
    run = [words for step in steps(name) if "run" in step for words in commands(step["run"])]
    assert any(words[0] in ("make", *PYTHONS) for words in run)
    faults = [said for words in run if (said := fault(words))]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    "script",
    [
        "make tset",
        "make test WORKER=4",
        "python -m tools nothing",
        "python -m tools course --profil smoke",
        "python -m tools course --profile fast",
        "python -m tools course 01_no_such_lesson",
        "python -m course_lab data fetch smollm3",
        "python -m tools publish folder",
        ".venv/bin/python -m pytest -q tests/nowhere",
        "$CONDA/bin/conda env create --file environments.yml",
        "$CONDA/bin/conda run --name course python -m tools nothing",
        "sudo --preserve-env=CI make tset",
        "if git fetch; then\n python -m course_lab nothing\nfi",
        "./build.sh",
    ],
)
def test_a_command_that_does_not_exist_is_noticed(script):
    assert any(fault(words) for words in commands(script))


@pytest.mark.parametrize("name", WORKFLOWS)
def test_what_a_workflow_installs_has_a_version(name):
    run = [words for step in steps(name) if "run" in step for words in commands(step["run"])]
    assert [said for words in run if (said := unpinned(words))] == []


@pytest.mark.parametrize(
    "script, loose",
    [
        ("pip install --upgrade repo2docker pip==26.1", ["repo2docker"]),
        (".venv/bin/python -m pip install --constraint constraints.txt ray", []),
        ("npx --yes @devcontainers/cli up --workspace-folder .", ["@devcontainers/cli"]),
        ("npx --yes @devcontainers/cli@0.89.0 up", []),
    ],
)
def test_a_package_without_a_version_is_noticed(script, loose):
    assert unpinned(*commands(script)) == loose


@pytest.mark.parametrize("name", WORKFLOWS)
def test_actions_are_pinned_and_a_fork_needs_no_secret(name):
    used = [step["uses"] for step in steps(name) if "uses" in step]
    assert used and all(re.fullmatch(r"actions/[\w-]+@v\d+\.\d+\.\d+", action) for action in used)
    text = WORKFLOWS[name].read_text("utf-8")
    assert "secrets." not in text and "github.com/" not in text
    assert all("timeout-minutes" in job for job in read(name)["jobs"].values())
    wanted = {"contents": "write" if name == "pages" else "read"}
    assert read(name)["permissions"] == wanted


def test_each_night_every_system_python_and_end_of_the_range_of_pytorch():
    jobs = read("nightly")["jobs"]
    matrix = jobs["systems"]["strategy"]["matrix"]
    assert [name.split("-")[0] for name in matrix["system"]] == ["ubuntu", "macos", "windows"]
    low, high = bootstrap.OLDEST, bootstrap.NEWEST
    assert matrix["python"] == [f"3.{minor}" for minor in range(low[1], high[1] + 1)]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (torch,) = [r for r in project["dependencies"] if r.startswith("torch")]
    oldest, above = map(int, re.fullmatch(r"torch>=2\.(\d+),<2\.(\d+)", torch).groups())
    ends = [f"2.{oldest}.*", f"2.{above - 1}.*"]
    assert jobs["torch"]["strategy"]["matrix"]["torch"] == ends
    assert {"long", "links", "conda", "binder", "container"} <= jobs.keys()
    assert any(step.get("env", {}).get("COURSE_NIGHTLY") == "1" for step in jobs["long"]["steps"])


# --- the dev container ---------------------------------------------------------------------------


def test_the_dev_container_has_a_python_of_ours_and_makes_the_environment():
    minor = int(re.search(r"/python:\d+-3\.(\d+)-", CONTAINER["image"])[1])
    assert bootstrap.OLDEST <= (3, minor) <= bootstrap.NEWEST
    (command,) = commands(CONTAINER["postCreateCommand"])
    assert command == "python3 -m tools setup".split() and fault(command) is None
    assert CONTAINER["forwardPorts"] == [8888] and "8888" in CONTAINER["portsAttributes"]


def test_the_dev_containers_editor_takes_that_environment():
    editor = CONTAINER["customizations"]["vscode"]
    assert {"ms-python.python", "ms-toolsai.jupyter"} <= set(editor["extensions"])
    path = editor["settings"]["python.defaultInterpreterPath"]
    here = Path(path.replace("${containerWorkspaceFolder}", str(ROOT)))
    assert here == bootstrap.environment_python(ROOT)
    (tests,) = editor["settings"]["python.testing.pytestArgs"]
    assert (ROOT / tests).is_dir()
