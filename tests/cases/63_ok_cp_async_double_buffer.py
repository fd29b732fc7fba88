# Asynchronous copies, two buffers, wait + barrier before use. By hand (4 chunks of 128 floats, 32 threads):
# before step i the newest group is chunk i+1, so __pipeline_wait_prior(1) is enough for chunk i; in the last step
# there is no newer group, hence wait_prior(0). The barrier of line 18 keeps chunk i+2 (same buffer as i) from landing
# while chunk i is read.
SOURCE = r"""#include <cuda_pipeline.h>
extern "C" __global__ void reverse_chunks(const float* x, float* y, int chunks) {
    __shared__ __align__(16) float s[2][128];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&s[0][4 * t], &x[4 * t], 16);
    __pipeline_commit();
    for (int i = 0; i < chunks; ++i) {
        if (i + 1 < chunks) {
            __pipeline_memcpy_async(&s[(i + 1) & 1][4 * t], &x[128 * (i + 1) + 4 * t], 16);
            __pipeline_commit();
            __pipeline_wait_prior(1);
        } else {
            __pipeline_wait_prior(0);
        }
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
    "needs": "sm_80 for asynchrony; right on older cards too through <cuda_pipeline.h>",
}
SOURCE_REF = ["NVIDIA/cccl#1089", "turboderp-org/exllamav3#14"]
