# Symptom family: tiled GEMM is right with one K-tile and flaky with two or more.
# By hand: block 16x16, K=32 -> 2 tiles. Nothing separates the reads of tile 0 (line 13)
# from the writes of tile 1 (lines 9, 10): write-after-read.
#  * Bs[y][x] is written by thread (x,y) and read at line 13 by the 16 threads (x, 0..15);
#    15 of them are other threads, and a warp is 2 rows of 16, so 14 of those sit in other warps.
#  * As[y][x] is written by (x,y) and read by the 16 threads (0..15, y): the same half-warp,
#    so that hazard is inside one warp (still a race since Volta).
# With K=16 there is no second tile and no race: testing one tile only hides the bug.
# All-ones inputs hide it too (every tile holds the same value), so the verdict must not
# depend on the values.
SOURCE = r"""#define T 16
extern "C" __global__ void gemm(const float* A, const float* B, float* C, int N, int K) {
    __shared__ float As[T][T];
    __shared__ float Bs[T][T];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * T + ty, col = blockIdx.x * T + tx;
    float acc = 0.0f;
    for (int t = 0; t < K; t += T) {
        As[ty][tx] = A[row * K + t + tx];
        Bs[ty][tx] = B[(t + ty) * N + col];
        __syncthreads();
        for (int k = 0; k < T; ++k)
            acc += As[ty][k] * Bs[k][tx];
    }
    C[row * N + col] = acc;
}
"""
NAME = "gemm"
GRID, BLOCK, SHARED_MEM = (1, 1, 1), (16, 16, 1), 0
ARGS = [
    {"name": "A", "dtype": "float32", "shape": (16, 32), "value": "np.arange(512).reshape(16, 32) % 7 - 3"},
    {"name": "B", "dtype": "float32", "shape": (32, 16), "value": "np.arange(512).reshape(32, 16) % 5 - 2"},
    {"name": "C", "dtype": "float32", "shape": (16, 16), "value": "zeros", "out": True},
    {"name": "N", "dtype": "int32", "value": 16},
    {"name": "K", "dtype": "int32", "value": 32},
]
OPTIONS = ("--std=c++17",)
EXPECT = {
    "kind": "race",
    "right": "A @ B",
    "observed": None,  # depends on the schedule
    "races": [
        {"memory": "shared", "array": "Bs", "first": (13, "read"), "second": (10, "write"), "scope": "crosswarp"},
        {"memory": "shared", "array": "As", "first": (13, "read"), "second": (9, "write"), "scope": "samewarp"},
    ],
    "clean_when": "K <= 16 (one tile)",
    "fix": "a second __syncthreads() after the k loop (line 13)",
    "message": "names two threads, the array, both lines (13 reads, 9/10 write) and the missing barrier",
}
SOURCE_REF = [
    "KnowingNothing/MatmulTutorial#13",
    "tile-ai/tilelang#2613",
    "srush/GPU-Puzzles#14",
    "csarofeen/pytorch#380",
]
