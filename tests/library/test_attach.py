"""`course_lib.attach` on models that know nothing of the course: same loss, same gradients."""

import copy
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import course_lib
from course_lib.errors import CourseError
from course_lib.output_layers import AugmentedLoss, MixtureOfSoftmaxes, SigSoftmax, Softmax, ZLoss

N, D = 31, 12


class Plain(nn.Module):
    """A PyTorch model as in the tutorials: tokens (T, B) -> logits (T, B, N)."""

    def __init__(self, tied=False, bias=True):
        super().__init__()
        self.encoder, self.rnn = nn.Embedding(N, D), nn.GRU(D, D)
        self.decoder = nn.Linear(D, N, bias=bias)
        if tied:
            self.decoder.weight = self.encoder.weight

    def forward(self, tokens):
        return self.decoder(self.rnn(self.encoder(tokens))[0])


class Trunk(nn.Module):
    """The part of `HuggingFace` under its head: last_hidden_state (B, T, d)."""

    def __init__(self):
        super().__init__()
        self.wte, self.block = nn.Embedding(N, D), nn.Linear(D, D)

    def forward(self, input_ids, attention_mask=None):
        x = self.block(self.wte(input_ids)).tanh()
        x = x if attention_mask is None else x * attention_mask[..., None]
        return SimpleNamespace(last_hidden_state=x)


class HuggingFace(nn.Module):
    """What `attach` relies on in a Hugging Face causal model, tied as GPT-2 is."""

    def __init__(self):
        super().__init__()
        self.transformer = Trunk()
        self.lm_head = nn.Linear(D, N, bias=False)
        self.lm_head.weight = self.transformer.wte.weight

    base_model = property(lambda self: self.transformer)

    def get_input_embeddings(self):
        return self.transformer.wte

    def get_output_embeddings(self):
        return self.lm_head

    def forward(self, input_ids, labels=None, **inputs):
        logits = self.lm_head(self.transformer(input_ids, **inputs).last_hidden_state)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return SimpleNamespace(loss=loss, logits=logits)


class ByHand(nn.Module):
    """No output layer at all: the input embedding is used a second time, as a function."""

    def __init__(self):
        super().__init__()
        self.model = Trunk()

    def forward(self, input_ids):
        return F.linear(self.model(input_ids).last_hidden_state, self.model.wte.weight)


def gradients(model, loss):
    return torch.autograd.grad(loss, list(model.parameters()))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_loss_and_gradients_of_a_plain_model(tied, bias):
    torch.manual_seed(0)
    model = Plain(tied, bias).double()
    tokens, target = torch.randint(N, (7, 3)), torch.randint(N, (7, 3))
    attached = course_lib.attach(model, aligned=True, batch_first=False)
    expected = F.cross_entropy(model(tokens).flatten(0, 1), target.flatten())
    out = attached(tokens, target)
    torch.testing.assert_close(out.loss, expected)
    torch.testing.assert_close(out.nll, expected.detach())
    torch.testing.assert_close(gradients(model, out.loss), gradients(model, expected))
    torch.testing.assert_close(attached.log_prob(tokens), model(tokens).log_softmax(-1))


def test_an_attached_mixture_has_the_type_of_the_model_and_masks_along_time():
    """A model in half precision; one mask a sequence, in either layout."""
    torch.manual_seed(0)
    layer = partial(MixtureOfSoftmaxes, components=3, dropout=0.5)
    model = HuggingFace().bfloat16()
    tokens = torch.randint(N, (3, 8))
    attached = course_lib.attach(model, layer)
    attached(tokens, labels=tokens).loss.backward()
    assert attached.output_layer.latent.weight.grad.dtype == torch.bfloat16
    seen = []
    for options, shape in (({}, (3, 8)), ({"batch_first": False}, (8, 3))):
        attached = course_lib.attach(model, layer, aligned=True, **options)
        contexts = attached.output_layer.contexts
        attached.output_layer.contexts = lambda h, f=contexts: seen.append(f(h)[0]) or f(h)
        attached(tokens.view(shape), labels=tokens.view(shape))
        dropped = seen[-1] == 0
        assert torch.equal(dropped[0], dropped[-1]) and dropped.shape[:2] == (8, 3)
        assert not torch.equal(dropped[:, 0], dropped[:, 1])
    with pytest.raises(CourseError, match="shifted along .B, T. only"):
        course_lib.attach(model, batch_first=False)


def test_loss_and_gradients_of_a_hugging_face_model_with_padding():
    torch.manual_seed(0)
    model = HuggingFace().double()
    tokens = torch.randint(N, (3, 8))
    mask = (torch.arange(8) < torch.tensor([[8], [5], [3]])).long()
    labels = tokens.masked_fill(mask == 0, -100)
    expected = model(tokens, labels, attention_mask=mask).loss
    loss = course_lib.attach(model)(tokens, labels=labels, attention_mask=mask).loss
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradients(model, loss), gradients(model, expected))


def test_a_matrix_used_by_hand_is_the_input_embedding():
    model = ByHand().double()
    attached, tokens = course_lib.attach(model), torch.randint(N, (2, 5))
    assert attached.output_layer.words.weight is model.model.wte.weight
    torch.testing.assert_close(attached.log_prob(tokens), model(tokens).log_softmax(-1))
    with pytest.raises(CourseError, match="needs an output layer of the model's own; use log_prob"):
        attached.generate()


@pytest.mark.parametrize("model", [Plain(tied=True), Plain(), HuggingFace(), ByHand()])
def test_every_parameter_stays_shared_and_the_model_unchanged(model):
    before = dict(model.named_parameters())
    attached = course_lib.attach(model)
    assert {id(p) for p in attached.parameters()} == {id(p) for p in before.values()}
    tokens = torch.randint(N, (2, 5))
    attached(tokens, tokens).loss.backward()
    assert dict(model.named_parameters()) == before
    assert all(p.grad is not None for p in model.parameters())
    logits = model(tokens)
    assert getattr(logits, "logits", logits).shape == (2, 5, N)


def test_the_logits_are_never_formed():
    model = HuggingFace()
    attached = course_lib.attach(model)  # which reads twelve words by the head
    model.lm_head.register_forward_hook(lambda *_: pytest.fail("the head was run"))
    tokens = torch.randint(N, (2, 5))
    output = attached(tokens)
    assert output.loss is None and output.nll is None and output.hidden.shape == (2, 5, D)
    assert not model.lm_head._forward_pre_hooks


def test_accumulated_batches_add_up_to_one_large_batch():
    attached, tokens = course_lib.attach(HuggingFace().double()), torch.randint(N, (4, 6))
    whole = attached(tokens, tokens)
    parts = [attached(half, half, num_items_in_batch=4 * 5) for half in tokens.split([1, 3])]
    torch.testing.assert_close(sum(part.loss for part in parts), whole.loss)
    torch.testing.assert_close(sum(part.nll for part in parts), whole.nll)


def test_other_layers_and_objectives_are_used():
    class Flat(Softmax):
        def transform(self, logits, scratch=None):
            return 0 * logits

    torch.manual_seed(0)
    model, tokens = HuggingFace().double(), torch.randint(N, (2, 5))
    flat = course_lib.attach(model, output_layer=Flat)(tokens, tokens).loss
    assert flat.item() == pytest.approx(torch.tensor(float(N)).log().item())
    plain = course_lib.attach(model)(tokens, tokens)
    with_z = course_lib.attach(model, objective=ZLoss(1.0))(tokens, tokens)
    log_z = model(tokens).logits[:, :-1].logsumexp(-1)
    torch.testing.assert_close(with_z.loss, log_z.square().mean())
    torch.testing.assert_close(with_z.nll, plain.nll)
    matrix = model.lm_head.weight
    soft = (matrix[tokens[:, 1:]] @ matrix.T / 2).softmax(-1)
    predicted = (model(tokens).logits[:, :-1] / 2).log_softmax(-1)
    expected = (soft * (soft.log() - predicted)).sum(-1).mean()
    augmented = course_lib.attach(model, objective=AugmentedLoss(temperature=2.0))
    torch.testing.assert_close(augmented(tokens, tokens).loss, expected)


def test_a_scale_and_a_cap_of_a_plain_model_come_before_the_layer_s_own_function():
    """In this order, on logits with a bias, and on those of every component of a mixture."""
    torch.manual_seed(0)
    model, tokens = Plain().double(), torch.randint(N, (7, 3))
    told = {"aligned": True, "batch_first": False, "scale": 0.5, "cap": 0.1}
    capped = 0.1 * torch.tanh(0.5 * model(tokens) / 0.1)
    attached = course_lib.attach(model, **told)
    torch.testing.assert_close(attached.log_prob(tokens), capped.log_softmax(-1))
    expected = F.cross_entropy(capped.flatten(0, 1), tokens.flatten())
    torch.testing.assert_close(attached(tokens, tokens).loss, expected)
    flat = attached.hidden(tokens).flatten(0, 1), tokens.flatten()
    with pytest.raises(CourseError, match="scales or caps has no plain form"):
        attached.output_layer.reference(*flat)
    sig = course_lib.attach(model, SigSoftmax, **told)
    assert sig.output_layer.formula is None  # compiled, it would leave scale and cap out
    bent = sig.log_prob(tokens)
    torch.testing.assert_close(bent, (capped + F.logsigmoid(capped)).log_softmax(-1))
    mixed = course_lib.attach(model, partial(MixtureOfSoftmaxes, components=2), **told)
    mixed.double()
    assert mixed.output_layer.logits(mixed.hidden(tokens))[0].abs().max() <= 0.1
    copied = copy.deepcopy(mixed)
    torch.testing.assert_close(copied.log_prob(tokens), mixed.log_prob(tokens))
    for wrong in ({"scale": 0.0}, {"cap": -1.0}):
        with pytest.raises(CourseError, match="must be a number above 0"):
            course_lib.attach(model, **wrong)


def test_training_through_it_lowers_the_loss_of_the_model_itself():
    torch.manual_seed(0)
    model, tokens = HuggingFace(), torch.randint(N, (4, 9))
    attached = course_lib.attach(model)
    before = model(tokens, tokens).loss.item()
    optimiser = torch.optim.AdamW(attached.parameters(), lr=0.01)
    for _ in range(20):
        optimiser.zero_grad()
        attached(tokens, tokens).loss.backward()
        optimiser.step()
    assert model(tokens, tokens).loss.item() < before - 0.5


def test_a_model_whose_output_cannot_be_told_is_refused_with_the_way_out():
    class Two(Plain):
        def __init__(self):
            super().__init__()
            self.other = nn.Linear(D, N)

    with pytest.raises(CourseError, match=r"decoder, other; name one: attach\(model, head="):
        course_lib.attach(Two())
    two, tokens = Two(), torch.randint(N, (2, 5))
    attached = course_lib.attach(two, head="decoder")
    torch.testing.assert_close(attached.log_prob(tokens), two(tokens).log_softmax(-1))
    for wrong in ("decodr", "rnn"):  # no module, and one without a matrix of its own
        with pytest.raises(CourseError, match=f"linear layer of Two '{wrong}'"):
            course_lib.attach(two, head=wrong)
    with pytest.raises(CourseError, match="never calls its head"):
        course_lib.attach(two, head="other")(tokens)
    with pytest.raises(CourseError, match="no nn.Embedding"):
        course_lib.attach(nn.Linear(3, 4))
    with pytest.raises(CourseError, match="neither a linear layer onto its vocabulary"):
        course_lib.attach(nn.Sequential(nn.Embedding(N, D)))


class Wide(nn.Module):
    """A model that is tied by hand, with a hidden layer as wide as the vocabulary."""

    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(N, D)
        self.base_model = nn.Sequential(self.e, nn.Linear(D, N), nn.ReLU(), nn.Linear(N, D))

    def forward(self, tokens):
        return F.linear(self.base_model(tokens), self.e.weight)


def test_a_hidden_layer_of_the_vocabulary_s_width_is_no_head():
    model, tokens = Wide(), torch.randint(N, (2, 5))
    message = r"base_model\.1; name one: attach\(model, head='base_model\.1'\), or 'e' if tied"
    with pytest.raises(CourseError, match=message):
        course_lib.attach(model)
    attached = course_lib.attach(model, head="e")
    torch.testing.assert_close(attached.log_prob(tokens), model(tokens).log_softmax(-1))


def test_a_head_may_be_called_by_keyword():
    class Keyword(Plain):
        def forward(self, tokens):
            return self.decoder(input=self.rnn(self.encoder(tokens))[0])

    model, tokens = Keyword(), torch.randint(N, (2, 5))
    attached = course_lib.attach(model)
    torch.testing.assert_close(attached.log_prob(tokens), model(tokens).log_softmax(-1))


def test_a_mixture_s_mask_is_one_a_sequence_in_the_batch_first_layout():
    """Hugging Face's (B, T): time is the second dimension of the input, the first of the layer."""
    model, seen = HuggingFace(), []

    class Watching(MixtureOfSoftmaxes):
        def contexts(self, hidden):
            contexts, weights = super().contexts(hidden)
            seen.append(contexts == 0)
            return contexts, weights

    attached = course_lib.attach(model, partial(Watching, components=2, dropout=0.5))
    tokens = torch.randint(N, (3, 7))
    attached(tokens, labels=tokens)
    (dropped,) = seen
    assert dropped.shape[:2] == (6, 3) and dropped.any()
    assert (dropped == dropped[:1]).all() and not torch.equal(dropped[:, 0], dropped[:, 1])


@pytest.mark.parametrize("name", ["attach", "methods"])
def test_the_page_runs_as_written(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "how-to" / f"{name}.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 3
    names = {}
    exec("\n".join(blocks), names)
    if name == "attach":  # the text that the page learns by heart
        assert torch.equal(names["texts"], names["input_ids"])


def test_an_attached_model_is_in_the_mode_of_its_model():
    for training in (True, False):
        model = Plain().train(training)
        attached = course_lib.attach(model, batch_first=False, aligned=True)
        assert attached.training == attached.output_layer.training == model.training == training


def test_in_evaluation_the_loss_is_the_cross_entropy():
    attached = course_lib.attach(Plain(), objective=ZLoss(0.5), batch_first=False, aligned=True)
    tokens, labels = torch.randint(N, (2, 6, 3))
    trained = attached(tokens, labels=labels)
    assert trained.loss != trained.nll
    evaluated = attached.eval()(tokens, labels=labels)
    assert evaluated.loss == evaluated.nll
    own = F.cross_entropy(attached.model(tokens).flatten(0, 1), labels.flatten())
    torch.testing.assert_close(evaluated.loss, own)


def test_a_layer_in_the_place_of_a_class_and_a_matrix_that_is_no_parameter_are_refused():
    model = Plain()
    layer = course_lib.attach(model).output_layer
    with pytest.raises(CourseError, match="must be a class or a partial of one, not a layer"):
        course_lib.attach(model, output_layer=layer)
    nn.utils.parametrizations.weight_norm(model.decoder)
    with pytest.raises(CourseError, match=r"must be a parameter \(N, d\); undo weight_norm first"):
        course_lib.attach(model)


@pytest.mark.parametrize("objective", [F.cross_entropy, lambda block: block.log_z[:, 0], ZLoss])
def test_an_objective_that_is_a_function_or_a_class_is_refused(objective):
    with pytest.raises(CourseError, match="^objective must be an instance of Objective or none"):
        course_lib.attach(Plain(), objective=objective)


def test_a_sequence_of_one_token_needs_labels_that_are_the_next_tokens():
    model, one = Plain(), torch.randint(N, (3, 1))
    with pytest.raises(CourseError, match="one token has no next token; give longer ones"):
        course_lib.attach(model)(one, labels=one)
    attached = course_lib.attach(model, aligned=True)
    own = F.cross_entropy(model(one).flatten(0, 1), one.flatten())
    torch.testing.assert_close(attached(one, labels=one).loss, own)
