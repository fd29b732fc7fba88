"""Shuffles that ask a lane which takes no part: a finding where results depend on what comes, and else none.

PTX ISA, "shfl.sync": results are undefined where a thread sources a register from an inactive thread, or from one that
the member mask does not name.
"""

import numpy as np
import pytest

from gemmlab import emulator as cp


def traced(body, threads=32, n=20):
    """Trace a kernel whose line 4 is the shuffle of x[t], called v, and whose results are y[t]."""
    source = f"""extern "C" __global__ void k(const float* x, float* y, int n) {{
    int t = threadIdx.x, lane = t % 32;
    float v = x[t], w = 0.0f;
    {body}
}}"""
    x, y = cp.asarray(np.arange(1, threads + 1, dtype=np.float32)), cp.asarray(np.zeros(threads, np.float32))
    return cp.trace(cp.RawKernel(source, "k"), (1,), (threads,), (x, y, np.int32(n))), y.get()


@pytest.mark.parametrize(
    ("body", "threads", "first", "asked", "count"),
    [
        # Lanes 16 to 31 are named, and go round the shuffle.
        ("if (t < 16) v += __shfl_down_sync(0xffffffff, v, 16); y[t] = v;", 32, 0, 16, 16),
        # They are not named either.
        ("if (t < 16) v += __shfl_down_sync(0x0000ffff, v, 16); y[t] = v;", 32, 0, 16, 16),
        # They take part in another of the same form, with a mask of their own.
        ("v += __shfl_xor_sync(t < 16 ? 0xffff : 0xffff0000, v, 16); y[t] = v;", 32, 0, 16, 32),
        # The second warp has 16 lanes: each asks one that never was.
        ("v += __shfl_xor_sync(0xffffffff, v, 16); y[t] = v;", 48, 32, 16, 16),
        # Lane 20 returned: lane 4 of the sum asks it, and all lanes from there to 15 theirs.
        ("if (t >= n) return; v += __shfl_down_sync(0xffffffff, v, 16); y[t] = v;", 32, 4, 20, 12),
        # All ask lane 31, which has returned.
        ("if (t == 31) return; y[t] = __shfl_sync(0xffffffff, v, 31);", 32, 0, 31, 31),
        # Integers and comparisons hide no more than floats do.
        ("if (t < 16) w = __shfl_down_sync(0xffff, (int)v, 16) > 40; y[t] = w;", 32, 0, 16, 16),
    ],
)
def test_results_that_depend_on_a_lane_that_takes_no_part_are_a_finding(body, threads, first, asked, count):
    trace, _ = traced(body, threads)
    (hazard,) = trace.hazards
    assert (hazard.kind, hazard.line, hazard.block, hazard.threads) == ("uninitialized", 4, (0, 0, 0), ((first, 0, 0),))
    assert hazard.count == count
    assert f"thread ({first}, 0, 0) of block (0, 0, 0) asks lane {asked} of its warp" in hazard.message
    assert "name it in the mask" in hazard.message


@pytest.mark.parametrize(
    ("body", "threads", "first"),
    [
        # A whole warp sums up.
        ("for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o); if (t == 0) y[0] = v;", 32, 528),
        # Half a warp: lanes 8 to 15 ask lanes that take no part, and only lane 0's sum is kept.
        ("if (t < 16) for (int o = 8; o; o >>= 1) v += __shfl_down_sync(0xffff, v, o); if (t == 0) y[0] = v;", 32, 136),
        # A tail: what comes from past the end is thrown away. 1 + ... + 20
        (
            "if (t >= n) return; for (int o = 16; o; o >>= 1) { w = __shfl_down_sync((1u << n) - 1, v, o); "
            "if (lane + o < n) v += w; } if (t == 0) y[0] = v;",
            32,
            210,
        ),
        # Segments of 16 in a block of 48: no lane asks past its segment.
        ("for (int o = 8; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o, 16); if (t == 0) y[0] = v;", 48, 136),
        # Both sides of a branch shuffle among themselves.
        (
            "if (t < 16) v += __shfl_xor_sync(0xffff, v, 1); else v += __shfl_xor_sync(0xffff0000, v, 1); "
            "if (t == 0) y[0] = v;",
            32,
            3,
        ),
    ],
)
def test_what_comes_from_a_lane_that_takes_no_part_may_be_thrown_away(body, threads, first):
    trace, y = traced(body, threads)
    assert trace.ok, str(trace.hazards)
    assert y[0] == first


def test_of_two_shuffles_the_one_whose_answer_is_used_is_named():
    trace, _ = traced(
        "if (t < 8) w = __shfl_up_sync(0xff, v, 1);\n    if (t < 8) v += __shfl_down_sync(0xff, v, 8);\n    y[t] = v;"
    )
    assert [(hazard.kind, hazard.line) for hazard in trace.hazards] == [("uninitialized", 5)]


def test_memory_is_as_the_launch_left_it_where_it_was_repeated():
    _, y = traced("if (t < 16) v += __shfl_down_sync(0xffffffff, v, 16); y[t] += v;")
    assert y.tolist() == [float(t + 1) for t in range(32)]  # an absent lane gives 0, as on an H200
