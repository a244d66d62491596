"""The sandbox: a process that holds a student's code, NumPy, and neither a law nor a verdict.

Level 3 is bubblewrap with limits: nothing of the machine but an interpreter, read-only. Level 2 is
`unshare` with limits: no network and no other process, but all files that the user may read. Level
1 is limits alone. In a container level 1 is called "C": the container is the wall.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from course_lib.errors import CourseError, unknown
from tools.assignments import worker
from tools.assignments.laws.common import ASKED, SMALL, Failed, Limits

LEVELS = ("3", "2", "1")
REPLY = 64 << 20  # bytes of one answer
BROUGHT = ("numpy", "numpy.libs", "scipy", "scipy.libs")
WITH_TORCH = ("torch", "torch.libs", "torchgen", "functorch", "nvidia", "typing_extensions.py")
WITH_TORCH += ("sympy", "mpmath")
USER_NAMESPACE = (
    "Where Ubuntu forbids it (“setting up uid map: Permission denied”), an administrator installs "
    "AppArmor's profile for bwrap: apt install apparmor-profiles, then "
    "ln -s /usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/ and "
    "systemctl reload apparmor"
)


def packages(torch: bool = False) -> dict[str, Path]:
    """Return the folders of NumPy, SciPy and, if asked, PyTorch by their names on the path."""
    site = Path(find_spec("numpy").origin).parent.parent
    names = (*BROUGHT, *WITH_TORCH * torch)
    return {name: site / name for name in names if (site / name).exists()}


def foreign() -> list[Path]:
    """Return the interpreter's own folders of installed packages, which the sandbox hides."""
    base = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    paths = {sysconfig.get_path(name, vars=base) for name in ("purelib", "platlib")}
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    paths |= {f"/usr/local/lib/{version}/{name}-packages" for name in ("dist", "site")}
    paths |= {"/usr/lib/python3/dist-packages", f"/usr/lib/{version}/site-packages"}
    return sorted(Path(path) for path in paths if Path(path).is_dir())


def bubblewrap(torch: bool) -> list[str]:
    """Return the command that starts the worker at level 3.

    A user without rights gets a namespace of its own. Root keeps the machine's users, for a
    namespace's root would not be held by the limit of processes, and becomes nobody afterwards.
    """
    command = ["bwrap", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    command += ["--unshare-cgroup-try", "--die-with-parent", "--new-session", "--clearenv"]
    user = str(stranger())
    root = os.geteuid() == 0
    if root:
        command += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        command += ["--unshare-user", "--uid", user, "--gid", user, "--cap-drop", "ALL"]

    # The machine's libraries and the interpreter, without any package; then those that are brought.
    for path in map(Path, ("/usr", "/lib", "/lib64", "/bin")):
        if path.is_symlink():
            command += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            command += ["--ro-bind", str(path), str(path)]
    base = Path(os.path.realpath(sys.base_prefix))
    place = base if base.is_relative_to("/usr") else Path("/python")  # whose parents all may enter
    if place != base:
        command += ["--ro-bind", str(base), str(place)]
    for path in foreign():
        inside = place / path.relative_to(base) if path.is_relative_to(base) else path
        command += ["--tmpfs", str(inside), "--remount-ro", str(inside)]
    command += ["--dir", "/packages"]
    for name, path in packages(torch).items():
        command += ["--ro-bind", str(path), f"/packages/{name}"]
    command += ["--ro-bind", worker.__file__, "/worker.py", "--proc", "/proc", "--dev", "/dev"]
    command += ["--remount-ro", "/dev", "--perms", "1777", "--size", str(worker.FILE)]
    command += ["--tmpfs", "/tmp", "--chdir", "/tmp", "--remount-ro", "/"]
    for name, value in environment().items():
        command += ["--setenv", name, value]
    if root:
        command += nobody()
    python = place / Path(os.path.realpath(sys.executable)).relative_to(base)
    return [*command, str(python), "-I", "-S", "-B", "/worker.py", "/packages"]


def stranger() -> int:
    """Return a user's number that owns nothing, another one for each process that marks."""
    return 20_000 + os.getpid() % 40_000


def nobody() -> list[str]:
    """Return the command with which root becomes a user without any right."""
    user = stranger()
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs"]


def environment() -> dict[str, str]:
    """Return the whole environment of the worker: one thread, and no variable of the marker's.

    Large arrays that are freed go back to the system: a limit of memory counts what is used.
    """
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    own = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LC_ALL": "C.UTF-8"}
    return own | {"MALLOC_MMAP_THRESHOLD_": str(1 << 20)} | dict.fromkeys(threads, "1")


@cache
def brought(torch: bool) -> tempfile.TemporaryDirectory:
    """Return a folder that names what the sandbox brings, and nothing that lies beside it."""
    folder = tempfile.TemporaryDirectory(prefix="packages-")
    os.chmod(folder.name, 0o755)
    for name, path in packages(torch).items():
        Path(folder.name, name).symlink_to(path)
    return folder


def command(level: str, torch: bool = False) -> list[str]:
    """Return the command that starts the worker at a level."""
    if level == "3":
        return bubblewrap(torch)
    plain = [os.path.realpath(sys.executable), "-I", "-S", "-B", worker.__file__]
    plain.append(brought(torch).name)
    before = nobody() if os.geteuid() == 0 else []
    if level == "2":
        before += ["unshare", "-rnpf", "--mount-proc", "--kill-child"]
    return before + plain


class Answer:
    """A student's function as the marker calls it: the arguments go in, the value comes out.

    code: the student's cell; function: the asked name; limits: of the step; level: of the sandbox.
    `Failed` is raised, with a sentence for the student, where there is no value.
    """

    def __init__(self, code: str, function: str, limits: Limits, level: str):
        self.function, self.limits, self.late = function, limits, False
        self.process = subprocess.Popen(
            command(level, limits.torch),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(),
            cwd="/",
            start_new_session=True,
        )
        self.budget = limits.seconds
        try:
            with self.watched(60):  # a busy machine starts slowly, and that is nobody's fault
                worker.receive(self.process.stdout, 0)
        except (EOFError, ValueError):
            self.__exit__()
            raise CourseError(
                f"the sandbox of level {level} does not start on this machine"
            ) from None
        try:
            with self.watched(2 * self.budget + 60 * limits.torch):  # which is slow to import
                bounds = {"memory": limits.memory << 20, "seconds": limits.together}
                self.say("start", code, torch=limits.torch, **bounds)
                self.hear()
        except BaseException:
            self.__exit__()
            raise

    @contextmanager
    def watched(self, seconds: float) -> Iterator[None]:
        """Kill the process where the block takes longer than this."""
        timer = threading.Timer(seconds, self.kill, [True])
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def __call__(self, *arguments):
        """Call the student's function with arrays and numbers."""
        with self.watched(self.budget):
            self.say("call", arguments, function=self.function)
            return self.hear()

    def law(self, candidate, seed: int):
        """Call a student's law with a function that stays outside, and a generator's seed."""
        with self.watched(self.budget):
            self.say("call", (), function=self.function, candidate=seed)
            return self.hear(candidate)

    def say(self, kind: str, value, **fields) -> None:
        try:
            worker.send(self.process.stdin, kind, value, **fields)
        except OSError:
            raise self.ended() from None

    def hear(self, candidate=None):
        """Return the value of the next answer; serve a candidate's evaluations before it."""
        for _ in range(ASKED + 1):  # and the answer itself
            try:
                header, value = worker.receive(self.process.stdout, REPLY)
                kind = header.get("kind")
            except EOFError:
                raise self.ended() from None
            except Exception as error:  # all that a forged frame can cause
                self.kill()
                raise Failed("forged", f"what came back is no answer: {error}") from None
            if kind == "ask" and candidate is not None:
                self.say("answer", evaluated(candidate, value))
                continue
            if kind == "error":
                raise failed(header, self.limits)
            if header.get("changed") is True:
                raise Failed("changed", "it changes its arguments in place; work on a copy")
            return value
        self.kill()
        raise Failed("asked", f"it evaluates the candidate more than {ASKED:,} times")

    def ended(self) -> Failed:
        """Return why there is no answer from a process that has ended."""
        if self.late:
            return Failed("late", f"it took longer than {self.budget:g} s")
        try:
            code = self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.kill()
            return Failed("end", "your code closed the channel for its answers")
        if code in (-signal.SIGXCPU, 128 + signal.SIGXCPU):
            most = self.limits.together
            return Failed("late", f"all calls together took longer than {most} s of the processor")
        return Failed("end", "your code ended its own process, so that there is no answer")

    def kill(self, late: bool = False) -> None:
        """End the process, and with it all that it has started."""
        self.late = self.late or late
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self.process.kill()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            try:
                stream.close()
            except OSError:
                pass


def of_step(step, code: str, level: str) -> Answer:
    """Return a student's answer to a step, with the step's harness below the cell."""
    return Answer(f"{code}\n{step.harness}", step.called, step.limits, level)


def evaluated(candidate, arguments):
    """Return a candidate's value; what a law asks wrongly is NaN, never an error of the marker."""
    if not isinstance(arguments, tuple) or sum(map(np.size, arguments)) > SMALL:
        return float("nan")
    try:
        value = candidate(*arguments)
        worker.pack(value, [])  # what cannot be sent is no value either
        return value
    except Exception:
        return float("nan")


def failed(header: dict, limits: Limits) -> Failed:
    """Return the failure that an error's frame tells."""
    kind, message, line = (str(header.get(name, ""))[:300] for name in ("type", "message", "line"))
    if kind == "MemoryError" or "o allocate" in message or "t allocate memory" in message:
        return Failed("memory", f"it needs more than {limits.memory} MB")
    if kind == "KeyError" and not line.strip("0"):
        return Failed("error", f"the cell defines no {message}")
    place = f" in line {line} of your cell" if line.strip("0") else ""
    return Failed("error", f"trying it ended in {kind}{place}: {message}")


PROBE = """
import os, socket
def probe(secret, port):
    attempts = {
        "reads a file": lambda: open(secret).read(),
        "writes a file": lambda: open(secret, "a").write("x"),
        "connects": lambda: socket.create_connection(("127.0.0.1", port), 2),
        "takes 1 GB": lambda: np.ones(1 << 27),
        "forks": lambda: os.fork() or os._exit(0),
        "imports course_lib": lambda: __import__("course_lib"),
    }
    done = []
    for name, attempt in attempts.items():
        try:
            attempt()
            done.append(name)
        except Exception:
            pass
    return tuple(done)
"""
FILES = {"reads a file", "writes a file"}
ALLOWED = {"3": set(), "2": FILES, "1": FILES | {"connects", "imports course_lib"}}


def probe(level: str) -> set[str] | None:
    """Return what an answer can do at this level, None where nothing starts at it."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as listening:
        secret = Path(folder, "secret")
        secret.write_text("x")
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        try:
            with Answer(PROBE, "probe", Limits(), level) as answer:
                return {*answer(str(secret), listening.getsockname()[1])}
        except (CourseError, Failed, OSError):
            return None


def strongest(trust: bool = False, wanted: str | None = None) -> str:
    """Return the strongest level that holds what it promises on this machine.

    trust: accept a level below 3; wanted: this one only. "C" is level 1 inside of a container that
    COURSE_CONTAINER=1 declares. Raises CourseError where no level is allowed.
    """
    if wanted and wanted not in LEVELS:
        raise unknown("level", wanted, LEVELS)
    contained = os.environ.get("COURSE_CONTAINER") == "1"
    for level in [wanted] if wanted else LEVELS:
        done = probe(level)
        if done is not None and done <= ALLOWED[level]:
            if level == "3" or trust or contained:
                return "C" if contained and level == "1" else level
            break
    missing = f"bwrap does not start or does not hold. {USER_NAMESPACE}"
    if not shutil.which("bwrap"):
        missing = "bwrap is not installed (apt install bubblewrap)"
    raise CourseError(
        f"no sandbox of level 3 on this machine: {missing}. `--trust` marks below it: only for "
        "answers that you trust, as a user that owns nothing else"
    )
