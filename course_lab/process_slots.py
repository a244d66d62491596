"""Jobs in worker processes, one after the other in each; a killed one takes no other along."""

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

KILLED = "its worker was killed (out of memory?)"


def run_in_workers(
    function: Callable[[Any], Any],
    jobs: dict[str, Any],
    workers: int,
    limit: Callable[[Any], float | None] = lambda job: None,
    environments: Sequence[dict[str, str]] = ({},),
) -> Iterator[tuple[str, Any]]:
    """(key, function(job)) as jobs end, in the order in which they are given to `workers` slots.

    A slot has a process of its own, with the environment variables of its number. The value is
    KILLED where the process died, which the next job of the slot does not feel, and None where the
    seconds that `limit` gives a job as it begins are over: 0 and it does not begin; it is stopped
    with whatever it started when they have passed; None for as long as it takes.
    """
    from joblib.externals.loky import BrokenProcessPool, ProcessPoolExecutor

    slot, numbers, pools = threading.local(), itertools.count(), []

    def begin() -> None:
        slot.number, slot.pool = next(numbers), None

    def start() -> ProcessPoolExecutor:
        slot.pool = ProcessPoolExecutor(1, env=environments[slot.number % len(environments)])
        pools.append(slot.pool)
        return slot.pool

    def one(key: str, job: Any) -> tuple[str, Any]:
        seconds = limit(job)
        if seconds == 0:
            return key, None
        try:
            future = (slot.pool or start()).submit(function, job)
        except BrokenProcessPool:  # it died between two jobs
            future = start().submit(function, job)
        try:
            return key, future.result(seconds)
        except BrokenProcessPool:
            slot.pool = None
            return key, KILLED
        except TimeoutError:
            if future.done():  # at the last moment, or the error is the function's own
                return key, future.result()
            slot.pool.shutdown(kill_workers=True)  # and their kernels with them
            slot.pool = None
            return key, None

    threads, kill = ThreadPoolExecutor(workers, initializer=begin), True
    try:
        for done in as_completed([threads.submit(one, *item) for item in jobs.items()]):
            yield done.result()
        kill = False
    finally:  # interrupted, nothing of it goes on in the background
        threads.shutdown(wait=False, cancel_futures=True)
        for pool in pools:
            pool.shutdown(kill_workers=kill)
