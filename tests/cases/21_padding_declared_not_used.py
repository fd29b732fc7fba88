# 33 floats a row are reserved, but the index still steps by 32: the padding does nothing.
# By hand (32 banks of 4 bytes, bank = word index mod 32), one warp:
#  line 5  write s[r*32 + lane]: banks 0..31 once each -> 1 wavefront, 32 requests
#  line 9  read  s[lane*32 + c]: bank (32*lane + c) mod 32 = c for every lane, 32 different words
#          -> 32-way conflict, 32 requests * 32 = 1024 wavefronts (32 would do)
# With stride 33 the bank is (lane + c) mod 32: conflict-free. Result is right either way.
# Global load at line 5: 32 lanes * 4 B = 128 B aligned -> 4 sectors.
SOURCE = r"""extern "C" __global__ void row_sums(const float* A, float* y) {
    __shared__ float s[32 * 33];
    int lane = threadIdx.x;
    for (int r = 0; r < 32; ++r)
        s[r * 32 + lane] = A[r * 32 + lane];
    __syncthreads();
    float acc = 0.0f;
    for (int c = 0; c < 32; ++c)
        acc += s[lane * 32 + c];
    y[lane] = acc;
}
"""
NAME = "row_sums"
GRID, BLOCK, SHARED_MEM = (1, 1, 1), (32, 1, 1), 0
ARGS = [
    {"name": "A", "dtype": "float32", "shape": (32, 32), "value": "np.arange(1024).reshape(32, 32) % 11"},
    {"name": "y", "dtype": "float32", "shape": (32,), "value": "zeros", "out": True},
]
OPTIONS = ("--std=c++17",)
EXPECT = {
    "kind": "bank-conflict",
    "right": "A.sum(axis=1)",
    "observed": "A.sum(axis=1)",
    "accesses": [
        {"line": 5, "space": "shared", "access": "write", "bytes": 4, "requests": 32, "total": 32, "degree": 1},
        {"line": 9, "space": "shared", "access": "read", "bytes": 4, "requests": 32, "total": 1024, "degree": 32},
        {
            "line": 5,
            "space": "global",
            "access": "read",
            "bytes": 4,
            "requests": 32,
            "total": 128,
            "per_request": (4, 4),
        },
    ],
    "fix": "use 33 as the row stride on lines 5 and 9",
    "message": "32-way conflict at line 9 (bank c, 32 rows); the array is padded, the index is not",
}
SOURCE_REF = ["deepspeedai/DeepSpeed PR#8055", "NVIDIA/Fuser PR#5909"]
