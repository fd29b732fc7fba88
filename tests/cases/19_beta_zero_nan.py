# C = alpha*A@B + beta*C with beta == 0 and C uninitialised. BLAS says that C is not read then; 0*NaN is NaN.
# By hand: right = alpha*K = 4 for all-ones; computed with the read: NaN everywhere.
SOURCE = r"""extern "C" __global__ void gemm(const float* A, const float* B, float* C, int N, int K,
                                float alpha, float beta) {
    int row = threadIdx.y, col = threadIdx.x;
    float acc = 0.0f;
    for (int k = 0; k < K; ++k) acc += A[row * K + k] * B[k * N + col];
    C[row * N + col] = alpha * acc + beta * C[row * N + col];
}
"""
NAME = "gemm"
GRID, BLOCK, SHARED_MEM = (1, 1, 1), (4, 4, 1), 0
ARGS = [
    {"name": "A", "dtype": "float32", "shape": (4, 4), "value": "ones"},
    {"name": "B", "dtype": "float32", "shape": (4, 4), "value": "ones"},
    {"name": "C", "dtype": "float32", "shape": (4, 4), "value": "np.full((4, 4), np.nan)", "out": True},
    {"name": "N", "dtype": "int32", "value": 4},
    {"name": "K", "dtype": "int32", "value": 4},
    {"name": "alpha", "dtype": "float32", "value": 1.0},
    {"name": "beta", "dtype": "float32", "value": 0.0},
]
OPTIONS = ("--std=c++17",)
EXPECT = {
    "kind": "wrong-result",
    "right": "np.full((4, 4), 4.0)",
    "observed": "np.full((4, 4), np.nan)",
    "fix": "beta == 0 ? alpha*acc : alpha*acc + beta*C[...]",
    "message": "the test must start C at NaN when beta is 0; a test on zeros never sees it",
}
SOURCE_REF = ["ROCm/rocBLAS PR#125", "ROCm/MIOpenGEMM#13", "robertknight/rten PR#81", "Reference-LAPACK/lapack#1077"]
