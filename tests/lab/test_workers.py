"""Jobs in workers: what one of them suffers stays its own."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future

import psutil
import pytest

from course_lab.workers import KILLED, run_in_workers


def job(what):
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "sleep":
        time.sleep(3600)
    if what == "timeout":
        raise TimeoutError("a disk that does not answer")
    return os.environ.get("SLOT", ""), os.getpid()


def test_a_killed_job_and_a_late_one_leave_the_others_alone():
    jobs = {"a": "kill", "b": "sleep", "c": "", "d": ""}
    seconds = {"sleep": 2.0}  # the others have as long as they take
    found = dict(run_in_workers(job, jobs, 1, seconds.get, [{"SLOT": "7"}]))
    assert found["a"] == KILLED and found["b"] is None  # an hour before its end
    assert found["c"] == found["d"] and found["c"][0] == "7"  # one process, used again
    assert dict(run_in_workers(job, {"late": ""}, 1, lambda _: 0)) == {"late": None}


IMPORTS = """
import sys, threading
class Seen:
    def find_spec(self, name, *rest):
        if name.endswith(("joblib", "_memmapping_reducer", "loky", "resource_tracker")):
            threads.add(threading.current_thread().name)
threads = set()
sys.meta_path.insert(0, Seen())
from course_lab.workers import run_in_workers
if __name__ == "__main__":
    print(sorted(value for _, value in run_in_workers(len, {"a": "12", "b": "1"}, 2)), threads)
"""


def test_the_main_thread_alone_imports_what_the_workers_need():
    """Two threads that import modules which import each other meet unfinished ones."""
    command = [sys.executable, "-c", IMPORTS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[1, 2] {'MainThread'}\n"


def test_a_process_that_dies_between_two_jobs_is_replaced():
    def limit(what):
        if what == "after":
            for process in psutil.Process().children():
                if "LokyProcess" in " ".join(process.cmdline()):
                    process.kill()
            time.sleep(1)

    found = dict(run_in_workers(job, {"a": "", "b": "after"}, 1, limit))
    assert found["a"] != found["b"] and KILLED not in found.values()


def test_a_job_that_ends_as_its_time_does_counts(monkeypatch):
    result = Future.result

    def late(future, timeout=None):  # the time is over just before the job has ended
        value = result(future)
        if timeout is not None:
            raise TimeoutError
        return value

    monkeypatch.setattr(Future, "result", late)
    assert dict(run_in_workers(job, {"a": ""}, 1, lambda _: 30.0, [{"SLOT": "7"}]))["a"][0] == "7"


def test_an_error_of_the_jobs_own_is_not_taken_for_the_end_of_its_time():
    with pytest.raises(TimeoutError, match="does not answer"):
        dict(run_in_workers(job, {"a": "timeout"}, 1, lambda _: 30.0))


SLEEP = [sys.executable, "-c", "import time; time.sleep(3600)"]
PARENT = f"""
import subprocess
from course_lab.workers import run_in_workers
list(run_in_workers(subprocess.call, {{"a": {SLEEP}}}, 1))
"""


def test_a_worker_and_what_it_started_end_with_a_parent_that_is_killed():
    """A parent that is killed with -9 can end nobody."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT])
    sleeper = None
    while sleeper is None:  # the parent's worker has started its own child
        assert parent.poll() is None
        tree = psutil.Process(parent.pid).children(recursive=True)
        sleeper = next((p for p in tree if p.cmdline()[-1:] == SLEEP[-1:]), None)
        time.sleep(0.1)
    worker = sleeper.parent()
    assert worker.pid != parent.pid
    parent.kill()
    parent.wait()
    gone, alive = psutil.wait_procs([worker, sleeper], timeout=60)  # or an hour
    for process in alive:
        process.kill()
    assert not alive
