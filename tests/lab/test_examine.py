"""An examination names the disease of matrices made ill on purpose, reads what people have, and
writes one report or none."""

import hashlib
import html.parser
import io
import itertools
import json
import re
import warnings
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from typer.testing import CliRunner

import course_lab
from course_lab import corpora, examine, part, plots
from course_lab.cli import application
from course_lab.examine import (
    course_runs,
    diagnose,
    diseased,
    examination,
    figures,
    frequency_groups,
    graded_series,
    measures,
    repairs,
    tensor_files,
    unargmaxable,
)
from course_lab.examine import frequencies as counting
from course_lab.examine import report as reports
from course_lab.examine.findings import NAMED
from course_lab.examine.graded import DISEASES, collapsed, zipf_counts
from course_lab.examine.groups import fair, sample
from course_lab.examine.repairs import REPAIRS, perplexities
from course_lab.examine.rogue_dimensions import outstanding
from course_lab.examine.weighted import BY
from course_lib.errors import CourseError
from course_lib.evaluation.perplexity import perplexity
from course_lib.metrics import geometry, subspaces
from course_lib.metrics.registry import METRICS, Figure, Metric
from course_lib.training import Optimisation
from course_lib.training.checkpoint import load_checkpoint as read_checkpoint
from course_lib.training.checkpoint import save_checkpoint

NAMED_AS = {"drift": "common_direction", "cone": "common_direction"}  # of which they are forms
EXPECTED = {"collapsed": "cone"}  # everything is wrong with it, the narrow cone most of all


def gaussian(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def turned(W, seed=1):
    return W @ torch.linalg.qr(gaussian(W.shape[1], W.shape[1], seed=seed)).Q


def severities(W, groups=None):
    return {finding.name: finding.severity for finding in diagnose(W, groups).findings}


# --- the verdict ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 100])
@pytest.mark.parametrize("shape", [(2000, 64), (300, 16), (300, 128), (8000, 16), (1000, 200)])
def test_the_graded_series_is_named_and_ranked(shape, seed):
    """Twelve matrices from healthy to collapsed: the right name first, the strong one worse than
    the weak one, and none as bad as the collapsed one."""
    overall = {}
    for one in graded_series(*shape, seed=seed):
        found = diagnose(one.W, frequency_groups(one.counts))
        assert found.name == EXPECTED.get(one.disease, one.disease), found.sentence
        overall[one.disease, one.strength] = found.severity
    assert len(overall) == 12
    assert overall["healthy", 0.0] < min(v for (name, _), v in overall.items() if name != "healthy")
    for disease in DISEASES[:5]:
        assert overall[disease, 0.3] < overall[disease, 0.8] < overall["collapsed", 0.99]


@pytest.mark.parametrize("shape", [(300, 768), (50_000, 16)])
def test_the_extremes_of_shape(shape):
    for disease in ("healthy", *DISEASES):
        one = diseased(disease, 0.5, *shape, seed=3)
        found = diagnose(one.W.float(), frequency_groups(one.counts))
        assert found.name == disease, found.sentence
        if disease in ("drift", "cone", "frequency_split"):
            severity = found[NAMED_AS.get(disease, disease)].severity
            assert severity == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("disease", DISEASES)
def test_a_severity_grows_with_the_disease_and_is_its_share(disease):
    """Weakly ill matrices without counts too, but for the split, of which they say nothing."""
    values, strengths = [], [0.05, 0.15, 0.4, 0.7, 0.95]
    for strength in strengths:
        one = diseased(disease, strength, 1500, 48, seed=7)
        groups = frequency_groups(one.counts)
        values.append(diagnose(one.W, groups)[NAMED_AS.get(disease, disease)].severity)
        if strength >= 0.4 and disease != "frequency_split":
            assert diagnose(one.W).name == disease
    assert values == sorted(values)
    assert values == pytest.approx(strengths, abs=0.2)


@given(st.integers(300, 1500), st.integers(16, 96), st.integers(0, 9))
@settings(deadline=None, max_examples=25)
def test_chance_alone_stays_below_half_of_what_is_named(N, d, seed):
    groups = frequency_groups(zipf_counts(N))
    even = torch.rand(N, d, generator=torch.Generator().manual_seed(seed)) - 0.5
    for W in (gaussian(N, d, seed=seed), even):
        assert max(severities(W, groups).values()) < NAMED / 2
        assert diagnose(W).name == "healthy"


def test_few_words_in_few_dimensions_have_no_place_of_their_own_by_chance():
    """Of sixty round clouds this small, some are apart by more than chance adds on average."""
    groups = frequency_groups(zipf_counts(300))
    draws = (torch.Generator().manual_seed(seed) for seed in range(60))
    clouds = (torch.rand(300, 16, generator=draw) - 0.5 for draw in draws)
    assert max(severities(W, groups)["frequency_split"] for W in clouds) < NAMED / 2


def other_matrices(N, d):
    """(name, W) by recipes that have nothing to do with `diseased`."""
    for degrees in (60, 40, 20, 5):
        across = torch.nn.functional.normalize(gaussian(N, d - 1), dim=1)
        angle = torch.full((N, 1), float(np.radians(degrees)), dtype=torch.float64)
        fixed = torch.cat([angle.cos(), angle.sin() * across], 1)
        angle = angle * torch.rand(N, 1, dtype=torch.float64)
        within = torch.cat([angle.cos(), angle.sin() * across], 1)
        yield from (("cone", W) for W in (fixed, turned(fixed), turned(within)))
        yield "cone", turned(fixed) * (0.5 + torch.rand(N, 1))
    for offset in (0.5, 2.0):
        yield "drift", gaussian(N, d) + offset
        yield "drift", torch.rand(N, d, dtype=torch.float64) - 0.5 + 0.3 * offset
    for k, size in ((1, 6), (1, 20), (2, 6), (3, 10)):
        stretched, moved = gaussian(N, d), gaussian(N, d)
        stretched[:, 2 : 2 + k] *= size
        moved[:, 2 : 2 + k] += size
        yield from (("rogue", W) for W in (stretched, moved))
    for decay in (0.9, 0.7, 0.5):
        W = gaussian(N, d) * decay ** torch.arange(d)
        yield from (("low_rank", W), ("low_rank", turned(W)))
    for rank in (1, 2, 4):
        low = gaussian(N, rank) @ gaussian(rank, d, seed=4)
        yield "low_rank", low + 0.05 * gaussian(N, d, seed=5)
    for push in (1, 2):
        W = gaussian(N, d)
        W[N // 5 :] += push * gaussian(d, seed=6)
        yield "frequency_split", W
    W = 0.05 * gaussian(N, d) + gaussian(d, seed=6)
    W[: N // 10] = gaussian(N // 10, d)
    yield "frequency_split", W
    for factor in (0.0, 0.1, 0.2):
        W = gaussian(N, d)
        W[::2] *= factor
        yield "norm_collapse", W


@pytest.mark.parametrize("shape", [(1000, 64), (2000, 16)])
def test_matrices_made_ill_in_other_ways(shape):
    torch.manual_seed(0)
    groups = frequency_groups(zipf_counts(shape[0]))
    for number, (name, W) in enumerate(other_matrices(*shape)):
        found = diagnose(W, groups)
        assert found.name == name, (number, found.sentence)


def test_severities_are_closed_forms():
    N, d = 4000, 32
    across = torch.nn.functional.normalize(gaussian(N, d - 1), dim=1)
    cone = torch.cat([torch.full((N, 1), 3**0.5 / 2, dtype=torch.float64), across / 2], 1)
    found = diagnose(cone)
    assert found["common_direction"].severity == pytest.approx(0.75, abs=1e-3)  # cos² 30°
    assert found["common_direction"].numbers["aperture"] == pytest.approx(30, abs=0.5)
    drift = gaussian(N, d) + 1.0  # ‖m‖² = d of 2 d
    assert diagnose(drift)["common_direction"].severity == pytest.approx(0.5, abs=0.01)
    flat = gaussian(N, 4) @ torch.linalg.qr(gaussian(d, 4)).Q.T
    assert diagnose(flat)["low_rank"].severity == pytest.approx(1 - 4 / d, abs=0.03)
    rogue = gaussian(N, d)
    rogue[:, :2] += 40.0  # of ‖ŵ‖² all but 30 in 3,230
    assert diagnose(rogue)["rogue"].severity == pytest.approx(1 - 30 / 3230 - 2 / d, abs=1e-3)
    assert diagnose(rogue)["rogue"].numbers["offset"] > 0.99
    short = gaussian(N, d)
    short[: N // 4] = 0.0
    assert diagnose(short)["norm_collapse"].severity == pytest.approx(0.25, abs=1e-3)
    short[: N // 4] = 0.2 * gaussian(N // 4, d)  # what is seen is what the severity counts
    collapse = diagnose(short)["norm_collapse"]
    assert collapse.holds and "; 25% of the words are shorter than half" in collapse.seen
    assert collapse.numbers["below_half"] == pytest.approx(0.25, abs=1e-3)
    split = torch.nn.functional.normalize(gaussian(N, d), dim=1)
    split[N // 2 :] += turned(torch.eye(d, dtype=torch.float64))[0]  # half of ‖ŵ‖²
    groups = frequency_groups(zipf_counts(N))
    assert severities(split, groups)["frequency_split"] == pytest.approx(0.5, abs=0.02)


def test_what_does_not_matter():
    """Scale, order of the rows and, but for rogue dimensions, the axes."""
    one = diseased("cone", 0.4, 600, 24, seed=2)
    groups = frequency_groups(one.counts)
    expected = severities(one.W, groups)
    assert severities(1e-20 * one.W, groups) == pytest.approx(expected, abs=1e-9)
    assert severities(turned(one.W), groups) == pytest.approx(expected, abs=1e-9)
    order = torch.randperm(600)
    again = severities(one.W[order], frequency_groups(one.counts[order]))
    assert again == pytest.approx(expected, abs=1e-9)
    rogue = diseased("rogue", 0.8, 600, 24, seed=2)
    assert diagnose(rogue.W).name == "rogue" and diagnose(turned(rogue.W)).name == "low_rank"


def test_a_cloud_turned_at_random_has_no_rogue_dimensions():
    """Not even one of one or two directions in few dimensions, where a coordinate may hold much."""
    for seed in range(60):
        flat = gaussian(200, 1 + seed % 2, seed=seed) @ gaussian(1 + seed % 2, 12, seed=seed + 1)
        assert severities(flat + 0.01 * gaussian(200, 12))["rogue"] == 0


def test_several_findings_hold_at_once():
    """A rogue coordinate explains its share and leaves the rest to the rest."""
    one = diseased("drift", 0.5, 2000, 64, seed=1)
    W = one.W.clone()
    W[:, 5] += 12.0
    found = diagnose(W)
    assert [f.form or f.name for f in found.named] == ["rogue", "drift"] and found[
        "rogue"
    ].grade == "marked"
    assert found["rogue"].numbers["coordinates"] == [5]
    drift = found["common_direction"].severity
    assert drift == pytest.approx(0.5 * (1 - found["rogue"].severity), abs=0.02)
    assert found.severity > found["rogue"].severity
    assert found.sentence.startswith("A few rogue dimensions (marked")
    for finding in found.findings:
        assert 0 <= finding.severity <= 1 and finding.reason and finding.remedy and finding.seen


def test_degenerate_matrices_have_a_verdict_or_a_reason():
    same = torch.ones(50, 8) * torch.arange(1, 9)
    assert diagnose(same).name == "cone" and diagnose(same).severity > 0.99
    with pytest.raises(CourseError, match="every row of the matrix is zero"):
        diagnose(torch.zeros(50, 8))
    with pytest.raises(CourseError, match="too small to judge"):
        diagnose(torch.zeros(10, 8))


def test_rogue_dimensions_of_a_large_model():
    """Sets of 172 dimensions of 4096 are more than a float can count."""
    moment = torch.ones(4096, dtype=torch.float64)
    moment[:180] = 50.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(outstanding(moment.diag(), 204)) > 0
        assert len(outstanding(torch.eye(4096, dtype=torch.float64), 204)) == 0


@pytest.mark.parametrize("height, stand_out", [(1.4, False), (1.6, True)])
def test_rogue_dimensions_hold_half_as_much_again_as_the_average(height, stand_out):
    """Chance explains neither of the two: in so many dimensions it moves a share by little."""
    moment = torch.ones(4096, dtype=torch.float64)
    moment[:180] = height
    assert bool(len(outstanding(moment.diag(), 204))) == stand_out


@pytest.mark.parametrize("rows", ["zero", "equal", "one"])
def test_degenerate_matrices_are_examined_or_refused_with_the_reason(tmp_path, rows):
    W = {"zero": np.zeros((50, 8)), "equal": np.ones((50, 8)), "one": np.eye(50, 8) * 0}[rows]
    if rows == "one":
        W[7] = 1.0
    np.save(tmp_path / "W.npy", W)
    if rows == "zero":
        with pytest.raises(CourseError, match="zero"):
            examine.examine(tmp_path / "W.npy")
    else:
        found = examine.examine(tmp_path / "W.npy")
        assert found.metrics["IsoScore"] == pytest.approx(0, abs=1e-9)
        assert (found.repairs["centring"]["verdict"] == "Nothing is left.") == (rows == "equal")


@pytest.mark.parametrize("shape", [(400, 60), (60, 400)])
def test_random_spectrum_is_that_of_a_gaussian_matrix(shape):
    """Its energy is N d, its edges √N ± √d, and it agrees with a matrix that was made."""
    values = examine.random_spectrum(*shape)
    made = np.linalg.svd(np.random.default_rng(1).standard_normal(shape), compute_uv=False)
    assert values.shape == made.shape and (np.diff(values) <= 0).all()
    assert (values**2).sum() == pytest.approx(shape[0] * shape[1], rel=0.03)
    np.testing.assert_allclose(values, made, rtol=0.05, atol=0.5)
    edges = 400**0.5 + 60**0.5, 400**0.5 - 60**0.5
    assert values[[0, -1]] == pytest.approx(edges, rel=0.06)


def test_rare_and_frequent_words():
    counts = zipf_counts(20_000)
    groups = frequency_groups(counts)
    rare = np.flatnonzero(counts < 1e-4 * counts.sum())
    assert groups.frequent.tolist() == list(range(500)) and "1 in 10,000" in groups.rule
    np.testing.assert_array_equal(groups.rare, rare)
    np.testing.assert_array_equal(np.sort(np.concatenate(groups.bands())), np.arange(20_000))
    small = frequency_groups(zipf_counts(300).flip(0))  # the last rows are the frequent ones
    assert small.frequent.tolist() == list(range(299, 269, -1))
    np.testing.assert_array_equal(small.rare, np.arange(150))
    some = groups.sampled(np.arange(0, 20_000, 10))  # of a sample: by the whole corpus
    np.testing.assert_array_equal(some.frequent, np.arange(50))
    np.testing.assert_array_equal(some.rare, np.flatnonzero(counts[::10] < 1e-4 * counts.sum()))
    np.testing.assert_array_equal(some.order, np.arange(2000))
    for equal in (torch.ones(100), torch.zeros(100)):
        with pytest.raises(CourseError, match="too equal"):
            frequency_groups(equal)
    with pytest.raises(CourseError, match="one finite number"):
        frequency_groups([1.0, float("nan")] * 20)


@pytest.mark.parametrize("counts", [[3.0] * 8 + [1.0] * 7, [5.0] * 20 + [-1.0], [[1.0, 2.0]] * 20])
def test_counts_that_are_none_are_refused(counts):
    with pytest.raises(CourseError, match="one finite number, 0 or more, for each of 16 words"):
        frequency_groups(counts)


def test_no_word_is_both_rare_and_frequent():
    """Of a text of very many words even the frequent ones may be below 1 in 10,000 tokens."""
    counts = np.repeat([2.2, 1.0], [500, 25_000])
    groups = frequency_groups(counts)
    assert (counts < 1e-4 * counts.sum()).all() and len(groups.frequent) == 500
    assert not set(groups.rare) & set(groups.frequent)
    assert len(groups.rare) == 25_000


def test_frequent_words_fill_at_most_half_of_a_sample():
    """Else a small sample would have no rare word in it, and nothing could be said of them."""
    groups = frequency_groups(zipf_counts(20_000))
    drawn = sample(20_000, 300, groups, seed=0)
    assert len(set(drawn)) == 300 and (np.diff(drawn) > 0).all()
    of_sample = groups.sampled(drawn)
    np.testing.assert_array_equal(drawn[of_sample.frequent], np.arange(150))  # the most frequent
    assert len(of_sample.rare) > 50
    all_frequent = sample(20_000, 2_000, groups, seed=0)
    assert set(groups.frequent) <= set(all_frequent) and len(set(all_frequent)) == 2_000
    assert len(set(sample(20_000, 300, None, seed=0))) == 300


def test_bands_have_two_words_or_more():
    groups = frequency_groups(zipf_counts(16))  # two are frequent, fourteen are not
    frequent, *others = groups.bands()
    assert len(frequent) == 2 and [len(band) for band in others] == [2] * 7


# --- reading matrices ----------------------------------------------------------------------------

N, D = 60, 16
W = gaussian(N, D, seed=3).float()
OTHER = gaussian(N, D, seed=4).float()


def folder_of(path, config, tensors, **options):
    """A Hugging Face folder, by hand."""
    path.mkdir(exist_ok=True)
    if config is not None:
        (path / "config.json").write_text(json.dumps({"vocab_size": N} | config))
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    save_file(tensors, path / "model.safetensors", {"format": "pt"}, **options)
    return path


def bert():
    body = {"bert.embeddings.position_embeddings.weight": torch.randn(32, D)}
    body["bert.embeddings.token_type_embeddings.weight"] = torch.randn(2, D)
    body["bert.encoder.layer.0.attention.output.dense.weight"] = torch.randn(D, D)
    body["bert.encoder.layer.0.output.dense.weight"] = torch.randn(D, N)  # feed-forward size N
    body["cls.predictions.bias"] = torch.zeros(N)
    return {"architectures": ["BertForMaskedLM"]}, body, "bert.embeddings.word_embeddings.weight"


def gpt2():
    body = {"transformer.wpe.weight": torch.randn(128, D), "transformer.ln_f.weight": torch.ones(D)}
    body["transformer.h.0.attn.c_attn.weight"] = torch.randn(D, 3 * D)
    return {"architectures": ["GPT2LMHeadModel"]}, body, "transformer.wte.weight"


def llama(tied):
    body = {"model.layers.0.self_attn.q_proj.weight": torch.randn(D, D)}
    body["model.layers.0.mlp.down_proj.weight"] = torch.randn(D, 40)
    body["model.norm.weight"] = torch.ones(D)
    body["model.embed_tokens.weight"] = W if tied else OTHER
    config = {"architectures": ["LlamaForCausalLM"], "tie_word_embeddings": tied}
    return config, body, "model.embed_tokens.weight" if tied else "lm_head.weight"


@pytest.mark.parametrize("kind", [bert(), gpt2(), llama(True), llama(False)])
def test_hugging_face_folders(tmp_path, kind):
    config, body, name = kind
    source = examine.read(folder_of(tmp_path / "model", config, body | {name: W}))
    assert (source.name, source.kind) == (name, "Hugging Face model")
    assert source.tied is (name != "lm_head.weight") and not source.transposed
    assert torch.equal(source.W, W) and source.folder == tmp_path / "model"
    digest = hashlib.sha256((tmp_path / "model" / "model.safetensors").read_bytes()).hexdigest()
    assert source.sha256 == {"model.safetensors": digest}


def test_tying_is_told_from_the_config_and_from_the_head(tmp_path):
    config, body, name = llama(True)
    same = examine.read(folder_of(tmp_path / "a", config, body | {"lm_head.weight": W.clone()}))
    assert same.tied and "equals the input embedding" in same.notes[0]
    differs = examine.read(folder_of(tmp_path / "b", config, body | {"lm_head.weight": OTHER}))
    assert differs.tied is False and "config.json says tied, but" in differs.notes[0]
    assert torch.equal(differs.W, OTHER)
    lacking = config | {"tie_word_embeddings": False}
    source = examine.read(folder_of(tmp_path / "c", lacking, body))
    assert source.tied is False and "holds no output matrix" in source.notes[0]
    headless = examine.read(
        folder_of(tmp_path / "d", {"architectures": ["LlamaModel"]}, {"embed_tokens.weight": W})
    )
    assert headless.tied is None and "LlamaModel has no output layer" in headless.notes[0]
    alone = folder_of(tmp_path / "e", None, {"lm_head.weight": W, "embed_tokens.weight": OTHER})
    assert examine.read(alone).kind == "safetensors file" and examine.read(alone).tied is False
    reading = examine.read(alone, "embed_tokens")
    assert (
        reading.tied is False and "the output matrix of this model is lm_head" in reading.notes[0]
    )
    deep = {"model.layers.0.attention.output.weight": torch.randn(D, D), "model.wte.weight": W}
    assert examine.read(folder_of(tmp_path / "g", None, deep)).name == "model.wte.weight"
    whole = torch.ones(N, D, dtype=torch.int8)
    for says in (lacking, config):
        kept = examine.read(folder_of(tmp_path / "h", says, body | {"lm_head.weight": whole}))
        assert kept.tied is (None if says is config else False) and kept.predicts is False
        assert "the output matrix lm_head.weight is of type I8, which is not" in kept.notes[0]
    nested = {"text_config": {"vocab_size": N, "tie_word_embeddings": False}, "vocab_size": None}
    assert examine.read(folder_of(tmp_path / "f", nested, body)).tied is False


def test_a_matrix_that_is_named_need_not_be_of_words(tmp_path):
    config, body, name = gpt2()
    body = body | {name: W, "transformer.h.0.mlp.c_fc.weight": torch.randn(D, 4 * D)}
    folder = folder_of(tmp_path / "model", config, body)
    other = examine.read(folder, "mlp.c_fc")
    assert (other.tied, other.predicts) == (None, None)
    assert any("its name does not tell whether it predicts words" in note for note in other.notes)
    own = examine.read(folder, "wte")
    assert (own.tied, own.predicts, own.notes) == (True, True, ())


def test_a_matrix_may_be_stored_by_columns(tmp_path):
    """N is known from the config, from counts, from the other tensors, or larger than d."""
    config, body, _ = llama(False)
    across = examine.read(folder_of(tmp_path / "a", config, body | {"lm_head.kernel": W.T}))
    assert across.transposed and torch.equal(across.W, W)
    assert len(examine.read(tmp_path / "a", words=D).W) == N  # the config knows better than counts
    byte_level = {"lm_head.weight": torch.randn(10, 24), "layer.weight": torch.randn(24, 24)}
    file = folder_of(tmp_path / "b", None, byte_level | {"norm.weight": torch.ones(24)})
    assert not examine.read(file).transposed and len(examine.read(file).W) == 10
    alone = folder_of(tmp_path / "c", None, {"anything": W.T})
    assert examine.read(alone).transposed
    assert not examine.read(alone, words=D).transposed


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float8_e4m3fn])
def test_smaller_types_are_widened(tmp_path, dtype):
    save_file({"wte.weight": W.to(dtype)}, tmp_path / "half.safetensors")
    source = examine.read(tmp_path / "half.safetensors")
    assert source.W.dtype == torch.float32 and torch.equal(source.W, W.to(dtype).float())
    save_file({"wte.weight": W.double()}, tmp_path / "double.safetensors")
    assert examine.read(tmp_path / "double.safetensors").W.dtype == torch.float64


def test_a_sharded_checkpoint(tmp_path, monkeypatch):
    """The index leads to the shard; no other tensor than the matrices asked for is read."""
    config, body, name = llama(False)
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": N} | config))
    files = {
        "model-00001-of-00002.safetensors": body,
        "model-00002-of-00002.safetensors": {name: W},
    }
    for file, tensors in files.items():
        save_file(tensors, tmp_path / file)
    shards = {tensor: file for file, tensors in files.items() for tensor in tensors}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": shards}))
    read = []
    tensor = tensor_files.TensorFiles.tensor
    noted = lambda self, name: read.append(name) or tensor(self, name)  # noqa: E731
    monkeypatch.setattr(tensor_files.TensorFiles, "tensor", noted)
    for path in (tmp_path, index):
        source = examine.read(path)
        assert torch.equal(source.W, W) and source.tied is False
        assert set(read) == {name, "model.embed_tokens.weight"}
        assert set(source.sha256) == {"model-00002-of-00002.safetensors", index.name}
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(CourseError, match="files that are missing: model-00002"):
        examine.read(tmp_path)
    index.write_text("{}")
    with pytest.raises(CourseError, match="it has no weight_map"):
        examine.read(tmp_path)


def sharded(folder, weight_map):
    """A folder with two shards that both hold lm_head.weight, and an index with `weight_map`."""
    folder.mkdir()
    save_file({"lm_head.weight": W}, folder / "a.safetensors")
    stale = {"lm_head.weight": OTHER, "stale.wte.weight": OTHER + 1, "b.norm": torch.ones(D)}
    save_file(stale, folder / "b.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    return index


def test_the_weight_map_says_which_shard_holds_a_tensor(tmp_path):
    """A shard may hold an older matrix of the same name; what the map leaves out is not there."""
    weight_map = {"lm_head.weight": "a.safetensors", "b.norm": "b.safetensors"}
    index = sharded(tmp_path / "model", weight_map)
    source = examine.read(tmp_path / "model")
    assert torch.equal(source.W, W) and set(source.sha256) == {"a.safetensors", index.name}
    with pytest.raises(CourseError, match="unknown matrix in .*'stale.wte'"):
        examine.read(index, "stale.wte")
    wrong = sharded(tmp_path / "wrong", {"wte.weight": "a.safetensors"})
    with pytest.raises(CourseError, match="says that a.safetensors holds wte.weight, but it does"):
        examine.read(wrong)


@pytest.mark.parametrize("name", ["../secret.safetensors", "absolute", "..", "sub/a.safetensors"])
def test_a_weight_map_does_not_leave_its_folder(tmp_path, name):
    save_file({"lm_head.weight": W}, tmp_path / "secret.safetensors")
    name = str(tmp_path / "secret.safetensors") if name == "absolute" else name
    index = sharded(tmp_path / "model", {"lm_head.weight": name})
    with pytest.raises(CourseError, match="names the file .* which leads out of its folder"):
        examine.read(index)


def test_a_shard_is_no_link_but_in_the_cache_of_hugging_face(tmp_path):
    index = sharded(tmp_path / "model", {"lm_head.weight": "link.safetensors"})
    save_file({"lm_head.weight": W}, tmp_path / "secret.safetensors")
    (index.parent / "link.safetensors").symlink_to(tmp_path / "secret.safetensors")
    with pytest.raises(CourseError, match="link.safetensors is a link, which may lead anywhere"):
        examine.read(index)
    cache = tmp_path / "models--who--what"
    (cache / "snapshots").mkdir(parents=True)
    (cache / "blobs").mkdir()
    index = sharded(cache / "snapshots" / "0a1b", {"lm_head.weight": "link.safetensors"})
    save_file({"lm_head.weight": W}, cache / "blobs" / "9f8e")
    link = index.parent / "link.safetensors"
    link.symlink_to(Path("../../blobs/9f8e"))
    assert torch.equal(examine.read(index.parent).W, W)
    link.unlink()
    link.symlink_to(tmp_path / "secret.safetensors")
    with pytest.raises(CourseError, match="is a link"):
        examine.read(index)


def test_a_matrix_is_never_transposed_without_a_note(tmp_path, unpictured):
    np.save(tmp_path / "wide.npy", gaussian(20, 300).numpy())
    source = examine.read(tmp_path / "wide.npy")
    assert source.W.shape == (300, 20) and source.transposed
    said = "transposed: of a matrix of 20 × 300 the 300 columns are taken for the words"
    assert any(said in note for note in source.notes)
    assert said.capitalize() in " ".join(Page(reports.page(examine.examine(source.path))).words)
    config, body, name = gpt2()
    config |= {"vocab_size": D}
    small = examine.read(folder_of(tmp_path / "small", config, body | {name: W}))
    assert small.W.shape == (D, N) and small.transposed
    assert any("since config.json says 16 words" in note for note in small.notes)
    upright = examine.read(folder_of(tmp_path / "upright", gpt2()[0], body | {name: W}))
    assert not upright.transposed and not any("transposed" in note for note in upright.notes)
    across = {"lm_head.kernel": W.T, "norm": torch.ones(D), "layer": torch.ones(D, D)}
    notes = examine.read(folder_of(tmp_path / "other", None, across)).notes
    assert any("more of the other tensors have the size 16" in note for note in notes)


def test_a_matrix_chosen_by_its_size_alone_is_named_or_refused(tmp_path):
    strange = {"x.strange": W, "layer": torch.ones(D, D)}
    source = examine.read(folder_of(tmp_path / "a", {}, strange))
    assert source.name == "x.strange" and "it alone has the 60 of config.json" in source.notes[0]
    with pytest.raises(CourseError, match="Candidates: .*x.strange 60×16.*y.strange 60×16"):
        examine.read(folder_of(tmp_path / "b", {}, strange | {"y.strange": OTHER}))
    only = folder_of(tmp_path / "c", {"vocab_size": 99}, {"x.strange": W})
    notes = examine.read(only).notes
    assert "it is the only matrix" in notes[0]
    assert "config.json says 99 words; this matrix has 60" in notes[-1]


def damaged(content, random):
    """A file's bytes, cut off somewhere or with a few of them changed, most often near an end."""
    content = bytearray(content)
    where = random.integers(0, min(len(content), random.choice([80, 10**9])))
    if random.random() < 0.3:
        return bytes(content[:where])
    for place in (where, -1 - random.integers(0, min(len(content), 200))):
        content[place] = random.integers(256)
    return bytes(content)


@pytest.mark.parametrize("kind", ["a.npy", "a.npz", "b.npz", "a.safetensors", "index", "config"])
def test_a_damaged_file_gives_a_sentence_that_names_it(tmp_path, kind):
    """Or it is read, where the damage is in the numbers; nothing but a CourseError comes out."""
    config, body, name = llama(True)
    folder_of(tmp_path, config, body)
    index = {"weight_map": dict.fromkeys(body, "model.safetensors")}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    np.save(tmp_path / "a.npy", W.numpy())
    np.savez(tmp_path / "a.npz", W=W.numpy())
    np.savez_compressed(tmp_path / "b.npz", W=W.numpy())
    save_file({"wte.weight": W}, tmp_path / "a.safetensors")
    named = {"index": "model.safetensors.index.json", "config": "config.json"}
    file = tmp_path / named.get(kind, kind)
    whole = file.read_bytes()
    random = np.random.default_rng(0)
    refused = 0
    for _ in range(150):
        file.write_bytes(damaged(whole, random))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                examine.read(tmp_path if kind in named else file)
            except CourseError as error:
                refused += 1
                assert tmp_path.name in str(error), error
    assert refused > 30


def test_archives_that_cannot_be_read_give_a_sentence(tmp_path):
    """An unknown compression, a password, more numbers than fit; other members do not matter."""
    file = tmp_path / "a.npz"
    np.savez(file, W=W.numpy())
    whole = file.read_bytes()
    central = whole.index(b"PK\x01\x02")
    for places, value in (((8, central + 10), 99), ((6, central + 8), 1)):
        content = bytearray(whole)
        for place in places:
            content[place] = value
        file.write_bytes(content)
        with pytest.raises(CourseError, match="a.npz is truncated or no array"):
            examine.read(file)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**6)}
    )
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("W.npy", header.getvalue())
    with pytest.raises(CourseError, match="a.npz is truncated or no array"):
        examine.read(file)
    file.write_bytes(whole)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("readme.txt", "two files")
    assert torch.equal(examine.read(file).W, W)


def test_numpy_arrays(tmp_path):
    np.save(tmp_path / "W.npy", W.half().numpy().T)
    source = examine.read(tmp_path / "W.npy")
    assert source.transposed and torch.equal(source.W, W.half().float()) and source.tied is None
    assert not examine.read(tmp_path / "W.npy", words=D).transposed
    turned = examine.read(tmp_path / "W.npy", words=N)
    assert turned.notes[-1].endswith("since a matrix of 60 words is looked for")
    np.savez_compressed(
        tmp_path / "all.npz", W=W.double().numpy(), b=np.ones(N), ids=np.ones((3, 3), int)
    )
    assert examine.read(tmp_path / "all.npz").name == "W"
    np.savez(tmp_path / "two.npz", W=W.numpy(), V=OTHER.numpy())
    assert torch.equal(examine.read(tmp_path / "two.npz", "V").W, OTHER)
    np.savez(tmp_path / "long.npz", **{"model.W": W.numpy(), "model.V": OTHER.numpy()})
    assert torch.equal(examine.read(tmp_path / "long.npz", "V").W, OTHER)  # the end of a name
    with pytest.raises(CourseError, match="2 matrices .*--matrix: W 60×16, V 60×16"):
        examine.read(tmp_path / "two.npz")
    with pytest.raises(CourseError, match="unknown matrix in .*'Vv'; did you mean V"):
        examine.read(tmp_path / "two.npz", "Vv")
    np.savez(tmp_path / "none.npz", b=np.ones(3))
    with pytest.raises(CourseError, match="0 matrices of floating-point numbers: nothing"):
        examine.read(tmp_path / "none.npz")
    for bad in (np.ones(5), np.ones((5, 5), int)):
        np.save(tmp_path / "bad.npy", bad)
        with pytest.raises(CourseError, match="one word a row"):
            examine.read(tmp_path / "bad.npy")
    np.save(tmp_path / "objects.npy", np.array([[{}, 1]], object), allow_pickle=True)
    with pytest.raises(CourseError, match="would be a pickle"):
        examine.read(tmp_path / "objects.npy")
    # NumPy takes what has no header of its own for a pickle, and says how to open that
    (tmp_path / "other.npy").write_bytes(b"no array at all")
    with pytest.raises(CourseError, match="which is not read.$"):
        examine.read(tmp_path / "other.npy")
    assert torch.equal(examine.read(tmp_path / "W.npy", "W").W, W.half().float())
    with pytest.raises(CourseError, match="unknown matrix in .*W.npy: 'foo'; known: W"):
        examine.read(tmp_path / "W.npy", "foo")
    for file in ("W.npy", "all.npz"):
        whole = (tmp_path / file).read_bytes()
        (tmp_path / file).write_bytes(whole[: len(whole) // 2])
        with pytest.raises(CourseError, match="is truncated"):
            examine.read(tmp_path / file)


class Spy:
    """An object that would leave a trace if its pickle were opened."""

    def __reduce__(self):
        return print, ("unpickled",)


def test_a_header_may_look_like_a_pickle(tmp_path):
    """A header of 896 = 0x380 bytes: the file begins like a pickle of protocol 3."""
    for padding in range(0, 900, 4):
        file = tmp_path / "wte.safetensors"
        save_file({"wte.weight": W}, file, {"padding": "x" * padding})
        if file.read_bytes()[:2] == b"\x80\x03":
            break
    assert file.read_bytes()[:2] == b"\x80\x03"
    assert torch.equal(examine.read(file).W, W)


def test_what_is_refused_says_why(tmp_path, capsys):
    def refused(match, path, *args):
        with pytest.raises(CourseError, match=match):
            examine.read(path, *args)

    refused("does not exist", tmp_path / "nothing")
    torch.save({"W": W, "spy": Spy()}, tmp_path / "pytorch_model.bin")
    torch.save(Spy(), tmp_path / "disguised.safetensors", _use_new_zipfile_serialization=False)
    for path in ("pytorch_model.bin", "disguised.safetensors"):
        refused("is a pickle, which can run any code", tmp_path / path)
    (tmp_path / "disguised.safetensors").unlink()
    refused("pytorch_model.bin is a pickle", tmp_path)
    assert "unpickled" not in capsys.readouterr().out

    folder = folder_of(tmp_path / "model", *gpt2()[:2])
    refused("no matrix of .* Candidates: transformer.wpe.weight 128×16, .*c_attn", folder)
    refused("unknown matrix in .*'transformer.wte'; did you mean", folder, "transformer.wte")
    save_file({"a.wte.weight": W, "b.wte.weight": OTHER}, tmp_path / "two.safetensors")
    refused(
        "is the end of several names .*: a.wte.weight, b.wte.weight",
        tmp_path / "two.safetensors",
        "wte",
    )
    quantised = {"lm_head.weight": torch.ones(N, D, dtype=torch.int8), "b": torch.ones(3)}
    save_file(quantised, tmp_path / "int8.safetensors")
    refused(r"is read: lm_head.weight of shape \(60, 16\) is I8", tmp_path / "int8.safetensors")
    for name in ("lm_head.weight", "lm_head"):
        refused("lm_head.weight in .*this type is not read", tmp_path / "int8.safetensors", name)
    refused(r"b in .* is F32 of shape \(3,\): .* is needed$", tmp_path / "int8.safetensors", "b")

    broken = W.clone()
    broken[7, 2] = torch.nan
    save_file({"wte.weight": broken}, tmp_path / "nan.safetensors")
    refused("row 7 of wte.weight holds a number that is not finite", tmp_path / "nan.safetensors")
    huge = W.double()
    huge[7, 2] = -1e200
    save_file({"wte.weight": huge}, tmp_path / "huge.safetensors")
    refused("row 7 of wte.weight .* size 1e.200, .* overflows", tmp_path / "huge.safetensors")
    save_file({"wte.weight": W.double() * 1e150}, tmp_path / "huge.safetensors")
    assert np.isfinite(list(examine.examine(tmp_path / "huge.safetensors").metrics.values())).all()
    (tmp_path / "huge.safetensors").unlink()
    whole = (tmp_path / "nan.safetensors").read_bytes()
    for length in (0, 5, len(whole) // 2):
        (tmp_path / "cut.safetensors").write_bytes(whole[:length])
        refused("is truncated or not a safetensors file", tmp_path / "cut.safetensors")
    (tmp_path / "novel.txt").write_text("It was a dark night.\n" * 9)
    refused("novel.txt is none of the files .*: give .safetensors, .gguf", tmp_path / "novel.txt")
    (folder / "config.json").write_text("{")
    refused("config.json is not readable JSON", folder)
    (folder / "config.json").write_text("[]")
    refused("should hold a JSON object", folder)
    (tmp_path / "empty").mkdir()
    refused("no run of this course and no safetensors", tmp_path / "empty")
    np.save(tmp_path / "empty" / "W.npy", W)
    refused("name one of its arrays: W.npy", tmp_path / "empty")
    refused("several models; name one", tmp_path)


# --- counts --------------------------------------------------------------------------------------


def test_counts_from_a_file(tmp_path):
    file = tmp_path / "counts.txt"
    file.write_text("3\n1\n0\n")
    found = counting.from_file(file, 3)
    assert found.counts.tolist() == [3, 1, 0] and found.words is None
    file.write_bytes(
        b"\xef\xbb\xbfthe\t7\r\nof\t2\r\ncat\t1\r\n"
    )  # as an editor on Windows saves it
    assert counting.from_file(file, 3, ["the", "of", "cat"]).counts.tolist() == [7, 2, 1]
    with pytest.raises(CourseError, match="cannot be read"):
        counting.from_file(tmp_path, 3)
    file.write_text("the\t7\nof\t2\nthe\t1\n")  # a word twice, another not there
    twice = counting.from_file(file, 3, ["of", "the", "emu"])
    assert twice.counts.tolist() == [2, 8, 0] and "2 of 3 rows" in twice.source
    file.write_text("the\t7\nof\t2\ncat\t1\n")
    assert counting.from_file(file, 3).words == ["the", "of", "cat"]
    by_word = counting.from_file(file, 4, ["cat", "the", "dog", "of"])
    assert by_word.counts.tolist() == [1, 7, 0, 2]
    for text, match in (
        ("3\nx\n", "line 2: 'x' is no count"),
        ("3\n-1\n", "line 2: '-1'"),
        ("nan\n", "line 1"),
        ("the\t1\n2\n", "some lines are"),
        ("1\n2\n", "2 counts, the matrix 3 rows"),
    ):
        file.write_text(text)
        with pytest.raises(CourseError, match=match):
            counting.from_file(file, 3)
    file.write_text("emu\t3\n")
    with pytest.raises(CourseError, match="none of its words"):
        counting.from_file(file, 3, ["the", "of", "cat"])
    file.write_bytes(b"\xff\xfe\xff")
    with pytest.raises(CourseError, match="not UTF-8"):
        counting.from_file(file, 3)
    with pytest.raises(CourseError, match="no file of counts"):
        counting.from_file(tmp_path / "absent", 3)


@pytest.fixture
def text(tmp_path):
    """A folder of text and, in another, a tokenizer.json of five words."""
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.txt").write_text("the cat the cat the\nthe emu\n")
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "cat": 1, "dog": 2, "the": 3}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"single": "[UNK] $A", "special_tokens": [("[UNK]", 0)]}  # not counted as words
    tokenizer.post_processor = processors.TemplateProcessing(**special)
    (tmp_path / "model").mkdir()
    tokenizer.save(str(tmp_path / "model" / "tokenizer.json"))
    return tmp_path


def test_counts_from_a_text_and_a_tokenizer(text):
    corpus, file = corpora.load(text), text / "model" / "tokenizer.json"
    found = counting.from_text(corpus, counting.read_tokenizer(file), 6)  # two rows of padding
    assert found.counts.tolist() == [1, 2, 0, 4, 0, 0]
    assert found.words[:4] == ["[UNK]", "cat", "dog", "the"] and found.words[5] == "row 5"
    own = counting.from_text(corpus, None, len(corpus))
    assert own.words == corpus.words and own.counts.tolist() == corpus.counts.tolist()
    assert counting.of_corpus(corpus).counts.sum() == len(corpus.train)
    assert counting.pieces(counting.read_tokenizer(file), 4)[3] == "the"
    assert counting.pieces(None, 4) is None
    with pytest.raises(CourseError, match="has 4 pieces, but the matrix only 3 rows"):
        counting.from_text(corpus, counting.read_tokenizer(file), 3)
    with pytest.raises(
        CourseError, match=r"has \d words, the matrix 99, and there is no tokenizer"
    ):
        counting.from_text(corpus, None, 99)
    file.write_text("{}")
    with pytest.raises(CourseError, match="no tokenizer that can be read"):
        counting.from_text(corpus, counting.read_tokenizer(file), 6)


def test_settings_of_a_tokenizer_for_training_do_not_change_the_counts(text):
    """Neither truncation nor padding is a count of the text."""
    corpus, file = corpora.load(text), text / "model" / "tokenizer.json"
    plain = counting.from_text(corpus, counting.read_tokenizer(file), 6)
    made = Tokenizer.from_file(str(file))
    made.enable_truncation(2)
    made.enable_padding(pad_id=0, length=64)
    made.save(str(file))
    assert (
        counting.from_text(corpus, counting.read_tokenizer(file), 6).counts.tolist()
        == plain.counts.tolist()
    )


# --- runs of the course --------------------------------------------------------------------------


def experiment(folder, **changes):
    """A small model of a text of 300 words, drawn by Zipf's law one by one."""
    random = np.random.default_rng(0)
    for split, tokens in (("train", 4000), ("valid", 400), ("test", 100)):
        words = random.choice(300, tokens, p=(share := 1 / np.arange(1, 301)) / share.sum())
        text = "\n".join(" ".join(f"w{i}" for i in line) for line in words.reshape(-1, 20))
        (folder / f"{split}.txt").write_text(text + "\n")
    return course_lab.Experiment(
        name="test/examined",
        corpus=part(str(folder)),
        size=24,
        encoder=part("VariationalLSTM", units=24, dropout=0.0),
        words=part("FullWords", init=0.05),
        optimisation=Optimisation(
            optimizer="adamw", learning_rate=2e-2, epochs=2, batch=10, length=20
        ),
    ).change(**changes)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A trained model, an untrained one, an untied one with spectral words."""
    folder = tmp_path_factory.mktemp("runs")
    spectral = {"output_words": part("SpectralWords", init=0.05, normalise=True), "tied": False}
    kinds = {"trained": {}, "untrained": {"optimisation": {"epochs": 0}}}
    kinds["spectral"] = spectral | {"optimisation": {"epochs": 1}}
    for name, changes in kinds.items():
        small = experiment(folder, **changes)
        course_lab.run(small, folder=folder / name, progress=False, device="cpu")
    return folder


def test_a_model_trained_here(runs):
    """Counts and perplexity come with it; centring changes no probability, the other repair does;
    what was read is what the model predicts with."""
    found = examine.examine(runs / "trained", corpus=runs)
    model, corpus, _ = course_lab.load_checkpoint(runs / "trained", runs)
    assert torch.equal(found.source.W, model.output_layer.words.matrix()) and found.source.tied
    assert found.counts.tolist() == corpus.counts.tolist() and found.not_run is None
    assert found.diagnosis.named and found.diagnosis.name != "healthy"
    (runs / "other").mkdir()  # as many words, other ones
    for split in ("train", "valid", "test"):
        text = (runs / f"{split}.txt").read_text().replace("w", "v")
        (runs / "other" / f"{split}.txt").write_text(text)
    with pytest.raises(CourseError, match="trained on another text than"):
        examine.examine(runs / "trained", corpus=str(runs / "other"))
    before = {repair["perplexity_before"] for repair in found.repairs.values()}
    expected = perplexity(model, corpus.valid, corpus.eos, batch=4)
    assert len(before) == 1 and before.pop() == pytest.approx(expected, rel=1e-5)
    assert found.repairs["centring"]["perplexity"] == pytest.approx(expected, rel=1e-4)
    assert found.repairs["all-but-the-top"]["perplexity"] > 1.01 * expected
    assert found.repairs["centring"]["metrics"]["share of the mean vector"] < 1e-9


def test_a_perplexity_of_a_part_says_of_which(runs, monkeypatch):
    """It is not the run's own figure, and must not be taken for it."""
    assert not any(
        "perplexity" in what for what in examine.examine(runs / "trained", corpus=runs).sampled
    )
    monkeypatch.setattr(repairs, "TOKENS", 150)
    found = examine.examine(runs / "trained", corpus=runs)
    model, corpus, e = course_lab.load_checkpoint(runs / "trained", runs)
    said = f"perplexity: the first 150 of {len(corpus.valid):,} tokens of the validation split"
    assert found.sampled == (said,)
    expected = perplexity(
        model, corpus.valid[:150], corpus.eos, batch=1, length=e.optimisation.evaluation_length
    )
    assert found.repairs["centring"]["perplexity_before"] == pytest.approx(expected, rel=1e-5)


def test_an_untrained_model_is_healthy(runs):
    for path in (runs / "untrained", runs / "untrained" / "best.safetensors"):
        found = examine.examine(path, corpus=runs)
        assert found.diagnosis.name == "healthy" and not found.diagnosis.named
    assert "nearly round" in found.diagnosis.sentence


def test_spectral_words_are_put_together_and_the_reading_matrix_left_alone(runs):
    model, corpus, e = course_lab.load_checkpoint(runs / "spectral", runs)
    source = examine.read(runs / "spectral")
    torch.testing.assert_close(source.W.float(), model.output_layer.words.matrix())
    assert source.tied is False and source.name == "model.output_layer.words.U, free, V"
    before = {name: p.clone() for name, p in model.named_parameters()}
    own = model.output_layer.words
    perplexities(model, corpus, e, {name: repair(source.W) for name, repair in REPAIRS.items()})
    assert model.output_layer.words is own
    assert all(torch.equal(before[name], p) for name, p in model.named_parameters())
    assert examine.read(runs / "trained", "words.weight").kind == "safetensors file"


def test_a_run_without_its_corpus_is_examined_all_the_same(tmp_path, runs, monkeypatch):
    def gone(source, corpus):
        raise CourseError("the corpus is gone")

    whole = examine.examine(runs / "trained", corpus=runs)
    monkeypatch.setattr(course_runs, "load_text", gone)
    found = examine.examine(runs / "trained")  # by the vocabulary in its checkpoint
    assert found.diagnosis == whole.diagnosis and found.metrics == whole.metrics
    assert found.counted == whole.counted and found.words == whole.words
    assert found.not_run == "the model cannot be run: the corpus is gone"
    assert "perplexity" not in found.repairs["centring"]
    old = examine.examine(says(runs / "trained", tmp_path / "old.safetensors", False, kind="gone"))
    assert old.groups is None and "no counts" in old.unknown
    assert old.not_run == "the model cannot be run: the corpus is gone"
    assert all(finding.name != "frequency_split" for finding in old.diagnosis.findings)


def says(run, file, vocabulary=True, **corpus):
    """A checkpoint of a run that says it was trained on another corpus."""
    tensors, head = read_checkpoint(run / "best.safetensors")
    head["identity"]["experiment"]["corpus"] = corpus
    if not vocabulary:  # as an older version wrote it
        head["vocabulary"] = None
    save_checkpoint(file, tensors, head)
    return file


@pytest.fixture
def loaded(monkeypatch):
    """What is loaded as a corpus; nothing can be downloaded."""
    names = []
    load = corpora.load
    monkeypatch.setattr(corpora, "load", lambda n, **options: names.append(n) or load(n, **options))
    fetch = "course_lab.corpora.download.urlopen"
    monkeypatch.setattr(fetch, lambda *_, **__: pytest.fail("fetched"))
    return names


def test_a_checkpoint_does_not_decide_what_is_read_or_fetched(
    tmp_path, runs, loaded, monkeypatch, unpictured
):
    """Neither a file of the reader's nor a corpus of the registry, on disk or not."""
    (tmp_path / "secret").write_text("root:x:0:0\n" * 20)
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "nothing"))
    for kind in (str(tmp_path / "secret"), "ptb", "wikitext-2", "multi30k", str(runs)):
        for vocabulary in (True, False):
            file = tmp_path / "hostile.safetensors"
            says(runs / "trained", file, vocabulary, kind=kind)
            alone = examine.examine(file)
            for found in (alone, examine.examine(runs / "trained", against=file)):
                assert "read only if you name it with --corpus" in found.not_run
            assert (alone.groups is None) is not vocabulary
            assert vocabulary or "no counts" in alone.unknown
        assert loaded == [] and not (tmp_path / "nothing").exists()
    assert "--corpus" in reports.page(alone)
    # what the reader names is read, and held against the checksums
    with pytest.raises(
        CourseError, match="trained on another text than secret.*name the text that it"
    ):
        examine.examine(file, corpus=tmp_path / "secret")
    assert loaded == [str(tmp_path / "secret")]
    assert examine.examine(file, corpus=runs).groups is not None


def test_a_run_brings_its_counts_and_takes_those_of_a_text_with_its_words(tmp_path, runs, loaded):
    own = examine.examine(runs / "trained")
    corpus = examine.examine(runs / "trained", corpus=runs)
    assert own.counts.tolist() == corpus.counts.tolist() and own.words == corpus.words
    assert own.diagnosis.sentence == corpus.diagnosis.sentence and own.not_run is not None
    counts = tmp_path / "counts.txt"
    counts.write_text("".join(f"{word}\t{i}\n" for i, word in enumerate(reversed(own.words))))
    assert examine.examine(runs / "trained", counts=counts).counts[-1] == 0  # matched by word
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.txt").write_text((runs / f"{split}.txt").read_text() + "w0 w0\n")
    other = examine.examine(runs / "trained", corpus=tmp_path)
    assert other.counts.sum() == own.counts.sum() + 3
    assert "it was trained on another text" in other.not_run
    tensors, head = read_checkpoint(runs / "trained" / "best.safetensors")
    head["vocabulary"]["words"].append("more")
    head["vocabulary"]["counts"].append(1)
    save_checkpoint(tmp_path / "best.safetensors", tensors, head)
    with pytest.raises(CourseError, match=r"holds (\d+) rows, but \d+ words"):
        examine.examine(tmp_path / "best.safetensors")


def test_options_of_a_checkpoint_lead_nowhere(tmp_path, runs, loaded):
    options = {"direction": "x/../../secret-en"}
    file = says(runs / "trained", tmp_path / "a.safetensors", kind=str(runs), options=options)
    with pytest.raises(CourseError, match="direction of its corpus is the path"):
        examine.examine(file, corpus=runs)
    assert loaded == []


def test_a_run_on_an_embedded_corpus_needs_no_name(tmp_path, loaded):
    small = experiment(tmp_path, corpus=part("zipf", N=300, tokens=4000))
    small = small.change(optimisation={"epochs": 0})
    course_lab.run(small, folder=tmp_path / "run", progress=False, device="cpu")
    loaded.clear()
    found = examine.examine(tmp_path / "run")
    assert loaded == ["zipf"] and found.not_run is None and found.groups is not None
    assert found.counted == "train split of zipf"
    file = says(tmp_path / "run", tmp_path / "a.safetensors", kind="zipf", options={"N": 200})
    changed = examine.examine(file)
    assert "another text than zipf" in changed.not_run
    assert changed.counts.tolist() == found.counts.tolist()  # its own


def test_weights_that_are_not_finite_are_refused_with_the_row(tmp_path, runs):
    tensors, head = read_checkpoint(runs / "trained" / "best.safetensors")
    name = next(n for n in tensors if "encoder" in n and tensors[n].ndim == 2)
    tensors[name][3, 1] = torch.inf
    save_checkpoint(tmp_path / "best.safetensors", tensors, head)
    with pytest.raises(CourseError, match=f"row 3 of {re.escape(name)} holds a number that is"):
        examine.examine(tmp_path / "best.safetensors", corpus=runs)


def test_a_translator(text):
    for split in ("train", "valid", "test"):
        for language in ("de", "en"):
            (text / f"{split}.{language}").write_text("eins zwei drei\nvier fünf\n" * 5)
    small = course_lab.profile(course_lab.recipes["cldr/transformer-tiny"], "smoke").change(
        corpus=part(str(text), direction="de-en"), optimisation={"epochs": 0}, size=16
    )
    course_lab.run(small, folder=text / "run", progress=False, device="cpu")
    found = examine.examine(text / "run", corpus=text)
    assert found.source.tied and found.counts.sum() > 0
    before = found.repairs["centring"]["perplexity_before"]
    assert found.repairs["centring"]["perplexity"] == pytest.approx(before, rel=1e-4)
    with pytest.raises(CourseError, match="counting needs running text"):
        counting.from_text(
            small.load_corpus(), counting.read_tokenizer(text / "model" / "tokenizer.json"), 6
        )


# --- the report ----------------------------------------------------------------------------------


class Page(html.parser.HTMLParser):
    """Images, links and visible text of a page; void elements aside, every tag is closed."""

    def __init__(self, text):
        super().__init__()
        self.images, self.links, self.words, self.open = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "img":
            self.images.append(attributes)
        self.links += [v for k, v in attributes.items() if k in ("src", "href", "srcset")]
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        self.words += [] if self.open and self.open[-1] == "style" else [text]


def ill(tmp_path, disease="cone", name="W.npy", words=300):
    one = diseased(disease, 0.8, words, 32, seed=5)
    np.save(tmp_path / name, one.W.numpy())
    np.savetxt(tmp_path / "counts.txt", one.counts.numpy(), "%d")
    return tmp_path / name, tmp_path / "counts.txt"


def test_the_report_is_one_file_that_says_everything(tmp_path):
    path, counts = ill(tmp_path)
    found = examine.examine(path, counts=counts)
    report = examine.save_report(found, tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["report.html", "report.json"]
    page = Page(report.read_text("utf-8"))
    assert not page.open and len(page.images) == 7
    assert all(link.startswith("data:image/png;base64,") for link in page.links)
    assert all(len(image["alt"]) > 40 for image in page.images)
    shown = " ".join(page.words)
    assert "@" not in shown and found.diagnosis.sentence in shown
    for expected in (
        "Common direction, a cone",
        "What to do.",
        "counts.txt",
        found.source.sha256["W.npy"],
        "torch",
    ):
        assert expected in shown
    assert "prefers-color-scheme: dark" in report.read_text() and "viewport" in report.read_text()

    content = json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))
    assert content["verdict"] == "cone" and content["findings"][0]["name"] == "common_direction"
    assert content["severity"] == pytest.approx(found.diagnosis.severity)
    assert content["source"]["sha256"]["W.npy"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert content["source"]["words"] == 300 and content["source"]["size"] == 32
    assert len(content["singular_values"]) == 32 and content["versions"]["torch"]
    assert content["metrics"]["mean cosine"] == pytest.approx(found.metrics["mean cosine"])
    assert content["against"] is None and "perplexity needs a text" in content["missing"][0]
    assert set(content["repairs"]) == {"centring", "all-but-the-top"}


@pytest.fixture
def unpictured(monkeypatch):
    """Pages without pictures, which take two seconds to draw."""
    monkeypatch.setattr(reports, "pictures", lambda one: [])


def test_without_counts_the_report_says_so(tmp_path, unpictured):
    path, _ = ill(tmp_path, "frequency_split")
    found = examine.examine(path)
    assert "frequency_split" not in {f.name for f in found.diagnosis.findings}
    shown = " ".join(Page(reports.page(found)).words)
    assert "No counts: nothing is said about rare and frequent words" in shown
    assert figures.lengths(found).title == "Lengths by row"
    for picture in (figures.cosines, figures.mean_share, figures.cloud):
        assert "rare" not in picture(found).alt
    counts = tmp_path / "equal.txt"
    counts.write_text("5\n" * 300)
    assert "too equal" in examine.examine(path, counts=counts).unknown


def test_a_cloud_whose_words_were_never_seen_has_no_frequencies(tmp_path, monkeypatch):
    """Of the words that are drawn; the counts of the others would divide nothing by nothing."""
    path, counts = ill(tmp_path)
    found = examine.examine(path, counts=counts)
    monkeypatch.setattr(figures, "POINTS", 20)
    drawn = np.sort(np.random.default_rng(0).choice(300, 20, replace=False))
    unseen = np.ones(300)
    unseen[drawn] = 0
    shares = []
    draw = plots.cloud
    noted = lambda points, share, *more: shares.append(share) or draw(points, share, *more)  # noqa: E731
    monkeypatch.setattr(plots, "cloud", noted)
    for values in (unseen, np.zeros(300), found.counts):
        figures.cloud(replace(found, counts=values))
    assert shares[:2] == [None, None] and len(shares[2]) == 20


def test_the_cloud_is_drawn_along_the_two_largest_singular_values(tmp_path, monkeypatch):
    path, counts = ill(tmp_path)
    found = examine.examine(path, counts=counts)
    monkeypatch.setattr(figures, "POINTS", 20)
    drawn = np.sort(np.random.default_rng(0).choice(300, 20, replace=False))
    every = []
    draw = plots.cloud
    noted = lambda points, *more: every.append(points) or draw(points, *more)  # noqa: E731
    monkeypatch.setattr(plots, "cloud", noted)
    alt = figures.cloud(found).alt
    whole = subspaces.project(found.W).points
    np.testing.assert_allclose(every[0], whole[drawn], atol=1e-9 * abs(whole).max())
    away = np.linalg.norm(whole.mean(0)) / (whole**2).sum(1).mean() ** 0.5
    assert f"their centre lies {away:.2f} of" in alt and away > 0.1


def test_two_checkpoints_side_by_side(tmp_path, runs, unpictured):
    path, counts = ill(tmp_path)
    healthy, _ = ill(tmp_path, "healthy", "healthy.npy")
    found = examine.examine(str(path), against=str(healthy), counts=str(counts))
    assert found.against.diagnosis.name == "healthy" and found.against.groups is not None
    shown = " ".join(Page(reports.page(found)).words)
    assert "healthy.npy" in shown and "severity: common direction, a cone" in shown
    for picture in (figures.spectrum, figures.neighbour_distances):
        names = [line.get_label() for line in picture(found).figure.axes[0].lines]
        assert names == ["this matrix", "random matrix", "compared with"]
    assert found.to_dict()["against"]["verdict"] == "healthy"
    larger, _ = ill(tmp_path, "healthy", "larger.npy", words=400)
    np.savetxt(counts, diseased("cone", 0.8, 300, 32).counts.numpy(), "%d")
    assert examine.examine(path, against=larger, counts=counts).against.groups is None
    both = examine.examine(runs / "trained", against=runs / "untrained", corpus=str(runs))
    assert both.against.diagnosis.name == "healthy" and both.against.groups is not None
    save_file({"wte.weight": W, "extra.weight": OTHER}, tmp_path / "model.safetensors")
    mixed = examine.examine(tmp_path / "model.safetensors", matrix="extra", against=path)
    assert mixed.source.name == "extra.weight" and mixed.against.source.path == path


def test_two_checkpoints_of_one_name_have_two_headings(tmp_path, unpictured):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        ill(tmp_path / folder)
    paths = [str(tmp_path / folder / "W.npy") for folder in ("a", "b")]
    page = reports.page(examine.examine(paths[0], against=paths[1]))
    for path in paths:
        assert f'<th scope="col" class=number>{path}</th>' in page


def test_a_tokenizer_and_a_corpus_give_counts(text):
    vectors = gaussian(40, 8).float()
    folder_of(text / "model", {"vocab_size": 40}, {"transformer.wte.weight": vectors})
    found = examine.examine(text / "model", corpus=text)
    assert found.counts[:4].tolist() == [1, 2, 0, 4] and "tokenizer" in found.counted
    assert found.words[3] == "the"
    counts = text / "counts.txt"
    counts.write_text("the\t9\ncat\t4\n")
    assert examine.examine(text / "model", counts=counts).counts[[1, 3]].tolist() == [4, 9]


def test_a_large_matrix_is_sampled_and_says_so(tmp_path, monkeypatch, unpictured):
    path, counts = ill(tmp_path, words=900)
    monkeypatch.setattr(examination, "NUMBERS", 500 * 32)
    monkeypatch.setattr(measures, "PAIRED", 200)
    found = examine.examine(path, counts=counts)
    again = examine.examine(path, counts=counts)
    assert len(found.W) == len(found.counts) == 500 and found.metrics == again.metrics
    assert found.sampled[0].startswith("500 of 900 words") and "200 words" in found.sampled[1]
    assert found.diagnosis.name == "cone" and len(measures.few(found.W)) == 200
    assert "Sampled: 500 of 900 words" in " ".join(Page(reports.page(found)).words)


def test_a_sample_keeps_the_groups_of_the_whole_vocabulary(tmp_path, monkeypatch, unpictured):
    """All frequent words stay, and who is rare is not decided anew: the verdicts agree."""
    one = diseased("frequency_split", 0.6, 6000, 16, seed=3)
    shuffled = torch.randperm(6000, generator=torch.Generator().manual_seed(0))
    np.save(tmp_path / "W.npy", one.W[shuffled].numpy())
    np.savetxt(tmp_path / "counts.txt", one.counts[shuffled].numpy(), "%d")
    options = {"counts": tmp_path / "counts.txt"}
    whole = examine.examine(tmp_path / "W.npy", **options)
    monkeypatch.setattr(examination, "NUMBERS", 1500 * 16)
    some = examine.examine(tmp_path / "W.npy", **options)
    assert len(some.W) == 1500 and "all frequent ones and others at random" in some.sampled[0]
    assert len(some.groups.frequent) == len(whole.groups.frequent) == 500
    assert torch.equal(some.W[some.groups.frequent], whole.W[whole.groups.frequent])
    np.testing.assert_array_equal(
        np.sort(some.counts[some.groups.frequent]), np.sort(one.counts[:500].numpy())
    )
    rare = some.counts[some.groups.rare]
    assert rare.max() <= whole.counts[whole.groups.rare].max()
    assert some.groups.rule == whole.groups.rule and some.diagnosis.name == whole.diagnosis.name
    for finding in whole.diagnosis.findings:
        severity = some.diagnosis[finding.name].severity
        assert severity == pytest.approx(finding.severity, abs=0.05)


def saved(folder, one, order):
    """The files of a graded matrix with its rows in another order, twelve of them equal."""
    W = one.W[order]
    W[100:112] = W[7]
    np.save(folder / "W.npy", W.numpy())
    np.savetxt(folder / "counts.txt", one.counts[order].numpy(), "%d")
    return folder / "W.npy", folder / "counts.txt"


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("disease", [*DISEASES, "collapsed"])
def test_a_sample_has_the_findings_of_the_whole(tmp_path, monkeypatch, disease, counted):
    """An eighth of the words, as of a vocabulary of 128,000 words in 4,096 dimensions: the same
    findings in the same order. What is of all words is the same number."""
    shape = 10_000, 16
    one = collapsed(*shape) if disease == "collapsed" else diseased(disease, 0.6, *shape, seed=3)
    order = torch.randperm(shape[0], generator=torch.Generator().manual_seed(0))
    path, counts = saved(tmp_path, one, order)
    counts = counts if counted else None
    whole = examine.examine(path, counts=counts)
    drawn = int(0.128 * shape[0])
    monkeypatch.setattr(examination, "NUMBERS", drawn * shape[1])
    some = examine.examine(path, counts=counts)
    assert len(some.W) == drawn < len(whole.W)
    # the findings
    assert [f.name for f in some.diagnosis.named] == [f.name for f in whole.diagnosis.named]
    assert some.diagnosis.name == whole.diagnosis.name
    for finding in whole.diagnosis.findings:
        assert some.diagnosis[finding.name].severity == pytest.approx(finding.severity, abs=0.03)
    assert some.diagnosis.severity == pytest.approx(whole.diagnosis.severity, abs=0.03)
    # numbers
    by_frequency = [name for name in whole.metrics if name.endswith(BY)]
    assert len(by_frequency) == (13 if counted else 0)
    for name in by_frequency:
        assert some.metrics[name] == whole.metrics[name]
    assert set(some.metrics) == set(whole.metrics)
    for name in ("mean cosine", "share of the mean vector", "mean norm"):
        assert some.metrics[name] == pytest.approx(whole.metrics[name], rel=0.06, abs=0.02), name
    # words by name
    assert reports.by_name(some) == reports.by_name(whole) != []
    assert [*range(100, 112)] in [sorted({*one.rows} - {7}) for one in some.together]


def test_a_sample_weighs_frequent_words_as_the_whole_vocabulary_does(tmp_path, monkeypatch):
    """All of them are in it, a third of its words, but a fortieth of the vocabulary: rows four
    times as long as the others hold no third of the energy."""
    one = diseased("healthy", 0.0, 20_000, 16)
    one.W[:500] *= 4
    path, counts = saved(tmp_path, one, torch.arange(20_000))
    whole = examine.examine(path, counts=counts)
    monkeypatch.setattr(examination, "NUMBERS", 1500 * 16)
    some = examine.examine(path, counts=counts)
    assert len(some.W) == 1500 and len(some.groups.frequent) == 500
    everyone = fair(some.W, some.groups)
    assert len(everyone) == 1000 + round(500 * 1000 / 19_500)
    scale = "root mean square norm"
    assert some.metrics[scale] == pytest.approx(whole.metrics[scale], rel=0.03)
    assert some.metrics["mean norm"] == pytest.approx(whole.metrics["mean norm"], rel=0.03)
    after = (found.repairs["centring"]["metrics"] for found in (some, whole))
    assert next(after)["share of the mean vector"] < 1e-9 > next(after)["share of the mean vector"]
    shares = [figures._by_group(found)["all words"].norm(dim=1).mean() for found in (some, whole)]
    assert shares[0] == pytest.approx(float(shares[1]), rel=0.03)


def test_the_singular_values_of_a_matrix_are_computed_once(tmp_path, monkeypatch):
    """One decomposition of all rows serves W, W minus its mean, both repairs, and the report.

    What else is decomposed has d rows: second moments, of each of the three matrices three times
    at most, those that all-but-the-top and the search for equal rows begin with, and in the report
    those of the cloud's axes and of the verdict without counts.
    """
    path, counts = ill(tmp_path)
    decomposed = {}

    def counted(name, plain):
        def noted(W, *args, **options):
            decomposed.setdefault(name, []).append(tuple(W.shape))
            return plain(W, *args, **options)

        return noted

    for name in ("qr", "svd", "svdvals", "eigh", "eigvalsh"):
        monkeypatch.setattr(torch.linalg, name, counted(name, getattr(torch.linalg, name)))
    found = examine.examine(path, counts=counts)
    examine.save_report(found, tmp_path / "report")
    monkeypatch.undo()
    assert decomposed == {
        "qr": [(300, 32)],
        "svdvals": [(33, 32), (32, 32)],
        "eigh": 9 * [(32, 32)],
        "eigvalsh": 7 * [(32, 32)],
    }
    assert found.spectrum == pytest.approx(geometry.singular_values(found.W), rel=1e-12)
    assert found.metrics["IsoScore"] == pytest.approx(geometry.isoscore(found.W), rel=1e-12)
    for name, repair in REPAIRS.items():
        better = repair(found.W)
        table = found.repairs[name]["metrics"]
        assert table["IsoScore"] == pytest.approx(geometry.isoscore(better), rel=1e-9)
        spectrum = geometry.singular_values(better)
        assert table["stable rank"] == pytest.approx(geometry.stable_rank(spectrum), rel=1e-9)


def test_a_metric_that_is_registered_is_in_the_report(tmp_path, monkeypatch, unpictured):
    """One entry: the table, the JSON and the command have it, before and after each repair."""

    def compute(W, counts):
        seen = None if counts is None else float(counts.sum())
        return {"first_entry": float(W[0, 0]), "tokens_seen": seen, "a_list": [1.0]}

    figures = {"first_entry": Figure("The first number.", -np.inf, np.inf)}
    monkeypatch.setitem(METRICS, "corner", Metric(compute, figures))
    path, counts = ill(tmp_path)
    known = examine.examine(path, counts=counts)
    unknown = examine.examine(path)
    assert known.metrics["first entry"] == pytest.approx(float(known.W[0, 0]))
    assert known.metrics["tokens seen"] == known.counts.sum()
    centred = known.repairs["centring"]["metrics"]["first entry"]
    assert centred == pytest.approx(float((known.W.double() - known.W.double().mean(0))[0, 0]))
    assert "tokens seen" not in unknown.metrics and "a list" not in known.metrics
    numbers = json.loads(examine.save_report(known, tmp_path).with_suffix(".json").read_text())
    assert numbers["metrics"]["first entry"] == known.metrics["first entry"]
    assert '<th scope="row">first entry</th>' in (tmp_path / "report.html").read_text()
    done = CliRunner().invoke(application(), ["examine", str(path), "--out", str(tmp_path / "o")])
    assert "  first entry  " in done.output


def test_the_registered_metrics_are_in_every_table(tmp_path):
    path, counts = ill(tmp_path)
    table = examine.examine(path, counts=counts).metrics
    W = examine.examine(path).W
    assert table["share of the mean vector"] == pytest.approx(geometry.common_drift(W).share)
    assert table["positive pairs"] == pytest.approx(geometry.positive_share(W))
    assert table["mean norm"] == pytest.approx(float(W.double().norm(dim=1).mean()))
    assert table["mean cosine"] == pytest.approx(geometry.mean_cosine(W))


def test_a_full_disk_leaves_no_half_report(tmp_path, monkeypatch, unpictured):
    path, _ = ill(tmp_path)
    found = examine.examine(path)
    write = reports.write_atomically

    def full(path, content):
        if path.suffix == ".html":
            raise OSError(28, "No space left on device")
        write(path, content)

    monkeypatch.setattr(reports, "write_atomically", full)
    with pytest.raises(OSError, match="No space"):
        examine.save_report(found, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_an_error_leaves_no_half_report(tmp_path, monkeypatch):
    path, _ = ill(tmp_path)
    found = examine.examine(path)

    def fails(*_):
        raise RuntimeError("no picture today")

    monkeypatch.setattr(figures, "spectrum", fails)
    with pytest.raises(RuntimeError, match="no picture"):
        examine.save_report(found, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_numbers_are_written_for_reading():
    written = [reports.number(v) for v in (0, 7, 1234.5, -0.25, 1e-13, 3e-4, 0.12345, None)]
    assert written == ["0", "7", "1,234", "−0.25", "0", "0.0003", "0.123", "–"]
    escaped = reports.table(("<a>", "b"), [("x & y", "1")])
    assert "&lt;a&gt;" in escaped and "x &amp; y" in escaped


def test_the_command(tmp_path, unpictured):
    path, counts = ill(tmp_path)
    command = ["examine", str(path), "--counts", str(counts), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(application(), command)
    assert done.exit_code == 0, done.output
    assert "Common direction, a cone (marked" in done.output and "mean cosine" in done.output
    assert f"report: {tmp_path / 'out' / 'report.html'}" in done.output
    failed = CliRunner().invoke(application(), ["examine", str(tmp_path / "absent")])
    assert isinstance(failed.exception, CourseError)
    assert "there is no run or checkpoint" in str(failed.exception)


def test_a_verdict_in_the_middle_of_a_line_has_no_full_stop(tmp_path, runs, unpictured):
    done = CliRunner().invoke(
        application(),
        ["examine", str(runs / "trained"), "--corpus", str(runs), "--out", str(tmp_path)],
    )
    assert done.exit_code == 0, done.output
    lines = [line for line in done.output.splitlines() if line.startswith("  after ")]
    assert len(lines) == 2 and all("; perplexity" in line and ".;" not in line for line in lines)


def test_words_that_are_never_first_are_counted_if_asked_for(tmp_path, monkeypatch, unpictured):
    """What lies within a cube is never first; nothing is said of it without the option."""
    corners = np.array(list(itertools.product([-1.0, 1.0], repeat=4)))
    np.save(tmp_path / "W.npy", np.concatenate([corners, 0.5 * corners[:4], corners[:1] / 4]))
    asked = examine.examine(tmp_path / "W.npy", first_places=30.0)
    assert asked.metrics["words that are never first"] == 5
    assert asked.metrics["words whose first place is open"] == 0
    assert not any("first places" in note for note in asked.sampled)
    assert "words that are never first" not in examine.examine(tmp_path / "W.npy").metrics
    of_three = partial(unargmaxable.first_places, asked=3)
    monkeypatch.setattr(unargmaxable, "first_places", of_three)
    few = examine.examine(tmp_path / "W.npy", first_places=30.0)
    assert few.metrics["words that are never first"] <= 3
    nearest = "first places: of the 3 words nearest to the middle, with all words as rivals"
    assert nearest in few.sampled
    assert asked.never_called() == [f"row {row}" for row in asked.never_first.never]
    listed = dict(reports.by_name(asked))["5 words that are never first"]
    assert "“row 16”" in listed and "“row 20”" in listed
    with pytest.raises(CourseError, match="number of seconds, 0 or more, not nan"):
        examine.examine(tmp_path / "W.npy", first_places=float("nan"))


def test_the_command_proves_that_words_are_never_first(tmp_path, unpictured):
    """report.json has all of them, each with the words and weights that make its row."""
    random = np.random.default_rng(0)
    corners = np.array(list(itertools.product([-1.0, 1.0], repeat=4)))
    within = random.uniform(-0.5, 0.5, (30, 4))
    W = np.concatenate([corners, within])
    path, words = tmp_path / "W.npy", [f"w{i}" for i in range(45)] + ["w3"]
    np.save(path, W)
    (tmp_path / "counts.txt").write_text(
        "".join(f"{w}\t{9 - i // 5}\n" for i, w in enumerate(words))
    )
    command = ["examine", str(path), "--out", str(tmp_path / "out"), "--first-places", "60"]
    done = CliRunner().invoke(application(), [*command, "--counts", str(tmp_path / "counts.txt")])
    assert done.exit_code == 0, done.output
    assert "30 words that are never first" in done.output
    assert "and 6 more, which report.json lists" in done.output
    numbers = json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))
    row_of = {word: i for i, word in enumerate(words)}
    row_of |= {"w3 (row 3)": 3, "w3 (row 45)": 45}
    assert sorted(row_of[word] for word in numbers["never_first"]) == [*range(16, 46)]
    for word, proof in numbers["never_first"].items():
        others, shares = zip(*proof, strict=True)
        rows = [row_of[other] for other in others]
        assert row_of[word] not in rows and min(shares) > 0
        assert sum(shares) == pytest.approx(1)
        np.testing.assert_allclose(np.array(shares) @ W[rows], W[row_of[word]], atol=1e-8)
    done = CliRunner().invoke(application(), command[:-2])
    assert json.loads((tmp_path / "out" / "report.json").read_text())["never_first"] is None


def test_a_report_says_what_it_took(tmp_path, unpictured):
    path, counts = ill(tmp_path)
    command = ["examine", str(path), "--counts", str(counts), "--out", str(tmp_path)]
    done = CliRunner().invoke(application(), command)
    numbers = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert 0 < numbers["seconds"] < 600 and 50 < numbers["peak_memory_mb"] < 100_000
    took = f"{numbers['seconds']:.1f} seconds; {numbers['peak_memory_mb'] / 1024:.1f} GB of memory"
    assert took in done.output


def test_reports_of_files_with_one_name_do_not_overwrite_each_other(
    tmp_path, monkeypatch, unpictured
):
    monkeypatch.setattr("course_lib.data.folders.home", lambda: tmp_path)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        path, counts = ill(tmp_path / folder)
        done = CliRunner().invoke(application(), ["examine", str(path), "--counts", str(counts)])
        assert done.exit_code == 0, done.output
    assert len(list((tmp_path / "build" / "examine").glob("*/report.html"))) == 2


def test_the_page_runs_as_written(tmp_path, monkeypatch, unpictured):
    page = Path(__file__).parents[2] / "docs" / "how-to" / "examine.md"
    (block,) = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(block, {})
    assert (tmp_path / "my-report" / "report.html").is_file()


# --- made by transformers ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["GPT2LMHead", "BertForMaskedLM", "LlamaForCausalLM", "BertModel"])
def test_folders_by_save_pretrained(tmp_path, kind):
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 200, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    made = {
        "GPT2LMHead": (transformers.GPT2Config, transformers.GPT2LMHeadModel),
        "BertForMaskedLM": (transformers.BertConfig, transformers.BertForMaskedLM),
        "LlamaForCausalLM": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
        "BertModel": (transformers.BertConfig, transformers.BertModel),
    }
    config, model = made[kind]
    model = model(config(intermediate_size=64, max_position_embeddings=200, **sizes))
    model.save_pretrained(tmp_path)
    source = examine.read(tmp_path)
    head = model.get_output_embeddings() or model.get_input_embeddings()
    assert torch.equal(source.W, head.weight.detach())
    assert source.tied is {"LlamaForCausalLM": False, "BertModel": None}.get(kind, True)
    assert diagnose(source.W).name == "healthy"  # random weights
    model.save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    assert torch.equal(examine.read(tmp_path / "shards").W, source.W)
