"""What a machine multiplies in a second: measured, kept for a day, held against its runs."""

import json
import time

import pytest
import torch

from course_lab import cost, rates, results
from course_lab.planned import Planned
from course_lib.data import folders

RATES = cost.Rates(*({"fp32": x, "tf32": x, "bf16": x} for x in (2e11, 1e11)))


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine without runs, whose measurements are counted and all alike."""
    measured = []

    def measure(shape, dtype, device="cpu"):
        measured.append(shape)
        return 2e11

    monkeypatch.setattr(folders, "cache", lambda: tmp_path / "cache")
    monkeypatch.setattr(folders, "home", lambda: tmp_path / "home")
    monkeypatch.setattr(rates, "measured", measure)
    return measured


def test_a_measurement_is_kept_for_a_day(machine, monkeypatch):
    first = rates.this_machine()
    assert len(machine) == 6 and first.rates.large["bf16"] == 2e11
    assert first.beside_runs is None and not first.is_off
    assert rates.this_machine() == first and len(machine) == 6
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + rates.DAY - 60)
    assert rates.this_machine() == first
    monkeypatch.setattr(time, "time", lambda: now + rates.DAY + 60)
    assert rates.this_machine().taken == now + rates.DAY + 60 and len(machine) == 12


def test_a_damaged_measurement_is_made_anew(machine, tmp_path):
    first = rates.this_machine()
    (file,) = (tmp_path / "cache").glob("rates-*.json")
    file.write_text("{broken")
    assert rates.this_machine().rates == first.rates and len(machine) == 12


def test_it_says_when_and_at_which_rate(machine):
    text = str(rates.this_machine())
    assert text.startswith(f"{rates.processor()}, 1 thread, measured {time.strftime('%Y-%m-%d')}")
    assert text.endswith("200 in bf16, 200 in fp32, 200 in tf32 GFLOP/s")


def run_of(seconds, seed=1, **origin):
    """Keep a run of this machine that took so many seconds; return its estimate at `RATES`."""
    planned = Planned("ptb/vd-lstm-200/tied/adamw", "standard", seed)
    experiment = planned.experiment()
    told = {"device": rates.processor(), "threads": torch.get_num_threads()}
    rows = [{"epoch": n} for n in range(1, experiment.optimisation.epochs + 1)]
    folder = results.run_folder(experiment)
    results.write_result(folder, experiment, rows, {}, told | {"wall_seconds": seconds} | origin)
    return cost.cost(experiment, RATES).seconds


def test_runs_that_took_twice_the_estimate_have_it_measured_again(machine, monkeypatch):
    estimate = run_of(1e6)
    assert estimate > rates.SHORTEST
    ratios = list(rates.times_of_estimates(RATES, rates.processor(), 1))
    assert ratios == [pytest.approx(1e6 / estimate)]
    # on a busy machine the rates came out low: what was kept is not believed
    kept = {"taken": time.time() - 60, "large": RATES.large, "step": RATES.step}
    path = rates._file()
    path.parent.mkdir(parents=True)
    content = {"sha256": rates.digest(json.dumps(kept)), "content": kept}
    path.write_text(json.dumps(content))
    run_of(estimate / 3)
    monkeypatch.setattr(rates, "measured", lambda *_: machine.append(1) or 6e11)
    now = rates.this_machine()
    assert now.rates.large["fp32"] == 6e11 and len(machine) == 6
    assert now.beside_runs == pytest.approx(1, rel=0.3) and not now.is_off
    # where a new measurement is no better, the doubt is said, and the next call tries again
    run_of(estimate * 5)
    doubtful = rates.this_machine()
    assert doubtful.is_off and "may disturb the measurement" in str(doubtful)
    assert f"its runs took {doubtful.beside_runs:.1f} times the estimates" in str(doubtful)


def test_runs_that_say_nothing_of_this_machine_are_left_out(machine):
    estimate = run_of(1e4)
    run_of(1e4, seed=2, threads=7)
    run_of(1e4, seed=3, device="another")
    run_of(1.0, seed=4)
    run_of(1e4, seed=5, earlier_starts=[{}])
    run_of(1e4, seed=7, processes=4)
    broken = results.run_folder(Planned("ptb/vd-lstm-200/tied", "standard", 6).experiment())
    broken.mkdir(parents=True)
    (broken / "result.json").write_text("{")
    ratios = list(rates.times_of_estimates(RATES, rates.processor(), 1))
    assert ratios == [pytest.approx(1e4 / estimate)]


def test_a_run_that_ended_early_is_held_against_its_epochs(machine):
    run_of(1e4)
    folder = results.run_folder(Planned("ptb/vd-lstm-200/tied/adamw", "standard", 1).experiment())
    content = results.read_result(folder)
    whole = list(rates.times_of_estimates(RATES, rates.processor(), 1))[0]
    content["epochs"] = content["epochs"][: len(content["epochs"]) // 2]
    (folder / "result.json").write_text(json.dumps(content))
    half = list(rates.times_of_estimates(RATES, rates.processor(), 1))[0]
    assert half == pytest.approx(2 * whole, rel=0.1)


def test_a_rate_is_operations_over_time():
    assert 1e8 < rates.measured((64, 64, 64), torch.float32) < 1e13


def test_the_floor_of_an_h100_is_operations_over_the_stated_rate():
    experiment = Planned("ptb/vd-lstm-200/tied").experiment()
    assert rates.floor_on_h100(experiment, rates.H100["fp32"]) == 1
    narrow = experiment.change(optimisation={"precision": "bf16"})
    assert rates.floor_on_h100(narrow, rates.H100["fp32"]) < 0.1
