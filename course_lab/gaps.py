"""The generalisation gap in kept results: by the prior's decay, by the text's size, by the epoch.

A gap is a difference of losses in nats a token, that of text which was not trained on less that of
training as it went along: log perplexity less log perplexity. An adversarial softmax has no gap:
what it reports in training is the loss of perturbed targets.
"""

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lab import comparison, evidence
from course_lab.evidence import COUNTING, Evidence, Run
from course_lab.parts import KINDS
from course_lab.statistics import written
from course_lib.output_layers import Adversarial
from course_lib.regularizers import ExponentialPrior
from course_lib.theory.wang2020 import generalisation_gap

if TYPE_CHECKING:
    import pandas as pd

GAMMAS = np.arange(0.55, 3.01, 0.05)  # of the theorem, which are tried at a trained matrix
COLUMNS = ["family", "method", "seed", "text", "loses", "gamma", "all but gamma"]
COLUMNS += ["all but shape", "train", "test", "gap", "last gap", "sigma"]


def runs(of: Evidence) -> "pd.DataFrame":
    """Return a row for each language model whose training loss is known at its best epoch.

    An adversarial model has no row, since its training loss is of perturbed targets. Columns:
    family, method, seed, text; loses, whether the setting is known to lose to counting; train and
    test, losses at the best epoch; gap and last gap, of the validation split at the best epoch and
    at the last; sigma, the singular values.
    gamma, of the prior. all but gamma: a digest of all other settings. all but shape: the same
    digest with the prior's norm in place of its scale. The three are None without a prior.
    """
    import pandas as pd

    rows = []
    for setting, members in of.settings.items():
        for seed, run in members.items():
            epochs = {epoch["epoch"]: epoch for epoch in run.content["epochs"]}
            best = epochs.get(run.content["metrics"].get("best_epoch"))
            if best is None or run.figure("test_bleu") is not None or _perturbs_targets(run):
                continue
            last = epochs[max(epochs)]
            family = evidence.family_of(setting.recipe)
            row = {"family": family, "method": run.method, "seed": seed}
            row |= {"text": evidence.title_of(setting.text), **_prior(run)}
            row |= {"loses": of.beats_counting(setting) is False}
            row |= {"train": np.log(best["train_perplexity"])}
            row |= {"test": np.log(run.perplexity("test"))}
            row |= {"gap": _gap(best), "last gap": _gap(last)}
            values = run.content["metrics"].get("geometry", {}).get("singular_values")
            rows.append(row | {"sigma": values})
    return pd.DataFrame(rows, columns=COLUMNS)


def _perturbs_targets(run: Run) -> bool:
    """Return whether training perturbs the targets' logits, so that its loss is another one."""
    named = run.experiment["output_layer"]["kind"]
    return any(k.__name__ == named and issubclass(k, Adversarial) for k in KINDS["output_layer"])


def _gap(epoch: dict) -> float:
    return float(np.log(epoch["valid_perplexity"] / epoch["train_perplexity"]))


def _prior(run: Run) -> dict:
    """Return γ of a run's prior on the singular values, and two digests of its other settings.

    The second digest has the norm of the prior, in two digits, in place of its scale.
    """
    told = copy.deepcopy(run.experiment)
    for part in told.get("regularizers", []):
        if part["kind"] == "ExponentialPrior" and part["options"].get("weight"):
            norm = ExponentialPrior(**part["options"]).values(told["size"]).norm().item()
            row = {"gamma": part["options"].pop("gamma")}
            row["all but gamma"] = evidence.settings_digest(told)
            part["options"]["c1"] = f"norm {norm:.2g}"
            return row | {"all but shape": evidence.settings_digest(told)}
    return {"gamma": None, "all but gamma": None, "all but shape": None}


def sweep(table: "pd.DataFrame", alike: str = "all but gamma") -> "pd.DataFrame":
    """Return what γ does where nothing else differs: the largest group of `runs` with several γ.

    alike: the column that the group shares; "all but shape" lets the scale of the prior follow γ so
    that the norm stays.

    A row is a value of γ. Columns: seeds; loses, of `runs`; the means of train, test, gap and last
    gap; against the least γ, by pairs of seeds, the difference of each of train, test and gap in
    hundredths of a nat with its interval. Empty where no group has two.
    """
    import pandas as pd

    groups = [g for _, g in table.groupby(alike) if g.gamma.nunique() > 1]
    if not groups:
        return pd.DataFrame()
    group = max(groups, key=len)
    rows = {}
    by_gamma: dict[Any, pd.DataFrame] = {
        gamma: g.set_index("seed") for gamma, g in group.groupby("gamma")
    }
    first = by_gamma[min(by_gamma)]
    for gamma, g in by_gamma.items():
        row = {
            "seeds": len(g),
            "loses": g.loses.any(),
            **g[["train", "test", "gap", "last gap"]].mean(),
        }
        for figure in ("train", "test", "gap"):
            d = (100 * (g[figure] - first[figure])).dropna()
            if gamma != min(by_gamma) and len(d) > 1:
                low, high = comparison.interval(d)
                row |= {f"{figure} change": d.mean(), f"{figure} low": low, f"{figure} high": high}
        rows[gamma] = row
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("γ")


def shown(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return a table of `sweep` for readers, each change with its interval in one column."""
    told = table.round(3)
    for figure in ("train", "test", "gap"):
        names = [f"{figure} {part}" for part in ("change", "low", "high")]
        if set(names) <= set(told):
            changes = [written(*change, "+.1f") for change in told[names].to_numpy()]
            told = told.drop(columns=names).assign(**{names[0]: changes})
    return told


def with_counting(
    table: "pd.DataFrame", counted: Mapping[str, float], digits: int = 3
) -> "pd.DataFrame":
    """Return a table of losses, for display, with the test loss of each n-gram model as a row.

    table: it has a column test; what is missing in it is left blank.
    counted: the n-grams' test perplexities on the same text, by name.
    digits: decimals of all numbers but whole ones.
    """
    import pandas as pd

    losses = {name: float(np.log(value)) for name, value in counted.items()}
    rows = pd.DataFrame({"test": losses}, dtype=object)
    told = pd.concat([table.astype(object), rows]).reindex(columns=table.columns).fillna("")
    written_out = told.map(lambda v: f"{v:.{digits}f}" if isinstance(v, float) else v)
    return written_out.rename_axis(table.index.name)


def change_told(table: "pd.DataFrame", figure: str, gamma: float | None = None) -> str:
    """Return how a figure of `sweep` changes from the least γ to another, in nats, in words.

    gamma: the other one; the greatest if None.
    """
    names = [f"{figure} {part}" for part in ("change", "low", "high")]
    row = table.iloc[-1] if gamma is None else table.loc[gamma]
    mean, low, high = (row[names] / 100).tolist()
    return written(mean, low, high, "+.3f")


def weighed(said: str, table: "pd.DataFrame") -> str:
    """Return a conclusion as it is, or as an illustration if a model of it loses to counting.

    said: a sentence.
    table: of `sweep`, which the conclusion is drawn from.
    """
    if not table.loses.any():
        return said
    lost = f"{table.loses.sum()} of the {len(table)} settings compared lose to {COUNTING}"
    illustration = said[0].lower() + said[1:]
    return f"This is untested on evidence, since {lost}. As an illustration: {illustration}"


def steeper_told(table: "pd.DataFrame") -> str:
    """Return whether the greatest γ generalises better than the least, in words.

    table: of `sweep`, the norm held. Yes wants a gap and a test loss that surely fall, and no wants
    a test loss that surely rises, and surely falls at no other γ. All else is undecided. Models
    that lose to counting give no answer.
    """
    if "test change" not in table:
        return "Untested: no γ is kept beside another one of the same norm and seeds"
    first, last = table.index[0], table.index[-1]
    highs: Any = table["gap high"]
    falls = [f"{gamma:g}" for gamma, high in highs.items() if high < 0]
    fall = f"the gap surely falls at γ = {', '.join(falls)}" if falls else "no fall of it is sure"
    told = (
        f"with the norm held the test loss changes by {change_told(table, 'test')} nats "
        f"from γ = {first:g} to {last:g}, and the gap by {change_told(table, 'gap')}: {fall}"
    )
    if (best := table.test.idxmin()) not in (first, last):
        told += (
            f". The least test loss is at γ = {best:g}, where it changes by "
            f"{change_told(table, 'test', best)}, and the gap by {change_told(table, 'gap', best)}"
        )
    answer = "" if table.loses.any() else f"{_steeper(table)}. "
    return weighed(answer + told[0].upper() + told[1:], table)


def _steeper(table: "pd.DataFrame") -> str:
    """Return the answer of `steeper_told` in a word or two."""
    lows: Any = table["test low"]
    highs: Any = table["test high"]
    if highs.iloc[-1] < 0 and table["gap high"].iloc[-1] < 0:
        return "Yes"
    if lows.iloc[-1] <= 0:
        return "Undecided"
    return "Up to a point" if (highs < 0).any() else "No"


def at_trained(table: "pd.DataFrame", family: str) -> "pd.DataFrame":
    """Return theorem 4.1 evaluated at the word matrices that a family of models has trained.

    table: of `runs`. A row is a method, with the means over its seeds. Columns: bound,
    the least of head and tail over m and over γ,
    divided by C₁ A N / √n; norm, ‖W‖_F; gap, at the best epoch; test, the loss; seeds. The
    theorem wants σ_k ≤ k^{−γ}, so the bound is that of W / c times c, for the least c with
    σ_k ≤ c k^{−γ}.
    """
    import pandas as pd

    members = table[(table.family == family) & table.sigma.map(np.size).gt(1)]
    rows = []
    runs: Any = members.itertuples()
    for row in runs:
        sigma = np.sort(np.asarray(row.sigma, float))[::-1]
        least = min(_head_and_tail(sigma, gamma) for gamma in GAMMAS)
        figures = {"bound": least, "norm": np.linalg.norm(sigma)}
        figures |= {"gap": row.gap, "test": row.test}
        rows.append({"method": row.method, **figures})
    columns = ["method", "bound", "norm", "gap", "test"]
    groups = pd.DataFrame(rows, columns=columns).groupby("method")
    means: Any = groups.mean()
    return means.assign(seeds=groups.size()).sort_values("bound")


def _head_and_tail(sigma: np.ndarray, gamma: float) -> float:
    """Return the least sum of the theorem's two roots over m, for σ_k ≤ c k^{−γ}."""
    c = float((sigma * np.arange(1, len(sigma) + 1) ** gamma).max())
    bound = generalisation_gap(sigma / c, gamma, N=1, n=1)
    return c * (bound.least - bound.confidence)


def decay(of: Evidence, plan: str = "generalisation") -> "pd.DataFrame":
    """Return losses and gaps of a plan that varies γ and the number n of tokens, and nothing else.

    A row is a run that is kept. Columns: γ, n, seed, and test, train, gap and last gap of `runs`.
    """
    import pandas as pd

    rows = []
    for planned, run in evidence.of_plan(of, plan):
        if run is None:
            continue
        told = runs(Evidence((run,), (), {}))
        if len(told):
            gamma = _prior(run)["gamma"]
            n = planned.experiment().corpus.options["small"]["train"]
            figures = told.iloc[0][["train", "test", "gap", "last gap"]]
            rows.append({"γ": gamma, "n": n, "seed": run.seed} | figures.to_dict())
    columns = ["γ", "n", "seed", "train", "test", "gap", "last gap"]
    return pd.DataFrame(rows, columns=columns).astype(float).astype({"n": int, "seed": int})


def slopes(table: "pd.DataFrame", figure: str = "gap") -> "pd.DataFrame":
    """Return how a gap falls with n: the slope of log gap against log n, −½ by theorem 4.1.

    table: of `decay`.
    figure: its column.

    A row is a value of γ. Columns: slope, the mean over seeds of the least-squares line, low and
    high, its 95 % interval, seeds. A seed counts with three sizes or more of which all gaps are
    above 0, since no other has a logarithm.
    """
    import pandas as pd

    rows = {}
    for gamma, group in table.groupby("γ"):
        lines = []
        for _, line in group.groupby("seed"):
            if len(line) > 2 and np.all(line[figure] > 0):
                lines.append(np.polyfit(np.log(line.n), np.log(line[figure]), 1)[0])
        row = {"slope": np.mean(lines) if lines else np.nan, "seeds": len(lines)}
        if len(lines) > 1:
            row["low"], row["high"] = comparison.interval(lines)
        rows[gamma] = row
    columns = ["slope", "low", "high", "seeds"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("γ")


def remark(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return what the greatest γ changes against the least, at each n, by the one paired statistic.

    table: of `decay`.

    Columns: for train, gap and test the difference in hundredths of a nat with its interval; seeds,
    the number of pairs. Remark 4.2 of the paper expects a greater training loss and a smaller gap.
    The index is the number of tokens.
    """
    import pandas as pd

    rows = {}
    for tokens, group in table.groupby("n"):
        by_gamma: dict[Any, pd.DataFrame] = {
            gamma: g.set_index("seed") for gamma, g in group.groupby("γ")
        }
        if len(by_gamma) < 2:
            continue
        first, last = by_gamma[min(by_gamma)], by_gamma[max(by_gamma)]
        row = {}
        for figure in ("train", "gap", "test"):
            d = (100 * (last[figure] - first[figure])).dropna()
            if len(d) > 1:
                low, high = comparison.interval(d)
                row |= {figure: d.mean(), f"{figure} low": low, f"{figure} high": high}
                row["seeds"] = len(d)
        if row:
            rows[tokens] = row
    names = [f"{f}{end}" for f in ("train", "gap", "test") for end in ("", " low", " high")]
    return pd.DataFrame.from_dict(rows, orient="index", columns=[*names, "seeds"])
