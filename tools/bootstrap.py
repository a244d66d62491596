"""From nothing but Python to the course's own environment, with the standard library alone.

`python3 -m tools COMMAND` comes here first. It makes `.venv` beside this package, installs
torch by its exact version, then the project with the exact versions of constraints.txt, and runs
the command again inside. A stamp with a hash of what decides the installation makes a warm start
skip all that. Written so that an old Python can still read it and say that it is too old.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST, NEWEST = (3, 11), (3, 13)
BUILT = ("build", ".pytest_cache", ".ruff_cache", ".hypothesis", "docs/_build")
NO_NETWORK = re.compile(
    r"NameResolutionError|Temporary failure|NewConnectionError|ConnectTimeout|ReadTimeout"
    r"|Max retries exceeded|Network is unreachable|ProxyError|getaddrinfo failed"
)


class SetupError(Exception):
    """A set-up step that cannot go on; the message says what to do."""


def inside_environment():
    """Return whether this Python has the course's packages and runs this checkout's code.

    That is so in the project's own `.venv`, and in another environment into which someone
    installed this checkout (conda). An environment of another checkout is named and not taken:
    notebooks' kernels would run the other checkout's code.
    """
    if sys.version_info[:2] < OLDEST:
        return False
    checkout = installed_checkout()
    if checkout is None:  # an environment that is only half made has no code of another checkout
        return Path(sys.prefix).resolve() == (ROOT / ".venv").resolve()
    if checkout != ROOT:
        print(
            f"setup: the environment {sys.prefix} belongs to {checkout}; "
            f"{ROOT} takes its own, {ROOT / '.venv'}",
            file=sys.stderr,
            flush=True,
        )
    return checkout == ROOT


def installed_checkout():
    """Return the folder from which this Python imports `course_lib`, or None without the course.

    A process of its own is asked, with no working directory on its path, as kernels are started.
    """
    from importlib import metadata

    try:
        metadata.version("course-lib")
    except metadata.PackageNotFoundError:
        return None
    code = "from importlib.util import find_spec as f; s = f('course_lib'); print(s and s.origin)"
    asked = subprocess.run([sys.executable, "-P", "-c", code], stdout=subprocess.PIPE, text=True)
    origin = asked.stdout.strip()
    return None if origin in ("", "None") else Path(origin).resolve().parent.parent


def check_python(version=sys.version_info, executable=sys.executable):
    """Raise `SetupError` unless `version` is one that the course supports."""
    if not OLDEST <= tuple(version[:2]) <= NEWEST:
        raise SetupError(
            "the course needs Python {}.{} to {}.{}, and {} is Python {}.{}. Name another one: "
            "make course PYTHON=python3.12, or: python3.12 -m tools course".format(
                *OLDEST, *NEWEST, executable, *version[:2]
            )
        )


def environment_python(root=ROOT):
    """Return the interpreter of the project's environment, which need not exist yet."""
    folder, name = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    return root / ".venv" / folder / name


def fingerprint(root=ROOT):
    """Return a SHA-256 of the files that decide what is installed, and of where they lie."""
    digest = hashlib.sha256(str(root).encode())
    for name in ("pyproject.toml", "constraints.txt", "tools/bootstrap.py"):
        digest.update((root / name).read_bytes())
    return digest.hexdigest()


def pinned(package, root=ROOT):
    """Return the requirement `package==version` as constraints.txt has it."""
    for line in (root / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line.split("==")[0].strip().lower() == package:
            return line.strip()
    raise SetupError(f"constraints.txt has no line {package}==...")


def run(command, log, what):
    """Run `command` with its output in the file `log`; on failure raise with the reason."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as stream:
        start = stream.tell()
        done = subprocess.run(
            [str(word) for word in command], stdout=stream, stderr=subprocess.STDOUT, cwd=str(ROOT)
        )
    if done.returncode == 0:
        return
    with log.open(encoding="utf-8", errors="replace") as stream:
        stream.seek(start)
        output = stream.read()
    if NO_NETWORK.search(output):
        raise SetupError(
            f"{what}: the package registry could not be reached. Connect this machine (behind a "
            f"proxy set HTTPS_PROXY) and run the same command again; the log is {log}"
        )
    tail = "\n".join("    " + line for line in output.splitlines()[-6:])
    raise SetupError(f"{what} failed; the end of {log}:\n{tail}")


def make_environment(root, log):
    """Create `.venv` with the running interpreter."""
    check_python()
    try:
        import ensurepip  # noqa: F401  (Debian ships it, and so venv, as a package of its own)
        import venv  # noqa: F401
    except ImportError:
        raise SetupError(
            "this Python lacks the venv module. On Debian and Ubuntu: "
            "sudo apt install python{}.{}-venv".format(*sys.version_info[:2])
        ) from None
    run([sys.executable, "-m", "venv", "--clear", root / ".venv"], log, "making .venv")


def install_kernel(root=ROOT):
    """Write the kernel that notebooks ask for: this environment's Python, warnings silenced."""
    folder = root / ".venv" / "share" / "jupyter" / "kernels" / "python3"
    folder.mkdir(parents=True, exist_ok=True)
    start = [str(environment_python(root)), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    kernel = {
        "argv": start + ["--IPKernelApp.log_level=ERROR"],
        "display_name": "Python 3 (course)",
        "language": "python",
    }
    (folder / "kernel.json").write_text(json.dumps(kernel, indent=1), encoding="utf-8")


def works(python):
    """Return an interpreter's version (3, …), or None unless it starts, has pip, is supported."""
    try:
        shown = subprocess.run(
            [str(python), "-c", "import sys, pip; print(*sys.version_info[:2])"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None
    version = tuple(int(part) for part in shown.stdout.split())
    return version if shown.returncode == 0 and OLDEST <= version <= NEWEST else None


def setup(root=ROOT):
    """Bring `.venv` up to date, print the time of each step, return its interpreter."""
    python = environment_python(root)
    stamp = root / ".venv" / "course-stamp"
    log = root / "build" / "setup.log"

    # Nothing is to be done where the same files decided the last installation.
    if stamp.is_file() and stamp.read_text() == fingerprint(root):
        version = works(python)
        if version and version != sys.version_info[:2]:
            old = "{}.{}".format(*version)
            new = "{}.{}".format(*sys.version_info[:2])
            print(f"setup: .venv has Python {old}; make clean ALL=1 first for {new}")
        if version:
            return python

    # The steps.
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--retries", "2"]
    # Not compiled: that is half of the time, and Python compiles what is imported when it is.
    pip += ["--no-compile", "--constraint", root / "constraints.txt"]
    torch = pinned("torch", root)
    steps = [
        # Torch first and by its exact version: then a local CPU wheel of it is taken where there
        # is one, and an open range of another package cannot draw in a different build.
        (torch, lambda: run(pip + [torch], log, "installing " + torch)),
        (
            "all other packages",
            lambda: run(pip + ["--editable", f"{root}[course,test]"], log, "installing packages"),
        ),
        ("Jupyter kernel", lambda: install_kernel(root)),
    ]
    if not works(python):
        steps.insert(0, ("environment .venv", lambda: make_environment(root, log)))

    # The installation; the stamp is written when all of it is there.
    for name, step in steps:
        print(f"setup: {name:<20}", end=" ", flush=True)
        begin = time.time()
        try:
            step()
        except BaseException:
            print("stopped", flush=True)
            raise
        print(f"{time.time() - begin:6.1f} s", flush=True)
    stamp.write_text(fingerprint(root))
    return python


def clean(root=ROOT, everything=False):
    """Remove what was built; with `everything` the environment too. Corpora and runs stay."""
    folders = [root / name for name in BUILT + ((".venv",) if everything else ())]
    for part in ("course_lib", "course_lab", "benchmarks", "tools", "tests", "notebooks", "docs"):
        folders += sorted((root / part).rglob("__pycache__"))
        folders += sorted((root / part).rglob(".ipynb_checkpoints"))
    for folder in folders:
        if folder.is_dir():
            shutil.rmtree(str(folder))
            print("removed", folder.relative_to(root))


def main(arguments):
    """Run one of setup, clean, course, test, lab, site; the last four inside the environment."""
    command, options = arguments[0], arguments[1:]
    try:
        if command == "clean":
            unknown = sorted(set(options) - {"--all"})
            if unknown:
                raise SetupError(f"clean knows only --all, not {' '.join(unknown)}")
            clean(everything="--all" in options)
            return 0
        if command == "setup" and options:
            raise SetupError(f"setup takes no options, got {' '.join(options)}")
        python = setup()
    except SetupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if command == "setup":
        print(f"setup: ready, {python}")
        return 0
    environment = dict(os.environ, PYTHONUTF8="1")
    # Images for containers often set this; every start would then compile all of torch anew.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    # Before whatever another checkout has put there; kernels inherit it.
    paths = [str(ROOT), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    try:
        return subprocess.call([str(python), "-m", "tools"] + arguments, env=environment)
    except KeyboardInterrupt:
        return 130
