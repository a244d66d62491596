"""A run as a Hugging Face folder: loaded again by the course and by transformers, as it was."""

import json
import re
import shutil
import subprocess
import sys
import tomllib

import pytest
import torch
import yaml
from typer.testing import CliRunner

import course_lab
from course_lab import Experiment, load_checkpoint, part, results
from course_lab.cli import application
from course_lab.hugging_face import card, export, tokenizer
from course_lab.recipes import elsewhere
from course_lib.data import folders
from course_lib.errors import CourseError
from course_lib.evaluation.generation import draw, score
from course_lib.training import Optimisation

SMALL = {"train": 4_000, "valid": 300, "test": 300, "words": 60}
TEXT = "the array of the\nvalues is a\n"
SHORT = Optimisation(epochs=1, batch=4, length=10, learning_rate=0.5)
MODELS = {
    "lstm": {},
    "untied": {"tied": False},
    "spectral": {"words": part("SpectralWords")},
    "mixture": {"output_layer": part("MixtureOfSoftmaxes", components=2)},
    "transformer-xl": {"encoder": part("TransformerXL", layers=2, heads=2, head_size=4,
                                       feedforward=8, memory=10)},
    "qrnn": {"encoder": part("QRNN", units=[8, 8])},
}  # fmt: skip


def experiment(**changes):
    first = {
        "name": "tiny/lstm",
        "corpus": part("docstrings", small=SMALL),
        "encoder": part("VariationalLSTM", units=8, layers=1),
        "size": 8,
        "optimisation": SHORT,
    }
    return Experiment(**first | changes)


def run(folder, **changes):
    course_lab.run(experiment(**changes), folder, progress=False, device="cpu")
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return run(tmp_path_factory.mktemp("run") / "a")


@pytest.fixture(scope="module")
def exported(trained):
    return export.export(trained, trained.parent / "exported", licence="cc-by-4.0")


def call(*words):
    return CliRunner().invoke(application(), [str(word) for word in words])


# The course reads it -----------------------------------------------------------------------------


def test_the_course_reads_the_folder_as_it_reads_the_run(trained, exported):
    (model, vocabulary, _), (again, words, told) = map(load_checkpoint, (trained, exported))
    assert words.words == vocabulary.words and told.encoder.kind == "VariationalLSTM"
    assert score(again, words, TEXT).perplexity == score(model, vocabulary, TEXT).perplexity
    for command in (["score", "the array"], ["next", "the"], ["generate", "the"]):
        verb, text = command
        outputs = [call(verb, folder, text) for folder in (trained, exported)]
        assert outputs[0].exit_code == outputs[1].exit_code == 0
        assert outputs[0].output == outputs[1].output


def test_an_older_run_is_exported_with_the_text_that_is_named(trained, tmp_path, monkeypatch):
    named = []

    def noted(path, corpus=None):
        named.append(corpus)
        return load_checkpoint(path)

    monkeypatch.setattr(export, "load_checkpoint", noted)
    done = call("export", trained, tmp_path / "folder", "--corpus", "docstrings")
    assert done.exit_code == 0 and named == ["docstrings"], done.output


def test_the_matrix_of_the_folder_is_examined(trained, exported, tmp_path):
    done = call("examine", exported, "--out", tmp_path / "report")
    assert done.exit_code == 0, done.output
    assert "60 words × 8" in done.output and "recipe tiny/lstm" in done.output


def test_damage_is_noticed(exported, tmp_path):
    folder = tmp_path / "damaged"
    shutil.copytree(exported, folder)
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-3] ^= 1
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(CourseError, match="is damaged"):
        load_checkpoint(folder)


# transformers reads it ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_transformers_computes_the_same_probabilities(name, tmp_path):
    transformers = pytest.importorskip("transformers")
    folder = export.export(run(tmp_path / "run", **MODELS[name]), tmp_path / "exported")
    before = torch.random.get_rng_state()
    auto = transformers.AutoModelForCausalLM
    model, info = auto.from_pretrained(folder, trust_remote_code=True, output_loading_info=True)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    reader = transformers.AutoTokenizer.from_pretrained(folder)
    text = TEXT * 12  # longer than what is read at once
    batch = reader(text, return_tensors="pt")
    own, vocabulary, _ = load_checkpoint(folder)
    ids = [vocabulary.eos, *vocabulary.encode(text).tolist()]
    assert batch.input_ids[0].tolist() == ids and len(ids) > 64
    output = model(**batch, labels=batch.input_ids)
    expected = score(own, vocabulary, text)
    rows = output.logits[0, :-1].gather(1, batch.input_ids[0, 1:, None])[:, 0]
    torch.testing.assert_close(rows, expected.log_prob, rtol=1e-5, atol=1e-5)
    assert output.loss.exp().item() == pytest.approx(expected.perplexity, rel=1e-5)
    torch.testing.assert_close(output.logits[0].exp().sum(-1), torch.ones(len(ids)))
    # two texts at once, the shorter padded on the right
    pair = reader([text, "the array"], return_tensors="pt", padding=True)
    short = model(**reader("the array", return_tensors="pt")).logits[0]
    torch.testing.assert_close(model(**pair).logits[1, : len(short)], short)
    with pytest.raises(CourseError, match="pad on the right"):
        model(pair.input_ids, attention_mask=pair.attention_mask.flip(1))


def test_the_loss_of_batches_that_make_one_update_is_divided_once(exported):
    """Its Trainer hands the number of labels over, and then leaves the loss as it is."""
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(exported, trust_remote_code=True)
    ids = torch.arange(24).view(2, 12)
    labels = ids.clone()
    labels[1, 5:] = -100
    counted = int((labels[:, 1:] != -100).sum())
    rows = zip(ids.split(1), labels.split(1), strict=True)
    parts = [model(x, labels=y, num_items_in_batch=counted).loss for x, y in rows]
    torch.testing.assert_close(sum(parts), model(ids, labels=labels).loss)


def test_transformers_writes_the_likeliest_words(exported):
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(exported, trust_remote_code=True)
    reader = transformers.AutoTokenizer.from_pretrained(exported)
    prompt = reader("the array of", return_tensors="pt")
    ids = model.generate(**prompt, max_new_tokens=6, do_sample=False, eos_token_id=None)[0]
    own, vocabulary, _ = load_checkpoint(exported)
    drawn = draw(own, vocabulary, "the array of", 6, top_k=1)
    assert ids[prompt.input_ids.shape[1] :].tolist() == drawn


def test_transformers_saves_it_again(exported, tmp_path):
    transformers = pytest.importorskip("transformers")
    auto = transformers.AutoModelForCausalLM
    model = auto.from_pretrained(exported, trust_remote_code=True)
    with torch.no_grad():
        model.model.words.weight += 0.5
    model.save_pretrained(tmp_path / "again")
    again = auto.from_pretrained(tmp_path / "again", trust_remote_code=True)
    ids = torch.tensor([[1, 2, 3]])
    torch.testing.assert_close(again(ids).logits, model(ids).logits)
    assert again.model.words is again.model.output_layer.words


def test_without_trust_the_class_is_that_of_the_package(exported):
    transformers = pytest.importorskip("transformers")
    from course_lab.hugging_face.model import CourseForCausalLM

    model = transformers.AutoModelForCausalLM.from_pretrained(exported)
    assert type(model) is CourseForCausalLM


def test_a_text_in_pieces_has_the_same_ids(tmp_path):
    lines = [
        "It was a dark night; the rain fell, and nobody came.\n",
        "“Who’s   there?” said he.\n",
    ]
    path = tmp_path / "novel.txt"
    path.write_text("".join(lines) * 300, encoding="utf-8")
    e = experiment(name="novel/lstm", corpus=part(str(path), pieces=70))
    course_lab.run(e, tmp_path / "run", progress=False, device="cpu")
    folder = export.export(tmp_path / "run", tmp_path / "exported", language="en")
    own, vocabulary, told = load_checkpoint(folder)
    assert str(tmp_path) not in (folder / "config.json").read_text("utf-8")
    assert str(tmp_path) not in (folder / "README.md").read_text("utf-8")
    assert told.corpus.kind == "novel.txt"
    reader = tokenizer.tokenizer_of(vocabulary)
    texts = [*lines, "".join(lines), "the  rain\n\nfell ▁ here", "Ж and Ω?", "\n", "cafe\u0301 x"]
    for text in texts:
        ids = [
            min(i, vocabulary.unk) if i >= len(vocabulary) else i for i in reader.encode(text).ids
        ]
        assert ids == [vocabulary.eos, *vocabulary.encode(text).tolist()], text
    transformers = pytest.importorskip("transformers")
    auto = transformers.AutoTokenizer.from_pretrained(folder)
    for text in texts:
        assert auto(text).input_ids == reader.encode(text).ids, text
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)
    batch = auto(texts[4], return_tensors="pt")  # with pieces that the model lacks
    loss = model(**batch, labels=batch.input_ids).loss
    assert loss.exp().item() == pytest.approx(score(own, vocabulary, texts[4]).perplexity, rel=1e-5)


def test_a_translator_is_exported_for_the_course(tmp_path):
    e = course_lab.profile(course_lab.recipes["cldr/transformer-tiny"], "smoke")
    course_lab.run(e, tmp_path / "run", progress=False, device="cpu")
    done = call("export", tmp_path / "run", tmp_path / "exported")
    assert done.exit_code == 0, done.output
    folder = tmp_path / "exported"
    assert not (folder / "modeling_course.py").exists()
    outputs = [call("translate", f, "am 3. Mai") for f in (tmp_path / "run", folder)]
    assert outputs[0].output == outputs[1].output and outputs[1].exit_code == 0
    head = front(folder)
    assert head["pipeline_tag"] == "translation" and head["language"] == ["de", "en"]
    assert {m["type"] for r in head["model-index"][0]["results"] for m in r["metrics"]} == {
        "perplexity", "bleu",
    }  # fmt: skip


# The card ----------------------------------------------------------------------------------------


def front(folder):
    """Return the YAML head of a folder's card."""
    text = (folder / "README.md").read_text("utf-8")
    _, head, _ = text.split("---\n", 2)
    return yaml.safe_load(head)


def test_the_card_has_the_measured_figures(trained, exported):
    content = results.read_result(trained)
    head = front(exported)
    assert head["license"] == "cc-by-4.0" and head["language"] == ["en"]
    assert head["library_name"] == "course-lib" and head["metrics"] == ["perplexity"]
    (entry,) = head["model-index"]
    told = {r["dataset"]["split"]: r["metrics"][0]["value"] for r in entry["results"]}
    assert told == {
        "validation": content["metrics"]["valid_perplexity"],
        "test": content["metrics"]["test_perplexity"],
    }
    text = (exported / "README.md").read_text("utf-8")
    assert f"| perplexity of a token | test | {content['metrics']['test_perplexity']:.2f} |" in text
    assert f"a language model of {content['metrics']['parameters']:,} parameters" in text
    cosine = content["metrics"]["geometry"]["mean_cosine"]
    assert f"| mean cosine of the word matrix | | {cosine:.4g} |" in text
    for value in (content["provenance"]["commit"], content["sha256"], "60 words"):
        assert value in text
    assert "is no result" in text and "The weights are under the licence `cc-by-4.0`" in text
    for digest in content["provenance"]["corpus_sha256"].values():
        assert digest in text
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings == [
        "How to use it", "Intended use", "Training data", "Training", "Figures", "Limits",
        "Where it comes from",
    ]  # fmt: skip


@pytest.mark.parametrize("licence", ["nonsense licence", "CC-BY", "", "mit\n"])
def test_what_is_no_name_of_a_licence_is_refused(trained, tmp_path, licence):
    with pytest.raises(CourseError, match="no name of a licence .*such as cc-by-4.0"):
        export.export(trained, tmp_path / "new", licence=licence)
    assert not (tmp_path / "new").exists()


def test_a_licence_is_not_made_up(trained, tmp_path):
    folder = export.export(trained, tmp_path / "exported")
    assert front(folder)["license"] == "other"
    assert front(folder)["license_name"] == "not-stated"
    assert "Nobody has stated a licence" in (folder / "README.md").read_text("utf-8")


def test_what_the_card_says_of_an_adapted_model():
    e = course_lab.recipes["wikitext-2/awd-lstm/softmax/continuous-cache"]
    content = {"test_perplexity": 50.0}
    assert "with `ContinuousCache` at test time" in card._figures(e, content)
    assert "CC BY-SA" in card._data(e, {})


def test_a_text_of_ones_own_has_no_licence_of_the_course(tmp_path):
    """Also where its folder is called as a text of the course."""
    own = export._elsewhere(experiment(corpus=part(str(tmp_path / "ptb"))))
    text = card._data(own, {})
    assert "`ptb`" in text and "of whose licence nothing is stated" in text
    assert card.languages_of(own.corpus) == [] and str(tmp_path) not in str(own.to_dict())
    assert export._elsewhere(experiment(corpus=part("ptb"))).corpus.kind == "ptb"


def test_the_card_tells_how_the_course_is_installed(exported, monkeypatch):
    """With the laboratory, which reads the folder, and by no path of this machine."""
    project = tomllib.loads((folders.REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    address = project["urls"]["Repository"]
    text = (exported / "README.md").read_text("utf-8")
    assert f'pip install "course-lib[lab] @ git+{address}"\n' in text

    def not_installed(name):
        raise card.PackageNotFoundError(name)

    monkeypatch.setattr(card, "metadata", not_installed)
    assert card.repository() == address


# The reader's errors -----------------------------------------------------------------------------


def test_what_cannot_be_exported_is_refused_and_leaves_nothing(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "home", lambda: tmp_path)
    taken = tmp_path / "taken"
    taken.mkdir()
    with pytest.raises(CourseError, match="taken exists; choose a new folder"):
        export.export(trained, taken)
    with pytest.raises(
        CourseError, match="no run or checkpoint nowhere, and no run is .* train RECIPE"
    ):
        export.export("nowhere", tmp_path / "new")
    begun = tmp_path / "begun"
    begun.mkdir()
    shutil.copy(trained / "last.safetensors", begun)
    with pytest.raises(CourseError, match="run in .*begun is not finished"):
        export.export(begun, tmp_path / "new")
    shutil.copy(trained / "result.json", begun)
    with pytest.raises(CourseError, match="has a result but not its weights"):
        export.export(begun, tmp_path / "new")
    twins = [elsewhere.OwnFile(tmp_path / x / "mine.py", "", ()) for x in "ab"]
    with monkeypatch.context() as patch, pytest.raises(CourseError, match="of one name: .*mine.py"):
        patch.setattr(elsewhere, "files_of", lambda experiment: twins)
        export.export(trained, tmp_path / "new")
    monkeypatch.setattr(card, "card", lambda *a: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export.export(trained, tmp_path / "new")
    assert not [p for p in tmp_path.iterdir() if "new" in p.name]


def test_a_run_is_named_by_its_key(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "home", lambda: tmp_path)
    shutil.copytree(trained, tmp_path / "runs" / "tiny" / "lstm" / "full-seed1")
    done = call("export", "tiny/lstm/full-seed1", tmp_path / "new")
    assert done.exit_code == 0 and "model.safetensors" in done.output
    with pytest.raises(
        CourseError, match="no run or checkpoint tiny/lstm; finished runs .*: tiny/lstm/full-seed1"
    ):
        export.export("tiny/lstm", tmp_path / "other")
    # and so for the commands that question a run, from whatever folder
    monkeypatch.chdir(tmp_path / "new")
    for command in ("score", "next", "generate"):
        done = call(command, "tiny/lstm/full-seed1", "the")
        assert done.exit_code == 0, done.output
        refused = call(command, "tiny/lstm", "the")
        assert "finished runs below" in str(refused.exception)
    done = call("examine", "tiny/lstm/full-seed1", "--out", tmp_path / "report")
    assert done.exit_code == 0, done.output
    refused = call("examine", "tiny/lstm/full-seed2")
    assert "no run or checkpoint tiny/lstm/full-seed2; finished runs" in str(refused.exception)


def test_a_part_of_ones_own_comes_along_and_is_named_to_be_read(tmp_path):
    """A folder decides no code that is run."""
    file = tmp_path / "my_recipes.py"
    file.write_text(
        "from torch import nn\n"
        "from course_lab import part, recipes\n"
        "from course_lab.parts import enter\n"
        "from course_lab.recipes import add\n"
        "class Own(nn.Module):\n"
        "    def __init__(self, input_size: int):\n"
        "        super().__init__()\n"
        "        self.layers = nn.GRU(input_size, input_size)\n"
        "        self.output_size = input_size\n"
        "    def forward(self, x, state=None):\n"
        "        return self.layers(x, state)\n"
        "enter('encoder', Own)\n"
        "base = recipes['ptb/vd-lstm-200/tied']\n"
        "add(base, name='mine/own', source='', size=8, encoder=part('Own'))\n"
    )

    def apart(*words):
        """In a process of its own, which knows no part that it was not told of."""
        command = [sys.executable, "-m", "course_lab", *words]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    train = apart("train", "my_recipes.py:mine/own", "--profile", "smoke", "--folder", "r")
    assert train.returncode == 0, train.stderr
    digest = results.read_result(tmp_path / "r")["provenance"]["own_files"]["my_recipes.py"]
    refused = apart("export", "r", "new")
    assert refused.returncode == 2 and "--with my_recipes.py" in refused.stderr
    done = apart("export", "r", "new", "--with", "my_recipes.py")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "new" / "README.md").read_text("utf-8")
    assert "--with my_recipes.py" in text and digest in text
    asked = apart("next", "new", "the", "--with", "new/my_recipes.py")
    assert asked.returncode == 0, asked.stderr
    assert json.loads((tmp_path / "new" / "config.json").read_text())["experiment"]
