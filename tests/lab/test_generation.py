"""Scoring, next words and generation against the model's own loss and against each other."""

import io
import json
import math
import sys
import weakref
from types import SimpleNamespace

import pytest
import torch
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import course_lab
from course_lab import corpora
from course_lab.cli import model as commands
from course_lab.corpora.registry import DOWNLOADS
from course_lab.vocabulary import vocabulary_from_dict, vocabulary_to_dict
from course_lib.data import folders
from course_lib.data.corpus import from_texts
from course_lib.errors import CourseError
from course_lib.evaluation import generation
from course_lib.evaluation.generation import continuations, generate, score, top_k_top_p
from course_lib.evaluation.log_prob import log_prob_blocks
from course_lib.models import LanguageModel, TransformerXL, VariationalLSTM
from course_lib.output_layers import FullWords, Softmax
from course_lib.training import Optimisation
from course_lib.training.checkpoint import load_checkpoint as read_checkpoint
from course_lib.training.checkpoint import save_checkpoint

LINES = "the cat sat on the mat\nthe dog <unk> at the cat\na bird sang\n"


def corpus_of(text=LINES):
    return from_texts("animals", {"train": text * 3, "valid": text, "test": text})


def build(kind="lstm", corpus=None, memory=0):
    """A small model with weights large enough for its predictions to differ, dropout included."""
    torch.manual_seed(0)
    words = FullWords(len(corpus or corpus_of()), 16, init=1.0)
    if kind == "lstm":
        encoder = VariationalLSTM(16, 16, layers=2, dropout=0.3, init=0.5)
    else:
        encoder = TransformerXL(16, 2, 2, 8, 32, dropout=0.3, memory=memory, init=0.3)
    return LanguageModel(words, encoder, Softmax(words))


@pytest.mark.parametrize("kind", ["lstm", "transformer"])
def test_models_of_other_types(kind):
    """As wide as the model, or float32 of a half type, whose sum of a table would be rounded."""
    corpus = corpus_of()
    expected = score(build(kind), corpus, "the cat sat").log_prob
    for dtype, error in ((torch.float64, 1e-5), (torch.bfloat16, 0.2)):
        found = score(build(kind).to(dtype), corpus, "the cat sat").log_prob
        assert found.dtype == torch.promote_types(dtype, torch.float32)
        assert torch.allclose(found.float(), expected, atol=error)
        model = build(kind).to(dtype)
        [rows] = log_prob_blocks(model, corpus.test, corpus.eos, progress=False)
        assert rows.dtype == found.dtype and rows.exp().sum(1).sub(1).abs().max() < 1e-4


MODELS = {
    "lstm": build("lstm"),
    "transformer-xl": build("transformer", memory=100),
    "transformer": build("transformer", memory=0),
}
models = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
CORPUS = corpus_of()
texts = st.lists(st.sampled_from(CORPUS.words), min_size=1, max_size=30).map(" ".join)


@models
def test_score_is_the_loss_of_the_model(model):
    ids = CORPUS.encode(LINES)
    model.eval()
    inputs = torch.cat([torch.tensor([CORPUS.eos]), ids[:-1]])
    with torch.no_grad():
        nll = model(inputs[:, None], None, ids[:, None]).nll
    result = score(model, CORPUS, LINES)
    assert result.words == [CORPUS.words[i] for i in ids]
    assert -result.log_prob.mean().item() == pytest.approx(nll.item(), rel=1e-5)
    assert result.perplexity == pytest.approx(math.exp(nll.item()), rel=1e-5)


@pytest.mark.parametrize("name", ["lstm", "transformer-xl"])
def test_a_long_text_is_scored_as_if_read_in_one_piece(name, monkeypatch):
    whole = score(MODELS[name], CORPUS, LINES * 3).log_prob
    monkeypatch.setattr(generation, "CONTEXT", 7)
    torch.testing.assert_close(score(MODELS[name], CORPUS, LINES * 3).log_prob, whole)


@models
@settings(max_examples=10, deadline=None)
@given(text=texts)
def test_next_words_are_a_distribution_and_agree_with_score(model, text):
    found = continuations(model, CORPUS, text, k=1000)
    probability = {word: p for word, p in found}
    assert sorted(probability) == sorted(CORPUS.words)
    assert sum(probability.values()) == pytest.approx(1, abs=1e-5)
    assert list(probability.values()) == sorted(probability.values(), reverse=True)
    assert continuations(model, CORPUS, text, k=3) == found[:3]
    for word in ("cat", "<eos>"):
        log_prob = score(model, CORPUS, f"{text} {word}").log_prob[-1].item()
        assert math.exp(log_prob) == pytest.approx(probability[word], rel=1e-4)


@models
def test_greedy_generation_takes_the_likeliest_word_every_time(model):
    text = generate(model, CORPUS, "the cat", length=12, top_k=1)
    written = "the cat"
    for word in text.replace("\n", " <eos> ").split():
        assert continuations(model, CORPUS, written, k=1)[0].word == word
        written += f" {word}"
    assert len(written.split()) == 14


def test_the_seed_decides_and_nothing_else_moves():
    model = MODELS["lstm"]
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = generate(model, CORPUS, "the", length=30, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert generate(model, CORPUS, "the", length=30, seed=1) == first
    assert generate(model, CORPUS, "the", length=30, seed=2) != first
    assert len(CORPUS.encode(first)) == 30


def test_words_are_drawn_as_often_as_they_are_probable():
    model = MODELS["lstm"]
    expected = dict(continuations(model, CORPUS, "the", k=1000))
    drawn = [generate(model, CORPUS, "the", length=1, seed=seed) for seed in range(400)]
    for word in ("cat", "dog", "sat"):
        p = expected[word]
        assert drawn.count(word) / 400 == pytest.approx(p, abs=4 * math.sqrt(p / 400) + 0.01)


@models
def test_the_model_is_left_as_it_was(model):
    model.train()
    model.encoder.eval()
    before = [m.training for m in model.modules()], model.encoder
    score(model, CORPUS, "the cat")
    with pytest.raises(CourseError):
        generate(model, CORPUS, "the cat", temperature=0)
    assert ([m.training for m in model.modules()], model.encoder) == before
    assert torch.is_grad_enabled() and all(p.grad is None for p in model.parameters())


def test_probabilities_are_float32_under_autocast():
    expected = score(MODELS["lstm"], CORPUS, LINES).log_prob
    with torch.autocast("cpu", torch.bfloat16):
        found = score(MODELS["lstm"], CORPUS, LINES).log_prob
    assert found.dtype == torch.float32 and torch.equal(found, expected)


log_probs = st.lists(st.floats(-3, 3), min_size=2, max_size=20).map(
    lambda values: torch.tensor(values).log_softmax(-1)
)


@settings(max_examples=100, deadline=None)
@given(log_probs, st.floats(0.2, 5), st.integers(1, 25), st.floats(0.05, 1))
def test_kept_words_are_the_likeliest_renormalised(log_prob, temperature, top_k, top_p):
    plain = (log_prob / temperature).softmax(-1)
    torch.testing.assert_close(top_k_top_p(log_prob, temperature), plain)
    by_count = top_k_top_p(log_prob, temperature, top_k=top_k)
    assert (by_count > 0).sum() == min(top_k, len(plain))
    by_mass = top_k_top_p(log_prob, temperature, top_p=top_p)
    mass = plain[by_mass > 0]
    assert mass.sum() >= top_p - 1e-5 and mass.sum() - mass.min() < top_p + 1e-5
    for found in (by_count, by_mass, top_k_top_p(log_prob, temperature, top_k, top_p)):
        assert found.sum().item() == pytest.approx(1, abs=1e-5)
        chosen, left = plain[found > 0], plain[found == 0]
        assert not len(left) or chosen.min() >= left.max()
        torch.testing.assert_close(found[found > 0], chosen / chosen.sum())


@pytest.mark.parametrize(
    "option, message",
    [
        ({"temperature": 0.0}, "temperature must be 1e-30 or more, not 0.0; or use top_k=1"),
        ({"temperature": 1e-39}, "temperature must be 1e-30 or more, not 1e-39"),
        ({"temperature": math.inf}, "temperature must be a finite number, not inf"),
        ({"top_k": 0}, "top_k must be a whole number of at least 1 or none, not 0"),
        ({"top_p": 1.5}, "top_p must be a number above 0 and at most 1 or none, not 1.5"),
    ],
)
def test_settings_out_of_range_are_refused(option, message):
    with pytest.raises(CourseError, match=message):
        top_k_top_p(torch.zeros(3).log_softmax(-1), **option)
    with pytest.raises(CourseError, match=message):
        generate(MODELS["lstm"], CORPUS, "the", length=1, **option)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_not_finite_are_named(value):
    model = build()
    name, parameter = list(model.named_parameters())[-1]
    with torch.no_grad():
        parameter.view(-1)[0] = value
    asked = (
        lambda: score(model, CORPUS, "the dog"),
        lambda: continuations(model, CORPUS, "the"),
        lambda: generate(model, CORPUS, "the", length=1),
    )
    for ask in asked:
        with pytest.raises(CourseError, match=f"{name} holds a number that is not finite; take an"):
            ask()


def test_words_outside_the_vocabulary():
    assert CORPUS.encode("the zebra").tolist() == CORPUS.encode("the <unk>").tolist()
    closed = corpus_of(LINES.replace("<unk>", "barked"))
    message = r"'bark' is not among the 12 words of animals, which has no <unk>; did you mean bark"
    with pytest.raises(CourseError, match=message):
        score(build(corpus=closed), closed, "the bark")
    with pytest.raises(CourseError, match="the text has no words"):
        score(MODELS["lstm"], CORPUS, "  ")
    with pytest.raises(CourseError, match="k must be a whole number of at least 1"):
        continuations(MODELS["lstm"], CORPUS, "the", k=0)


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run a command of the group on the LSTM, as from a checkpoint named `run`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").touch()

    def load_checkpoint(path, corpus):
        assert str(path) == "run" and corpus is None
        return MODELS["lstm"], CORPUS, SimpleNamespace(translates=False)

    monkeypatch.setattr(course_lab, "load_checkpoint", load_checkpoint)
    return lambda command, *arguments: invoke(command, "run", *arguments)


def invoke(*arguments):
    """Exit code 0 and what the command printed."""
    app = typer.Typer()
    commands.register(app)
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def test_score_command(run):
    shown = run("score", "the zebra sat")
    lines = shown.stdout.splitlines()
    assert lines[0].split() == ["word", "probability", "nats"]
    assert [line.split()[0] for line in lines[1:4]] == ["the", "<unk>", "sat"]
    expected = score(MODELS["lstm"], CORPUS, "the zebra sat")
    assert lines[1].split()[1] == f"{expected.log_prob[0].exp():.4%}"
    assert lines[-1] == f"perplexity {expected.perplexity:,.2f} over 3 words"
    assert shown.stderr == "not in the vocabulary, read as <unk>: zebra\n"
    found = json.loads(run("score", "the cat", "--json").stdout)
    assert found["perplexity"] == score(MODELS["lstm"], CORPUS, "the cat").perplexity
    assert [row["word"] for row in found["words"]] == ["the", "cat"]


def test_next_command(run):
    expected = continuations(MODELS["lstm"], CORPUS, "the", 4)
    lines = run("next", "the", "--top", "4").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [pair.word for pair in expected]
    assert lines[1].count("█") == round(160 * expected[0].probability) // 8
    assert len({line.index("%") for line in lines[1:]}) == 1
    found = json.loads(run("next", "the", "--json").stdout)
    assert found["next"][:4] == [pair._asdict() for pair in expected]


def test_bars_grow_by_eighths_of_a_block_and_do_without_unicode(monkeypatch):
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(encoding="utf-8"))
    assert [commands._bar(x).strip() for x in (0, 1 / 160, 0.05, 0.5, 1)] == [
        "", "▏", "█", "█" * 10, "█" * 20,
    ]  # fmt: skip
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(encoding="cp1252"))
    assert commands._bar(0.5) == "#" * 10


def test_generate_command(run):
    options = ["--length", "8", "--seed", "3", "--temperature", "0.5", "--top-k", "5"]
    expected = generate(MODELS["lstm"], CORPUS, "the", 8, 0.5, 5, None, 3)
    assert run("generate", "the", *options).stdout == f"the {expected}\n"
    found = json.loads(run("generate", "the", *options, "--json").stdout)
    assert found["text"] == expected and found["top_k"] == 5 and found["top_p"] is None


def test_commands_read_the_checkpoint_of_a_run(tmp_path):
    (tmp_path / "animals.txt").write_text(LINES * 20, encoding="utf-8")
    experiment = course_lab.Experiment(
        name="animals",
        corpus=course_lab.part(str(tmp_path / "animals.txt")),
        encoder=course_lab.part("VariationalLSTM", units=16, layers=1),
        size=16,
        optimisation=Optimisation(epochs=1, batch=2, length=5),
    )
    result = course_lab.run(experiment, tmp_path / "run", progress=False, device="cpu")
    expected = score(result.model, result.corpus, "the cat").perplexity
    found = json.loads(invoke("score", str(tmp_path / "run"), "the cat", "--json").stdout)
    assert found["perplexity"] == pytest.approx(expected)
    checkpoint = str(tmp_path / "run" / "last.safetensors")
    assert len(invoke("generate", checkpoint, "--length", "5").stdout.split()) <= 5
    with pytest.raises(CourseError, match="no run or checkpoint"):
        invoke("next", str(tmp_path / "nowhere"), "the")


def test_a_text_is_read_in_full_float32():
    """On a GPU, too, where cuDNN would take TF32: `score` agrees with `perplexity`."""
    cudnn, model, seen = torch.backends.cudnn, build(), []
    model.encoder.register_forward_hook(lambda *_: seen.append(cudnn.allow_tf32))
    cudnn.allow_tf32 = True
    score(model, CORPUS, "the cat sat")
    assert seen and not any(seen) and cudnn.allow_tf32


# A checkpoint without its corpus -----------------------------------------------------------------


@pytest.fixture
def trained(tmp_path):
    """A folder with a text, animals.txt, and a run on it."""
    (tmp_path / "animals.txt").write_text(LINES * 20, encoding="utf-8")
    experiment = course_lab.Experiment(
        name="animals",
        corpus=course_lab.part(str(tmp_path / "animals.txt")),
        encoder=course_lab.part("VariationalLSTM", units=16, layers=1),
        size=16,
        optimisation=Optimisation(epochs=1, batch=2, length=5),
    )
    course_lab.run(experiment, tmp_path / "run", progress=False, device="cpu")
    return tmp_path


def older(file, **corpus):
    """Make a checkpoint one of an older version, without a vocabulary, that names a corpus."""
    tensors, head = read_checkpoint(file)
    head["vocabulary"] = None
    head["identity"]["experiment"]["corpus"] |= corpus
    save_checkpoint(file, tensors, head)


def test_a_model_is_asked_without_its_corpus(trained):
    """The text is gone; best and last epoch answer as before, to the last digit."""
    questions = [("score", "the zebra sat"), ("next", "the"), ("generate", "the cat")]
    runs = [str(trained / "run"), str(trained / "run" / "last.safetensors")]
    asked = [(command, run, text, "--json") for command, text in questions for run in runs]
    before = [invoke(*question) for question in asked]
    (trained / "animals.txt").unlink()
    after = [invoke(*question) for question in asked]
    assert [done.stdout for done in after] == [done.stdout for done in before]
    assert [done.stderr for done in after] == [done.stderr for done in before]


def test_an_older_checkpoint_asks_for_its_corpus_by_name(trained):
    """What it says of itself opens no file; what the reader names is held against its checksum."""
    before = invoke("next", str(trained / "run"), "the").stdout
    best = trained / "run" / "best.safetensors"
    older(best)
    with pytest.raises(CourseError, match="What a checkpoint names is not read, .* --corpus NAME"):
        invoke("next", str(best), "the")
    (trained / "animals.txt").rename(trained / "moved.txt")
    moved = str(trained / "moved.txt")
    assert invoke("next", str(best), "the", "--corpus", moved).stdout == before
    (trained / "moved.txt").write_text(LINES * 10)
    with pytest.raises(CourseError, match="another text than moved: .* train and valid and test"):
        invoke("next", str(best), "the", "--corpus", moved)


def test_what_a_checkpoint_says_of_itself_is_neither_read_nor_fetched(trained, monkeypatch):
    monkeypatch.setenv("COURSE_DATA", str(trained / "data"))
    ptb = folders.corpora() / "ptb"  # it is on this machine, and wikitext-2 is not
    ptb.mkdir(parents=True)
    for file in DOWNLOADS["ptb"].files:
        (ptb / file.name).touch()
    there = sorted((trained / "data").rglob("*"))
    read = []
    monkeypatch.setattr(corpora, "load", lambda *given, **options: read.append(given))
    best = trained / "run" / "best.safetensors"
    for kind in ("/etc/passwd", "ptb", "wikitext-2"):
        older(best, kind=kind)
        told = f"no vocabulary, .*: '{kind}'. What a checkpoint names is not read, .* --corpus NAME"
        with pytest.raises(CourseError, match=told):
            invoke("score", str(best), "the")
    older(best, kind="zipf", options={"direction": "x/../../secret"})
    with pytest.raises(CourseError, match="direction of its corpus is the path"):
        invoke("score", str(best), "the", "--corpus", str(trained))
    assert read == [] and sorted((trained / "data").rglob("*")) == there


def test_a_translator_answers_without_its_sentences(tmp_path):
    recipe = course_lab.recipes["cldr/transformer-tiny"]
    small = {"train": 200, "valid": 20, "test": 20, "words": 200}
    pairs = course_lab.profile(recipe, "smoke").change(
        corpus=course_lab.part("cldr", small=small), optimisation={"epochs": 0}
    )
    course_lab.run(pairs, tmp_path / "run", progress=False, device="cpu")
    corpus = pairs.load_corpus()
    _, vocabulary, _ = course_lab.load_checkpoint(tmp_path / "run")
    assert vocabulary.words == corpus.words and torch.equal(vocabulary.counts, corpus.counts)
    assert (vocabulary.direction, vocabulary.lowercase) == (corpus.direction, corpus.lowercase)
    for text in [*corpus.test.source_text[:5], "<pad> Ünïcode <eos>", ""]:
        ids = corpus.encode(text)
        assert torch.equal(vocabulary.encode(text), ids)
        assert vocabulary.decode(ids) == corpus.decode(ids)
    # its text may be gone: with a path in its place, nothing but the vocabulary is left to read
    question = ("translate", str(tmp_path / "run" / "best.safetensors"), corpus.test.source_text[0])
    before = invoke(*question).stdout
    tensors, head = read_checkpoint(tmp_path / "run" / "best.safetensors")
    head["identity"]["experiment"]["corpus"] = {"kind": "/nowhere", "options": {}}
    save_checkpoint(tmp_path / "run" / "best.safetensors", tensors, head)
    assert invoke(*question).stdout == before


VOCABULARIES = {
    "no words": {"words": None},
    "too few counts": {"counts": [1]},
    "a count below 0": {"counts": [-1] * 12},
    "counts that are none": {"counts": "many"},
    "no line end": {"words": ["a"] * 12, "counts": [1] * 12},
    "no tokenizer": {"tokenizer": {"version": "1.0"}},
    "no name": {"name": 3},
}


@pytest.mark.parametrize("kind", VOCABULARIES)
def test_a_damaged_vocabulary_is_an_error_that_names_the_file(kind):
    plain = vocabulary_to_dict(CORPUS)
    again = vocabulary_from_dict(json.loads(json.dumps(plain)), "x")
    assert (again.words, again.sha256) == (CORPUS.words, CORPUS.sha256)
    assert torch.equal(again.counts, CORPUS.counts)
    with pytest.raises(CourseError, match="best.safetensors holds a vocabulary that cannot be"):
        vocabulary_from_dict(plain | VOCABULARIES[kind], "best.safetensors")


def test_input_that_is_no_text_is_named(monkeypatch):
    lines = io.TextIOWrapper(io.BytesIO(b"gut\n\xff\xfe\n"), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", lines)
    with pytest.raises(CourseError, match="standard input is not UTF-8 text .byte 4: invalid"):
        commands._lines_of_input()


def test_a_distribution_to_draw_from_is_of_one_position():
    with pytest.raises(CourseError, match=r"must be of one position, \(N,\), not \(7, 7\)"):
        top_k_top_p(torch.zeros(7, 7))


def test_a_long_prompt_holds_one_table_after_the_other(monkeypatch):
    """Each is (64, N); all of them would be a number for each word and each place."""
    alive = weakref.WeakSet()
    most = []

    def tables(model, ids):
        for piece in ids.split(generation.CONTEXT):
            table = torch.zeros(len(piece), 7)
            alive.add(table)
            most.append(len(alive))
            yield table, None

    monkeypatch.setattr(generation, "_tables", tables)
    words = SimpleNamespace(eos=0, encode=lambda text, what: torch.zeros(1000, dtype=torch.long))
    table, _ = generation._after(None, words, "a prompt")
    assert table.shape == (7,) and max(most) <= 2
