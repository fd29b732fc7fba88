# Static shared memory is capped at 48 KiB whatever the card. By hand: 128*64*4 + 64*128*4 = 65536 bytes > 49152.
# Rejected by ptxas (so NVRTC with -arch=sm_XX / nvcc), not by the C++ front end: an emulator built on a host
# compiler accepts it unless it adds the sizes itself.
SOURCE = r"""extern "C" __global__ void gemm(const float* A, const float* B, float* C) {
    __shared__ float As[128][64];
    __shared__ float Bs[64][128];
    As[threadIdx.x][0] = A[threadIdx.x];
    Bs[0][threadIdx.x] = B[threadIdx.x];
    __syncthreads();
    C[threadIdx.x] = As[threadIdx.x ^ 1][0] * Bs[0][threadIdx.x ^ 1];
}
"""
NAME = "gemm"
GRID, BLOCK, SHARED_MEM = (1, 1, 1), (64, 1, 1), 0
ARGS = [
    {"name": "A", "dtype": "float32", "shape": (64,), "value": "ones"},
    {"name": "B", "dtype": "float32", "shape": (64,), "value": "ones"},
    {"name": "C", "dtype": "float32", "shape": (64,), "value": "zeros", "out": True},
]
OPTIONS = ("--std=c++17",)
EXPECT = {
    "kind": "compile-error",
    "stage": "ptxas",
    "static_shared_bytes": 65536,
    "limit": 49152,
    "right": "np.ones(64)",
    "observed": None,
    "compiler_says": "uses too much shared data (0x10000 bytes, 0xc000 max)",
    "fix": "smaller tiles, or dynamic shared memory with the opt-in",
    "message": "gives both numbers and the two arrays' sizes (32768 + 32768)",
}
SOURCE_REF = ["ggml-org/llama.cpp#16081", "ComputationalRadiationPhysics/picongpu#4694", "EnzymeAD/Enzyme.jl#428"]
