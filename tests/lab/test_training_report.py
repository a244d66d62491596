"""What the notebooks that train say of a run: its best epoch, its figures, and what must hold."""

from types import SimpleNamespace

import pytest

from course_lab import plots, recipes, training_report
from course_lab.cli.train import _print_result


def finished(recipe="ptb/vd-lstm-200/tied", valid=(90.0, float("nan"), 70.5, 80.0), **metrics):
    """A result with so many epochs, of 300 words."""
    figures = {"test_perplexity": 71.25, "valid_perplexity": 70.5, "parameters": 1234}
    figures |= {"best_epoch": 3, "valid_bleu": 20.125, "test_bleu": 19.5, "bleu_signature": "sig"}
    epochs = [
        {"epoch": n, "train_perplexity": 100.0 - n, "valid_perplexity": v}
        for n, v in enumerate(valid, 1)
    ]
    experiment = recipes[recipe].change(profile="quick", seed=4)
    return SimpleNamespace(
        experiment=experiment, epochs=epochs, metrics=figures | metrics, corpus=Words(),
        provenance={"tokens_seen": 40_000},
    )  # fmt: skip


class Words:
    """A corpus, as far as a headline reads it."""

    name = "some text (small)"

    def __len__(self):
        return 300


TEXT = (
    " The text is `some text (small)`: it has 300 words, and 40,000 tokens were seen in training. "
    "A word vector has {} numbers. Figures of another text or another vocabulary do not compare."
)


@pytest.fixture
def shown(monkeypatch):
    """The figures that were displayed, and their alternative texts."""
    calls = []
    monkeypatch.setattr(plots, "show", lambda figure, alt: calls.append((figure, alt)))
    return calls


@pytest.mark.parametrize(
    ("recipe", "unit"),
    [("ptb/vd-lstm-200/tied", "perplexity"), ("cldr/transformer-tiny", "perplexity of a piece")],
)
def test_the_curve_names_the_best_epoch(shown, recipe, unit):
    training_report.show_learning_curve(finished(recipe))
    ((figure, alt),) = shown
    assert "perplexity, 70.5, is reached at epoch 3." in alt
    assert figure.axes[0].get_ylabel() == unit
    training_report.show_learning_curve(finished(recipe, valid=()))
    assert len(shown) == 1  # a run without epochs has no curve


def test_the_headline_has_the_figures_of_the_kind_of_model():
    assert training_report.headline(finished()) == (
        "**ptb/vd-lstm-200/tied**, profile `quick`, seed 4: validation perplexity 70.50, test "
        "perplexity 71.25 with 1,234 parameters, best epoch 3 of 4." + TEXT.format(200)
    )
    assert training_report.headline(finished("cldr/transformer-tiny")) == (
        "**cldr/transformer-tiny**, profile `quick`, seed 4: validation BLEU 20.12, test BLEU "
        "19.50 (`sig`), test perplexity 71.25 with 1,234 parameters, best epoch 3 of 4."
        + TEXT.format(recipes["cldr/transformer-tiny"].size)
    )
    counted = finished(ngrams=2_000)
    counted.experiment = recipes["ptb/kneser-ney/order-5"]
    assert training_report.headline(counted) == (
        "**ptb/kneser-ney/order-5**, profile `full`, seed 1: validation perplexity 70.50, test "
        "perplexity 71.25 with 2,000 n-grams. The text is `some text (small)`: it has 300 words, "
        "and 40,000 tokens were counted. Figures of another text or another vocabulary do not "
        "compare."
    )
    variant = finished()
    variant.experiment = variant.experiment.change(variant="warm")
    assert "**ptb/vd-lstm-200/tied warm**" in training_report.headline(variant)


def test_each_check_fails_where_it_should():
    good = finished()
    assert all(training_report.checks(good).values()) and len(training_report.checks(good)) == 3

    def broken(result):
        return [name for name, holds in training_report.checks(result).items() if not holds]

    skipped = finished()
    del skipped.epochs[1]
    assert broken(skipped) == ["one row of figures for each epoch"]
    assert broken(finished(test_perplexity=300.0)) == [
        "better than guessing evenly among all words"
    ]
    assert broken(finished("cldr/transformer-tiny", test_perplexity=301.0)) == [
        "better than guessing evenly among all pieces"
    ]
    risen = finished()
    risen.epochs[-1]["train_perplexity"] = 100.0
    assert broken(risen) == ["the training loss did not rise"]
    assert not broken(finished(valid=()))  # where a trained model is only adapted


def test_small_figures_are_printed_with_their_digits(capsys):
    figures = {"mean_cosine": 0.0034, "drift": -0.003, "test_perplexity": 1234.567, "parameters": 5}
    experiment = SimpleNamespace(name="mine", profile="quick", seed=1)
    _print_result(SimpleNamespace(experiment=experiment, metrics=figures, folder="here"))
    printed = [line.split() for line in capsys.readouterr().out.splitlines()[1:-1]]
    assert [line[-1] for line in printed] == ["0.0034", "-0.003", "1,234.57", "5"]
