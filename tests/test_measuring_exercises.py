"""Exercises on measuring: right answers pass, wrong ones are refused with what speaks against them."""

import json
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from gemmlab import exercises
from gemmlab.exercises import Refused
from gemmlab.exercises.measuring_exercises import samples, samples_table, stopwatch, throttled, work

HUGE = 10**5000  # which Python writes no digits of


def by_events(launch, cuda, clock):
    launch()
    start, stop = cuda.Event(), cuda.Event()
    start.record()
    launch()
    stop.record()
    stop.synchronize()
    return cuda.get_elapsed_time(start, stop)


def by_a_batch(launch, cuda, clock):
    launch()
    start, stop = cuda.Event(), cuda.Event()
    start.record()
    for _ in range(10):
        launch()
    stop.record()
    stop.synchronize()
    return cuda.get_elapsed_time(start, stop) / 10


def on_the_host(launch, cuda, clock):
    launch()
    cuda.Device().synchronize()
    begin = clock()
    launch()
    cuda.Device().synchronize()
    return (clock() - begin) * 1e3


@pytest.mark.parametrize("right", [by_events, by_a_batch, on_the_host])
def test_a_stopwatch_that_waits_and_warms_up_is_accepted(right):
    assert stopwatch(right).startswith("accepted")


def submission_only(launch, cuda, clock):
    begin = clock()
    launch()
    return (clock() - begin) * 1e3


def warm_submission_only(launch, cuda, clock):
    launch()
    return submission_only(launch, cuda, clock)


def with_compilation(launch, cuda, clock):
    begin = clock()
    launch()
    cuda.Device().synchronize()
    return (clock() - begin) * 1e3


def with_earlier_work(launch, cuda, clock):
    launch()
    begin = clock()
    launch()
    cuda.Device().synchronize()
    return (clock() - begin) * 1e3


def in_seconds(launch, cuda, clock):
    return on_the_host(launch, cuda, clock) / 1e3


def undivided(launch, cuda, clock):
    return by_a_batch(launch, cuda, clock) * 10


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        (submission_only, 300.01),
        (warm_submission_only, 0.01),
        # 300.01 of the host, in which the 8 ms before pass, and 5 of the kernel
        (with_compilation, 305.0),
        # The 8 ms before pass while the first launch compiles; that launch runs for 5 ms as the second waits.
        (with_earlier_work, 10.0),
        (in_seconds, 0.005),
        (undivided, 50.0),
    ],
)
def test_a_stopwatch_that_counts_something_else_is_refused_with_both_times(wrong, found):
    with pytest.raises(Refused, match="for a kernel that takes 5 ms in the model") as caught:
        stopwatch(wrong)
    assert float(str(caught.value).split()[2]) == pytest.approx(found, rel=0.01)


def unread(launch, cuda, clock):
    start, stop = cuda.Event(), cuda.Event()
    start.record()
    launch()
    stop.record()
    return cuda.get_elapsed_time(start, stop)


def endless(launch, cuda, clock):
    while clock() < float("inf"):
        launch()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (unread, "NotReady: cudaErrorNotReady: the stop event has not been reached: wait for it first"),
        (endless, "RuntimeError: the stopwatch made more than 100,000 calls"),
        (lambda launch: 5.0, "TypeError"),
        (lambda launch, cuda, clock: 5.0, "returned 5 ms for a kernel that takes 0.5 ms"),
        (lambda launch, cuda, clock: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_a_stopwatch_that_fails_is_refused_with_the_reason(wrong, said):
    with pytest.raises(Refused, match=said):
        stopwatch(wrong)


def test_an_untouched_stopwatch_is_not_attempted():
    assert stopwatch(lambda launch, cuda, clock: ...).startswith(exercises.NOT_ATTEMPTED)


def test_the_made_up_samples_are_cycles_over_a_clock_and_say_that_they_are_made_up():
    assert samples()[1][0] == pytest.approx(3.0)  # 5,940,000 cycles at 1980 MHz
    assert samples()[5][0] == pytest.approx(3.6)  # at 1650 MHz
    assert samples()[3][0] == pytest.approx(3.9) and samples()[3][1].sm_mhz == 1980
    assert "made up" in samples_table() and len(samples_table().splitlines()) == 13


@pytest.mark.parametrize("right", [{5, 6, 9}, [9, 5, 6], (5, 6, 9)])
def test_the_throttled_samples_are_those_that_say_so(right):
    assert throttled(right).startswith("accepted: 3 of 12")


def test_numbers_of_numpy_are_numbers():
    assert throttled(np.array([5, 6, 9])).startswith("accepted: 3 of 12")
    assert stopwatch(lambda *given: np.float32(on_the_host(*given))).startswith("accepted")


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        (None, "None is no function: write def stopwatch"),
        (3.0, "3.0 is no function"),
        pytest.param(HUGE, "a number of thousands of digits is no function", id="huge"),
    ],
)
def test_a_stopwatch_that_cannot_be_called_is_refused_by_what_to_write(odd, said):
    with pytest.raises(Refused, match=said):
        stopwatch(odd)


@pytest.mark.parametrize(
    ("returned", "shown"),
    [
        (None, "None"),
        ("5 ms", "'5 ms'"),
        (True, "True"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        ([5.0], r"\[5.0\]"),
        (5j, "5j"),
        (10**400, r"10{79}\.\.\."),
        pytest.param(HUGE, "a number of thousands of digits", id="huge"),
    ],
)
def test_what_is_no_time_is_refused_as_it_was_returned(returned, shown):
    with pytest.raises(Refused, match=f"^it returned {shown}, which is no number of milliseconds"):
        stopwatch(lambda launch, cuda, clock: returned)


def test_a_fraction_is_a_time():
    with pytest.raises(Refused, match=r"it returned 0\.3333 ms for a kernel that takes 5 ms"):
        stopwatch(lambda launch, cuda, clock: Fraction(1, 3))


def test_a_negative_time_is_refused_with_the_evidence():
    with pytest.raises(Refused, match="it returned -5 ms for a kernel that takes 5 ms"):
        stopwatch(lambda launch, cuda, clock: -5)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({3, 5, 6, 9}, r"sample 3: 3.900 ms, multiprocessors 1980 MHz.*nothing is reported"),
        ({0, 5, 6, 9}, r"sample 0: 4.000 ms, multiprocessors 1485 MHz.*nothing is reported"),
        ({5, 9}, "1 of 3 throttled samples are missing"),
        (set(), "3 of 3 throttled samples are missing"),
        ({5, 6, 9, 12}, "sample 12: there is none, only 0 to 11"),
        ({"5"}, "holds what is no integer: write the numbers of samples"),
        ("5,6,9", "'5,6,9' holds what is no integer"),
        ([5.0, 6, 9], "holds what is no integer"),
        ([[5], 6], "is no collection of numbers"),
        (5, "5 is no collection of numbers"),
        (None, "None is no collection of numbers"),
        (b"5", "b'5' holds what is no integer"),
        ({5, 6, 9, float("nan")}, "holds what is no integer"),
        ({5, 6, 9, -1}, "sample -1: there is none, only 0 to 11"),
        ({5, 6, 9, HUGE}, "sample a number of thousands of digits: there is none"),
        pytest.param(HUGE, "a number of thousands of digits is no collection of numbers", id="huge"),
        (["x" * 1000], r"^\['x{78}\.\.\. holds what is no integer"),
    ],
)
def test_samples_that_are_only_slow_or_missing_are_refused_with_the_evidence(wrong, said):
    with pytest.raises(Refused, match=said):
        throttled(wrong)


def test_an_answer_left_open_is_not_attempted():
    assert throttled(...).startswith(exercises.NOT_ATTEMPTED)
    assert stopwatch(...).startswith(exercises.NOT_ATTEMPTED)
    assert work(dict.fromkeys(("2 M N K", "exactly", "executed by rung 6"), ...)).startswith("not attempted")


RIGHT = {
    "2 M N K": 2 * 130 * 130 * 20,
    "exactly": 130 * 130 * (2 * 20 - 1),
    "executed by rung 6": 2 * (3 * 64) * (2 * 128) * (2 * 16),  # blocks of 64 x 128, chunks of 16
}


def test_the_work_that_is_counted_and_that_is_done_is_accepted_with_its_share():
    # 676,000 of 3,145,728
    assert work(RIGHT).startswith("accepted: 3 of 3 as counted. 21%")


@pytest.mark.parametrize(
    ("name", "wrong"), [("2 M N K", 130 * 130 * 20), ("exactly", 676_000), ("executed by rung 6", 676_000)]
)
def test_work_that_is_miscounted_is_refused(name, wrong):
    with pytest.raises(Refused, match=f"{name}.*{wrong:,}"):
        work(RIGHT | {name: wrong})


@pytest.mark.parametrize("answer", [None, "676000", 5, [1, 2]])
def test_work_that_is_no_dict_is_refused(answer):
    with pytest.raises(Refused, match="is no dictionary: keep the names"):
        work(answer)


def test_the_work_is_told_to_be_arithmetic_and_a_huge_number_is_only_wrong():
    assert work(...).startswith(exercises.NOT_ATTEMPTED)
    for wrong in (10**400, HUGE, float("nan"), -1, None, "many", [HUGE]):
        with pytest.raises(Refused, match="differs from what arithmetic on the shape and the tile gives, in 1 of 3"):
            work(RIGHT | {"exactly": wrong})


def test_the_table_of_made_up_samples_leaves_it_to_the_reader_what_a_reason_means():
    assert "slowed" not in samples_table() and "throttl" not in samples_table()
    reasons = [line.split()[-1] for line in samples_table().splitlines()[1:]]
    assert reasons.count("None") == 8 and {reasons[5], reasons[6], reasons[9], reasons[0]} == {
        "SwPowerCap",
        "SwThermalSlowdown",
        "GpuIdle",
    }


def test_a_name_that_was_not_asked_for_is_refused_with_those_that_were():
    with pytest.raises(Refused, match="'exact' is no name of this exercise; the names are: 2 M N K; exactly; executed"):
        work({"2 M N K": ..., "exact": 1})


NOTEBOOK = Path(__file__).parent.parent / "notebooks" / "21_measuring.ipynb"


@pytest.mark.parametrize(
    ("number", "name", "judge"), [(1, "stopwatch", stopwatch), (2, "answer", throttled), (3, "predicted", work)]
)
def test_the_solution_that_the_notebook_folds_away_is_accepted(number, name, judge):
    cells = {cell["id"]: "".join(cell["source"]) for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]}
    (solution,) = re.findall(r"```python\n(.*?)```", cells[f"exercise-{number}-answer"], re.DOTALL)
    names = {}
    exec(solution, names)
    assert judge(names[name]).startswith("accepted")
