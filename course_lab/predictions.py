"""The predictions of kept models: loss by frequency, calibration, samples.

Results of whole texts keep a few figures of their predictions (`course_lab.predicting`). Methods
are compared within one context: one family, text and budget. The likeliest words of the models are
in `likely_words`, and the loss of every token in `token_gains`.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from course_lab import comparison, evidence, predicting
from course_lab.evidence import Evidence, Run

if TYPE_CHECKING:
    import pandas as pd

MARGIN = 1.0  # hundredths of a nat, or of a probability, that would not matter
FAR = 0.2  # nats, a large difference of loss between two methods
VERDICTS = {"better": "lower", "worse": "higher"}  # of a figure that has no better side


def chosen(of: Evidence) -> list[Run]:
    """Return the runs of the context in which most methods have kept their predictions.

    Of contexts with as many methods it is that with most runs, then with the least perplexity of
    validation, because predictions of the test split are compared.
    """
    contexts: dict[tuple, list[Run]] = {}
    for run in of.runs:
        if "predictions" in run.content["metrics"]:
            contexts.setdefault(run.context, []).append(run)

    def worth(runs: list[Run]) -> tuple:
        losses = [run.perplexity("valid") for run in runs]
        return len({run.method for run in runs}), len(runs), -min(losses)

    return max(contexts.values(), key=worth, default=[])


def sort_out(of: Evidence, runs: Iterable[Run]) -> tuple[list[Run], list[Run]]:
    """Return the runs whose settings hold their own against counting, and those that lose to it."""
    sides: tuple[list[Run], list[Run]] = [], []
    for run in runs:
        sides[of.beats_counting(run.setting) is False].append(run)
    return sides


def name_of(runs: Sequence[Run]) -> str:
    """Return the family of chosen runs; empty for none."""
    return evidence.family_of(runs[0].setting.recipe) if runs else ""


# Losses and probabilities by word ----------------------------------------------------------------


def by_group(runs: Iterable[Run]) -> "pd.DataFrame":
    """Return the mean loss of each group of words: method, seed, group, tokens, loss in nats."""
    import pandas as pd

    rows = []
    for run in runs:
        for group, (tokens, loss) in run.content["metrics"]["predictions"]["losses"].items():
            row = {"method": run.method, "seed": run.seed, "group": group, "tokens": tokens}
            rows.append(row | {"loss": loss})
    return pd.DataFrame(rows, columns=["method", "seed", "group", "tokens", "loss"])


def decades(table: "pd.DataFrame") -> list[str]:
    """Return the groups of words by frequency, the rarest first, without the watched words."""
    return [name for name in table.group.unique() if name not in predicting.WATCHED]


def occurrences(names: Iterable[str]) -> list[int]:
    """Return the least number of occurrences of each group of words by frequency."""
    return [int(name.split()[0].replace(",", "")) for name in names]


def watched(runs: Iterable[Run]) -> "pd.DataFrame":
    """Return what `<unk>`, "a", "an" and "the" are given: method, seed, word, there, elsewhere.

    They are mean probabilities, where the word is the next one and where it is not.
    """
    import pandas as pd

    rows = []
    for run in runs:
        told = run.content["metrics"]["predictions"]["watched"]
        for word, (tokens, there, elsewhere) in told.items():
            row = {"method": run.method, "seed": run.seed, "word": word, "tokens": tokens}
            rows.append(row | {"there": there, "elsewhere": elsewhere})
    columns = ["method", "seed", "word", "tokens", "there", "elsewhere"]
    return pd.DataFrame(rows, columns=columns)


def differences(
    table: "pd.DataFrame",
    by: str,
    figure: str,
    baseline: str,
    scale: float = 100.0,
    declared: int = 0,
) -> "pd.DataFrame":
    """Return each method against a baseline in every group, by the one paired statistic.

    table: of `by_group` or `watched`.
    by: its column of groups.
    figure: the column that is compared.
    baseline: the method with which the others are compared.
    scale: of the difference; 100 gives hundredths.
    declared: how many methods were to be compared, those without runs so far included.

    The family of the correction is all declared methods in all groups of the table, or the
    comparisons that are made, where these are more. The index is (method, group). A method that
    shares fewer than two seeds with the baseline is left out.
    """
    import pandas as pd

    samples = {}
    wide = table.pivot_table(index=["method", by], columns="seed", values=figure)
    for method, group in wide.index:
        if method != baseline and (baseline, group) in wide.index:
            d = (scale * (wide.loc[(method, group)] - wide.loc[(baseline, group)])).dropna()
            if len(d) > 1:
                samples[method, group] = d.to_numpy()
    columns = ["difference", "low", "high", "n", "p", "verdict"]
    family = max(declared * len(set(table[by])), len(samples))
    tested = comparison.tested(samples, MARGIN, family=family, unit="hundredth")
    index = pd.MultiIndex.from_tuples(list(tested), names=["method", by])
    rows = pd.DataFrame(list(tested.values()), index=index, columns=columns)
    return rows.assign(verdict=rows.verdict.astype(str).replace(VERDICTS))


def gaps(table: "pd.DataFrame", method: str, baseline: str) -> np.ndarray:
    """Return the difference of losses by seed and frequency (seeds, groups), in hundredths.

    table: of `by_group`; NaN where a run has no words of a group.
    """
    wide = table.pivot_table(index="seed", columns=["method", "group"], values="loss")
    names = decades(table)
    ours, theirs = (wide.loc[:, one].reindex(columns=names) for one in (method, baseline))
    d = 100 * (ours - theirs)
    return d.dropna(how="all").to_numpy()


def frequency_told(changes: "pd.DataFrame", tokens: "pd.Series") -> str:
    """Return at which words the losses differ most from the baseline, by how much, in words.

    changes: of `differences` by group, in hundredths of a nat.
    tokens: how many the test split has of each group.
    """
    if changes.empty:
        return "By frequency no method is compared: none shares two seeds with the tied softmax."
    nats = changes.difference.unstack("group") / 100
    most = nats.abs().mean().idxmax()
    surely = changes.verdict.isin(set(VERDICTS.values())).unstack("group")[most]
    there = nats.loc[surely, most].sort_values(key=abs, ascending=False)
    figures = ", ".join(f"`{name}` {d:+.2f}" for name, d in there.items())
    sure = f"the sure differences are {figures} nats" if figures else "no difference is sure"
    rest = nats.drop(columns=most).abs().max(axis=1)
    rest = rest[rest > FAR]
    far = ": " * bool(len(rest)) + ", ".join(f"`{m}` (up to {d:.2f})" for m, d in rest.items())
    return (
        f"Losses differ most at words that occur {most} times: from the tied softmax {sure}. "
        f"These words are {tokens[most] / tokens.sum():.0%} of the tokens. In the other groups of "
        f"words {len(rest)} of {len(nats)} methods differ by more than {FAR} nats{far}."
    )


# Calibration -------------------------------------------------------------------------------------


def calibration(runs: Iterable[Run]) -> "pd.DataFrame":
    """Return how often the likeliest word is right: method, seed, bin, tokens, probability, right.

    The bins are of the greatest probability. Of a calibrated model the mean probability and the
    share that is right are equal in every bin. Empty bins are left out.
    """
    import pandas as pd

    rows = []
    for run in runs:
        bins = run.content["metrics"]["predictions"]["calibration"]
        for number, (tokens, probability, right) in enumerate(bins):
            if tokens:
                row = {"method": run.method, "seed": run.seed, "bin": number, "tokens": tokens}
                rows.append(row | {"probability": probability, "right": right})
    columns = ["method", "seed", "bin", "tokens", "probability", "right"]
    return pd.DataFrame(rows, columns=columns)


def calibration_error(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return the expected calibration error of each method: mean, min, max and n over its seeds.

    It is the mean over tokens of |share right − probability|, taken by bins. `confident` is the
    same mean with its sign: above 0 the probabilities are too great. `standard error` is that of
    `confident` for one seed, over tokens of which each is right or not.
    """
    off = (table.probability - table.right) * table.tokens
    runs = [table.method, table.seed]
    tokens = table.groupby(["method", "seed"]).tokens.sum()
    error = off.abs().groupby(runs).sum() / tokens
    rows = error.groupby("method").agg(["mean", "min", "max", "size"])
    rows["confident"] = (off.groupby(runs).sum() / tokens).groupby("method").mean()
    variance = (table.tokens * table.right * (1 - table.right)).groupby(runs).sum()
    rows["standard error"] = (variance**0.5 / tokens).groupby("method").mean()
    return rows.rename(columns={"size": "n"}).sort_values("mean")


def likeliest(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return how likely each method's likeliest word is in the mean, and in what share it is right.

    table: of `calibration`. Columns: method, probability, right, and error of `calibration_error`.
    """
    import pandas as pd

    error = calibration_error(table)["mean"]
    rows = []
    for method, bins in table.groupby("method"):
        means = [np.average(bins[name], weights=bins.tokens) for name in ("probability", "right")]
        rows.append((method, *means, error[method]))
    return pd.DataFrame(rows, columns=["method", "probability", "right", "error"])


# Samples ------------------------------------------------------------------------------------------


def samples(runs: Iterable[Run]) -> dict[str, str]:
    """Return a text that each method's run of the least seed wrote."""
    texts: dict[str, str] = {}
    for run in sorted(runs, key=lambda run: run.seed):
        texts.setdefault(run.method, run.content["metrics"]["predictions"]["sample"])
    return texts
