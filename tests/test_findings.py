import numpy as np
import pytest

from gemmlab import columns, findings, launch
from gemmlab import emulator as cp
from gemmlab.gemm import Gemm
from gemmlab.ladder import rung

COALESCED = rung("coalesced")


def found(source: str) -> list[str]:
    return findings.text(launch.trace(launch.of(COALESCED, source=source), Gemm(33, 40, 8))).splitlines()


def test_a_kernel_in_order_has_no_finding():
    assert found(COALESCED.source()) == ["no hazard found"]


def test_a_finding_is_followed_by_the_lines_that_take_part():
    source = COALESCED.source().replace("    if (row >= M || col >= N)\n        return;\n", "")
    lines = found(source)
    wrong = next(i for i, line in enumerate(source.splitlines(), start=1) if "C[row * N + col] = value" in line)
    assert f"    {wrong:>3} | C[row * N + col] = value;" in lines
    assert any(line.startswith("out-of-bounds: line ") for line in lines)


def test_both_lines_of_a_race_are_shown_and_no_line_is_wider_than_a_notebook():
    shared = rung("shared_tiles")
    source = shared.source().replace("__syncthreads();", "")
    traced = launch.trace(launch.of(shared, source=source), Gemm(33, 34, 70))
    text = findings.text(traced)
    assert "| As[ty][tx] = " in text and "| sum = fmaf(As[ty][k], Bs[k][tx], sum);" in text
    assert all(len(line) <= columns.WIDTH for line in text.splitlines())


LISTED = """extern "C" __global__ void over(float* x) {{
{before}    x[threadIdx.x] = 1.0f;
}}
"""


@pytest.mark.parametrize(
    ("before", "number"),
    [
        ("", 2),
        # the compiler counts on from what #line says
        ("#line 5000\n", 5000),
        # a form feed and a separator of lines in a comment end no line of C
        ("    // a\fb \u2028 c \x85 d\n", 3),
    ],
)
def test_a_finding_shows_the_line_that_the_compiler_means_by_its_number(before, number):
    kernel = cp.RawKernel(LISTED.format(before=before), "over")
    traced = cp.trace(kernel, (1,), (32,), (cp.zeros(31, np.float32),))
    assert f"    {number:>3} | x[threadIdx.x] = 1.0f;" in findings.text(traced).splitlines()


def test_a_finding_whose_line_the_source_does_not_have_is_shown_without_it():
    traced = cp.Trace((), (cp.Hazard("race", 7, "two threads meet", lines=(0, 9)),), source="one line")
    assert findings.text(traced) == "race: line 7: two threads meet"
