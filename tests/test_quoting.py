"""Odd values in messages: recognizable, and never long enough to bury what the message says."""

import pytest

from gemmlab import launch, timing
from gemmlab.commands.options import chosen_rungs
from gemmlab.gemm import Gemm, inputs
from gemmlab.ladder import Geometry, rung, rungs
from gemmlab.quoting import shown

HUGE, LONG = 10**6000, "x" * 6000  # Python itself writes no integer of more than 4300 digits
MANY = "a number of thousands of digits"
NAIVE, SMALL = rung("naive"), Gemm(2, 2, 2)
KERNEL = launch.Kernel("", "gemm", (), lambda problem: Geometry((LONG,), (1,), 0))


class Unwritable:
    def __repr__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x" * 78, "'" + "x" * 78 + "'"),
        ("x" * 79, "'" + "x" * 79 + "..."),
        (HUGE, MANY),
        ({1: None}, "{1: None}"),
        (Unwritable(), "an object of type Unwritable"),
    ],
    ids=["just fits", "long", "huge", "short", "unwritable"],
)
def test_a_value_is_written_in_at_most_80_characters_whatever_it_is(value, text):
    assert shown(value) == text


@pytest.mark.parametrize(
    ("refusing", "said"),
    [
        (lambda: NAIVE.full_tile({"BX": HUGE}), f"BX is {MANY}, but a 32-bit int ends at 2147483647"),
        (lambda: NAIVE.full_tile({"BX": -HUGE}), f"BX is {MANY}, but must be an integer of at least 1"),
        (lambda: NAIVE.full_tile({"BX": LONG}), r"BX is 'x+\.\.\., but must be an integer of at least 1"),
        (lambda: NAIVE.full_tile({LONG: 1}), r"no tile parameter 'x+\.\.\.; it has BX, BY"),
        (lambda: rung(HUGE), f"no rung {MANY}; known: 0"),
        (lambda: rungs(LONG), r"no rung 'x+\.\.\.; known: 0"),
        (lambda: rungs(LONG + "-"), r"'x+\.\.\. is no range"),
        (lambda: chosen_rungs(LONG), r"--rungs 'x+\.\.\.: there is no rung"),
        (lambda: chosen_rungs("0," * 6000 + "0"), r"--rungs '[0,]+\.\.\. names rung 0 \(naive\) twice"),
        (lambda: Gemm(HUGE, 2, 2), f"A would have {MANY} x 2 = {MANY} elements"),
        (lambda: Gemm(-HUGE, 2, 2), f"M is {MANY}, but must be at least 1"),
        (lambda: Gemm(LONG, 2, 2), r"M is 'x+\.\.\., but must be an integer of at least 1"),
        (lambda: Gemm(2, 2, 2, HUGE), f"alpha is {MANY}, but must be finite in float32"),
        (lambda: Gemm(2, 2, 2, LONG), r"alpha is 'x+\.\.\., but must be a real number"),
        (lambda: inputs(SMALL, LONG), r"no family of inputs is called 'x+\.\.\.; known: zeros"),
        (lambda: inputs(SMALL, seed=-HUGE), f"seed is {MANY}, but must be at least 0"),
        (
            lambda: launch.geometry(KERNEL, SMALL),
            r"the geometry of gemm at .* is Geometry\(grid=\('x+\.\.\., but must be",
        ),
        (lambda: timing.time_end_to_end(print, samples=-HUGE), f"samples is {MANY}, but must be"),
        (lambda: timing.time_kernel(print, cache=LONG), r"cache is 'x+\.\.\., but must be one of 'warm L2'"),
    ],
)
def test_a_refusal_says_what_is_wrong_with_an_odd_value_and_stays_short(refusing, said):
    with pytest.raises((TypeError, ValueError), match=said) as refused:
        refusing()
    assert len(str(refused.value)) < 400
