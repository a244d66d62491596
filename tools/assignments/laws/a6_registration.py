"""Step 6.1: how many seeds a registration needs, and the laws of its analysis."""

from pathlib import Path

import numpy as np

from tools.assignments.laws.common import Failed, number, parts

LEVEL, POWER = 0.9, 0.8  # of the interval, and of the comparison


def registered(files: dict[str, bytes]) -> dict:
    """Return the registration that was handed in; raise Failed for the first fault of its form."""
    from tools.assignments.laws import a6_forms  # which step 6.2 does without

    return a6_forms.filled(files, "registration.json", a6_forms.Registration)


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
        value = registered({"registration.json": Path(path).read_bytes()})
    except OSError:
        print(f"not yet: there is no {path}; fill in the registration, and run the cell")
        return
    except Failed as failure:
        print(f"not yet: {failure.sentence}")
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
    """For few seeds and for many it is as wide as the paired t-interval, on average, to 8 %."""
    for n in (4, 12):
        ratios = []
        for _ in range(60):
            layer, baseline = runs(rng, n)
            _, low, high = interval(f, layer, baseline)
            _, least, most = analysis(layer, baseline)
            ratios.append((high - low) / (most - least))
        if abs(np.mean(ratios) - 1) > 0.08:
            return (
                f"your interval is {np.mean(ratios):.2f} times as wide as the paired 90 % interval "
                f"of {n} seeds"
            )
    return ""


LAWS = (shuffled, as_wide)
