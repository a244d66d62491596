"""The notebooks that train a recipe report its run: the curve, the figures, three checks."""

import numpy as np

from course_lab import plots
from course_lab.results import Result


def show_learning_curve(result: Result) -> None:
    """Display the perplexities of training and validation, epoch by epoch.

    Nothing is shown of a run without epochs, in which a trained model is only adapted.
    """
    if not result.epochs:
        return
    best = result.epochs[np.nanargmin([epoch["valid_perplexity"] for epoch in result.epochs])]
    unit = "perplexity of a piece" if result.experiment.translates else "perplexity"
    plots.show(
        plots.learning_curve(result.epochs, unit),
        alt="Training and validation perplexity by epoch; the best validation perplexity, "
        f"{best['valid_perplexity']:.1f}, is reached at epoch {best['epoch']}.",
    )


def headline(result: Result) -> str:
    """Return the final figures of a run in a sentence, as Markdown.

    They are BLEU and perplexity of a translator, perplexities of a language model.
    """
    experiment = result.experiment
    metrics = result.metrics
    test_perplexity = f"test perplexity {metrics['test_perplexity']:.2f}"
    if experiment.translates:
        figures = (
            f"validation BLEU {metrics['valid_bleu']:.2f}, test BLEU {metrics['test_bleu']:.2f} "
            f"(`{metrics['bleu_signature']}`), {test_perplexity}"
        )
    else:
        figures = f"validation perplexity {metrics['valid_perplexity']:.2f}, {test_perplexity}"
    tokens = f"{result.provenance['tokens_seen']:,} tokens"
    if experiment.is_counted:
        model = f"{metrics['ngrams']:,} n-grams"
        seen = f"{tokens} were counted."
    else:
        epochs = f"best epoch {metrics['best_epoch']} of {len(result.epochs)}"
        model = f"{metrics['parameters']:,} parameters, {epochs}"
        seen = f"{tokens} were seen in training. A word vector has {experiment.size} numbers."
    return (
        f"**{f'{experiment.name} {experiment.variant}'.strip()}**, profile "
        f"`{experiment.profile}`, seed {experiment.seed}: {figures} with {model}. The text is "
        f"`{result.corpus.name}`: it has {len(result.corpus):,} words, and {seen} "
        "Figures of another text or another vocabulary do not compare."
    )


def checks(result: Result) -> dict[str, bool]:
    """Return what must hold of any run that has trained, in words, and whether it does."""
    numbers = [epoch["epoch"] for epoch in result.epochs]
    losses = [epoch["train_perplexity"] for epoch in result.epochs]
    symbols = "pieces" if result.experiment.translates else "words"
    is_better = result.metrics["test_perplexity"] < len(result.corpus)
    return {
        "one row of figures for each epoch": numbers == list(range(1, len(numbers) + 1)),
        f"better than guessing evenly among all {symbols}": is_better,
        "the training loss did not rise": losses[-1:] <= losses[:1],
    }
