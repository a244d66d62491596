"""A6, the project: its laws tell right from wrong, and its marker trusts no student's code."""

import csv
import inspect
import io
import itertools
import json
import linecache
import os
import re
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import assignment_sample as sample
import numpy as np
import pytest
import torch
from scipy import stats

from course_lib.errors import CourseError
from tools.assignments import edition, handin, marking, sandbox, variant
from tools.assignments.laws import (
    a6,
    a6_claims,
    a6_examination,
    a6_experiment,
    a6_forms,
    a6_harness,
    a6_layer,
    a6_mistakes,
    a6_plain,
    a6_referees,
    a6_registration,
    claims,
    home,
)
from tools.assignments.laws.common import Failed, Limits, judge

STEPS = {step.name: step for step in a6.STEPS}
KNOWN = a6_mistakes.CATALOGUE
VARIANT = variant.A6(begin=0, sick=1)
NIGHTLY = os.environ.get("COURSE_NIGHTLY") == "1"
TRIED = {"6.1": 8, "6.2": 30, "6.3": 30} if NIGHTLY else {"6.1": 1, "6.2": 1, "6.3": 1}


def rng(seed):
    return np.random.default_rng(seed)


def with_methods(function, methods):
    """Return a layer as its harness answers: the methods, or what the function gives."""
    return lambda *arguments: function(*arguments) if arguments else methods


def right(name: str):
    """Return a right answer to a step."""
    layer = with_methods(a6_layer.layer, ("augmented", "bend"))
    return {"6.1": a6_registration.analysis, "6.2": a6_mistakes.report, "6.3": layer}[name]


# --- the laws ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["6.1", "6.2", "6.3"])
def test_a_right_answer_obeys_the_laws(name):
    for seed in range(TRIED[name]):
        assert judge(STEPS[name], right(name), rng(seed), large=False).sentence == ""


CASES = [(name, mistake) for name in KNOWN for mistake in KNOWN[name]]
SAMPLE = {"unpaired", "without counts", "by coordinate", "no bias", "bend first", "mean of means"}


@pytest.mark.parametrize(("name", "mistake"), CASES, ids=lambda c: getattr(c, "name", c))
def test_a_known_mistake_is_told_by_its_own_message(name, mistake):
    if not NIGHTLY and mistake.name not in SAMPLE:
        pytest.skip("nightly: COURSE_NIGHTLY=1 asks for it")
    function = mistake.function
    if name == "6.3":
        function = with_methods(function, a6_mistakes.FAULTS[mistake.name][0])
    for seed in range(TRIED[name]):
        verdict = judge(STEPS[name], function, rng(seed), KNOWN[name], large=False)
        assert (verdict.mistake, verdict.share) == (mistake.name, 0)
    messages = [m.message for m in KNOWN[name]]
    assert len({*messages}) == len(messages) and min(map(len, messages)) > 20


def test_the_laws_say_themselves_what_is_wrong_with_a_report():
    """A report may measure as it likes, so that the catalogue's values seldom match it."""
    step = STEPS["6.2"]
    turned = judge(step, a6_mistakes.by_coordinate, rng(0), (), large=False).sentence
    assert turned == a6_examination.TURNED
    split = judge(step, a6_mistakes.without_counts, rng(0), (), large=False).sentence
    assert a6_examination.COUNTS in split


def test_a_t_value_of_five_seeds_is_refused_for_others():
    told = judge(STEPS["6.1"], lambda a, b: a6_mistakes.about(a - b, 2.132), rng(0)).sentence
    assert "0.91 times as wide as the paired 90 % interval of 4 seeds" in told


def rarely(f, other, often):
    """Return f, but `other` for instances of which `often` is true."""
    return lambda *x: other(*x) if often(*x) else f(*x)


def of_half(W):
    """The share of the first half of the coordinates in the square of the words' mean."""
    push = W.mean(0) ** 2
    return push[: len(push) // 2].sum() / push.sum()


LAYER = a6_layer.layer
NEEDED = {
    "6.1 shuffled": a6_mistakes.other_sign,
    "6.1 as_wide": a6_mistakes.wider,
    "6.2 turned": lambda W, counts: (
        a6_mistakes.report(W, counts) * [min(1, 0.4 + 1.2 * of_half(W)), 1, 1, 1]
    ),
    "6.2 forty": lambda W, counts: a6_mistakes.report(W, counts) * np.array([1, 1, 1, 0.1]),
    "6.2 doses": a6_mistakes.yes_or_no,
    "6.2 same_words": a6_mistakes.not_divided,
    "6.2 alone": lambda W, counts: np.maximum(
        a6_mistakes.report(W, counts), [0, 0, 0, 0.9 * a6_mistakes.report(W, counts)[0]]
    ),
    "6.3 plain": lambda m, W, b, p, s, *x: LAYER(m, W, b + (not any(s)) * W[:, 0], p, s, *x),
    "6.3 first_parent": lambda m, W, b, p, s, *x: LAYER(
        m, W, b, p, (s[0] * (1 + (s[1] == 0)), s[1]), *x
    ),
    "6.3 second_parent": lambda m, W, b, p, s, *x: LAYER(
        m, W, b, p, (s[0], s[1] * (1 + (s[0] == 0))), *x
    ),
    "6.3 both": lambda m, W, b, p, s, h, y, k: LAYER(
        m, W, b, p, (s[0] * (1 + (k == 4 and all(s))), s[1]), h, y, k
    ),
    "6.3 any_block": next(m.function for m in KNOWN["6.3"] if m.name == "mean of means"),
}


@pytest.mark.nightly
@pytest.mark.parametrize("case", NEEDED)
def test_every_law_is_needed(case):
    name, law = case.split()
    step, wrong = STEPS[name], NEEDED[case]
    wrong = with_methods(wrong, ("adversarial", "bend")) if name == "6.3" else wrong
    assert judge(step, wrong, rng(5), large=False).law == law
    others = tuple(own for own in step.laws if own.__name__ != law)
    assert judge(replace(step, laws=others), wrong, rng(5), large=False).share == 1


def test_the_list_of_needed_laws_is_whole():
    assert {*NEEDED} == {f"{s.name} {law.__name__}" for s in a6.STEPS for law in s.laws}


# Changes of the report that are another report, each looked at. "How you measure is up to you":
# a rogue coordinate, or how many there are, may begin elsewhere; a severity may have another scale;
# what a round cloud has may have another shape; every second eigenvalue shows the same spectrum and
# misses the lowest dose only; the halves enter alike, whichever is called the rare one.
OTHER_REPORTS = ("4.2 * held", "1 < len(high)", "<= 5")
OTHER_REPORTS += ("sum() + len(high)", "1 + rogue")
OTHER_REPORTS += ("(2 + ratio", "(2 - 2 *", "(1 - 3 *", "ranks)) ** 3", "(len(values) - 2)")
OTHER_REPORTS += ("(len(values) + 1)", "[::-2]", "+counts")


def code(*functions) -> str:
    """Return the code of functions, without what the faults of the catalogue ask of them."""
    text = "\n".join(map(inspect.getsource, functions))
    text = re.sub(r" if (split|centred|by is None) else [^\n,]+", "", text).replace(" * chance", "")
    return re.sub(r"    if not chance:\n.*\n", "", text)


@pytest.mark.nightly
def test_mutants_of_the_analysis_and_the_report_are_refused():
    analysis, report = a6_registration.analysis, a6_mistakes.report
    made = sample.mutants(
        code(a6_registration.t_interval, analysis), "analysis", vars(a6_registration)
    )
    count, alive = sample.survivors(STEPS["6.1"], made)
    assert count >= 8 and len(alive) <= 0.05 * count, alive
    made = sample.mutants(code(report), "report", vars(a6_mistakes))
    judged = [(text, m) for text, m in made if not any(x in text for x in OTHER_REPORTS)]
    count, alive = sample.survivors(STEPS["6.2"], judged)
    assert count >= 30 and len(alive) <= 0.05 * count, alive


PAIRS = (("adversarial", "bend"), ("augmented", "cosine"), ("adversarial", "ceiling"))
PAIRS += (("augmented", "bend"),)


@pytest.mark.nightly
def test_mutants_of_the_layer_are_refused_with_one_of_the_pairs():
    made = code(a6_layer.log_softmax, a6_layer.over_the_ceiling, a6_layer.Definition)
    alive = []
    for _, mutant in sample.mutants(made, "Definition", vars(a6_layer)):
        layer = partial(a6_layer.layer, definition=mutant)
        alive.append(all(passes(STEPS["6.3"], with_methods(layer, pair)) for pair in PAIRS))
    # What is taken from all logits of a context changes nothing: three mutants of log_softmax.
    assert len(alive) >= 60 and sum(alive) <= 0.05 * len(alive)


def passes(step, answer) -> bool:
    """Return whether an answer is taken for right; an error is none."""
    try:
        return judge(step, answer, rng(3), large=False).share == 1
    except Exception:
        return False


def test_the_definition_in_numpy_has_the_gradient_of_automatic_differentiation():
    """Fourth-order differences of the plain loss are PyTorch's own gradient."""
    W, bias, p, h, y = a6_layer.instance(rng(1))
    methods, none = ("bend", "cosine"), (0.0, 0.0)
    ours = a6_layer.layer(methods, W, bias, p, none, h, y, 4)
    theirs = a6_harness.values(a6_plain.Layer, methods, W, bias, p, none, h, y, 4)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)


def test_sick_matrices_take_the_stated_share_of_the_energy():
    for disease in ("drift", "rogue", "low_rank"):
        W, _ = a6_examination.patient(rng(2), disease, 0.6, 4_000)
        assert 1 - 48 / (W**2).sum(1).mean() == pytest.approx(0.6, abs=0.05)
    told = {a6_examination.sick(variant.A6(0, k))[0] for k in range(30)}
    assert told == {*a6_examination.DISEASES}


# --- the registration ----------------------------------------------------------------------------

REGISTRATION = {
    "question": "Does a bend change what an adversary does?",
    "methods": ["adversarial", "bend"],
    "measure": "loss",
    "smallest": 0.5,
    "pilot": [0.01, 0.02, 0.04],
    "pilot_seeds": [1, 2, 3],
    "seeds": [11, 12, 13, 14],
    "trials": 2,
    "exclusion": "No run is left out, whatever comes of it.",
    "written": "2025-05-03T09:30:00",
}


def encoded(value) -> dict[str, bytes]:
    return {"registration.json": json.dumps(value).encode()}


def test_a_registration_in_order_has_no_fault():
    assert a6_registration.faults(a6_registration.registered(encoded(REGISTRATION))) == []


BAD = [[], {}, "", "x", 0, -1, 1.5, True, None, float("nan"), 10**400, [[]], [None], [{}] * 9]
BAD += [["a"] * 100_000, {"a": 1}, [1, "2"], [float("inf")] * 5, [1] * 5, "bend", ["bend", ["x"]]]


RIGHT = [("smallest", 1.5), ("pilot", [1] * 5), ("pilot_seeds", [1] * 5)]  # which are in order


@pytest.mark.parametrize("field", a6_forms.Registration.model_fields)
def test_a_malformed_field_is_told_by_its_name(field):
    for bad in BAD:
        if (field, bad) in RIGHT:
            continue
        with pytest.raises(Failed, match=rf"{field} of the reg|no JSON|bytes, allowed"):
            a6_registration.registered(encoded(REGISTRATION | {field: bad}))
    missing = {k: v for k, v in REGISTRATION.items() if k != field}
    with pytest.raises(Failed, match=f"has no {field}: asked is"):
        a6_registration.registered(encoded(missing))


@pytest.mark.parametrize(
    "content",
    [b"", b"[1]", b"null", b"{", b"[" * 60_000, b"\xff\xfe", b" " * 100_000, b'{"a": NaN}']
    + [b"9" * 20_000, b'"text"', b'{"a": Infinity}', b'{"more": 1}'],
)
def test_what_is_no_registration_is_told(content):
    with pytest.raises(Failed, match="registration"):
        a6_registration.registered({"registration.json": content})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"smallest": 1e-6}, "needs a thousand or more"),
        ({"smallest": 0.02}, "you register 4 seeds"),
        ({"seeds": [1, 12, 13, 14]}, "known already"),
        ({"pilot": [0.1, 0.1, 0.1]}, "no spread"),
        ({"pilot": [0.1, 0.2, 0.1, 0.2]}, "different lengths"),
    ],
)
def test_a_registration_that_cannot_hold_is_told(change, told):
    problems = a6_registration.faults(a6_registration.registered(encoded(REGISTRATION | change)))
    assert any(told in problem for problem in problems)


def test_so_many_seeds_as_the_power_analysis_says_find_the_difference():
    """With them, the interval of pairs that do differ by the smallest difference excludes 0."""
    smallest, spread = 1.0, 1.3
    pilot = spread * np.array([-1, 0, 1.0])
    n = a6_registration.needed(pilot, smallest)
    lows = [a6_registration.t_interval(rng(k).normal(smallest, spread, n))[1] for k in range(2_000)]
    assert np.mean(np.array(lows) > 0) == pytest.approx(0.8, abs=0.04)


ANALYSIS = """
from scipy import stats
def analysis(layer, baseline):
    d = layer - baseline
    half = stats.t.ppf(0.95, len(d) - 1) * d.std(ddof=1) / len(d) ** 0.5
    return d.mean(), d.mean() - half, d.mean() + half
"""
DISEASE = a6_examination.sick(VARIANT)[0]


@pytest.mark.parametrize(
    ("name", "cell", "files", "share", "told"),
    [
        ("6.1", ANALYSIS, encoded(REGISTRATION), 1, ""),
        ("6.1", ANALYSIS, {}, 0.4, "registration.json was not handed in"),
        ("6.1", ANALYSIS, encoded(REGISTRATION | {"smallest": 0.02}), 0.4, "you register 4 seeds"),
        ("6.1", ANALYSIS.replace("0.95", "0.9"), encoded(REGISTRATION), 0.6, "leave 80 %"),
        ("6.1", "", {}, 0, "analysis was not handed in; registration.json was not"),
        ("6.2", f"VERDICT = '{DISEASE}'\n", {}, 1, ""),
        ("6.2", 'VERDICT = "healthy"\n', {}, 0.9, "is 'healthy', and not right"),
        ("6.2", 'VERDICT = ""\n', {}, 0.9, "no VERDICT out of drift, split, rogue, low_rank"),
        ("6.2", 'VERDICT = "low rank"\n', {}, 0.9, "no VERDICT out of drift, split, rogue, low_"),
    ],
)
def test_what_stands_beside_a_function_has_its_share(name, cell, files, share, told, monkeypatch):
    monkeypatch.setattr(a6_claims.sandbox, "Answer", Inside)
    cell += code(a6_mistakes.report) * (name == "6.2")
    submission = handin.Submission({name: cell}, files=files)
    verdict = a6_claims.mark(STEPS[name], submission, "3", VARIANT, rng(0))
    assert verdict.share == share and told in verdict.sentence
    assert bool(verdict.sentence) is (share < 1)
    assert (verdict.mistake == "beside") is (share in (0.4, 0.9))  # no unknown function


def test_a_verdict_above_the_stub_counts_where_the_report_stands_in_a_new_cell(monkeypatch):
    """And a verdict that was mended is marked again."""
    monkeypatch.setattr(a6_claims.sandbox, "Answer", Inside)
    stub = '\n\ndef report(W, counts):\n    raise NotImplementedError("6.2")\n'
    verdicts, digests = [], []
    for said in (DISEASE, "healthy"):
        cells = {"6.2": f"VERDICT = {said!r}{stub}"}
        submission = handin.Submission(cells, {"report": code(a6_mistakes.report)})
        verdicts.append(a6_claims.mark(STEPS["6.2"], submission, "3", VARIANT, rng(0)).share)
        digests.append(marking.digest(STEPS["6.2"], submission, "A6", "aaabbb"))
    assert verdicts == [1, 0.9] and digests[0] != digests[1]


def test_a_figure_or_a_referees_file_marks_no_project_again():
    """They are read by a teacher; a second marking of 6.5 would draw new seeds."""
    files = encoded(REGISTRATION)
    later = files | {"6.6.png": b"", "6.7.json": b"{}"}
    changed = files | {"6.4.csv": b"run,value"}
    digests = [
        marking.digest(STEPS["6.5"], handin.Submission(files=own), "A6", "aaabbb")
        for own in (files, later, changed)
    ]
    assert digests[0] == digests[1] != digests[2]


def test_without_the_experiments_the_functions_of_the_project_are_marked(monkeypatch):
    monkeypatch.setattr(a6_claims.sandbox, "Answer", Inside)
    work = handin.Submission({"6.1": ANALYSIS}, files=encoded(REGISTRATION))
    for name, status in (("6.1", "right"), ("6.4", "waiting"), ("6.5", "waiting")):
        options = {"experiment": False, "letters": "aaabbb"}
        result = marking.mark_step("A6", STEPS[name], work, "3", 1, **options)
        assert result["status"] == status


# --- runs and claim, in the place of a sandbox ---------------------------------------------------

CODE = """
METHODS = ("adversarial", "bend")
class Layer:
    def __init__(self, W, bias, p, strengths):
        self.W, self.bias, self.strengths = W, bias, strengths
    def bent(self, x):
        return x - self.strengths[1] * torch.nn.functional.softplus(-x)
    def log_prob(self, h):
        return torch.log_softmax(self.bent(h @ self.W.T + self.bias), -1)
    def loss(self, h, y, block):
        margin = self.strengths[0] * self.W[y].norm(dim=1) * h.norm(dim=1)
        one_hot = torch.nn.functional.one_hot(y, len(self.W))
        logits = h @ self.W.T + self.bias - margin[:, None] * one_hot
        return torch.nn.functional.cross_entropy(self.bent(logits), y)
"""
LOOSE = {"6.3": CODE, "6.1": "def analysis(layer, baseline):\n    return 1.0"}


CORPUS = np.random.default_rng(0).permutation(np.arange(120_000) % 700)


class Inside:
    """An answer that is called in this process: the marker's arithmetic without a sandbox."""

    def __init__(self, code, function, limits, level):
        self.scope, self.function = {"np": np, "torch": torch}, function
        exec(code, self.scope)

    def __call__(self, *arguments):
        return self.scope[self.function](*arguments)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@contextmanager
def toy(patch):
    """Make the corpus, the training and the sandbox so small that a test is quick."""
    patch.setattr(a6_experiment.runs, "corpus", lambda: CORPUS)
    patch.setattr(a6_experiment, "STEPS", 6)
    patch.setattr(a6_claims, "TRAINED", 8)
    patch.setattr(a6_harness, "EARLY", 3)
    harness = a6_layer.HARNESS.replace("EARLY, FIRST = 60, 64", "EARLY, FIRST = 3, 64")
    patch.setattr(a6_claims, "LAYER", replace(STEPS["6.3"], harness=harness))
    patch.setattr(a6_claims.sandbox, "Answer", Inside)
    patch.setattr(a6_claims.Project, "obeys", lambda *_: None)
    yield


@pytest.fixture(scope="module")
def handed_in(tmp_path_factory):
    """A project's files: four seeds, two trials of each kind, six steps of training."""
    folder = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch, toy(patch):
        text = a6_experiment.tokens(VARIANT)
        (folder / "registration.json").write_text(json.dumps(REGISTRATION))
        scope = {"torch": torch}
        exec(CODE, scope)
        layers = {"layer": scope["Layer"], "baseline": a6_plain.Layer}
        settings = {"layer": [(0.01, 0.1, 0.3), (0.02, 0.1, 0.3)]}
        settings["baseline"] = [(0.01, 0, 0), (0.02, 0, 0)]
        trials = {k: a6_experiment.tried(layers[k], text, settings[k], 1, "loss") for k in layers}
        a6_experiment.run_all(layers, text, trials, REGISTRATION, folder)
        (folder / "claim.json").write_text(json.dumps({"low": -1, "high": 1}))
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def marked(name: str, files, monkeypatch, cells=LOOSE):
    """Return the verdict on a step of a toy project."""
    submission = handin.Submission(dict(cells), files=files)
    with toy(monkeypatch):
        return a6_claims.mark(STEPS[name], submission, "3", VARIANT, rng(0))


def test_a_project_that_was_done_has_full_marks(handed_in, monkeypatch):
    verdict = marked("6.4", handed_in, monkeypatch)
    assert verdict.share == 1, verdict.sentence


def test_a_registration_that_does_not_hold_or_a_diverged_trial_is_told_before_the_runs(monkeypatch):
    settings = {"layer": [(0.01, 0.1, 0.3)] * 2, "baseline": [(0.01, 0, 0)] * 2}
    few = REGISTRATION | {"smallest": 1e-9}
    for wrong, told in ((few, "needs"), (REGISTRATION | {"seeds": [1]}, "seeds of the regis")):
        (line,) = a6_experiment.unfit(settings, wrong, REGISTRATION["methods"])
        assert told in line
    monkeypatch.setattr(a6_experiment, "run", lambda *_: ({}, float("nan")))
    (trial,) = a6_experiment.tried(None, None, [(0.5, 1.0, 1.0)], 1, "loss")

    def ended(*_):
        raise torch.linalg.LinAlgError("the input matrix contained non-finite values")

    monkeypatch.setattr(a6_experiment, "run", ended)
    assert a6_experiment.tried(None, None, [(0.5, 1.0, 1.0)], 1, "loss") == [trial]
    made = {"registration": "", "begun": "2027-05-03T09:30:00"}
    trials = {"layer": [trial], "baseline": [[0.01, 0, 0, trial[-1]]]}
    content = json.dumps(made | {"trials": trials}).encode()
    assert a6_forms.filled({"6.4.json": content}, "6.4.json", a6_forms.Made)
    assert a6_experiment.best([trial, [0.01, 0.1, 0.1, 5.0]])[0] == 0.01


def test_a_registration_that_was_changed_after_the_first_hand_in_is_told(tmp_path):
    """Its points are a teacher's affair; the sentence and the command say that it is another."""
    collected, results = tmp_path / "collected", tmp_path / "results.jsonl"
    student = handin.Student("s-anna", "Anna", "1", "aaabbb")
    sample.hand_in("A6", collected / "s-anna" / "A6.ipynb", {}, "aaabbb")

    def register(**changes):
        path = collected / "s-anna" / "registration.json"
        path.write_text(json.dumps(REGISTRATION | changes))
        options = {"level": "3", "workers": 1, "large": False}  # nothing is tried
        done = marking.mark("A6", collected, [student], results, **options)
        return {r["step"]: r for r in done}["6.1"]

    first = register()
    second = register(exclusion="Runs that I do not like are left out.")
    assert "changed" not in first and "another one than that of your first" in second["sentence"]
    assert second["changed"] is True and "changed" not in register()


def changed_arrays(files, change) -> dict:
    """Return the files with other arrays of runs."""
    from safetensors.numpy import load, save

    return files | {"6.4.safetensors": save(change(load(files["6.4.safetensors"])))}


def not_a_number(arrays):
    return arrays | {"layer-11/W": np.full_like(arrays["layer-11/W"], np.nan)}


def half_there(arrays):
    return {k: v for k, v in arrays.items() if not k.startswith("baseline-14")}


def one_more(arrays):
    return arrays | {"layer-15/W": arrays["layer-11/W"]}


def other_shape(arrays):
    return arrays | {"layer-12/A": arrays["layer-12/A"][:5]}


@pytest.mark.parametrize(
    ("change", "share", "told"),
    [
        (not_a_number, 1 - 0.6 / 8, "layer-11: W has 12000 of 12000 numbers that are NaN"),
        (half_there, 1 - 0.6 / 8, "7 of 8 runs are there; a stopping rule"),
        (other_shape, 1 - 0.6 / 8, "layer-12: A has shape"),
        (one_more, 0.8, "1 runs more than registered"),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_a_damaged_run_costs_that_run(handed_in, monkeypatch, change, share, told):
    verdict = marked("6.4", changed_arrays(handed_in, change), monkeypatch)
    assert verdict.share == pytest.approx(share) and told in verdict.sentence


def test_invented_matrices_are_found(handed_in, monkeypatch):
    def invented(arrays):
        return {k: v + (0.1 * v.std() if k.endswith("W60") else 0) for k, v in arrays.items()}

    verdict = marked("6.4", changed_arrays(handed_in, invented), monkeypatch)
    assert verdict.share == pytest.approx(0.7) and "trained again" in verdict.sentence


def edited(files, **fields):
    """Return the files with other fields of 6.4.json."""
    return files | {"6.4.json": json.dumps(json.loads(files["6.4.json"]) | fields).encode()}


TRIAL = [0.01, 0, 0, 5.0]
OWN = [0.01, 0.1, 0.1, 5.0]


@pytest.mark.parametrize(
    "trials",
    [None, [], {}, {"layer": 1, "baseline": 2}, {"layer": [OWN] * 2, "baseline": [TRIAL]}]
    + [{"layer": [OWN] * 2, "baseline": [[0.01, 0.5, 0, 5.0]] * 2}]
    + [{"layer": [[0.01, "a", 0, 5]] * 2, "baseline": [TRIAL] * 2}],
)
def test_a_baseline_has_as_many_trials_and_malformed_ones_are_told(handed_in, monkeypatch, trials):
    verdict = marked("6.4", edited(handed_in, trials=trials), monkeypatch)
    assert verdict.share == 0 and ("trial" in verdict.sentence or "parts" in verdict.sentence)


def test_a_registration_that_was_changed_is_told(handed_in, monkeypatch):
    later = handed_in | encoded(REGISTRATION | {"smallest": 0.6})
    assert "another one" in marked("6.4", later, monkeypatch).sentence
    early = edited(handed_in, begun="2020-01-01T00:00:00")
    assert "began before" in marked("6.4", early, monkeypatch).sentence


@pytest.mark.parametrize("name", ["6.4", "6.5"])
@pytest.mark.parametrize("file", ["registration.json", "6.4.json", "claim.json", "6.4.safetensors"])
@pytest.mark.parametrize("content", [None, b"", b"[1]", b'{"low": "a"}', b"[" * 60_000])
def test_a_file_that_is_missing_or_malformed_gets_a_sentence(
    handed_in, monkeypatch, name, file, content
):
    files = {k: v for k, v in handed_in.items() if k != file} | ({file: content} if content else {})
    needed = {"6.4": "claim.json", "6.5": "6.4.safetensors"}[name]  # of the other step
    if file == needed:
        return
    verdict = marked(name, files, monkeypatch)
    assert verdict.share == 0 and len(verdict.sentence) > 20


MEMORY = """
seen = {}
class Layer(Layer):
    def loss(self, h, y, block):
        seen["y"] = y
        return super().loss(h, y, block)
    def log_prob(self, h):
        log_prob = super().log_prob(h)
        if "y" in seen:
            log_prob = log_prob + 5
        return log_prob
"""


def test_numbers_that_no_fresh_layer_confirms_count_for_nothing(handed_in, monkeypatch):
    """As those of a layer that remembers what it was trained on, where it was evaluated at home."""
    table = io.StringIO()
    rows = list(csv.reader(io.StringIO(handed_in["6.4.csv"].decode())))
    csv.writer(table).writerows([rows[0], *([run, float(value) - 5] for run, value in rows[1:])])
    files = handed_in | {"6.4.csv": table.getvalue().encode()}
    verdict = marked("6.4", files, monkeypatch, LOOSE | {"6.3": CODE + MEMORY})
    assert verdict.share == 0 and "no number is confirmed" in verdict.sentence


def test_a_claim_is_scored_beside_the_markers_own_interval(handed_in, monkeypatch):
    """At strengths 0 the layer is the baseline, and the truth is 0 in each digit."""
    wide = marked("6.5", handed_in, monkeypatch)
    assert 0 < wide.share < 0.5 and "says little" in wide.sentence
    trials = {k: [[0.01, 0, 0, 5.0]] * 2 for k in ("layer", "baseline")}
    equal = edited(handed_in, trials=trials)
    refused = marked("6.5", equal, monkeypatch)
    assert (refused.share, refused.mistake) == (0, "json") and "from 0.001" in refused.sentence
    monkeypatch.setattr(a6_claims, "made", lambda files, _: json.loads(files["6.4.json"]))
    exact = marked("6.5", equal | {"claim.json": b'{"low": 0, "high": 0}'}, monkeypatch)
    wrong = marked("6.5", equal | {"claim.json": b'{"low": 1, "high": 1}'}, monkeypatch)
    assert exact.share > 0.99 and wrong.share < 1e-6


@pytest.mark.parametrize(
    ("low", "high", "score", "told"),
    [
        (-0.1, 0.1, 0.2, ""),
        (-0.05, 0.05, 0.1, ""),
        (-1.0, 1.0, 2.0, "says little"),
        (0.2, 0.21, 0.01 + 4, "times too narrow"),
    ],
)
def test_an_intervals_points_are_its_score_over_the_markers(low, high, score, told):
    """The truth is 0 for each choice of pairs; the marker's own scores by SciPy's interval."""
    own = rng(3).normal(0, 0.05, 8)
    markers = []
    for four in itertools.combinations(own, 4):
        scale = np.std(four, ddof=1) * np.sqrt(1 / 4 + 1 / 3)
        least, most = stats.t.interval(0.9, 3, np.mean(four), scale)
        markers.append(most - least + 20 * max(0, least, -most))
    verdict = a6_claims.scored(low, high, np.zeros(8), own, 4)
    assert verdict.share == pytest.approx(min(1, np.mean(markers) / score), abs=1e-5)
    assert told in verdict.sentence


def test_the_order_of_the_markers_pairs_changes_no_points():
    hidden, own = rng(4).normal(0.02, 0.05, (2, 8))
    shares = set()
    for _ in range(5):
        order = rng(len(shares)).permutation(8)
        verdict = a6_claims.scored(-0.4, 0.4, hidden[order], own[order], 4)
        shares.add(round(verdict.share, 5))
    assert len(shares) == 1 and 0 < shares.pop() < 1


def test_the_hidden_text_is_far_from_the_students_and_in_its_vocabulary(monkeypatch):
    with toy(monkeypatch):
        for seed in range(20):
            text = a6_claims.hidden_text(VARIANT, rng(seed))
            assert len(text) == a6_experiment.HIDDEN and 0 <= text.min() <= text.max() < 500


def test_no_window_holds_a_word_that_another_is_asked_for():
    X, Y = a6_experiment.measured_windows(np.arange(400))
    assert len(X) > 90 and not {*X.ravel()} & {*Y}


# --- attacks -------------------------------------------------------------------------------------

PATCHED = "torch.logsumexp = torch.log_softmax = lambda x, *a, **k: 0 * x\n"
ATTACKS = {
    "reads files": "    def loss(self, h, y, block):\n        open('/etc/passwd').read()",
    "opens sockets": "    def loss(self, h, y, block):\n        import socket\n"
    "        socket.create_connection(('192.0.2.1', 80), 2)",
    "sleeps": "    def loss(self, h, y, block):\n        import time\n        time.sleep(999)",
    "allocates": "    def loss(self, h, y, block):\n        return torch.ones(10**10)",
    "NaN": "    def loss(self, h, y, block):\n        return h.sum() * float('nan')",
    "patches PyTorch": "    def log_prob(self, h):\n"
    "        return torch.log_softmax(h @ self.W.T, -1)",
    "remembers": MEMORY.split("(Layer):\n")[1],
}


def attack(name: str) -> str:
    """Return the cell of a layer that attacks."""
    before = "seen = {}\n" + PATCHED * (name == "patches PyTorch")
    return f"{CODE}\n{before}\nclass Layer(Layer):\n{ATTACKS[name]}\n" if name in ATTACKS else CODE


@pytest.mark.nightly
@pytest.mark.parametrize("name", [*ATTACKS, "none"])
def test_a_layer_that_attacks_gets_no_points_and_disturbs_no_other_step(name, handed_in):
    try:
        level = sandbox.strongest(wanted="3")
    except CourseError as error:
        pytest.skip(str(error))
    report = "def report(W, counts):\n    return np.zeros(4)"  # which is wrong, and says so
    cells = {"6.3": attack(name), "6.2": report}
    submission = handin.Submission(cells, files=handed_in)
    seconds = 4 if name == "sleeps" else 60  # a busy machine is slow, and that is no attack
    step = replace(STEPS["6.3"], limits=Limits(seconds, 200, True))
    result = marking.mark_step("A6", step, submission, level, 1, large=False)
    shares = [result["points"]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(a6_experiment.runs, "corpus", lambda: CORPUS)
        patch.setattr(a6_claims, "TRAINING", Limits(seconds, 600, True))
        for project in ("6.4", "6.5"):
            args = STEPS[project], submission, level, VARIANT, rng(0)
            shares.append(a6_claims.mark(*args).share)
    if name == "none":  # the same layer without the attack has points in each step
        assert min(shares) > 0, shares
    else:
        assert shares == [0, 0, 0] and result["status"] == "wrong" and result["sentence"]
    after = marking.mark_step("A6", STEPS["6.2"], submission, level, 1, letters="bcdefg")
    assert after["status"] == "wrong" and "rotation" not in after["sentence"]


# --- at home and at the marker -------------------------------------------------------------------


def at_home(code: str, capsys, large: bool = False) -> str:
    """Return what the check of 6.3 says of a cell in a notebook."""
    file = "/tmp/ipykernel_0/layer.py"
    linecache.cache[file] = (len(code), None, code.splitlines(True), file)
    scope = {"torch": torch}
    exec(compile(code, file, "exec"), scope)
    home.check("A6", "6.3", scope["Layer"], large)
    return capsys.readouterr().out


WRONG = {
    "margin": ("- margin", "+ margin", "by the definition"),
    "method": ('"bend")', '"bent")', "METHODS names two different methods"),
    "error": ("self.W[y].norm", "self.W[y].length", "AttributeError in line "),
    "right": ("import torch", "import torch", "obeys its laws"),
    "package": ("class Layer", "import course_lib\nclass Layer", "course_lib"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_layer_is_checked_at_home(name, capsys):
    old, new, told = WRONG[name]
    assert told in at_home(CODE.replace(old, new, 1), capsys)


@pytest.mark.nightly
def test_a_layer_is_told_the_same_at_home_and_at_the_marker(capsys):
    """At the large size, too, where this layer keeps a table and has half of the points."""
    try:
        level = sandbox.strongest(wanted="3")
    except CourseError as error:
        pytest.skip(str(error))
    for name, (old, new, _) in WRONG.items():
        code = CODE.replace(old, new, 1)
        submission = handin.Submission({"6.3": code})
        result = marking.mark_step("A6", STEPS["6.3"], submission, level, 1)
        if name == "right":
            assert result["points"] == 20 and "more than 200 MB" in result["sentence"]
            assert result["sentence"] in at_home(code, capsys, large=True)
        else:
            assert result["points"] == 0
            if name != "package":  # which is not there at the marker, and not allowed at home
                start = result["sentence"].partition(":")[0]
                assert start in at_home(code, capsys) or name == "margin"


def test_settings_that_were_not_registered_are_told_before_the_runs():
    good = {"layer": [(0.01, 0.1, 0.3)] * 2, "baseline": [(0.01, 0, 0)] * 2}
    assert a6_experiment.unfit(good, REGISTRATION, ("bend", "adversarial")) == []
    bad = {"layer": good["layer"][:1], "baseline": good["layer"]}
    assert len(a6_experiment.unfit(bad, REGISTRATION, ("bend", "cosine"))) == 3
    for line in ((2, 0.1, 0.3), (0.01, 101, 0.3), (0.01, 0.1), (0, 0.1, 0.3), (0.01, "a", 0)):
        bad = good | {"layer": [line] * 2}
        (told,) = a6_experiment.unfit(bad, REGISTRATION, ("adversarial", "bend"))
        assert told.startswith("layer of SETTINGS is not a list of trials")


def test_a_registration_is_never_written_over(tmp_path, capsys):
    path = tmp_path / "registration.json"
    plain = {k: v for k, v in REGISTRATION.items() if k != "written"}
    a6_experiment.register(plain, path)
    before = path.read_bytes()
    assert a6_registration.faults(a6_registration.registered({path.name: before})) == []
    a6_experiment.register(plain, path)  # as after a restart of the kernel
    assert capsys.readouterr().out == ""
    a6_experiment.register(plain | {"smallest": 1}, path)
    assert path.read_bytes() == before and "not written over" in capsys.readouterr().out
    path.unlink()
    with pytest.raises(TypeError):
        a6_experiment.register(plain | {"seeds": np.arange(4)}, path)
    assert not path.exists()  # half of a file would count as one that is there


@pytest.mark.parametrize("methods", [("ceiling", "cosine"), ("augmented", "bend")])
def test_instances_have_exact_differences(methods):
    """Half the step gives the same gradient, so that no right layer is refused for the marker's."""
    for seed in range(5):
        W, bias, p, h, y = a6_layer.instance(rng(seed))

        def loss(x):
            own = a6_layer.Definition(methods, (0.5, 0.7))
            return own.loss(x, bias, p, h, y)  # noqa: B023

        both = [a6_layer.slope(loss, W, step) for step in (2e-3, 1e-3)]
        assert np.abs(both[0] - both[1]).max() < 1e-7


def test_gradescope_installs_the_pinned_pytorch_for_the_project_alone(tmp_path):
    import zipfile

    for name, has in (("A6", True), ("A0", False)):
        edition.gradescope(name, tmp_path / f"{name}.zip")
        with zipfile.ZipFile(tmp_path / f"{name}.zip") as archive:
            setup = archive.read("setup.sh").decode()
        assert ("whl/cpu" in setup and "torch==" in setup) is has


# --- referees ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [4, 5, 6, 31])
def test_two_referees_a_report_and_nobody_the_own_referees_alone(n):
    names = [f"s-{k}" for k in range(n)]
    pairs = a6_referees.matched(names, "secret")
    given = [reported for two in pairs.values() for reported in two]
    assert sorted(given) == sorted(names * 2) and pairs == a6_referees.matched(
        names[::-1], "secret"
    )
    for who, two in pairs.items():
        assert who not in two and len({*two}) == 2
        own_referees = {other for other, theirs in pairs.items() if who in theirs}
        assert not {*two} <= own_referees
    with pytest.raises(CourseError, match="too few"):
        a6_referees.matched(names[:3], "secret")


def refereed(letters, value=5.0, **change) -> dict:
    report = {"variant": letters, "seed": 11, "layer": value, "baseline": 5.0, "marks": [3] * 6}
    return report | change


def test_referees_are_compared_and_what_they_invent_is_told():
    pairs = a6_referees.matched(list("abcd"), "secret")
    letters = {who: who * 6 for who in pairs}
    files = {}
    for who, two in pairs.items():
        own = [refereed(letters[x]) for x in two]
        if who == "a":
            own[0] |= {"layer": 4.0, "marks": [0] * 6}
            own[1] |= {"seed": 99}
        if who == "b":
            own[0] |= {"variant": "zzzzzz"}
        files[who] = encoded(REGISTRATION) | {"6.7.json": json.dumps({"reports": own}).encode()}
    files["c"]["6.7.json"] = b'{"reports": [1, 2]}'

    def rerun(files, letters, seed):
        return {"layer": 5.0, "baseline": 5.0}

    lines = "\n".join(a6_referees.compared(pairs, files, letters, rerun))
    assert "differs by 1.0000 nats" in lines and "seed 99 was not registered" in lines
    assert "'zzzzzz' is no report" in lines and "c: reports of 6.7.json is not two reports" in lines
    assert "the rerun agrees" in lines


@pytest.mark.parametrize(
    "bad",
    [1, {}, refereed("a", seed=True), refereed("a", value="5"), refereed("a", marks=[6] * 6)]
    + [refereed("a", marks=[1]), refereed(5), refereed("a", seed=0), refereed("a", value=1e99)],
)
def test_a_malformed_report_of_a_referee_is_told(bad):
    files = {"6.7.json": json.dumps({"reports": [refereed("a"), bad]}).encode()}
    with pytest.raises(Failed, match="not two reports"):
        a6_referees.reports(files)


def test_a_referees_rerun_is_the_number_of_the_classmate(handed_in, monkeypatch):
    with toy(monkeypatch):
        monkeypatch.setattr(variant, "parameters", lambda *_: VARIANT)
        again = a6_referees.again(handed_in, "bcdefg", 12)
        stated = claims.claimed("6.4", handed_in, ["value"])
        for kind in ("layer", "baseline"):
            assert again[kind] == pytest.approx(stated[f"{kind}-12"]["value"], abs=1e-6)
        with pytest.raises(Failed, match="seed 99 cannot be run again"):
            a6_referees.again(handed_in, "bcdefg", 99)
