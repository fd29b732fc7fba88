# row uses blockDim.x and col uses blockDim.y: right only for square blocks. By hand, BLOCK (32,8), GRID (1,4),
# M=N=32, K=8: row = blockIdx.y*32 + ty -> block 0 gives rows 0..7, blocks 1..3 give rows >= 32, cut by the
# guard. Rows 8..31 (768 of 1024 outputs) keep their old value.
SOURCE = r"""extern "C" __global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * blockDim.x + threadIdx.y;
    int col = blockIdx.x * blockDim.y + threadIdx.x;
    if (row >= M || col >= N) return;
    float acc = 0.0f;
    for (int k = 0; k < K; ++k) acc += A[row * K + k] * B[k * N + col];
    C[row * N + col] = acc;
}
"""
NAME = "gemm"
GRID, BLOCK, SHARED_MEM = (1, 4, 1), (32, 8, 1), 0
ARGS = [
    {"name": "A", "dtype": "float32", "shape": (32, 8), "value": "ones"},
    {"name": "B", "dtype": "float32", "shape": (8, 32), "value": "ones"},
    {"name": "C", "dtype": "float32", "shape": (32, 32), "value": "np.full((32, 32), -1.0)", "out": True},
    {"name": "M", "dtype": "int32", "value": 32},
    {"name": "N", "dtype": "int32", "value": 32},
    {"name": "K", "dtype": "int32", "value": 8},
]
OPTIONS = ("--std=c++17",)
EXPECT = {
    "kind": "wrong-result",
    "right": "np.full((32, 32), 8.0)",
    "observed": "np.where(np.arange(32)[:, None] < 8, np.full((32, 32), 8.0), -1.0)",
    "unwritten": 768,
    "unwritten_where": "rows 8..31",
    "fix": "blockIdx.y * blockDim.y, blockIdx.x * blockDim.x",
    "message": "768 outputs never written; test with a non-square block",
}
SOURCE_REF = ["gpu-mode/lectures PR#1", "PaddleJitLab/CUDATutorial#71"]
