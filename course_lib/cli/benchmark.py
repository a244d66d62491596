"""`python -m course_lib benchmark`: our training step beside the plain PyTorch one."""

from typing import Annotated

import typer

app = typer.Typer(help="Time and memory, as ratios to plain PyTorch in the same run.")


@app.callback(invoke_without_command=True)
def benchmark(
    context: typer.Context,
    words: Annotated[list[int], typer.Option(help="Vocabulary sizes; repeat for several.")] = (
        10_000,
        33_278,
    ),
    rounds: Annotated[int, typer.Option(help="Timed steps of each variant, alternating.")] = 15,
    threads: Annotated[int, typer.Option(help="CPU threads; 0 keeps torch's choice.")] = 0,
):
    """A 2×200 tied LSTM, batch 20, length 35: forward, backward, clipping, SGD."""
    if context.invoked_subcommand:
        return
    import torch

    from course_lib.experiments import benchmark as measure

    if threads:
        torch.set_num_threads(threads)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {rounds} rounds")
    for size in words:
        print(f"\n{size:,} words      tokens/s   ratio   memory MB   ratio")
        for row in measure.language_model(size, rounds):
            print(
                f"{row['variant']:<14} {row['tokens/s']:>9,.0f} {row['speed ratio']:>7.2f}"
                f" {row['memory MB']:>11,.0f} {row['memory ratio']:>7.2f}"
            )
