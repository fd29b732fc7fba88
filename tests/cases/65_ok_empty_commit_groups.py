# Commits a group every step, even when nothing was copied, so that one fixed wait depth fits all steps including
# the last. By hand (4 chunks): at the wait of step i the groups committed are i+2, the newest (maybe empty) may stay in
# flight, so chunk i has landed. A checker that counts copies instead of groups, or that wants wait_prior(0)
# before the last chunk, flags it wrongly. It must not be confused with case 33.
SOURCE = r"""#include <cuda_pipeline.h>
extern "C" __global__ void reverse_chunks(const float* x, float* y, int chunks) {
    __shared__ __align__(16) float s[2][128];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&s[0][4 * t], &x[4 * t], 16);
    __pipeline_commit();
    for (int i = 0; i < chunks; ++i) {
        if (i + 1 < chunks)
            __pipeline_memcpy_async(&s[(i + 1) & 1][4 * t], &x[128 * (i + 1) + 4 * t], 16);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        for (int j = 0; j < 4; ++j)
            y[128 * i + 32 * j + t] = s[i & 1][127 - (32 * j + t)];
        __syncthreads();
    }
}
"""
NAME = "reverse_chunks"
GRID, BLOCK, SHARED_MEM = (1, 1, 1), (32, 1, 1), 0
ARGS = [
    {"name": "x", "dtype": "float32", "shape": (512,), "value": "np.arange(512)"},
    {"name": "y", "dtype": "float32", "shape": (512,), "value": "zeros", "out": True},
    {"name": "chunks", "dtype": "int32", "value": 4},
]
OPTIONS = ("--std=c++17",)
EXPECT = {
    "kind": "correct",
    "right": "x.reshape(4, 128)[:, ::-1].reshape(512)",
    "observed": "x.reshape(4, 128)[:, ::-1].reshape(512)",
}
SOURCE_REF = ["efeslab/Atom#20", "csarofeen/pytorch PR#2457 (commit placed after the wait)"]
