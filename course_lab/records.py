"""The tricks of the speed records beside our own runs of them, one model and one text for all.

`published.records` has what others say. Ours are the runs of the desk tier on the Penn Treebank by
Adam; the ledger of `claims` pairs their seeds.
"""

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from course_lab import claims, published
from course_lab.claims_table import OURS, RECORDS, Claim
from course_lab.evidence import Evidence
from course_lab.statistics import written

if TYPE_CHECKING:
    import pandas as pd

DESK = r"ptb/desk/[^/]+"  # the recipes of the desk by Adam


def desk(of: Evidence) -> Evidence:
    """Return the runs of the desk on the Penn Treebank by Adam, and nothing else."""
    runs = tuple(run for run in of.runs if re.fullmatch(DESK, run.setting.recipe))
    return replace(of, runs=runs)


def beside(of: Evidence) -> "pd.DataFrame":
    """Return a row for each trick: who claims what, the claimed effect, ours, and the verdict.

    of: the results to go by; only those of the `desk` count.

    The index has the claims' names. Columns: trick, source, says, claimed, ours, pairs, verdict. A
    source of what nobody but us claims begins with "ours".
    `ours` is in per cent of test perplexity, with its interval from two pairs of seeds on.
    """
    import pandas as pd

    ledger = claims.ledger(desk(of), RECORDS)
    told = published.records()
    rows = told[told.side == "claim"].set_index("claim").loc[list(ledger.index)]
    table = pd.DataFrame({"trick": [_trick(claim) for claim in RECORDS]}, index=ledger.index)
    own = ["ours, after " if claim.paper == OURS else "" for claim in RECORDS]
    table["source"] = [mine + source for mine, source in zip(own, _sources(rows), strict=True)]
    table["says"] = list(rows.says)
    signs = ["±" if claim.expects == "same" else "+" for claim in RECORDS]
    table["claimed"] = [effect(row, s) for s, (_, row) in zip(signs, rows.iterrows(), strict=True)]
    table["ours"] = [measured(row) for _, row in ledger.iterrows()]
    table["pairs"] = [0 if row.n != row.n else int(row.n) for _, row in ledger.iterrows()]
    table["verdict"] = [claims.verdict_of(row) for row in ledger.itertuples()]
    return table


def told(table: "pd.DataFrame") -> str:
    """Return in words how many claims of `beside` are tested, and what their comparisons say.

    Two claims of one trick, read both ways, rest on one comparison.
    """
    tested: Any = table[table.pairs > 1]
    sides = [frozenset(trick.split(" against ")) for trick in tested.trick]
    compared = tested.assign(sides=sides).drop_duplicates("sides")
    kinds = [claims.kind_of(verdict) for verdict in compared.verdict]
    pairs = zip(compared.trick, kinds, strict=True)
    sure = [f"`{trick}`" for trick, kind in pairs if kind in ("agrees", "disagrees")]
    return (
        f"Of {len(table)} claims {len(tested)} are tested, by {len(compared)} "
        f"comparison{'s' * (len(compared) != 1)} of models. The direction is sure in "
        f"{len(sure)} of them: {', '.join(sure) or 'none'}. A difference as large as the margin is "
        f"excluded in {kinds.count('no difference')}, and {kinds.count('undecided')} are undecided."
    )


def against() -> "pd.DataFrame":
    """Return the statements that speak against a trick, or against all: about, source, says."""
    import pandas as pd

    told = published.records()
    rows = told[told.side == "counter"]
    tricks = {claim.name: _trick(claim) for claim in RECORDS} | {"": "all"}
    table = pd.DataFrame({"about": [tricks[name] for name in rows.claim]})
    table["source"] = _sources(rows)
    table["says"] = list(rows.says)
    table["effect"] = [effect(row) for _, row in rows.iterrows()]
    return table.set_index("about")


def effect(row: Any, sign: str = "+") -> str:
    """Return the effect of a statement with its unit, and in per cent where that can be said.

    Nats are logarithms of perplexity, so their per cent are of perplexity, as ours are.

    sign: "±" for a size of which the source does not say which side it favours.
    """
    change, whole = row["effect"], row["of"]
    if change != change:
        return "none stated"
    if whole != whole:
        return f"±{change:g} {row.unit}" if sign == "±" else f"{change:+g} {row.unit}"
    if row.unit == "nats":
        return f"{change:+g} nats ({100 * change:+.1f} % of perplexity)"
    return f"{change:+g} of {whole:g} {row.unit} ({100 * change / whole:+.1f} %)"


def measured(row: Any) -> str:
    """Return our difference in per cent of a row of the ledger, or why there is none."""
    if row.n != row.n:
        return "no run is kept yet"
    if row.n == 0:
        return "no seed in common"
    if row.n == 1:
        return f"{row.ours:+.1f} %; one seed: no interval"
    return written(row.ours, row.low, row.high, "+.1f", " %")


def _sources(rows: Any) -> list[str]:
    """Return who said a statement where and when, for each row."""
    told = zip(rows.source, rows.place, rows.date, strict=True)
    return [", ".join(parts) for parts in told]


def _trick(claim: Claim) -> str:
    """Return a trick's name and that of the model with which it is compared."""
    return f"{claim.method} against {claim.baseline}"
