"""Hand-ins for the tests: answers made of the laws' own oracles and of the catalogue's mistakes."""

import ast
import inspect
import json
import re
from pathlib import Path

import nbformat
import numpy as np

from tools.assignments import edition, marking
from tools.assignments.laws.common import Step, judge

# Attacks on the marker, each the code of a cell that defines the asked `NAME`, and a word of what
# the student is told.
ATTACKS = {
    "endless loop": ("def NAME(*a):\n    while True:\n        pass", "longer than"),
    "memory bomb": ("def NAME(*a):\n    return np.ones(10**10)", "more than"),
    "exit": ("import os\ndef NAME(*a):\n    os._exit(0)", "ended its own process"),
    "exit at once": ("import os\nos._exit(1)\ndef NAME(*a): pass", "ended its own process"),
    "polite exit": ("import sys\ndef NAME(*a):\n    sys.exit(0)", "SystemExit"),
    "fork bomb": (
        "import os\ndef NAME(*a):\n    while True:\n        os.fork()",
        "BlockingIOError",
    ),
    "thread left behind": (
        "import threading\ndef NAME(*a):\n    threading.Thread(target=print).start()",
        "can't start new thread",
    ),
    "process left behind": (
        "import subprocess\ndef NAME(*a):\n    subprocess.Popen(['sleep', '60'])",
        "BlockingIOError",
    ),
    "reply of 1 GB": (
        "def NAME(*a):\n    return np.broadcast_to(0.0, (10**9 // 8,))",
        "",  # it has no memory for it, or the reply is refused
    ),
    "pickle": ("class C: pass\ndef NAME(*a):\n    return C()", "not of C"),
    "objects": ("def NAME(*a):\n    return np.array([print, print])", "made of numbers"),
    "NaN": ("def NAME(l, *a):\n    return l * np.nan", "NaN"),
    "infinity": ("def NAME(l, *a):\n    return l + np.inf", "infinite"),
    "text": ("def NAME(*a):\n    return 'right'", "is a str"),
    "None": ("def NAME(*a):\n    pass", "is None"),
    "input changed": ("def NAME(l, *a):\n    l[:] = 0\n    return l", "changes its arguments"),
    "view of the input": ("def NAME(l, *a):\n    return l[::-1]", ""),
    "time bomb": (
        "class C:\n    def __array__(self, *a, **k):\n        while True: pass\n"
        "def NAME(*a):\n    return C()",
        "longer than",
    ),
    "comparison patched": (
        "np.isclose = np.allclose = lambda *a, **k: True\nnp.linalg.norm = lambda *a, **k: 0.0\n"
        "def NAME(l, *a):\n    return 0 * l",
        "",
    ),
    "verdict printed": ("print('Step right')\ndef NAME(l, *a):\n    return 0 * l", ""),
    "forged reply": (
        "import os\nfor d in range(3, 9):\n    try:\n        os.write(d, b'\\xff' * 99)\n"
        "    except OSError:\n        pass\ndef NAME(l, *a):\n    return 0 * l",
        "no answer",
    ),
    "well forged reply": (
        "import os, struct, json\nh = json.dumps({'kind': 'answer', 'size': 0,\n"
        " 'spec': {'value': True}}).encode()\nfor d in range(3, 9):\n    try:\n"
        "        os.write(d, (struct.pack('>Q', len(h)) + h) * 50)\n    except OSError:\n"
        "        pass\ndef NAME(l, *a):\n    return 0 * l",
        "shape",
    ),
    "forged header": (
        "import os, struct, json\nh = json.dumps({'kind': 'answer', 'size': 0,\n"
        " 'spec': {'value': {'a': [1]}}}).encode()\nfor d in range(3, 9):\n    try:\n"
        "        os.write(d, (struct.pack('>Q', len(h)) + h) * 50)\n    except OSError:\n"
        "        pass\ndef NAME(l, *a):\n    return 0 * l",
        "no answer",
    ),
    "limits lifted": (
        "import resource\ndef NAME(*a):\n    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
        "maximum limit",
    ),
    "the network": (
        "import socket\ndef NAME(*a):\n    socket.create_connection(('192.0.2.1', 80), 2)",
        "Error",
    ),
    "library": ("import course_lib\ndef NAME(*a): pass", "No module named 'course_lib'"),
    "the laws": ("import tools.assignments\ndef NAME(*a): pass", "No module named 'tools'"),
    "syntax": ("def NAME(l:\n    return l", "SyntaxError"),
    "other name": ("def other(l):\n    return l", "defines no"),
    "signals": (
        "import os\ndef NAME(l, *a):\n    os.kill(os.getppid(), 9)\n    return 0 * l",
        "",
    ),
}


def definitions(name: str) -> str:
    """Return the code of an assignment's oracles and known mistakes, to stand in one cell."""
    laws = inspect.getsource(marking.module(name))
    mistakes = ast.parse(inspect.getsource(marking.module(name, "_mistakes")))
    oracles = re.search(r"(?s)# --- the definitions.*?(?=\n# --- )", laws)[0]
    wrong = [node for node in mistakes.body if isinstance(node, ast.FunctionDef)]
    for function in wrong:
        function.decorator_list, function.returns = [], None  # the catalogue stays outside
    return oracles + re.sub(rf"\b{name.lower()}\.", "", "\n".join(map(ast.unparse, wrong)))


def answer(name: str, step, function) -> str:
    """Return a cell in which the asked name is one of the oracles or mistakes."""
    # The oracles keep names of their own, for mistakes are made of them, and other steps are blank.
    asked = "|".join(s.function for s in marking.module(name).STEPS if s.function)
    cell = re.sub(rf"\b({asked})\b", r"own_\1", definitions(name))
    own = re.sub(rf"^({asked})$", r"own_\1", function.__name__)
    return f"{cell}\n{step.function} = {own}\n"


LAW = """
def is_right(f, rng):
    def divergence(l, s, tau_l, tau_s):
        p, q = (np.exp(x - special.logsumexp(x)) for x in (s / tau_s, l / tau_l))
        return (p * np.log(p / q)).sum()

    l, s = rng.normal(size=(2, 5))
    value = f(l, s, 0.7, 2.0)
    for i, step in enumerate(1e-5 * np.eye(5)):
        there, back = (divergence(l + x, s, 0.7, 2.0) for x in (step, -step))
        if abs((there - back) / 2e-5 - value[i]) > 1e-7:
            return False
    return True
"""


def hand_in(name: str, path: Path, answers: dict[str, str], variant: str = "") -> Path:
    """Write a notebook in which the steps' cells hold these answers."""
    book = edition.notebook(name, answers)
    for cell in book.cells:
        if variant:
            cell.source = cell.source.replace('VARIANT = "aaaaaa"', f'VARIANT = "{variant}"')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(nbformat.from_dict(book)), "utf-8")
    return path


SWAPPED = {"tau_l": "tau_s", "W": "E", "l": "s"}
SWAPPED |= {other: name for name, other in SWAPPED.items()}


def mutants(source: str, name: str, scope: dict):
    """Yield copies of a function with one operator, constant, sign, axis or name changed."""
    swaps = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
    for place in range(sum(1 for _ in ast.walk(ast.parse(source)))):
        tree = ast.parse(source)
        node = list(ast.walk(tree))[place]
        if isinstance(node, ast.BinOp) and type(node.op) in swaps:
            node.op = swaps[type(node.op)]()
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            node.value = node.value + 1
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            node.op = ast.UAdd()
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Gt):
            node.ops = [ast.Lt()]
        elif isinstance(node, ast.Name) and node.id in SWAPPED:
            node.id = SWAPPED[node.id]
        else:
            continue
        text = ast.unparse(ast.fix_missing_locations(tree))
        if not any(equal in text for equal in EQUAL):
            mutant = dict(scope)
            exec(compile(text, "mutant", "exec"), mutant)
            yield text, mutant[name]


# Changes that change nothing, each looked at: both arguments have equally many rows; a sign is
# its own inverse; an iteration that ended long ago may go on; short words may be shorter.
EQUAL = ("ones(len(W))", "(len(s) * tau_l)", "-r / np.sign(", "range(101)", "(1001 * longest)")


def survivors(step: Step, candidates) -> tuple[int, list[str]]:
    """Return how many mutants there are, and the code of those that are taken for right."""
    count, alive = 0, []
    for text, mutant in candidates:
        count += 1
        try:
            small = judge(step, mutant, np.random.default_rng(3), large=False).share == 1
            if small and judge(step, mutant, np.random.default_rng(3)).share == 1:
                alive.append(text)
        except Exception:
            pass  # it ends in an error, which is no right answer
    return count, alive
