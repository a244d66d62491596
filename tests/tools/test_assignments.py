"""Assignments: the sandbox holds, the laws tell right from wrong, marks arrive where they go."""

import csv
import inspect
import io
import json
import linecache
import os
import re
import shutil
import struct
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import assignment_sample as sample
import numpy as np
import pytest
import scipy.special

from course_lab.notebook_source import ROOT
from course_lib.errors import CourseError
from tools.assignments import (
    dashboard,
    edition,
    exports,
    feedback,
    handin,
    marking,
    pages,
    sandbox,
    similar,
    variant,
    worker,
)
from tools.assignments.laws import (
    a0,
    a0_mistakes,
    a1,
    a1_claims,
    a1_experiment,
    a1_mistakes,
    a2,
    a2_claims,
    a2_experiment,
    a2_mistakes,
    a3,
    a3_claims,
    a3_experiment,
    a3_mistakes,
    a4,
    a4_claims,
    a4_experiment,
    a4_mistakes,
    a5,
    a5_claims,
    a5_experiment,
    a5_mistakes,
    common,
    home,
)
from tools.assignments.laws.common import Failed, Limits, Mistake, Step, judge

A1 = {step.name: step for step in a1.STEPS}
STEPS = {step.name: step for laws in (a1, a2, a3, a4, a5) for step in laws.STEPS}
# A1 whole and one step of each other assignment; all of them with COURSE_NIGHTLY=1.
NIGHTLY = os.environ.get("COURSE_NIGHTLY") == "1"
TRIED = {*A1, "2.2", "3.3", "4.2", "5.4"} if not NIGHTLY else {*STEPS}
FUNCTIONS = [step for step in STEPS.values() if step.kind == "function" and step.name in TRIED]
KNOWN = a1_mistakes.CATALOGUE | a2_mistakes.CATALOGUE | a3_mistakes.CATALOGUE
KNOWN |= a4_mistakes.CATALOGUE | a5_mistakes.CATALOGUE
PACK = Path(os.environ["COURSE_PACK"]) if os.environ.get("COURSE_PACK") else None
QUICK = Limits(1, 200)


@pytest.fixture(scope="session")
def level() -> str:
    """The strongest level of this machine, or the one that COURSE_SANDBOX names."""
    try:
        return sandbox.strongest(trust=True, wanted=os.environ.get("COURSE_SANDBOX"))
    except CourseError as error:
        pytest.skip(f"no sandbox at all: {error}")


def needs(wanted: str) -> None:
    """Skip where this machine does not have the level of a sandbox, and say why."""
    if sandbox.probe(wanted) is None:
        tool = {"3": "bwrap", "2": "unshare"}[wanted]
        pytest.skip(f"level {wanted} does not start here ({tool}: {shutil.which(tool)})")


# --- the sandbox ---------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", ["3", "2"])
def test_a_level_holds_what_it_promises(wanted):
    needs(wanted)
    assert sandbox.probe(wanted) <= sandbox.ALLOWED[wanted]


def test_below_level_3_marking_is_refused_with_the_way_out(monkeypatch):
    monkeypatch.setattr(sandbox, "probe", lambda level: None if level == "3" else {"connects"})
    with pytest.raises(CourseError, match=r"no sandbox of level 3 .* `--trust`"):
        sandbox.strongest()
    assert sandbox.strongest(trust=True) == "1"
    monkeypatch.setenv("COURSE_CONTAINER", "1")
    assert sandbox.strongest() == "C"


def test_a_level_that_does_not_exist_is_told():
    with pytest.raises(CourseError, match="unknown level '4'"):
        sandbox.strongest(wanted="4")


def test_a_level_that_does_not_hold_is_not_used(monkeypatch):
    monkeypatch.setattr(sandbox, "probe", lambda level: {"takes 1 GB"})
    with pytest.raises(CourseError):
        sandbox.strongest(trust=True)


def tried(code: str, level: str, step: Step, large: bool = False) -> dict:
    """The result of a step for the code of a cell."""
    name = f"A{step.name[0]}"
    submission = handin.Submission({step.name: code})
    return marking.mark_step(name, step, submission, level, seed=1, large=large)


WITH_TORCH = pytest.param(True, marks=pytest.mark.nightly, id="with PyTorch")


@pytest.mark.parametrize("torch", [pytest.param(False, id="NumPy"), WITH_TORCH])
@pytest.mark.parametrize("attack", sample.ATTACKS)
def test_an_attack_gets_no_points_and_a_sentence(attack, torch, level):
    code, told = sample.ATTACKS[attack]
    if attack in ("the network", "signals") and level in ("1", "C"):
        pytest.skip("level 1 closes neither the network nor the marker's own process")
    step = replace(A1["1.1"], limits=QUICK._replace(torch=torch))
    result = tried(code.replace("NAME", "softened_gradient"), level, step)
    assert (result["status"], result["points"]) == ("wrong", 0)
    assert told in result["sentence"] and result["sentence"]
    assert result["seconds"] < (90 if torch else 30)  # most of which is the import of PyTorch


def test_what_is_outside_cannot_be_read_and_nothing_inside_is_written(tmp_path):
    needs("3")
    (tmp_path / "another.ipynb").write_text("secret")
    os.chmod(tmp_path / "another.ipynb", 0o666)
    places = [
        "/",
        "/usr",
        "/packages",
        "/packages/numpy",
        "/dev",
        "/dev/shm",
        "/proc",
        "/worker.py",
    ]
    code = f"""
import os
def f(x):
    seen = [p for p in os.listdir("/proc") if p.isdigit()]
    bad = int({str(tmp_path / "another.ipynb")!r} and os.path.exists({str(tmp_path)!r}))
    bad += os.path.exists({str(ROOT / "course_lib")!r}) + os.path.exists("/etc/passwd")
    for place in {places}:
        try:
            open(place + "/x" if os.path.isdir(place) else place, "a").write("x")
            bad += 10
        except OSError:
            pass
    return np.array([bad, len(seen)])
"""
    with sandbox.Answer(code, "f", QUICK, "3") as answer:
        bad, seen = answer(1.0)
    assert bad == 0 and seen <= 2  # itself and bubblewrap's own


def test_files_of_one_answer_are_bounded_and_gone_for_the_next():
    needs("3")
    fill = "def f(x):\n    for i in range(9):\n        open(f'/tmp/{i}', 'wb').write(bytes(10**7))"
    with (
        sandbox.Answer(fill, "f", QUICK, "3") as answer,
        pytest.raises(common.Failed, match="space"),
    ):
        answer(1.0)
    look = "import os\ndef f(x):\n    return len(os.listdir('/tmp'))"
    with sandbox.Answer(look, "f", QUICK, "3") as answer:
        assert answer(1.0) == 0


def test_the_marker_does_not_change_with_the_answer_and_leaves_no_process(level):
    with sandbox.Answer("def f(x):\n    x = x + 1\n    return x", "f", QUICK, level) as answer:
        x = np.arange(3.0)
        assert answer(x).tolist() == [1, 2, 3] and x.tolist() == [0, 1, 2]
        process = answer.process
    assert process.poll() is not None


def test_the_limits_of_an_answer_are_set_and_cannot_be_raised(level):
    """The answer itself reads what holds it: soft and hard limits, and the memory that is free."""
    code = """
import resource
def f(x):
    kinds = (resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE)
    kinds += (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)
    taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    free = [bound - taken for bound in resource.getrlimit(resource.RLIMIT_AS)]
    return np.array([resource.getrlimit(kind) for kind in kinds]), np.array(free)
"""
    limits = Limits(3, 200)
    with sandbox.Answer(code, "f", limits, level) as answer:
        bounds, free = answer(1.0)
    processor = 4 * limits.seconds
    assert bounds[0].tolist() == [processor, processor + 1]
    assert bounds[1:].tolist() == [[n, n] for n in (worker.FILE, 0, 64, 1)]
    assert (free <= limits.memory << 20).all() and (free > limits.memory << 19).all()
    assert worker.FILE == 20 << 20


def test_the_processor_s_time_is_bounded_over_all_calls(level):
    """Each call stays within its second, and together they do not stay within four."""
    code = """
import time
def f(x):
    end = time.process_time() + 0.7
    while time.process_time() < end:
        pass
    return x
"""
    limits = Limits(1, 200)
    with sandbox.Answer(code, "f", limits, level) as answer:
        answer.budget = 30  # a busy machine is slow; the processor's time is what counts
        with pytest.raises(common.Failed, match="4 s of the processor"):
            for _ in range(8):
                answer(1.0)


def test_a_law_has_the_time_of_each_function_and_all_its_calls(level):
    """Its processor's time grows with the functions, and the last call allowed is no fault."""
    law = """
import time
def is_right(f, rng):
    end = time.process_time() + 0.6
    while time.process_time() < end:
        pass
    return all([f(x) < 9 for x in np.ones(common)])
"""
    step = replace(A1["1.7"], limits=Limits(1, 200))
    right, wrong = (lambda x: 1.0,) * 3, (Mistake("", lambda x: 9.0, ""),) * 5
    for count, told in ((common.ASKED, ""), (common.ASKED + 1, "more than 5,000 times")):
        code = law.replace("common", str(count))
        limits = step.limits._replace(calls=8)
        with sandbox.Answer(code, "is_right", limits, level) as answer:
            answer.budget = 60
            verdict = common.judge_law(step, answer.law, 1, right, wrong)
        assert told in verdict.sentence and verdict.share == (not told)


def test_the_marker_gives_a_law_the_time_of_each_function(monkeypatch):
    given = []

    def answer(code, function, limits, level):
        given.append(limits.calls)
        raise common.Failed("end", "enough")

    monkeypatch.setattr(sandbox, "Answer", answer)
    submission = handin.Submission({"1.7": sample.LAW})
    marking.mark_step("A1", A1["1.7"], submission, "3", 1)
    assert given == [sum(map(len, marking.candidates("A1", A1["1.7"])))] and given[0] > 10


def test_an_answer_larger_than_64_mb_is_refused(level):
    code = "def f(x):\n    return np.zeros(int(x))"
    with sandbox.Answer(code, "f", Limits(10, 400), level) as answer:
        assert answer(1e6).shape == (10**6,)
        with pytest.raises(common.Failed, match="72 MB, allowed are 67"):
            answer(9e6)


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        (struct.pack(">Q", worker.HEADER + 1) + b" " * (worker.HEADER + 1), "header is too large"),
        (struct.pack(">Q", 2) + b"[]", "header is damaged"),
        (struct.pack(">Q", 16) + b'{"size": "large"', "Expecting"),
        (struct.pack(">Q", 13) + b'{"size": "a"}', "header is damaged"),
        (struct.pack(">Q", 12) + b'{"size": -1}', "allowed"),
        (struct.pack(">Q", 11) + b'{"size": 9}', "allowed"),
    ],
)
def test_forged_frames_are_refused(frame, told):
    with pytest.raises(ValueError, match=told):
        worker.receive(io.BytesIO(frame), 8)


def test_the_interpreters_own_packages_are_hidden():
    needs("3")
    places = [str(path) for path in sandbox.foreign()]
    code = f"""
import os
def f(x):
    seen = [os.listdir(place) for place in {places} if os.path.isdir(place)]
    return np.array([sum(map(len, seen)), len(os.listdir("/packages"))])
"""
    with sandbox.Answer(code, "f", QUICK, "3") as answer:
        hidden, packages = answer(1.0)
    assert hidden == 0 and packages == len(sandbox.packages())


def test_what_a_law_asks_wrongly_is_nan_and_never_an_error_of_the_marker():
    asked = []
    candidate = lambda x: asked.append(x.size) or x.sum()  # noqa: E731
    assert sandbox.evaluated(candidate, (np.ones(sandbox.SMALL),)) == 500
    for wrong in ((np.ones(sandbox.SMALL + 1),), (), (1.0,), "x", None):
        assert np.isnan(sandbox.evaluated(candidate, wrong))
    assert asked == [500]
    assert np.isnan(sandbox.evaluated(lambda x: np.zeros_like(x), ("x",)))  # a text cannot be sent


@pytest.mark.usefixtures("level")  # which skips where there is no sandbox at all
def test_an_answer_that_closes_its_channel_is_ended():
    """It would sleep on, and no timer would find it.

    At level 1, where nobody else holds the channel; at level 3 the time of the step runs out.
    """
    code = "import os, time\nos.closerange(0, 64)\ntime.sleep(10**6)"
    with pytest.raises(Failed, match="closed the channel for its answers") as told:
        sandbox.Answer(code, "f", Limits(30, 200), "1")
    assert told.value.kind == "end"


@pytest.mark.parametrize("value", [10**400, [[1.0], [1.0, 2.0]], [None, None], "x", (1.0,)])
def test_what_is_no_number_is_told_as_wrong(value):
    with pytest.raises(Failed):
        common.array(value, np.shape(value) if not isinstance(value, list) else (2,))


@pytest.mark.parametrize("value", [(False,), (True,), (True, np.ones(2)), 1, 1.0, "True", None])
def test_a_law_says_one_truth_value(value):
    with pytest.raises(Failed, match="a law returns True or False"):
        common.truth(value)
    assert common.truth(np.bool_(True)) and not common.truth(np.array([False]))


@pytest.mark.parametrize(
    "value",
    [None, True, 3, -1.5, "text", np.arange(6).reshape(2, 3), np.zeros((0, 3)), (1, (np.eye(2),))],
)
def test_values_travel_unchanged(value):
    buffers = []
    spec = json.loads(json.dumps(worker.pack(value, buffers)))
    back, _ = worker.unpack(spec, memoryview(b"".join(buffers)))
    flat = lambda v: [flat(x) for x in v] if isinstance(v, tuple) else np.asarray(v).tolist()  # noqa: E731
    assert flat(back) == flat(value)


@pytest.mark.parametrize(
    "spec",
    [
        {"array": ["O", [1]]},
        {"array": ["<f8", [10**9]]},
        {"array": ["<f8", [-1]]},
        {"array": ["<f8,<f8", [1]]},
        {"array": ["S8", [1]]},
        {"array": ["V8", [1]]},
        {"array": ["M8[s]", [1]]},
        {"array": ["<c8", [1]]},
        {"value": {"a": 1}},
        {"value": [1]},
        {},
    ],
)
def test_forged_descriptions_are_refused(spec):
    with pytest.raises((ValueError, KeyError, TypeError)):
        worker.unpack(spec, memoryview(bytes(8)))


# --- the laws ------------------------------------------------------------------------------------


def rng(seed):
    return np.random.default_rng(seed)


@pytest.fixture(autouse=True)
def _silent():
    with np.errstate(all="ignore"):
        yield


def oracle(step: Step):
    """The naive right answer of a step; the leading term of 1.2 is a numerical limit."""
    if step.name == "2.4":
        return lambda H, most: a2_mistakes.perceptron(H, most, -1, True)
    if step.name == "4.5":
        return a4_mistakes.fool
    if step.name in ("5.3", "5.5"):
        return getattr(a5_mistakes, step.function)
    if step.name != "1.2":
        return getattr({"1": a1, "2": a2, "3": a3, "4": a4, "5": a5}[step.name[0]], step.function)

    def limit(l, s, tau_l, tau_s):  # noqa: E741 (the paper's name)
        far = 1e7
        return a1.softened_gradient(l, s, far * tau_l, far * tau_s) * far**2

    return limit


@pytest.mark.parametrize("step", FUNCTIONS, ids=lambda s: s.name)
def test_oracles_obey_the_small_laws(step):
    for seed in range(20):
        if step.name == "1.2":  # its last law asks more digits than a numerical limit has
            assert a1.order(oracle(step), rng(seed)) == ""
        else:
            assert judge(step, oracle(step), rng(seed), large=False).sentence == ""


CASES = [(step.name, m) for step in FUNCTIONS for m in KNOWN[step.name]]


@pytest.mark.parametrize(("name", "mistake"), CASES, ids=lambda c: getattr(c, "name", c))
def test_a_known_mistake_is_told_by_its_own_message(name, mistake):
    known, draws = KNOWN[name], range(100 if NIGHTLY else 25)
    verdicts = [judge(STEPS[name], mistake.function, rng(k), known, large=False) for k in draws]
    assert all(v.share == 0 and len(v.sentence) > 20 for v in verdicts)
    assert sum(v.mistake == mistake.name for v in verdicts) >= 0.99 * len(draws)
    sentences = {m.message for m in known if isinstance(m.message, str)}
    assert len(sentences) == sum(isinstance(m.message, str) for m in known)


def sheared(step: Step, left_out) -> Step:
    """A step without one of its laws."""
    laws = tuple(law for law in step.laws if law is not left_out)
    return replace(step, laws=laws)


# For each small law a wrong answer that only this law refuses.
NEEDED = {
    "1.1 derivative": lambda l, s, a, b: 0 * l,  # noqa: E741
    "1.1 overflow": a1_mistakes.unstable,
    "1.2 order": lambda l, s, a, b: (l - l.mean()) / (a * b),  # noqa: E741
    "1.2 homogeneous": lambda *x: 1e6 * a1.softened_gradient(x[0], x[1], 1e3 * x[2], 1e3 * x[3]),
    "1.3 any_block": lambda h, W, E, y, t, block: (
        a1.augmented_loss(h, W, E, y, t, block) * (1 if block == 8 else 2)
    ),
    "1.3 extreme": a1_mistakes.overflowing,
    "1.4 residual": lambda W, E: a1_mistakes.no_constant(W, E) if E.all() else a1.tying_map(W, E),
    "1.4 degenerate": lambda W, E: (
        a1.tying_map(W, E) if E.any(0).all() else (np.zeros((4, 4)), np.zeros(4), 0.0)
    ),
    "1.5 enumeration": lambda E: (
        a1_mistakes.by_length(E) & a1.contradicted(E)
        if (E == E.round()).all()
        else a1_mistakes.by_length(E)
    ),
    "1.5 ties": a1_mistakes.not_the_first,
    "2.1 table": lambda W, p: (
        a2.weighted_cosine(W, p) + 0.1 * (np.abs(W).max() < 1e3) * (np.abs(W).min() > 1e-9)
    ),
    "2.1 lengths": a2_mistakes.guarded,
    "2.2 derivative": a2_mistakes.half,
    "2.2 scaled": a2_mistakes.guarded_gradient,
    "2.3 unbiased": a2_mistakes.square_of_whole,
    "2.3 whole": lambda W, rows: a2.estimate(W, rows) * (1 if len(rows) == 3 else 2),
    "2.3 sample_alone": a2_mistakes.all_words,
    "2.4 separable": lambda H, most: (
        (None, most) if most > 100 else a2_mistakes.perceptron(H, most, -1, True)
    ),
    "2.4 last_update": a2_mistakes.last_update_lost,
    "2.4 hull": a2_mistakes.always_a_direction,
    "2.5 bracket": lambda W: (1.2 * a2_mistakes.row_sums(W).mean(), a2.eigenvalue_bracket(W)[1]),
    "2.5 close": lambda W: (
        (a2_mistakes.row_sums(W).min() / 2, a2.eigenvalue_bracket(W)[1])
        if len(W) == 40
        else a2.eigenvalue_bracket(W)
    ),
    "3.1 inside": lambda h, r, ball: -r * h * np.linalg.norm(h, a3.DUAL[ball]) / (h @ h),
    "3.1 lowest": lambda h, r, ball: 0 * h,
    "3.2 surface": a3_mistakes.no_root_right_value,
    "3.2 deepest": lambda h, A, r: 0 * h,
    "3.3 attacked": lambda h, W, y, radii: (
        a3.adversarial_log_prob(h, W, y, radii) * (1 if np.linalg.norm(h) > 100 else 2)
    ),
    "3.3 extreme": a3_mistakes.overflowing,
    "3.4 steepest": lambda contexts, *x: (
        a3.shared_worst(contexts, *x) * (1 if np.abs(contexts).max() > 100 else 2)
    ),
    "3.4 sure": a3_mistakes.overflowing_chances,
    "3.5 enumeration": lambda W, i, h: (
        a3.certificate(W, i, h) * (1 if not 1e-6 < np.linalg.norm(h) < 1e6 else 2)
    ),
    "3.5 any_length": a3_mistakes.guarded,
    "4.1 whole": lambda U, s, V, *x: a4.read_and_predict(U, s if len(V) > len(s) else 2 * s, V, *x),
    "4.1 thin": lambda U, s, V, *x: a4.read_and_predict(U, s if len(V) == len(s) else 2 * s, V, *x),
    "4.2 pairings": lambda s, c: (0.0, 0 * s),
    "4.2 inside": lambda s, c: (
        a4.ceiling(s, c) if a4.ceiling(s, c)[0] else a4_mistakes.two_sided(s, 2 * c)
    ),
    "4.3 nearest": lambda X, tol: (
        (np.linalg.qr(X)[0], 30) if np.abs(X).max() < 0.01 else a4.orthonormalise(X, tol)
    ),
    "4.3 enough": lambda X, tol: (
        a4_mistakes.early(X, tol) if tol > 0.002 else a4.orthonormalise(X, tol)
    ),
    "4.3 few_steps": a4_mistakes.decomposed,
    "4.4 by_word": lambda W, p: (
        a4.isotropy(W, p) if np.abs(W).max() > 100 else a4_mistakes.one_sign(W, p)
    ),
    "4.4 long_words": a4_mistakes.overflowing,
    "4.5 same_cosines": lambda W: W[::-1] / np.abs(W).max() / 1_000,
    "4.5 called_round": a4_mistakes.unchanged,
    "5.1 by_definition": lambda x, c1, k1, c2, k2: (
        a5.two_bends(x, c1, k1, c2, k2) if np.abs(x).max() > 1e3 else x
    ),
    "5.1 far_away": a5_mistakes.overflowing_bends,
    "5.2 last_digits": lambda blocks: (
        a5_mistakes.gram_matrix(blocks) if len(blocks) == 4 else a5.singular_values(blocks)
    ),
    "5.2 few_rows": a5_mistakes.too_few,
    "5.3 highest": a5_mistakes.no_bias,
    "5.3 lowest": a5_mistakes.no_coordinate,
    "5.4 word_by_word": lambda logits, prior, y: (
        a5.mixture(logits, prior, y)
        if np.isinf(logits).any()
        else a5_mistakes.guarded(logits, prior, y)
    ),
    "5.4 unknown_words": lambda logits, prior, y: (
        a5_mistakes.unknown_as_zero(logits, prior, y)
        if prior.max() < 1e3
        else a5.mixture(logits, prior, y)
    ),
    "5.4 large_logits": a5_mistakes.overflowing_mixture,
    "5.5 selected": a5_mistakes.twice_squared,
    "5.5 in_steps": lambda r, u: a5_mistakes.restricted(r, min(u, 0.99)),
}


@pytest.mark.parametrize("case", [c for c in NEEDED if c.split()[0] in TRIED])
def test_every_law_is_needed(case):
    name, law = case.split()
    step, wrong = STEPS[name], NEEDED[case]
    (own,) = (x for x in step.laws if x.__name__ == law)
    refused = judge(step, wrong, rng(5), large=False)
    assert refused.share == 0 and refused.law == law
    assert judge(sheared(step, own), wrong, rng(5), large=False).share == 1


def test_the_list_of_needed_laws_is_whole():
    assert set(NEEDED) == {f"{s.name} {law.__name__}" for s in STEPS.values() for law in s.laws}


ENDING = [s.name for s in FUNCTIONS if s.large and s.name != "2.2"]  # 2.2's oracle never ends


@pytest.mark.parametrize("name", ENDING)
def test_a_naive_answer_has_half_of_the_points(name, level):
    """At the large size the oracle runs out of memory or time, and hears so."""
    step = STEPS[name]
    code = sample.answer(f"A{name[0]}", step, oracle(step))
    step = replace(step, limits=step.limits._replace(seconds=6))
    result = tried(code, level, step, large=True)
    assert result["points"] == step.points / 2, result["sentence"]
    assert result["mistake"] in ("memory", "late")


def test_what_students_get_under_an_asked_name_ends_at_a_large_size():
    """A naive definition among the laws, pasted as the answer, earns half of the points."""
    for laws in (a1, a2, a3, a4, a5):
        for step in laws.STEPS:
            assert step.large or not hasattr(laws, step.function or "none"), step.name


DERIVED = {
    "1.3",
    "1.4",
    "1.5",
    "2.1",
    "2.3",
    "3.5",
    "5.1",
    "5.5",
}  # whose oracle has operators enough


@pytest.mark.parametrize("name", sorted(DERIVED & TRIED))
def test_mutants_of_the_oracle_are_refused(name):
    function = oracle(STEPS[name])
    made = sample.mutants(inspect.getsource(function), function.__name__, function.__globals__)
    count, alive = sample.survivors(STEPS[name], made)
    assert count >= 3 and len(alive) <= 0.05 * count, alive


def test_mutants_of_the_divergence_are_refused_as_gradients():
    def gradient(divergence):
        return lambda l, s, a, b: np.array(  # noqa: E741
            [divergence(x, s, a, b).imag / 1e-30 for x in l + 1e-30j * np.eye(len(l))]
        )

    made = sample.mutants(inspect.getsource(a1.divergence), "divergence", vars(a1))
    count, alive = sample.survivors(A1["1.1"], ((text, gradient(mutant)) for text, mutant in made))
    # The target's own entropy is a constant in l, and its change is no change of the gradient.
    alive = [text for text in alive if "target / tau" not in text]
    assert count >= 10 and len(alive) <= 0.1 * count, alive


def test_a_law_step_counts_the_wrong_functions_that_are_refused(level, monkeypatch):
    monkeypatch.setattr(sandbox, "ASKED", 300)
    submission = handin.Submission({"1.7": sample.LAW})
    result = marking.mark_step("A1", A1["1.7"], submission, level, seed=3)
    assert result["points"] == 8, result["sentence"]
    for code, told, points in (
        ("def is_right(f, rng):\n    return True", "it accepts", 0),
        ("def is_right(f, rng):\n    return False", "refuses a right", 0),
        ("def is_right(f, rng):\n    return 1.0", "True or False", 0),
        (
            "calls = []\ndef is_right(f, rng):\n    calls.append(f)\n    return len(calls) < 3",
            "refuses a right",
            0,
        ),
        (
            "def is_right(f, rng):\n    l = rng.normal(size=4)\n"
            "    return bool(abs(f(l, l, 1.0, 1.0)).max() < 1e-12)",
            "it accepts",
            None,
        ),
        (
            "def is_right(f, rng):\n    while True:\n        f(np.ones(2), np.ones(2), 1.0, 1.0)",
            "more than 300",
            0,
        ),
    ):
        submission = handin.Submission({"1.7": code})
        result = marking.mark_step("A1", A1["1.7"], submission, level, seed=3)
        assert told in result["sentence"] and result["points"] < 8
        assert points is None or result["points"] == points


def test_candidates_of_a_law_step_stay_outside(level):
    """The student's law sees no code of a candidate, only what it gives."""
    code = "def is_right(f, rng):\n    raise ValueError(f.__code__.co_name)"
    submission = handin.Submission({"1.7": code})
    sentence = marking.mark_step("A1", A1["1.7"], submission, level, seed=3)["sentence"]
    assert "candidate" in sentence


NO_PACK = "COURSE_PACK names no instructor's pack of solutions"


def of_the_pack(name: str) -> str:
    """Return the pack's answer to a step; skip where the pack has none."""
    answers = edition.solutions(f"A{name[0]}", PACK)
    if name not in answers:
        pytest.skip(f"the pack has no {name}")
    return answers[name]


def test_a_pack_of_one_assignment_is_checked_for_what_it_has(tmp_path, monkeypatch):
    (tmp_path / "A1.py").write_text("# %% 1.1\nx = 1\n", "utf-8")
    monkeypatch.setitem(globals(), "PACK", tmp_path)
    assert of_the_pack("1.1") == "x = 1"
    for name in ("1.2", "2.1"):
        with pytest.raises(pytest.skip.Exception, match=f"the pack has no {name}"):
            of_the_pack(name)


@pytest.mark.skipif(PACK is None, reason=NO_PACK)
@pytest.mark.parametrize("step", FUNCTIONS, ids=lambda s: s.name)
def test_the_pack_passes_many_instances_and_its_mutants_do_not(step):
    code = of_the_pack(step.name)
    scope = {"np": np, "special": scipy.special}
    right = dict(scope)
    exec(code, right)
    for seed in range(int(os.environ.get("COURSE_INSTANCES", 30))):
        assert judge(step, right[step.function], rng(seed), large=False).sentence == ""
    count, alive = sample.survivors(step, sample.mutants(code, step.function, scope))
    print(step.name, count, "mutants, alive:", *alive, sep="\n")
    assert count >= 3 and len(alive) <= 0.05 * count, alive


ASKED = [s.name for s in STEPS.values() if s.kind in ("function", "law") and s.name in TRIED]


@pytest.mark.skipif(PACK is None, reason=NO_PACK)
@pytest.mark.parametrize("name", ASKED)
def test_the_pack_is_right(name, level):
    code = of_the_pack(name)
    result = tried(code, level, STEPS[name], large=True)
    assert result["status"] == "right", result["sentence"]


def test_a_block_that_leaves_a_rest_is_tried_before_one_larger_than_all_words():
    """Who loses the last block is told so, and not of a block that holds all words."""

    def lost(h, W, E, y, tau, block):
        whole = len(W) // block * block  # none at all where the block is larger
        return a1.augmented_loss(h, W[:whole], E[:whole], y % max(whole, 1), tau, block)

    sentence = judge(A1["1.3"], lambda *x: lost(*x[:5], x[5]), rng(0), large=False).sentence
    assert 5 <= int(re.search(r"block = (\d+)", sentence)[1]) < 20


A0 = {step.name: step for step in a0.STEPS}["0.1"]


@pytest.mark.parametrize("mistake", a0_mistakes.CATALOGUE["0.1"], ids=lambda m: m.name)
def test_mistakes_of_the_rehearsal_are_told_and_its_solution_is_right(mistake):
    known = a0_mistakes.CATALOGUE["0.1"]
    assert judge(A0, mistake.function, rng(1), known).mistake == mistake.name
    scope = {"np": np}
    exec(edition.solutions("A0", None)["0.1"], scope)
    assert judge(A0, scope["log_softmax"], rng(1), known).share == 1


# --- the experiment ------------------------------------------------------------------------------

VARIANT = variant.A1(begin=0, tau=8.0, seeds=(1, 2, 3))
TEXT = np.random.default_rng(0).permutation(np.arange(2_000) % 60)


@pytest.fixture(scope="module")
def claims(tmp_path_factory):
    """A student's files for 1.6: 18 runs on a toy text, whose replication takes 4 steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(a1_experiment, "EARLY", 4)
        yield made_claims(tmp_path_factory)


def made_claims(tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("claims")
    trained = {
        run: a1_experiment.train(TEXT, VARIANT, *run, steps=a1_experiment.EARLY)
        for run in a1_experiment.runs(VARIANT)
    }
    numbers = {run: a1_claims.measured(kept) for run, kept in trained.items()}
    prediction = "The distance falls as β grows; at norm 1 no word is contradicted."
    a1_experiment.save(folder, trained, numbers, prediction)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def judged(files):
    return a1_claims.mark(files, VARIANT, rng(1), TEXT)


def test_an_experiment_that_was_done_has_full_marks(claims):
    assert judged(claims).share == 1


@pytest.mark.parametrize(
    ("change", "share", "told"),
    [
        (lambda f: f | {"1.6.json": b"{}"}, 0.9, "no prediction"),
        (lambda f: f | {"1.6.json": b"[" * 100_000}, 0.9, "no prediction"),
        (lambda f: {k: v for k, v in f.items() if k != "1.6.safetensors"}, 0, "not handed in"),
        (lambda f: f | {"1.6.safetensors": b"\x80\x04pickle"}, 0, "cannot be read"),
        (lambda f: {k: v for k, v in f.items() if k != "1.6.csv"}, 0.6, "1.6.csv was not"),
        (
            lambda f: f | {"1.6.csv": f["1.6.csv"].replace(b"0.5-free-1,0.", b"0.5-free-1,1.")},
            1 - 0.4 / 18,
            "by your arrays",
        ),
    ],
    ids=["no prediction", "deep", "no matrices", "pickle", "no numbers", "one number"],
)
def test_a_claim_is_compared_with_the_matrices(claims, change, share, told):
    verdict = judged(change(claims))
    assert verdict.share == pytest.approx(share) and told in verdict.sentence


def test_a_table_that_a_spreadsheet_saved_is_read_and_one_without_columns_costs_its_part(claims):
    marked = b"\xef\xbb\xbf" + claims["1.6.csv"]
    assert judged(claims | {"1.6.csv": marked}).share == 1
    verdict = judged(claims | {"1.6.csv": claims["1.6.csv"].replace(b"share", b"part", 1)})
    assert verdict.share == pytest.approx(0.6) and "has no column 'share'" in verdict.sentence


def test_runs_that_were_not_trained_are_found(claims):
    from safetensors.numpy import load, save

    arrays = load(claims["1.6.safetensors"])
    invented = {k: v + 0.1 * v.std() if "60" in k else v for k, v in arrays.items()}
    verdict = judged(claims | {"1.6.safetensors": save(invented)})
    assert verdict.share == pytest.approx(0.7) and "trained again" in verdict.sentence


@pytest.mark.nightly
def test_an_experiment_of_a2_is_marked_alike(tmp_path, monkeypatch):
    monkeypatch.setattr(a2_experiment, "EARLY", 3)
    monkeypatch.setattr(a2_experiment, "HIDDEN", 200)
    own = variant.A2(begin=0, kappa=0.5, seeds=(1, 2, 3))
    trained = {run: a2_experiment.train(TEXT, own, *run, 3) for run in a2_experiment.runs(own)}
    numbers = {run: a2_claims.measured(kept, TEXT) for run, kept in trained.items()}
    a2_experiment.save(
        tmp_path, trained, numbers, "Rare words move apart, the loss hardly changes."
    )
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert a2_claims.mark(files, own, rng(0), TEXT).share == 1
    other = files | {"2.6.csv": files["2.6.csv"].replace(b"none-1,", b"none-1,1")}
    verdict = a2_claims.mark(other, own, rng(0), TEXT)
    assert verdict.share == pytest.approx(1 - 0.4 / 9) and "frequent is" in verdict.sentence


@pytest.mark.nightly
def test_an_experiment_of_a3_is_marked_alike(tmp_path, monkeypatch):
    monkeypatch.setattr(a3_experiment, "EARLY", 3)
    monkeypatch.setattr(a3_experiment, "HIDDEN", 200)
    own = variant.A3(begin=0, margin=0.5, seeds=(1, 2))
    trained = {run: a3_experiment.train(TEXT, own, *run, 3) for run in a3_experiment.runs(own)}
    numbers = {run: a3_claims.measured(kept, TEXT) for run, kept in trained.items()}
    a3_experiment.save(
        tmp_path, trained, numbers, "The balls do not differ once tempered, I think."
    )
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert a3_claims.mark(files, own, rng(0), TEXT).share == 1
    assert len(set(map(str, numbers.values()))) == 8  # the balls do differ


@pytest.mark.nightly
def test_an_experiment_of_a4_is_marked_alike(tmp_path, monkeypatch):
    monkeypatch.setattr(a4_experiment, "EARLY", 3)
    monkeypatch.setattr(a4_experiment, "HIDDEN", 200)
    own = variant.A4(begin=0, c1=30.0, gamma=0.7, seeds=(1, 2, 3))
    trained = {run: a4_experiment.train(TEXT, own, *run, 3) for run in a4_experiment.runs(own)}
    numbers = {run: a4_claims.measured(kept, TEXT, own) for run, kept in trained.items()}
    a4_experiment.save(tmp_path, trained, numbers, "The ceiling leaves the first value below it.")
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert a4_claims.mark(files, own, rng(0), TEXT).share == 1
    other = files | {"4.6.csv": files["4.6.csv"].replace(b"none-1,", b"none-1,1")}
    assert "above is" in a4_claims.mark(other, own, rng(0), TEXT).sentence
    bent = trained["none", 1] | {"U": 2 * trained["none", 1]["U"]}
    with pytest.raises(ValueError, match="no singular values"):
        a4_claims.measured(bent, TEXT, own)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A student's files for 5.6 after 15 steps of each of the 60 runs, on 20 words."""
    own = variant.A5(words=20, rank=8, language=3, seeds=(1, 2, 3, 4, 5))
    text, steps = a5_experiment.tokens(own), a5_experiment.EARLY
    trained = {run: a5_experiment.train(text, own, *run, steps) for run in a5_experiment.runs(own)}
    numbers = {run: a5_claims.measured(kept, text, run[0]) for run, kept in trained.items()}
    folder = tmp_path_factory.mktemp("fitted")
    a5_experiment.save(folder, trained, numbers, "Each layer is better on its own language.")
    return own, text, trained, {path.name: path.read_bytes() for path in folder.iterdir()}


def test_an_experiment_of_a5_is_marked_by_the_exact_shapes_of_its_runs(fitted):
    from safetensors.numpy import load, save

    own, text, trained, files = fitted
    assert a5_claims.mark(files, own, rng(0), text).share == 1
    other = files | {"5.6.csv": files["5.6.csv"].replace(b"language-softmax-5-1,", b"&1", 1)}
    assert a5_claims.mark(other, own, rng(0), text).share < 1
    # the arrays of a wider run in the place of a narrow one's, with numbers of their own
    names = [a5_experiment.name("softmax", "softmax", width, 1) for width in (5, 11)]
    arrays = load(files["5.6.safetensors"])
    for key in a5_experiment.shapes(own, "softmax", "softmax", 5, 1):
        arrays[f"{names[0]}/{key}"] = arrays[f"{names[1]}/{key}"]
    lines = files["5.6.csv"].decode().splitlines()
    wide = next(line for line in lines if line.startswith(f"{names[1]},"))
    exchanged = [
        wide.replace(names[1], names[0]) if line.startswith(f"{names[0]},") else line
        for line in lines
    ]
    table = "\n".join(exchanged).encode()
    passed_off = files | {"5.6.safetensors": save(arrays), "5.6.csv": table}
    verdict = a5_claims.mark(passed_off, own, rng(0), text)
    assert verdict.share < 1 and "W has shape (20, 11), this run's has (20, 5)" in verdict.sentence


def test_the_pairs_of_a5_have_equal_numbers_and_its_languages_their_ranks(fitted):
    own, text, trained, _ = fitted
    pairs = zip(*a5_experiment.WIDTHS.values(), strict=True)
    for width, other in pairs:
        softmax = a5_experiment.count(trained["softmax", "softmax", width, 1])
        assert softmax == a5_experiment.count(trained["softmax", "mixture", other, 1])
    ranks = {k: np.linalg.matrix_rank(x) for k, x in text.items()}
    assert ranks == {"softmax": own.rank, "mixture": own.words}
    assert all(np.allclose(np.exp(x).sum(1), 1) for x in text.values())


def test_each_layer_of_a5_is_better_on_its_own_language():
    own = variant.A5(words=24, rank=8, language=3, seeds=(1,))
    text = a5_experiment.tokens(own)
    ends = {
        (language, layer): a5_experiment.excess(
            a5_experiment.train(text, own, language, layer, width, 1), text[language]
        )
        for language in text
        for layer, width in (("softmax", 8), ("mixture", 5))
    }
    assert 0 <= ends["softmax", "softmax"] < 0.1 * ends["softmax", "mixture"]
    assert 0 <= ends["mixture", "mixture"] < ends["mixture", "softmax"]


def test_a_cut_of_45_percent_leaves_half_of_the_published_correlations():
    for r, u, left in ((0.48, 0.45, 0.24), (0.53, 0.34, 0.21)):
        pair = a5_mistakes.restricted(np.array([[1, r], [r, 1]]), u)
        assert pair[0, 1] == pytest.approx(left, abs=0.005)


# Laws that look at one property, or at one special case: what each draws, and what it asks of the
# function f. Some know the right function, which is more than most students' laws know.
DRAWN = {
    "1.7": "l, s = rng.normal(size=(2, 5)); a, b = 0.7, 2.0; g = f(l, s, a, b)",
    "2.7": "W, p = rng.normal(size=(5, 3)), rng.dirichlet(np.ones(5)); g = f(W, p);"
    "lengths = np.linalg.norm(W, axis=1, keepdims=True)",
    "3.7": "h, W, r = rng.normal(size=3), rng.normal(size=(6, 3)), rng.uniform(0.1, 1, 6);"
    "value = f(h, W, 2, r); mine = np.arange(6) == 2; turn = rng.permutation(6)",
    "4.7": "c = np.array([4.0, 3, 2, 1]);"
    "s = np.array([1.5, -3.5, 5, 0.2]) * rng.uniform(0.9, 1.1, 4); value, g = f(s, c)",
    "5.7": "l, q, y = 2 * rng.normal(size=(2, 3, 5)), rng.normal(size=(2, 3)), np.array([0, 3]);"
    "g = f(l, q, y)",
}
WEAK = {
    "1.7": {
        "adds up to 0": "near(g.sum(), 0)",
        "0 where equal": "near(f(a / b * s + 1, s, a, b), 0)",
        "at equal temperatures": "near(f(l, s, 2, 2), right(l, s, 2, 2))",
        "at τ_l = 1": "near(f(l, s, 1, b), right(l, s, 1, b))",
        "at τ_s = 1": "near(f(l, s, a, 1), right(l, s, a, 1))",
        "scaled with τ_l": "near(2 * f(2 * l, s, 2 * a, b), g)",
        "scaled with τ_s": "near(f(l, 2 * s, a, 2 * b), g)",
        "other order": "near(f(l[::-1], s[::-1], a, b)[::-1], g)",
        "exchanged": "near(a * g, -b * f(s, l, b, a))",
        "length": "near(np.linalg.norm(g), np.linalg.norm(right(l, s, a, b)))",
        "first entry": "near(g[0], right(l, s, a, b)[0])",
        "two words": "near(f(l[:2], s[:2], a, b), right(l[:2], s[:2], a, b))",
        "uniform": "near(f(0 * l, s, a, b), right(0 * l, s, a, b))",
        "uniform target": "near(f(l, 0 * s, a, b), right(l, 0 * s, a, b))",
        "roughly": "np.abs(g - right(l, s, a, b)).max() < 0.05",
        "very hot": "near(1e12 * f(l, s, 1e6 * a, 1e6 * b), 1e12 * right(l, s, 1e6 * a, 1e6 * b))",
    },
    "2.7": {
        "orthogonal": "near((g * W).sum(1), 0)",
        "falls with the length": "near(3 * f(3 * W, p), g)",
        "falls with each length": "near(f(W / lengths, p) / lengths, g)",
        "equal weights": "near(f(W, 0 * p + 0.2), right(W, 0 * p + 0.2))",
        "equal lengths": "near(f(W / lengths, p), right(W / lengths, p))",
        "lengths alone": "near((g**2).sum(1), (right(W, p) ** 2).sum(1))",
        "first word": "near(g[0], right(W, p)[0])",
        "two words": "near(f(W[:2], p[:2]), right(W[:2], p[:2]))",
    },
    "3.7": {
        "no radii": "near(f(h, W, 2, 0 * r), special.log_softmax(W @ h)[2])",
        "falls with the radii": "f(h, W, 2, 1.1 * r) < value",
        "equal radii": "near(f(h, W, 2, 0 * r + 0.2), right(h, W, 2, 0 * r + 0.2))",
        "scaled": "near(f(2 * h, W / 2, 2, r / 2), value)",
        "other order": "near(f(h, W[turn], int(turn.argsort()[2]), r[turn]), value)",
        "y alone moves": "near(f(h, W, 2, r * mine), right(h, W, 2, r * mine))",
        "y stays": "near(f(h, W, 2, r * ~mine), right(h, W, 2, r * ~mine))",
        **{
            f"the whole of y = {y}": f"all(near(f(h, W, {y}, x), right(h, W, {y}, x))"
            " for x in rng.uniform(0.1, 1, (20, 6)))"
            for y in range(6)
        },
    },
    "4.7": {
        "0 inside": "f(s / 20, c)[0] == 0 and near(f(s / 20, c)[1], 0)",
        "whatever the sign": "near(f(-s, c)[0], value) and near(-f(-s, c)[1], g)",
        "other order": "near(f(s[::-1], c)[0], value) and near(f(s[::-1], c)[1][::-1], g)",
        "slope and value": "near(g @ g, 4 * value)",
        "value": "near(value, right(s, c)[0])",
        "gradient": "near(g, right(s, c)[1])",
        "positive": "all(map(near, f(abs(s), c), right(abs(s), c)))",
        "no ceiling": "all(map(near, f(s, 0 * c), right(s, 0 * c)))",
        "one instance": "all(map(near, (value, g), right(s, c)))",
    },
    "5.7": {
        "adds up to 0": "near(g.sum(1), 0)",
        "is bounded": "np.abs(g).max() <= 1",
        "one component": "near(f(l[:, :1], q[:, :1], y), 0)",
        "other order": "near(f(l[:, ::-1], q[:, ::-1], y)[:, ::-1], g)",
        "two components": "near(f(l[:, :2], q[:, :2], y), right(l[:, :2], q[:, :2], y))",
        "one context": "near(f(l[:1], q[:1], y[:1]), right(l[:1], q[:1], y[:1]))",
        "one word": "near(f(l, q, 0 * y), right(l, q, 0 * y))",
        "equal scores": "near(f(l, 0 * q, y), right(l, 0 * q, y))",
        "every word is known": "near(g, right(l, q, y))",
    },
}
LAWS = {"1.7": (a1, a1_mistakes), "2.7": (a2, a2_mistakes), "3.7": (a3, a3_mistakes)}
LAWS |= {"4.7": (a4, a4_mistakes), "5.7": (a5, a5_mistakes)}


def near(value, other) -> bool:
    """Return whether two values are equal but for rounding."""
    return bool(np.abs(np.asarray(value) - other).max() < 1e-8)


def law_verdict(name: str, law):
    """Return the verdict on a student's law, which is called in this process."""
    laws, mistakes = LAWS[name]
    right, wrong = list(laws.RIGHT[name]), list(mistakes.WRONG[name])
    return common.judge_law(STEPS[name], lambda f, seed: law(f, rng(seed)), 3, right, wrong)


@pytest.mark.parametrize(
    ("name", "weak"), [(name, weak) for name, laws in WEAK.items() for weak in laws]
)
def test_a_law_of_one_property_earns_less_than_a_quarter(name, weak):
    """A student's law is paid for what it refuses, and no one property refuses much."""
    code = f"def law(f, rng):\n    {DRAWN[name]}\n    return bool({WEAK[name][weak]})"
    scope = {
        "np": np,
        "special": scipy.special,
        "near": near,
        "right": LAWS[name][0].RIGHT[name][0],
    }
    exec(code, scope)
    verdict = law_verdict(name, scope["law"])
    assert "it accepts" in verdict.sentence and verdict.share < 0.25, verdict


WHOLE = {
    "1.7": lambda rng: (*rng.normal(size=(2, 5)), *rng.uniform(0.3, 3, 2)),
    "2.7": lambda rng: (rng.normal(size=(5, 3)), rng.dirichlet(np.ones(5))),
    "3.7": lambda rng: (
        *(rng.normal(size=3), rng.normal(size=(6, 3)), int(rng.integers(6))),
        rng.uniform(0.1, 1, 6),
    ),
    "4.7": lambda rng: (3 * rng.normal(size=5), np.sort(rng.uniform(1, 4, 5))[::-1]),
    "5.7": lambda rng: (
        np.where(np.arange(30).reshape(2, 3, 5) == 12, -np.inf, rng.normal(size=(2, 3, 5))),
        *(rng.normal(size=(2, 3)), rng.permutation(5)[:2]),
    ),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_law_of_the_whole_definition_has_all_points(name):
    """Ten instances, on which all that may differ does differ."""
    right = LAWS[name][0].RIGHT[name][0]

    def law(f, rng):
        for _ in range(10):
            instance = WHOLE[name](rng)
            values, expected = f(*instance), right(*instance)
            pairs = zip(values, expected, strict=True) if name == "4.7" else [(values, expected)]
            if not all(near(*pair) for pair in pairs):
                return False
        return True

    assert law_verdict(name, law).share == 1


def test_a_tuple_of_arrays_is_pasted_and_infinity_with_it():
    step = Step("5.2", "", "f", ("blocks", "x"), 1, 1)
    blocks = np.array([[1.0, -np.inf]]), np.eye(2)
    *lines, call = common.pasted(step, (blocks, 2.0)).splitlines()
    scope = {"np": np}
    exec("\n".join(lines), scope)
    assert call == "f(blocks, x)"
    for value, block in zip(scope["blocks"], blocks, strict=True):
        np.testing.assert_array_equal(value, block)
    assert common.size((blocks, 2.0)) == 7
    trial = common.Trial(lambda blocks, x: blocks[0].fill(0))
    trial(blocks, 2.0)
    assert blocks[0][0, 0] == 1


def test_one_infinity_does_not_make_all_numbers_alike():
    known = lambda x: np.array([-np.inf, 1.0])  # noqa: E731
    assert common.same(np.array([-np.inf, 1.0]), known, (0,))
    assert not common.same(np.array([-np.inf, 2.0]), known, (0,))


def test_the_experiments_penalties_are_those_of_the_questions(monkeypatch):
    """The experiment of A4 pulls σ by the ceiling of step 4.2, or from both sides."""
    monkeypatch.setattr(a4_experiment, "HIDDEN", 200)
    own = variant.A4(begin=0, c1=4.0, gamma=0.7, seeds=(1,))
    c = a4_experiment.bounds(own)
    ends = {k: a4_experiment.train(TEXT, own, k, 1, 60)["s"] for k in a4_experiment.KINDS}
    two, one = (a4_mistakes.two_sided(ends[k], c)[0] for k in ("two-sided", "ceiling"))
    assert two < one  # from below, too
    assert a4.ceiling(ends["ceiling"], c)[0] < a4.ceiling(ends["none"], c)[0]


@pytest.mark.parametrize("ball", a3_experiment.BALLS)
def test_no_ball_drives_the_contexts_to_0(ball, monkeypatch):
    """The margin is a mean in nats: contexts that shrink would be a way around the adversary."""
    monkeypatch.setattr(a3_experiment, "HIDDEN", 200)
    own = variant.A3(begin=0, margin=0.5, seeds=(1,))
    text = np.arange(2_000) % 60
    trained = a3_experiment.train(text, own, ball, 1, 50)
    assert a3_experiment.losses(trained, text)["loss"] < 0.5 * np.log(60)


def test_the_margin_is_that_of_the_worst_perturbation():
    """The experiment of A3 subtracts the margin of step 3.1, and of 3.2 for the words' cloud."""
    import torch

    W, hidden = (torch.as_tensor(rng(k).normal(size=(6, 4))) for k in (1, 2))
    cloud = np.cov(W.numpy().T, bias=True)
    for k, h in enumerate(hidden.numpy()):
        for ball in ("l2", "linf"):
            pulled = a3_experiment.margins(hidden, W, ball)[k]
            assert float(pulled) == pytest.approx(-a3.worst(h, 1.0, ball) @ h)
        pulled = a3_experiment.margins(hidden, W, "ellipsoid")[k]
        assert float(pulled) == pytest.approx(-a3.worst_in_ellipsoid(h, cloud, 1.0) @ h)


@pytest.mark.parametrize(
    "step", [s for n in marking.assignments() for s in marking.module(n).STEPS]
)
def test_what_is_to_be_read_again_is_a_section_of_a_lesson(step):
    if step.read:
        lesson, _, heading = step.read.removeprefix("lesson ").partition(", ")
        (source,) = ROOT.glob(f"notebooks/{lesson}_*.py")
        assert f"# ## {heading}\n" in source.read_text("utf-8")


def test_runs_of_another_variant_are_told(claims):
    other = variant.A1(begin=0, tau=8.0, seeds=(7, 8, 9))
    verdict = a1_claims.mark(claims, other, rng(1), TEXT)
    assert verdict.share == 0 and "another variant" in verdict.sentence


def test_variants_follow_from_the_term_and_the_student():
    letters = {variant.code(term, who) for term in ("a", "b") for who in map(str, range(200))}
    assert len(letters) == 400 and all(len(x) == 6 for x in letters)
    own = [variant.parameters("A1", x) for x in sorted(letters)]
    assert len({p.begin for p in own}) > 390 and len({p.seeds for p in own}) == 400
    assert own[0] == variant.parameters("A1", sorted(letters)[0])


# --- editions ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def editions(tmp_path_factory):
    folder = tmp_path_factory.mktemp("editions")
    for name in marking.assignments():
        edition.write(name, folder / name, PACK if name != "A0" else None)
    return folder


@pytest.mark.parametrize("name", marking.assignments())
def test_a_source_asks_every_step_and_only_those(name):
    cells = edition.notebook(name).cells
    steps = {s.name: s for s in marking.module(name).STEPS}
    asked = [c for c in cells if {"answer", "manual"} & set(c.metadata.get("tags", []))]
    assert [c.metadata["step"] for c in asked] == list(steps)
    text = "\n".join(c.source for c in cells if c.cell_type == "markdown")
    for step in steps.values():
        assert f"## {step.name} " in text
        hours = f"{step.minutes / 60:g} hour"
        assert f"{step.points} point" in text
        assert f"{step.minutes} minutes" in text or name == "A6" and hours in text
        if step.kind == "function" and not step.shown:
            assert f"`{step.function}({', '.join(step.arguments)})`" in text
    assert sum(s.points for s in steps.values()) == {"A0": 3, "A6": 200}.get(name, 100)
    identities = [c.metadata.nbgrader.grade_id for c in cells if "nbgrader" in c.metadata]
    assert len(set(identities)) == len(identities)


def test_a_student_gets_no_line_of_a_solution(editions):
    for name in marking.assignments():
        student = editions / name / "student"
        assert edition.leaks(student, edition.solutions(name, PACK)) == []
        assert not list(student.rglob("*mistakes*")) and not list(student.rglob("*claims*"))
        assert (editions / name / "student.zip").is_file()
        assert (editions / name / "solution").is_dir() == bool(edition.solutions(name, PACK))
    solved = (editions / "A0" / "solution" / "A0.ipynb").read_text("utf-8")
    assert "shifted = l - l.max()" in solved


def test_hints_leave_the_question_and_the_number_opened_is_read(editions, tmp_path, capsys):
    path = sample.hand_in("A1", tmp_path / "A1.ipynb", {})
    book = path.read_text("utf-8")
    assert "<details>" not in book and "The target does not depend" not in book
    folded = edition.hints("A1")
    functions = [s.name for s in A1.values() if s.kind in ("function", "law")]
    assert list(folded) == functions and all(len(pairs) == 3 for pairs in folded.values())
    assert handin.read(path).hints == dict.fromkeys(functions, 0)
    once = r"hint(\"A1\", \"1.3\", 0)"
    assert once in book
    path.write_text(book.replace(once, once.replace(", 0)", ", 2)")), "utf-8")
    submission = handin.read(path)
    assert submission.hints["1.3"] == 2 and submission.hints["1.1"] == 0
    assert handin.blank(submission.answer(A1["1.3"]))  # the cell of hints is no answer


def printed_in(student: Path, code: str) -> str:
    """Return what code prints in a student's folder, where nothing of the course is on the path."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=student, capture_output=True, text=True, env=environment, check=True
    )
    return done.stdout


def test_the_cell_of_hints_shows_so_many_as_its_number_says(editions, capsys):
    student = editions / "A1" / "student"
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from tools.assignments.laws.home import hint\n"
        "hint('A1', '1.4', 0)\nhint('A1', '1.4', 2)\nhint('A1', '1.4', 3)"
    )
    printed = printed_in(student, code)
    assert printed.count("Markdown object") == 5
    home.hint("A1", "1.4", 1)  # the repository has the hints in its source alone
    assert "unpack student.zip again" in capsys.readouterr().out
    assert "3 more: write 1 for the 0" in printed and "1 more: write 3" in printed


def test_a_leak_is_refused_and_nothing_is_written(tmp_path, monkeypatch):
    answers = edition.solutions("A0", None)
    leaky = edition.notebook("A0", answers)
    monkeypatch.setattr(edition, "notebook", lambda name, given=None: leaky)
    with pytest.raises(CourseError, match="leak.*\n.*A0.ipynb has a line of 0.1: shifted"):
        edition.write("A0", tmp_path / "made")
    assert list(tmp_path.iterdir()) == []


def test_a_line_of_a_naive_definition_is_told_as_such(tmp_path, monkeypatch):
    answers = {"1.1": "def f(x):\n    target = log_softmax(s / tau_s)"}
    monkeypatch.setattr(edition, "solutions", lambda name, pack: answers)
    with pytest.raises(CourseError, match="a1.py has a line of 1.1: target .* write yours other"):
        edition.write("A1", tmp_path / "made")


@pytest.mark.parametrize("name", ["A1", "A2", "A3", "A4", "A5"])
def test_a_head_names_the_lessons_that_students_read_again(name):
    head = edition.notebook(name).cells[0].source
    named = set(re.findall(r"\d\d[a-z]?", re.search(r"\*\*After lessons (.*?)\*\*", head)[1]))
    read = {step.read[7:].partition(",")[0] for step in marking.module(name).STEPS if step.read}
    assert read <= named


@pytest.mark.parametrize("name", ["A1", "A2", "A3", "A4", "A5"])
def test_an_experiment_promises_no_more_than_its_marker_does(name):
    text = "\n".join(c.source for c in edition.notebook(name).cells)
    assert "begins one run, drawn at random, again" in text and "trains one run" not in text


def test_a_student_checks_at_home_with_nothing_of_the_course(editions):
    """The folder that students get is whole: its checks need NumPy and SciPy only."""
    student = editions / "A0" / "student"
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "import numpy as np\nfrom tools.assignments.laws.home import check\n"
        "check('A0', '0.1', lambda l: l - np.log(np.exp(l).sum()))\n"
        "check('A0', '0.1', lambda l: l - l.max() - np.log(np.exp(l - l.max()).sum()))\n"
    )
    printed = printed_in(student, code)
    first, *_, last = printed.strip().splitlines()
    assert "not yet" in first and "overflows" in first and last == "Step 0.1 obeys its laws."


def test_at_home_a_table_has_no_more_memory_than_at_the_marker(capsys):
    if not sys.platform.startswith("linux"):
        pytest.skip("the memory of a process is bounded on Linux only")
    home.check("A1", "1.4", a1.tying_map)
    assert "needs more than 400 MB" in capsys.readouterr().out


def at_home(code: str, name: str = "0.1", **others):
    """Check a step as a notebook does, whose cells' code Python finds by a name that is no file."""
    file = "/tmp/ipykernel_0/cell.py"
    linecache.cache[file] = (len(code), None, code.splitlines(True), file)
    scope = {"np": np, "special": scipy.special} | others
    exec(compile(code, file, "exec"), scope)
    home.check(f"A{name[0]}", name, scope[STEPS.get(name, A0).function])


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("def log_softmax(l):\n    return helper(l)", "NameError in line 2 of your cell"),
        ("def log_softmax(l):\n    import torch\n    return l", "NumPy and SciPy, and no torch"),
        ("def log_softmax(l):\n    return l / None", "TypeError in line 2"),
        ("def log_softmax(l):\n    while True:\n        pass", "longer than 1 s"),
        ("check('A0', '0.1', 1)\ndef log_softmax(l):\n    return l", "'check' is not defined"),
    ],
    ids=["helper", "package", "error", "endless", "check in the cell"],
)
def test_at_home_a_cell_stands_alone_and_its_errors_are_sentences(code, told, capsys, monkeypatch):
    monkeypatch.setattr(a0, "STEPS", (replace(A0, limits=QUICK),))
    known = {"helper": scipy.special.log_softmax, "check": lambda *x: None}
    at_home(code, **known)
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("Step 0.1: not yet: ") and told in first
    assert any("log_softmax(l)" in line for line in rest) or "check" in told


def test_at_home_a_right_cell_is_right_and_a_law_is_not_promised_more(capsys):
    at_home("from scipy.special import log_softmax as f\ndef log_softmax(l):\n    return f(l)")
    assert capsys.readouterr().out == "Step 0.1 obeys its laws.\n"
    at_home(sample.LAW, "1.7")
    assert "refuses the 2 wrong ones of this check" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("law", "told"),
    [
        ("[f(np.zeros(2), np.zeros(2), 1.0, 1.0) for _ in range(5_001)]", "more than 5,000 times"),
        ("f(*np.zeros((2, 251)), 1.0, 1.0)", "refuses a right function"),
    ],
)
def test_at_home_a_law_has_the_markers_bounds(law, told, capsys):
    at_home(f"def is_right(f, rng):\n    return bool(np.all(np.isfinite({law})))", "1.7")
    assert told in capsys.readouterr().out


def test_at_home_all_calls_together_have_the_markers_time():
    limits = Limits(1, 400, calls=2)
    slow = home.limited(lambda: time.sleep(0.8), limits)
    slow()
    slow()
    with pytest.raises(common.Failed, match="together took longer than 2 s"):
        slow()


def test_gradescope_marks_in_its_own_layout(editions, tmp_path, level):
    """The zip alone, with only a submission beside it, writes results.json."""
    source = tmp_path / "autograder" / "source"
    with zipfile.ZipFile(editions / "A0" / "gradescope.zip") as archive:
        archive.extractall(source)
        assert archive.getinfo("run_autograder").external_attr >> 16 == 0o755
    submission = tmp_path / "autograder" / "submission"
    answers = {"0.1": "import os\ndef log_softmax(l):\n    os._exit(0)"}
    sample.hand_in("A0", submission / "A0.ipynb", answers)
    target = tmp_path / "autograder" / "results.json"
    os.chmod(tmp_path, 0o755)
    others = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p != str(ROOT)]
    paths = os.pathsep.join(filter(None, [str(source), *others]))
    environment = os.environ | {"COURSE_CONTAINER": "1", "PYTHONPATH": paths}
    subprocess.run(
        [sys.executable, "-m", "tools.assignments.gradescope", "A0", submission, target],
        cwd=source,
        env=environment,
        check=True,
    )
    results = json.loads(target.read_text("utf-8"))
    (test,) = results["tests"]
    assert test["score"] == 0 and test["max_score"] == 2 and "ended its own" in test["output"]


# --- hand-ins ------------------------------------------------------------------------------------


def cells_of(path):
    return json.loads(path.read_text("utf-8"))


def test_cells_added_split_duplicated_and_reordered_do_no_harm(tmp_path):
    path = sample.hand_in(
        "A1", tmp_path / "A1.ipynb", {"1.1": "def softened_gradient():\n    pass"}
    )
    book = cells_of(path)
    tagged = next(c for c in book["cells"] if "softened_gradient():" in "".join(c["source"]))
    # Split: the definition is now in a cell without the step's id, before the tagged rest.
    tagged["source"] = "x = 1"
    moved = {
        "cell_type": "code",
        "metadata": {},
        "source": ["def softened_gradient(l, s, a, b):\n", "    return 7"],
    }
    # A duplicate with the same id, and a broken cell.
    twice = json.loads(json.dumps(tagged))
    book["cells"] = [moved, *book["cells"][::-1], twice, {"metadata": 3}, "no cell"]
    path.write_text(json.dumps(book))
    submission = handin.read(path)
    assert submission.problem == "" and submission.answer(A1["1.1"]).endswith("return 7")
    assert handin.blank(submission.answer(A1["1.3"]))


def test_of_a_duplicated_cell_the_one_that_is_filled_in_counts(tmp_path):
    path = sample.hand_in("A1", tmp_path / "A1.ipynb", {})
    book = cells_of(path)
    (blank,) = (
        c
        for c in book["cells"]
        if c["metadata"].get("step") == "1.1" and "raise" in "".join(c["source"])
    )
    filled = json.loads(json.dumps(blank)) | {
        "source": "def softened_gradient(l, s, a, b):\n    return l"
    }
    for order in ([blank, filled], [filled, blank]):
        path.write_text(json.dumps(book | {"cells": order}))
        assert handin.read(path).answer(A1["1.1"]).endswith("return l")


def test_an_answer_without_any_iteration_counts_no_steps():
    """The nearest by singular values is right at every tolerance, and takes as many steps."""

    def decomposed(X, tol):
        left, _, right = np.linalg.svd(X, full_matrices=False)
        return left @ right, 30

    assert "you take 0 steps" in a4.few_steps(decomposed, np.random.default_rng(0))


SOLVED = "def softened_gradient(l, s, a, b):\n    return 7"


@pytest.mark.parametrize(
    ("code", "is_blank"),
    [
        ('def f(l):\n    raise NotImplementedError("1.1")', True),
        ('VERDICT = ""\n\ndef f(l):\n    """Say."""\n    raise NotImplementedError("6.2")', True),
        ('class Layer:\n    def __init__(self):\n        raise NotImplementedError("6.3")', True),
        ("def f(l):\n    # raise NotImplementedError('1.1')\n    return l", False),
        ("def f(l, p):\n    if p > 2:\n        raise NotImplementedError(p)\n    return l", False),
        ("def f(l:\n    raise NotImplementedError", False),  # an error to be told
        ("*Your answer here.*\n", True),
        ('PREDICTION = ""', True),
        ('METHODS = ("", "")\nSETTINGS = {\n    "layer": [],  # …\n}', True),
        ('PREDICTION = "It falls."', False),
        ("", True),
        ("It shortens the logits.", False),
        ("Nothing", False),
        ("# It shortens the logits.", False),
    ],
)
def test_an_answer_is_blank_as_long_as_it_does_nothing_but_raise(code, is_blank):
    assert handin.blank(code) == is_blank


def with_cell(path, cell_type, source, after) -> None:
    """Put a cell of a student's own below the cell whose source contains a text."""
    book = cells_of(path)
    sources = ["".join(cell["source"]) for cell in book["cells"]]
    place = next(i for i, text in enumerate(sources) if after in text)
    cell = {"cell_type": cell_type, "metadata": {}, "source": source}
    book["cells"].insert(place + 1, cell)
    path.write_text(json.dumps(book))


def test_an_answer_in_a_new_cell_counts_where_the_given_one_was_left(tmp_path):
    path = sample.hand_in("A1", tmp_path / "A1.ipynb", {})
    with_cell(path, "code", SOLVED, 'raise NotImplementedError("1.1")')
    assert handin.read(path).answer(A1["1.1"]) == SOLVED


def test_a_text_in_new_cells_of_its_section_is_read(tmp_path):
    path = sample.hand_in("A1", tmp_path / "A1.ipynb", {})
    with_cell(path, "markdown", "Notes on 1.1.", "## 1.1")
    with_cell(path, "markdown", "It shortens them.", "## 1.8 Discuss")
    with_cell(path, "markdown", "A rival is the length.", "*Your answer here.*")
    submission = handin.read(path)
    both = "*Your answer here.*\n\nIt shortens them.\n\nA rival is the length."
    assert submission.answer(A1["1.8"]) == both and not handin.blank(both)
    assert handin.blank(submission.answer(A1["1.1"]))  # a note is no code
    trimmed = marking.trimmed(submission, A1["1.8"])
    assert trimmed.answer(A1["1.8"]) == both  # once


def packed(path, files) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def test_a_blank_copy_or_a_classmates_file_takes_no_answers_place(tmp_path):
    blank = sample.hand_in("A1", tmp_path / "blank.ipynb", {}).read_bytes()
    full = sample.hand_in("A1", tmp_path / "full.ipynb", {"1.1": SOLVED}).read_bytes()
    folder = tmp_path / "s-anna"
    (folder / "student").mkdir(parents=True)
    (folder / "A1.ipynb").write_bytes(full)
    (folder / "student" / "A1.ipynb").write_bytes(blank)
    (folder / "1.6.csv").write_text("mine")
    (folder / "student" / "1.6.csv").write_text("given")
    packed(folder / "student.zip", {"A1.ipynb": blank, "1.6.csv": "packed"})
    files = {"A1.ipynb": full, "1.6.csv": "mine", "classmate/1.6.csv": "theirs"}
    packed(tmp_path / "s-bert.zip", files | {"classmate/A1.ipynb": blank, "more/1.6.json": "{}"})
    for path in (folder, tmp_path / "s-bert.zip"):
        submission = handin.read(path)
        assert submission.answer(A1["1.1"]) == SOLVED and submission.files["1.6.csv"] == b"mine"
    assert submission.files["1.6.json"] == b"{}"  # which lies elsewhere only


def test_what_a_classmate_did_is_nobody_elses_work(tmp_path):
    """A referee has two classmates' hand-ins, which may have more steps filled in."""
    more = {"1.1": SOLVED, "1.2": SOLVED.replace("softened_gradient", "high_temperature")}
    mine = sample.hand_in("A1", tmp_path / "a.ipynb", {"1.1": SOLVED}, "aaabbb").read_bytes()
    theirs = sample.hand_in("A1", tmp_path / "b.ipynb", more, "cccddd").read_bytes()
    files = {"A1.ipynb": mine, "classmate/A1.ipynb": theirs, "classmate/1.6.csv": "theirs"}
    packed(tmp_path / "s-anna.zip", files)
    submission = handin.read(tmp_path / "s-anna.zip", "aaabbb")
    assert submission.variant == "aaabbb" and submission.files == {}
    # A variant that was mistyped is still one's own, beside the blank copy that was given out.
    blank = sample.hand_in("A1", tmp_path / "c.ipynb", {}).read_bytes()
    packed(tmp_path / "s-bert.zip", {"student/A1.ipynb": blank, "work/A1.ipynb": theirs})
    assert handin.read(tmp_path / "s-bert.zip", "cccdde").variant == "cccddd"


def test_an_older_copy_and_hidden_folders_do_not_win(tmp_path):
    old, new = (
        sample.hand_in("A1", tmp_path / f"{k}.ipynb", {"1.1": f"{SOLVED}{k}"}) for k in (1, 2)
    )
    with_cell(old, "code", "x = 3", "## 1.1")
    folder = tmp_path / "s-anna"
    (folder / ".ipynb_checkpoints").mkdir(parents=True)
    shutil.copy(old, folder / ".ipynb_checkpoints" / "A1-checkpoint.ipynb")
    packed(folder / "A1.zip", {"A1.ipynb": old.read_bytes()})
    shutil.copy(new, folder / "A1.ipynb")
    assert handin.read(folder).answer(A1["1.1"]).endswith("return 72")
    # Not even one in which more steps are filled in.
    two = {"1.1": SOLVED, "1.2": SOLVED.replace("softened_gradient", "high_temperature")}
    full = sample.hand_in("A1", folder / ".ipynb_checkpoints" / "A1.ipynb", two).read_bytes()
    assert handin.read(folder).answer(A1["1.1"]).endswith("return 72")
    packed(tmp_path / "s-bert.zip", {"A1.ipynb": new.read_bytes(), ".old/A1.ipynb": full})
    assert handin.read(tmp_path / "s-bert.zip").answer(A1["1.1"]).endswith("return 72")


def test_a_heading_of_the_students_own_begins_no_question(tmp_path):
    path = sample.hand_in("A1", tmp_path / "A1.ipynb", {})
    with_cell(path, "markdown", "## 1.8 My answer\nIt shortens them.", "*Your answer here.*")
    assert "It shortens them." in handin.read(path).answer(A1["1.8"])


def test_a_helper_above_the_stub_leaves_it_blank(tmp_path):
    stub = "def half(x):\n    return x / 2\n\n\ndef softened_gradient(l, s, a, b):\n    raise "
    stub += 'NotImplementedError("1.1")'
    assert handin.blank(stub, "softened_gradient") and not handin.blank(stub)
    for after in ("def half", "VARIANT ="):  # below it, and above it
        path = sample.hand_in("A1", tmp_path / "A1.ipynb", {"1.1": stub})
        with_cell(path, "code", SOLVED, after)
        assert handin.read(path).answer(A1["1.1"]) == SOLVED
    below = f"{stub}\n\n\ndef mine(l, s, a, b):\n    return l\n\n\nsoftened_gradient = mine"
    assert not handin.blank(below, "softened_gradient")


def test_a_notebook_whose_cells_lost_their_steps_is_no_notebook_of_notes(tmp_path):
    path = sample.hand_in("A1", tmp_path / "A1.ipynb", {"1.1": SOLVED})
    book = cells_of(path)
    for cell in book["cells"]:
        cell["metadata"] = {}
    notes = {"cells": [{"cell_type": "markdown", "metadata": {}, "source": "Notes."}]}
    packed(
        tmp_path / "s-anna.zip", {"A1.ipynb": json.dumps(book), "notes.ipynb": json.dumps(notes)}
    )
    assert handin.read(tmp_path / "s-anna.zip", "aaabbb").answer(A1["1.1"]) == SOLVED


def test_a_finished_notebook_may_have_the_letters_that_were_given_out(tmp_path):
    two = {"1.1": SOLVED, "1.2": SOLVED.replace("softened_gradient", "high_temperature")}
    old = sample.hand_in("A1", tmp_path / "a.ipynb", {"1.1": SOLVED}, "aaabbb").read_bytes()
    new = sample.hand_in("A1", tmp_path / "b.ipynb", two).read_bytes()
    packed(tmp_path / "s-anna.zip", {"old/A1.ipynb": old, "A1.ipynb": new})
    submission = handin.read(tmp_path / "s-anna.zip", "aaabbb")
    assert "high_temperature" in submission.answer(A1["1.2"]) and submission.variant == "aaaaaa"


def test_a_guard_that_is_reached_is_told_and_ends_no_check(tmp_path):
    code = "def softened_gradient(l, s, a, b):\n    if len(l) > 1:\n"
    code += "        raise NotImplementedError('long')\n    return l"
    path = sample.hand_in("A1", tmp_path / "A1.ipynb", {"1.1": code})
    told = {step.name: verdict.sentence for step, verdict in marking.check(path, "A1")}
    assert told["1.1"] == "it raises NotImplementedError: long" and told["1.2"] == "nothing yet"


def test_a_zip_of_the_whole_folder_counts_what_may_be_handed_in_only(tmp_path):
    full = sample.hand_in("A1", tmp_path / "full.ipynb", {"1.1": SOLVED}).read_bytes()
    laws = {f"tools/assignments/laws/a{i}.py": "" for i in range(60)}
    packed(
        tmp_path / "A1.ZIP", {"A1.IPYNB": full, "1.6.CSV": "x", "__MACOSX/._A1.ipynb": ""} | laws
    )
    submission = handin.read(tmp_path / "A1.ZIP")
    assert submission.problem == "" and submission.answer(A1["1.1"]) == SOLVED
    assert submission.files == {"1.6.csv": b"x"}


def test_a_zip_with_a_password_ends_no_marking(tmp_path, monkeypatch):
    packed(tmp_path / "s-anna.zip", {"A1.ipynb": "{}"})

    def locked(*_):
        raise RuntimeError("File 'A1.ipynb' is encrypted, password required for extraction")

    monkeypatch.setattr(zipfile.ZipFile, "open", locked)
    assert "is encrypted, password required" in handin.read(tmp_path / "s-anna.zip").problem


def test_a_zip_in_a_zip_and_files_of_other_kinds_are_told(tmp_path):
    packed(tmp_path / "s-anna.zip", {"A1.zip": "PK"})
    assert "unpack" in handin.read(tmp_path / "s-anna.zip").problem
    for name in ("s-bert.IPYNB", "s-cleo.rar", ".DS_Store"):
        (tmp_path / name).write_text("{}")
    found = handin.collected(tmp_path, STUDENTS)
    assert {s.student for s in found.latest} == {"s-anna", "s-bert"}
    assert found.unread == ["s-cleo.rar"] and found.strangers == []


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("王伟", "王伟_1234_assignsubmission_file_"),
        ("Иван Петров", "Иван Петров_77_assignsubmission_file_"),
        ("José Muñoz", "Jose Munoz_5_assignsubmission_file_"),
    ],
)
def test_names_of_all_scripts_are_found(name, file, tmp_path):
    own = handin.Student("s-x", name, "1", "aaabbb")
    other = handin.Student("s-y", "李娜", "2", "bbbccc")
    (tmp_path / file).mkdir()
    assert handin.owner(tmp_path / file, [own, other]) == own


@pytest.mark.parametrize("line", ['VARIANT = "AAABBB"', "VARIANT = 'aaabbb '"])
def test_a_variant_is_read_in_any_case(line, tmp_path):
    path = sample.hand_in("A1", tmp_path / "A1.ipynb", {})
    path.write_text(
        path.read_text("utf-8").replace('VARIANT = \\"aaaaaa\\"', json.dumps(line)[1:-1])
    )
    assert handin.read(path).variant == "aaabbb"
    assert variant.own(" AAABBB ") == "aaabbb"
    for wrong in ("aaaaaa", "aaabb", "aaabbl", "aaabb1"):
        with pytest.raises(ValueError, match="write your own six letters"):
            variant.own(wrong)


def big(path):
    path.write_bytes(b"0" * (handin.NOTEBOOK + 1))


def outside(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../A1.ipynb", "{}")


def bomb(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("A1.ipynb", b" " * (handin.NOTEBOOK + 1))


def many(path):
    with zipfile.ZipFile(path, "w") as archive:
        for i in range(100):
            archive.writestr(f"{i}.csv", "")


BAD = {
    "large.ipynb": (big, "allowed are 5"),
    "text.ipynb": (lambda p: p.write_text("no JSON"), "damaged"),
    "deep.ipynb": (lambda p: p.write_text("[" * 200_000), "damaged"),
    "list.ipynb": (lambda p: p.write_text("[1]"), "no cells"),
    "bytes.ipynb": (lambda p: p.write_bytes(b"\xff\xfe\x00"), "damaged"),
    "link.ipynb": (lambda p: p.symlink_to("/etc/passwd"), "is a link"),
    "outside.zip": (outside, "outside of it"),
    "bomb.zip": (bomb, "larger than"),
    "many.zip": (many, "more than 40 files"),
    "no.zip": (lambda p: p.write_bytes(b"PK no zip"), "damaged"),
    "empty": (lambda p: p.mkdir(), "no notebook"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_read_is_told_and_never_raised(name, tmp_path):
    make, told = BAD[name]
    make(tmp_path / name)
    submission = handin.read(tmp_path / name)
    assert told in submission.problem
    result = marking.mark_step("A1", A1["1.1"], submission, "3", 1)
    assert result["points"] == 0 and result["status"] == "unreadable"


STUDENTS = [
    handin.Student("s-anna", "Anna Pérez", "1001", "aaabbb"),
    handin.Student("s-bert", "Bert van Dam", "1002", "cccddd"),
    handin.Student("s-cleo", "Cleo", "1003", "eeefff"),
]


TWINS = [
    handin.Student("s-one", "Bo Li", "1002", "aaabbb"),
    handin.Student("s-two", "Bo Li", "1006", "cccddd"),
    handin.Student("s-ada", "Ada Berg", "1001", "eeefff"),
]


@pytest.mark.parametrize(
    ("name", "roster", "student"),
    [
        ("Anna Perez_1001_assignsubmission_file_", STUDENTS, 0),
        ("perezanna_77_88_A1.ipynb", STUDENTS, 0),
        ("vandambert_LATE_1002_88_A1.ipynb", STUDENTS, 1),
        ("1003", STUDENTS, 2),
        ("s-cleo.zip", STUDENTS, 2),
        ("somebody_9_A1.ipynb", STUDENTS, None),
        ("Ada Berg_1002_assignsubmission_file_", TWINS, 2),  # Moodle's number, and another's id
        ("bergada_1006_1002_A1.ipynb", TWINS, 2),  # Canvas' numbers
        ("Carl_1002_assignsubmission_file_", TWINS, None),
        ("carl_1002_77_A1.ipynb", TWINS, None),
        ("Bo Li_55_assignsubmission_file_", TWINS, None),
        ("Bo Li_1006_assignsubmission_file_", TWINS, 1),
        ("A1_1006.ipynb", TWINS, 1),
        ("1002", TWINS, 0),
        ("s-two_1001.zip", TWINS, 1),
    ],
)
def test_a_hand_in_goes_to_its_student_or_to_nobody(name, roster, student, tmp_path):
    """By the names of Moodle, Canvas and nbgrader; never to another student."""
    path = tmp_path / name
    path.write_text("") if path.suffix else path.mkdir()
    assert handin.owner(path, roster) == (None if student is None else roster[student])


def test_the_latest_file_counts_and_the_others_are_named(tmp_path):
    for name, when in (("s-ada_a.ipynb", 200), ("s-ada_b.ipynb", 100), ("s-ada_c.ipynb", 150)):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (when, when))
    (tmp_path / "Bo Li.ipynb").write_text("")
    latest, strangers, older, _ = handin.collected(tmp_path, TWINS)
    assert {s.student: p.name for s, p in latest.items()} == {"s-ada": "s-ada_a.ipynb"}
    assert strangers == ["Bo Li.ipynb"] and older == ["s-ada_b.ipynb", "s-ada_c.ipynb"]


def test_a_zip_beside_the_notebook_is_read_too(tmp_path, monkeypatch):
    folder = tmp_path / "s-ada"
    path = sample.hand_in("A1", folder / "A1.ipynb", {}, "eeefff")
    with zipfile.ZipFile(folder / "A1.zip", "w") as archive:
        archive.write(sample.hand_in("A1", tmp_path / "A1.ipynb", {}, "aaabbb"), "A1.ipynb")
        archive.writestr("1.6.csv", "run")
    submission = handin.read(folder)
    assert submission.files == {"1.6.csv": b"run"} and submission.variant == "eeefff"
    path.unlink()
    assert handin.read(folder).variant == "aaabbb"
    monkeypatch.setattr(handin, "FILES", 1_000)
    monkeypatch.setattr(handin, "NOTEBOOK", largest := (folder / "A1.zip").stat().st_size)
    monkeypatch.setattr(handin, "COUNT", 2)
    with zipfile.ZipFile(folder / "B.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("b.ipynb", "c.ipynb"):
            archive.writestr(name, b" " * (largest - 1_000))
    assert "hand in one zip" in handin.read(folder).problem


# --- marking, pages and exports ------------------------------------------------------------------


@pytest.fixture(scope="module")
def term(tmp_path_factory, level):
    """Four students' work on A1, marked; the experiment waits."""
    folder = tmp_path_factory.mktemp("term")
    students = [*STUDENTS, handin.Student("s-dora", "Dora", "1004", "ggghhh")]
    wrong = {m.name: m for m in a1_mistakes.CATALOGUE["1.1"]}
    odd = "def softened_gradient(l, s, tau_l, tau_s):\n    return np.cos(l) - np.sin(s) * tau_l"
    work = {
        "s-anna": {
            "1.1": sample.answer("A1", A1["1.1"], a1.softened_gradient),
            "1.7": sample.LAW,
            "1.8": "It shortens <script>alert(1)</script> the logits.",
        },
        "s-bert": {"1.1": sample.answer("A1", A1["1.1"], wrong["no factor"].function)},
        "s-cleo": {"1.1": odd},
        "s-dora": {"1.1": odd.replace("l)", "l )")},
    }
    for who, answers in work.items():
        code = next(s.variant for s in students if s.student == who)
        code = "zzzzzz" if who == "s-dora" else code
        path = sample.hand_in("A1", folder / "collected" / f"{who}.ipynb", answers, code)
        if who == "s-bert":  # two hints of 1.1
            opened = path.read_text("utf-8").replace('"1.1\\", 0)', '"1.1\\", 2)')
            path.write_text(opened, "utf-8")
    results = folder / "results.jsonl"
    mark(folder, students, level)
    return folder, students, results


def mark(folder, students, level) -> list[dict]:
    """Mark the folder without large sizes, in this process."""
    options = {"level": level, "workers": 1, "large": False, "experiment": False}
    path = folder / "results.jsonl"
    return list(marking.mark("A1", folder / "collected", students, path, **options))


def test_every_step_of_every_student_has_a_result_that_names_its_level(term, level):
    folder, students, path = term
    results = marking.latest(marking.read_results(path))
    assert len(results) == 4 * 8 and {r["level"] for r in results.values()} == {level}
    assert results["s-anna", "1.1"]["points"] == 12 and results["s-anna", "1.7"]["points"] == 8
    assert results["s-bert", "1.1"]["mistake"] == "no factor"
    assert results["s-bert", "1.2"]["status"] == "blank"
    assert results["s-bert", "1.1"]["hints"] == 2 and results["s-anna", "1.1"]["hints"] == 0
    assert dashboard.tables("A1", results, [])["steps"][0][6] == 0.5  # hints, in the mean
    assert results["s-anna", "1.8"]["status"] == "manual"
    assert results["s-dora", "1.1"]["foreign"] == "zzzzzz"
    assert not [r for r in results.values() if r["status"] == "ask"]


def test_marking_goes_on_where_it_was_killed_and_does_only_what_changed(term, tmp_path, level):
    folder, students, _ = term
    shutil.copytree(folder, tmp_path / "term")
    folder, path = tmp_path / "term", tmp_path / "term" / "results.jsonl"
    assert mark(folder, students, level) == []

    # A run that was killed in the middle of a line.
    lines = path.read_text("utf-8").splitlines()
    path.write_text("\n".join(lines[:-5]) + "\n" + lines[-5][:40])
    assert len(marking.read_results(path)) == len(lines) - 5
    mark(folder, students, level)
    whole = marking.latest(marking.read_results(path))
    assert len(whole) == 32

    # A resubmission: only its changed step, as the second trial.
    answers = {"1.1": sample.answer("A1", A1["1.1"], a1_mistakes.by_tau_s)}
    sample.hand_in("A1", folder / "collected" / "s-bert.ipynb", answers, "cccddd")
    (changed,) = mark(folder, students, level)
    assert (changed["step"], changed["mistake"], changed["trial"]) == ("1.1", "divided by τ_s", 2)


def test_a_variant_that_was_set_right_is_told_no_more(term, tmp_path, level):
    folder, students, _ = term
    shutil.copytree(folder, tmp_path / "term")
    path = tmp_path / "term" / "collected" / "s-dora.ipynb"
    path.write_text(path.read_text("utf-8").replace("zzzzzz", "ggghhh"), "utf-8")
    again = mark(tmp_path / "term", students, level)
    assert {r["student"] for r in again} == {"s-dora"} and {r["trial"] for r in again} == {1}
    assert not any("foreign" in r for r in again)


def test_a_mended_law_marks_again_and_is_no_trial_of_the_student(
    term, tmp_path, level, monkeypatch
):
    folder, students, _ = term
    shutil.copytree(folder, tmp_path / "term")
    monkeypatch.setattr(marking, "version", lambda name: "mended")
    again = mark(tmp_path / "term", students, level)
    assert len(again) == 32 and {r["trial"] for r in again} == {1}
    every = marking.read_results(tmp_path / "term" / "results.jsonl")
    wrong = [r | {"trial": k} for k in (1, 2, 3, 3) for r in every if r["status"] == "wrong"]
    stuck = dashboard.tables("A1", marking.latest(wrong), wrong)["stuck"]
    assert stuck and {row[-1] for row in stuck} == {3}


def test_an_error_of_the_grader_is_never_the_students(level, monkeypatch):
    def broken(f, rng):
        f(np.ones(3), np.ones(3), 1.0, 1.0)
        raise ZeroDivisionError("a law divides by zero")

    step = Step("1.1", "", "softened_gradient", a1.GRADIENT, 12, 1, laws=(broken,))
    code = "def softened_gradient(l, s, a, b):\n    return l"
    submission = handin.Submission({"1.1": code})
    result = marking.mark_step("A1", step, submission, level, 1)
    assert result["status"] == "ask" and "a law divides by zero" in result["grader"]
    monkeypatch.setattr(sandbox, "command", lambda level: ["false"])
    assert marking.mark_step("A1", A1["1.1"], submission, level, 1)["status"] == "ask"


def test_half_a_character_and_a_strange_line_end_neither_marking_nor_pages(tmp_path, level):
    """JSON can hold half of a character, and U+2028 is a line's end to Python; files must not."""
    error = "def softened_gradient(l, s, a, b):\n    raise ValueError(chr(0xD800) + chr(0x2028))"
    work = {"1.1": error, "1.8": "A rival \ud800 explanation."}
    sample.hand_in("A1", tmp_path / "collected" / "s-anna.ipynb", work, "aaabbb")
    mark(tmp_path, STUDENTS, level)
    results = marking.latest(marking.read_results(tmp_path / "results.jsonl"))
    assert "ValueError" in results["s-anna", "1.1"]["sentence"] and len(results) == 8
    assert mark(tmp_path, STUDENTS, level) == []
    assert len(feedback.write("A1", results, STUDENTS, tmp_path / "feedback")) == 1
    page, *_ = feedback.reading("A1", STUDENTS, tmp_path, tmp_path / "collected")
    assert "A rival ? explanation" in page.read_text("utf-8")


def test_a_forged_frame_that_no_array_can_have_is_the_students(level):
    """A shape of infinity is no error of the grader."""
    header = json.dumps(
        {"kind": "answer", "size": 0, "spec": {"array": ["<f8", [float("inf")]]}}
    ).encode()
    code = f"""
import os
def f(x):
    for d in range(3, 9):
        try:
            os.write(d, {struct.pack(">Q", len(header)) + header!r})
        except OSError:
            pass
"""
    with (
        sandbox.Answer(code, "f", QUICK, level) as answer,
        pytest.raises(common.Failed, match="no answer"),
    ):
        answer(1.0)


def test_a_notebook_is_checked_without_a_sandbox(tmp_path):
    """By the catalogue, too, and a cell without an answer is not run."""
    naive = "def log_softmax(l):\n    return l - np.log(np.exp(l).sum())"
    for code, told in (
        (naive, "overflows"),
        ("def other(l):\n    return l", "defines no log"),
        ("", ""),
    ):
        answers = {"0.1": code} if code else {}
        path = sample.hand_in("A0", tmp_path / "A0.ipynb", answers)
        ((step, verdict),) = marking.check(path, "A0")
        assert step.name == "0.1" and verdict.share == 0
        assert (told or "nothing yet") in verdict.sentence


def test_marks_by_hand_take_the_place_of_the_graders(term, tmp_path):
    _, _, path = term
    results = marking.latest(marking.read_results(path))
    table = tmp_path / "manual.csv"
    table.write_text("student,step,points,comment\ns-anna,1.8,7.5,A rival is missing\n")
    merged = marking.by_hand(table, results, "A1")
    assert merged["s-anna", "1.8"]["points"] == 7.5 and results["s-anna", "1.8"]["points"] == 0
    for line in ("s-anna,1.8,11,", "s-anna,9.9,1,", "s-anna,1.8,many,", "s-Anna,1.8,7,"):
        table.write_text(f"student,step,points,comment\n{line}\n")
        with pytest.raises(CourseError, match="manual.csv, line 2"):
            marking.by_hand(table, results, "A1")
    table.write_text("student;step;points;comment\ns-anna;1.8;7;\n")
    with pytest.raises(CourseError, match="line 1, has no column student.* with commas"):
        marking.by_hand(table, results, "A1")
    table.write_text("student,step,points,comment\ns-emil,1.8,7,on paper\n")
    with pytest.raises(CourseError, match="unknown pseudonym 's-emil'"):
        marking.by_hand(table, results, "A1")
    emil = handin.Student("s-emil", "Emil", "1005", "iiijjj")
    assert marking.by_hand(table, results, "A1", [emil])["s-emil", "1.8"]["points"] == 7
    table.write_bytes("student,step,points,comment\ns-anna,1.8,7,schön\n".encode("latin-1"))
    with pytest.raises(CourseError, match="not in UTF-8"):
        marking.by_hand(table, results, "A1")


def test_pages_show_the_diagnosis_and_the_instance_and_escape_what_students_write(term, tmp_path):
    _, students, path = term
    every = marking.read_results(path)
    results = marking.latest(every)
    pages = feedback.write("A1", results, students, tmp_path / "feedback")
    assert [p.stem for p in pages] == [s.student for s in students]
    bert = pages[1].read_text("utf-8")
    assert "τ_l times too large" in bert and "softened_gradient(l, s, tau_l, tau_s)</pre>" in bert
    assert "Bert" not in bert  # names stay with the teacher
    assert "zzzzzz" in pages[3].read_text("utf-8")
    assert "Do you think" in bert and "Do you think" not in pages[0].read_text("utf-8")
    assert '<span class="points">0 of 10</span>' in bert and "1 step\nstill open" in bert
    anna = pages[0].read_text("utf-8")
    assert '<span class="points">– of 10</span>' in anna and "2 steps\nstill open" in anna
    hostile = {k: v | {"sentence": "<img src=x onerror=alert(1)>"} for k, v in results.items()}
    assert "<img src=x" not in feedback.page("A1", hostile, students[1], {})
    board = dashboard.write("A1", results, every, students, tmp_path / "board.html").read_text(
        "utf-8"
    )
    assert "τ_l times too large" in board and "s-cleo, s-dora" in board
    assert "carries the variant zzzzzz" in board


def test_an_instance_that_is_too_large_to_paste_is_told_in_a_sentence():
    paste = common.pasted(A1["1.1"], (np.zeros(96_000),))
    told = {
        "status": "wrong",
        "sentence": "no",
        "points": 0,
        "paste": paste,
        "trial": 1,
        "time": "",
    }
    page = feedback.page("A1", {("s-anna", "1.1"): told}, STUDENTS[0], {})
    assert "<p>It fails where l has 96,000 numbers: too many to be printed here.</p>" in page
    assert "<pre" not in page


def test_a_sentence_is_counted_once_whatever_its_numbers_are():
    """What all were told alike keeps its numbers."""
    told = [("2.3", f"the mean is {x}, not 0.5", "no") for x in (0.25, -1e-3, 2)]
    told += [("6.1", "1.645 is for many seeds", "normal")] * 2 + [("2.1", "of 5 words", "")]
    keys = ("step", "sentence", "mistake")
    rows = dashboard.commonest([dict(zip(keys, line, strict=True)) for line in told], 2)
    assert rows == [["2.3", "the mean is …, not …", 3], ["6.1", "1.645 is for many seeds", 2]]


def test_the_instance_on_the_page_shows_the_fault(term):
    _, _, path = term
    result = marking.latest(marking.read_results(path))["s-bert", "1.1"]
    scope = {"np": np, "softened_gradient": a1_mistakes.no_factor}
    *lines, call = result["paste"].splitlines()
    exec("\n".join(lines), scope)
    right = a1.softened_gradient(*(scope[n] for n in a1.GRADIENT))
    assert not np.allclose(eval(call, scope), right)


def test_an_instance_to_paste_gives_the_same_numbers_and_fits_on_a_page():
    step = Step("1.4", "", "f", ("W", "s", "ids", "tau"), 1, 1)
    arguments = (rng(0).normal(size=(30, 3)), rng(1).normal(size=70), np.arange(9), 0.1 + 0.2)
    *lines, call = common.pasted(step, arguments).splitlines()
    scope = {"np": np}
    exec("\n".join(lines), scope)
    assert call == "f(W, s, ids, tau)"
    for name, value in zip(step.arguments, arguments, strict=True):
        np.testing.assert_array_equal(scope[name], value, strict=True)
    assert max(map(len, lines)) <= 100 and len(lines) < 65
    assert "too many" in common.pasted(step, (np.zeros((200, 3)), *arguments[1:]))


def test_what_a_teacher_reads_stands_on_one_page_and_points_are_kept(term, tmp_path):
    folder, students, path = term
    page, table, added = feedback.reading("A1", students, tmp_path, folder / "collected")
    assert added == 1
    content = page.read_text("utf-8")
    assert "s-anna" in content and "&lt;script&gt;" in content and "s-bert" not in content
    (line,) = table.read_text("utf-8").splitlines()[1:]
    assert line.startswith("s-anna,1.8,,,work-")  # bare digits may be a number to a spreadsheet
    results = marking.latest(marking.read_results(path))
    assert marking.by_hand(table, results, "A1") == results  # nothing is read yet
    table.write_text("student,step,points,comment\ns-anna,1.8,7,\n")
    assert feedback.reading("A1", students, tmp_path, folder / "collected")[-1] == 0
    read = marking.by_hand(table, results, "A1")["s-anna", "1.8"]
    assert (read["points"], read["status"]) == (7, "read")
    shown = feedback.page("A1", {("s-anna", "1.8"): read}, students[0], {})
    assert "7 of 10" in shown and "Read:" in shown and "Not yet" not in shown


def test_a_text_that_was_changed_is_to_be_read_again(tmp_path, level):
    folder, students = tmp_path / "term", STUDENTS[:1]
    results = folder / "results.jsonl"

    def read(text):
        sample.hand_in("A1", folder / "collected" / "s-anna.ipynb", {"1.8": text}, "aaabbb")
        mark(folder, students, level)
        added = feedback.reading("A1", students, tmp_path, folder / "collected")[-1]
        return added, marking.latest(marking.read_results(results))

    table = tmp_path / "manual.csv"
    assert read("A first text.")[0] == 1
    head, line = table.read_text("utf-8").splitlines()
    assert line.count(",") == 4
    table.write_text(f"{head}\n{line.replace('1.8,,', '1.8,3,')}\n")
    assert read("A first text.")[0] == 0
    added, later = read("A better text.")
    assert added == 1 and marking.by_hand(table, later, "A1")["s-anna", "1.8"]["status"] == "manual"
    table.write_text(table.read_text("utf-8").replace("1.8,,", "1.8,9,"))
    merged = marking.by_hand(table, later, "A1")["s-anna", "1.8"]
    assert (merged["points"], merged["status"]) == (9, "read")
    table.write_text("student,step,points,comment\ns-anna,1.8,7,\n")  # a teacher's own line
    assert marking.by_hand(table, later, "A1")["s-anna", "1.8"]["points"] == 7


def test_a_text_that_is_handed_in_later_gets_a_line_below_the_points(tmp_path):
    table = tmp_path / "manual.csv"
    table.write_text("step,student,points,comment,mine\n1.8,s-anna,7,Good,x")  # no end of line
    for who in ("s-anna", "s-bert"):
        sample.hand_in("A1", tmp_path / "collected" / f"{who}.ipynb", {"1.8": "A rival."})
    for added in (1, 0):
        *_, count = feedback.reading("A1", STUDENTS, tmp_path, tmp_path / "collected")
        assert count == added
    assert table.read_text("utf-8").splitlines()[1:] == ["1.8,s-anna,7,Good,x", "1.8,s-bert,,,"]
    table.write_text("student;step;points;comment\n")
    with pytest.raises(CourseError, match="with commas"):
        feedback.reading("A1", STUDENTS, tmp_path, tmp_path / "collected")


def test_a_hand_in_that_cannot_be_read_stands_on_the_dashboard_once(tmp_path, level):
    (tmp_path / "collected").mkdir()
    (tmp_path / "collected" / "s-anna.ipynb").write_text("no JSON")
    results = marking.latest(mark(tmp_path, STUDENTS, level))
    ((student, sentence),) = dashboard.tables("A1", results, [])["unread"]
    assert len(results) == 8 and student == "s-anna" and "is damaged" in sentence
    path = dashboard.write("A1", results, [], STUDENTS, tmp_path / "board.html")
    content = path.read_text("utf-8")
    assert "Hand-ins that cannot be read" in content and sentence in content
    assert feedback.still_open(results) == 8  # and no mark is 0 before another file has come
    shown = feedback.page("A1", results, STUDENTS[0], {})
    assert "8 steps" in shown and "– of 12" in " ".join(shown.split())


def test_the_command_line_says_what_is_open_and_whose_notebook_it_checks(
    term, tmp_path, monkeypatch
):
    from typer.testing import CliRunner

    from tools.assignments import cli

    _, students, path = term
    (tmp_path / "A1").mkdir()
    shutil.copy(path, tmp_path / "A1")
    lines = [handin.Student._fields, *students]
    roster = handin.write_table(tmp_path / "roster.csv", lines)
    monkeypatch.setattr(cli, "BUILD", tmp_path)
    told = CliRunner().invoke(cli.app, ["marks", "A1", "--roster", str(roster)]).output
    still = feedback.still_open(marking.latest(marking.read_results(path)))
    assert still == 5 and "5 steps are still open and count as 0" in told
    notebook = sample.hand_in("A0", tmp_path / "my_A0.ipynb", {})
    assert "0.1 the logarithm" in CliRunner().invoke(cli.app, ["check", str(notebook)]).output
    nameless = CliRunner().invoke(cli.app, ["check", str(notebook.rename(tmp_path / "my.ipynb"))])
    assert "my.ipynb names no assignment" in str(nameless.exception)


def test_marking_says_what_it_left_out_and_what_it_could_not_read(tmp_path, monkeypatch, level):
    from typer.testing import CliRunner

    from tools.assignments import cli

    for name, when in (("s-anna_b.ipynb", 100), ("s-anna_a.ipynb", 50)):
        path = tmp_path / "collected" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("no JSON")
        os.utime(path, (when, when))
    roster = handin.write_table(tmp_path / "roster.csv", [handin.Student._fields, *STUDENTS])
    monkeypatch.setattr(cli, "BUILD", tmp_path)
    command = ["mark", "A0", str(path.parent), "--roster", str(roster), "--workers", "1", "--trust"]
    told = CliRunner().invoke(cli.app, command).output
    assert "left out, for a later file of the same student: s-anna_a.ipynb" in told
    assert told.count("s-anna: cannot be read: s-anna_b.ipynb is damaged") == 1


def test_a_report_is_read_as_its_author_sees_it_and_runs_nothing():
    report = "## Sum\n\n| a | b |\n|---|---|\n| 1 | $x_1\\,y$ |\n\n<img src=x onerror=alert(1)>\n\n"
    html = pages.rendered(report + "[a](javascript:alert(1)) <b onclick=x>b</b>")
    assert "<h5>Sum</h5>" in html and "<td>1</td>" in html and "x_1\\,y" in html
    assert not re.search(r"<(img|b)\b|javascript:", html) and "&lt;img" in html
    content = pages.page("reading", title="", works=[("s-anna", [(A1["1.8"], report)], "")])
    assert (
        "Content-Security-Policy\" content=\"default-src 'none';" in content and html[:9] in content
    )


def test_a_text_counts_where_the_line_that_was_given_out_still_stands_above_it(level):
    given = "*Your answer here.*"
    told = {
        text: marking.mark_step("A1", A1["1.8"], handin.Submission({"1.8": text}), level, 1)[
            "status"
        ]
        for text in (given, f"{given}\n", "", f"{given}\n\nA rival explanation.")
    }
    assert [*told.values()] == ["blank", "blank", "blank", "manual"]


def test_similar_work_is_signalled(term, tmp_path):
    folder, students, path = term
    results = marking.latest(marking.read_results(path))
    lines = similar.report("A1", folder / "collected", students, results)
    assert any("s-cleo, s-dora" in line for line in lines)
    assert any("s-dora: the notebook carries the variant zzzzzz" in line for line in lines)
    sample.hand_in("A1", tmp_path / "s-anna.ipynb", {}, variant.NOBODY)
    assert similar.report("A1", tmp_path, students, {}) == ["nothing is too much alike"]


def test_code_of_the_library_is_named_and_own_code_is_not(tmp_path):
    from course_lib.theory import inan2017

    taken = {"1.4": inspect.getsource(inan2017.tying_map)}
    sample.hand_in("A1", tmp_path / "s-anna.ipynb", taken, "aaabbb")
    sample.hand_in("A1", tmp_path / "s-bert.ipynb", {"1.7": sample.LAW}, "cccddd")
    (line,) = similar.report("A1", tmp_path, STUDENTS, {})
    assert line == "s-anna: the answer to 1.4 is as in course_lib/theory/inan2017.py"


def test_a_naive_definition_of_the_laws_is_named(tmp_path):
    pasted = {"3.4": sample.definitions("A3").partition("def certificate")[0]}
    sample.hand_in("A3", tmp_path / "s-anna.ipynb", pasted, "aaabbb")
    (line,) = similar.report("A3", tmp_path, STUDENTS, {})
    assert line == "s-anna: the answer to 3.4 is as in tools/assignments/laws/a3.py"


def test_a_talk_asks_about_the_students_own_function(term, level):
    folder, students, _ = term
    lines = similar.talks("A1", folder / "collected", students, "secret", 1.0, level)
    assert sum(line.startswith("\n## ") for line in lines) == 4 and len(lines) == 16
    assert any("it gives" in line and "is doubled" in line for line in lines)
    assert similar.talks("A1", folder / "collected", students, "secret", 0.3, level) == lines[:4]


def test_tables_for_canvas_and_moodle_go_back_where_they_came_from(term, tmp_path):
    _, students, path = term
    results = marking.latest(marking.read_results(path))
    own = tmp_path / "canvas.csv"
    rows = [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "A1 (4711)", "Final"],
        ["    Points Possible", "", "", "", "", "100", ""],
        ["Pérez, Anna", "55", "1001", "anna", "A", "", "(read only)"],
        ["Nobody", "56", "2000", "nobody", "A", "3", ""],
    ]
    with own.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([*rows, []])  # an editor may leave an empty line
    filled = exports.write("canvas", "A1", results, students, tmp_path / "made", own)
    with filled.open(encoding="utf-8", newline="") as file:
        back = list(csv.reader(file))
    assert back[2] == [*rows[2][:5], "20", rows[2][6]]
    assert [back[i] for i in (0, 1, 3)] == [rows[i] for i in (0, 1, 3)]
    # Another column whose name begins with that of the assignment stays as it is.
    quiz = [
        [*row[:5], told, *row[5:]]
        for row, told in zip(rows, ("A1 quiz (7)", "5", "1", "2"), strict=True)
    ]
    handin.write_table(own, quiz)
    filled = exports.write("canvas", "A1", results, students, tmp_path / "made", own)
    with filled.open(encoding="utf-8", newline="") as file:
        assert [row[5:7] for row in csv.reader(file)][1:] == [["5", "100"], ["1", "20"], ["2", "3"]]
    # Canvas' own number of one may be the school's id of another.
    rows += [["Bert", "57", "1002", "bert", "A", "", ""], ["Test", "1003", "", "x", "A", "", ""]]
    handin.write_table(own, rows)
    filled = exports.write("canvas", "A1", results, students, tmp_path / "made", own)
    with filled.open(encoding="utf-8", newline="") as file:
        assert [row[5] for row in csv.reader(file)][2:] == ["20", "3", "0", ""]
    with pytest.raises(CourseError, match="--fill"):
        exports.write("canvas", "A1", results, students, tmp_path)
    with exports.write("moodle", "A1", results, students, tmp_path).open(encoding="utf-8") as file:
        moodle = list(csv.DictReader(file))
    assert moodle[0]["ID number"] == "1001" and moodle[0]["Assignment: A1"] == "20"
    assert exports.safe("=1+1") == "'=1+1" and exports.safe(-1.5) == -1.5
    scope = exports.write("gradescope", "A1", results, students, tmp_path)
    scored = json.loads((scope / "s-anna.json").read_text("utf-8"))["tests"]
    assert sum(test["score"] for test in scored) == 20
    table = exports.write("csv", "A1", results, students, tmp_path).read_text("utf-8")
    assert len(table.splitlines()) == 33


def test_a_stranger_to_the_catalogue_keeps_its_own_sentence():
    step = A1["1.1"]
    verdict = judge(step, lambda l, s, a, b: np.cos(l), rng(0), a1_mistakes.CATALOGUE["1.1"])  # noqa: E741
    assert verdict.mistake == "" and "alone changes the divergence" in verdict.sentence
    told = Mistake("cosine", lambda l, s, a, b: np.cos(l), "a cosine")  # noqa: E741
    assert judge(step, lambda l, s, a, b: np.cos(l), rng(0), [told]).sentence == "a cosine"  # noqa: E741


def test_a_list_is_taken_at_the_marker_as_at_home_and_float32_is_told(level):
    code = "def f(x):\n    return [[1.0, 2.0], [np.eye(2), 3], [None, 1]][int(x)]"
    with sandbox.Answer(code, "f", QUICK, level) as answer:
        assert common.array(answer(0.0), (2,)).tolist() == [1, 2]
        for x in (0.0, 1.0, 2.0):
            assert len(common.parts(answer(x), 2)) == 2
    for value in ([1.0, 2.0], (1.0, 2.0), np.ones(2), [np.eye(2), 3]):
        assert len(common.parts(value, 2)) == 2
    for value in (1.0, np.ones(()), np.eye(2)[:1], "ab", None):
        with pytest.raises(common.Failed, match="asked are 2 values"):
            common.parts(value, 2)
    with pytest.raises(common.Failed, match="float32, whose digits"):
        common.array(np.ones(2, np.float32), (2,))


def test_two_numbers_are_told_with_digits_that_differ():
    assert common.told_apart(1.0, 2.0) == ("1", "2")
    assert common.told_apart(0.123456, 0.123457) == ("0.123456", "0.123457")
    near = judge(A1["1.1"], lambda *x: 1.000001 * a1.softened_gradient(*x), rng(0), large=False)
    entry, rate = re.search(r" is (\S+), but .* rate (\S+)", near.sentence).groups()
    assert entry != rate and float(entry) == pytest.approx(float(rate), rel=1e-5)


def test_a_figure_is_shown_only_if_it_is_one():
    picture = b"\x89PNG\r\n\x1a\n" + bytes(10)
    assert feedback.figure({"1.6.png": picture}).startswith("data:image/png;base64,iVBOR")
    assert feedback.figure({"1.6.png": b"<svg onload=alert(1)>", "a.txt": picture}) == ""
    assert feedback.figure({"1.6.png": picture + bytes(feedback.PICTURE)}) == ""


def test_a_roster_is_made_from_a_class_list(tmp_path):
    from typer.testing import CliRunner

    from tools.assignments.cli import app

    (tmp_path / "class.csv").write_text("name,id\nAnna Pérez,1001\nBert,1002\n", "utf-8")
    paths = [str(tmp_path / name) for name in ("class.csv", "secret", "roster.csv")]
    command = ["roster", paths[0], "--secret", paths[1], "--output", paths[2]]
    assert CliRunner().invoke(app, command).exit_code == 0
    first = handin.roster(tmp_path / "roster.csv")
    assert [s.name for s in first] == ["Anna Pérez", "Bert"] and len(
        {s.variant for s in first}
    ) == 2
    assert all(s.id not in s.student + s.variant for s in first)
    CliRunner().invoke(app, command)
    assert handin.roster(tmp_path / "roster.csv") == first  # the secret is kept
    (tmp_path / "secret").unlink()
    CliRunner().invoke(app, command)
    assert not {s.variant for s in handin.roster(tmp_path / "roster.csv")} & {
        s.variant for s in first
    }
    with pytest.raises(CourseError, match="no roster with the columns"):
        handin.roster(tmp_path / "class.csv")


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("name,id\nAnna,1001\nBert,1001\n", "line 3, has the id '1001' of line 2"),
        ("name,id\nAnna,1001\nBert, \n", "line 3, has no id"),
        ("name,id\nAnna,1001\nBert\n", "line 3, has no id"),
        ("name;id\nAnna;1001\n", "columns name and id, with commas"),
    ],
    ids=["twice", "empty", "no comma", "semicolons"],
)
def test_a_class_list_whose_ids_tell_nobody_apart_is_refused(lines, told, tmp_path):
    from tools.assignments import cli

    (tmp_path / "class.csv").write_text(lines, "utf-8")
    with pytest.raises(CourseError, match=told):
        cli.roster(tmp_path / "class.csv", tmp_path / "secret", tmp_path / "roster.csv")
    assert not (tmp_path / "secret").exists() and not (tmp_path / "roster.csv").exists()


def test_a_secret_that_gives_two_students_one_pseudonym_writes_no_roster(tmp_path, monkeypatch):
    from tools.assignments import cli

    (tmp_path / "class.csv").write_text("name,id\nAnna,1001\nBert,1002\n", "utf-8")
    monkeypatch.setattr(variant, "pseudonym", lambda key, who: "s-aaaaa")
    with pytest.raises(CourseError, match="lines 2 and 3 have the same pseudonym 's-aaaaa'"):
        cli.roster(tmp_path / "class.csv", tmp_path / "secret", tmp_path / "roster.csv")
    assert not (tmp_path / "roster.csv").exists()


def test_a_number_that_has_the_wrong_shape_is_asked_as_one_number():
    with pytest.raises(common.Failed, match="asked is one number"):
        common.number(np.ones(2))


def test_the_notebook_with_the_steps_is_marked_and_not_one_of_notes(tmp_path):
    sample.hand_in("A1", tmp_path / "work" / "A1.ipynb", {"1.7": sample.LAW}, "aaabbb")
    notes = {"cells": [{"cell_type": "code", "source": "x = 1", "metadata": {}}]}
    (tmp_path / "work" / "Untitled.ipynb").write_text(json.dumps(notes), "utf-8")
    (tmp_path / "work" / "broken.ipynb").write_text("{", "utf-8")
    submission = handin.read(tmp_path / "work")
    assert submission.problem == "" and sample.LAW in submission.cells["1.7"]


def test_a_text_that_was_split_into_cells_is_read_whole():
    submission = handin.Submission()
    for text in ("First.", "Second.", "Second.", "*Your answer here.*"):
        cell = {"cell_type": "markdown", "source": text, "metadata": {"step": "1.8"}}
        handin.enter(submission, cell)
    assert submission.cells["1.8"] == "First.\n\nSecond."


def test_a_folder_has_the_bounds_of_a_zip(tmp_path, monkeypatch):
    for number in range(handin.COUNT):
        (tmp_path / f"{number}.png").write_bytes(b"1")
    (tmp_path / "A1.ipynb").write_text("{}")
    assert "has 41 files, allowed are 40" in handin.read(tmp_path).problem
    (tmp_path / "0.png").unlink()
    monkeypatch.setattr(handin, "FILES", 38)  # bytes, of 39 pictures
    assert "allowed are" in handin.read(tmp_path).problem


def test_two_lines_of_a_roster_with_one_name_are_refused(tmp_path):
    head, one = handin.Student._fields, ("s-aaaaa", "Anna", "1", "aaaaaa")
    for other, kind in (
        (("s-aaaaa", "Bert", "2", "b"), "pseudonym"),
        (("s-b", "B", "1", "b"), "id"),
    ):
        path = handin.write_table(tmp_path / "roster.csv", [head, one, other])
        with pytest.raises(CourseError, match=f"lines 2 and 3 have the same {kind}"):
            handin.roster(path)
    own = handin.write_table(
        tmp_path / "roster.csv", [head, one, ("s-b", "B", "", "b"), ("s-c", "C", "", "c")]
    )
    assert len(handin.roster(own)) == 3  # ids may be missing


def test_an_edition_replaces_editions_and_nothing_else(tmp_path):
    (tmp_path / "teaching").mkdir()
    (tmp_path / "teaching" / "syllabus.md").write_text("mine")
    with pytest.raises(CourseError, match="holds other files, which would be lost"):
        edition.write("A0", tmp_path / "teaching")
    assert [p.name for p in tmp_path.iterdir()] == ["teaching"]
    for _ in range(2):
        made = edition.write("A0", tmp_path / "new")
    assert tmp_path / "new" / "gradescope.zip" in made


def test_a_table_that_is_damaged_is_wrong_and_not_blank():
    from tools.assignments.laws import claims as laws

    files = {"1.6.csv": b"run,loss\na,n/a\n"}
    with pytest.raises(Failed, match="cannot be read") as told:
        laws.claimed("1.6", files, ["loss"])
    assert told.value.kind == "damaged"
    with pytest.raises(Failed) as told:
        laws.claimed("1.6", {}, ["loss"])
    assert told.value.kind == "missing"
