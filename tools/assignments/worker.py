"""All that runs beside a student's code: it takes calls, makes them, and sends back arrays.

The file needs NumPy only and imports nothing of the course, because it is what the sandbox holds.
A frame is the length of a JSON header, the header, and the raw bytes of the arrays that the header
describes; nothing is ever unpickled.
"""

import json
import os
import re
import resource
import signal
import struct
import sys

sys.path[:0] = sys.argv[1:2]
import numpy as np  # noqa: E402 (the sandbox holds NumPy in a folder of its own)

HEADER = 1 << 16  # bytes
KINDS = "biuf"  # truth values, integers, floating-point numbers
FILE = 20 << 20  # bytes that one file may have


def pack(value, buffers: list[bytes]):
    """Return a value's description for the header; the bytes of arrays go into `buffers`."""
    if value is None or isinstance(value, bool | int | float | str):
        return {"value": value}
    if isinstance(value, list):
        try:
            value = np.array(value)
        except ValueError:  # its parts have different shapes
            pass
        value = value if getattr(value, "dtype", np.dtype(object)).kind in KINDS else tuple(value)
    if isinstance(value, tuple):
        return {"tuple": [pack(each, buffers) for each in value[:16]]}
    if callable(value) or isinstance(value, np.random.Generator):
        return {"callback" if callable(value) else "rng": 0}
    array = np.asarray(value)
    if array.dtype.kind not in KINDS:
        raise TypeError(f"an answer is made of numbers and arrays, not of {type(value).__name__}")
    buffers.append(np.ascontiguousarray(array).tobytes())
    return {"array": [array.dtype.str, list(array.shape)]}


def unpack(spec: dict, data: memoryview, at: int = 0):
    """Return what a description stands for, and the place of the next array in `data`."""
    if "tuple" in spec:
        values = []
        for each in spec["tuple"]:
            value, at = unpack(each, data, at)
            values.append(value)
        return tuple(values), at
    if "array" not in spec:
        if not isinstance(spec["value"], bool | int | float | str | None):
            raise ValueError("a value of this kind cannot be sent")
        return spec["value"], at
    dtype, shape = np.dtype(spec["array"][0]), [int(n) for n in spec["array"][1]]
    if dtype.kind not in KINDS or min(shape, default=0) < 0:
        raise ValueError("an array of this kind cannot be sent")
    count = int(np.prod(shape, dtype=object))  # Python's integers do not overflow
    array = np.frombuffer(data, dtype, count, at) if count else np.empty(shape, dtype)
    return array.reshape(shape).copy(), at + count * dtype.itemsize


def send(stream, kind: str, value=None, **fields) -> None:
    """Write one frame."""
    buffers: list[bytes] = []
    spec = pack(value, buffers)
    size = sum(map(len, buffers))
    header = json.dumps({"kind": kind, "spec": spec, "size": size} | fields).encode()
    stream.write(struct.pack(">Q", len(header)) + header)
    for each in buffers:
        stream.write(each)
    stream.flush()


def receive(stream, most: int):
    """Read one frame: return its header and its value; raise ValueError for a bad or large one."""
    (length,) = struct.unpack(">Q", exactly(stream, 8))
    if length > HEADER:
        raise ValueError("the header is too large")
    header = json.loads(exactly(stream, length))
    if not isinstance(header, dict) or not isinstance(header.get("size"), int):
        raise ValueError("the header is damaged")
    if not 0 <= header["size"] <= most:
        raise ValueError(
            f"the answer has {header['size'] / 1e6:,.0f} MB, allowed are {most / 1e6:,.0f}"
        )
    return header, unpack(header["spec"], memoryview(exactly(stream, header["size"])))[0]


def exactly(stream, count: int) -> bytes:
    """Read `count` bytes; raise EOFError where the other side has ended."""
    data = stream.read(count)
    if len(data) < count:
        raise EOFError
    return data


def limit(memory: int, seconds: int) -> None:
    """Set the limits of this process: they hold from here on and can only be lowered.

    memory: bytes above what the interpreter and NumPy take by now; seconds: of the processor.
    """
    with open("/proc/self/statm") as sizes:
        taken = int(sizes.read().split()[0]) * resource.getpagesize()
    for what, most in (
        (resource.RLIMIT_AS, taken + memory),
        (resource.RLIMIT_FSIZE, FILE),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_NPROC, 1),  # an answer needs no process and no thread beside its own
    ):
        resource.setrlimit(what, (most, most))
    # The signal at the lower bound tells the marker why the process ended; the upper one kills.
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    if os.getpid() == 1:  # as at level 2, where the system keeps the signal from the first process
        signal.signal(signal.SIGXCPU, lambda *_: os._exit(128 + signal.SIGXCPU))


def main() -> None:
    """Take the student's code, then call after call, until the marker closes the channel."""
    calls = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    silence = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # what an answer prints is no frame
        os.dup2(silence, descriptor)
    send(answers, "ready")
    start, code = receive(calls, 1 << 30)
    scope = {"__name__": "answer", "np": np, "numpy": np}
    if re.search(r"scipy|(?<![\w.])(special|linalg)\b", code):  # which takes a second to import
        from scipy import linalg, special

        scope |= {"special": special, "linalg": linalg}
    if start.get("torch"):  # in one thread, and whole before the limits are set
        import torch
        import torch.utils.checkpoint

        torch.set_num_threads(1)
        scope["torch"] = torch
    limit(start["memory"], start["seconds"])

    def candidate(*arguments):
        send(answers, "ask", arguments)
        return receive(calls, 1 << 30)[1]

    reply(answers, lambda: exec(compile(code, "answer", "exec"), scope))
    while True:
        try:
            call, arguments = receive(calls, 1 << 30)
        except EOFError:
            return
        if "candidate" in call:  # a law step: a function that lives outside, and a generator
            arguments = (candidate, np.random.default_rng(call["candidate"]))
        before = [a.tobytes() for a in arguments if isinstance(a, np.ndarray)]
        reply(answers, lambda: scope[call["function"]](*arguments), arguments, before)  # noqa: B023


def reply(stream, action, arguments=(), before=()) -> None:
    """Do it and send its value, or the error in which it ended."""
    try:
        value = action()
        after = [a.tobytes() for a in arguments if isinstance(a, np.ndarray)]
        send(stream, "answer", value, changed=list(after) != list(before))
    except BaseException as error:
        trace, line = error.__traceback__, 0
        while trace:
            line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == "answer" else line
            trace = trace.tb_next
        kind = type(error).__name__
        message = "" if isinstance(error, MemoryError) else str(error)[:300]
        message = error.msg if isinstance(error, SyntaxError) else message
        line = getattr(error, "lineno", None) or line if isinstance(error, SyntaxError) else line
        send(stream, "error", type=kind, message=message, line=line)


if __name__ == "__main__":
    main()
