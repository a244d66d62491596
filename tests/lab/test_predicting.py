"""What a model predicts, and the cosines of pairs, as a result keeps them."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import course_lab
from course_lab import pair_cosines, part, predicting, published
from course_lab.corpora.similarity import Benchmark
from course_lib.evaluation.generation import generate
from course_lib.evaluation.perplexity import perplexity
from course_lib.metrics.similarity import lower_cased, similarity
from course_lib.training import Optimisation


@pytest.fixture(scope="module")
def predicted():
    """An untrained model of a small text, what it predicts, and its log P by hand."""
    small = {"train": 3_000, "valid": 300, "test": 400, "words": 80}
    experiment = course_lab.Experiment(
        name="test/predicting",
        corpus=part("docstrings", small=small),
        size=12,
        words=part("FullWords", init=1.0),  # wide, so that some words are likelier
        encoder=part("VariationalLSTM", units=12),
        optimisation=Optimisation(epochs=1),
    )
    corpus = experiment.load_corpus()
    model = experiment.build(len(corpus)).eval()
    settings = {"eos": corpus.eos, "length": 64, "memory": None, "clamp": None}
    told = predicting.predictions(model, corpus, 1, settings)
    text = torch.cat([torch.tensor([corpus.eos]), corpus.test])[:-1, None]
    with torch.no_grad():
        log_prob = model.output_layer.log_prob(model(text).hidden[:, 0])
    return model, corpus, settings, told, log_prob


def test_the_best_words_at_each_place_are_those_of_log_p(predicted):
    _, corpus, _, told, log_prob = predicted
    assert len(told["places"]) == predicting.EVENLY
    for place, best in told["places"].items():
        row = log_prob[int(place)].exp()
        assert [word for word, _ in best] == [corpus.words[i] for i in row.topk(5).indices]
        assert [p for _, p in best] == pytest.approx(row.topk(5).values.tolist(), rel=1e-3)


def test_calibration_counts_every_token_once(predicted):
    _, corpus, _, told, log_prob = predicted
    counts, likely, right = np.array(told["calibration"]).T
    assert counts.sum() == len(corpus.test)
    best = log_prob.exp().max(1)
    assert counts @ likely == pytest.approx(best.values.sum().item(), rel=1e-3)
    assert counts @ right == pytest.approx((best.indices == corpus.test).sum().item(), rel=1e-3)
    full = counts > 0
    edges = np.arange(predicting.BINS) / predicting.BINS
    assert (likely[full] >= edges[full]).all() and (likely[full] <= edges[full] + 0.1).all()


def test_the_share_among_the_likeliest_is_counted_over_all_tokens(predicted):
    _, corpus, _, told, log_prob = predicted
    for k in predicting.AMONG:
        found = (log_prob.topk(k).indices == corpus.test[:, None]).any(1).double().mean().item()
        assert told["among"][str(k)] == pytest.approx(found, rel=1e-4)
    assert 0 < told["among"]["5"] < 1


def test_the_places_of_ptb_are_those_of_the_two_tables():
    printed = [*published.contexts("S2").place, *published.contexts("4").place]
    assert list(predicting.PLACES["ptb"]) == printed


def test_losses_by_frequency_add_up_to_the_perplexity(predicted):
    model, corpus, _, told, log_prob = predicted
    decades = {n: row for n, row in told["losses"].items() if n not in predicting.WATCHED}
    total = sum(count * loss for count, loss in decades.values())
    assert sum(count for count, _ in decades.values()) == len(corpus.test)
    wanted = perplexity(model, corpus.test, corpus.eos)
    assert math.exp(total / len(corpus.test)) == pytest.approx(wanted, rel=1e-3)
    unknown = corpus.words.index("<unk>")
    count, loss = told["losses"]["<unk>"]
    assert count == (corpus.test == unknown).sum()
    assert loss == pytest.approx(-log_prob[corpus.test == unknown, unknown].mean().item(), rel=1e-3)


def test_a_watched_word_is_told_where_it_comes_and_elsewhere(predicted):
    _, corpus, _, told, log_prob = predicted
    assert {"<unk>", "the"} <= set(told["watched"]) <= set(predicting.WATCHED)
    for word, (count, there, elsewhere) in told["watched"].items():
        number = corpus.words.index(word)
        comes = corpus.test == number
        p = log_prob[:, number].exp()
        assert count == comes.sum()
        assert there == pytest.approx(p[comes].mean().item() if count else 0, rel=1e-3)
        assert elsewhere == pytest.approx(p[~comes].mean().item(), rel=1e-3)


def test_a_sample_is_what_the_model_writes_with_the_seed(predicted):
    model, corpus, settings, told, _ = predicted
    text = generate(model, corpus, length=predicting.SAMPLE, seed=1)
    assert told["sample"] == text != generate(model, corpus, length=predicting.SAMPLE, seed=2)
    assert len(corpus.encode(text)) in (predicting.SAMPLE, predicting.SAMPLE + 1)  # a last line end


def test_places_of_the_penn_treebank_are_those_of_the_paper():
    """Of 15 of the 18 contexts the paper's predictions could be read."""
    rows = published.rows()
    numbers = rows[rows.table == "S2"].setting.str.extract(r"context (\d+) at (\d+)").astype(int)
    told = {tuple(pair) for pair in numbers.to_numpy()}
    assert len(told) == 15
    assert all(predicting.PLACES["ptb"][context - 1] == place for context, place in told)


def test_a_text_too_long_to_look_at_is_left_out(predicted, monkeypatch):
    model, corpus, settings, *_ = predicted
    monkeypatch.setattr(predicting, "MOST", 1_000)
    assert predicting.predictions(model, corpus, 1, settings) is None


# Cosines of pairs --------------------------------------------------------------------------------


def test_kept_cosines_give_the_score_of_the_matrix():
    torch.manual_seed(0)
    words = [f"w{i}" for i in range(50)]
    W = torch.randn(50, 8) + 2
    counts = torch.arange(1, 51)
    pairs = [(f"w{i}", f"w{(7 * i + 3) % 50}") for i in range(40)] + [("w1", "elsewhere")]
    benchmark = Benchmark(pairs, np.arange(41.0) % 11)
    kept = pair_cosines.pair_arrays(W, counts, lower_cased(words), {"list": benchmark})
    cosines, occurrences = kept[pair_cosines.COSINES], kept[pair_cosines.COUNTS]
    assert cosines.shape == (41, 3) and np.isnan(cosines[40]).all() and (occurrences[40] < 0).all()
    assert occurrences[3].tolist() == [4, 25]
    assert pair_cosines.KINDS == ("raw", "centred", "whitened")
    for column, matrix in enumerate((W, W - W.mean(0), pair_cosines.whitened(W, counts))):
        for place, (a, b) in {0: (0, 3), 3: (3, 24), 39: (39, 26)}.items():
            exact = torch.cosine_similarity(matrix[a].double(), matrix[b].double(), dim=0).item()
            assert cosines[place, column] == pytest.approx(exact, abs=1e-3)
    rho = similarity(W, words, benchmark, resamples=0).rho
    again = spearmanr(cosines[:40, 0].astype(float), benchmark.scores[:40]).statistic
    assert again == pytest.approx(rho, abs=0.01)  # kept in float16


def test_whitening_by_frequency_leaves_no_direction_over_tokens():
    torch.manual_seed(0)
    W = torch.randn(60, 5) @ torch.diag(torch.tensor([9.0, 3.0, 1.0, 0.1, 0.0])) + 4
    counts = torch.randint(1, 1_000, (60,))
    white = pair_cosines.whitened(W, counts)
    p = counts.double() / counts.sum()
    assert (p @ white).abs().max() < 1e-9
    covariance = white.T @ (p[:, None] * white)
    values = torch.linalg.eigvalsh(covariance)
    assert values[1:].tolist() == pytest.approx([1.0] * 4) and abs(values[0]) < 1e-9
