"""`course_lib.attach`: the course's output layers on other people's causal language models.

Works on any PyTorch module with a linear output layer, and on Hugging Face's causal models, which
are recognised by their methods (`get_output_embeddings`, `get_input_embeddings`, `base_model`);
the transformers package itself is not needed.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from course_lib.errors import CourseError
from course_lib.output_layers import FullWords, Objective, OutputLayer, Softmax

TRUNKS = ("base_model", "transformer", "model")


class Output(NamedTuple):
    """The result of one call; loss and nll are None without labels."""

    loss: Tensor | None  # scalar, to be differentiated
    nll: Tensor | None  # scalar, mean nats per predicted token, without gradient
    hidden: Tensor  # (…, d), what the output layer reads


def attach(
    model: nn.Module,
    output_layer: Callable[..., OutputLayer] = Softmax,
    objective: Objective | None = None,
    aligned: bool = False,
    head: str | None = None,
    batch_first: bool = True,
) -> "Attached":
    """Return a model with one of the course's output layers, its loss from the chunk kernel.

        attached = course_lib.attach(model, output_layer=Softmax)
        attached(input_ids, labels=input_ids).loss.backward()

    model: goes on sharing every parameter, and what was tied stays tied.
    output_layer: a class, or a partial of one, called with the words around the model's own output
        matrix and with `bias`.
    objective: what is minimised; the cross-entropy if None.
    aligned: whether labels are the next tokens already, in the layout of input_ids. Otherwise they
        are the tokens themselves, (B, T), and position t is compared with label t + 1, as Hugging
        Face has it.
    head: dotted name of the linear output layer where it cannot be found.
    batch_first: whether input_ids are (B, T), as everywhere at Hugging Face; else (T, B), which
        needs `aligned`. Along time a mixture's dropout mask stays the same.

    CourseError if the model's output matrix cannot be found.
    """
    # The layer around the model's own matrix and bias, in the model's type.
    head, matrix, bias = _find(model, head)
    with torch.device("meta"):  # the matrix exists already
        words = FullWords(*matrix.shape)
    words.weight = matrix
    layer = output_layer(words, bias=bias is not None).to(matrix.device)
    for part in layer.modules():  # counters keep their own type
        if isinstance(part, nn.Linear):
            part.to(matrix.dtype)
    if bias is not None:
        layer.bias = bias
    if not (aligned or batch_first):
        raise CourseError("labels are shifted along (B, T) only; give next tokens, aligned=True")
    return Attached(model, head, layer, objective, aligned, batch_first)


class Attached(nn.Module):
    """A model whose own forward runs as far as its output layer, and `output_layer` in its place.

    The model is not changed: it keeps its head, which shares its parameters with `output_layer`,
    and can still be saved or asked to generate.
    """

    def __init__(self, model, head, output_layer, objective, aligned, batch_first):
        super().__init__()
        self.model = model
        self.output_layer = output_layer
        self.objective = objective
        self.aligned = aligned
        self.batch_first = batch_first
        self._head = (head,)  # in a tuple: `model` owns it already

    def forward(
        self,
        input_ids: Tensor,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **inputs,
    ) -> Output:
        """Return the loss and the hidden states, without forming the logits.

        input_ids, labels: of one shape; labels of -100 do not count.
        num_items_in_batch: what the sum of the losses is divided by, in place of the number of
            labels, where a trainer accumulates gradients over several batches.
        inputs: go to the model, such as attention_mask.
        """
        hidden = self.hidden(input_ids, **inputs)
        if labels is None:
            return Output(None, None, hidden)
        # Each position beside its label, time first.
        before = hidden
        if not self.aligned:
            before, labels = hidden[:, :-1], labels[:, 1:]
        if self.batch_first and labels.dim() == 2:
            before, labels = before.transpose(0, 1), labels.T

        # The loss.
        soft = None
        if self.objective is not None and self.objective.needs_soft_targets:
            rows = _embedding(self.model).weight
            soft = rows[labels.flatten().clamp(min=0)], rows
        if num_items_in_batch is None:
            return Output(*self.output_layer(before, labels, self.objective, soft), hidden)
        loss, nll = self.output_layer(before, labels, self.objective, soft, reduction="sum")
        return Output(loss / num_items_in_batch, nll / num_items_in_batch, hidden)

    def hidden(self, input_ids: Tensor, **inputs) -> Tensor:
        """Return what reaches the model's head, (…, d); the head itself is not run."""
        (head,) = self._head
        if head is None:
            return _tensor(_trunk(self.model)(input_ids, **inputs))

        def stop(_, arguments):
            raise _Reached(arguments[0])

        handle = head.register_forward_pre_hook(stop)
        try:
            self.model(input_ids, **inputs)
        except _Reached as reached:
            return reached.hidden
        finally:
            handle.remove()
        raise CourseError(f"{type(self.model).__name__} never calls its head {head}")

    def log_prob(self, input_ids: Tensor, **inputs) -> Tensor:
        """Return log P of the next word after every token, (…, N), in nats."""
        return self.output_layer.log_prob(self.hidden(input_ids, **inputs))


class _Reached(Exception):
    """Carries the hidden states from the head's door."""

    def __init__(self, hidden: Tensor):
        super().__init__()
        self.hidden = hidden


def _find(model: nn.Module, name: str | None):
    """Return (head module or None, output matrix (N, d), bias (N,) or None)."""
    if name:
        head = model.get_submodule(name)
    else:
        head = getattr(model, "get_output_embeddings", lambda: None)()  # Hugging Face's name
    if head is None:
        embedding = _embedding(model)
        heads = {
            name: module
            for name, module in model.named_modules()
            if isinstance(module, nn.Linear) and module.out_features == embedding.num_embeddings
        }
        tied = [module for module in heads.values() if module.weight is embedding.weight]
        if len(heads) > 1 and len(tied) != 1:
            raise CourseError(
                f"{type(model).__name__} has several layers that could be its output: "
                f"{', '.join(heads)}; name one: attach(model, head={next(iter(heads))!r})"
            )
        head = next(iter(tied or heads.values()), None)
        if head is None:  # the input embedding is used as the output matrix by hand
            _trunk(model)
            return None, embedding.weight, None
    return head, head.weight, getattr(head, "bias", None)


def _embedding(model: nn.Module) -> nn.Module:
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
