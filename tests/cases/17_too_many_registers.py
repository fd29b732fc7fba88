# 8x8 outputs a thread and 1024 threads a block, without __launch_bounds__. The block needs
# registers/thread * 1024 <= 65536, i.e. at most 64 registers, but the 64 accumulators alone fill that and
# the 16 operands, pointers and indices come on top. By hand: > 64 + 16 = 80 registers -> > 81920 > 65536.
# Launch refused with CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701). __launch_bounds__(1024) makes it launch, by
# spilling to local memory: slower, not faster. ptxas counts for this source: see REGISTERS.
SOURCE = r"""extern "C" __global__ void gemm(const float* A, const float* B, float* C, int N, int K) {
    int r0 = (blockIdx.y * 32 + threadIdx.y) * 8, c0 = (blockIdx.x * 32 + threadIdx.x) * 8;
    float acc[8][8] = {}, a[8], b[8];
    for (int k = 0; k < K; ++k) {
        #pragma unroll
        for (int i = 0; i < 8; ++i) a[i] = A[(r0 + i) * K + k];
        #pragma unroll
        for (int j = 0; j < 8; ++j) b[j] = B[k * N + c0 + j];
        #pragma unroll
        for (int i = 0; i < 8; ++i)
            #pragma unroll
            for (int j = 0; j < 8; ++j) acc[i][j] += a[i] * b[j];
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i)
        #pragma unroll
        for (int j = 0; j < 8; ++j) C[(r0 + i) * N + c0 + j] = acc[i][j];
}
"""
NAME = "gemm"
GRID, BLOCK, SHARED_MEM = (1, 1, 1), (32, 32, 1), 0
ARGS = [
    {"name": "A", "dtype": "float32", "shape": (256, 4), "value": "ones"},
    {"name": "B", "dtype": "float32", "shape": (4, 256), "value": "ones"},
    {"name": "C", "dtype": "float32", "shape": (256, 256), "value": "zeros", "out": True},
    {"name": "N", "dtype": "int32", "value": 256},
    {"name": "K", "dtype": "int32", "value": 4},
]
OPTIONS = ("--std=c++17",)
REGISTERS = {"sm_80": 96, "sm_90": 96}  # ptxas 13.0 -O3; 96 * 1024 = 98304 > 65536, at most 682 -> 672 threads
EXPECT = {
    "kind": "launch-error",
    "cuda_error": "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
    "threads_per_block": 1024,
    "registers_at_least": 80,
    "registers_allowed": 64,
    "right": "A @ B",  # with a block of 256 threads
    "observed": None,
    "fix": "fewer threads a block (256) or __launch_bounds__(1024), which spills",
    "message": "registers/thread * 1024 > 65536, with the largest block that fits",
}
SOURCE_REF = [
    "HazyResearch/ThunderKittens#37",
    "NVIDIA/numba-cuda-mlir PR#167",
    "torch/cunn#271",
    "acts-project/traccc PR#730",
]
