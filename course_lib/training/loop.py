"""The training loop: epochs of updates, validated, checkpointed, resumable."""

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast
from torch import nn
from tqdm import tqdm  # not its widget, which a static page cannot show

from course_lib.errors import CourseError, Paused
from course_lib.models import state as states
from course_lib.training.averaging import WeightAverage, stalled
from course_lib.training.batches import Task, Update
from course_lib.training.checkpoint import (
    difference,
    load_checkpoint,
    parameters_of,
    restore,
    save_checkpoint,
    sharded_as,
    whole,
)
from course_lib.training.optimisation import PRECISIONS, Optimisation

HUGE = 700.0  # nats a token: its exponential, the perplexity, is near the largest number there is
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
    starts: list[dict] = (),
    seed: int = 1,
    callback: Callable[[int, nn.Module], None] | None = None,
    progress: bool = True,
    checkpoint_seconds: float = 60.0,
    deadline: float | None = None,
    trained: bool = False,
) -> list[dict]:
    """Train `model` in place and return one row of figures an epoch.

    `folder` receives last.safetensors (everything a resumed run needs; on one CPU it then ends
    bit-identical to an undisturbed one) and best.safetensors (the epoch of lowest validation
    perplexity, or the last one where `optimisation.keep` says so). `identity` is stored in both; a
    checkpoint of another identity is refused. `vocabulary`, plain data by which the model can be
    asked without its text, is stored in both. `starts`, where and by what code the run was begun
    and gone on with, are stored in last. A model that comes `trained` is validated first and is
    kept, as epoch 0, until an epoch is better.
    `callback(step, model)` sees step 0 before training and every step after it.
    CourseError when the loss is no longer finite: the last good checkpoint stays. After
    `deadline`, in seconds as time.time() counts, it saves and raises `Paused`; several
    processes do so together, every WINDOW steps, and within an epoch as many must go on with it.

    A module of the model that has `anneal(progress)` is called with the share of the run done, in
    [0, 1), before every step (noise that fades out), one that has `after_step()` after every step
    (a word matrix that is centred again); both without gradients.
    """
    run = _Run(model, task, optimisation, accelerator, Path(folder), identity, seed)
    run.vocabulary = vocabulary
    run.starts, run.callback, run.checkpoint_seconds = list(starts), callback, checkpoint_seconds
    run.deadline = math.inf if deadline is None else deadline
    run.resume()
    if optimisation.epochs == 0:
        run.keep_best(epoch=0)
    elif trained and run.step == 0:
        run.best = run.validate()
        run.keep_best(epoch=0)
    with tqdm(
        total=optimisation.max_steps or optimisation.epochs * run.rows,
        initial=run.step if optimisation.max_steps else run.epoch * run.rows + run.row,
        disable=not (progress and accelerator.is_main_process),
        desc=f"epoch {run.epoch + 1}/{optimisation.epochs}",
        bar_format="{desc} {percentage:3.0f}%|{bar}| {elapsed}<{remaining} {postfix}",
        mininterval=1.0,
    ) as bar:
        if callback and run.step == 0:
            callback(0, run.bare)
        while not run.finished():
            run.one_epoch(bar)
    return run.epochs


# What of a run is plain data.
PROGRESS = ("step", "epoch", "row", "nll", "tokens", "seconds", "epochs", "best")


def check_progress(head: object, path: Path) -> None:
    """CourseError for a checkpoint that no training goes on from, such as that of a best epoch."""
    has = head if isinstance(head, dict) else ()
    if missing := [name for name in PROGRESS if name not in has]:
        raise CourseError(
            f"{path} is no checkpoint of a run to go on with (it has no {missing[0]}, as the best "
            "epoch's has not); remove it"
        )


def spread(model: nn.Module, device: str, processes: int) -> None:
    """Parameters, gradients and so the optimiser's state over all processes (FSDP).

    Each of the encoder's `blocks`, where it has some, is put together for its own call alone; the
    rest, word vectors among it, for the whole forward and backward pass.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard  # seconds that few runs need

    mesh = init_device_mesh(device, (processes,))
    for block in getattr(model.encoder, "blocks", ()):
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)


class _Run:
    """The mutable middle of a training run; all of it goes into a checkpoint."""

    def __init__(self, model, task, optimisation, accelerator, folder, identity, seed):
        self.task, self.optimisation, self.accelerator = task, optimisation, accelerator
        self.folder, self.identity, self.seed = folder, identity, seed
        self.rows = task.rows
        self.bare, workers = model.to(accelerator.device), accelerator.num_processes
        if optimisation.shard and workers > 1:
            spread(self.bare, accelerator.device.type, workers)
        self.bare_optimizer = optimisation.build(self.bare.named_parameters())
        if optimisation.shard and workers > 1:
            self.model, self.optimizer = self.bare, self.bare_optimizer
        else:
            self.model, self.optimizer = accelerator.prepare(self.bare, self.bare_optimizer)
        modules = list(self.bare.modules())
        for module in modules:
            if hasattr(module, "parts"):
                module.parts = optimisation.accumulate
        self.before_step = [m.anneal for m in modules if hasattr(m, "anneal")]
        self.after_step = [m.after_step for m in modules if hasattr(m, "after_step")]
        self.step = self.epoch = self.row = 0  # steps done, epochs done, rows done in this epoch
        self.carried = (None,) * optimisation.accumulate  # the state of each part of a batch
        self.nll, self.tokens = 0.0, 0  # sums of this epoch, over all processes
        self.seconds, self.epochs, self.best = 0.0, [], math.inf
        self.average = None  # the mean of the weights, once it has begun
        self.vocabulary = None  # stored in the checkpoints
        self.draw_anew()

    def draw_anew(self) -> None:
        """Chance from the seed, another for every process and for every epoch to begin with."""
        number = self.accelerator.process_index + self.accelerator.num_processes * self.epoch
        torch.manual_seed(self.seed + 1_000_003 * number)

    # One epoch ------------------------------------------------------------------------------

    def finished(self) -> bool:
        """Whether every epoch or step is done, or `patience` is at its end."""
        o = self.optimisation
        history = [e["valid_perplexity"] for e in self.epochs]
        return (
            self.epoch >= o.epochs
            or (o.max_steps is not None and self.step >= o.max_steps)
            or (o.patience is not None and stalled(history, o.patience))
        )

    def one_epoch(self, bar) -> None:
        """From wherever the epoch stands to its end, its validation and its checkpoint."""
        o, alone = self.optimisation, self.accelerator.num_processes == 1
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        bar.set_description(f"epoch {self.epoch + 1}/{o.epochs}")
        self.model.train()
        if self.average is None and self.epoch + 1 == o.average_from:
            self.average = WeightAverage(self.bare)
        window, started, saved, skipped = [], time.perf_counter(), time.perf_counter(), 0
        for update in self.task.updates(generator):
            if skipped < self.row:  # done before the run was interrupted
                skipped += update.rows
                continue
            window.append((self.one_step(update), update.tokens))
            skipped = self.row = self.row + update.rows
            last = self.row == self.rows or self.step == o.max_steps
            late = time.time() > self.deadline
            due = late or time.perf_counter() - saved > self.checkpoint_seconds
            if not alone:  # their clocks differ: the first one's decides, where all of them look
                late, due = self.agreed(late, due) if len(window) == WINDOW else (False, False)
            if len(window) == WINDOW or due or last:
                self.look(window)
                passed = time.perf_counter() - started
                self.seconds, started = self.seconds + passed, time.perf_counter()
                speed = self.tokens / max(self.seconds, 1e-9)
                perplexity_now = math.exp(min(self.nll / self.tokens, 700))
                bar.set_postfix_str(f"perplexity {perplexity_now:.1f}, {speed:,.0f} tokens/s")
            if due and not last:
                self.save()
                saved = time.perf_counter()
            bar.update(1 if o.max_steps else update.rows)
            if self.callback:
                self.callback(self.step, self.bare)
            if late and not last:
                raise Paused(f"paused at its deadline in epoch {self.epoch + 1}; run it again")
            if last:
                break
        self.finish_epoch()
        late = torch.tensor(float(time.time() > self.deadline), device=self.accelerator.device)
        if self.accelerator.reduce(late, "sum") and not self.finished():
            raise Paused(f"paused at its deadline after epoch {self.epoch}; run it again")

    def agreed(self, *flags: bool) -> list[bool]:
        """The first process's flags; all processes must call it."""
        said = torch.tensor(flags, dtype=torch.float32, device=self.accelerator.device)
        return [bool(flag) for flag in broadcast(said).tolist()]

    def one_step(self, update: Update) -> torch.Tensor:
        """One update; returns the cross-entropy in nats a token, still on the device."""
        o, accelerator = self.optimisation, self.accelerator
        done, share = self.progress(0), self.progress(update.rows)
        self.step += 1
        with torch.no_grad():
            for anneal in self.before_step:
                anneal(done)
        factor = o.factor(share, self.epoch + 1, self.step, update.steps)
        for group in self.bare_optimizer.param_groups:
            group["lr"] = group["initial_lr"] * factor
        self.rate = o.learning_rate * factor
        device, bf16 = accelerator.device, PRECISIONS[o.precision] == "bf16"
        total, carried, last = 0.0, [], len(update.micro_batches) - 1
        for i, (part, state) in enumerate(zip(update.micro_batches, self.carried, strict=False)):
            inputs, target = (x.to(device) for x in part.inputs), part.target.to(device)
            apart = accelerator.no_sync(self.model) if i < last else nullcontext()
            with apart:
                with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
                    step = self.model(*inputs, state=state, target=target)
                carried.append(states.detach(step.state))
                scale = part.weight * (update.steps if o.sum_over_steps else 1)
                accelerator.backward(step.loss * scale)
            total = total + step.nll * part.weight
        self.carried = tuple(carried)
        if o.clip:
            accelerator.clip_grad_norm_(self.model.parameters(), o.clip)
        self.optimizer.step()
        with torch.no_grad():
            for after_step in self.after_step:
                after_step()
        if self.average and o.average_last is None:
            self.average.update()
        self.optimizer.zero_grad()
        return total

    def progress(self, rows: int) -> float:
        """The share of the run that is done `rows` further on: of its steps, else of its rows."""
        if self.optimisation.max_steps is not None:
            return min(1.0, (self.step + (rows > 0)) / self.optimisation.max_steps)
        return (self.epoch + (self.row + rows) / self.rows) / self.optimisation.epochs

    def look(self, window) -> None:
        """Add a window of losses to the epoch's sum; stop at the first that is not finite."""
        losses = torch.stack([nll for nll, _ in window]).double()
        losses = self.accelerator.reduce(losses, "mean").tolist()
        for i, (loss, (_, count)) in enumerate(zip(losses, window, strict=True)):
            if not abs(loss) < HUGE:
                step = self.step - len(window) + 1 + i
                raise self.diverged(f"the loss became {loss} at step {step}")
            self.nll += loss * count
            self.tokens += count
        window.clear()

    def diverged(self, what: str) -> CourseError:
        """What to do about it, and where it was still well."""
        last = self.folder / "last.safetensors"
        kept = f"the last good checkpoint is {last}" if last.exists() else "no checkpoint yet"
        return CourseError(
            f"{what} (epoch {self.epoch + 1}); {kept}. Try a lower learning rate or clip, or fp32"
        )

    def validate(self) -> float:
        """The validation perplexity, the same in all processes, whose last digits may differ."""
        with self.average.in_place() if self.average else nullcontext():
            valid = self.task.validate(self.bare)
        if hasattr(self.bare, "reshard"):
            self.bare.reshard()  # which a forward pass without a backward pass leaves undone
        if self.accelerator.num_processes > 1:
            said = torch.tensor(valid, dtype=torch.float64, device=self.accelerator.device)
            valid = broadcast(said).item()
        if not math.isfinite(valid):
            raise self.diverged(f"the validation perplexity is {valid} after step {self.step}")
        return valid

    def finish_epoch(self) -> None:
        """Validate, note the figures, keep the best weights."""
        o, started = self.optimisation, time.perf_counter()
        if o.average_last is not None and self.epoch >= o.epochs - o.average_last:
            self.average = self.average or WeightAverage(self.bare)
            self.average.update()
        valid = self.validate()
        self.epochs.append(
            {
                "epoch": self.epoch + 1,
                "train_perplexity": math.exp(self.nll / self.tokens),
                "valid_perplexity": valid,
                "learning_rate": self.rate,
                "averaged": self.average is not None,
                "tokens": self.tokens,
                "seconds": round(self.seconds, 3),
                "validation_seconds": round(time.perf_counter() - started, 3),
            }
        )
        self.epoch, self.row = self.epoch + 1, 0
        self.carried = (None,) * o.accumulate
        self.nll, self.tokens, self.seconds = 0.0, 0, 0.0
        if valid < self.best or o.keep == "last":
            self.keep_best(self.epoch)
        self.best = min(valid, self.best)
        history = [e["valid_perplexity"] for e in self.epochs]
        if not self.average and o.average_after is not None and stalled(history, o.average_after):
            self.average = WeightAverage(self.bare)
        self.save()

    def keep_best(self, epoch: int) -> None:
        """The weights as validated, as best.safetensors."""
        average = self.average.mean if self.average else {}
        weights = parameters_of(self.bare) | average
        weights = self.gathered({f"model.{k}": v for k, v in weights.items()})
        if self.accelerator.is_main_process:
            head = {"identity": self.identity, "vocabulary": self.vocabulary, "epoch": epoch}
            save_checkpoint(self.folder / "best.safetensors", weights, head)

    # Checkpoints ----------------------------------------------------------------------------

    def save(self) -> None:
        """Everything that decides what happens next, as last.safetensors."""
        named = {id(p): name for name, p in self.bare.named_parameters()}
        tensors = {f"model.{k}": v for k, v in parameters_of(self.bare).items()}
        for parameter, slots in self.bare_optimizer.state.items():
            for key, value in slots.items():
                tensors[f"optimizer.{key}.{named[id(parameter)]}"] = torch.as_tensor(value)
        if self.average:
            tensors |= {f"average.{k}": v for k, v in self.average.mean.items()}
        tensors = self.gathered(tensors)
        tensors |= self.chance() | self.contexts()
        if not self.accelerator.is_main_process:
            return
        if not all(tensors[f"model.{name}"].isfinite().all() for name in named.values()):
            raise self.diverged(f"a weight is no longer finite after step {self.step}")
        head = {"identity": self.identity, "vocabulary": self.vocabulary}
        head |= {name: getattr(self, name) for name in PROGRESS}
        head["starts"] = self.starts
        head["averaged_steps"] = self.average.steps if self.average else None
        save_checkpoint(self.folder / "last.safetensors", tensors, head)

    def gathered(self, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The whole tensors in the memory of the first process's host, nothing in the others': one
        at a time, as all together may not fit the GPUs that they are sharded over."""
        found = {}
        for name, tensor in tensors.items():
            tensor = whole(tensor)
            if self.accelerator.is_main_process:
                found[name] = tensor.cpu()
        return found

    def contexts(self) -> dict[str, torch.Tensor]:
        """The state that every process carries from segment to segment."""
        carried = states.flatten(self.carried)
        if self.accelerator.num_processes == 1:
            return carried
        gathered = {name: self.accelerator.gather(t[None]).cpu() for name, t in carried.items()}
        return {f"{process}.{name}": t for name, all_ in gathered.items()
                for process, t in enumerate(all_)}  # fmt: skip

    def chance(self) -> dict[str, torch.Tensor]:
        """The state of every process's random generators."""
        device = self.accelerator.device
        states_here = {"cpu": torch.get_rng_state()}
        if device.type == "cuda":
            states_here["cuda"] = torch.cuda.get_rng_state(device)
        return {
            f"random.{kind}.{process}": state
            for kind, here in states_here.items()
            for process, state in enumerate(self.accelerator.gather(here.to(device)[None]).cpu())
        }

    def resume(self) -> None:
        """Go back to where last.safetensors stands, if there is one."""
        path = self.folder / "last.safetensors"
        if not path.exists():
            return
        tensors, head = load_checkpoint(path)
        if where := difference(head.get("identity"), self.identity):
            raise CourseError(
                f"{path} belongs to another experiment ({where}); "
                "choose another folder or remove it"
            )
        check_progress(head, path)
        restore(self.bare, tensors, str(path))
        device = self.accelerator.device
        parameters, slots = dict(self.bare.named_parameters()), self.bare_optimizer.state
        for name, value in tensors.items():
            if name.startswith("optimizer."):
                _, key, parameter = name.split(".", 2)
                like = parameters[parameter]
                slots[like][key] = sharded_as(value, like) if value.ndim else value.to(device)
        if head.get("averaged_steps") is not None:
            prefix = "average."
            mean = {
                name: sharded_as(tensors[prefix + name], parameter)
                for name, parameter in parameters.items()
            }
            self.average = WeightAverage(self.bare, head["averaged_steps"], mean)
        for name in PROGRESS:
            setattr(self, name, head[name])
        self.draw_anew()
        rank, workers = self.accelerator.process_index, self.accelerator.num_processes
        before = sum(name.startswith("random.cpu.") for name in tensors)
        if self.row and before != workers:  # each has read columns and batches of its own
            raise CourseError(
                f"{path} stands in the middle of epoch {self.epoch + 1} of a run with {before} "
                f"processes; go on with as many, or choose another folder"
            )
        mine = "state" if workers == 1 else f"{rank}.state"
        carried = states.map_state(lambda t: t.to(device), states.unflatten(tensors, mine))
        self.carried = carried or self.carried
        if before == workers:
            torch.set_rng_state(tensors[f"random.cpu.{rank}"])
            if device.type == "cuda" and f"random.cuda.{rank}" in tensors:
                torch.cuda.set_rng_state(tensors[f"random.cuda.{rank}"], device)
