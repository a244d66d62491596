"""`python -m course_lib train RECIPE`, `recipes` and `results`."""

from pathlib import Path
from typing import Annotated

import typer


def train(
    recipe: Annotated[str, typer.Argument(help="A recipe's name, or a file experiment.json.")],
    profile: Annotated[str, typer.Option(help="smoke, quick, standard or full.")] = "standard",
    seed: Annotated[int, typer.Option(help="Initialisation, dropout and shuffling.")] = 1,
    folder: Annotated[Path | None, typer.Option(help="Default: runs/RECIPE/PROFILE-seedN.")] = None,
    device: Annotated[str, typer.Option(help="auto, or cpu to leave a GPU alone.")] = "auto",
    checkpoint_seconds: Annotated[float, typer.Option(help="Time between checkpoints.")] = 60.0,
    deadline: Annotated[
        float | None, typer.Option(help="Pause after this time, in seconds since 1970.")
    ] = None,
):
    """Train a recipe, or go on with it where it was interrupted.

    Under `accelerate launch` or `torchrun` the same command trains on several GPUs.
    """
    import json

    from course_lib import experiments
    from course_lib.errors import CourseError

    if recipe.endswith(".json"):
        try:
            plain = json.loads(Path(recipe).read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError) as error:
            raise CourseError(f"{recipe} is not a readable experiment: {error}") from None
        experiment = experiments.Experiment.from_dict(plain)
    else:
        experiment = experiments.profile(experiments.recipes[recipe], profile, seed)
    result = experiments.run(
        experiment,
        folder,
        device=device,
        checkpoint_seconds=checkpoint_seconds,
        deadline=deadline,
    )
    print(f"{experiment.name}, profile {experiment.profile}, seed {experiment.seed}")
    for name, value in result.metrics.items():
        print(f"  {name.replace('_', ' '):<18} {value:,.2f}".removesuffix(".00"))
    print(f"  result in {result.folder}")


def recipes():
    """List the recipes, with the published row each stands for."""
    from course_lib import experiments

    width = max(map(len, experiments.recipes))
    for name, experiment in sorted(experiments.recipes.items()):
        print(f"{name:<{width}}  {experiment.source}")


def results(
    keep: Annotated[
        Path | None, typer.Option(help="A finished run's folder: add its result to data/results.")
    ] = None,
):
    """List the results kept under data/results, each checked against its own checksum."""
    from course_lib import experiments

    if keep is not None:
        print(f"kept {experiments.keep_result(keep)}")
    rows = [experiments.read_result(folder) for folder in experiments.kept_results()]
    print(f"{'recipe':<40} {'profile':<9} {'seed':>4} {'valid':>8} {'test':>8}  commit")
    for row in rows:
        experiment, metrics = row["experiment"], row["metrics"]
        print(
            f"{experiment['name']:<40} {experiment['profile']:<9} {experiment['seed']:>4}"
            f" {metrics['valid_perplexity']:>8.2f} {metrics['test_perplexity']:>8.2f}"
            f"  {row['provenance']['commit'][:10]}"
        )


def register(app: typer.Typer) -> None:
    """Mount the commands."""
    app.command()(train)
    app.command()(recipes)
    app.command()(results)
