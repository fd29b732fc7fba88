# A is float64, the parameter is const float*. By hand: 1.0 = 0x3FF0000000000000 -> as two floats (little
# endian) 0.0 and 0x3FF00000 = 1.875. Row i of A is read as 0, 1.875, 0, 1.875 -> C = 3.75, right is 4.
# Looks like a rounding problem, is not; only the first half of A's bytes is read, so nothing is out of bounds.
# np.ones((4, 4)) without dtype is the usual way in.
SOURCE = r"""extern "C" __global__ void gemm(const float* A, const float* B, float* C, int N, int K) {
    int row = threadIdx.y, col = threadIdx.x;
    float acc = 0.0f;
    for (int k = 0; k < K; ++k) acc += A[row * K + k] * B[k * N + col];
    C[row * N + col] = acc;
}
"""
NAME = "gemm"
GRID, BLOCK, SHARED_MEM = (1, 1, 1), (4, 4, 1), 0
ARGS = [
    {"name": "A", "dtype": "float64", "shape": (4, 4), "value": "ones"},
    {"name": "B", "dtype": "float32", "shape": (4, 4), "value": "ones"},
    {"name": "C", "dtype": "float32", "shape": (4, 4), "value": "zeros", "out": True},
    {"name": "N", "dtype": "int32", "value": 4},
    {"name": "K", "dtype": "int32", "value": 4},
]
OPTIONS = ("--std=c++17",)
EXPECT = {
    "kind": "wrong-result",
    "right": "np.full((4, 4), 4.0)",
    "observed": "np.full((4, 4), 3.75)",
    "reject_before_launch": {"argument": "A", "position": 0, "passed": "float64 array", "parameter": "const float*"},
    "fix": "A.astype(np.float32)",
    "message": "names A, float64 and const float*",
}
SOURCE_REF = ["cupy/cupy#3186", "cupy/cupy#4246"]
