"""The source line of each access, as PTX names it: also where headers come in, and where the compiler made the code."""

import numpy as np
import pytest

from gemmlab import emulator as cp
from gemmlab.emulator.locations import Locations

GROUPS = """#include <cooperative_groups.h>
extern "C" __global__ void k(float* y) {
    __shared__ float s[32];
    s[threadIdx.x] = y[threadIdx.x];
    cooperative_groups::this_thread_block().sync();
    y[threadIdx.x] = s[31 - threadIdx.x];
}"""


def lines(source, *options):
    """(line, operation) of each row of a trace of 32 threads, without those of local memory."""
    kernel = cp.RawKernel(source, "k", options)
    trace = cp.trace(kernel, (1,), (32,), (cp.asarray(np.zeros(256, np.float32)),))
    return [(access.line, access.op) for access in trace.accesses if access.space != "local"]


@pytest.mark.parametrize("options", [(), ("-G",)])
def test_a_kernel_has_its_own_lines_whatever_number_its_file_has_among_the_headers(options):
    assert lines(GROUPS, *options) == [(4, "ld.global"), (4, "st.shared"), (6, "ld.shared"), (6, "st.global")]


def test_what_a_function_of_a_header_does_counts_at_the_line_that_calls_it():
    # __noinline__ as a header's may be; #line 1 names another file from there on
    source = """extern "C" __global__ void k(float* y);
#line 1 "other.cuh"
__device__ __noinline__ float twice(const float* x) { return 2 * x[threadIdx.x]; }
#line 4 "kernel.cu"
extern "C" __global__ void k(float* y) {
    float v = twice(y);
    y[threadIdx.x] = v;
}"""
    assert lines(source) == [(5, "ld.global"), (6, "st.global")]


def test_a_loop_that_the_compiler_makes_of_a_memset_has_the_line_of_the_memset():
    source = """extern "C" __global__ void k(float* y) {
    y[threadIdx.x] = 1.0f;
    memset(y + 4 * threadIdx.x, 0, 8 + threadIdx.x % 4);
}"""
    assert lines(source) == [(2, "st.global"), (3, "st.global")]


def test_the_learners_file_is_known_by_its_name_and_else_it_is_file_1():
    text = '.file 1 "/usr/include/a.h"\n.file 2 "/home/me/kernel.cu"\n.file 3 "C:\\\\work\\\\kernel.cu"\n'
    assert Locations.of(text).files == {2, 3}
    assert Locations.of('.file 1 "/usr/include/akernel.cu"').files == {1}
    assert Locations.of("").files == {1}


def test_code_inlined_from_a_header_has_the_line_of_the_outermost_call_and_a_circle_ends():
    locations = Locations(frozenset({1}))
    assert locations.line("1 7 3", None) == 7
    assert locations.line("2 100 1", "1 7 3") == 7
    assert locations.line("3 5 1", "2 100 1") == 7
    assert locations.line("4 1 1", None) == 0
    assert locations.line("5 1 1", "5 1 1") == 0
