"""The state of a training run, and its way into checkpoints and back.

The steps and epochs in `loop` change it.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import broadcast
from torch import nn

from course_lib import machine
from course_lib.errors import CourseError
from course_lib.models import state as states
from course_lib.protocols import Accumulating, Annealed, Blocked, Constrained
from course_lib.training import checkpoint
from course_lib.training.averaging import WeightAverage
from course_lib.training.batches import Task
from course_lib.training.checkpoint import parameters_of, sharded_as, whole
from course_lib.training.optimisation import Optimisation
from course_lib.training.tying import TiedUntil


@dataclass
class RunState:
    """Everything that changes while a model is trained.

    `save` writes all of it that decides what happens next, and `resume` reads it back.
    """

    model: Any  # whose encoder and words nn.Module does not declare
    task: Task
    optimisation: Optimisation
    accelerator: Any  # whose methods return what they are given, which their types do not say
    folder: Path
    head: dict  # identity and vocabulary, as both files have them
    starts: list[dict]
    seed: int

    def __post_init__(self) -> None:
        optimisation = self.optimisation
        accelerator = self.accelerator
        self.rows = self.task.rows  # of an epoch: time steps, or micro-batches of sentence pairs

        # The model and its optimiser, bare and as the accelerator wraps them.
        workers = accelerator.num_processes
        sharded = optimisation.shard and workers > 1
        self.bare = self.model.to(accelerator.device)
        if sharded:
            shard(self.bare, accelerator.device.type, workers)
        self.bare_optimizer = optimisation.build(self.bare.named_parameters())
        self.model, self.optimizer = self.bare, self.bare_optimizer
        if not sharded:
            self.model, self.optimizer = accelerator.prepare(self.bare, self.bare_optimizer)

        # The modules that are told of every step.
        modules = list(self.bare.modules())
        for module in modules:
            if isinstance(module, Accumulating):
                module.micro_batches = optimisation.accumulate
        self.annealed = [module for module in modules if isinstance(module, Annealed)]
        self.constrained = [module for module in modules if isinstance(module, Constrained)]
        share = optimisation.tied_until if optimisation.epochs else None
        self.tying = TiedUntil(self.bare, self.bare_optimizer, share) if share else None

        # Where the run stands, at its beginning.
        self.step = 0  # steps done
        self.epoch = 0  # epochs done
        self.row = 0  # rows done in this epoch
        self.carried = (None,) * optimisation.accumulate  # the state of each part of a batch
        self.nll = 0.0  # nats of this epoch, over all processes
        self.tokens = 0  # of this epoch, over all processes
        self.seconds = 0.0  # of this epoch, the writing of checkpoints included
        self.epochs = []  # a row of figures each
        self.best = math.inf  # the lowest validation perplexity
        self.average = None  # the mean of the weights, once it has begun
        self.rate = None  # the learning rate of the last step
        self.norm = None  # of the last gradient, before it was clipped; on the device
        self.seed_generators()

    def seed_generators(self) -> None:
        """Seed this process's random generators, only where a run begins or is resumed."""
        number = self.accelerator.process_index + self.accelerator.num_processes * self.epoch
        torch.manual_seed(self.seed + 1_000_003 * number)

    def agreed(self, *numbers: float) -> list[float]:
        """Return the first process's numbers, or flags; all processes must call it."""
        if self.accelerator.num_processes == 1:
            return list(numbers)
        told: Any = torch.tensor(numbers, dtype=torch.float64, device=self.accelerator.device)
        return broadcast(told).tolist()

    def diverged(self, what: str) -> CourseError:
        """Return the error that says what to do, and where the run was still well."""
        last = self.folder / "last.safetensors"
        where = f"the last good checkpoint is {last}" if last.exists() else "no checkpoint yet"
        what = f"{what} (epoch {self.epoch + bool(self.row)})"
        return CourseError(f"{what}; {where}. Try a lower learning rate or clip, or fp32")

    # Writing ----------------------------------------------------------------------------------

    def save(self) -> None:
        """Write everything that decides what happens next to last.safetensors."""
        # Weights, the optimiser's state, the average; then random generators and carried states.
        named = {id(p): name for name, p in self.bare.named_parameters()}
        tensors = {f"model.{k}": v for k, v in parameters_of(self.bare).items()}
        for parameter, slots in self.bare_optimizer.state.items():
            for key, value in slots.items():
                tensors[f"optimizer.{key}.{named[id(parameter)]}"] = torch.as_tensor(value)
        if self.average:
            tensors |= {f"average.{k}": v for k, v in self.average.mean.items()}
        tensors = self.gathered(tensors)
        tensors |= self.generator_states() | self.carried_states()

        if self.accelerator.is_main_process:
            head = self.head | {name: getattr(self, name) for name in checkpoint.PROGRESS}
            head |= {"starts": self.starts, "choices": machine.CHOICES}
            head["averaged_steps"] = self.average.steps if self.average else None
            checkpoint.save_checkpoint(self.folder / "last.safetensors", tensors, head)

    def gathered(self, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the whole tensors in the memory of the first process's host, none in the others'.

        They are put together one at a time: all at once may not fit the GPUs that hold the parts.
        CourseError in all of them where a weight of the model is not finite, so that none waits.
        """
        gathered = {}
        for name, tensor in tensors.items():
            tensor = whole(tensor)
            if self.accelerator.is_main_process:
                gathered[name] = tensor.cpu()
        names = {f"model.{name}" for name, _ in self.bare.named_parameters()} & gathered.keys()
        if any(self.agreed(not all(gathered[name].isfinite().all() for name in names))):
            raise self.diverged(f"a weight is no longer finite after step {self.step}")
        return gathered

    def carried_states(self) -> dict[str, torch.Tensor]:
        """Return the state that every process carries from segment to segment."""
        carried = checkpoint.flatten(self.carried)
        if self.accelerator.num_processes == 1:
            return carried
        return {
            f"{process}.{name}": of_process
            for name, tensor in carried.items()
            for process, of_process in enumerate(self.accelerator.gather(tensor[None]).cpu())
        }

    def generator_states(self) -> dict[str, torch.Tensor]:
        """Return the state of every process's random generators."""
        device = self.accelerator.device
        generators = {"cpu": torch.get_rng_state()}
        if device.type == "cuda":
            generators["cuda"] = torch.cuda.get_rng_state(device)
        return {
            f"random.{kind}.{process}": state
            for kind, own in generators.items()
            for process, state in enumerate(self.accelerator.gather(own.to(device)[None]).cpu())
        }

    def keep_weights(self, epoch: int) -> None:
        """Write the weights, or their average once it has begun, to best.safetensors."""
        average = self.average.mean if self.average else {}
        weights = parameters_of(self.bare) | average
        weights = self.gathered({f"model.{k}": v for k, v in weights.items()})
        if self.accelerator.is_main_process:
            head = self.head | {"epoch": epoch}
            checkpoint.save_checkpoint(self.folder / "best.safetensors", weights, head)

    # Reading back -----------------------------------------------------------------------------

    def resume(self) -> None:
        """Go back to where last.safetensors stands, if there is one.

        CourseError for a checkpoint of another run, or of more or fewer processes in an epoch.
        """
        path = self.folder / "last.safetensors"
        if not path.exists():
            return
        tensors, head = checkpoint.load_checkpoint(path)
        if where := checkpoint.difference(head.get("identity"), self.head["identity"]):
            raise CourseError(
                f"{path} belongs to another experiment ({where}); "
                "choose another folder or remove it"
            )
        checkpoint.check_progress(head, path)
        checkpoint.restore(self.bare, tensors, str(path))
        self.resume_optimizer(tensors, head.get("averaged_steps"))
        for name in checkpoint.PROGRESS:
            setattr(self, name, head[name])
        # What was the quickest way when the run began stays its way, to the last digit.
        machine.CHOICES.update(head.get("choices", {}))
        self.resume_process(tensors, path)

    def resume_optimizer(self, tensors: dict[str, torch.Tensor], averaged: int | None) -> None:
        """Restore the optimiser's state, and the average of weights over `averaged` steps."""
        device = self.accelerator.device
        parameters = dict(self.bare.named_parameters())
        slots = self.bare_optimizer.state
        for name, value in tensors.items():
            if name.startswith("optimizer."):
                _, key, parameter = name.split(".", 2)
                like = parameters[parameter]
                slots[like][key] = sharded_as(value, like) if value.ndim else value.to(device)
        if averaged is not None:
            mean = {n: sharded_as(tensors[f"average.{n}"], p) for n, p in parameters.items()}
            self.average = WeightAverage(self.bare, averaged, mean)

    def resume_process(self, tensors: dict[str, torch.Tensor], path: Path) -> None:
        """Restore the states that this process carries, and its random generators.

        Between two epochs another number of processes may go on; generators are then seeded anew.
        """
        device = self.accelerator.device
        rank = self.accelerator.process_index
        workers = self.accelerator.num_processes
        writers = sum(name.startswith("random.cpu.") for name in tensors)  # how many processes
        if self.row and writers != workers:  # the number decides what each one reads
            raise CourseError(
                f"{path} stands in the middle of epoch {self.epoch + 1} of a run with {writers} "
                f"processes; go on with as many, or choose another folder"
            )
        carried = checkpoint.unflatten(tensors, "state" if workers == 1 else f"{rank}.state")
        # No state is stored between two epochs, or of a model that carries none.
        self.carried = states.map_state(lambda t: t.to(device), carried) or self.carried
        self.seed_generators()
        if writers == workers:
            torch.set_rng_state(tensors[f"random.cpu.{rank}"])
            if device.type == "cuda" and f"random.cuda.{rank}" in tensors:
                torch.cuda.set_rng_state(tensors[f"random.cuda.{rank}"], device)


def shard(model: nn.Module, device: str, processes: int) -> None:
    """Shard parameters and gradients over all processes (FSDP).

    An optimiser that is built afterwards has its state sharded, too. Each block of a `Blocked`
    encoder is gathered from all processes only while it is called. All other parameters, word
    vectors among them, stay gathered from the forward to the backward pass.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard  # takes seconds, and few runs need it

    mesh = init_device_mesh(device, (processes,))
    blocks = model.encoder.blocks if isinstance(model.encoder, Blocked) else ()
    for block in blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
