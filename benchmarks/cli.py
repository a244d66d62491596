"""`python -m benchmarks`: our training step beside the plain PyTorch one."""

from typing import Annotated

import typer

from course_lib.errors import CourseError

app = typer.Typer(help="Time and memory, as ratios to plain PyTorch in the same run.")


@app.callback(invoke_without_command=True)
def benchmark(
    context: typer.Context,
    words: Annotated[
        list[int], typer.Option(min=1, help="Vocabulary sizes; repeat for several.")
    ] = (
        10_000,
        33_278,
    ),
    rounds: Annotated[
        int, typer.Option(min=1, help="Timed steps of each variant, alternating.")
    ] = 15,
    threads: Annotated[int, typer.Option(min=0, help="CPU threads; 0 keeps torch's choice.")] = 0,
):
    """Time a 2×200 tied LSTM, batch 20, length 35: forward, backward, clipping, SGD."""
    if command := context.invoked_subcommand:
        for name in context.params:
            if context.get_parameter_source(name).name == "COMMANDLINE":
                raise CourseError(f"--{name} comes after {command}")
        return
    from benchmarks import timing as measure

    _begin(threads, rounds)
    for size in words:
        print(f"\n{size:,} words      tokens/s   ratio   memory MB   ratio")
        for row in measure.language_model(size, rounds):
            print(
                f"{row['variant']:<14} {row['tokens/s']:>9,.0f} {row['speed ratio']:>7.2f}"
                f" {row['memory MB']:>11,.0f} {row['memory ratio']:>7.2f}{measure.remark(row)}"
            )


@app.command("output-layers")
def output_layers(
    methods: Annotated[
        list[str] | None, typer.Argument(help="Methods; all without any.", show_default=False)
    ] = None,
    words: Annotated[
        list[int], typer.Option(min=1, help="10000, 33278, 128000, 267735; repeat for more.")
    ] = (
        10_000,
        33_278,
    ),
    precision: Annotated[list[str], typer.Option(help="fp32 or bf16; repeat for both.")] = (
        "fp32",
        "bf16",
    ),
    rounds: Annotated[
        int, typer.Option(min=1, help="Timed steps of each variant, alternating.")
    ] = 5,
    step: Annotated[bool, typer.Option(help="Also whole training steps (10,000 words).")] = True,
    threads: Annotated[int, typer.Option(min=0, help="CPU threads; 0 keeps torch's choice.")] = 0,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep",
            help="Keep each row in data/results as soon as it is measured, for the website.",
        ),
    ] = False,
):
    """Time output layers against naive forms and our softmax; d = 400, batch 20 × 70."""
    from benchmarks import output_layers as measure
    from benchmarks import timing
    from benchmarks.timing import remark

    _known("method", methods or (), measure.METHODS)
    _known("vocabulary", map(str, words), map(str, measure.SHAPES))
    if keep and not step and 10_000 in words:
        raise CourseError("--keep of 10,000 words has the steps, too; leave --no-step out")
    _known("precision", precision, ("fp32", "bf16"))
    tables = {
        (size, kind): measure.TABLE.replace("WORDS-PRECISION", f"{size}-{kind}")
        for size in words
        for kind in precision
    }
    _begin(threads, rounds)
    print("MB: beyond parameters and gradients; step: a training step over that with our softmax")
    columns = ("ms", "naive ms", "of naive", "of softmax", "MB", "naive MB", "step")
    busy: list[str] = []
    for size in words:
        for kind in precision:
            print(f"\n{size:,} words, {kind:<6}" + "".join(f"{c:>11}" for c in columns), flush=True)
            rows = measure.output_layers(
                size, methods or list(measure.METHODS), kind, rounds, step and size == 10_000
            )
            asked, table = [], tables[size, kind]
            for row in rows:
                cells = "".join(
                    f"{row[c]:>11,.0f}" if "M" in c or "ms" in c else f"{row[c]:>11.2f}"
                    for c in columns
                )
                print(f"{row['method']:<20}{cells}{remark(row)}", flush=True)
                if not methods or row["method"] in methods:
                    asked.append(row)
                    if keep and row["counts"]:  # at once, since a whole table takes an hour
                        timing.keep(table, [row], rounds, measure.METHODS)
            disturbed = [row["method"] for row in asked if not row["counts"]]
            busy += [f"{method} ({size:,} words, {kind})" for method in disturbed]
            if keep and not methods and not disturbed:
                timing.keep(table, asked, rounds)  # all of one day, in place of its rows
            if keep:
                print(f"kept: {len(asked) - len(disturbed)} rows, {timing.named(table)}")
    if keep and busy:
        raise CourseError(
            "not kept, because other processes took a part of the machine meanwhile: "
            f"{', '.join(busy)}; measure these again while nothing else runs"
        )


@app.command("models")
def models(
    model: Annotated[
        list[str] | None, typer.Option(help="awd-lstm/ptb, …; repeat for several; all without any.")
    ] = None,
    precision: Annotated[
        list[str], typer.Option(help="fp32, bf16, or on a GPU tf32; repeat for several.")
    ] = (
        "fp32",
        "bf16",
    ),
    rounds: Annotated[
        int, typer.Option(min=1, help="Timed steps of each variant, alternating.")
    ] = 3,
    layers: Annotated[bool, typer.Option(help="Also AWD-LSTM with every output layer.")] = True,
    threads: Annotated[int, typer.Option(min=0, help="CPU threads; 0 keeps torch's choice.")] = 0,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the table in data/results, for the website.")
    ] = False,
):
    """Time the training step of models, the cache, dynamic evaluation: speed, floor, memory.

    For a row that fails the reason is printed, all others are measured, and the exit code is 1.
    With --keep the table then names that row, unless a table with it is kept already, which stays.
    What cannot be kept in one precision is told at the end, when all have been measured.
    """
    import torch

    from benchmarks import models as measure
    from benchmarks import output_layers, timing

    # what is asked for
    _known("model", model or (), measure.MODELS)
    _known("precision", precision, measure.PRECISIONS)
    if keep and model:
        raise CourseError("--keep is of the whole table; leave --model out")
    if "tf32" in precision and not torch.cuda.is_available():
        raise CourseError("tf32 is a precision of GPUs by NVIDIA, and PyTorch sees none here")
    # Without the layers the rows of the layers that are kept already stay.
    among = () if layers else [*measure.MODELS, *output_layers.METHODS]
    _begin(threads, rounds)
    print(measure.LEGEND)
    rows = {kind: [] for kind in precision}
    refused: list[str] = []

    def noted(kind):
        for row in measure.measured(model or list(measure.MODELS), kind, rounds, layers):
            rows[kind].append(row)
            yield row

    # the tables, a line as soon as it is measured
    for kind in precision:
        print()
        for line in measure.report(kind, noted(kind)):
            print(line, flush=True)
        if keep:
            table = measure.TABLE.replace("PRECISION", kind)
            try:
                print("kept:", timing.keep(table, rows[kind], rounds, among))
            except CourseError as error:
                refused.append(f"{kind}: {error}")
    if refused:
        raise CourseError("; ".join(refused))
    if any("failed" in row for measured in rows.values() for row in measured):
        raise typer.Exit(1)


@app.command("rank")
def spectrum(
    kind: Annotated[str, typer.Argument(help="softmax or mixture.")] = "softmax",
    contexts: Annotated[int, typer.Option(min=1, help="Rows of log P.")] = 20_000,
    words: Annotated[int, typer.Option(min=1, help="Its columns.")] = 10_000,
    size: Annotated[int, typer.Option(min=1, help="Of the contexts.")] = 400,
    threads: Annotated[int, typer.Option(min=0, help="CPU threads; 0 keeps torch's choice.")] = 0,
):
    """Time the spectrum of log P in one pass, against NumPy's singular value decomposition.

    At full size NumPy takes minutes in float32, and longer in float64.
    """
    import os

    from benchmarks import rank as measure

    _known("kind of log P", [kind], measure.KINDS)
    if threads:  # NumPy in the measuring processes takes as many
        os.environ["OMP_NUM_THREADS"] = str(threads)
    _begin(threads, 1)
    for number, row in enumerate(measure.report(kind, contexts, words, size)):
        if not number:
            print("".join(f"{name:>15}" for name in row))
        cells = (f"{v:,.0f}" if isinstance(v, float) and v > 99 else v for v in row.values())
        print("".join(f"{c:>15.1f}" if isinstance(c, float) else f"{c:>15}" for c in cells))


@app.command("training")
def training(
    kind: Annotated[
        list[str] | None, typer.Argument(help="course or plain; both without any.")
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="How long to train either.")] = 3,
    profile: Annotated[str, typer.Option(help="standard, or smoke for a try.")] = "standard",
    seed: Annotated[int, typer.Option(min=0, help="Initial weights, the same of both.")] = 1,
    check: Annotated[
        bool, typer.Option(help="Compare both beyond single epochs, whose perplexity swings.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="With --check: keep both results and it in data/results.")
    ] = False,
):
    """AWD-LSTM on the Penn Treebank by the course and plainly: perplexity after each epoch.

    One core of a CPU needs about 20 minutes an epoch of either. What is trained already is read.
    Both begin with the same weights and draw the same lengths and masks. With --check the losses of
    one set of weights are compared with all dropout, and both trainings go on for 90 steps: how far
    single iterates of SGD lie apart, and the means of nine.
    """
    from statistics import mean

    from benchmarks import reference_training
    from course_lab import keep_result, results

    if keep and not check:
        raise CourseError("--keep goes with --check: the results of both are there to be compared")

    # train both, and show each epoch's perplexity
    found = reference_training.experiments(epochs, profile, seed)
    _known("kind of training", kind or (), found)
    for name in kind or found:
        reference_training.train(name, found[name])
    for name, experiment in found.items():
        folder = results.run_folder(experiment)
        if (folder / "result.json").exists():
            content = results.read_result(folder)
            figures = [f"{e['valid_perplexity']:9.2f}" for e in content["epochs"]]
            print(f"{name:<8} valid perplexity{''.join(figures)}   {folder}")
    if not check:
        return
    # compare them beyond single epochs
    pair = list(found.values())
    kept = [keep_result(results.run_folder(e), named=pair) for e in pair] if keep else []
    table = reference_training.check(found)
    one, on = table["same_weights"], table["iterates"]
    print(
        f"the same weights and masks, in training: loss {one['course_loss']:.5f}, plain "
        f"{one['plain_loss']:.5f}, of {one['segments']} segments the largest difference "
        f"{one['largest_difference']:.1e}"
    )
    for name, iterates in on.items():
        print(
            f"{name:<8} 90 steps on, every tenth iterate: {min(iterates):.1f} to "
            f"{max(iterates):.1f}, mean {mean(iterates):.1f}"
        )
    print(f"means {mean(on['course']) / mean(on['plain']) - 1:+.1%} apart")
    if keep:
        path = results.write_table(
            f"{kept[0].relative_to(results.kept_folder()).as_posix()}-check", table
        )
        print(f"kept {', '.join(map(str, [*kept, path]))}")


@app.command("tf32")
def tf32(
    seed: Annotated[
        list[int] | None, typer.Option(help="Seeds of plan precision; all without any.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the perplexities in data/results.")
    ] = False,
):
    """What TF32 costs in perplexity, by training on a CPU that leaves out the same digits.

    One core needs about a quarter of an hour a seed. What is trained already is read. The runs in
    fp32 are those of plan precision, of this clone or kept.
    """
    from benchmarks import tf32 as measure
    from course_lab import tables

    found = {imitation.seed: imitation for _, imitation in measure.experiments()}
    _known("seed", map(str, seed or ()), map(str, found))
    for one in seed or found:
        print(f"{one}: {measure.train(found[one])}")
    if keep:
        print("kept:", measure.keep())
        print(tables.printed(measure.table()))


@app.command("examine")
def examine(
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the table in data/results, for the website.")
    ] = False,
):
    """Examine the packaged models: seconds, peak memory, verdict and advice of each.

    Every examination is a process of its own; all of them take about six minutes on two cores.
    """
    from benchmarks import examining, timing

    rows = []
    for row in examining.examined():
        rows.append(row)
        print(f"\n{row['model']}: {row['seconds']:.0f} s, {row['MB'] / 1024:.1f} GB", flush=True)
        print(f"  {row['verdict']}{timing.remark(row)}")
        for advice in row["advice"]:
            print(f"  {advice}")
    if keep:
        print("kept:", timing.keep(examining.TABLE, rows, 1))


@app.command("other-tools")
def other_tools(
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the table in data/results, for the website.")
    ] = False,
):
    """Compare the examiner's numbers with those of two packages, which have to be installed."""
    import torch

    from benchmarks import examining
    from course_lab import provenance, results

    rows = []
    for row in examining.beside_other_tools():
        rows.append(row)
        print(
            f"{row['model']:<18} IsoScore {row['IsoScore']:.4f}, theirs "
            f"{row['their IsoScore']:.4f}; stable rank {row['stable rank']:.4g}, theirs "
            f"{row['their stable rank']:.4g}; alpha {row['alpha']:.2f}",
            flush=True,
        )
    if keep:
        origin = provenance.origin(torch.device("cpu"))
        table = {"provenance": origin, "rows": rows}
        print("kept:", results.write_table(examining.BESIDE, table))


def _known(kind: str, given, known) -> None:
    from course_lib.errors import unknown

    known = list(known)
    for name in given:
        if name not in known:
            raise unknown(kind, name, known)


def _begin(threads: int, rounds: int) -> None:
    import torch

    if threads:
        torch.set_num_threads(threads)
    from benchmarks.timing import machine_kind

    kind = machine_kind("cuda" if torch.cuda.is_available() else "cpu")
    print(f"{kind}; torch {torch.__version__}, {torch.get_num_threads()} threads, {rounds} rounds")
