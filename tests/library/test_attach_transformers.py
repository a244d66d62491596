"""`course_lib.attach` on Hugging Face's own models: tiny, random, made from a configuration."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import (
    BertConfig,
    BertForMaskedLM,
    CohereConfig,
    CohereForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GraniteConfig,
    GraniteForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
    Trainer,
    TrainingArguments,
)

import course_lib
from course_lib.errors import CourseError
from course_lib.output_layers import (
    OUTPUT_LAYERS,
    AdaptiveSoftmax,
    AdversarialMixtureOfSoftmaxes,
    AdversarialSoftmax,
    GatedSoftmax,
    GeneralizedSigSoftmax,
    MixtureOfContexts,
    MixtureOfSoftmaxes,
    PiecewiseLinearSoftmax,
    SigSoftmax,
    SoftCappedSoftmax,
    Softmax,
)

N, D = 41, 16
SIZES = {"vocab_size": N, "hidden_size": D, "num_hidden_layers": 2, "num_attention_heads": 2}
SIZES |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
WIDTHS = {"intermediate_size": 24, "max_position_embeddings": 32}
GROUPED = WIDTHS | {"num_key_value_heads": 1, "head_dim": 8}
OPT = {"ffn_dim": 24, "word_embed_proj_dim": D, "max_position_embeddings": 32}
T5 = {"d_kv": 8, "d_ff": 24, "num_decoder_layers": 2, "decoder_start_token_id": 0}
# Each architecture: its configuration, its model, and what `attach` has to be told.
MODELS = {
    "GPT-2": (GPT2Config, GPT2LMHeadModel, {"n_positions": 32}, {}),
    "Llama": (LlamaConfig, LlamaForCausalLM, GROUPED | {"tie_word_embeddings": False}, {}),
    "Gemma-2": (Gemma2Config, Gemma2ForCausalLM, GROUPED, {"cap": 30.0}),
    "Granite": (
        GraniteConfig,
        GraniteForCausalLM,
        GROUPED | {"logits_scaling": 8.0},
        {"scale": 0.125},
    ),
    "T5": (T5Config, T5ForConditionalGeneration, T5, {"aligned": True}),
    "OPT": (OPTConfig, OPTForCausalLM, OPT, {}),
}
# Constants with which a layer differs from the softmax, or fits these few words.
OPTIONS = {
    AdaptiveSoftmax: {"cutoffs": (10, 20)},
    AdversarialMixtureOfSoftmaxes: {"components": 3},
    MixtureOfContexts: {"components": 3},
    MixtureOfSoftmaxes: {"components": 3},
    PiecewiseLinearSoftmax: {"pieces": 50},
    SoftCappedSoftmax: {"cap": 5.0},
}
# Layers that evaluate as the softmax does, and others at the constants where they are the softmax.
SOFTMAXES = {
    "Softmax": Softmax,
    "AdversarialSoftmax": AdversarialSoftmax,
    "GatedSoftmax": GatedSoftmax,
    "GeneralizedSigSoftmax": partial(GeneralizedSigSoftmax, k=1.0),
    "PiecewiseLinearSoftmax": partial(PiecewiseLinearSoftmax, spread=0.0),
    "SoftCappedSoftmax": partial(SoftCappedSoftmax, cap=1e5),
}
# The others, elementwise in the model's own logits.
ELEMENTWISE = {
    SigSoftmax: lambda logits: logits + F.logsigmoid(logits),
    GeneralizedSigSoftmax: lambda logits: logits - 1.5 * F.softplus(-1.5 - logits),
    SoftCappedSoftmax: lambda logits: 5 * torch.tanh(logits / 5),
}


def build(name, **options):
    """A random model in evaluation, whose logits are large enough for a cap to bend them."""
    config, kind, sizes, _ = MODELS[name]
    torch.manual_seed(0)
    model = kind(config(**SIZES | sizes | options)).eval()
    model.get_output_embeddings().weight.data.normal_(std=3 if name in ("Granite", "T5") else 1)
    return model


def attach(model, name, layer=Softmax, **options):
    layer = partial(layer, **OPTIONS.get(layer, {}))
    return course_lib.attach(model, layer, **MODELS[name][3] | options).eval()


def tokens(rows=3, length=7):
    torch.manual_seed(1)
    return torch.randint(3, N, (rows, length))


def cross_entropy(name, log_prob, labels):
    """The mean of −log P over the labels, which T5 alone does not shift."""
    if name != "T5":
        log_prob, labels = log_prob[:, :-1], labels[:, 1:]
    return F.nll_loss(log_prob.flatten(0, 1), labels.flatten())


# --- the loss ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("layer", SOFTMAXES)
def test_the_loss_and_its_gradients_are_the_model_s_own(name, layer):
    """In the layers that are the softmax, with a mask and labels that do not count."""
    model = build(name)
    attached = course_lib.attach(model, SOFTMAXES[layer], **MODELS[name][3]).eval()
    ids = tokens()
    mask = (torch.arange(7) < torch.tensor([[7], [5], [3]])).long()
    inputs = {"labels": ids.masked_fill(mask == 0, -100), "attention_mask": mask}
    own = model(ids, **inputs).loss
    loss = attached(ids, **inputs).loss
    torch.testing.assert_close(loss, own, rtol=1e-5, atol=1e-5)
    parameters = list(model.parameters())
    expected = torch.autograd.grad(own, parameters)
    found = torch.autograd.grad(loss, parameters)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", OUTPUT_LAYERS)
def test_every_layer_has_the_loss_of_its_own_probabilities(name, kind):
    """They sum to one, and those of an elementwise layer come of the model's own logits."""
    model = build(name)
    attached, ids = attach(model, name, kind), tokens()
    decoder = {"decoder_input_ids": model._shift_right(ids)} if name == "T5" else {}
    with torch.no_grad():
        loss = attached(ids, labels=ids).loss
        log_prob = attached.log_prob(ids, **decoder)
        own = model(ids, labels=ids)
    torch.testing.assert_close(log_prob.exp().sum(-1), torch.ones(3, 7))
    torch.testing.assert_close(loss, cross_entropy(name, log_prob, ids))
    if kind in ELEMENTWISE:
        expected = ELEMENTWISE[kind](own.logits).log_softmax(-1)
        torch.testing.assert_close(log_prob, expected, rtol=1e-4, atol=1e-4)
    same = (loss - own.loss).abs() < 1e-5
    assert same == (kind in (Softmax, AdversarialSoftmax, GatedSoftmax))


@pytest.mark.parametrize("name", MODELS)
def test_one_token_has_a_loss_only_where_it_is_a_label_or_adds_nothing(name):
    """Transformers has NaN for the mean of no loss, and 0 for a sum that a trainer divides."""
    model, one = build(name), tokens(3, 1)
    attached = attach(model, name)
    own = model(one, labels=one).loss
    if name == "T5":
        torch.testing.assert_close(attached(one, labels=one).loss, own)
        return
    assert own.isnan()
    with pytest.raises(CourseError, match="one token has no next token; give longer ones"):
        attached(one, labels=one)
    part = {"labels": one, "num_items_in_batch": torch.tensor(5)}
    assert attached(one, **part).loss == model(one, **part).loss == 0


def test_without_a_label_that_counts_the_loss_is_0_and_so_is_its_gradient():
    model, ids = build("GPT-2"), tokens()
    loss = attach(model, "GPT-2")(ids, labels=torch.full_like(ids, -100)).loss
    assert loss == 0 and model(ids, labels=torch.full_like(ids, -100)).loss.isnan()
    loss.backward()
    assert all((p.grad == 0).all() for p in model.parameters() if p.grad is not None)


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, told",
    [
        ("Gemma-2", r"scale=1, cap=30.0, aligned=False"),
        ("Granite", r"scale=0.125, cap=None, aligned=False"),
        ("T5", r"scale=1, cap=None, aligned=True"),
    ],
)
@pytest.mark.parametrize("type_", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("deviation", [0.02, 1.0])
def test_a_model_with_another_loss_is_refused_and_the_message_says_what_helps(
    name, told, type_, deviation
):
    """Also where the logits are so small that a cap does not change the loss yet."""
    model = build(name).to(type_)
    model.get_output_embeddings().weight.data.normal_(std=deviation)
    with pytest.raises(CourseError, match="the loss of .* would be another; tell attach " + told):
        course_lib.attach(model)
    with pytest.raises(CourseError, match="tell attach " + told):
        course_lib.attach(model, MixtureOfSoftmaxes)
    course_lib.attach(model, **MODELS[name][3])


def test_aligned_labels_are_told_from_shifted_ones_whatever_the_weights_are():
    model = build("T5").to(torch.bfloat16)  # in which a loss has three digits
    for seed in range(40):
        torch.manual_seed(seed)
        model.get_output_embeddings().weight.data.normal_(std=0.02)
        with pytest.raises(CourseError, match="aligned=True"):
            course_lib.attach(model)
        course_lib.attach(model, aligned=True)


def test_a_wrong_scale_or_cap_is_refused():
    for wrong in ({"cap": 20.0}, {"cap": 30.0, "scale": 0.5}, {"scale": 0.5}):
        with pytest.raises(CourseError, match=r"scale=1, cap=30.0, aligned=False"):
            course_lib.attach(build("Gemma-2"), **wrong)
        with pytest.raises(CourseError, match=r"scale=1, cap=None, aligned=False"):
            course_lib.attach(build("GPT-2"), **wrong)
    with pytest.raises(CourseError, match="cap of .*must be a number above 0|cap must be"):
        course_lib.attach(build("GPT-2"), cap=0.0)


def test_a_layer_that_caps_as_the_model_does_needs_no_option():
    model, ids = build("Gemma-2"), tokens()
    attached = course_lib.attach(model, partial(SoftCappedSoftmax, cap=30.0))
    torch.testing.assert_close(attached(ids, labels=ids).loss, model(ids, labels=ids).loss)


def test_labels_that_are_shifted_already_are_no_reason_to_refuse():
    model, ids = build("GPT-2"), tokens()
    loss = course_lib.attach(model, aligned=True)(ids[:, :-1], labels=ids[:, 1:]).loss
    torch.testing.assert_close(loss, model(ids, labels=ids).loss)
    with pytest.raises(CourseError, match="tell attach scale=0.125, cap=None, aligned=True"):
        course_lib.attach(build("Granite"), aligned=True)


def test_attaching_draws_no_random_numbers():
    """The comparison reads words with a model that may drop out, and gives the numbers back."""
    model = build("GPT-2").train()
    before = torch.get_rng_state()
    course_lib.attach(model)
    assert torch.equal(torch.get_rng_state(), before) and model.training


def test_a_model_without_numbers_is_not_compared():
    """Nor does its `generate` ask the layer."""
    with torch.device("meta"):
        model = GPT2LMHeadModel(GPT2Config(**SIZES))
    attached = course_lib.attach(model)
    assert "generate" not in vars(model)
    assert attached.output_layer.words.weight is model.get_output_embeddings().weight


def test_other_architectures_are_compared_as_well():
    """Labels that are not shifted, logits that are multiplied, and a term beside the softmax."""
    bert = BertForMaskedLM(BertConfig(**SIZES, **WIDTHS))
    with pytest.raises(CourseError, match="aligned=True"):
        course_lib.attach(bert)
    ids = tokens()
    attached = course_lib.attach(bert.eval(), aligned=True)
    torch.testing.assert_close(attached(ids, labels=ids).loss, bert(ids, labels=ids).loss)
    cohere = CohereForCausalLM(CohereConfig(**SIZES, **GROUPED, logit_scale=0.0625)).eval()
    with pytest.raises(CourseError, match="scale=0.0625, cap=None"):
        course_lib.attach(cohere)
    attached = course_lib.attach(cohere, scale=0.0625)
    torch.testing.assert_close(attached(ids, labels=ids).loss, cohere(ids, labels=ids).loss)
    mixtral = MixtralForCausalLM(MixtralConfig(**SIZES, **GROUPED, num_local_experts=2)).eval()
    course_lib.attach(mixtral)
    mixtral.config.output_router_logits = True
    with pytest.raises(CourseError, match="switch off what is added to its head.* or to its loss"):
        course_lib.attach(mixtral)


def adapted(name, *targets):
    """A model with PEFT's low-rank adapters beside some of its linear layers."""
    config = LoraConfig(target_modules=list(targets), r=2, task_type="CAUSAL_LM")
    return get_peft_model(build(name), config).eval()


def learn_by_chance(model):
    """Give every adapter numbers, as training does; they begin with none."""
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(parameter)


def test_an_adapter_on_the_head_is_refused_before_and_after_it_has_learnt():
    model = adapted("Llama", "lm_head")
    with pytest.raises(CourseError, match="merge or switch off what is added to its head, as LoRA"):
        course_lib.attach(model)
    model.requires_grad_(False)
    course_lib.attach(model)  # it adds nothing yet, and never will
    learn_by_chance(model)
    with pytest.raises(CourseError, match="merge or switch off what is added to its head, as LoRA"):
        course_lib.attach(model)
    merged, ids = model.merge_and_unload(), tokens(2, 9)
    attached = course_lib.attach(merged)
    torch.testing.assert_close(attached(ids, labels=ids).loss, merged(ids, labels=ids).loss)


def test_adapters_within_the_model_learn_under_an_attached_layer(tmp_path):
    """The matrix stays as it was, and so does all else but the adapters and the new layer."""
    model, ids = adapted("Llama", "q_proj", "v_proj"), tokens(2, 9)
    learn_by_chance(model)
    same = course_lib.attach(model)
    torch.testing.assert_close(same(ids, labels=ids).loss, model(ids, labels=ids).loss)
    attached = course_lib.attach(model, partial(MixtureOfSoftmaxes, components=3))
    before = {name: p.detach().clone() for name, p in attached.named_parameters()}
    optimiser = torch.optim.SGD(attached.parameters(), lr=1.0)
    attached(ids, labels=ids).loss.backward()
    optimiser.step()
    moved = {n for n, p in attached.named_parameters() if not torch.equal(p, before[n])}
    assert {name.rpartition(".")[0] for name in moved if "model." in name} == {
        f"model.base_model.model.model.layers.{i}.self_attn.{part}_proj.lora_{side}.default"
        for i in range(2)
        for part in "qv"
        for side in "AB"
    }
    assert any(name.startswith("output_layer.") for name in moved)
    # what PEFT saves, and what the layer saves, give the same loss in a fresh model
    model.save_pretrained(tmp_path)
    again = PeftModel.from_pretrained(build("Llama"), tmp_path).eval()
    renewed = course_lib.attach(again, partial(MixtureOfSoftmaxes, components=3))
    renewed.output_layer.load_state_dict(attached.output_layer.state_dict())
    torch.testing.assert_close(renewed(ids, labels=ids).loss, attached(ids, labels=ids).loss)


# --- texts ---------------------------------------------------------------------------------------


def greedy(attached, name, prompt, words):
    """The likeliest text by `log_prob`, word by word, without a cache."""
    if name == "T5":
        text = torch.zeros(len(prompt), 1, dtype=torch.long)
    else:
        text = prompt
    for _ in range(words):
        inputs = {"decoder_input_ids": text} if name == "T5" else {}
        log_prob = attached.log_prob(prompt if name == "T5" else text, **inputs)
        text = torch.cat([text, log_prob[:, -1:].argmax(-1)], 1)
    return text


def said(attached, name, prompt, words):
    """The text that `log_prob` says, which the model's own `generate` has to say, too."""
    options = {"max_new_tokens": words, "do_sample": False, "eos_token_id": None}
    text = greedy(attached, name, prompt, words)
    assert attached.model.generate == attached.generate
    assert torch.equal(attached.generate(prompt, **options), text)
    return text


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", OUTPUT_LAYERS)
def test_the_model_generates_the_text_that_the_layer_says(name, kind):
    """And a mixture another text than the model's own output layer."""
    model, prompt = build(name), tokens(8, 4)
    if issubclass(kind, MixtureOfSoftmaxes):
        own = model.generate(prompt, max_new_tokens=2, do_sample=False, eos_token_id=None)
        assert not torch.equal(said(attach(model, name, kind), name, prompt, 2), own)
    else:
        said(attach(model, name, kind), name, prompt, 2)


def test_a_wrapped_model_generates_the_layer_s_text():
    attached = attach(adapted("Gemma-2", "q_proj"), "Gemma-2", MixtureOfSoftmaxes)
    said(attached, "Gemma-2", tokens(8, 4), 2)


def memorised():
    """Every layer on GPT-2, and two that have no plain logits on all others; the rest nightly."""
    for name in MODELS:
        for kind in OUTPUT_LAYERS:
            often = name == "GPT-2" or kind in (MixtureOfSoftmaxes, AdaptiveSoftmax)
            yield pytest.param(name, kind, marks=() if often else pytest.mark.nightly)


@pytest.mark.parametrize("name, kind", list(memorised()))
def test_a_memorised_text_is_generated(name, kind):
    attached = attach(build(name), name, kind)
    text = tokens(2, 9)
    optimiser = torch.optim.Adam(attached.parameters(), lr=0.03)
    for _ in range(200):
        optimiser.zero_grad()
        loss = attached(text, labels=text).loss
        loss.backward()
        optimiser.step()
        if loss < 0.04:  # then each word has more than half of the probability
            break
    if name == "T5":  # whose decoder begins with a word of its own
        assert torch.equal(said(attached, name, text, 9), F.pad(text, (1, 0)))
    else:
        assert torch.equal(said(attached, name, text[:, :2], 7), text)


def test_sampled_and_searched_texts_follow_the_layer_s_probabilities():
    """Beams find the likeliest of all texts; without dropout, also in a mixture that trains."""
    model = build("Gemma-2")
    layer = partial(MixtureOfSoftmaxes, components=3, dropout=0.9)
    attached = course_lib.attach(model, layer, cap=30.0)
    prompt = tokens(1, 3)
    options = {"max_new_tokens": 2, "eos_token_id": None}
    beams = {"num_beams": N, "do_sample": False, "output_scores": True}
    given = model.generate(prompt, **options, **beams, return_dict_in_generate=True)
    with torch.no_grad():
        first = attached.log_prob(prompt)[0, -1]
        texts = torch.cat([prompt.expand(N, -1), torch.arange(N)[:, None]], 1)
        pairs = first[:, None] + attached.log_prob(texts)[:, -1]
    assert given.sequences[0, 3] * N + given.sequences[0, 4] == pairs.argmax()
    torch.testing.assert_close(given.sequences_scores[0] * 2, pairs.max())
    drawn = attached.generate(prompt.expand(4000, -1), do_sample=True, top_k=0, max_new_tokens=1)
    share = drawn[:, 3].bincount(minlength=N) / 4000
    assert (share - first.exp()).abs().max() < 0.05 and first.exp().max() > 0.1


def test_a_model_that_cannot_generate_says_so():
    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(N, D)
            self.head = nn.Linear(D, N)

        def forward(self, ids):
            return self.head(self.words(ids))

    with pytest.raises(AttributeError, match="Plain.* has no attribute 'generate'"):
        course_lib.attach(Plain()).generate(tokens())


# --- files and trainers --------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", [Softmax, MixtureOfSoftmaxes, AdaptiveSoftmax])
def test_a_saved_model_comes_back(tmp_path, name, kind):
    """Whole, from one file; and the model without its layer, as Hugging Face saves it."""
    model = build(name)
    attached, ids = attach(model, name, kind), tokens()
    with torch.no_grad():
        for parameter in attached.output_layer.parameters():
            parameter.add_(torch.randn_like(parameter) / 10)
    expected = attached(ids, labels=ids).loss
    state = attached.state_dict()
    assert {p.data_ptr() for p in attached.parameters()} == {t.data_ptr() for t in state.values()}
    save_file(state, tmp_path / "attached.safetensors")
    again = attach(build(name), name, kind)
    again.load_state_dict(load_file(tmp_path / "attached.safetensors"))
    torch.testing.assert_close(again(ids, labels=ids).loss, expected)
    assert again.output_layer.words.weight is again.model.get_output_embeddings().weight
    model.save_pretrained(tmp_path)
    alone = type(model).from_pretrained(tmp_path)
    torch.testing.assert_close(alone(ids, labels=ids).loss, model(ids, labels=ids).loss)
    again.load_state_dict({"output_layer.words.weight": torch.ones(N, D)}, strict=False)
    assert (again.model.get_output_embeddings().weight == 1).all()
    with pytest.raises(RuntimeError, match="Missing key"):
        again.load_state_dict({k: v for k, v in state.items() if "norm" not in k and "ln" not in k})


def trained(model, folder, steps, resume=None, rows=None, batches=2, **options):
    """Losses of some steps, of two batches each, by Hugging Face's trainer, which saves some."""
    ids = tokens(12, 7)
    rows = rows or [{"input_ids": row, "labels": row} for row in ids]
    arguments = TrainingArguments(
        folder, max_steps=steps, per_device_train_batch_size=2, save_steps=2, logging_steps=1,
        gradient_accumulation_steps=batches, learning_rate=1e-2, report_to=[], disable_tqdm=True,
        use_cpu=True, seed=1, **options,
    )  # fmt: skip
    trainer = Trainer(model, arguments, train_dataset=rows)
    trainer.train(resume_from_checkpoint=resume)
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


@pytest.mark.parametrize("name", ["GPT-2", "Granite", "T5"])
def test_hugging_face_s_trainer_trains_as_it_trains_the_model_itself(tmp_path, name):
    batches = 1 if name == "T5" else 2  # which forgets that its loss is a part of two
    expected = trained(build(name), tmp_path / "own", 3, batches=batches)
    found = trained(attach(build(name), name), tmp_path / "attached", 3, batches=batches)
    assert found == pytest.approx(expected, rel=1e-4) and len(found) == 3


@pytest.mark.parametrize("name, kind", [("GPT-2", MixtureOfSoftmaxes), ("Llama", AdaptiveSoftmax)])
def test_hugging_face_s_trainer_saves_and_resumes(tmp_path, name, kind):
    whole = attach(build(name), name, kind)
    torch.manual_seed(2)
    start = {key: value.clone() for key, value in whole.state_dict().items()}
    losses = trained(whole, tmp_path / "whole", 4)
    resumed = attach(build(name), name, kind)
    part = tmp_path / "whole" / "checkpoint-2"
    assert trained(resumed, tmp_path / "resumed", 4, part)[-2:] == pytest.approx(losses[-2:])
    for key, value in whole.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[key], value)
        assert not torch.equal(value, start[key])


@pytest.mark.parametrize("name", ["GPT-2", "Gemma-2", "T5"])
def test_checkpointed_activations_are_computed_twice_and_change_no_loss(tmp_path, name):
    losses, calls = [], [0, 0]
    for twice in (False, True):
        attached = attach(build(name), name)

        def count(*_, place=twice):
            calls[place] += 1

        for module in attached.modules():
            if not list(module.children()):
                module.register_forward_hook(count)
        losses.append(trained(attached, tmp_path, 2, gradient_checkpointing=twice))
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    assert calls[1] > 1.2 * calls[0]


def evaluated(model, folder, rows, **options):
    """The evaluation loss by Hugging Face's trainer, in batches of two rows."""
    arguments = TrainingArguments(
        folder, per_device_eval_batch_size=2, report_to=[], disable_tqdm=True, use_cpu=True
    )
    return Trainer(model, arguments, eval_dataset=rows, **options).evaluate()["eval_loss"]


@pytest.mark.parametrize("name", MODELS)
def test_hugging_face_s_trainer_evaluates_as_it_evaluates_the_model_itself(tmp_path, name):
    """Also where some labels do not count, and where it collects what `compute_metrics` reads."""
    ids = tokens(6, 7)
    labels = ids.masked_fill(torch.rand(6, 7) < 0.3, -100)
    rows = [{"input_ids": row, "labels": own} for row, own in zip(ids, labels, strict=True)]
    expected = evaluated(build(name), tmp_path, rows)
    attached = attach(build(name), name)
    assert evaluated(attached, tmp_path, rows) == pytest.approx(expected, rel=1e-5)
    found = evaluated(attached, tmp_path, rows, compute_metrics=lambda predicted: {})
    assert found == pytest.approx(expected, rel=1e-5)


def test_the_trainer_divides_by_the_predicted_tokens_of_a_gpt_2_whose_loss_is_named(tmp_path):
    """GPT-2 does not name its loss, so the trainer counts T labels where T − 1 are predicted."""
    ids = tokens(6, 7)
    rows = [{"input_ids": row, "labels": row} for row in ids]
    with torch.no_grad():
        mean = build("GPT-2")(ids, labels=ids).loss.item()
    for factor, named in ((6 / 7, None), (1, "ForCausalLM")):
        model = build("GPT-2")
        model.loss_type = named
        assert evaluated(model, tmp_path, rows) == pytest.approx(factor * mean, rel=1e-5)
        attached = attach(model, "GPT-2")
        assert evaluated(attached, tmp_path, rows) == pytest.approx(factor * mean, rel=1e-5)


def test_the_trainer_hands_the_mask_on(tmp_path):
    """A column that the trainer took for unused would make T5 read its padding."""
    model, ids = build("T5"), tokens(12, 7)
    rows = [
        {"input_ids": row, "labels": row, "attention_mask": torch.arange(7) < 2 + i % 5}
        for i, row in enumerate(ids)
    ]
    expected = trained(build("T5"), tmp_path / "own", 2, rows=rows, batches=1)
    found = trained(attach(model, "T5"), tmp_path / "attached", 2, rows=rows, batches=1)
    assert found == pytest.approx(expected, rel=1e-4)
