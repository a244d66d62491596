"""The language model and its perplexity."""

import inspect
import math

import pytest
import torch
from torch.nn import functional as F

from course_lib.dropout import locked_dropout
from course_lib.errors import CourseError
from course_lib.evaluation import cache
from course_lib.evaluation.dynamic import dynamic_perplexity, losses
from course_lib.evaluation.log_prob import log_prob_blocks
from course_lib.evaluation.perplexity import (
    evaluating,
    float32_products,
    perplexity,
    token_losses,
)
from course_lib.models import (
    AWDLSTM,
    QRNN,
    RHN,
    InputEmbedding,
    LanguageModel,
    LSTMTranslator,
    Transformer,
    TransformerXL,
    VariationalLSTM,
)
from course_lib.output_layers import AugmentedLoss, CrossEntropy, FullWords, Softmax

pytestmark = pytest.mark.usefixtures("branches")


def tiny(tied=True, words=13, size=6, **options):
    torch.manual_seed(0)
    read = FullWords(words, size, init=0.5)
    write = read if tied else FullWords(words, size, init=0.5)
    return LanguageModel(read, VariationalLSTM(size, size, init=0.5), Softmax(write), **options)


def test_loss_is_the_mean_negative_log_probability():
    model = tiny()
    tokens, target = torch.randint(13, (2, 5, 3))
    step = model(tokens, target=target)
    log_prob = model.output_layer.log_prob(step.hidden)
    expected = F.nll_loss(log_prob.flatten(0, 1), target.flatten())
    torch.testing.assert_close(step.loss, expected)
    torch.testing.assert_close(step.nll, expected)
    assert model(tokens).loss is None and not step.nll.requires_grad


def test_tying_is_one_matrix_with_both_gradients():
    model, loose = tiny(), tiny(tied=False)
    assert model.tied and not loose.tied
    with torch.no_grad():
        loose.encoder.load_state_dict(model.encoder.state_dict())
        loose.words.weight.copy_(model.words.weight)
        loose.output_layer.words.weight.copy_(model.words.weight)
    tokens, target = torch.randint(13, (2, 5, 3))
    model(tokens, target=target).loss.backward()
    loose(tokens, target=target).loss.backward()
    both = loose.words.weight.grad + loose.output_layer.words.weight.grad
    torch.testing.assert_close(model.words.weight.grad, both)


def test_the_augmented_loss_takes_its_soft_target_from_the_input_embedding():
    model = tiny(tied=False, objective=CrossEntropy() + AugmentedLoss(0.5, 2.0))
    tokens, target = torch.randint(13, (2, 4, 2))
    step = model(tokens, target=target)
    embedding = model.words.weight.detach()
    soft = F.softmax(embedding[target] @ embedding.T / 2.0, -1)
    logits, _ = model.output_layer.logits(step.hidden)
    kl = F.kl_div((logits.squeeze(-2) / 2.0).log_softmax(-1), soft, reduction="none").sum(-1).mean()
    torch.testing.assert_close(step.loss, step.nll + 0.5 * kl)
    model.eval()
    evaluated = model(tokens, target=target)
    torch.testing.assert_close(evaluated.loss, evaluated.nll)


@pytest.mark.parametrize("gradient", [False, True])
def test_soft_targets_take_a_gradient_only_where_the_loss_gives_one(gradient):
    """Else a step would add N × d zeros to the gradient of the input embedding."""
    objective = CrossEntropy() + AugmentedLoss(0.5, 2.0, gradient)
    model = tiny(tied=False, objective=objective)
    tokens, target = torch.randint(13, (2, 4, 2))
    model(tokens, target=target).loss.backward()
    read = torch.zeros(13, dtype=bool).index_fill(0, tokens.flatten(), True)
    others = model.words.weight.grad[~read].abs().sum()
    assert (others > 0) == gradient and model.words.weight.grad[read].abs().sum() > 0


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="is 7; the output layer reads contexts of 6"):
        LanguageModel(FullWords(5, 6), VariationalLSTM(6, 7), Softmax(FullWords(5, 6)))


@pytest.mark.parametrize("length", [1, 7, 50])
def test_perplexity_does_not_depend_on_the_segment_length(length):
    """exp of the mean over every token, the first predicted from <eos>, whatever the segments."""
    model = tiny().double()
    tokens = torch.randint(13, (41,), generator=torch.Generator().manual_seed(1))
    text = torch.cat([torch.tensor([4]), tokens])
    hidden = model.eval()(text[:-1, None]).hidden[:, 0]
    log_prob = model.output_layer.log_prob(hidden).gather(1, text[1:, None])
    model.train()
    value = perplexity(model, tokens, eos=4, length=length)
    assert value == pytest.approx(math.exp(-log_prob.mean().item()), rel=1e-10)
    assert model.training  # left as it was


def test_perplexity_keeps_nothing_for_a_backward_pass():
    """Else every segment's activations are kept, and the output layer works out its gradients."""
    model, kept = tiny(), []

    def note(module, given, step):
        kept.append(step.loss.requires_grad or step.hidden.requires_grad)

    model.register_forward_hook(note)
    perplexity(model, torch.arange(13), eos=0, length=5)
    assert kept == [False] * 3


def test_perplexity_of_a_uniform_model_is_the_vocabulary_size():
    model = tiny()
    with torch.no_grad():
        model.words.weight.zero_()
    assert perplexity(model, torch.arange(13), eos=0, batch=2) == pytest.approx(13)


def test_a_split_too_short_for_the_batch_is_counted_as_it_is():
    """Without the line end before the first token."""
    perplexity(tiny(), torch.arange(5), eos=0, batch=3)
    with pytest.raises(CourseError, match="has 4 tokens, .* 3 columns .at least 5 are needed"):
        perplexity(tiny(), torch.arange(4), eos=0, batch=3)


def test_a_transformer_with_memory_carries_its_state_through_the_evaluation():
    torch.manual_seed(0)
    words = FullWords(13, 8, init=0.5)
    encoder = TransformerXL(
        8, layers=1, heads=2, head_size=4, feedforward=16, dropout=0.0, memory=64
    )
    model = LanguageModel(words, encoder, Softmax(words)).double()
    tokens = torch.randint(13, (30,))
    values = [perplexity(model, tokens, eos=0, length=n) for n in (5, 30)]
    assert values[0] == pytest.approx(values[1], rel=1e-10)


def test_regularizers_see_the_step_in_training_only():
    """The loss is the objective plus the penalties; `hidden` is what the output layer read."""
    seen = []

    def penalty(words, activations):
        seen.append((words, activations))
        return 0.25 * words.weight.square().mean()

    torch.manual_seed(0)
    model = tiny(regularizers=(penalty,), output_dropout=0.5)
    tokens, target = torch.randint(9, (4, 3)), torch.randint(9, (4, 3))
    step = model(tokens, None, target)
    (words, activations), penalised = seen[0], 0.25 * model.words.weight.square().mean()
    torch.testing.assert_close(step.loss - step.nll, penalised)
    assert words is model.output_layer.words and activations.hidden is step.hidden
    dropped = activations.hidden == 0
    assert dropped.any() and torch.equal(dropped[0], dropped[-1])  # one mask a sequence
    kept = ~dropped
    torch.testing.assert_close(activations.hidden[kept], 2 * activations.raw[kept])
    step = model.eval()(tokens, None, target)
    assert step.loss == step.nll and len(seen) == 1 and not (step.hidden == 0).any()


def test_reading_drops_whole_words_and_anneals_its_noise():
    torch.manual_seed(0)
    words, ids = FullWords(200, 6), torch.arange(200).repeat(2, 1)
    reading = InputEmbedding(row_dropout=0.25)
    rows = reading(words, ids)
    dropped = (rows == 0).all(-1)
    assert torch.equal(dropped[0], dropped[1]) and 0.1 < dropped.float().mean() < 0.4
    torch.testing.assert_close(rows[~dropped], words(ids)[~dropped] / 0.75)
    reading = InputEmbedding(row_dropout=0.1)  # 1 / 0.9 is no number of a half type
    narrow = FullWords(200, 1).to(torch.bfloat16)
    narrow.weight.data.fill_(117.5)
    rows = reading(narrow, ids)
    assert rows.dtype == torch.bfloat16 and set(rows.flatten().tolist()) == {0.0, 131.0}
    reading = InputEmbedding(noise=0.2)
    for progress in (0.0, 0.5, 1.0):
        reading.anneal(progress)
        spread = (reading(words, ids) - words(ids)).std().item()
        assert spread == pytest.approx(0.2 * (1 - progress), rel=0.1)
    steady = InputEmbedding(noise=0.2, fade=False)
    steady.anneal(1.0)
    assert (steady(words, ids) - words(ids)).std().item() == pytest.approx(0.2, rel=0.1)
    with pytest.raises(CourseError, match="noise of InputEmbedding must be a number at least 0"):
        InputEmbedding(noise=-0.1)
    reading.anneal(0.0)
    assert torch.equal(reading.eval()(words, ids), words(ids))


@pytest.mark.parametrize("scale", [0.5, 5.0])
def test_reading_scales_its_gradient_alone(scale):
    """Of a tied matrix: the output layer's part stays, and so do the loss and the evaluation's."""
    reading = InputEmbedding(row_dropout=0.3, noise=0.1, gradient_scale=scale)
    tied, loose = tiny(input_embedding=reading).double(), tiny(tied=False).double()
    plain = tiny(input_embedding=InputEmbedding(row_dropout=0.3, noise=0.1)).double()
    loose.input_embedding = plain.input_embedding
    with torch.no_grad():
        loose.encoder.load_state_dict(tied.encoder.state_dict())
        for matrix in (loose.words, loose.output_layer.words):
            matrix.weight.copy_(tied.words.weight)
    tokens, target = torch.randint(13, (2, 5, 3))
    losses = []
    for model in (tied, plain, loose):
        torch.manual_seed(1)
        losses.append(model(tokens, target=target).loss)
        losses[-1].backward()
    assert losses[0] == losses[1] and losses[0] == losses[2]
    expected = scale * loose.words.weight.grad + loose.output_layer.words.weight.grad
    torch.testing.assert_close(tied.words.weight.grad, expected, rtol=1e-12, atol=1e-14)
    for model in (tied, plain):
        model.eval().zero_grad()
        model(tokens, target=target).loss.backward()
    assert torch.equal(tied.words.weight.grad, plain.words.weight.grad)
    with torch.no_grad():  # in training mode, with nothing to differentiate
        assert not reading.train()(tied.words, tokens).requires_grad


def test_adam_on_a_matrix_that_only_reads_knows_no_scale():
    ends = []
    for scale in (1.0, 4.0):
        words, reading = FullWords(9, 4).double(), InputEmbedding(gradient_scale=scale)
        optimizer = torch.optim.AdamW(words.parameters(), lr=0.1, eps=0.0)
        with torch.no_grad():
            words.weight.copy_(torch.linspace(-1, 1, 36).double().view(9, 4))
        for step in range(1, 4):
            optimizer.zero_grad()
            reading(words, torch.arange(9)).pow(step).sum().backward()
            optimizer.step()
        ends.append(words.weight.detach().clone())
    assert torch.equal(*ends)


def test_evaluation_knows_no_autocast_and_leaves_every_module_in_its_mode():
    model = tiny().train()
    model.words.eval()
    text = torch.arange(6)[:, None]
    with torch.no_grad(), evaluating(model):
        plain = model(text).hidden
    with torch.no_grad(), torch.autocast(torch.get_default_device().type, torch.bfloat16):
        with evaluating(model):
            assert torch.equal(model(text).hidden, plain)
        assert torch.is_autocast_enabled(torch.get_default_device().type)
    assert model.training and model.encoder.training and not model.words.training


def test_what_evaluates_step_by_step_leaves_autocast_to_its_reader():
    """An iterator that is left half read under autocast must not bring it back when it is closed;
    between two steps the reader has what the reader asked for."""
    model, tokens = tiny(), torch.arange(9)
    squares = {name: torch.ones_like(p) for name, p in model.named_parameters()}
    plain = next(log_prob_blocks(model, tokens, 0, progress=False))
    for steps in (
        log_prob_blocks(model, tokens, 0, block=2, progress=False),
        losses(model, tokens, 0, squares, rate=0.1, decay=0.1),
    ):
        with torch.autocast(torch.get_default_device().type, torch.bfloat16):
            first = next(steps)
            assert torch.is_autocast_enabled(torch.get_default_device().type)
            next(steps)
            assert torch.is_autocast_enabled(torch.get_default_device().type)
        steps.close()
        assert not torch.is_autocast_enabled(torch.get_default_device().type)
        if torch.is_tensor(first):
            assert torch.equal(first, plain[:2])
    settings = {"rate": 0.1, "decay": 0.1, "progress": False}
    exact = dynamic_perplexity(model, tokens, 0, squares, **settings)
    with torch.autocast(torch.get_default_device().type, torch.bfloat16):
        assert dynamic_perplexity(model, tokens, 0, squares, **settings) == exact


@pytest.mark.parametrize("dropout", [0.1, 0.25, 0.4, 0.65])
def test_locked_dropout_keeps_the_mean_of_a_half_type(dropout):
    """1/(1 − p) itself is 0.16 to 0.2 % off in bf16, for every number alike."""
    torch.manual_seed(0)
    x = (torch.rand(400, 1000) + 1).bfloat16()
    found = locked_dropout(x, dropout)
    kept = found != 0
    assert found.dtype == x.dtype and torch.equal(kept[0].expand_as(kept), kept)
    share = found.double()[kept].sum() / x.double()[kept].sum()
    assert share.item() * (1 - dropout) == pytest.approx(1, abs=2e-4)


@float32_products("ieee")
def test_evaluation_asks_cudnn_for_full_precision_and_gives_it_back():
    model = tiny()
    cudnn = torch.backends.cudnn
    for before in (True, False):
        cudnn.allow_tf32 = before
        with evaluating(model) as same:
            assert not cudnn.allow_tf32 and same is model and not model.training
        assert cudnn.allow_tf32 is before and model.training
        with pytest.raises(ZeroDivisionError), evaluating(model):
            1 / 0  # noqa: B018
        assert cudnn.allow_tf32 is before and model.training
    cudnn.allow_tf32 = True
    kept = cudnn.conv.fp32_precision
    cudnn.rnn.fp32_precision = "ieee"  # apart from the other's: then the one flag cannot be read
    with pytest.raises(RuntimeError):
        cudnn.allow_tf32  # noqa: B018
    with evaluating(model), evaluating(model):
        assert cudnn.allow_tf32 is False
    assert (cudnn.rnn.fp32_precision, cudnn.conv.fp32_precision) == ("ieee", kept)
    cudnn.allow_tf32 = True
    everything = torch.backends.fp32_precision
    torch.backends.fp32_precision = "tf32"  # which layers without a setting of their own follow
    try:
        with evaluating(model):
            assert (cudnn.rnn.fp32_precision, cudnn.conv.fp32_precision) == ("ieee", "ieee")
            assert cudnn.allow_tf32 is False
    finally:
        torch.backends.fp32_precision = everything
        cudnn.allow_tf32 = True


SHARES = ["dropout", "input_dropout", "weight_drop", "hidden_dropout", "output_dropout"]
SHARES += ["attention_dropout", "row_dropout"]
COUNTS = ["input_size", "layers", "heads", "head_size", "feedforward", "depth", "clamp"]
BAD = dict.fromkeys(SHARES, (-0.1, 1.0, math.nan, math.inf, True, "0.5"))
BAD |= dict.fromkeys(COUNTS, (0, -1, 2.5, math.nan, True, "2"))
BAD |= {"units": (0, -1, math.nan, [0], [4, 2.5]), "memory": (-1, 0.5, math.nan)}
BAD |= {"zoneout": (-0.1, 1.1, math.nan), "transform_bias": (math.nan, math.inf, "0")}
BAD |= {"init": (-0.1, math.nan, math.inf), "noise": (-0.1, math.nan, math.inf)}
BAD |= {"gradient_scale": (0.0, -5.0, math.nan, math.inf)}
SWITCHES = {"pre_norm", "input_scale", "fade"}


@pytest.mark.parametrize(
    "kind", [AWDLSTM, QRNN, RHN, VariationalLSTM, LSTMTranslator, Transformer, TransformerXL,
             InputEmbedding]
)  # fmt: skip
def test_every_option_of_an_encoder_is_in_its_range(kind):
    """Every option but switches has a range, and what is outside is refused by name."""
    options = set(inspect.signature(kind).parameters)
    assert options <= BAD.keys() | SWITCHES
    size = {"input_size": 4} if "input_size" in options else {}
    size |= {"units": 4} if kind is VariationalLSTM else {}
    for option in options - SWITCHES:
        for value in BAD[option]:
            with pytest.raises(CourseError, match=f"{option} of {kind.__name__} must be"):
                kind(**size | {option: value})


@pytest.mark.parametrize("kind", [AWDLSTM, QRNN])
def test_a_stack_has_at_least_one_layer(kind):
    with pytest.raises(CourseError, match=f"{kind.__name__} needs at least one layer"):
        kind(4, [])


def test_a_split_without_words_has_no_losses():
    words = FullWords(9, 4)
    model = LanguageModel(words, VariationalLSTM(4, 4), Softmax(words))
    for read in (token_losses, cache.predictions):
        with pytest.raises(CourseError, match="has 0 tokens, too few"):
            read(model, torch.tensor([], dtype=torch.long), 0)


def test_an_encoder_without_a_length_of_contexts_is_told_what_it_lacks():
    words = FullWords(9, 4)
    lstm = torch.nn.LSTM(4, 4)
    with pytest.raises(ValueError, match="output_size, the length of a context, is None"):
        LanguageModel(words, lstm, Softmax(words))
    lstm.output_size = 4
    model = LanguageModel(words, lstm, Softmax(words))
    tokens = torch.randint(9, (5, 2))
    assert model(tokens, None, tokens).loss.isfinite()
