"""`python -m course_lab recipes`: the recipes, with what they cost."""

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command()(recipes)


def recipes(
    pattern: Annotated[
        str,
        typer.Argument(
            help="Names with this in them, or a glob: 'ptb/*/mos*'; 'my_recipes.py:*' for a file's."
        ),
    ] = "*",
    paper: Annotated[str | None, typer.Option(help="Of one paper's tables: gao2019.")] = None,
    corpus: Annotated[str | None, typer.Option(help="On one corpus: ptb.")] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Names only.")] = False,
):
    """List the recipes: parameters, operations, memory and time on this machine, published row.

    Time is that of the recipe's whole training here, at half the rate of matrix products, and at
    most that where a run may end sooner. The rates are measured again when they are a day old, or
    when this machine's own runs took twice or half the time. H100 is a floor, not a measurement:
    the operations at the rate that is stated for one of these GPUs. Memory and time are estimates,
    for one process. Memory is that of tensors: on a processor that multiplies bf16 in tiles,
    segments of drawn lengths add several GB, for oneDNN keeps compiled code for each length.
    ONEDNN_PRIMITIVE_CACHE_CAPACITY=100 in the environment keeps less, and compiles more often.
    """
    from course_lab import rates
    from course_lab.batch_states import duration
    from course_lab.cost import cost
    from course_lib.errors import CourseError

    chosen = _chosen_recipes(pattern, paper, corpus)
    if plain:
        print("\n".join(chosen))
        return
    here = rates.this_machine()
    width = max(map(len, chosen))
    row = "{:<{}} {:>12} {:>9} {:>6} {:>9} {:>9}  {}"
    print(row.format("recipe", width, "parameters", "PFLOP", "GB", "time", "H100", "source"))
    for name, recipe in chosen.items():
        try:
            c = cost(recipe, here.rates)
            cells = [f"{c.parameters:,}", f"{c.flops / 1e15:,.2f}", f"{c.memory / 2**30:.1f}"]
            cells += [duration(c.seconds), duration(rates.floor_on_h100(recipe, c.flops))]
        except CourseError:  # the reader's own text, which nobody has counted
            cells = ["–"] * 5
        print(row.format(name, width, *cells, recipe.source))
    stated = ", ".join(f"{x / 1e12:,.0f} in {p}" for p, x in rates.H100.items())
    print(f"\ntime: estimated at half the rates of {here}")
    print(f"H100: a floor, the operations at the {stated} TFLOP/s that NVIDIA states for one; a")
    print("      recurrent model, which waits for each of its steps, is far from it")


def _chosen_recipes(pattern: str, paper: str | None, corpus: str | None) -> dict:
    """Return the recipes that match all three, by the names that `train` takes.

    CourseError where there is none.
    """
    from fnmatch import fnmatchcase

    import course_lab
    from course_lab import published
    from course_lab.recipes import elsewhere
    from course_lib.errors import CourseError, unknown

    known = course_lab.recipes
    file = ""
    if in_file := elsewhere.split(pattern):
        names = elsewhere.entered_by(in_file[0])
        known = {name: known[name] for name in names}
        file = f"{in_file[0]}:"
        pattern = in_file[1]
    papers = {p for r in known.values() for p, _ in published.cited(r.source)}
    corpora = {r.corpus.kind for r in known.values()}
    for kind, given, possible in (("paper", paper, papers), ("corpus", corpus, corpora)):
        if given is not None and given not in possible:
            raise unknown(kind, given, possible)
    chosen = {
        f"{file}{name}": recipe
        for name, recipe in sorted(known.items())
        if (fnmatchcase(name, pattern) or pattern in name)
        and (paper is None or paper in dict(published.cited(recipe.source)))
        and (corpus is None or corpus == recipe.corpus.kind)
    }
    if not chosen:
        raise CourseError(
            f"no recipe matches {f'{file}{pattern}'!r}; `recipes --plain {file}` lists all names"
            if file
            else f"no recipe matches {pattern!r}; `recipes --plain` lists all names"
        )
    return chosen
