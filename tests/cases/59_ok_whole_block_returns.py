# An early return in front of barriers, but the condition depends on blockIdx only: the block leaves as a whole.
# Likewise the barrier inside `if (passes > 1)`: the condition is a kernel argument, the same for all.
# By hand: grid (4,1), N = 32, T = 16 -> blocks 2 and 3 return at line 5.
SOURCE = r"""#define T 16
extern "C" __global__ void gemm(const float* A, const float* B, float* C, int N, int passes) {
    __shared__ float As[T][T];
    __shared__ float Bs[T][T];
    if (blockIdx.x * T >= N) return;
    int tx = threadIdx.x, ty = threadIdx.y, col = blockIdx.x * T + tx;
    float acc = 0.0f;
    for (int p = 0; p < passes; ++p) {
        As[ty][tx] = A[ty * T + tx];
        Bs[ty][tx] = B[ty * N + col];
        __syncthreads();
        for (int k = 0; k < T; ++k) acc += As[ty][k] * Bs[k][tx];
        if (passes > 1) __syncthreads();
    }
    C[ty * N + col] = acc;
}
"""
NAME = "gemm"
GRID, BLOCK, SHARED_MEM = (4, 1, 1), (16, 16, 1), 0
ARGS = [
    {"name": "A", "dtype": "float32", "shape": (16, 16), "value": "np.arange(256).reshape(16, 16) % 5"},
    {"name": "B", "dtype": "float32", "shape": (16, 32), "value": "np.arange(512).reshape(16, 32) % 3"},
    {"name": "C", "dtype": "float32", "shape": (16, 32), "value": "zeros", "out": True},
    {"name": "N", "dtype": "int32", "value": 32},
    {"name": "passes", "dtype": "int32", "value": 2},
]
OPTIONS = ("--std=c++17",)
EXPECT = {"kind": "correct", "right": "2 * (A @ B)", "observed": "2 * (A @ B)"}
SOURCE_REF = [
    "stackoverflow.com/questions/6666382 (what is still allowed)",
    "EnzymeAD/Enzyme-JAX PR#2866 (branch every thread decides alike)",
]
