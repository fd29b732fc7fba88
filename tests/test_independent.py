"""Runs of independent fma: where they end, and that a stack gives what one after the other would."""

import numpy as np
import pytest

from gemmlab import emulator as cp
from gemmlab import nvrtc
from gemmlab.emulator import parser
from gemmlab.emulator.independent import runs

PROGRAM = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k()
{{
    .reg .f32 %f<9>;
    .reg .pred %p<2>;
    {instructions}
    ret;
}}
"""


def lengths(*instructions):
    """The lengths of the runs of a body of instructions, without its ret."""
    module = parser.parse(PROGRAM.format(instructions="\n    ".join(instructions)))
    block = module.functions["k"].blocks[0]
    return [len(run) for run in runs(block.instructions[:-1])]


@pytest.mark.parametrize(
    ("instructions", "expected"),
    [
        (["fma.rn.f32 %f1, %f5, %f6, %f1;", "fma.rn.f32 %f2, %f5, %f7, %f2;"], [2]),
        # the second reads what the first wrote
        (["fma.rn.f32 %f1, %f5, %f6, %f1;", "fma.rn.f32 %f2, %f1, %f7, %f2;"], [1, 1]),
        # the second writes the same register
        (["fma.rn.f32 %f1, %f5, %f6, %f2;", "fma.rn.f32 %f1, %f5, %f7, %f2;"], [1, 1]),
        # the second writes what the first has read by then
        (["fma.rn.f32 %f1, %f2, %f6, %f1;", "fma.rn.f32 %f2, %f5, %f7, %f3;"], [2]),
        (["fma.rn.f32 %f1, %f5, %f6, %f1;", "@%p1 fma.rn.f32 %f2, %f5, %f7, %f2;"], [1, 1]),
        (["fma.rn.f32 %f1, %f5, %f6, %f1;", "fma.rz.f32 %f2, %f5, %f7, %f2;"], [1, 1]),
        (["fma.rn.f32 %f1, %f5, %f6, %f1;", "mov.f32 %f5, %f6;", "fma.rn.f32 %f2, %f5, %f7, %f2;"], [1, 1, 1]),
    ],
)
def test_a_run_ends_before_a_result_that_it_has_is_read_or_written_and_before_any_other_instruction(
    instructions, expected
):
    assert lengths(*instructions) == expected


SWAP = """
extern "C" __global__ void swap(const float* x, float* y)
{
    float a = x[2 * threadIdx.x], b = x[2 * threadIdx.x + 1];
    const float old = a;
    a = fmaf(b, 10.0f, 1.0f);
    b = fmaf(old, 100.0f, 2.0f);
    const float c = fmaf(a, 1000.0f, b);  // reads both results
    y[threadIdx.x] = c;
}
"""


def test_operands_are_read_before_any_result_of_the_run_is_written():
    x, y = cp.asarray(np.array([3, 4, 5, 6], np.float32)), cp.zeros(2, np.float32)
    cp.RawKernel(SWAP, "swap")((1,), (2,), (x, y))
    # 1000 (10 b + 1) + 100 a + 2
    assert y.get().tolist() == [1000 * 41 + 302, 1000 * 61 + 502]


OUTER = """
extern "C" __global__ void outer(const float* A, const float* B, float* C, int K)
{
    float sum[8][8] = {}, a[8], b[8];
    for (int k = 0; k < K; ++k) {
        #pragma unroll
        for (int i = 0; i < 8; ++i) a[i] = A[(8 * threadIdx.y + i) * K + k];
        #pragma unroll
        for (int j = 0; j < 8; ++j) b[j] = B[k * 8 * blockDim.x + 8 * threadIdx.x + j];
        if (threadIdx.x != 1 || k != 2)  // one column of threads sits out one step
            #pragma unroll
            for (int i = 0; i < 8; ++i)
                #pragma unroll
                for (int j = 0; j < 8; ++j) sum[i][j] = fmaf(a[i], b[j], sum[i][j]);
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i)
        #pragma unroll
        for (int j = 0; j < 8; ++j) C[(8 * threadIdx.y + i) * 8 * blockDim.x + 8 * threadIdx.x + j] = sum[i][j];
}
"""


@pytest.mark.parametrize("block", [(4, 2), (32, 32)])  # a few lanes are stacked high, 1024 of them lower
def test_a_register_tile_is_the_product_less_what_inactive_lanes_skipped(block):
    M, N, K = 8 * block[1], 8 * block[0], 5
    rng = np.random.default_rng(0)
    A, B = rng.integers(-9, 10, (M, K)).astype(np.float32), rng.integers(-9, 10, (K, N)).astype(np.float32)
    expected = A @ B
    expected[:, 8:16] -= A[:, 2:3] * B[2:3, 8:16]
    C = cp.zeros((M, N), np.float32)
    kernel = cp.RawKernel(f"#define BLOCK {block[0] * block[1]}\n" + OUTER.replace("void outer", BOUNDS), "outer")
    kernel((1,), block, (cp.asarray(A), cp.asarray(B), C, np.int32(K)))
    np.testing.assert_array_equal(C.get(), expected)


BOUNDS = "void __launch_bounds__(BLOCK) outer"


def test_the_compiler_lays_a_register_tile_out_in_runs():
    module = parser.parse(nvrtc.compile_ptx(OUTER))
    longest = max(len(run) for block in module.functions["outer"].blocks for run in runs(block.instructions))
    assert longest >= 8
