"""What is noticed about samples and about the GPU's reports."""

import pytest

from gemmlab import records
from gemmlab.sensors import Reading
from gemmlab.steadiness import clock_change, drift, remarks, shift, throttling

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


def test_a_shift_is_of_the_medians_of_the_outer_thirds():
    assert shift([1.0, 1.0, 9.0, 9.0, 1.5, 1.5]) == 0.5 and shift([2.0] * 3 + [1.0] * 3 + [1.0] * 3) == -0.5
    assert shift([1.0, 2.0, 3.0, 4.0, 5.0]) is None


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


# Milliseconds of one launch at 2048^3, in order: `climb` on an NVIDIA H200, driver 580.159.04, 2026-11-30.
RUNG_4 = (
    *(0.5728, 0.5821, 0.5788, 0.5793, 0.5786, 0.5765, 0.5805, 0.5829, 0.5816, 0.5809),
    *(0.5804, 0.5795, 0.5816, 0.5816, 0.5865, 0.5865, 0.5847, 0.5795, 0.5865, 0.5825),
)
RUNG_6 = (
    *(0.3926, 0.3988, 0.4041, 0.3972, 0.3999, 0.3964, 0.3961, 0.3995, 0.3953, 0.3987),
    *(0.3967, 0.3962, 0.4022, 0.4003, 0.4002, 0.3995, 0.4006, 0.3995, 0.3991, 0.4009),
)


def test_of_two_timings_of_an_h200_the_one_that_drifts_is_told_from_the_one_that_does_not():
    # Medians of the first and last six are 0.5787 and 0.5856; rung 6's are 0.3980 and 0.3998.
    assert drift(RUNG_4) == "the samples drift: +1.2% from the first third to the last"
    assert drift(RUNG_6) is None


def test_most_timings_that_are_shipped_do_not_drift():
    """A test of drift that found one everywhere would say nothing."""
    timings = [row["milliseconds"] for record in records.shipped() for row in record.rungs if row["milliseconds"]]
    assert sum(drift(samples) is not None for samples in timings) <= len(timings) // 2
