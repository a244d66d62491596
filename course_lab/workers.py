"""Run jobs in worker processes: one job at a time in each, and a killed one takes no other along.

No worker outlives the process that started it, whatever ends that process: a worker watches its
parent, because a parent that is killed can tell nobody.
"""

import os
import queue
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, as_completed
from typing import Any

KILLED = "its worker was killed (out of memory?)"
LOOK_SECONDS = 0.5  # between two looks at whether the parent lives


def run_in_workers(
    function: Callable[[Any], Any],
    jobs: dict[str, Any],
    workers: int,
    limit: Callable[[Any], float | None] = lambda job: None,
    environments: Sequence[dict[str, str]] = ({},),
) -> Generator[tuple[str, Any], None, None]:
    """Yield (key, function(job)) as the jobs end.

    The value is KILLED where the worker died, and None where the job's time was over. When the
    iterator is closed, or an exception such as KeyboardInterrupt leaves it, every worker is killed
    with all that it started.

    Arguments:
        function: what a worker calls; it and the jobs are pickled.
        jobs: by key, in the order in which they begin.
        workers: how many processes there are.
        limit: the seconds that a job has, asked as the job begins. With 0 the job does not begin;
            with None it takes as long as it takes; else it is stopped with all that it started.
        environments: environment variables of the first worker, the second, …; dealt out in turn.
    """
    # Threads that import it at the same time would each meet modules that the other has begun.
    import joblib.externals.loky  # noqa: F401

    count = min(workers, len(jobs))
    every = [_Worker(environments[number % len(environments)]) for number in range(count)]
    idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
    for worker in every:
        idle.put(worker)

    def do(key: str, job: Any) -> tuple[str, Any]:
        seconds = limit(job)
        if seconds == 0:
            return key, None
        worker = idle.get()
        try:
            return key, worker.do(function, job, seconds)
        finally:
            idle.put(worker)

    threads = ThreadPoolExecutor(max(1, count))
    interrupted = True
    try:
        for ended in as_completed([threads.submit(do, *item) for item in jobs.items()]):
            yield ended.result()
        interrupted = False
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        for worker in every:
            worker.end(kill=interrupted)


class _Worker:
    """A process that does one job after the other; a new process follows one that was killed."""

    def __init__(self, environment: dict[str, str]):
        self.environment = environment
        self.pool = None  # of one process, started with the first job
        self.ended = False
        self.lock = threading.Lock()  # no process is started while the worker is being ended

    def do(self, function: Callable[[Any], Any], job: Any, seconds: float | None) -> Any:
        """Return function(job), KILLED, or None where the job takes longer than `seconds`."""
        from joblib.externals.loky import BrokenProcessPool

        try:
            future = self._submit(function, job)
        except BrokenProcessPool:  # the process died between two jobs
            self.pool = None
            future = self._submit(function, job)
        try:
            return future.result(seconds)
        except BrokenProcessPool:
            self.pool = None
            return KILLED
        except TimeoutError:
            if future.done():  # the job ended at the last moment, or the error is its own
                return future.result()
            self._stop(kill=True)
            return None

    def end(self, kill: bool) -> None:
        """End the process, at once with `kill`; no other follows."""
        self.ended = True
        self._stop(kill)

    def _submit(self, function: Callable[[Any], Any], job: Any) -> Future:
        from joblib.externals.loky import ProcessPoolExecutor

        with self.lock:
            if self.ended:
                raise CancelledError
            if self.pool is None:
                watch = {"initializer": end_with, "initargs": (os.getpid(),)}
                self.pool = ProcessPoolExecutor(1, env=self.environment, **watch)
            return self.pool.submit(function, job)

    def _stop(self, kill: bool) -> None:
        with self.lock:
            if self.pool is not None:
                self.pool.shutdown(kill_workers=kill)  # `kill` takes the children, too
            self.pool = None


def end_with(parent: int) -> None:
    """End this process as soon as the process with the id `parent` has ended."""
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    import psutil

    while _lives(parent):
        time.sleep(LOOK_SECONDS)
    for _ in range(10):  # more than once, because the main thread may be starting a kernel
        children = psutil.Process().children(recursive=True)
        for child in children:
            try:
                child.kill()
            except psutil.NoSuchProcess:
                pass
        psutil.wait_procs(children, timeout=1)
    os._exit(1)


def _lives(parent: int) -> bool:
    """Return whether the process that started this one still runs."""
    import psutil

    if os.name == "nt":
        return psutil.pid_exists(parent)
    return os.getppid() == parent  # an orphan is given to another process
