# Two float4 reads a lane, lanes 8 floats apart (TN = 8). 16-byte accesses are served a quarter-warp
# (8 lanes) at a time, so conflicts are counted within 8 lanes.
# By hand, lines 7 and 8: lane l touches words 8l..8l+3 (line 7) or 8l+4..8l+7 (line 8).
#   quarter 0, line 7: lanes 0,1,2,3 -> banks 0-3, 8-11, 16-19, 24-27; lanes 4..7 -> words 32.. = the same
#   banks again, other words -> 2-way. 4 quarters * 2 = 8 wavefronts a request, 4 is the minimum.
# Counting all 32 lanes at once would claim 8-way; counting only each lane's first word would too.
# Line 5: consecutive words -> 1 wavefront, 8 requests.
SOURCE = r"""extern "C" __global__ void eights(const float* x, float* y) {
    __shared__ __align__(16) float s[256];
    int lane = threadIdx.x;
    for (int i = 0; i < 8; ++i)
        s[i * 32 + lane] = x[i * 32 + lane];
    __syncthreads();
    float4 a = *reinterpret_cast<float4*>(&s[lane * 8]);
    float4 b = *reinterpret_cast<float4*>(&s[lane * 8 + 4]);
    y[lane] = a.x + a.y + a.z + a.w + b.x + b.y + b.z + b.w;
}
"""
NAME = "eights"
GRID, BLOCK, SHARED_MEM = (1, 1, 1), (32, 1, 1), 0
ARGS = [
    {"name": "x", "dtype": "float32", "shape": (256,), "value": "np.arange(256) % 17"},
    {"name": "y", "dtype": "float32", "shape": (32,), "value": "zeros", "out": True},
]
OPTIONS = ("--std=c++17",)
EXPECT = {
    "kind": "bank-conflict",
    "right": "x.reshape(32, 8).sum(axis=1)",
    "observed": "x.reshape(32, 8).sum(axis=1)",
    "accesses": [
        {"line": 5, "space": "shared", "access": "write", "bytes": 4, "requests": 8, "total": 8, "degree": 1},
        {"line": 7, "space": "shared", "access": "read", "bytes": 16, "requests": 1, "total": 8, "degree": 2},
        {"line": 8, "space": "shared", "access": "read", "bytes": 16, "requests": 1, "total": 8, "degree": 2},
    ],
    "fix": "let a lane take words 4*lane and 128 + 4*lane",
    "message": "2-way within each quarter-warp: 8 wavefronts, 4 needed",
}
SOURCE_REF = [
    "siboehm/SGEMM_CUDA src/kernels/7 and 8 (bank conflict attempts)",
    "r/CUDA 'Bank Conflicts During Vectorized Stores' (r.arson.gg mirror)",
]
