"""What is noticed about samples and about the GPU's reports."""

import pytest

from gemmlab import records
from gemmlab.sensors import Reading
from gemmlab.steadiness import clock_change, drift, remarks, throttling

NOISY = (1.00, 1.04, 0.97, 1.03, 0.98, 1.01)  # median 1.005, deviations 0.005 to 0.035, their median 0.025


def reading(mhz: int | None = 1980, *slowed_by: str) -> Reading:
    return Reading(mhz, 3201, 50, 400.0, slowed_by)


def test_samples_that_slow_down_beyond_their_noise_drift():
    # The second third only has to be there; 1.005 to 1.105 is +10.0%, and 3 x 0.025 is less.
    assert drift((*NOISY, *NOISY, *(sample + 0.1 for sample in NOISY))) == (
        "the samples drift: +10.0% from the first third to the last"
    )


def test_samples_that_speed_up_drift_too():
    assert drift([2.0] * 4 + [1.5] * 4 + [1.0] * 4).startswith("the samples drift: -50.0%")


def test_a_difference_within_the_noise_is_no_drift():
    assert drift((*NOISY, *NOISY, *(sample + 0.07 for sample in NOISY))) is None


def test_without_noise_less_than_a_percent_is_no_drift():
    assert drift([1.0] * 4 + [1.009] * 8) is None
    assert drift([1.0] * 4 + [1.011] * 8) is not None


def test_one_outlier_is_no_drift():
    assert drift([1.0] * 11 + [9.0]) is None


def test_of_fewer_than_six_samples_no_drift_is_claimed():
    assert drift([1.0, 2.0, 3.0, 4.0, 5.0]) is None
    assert drift([1.0, 1.0, 1.0, 5.0, 5.0, 5.0]) is not None


def test_throttling_is_counted_and_its_reasons_are_named_once():
    readings = [reading(), reading(1800, "power cap"), None, reading(1700, "power cap", "temperature, by the driver")]
    assert throttling(readings) == "throttled in 2 of 4 samples: power cap, temperature, by the driver"
    assert throttling([reading(), None]) is None and throttling([]) is None


@pytest.mark.parametrize(
    ("clocks", "said"),
    [
        ((1980, 1980, 1965), None),  # within 1%
        ((1980, 1755, 1980), "the clock moved between 1755 and 1980 MHz"),
        ((None, None), None),
        ((), None),
    ],
)
def test_a_clock_that_moves_by_more_than_a_percent_is_told(clocks, said):
    assert clock_change([reading(mhz) for mhz in clocks]) == said


def test_all_that_was_noticed_is_told_together():
    samples = [1.0] * 4 + [1.2] * 8
    readings = [reading()] * 4 + [reading(1650, "power cap")] * 8
    assert remarks(samples, readings) == (
        "throttled in 8 of 12 samples: power cap",
        "the clock moved between 1650 and 1980 MHz",
        "the samples drift: +20.0% from the first third to the last",
    )
    assert remarks([1.0] * 12, []) == ()


def test_no_more_than_two_timings_of_the_h200_drift():
    """A test of drift that found one everywhere, or nowhere, would say nothing."""
    timings = [row["milliseconds"] for record in records.shipped() for row in record.rungs]
    assert 1 <= sum(drift(samples) is not None for samples in timings) <= 3 < len(timings)
