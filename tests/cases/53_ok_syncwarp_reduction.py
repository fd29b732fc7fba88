# Two warps reduce their own halves of shared memory with __syncwarp() only; no __syncthreads() anywhere.
# By hand: warp w touches s[32w..32w+31] only, so warps never meet. Within a warp every read (line 8) is separated
# from the write that feeds it (line 5 or 10) and from the next write by a __syncwarp().
# A checker that only knows __syncthreads() reports a race here.
SOURCE = r"""extern "C" __global__ void warp_sums(const float* x, float* out) {
    __shared__ float s[64];
    int lane = threadIdx.x % 32, w = threadIdx.x / 32;
    float* mine = s + 32 * w;
    mine[lane] = x[threadIdx.x];
    __syncwarp();
    for (int off = 16; off > 0; off >>= 1) {
        float v = lane < off ? mine[lane + off] : 0.0f;
        __syncwarp();
        mine[lane] += v;
        __syncwarp();
    }
    if (lane == 0) out[w] = mine[0];
}
"""
NAME = "warp_sums"
GRID, BLOCK, SHARED_MEM = (1, 1, 1), (64, 1, 1), 0
ARGS = [
    {"name": "x", "dtype": "float32", "shape": (64,), "value": "np.arange(64)"},
    {"name": "out", "dtype": "float32", "shape": (2,), "value": "zeros", "out": True},
]
OPTIONS = ("--std=c++17",)
EXPECT = {"kind": "correct", "right": "x.reshape(2, 32).sum(axis=1)", "observed": "x.reshape(2, 32).sum(axis=1)"}
SOURCE_REF = ["proteneer/timemachine#344 (the fix)", "gunrock/gunrock#844 (warning-level hazards)"]
