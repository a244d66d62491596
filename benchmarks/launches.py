"""What a training step is made of: how many operators it starts, and which take its time.

The starts of small operators hold up a GPU. On a GPU the launches of kernels and of CUDA graphs are
counted. On a CPU it is the operators that PyTorch runs, but for views and new memory: about as many
as a GPU would launch without a graph, and fewer where one operator of the CPU, such as oneDNN's
LSTM, does the work of many.
"""

from collections.abc import Callable

from torch.utils._python_dispatch import TorchDispatchMode

# how CUDA's library calls a launch
STARTS = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx",
          "cudaGraphLaunch")  # fmt: skip


# views that PyTorch does not declare as such, and operators that leave new memory as it is
VIEWS = ("_unsafe_view", "unsafe_split", "unsafe_split_with_sizes")
MEMORY = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "resize_")


class Operators(TorchDispatchMode):
    """Counts the operators that PyTorch runs while it is entered, but for views and new memory."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Run an operator, and count it."""
        self.count += not (func.is_view or func.overloadpacket.__name__ in VIEWS + MEMORY)
        return func(*args, **kwargs or {})


def launches(step: Callable[[], None], device: str = "cpu") -> int:
    """Return how many operators a step starts; `step` has run before, so that it is warm."""
    if device == "cpu":
        with Operators() as seen:
            step()
        return seen.count
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        step()
    return sum(event.count for event in seen.key_averages() if event.key in STARTS)


def where(step: Callable[[], None], device: str, shown: int = 6) -> dict[str, float]:
    """Return the share of each operator in the time of a step, the largest so many."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    step()
    kinds = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device != "cpu")
    with profile(activities=kinds) as seen:
        step()
    time = "self_cpu_time_total" if device == "cpu" else "self_device_time_total"
    called = [e for e in seen.key_averages() if e.device_type == DeviceType.CPU]  # not the kernels
    times = {event.key: getattr(event, time) for event in called}
    largest = sorted(times, key=times.get, reverse=True)[:shown]
    return {name: times[name] / (sum(times.values()) or 1) for name in largest}
