"""Words that are tied at first, and untied for the rest of the run."""

from typing import Any

from torch import no_grad
from torch.optim import Optimizer

from course_lib.errors import CourseError


class TiedUntil:
    """Two word matrices of a model that are one up to a share of the run (modded-nanogpt, 2025).

    Until then the matrix that reads takes each step for both: it has the sum of both gradients, as
    a tied matrix has, and the matrix that predicts is its copy. From then on each takes its own
    steps, and the matrix that predicts begins with a copy of the optimiser's state. The model has
    two matrices from the beginning, so that its checkpoints have the same tensors throughout, and
    its parameters are counted as those of the untied model that it becomes.
    """

    def __init__(self, model: Any, optimizer: Optimizer, share: float):
        """Make the matrix that predicts a copy of the one that reads.

        model: has `words` and `output_layer.words`, two of one kind; CourseError if it is tied;
        optimizer: of both, by one rule, see `Optimisation.build`;
        share: of the run, up to which they are one.
        """
        if model.tied:
            raise CourseError("tied_until is where tying ends, so the model must be untied")
        self.optimizer = optimizer
        self.share = share
        readers = model.words.parameters()
        self.pairs = list(zip(readers, model.output_layer.words.parameters(), strict=True))
        self.tied = True
        self.after_step()

    @no_grad()
    def before_step(self, done: float) -> None:
        """Move the gradients to the matrix that reads; `done` is the share of the run before."""
        self.tied = done < self.share
        slots = self.optimizer.state
        for reader, predictor in self.pairs:
            if self.tied and predictor.grad is not None:
                reader.grad += predictor.grad
                predictor.grad = None
            elif not self.tied and not slots[predictor]:
                slots[predictor].update({k: v.clone() for k, v in slots[reader].items()})

    @no_grad()
    def after_step(self) -> None:
        """Copy the matrix that reads, as long as they are one."""
        if self.tied:
            for reader, predictor in self.pairs:
                predictor.copy_(reader)
