# Two blocks (z = 0, 1) add their half of K into C without an atomic. By hand: both load and store C[row,col] at
# line 6 with nothing between blocks ordering them: read-write and write-write races on all 16 outputs.
# Run one block after the other, as an emulator does, and the result is right (8).
SOURCE = r"""extern "C" __global__ void gemm_splitk(const float* A, const float* B, float* C, int N, int K) {
    int row = threadIdx.y, col = threadIdx.x;
    int k0 = blockIdx.z * (K / 2);
    float acc = 0.0f;
    for (int k = k0; k < k0 + K / 2; ++k) acc += A[row * K + k] * B[k * N + col];
    C[row * N + col] += acc;
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
EXPECT = {
    "kind": "race",
    "right": "np.full((4, 4), 8.0)",
    "observed_in_order": "np.full((4, 4), 8.0)",
    "races": [
        {"memory": "global", "array": "C", "first": (6, "write"), "second": (6, "read"), "scope": "interblock"},
        {"memory": "global", "array": "C", "first": (6, "write"), "second": (6, "write"), "scope": "interblock"},
    ],
    "fix": "atomicAdd(&C[...], acc) (see 61) or a second pass",
    "message": "blocks (0,0,0) and (0,0,1) both write C[0]; racecheck on the card looks at shared memory only",
}
SOURCE_REF = ["zxypro1/algolocal PR#67 (blocks always count as concurrent)", "NVIDIA/Fuser#1080 (split-K)"]
