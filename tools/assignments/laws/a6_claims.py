"""The marker of A6: registration, runs, claim. Whatever is a student's code runs in a sandbox."""

import csv
import hashlib
import io
import itertools
import re
from datetime import datetime
from pathlib import Path

import numpy as np

from tools.assignments import handin, sandbox
from tools.assignments.laws import a6, a6_examination, a6_experiment, a6_harness, a6_mistakes
from tools.assignments.laws import a6_registration as registration
from tools.assignments.laws.a6_layer import chosen
from tools.assignments.laws.claims import REPLICATION, TOLERANCE, distant, tensors
from tools.assignments.laws.common import Failed, Limits, Verdict, array, judge

PLAIN = Path(__file__).with_name("a6_plain.py").read_text("utf-8")
LAYER = next(step for step in a6.STEPS if step.name == "6.3")
TRAINING = Limits(60, 600, True)
COMPLETE, RIGHT, REPLICATED, TUNED = 0.2, 0.4, 0.3, 0.1  # shares of 6.4
REGISTERED, DIAGNOSED = 0.6, 0.1  # of 6.1, 6.2: what is not the function's
PAIRS = 3  # new pairs of runs on hidden text, whose mean is what 6.5 claims
TRAINED = 16  # pairs that the marker trains at least: of fewer, two markings differ by more points
FAR = 40_000  # tokens of the corpus between a student's own and the hidden ones


def mark(step, submission: handin.Submission, level: str, variant, rng) -> Verdict:
    """Return the verdict on a step of the project."""
    kinds = {"6.1": register, "6.2": examine, "6.4": run, "6.5": claim}
    return kinds[step.name](step, submission, level, variant, rng)


# --- 6.1 and 6.2: a function, and something beside it --------------------------------------------


def function(step, submission, level, rng) -> Verdict:
    """Return the verdict on the function of a step."""
    code = submission.answer(step)
    if handin.blank(code):
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
    return verdict._replace(share=round(own, 6), sentence=sentence)


def register(step, submission, level, variant, rng) -> Verdict:
    """Mark 6.1: the laws of the analysis, and the registration itself."""
    try:
        problems = registration.faults(registration.registered(submission.files))
    except Failed as failure:
        problems = [failure.sentence]
    return joined(function(step, submission, level, rng), REGISTERED, problems)


def examine(step, submission, level, variant, rng) -> Verdict:
    """Mark 6.2: the laws of the report, and the verdict on the variant's own checkpoint."""
    said = re.search(r"""(?m)^VERDICT *= *["'](\w*)["']""", submission.answer(step))
    right = said and said[1] == a6_examination.sick(variant)[0]
    problem = f"VERDICT on your checkpoint is {said[1] if said else 'missing'!r}, and not right"
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
        if handin.blank(self.code):
            raise Failed("missing", "the layer of 6.3 was not handed in")
        self.seeds, self.methods = self.registration["seeds"], self.registration["methods"]
        self.made = made(submission.files, self.registration)
        self.ids = a6_experiment.runs.corpus()
        self.words = a6_experiment.vocabulary(variant)
        self.text = a6_experiment.tokens(variant)
        self.p = a6_experiment.shares(self.text)

    def setting(self, kind: str) -> tuple[float, tuple[float, float]]:
        """Return rate and strengths of the best trial of a kind."""
        rate, *strengths, _ = min(self.made["trials"][kind], key=lambda line: line[-1])
        return rate, tuple(strengths)

    def train(self, kind: str, seeds, steps: int):
        """Yield the arrays of runs that are trained now, each kind in a process of its own."""
        X, Y = a6_experiment.windows(self.text[: -a6_experiment.HIDDEN])
        rate, strengths = self.setting(kind)
        code = f"{PLAIN if kind == 'baseline' else self.code}\n{LAYER.harness}"
        with sandbox.Answer(code, "train", TRAINING, self.level) as answer:
            for seed in seeds:
                value = answer(X, Y, self.p, strengths, rate, seed, steps)
                yield checked(value)

    def layer(self):
        """Return a fresh process with the student's layer, which has seen no text."""
        code = f"{self.code}\n{LAYER.harness}"
        return sandbox.Answer(code, "predict", TRAINING, self.level)

    def score(self, answer, kind: str, arrays, text) -> float:
        """Return the measure of a run on a text; the layer sees contexts, and no target."""
        X, Y = a6_experiment.measured_windows(text)
        h, strengths = a6_experiment.contexts(arrays, X), self.setting(kind)[1]
        W, bias = (arrays[k].astype(float) for k in ("W", "bias"))
        if kind == "baseline":
            log_prob = a6_experiment.a6_layer.log_prob((), W, bias, (), h)
        else:
            log_prob = array(answer(W, bias, self.p, strengths, h), (len(h), len(W)), "log P")
            if np.abs(np.exp(log_prob).sum(1) - 1).max() > 1e-6:
                raise Failed("sum", "the probabilities of a context do not add up to 1")
        return a6_experiment.score(log_prob, Y, self.text, self.registration["measure"])

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


def shapes() -> dict[str, tuple]:
    """Return the shapes of a run's arrays by name."""
    N, d = a6_experiment.WORDS, a6_harness.WIDTH
    first = (a6_harness.FIRST, d)
    sizes = (N, d), (a6_harness.WINDOW * d, d), (d,), (N,), first
    return dict(zip(a6_experiment.ARRAYS, sizes, strict=True))


def checked(values) -> dict[str, np.ndarray]:
    """Return the arrays of a run by name; raise Failed for NaN, and for other shapes."""
    if not isinstance(values, tuple | list) or len(values) != len(a6_experiment.ARRAYS):
        raise Failed("value", "a run has other arrays than it should have")
    arrays = {}
    for (name, shape), value in zip(shapes().items(), values, strict=True):
        value = np.asarray(value)
        arrays[name] = array(value.astype(float), shape, name) if value.dtype.kind == "f" else None
        if arrays[name] is None:
            raise Failed("value", f"{name} has no numbers with a fraction")
    return arrays


def made(files, registered: dict) -> dict:
    """Return 6.4.json as it was handed in; raise Failed where it does not hold."""
    if "6.4.json" not in files:
        raise Failed("missing", "6.4.json was not handed in")
    value = registration.decoded(files["6.4.json"], "6.4.json")
    trials, count = value.get("trials"), registered["trials"]
    kinds = a6_experiment.KINDS
    if not isinstance(trials, dict) or trials.keys() != {*kinds}:
        raise Failed("trials", "trials of 6.4.json has not the two parts layer and baseline")
    for kind in kinds:
        if not registration.is_list(trials[kind], is_trial, count, count):
            raise Failed(
                "trials",
                f"{kind} has not the {count} registered trials, each a rate above 0, two "
                "strengths of 0 or more, and the measure",
            )
    if any(line[1] or line[2] for line in trials["baseline"]):
        raise Failed("trials", "a trial of the baseline has a strength that is not 0")
    if not registration.is_time(value.get("begun")):
        raise Failed("begun", "begun of 6.4.json is no time")
    return value


def is_trial(line) -> bool:
    """Return whether a value is a trial: rate, two strengths, measure."""
    is_four = registration.is_list(line, registration.is_number, 4, 4)
    return is_four and 0 < line[0] <= 1 and all(0 <= s <= 100 for s in line[1:3])


# --- 6.4 -----------------------------------------------------------------------------------------


def run(step, submission, level, variant, rng) -> Verdict:
    """Mark 6.4: the registered runs, their numbers from their matrices, two of them trained again.

    A run that is damaged costs that run. Where no number is confirmed, nothing counts.
    """
    try:
        project = Project(submission, level, variant)
        arrays = tensors(step.name, submission.files)
        said = values(submission.files)
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
                if abs(said.get(name, np.nan) - value) <= TOLERANCE * 10:
                    right.add(name)
                else:
                    problems.append(
                        f"{name}: by your matrices the measure is {value:.6f}, you say "
                        f"{said.get(name, np.nan):.6f}"
                    )
            project.obeys(answer, rng)
    except Failed as failure:
        return Verdict(0.0, failure.sentence, "files", failure.kind)
    if not right:
        told = "; ".join(["no number is confirmed, so that nothing counts", *problems[:3]])
        return Verdict(0.0, told, "runs", "unconfirmed")
    share = RIGHT * len(right) / len(names) + TUNED

    # The registration came first, and it names these runs, no fewer and no more.
    changed = registered_first(submission.files, project)
    more = sorted({key.partition("/")[0] for key in arrays} - names.keys())
    if more or changed:
        problems.insert(
            0,
            changed
            or f"{len(more)} runs more than registered, as {more[0][:40]}; a stopping rule "
            "changed after the fact makes p a wish",
        )
    else:
        share += COMPLETE * len(whole) / len(names)
        if len(whole) < len(names):
            problems.insert(
                0,
                f"{len(whole)} of {len(names)} runs are there; a stopping rule changed after the "
                "fact makes p a wish",
            )

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


def registered_first(files, project) -> str:
    """Return what is wrong with the order of registration and runs, "" for nothing."""
    stamp = hashlib.sha256(files["registration.json"]).hexdigest()
    if project.made.get("registration") != stamp:
        return "the registration is another one than that of the runs"
    # A time with a zone and one without cannot be compared.
    times = project.registration["written"], project.made["begun"]
    written, begun = (datetime.fromisoformat(time).replace(tzinfo=None) for time in times)
    return "" if written <= begun else "the runs began before they were registered"


def values(files) -> dict[str, float]:
    """Return the stated measures by run; a line that is none is left out."""
    stated = {}
    try:
        for line in csv.reader(io.StringIO(files["6.4.csv"].decode())):
            if len(line) == 2 and line[0] != "run":
                stated[line[0]] = float(line[1])
    except (KeyError, ValueError, csv.Error) as error:
        raise Failed("missing", f"6.4.csv is missing or damaged: {str(error)[:100]}") from None
    return stated


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
        hidden = hidden_text(project, variant, rng)
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
    return scored(low, high, *np.subtract(scores["layer"], scores["baseline"]), count)


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
    if share < 1 and not low <= truth <= high and wider < 0.5:
        sentence += f". It is {1 / max(wider, 1e-3):.1f} times too narrow: the seed is the unit"
    elif wider > 2 and low <= truth <= high:
        sentence += (
            ". It covers, and says little: is it the interval of the runs, not of their mean?"
        )
    return Verdict(round(share, 6), sentence * (share < 1), "claim" * (share < 1))


def interval_score(low, high, truth):
    """Return the score of a 90 % interval: its width, and 20 times what it misses by."""
    return high - low + 20 * np.maximum(0, low - truth) + 20 * np.maximum(0, truth - high)


def stated(files) -> tuple[float, float]:
    """Return the ends of the stated interval; raise Failed where there is none."""
    if "claim.json" not in files:
        raise Failed("missing", "claim.json was not handed in")
    value = registration.decoded(files["claim.json"], "claim.json")
    low, high = value.get("low"), value.get("high")
    if not (registration.is_number(low) and registration.is_number(high) and low <= high):
        raise Failed("claim", "low and high of claim.json are not two numbers in this order")
    return float(low), float(high)


def hidden_text(project, variant, rng) -> np.ndarray:
    """Return tokens far from the student's own, in the student's vocabulary."""
    size = a6_experiment.HIDDEN
    while True:
        begin = int(rng.integers(len(project.ids) - size))
        if abs(begin - variant.begin) > FAR:
            break
    return a6_experiment.numbered(project.ids[begin : begin + size], project.words)
