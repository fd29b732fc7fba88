# Looks like conflicts, is not: lanes that read the *same* word are served by one broadcast.
# By hand, one warp: line 6 s[7]: one word -> 1 wavefront. line 7 s[lane/2]: 16 words in 16 banks -> 1.
# line 8 s[lane%4]: 4 words in 4 banks -> 1. A checker that counts lanes per bank would say 32, 2 and 8.
SOURCE = r"""extern "C" __global__ void spread(const float* x, float* y) {
    __shared__ float s[32];
    int lane = threadIdx.x;
    s[lane] = x[lane];
    __syncthreads();
    float v = s[7];
    v += s[lane / 2];
    v += s[lane % 4];
    y[lane] = v;
}
"""
NAME = "spread"
GRID, BLOCK, SHARED_MEM = (1, 1, 1), (32, 1, 1), 0
ARGS = [
    {"name": "x", "dtype": "float32", "shape": (32,), "value": "np.arange(32)"},
    {"name": "y", "dtype": "float32", "shape": (32,), "value": "zeros", "out": True},
]
OPTIONS = ("--std=c++17",)
EXPECT = {
    "kind": "correct",
    "right": "7 + np.arange(32) // 2 + np.arange(32) % 4",
    "observed": "7 + np.arange(32) // 2 + np.arange(32) % 4",
    "accesses": [
        {"line": 6, "space": "shared", "access": "read", "bytes": 4, "requests": 1, "total": 1, "degree": 1},
        {"line": 7, "space": "shared", "access": "read", "bytes": 4, "requests": 1, "total": 1, "degree": 1},
        {"line": 8, "space": "shared", "access": "read", "bytes": 4, "requests": 1, "total": 1, "degree": 1},
    ],
}
SOURCE_REF = ["zxypro1/algolocal PR#65 (same bank, same word is a broadcast)"]
