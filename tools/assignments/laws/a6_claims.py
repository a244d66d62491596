"""The marker of A6: registration, runs, claim. Whatever is a student's code runs in a sandbox."""

import hashlib
import itertools
import re
from datetime import datetime
from pathlib import Path

import numpy as np

from tools.assignments import handin, sandbox
from tools.assignments.laws import (
    a6,
    a6_examination,
    a6_experiment,
    a6_forms,
    a6_harness,
    a6_mistakes,
)
from tools.assignments.laws import a6_registration as registration
from tools.assignments.laws.a6_layer import Definition, chosen
from tools.assignments.laws.claims import REPLICATION, TOLERANCE, claimed, distant, tensors
from tools.assignments.laws.common import Failed, Limits, Verdict, array, judge

PLAIN = Path(__file__).with_name("a6_plain.py").read_text("utf-8")
LAYER = next(step for step in a6.STEPS if step.name == "6.3")
TRAINING = Limits(60, 600, True, a6_forms.SEEDS[1] + 3)  # as many runs as a claim may need
COMPLETE, RIGHT, REPLICATED, TUNED = 0.2, 0.4, 0.3, 0.1  # shares of 6.4
REGISTERED, DIAGNOSED = 0.6, 0.1  # of 6.1, 6.2: what is not the function's
PAIRS = 3  # new pairs of runs on hidden text, whose mean is what 6.5 claims
TRAINED = 16  # pairs that the marker trains at least: of fewer, two markings differ by more points
DIGITS = 12  # of a difference: on some processors equal models are 1e-15 nats apart, by rounding
FAR = 40_000  # tokens of the corpus between a student's own and the hidden ones
PROMISES = {"6.1": "registration.json"}  # by step: the file that no later hand-in may change
NO_VERDICT = "the answer cell has no VERDICT out of " + ", ".join(a6_examination.DISEASES)
WISH = "a stopping rule changed after the fact makes p a wish"


def mark(step, submission: handin.Submission, level: str, variant, rng) -> Verdict:
    """Return the verdict on a step of the project."""
    kinds = {"6.1": register, "6.2": examine, "6.4": run, "6.5": claim}
    return kinds[step.name](step, submission, level, variant, rng)


# --- 6.1 and 6.2: a function, and something beside it --------------------------------------------


def function(step, submission, level, rng) -> Verdict:
    """Return the verdict on the function of a step."""
    code = submission.answer(step)
    if handin.blank(code, step.function):
        return Verdict(0.0, f"{step.function} was not handed in")
    try:
        with sandbox.of_step(step, code, level) as answer:
            return judge(step, answer, rng, a6_mistakes.CATALOGUE.get(step.name, ()))
    except Failed as failure:
        return Verdict(0.0, failure.sentence, mistake=failure.kind)


def joined(verdict: Verdict, share: float, problems: list[str]) -> Verdict:
    """Return a function's verdict with the share of what stands beside it, and its problems."""
    sentence = "; ".join([verdict.sentence] * bool(verdict.sentence) + problems)
    own = verdict.share * (1 - share) + share * (not problems)
    mistake = verdict.mistake or "beside" * (verdict.share == 1 and bool(problems))
    return verdict._replace(share=round(own, 6), sentence=sentence, mistake=mistake)


def register(step, submission, level, variant, rng) -> Verdict:
    """Mark 6.1: the laws of the analysis, and the registration itself."""
    try:
        problems = registration.faults(registration.registered(submission.files))
    except Failed as failure:
        problems = [failure.sentence]
    return joined(function(step, submission, level, rng), REGISTERED, problems)


def examine(step, submission, level, variant, rng) -> Verdict:
    """Mark 6.2: the laws of the report, and the verdict on the variant's own checkpoint."""
    cells = submission.answer(step), submission.cells.get(step.name, "")
    said = re.search(r"""(?m)^VERDICT *= *["'](\w+)["']""", "\n".join(cells))
    right = said and said[1] == a6_examination.sick(variant)[0]
    problem = f"VERDICT on your checkpoint is {said[1]!r}, and not right" if said else NO_VERDICT
    verdict = function(step, submission, level, rng)
    return joined(verdict, DIAGNOSED, [] if right else [problem])


# --- what 6.4 and 6.5 share ----------------------------------------------------------------------


class Project:
    """A student's project as it was registered: its layer, text, settings, and two sandboxes."""

    def __init__(self, submission, level, variant):
        self.registration = registration.registered(submission.files)
        if problems := registration.faults(self.registration):
            raise Failed("registration", f"the registration does not hold: {problems[0]}")
        self.code, self.level = submission.answer(LAYER), level
        if handin.blank(self.code, LAYER.function):
            raise Failed("missing", "the layer of 6.3 was not handed in")
        self.seeds, self.methods = self.registration["seeds"], self.registration["methods"]
        self.made = made(submission.files, self.registration)
        self.text = a6_experiment.tokens(variant)
        self.p = a6_experiment.shares(self.text)

    def train(self, kind: str, seeds, steps: int):
        """Yield the arrays of runs that are trained now, each kind in a process of its own."""
        X, Y = a6_experiment.windows(self.text[: -a6_experiment.HIDDEN])
        rate, strengths = a6_experiment.best(self.made["trials"][kind])
        code = f"{PLAIN if kind == 'baseline' else self.code}\n{LAYER.harness}"
        with sandbox.Answer(code, "train", TRAINING, self.level) as answer:
            for seed in seeds:
                yield checked(answer(X, Y, self.p, strengths, rate, seed, steps))

    def layer(self):
        """Return a fresh process with the student's layer, which has seen no text."""
        code = f"{self.code}\n{LAYER.harness}"
        return sandbox.Answer(code, "predict", TRAINING, self.level)

    def score(self, answer, kind: str, arrays, text) -> float:
        """Return the measure of a run on a text; the layer sees contexts, and no target."""
        strengths = a6_experiment.best(self.made["trials"][kind])[1]

        def log_prob(W, bias, h):
            value = answer(W, bias, self.p, strengths, h)
            value = array(value, (len(h), len(W)), "log P")
            if np.abs(np.exp(value).sum(1) - 1).max() > 1e-6:
                raise Failed("sum", "the probabilities of a context do not add up to 1")
            return value

        plain = Definition((), ()).log_prob
        of_kind = plain if kind == "baseline" else log_prob
        which = self.registration["measure"]
        return a6_experiment.measured(of_kind, arrays, self.text, text, which)

    def obeys(self, answer, rng) -> None:
        """Raise Failed where the layer does not obey the small laws of 6.3, or has other methods.

        This comes last in a process: the laws show it words, and it could keep them.
        """
        answer.function = "answer"
        if {*chosen(answer())} != {*self.methods}:
            raise Failed("methods", "METHODS of 6.3 are not those that were registered")
        verdict = judge(LAYER, answer, rng, (), large=False)
        if verdict.share < 1:
            raise Failed("layer", f"the layer does not obey the laws of 6.3: {verdict.sentence}")


def checked(values) -> dict[str, np.ndarray]:
    """Return the arrays of a run by name; raise Failed for NaN, and for other shapes."""
    N, d = a6_experiment.WORDS, a6_harness.WIDTH
    shapes = (N, d), (a6_harness.WINDOW * d, d), (d,), (N,), (a6_harness.FIRST, d)
    if not isinstance(values, tuple | list) or len(values) != len(shapes):
        raise Failed("value", "a run has other arrays than it should have")
    arrays = {}
    for name, shape, value in zip(a6_experiment.ARRAYS, shapes, values, strict=True):
        value = np.asarray(value)
        if value.dtype.kind != "f":
            raise Failed("value", f"{name} has no numbers with a fraction")
        arrays[name] = array(value.astype(float), shape, name)
    return arrays


def made(files, registered: dict) -> dict:
    """Return 6.4.json as it was handed in; raise Failed where it does not hold."""
    value = a6_forms.filled(files, "6.4.json", a6_forms.Made)
    for kind, trials in value["trials"].items():
        if len(trials) != registered["trials"]:
            raise Failed("trials", f"{kind} has not the {registered['trials']} registered trials")
    return value


# --- 6.4 -----------------------------------------------------------------------------------------


def run(step, submission, level, variant, rng) -> Verdict:
    """Mark 6.4: the registered runs, their numbers from their matrices, two of them trained again.

    A run that is damaged costs that run. Where no number is confirmed, nothing counts.
    """
    try:
        project = Project(submission, level, variant)
        arrays = tensors(step.name, submission.files)
        said = claimed(step.name, submission.files, ["value"])
        names = {
            f"{kind}-{seed}": (kind, seed) for kind in a6_experiment.KINDS for seed in project.seeds
        }
        whole, problems = complete(arrays, names)
        right = set()
        with project.layer() as answer:
            for name in whole:
                try:
                    hidden = project.text[-a6_experiment.HIDDEN :]
                    value = project.score(answer, names[name][0], whole[name], hidden)
                except Failed as failure:
                    problems.append(f"{name}: {failure.sentence}")
                    continue
                own = said.get(name, {}).get("value", np.nan)
                if abs(own - value) <= TOLERANCE * 10:
                    right.add(name)
                else:
                    told = f"by your matrices the measure is {value:.6f}, you say {own:.6f}"
                    problems.append(f"{name}: {told}")
            project.obeys(answer, rng)
    except Failed as failure:
        return Verdict(0.0, failure.sentence, "files", failure.kind)
    if not right:
        told = "; ".join(["no number is confirmed, so that nothing counts", *problems[:3]])
        return Verdict(0.0, told, "runs", "unconfirmed")
    share = RIGHT * len(right) / len(names) + TUNED

    # The registration came first, and it names these runs, no fewer and no more.
    if changed := other_than_registered(submission.files, project, arrays, names):
        problems.insert(0, changed)
    else:
        share += COMPLETE * len(whole) / len(names)
        if len(whole) < len(names):
            problems.insert(0, f"{len(whole)} of {len(names)} runs are there; {WISH}")

    # A run of each kind, trained again.
    for kind in a6_experiment.KINDS:
        there = [name for name in sorted(whole) if names[name][0] == kind]
        if not there:
            continue
        name = there[int(rng.integers(len(there)))]
        try:
            (again,) = project.train(kind, [names[name][1]], a6_harness.EARLY)
            far = distant(whole[name]["W60"], again["W60"])
        except Failed as failure:
            problems.append(f"{name}, trained again: {failure.sentence}")
            continue
        if far < REPLICATION:
            share += REPLICATED / 2
        else:
            problems.append(
                f"{name}, trained again for {a6_harness.EARLY} steps, is {far:.1%} away"
            )
    return Verdict(round(share, 6), "; ".join(problems[:6]), "runs" * bool(problems))


def other_than_registered(files, project, arrays, names) -> str:
    """Return what was changed after the registration, "" for nothing."""
    stamp = hashlib.sha256(files["registration.json"]).hexdigest()
    if project.made["registration"] != stamp:
        return "the registration is another one than that of the runs"
    # A time with a zone and one without cannot be compared.
    times = project.registration["written"], project.made["begun"]
    written, begun = (datetime.fromisoformat(time).replace(tzinfo=None) for time in times)
    if written > begun:
        return "the runs began before they were registered"
    more = sorted({key.partition("/")[0] for key in arrays} - names.keys())
    return f"{len(more)} runs more than registered, as {more[0][:40]}; {WISH}" if more else ""


def complete(arrays, names) -> tuple[dict, list[str]]:
    """Return the runs whose arrays are all there and finite, and a sentence for each other one."""
    whole, problems = {}, []
    for name in names:
        own = [arrays.get(f"{name}/{key}") for key in a6_experiment.ARRAYS]
        if any(value is None for value in own):
            continue
        try:
            whole[name] = checked(own)
        except Failed as failure:
            problems.append(f"{name}: {failure.sentence}")
    return whole, problems


# --- 6.5 -----------------------------------------------------------------------------------------


def claim(step, submission, level, variant, rng) -> Verdict:
    """Mark 6.5: the interval's score beside that of the marker's own interval.

    As many pairs as were registered, with new seeds, give the marker an interval of its own, and
    three more give the mean difference on hidden text, the truth for both intervals. The marker
    trains more pairs, and which ones have which part is not left to chance, see `scored`.
    """
    try:
        low, high = stated(submission.files)
        project = Project(submission, level, variant)
        count = len(project.seeds)
        pairs = max(TRAINED, count + PAIRS)
        seeds = rng.choice(10**6, pairs, replace=False) + 10**6 + 1
        hidden = hidden_text(variant, rng)
        trained = {
            kind: list(project.train(kind, seeds.tolist(), a6_experiment.STEPS))
            for kind in a6_experiment.KINDS
        }
        own = project.text[-a6_experiment.HIDDEN :]
        scores = {}
        with project.layer() as answer:
            for kind, runs in trained.items():
                scores[kind] = [
                    [project.score(answer, kind, arrays, text) for arrays in runs]
                    for text in (hidden, own)
                ]
            project.obeys(answer, rng)
    except Failed as failure:
        return Verdict(0.0, failure.sentence, "claim", failure.kind)
    differences = np.subtract(scores["layer"], scores["baseline"]).round(DIGITS)
    return scored(low, high, *differences, count)


def scored(low: float, high: float, hidden: np.ndarray, own: np.ndarray, count: int) -> Verdict:
    """Return the verdict on an interval, by its score and that of the marker's.

    hidden, own: the differences of the marker's new pairs (n,), on hidden text and on the student's
    own last tokens. count: pairs that were registered. Each choice of `PAIRS` pairs gives a truth
    on hidden text; each choice of `count` among the others gives the marker an interval for it. The
    scores are means over all choices: of one choice, four registered seeds make a lottery.
    """
    truths, score, markers, width = [], [], [], []
    picks = np.array([*itertools.combinations(range(len(hidden) - PAIRS), count)])
    for choice in itertools.combinations(range(len(hidden)), PAIRS):
        truth = hidden[list(choice)].mean()
        _, least, most = registration.t_interval(np.delete(own, choice)[picks], 1 / PAIRS)
        truths.append(truth)
        score.append(interval_score(low, high, truth))
        markers.append(interval_score(least, most, truth).mean())
        width.append((most - least).mean())
    truth, score, markers, width = (float(np.mean(x)) for x in (truths, score, markers, width))
    share = min(1.0, markers / score) if score > 0 else 1.0
    sentence = (
        f"your interval is [{low:.4f}, {high:.4f}]; the mean of {PAIRS} new pairs on hidden text "
        f"is {truth:.4f} on average, the score {score:.4f}, that of the marker's interval "
        f"{markers:.4f}"
    )
    wider = (high - low) / width if width > 0 else 1.0
    missed = max(low - truth, truth - high)
    if missed > 0:
        sentence += f". It misses by {missed:.4f}, and a miss costs 20 times as much"
    if missed > 0 and wider < 0.5:
        sentence += f". It is {1 / max(wider, 1e-3):.1f} times too narrow: the seed is the unit"
    elif wider > 2 and missed <= 0:
        sentence += (
            ". It covers, and says little: is it the interval of the runs, not of their mean?"
        )
    return Verdict(round(share, 6), sentence, "claim" * (share < 1))


def interval_score(low, high, truth):
    """Return the score of a 90 % interval: its width, and 20 times what it misses by."""
    return high - low + 20 * np.maximum(0, low - truth) + 20 * np.maximum(0, truth - high)


def stated(files) -> tuple[float, float]:
    """Return the ends of the stated interval; raise Failed where there is none."""
    value = a6_forms.filled(files, "claim.json", a6_forms.Claim)
    if not value["low"] <= value["high"]:
        raise Failed("claim", "low of claim.json is above its high")
    return value["low"], value["high"]


def hidden_text(variant, rng) -> np.ndarray:
    """Return tokens far from the student's own, in the student's vocabulary."""
    ids, size, begin = a6_experiment.runs.corpus(), a6_experiment.HIDDEN, variant.begin
    while abs(begin - variant.begin) <= FAR:
        begin = int(rng.integers(len(ids) - size))
    return a6_experiment.numbered(ids[begin : begin + size], a6_experiment.vocabulary(variant))
