# Rows of A are padded to 4 with NaN, B's spare row too, and the kernel "masks" by multiplying with 0: 0*NaN = NaN.
# Every output is NaN, right is 3. The trap is in the checker: fabs(got - want) > tol is False for NaN, so a
# check written that way passes. Must be: not (fabs(got - want) <= tol).
SOURCE = r"""extern "C" __global__ void gemm(const float* A, const float* B, float* C, int N, int K, int lda) {
    int row = threadIdx.y, col = threadIdx.x;
    float acc = 0.0f;
    for (int k = 0; k < lda; ++k) {
        float keep = k < K ? 1.0f : 0.0f;
        acc += keep * A[row * lda + k] * B[k * N + col];
    }
    C[row * N + col] = acc;
}
"""
NAME = "gemm"
GRID, BLOCK, SHARED_MEM = (1, 1, 1), (4, 4, 1), 0
ARGS = [
    {"name": "A", "dtype": "float32", "shape": (4, 4), "value": "np.where(np.arange(4) < 3, np.ones((4, 4)), np.nan)"},
    {
        "name": "B",
        "dtype": "float32",
        "shape": (4, 4),
        "value": "np.where(np.arange(4)[:, None] < 3, np.ones((4, 4)), np.nan)",
    },
    {"name": "C", "dtype": "float32", "shape": (4, 4), "value": "zeros", "out": True},
    {"name": "N", "dtype": "int32", "value": 4},
    {"name": "K", "dtype": "int32", "value": 3},
    {"name": "lda", "dtype": "int32", "value": 4},
]
OPTIONS = ("--std=c++17",)
EXPECT = {
    "kind": "wrong-result",
    "right": "np.full((4, 4), 3.0)",
    "observed": "np.full((4, 4), np.nan)",
    "fix": "if (k < K), not a multiplication",
    "message": "16 of 16 outputs are NaN, said first; Inf likewise",
}
SOURCE_REF = ["siboehm/SGEMM_CUDA PR#20", "news.ycombinator.com/item?id=41126240", "ggml-org/llama.cpp PR#8572"]
