import json
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import fake_nvml
import pytest
from emulated_gpu import CARD, EmulatedGpu

from gemmlab import resources
from gemmlab.backend import Backend
from gemmlab.ladder import rung

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))

import occupancy


def test_two_hundred_settings_are_legal_all_different_and_of_every_rung_from_2_to_6():
    chosen = occupancy.settings(200, seed=0)
    assert len({(number, *tile.values()) for number, tile in chosen}) == len(chosen) == 200
    assert all(rung(number).full_tile(tile) == tile for number, tile in chosen)
    # Rung 2 has 12 tiles; the other four share the rest.
    assert Counter(number for number, _ in chosen) == {2: 12, 3: 47, 4: 47, 5: 47, 6: 47}


def test_the_same_seed_draws_the_same_settings_and_another_draws_others():
    assert occupancy.settings(40, seed=1) == occupancy.settings(40, seed=1) != occupancy.settings(40, seed=2)


def test_more_settings_than_there_are_are_refused():
    with pytest.raises(ValueError, match="fewer than 1000000"):
        occupancy.settings(1_000_000, seed=0)


class FakeDriver:
    """Answers as cuda.bindings.driver does, by `blocks` of a kernel's threads, registers and shared bytes."""

    def __init__(self, blocks, status=0):
        self.blocks, self.status, self.asked = blocks, status, []

    def CUfunction(self, pointer):
        return pointer

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, function, threads, dynamic):
        self.asked.append((function.num_regs, threads, dynamic))
        return self.status, self.blocks(threads, function.num_regs, function.shared_size_bytes + dynamic)


def by_the_rules(threads, registers, shared_bytes):
    return resources.occupancy("sm_90", threads, registers, shared_bytes).blocks


@pytest.fixture
def gpu(monkeypatch):
    """A GPU whose kernels stand for their own handles."""
    fake = EmulatedGpu()
    compile_kernel = fake.RawKernel

    def with_handle(code, name, options):
        kernel = compile_kernel(code, name, options)
        kernel.kernel = SimpleNamespace(ptr=kernel)
        return kernel

    fake.RawKernel = with_handle
    fake_nvml.install(monkeypatch)
    monkeypatch.setattr(occupancy.backend, "choose", lambda name: Backend(name, fake, "asked for"))
    monkeypatch.setattr(occupancy.backend, "architecture", lambda: "sm_90")
    monkeypatch.setattr(occupancy, "compilers", lambda: ThreadPoolExecutor(1))
    monkeypatch.setattr(occupancy, "CHOICES", occupancy.CHOICES | {"TM": (4,), "TN": (4,), "BK": (8,)})
    return fake


@pytest.fixture
def command(gpu, monkeypatch, tmp_path):
    """Return a function that compares with a driver of its own and returns the status and the file."""

    def run(driver, count=8):
        monkeypatch.setattr(occupancy, "driver_api", lambda: driver)
        status = occupancy.main([f"--json={tmp_path / 'occupancy.json'}", f"--settings={count}"])
        return status, json.loads((tmp_path / "occupancy.json").read_text())

    return run


def test_a_driver_that_follows_the_rules_differs_nowhere(command):
    driver = FakeDriver(by_the_rules)
    status, run = command(driver)
    assert (status, run["differing"], len(run["settings"])) == (0, 0, 8)
    assert run["environment"]["card"] == CARD
    assert [row["threads"] for row in run["settings"]] == [threads for _, threads, _ in driver.asked]
    assert all(row["driver_blocks"] == row["gemmlab_blocks"] > 0 for row in run["settings"])


def test_a_driver_that_answers_otherwise_is_told_with_the_setting(command, capsys):
    status, run = command(FakeDriver(lambda *of_kernel: by_the_rules(*of_kernel) + (of_kernel[0] == 1024)))
    wrong = [row for row in run["settings"] if row["driver_blocks"] != row["gemmlab_blocks"]]
    assert status == 1 and run["differing"] == len(wrong) > 0
    assert all(row["threads"] == 1024 for row in wrong)
    assert "'driver_blocks'" in capsys.readouterr().out


def test_an_error_of_the_driver_is_no_answer(command):
    with pytest.raises(RuntimeError, match="the driver answers 1"):
        command(FakeDriver(by_the_rules, status=1))
