"""A real Slurm of one node, for the tests of a night: its daemons, settings and an end to them."""

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch")
CONF = """ClusterName=course
SlurmctldHost={host}
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldPort=16817
SlurmdPort=16818
AuthType=auth/munge
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
MinJobAge=600
KillWait=5
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
NodeName={host} CPUs={cpus} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""

# Accounting needs a database. Slurm's controller knows of the jobs of the last minutes, and this
# tells them as `sacct` would.
SACCT = r"""#!/bin/sh
echo "JobID|State|NodeList"
id='JobId=([0-9]+)'
of_array="$id ArrayJobId=([0-9]+) ArrayTaskId=([0-9]+)"
state='.* JobState=([A-Z_]+) .*'
scontrol show job -o |
    sed -nE -e "s/^$of_array $state/\2_\3|\4|n/p" -e t -e "s/^$id JobName$state/\1|\2|n/p"
"""


def missing() -> str:
    """Return what this machine lacks for it; nothing where it has all."""
    absent = [name for name in DAEMONS if shutil.which(name) is None]
    return ", ".join(absent) or ("" if os.geteuid() == 0 else "root")


@contextmanager
def started(tmp_path: Path, monkeypatch):
    """Start a Slurm of one node, as root, with its files in a folder; end it afterwards."""
    if lacks := missing():
        pytest.skip(f"needs {lacks}: apt install slurmctld slurmd slurm-client munge")
    host = socket.gethostname().partition(".")[0]
    for name in ("state", "spool"):
        (tmp_path / name).mkdir()
    conf = tmp_path / "slurm.conf"
    conf.write_text(CONF.format(host=host, folder=tmp_path, cpus=os.cpu_count()))
    monkeypatch.setenv("SLURM_CONF", str(conf))
    (tmp_path / "sacct").write_text(SACCT)
    (tmp_path / "sacct").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    munge = Path("/run/munge")
    munge.mkdir(exist_ok=True)
    shutil.chown(munge, "munge", "munge")
    subprocess.run(["runuser", "-u", "munge", "--", "munged"], check=False)
    daemons = [
        subprocess.Popen([shutil.which(name), "-D", "-f", conf]) for name in ("slurmctld", "slurmd")
    ]
    try:
        deadline = time.monotonic() + 60
        while "idle" not in subprocess.run(["sinfo", "-h"], capture_output=True, text=True).stdout:
            assert time.monotonic() < deadline, "Slurm does not start"
            time.sleep(0.5)
        yield
    finally:
        subprocess.run(["scancel", "--quiet", "--user", "root"], check=False)
        for process in daemons:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
