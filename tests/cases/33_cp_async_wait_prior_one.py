# wait_prior(1) lets the newest group stay in flight; here there is only one group, so nothing is waited for.
# By hand: groups committed 1, allowed outstanding 1 -> line 9 may read s before the bytes land, barrier or not.
# An emulator that copies at once (synchronously) prints the right answer.
SOURCE = r"""#include <cuda_pipeline.h>
extern "C" __global__ void reverse256(const float* x, float* y) {
    __shared__ __align__(16) float s[256];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&s[4 * t], &x[4 * t], 16);
    __pipeline_commit();
    __pipeline_wait_prior(1); __syncthreads();
    for (int i = 0; i < 4; ++i)
        y[4 * t + i] = s[255 - (4 * t + i)];
}
"""
NAME = "reverse256"
GRID, BLOCK, SHARED_MEM = (1, 1, 1), (64, 1, 1), 0
ARGS = [
    {"name": "x", "dtype": "float32", "shape": (256,), "value": "np.arange(256)"},
    {"name": "y", "dtype": "float32", "shape": (256,), "value": "zeros", "out": True},
]
OPTIONS = ("--std=c++17",)
EXPECT = {
    "kind": "race",
    "right": "x[::-1]",
    "observed": None,
    "races": [{"memory": "shared", "array": "s", "first": (5, "async write"), "second": (9, "read"), "scope": "async"}],
    "fix": "__pipeline_wait_prior(0)",
    "message": "group 1 of 1 may still be in flight at line 9",
}
SOURCE_REF = ["csarofeen/pytorch PR#2457", "efeslab/Atom#20 (why the depth matters)"]
