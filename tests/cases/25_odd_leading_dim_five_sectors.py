# Coalesced, but rows of 33 floats start off the 32-byte grid. By hand: row k starts at byte 132k,
# 132k mod 32 = 4k mod 32. Only k = 0 (of 0..7) is aligned: 4 sectors; the other 7 rows straddle: 5.
# Total for 8 requests: 4 + 7*5 = 39. A tool that says "4 or 32" is wrong here.
# y[lane]: 128 bytes aligned -> 4 sectors.
SOURCE = r"""extern "C" __global__ void col_sums(const float* B, float* y, int N, int K) {
    int col = threadIdx.x;
    float acc = 0.0f;
    for (int k = 0; k < K; ++k)
        acc += B[k * N + col];
    y[col] = acc;
}
"""
NAME = "col_sums"
GRID, BLOCK, SHARED_MEM = (1, 1, 1), (32, 1, 1), 0
ARGS = [
    {"name": "B", "dtype": "float32", "shape": (8, 33), "value": "np.arange(264).reshape(8, 33) % 5"},
    {"name": "y", "dtype": "float32", "shape": (32,), "value": "zeros", "out": True},
    {"name": "N", "dtype": "int32", "value": 33},
    {"name": "K", "dtype": "int32", "value": 8},
]
OPTIONS = ("--std=c++17",)
EXPECT = {
    "kind": "uncoalesced",
    "right": "B[:, :32].sum(axis=0)",
    "observed": "B[:, :32].sum(axis=0)",
    "accesses": [
        {"line": 5, "space": "global", "access": "read", "bytes": 4, "requests": 8, "total": 39, "per_request": (4, 5)},
        {"line": 6, "space": "global", "access": "write", "bytes": 4, "requests": 1, "total": 4, "per_request": (4, 4)},
    ],
    "fix": "pad the leading dimension to a multiple of 8 floats",
    "message": "39 sectors where 32 would do (1.22x), mild",
}
SOURCE_REF = ["NVIDIA/cnmem PR#6 (sequential but misaligned access)", "cupy/cupy#7267"]
