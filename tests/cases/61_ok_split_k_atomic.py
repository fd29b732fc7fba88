# Case 37 done right: atomic adds from different blocks to one address are not a race.
# By hand: 4 + 4 = 8. (float addition order is open; with these values every order is exact.)
SOURCE = r"""extern "C" __global__ void gemm_splitk(const float* A, const float* B, float* C, int N, int K) {
    int row = threadIdx.y, col = threadIdx.x;
    int k0 = blockIdx.z * (K / 2);
    float acc = 0.0f;
    for (int k = k0; k < k0 + K / 2; ++k) acc += A[row * K + k] * B[k * N + col];
    atomicAdd(&C[row * N + col], acc);
}
"""
NAME = "gemm_splitk"
GRID, BLOCK, SHARED_MEM = (1, 1, 2), (4, 4, 1), 0
ARGS = [
    {"name": "A", "dtype": "float32", "shape": (4, 8), "value": "ones"},
    {"name": "B", "dtype": "float32", "shape": (8, 4), "value": "ones"},
    {"name": "C", "dtype": "float32", "shape": (4, 4), "value": "zeros", "out": True},
    {"name": "N", "dtype": "int32", "value": 4},
    {"name": "K", "dtype": "int32", "value": 8},
]
OPTIONS = ("--std=c++17",)
EXPECT = {"kind": "correct", "right": "np.full((4, 4), 8.0)", "observed": "np.full((4, 4), 8.0)"}
SOURCE_REF = ["NVIDIA/cutlass#2861 (C must start at zero)", "zxypro1/algolocal PR#67"]
