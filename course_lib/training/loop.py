"""The training loop: epochs of updates, validated, checkpointed, resumable."""

import math
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import nn
from tqdm import tqdm  # the widget of tqdm.auto does not show on a static page

from course_lib import machine
from course_lib.errors import CourseError, Paused
from course_lib.evaluation.perplexity import float32_products
from course_lib.models import state as states
from course_lib.protocols import Resharded
from course_lib.training import graphs
from course_lib.training.averaging import WeightAverage, stalled
from course_lib.training.batches import Task, Update
from course_lib.training.checkpoint import whole
from course_lib.training.optimisation import Optimisation
from course_lib.training.run_state import RunState

HUGE = 700.0  # nats a token; exp(HUGE) is 1e304, and exp(710) is above the largest 64-bit float
WINDOW = 20  # steps between two looks at the loss, each of which waits for the device


def fit(
    model: nn.Module,
    task: Task,
    optimisation: Optimisation,
    accelerator: Accelerator,
    *,
    folder: Path,
    identity: dict,
    vocabulary: dict | None = None,
    starts: Sequence[dict] = (),
    seed: int = 1,
    callback: Callable[[int, nn.Module], None] | None = None,
    report: Callable[[int, dict[str, float]], None] | None = None,
    progress: bool = True,
    checkpoint_seconds: float = 60.0,
    deadline: float | None = None,
    trained: bool = False,
) -> list[dict]:
    """Train `model` in place and return one row of figures an epoch.

    model: a language or translation model. Its modules that are `Annealed`, `Constrained` or
        `Accumulating` (course_lib.protocols) are told of every step.
    task: the batches of this process, and the validation.
    optimisation: every setting of the training.
    accelerator: where it trains, and in how many processes.
    folder: receives two files. last.safetensors holds all that a resumed run needs; on one CPU that
        run ends bit-identical to an undisturbed one. best.safetensors holds the weights of lowest
        validation perplexity, or those of the last epoch with optimisation.keep="last".
    identity: what the run is, as plain data; it is stored in both files.
    vocabulary: as plain data, stored in both files; the model can then be used without its text.
    starts: each different machine and code that began or resumed the run; in last.safetensors only.
    seed: decides the order of the batches and all chance of the training.
    callback: `callback(step, model)` sees step 0 before training and every step after it.
    report: `report(step, figures)` is told, after WINDOW steps at most, their mean loss in nats a
        token, the learning rate, the speed, and the norm of the last gradient where it is clipped;
        after an epoch its perplexities.
    progress: whether a progress bar is shown.
    checkpoint_seconds: how often last.safetensors is written within an epoch.
    deadline: seconds as time.time() counts, after which the run saves and raises `Paused`. One
        process looks at the clock after every step; several do so together, after every WINDOW
        steps and every epoch. From within an epoch only as many processes can go on.
    trained: the model already has trained weights. They are validated first, as epoch 0, and
        best.safetensors holds them until an epoch is kept.

    The keys of a row stand in `_Run.finish_epoch`. CourseError is raised when a loss, a weight or
    the validation is no longer finite, and when a loss reaches HUGE; the last good checkpoint then
    stays. It is also raised when `folder` holds a checkpoint of another identity, and for an
    accelerator that divides the gradients or has a precision of its own.
    """
    # Both may come from accelerate's variables in the environment.
    if (accelerator.gradient_accumulation_steps, accelerator.mixed_precision) != (1, "no"):
        raise CourseError(
            "the accelerator needs gradient_accumulation_steps=1 and mixed_precision='no'; set "
            "optimisation.accumulate and optimisation.precision instead"
        )
    head = {"identity": identity, "vocabulary": vocabulary}
    run = _Run(model, task, optimisation, accelerator, Path(folder), head, list(starts), seed)
    run.resume()

    # Epoch 0 is the weights that the model comes with. A run of no epochs keeps them as they are;
    # otherwise trained weights are validated, as the best so far.
    if optimisation.epochs == 0:
        run.keep_weights(epoch=0)
    elif trained and run.step == 0:
        run.best = run.validate()
        run.keep_weights(epoch=0)

    # The epochs. On one GPU an encoder that launches small operations for every word replays them.
    replaying = graphs.replaying(
        run.bare.encoder, accelerator.device, accelerator.num_processes, optimisation.accumulate
    )
    bar = tqdm(
        total=optimisation.max_steps or optimisation.epochs * run.rows,
        initial=run.step if optimisation.max_steps else run.epoch * run.rows + run.row,
        disable=not (progress and accelerator.is_main_process),
        desc=f"epoch {run.epoch + 1}/{optimisation.epochs}",
        bar_format="{desc} {percentage:3.0f}%|{bar}| {elapsed}<{remaining} {postfix}",
        mininterval=1.0,
    )
    deadline = math.inf if deadline is None else deadline
    with bar, replaying:
        if callback and run.step == 0:
            callback(0, run.bare)
        while not run.finished():
            run.one_epoch(bar, callback, report, checkpoint_seconds, deadline)
    if run.schedule_is_unfinished():
        told = f"the epochs ended after {run.step:,} of {optimisation.max_steps:,} steps"
        warnings.warn(f"{told}, amid the schedule; set more epochs or fewer steps", stacklevel=2)
    return run.epochs


class _Run(RunState):
    """A run that goes from where it stands to its end, epoch by epoch."""

    def finished(self) -> bool:
        """Return whether every epoch or step is done, or `patience` is at its end."""
        o = self.optimisation
        out_of_steps = o.max_steps is not None and self.step >= o.max_steps
        return self.epoch >= o.epochs or out_of_steps or self.has_stalled(o.patience)

    def schedule_is_unfinished(self) -> bool:
        """Return whether the epochs were too few for `max_steps`, and the last rate shows it."""
        o = self.optimisation
        if not self.step or self.epoch < o.epochs:
            return False
        reached, end = (o.schedule(x, self.epoch, self.step) for x in (self.share_done(0), 1.0))
        return reached != end

    def has_stalled(self, checks: int | None) -> bool:
        """Return whether the validation perplexities have `stalled`; with None they never have."""
        history = [row["valid_perplexity"] for row in self.epochs]
        return checks is not None and stalled(history, checks)

    def one_epoch(self, bar: tqdm, callback, report, checkpoint_seconds, deadline) -> None:
        """Go from wherever the epoch stands to its end, its validation and its checkpoint."""
        o = self.optimisation
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        bar.set_description(f"epoch {self.epoch + 1}/{o.epochs}")
        self.model.train()
        # `average_from` begins an average of the weights. `finish_epoch` applies the other rules.
        if self.average is None and self.epoch + 1 == o.average_from:
            self.average = WeightAverage(self.bare)
        window = []  # (loss, tokens) of steps whose loss is still on the device
        started = saved = time.perf_counter()
        drawn = 0  # rows
        for update in self.task.updates(generator):
            # A resumed epoch is drawn from its start. The updates that were done are left out.
            if drawn < self.row:
                drawn += update.rows
                continue
            window.append((self.one_step(update), update.tokens))
            self.row += update.rows
            drawn = self.row
            last = self.row == self.rows or self.step == o.max_steps

            # Look at the losses where the window is full, and before anything is saved.
            late = time.time() > deadline
            due = late or time.perf_counter() - saved > checkpoint_seconds
            full = len(window) == WINDOW
            # Several processes have clocks that differ: the first one's decides, and only where the
            # window is full, as it is in all of them at once.
            if self.accelerator.num_processes > 1:
                late, due = map(bool, self.agreed(late, due) if full else (False, False))
            if full or due or last:
                loss = self.take_losses(window)
                now = time.perf_counter()
                self.seconds += now - started
                started = now
                perplexity = math.exp(self.nll / self.tokens)
                bar.set_postfix_str(f"perplexity {perplexity:.1f}, {self.speed():,.0f} tokens/s")
                if report:
                    report(self.step, self.step_figures(loss))
            if due and not last:
                self.save()
                saved = time.perf_counter()

            # Tell whoever watches; stop where it is time to.
            bar.update(1 if o.max_steps else update.rows)
            if callback:
                callback(self.step, self.bare)
            if late and not last:
                raise Paused(f"paused at its deadline in epoch {self.epoch + 1}; run it again")
            if last:
                break

        # The epoch ends. Where any process is past the deadline, all of them pause here.
        self.finish_epoch(report)
        late = torch.tensor(float(time.time() > deadline), device=self.accelerator.device)
        if self.accelerator.reduce(late, "sum") and not self.finished():
            raise Paused(f"paused at its deadline after epoch {self.epoch}; run it again")

    def speed(self) -> float:
        """Return the tokens a second of the epoch so far."""
        return self.tokens / max(self.seconds, 1e-9)

    def step_figures(self, loss: float) -> dict[str, float]:
        """Return what a report is told within an epoch; `loss` is the mean of the last window."""
        figures = {"loss": loss, "learning_rate": self.rate, "tokens_per_second": self.speed()}
        if self.norm is not None:
            figures["gradient_norm"] = float(whole(self.norm))  # sharded gradients have a part each
        return figures

    def one_step(self, update: Update) -> torch.Tensor:
        """Do one update; return what `gradients` returns, still on the device."""
        o = self.optimisation

        # Annealed modules take the share of the run that is done before this step, in [0, 1).
        # Schedules of the learning rate take the share that is done after it, in (0, 1].
        before = self.share_done(0)
        after = self.share_done(update.rows)
        self.step += 1
        with torch.no_grad():
            for module in self.annealed:
                module.anneal(before)
        factor = o.factor(after, self.epoch + 1, self.step, update.steps)
        for group in self.bare_optimizer.param_groups:
            group["lr"] = group["initial_lr"] * factor
        self.rate = o.learning_rate * factor

        # The gradient, clipped, and the step.
        nll = self.gradients(update)
        if self.tying:
            self.tying.before_step(before)
        if o.clip:
            self.norm = self.accelerator.clip_grad_norm_(self.model.parameters(), o.clip)
        self.optimizer.step()
        if self.tying:
            self.tying.after_step()

        # What follows a step: constraints, the average of the weights.
        with torch.no_grad():
            for module in self.constrained:
                module.after_step()
        if self.average and o.average_last is None:
            self.average.update()
        self.optimizer.zero_grad()
        return nll

    def gradients(self, update: Update) -> torch.Tensor:
        """Add up the gradients of an update's micro-batches and carry their states on.

        Returns this process's weighted sum of cross-entropies, on the device. Its mean over all
        processes is the update's cross-entropy in nats a token.
        """
        o = self.optimisation
        accelerator = self.accelerator
        device = accelerator.device
        bf16 = o.precision == "bf16"
        products = "tf32" if o.precision == "tf32" else "ieee"
        total: Any = 0.0
        carried = []
        parts = len(update.micro_batches)
        if parts > o.accumulate:
            raise CourseError(f"an update has {parts} micro-batches; set accumulate to as many")
        # The last update of an epoch may have fewer micro-batches than there are states.
        for i, (part, state) in enumerate(zip(update.micro_batches, self.carried, strict=False)):
            inputs = (machine.moved(x, device) for x in part.inputs)
            target = machine.moved(part.target, device)
            # Processes exchange gradients after the last micro-batch; sharded ones, after each.
            apart = accelerator.no_sync(self.model) if i < parts - 1 else nullcontext()
            with apart, float32_products(products):
                with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
                    output = self.model(*inputs, state=state, target=target)
                carried.append(states.detach(output.state))
                # An update's loss is the mean over time steps, with `sum_over_steps` their sum.
                scale = part.weight * (update.steps if o.sum_over_steps else 1)
                accelerator.backward(output.loss * scale)
            total = total + output.nll * part.weight
        self.carried = tuple(carried)
        return total

    def share_done(self, rows: int) -> float:
        """Return the share of the run that will be done when `rows` more rows are done.

        With `max_steps` the share counts steps, and any number of rows above 0 is one more step.
        """
        if self.optimisation.max_steps is not None:
            return min(1.0, (self.step + (rows > 0)) / self.optimisation.max_steps)
        return (self.epoch + (self.row + rows) / self.rows) / self.optimisation.epochs

    def take_losses(self, window: list) -> float:
        """Move a window of losses to the epoch's sums and return their mean, in nats a token.

        CourseError for NaN and from HUGE on.
        """
        nll = self.nll
        tokens = self.tokens
        losses = torch.stack([loss for loss, _ in window]).double()
        losses = self.accelerator.reduce(losses, "mean").tolist()
        for i, (loss, (_, count)) in enumerate(zip(losses, window, strict=True)):
            if not abs(loss) < HUGE:
                step = self.step - len(window) + 1 + i
                raise self.diverged(f"the loss became {loss} at step {step}")
            self.nll += loss * count
            self.tokens += count
        window.clear()
        return (self.nll - nll) / (self.tokens - tokens)

    def validate(self) -> float:
        """Return the first process's validation perplexity, of averaged weights if it has any."""
        with self.average.in_place() if self.average else nullcontext():
            valid = self.task.validate(self.bare)
        if isinstance(self.bare, Resharded):
            self.bare.reshard()  # as a backward pass would have done
        (valid,) = self.agreed(valid)
        if not math.isfinite(valid):
            raise self.diverged(f"the validation perplexity is {valid} after step {self.step}")
        return valid

    def finish_epoch(self, report) -> None:
        """Validate, note the figures, keep the best weights, save."""
        o = self.optimisation
        started = time.perf_counter()
        if o.average_last is not None and self.epoch >= o.epochs - o.average_last:
            self.average = self.average or WeightAverage(self.bare)
            self.average.update()

        # The epoch's row of figures.
        valid = self.validate()
        train = math.exp(self.nll / self.tokens)
        row = {
            "epoch": self.epoch + 1,
            "train_perplexity": train,
            "valid_perplexity": valid,
            "learning_rate": self.rate,
            "averaged": self.average is not None,
            "tokens": self.tokens,
            "seconds": round(self.seconds, 3),
            "validation_seconds": round(time.perf_counter() - started, 3),
        }
        self.epochs.append(row)
        if report:
            report(self.step, {"train_perplexity": train, "valid_perplexity": valid})

        # The next epoch begins with nothing: no row, no state, no sums.
        self.epoch += 1
        self.row = 0
        self.carried = (None,) * o.accumulate
        self.nll = 0.0
        self.tokens = 0
        self.seconds = 0.0

        # The best weights, the beginning of an average, the checkpoint.
        if valid < self.best or o.keep == "last":
            self.keep_weights(self.epoch)
        self.best = min(valid, self.best)
        if not self.average and self.has_stalled(o.average_after):
            self.average = WeightAverage(self.bare)
        self.save()
