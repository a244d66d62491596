"""The translation model, beam search against enumeration, BLEU."""

import itertools
import math

import pytest
import sacrebleu
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from course_lib.errors import CourseError
from course_lib.evaluation.translation import (
    BOS,
    EOS,
    PAD,
    BeamSearch,
    Bleu,
    Hypothesis,
    bleu,
    translate,
    translation_perplexity,
)
from course_lib.models import (
    InputEmbedding,
    LanguageModel,
    OutputModel,
    Transformer,
    TranslationModel,
)
from course_lib.output_layers import (
    IGNORE,
    AdaptiveSoftmax,
    AdversarialSoftmax,
    AugmentedLoss,
    CrossEntropy,
    FullWords,
    LabelSmoothing,
    MixtureOfSoftmaxes,
    Softmax,
    SpectralWords,
)
from course_lib.regularizers import CosineRegularizer

pytestmark = pytest.mark.usefixtures("device")

LAYERS = {
    "softmax": Softmax,
    "mixture": lambda words: MixtureOfSoftmaxes(words, components=3),
    "adversarial": AdversarialSoftmax,
    "adaptive": lambda words: AdaptiveSoftmax(words, cutoffs=(4, 7)),
}


def tiny(words=9, size=8, layer=Softmax, tied=True, kind=FullWords, seed=0, **options):
    """An untrained translator in float64 that is sure enough of what it says."""
    torch.manual_seed(seed)
    read = kind(words, size, init=1.5)
    write = read if tied else kind(words, size, init=1.5)
    encoder = Transformer(size, layers=1, heads=2, feedforward=16, dropout=0.0)
    return TranslationModel(read, encoder, layer(write), **options).double()


def sentences(lengths, words=9, seed=0):
    """Random ids without special ones."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(3, words, (n,), generator=generator) for n in lengths]


def stacked(rows, fill=PAD):
    """Columns of different lengths, filled up by hand."""
    table = torch.full((max(map(len, rows)), len(rows)), fill)
    for b, row in enumerate(rows):
        table[: len(row), b] = torch.tensor(row)
    return table


def batch(sources, targets):
    """source, tokens, target as the model takes them."""
    x, y = [s.tolist() for s in sources], [t.tolist() for t in targets]
    return (
        stacked([[*row, EOS] for row in x]),
        stacked([[BOS, *row] for row in y]),
        stacked([[*row, EOS] for row in y], IGNORE),
    )


def log_prob_of(model, source, ids):
    """log P(ids <eos> | source), one sentence, by one pass over it."""
    tokens = torch.tensor([BOS, *ids])[:, None]
    table = model.output_layer.log_prob(model(source[:, None], tokens).hidden[:, 0])
    return sum(table[t, y].item() for t, y in enumerate([*ids, EOS]))


# The model ----------------------------------------------------------------------------------


def test_loss_is_the_mean_over_the_words_that_count():
    model = tiny()
    source, tokens, target = batch(sentences([3, 5]), sentences([4, 2], seed=1))
    step = model(source, tokens, target)
    log_prob = model.output_layer.log_prob(step.hidden).flatten(0, 1)
    expected = F.nll_loss(log_prob, target.flatten(), ignore_index=IGNORE)
    torch.testing.assert_close(step.loss, expected)
    torch.testing.assert_close(step.nll, expected)
    assert step.state is None and not step.nll.requires_grad
    assert model(source, tokens).loss is None and model.eval()(source, tokens).state is not None


def test_a_column_is_what_it_is_alone():
    """The source's padding mask: a sentence in a batch has the contexts that it has alone."""
    model, lengths = tiny().eval(), [2, 5, 3]
    sources, targets = sentences(lengths), sentences([4, 1, 2], seed=1)
    source, tokens, _ = batch(sources, targets)
    hidden = model(source, tokens).hidden
    for b, pair in enumerate(zip(sources, targets, strict=True)):
        source, tokens, _ = batch(*([side] for side in pair))
        alone = model(source, tokens).hidden
        torch.testing.assert_close(hidden[: len(alone), b : b + 1], alone, atol=1e-12, rtol=0)


def test_three_way_tying_is_one_parameter_with_the_gradients_of_its_three_uses():
    model, loose = tiny(), tiny(tied=False)
    assert model.tied and not loose.tied
    ours, theirs = (sum(p.numel() for p in m.parameters()) for m in (model, loose))
    assert theirs - ours == model.words.weight.numel()
    source, tokens, target = batch(sentences([3, 5]), sentences([4, 2], seed=1))
    model(source, tokens, target).loss.backward()
    # The same numbers in three leaves, one for each use.
    leaves = [model.words.weight.detach().clone().requires_grad_() for _ in range(3)]
    read_source, read_target, write = leaves
    x, y = F.embedding(source, read_source), F.embedding(tokens, read_target)
    hidden, _ = model.encoder(x, y, source == PAD)
    logits = (hidden @ write.T + model.output_layer.bias).flatten(0, 1)
    F.cross_entropy(logits, target.flatten(), ignore_index=IGNORE).backward()
    assert all(leaf.grad.any() for leaf in leaves)
    torch.testing.assert_close(model.words.weight.grad, sum(leaf.grad for leaf in leaves))


def test_both_models_share_what_follows_their_encoders():
    """Objective, soft targets of the input embedding, penalties and dropout, in training only."""
    assert issubclass(TranslationModel, OutputModel) and issubclass(LanguageModel, OutputModel)
    seen = []

    def penalty(words, activations):
        seen.append(activations)
        return CosineRegularizer(0.25)(words)

    objective = CrossEntropy() + AugmentedLoss(0.5, 2.0)
    model = tiny(tied=False, objective=objective, regularizers=(penalty,), output_dropout=0.5)
    source, tokens, target = batch(sentences([3, 5]), sentences([4, 2], seed=1))
    step = model(source, tokens, target)
    counted = target != IGNORE
    E, y = model.words.weight.detach(), target[counted]
    soft = F.softmax(E[y] @ E.T / 2.0, -1)
    logits = model.output_layer.logits(step.hidden)[0].squeeze(-2)[counted]
    kl = F.kl_div((logits / 2.0).log_softmax(-1), soft, reduction="none").sum(-1).mean()
    cosine = CosineRegularizer(0.25)(model.output_layer.words)
    torch.testing.assert_close(step.loss, step.nll + 0.5 * kl + cosine)
    dropped = step.hidden == 0
    assert dropped.any() and torch.equal(dropped[0], dropped[-1])  # one mask a sequence
    assert seen[0].hidden is step.hidden and not (seen[0].raw == 0).any()
    evaluated = model.eval()(source, tokens, target)
    assert evaluated.loss == evaluated.nll and len(seen) == 1
    torch.testing.assert_close(evaluated.hidden, seen[0].raw)


def test_both_sides_are_read_with_the_regularisation_of_the_input():
    model = tiny(words=40, input_embedding=InputEmbedding(row_dropout=0.5))
    read = []
    model.input_embedding.register_forward_hook(lambda module, given, rows: read.append(rows))
    source, tokens, _ = batch(sentences([30], 40), sentences([30], 40, seed=1))
    model(source, tokens)
    assert [len(rows) for rows in read] == [31, 31]
    assert all((rows == 0).all(-1).any() for rows in read)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("kind", [FullWords, SpectralWords])
def test_output_layers_and_word_matrices_train_translate_and_agree(layer, kind):
    model = tiny(layer=LAYERS[layer], kind=kind, objective=LabelSmoothing(0.1))
    sources = sentences([3, 5])
    data = batch(sources, sentences([4, 2], seed=1))
    model(*data).loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    search = BeamSearch(beam=3, extra=2)
    found = search(model, data[0])
    for hypothesis, source in zip(found, sources, strict=True):
        expected = log_prob_of(
            model.eval(), torch.cat([source, torch.tensor([EOS])]), hypothesis.ids
        )
        assert hypothesis.log_prob == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("layer", LAYERS)
def test_bf16_autocast_is_finite(layer):
    model = tiny(layer=LAYERS[layer], objective=LabelSmoothing(0.1)).float()
    data = batch(sentences([3, 5]), sentences([4, 2], seed=1))
    with torch.autocast(torch.get_default_device().type, torch.bfloat16):
        step = model(*data)
    step.loss.backward()
    assert step.loss.isfinite()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_sizes_that_do_not_fit_are_refused():
    encoder = Transformer(8, layers=1, heads=2, feedforward=16)
    with pytest.raises(ValueError, match="is 8; the output layer reads contexts of 6"):
        TranslationModel(FullWords(5, 8), encoder, Softmax(FullWords(5, 6)))


# Perplexity ---------------------------------------------------------------------------------


def test_perplexity_counts_every_target_once_whatever_the_batches():
    model, sources, targets = tiny(), sentences([3, 5, 1, 4]), sentences([4, 0, 2, 6], seed=1)
    total = 0.0
    for x, y in zip(sources, targets, strict=True):
        total += log_prob_of(model.eval(), torch.cat([x, torch.tensor([EOS])]), y.tolist())
    expected = math.exp(-total / (4 + 0 + 2 + 6 + 4))
    model.train()
    for sizes in ([4], [1, 3], [2, 2]):
        parts = [slice(sum(sizes[:i]), sum(sizes[: i + 1])) for i in range(len(sizes))]
        batches = [batch(sources[p], targets[p]) for p in parts]
        assert translation_perplexity(model, batches) == pytest.approx(expected, rel=1e-10)
    assert model.training  # left as it was
    with pytest.raises(CourseError, match="no target token"):
        translation_perplexity(model, [])


# Beam search --------------------------------------------------------------------------------


def test_the_length_penalty_is_the_published_one():
    search = BeamSearch(length_penalty=0.6)
    assert search.penalty(1) == 1 and BeamSearch(length_penalty=0).penalty(9) == 1
    assert search.penalty(7) == pytest.approx(2**0.6)
    torch.testing.assert_close(search.penalty(torch.tensor([13])), torch.tensor([3**0.6]))


def enumerated(model, source, longest, alpha):
    """Every translation of at most `longest` words with <eos>: ids, log P, score."""
    words = range(EOS + 1, model.words.shape[0])
    for n in range(longest):
        for ids in itertools.product(words, repeat=n):
            log_prob = log_prob_of(model, source, ids)
            yield ids, log_prob, log_prob / ((5 + n + 1) / 6) ** alpha


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 99), st.sampled_from([0.0, 0.6, 1.0, 3.0]))
def test_a_wide_beam_finds_the_best_of_all_translations(seed, alpha):
    """Three words, at most four of them: 121 translations, and a beam that drops none."""
    model, longest = tiny(words=6, seed=seed).eval(), 5
    sources = sentences([1, 2], words=6, seed=seed)
    source = stacked([[*x.tolist(), EOS] for x in sources])
    search = BeamSearch(beam=200, length_penalty=alpha, ratio=0, extra=longest)
    for b, found in enumerate(search(model, source)):
        column = source[:, b][source[:, b] != PAD]
        ids, log_prob, score = max(enumerated(model, column, longest, alpha), key=lambda r: r[2])
        assert tuple(found.ids.tolist()) == ids
        assert (found.log_prob, found.score) == pytest.approx((log_prob, score), abs=1e-10)


def plain_beam(model, source, search):
    """The rule of the docstring, one hypothesis at a time in Python lists."""
    limit = int(search.ratio * len(source)) + search.extra
    open_, finished = [((), 0.0)], []
    for n in range(1, limit + 1):
        candidates = []
        for ids, total in open_:
            tokens = torch.tensor([BOS, *ids])[:, None]
            hidden = model(source[:, None], tokens).hidden[-1, 0]
            table = model.output_layer.log_prob(hidden).tolist()
            for word, value in enumerate(table):
                if word not in (PAD, BOS) and (n < limit or word == EOS):
                    candidates.append(((*ids, word), total + value))
        candidates.sort(key=lambda c: -c[1])
        candidates = candidates[: 2 * search.beam]
        for ids, total in candidates[: search.beam]:
            if ids[-1] == EOS:
                score = total / ((5 + n) / 6) ** search.length_penalty
                finished.append((score, total, ids[:-1]))
        open_ = [c for c in candidates if c[0][-1] != EOS][: search.beam]
        if len(finished) >= search.beam:
            break  # nothing is said here about an early end: it must not change the result
    return max(finished)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 99), st.integers(1, 4), st.sampled_from([0.0, 0.6, 2.0]),
    st.lists(st.integers(0, 5), min_size=1, max_size=4),
)  # fmt: skip
def test_beam_search_is_the_rule_written_out_for_each_sentence(seed, beam, alpha, lengths):
    """In a batch as alone, and with the early end as without."""
    model, sources = tiny(seed=seed).eval(), sentences(lengths, seed=seed)
    search = BeamSearch(beam, alpha, ratio=0.7, extra=3)
    found = search(model, stacked([[*x.tolist(), EOS] for x in sources]))
    for hypothesis, x in zip(found, sources, strict=True):
        score, log_prob, ids = plain_beam(model, torch.cat([x, torch.tensor([EOS])]), search)
        assert tuple(hypothesis.ids.tolist()) == ids
        assert hypothesis.log_prob == pytest.approx(log_prob, abs=1e-10)
        assert hypothesis.score == pytest.approx(score, abs=1e-10)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 99), st.integers(0, 6))
def test_beam_one_takes_the_likeliest_word_each_time(seed, length):
    model, (x,) = tiny(seed=seed).eval(), sentences([length], seed=seed)
    source, ids = torch.cat([x, torch.tensor([EOS])])[:, None], []
    while len(ids) < length + 1 + 4 - 1:
        log_prob = model.output_layer.log_prob(
            model(source, torch.tensor([BOS, *ids])[:, None]).hidden[-1, 0]
        )
        log_prob[[PAD, BOS]] = -torch.inf
        if (word := log_prob.argmax().item()) == EOS:
            break
        ids.append(word)
    for alpha in (0.0, 1.0):
        (found,) = BeamSearch(1, alpha, extra=4)(model, source)
        assert found.ids.tolist() == ids


class LastWord(torch.nn.Module):
    """Contexts that are the word vectors of the last word, whatever the source."""

    def __init__(self, size):
        super().__init__()
        self.output_size, self.calls = size, 0

    def forward(self, x, y, padding, state=None):
        self.calls += 1
        return y, ()

    def select(self, state, columns, sources=None):
        return state


def bigrams(table, words):
    """A translator of given P(next | last), by names; "." is <eos>, "" the start."""
    ids = {"": BOS, ".": EOS} | {word: EOS + 1 + i for i, word in enumerate(words)}
    N = EOS + 1 + len(words)
    read, write = FullWords(N, N), FullWords(N, N)
    with torch.no_grad():
        read.weight.copy_(torch.eye(N))
        write.weight.fill_(-99)
        for last, row in table.items():
            for word, probability in row.items():
                write.weight[ids[word], ids[last]] = math.log(probability)
    return TranslationModel(read, LastWord(N), Softmax(write)).double()


ROAD = {
    "": {".": 0.5, "a": 0.3, "b": 0.2}, "a": {"c": 1.0}, "c": {"d": 1.0}, "d": {".": 1.0},
    "b": {"b": 1.0},
}  # fmt: skip


def test_a_search_goes_on_as_long_as_an_open_hypothesis_can_win():
    """log 0.3 over (9/6)² is above log 0.5, though at the first step log 0.3 is far below it."""
    model, source = bigrams(ROAD, "abcd"), torch.tensor([[EOS]])
    (found,) = BeamSearch(2, length_penalty=2.0, extra=8)(model, source)
    assert found.ids.tolist() == [3, 5, 6] and model.encoder.calls == 4
    assert found.score == pytest.approx(math.log(0.3) / 2.25)


def test_a_search_ends_when_no_open_hypothesis_can_win():
    model, source = bigrams(ROAD, "abcd"), torch.tensor([[EOS]])
    (found,) = BeamSearch(2, length_penalty=0.0, extra=8)(model, source)
    assert found.ids.tolist() == [] and model.encoder.calls == 1
    assert found.log_prob == pytest.approx(math.log(0.5))


def test_a_search_ends_when_as_many_are_finished_as_the_beam_is_wide():
    """Though a longer one, which a wider beam finds, would have a better score."""
    branches = {"a": {".": 0.6, "c": 0.4}, "b": {"b": 0.6, "e": 0.4}, "e": {"e": 1.0}}
    model, source = bigrams(ROAD | branches, "abcde"), torch.tensor([[EOS]])
    for beam, ids in ((2, []), (3, [3, 5, 6])):
        (found,) = BeamSearch(beam, length_penalty=5.0, extra=8)(model, source)
        assert found.ids.tolist() == ids


def test_a_search_leaves_the_model_in_its_mode_and_runs_in_full_precision():
    model = tiny().float().train()
    model.encoder.eval()
    source = stacked([[3, 4, EOS]])
    (found,) = BeamSearch(2)(model, source)
    with torch.autocast(torch.get_default_device().type, torch.bfloat16):
        assert BeamSearch(2)(model, source)[0].log_prob == found.log_prob
    assert model.training and not model.encoder.training and model.output_layer.training
    assert isinstance(found, Hypothesis) and found.ids.device.type == "cpu"


def test_a_broken_model_is_named_as_such():
    model = tiny()
    with torch.no_grad():
        model.words.weight.fill_(math.nan)
    with pytest.raises(CourseError, match="words.weight .* earlier checkpoint"):
        BeamSearch(2)(model, stacked([[3, EOS]]))


@pytest.mark.parametrize(
    "options",
    [
        {"beam": 0},
        {"length_penalty": -1},
        {"length_penalty": math.nan},
        {"length_penalty": math.inf},
        {"length_penalty": 1e6},
        {"ratio": -1},
        {"ratio": math.nan},
        {"extra": 0},
    ],
)
def test_impossible_searches_are_refused_by_name(options):
    with pytest.raises(CourseError, match=f"^{next(iter(options))} of BeamSearch must be a"):
        BeamSearch(**options)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(0, 6), max_size=7), st.integers(1, 4))
def test_translations_come_in_the_order_of_their_sources(lengths, size):
    model, sources = tiny(), sentences(lengths)
    search = BeamSearch(2, extra=3)
    found = translate(model, sources, search, batch=size, progress=False)
    assert len(found) == len(sources)
    for ids, x in zip(found, sources, strict=True):
        (alone,) = search(model, torch.cat([x, torch.tensor([EOS])])[:, None])
        assert torch.equal(ids, alone.ids)


def test_translating_shows_its_progress_and_refuses_an_empty_batch(capsys):
    translate(tiny(), sentences([2, 3]))
    assert "2/2" in capsys.readouterr().err
    with pytest.raises(CourseError, match="batch must be a whole number of at least 1"):
        translate(tiny(), [], batch=0)


def test_a_copy_task_is_learned_to_a_bleu_of_100():
    torch.manual_seed(0)
    words = FullWords(12, 32, init=32**-0.5, normal=True)
    encoder = Transformer(32, layers=1, heads=4, feedforward=64, dropout=0.0)
    model = TranslationModel(words, encoder, Softmax(words), LabelSmoothing(0.05))
    optimizer = torch.optim.AdamW(model.parameters(), 5e-3, betas=(0.9, 0.98))
    generator = torch.Generator().manual_seed(0)
    steps = 400
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, steps)
    for _ in range(steps):
        lengths = torch.randint(1, 8, (32,), generator=generator).tolist()
        rows = [torch.randint(3, 12, (n,), generator=generator) for n in lengths]
        optimizer.zero_grad()
        model(*batch(rows, rows)).loss.backward()
        optimizer.step()
        schedule.step()
    unseen = sentences([7, 3, 5, 4, 6, 7, 2, 1], words=12, seed=5)
    found = translate(model, unseen, progress=False)
    texts = [[" ".join(f"w{i}" for i in ids.tolist()) for ids in side] for side in (found, unseen)]
    assert bleu(*texts).score == pytest.approx(100)
    assert translation_perplexity(model, [batch(unseen, unseen)]) < 1.2


# BLEU ---------------------------------------------------------------------------------------


def test_bleu_is_its_formula():
    hypotheses, references = ["a b c d e f"], ["a b c d x f g"]
    matched = [5 / 6, 3 / 5, 2 / 4, 1 / 3]
    expected = 100 * math.exp(1 - 7 / 6) * math.prod(matched) ** 0.25
    found = bleu(hypotheses, references, tokenize="none")
    assert isinstance(found, Bleu) and found.score == pytest.approx(expected)


def test_the_signature_names_what_was_computed():
    sentence = ["A dog, two cats and a bird ."]
    for tokenize, lowercase, case in (("13a", False, "mixed"), ("none", True, "lc")):
        found = bleu(sentence, sentence, tokenize, lowercase)
        expected = (
            f"nrefs:1|case:{case}|eff:no|tok:{tokenize}|smooth:exp|version:{sacrebleu.__version__}"
        )
        assert found == (pytest.approx(100), expected)


def test_case_and_tokens_count_as_asked():
    said, meant = ["the dog runs in the park."], ["The dog runs in the park ."]
    assert bleu(said, meant).score < 100
    assert bleu(said, meant, lowercase=True).score == pytest.approx(100)  # 13a separates the point
    assert bleu(said, meant, "none", lowercase=True).score < 100
    assert bleu(["a–b c d e f"], ["a – b c d e f"], "intl").score == pytest.approx(100)


def test_bleu_of_a_corpus_is_not_a_mean_over_sentences():
    hypotheses, references = ["a b c d", "a b c d e f g h"], ["a b c d", "a b x d e f y h"]
    joint = bleu(hypotheses, references, "none").score
    apart = [bleu([h], [r], "none").score for h, r in zip(hypotheses, references, strict=True)]
    assert joint != pytest.approx(sum(apart) / 2, abs=1)
    swapped = bleu(hypotheses[::-1], references[::-1], "none").score
    assert joint == pytest.approx(swapped)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((["a"], ["a"], "14a"), "did you mean 13a"),
        ((["a"], ["a", "b"]), "1 hypotheses and 2 references"),
        (([], []), "0 hypotheses"),
    ],
)
def test_what_bleu_cannot_compare_is_refused(arguments, message):
    with pytest.raises(CourseError, match=message):
        bleu(*arguments)
