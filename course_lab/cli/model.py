"""`python -m course_lab score | next | generate | translate CHECKPOINT "text"`."""

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from course_lab.cli.own_files import With, load
from course_lib.errors import CourseError

if TYPE_CHECKING:
    from course_lib.data.corpus import WordEncoding
    from course_lib.models import LanguageModel

Checkpoint = Annotated[
    Path,
    typer.Argument(
        help="A run's folder, or its name below runs; a checkpoint file, or an exported folder."
    ),
]
Prompt = Annotated[
    str, typer.Argument(help="What comes before, in words of the corpus; <eos> is a line end.")
]
Text = Annotated[
    str | None,
    typer.Option(
        "--corpus",
        help="The text it was trained on, by name or path: an older checkpoint has no vocabulary.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def register(app: typer.Typer) -> None:
    """Mount the commands that question a trained model."""
    app.command("score")(score)
    app.command("next")(next_words)
    app.command("generate")(generate)
    app.command("translate")(translate)


def score(
    checkpoint: Checkpoint,
    text: Annotated[str, typer.Argument(help="The text; its first word is predicted from <eos>.")],
    corpus: Text = None,
    own: With = None,
    as_json: Json = False,
) -> None:
    """How probable a text is: each word's probability given those before it, and the perplexity."""
    from course_lib.evaluation import generation

    load(own)
    model, vocabulary = _language_model(checkpoint, corpus, text)
    result = generation.score(model, vocabulary, text)
    nats = [-log_prob for log_prob in result.log_prob.tolist()]
    if as_json:
        rows = [{"word": w, "nats": n} for w, n in zip(result.words, nats, strict=True)]
        return _print_json(words=rows, perplexity=result.perplexity)
    probabilities = [math.exp(-n) for n in nats]
    rows = list(zip(result.words, probabilities, nats, strict=True))
    _print_table(("word", "probability", "nats"), rows)
    print(f"\nperplexity {result.perplexity:,.2f} over {len(nats)} {vocabulary.unit}")


def next_words(
    checkpoint: Checkpoint,
    prompt: Prompt = "",
    top: Annotated[int, typer.Option(min=1, help="How many words to list.")] = 10,
    corpus: Text = None,
    own: With = None,
    as_json: Json = False,
) -> None:
    """Print the likeliest next words after a prompt, with their probabilities."""
    from course_lib.evaluation import generation

    load(own)
    model, vocabulary = _language_model(checkpoint, corpus, prompt)
    likeliest = generation.continuations(model, vocabulary, prompt, top)
    if as_json:
        return _print_json(prompt=prompt, next=[pair._asdict() for pair in likeliest])
    _print_table(("word", "probability"), likeliest)


def generate(
    checkpoint: Checkpoint,
    prompt: Prompt = "",
    length: Annotated[int, typer.Option(min=1, help="Words to write.")] = 50,
    temperature: Annotated[float, typer.Option(help="Below 1 safer, above 1 wilder.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="Draw from the k likeliest words only.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Draw from the likeliest words that hold this mass.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same text.")] = 0,
    corpus: Text = None,
    own: With = None,
    as_json: Json = False,
) -> None:
    """Continue a prompt, one drawn word after the other."""
    from course_lib.evaluation import generation

    load(own)
    model, vocabulary = _language_model(checkpoint, corpus, prompt)
    settings = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    drawn = generation.draw(model, vocabulary, prompt, length, **settings)
    if as_json:
        text = vocabulary.decode(drawn)
        return _print_json(prompt=prompt, text=text, length=length, **settings)
    print(vocabulary.continued(prompt, drawn))


def translate(
    checkpoint: Checkpoint,
    text: Annotated[
        list[str] | None, typer.Argument(help="Sentences; none: lines of input.")
    ] = None,
    beam: Annotated[int | None, typer.Option(help="Default: the recipe's.")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="Default: the recipe's.")] = None,
    corpus: Text = None,
    own: With = None,
    as_json: Json = False,
) -> None:
    """Translate sentences by beam search, one line each."""
    from dataclasses import replace

    from course_lab import load_checkpoint
    from course_lab.results import run_or_path
    from course_lib.evaluation import translation
    from course_lib.models import TranslationModel

    load(own)
    model, vocabulary, experiment = load_checkpoint(run_or_path(checkpoint), corpus)
    if not isinstance(model, TranslationModel):
        raise CourseError(f"{checkpoint} is a language model; score, next and generate question it")
    decoding = experiment.decoding
    search = decoding.build("decoding") if decoding else translation.BeamSearch()
    settings = {"beam": beam, "length_penalty": length_penalty}
    search = replace(search, **{name: x for name, x in settings.items() if x is not None})
    sentences = text or _lines_of_input()
    sources = [vocabulary.encode(sentence) for sentence in sentences]
    targets = translation.translate(model, sources, search, progress=sys.stderr.isatty())
    translations = [vocabulary.decode(ids) for ids in targets]
    if as_json:
        pairs = zip(sentences, translations, strict=True)
        return _print_json(translations=[{"source": s, "translation": t} for s, t in pairs])
    print("\n".join(translations))


def _language_model(
    checkpoint: Path, corpus: str | None, text: str
) -> "tuple[LanguageModel, WordEncoding]":
    """Return a model and its vocabulary; say which words of `text` it will read as <unk>."""
    from course_lab import load_checkpoint
    from course_lab.results import run_or_path
    from course_lib.data.corpus import WordEncoding
    from course_lib.models import LanguageModel

    model, vocabulary, _ = load_checkpoint(run_or_path(checkpoint), corpus)
    if not isinstance(model, LanguageModel):
        raise CourseError(f"{checkpoint} is a translator; ask it with: translate CHECKPOINT TEXT")
    assert isinstance(vocabulary, WordEncoding)  # as that of every language model
    missing = [w for w in dict.fromkeys(text.split()) if not vocabulary.reads(w)]
    if missing and vocabulary.unk is not None:
        print(f"not in the vocabulary, read as <unk>: {', '.join(missing)}", file=sys.stderr)
    return model, vocabulary


def _lines_of_input() -> list[str]:
    """Return the lines of standard input without their ends."""
    try:
        return [line.rstrip("\n") for line in sys.stdin]
    except UnicodeDecodeError as error:
        raise CourseError(
            f"standard input is not {error.encoding.upper()} text (byte {error.start}: "
            f"{error.reason}); convert it, for instance with iconv"
        ) from None


def _print_json(**values) -> None:
    """Print named values as one JSON object."""
    print(json.dumps(values, ensure_ascii=False, indent=2))


def _print_table(names: tuple[str, ...], rows: Sequence[tuple]) -> None:
    """Print rows of a word, its probability with a bar of 20 blocks for 1, and more numbers."""
    width = max(len(names[0]), *(len(row[0]) for row in rows))
    print(f"{names[0]:<{width}}  {names[1]:>11}", *(f"{name:>7}" for name in names[2:]))
    for word, probability, *more in rows:
        numbers = "".join(f" {number:7.2f}" for number in more)
        print(f"{word:<{width}}  {probability:11.4%}{numbers}  {_bar(probability)}".rstrip())


def _bar(probability: float) -> str:
    """Return 20 blocks for 1, in eighths of a block; `#` where the terminal has no blocks."""
    if not (sys.stdout.encoding or "").lower().startswith("utf"):
        return "#" * round(20 * probability)
    full, eighths = divmod(round(160 * probability), 8)
    return "█" * full + " ▏▎▍▌▋▊▉"[eighths]
