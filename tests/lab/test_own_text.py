"""A text of the reader's own: in pieces, on the command line, in a plan, under its own name."""

import json
import warnings

import pytest
import torch
from typer.testing import CliRunner

import course_lab
from course_lab import corpora, results
from course_lab.cli import application
from course_lab.corpora.piece_text import PieceText
from course_lab.final_figures import per_word
from course_lab.keep import check_name
from course_lab.own_text import absolute
from course_lab.parts import Part
from course_lab.planned import Planned, command, earlier
from course_lab.plans import read_plan
from course_lab.vocabulary import vocabulary_from_dict, vocabulary_to_dict
from course_lib.data import folders
from course_lib.errors import CourseError

TIED, CACHE = "ptb/vd-lstm-200/tied", "ptb/awd-lstm/softmax/continuous-cache"
LINES = [
    "It was a dark night; the rain fell, and nobody came.\n",
    "“Who’s there?” said the old man, slowly: 3,141.5 times.\n",
    "\n",
]


@pytest.fixture
def novel(tmp_path):
    path = tmp_path / "My novel.txt"
    path.write_text("".join(LINES) * 300, encoding="utf-8")
    return path


# Pieces ------------------------------------------------------------------------------------------


def test_a_text_in_pieces_comes_back(novel):
    corpus = corpora.load(novel, pieces=70)
    assert isinstance(corpus, PieceText) and len(corpus) <= 70
    text = "".join(LINES)
    assert corpus.decode(corpus.encode(text)) == text
    assert corpus.decode(corpus.train).startswith(text * 3)
    assert corpus.eos == corpus.index["<eos>"]
    ids = corpus.encode("Ж")  # which is not in the text
    assert [corpus.words[i] for i in ids] == ["▁", "<unk>"]
    assert corpus.counts[corpus.unk] == 0


def test_unusual_line_ends_do_not_join_words(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("one\u2028two three\x0bfour\n" * 30, encoding="utf-8")
    corpus = corpora.load(path, pieces=60)
    assert corpus.decode(corpus.train).split("\n")[0] == "one two three four"
    assert set(corpus.words) <= {*corpus.pieces.get_vocab(), "<eos>"}


def test_what_pieces_do_not_give_back(tmp_path):
    """Blanks that are not single, an indentation, and letters in two characters."""
    path = tmp_path / "t.txt"
    path.write_text("    cafe\u0301  noir \n" * 30, encoding="utf-8")
    corpus = corpora.load(path, pieces=60)
    assert corpus.decode(corpus.train).split("\n")[0] == "caf\u00e9 noir"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_a_text_of_another_encoding_is_refused(tmp_path, encoding):
    path = tmp_path / "t.txt"
    path.write_bytes(("a dark night\n" * 30).encode(encoding))
    with pytest.raises(CourseError, match="t.txt holds NUL characters, as UTF-16 does; save the"):
        corpora.load(path)


def test_a_long_text_on_one_line_is_not_called_short(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("a dark night fell " * 100_000, encoding="utf-8")
    with pytest.raises(CourseError, match="t.txt has 1 line, .* End each sentence") as refused:
        corpora.load(path)
    assert "longer" not in str(refused.value)


def test_perplexity_per_word_is_that_of_the_same_likelihood(novel):
    """exp(−log-likelihood / words), whatever the text is cut into."""
    corpus = corpora.load(novel, pieces=70)
    text = corpus.decode(corpus.test)
    words = len(text.split()) + text.count("\n")
    nats = len(corpus.test) * torch.log(torch.tensor(7.0, dtype=torch.float64))
    expected = float(torch.exp(nats / words))
    assert per_word(7.0, corpus, corpus.test) == pytest.approx(expected, rel=1e-9)


def test_words_whose_beginnings_are_unknown_are_not_counted(novel):
    corpus = corpora.load(novel, pieces=70)
    part = corpus.small(train=600, valid=90, test=90, words=12)
    with pytest.raises(CourseError, match="lacks pieces that begin one; take the perplexity per"):
        per_word(7.0, part, part.train)
    strange = corpus.encode("Ж night\nthe Ж\n")  # a character that train lacks hides no blank
    assert corpus.unk in strange.tolist()
    assert per_word(7.0, corpus, strange) == pytest.approx(7.0 ** (len(strange) / 6))


def test_a_part_of_a_text_in_pieces_knows_the_unknown(novel):
    part = corpora.load(novel, pieces=70).small(1000, 100, 100, words=10**6)
    assert not part.reads("Ж") and part.words.count("<unk>") == 1
    assert part.encode("Ж").tolist()[-1] == part.unk


def test_a_text_goes_on_within_a_word(novel):
    corpus = corpora.load(novel, pieces=70)
    begin, end = corpus.encode("a dark nigh").tolist(), corpus.encode("a dark night fell").tolist()
    assert end[: len(begin)] == begin
    assert corpus.continued("a dark nigh", end[len(begin) :]) == "a dark night fell"
    novel.write_text("a dark old man came\n" * 50, encoding="utf-8")
    words = corpora.load(novel)
    assert words.continued("a dark", words.encode("old man").tolist()) == "a dark old man"


def test_ids_by_frequency_and_parts_stay_a_text_in_pieces(novel):
    corpus = corpora.load(novel, pieces=70, by_frequency=True)
    assert corpus.is_by_frequency
    for part in (corpus.half("first"), corpus.small(train=600, valid=90, test=90, words=40)):
        assert isinstance(part, PieceText) and part.is_by_frequency
        assert part.decode(part.train[:40]) == corpus.decode(corpus.train[:40]) or part.unk


def test_the_vocabulary_of_a_text_in_pieces_outlives_the_text(novel):
    corpus = corpora.load(novel, pieces=70)
    kept = json.loads(json.dumps(vocabulary_to_dict(corpus)))
    again = vocabulary_from_dict(kept, "x")
    text = "Nobody fell, slowly.\n"
    assert again.encode(text).tolist() == corpus.encode(text).tolist()
    assert again.decode(again.encode(text)) == corpus.decode(corpus.encode(text))
    with pytest.raises(CourseError, match="vocabulary that cannot be read"):
        vocabulary_from_dict(kept | {"pieces": {}}, "x")


def test_words_or_pieces_and_glued_punctuation(novel):
    with pytest.raises(CourseError, match="words or pieces, not both"):
        corpora.load(novel, pieces=70, words=20)
    with pytest.warns(UserWarning, match="end in punctuation, such as 'night;'"):
        corpora.load(novel)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        corpora.load(novel, pieces=70)


# Runs --------------------------------------------------------------------------------------------


def test_a_run_on_ones_own_text_has_a_name_of_its_own(novel):
    text = {"corpus": str(novel), "corpus.pieces": 70}
    planned = Planned(TIED, "quick", 2, text | {"encoder.dropout": 0.1})
    experiment = planned.experiment()
    assert planned.key == f"My-novel/{TIED}/quick-seed2-corpus.pieces=70,encoder.dropout=0.1"
    assert experiment.corpus.options["small"]["words"] == 10_000  # the profile cuts it, too
    assert f"train {TIED} --corpus '{novel}'" in command(experiment)
    assert Planned(TIED, "quick", 2, planned.change) == planned
    # a corpus by name is another text, too
    other = Planned(TIED, "standard", 1, {"corpus": "wikitext-2"})
    assert other.key == f"wikitext-2/{TIED}/standard-seed1"
    assert f"train {TIED} --corpus 'wikitext-2' --profile" in command(other.experiment())
    check_name(other.experiment())
    with pytest.raises(CourseError, match="quick reads an embedded text in place of wikitext-2"):
        Planned(TIED, "quick", 1, {"corpus": "wikitext-2"})
    assert Planned(TIED, "full", 1, {"corpus": "ptb"}) == Planned(TIED)
    with pytest.raises(CourseError, match="does not exist"):
        Planned(TIED, "quick", 1, {"corpus": "there/is/none.txt"})


def test_a_run_on_another_text_hides_no_setting_in_its_name(novel, monkeypatch):
    monkeypatch.setattr(folders, "home", lambda: novel.parent)
    run = Planned(TIED, "quick", 2, {"corpus": str(novel), "encoder.dropout": 0.1}).experiment()
    hidden = run.change(optimisation={"epochs": 1})
    figures = {"test_perplexity": 5.0, "valid_perplexity": 5.0}
    folder = results.kept_folder() / "novel"
    results.write_result(folder, hidden, [], figures, {"commit": "a"})
    with pytest.raises(CourseError, match=f"My-novel/{TIED}, encoder.dropout=0.1, but differs"):
        course_lab.keep_result(folder)
    listed = CliRunner().invoke(application(), ["results"])
    assert listed.output.rstrip().endswith("  encoder.dropout=0.1, optimisation.epochs=1")
    # where the text is gone, only the name tells
    novel.unlink()
    listed = CliRunner().invoke(application(), ["results"])
    assert listed.exit_code == 0 and listed.output.rstrip().endswith("  encoder.dropout=0.1")


def test_a_mistyped_corpus_lists_the_names_near_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(application(), ["train", TIED, "--corpus", "wikitext2"])
    assert "did you mean wikitext-2" in str(done.exception)
    assert absolute("novel.txt", tmp_path) == str(tmp_path / "novel.txt")
    assert absolute("ptb", tmp_path) == "ptb"


def test_what_a_run_begins_with_is_trained_on_the_same_text(novel):
    text = {"corpus": str(novel), "corpus.pieces": 70}
    first = earlier(Planned(CACHE, "quick", 3, text).experiment())
    assert first == Planned("ptb/awd-lstm/softmax/finetuned", "quick", 3, text).experiment()
    assert earlier(first) == Planned("ptb/awd-lstm/softmax", "quick", 3, text).experiment()
    assert earlier(earlier(first)) is None


def test_what_a_run_begins_with_follows_to_a_corpus_by_name():
    """Both texts have 10,000 words, so weights of the recipe's own text would fit and be wrong."""
    text = {"corpus": "docstrings"}
    second = Planned(f"{TIED}/second-session", "standard", 1, text).experiment()
    assert earlier(second) == Planned(TIED, "standard", 1, text).experiment()
    plain = Planned(f"{TIED}/second-session", "quick").experiment()
    assert earlier(plain) == Planned(TIED, "quick").experiment()  # where the profile moves both


def test_no_command_trains_a_part_of_ones_own():
    experiment = Planned(TIED).experiment().change(encoder=Part("QRNN", {"units": [200]}))
    with pytest.raises(CourseError, match="has encoder of its own, as no command can ask for"):
        command(experiment)


def test_a_profile_of_a_family_holds_on_another_text(novel):
    docstrings = "docstrings/transformer-128/tied"
    own, plain = (Planned(docstrings, "standard", 1, c) for c in ({"corpus": str(novel)}, {}))
    assert own.experiment().optimisation == plain.experiment().optimisation


def test_a_plan_finds_the_text_beside_it(novel):
    path = novel.with_name("plan.toml")
    path.write_text(
        f'title = "t"\n[[runs]]\nrecipes = ["{TIED}"]\ncorpus = "{novel.name}"\n'
        'seeds = [1, 2]\nchange = {"corpus.pieces" = 70}\n',
        encoding="utf-8",
    )
    runs = read_plan(path).runs
    assert [r.change["corpus"] for r in runs] == [str(novel)] * 2
    assert runs[0].experiment().load_corpus().name.startswith("My novel")
    several = path.read_text(encoding="utf-8").replace(f'corpus = "{novel.name}"\n', "")
    grid = f'grid = {{"corpus" = ["{novel.name}", "ptb"]}}\n'
    (novel.parent / "both.toml").write_text(several.replace("seeds = [1, 2]\n", grid), "utf-8")
    with pytest.raises(CourseError, match="pieces"):  # which the Penn Treebank does not take
        read_plan(novel.parent / "both.toml")
    words = several.replace("seeds = [1, 2]\n", grid).replace("corpus.pieces", "encoder.units")
    (novel.parent / "both.toml").write_text(words, "utf-8")
    named = [run.experiment().corpus.kind for run in read_plan(novel.parent / "both.toml").runs]
    assert named == [str(novel), "ptb"]
    path.write_text(path.read_text(encoding="utf-8").replace("My novel", "Our novel"), "utf-8")
    with pytest.raises(CourseError, match="number 1: .*Our novel.txt does not exist"):
        read_plan(path)


def test_training_on_ones_own_text_from_the_command_line(novel, tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "home", lambda: tmp_path)
    monkeypatch.chdir(tmp_path)
    words = ["train", TIED, "--corpus", novel.name, "--pieces", "70", "--profile", "standard"]
    changes = {"optimisation.epochs": 1, "size": 8, "encoder.units": 8}
    options = [text for path, value in changes.items() for text in ("--change", f"{path}={value}")]
    done = CliRunner().invoke(application(), [*words, *options])
    assert done.exit_code == 0, done.output
    planned = Planned(TIED, "standard", 1, changes | {"corpus": str(novel), "corpus.pieces": 70})
    content = results.read_result(tmp_path / "runs" / planned.key)
    metrics = content["metrics"]
    assert metrics["test_word_perplexity"] > metrics["test_perplexity"] > 1
    assert "test word perplexity" in done.output
    # the trained model is asked in text, not in pieces
    folder = str(tmp_path / "runs" / planned.key)
    scored = CliRunner().invoke(application(), ["score", folder, "the rain fell"])
    assert "read as <unk>" not in scored.output and "pieces" in scored.output
    unknown = CliRunner().invoke(application(), ["score", folder, "the Жук fell"])
    assert "read as <unk>: Жук" in unknown.output
    written = CliRunner().invoke(application(), ["generate", folder, "the nigh", "--length", "9"])
    assert written.exit_code == 0 and written.output.startswith("the nigh")
    assert "▁" not in written.output
    refused = CliRunner().invoke(application(), ["train", "mine.json", "--pieces", "70"])
    assert "--pieces goes with a recipe's name" in str(refused.exception)


def test_a_translators_own_text_is_a_folder_of_pairs(novel, tmp_path, monkeypatch):
    """The errors name what `train` takes."""
    monkeypatch.chdir(tmp_path)
    translator = ["train", "multi30k/transformer-small/softmax", "--profile", "smoke", "--corpus"]
    refused = CliRunner().invoke(application(), [*translator, novel.name])
    assert "a translator, which needs a folder of sentence pairs" in str(refused.exception)
    pairs = tmp_path / "pairs"
    pairs.mkdir()
    for split in ("train", "valid", "test"):
        for suffix in ("fr", "en"):
            (pairs / f"{split}.{suffix}").write_text("a night\nthe rain fell\n" * 40, "utf-8")
    refused = CliRunner().invoke(application(), [*translator, "pairs"])
    assert "has no train.de and no valid.de and no test.de; sentence pairs need" in str(
        refused.exception
    )
    assert "--change corpus.direction=fr-en" in str(refused.exception)
    trained = []
    monkeypatch.setattr(course_lab, "run", lambda run, *_, **__: trained.append(run))
    told = ["pairs", "--change", "corpus.direction=fr-en"]
    done = CliRunner().invoke(application(), [*translator, *told])
    assert done.exit_code == 0, done.output
    assert trained[0].corpus.options["direction"] == "fr-en"


def test_a_result_that_is_in_the_way_is_not_to_be_deleted(novel, tmp_path):
    """A text of the same name elsewhere has its run in the same folder."""
    one, other = (Planned(TIED, "smoke", seed).experiment() for seed in (1, 2))
    results.write_result(tmp_path / "run", one, [], {}, {})
    with pytest.raises(CourseError, match="move that folder away, or give .* --folder") as refused:
        results.result_of(tmp_path / "run", other)
    assert "remove" not in str(refused.value)
