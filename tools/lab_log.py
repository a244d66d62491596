"""The log of what was tried and did not help: the page `lab-log`, from kept results and commits.

An entry asks a question and says what was tried and what follows. Its numbers come from three
sources, and none is typed here:

* `claims` of the ledger: the comparison that bears best on each, with its interval;
* `of`: lines computed from kept results, such as benchmarks in which one side is the slower one;
* `commit`: sentences of a commit's message, which a test holds against the history.

Every claim of an entry has a line, which says what its comparison shows: a gain, no gain, or
nothing yet. So *Found* covers all that *Tried* names. An entry leaves the page when none of its
lines shows that something did not help. What follows is written so that no number contradicts it;
how many claims show what is counted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from course_lab import claims, comparison, kept_costs, results
from course_lab.claims import Test
from course_lab.claims_table import Claim
from course_lab.evidence import Evidence
from course_lab.plans import read_plan


@dataclass(frozen=True)
class Entry:
    """A question, what was tried, where its numbers come from, and what follows."""

    question: str
    tried: str
    follows: str
    claims: tuple[str, ...] = ()  # of the ledger
    of: Callable[[], list[str]] | None = None  # lines of kept results
    commit: str = ""  # its first characters
    said: tuple[str, ...] = ()  # sentences of that commit


# What kept results say ----------------------------------------------------------------------------

PILOTS = "desk-search"  # the plan of the shapes that were tried for the desk
SHOWS = {  # what the comparison of a claim shows, as a sentence has it
    "gain": "the method gains",
    "no gain": "the method does not gain",
    "undecided": "the pairs decide nothing",
}
NO_GAIN = 1.05  # times the other side's speed, below which a step is called no quicker


def no_quicker_than_plain() -> list[str]:
    """Return a line for each model that is no quicker than the same model in plain PyTorch.

    The line has the memory, too, and the speed that the matrix products alone would allow.
    """
    table = kept_costs.models()
    table = table.assign(ratio=table.ours / table.plain, room=table.floor / table.ours)
    table["memory"] = table.megabytes / table["plain megabytes"]
    rows = table[table.ratio < NO_GAIN].sort_values(["machine", "ratio"])
    return [
        f"`{row.model}` in {row.precision}: {row.ratio:.2f} times the speed of plain PyTorch and "
        f"{row.memory:.2f} times its memory; the matrix products alone would have {row.room:.2f} "
        f"times our speed ({row.machine})"
        for row in rows.itertuples()
    ]


def slower_in_bf16() -> list[str]:
    """Return a line for each model that is slower in bf16 than in fp32 on one kind of processor."""
    table = kept_costs.models()
    wide = table.pivot_table(index=["machine", "model"], columns="precision", values="ours")
    wide = wide.dropna(subset=["fp32", "bf16"])
    ratio = (wide.bf16 / wide.fp32).sort_values()
    return [
        f"`{model}`: {value:.2f} times the speed of fp32 ({machine})"
        for (machine, model), value in ratio[ratio < 1].items()
    ]


def shapes_of_the_desk() -> list[str]:
    """Return a line for each shape of a pilot that predicts worse than the one that was chosen."""
    folders = {run.recipe: results.kept_folder() / run.key for run in read_plan(PILOTS).runs}
    runs = {name: results.read_result(path) for name, path in folders.items() if path.exists()}
    if not runs:
        return []
    reached = {recipe: content["metrics"]["test_perplexity"] for recipe, content in runs.items()}
    chosen = min(runs, key=lambda recipe: runs[recipe]["metrics"]["valid_perplexity"])

    def told(recipe: str) -> str:
        minutes = runs[recipe]["provenance"]["wall_seconds"] / 60
        return f"`{recipe}`: test perplexity {reached[recipe]:.1f} in {minutes:.1f} minutes"

    best = f"beside {reached[chosen]:.1f} of `{chosen}`, one seed each"
    return [f"{told(recipe)}, {best}" for recipe in reached if recipe != chosen]


# The entries -------------------------------------------------------------------------------------

METHODS = (
    Entry(
        "Do later losses that hold the logits small lower perplexity?",
        "The μ-loss, the z-loss and capped logits.",
        "Lessons 11 and 11b show what these losses do to the logits.",
        claims=("own-mu-loss", "own-z-loss", "own-capped"),
    ),
    Entry(
        "Does a matrix whose mean is taken away predict better?",
        "Centring the word matrix after each step, and coupled Adam, which does not let the mean "
        "drift.",
        "Lesson 11 shows how much of the cone goes with each of the two.",
        claims=("own-centred", "own-coupled-adam"),
    ),
    Entry(
        "Does another optimiser, or a gate on the rare words, help the word matrix?",
        "Muon for the word matrix alone, and a gate by which frequent words do not push rare ones "
        "away.",
        "Lesson 11b shows what both do to the matrix.",
        claims=("own-muon", "own-gated"),
    ),
    Entry(
        "Does a bent logit lower perplexity?",
        "GSS, SigSoftmax and PLIF on the Penn Treebank.",
        "Where a line says that its model loses to counting, nothing follows for the models of "
        "the paper.",
        claims=("parthiban2021-gss", "parthiban2021-sigsoftmax", "parthiban2021-plif"),
    ),
    Entry(
        "Does the adversarial softmax lower perplexity?",
        "An adversary, which moves the target's vector away before it is scored.",
        "Lessons 7 and 7b measure the adversary on a model that overfits.",
        claims=("wang2019-perplexity",),
    ),
    Entry(
        "Does a flatter spectrum of the word matrix lower perplexity?",
        "Spectrum control, with an exponential prior and with a polynomial one.",
        "Lesson 8 shows what becomes of the spectrum.",
        claims=("wang2020-perplexity", "wang2020-prior"),
    ),
    Entry(
        "Which encoder should a model have that one core trains in half an hour?",
        "Encoders of several shapes, in one short cycle each.",
        "The desk has the shape that predicted best here. With one seed a shape this is a choice, "
        "and no evidence on methods.",
        of=shapes_of_the_desk,
    ),
    Entry(
        "Does the cosine penalty lower perplexity?",
        "A penalty on the mean cosine of all pairs of words.",
        "Lesson 6 opens the cone after training by a shift, which changes no probability.",
        claims=("gao2019-perplexity", "gao2019-bleu"),
    ),
)

SPEED = (
    Entry(
        "Is a step of our own quicker than the model as one writes it first in PyTorch?",
        "One kernel for all output layers, which never forms the table of logits, and loops of our "
        "own for recurrent encoders.",
        "Where the matrix products take nearly all of the time, no step can be much quicker. Our "
        "own is kept for its memory.",
        of=no_quicker_than_plain,
    ),
    Entry(
        "Does bf16 pay wherever the processor multiplies it?",
        "The models of the benchmark, in both precisions.",
        "The other models are quicker in bf16 on the same kind of processor. Final figures, "
        "dynamic evaluation among them, are computed in float32.",
        of=slower_in_bf16,
    ),
    Entry(
        "Does bf16 pay on a processor that cannot multiply it?",
        "The recipes of VD-LSTM trained in bf16.",
        "These recipes train in fp32, the paper's precision. A processor with AMX, or AVX-512 for "
        "bf16, is another case, which the page on speed has.",
        commit="2ca11d2",
        said=("bf16 is slower on processors without AMX",),
    ),
    Entry(
        "Is one implementation of an LSTM layer the quickest everywhere?",
        "Our loop by MKL's small products, the same with a matrix that oneDNN has arranged, and "
        "PyTorch's own layer.",
        "No single one is. A run measures the three once for each shape and keeps its choice.",
        commit="87c6a7c",
        said=(
            "On some processors MKL's small products leave half of the machine unused and oneDNN's "
            "fused layer is the quicker; on others it is not.",
        ),
    ),
    Entry(
        "May a mask of dropout be a boolean matrix?",
        "A weight multiplied by a boolean mask, a byte an entry.",
        "A mask is multiplied as whole numbers of one byte.",
        commit="afb1f35",
        said=(
            "a product with a boolean mask makes PyTorch write the mask as floats first, 3.8 ms "
            "instead of 2.1 for the recurrent matrix of 1150 units.",
        ),
    ),
    Entry(
        "Should a block of logits be small enough for the cache?",
        "Blocks of few rows, whose logits never leave the cache.",
        "Blocks are large, within a stated limit of memory.",
        commit="460b9ce",
        said=(
            "Adding a block's share to the whole gradient of the matrix costs more than logits "
            "that leave the cache.",
        ),
    ),
    Entry(
        "Should a function of the logits walk through strips that stay in the cache?",
        "Transform, softmax and gradient of a block, a strip of rows at a time.",
        "Each function walks through the whole block, which is simpler to read.",
        commit="09ac43c",
        said=(
            "the calls for each strip cost about what the cache saves: in fp32 the capped softmax "
            "took 259 to 326 ms in strips, and 261 without.",
        ),
    ),
    Entry(
        "May a formula of a logit make tensors of its own?",
        "The capped softmax as one writes it, term by term.",
        "It works in the block's own memory, and a test asks every monotone function for its peak.",
        commit="2385c87",
        said=(
            "Its transform made five fresh tensors a block: 312 MB beside naive's 206 for 1,400 "
            "contexts of 10,000 words, now 146.",
        ),
    ),
)


# The page ----------------------------------------------------------------------------------------


def page(of: Evidence) -> str:
    """Return the log as Markdown, computed from the kept results."""
    parts = ["## Methods\n"]
    parts += [text for entry in METHODS if (text := written(entry, of))]
    parts.append("## Speed and memory\n")
    parts += [text for entry in SPEED if (text := written(entry, of))]
    return "\n".join(parts)


def written(entry: Entry, of: Evidence) -> str:
    """Return an entry as Markdown; nothing where no line of it says that it did not help."""
    lines = lines_of(entry, of)
    outcomes = [outcome(claims.claim(name), of) for name in entry.claims]
    others = lines[len(outcomes) :]
    if "no gain" not in outcomes and not others:
        return ""
    numbers = "\n".join(f"- {line}" for line in lines)
    counted = f" {_counted(outcomes)}" if outcomes else ""
    return (
        f"### {entry.question}\n\n**Tried.** {entry.tried}\n\n**Found.**\n\n{numbers}\n\n"
        f"**What follows.** {entry.follows}{counted}\n"
    )


def _counted(outcomes: Sequence[str]) -> str:
    """Return how many claims of an entry show what, in words."""
    none, some = (outcomes.count(name) for name in ("no gain", "gain"))
    open_yet = len(outcomes) - none - some
    said = f"Of {len(outcomes)} claims the runs show no gain for {none}"
    said += f", a gain for {some}" * (some > 0)
    said += f", and nothing yet for {open_yet}" * (open_yet > 0)
    return f"{said}. What shows no gain is not recommended for a model of this size."


def lines_of(entry: Entry, of: Evidence) -> list[str]:
    """Return what the sources of an entry say, a line each; those of the claims come first."""
    lines = [_of_claim(claims.claim(name), of) for name in entry.claims]
    if entry.of is not None:
        lines += entry.of()
    lines += [f"“{sentence}” (commit `{entry.commit}`)" for sentence in entry.said]
    return lines


def _of_claim(claim: Claim, of: Evidence) -> str:
    """Return a line on the comparison that bears best on a claim, and what it shows."""
    test = _deciding(claim, of)
    if test is None:
        return f"The claim is: “{claim.says}” Here no two seeds of both models are kept."
    shows = SHOWS[outcome(claim, of)]
    interval = comparison.interval(test.differences)
    differs = claims.by(float(test.differences.mean()), *interval, claim.unit)
    baseline = test.baseline if isinstance(test.baseline, float) else f"`{test.baseline.recipe}`"
    tried = "chosen from {} and {} settings".format(*test.tried)
    where = f"`{test.method.recipe}` beside {baseline}, {tried}, {len(test.seeds)} pairs of seeds"
    doubt = f"; no evidence on the claim: {test.against}" if test.against else ""
    figure = claims.NAMES.get(claim.figure, claim.figure)
    said = f"The claim is: “{claim.says}” Here {shows}: {differs} in {figure}, {where}"
    return f"{said}; tier {test.tier}{doubt}."


def _deciding(claim: Claim, of: Evidence) -> Test | None:
    """Return the comparison that bears best on a claim, of those with two pairs of seeds."""
    tests = [test for test in claims.tests(claim, of) if len(test.seeds) > 1]
    return tests[0] if tests else None


def outcome(claim: Claim, of: Evidence) -> str:
    """Return what the comparison that bears best on a claim shows, a key of `SHOWS` or `untested`.

    The claim may deny a gain; a gain is one all the same.
    """
    test = _deciding(claim, of)
    if test is None:
        return "untested"
    if helped(claim, test):
        return "gain"
    return "undecided" if undecided(claim, test) else "no gain"


def helped(claim: Claim, test: Test) -> bool:
    """Return whether the interval of a comparison lies wholly on the side of a gain."""
    low, high = comparison.interval(test.differences)
    return low > 0 if claim.expects == "higher" else high < 0


def undecided(claim: Claim, test: Test) -> bool:
    """Return whether a comparison shows neither a difference nor that there is none."""
    margin = claims.margin_of(claim.published_differences(), claim.expects)
    p = comparison.p_value(test.differences)
    return comparison.verdict(test.differences, p, margin).startswith("undecided")


def quoted() -> Sequence[tuple[str, str]]:
    """Return each quoted sentence with its commit."""
    return [(entry.commit, sentence) for entry in SPEED for sentence in entry.said]
