"""The finished runs of a plan as one table: each model beside a baseline and beside n-grams."""

from collections import Counter
from dataclasses import dataclass, field, replace
from os.path import commonprefix
from typing import TYPE_CHECKING, Any, Literal

from course_lab import comparison, provenance, results
from course_lab.batch_states import MALFORMED, checked_result
from course_lab.experiment import Experiment
from course_lab.planned import Planned
from course_lab.plans import Plan
from course_lab.recipes import elsewhere
from course_lab.statistics import written
from course_lib.data import Corpus
from course_lib.errors import CourseError, unknown
from course_lib.models.kneser_ney import KneserNey
from course_lib.ranges import Positive, checked

if TYPE_CHECKING:
    import pandas as pd

ORDERS = (1, 3, 5)  # of the n-gram models that stand in every table
NGRAMS = "ngrams"  # the table of n-gram perplexities beside the kept results
Split = Literal["valid", "test"]


@dataclass(frozen=True)
class Table:
    """The results of a plan so far, as a table."""

    models: "pd.DataFrame"  # a row each, in the columns of `compare`
    ngrams: dict[str, float]  # perplexity of the same split, by the name of the n-gram model
    missing: list[str]  # a sentence for what the table lacks
    notes: list[str] = field(default_factory=list)  # a sentence for what may not compare
    figure: Literal["perplexity", "BLEU"] = "perplexity"  # what is compared


def by_text(plan: Plan) -> list[Plan]:
    """Return the plan, or one for each text that its runs read: figures of two do not compare."""
    texts = {}
    for planned in plan.runs:
        texts.setdefault(str(planned.experiment().corpus), []).append(planned)
    return [replace(plan, runs=tuple(runs)) for runs in texts.values()]


@checked
def table_of(
    plan: Plan,
    baseline: str | None = None,
    margin: Positive | None = None,
    split: Split = "test",
) -> Table:
    """Compare the models of a plan on one text by the runs that are done, here or kept.

    A model is a recipe with its settings; runs of one seed are pairs, see `comparison`. A model
    that shares fewer than two seeds with the baseline has its mean and no verdict. Language models
    are compared by perplexity, and stand beside n-grams; translators are compared by BLEU.

    baseline: the model with which the others are compared; the plan's if None, or where the plan
        names none the first with a result.
    margin: the difference, in per cent of the figure, that would not matter; the plan's if None.
    split: whose figure is compared.
    Raises CourseError for an unknown baseline, where no run is done, and where two runs of a seed
    have one name.
    """
    import pandas as pd

    # what is done
    names = models_of(plan)
    translate = plan.runs[0].experiment().translates
    figure = "BLEU" if translate else "perplexity"
    _check_apart(plan, names)
    done = _collected(plan, names, f"{split}_{figure.lower()}")
    if not done.scores:
        raise CourseError(f"no run of {plan.path} is done; `batch run` does them")
    # the comparison, as far as there are pairs
    unfit = [model for model, by_seed in done.scores.items() if min(by_seed.values()) <= 0]
    unfit_said = f"a {figure} of 0, which has no logarithm, so that nothing compares with it"
    missing = done.missing + [f"{model}: it has {unfit_said}" for model in unfit]
    scores = {model: by_seed for model, by_seed in done.scores.items() if model not in unfit}
    baseline = baseline or _declared(plan, names) or next(iter(scores), names[0])
    margin = plan.margin if margin is None else margin
    if baseline in unfit:
        raise CourseError(f"the baseline {baseline} has {unfit_said}; name another baseline")
    if baseline in names and baseline not in scores:
        raise CourseError(
            f"no run of the baseline {baseline} is done; `batch run` does them, and another "
            "baseline may be named until then"
        )
    if baseline not in scores:
        raise unknown("baseline among the models with a result", baseline, scores)
    seeds = scores[baseline].keys()
    paired = {m: s for m, s in scores.items() if m == baseline or len(s.keys() & seeds) > 1}
    models = comparison.compare(paired, baseline, margin, family=family_of(plan), figure=figure)
    for model in scores.keys() - paired.keys():
        alone = comparison.compare({model: scores[model]}, model, figure=figure)
        alone = alone.assign(verdict="too few seeds in common")
        models = pd.concat([models, alone]).infer_objects()
    models = models.loc[list(scores)]
    # the n-grams of the same text
    ngrams, uncounted = _ngrams_of(plan, done.digests, split)
    missing += uncounted
    notes = [_made_with_another(file, keys) for file, keys in done.other_files.items()]
    for model in paired:
        if mixed := provenance.two_kinds(done.origins[model], done.origins[baseline]):
            notes.append(f"{model}: {mixed}")
    return Table(models, ngrams, missing, notes, figure)


@dataclass
class _Done:
    """The figures of a plan's finished runs; scores and origins are by model and seed."""

    scores: dict[str, dict[int, float]] = field(default_factory=dict)  # in the plan's order
    origins: dict[str, dict[int, dict]] = field(default_factory=dict)
    digests: dict[str, str] | None = None  # of the splits of the text
    missing: list[str] = field(default_factory=list)  # a sentence for what is not there
    other_files: dict[str, list[str]] = field(default_factory=dict)  # keys of runs by changed file


def _collected(plan: Plan, names: list[str], metric: str) -> _Done:
    """Return what the runs of a plan that are done say of a metric.

    names: of the model of each run.
    """
    done = _Done()
    waiting = 0
    for model, planned in zip(names, plan.runs, strict=True):
        try:
            content = done_result(planned.experiment())
            changed_files = _other_files(planned, content["provenance"]) if content else []
            score = content["metrics"][metric] if content else None
        except CourseError as error:
            done.missing.append(f"{planned.key}: {error}")
            continue
        except MALFORMED as error:
            why = f"its result is not readable ({error}); train it again"
            done.missing.append(f"{planned.key}: {why}")
            continue
        if content is None or score is None:
            waiting += 1
        else:
            done.scores.setdefault(model, {})[planned.seed] = score
            done.origins.setdefault(model, {})[planned.seed] = content["provenance"]
            done.digests = content["provenance"].get("corpus_sha256")
            for file in changed_files:
                done.other_files.setdefault(file, []).append(planned.key)
    if waiting:
        done.missing.insert(0, f"{waiting} of {len(plan.runs)} runs, which are not done yet")
    done.scores = {model: done.scores[model] for model in names if model in done.scores}
    return done


def without_results(plan: Plan, split: Split = "test") -> Table:
    """Return the table of a plan of one text of which no run is done: the n-grams alone."""
    import pandas as pd

    figure = "BLEU" if plan.runs[0].experiment().translates else "perplexity"
    ngrams, missing = _ngrams_of(plan, None, split)
    models = pd.DataFrame(columns=comparison.columns(figure), dtype=float)
    return Table(models.astype({"verdict": object}), ngrams, missing, [], figure)


def _ngrams_of(
    plan: Plan, digests: dict[str, str] | None, split: Split
) -> tuple[dict[str, float], list[str]]:
    """Return the n-gram perplexities of a plan's text, none for pairs, and why there are none."""
    experiment = plan.runs[0].experiment()
    if experiment.translates:
        return {}, []
    if kept := kept_ngrams(digests, split):
        return kept, []
    try:
        corpus = experiment.load_corpus()
    except CourseError as error:
        return {}, [f"n-grams: {error}"]
    assert isinstance(corpus, Corpus)  # since it does not translate
    return kept_ngrams(corpus.sha256, split) or ngram_perplexities(corpus, split), []


def family_of(plan: Plan) -> int:
    """Return how many comparisons a plan of one text declares: all its models with one of them."""
    return max(1, len(set(models_of(plan))) - 1)


def models_of(plan: Plan) -> list[str]:
    """Return the name of each run's model: its recipe and the settings that not all runs have.

    The profile follows the recipe where the plan has runs of several profiles of it. What the names
    of all recipes begin with is left out, and so is the file of a recipe of the reader's own. Of a
    setting's path all but the last part is left out where no other setting of the recipe ends
    alike.
    """
    first = plan.runs[0]
    shared = {
        path
        for path, value in first.change.items()
        if all(planned.change.get(path) == value for planned in plan.runs)
    }
    recipes = [elsewhere.without_file(planned.recipe).split("/") for planned in plan.runs]
    folder = commonprefix([parts[:-1] for parts in recipes])
    paths = {(run.recipe, path) for run in plan.runs for path in run.change.keys() - shared}
    alike = Counter((recipe, path.rpartition(".")[2]) for recipe, path in paths)
    profiles = Counter(recipe for recipe, _ in {(run.recipe, run.profile) for run in plan.runs})
    names = []
    for parts, run in zip(recipes, plan.runs, strict=True):
        settings = [run.profile] if profiles[run.recipe] > 1 else []
        for path, value in run.change.items():
            end = path.rpartition(".")[2]
            if path not in shared:
                name = end if alike[run.recipe, end] == 1 else path
                settings.append(f"{name}={value}")
        names.append(" ".join(["/".join(parts[len(folder) :]), *settings]))
    return names


def _check_apart(plan: Plan, names: list[str]) -> None:
    """Raise CourseError where one of two runs would take the other's place in the table."""
    runs = Counter((name, planned.seed) for name, planned in zip(names, plan.runs, strict=True))
    for (name, seed), count in runs.items():
        if count > 1:
            raise CourseError(
                f"{count} runs of {plan.path} would stand in its table as {name}, seed {seed}; "
                "put them into plans of their own"
            )


def check_baseline(plan: Plan, baseline: str | None = None) -> None:
    """Raise CourseError, with near matches, for a plan whose baseline is the name of no model.

    baseline: another one than the plan's.
    """
    names = [name for part in by_text(plan) for name in models_of(part)]
    for one in [baseline] if baseline else plan.baselines:
        if one not in names:
            raise CourseError(f"{plan.path}: {unknown('baseline', one, names)}")


def _declared(plan: Plan, names: list[str]) -> str | None:
    """Return the first of a plan's baselines that is a model, else the first; None if none is."""
    ours = [name for name in plan.baselines if name in names]
    return next(iter([*ours, *plan.baselines]), None)


def kept_ngrams(text: dict[str, str] | str | None, split: Split) -> dict[str, float]:
    """Return the kept n-gram perplexities of a text, or none.

    text: the digests of its splits, as the provenance of a run has them, or `Setting.text`.
    """
    try:
        rows = results.read_table(NGRAMS)["rows"]
    except CourseError:
        return {}
    names = ("corpus_sha256", "text")
    kept = (row.get(split, {}) for row in rows if text and text in map(row.get, names))
    return dict(next(kept, {}))


def with_ngrams(
    frame: "pd.DataFrame",
    text: Corpus | dict[str, str] | str,
    test: str = "test perplexity",
    valid: str = "validation perplexity",
    digits: int = 1,
) -> "pd.DataFrame":
    """Return a table of perplexities, for display, with the n-grams of the same text as rows.

    A corpus without kept counts is counted now. Of a text that is only named, the counts that are
    not kept stand as such.

    frame: a row for each model, its numbers rounded or text; what is missing in it is left blank.
    text: the corpus, or its digests as the provenance of a run has them, or `Setting.text`.
    test, valid: the columns with the perplexities of these splits, as far as the table has them.
    digits: decimals of the n-grams' perplexities.
    """
    import pandas as pd

    split_of: dict[str, Split] = {test: "test", valid: "valid"}
    named = text.sha256 if isinstance(text, Corpus) else text
    counted = {}
    for column, split in split_of.items():
        if column not in frame.columns:
            continue
        perplexities = kept_ngrams(named, split)
        if not perplexities and isinstance(text, Corpus):
            perplexities = ngram_perplexities(text, split)
        told = {name: f"{perplexity:.{digits}f}" for name, perplexity in perplexities.items()}
        counted[column] = told or dict.fromkeys(map(ngram_name, ORDERS), "not kept")
    rows = pd.DataFrame(counted, dtype=object)
    if frame.index.nlevels > 1:
        rest = [""] * (frame.index.nlevels - 1)
        rows.index = pd.MultiIndex.from_tuples([(name, *rest) for name in rows.index])
    table = pd.concat([frame.astype(object), rows]).reindex(columns=frame.columns)
    table.index.names = frame.index.names
    return table.fillna("")


def ngram_name(order: int) -> str:
    """Return what the n-gram model of an order is called in tables."""
    return "unigram" if order == 1 else f"Kneser-Ney {order}"


def ngram_perplexities(corpus: Corpus, split: Split = "test") -> dict[str, float]:
    """Return the perplexities of interpolated modified Kneser-Ney models of several orders."""
    perplexities = {}
    for order in ORDERS:
        model = KneserNey.fit(corpus.train, corpus.eos, len(corpus), order)
        perplexities[ngram_name(order)] = model.perplexity(getattr(corpus, split))
    return perplexities


def printed(table: Table) -> str:
    """Return a table as text, the n-grams below the models."""
    return worded(table).to_string()


def worded(table: Table) -> "pd.DataFrame":
    """Return a table with its numbers and intervals as text, the n-grams below the models."""
    import pandas as pd

    rows = {}
    models: Any = table.models
    for model, row in models.iterrows():
        compared = row.notna()["difference"]
        rows[model] = {
            "n": f"{row.n:.0f}" if row.n == row.n else "0",
            table.figure: written(row[table.figure], row.low, row.high, ".2f"),
            "pairs": f"{row.pairs:.0f}" if compared else "",
            "difference, %": written(
                row.difference, row["difference low"], row["difference high"], "+.2f"
            ),
            "p": f"{row.p:.3g}" if compared else "",
            "verdict": row.verdict,
        }
    for name, perplexity in table.ngrams.items():
        rows[name] = {"n": "", table.figure: f"{perplexity:.2f}", "verdict": "n-gram"}
    return pd.DataFrame.from_dict(rows, orient="index").fillna("")


def _other_files(planned: Planned, source: dict) -> list[str]:
    """Return the files of the reader's own that have changed since a run, or in its middle."""
    now = elsewhere.digests_of(planned.experiment())
    return provenance.changed_files(provenance.starts_of(source), now)


def _made_with_another(file: str, keys: list[str]) -> str:
    """Return a sentence on the runs that were made with another version of the reader's file."""
    runs = "1 run" if len(keys) == 1 else f"{len(keys)} runs"
    were = "was" if len(keys) == 1 else "were"
    return (
        f"{runs}, such as {keys[0]}, {were} made with another {file} than there is now; if that "
        "concerns the model, remove what was trained with the other version to train it again"
    )


def done_result(experiment: Experiment) -> dict | None:
    """Return the result of a run, from its own folder or else from the kept ones, if there is one.

    Raises CourseError where it is damaged or another experiment's, else one of MALFORMED.
    """
    kept = results.kept_folder() / results.key_of(experiment)
    for folder in (results.run_folder(experiment), kept):
        if results.is_done(folder):
            return checked_result(folder, experiment)
    return None
