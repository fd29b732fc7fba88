# Bounds check written as `return` in front of the barriers (line 7 vs lines 11, 14).
# By hand, M=N=20, tile 16, grid 2x2, 256 threads a block:
#   block (0,0): nobody leaves          block (1,0): columns 16..19 live -> 4*16=64 stay, 192 leave
#   block (0,1): rows 16..19 live -> 192 leave    block (1,1): 4*4=16 stay, 240 leave
# On Volta and later an exited thread no longer holds the barrier up, so this does not hang:
# it quietly reads tile slots that the missing threads never filled. In every edge block only
# 4 of the 16 k-terms are loaded on at least one side, so 12 terms come from uninitialised shared memory.
SOURCE = r"""#define T 16
extern "C" __global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[T][T];
    __shared__ float Bs[T][T];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * T + ty, col = blockIdx.x * T + tx;
    if (row >= M || col >= N) return;
    float acc = 0.0f;
    for (int t = 0; t < K; t += T) {
        As[ty][tx] = A[row * K + t + tx]; Bs[ty][tx] = B[(t + ty) * N + col];
        __syncthreads();
        for (int k = 0; k < T; ++k)
            acc += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    C[row * N + col] = acc;
}
"""
NAME = "gemm"
GRID, BLOCK, SHARED_MEM = (2, 2, 1), (16, 16, 1), 0
ARGS = [
    {"name": "A", "dtype": "float32", "shape": (20, 16), "value": "ones"},
    {"name": "B", "dtype": "float32", "shape": (16, 20), "value": "ones"},
    {"name": "C", "dtype": "float32", "shape": (20, 20), "value": "zeros", "out": True},
    {"name": "M", "dtype": "int32", "value": 20},
    {"name": "N", "dtype": "int32", "value": 20},
    {"name": "K", "dtype": "int32", "value": 16},
]
OPTIONS = ("--std=c++17",)
EXPECT = {
    "kind": "barrier-divergence",
    "right": "A @ B",  # 16 everywhere
    "observed": None,  # C[:16,:16] is right, the rest is garbage
    "barrier": {
        "lines": [11, 14],
        "exit_line": 7,
        "exited": {(1, 0): 192, (0, 1): 192, (1, 1): 240},  # blockIdx (x, y) -> threads gone
        "clean_blocks": [(0, 0)],
    },
    "uninitialised_shared_read_line": 13,
    "fix": "keep every thread alive: load 0 when out of range, guard only the final store",
    "message": "says that 192 of 256 threads of block (1,0) returned at line 7 and never reach line 11",
}
SOURCE_REF = ["stackoverflow.com/questions/6666382", "acts-project/traccc PR#137", "EnzymeAD/Enzyme-JAX PR#2866"]
