"""What a run ran on: the moment at which clocks were read is named, or there are none."""

import fake_nvml
import pytest
from fake_cuda import FakeGpu

from gemmlab import emulator
from gemmlab.backend import Backend
from gemmlab.environment import clocks, environment


@pytest.fixture
def gpu(monkeypatch):
    fake_nvml.install(monkeypatch)
    return Backend("cuda", FakeGpu({}), "asked for")


def test_an_environment_holds_no_clocks_of_a_moment_that_nobody_named(gpu):
    assert environment(gpu, {"seed": 0})["conditions"] == {"seed": 0, "clocks": None}


def test_clocks_are_as_they_stand_and_say_when(gpu, monkeypatch):
    fake_nvml.install(monkeypatch, sm=345)
    read = clocks(gpu, "before anything ran")
    assert read == "multiprocessors 345 MHz, memory 3201 MHz, 36 C, before anything ran"
    assert environment(gpu, {"clocks": read})["conditions"] == {"clocks": read}


def test_there_are_no_clocks_of_the_emulator_or_of_a_gpu_that_cannot_be_asked(gpu, monkeypatch):
    assert clocks(Backend("emulator", emulator, "asked for"), "now") is None
    fake_nvml.remove(monkeypatch)
    assert clocks(gpu, "now") is None


def test_an_environment_names_the_architecture_and_the_versions_as_people_write_them(gpu):
    found = environment(gpu, {})
    assert found["architecture"] == "sm_90"
    assert found["cuda"] == "13.0"
