"""`course_lib.attach`: the course's output layers on other people's causal language models.

Works on any PyTorch module with a linear output layer, and on Hugging Face's causal models, which
are recognised by their method `get_output_embeddings`; the transformers package is not needed.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.errors import CourseError, unknown
from course_lib.output_layers import FRESH, IGNORE, FullWords, Objective, OutputLayer, Softmax
from course_lib.ranges import Positive, checked

TRUNKS = ("base_model", "transformer", "model")
TRAINERS_ASK = ("config", "activation_checkpointing_enable", "gradient_checkpointing_enable")


class Output(NamedTuple):
    """The result of one call; loss and nll are None without labels."""

    loss: Tensor | None  # scalar, to be differentiated
    nll: Tensor | None  # scalar, nats without gradient, divided as the loss is
    hidden: Tensor  # (…, d), what the output layer reads


@checked
def attach(
    model: nn.Module,
    output_layer: Callable[..., OutputLayer] = Softmax,
    objective: Objective | None = None,
    aligned: bool = False,
    head: str | None = None,
    batch_first: bool = True,
    scale: Positive = 1.0,
    cap: Positive | None = None,
) -> "Attached":
    """Return a model with one of the course's output layers, its loss from the chunk kernel.

        attached = course_lib.attach(model, output_layer=Softmax)
        attached(input_ids, labels=input_ids).loss.backward()

    model: goes on sharing every parameter, and what was tied stays tied.
    output_layer: a class, or a partial of one, called with the model's words and with `bias`.
    objective: what is minimised in training; the cross-entropy if None, and in evaluation.
    aligned: whether labels are the next tokens already, in the layout of input_ids. If not,
        position t is compared with label t + 1 of (B, T), as in Hugging Face's causal models.
    head: dotted name of the linear output layer where it cannot be found, or of the embedding
        whose matrix the model uses as an output layer by hand.
    batch_first: whether input_ids are (B, T), as everywhere at Hugging Face; else (T, B), which
        needs `aligned`. Along time a mixture's dropout mask stays the same.
    scale, cap: what the model makes of its head's logits l: s·l, or c·tanh(s·l / c).

    CourseError if the model's output matrix cannot be found, or if `scale`, `cap` or `aligned` is
    not what a Hugging Face model does with its head's logits; it reads twelve words to tell.
    """
    # The layer around the model's own matrix and bias, in the model's type.
    head, matrix, bias = _find(model, head)
    if isinstance(output_layer, nn.Module):
        raise CourseError("output_layer must be a class or a partial of one, not a layer")
    words = FullWords.of(matrix)
    layer: Any = output_layer(words, bias=bias is not None).to(matrix.device)
    for part in layer.modules():  # counters keep their own type
        if isinstance(part, nn.Linear):
            part.to(matrix.dtype)
    if bias is not None:
        layer.bias = bias
    if scale != 1 or cap is not None:
        layer.transform = partial(_logits, scale, cap, layer.transform)
        layer.formula = None  # which would leave scale and cap out
    if not (aligned or batch_first):
        raise CourseError("labels are shifted along (B, T) only; give next tokens, aligned=True")
    attached = Attached(model, head, layer, objective, aligned, batch_first)
    layer.train(model.training)
    attached.training = model.training
    if hasattr(model, "get_output_embeddings") and head is not None and not matrix.is_meta:
        attached._compare(head, scale, cap)
        model.generate = attached.generate  # pyright: ignore[reportArgumentType] (no tensor)
    return attached


class Attached(nn.Module):
    """A model whose own forward runs as far as its output layer, and `output_layer` in its place.

    The model keeps its head, which shares its parameters with `output_layer`. Only a Hugging Face
    model's `generate` is replaced, by this one. `state_dict` has one name for a shared tensor.
    """

    def __init__(self, model, head, output_layer, objective, aligned, batch_first):
        super().__init__()
        self.model = model
        self.output_layer = output_layer
        self.objective = objective
        self.aligned = aligned
        self.batch_first = batch_first
        self._head = (head,)  # in a tuple: `model` owns it already
        self.loss_type = None if aligned else getattr(model, "loss_type", "ForCausalLM")
        self.register_state_dict_post_hook(_share)
        self.register_load_state_dict_pre_hook(_share)
        vars(self).update({k: getattr(model, k) for k in TRAINERS_ASK if hasattr(model, k)})

    def forward(
        self,
        input_ids: Tensor,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        attention_mask: Tensor | None = None,  # a trainer drops what is not named here
        **inputs,
    ) -> Output:
        """Return the loss and the hidden states, without forming the logits.

        input_ids, labels: of one shape; labels of -100 do not count, and where none counts the
            loss is 0. CourseError for sequences of one token, whose next token nobody knows, unless
            num_items_in_batch is given. Transformers' own mean over nothing is NaN in both cases.
        num_items_in_batch: what the sum of the losses is divided by, in place of the number of
            labels, where a trainer accumulates gradients over several batches.
        attention_mask, inputs: go to the model, and the labels, too, if it has a decoder for them.
        """
        if attention_mask is not None:
            inputs["attention_mask"] = attention_mask
        if getattr(getattr(self, "config", None), "is_encoder_decoder", False):
            inputs["labels"] = labels
        hidden = self.hidden(input_ids, **inputs)
        if labels is None:
            return Output(None, None, hidden)
        # Each position beside its label, time first.
        before = hidden
        if not self.aligned:
            if labels.shape[-1] < 2 and num_items_in_batch is None:
                raise CourseError("a sequence of one token has no next token; give longer ones")
            before, labels = hidden[:, :-1], labels[:, 1:]
        if self.batch_first and labels.dim() == 2:
            before, labels = before.transpose(0, 1), labels.T

        # The loss.
        objective = self.objective if self.training else None
        soft = None
        if objective is not None and objective.needs_soft_targets:
            rows = _embedding(self.model).weight
            soft = rows[labels.flatten().clamp(min=0)], rows
        if num_items_in_batch is None:
            return Output(*self.output_layer(before, labels, objective, soft), hidden=hidden)
        loss, nll = self.output_layer(before, labels, objective, soft, reduction="sum")
        return Output(loss / num_items_in_batch, nll / num_items_in_batch, hidden)

    def hidden(self, input_ids: Tensor, **inputs) -> Tensor:
        """Return what reaches the model's head, (…, d); the head itself is not run."""
        (head,) = self._head
        if head is None:
            return _tensor(_trunk(self.model)(input_ids, **inputs))

        def stop(_, arguments, options):
            raise _Reached(*arguments, *options.values())

        try:
            with head.register_forward_pre_hook(stop, with_kwargs=True):
                self.model(input_ids, **inputs)
        except _Reached as reached:
            return reached.args[0]
        raise CourseError(f"{type(self.model).__name__} never calls its head {head}")

    def log_prob(self, input_ids: Tensor, **inputs) -> Tensor:
        """Return log P of the next word after every token, (…, N), in nats."""
        return self.output_layer.log_prob(self.hidden(input_ids, **inputs))

    def generate(self, *arguments, **options) -> Tensor:
        """Continue texts by Hugging Face's `generate`, with the probabilities of `output_layer`."""
        model = getattr(self.model, "get_base_model", lambda: self.model)()  # in PEFT's wrapper
        if self._head[0] is None:
            raise CourseError("generate needs an output layer of the model's own; use log_prob")
        reached = []

        def answer(_module, _call, output):
            output.logits = self.output_layer.log_prob(reached.pop())

        self.output_layer.train(model.training)
        door = self._head[0].register_forward_pre_hook(lambda _, call: reached.append(call[0]))
        with door, model.register_forward_hook(answer):
            return type(self.model).generate(self.model, *arguments, **options)

    @torch.no_grad()
    def _compare(self, head, scale, cap) -> None:
        """Raise CourseError unless the model's own loss of twelve words is as `attach` was told."""
        own, loss, raw, labels = self._own_answer(head)

        # What it may do to its head's logits: what was told, or what tiny and huge logits show.
        # A layer that caps by itself may stand for the model's own cap.
        told = [(scale, cap), (scale, getattr(self.output_layer, "cap", cap))]
        slope = ((own * raw)[0].sum() / raw[0].square().sum()).item()
        pairs = told + [(s, c) for s in (1.0, slope) for c in (None, own.abs().max().item())]

        # Which of these give its logits, and which labels its loss.
        close = partial(torch.allclose, rtol=2e-5 + 2 * torch.finfo(head.weight.dtype).eps)
        lengths = own.norm(dim=-1)
        pairs = [pair for pair in pairs if close(lengths, _logits(*pair, None, raw).norm(dim=-1))]
        shifted = close(loss, F.cross_entropy(own[:, :-1].mT, labels[:, 1:]))
        straight = close(loss, F.cross_entropy(own.mT, labels))

        # Parameters beside matrix and bias, such as an adapter's, are not in the output layer.
        plain = {k for k, p in head.named_parameters() if p.requires_grad} <= {"weight", "bias"}
        known = plain and pairs and (shifted or straight)
        if known and any(pair in told for pair in pairs) and (shifted or self.aligned):
            return
        way = "merge or switch off what is added to its head, as LoRA does, or to its loss"
        if known:
            s, c = pairs[0]
            aligned = self.aligned or not shifted
            way = f"tell attach scale={s:.6g}, cap={c}, aligned={aligned}"
        raise CourseError(f"the loss of {type(self.model).__name__} would be another; {way}")

    def _own_answer(self, head) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the model's logits (3, 4, N) and loss of three texts, the head's, and the labels.

        Hidden states at the head's door are tiny in the first text, where a scale shows, huge in
        the second, where a cap does, and middling in the third, which alone has labels: the best
        word three times, then the worst, so that labels one word further on have another loss.
        Random numbers go on as if nothing had been read.
        """
        weight = head.weight
        words = torch.arange(12, device=weight.device).view(3, 4) % len(weight)
        labels = words.flip(1)
        labels[:2] = IGNORE
        with torch.random.fork_rng([weight.device] if weight.is_cuda else []):
            hidden = self.hidden(words, labels=labels)
            largest = F.linear(hidden, weight).abs().amax(-1, keepdim=True)
            sizes = hidden.new_tensor([1e-2, 1e3, 10.0]).view(3, 1, 1)
            hidden = hidden / largest.clamp(min=1e-5) * sizes
            raw = F.linear(hidden, weight, getattr(head, "bias", None))
            labels[2] = torch.cat([raw[2, :3].argmax(-1), raw[2, 3:].argmin(-1)])
            with head.register_forward_pre_hook(lambda *_: ((hidden,), {}), with_kwargs=True):
                output = self.model(words, labels=labels)
        return output.logits.float(), output.loss.float(), raw.float(), labels


class _Reached(Exception):
    """Carries the hidden states from the head's door."""


def _share(module, state, prefix, _metadata, *loading):
    """Take each shared tensor's further names out of `state`; before loading, put them back."""
    first = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        origin = first.setdefault(parameter, name)
        if loading and prefix + origin in state:
            state.setdefault(prefix + name, state[prefix + origin])
        elif not loading and origin != name:
            state.pop(prefix + name, None)


def _logits(scale, cap, transform, logits, *parameters, scratch=FRESH):
    """Return the layer's `transform` of what the model makes of its head's logits."""
    logits = scale * logits
    if cap is not None:
        logits = cap * torch.tanh(logits / cap)
    return logits if transform is None else transform(logits, *parameters, scratch=scratch)


def _find(model: nn.Module, name: str | None) -> Any:
    """Return (head module or None, output matrix (N, d), bias (N,) or None)."""
    modules = dict(model.named_modules())
    linear = {n: m for n, m in modules.items() if isinstance(m, nn.Linear)}
    own = getattr(model, "get_output_embeddings", lambda: None)  # Hugging Face's name
    head = modules.get(name) if name else own()
    if name and not isinstance(getattr(head, "weight", None), nn.Parameter):
        raise unknown(f"linear layer of {type(model).__name__}", name, linear)
    if head is None:
        embedding = _embedding(model)
        heads = {n: m for n, m in linear.items() if m.out_features == embedding.num_embeddings}
        tied = [module for module in heads.values() if module.weight is embedding.weight]
        inside = any(name.partition(".")[0] in TRUNKS for name in heads)  # maybe a hidden layer
        if len(tied) != 1 and (len(heads) > 1 or inside):
            reads = next(n for n, m in modules.items() if m is embedding)
            raise CourseError(
                f"{type(model).__name__} has layers that could be its output: {', '.join(heads)}; "
                f"name one: attach(model, head={next(iter(heads))!r}), or {reads!r} if tied by hand"
            )
        head = next(iter(tied or heads.values()), embedding)
    if isinstance(head, nn.Embedding):  # whose matrix is used as the output matrix by hand
        _trunk(model)
        return None, head.weight, None
    return head, head.weight, getattr(head, "bias", None)


def _embedding(model: Any) -> Any:
    """Return the layer that reads words: Hugging Face's, or the embedding with the most rows."""
    if hasattr(model, "get_input_embeddings"):
        return model.get_input_embeddings()
    embeddings = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    if not embeddings:
        raise CourseError(
            f"{type(model).__name__} has no nn.Embedding to tell its vocabulary by; name its "
            f"output layer: attach(model, head='…')"
        )
    return max(embeddings, key=lambda module: module.num_embeddings)


def _trunk(model: nn.Module) -> nn.Module:
    """Return the part that turns tokens into hidden states."""
    for name in TRUNKS:
        part = getattr(model, name, None)
        if isinstance(part, nn.Module) and part is not model:
            return part
    raise CourseError(
        f"{type(model).__name__} has neither a linear layer onto its vocabulary nor a part called "
        f"{', '.join(TRUNKS)}: give it one of these, or name its output layer with head='…'"
    )


def _tensor(output) -> Tensor:
    """Return the hidden states of a tensor, a tuple or a Hugging Face output."""
    if isinstance(output, Tensor):
        return output
    return output.last_hidden_state if hasattr(output, "last_hidden_state") else output[0]
