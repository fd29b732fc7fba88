# Exactly 48 KiB dynamic looks legal, but static and dynamic share the 48 KiB: 49152 + 128 = 49280 > 49152.
# An opt-in rule "only if dynamic > 48 KiB" misses this.
SOURCE = r"""extern "C" __global__ void gemm(const float* A, float* C) {
    __shared__ float edge[32];
    extern __shared__ float tile[];
    edge[threadIdx.x] = A[threadIdx.x];
    tile[threadIdx.x + 12288 - 32] = A[threadIdx.x];
    __syncthreads();
    C[threadIdx.x] = edge[31 - threadIdx.x] + tile[12287 - threadIdx.x];
}
"""
NAME = "gemm"
GRID, BLOCK, SHARED_MEM = (1, 1, 1), (32, 1, 1), 49152
ARGS = [
    {"name": "A", "dtype": "float32", "shape": (32,), "value": "np.arange(32)"},
    {"name": "C", "dtype": "float32", "shape": (32,), "value": "zeros", "out": True},
]
OPTIONS = ("--std=c++17",)
EXPECT = {
    "kind": "launch-error",
    "cuda_error": "CUDA_ERROR_INVALID_VALUE",
    "dynamic_shared_bytes": 49152,
    "static_shared_bytes": 128,
    "limit_without_optin": 49152,
    "right": "2 * A[::-1]",  # after the opt-in
    "observed": None,
    "fix": "max_dynamic_shared_size_bytes = 49152 (set it even at exactly 48 KiB)",
    "message": "49152 dynamic + 128 static = 49280 > 49152",
}
SOURCE_REF = ["NVIDIA/numba-cuda-mlir#143", "NVIDIA/numba-cuda-mlir PR#148"]
