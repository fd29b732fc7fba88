# Old warp-synchronous reduction: one warp, no volatile, no __syncwarp(). Fine on paper before Volta.
# By hand: at each step lane i < off reads s[i+off] (line 6), last written by lane i+off at line 4 or, one step
# earlier, at line 6. Nothing orders the lanes: read-after-write races 4->6 and 6->6, all inside one warp.
# A lock-step emulator always prints 32 (right); one that runs lane 0 to the end first reads slots nobody wrote.
SOURCE = r"""extern "C" __global__ void dot32(const float* a, const float* b, float* out) {
    __shared__ float s[32];
    int lane = threadIdx.x;
    s[lane] = a[lane] * b[lane];
    for (int off = 16; off > 0; off >>= 1)
        if (lane < off) s[lane] += s[lane + off];
    if (lane == 0) out[0] = s[0];
}
"""
NAME = "dot32"
GRID, BLOCK, SHARED_MEM = (1, 1, 1), (32, 1, 1), 0
ARGS = [
    {"name": "a", "dtype": "float32", "shape": (32,), "value": "ones"},
    {"name": "b", "dtype": "float32", "shape": (32,), "value": "ones"},
    {"name": "out", "dtype": "float32", "shape": (1,), "value": "zeros", "out": True},
]
OPTIONS = ("--std=c++17",)
EXPECT = {
    "kind": "race",
    "right": "np.array([32.0])",
    "observed": None,
    "races": [
        {"memory": "shared", "array": "s", "first": (4, "write"), "second": (6, "read"), "scope": "samewarp"},
        {"memory": "shared", "array": "s", "first": (6, "write"), "second": (6, "read"), "scope": "samewarp"},
    ],
    "fix": "__syncwarp() before and after the read (see 53), or __shfl_down_sync",
    "message": "a race inside one warp (compute-sanitizer calls this level a warning)",
}
SOURCE_REF = [
    "proteneer/timemachine#344",
    "JustVugg/colibri#1099",
    "ORNL/HeCBench PR#221",
    "kaldi-asr/kaldi PR#3211",
    "torch/cutorch PR#739",
]
