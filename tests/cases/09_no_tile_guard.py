# Tile loads without bounds checks, only the store is guarded. M=N=K=20, tile 16, grid 2x2, k-tiles 0 and 16.
# By hand, out-of-bounds thread-loads (index >= 400):
#  A: rows 20..31 always: 12 rows * 16 lanes * 2 k-tiles * 2 column blocks = 768;
#     row 19, second tile: 380+16+tx >= 400 for tx >= 4: 12 * 2 = 24; row 18 tops out at 391. Sum 792.
#  B: k 20..31 always: 12 * 32 columns * 2 row blocks = 768; k = 19: 380+col >= 400 for col >= 20: 12*2 = 24. Sum 792.
#  The other overruns (e.g. A[0][20] = A[1][0]) stay inside the array and cannot be seen as out of bounds.
# If the bytes behind B happen to be 0 the answer is exactly right (20): a value check alone passes.
SOURCE = r"""#define T 16
extern "C" __global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[T][T];
    __shared__ float Bs[T][T];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * T + ty, col = blockIdx.x * T + tx;
    float acc = 0.0f;
    for (int t = 0; t < K; t += T) {
        As[ty][tx] = A[row * K + t + tx];
        Bs[ty][tx] = B[(t + ty) * N + col];
        __syncthreads();
        for (int k = 0; k < T; ++k) acc += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = acc;
}
"""
NAME = "gemm"
GRID, BLOCK, SHARED_MEM = (2, 2, 1), (16, 16, 1), 0
ARGS = [
    {"name": "A", "dtype": "float32", "shape": (20, 20), "value": "ones"},
    {"name": "B", "dtype": "float32", "shape": (20, 20), "value": "ones"},
    {"name": "C", "dtype": "float32", "shape": (20, 20), "value": "zeros", "out": True},
    {"name": "M", "dtype": "int32", "value": 20},
    {"name": "N", "dtype": "int32", "value": 20},
    {"name": "K", "dtype": "int32", "value": 20},
]
OPTIONS = ("--std=c++17",)
EXPECT = {
    "kind": "oob",
    "right": "A @ B",  # 20 everywhere
    "observed_if_zero_behind": "A @ B",
    "oob_counts": [
        {"array": "A", "line": 9, "access": "read", "count": 792},
        {"array": "B", "line": 10, "access": "read", "count": 792},
    ],
    "fix": "load 0.0f when row >= M, col >= N or t + tx/ty >= K",
    "message": "needs red zones round every array: inside a memory pool the card and memcheck say nothing",
}
SOURCE_REF = [
    "NVIDIA/cuda-samples#411",
    "yzhaiustc/Optimizing-SGEMM-on-NVIDIA-Turing-GPUs#2",
    "Cjkkkk/CUDA_gemm#6",
    "rapidsai/rmm#1899",
    "cupy/cupy PR#3679",
]
