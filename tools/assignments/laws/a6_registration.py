"""Step 6.1: what a registration holds, how many seeds it needs, and the laws of its analysis."""

import json
from datetime import datetime

import numpy as np

from tools.assignments.laws.a6_layer import METHODS
from tools.assignments.laws.common import Failed, number, parts

LARGEST = 1 << 16  # bytes
MEASURES = ("loss", "rare")
SEEDS = (4, 20)  # registered seeds: at least, at most
LEVEL, POWER = 0.9, 0.8  # of the interval, and of the comparison


def decoded(content: bytes, name: str) -> dict:
    """Return a small JSON object that was handed in; raise Failed, with a sentence, for another."""

    def refuse(constant):
        raise ValueError(f"it has {constant}, which is no number")

    if len(content) > LARGEST:
        raise Failed("json", f"{name} has {len(content):,} bytes, allowed are {LARGEST:,}")
    try:
        value = json.loads(content.decode(), parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise Failed("json", f"{name} is no JSON: {str(error)[:100]}") from None
    if not isinstance(value, dict):
        raise Failed("json", f"{name} is no JSON object, which stands in braces")
    return value


def is_number(value) -> bool:
    """Return whether a value is a finite number of ordinary size, and no truth value."""
    ordinary = isinstance(value, int | float) and not isinstance(value, bool)
    return ordinary and -1e9 < value < 1e9


def is_seed(value) -> bool:
    """Return whether a value is a seed."""
    return isinstance(value, int) and is_number(value) and 1 <= value <= 10**6


def is_list(value, kind, least: int, most: int) -> bool:
    """Return whether a value is a list of so many that are all of a kind."""
    return isinstance(value, list) and least <= len(value) <= most and all(map(kind, value))


def is_text(value) -> bool:
    """Return whether a value is a sentence or more."""
    return isinstance(value, str) and 20 <= len(value.strip()) <= 4_000


def is_time(value) -> bool:
    """Return whether a value is a time as Python writes it."""
    try:
        return isinstance(value, str) and bool(datetime.fromisoformat(value))
    except ValueError:
        return False


def is_pair(value) -> bool:
    """Return whether a value names two different methods."""
    return is_list(value, lambda x: x in METHODS, 2, 2) and value[0] != value[1]


def is_measure(value) -> bool:
    """Return whether a value is one of the measures."""
    return isinstance(value, str) and value in MEASURES


FIELDS = {
    "question": (is_text, "a text of 20 letters or more"),
    "methods": (is_pair, f"two different ones out of {', '.join(METHODS)}"),
    "measure": (is_measure, f"one of {', '.join(MEASURES)}"),
    "smallest": (lambda x: is_number(x) and 0 < x <= 2, "a number of nats above 0, at most 2"),
    "pilot": (lambda x: is_list(x, is_number, 3, 20), "a list of 3 to 20 paired differences"),
    "pilot_seeds": (lambda x: is_list(x, is_seed, 3, 20), "a list of 3 to 20 whole numbers"),
    "seeds": (
        lambda x: is_list(x, is_seed, *SEEDS) and len({*x}) == len(x),
        f"a list of {SEEDS[0]} to {SEEDS[1]} different whole numbers from 1 to a million",
    ),
    "trials": (lambda x: is_seed(x) and 2 <= x <= 12, "a whole number from 2 to 12"),
    "exclusion": (is_text, "a text of 20 letters or more"),
    "written": (is_time, "a time such as 2027-05-03T09:30:00"),
}


def registered(files: dict[str, bytes]) -> dict:
    """Return the registration that was handed in; raise Failed for the first fault of its form."""
    if "registration.json" not in files:
        raise Failed("missing", "registration.json was not handed in")
    value = decoded(files["registration.json"], "registration.json")
    if unknown := sorted(value.keys() - FIELDS.keys()):
        raise Failed("registration", f"the registration has an unknown field {unknown[0][:40]!r}")
    for name, (holds, asked) in FIELDS.items():
        if name not in value:
            raise Failed("registration", f"the registration has no {name}: asked is {asked}")
        if not holds(value[name]):
            raise Failed("registration", f"{name} of the registration is not {asked}")
    return value


def needed(pilot, smallest: float) -> int:
    """Return how many seeds a paired t-test needs to see the smallest difference that matters.

    pilot: paired differences. With n seeds the standard error is s/√n; the smallest difference has
    to exceed it by the t-values of the interval's end and of the power, of n − 1 degrees.
    """
    from scipy.stats import t

    spread = np.std(pilot, ddof=1)
    n = np.arange(2, 1_000)
    factor = t.ppf((1 + LEVEL) / 2, n - 1) + t.ppf(POWER, n - 1)
    enough = smallest * np.sqrt(n) >= factor * spread
    return int(n[enough][0]) if enough.any() else 1_000


def faults(value: dict) -> list[str]:
    """Return what is wrong with a registration whose fields have the right types."""
    problems = []
    if len(value["pilot"]) != len(value["pilot_seeds"]):
        problems.append("pilot and pilot_seeds have different lengths")
    if np.ptp(value["pilot"]) == 0:
        problems.append("the pilot's differences are all equal, so that they have no spread")
    if {*value["pilot_seeds"]} & {*value["seeds"]}:
        problems.append("a seed of the pilot is registered again: its result is known already")
    count = needed(value["pilot"], value["smallest"])
    if len(value["seeds"]) < count:
        least = f"{count:,}" if count < 1_000 else "a thousand or more"
        problems.append(
            f"you register {len(value['seeds'])} seeds; by your pilot's spread a difference of "
            f"{value['smallest']:g} needs {least}. Register more, or a larger smallest difference"
        )
    return problems


def check_registration(path="registration.json") -> None:
    """Say what is wrong with a registration; the marker says the same."""
    try:
        with open(path, "rb") as file:
            value = registered({"registration.json": file.read()})
    except (Failed, OSError) as problem:
        print(f"not yet: {problem}")
        return
    print("\n".join(f"not yet: {text}" for text in faults(value)) or "the registration is in order")


# --- the laws of the analysis --------------------------------------------------------------------


def t_interval(differences, more: float = 0.0) -> tuple:
    """Return mean and ends of the 90 % t-interval of n differences (…, n), each (…).

    With more = 1/k the interval is that of the mean of k new differences.
    """
    from scipy.stats import t

    n = np.shape(differences)[-1]
    spread = np.std(differences, axis=-1, ddof=1)
    half = t.ppf((1 + LEVEL) / 2, n - 1) * spread * np.sqrt(1 / n + more)
    mean = np.mean(differences, axis=-1)
    return mean, mean - half, mean + half


def analysis(layer, baseline):
    """Return the mean paired difference and its 90 % interval."""
    return t_interval(layer - baseline)


def runs(rng, n: int = 5):
    """Draw the values of n seeds: a seed's own part is ten times the noise of a pair."""
    own = rng.normal(5, 0.2, n)
    return (own + rng.normal(0, 0.02, n)).round(4), (own + rng.normal(0, 0.02, n)).round(4)


def interval(f, layer, baseline) -> tuple[float, float, float]:
    """Return an answer's three numbers; raise Failed where the interval is none."""
    mean, low, high = (number(x) for x in parts(f(layer, baseline), 3))
    if not low <= high:
        raise Failed("value", f"the interval from {low:.4g} to {high:.4g} ends before it begins")
    return mean, low, high


def shuffled(f, rng):
    """With labels drawn anew within each pair, the interval covers 0 as often as it says."""
    covered = []
    for _ in range(400):
        layer, baseline = runs(rng)
        swapped = rng.random(len(layer)) < 0.5
        layer, baseline = np.where(swapped, (baseline, layer), (layer, baseline))
        mean, low, high = interval(f, layer, baseline)
        if abs(mean - (layer - baseline).mean()) > 1e-9:
            right = (layer - baseline).mean()
            return f"the difference is {mean:.5f}; layer less baseline is {right:.5f} on average"
        covered.append(low <= 0 <= high)
    share = np.mean(covered)
    if not 0.8 < share < 0.97:
        return f"on shuffled labels your 90 % interval covers 0 in {share:.0%} of the cases"
    return ""


def as_wide(f, rng):
    """It is as wide as the paired t-interval, on average, to 8 %."""
    ratios = []
    for _ in range(60):
        layer, baseline = runs(rng)
        _, low, high = interval(f, layer, baseline)
        _, least, most = analysis(layer, baseline)
        ratios.append((high - low) / (most - least))
    if abs(np.mean(ratios) - 1) > 0.08:
        return (
            f"your interval is {np.mean(ratios):.2f} times as wide as the paired 90 % interval of "
            "5 seeds"
        )
    return ""


LAWS = (shuffled, as_wide)
