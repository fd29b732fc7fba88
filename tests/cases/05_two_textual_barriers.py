# Both sides of a thread-dependent branch call __syncthreads(), so every thread meets *a* barrier,
# but lanes of one warp meet different ones. Undefined by the language (the condition must be the
# same for the whole block); often passes on Volta+, hangs on others.
# By hand: 64 threads, 32 odd ones wait at line 6, 32 even ones at line 9.
SOURCE = r"""extern "C" __global__ void swap_pairs(const float* x, float* y) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    if (t & 1) {
        __syncthreads();
        y[t] = s[t - 1];
    } else {
        __syncthreads();
        y[t] = s[t + 1];
    }
}
"""
NAME = "swap_pairs"
GRID, BLOCK, SHARED_MEM = (1, 1, 1), (64, 1, 1), 0
ARGS = [
    {"name": "x", "dtype": "float32", "shape": (64,), "value": "np.arange(64)"},
    {"name": "y", "dtype": "float32", "shape": (64,), "value": "zeros", "out": True},
]
OPTIONS = ("--std=c++17",)
EXPECT = {
    "kind": "barrier-divergence",
    "right": "x.reshape(32, 2)[:, ::-1].reshape(64)",
    "observed": None,
    "barrier": {"lines": [6, 9], "waiting": {6: 32, 9: 32}},
    "fix": "one barrier before the if",
    "message": "two different barriers in one warp; right values are not a pass",
}
SOURCE_REF = ["stackoverflow.com/questions/14340938", "agency-library/agency#435", "KhronosGroup/glslang#1389"]
