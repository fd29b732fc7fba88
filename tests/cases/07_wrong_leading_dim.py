# B is indexed with its row count instead of its column count: B[k*K + col]. Right only if N == K.
# By hand: A=[1 2], B=[[1 2 3],[4 5 6]] (K=2, N=3). Right: [1+8, 2+10, 3+12] = [9 12 15].
# With stride 2: C[c] = 1*B.flat[c] + 2*B.flat[2+c] = [1+6, 2+8, 3+10] = [7 10 13].
# All in bounds, so only the values tell; all-ones inputs hide it.
SOURCE = r"""extern "C" __global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = threadIdx.y, col = threadIdx.x;
    if (row >= M || col >= N) return;
    float acc = 0.0f;
    for (int k = 0; k < K; ++k)
        acc += A[row * K + k] * B[k * K + col];
    C[row * N + col] = acc;
}
"""
NAME = "gemm"
GRID, BLOCK, SHARED_MEM = (1, 1, 1), (4, 4, 1), 0
ARGS = [
    {"name": "A", "dtype": "float32", "shape": (1, 2), "value": "np.array([[1, 2]])"},
    {"name": "B", "dtype": "float32", "shape": (2, 3), "value": "np.array([[1, 2, 3], [4, 5, 6]])"},
    {"name": "C", "dtype": "float32", "shape": (1, 3), "value": "zeros", "out": True},
    {"name": "M", "dtype": "int32", "value": 1},
    {"name": "N", "dtype": "int32", "value": 3},
    {"name": "K", "dtype": "int32", "value": 2},
]
OPTIONS = ("--std=c++17",)
EXPECT = {
    "kind": "wrong-result",
    "right": "np.array([[9., 12., 15.]])",
    "observed": "np.array([[7., 10., 13.]])",
    "fix": "B[k * N + col]",
    "message": "first wrong output C[0,0]: got 7, right 9; the test shapes must be non-square and the values distinct",
}
SOURCE_REF = ["PacktPublishing/Learn-CUDA-Programming#13", "mikkyang/rust-blas#6", "pranjalssh/fast.cu PR#14"]
