"""What a GPU reports of itself, through a stand-in for NVML."""

import fake_nvml
import pytest

from gemmlab import sensors
from gemmlab.sensors import Reading


def test_a_reading_holds_what_nvml_answers_with_watts_for_milliwatts(monkeypatch):
    fake_nvml.install(monkeypatch, sm=1755, memory=3201, celsius=71, milliwatts=699_500)
    assert sensors.reader(fake_nvml.BUS_ID)() == Reading(1755, 3201, 71, 699.5, ())


@pytest.mark.parametrize(
    ("reasons", "named"),
    [
        # The bits of nvml.h, NVML's API reference, 'clocks event reasons'.
        (0x4, ("power cap",)),
        (0x8, ("hardware slowdown",)),
        (0x20, ("temperature, by the driver",)),
        (0x40, ("temperature, by the hardware",)),
        (0x80, ("power brake",)),
        (0x4 | 0x20, ("power cap", "temperature, by the driver")),
        (0x1 | 0x2, ()),  # idle, and clocks that a user set
    ],
)
def test_only_what_holds_the_clocks_down_against_the_users_will_slows(monkeypatch, reasons, named):
    fake_nvml.install(monkeypatch, reasons=reasons)
    assert sensors.reader(fake_nvml.BUS_ID)().slowed_by == named


def test_a_question_that_a_gpu_does_not_support_leaves_the_others_answered(monkeypatch):
    fake_nvml.install(monkeypatch, milliwatts=None, celsius=None, reasons=None)
    reading = sensors.reader(fake_nvml.BUS_ID)()
    assert reading == Reading(1980, 3201, None, None, ())
    assert str(reading) == "multiprocessors 1980 MHz, memory 3201 MHz, - C"


def test_a_reading_in_words_names_what_slows():
    slowed = Reading(1410, 3201, 88, 700.0, ("power cap",))
    assert str(slowed) == "multiprocessors 1410 MHz, memory 3201 MHz, 88 C, slowed by power cap"


def test_each_read_is_new(monkeypatch):
    gpu = fake_nvml.install(monkeypatch, sm=1980)
    read = sensors.reader(fake_nvml.BUS_ID)
    before = read()
    gpu.sm = 1200
    assert (before.sm_mhz, read().sm_mhz) == (1980, 1200)


def test_without_a_driver_or_with_an_unknown_gpu_nothing_is_known(monkeypatch):
    fake_nvml.install(monkeypatch)
    assert sensors.reader("0000:99:00.0")() is None
    assert sensors.driver() == fake_nvml.DRIVER
    fake_nvml.remove(monkeypatch)
    assert sensors.reader(fake_nvml.BUS_ID)() is None
    assert sensors.driver() is None
