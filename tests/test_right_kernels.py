"""Right kernels that look wrong to a rule that is too simple, each held to two things: no finding, and the values that
arithmetic gives.
"""

import numpy as np
import pytest

from gemmlab import emulator as cp

GROUPS = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"
PIPELINE = "#include <cuda_pipeline.h>\n"
KERNEL = 'extern "C" __global__ void k'
LANE = np.arange(64)


def ramp(n, dtype=np.float32):
    return np.arange(n).astype(dtype)


RIGHT = {
    "chars of one word by four threads": (
        """(const float* x, char* y) {
    __shared__ char s[64];
    s[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = s[threadIdx.x];
}""",
        (1, 64),
        ramp(64),
        ramp(64, np.int8),
    ),
    "three buffers and one barrier, before the read": (
        """(const float* x, float* y) {
    __shared__ float s[3][64];
    float sum = 0;
    for (int i = 0; i < 6; i++) {
        s[i % 3][threadIdx.x] = x[64 * i + threadIdx.x];
        __syncthreads();
        sum += s[i % 3][63 - threadIdx.x];
    }
    y[threadIdx.x] = sum;
}""",
        (1, 64),
        ramp(384),
        (ramp(384).reshape(6, 64).sum(axis=0))[::-1],
    ),
    "a ring of three copies in flight with empty groups at its end": (
        """(const float* x, float* y) {
    __shared__ float s[4][64];
    for (int i = 0; i < 3; i++) {
        __pipeline_memcpy_async(&s[i][threadIdx.x], &x[64 * i + threadIdx.x], 4);
        __pipeline_commit();
    }
    float sum = 0;
    for (int i = 0; i < 9; i++) {
        __pipeline_wait_prior(2);
        __syncthreads();
        int next = i + 3;
        if (next < 9) __pipeline_memcpy_async(&s[next % 4][threadIdx.x], &x[64 * next + threadIdx.x], 4);
        __pipeline_commit();
        sum += s[i % 4][63 - threadIdx.x];
    }
    y[threadIdx.x] = sum;
}""",
        (1, 64),
        ramp(576),
        ramp(576).reshape(9, 64).sum(axis=0)[::-1],
    ),
    "an own copy needs no barrier": (
        """(const float* x, float* y) {
    __shared__ float s[64];
    __pipeline_memcpy_async(&s[threadIdx.x], &x[threadIdx.x], 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    y[threadIdx.x] = s[threadIdx.x];
}""",
        (1, 64),
        ramp(64),
        ramp(64),
    ),
    "a barrier under a condition that is the same for a block": (
        """(const float* x, float* y) {
    __shared__ float s[64];
    for (int i = 0; i < 2 + blockIdx.x % 3; i++)
        if ((i + blockIdx.x) % 2) {
            s[threadIdx.x] = x[threadIdx.x] + i;
            __syncthreads();
            y[64 * blockIdx.x + threadIdx.x] = s[63 - threadIdx.x];
            __syncthreads();
        }
}""",
        (300, 64),
        ramp(64),
        # the last i below 2 + b % 3 that has the other parity than b
        np.concatenate([63 - ramp(64) + max(i for i in range(2 + b % 3) if (i + b) % 2) for b in range(300)]),
    ),
    "threads that leave after the last barrier": (
        """(const float* x, float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    int i = 64 * blockIdx.x + threadIdx.x;
    if (i >= 200) return;
    y[i] = s[63 - threadIdx.x];
}""",
        (4, 64),
        ramp(64),
        np.tile(63 - ramp(64), 4)[:200],
    ),
    "a warp-level barrier after some lanes have left": (
        """(const float* x, float* y) {
    __shared__ float s[64];
    if (threadIdx.x >= 40) return;
    s[threadIdx.x] = x[threadIdx.x];
    __syncwarp();
    y[threadIdx.x] = s[threadIdx.x ^ 1];
}""",
        (1, 64),
        ramp(64),
        ramp(64)[LANE[:40] ^ 1],
    ),
    "lanes that a shuffle reads past the end and throws away": (
        """(const float* x, float* y) {
    if (threadIdx.x < 16) {
        float v = x[threadIdx.x];
        for (int o = 8; o; o /= 2) v += __shfl_down_sync(0xffff, v, o);
        if (threadIdx.x == 0) y[0] = v;
    }
}""",
        (1, 32),
        ramp(16),
        np.array([120], np.float32),
    ),
    "two lanes each in a barrier of their own": (
        """(const float* x, float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncwarp(3u << (threadIdx.x & 30));
    y[threadIdx.x] = s[threadIdx.x ^ 1];
}""",
        (1, 64),
        ramp(64),
        ramp(64)[LANE ^ 1],
    ),
    "a tile of sixteen lanes under a condition": (
        """(const float* x, float* y) {
    __shared__ float s[64];
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    y[threadIdx.x] = 0;
    if (tile.meta_group_rank() % 2) {
        s[threadIdx.x] = x[threadIdx.x];
        tile.sync();
        y[threadIdx.x] = s[threadIdx.x ^ 15];
    }
}""",
        (1, 64),
        ramp(64),
        np.where(LANE // 16 % 2, LANE ^ 15, 0).astype(np.float32),
    ),
    "one memory for two types, one after the other": (
        """(const float* x, float* y) {
    __shared__ union { float f[64]; int i[64]; } s;
    s.f[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    float v = s.f[63 - threadIdx.x];
    __syncthreads();
    s.i[threadIdx.x] = threadIdx.x;
    __syncthreads();
    y[threadIdx.x] = v + s.i[63 - threadIdx.x];
}""",
        (1, 64),
        ramp(64),
        2 * (63 - ramp(64)),
    ),
    "a wild address that no lane follows": (
        """(const float* x, float* y) {
    long long i = threadIdx.x * 1000000007LL;
    if (i < 1) y[i] = x[i];
}""",
        (1, 64),
        ramp(1),
        ramp(1),
    ),
    "the last vector ends with the array": (
        "(const float4* x, float4* y) { y[threadIdx.x] = x[threadIdx.x]; }",
        (1, 16),
        ramp(64),
        ramp(64),
    ),
    "one warp fills what two named barriers hand to and fro": (
        """(const float* x, float* y) {
    __shared__ float s[2][32];
    int lane = threadIdx.x % 32;
    float sum = 0;
    for (int i = 0; i < 8; i++) {
        if (threadIdx.x < 32) {
            if (i > 1) asm volatile("bar.sync %0, 64;" ::"r"(3 + i % 2) : "memory");
            s[i % 2][lane] = x[32 * i + lane];
            asm volatile("bar.arrive %0, 64;" ::"r"(1 + i % 2) : "memory");
        } else {
            asm volatile("bar.sync %0, 64;" ::"r"(1 + i % 2) : "memory");
            sum += s[i % 2][31 - lane];
            if (i < 6) asm volatile("bar.arrive %0, 64;" ::"r"(3 + i % 2) : "memory");
        }
    }
    if (threadIdx.x >= 32) y[lane] = sum;
}""",
        (1, 64),
        ramp(256),
        ramp(256).reshape(8, 32).sum(axis=0)[::-1],
    ),
    "one thread waits for a flag while its warp goes on to a named barrier": (
        """(const float* x, float* y) {
    __shared__ unsigned flag;
    __shared__ float s[32];
    if (threadIdx.x == 0) flag = 0;
    __syncthreads();
    if (threadIdx.x < 32) {
        s[threadIdx.x] = x[threadIdx.x];
        __syncwarp();
        if (threadIdx.x == 0) { __threadfence_block(); atomicExch(&flag, 1u); }
    } else {
        if (threadIdx.x == 32) while (atomicAdd(&flag, 0u) == 0);
        asm volatile("bar.sync 1, 32;" ::: "memory");
        y[threadIdx.x - 32] = s[63 - threadIdx.x];
    }
}""",
        (1, 64),
        ramp(32),
        ramp(32)[::-1],
    ),
    "atomics of all blocks into a histogram": (
        """(const float* x, float* y) {
    __shared__ int h[8];
    if (threadIdx.x < 8) h[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&h[(int)x[threadIdx.x] % 8], 1);
    __syncthreads();
    if (threadIdx.x < 8) atomicAdd(&y[threadIdx.x], (float)h[threadIdx.x]);
}""",
        (50, 64),
        ramp(64),
        np.full(8, 400, np.float32),
    ),
}

TOTALS = {"atomics of all blocks into a histogram"}
"""Kernels that add to what is there; all others write each output, which starts without a value."""


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_kernel_is_not_flagged(name):
    body, (grid, block), x, want = RIGHT[name]
    before = GROUPS if "cg::" in body else PIPELINE if "__pipeline" in body else ""
    kernel = cp.RawKernel(before + KERNEL + body, "k", ("--std=c++17",))
    y = cp.zeros(want.shape, want.dtype) if name in TOTALS else cp.empty(want.shape, want.dtype)
    assert cp.trace(kernel, (grid,), (block,), (cp.asarray(x), y)).hazards == ()
    np.testing.assert_array_equal(y.get(), want)
