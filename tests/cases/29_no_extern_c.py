# Compiles, then the kernel cannot be found by name: C++ mangles it to _Z4gemmPKfPfi.
# CuPy: CUDADriverError CUDA_ERROR_NOT_FOUND: named symbol not found (at the first launch, not at construction).
# Templates cannot be extern "C": they need RawModule(name_expressions=[...]), which also skips the disk cache.
SOURCE = r"""__global__ void gemm(const float* A, float* C, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) C[i] = A[i];
}
"""
NAME = "gemm"
GRID, BLOCK, SHARED_MEM = (1, 1, 1), (32, 1, 1), 0
ARGS = [
    {"name": "A", "dtype": "float32", "shape": (32,), "value": "np.arange(32)"},
    {"name": "C", "dtype": "float32", "shape": (32,), "value": "zeros", "out": True},
    {"name": "n", "dtype": "int32", "value": 32},
]
OPTIONS = ("--std=c++17",)
EXPECT = {
    "kind": "launch-error",
    "stage": "symbol lookup",
    "cuda_error": "CUDA_ERROR_NOT_FOUND",
    "mangled": "_Z4gemmPKfPfi",
    "right": "A",
    "observed": None,
    "fix": 'extern "C" __global__ void gemm(...)',
    "message": 'lists the kernels that the source defines and says that extern "C" is missing (or the name misspelt)',
}
SOURCE_REF = ["cupy/cupy#3185", "cupy/cupy#5572", "cupy/cupy#9667", "huggingface/candle PR#3885"]
