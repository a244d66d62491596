"""The ledger of the papers' claims: what each says, and what the kept results say about it.

A claim compares a method with a baseline in one figure. Runs that share their seeds test it:

1. by the recipes of the published rows, where both are kept (`Claim.pairs`);
2. else by the method and the baseline in another context: one model, text and number of tokens.
   Both are chosen there by their validation perplexity among all settings that were tried.

Only models of a whole corpus are evidence, where the plain one predicts better than counting; what
others do is told, and decides nothing (`Test.against`).

The statistic is that of `comparison`. p is corrected by Holm over all claims of a table that runs
can test, those without runs so far included: no verdict fades because another claim gets its first
runs. The difference that would not matter is the published one, between LEAST and MOST per cent, or
USUAL where none is published. It is rounded down to a tenth so that the verdict prints the very
difference that was tested.
"""

import shutil
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from course_lab import comparison, evidence, provenance
from course_lab.claims_table import CLAIMS, OURS, TABLES, Claim, Expected
from course_lab.evidence import COUNTING, TIERS, Evidence, Run, Setting, Tier
from course_lab.experiment import Experiment
from course_lab.planned import command
from course_lab.statistics import holm, written
from course_lib.errors import unknown

if TYPE_CHECKING:
    import pandas as pd

NAMES = {  # of figures, as a sentence has them
    "test_perplexity": "test perplexity",
    "test_bleu": "BLEU",
    "log_prob/press_rank": "Press' rank of log P over the ranked contexts",
    "geometry/positive_share": "the share of positive cosines",
    "geometry/I1": "I₁",
    "geometry/I2": "I₂",
    "flatness": "the flatness of the spectrum",
    "subspace_distance": "the distance of the two subspaces",
    "neighbours/mean": "the mean distance to the nearest neighbour",
    "predictions/among/5": "the share of tokens among the five likeliest words",
    "watched words elsewhere": "the probability of watched words where others follow",
    "centred similarity": "the mean ρ of word similarity, of centred words",
}
FACTOR = 20.0  # per cent; from here on a factor says more than 100 times its logarithm
TIME = "seconds an epoch"
QUALITY = ("test_perplexity", "test_bleu")
LEAST, MOST, USUAL = 0.5, 10.0, 2.0  # per cent; the last is the margin where none is published
ENOUGH = 5  # pairs of seeds, which every comparison is to have at least, see `wanted_pairs`
VERDICTS = ("agrees", "disagrees", "no difference", "undecided", "untested")
NO_RUNS = "no runs of both models are kept"
FEW = "fewer than two seeds of both models are kept"
MODELS = {  # of the tiers that are evidence
    "at scale": "Both models are trained as in the paper.",
    "desk": "The models differ from the paper's in size or budget, and each reads a whole text.",
}
COLUMNS = ["paper", "place", "says", "figure", "verdict", "published", "ours", "low", "high"]
COLUMNS += ["n", "p", "tier", "method", "baseline", "text", "tried", "seeds", "note", "elsewhere"]
COLUMNS += ["interim", "tuning", "why", "unit"]


@dataclass(frozen=True)
class Test:
    """A test is a comparison that bears on a claim."""

    tier: Tier
    method: Setting
    baseline: Setting | float
    seeds: tuple[int, ...]
    differences: np.ndarray  # of the method from the baseline in the claim's unit, one a seed
    tried: tuple[int, int]  # settings from which method and baseline were chosen
    against: str  # why it is no evidence; empty if it is
    note: str = ""  # what the claim's comparisons leave open, and what these pairs do not share


# The comparisons ---------------------------------------------------------------------------------


def tests(claim: Claim, of: Evidence) -> list[Test]:
    """Return the comparisons that bear on a claim, the one that counts most first.

    Evidence comes first, then what only lacks seeds. Then the tier decides, the number of seeds,
    and whether the model is of the kind that the paper has.
    """
    every = [*_elsewhere(claim, of), *_at_scale(claim, of)]
    found = {(test.method, test.baseline): test for test in every}.values()  # each pair once
    models = {evidence.model_of(recipe) for recipe, _ in claim.pairs}

    def order(test: Test) -> tuple:
        is_other = evidence.model_of(test.method.recipe) not in models
        standing = {"": 0, FEW: 1}
        return standing.get(test.against, 2), TIERS.index(test.tier), -len(test.seeds), is_other

    return sorted(found, key=order)


def _at_scale(claim: Claim, of: Evidence) -> Iterable[Test]:
    """Yield the tests by the recipes of published rows, as far as both sides are kept."""
    by_name: dict[tuple, list[Setting]] = {}
    for setting in of.settings:
        by_name.setdefault(setting[:3], []).append(setting)

    def kept(name: str) -> list[Setting]:
        """Return the settings of a recipe whose runs are as the recipe is today."""
        recipe, change = f"{name} ".split(" ", 1)
        settings = by_name.get(evidence.named(recipe, change), [])
        told = {s: [run.content["experiment"] for run in of.settings[s].values()] for s in settings}
        return [s for s in settings if all(evidence.is_of(e, recipe, change) for e in told[s])]

    for pair in claim.pairs:
        for method, baseline in product(*map(kept, pair)):
            if method.text == baseline.text:
                yield _test(claim, of, method, baseline, (1, 1), at_scale=True)


def _elsewhere(claim: Claim, of: Evidence) -> Iterable[Test]:
    """Yield the tests in contexts with both sides, each at its best setting."""
    if not claim.method:
        return
    contexts: dict[tuple, dict[str, list[Setting]]] = {}
    for setting, seeds in of.settings.items():
        runs = [run for run in seeds.values() if run.figure(claim.figure) is not None]
        if claim.optimizers:
            by = claim.optimizers
            runs = [run for run in runs if run.experiment["optimisation"]["optimizer"] in by]
        if runs:  # the earlier ones of a setting may lack a figure that was thought of later
            contexts.setdefault(runs[0].context, {}).setdefault(runs[0].method, []).append(setting)
    for methods in contexts.values():
        if not isinstance(claim.baseline, str):
            if mine := methods.get(claim.method):
                best = of.best(mine, claim.figure)
                yield _test(claim, of, best, claim.baseline, (len(mine), 0))
        elif {claim.method, claim.baseline} <= methods.keys():
            mine, theirs = methods[claim.method], methods[claim.baseline]
            tried = (len(mine), len(theirs))
            method, plain = (of.best(side, claim.figure) for side in (mine, theirs))
            yield _test(claim, of, method, plain, tried)


def _test(
    claim: Claim,
    of: Evidence,
    method: Setting,
    baseline: Setting | float,
    tried: tuple[int, int],
    at_scale: bool = False,
) -> Test:
    """Return the comparison of two settings by the seeds that both have.

    at_scale: whether the two are the paper's own experiment.
    """
    ours = _values(of.settings[method], claim.figure)
    plain, note = method, claim.note
    if isinstance(baseline, Setting):
        plain = baseline
        theirs = _values(of.settings[baseline], claim.figure)
        mine, other = (
            {seed: run.content["provenance"] for seed, run in of.settings[side].items()}
            for side in (method, baseline)
        )
        shared = ours.keys() & theirs.keys()
        if claim.figure == TIME:  # the times of two machines say nothing of two methods
            machine = provenance.machine
            shared = {seed for seed in shared if machine(mine[seed]) == machine(other[seed])}
        kinds = provenance.two_kinds({seed: mine[seed] for seed in shared}, other)
        precisions = _two_precisions(of, method, baseline)
        note = "; ".join(filter(None, (note, kinds, precisions)))
    else:
        theirs = dict.fromkeys(ours, baseline)
        shared = ours.keys()
    seeds = tuple(sorted(shared))
    tier = "at scale" if at_scale else of.first(method).tier
    why_not = against(of, tier, plain, len(seeds))
    if not at_scale:
        why_not = claim.withdrawn or why_not
    differences = np.array([claim.difference(ours[seed], theirs[seed]) for seed in seeds])
    if np.isnan(differences).any():  # a seed must not go because of its outcome
        seeds, differences = (), np.array([])
        why_not = why_not or "a figure that is not above 0 has no logarithm"
    return Test(tier, method, baseline, seeds, differences, tried, why_not, note)


def _two_precisions(of: Evidence, method: Setting, baseline: Setting) -> str:
    """Return a sentence on two models that were trained in different precisions; "" for one."""
    first, second = (
        of.first(side).experiment["optimisation"]["precision"] for side in (method, baseline)
    )
    if first == second:
        return ""
    return f"`{method.label}` was trained in {first}, and `{baseline.label}` in {second}"


def against(of: Evidence, tier: Tier, plain: Setting, pairs: int) -> str:
    """Return why a comparison is no evidence, empty if it is one.

    plain: the setting of its baseline; pairs: of seeds that both sides have.
    """
    translates = "test_bleu" in of.first(plain).content["metrics"]
    if tier == "small":
        return "both models were trained on a part of a text only"
    if tier == "desk" and not translates:
        beats = of.beats_counting(plain)
        if beats is None:
            return "the n-grams of its text are not counted, which `claims --count` does"
        if not beats:
            return f"its plain model does not beat {COUNTING}"
    if pairs < 2:
        return FEW
    return ""


def _values(runs: dict[int, Run], figure: str) -> dict[int, float]:
    """Return a figure of every seed that has it."""
    values = {seed: run.figure(figure) for seed, run in runs.items()}
    return {seed: value for seed, value in values.items() if value is not None}


# The ledger --------------------------------------------------------------------------------------


def ledger(of: Evidence, claims: Sequence[Claim] = CLAIMS) -> "pd.DataFrame":
    """Return a row for each claim: what the paper says, what our runs say, and the verdict.

    of: the results to go by.
    claims: p is corrected over all of them that a comparison of runs can test.

    Columns: figure, which is compared; published, ours, low and high, differences of it in `unit`:
    per cent (100 times the difference of logarithms) or hundredths; n and seeds, those in common;
    p, by Holm; tier, method, baseline and text of the runs; tried, the settings from which each
    side was chosen; interim, how many pairs a verdict has of those that it is to have, while they
    are fewer; tuning, what the plan of both sides says of it, where there is a verdict; why a claim
    is untested.
    """
    import pandas as pd

    tested = {claim.name: tests(claim, of) for claim in claims}
    counting = {name: rows[0] for name, rows in tested.items() if rows and not rows[0].against}
    raw = [comparison.p_value(test.differences) for test in counting.values()]
    family = sum(not claim.needs for claim in claims)
    corrected = dict(zip(counting, holm(raw, family), strict=True))
    rows = {}
    for claim in claims:
        printed = claim.published_differences()
        row: dict[str, Any] = {"paper": claim.paper, "place": claim.place, "says": claim.says}
        row |= {"interim": "", "unit": claim.unit}
        row["figure"] = "" if claim.needs else NAMES.get(claim.figure, claim.figure)
        row["published"] = float(np.mean(printed)) if printed else np.nan
        first = next(iter(tested[claim.name]), None)
        if first is not None:
            row |= _told(first)
        if first is not None and claim.name in counting:
            p = float(corrected[claim.name])
            margin = margin_of(printed, claim.expects)
            pairs = first.differences
            said = verdict(claim.expects, pairs, p, margin, family=family, unit=claim.unit)
            sides = [s for s in (first.method, first.baseline) if isinstance(s, Setting)]
            wanted = wanted_pairs(*sides)
            row |= {"p": p, "verdict": said, "interim": _interim(said, len(first.seeds), wanted)}
            row |= {"elsewhere": _elsewhere_said(claim, tested[claim.name][1:], margin)}
            row |= {"tuning": evidence.tuning(*sides)}
        else:
            why = first.against if first is not None else claim.needs or NO_RUNS
            row |= {"verdict": "untested", "why": why}
        rows[claim.name] = row
    return pd.DataFrame.from_dict(rows, orient="index", columns=COLUMNS)


def wanted_pairs(*sides: Setting) -> int:
    """Return how many pairs a comparison is to have: as its plans say, but `ENOUGH` at least."""
    return max(ENOUGH, evidence.planned_seeds(*sides))


def is_interim(family: str, method: str, pairs: float, baseline: str = "tied") -> bool:
    """Return whether a comparison within a family has fewer pairs than it is to have."""
    sides = [Setting(f"{family}/{name}", "standard", "", "") for name in (method, baseline)]
    return pairs < wanted_pairs(*sides)


def _interim(said: str, pairs: int, wanted: int) -> str:
    """Return how many pairs a verdict has of those that are wanted; "" if it has them."""
    if pairs >= wanted or kind_of(said) == "undecided":
        return ""
    return f"{pairs} of {wanted} pairs"


def verdict_of(row: Any) -> str:
    """Return the verdict of a row of the ledger, with its pairs while it is interim."""
    return f"{row.verdict} (interim: {row.interim})" if row.interim else row.verdict


def _told(test: Test) -> dict:
    """Return what a row of the ledger says of a comparison."""
    row = {"tier": test.tier, "method": test.method.label, "n": len(test.seeds)}
    row["baseline"] = test.baseline.label if isinstance(test.baseline, Setting) else test.baseline
    row |= {"text": evidence.title_of(test.method.text), "tried": "{} / {}".format(*test.tried)}
    row |= {"seeds": " ".join(map(str, test.seeds)), "note": test.note}
    if len(test.seeds):
        row["ours"] = float(test.differences.mean())
    if len(test.seeds) > 1:
        row["low"], row["high"] = comparison.interval(test.differences)
    return row


def _elsewhere_said(claim: Claim, others: Sequence[Test], margin: float) -> str:
    """Return how often other comparisons that are evidence have each verdict, uncorrected."""
    said = []
    for test in others:
        if not test.against:
            p = comparison.p_value(test.differences)
            said.append(kind_of(verdict(claim.expects, test.differences, p, margin)))
    return ", ".join(f"{said.count(kind)} {kind}" for kind in VERDICTS if kind in said)


def margin_of(printed: Sequence[float], expects: Expected) -> float:
    """Return the difference that would not matter, in the claim's unit: the published one.

    A claim of no gain or of no difference has no published one that a margin could be: USUAL.
    """
    if expects not in ("lower", "higher") or not printed:
        return USUAL
    margin = np.clip(abs(np.mean(printed)), LEAST, MOST)
    return float(np.floor(10 * margin) / 10)


def verdict(
    expects: Expected,
    differences,
    p: float,
    margin: float,
    alpha: float = 0.05,
    family: int = 1,
    unit: str = "%",
) -> str:
    """Return the verdict on a claim about a figure, from paired differences.

    p: corrected for the `family` of comparisons.
    unit: of the differences and of `margin`.

    lower, higher: agrees or disagrees where the corrected p is below α.
    same: agrees where both one-sided tests at α refuse a difference of the margin.
    not lower, not higher: agrees where the one-sided test against a difference of the margin in
        the denied direction refuses it.
    These three disagree where p is below α and the interval lies beyond the margin. Undecided,
    they are told the number of seeds that would decide if mean and spread stayed as they are and
    p was multiplied by the whole family.
    """
    differences = np.asarray(differences, np.float64)
    towards = -differences if expects in ("higher", "not higher") else differences
    if expects in ("lower", "higher"):
        said = comparison.verdict(towards, p, margin, alpha, family, unit)
        return {"better": "agrees", "worse": "disagrees"}.get(said, said)
    low, high = comparison.interval(towards, 1 - 2 * alpha)
    if -margin < low and (high < margin or expects != "same"):
        return "agrees"
    low, high = comparison.interval(towards, 1 - alpha)
    if p < alpha and (high < -margin or (low > margin and expects == "same")):
        return "disagrees"
    # Within the margin a one-sided test has to refuse it. Beyond the margin the interval has to
    # leave it, and the corrected p, which is of a difference of 0, has to be below α.
    nearest = abs(towards.mean()) if expects == "same" else -towards.mean()
    bounds = [(1 - alpha, abs(nearest - margin))]
    if nearest > margin:
        bounds = [(1 - alpha / 2, nearest - margin), (1 - alpha / (2 * family), nearest)]
    levels, away = np.transpose(bounds)
    sd = towards.std(ddof=1)
    return comparison.undecided(
        lambda n: bool((stats.t.ppf(levels, n - 1) * sd / np.sqrt(n) < away).all()), len(towards)
    )


def kind_of(said: str) -> str:
    """Return which of VERDICTS a verdict is, without its numbers."""
    return next(kind for kind in VERDICTS if said.startswith(kind))


def is_contrary(row: Any) -> bool:
    """Return whether the interval of a ledger's row lies wholly on the side that the claim denies.

    It need not be evidence. A claim of no difference denies no side.
    """
    beyond = {"lower": row.low > 0, "higher": row.high < 0}
    return bool(beyond.get(claim(str(row.name)).expects, False))


def counts(table: "pd.DataFrame") -> dict[str, int]:
    """Return how many claims of a ledger have each verdict."""
    kinds = [kind_of(said) for said in table.verdict]
    return {kind: kinds.count(kind) for kind in VERDICTS}


def interim(table: "pd.DataFrame") -> int:
    """Return how many verdicts of a ledger are interim, by fewer pairs than they are to have."""
    return int((table.interim != "").sum())


def told(table: "pd.DataFrame") -> str:
    """Return in words how many claims of a ledger have each verdict, and what is behind them."""
    number = counts(table)
    of = {name: claim(name) for name in table.index}
    agree = [of[name] for name, said in table.verdict.items() if kind_of(said) == "agrees"]
    quality = sum(one.figure in QUALITY for one in agree)
    no_gain = sum(one.expects not in ("lower", "higher") for one in agree)
    withdrawn = [
        name for name, one in of.items() if one.withdrawn and table.why[name] == one.withdrawn
    ]
    contrary = sum(is_contrary(table.loc[name]) for name in withdrawn)
    return (
        f"Our runs agree with {number['agrees']}, of which {quality} are about perplexity or BLEU "
        f"and the others about the matrix and the rank. {no_gain} of these agreements are with a "
        "claim of no gain or no difference, by a test without correction. They disagree with "
        f"{number['disagrees']}, show no difference as large as the margin for "
        f"{number['no difference']}, and leave {number['undecided']} undecided. {interim(table)} "
        f"verdicts are interim. {number['untested']} claims are untested. The runs of "
        f"{len(withdrawn)} of these are withdrawn, and those of {contrary} speak against the paper."
    )


def coverage(of: Evidence, claims: Sequence[Claim] = CLAIMS) -> "pd.DataFrame":
    """Return for each claim the most pairs of seeds that test it, by tier.

    Of the column `no evidence` are those that count for nothing, of whatever tier.
    """
    import pandas as pd

    rows = {}
    for claim in claims:
        pairs = dict.fromkeys(["at scale", "desk", "no evidence"], 0)
        for test in tests(claim, of):
            column = "no evidence" if test.against else test.tier
            pairs[column] = max(pairs[column], len(test.seeds))
        rows[claim.name] = pairs
    return pd.DataFrame.from_dict(rows, orient="index")


def claim(name: str) -> Claim:
    """Return the claim of a name; CourseError, with near matches, where there is none."""
    by_name = {one.name: one for table in TABLES for one in table}
    if name not in by_name:
        raise unknown("claim", name, by_name)
    return by_name[name]


def shown(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return a ledger with its numbers written out, for a page or a terminal."""
    ours = zip(table.ours, table.low, table.high, table.unit, strict=True)
    page = table.loc[:, ["says", "figure"]].copy()
    page["verdict"] = [verdict_of(row) for row in table.itertuples()]
    published = zip(table.published, table.unit, strict=True)
    page["published"] = [by(value, unit=unit) for value, unit in published]
    page["ours"] = [by(mean, low, high, unit) for mean, low, high, unit in ours]
    page["pairs"] = [f"{n:.0f}" if n == n else "" for n in table.n]
    exact = "0, as all pairs differ alike"  # where a test has no spread to compare with
    page["p (Holm)"] = [(f"{p:.2g}" if p else exact) if p == p else "" for p in table.p]
    told = ["tier", "elsewhere", "tuning", "why untested", "note"]
    page[told] = table[["tier", "elsewhere", "tuning", "why", "note"]]
    page["place"] = table.place
    sides = zip(table.method, table.baseline, table.seeds, strict=True)
    page["runs"] = [f"{m} against {b}, seeds {s}" if s == s else "" for m, b, s in sides]
    return page.astype(object).fillna("")


def conclusions(*names: str, of: Evidence | None = None) -> str:
    """Return what the best evidence says on some claims, an item of a Markdown list each.

    names: of any of `TABLES`. p is corrected over the whole table of the names.
    of: the results to go by, all kept ones if None.

    An item has the verdict, our number with its interval, and the recipes, seeds and tier it is of.
    A claim without evidence is untested here, and the item says what is missing.
    What runs that are no evidence show is told with it, as such.
    """
    of = evidence.read() if of is None else of
    tables = [table for table in TABLES if {c.name for c in table} & {*names}]
    rows = {n: row for t in tables for n, row in ledger(of, t).iterrows()}
    for name in names:
        claim(name)
    return "\n".join(f"- {_concluded(rows[name])}" for name in names)


def _concluded(row: "pd.Series") -> str:
    """Return what a row of the ledger says, as sentences that name their evidence."""
    says = f"*{row.says}*".replace("<", "&lt;")  # <unk> would be a tag
    if row.paper != OURS:
        says += f" ({row.paper}, {row.place})"
    level = not isinstance(row.baseline, str)
    baseline = f"the level {row.baseline}" if level else f"`{row.baseline}`"
    figure = claim(str(row.name)).figure
    differs = f"`{row.method}` differs from {baseline} in {NAMES.get(figure, figure)} by "
    differs += by(row.ours, row.low, row.high, row.unit)
    if row.verdict == "untested":
        item = f"{says}: **untested here**, because {row.why}."
        if row.n >= 1:
            seeds = "seeds" if row.n > 1 else "seed"
            item += f" {differs}, {seeds} {row.seeds}. This comparison is no evidence."
        return item
    runs = f"{row.n:.0f} {'seeds' if level else 'pairs of seeds'} ({row.seeds})"
    item = f"{says}: **{verdict_of(row)}**. {differs} over {runs}"
    if row.published == row.published:
        item += f", in print by {by(row.published, unit=row.unit)}"
    item += f"; {_tests_of(row)}. "
    item += MODELS[row.tier] + _tried(row)
    if row.tuning:
        item += f" {row.tuning}"
    if row.note:
        item += f" Note: {row.note}."
    if row.elsewhere:
        item += f" In other models, uncorrected: {row.elsewhere}."
    return item


def _tests_of(row: "pd.Series") -> str:
    """Return by which tests a row has its verdict: those of the margin, p, or in doubt both."""
    kind, is_plain = kind_of(row.verdict), claim(str(row.name)).expects in ("lower", "higher")
    by_margin = "one-sided tests at 5 %, not corrected"
    by_p = f"p = {row.p:.2g}, corrected for all claims of its table"
    if kind == "no difference" or (kind == "agrees" and not is_plain):
        return by_margin
    return by_p if kind == "disagrees" or is_plain else f"{by_margin}; {by_p}"


def _tried(row: "pd.Series") -> str:
    """Return a sentence that says from how many settings each side was chosen, if from any."""
    if row.tier == "at scale":
        return ""
    if row.tried == "1 / 1":
        return " Settings tried: one of each, so a tuned one may say otherwise."
    method, baseline = row.tried.split(" / ")
    and_of_baseline = f", {baseline} of the baseline" if isinstance(row.baseline, str) else ""
    return f" Settings tried: {method} of the method{and_of_baseline}."


def beside(name: str, here: float, of: Evidence | None = None) -> str:
    """Return how a difference of small runs stands to the best evidence on a claim, in sentences.

    name: of a claim whose figure is a perplexity.
    here: 100 log(method / baseline) of the small runs.
    of: the results to go by, all kept ones if None.
    """
    table = next(table for table in TABLES if claim(name) in table)
    row = ledger(evidence.read() if of is None else of, table).loc[name]
    said = f"In these small runs the perplexity differs by {by(here)}"
    if row.verdict == "untested":
        return f"{said}. No evidence on a whole text is kept beside it."
    told = f"{said}, in those of the list by {by(row.ours)}. "
    if here * row.ours > 0:
        return told + "Both numbers point the same way."
    return told + (
        "The two numbers point opposite ways. The second one counts, as far as the verdict of the "
        f"list goes. {MODELS[row.tier]}"
    )


def printed(table: "pd.DataFrame", width: int | None = None) -> str:
    """Return a ledger as text: for each claim its verdict, what it says, and the numbers below.

    width: letters of a line, at least 40; those of the terminal if None. Longer words stay whole.
    """
    width = width or shutil.get_terminal_size((100, 24)).columns
    parts = {
        "figure": "figure: {}", "published": "published {}", "ours": "ours {}",
        "pairs": "pairs of runs {}", "p (Holm)": "p (Holm) {}", "elsewhere": "elsewhere {}",
        "tier": "tier {}",
    }  # fmt: skip
    blocks = []
    for name, row in shown(table).iterrows():
        told = {key: str(value) for key, value in row.items() if str(value)}
        kind, colon, rest = told["verdict"].partition(":")
        head = f"{kind.upper()}{colon}{rest}  {told['says']}  ({name}, {told['place']})"
        numbers = [form.format(told[key]) for key, form in parts.items() if key in told]
        below = [told[key] for key in ("runs", "tuning", "why untested", "note") if key in told]
        lines = [head, *("    " + line for line in ("; ".join(numbers), *below) if line)]
        blocks.append("\n".join(_wrapped(line, width) for line in lines))
    return "\n\n".join(blocks)


def _wrapped(line: str, width: int) -> str:
    """Return a line cut to a width, whose further lines begin with four blanks."""
    return textwrap.fill(
        line,
        max(width, 40),
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def commands(test: Test, of: Evidence, seeds: int = 5) -> list[str]:
    """Return what to run so that both sides of a comparison have the seeds 1 to `seeds`."""
    missing = []
    for side in (test.method, test.baseline):
        if isinstance(side, Setting):
            runs = of.settings[side]
            told = next(iter(runs.values())).content["experiment"]
            experiment = Experiment.from_dict(told)
            wanted = [seed for seed in range(1, seeds + 1) if seed not in runs]
            missing += [command(experiment.change(seed=seed)) for seed in wanted]
    return missing


def by(difference: float, low: float = np.nan, high: float = np.nan, unit: str = "%") -> str:
    """Return a difference with its interval in its unit, and as a factor where it is many %."""
    if unit != "%" or not abs(difference) > FACTOR:
        return written(difference, low, high, "+.1f", f" {unit}")
    factor, *ends = (f"{np.exp(value / 100):.3g}" for value in (difference, low, high))
    return f"a factor of {factor}" + (f" [{', '.join(ends)}]" if low == low else "")
