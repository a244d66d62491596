"""The cost of methods in kept results, in seconds and megabytes, beside what the papers say."""

from collections.abc import Mapping
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lab import comparison, evidence, families, provenance, published, results
from course_lab.evidence import Evidence
from course_lab.leaderboard import DESK
from course_lab.planned import short_variant
from course_lab.recipes import recipes

if TYPE_CHECKING:
    import pandas as pd

MODELS = "benchmarks/models"  # the kept tables of `python -m benchmarks models --keep`
LAYERS = "benchmarks/layers"  # the kept tables of `python -m benchmarks output-layers --keep`
TEXT = "ptb"  # whose runs have costs beside the published ones
BASELINE = "tied"  # the method whose figure the others are multiples of
PLAINLY = "plainly"  # so end the recipes of runs by the plain loop, or their variants once kept
COLUMNS = ["recipe", "variant", "family", "method", "rest", "seed", "text", "machine", "tokens"]
COLUMNS += ["size", "shape", "precision", "seconds", "megabytes", "core minutes", "perplexity"]
COLUMNS += ["valid", "continued", "components"]


def runs(of: Evidence) -> "pd.DataFrame":
    """Return a row for each language model that read the whole of a real text on a CPU.

    Runs on a GPU are left out: several may have shared the card, and its minutes are no core's. So
    are those of the plain loop that `benchmarks training` compares the course with.

    Columns: what was run, `COLUMNS`; machine, its device and threads; tokens read in training;
    seconds an epoch, the median, NaN for n-grams; megabytes, the peak; core minutes of training,
    its minutes times threads; test and validation perplexity; continued, whether it began with
    another run's weights; components of the output layer, 1 where it is no mixture.
    """
    import pandas as pd

    rows = []
    for run in of.runs:
        origin = run.content["provenance"]
        if provenance.on_gpu(origin) or run.tier == "small" or run.figure("test_bleu") is not None:
            continue
        if PLAINLY in (run.setting.recipe.split("/")[-1], run.setting.variant.split("-")[-1]):
            continue
        family, method, rest = evidence.parts_of(run.setting.recipe)
        threads = origin.get("threads", 1)
        row = {"recipe": run.setting.recipe, "variant": run.setting.variant, "family": family}
        row |= {"method": method, "rest": rest}
        row |= {"seed": run.seed, "text": evidence.title_of(run.setting.text)}
        row |= {"machine": provenance.machine(origin)}
        row |= {"tokens": origin.get("tokens_seen"), "size": run.content["experiment"]["size"]}
        row |= {"precision": run.content["experiment"]["optimisation"]["precision"]}
        row |= {"shape": str(run.context[-1])}
        row |= {"seconds": run.figure("seconds an epoch"), "valid": run.figure("valid_perplexity")}
        row |= {"megabytes": origin.get("peak_memory_mb")}
        minutes = run.figure("minutes")
        row |= {"core minutes": np.nan if minutes is None else minutes * threads}
        row |= {"continued": run.content["experiment"].get("start_from") is not None}
        row |= {"components": _components(run.content["experiment"]["output_layer"]["options"])}
        rows.append(row | {"perplexity": run.figure("test_perplexity")})
    return pd.DataFrame(rows, columns=COLUMNS).astype({"continued": bool})


def _components(options: Mapping) -> int:
    """Return how many softmaxes or contexts an output layer of these options mixes."""
    return options.get("components", 1)


def settings_of(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return a row for each setting on the Penn Treebank: what it cost, and how well it predicts.

    table: of `runs`. Runs that began with another run's weights are left out, because their own
        minutes are only a part of their cost.

    Columns: recipe, family, variant in short; cost in core minutes, test perplexity and valid, the
    validation perplexity, each the median over n seeds; machine, the processors of the runs, each
    once; on front, whether no other setting has at most its cost and its validation perplexity, and
    less of one of the two.
    """
    whole = table[(table.text == TEXT) & ~table.continued]
    groups: Any = whole.groupby(["recipe", "family", "variant"])
    rows = groups[["core minutes", "perplexity", "valid"]].median()
    rows["n"] = groups.seed.nunique()
    rows["machine"] = groups.machine.agg(
        lambda told: " and ".join(sorted({name.partition(",")[0] for name in told}))
    )
    rows = rows.reset_index().rename(columns={"core minutes": "cost"})
    rows["variant"] = rows.variant.map(short_variant)
    rows["on front"] = front(rows.cost, rows.valid)
    return rows


def on_gpus_only(of: Evidence) -> list[str]:
    """Return the Penn Treebank's recipes whose runs are all a GPU's: `runs` has none of them."""
    is_gpu: dict[str, list[bool]] = {}
    for run in of.runs:
        if evidence.title_of(run.setting.text) == TEXT:
            origin = run.content["provenance"]
            is_gpu.setdefault(run.setting.recipe, []).append(provenance.on_gpu(origin))
    return sorted(recipe for recipe, told in is_gpu.items() if all(told))


def ratios(table: "pd.DataFrame", figure: str = "seconds") -> "pd.DataFrame":
    """Return how many times the tied softmax's figure each method has, by the paired statistic.

    Runs are compared that share seed, family, the recipe's rest, text, machine, tokens, width, the
    encoder's shape and precision; of several such runs of a method and seed the median counts. The
    statistic is that of `comparison` on 100 times the logarithm; the ratios here are its
    exponential. p is corrected by Holm over all methods that the recipes declare, those without
    runs so far included, in each group of such runs that has a comparison.

    Columns: family, method, ratio, low, high, n, p (Holm), and published, the ratio of the seconds
    an epoch that parthiban2021's Table 2 has for the method on the Penn Treebank. A mixture of
    another number of components than the published one has no published ratio.
    """
    import pandas as pd

    columns = ["family", "method", "ratio", "low", "high", "n", "p", "published"]
    found = {}
    declared = 0
    alike = ["family", "rest", "text", "machine", "tokens", "size", "shape", "precision"]
    groups: Any = table.dropna(subset=[figure]).groupby(alike)
    for key, group in groups:
        medians = group.groupby(["method", "seed"])[figure].median()
        values = {m: medians[m].to_dict() for m in medians.index.unique("method")}
        compared = set()
        for method, by_seed in values.items():
            seeds = sorted(by_seed.keys() & values.get(BASELINE, {}).keys())
            if method != BASELINE and len(seeds) > 1:
                d = [100 * np.log(by_seed[s] / values[BASELINE][s]) for s in seeds]
                found[*key, method] = np.array(d)
                compared.add(method)
        if compared:
            of_family = families.declared(evidence.family_of(group.recipe.iloc[0]), BASELINE)
            declared += len(of_family | compared)
    printed = published_seconds()
    components = table.groupby(["family", "method"]).components.max()
    rows = []
    for (family, *_, method), told in comparison.tested(found, family=declared).items():
        times = [np.exp(told[name] / 100) for name in ("difference", "low", "high")]
        published_ratio = printed.get((method, components[family, method]), np.nan)
        rows.append((family, method, *times, told["n"], told["p"], published_ratio))
    return pd.DataFrame(rows, columns=columns).sort_values("ratio", ignore_index=True)


def by_machine(of: Evidence, family: str = DESK) -> "pd.DataFrame":
    """Return how many times the softmax's seconds an epoch each method of a family has.

    of: the results to go by; runs with other settings than their recipes' are left out.

    There are three columns for each machine and precision in which the softmax ran: ratio, of the
    medians over the runs there, whatever their seeds; n, the method's runs; and swing, how many
    times as long the slow epochs of these runs took as the quick ones, the ninth tenth over the
    first. A GPU is a machine, too, though several runs may have shared the card.
    """
    import pandas as pd

    rows = []
    for run in of.runs:
        if evidence.family_of(run.setting.recipe) == family and not run.setting.variant:
            device = run.content["provenance"].get("device", "").partition(",")[0]
            machine = f"{device}, {run.experiment['optimisation']['precision']}"
            epochs = evidence.epoch_seconds(run.content)
            rows.append((machine, run.method, run.figure("seconds an epoch"), epochs))
    seconds = pd.DataFrame(rows, columns=["machine", "method", "seconds", "epochs"]).dropna()
    groups: Any = seconds.groupby(["machine", "method"])
    medians, counts = groups.seconds.median(), groups.size()
    swings = groups.epochs.agg(_swing)
    parts = {}
    for machine in medians.index.unique("machine"):
        if (machine, BASELINE) in medians.index:
            ratio = medians[machine] / medians[machine, BASELINE]
            columns = {"ratio": ratio, "n": counts[machine].astype("Int64")}
            parts[machine] = pd.DataFrame(columns | {"swing": swings[machine]})
    return pd.concat(parts, axis=1) if parts else pd.DataFrame()


def _swing(runs: "pd.Series") -> float:
    """Return how many times as long the slow epochs of some runs took as the quick ones."""
    quick, slow = np.quantile(np.concatenate(list(runs)), [0.1, 0.9])
    return slow / quick


def desk_told(table: "pd.DataFrame", machine: str) -> str:
    """Return between which ratios the methods of `by_machine` lie on a machine, in words.

    The noise of a single run is in its ratio, so only methods with two runs or more count. Empty
    where the softmax is none of them, or all that there is. Where the epochs of one of the named
    methods differ among themselves as much as the methods do, the words say so.
    """
    several = table[machine][table[machine].n > 1]
    if BASELINE not in several.index or len(several) < 2:
        return ""
    ratios = several.ratio.drop(BASELINE)
    swing = several.swing[[BASELINE, ratios.idxmin(), ratios.idxmax()]]
    told = (
        f"At the desk, on {machine}, an epoch takes {ratios.min():.1f} (`{ratios.idxmin()}`) to "
        f"{ratios.max():.1f} (`{ratios.idxmax()}`) times as long, for the methods that have two "
        f"runs or more there. The slow epochs of `{swing.idxmax()}` take {swing.max():.1f} times "
        "as long as its own quick ones."
    )
    if swing.max() >= ratios.max():
        told += " So these ratios show how busy the machine was, and say nothing of the methods."
    return told


def published_seconds() -> dict[tuple[str, int], float]:
    """Return the seconds an epoch of parthiban2021's Table 2 as multiples of the softmax's.

    The keys are a method and how many components its recipe has.
    """
    rows = published.rows()
    rows = rows.loc[(rows.metric == "seconds-per-epoch") & (rows.corpus == TEXT)]
    rows = rows.loc[rows.paper == "parthiban2021"]
    softmax = rows.value[rows.method == "softmax"].iloc[0]
    options = [recipes[name].output_layer.options for name in rows.recipe]
    keys = zip(rows.method, map(_components, options), strict=True)
    return dict(zip(keys, rows.value / softmax, strict=True))


def by_model(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return what an epoch of each model costs, with its plain softmax.

    table: of `runs`. A row is a text, a recipe, a machine with its threads, a precision. Columns: n
    runs; seconds, the median over them of the seconds an epoch; megabytes, the median peak of the
    process. Of a family of recipes those are taken whose softmax has one word matrix, else those
    with two. Runs of another size or shape are rows of their own.
    """
    import pandas as pd

    plain: Any = table[table.method.isin(["tied", "untied"]) & ~table.continued]
    both = plain.groupby("family").method.transform(lambda names: "tied" in set(names))
    plain = plain[(plain.method == "tied") | ~both]
    groups = plain.groupby(["text", "recipe", "machine", "precision", "size", "shape"])
    figures = pd.DataFrame(groups[["seconds", "megabytes"]].median())
    return figures.assign(n=groups.size()).droplevel(["size", "shape"])


def front(cost, loss) -> np.ndarray:
    """Return which points no other beats: none is both as cheap and as good, and better in one."""
    points = np.column_stack([cost, loss]).astype(float)
    at_most = (points[:, None] <= points[None]).all(-1)
    below = (points[:, None] < points[None]).any(-1)
    return ~np.any(at_most & below, axis=0)


def models() -> "pd.DataFrame":
    """Return the kept benchmarks of whole models: tokens a second, ours and plain PyTorch's.

    Columns: machine, its kind; model, precision; ours, plain, floor (what the matrix products and
    the memory of the machine would allow) and reference (the middle of what the papers' released
    code reached on one machine), in tokens a second; times plain, see `times_plain`; megabytes and
    plain megabytes. Empty where no benchmark is kept.
    """
    import pandas as pd

    columns = ["machine", "model", "precision", "ours", "plain", "floor", "reference", "megabytes"]
    columns += ["plain megabytes", "times plain"]
    rows = []
    for name, table in results.tables(MODELS).items():
        precision = name.rpartition("/")[2]
        for row in table["rows"]:
            if "model" not in row:
                continue
            told = [table["machine"], row["model"], precision]
            told += [row["tokens/s"], row["plain"], row["floor"]]
            told += [float(np.mean(row["reference"]["tokens"])) if row["reference"] else np.nan]
            rows.append([*told, row["MB"], row["plain MB"], times_plain(row)])
    return pd.DataFrame(rows, columns=columns)


def times_plain(row: dict) -> float:
    """Return a model's speed over that of its plain form: the median of the rounds.

    row: of a kept table. One from before rounds were kept has the ratio of the medians alone.
    """
    return median(row["over plain"]) if "over plain" in row else row["tokens/s"] / row["plain"]


def layers() -> "pd.DataFrame":
    """Return the kept benchmarks of output layers alone, forward and backward.

    Columns: machine, its kind; words, the size of the vocabulary; precision, method; ms and
    naive ms of a call; times naive and times softmax, ratios of the time; MB and naive MB, the
    memory beyond parameters and gradients; step, a training step's time over that with our
    softmax. NaN where the naive form did not fit, or no step was measured.
    """
    import pandas as pd

    figures = ["ms", "naive ms", "of naive", "of softmax", "MB", "naive MB", "step"]
    names = ["ms", "naive ms", "times naive", "times softmax", "MB", "naive MB", "step"]
    rows = []
    for name, table in results.tables(LAYERS).items():
        words, precision = name.rpartition("/")[2].split("-")
        for row in table["rows"]:
            told = [table["machine"], int(words), precision, row["method"]]
            rows.append(told + [row[figure] for figure in figures])
    found = pd.DataFrame(rows, columns=["machine", "words", "precision", "method", *names])
    found = found.astype(dict.fromkeys(names, float))
    return found.sort_values(["machine", "words", "precision"], kind="stable", ignore_index=True)
