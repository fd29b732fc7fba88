# Two `extern __shared__` arrays are the same memory. By hand: A = 2s, B = 3s, T = 4. The second store (line 6)
# overwrites the first, both factors are B: 4*3*3 = 36 instead of 4*2*3 = 24. Each thread overwrites its own
# slot, so there is no race and nothing out of bounds.
SOURCE = r"""extern "C" __global__ void gemm(const float* A, const float* B, float* C) {
    extern __shared__ float As[];
    extern __shared__ float Bs[];
    int tx = threadIdx.x, ty = threadIdx.y;
    As[ty * 4 + tx] = A[ty * 4 + tx];
    Bs[ty * 4 + tx] = B[ty * 4 + tx];
    __syncthreads();
    float acc = 0.0f;
    for (int k = 0; k < 4; ++k) acc += As[ty * 4 + k] * Bs[k * 4 + tx];
    C[ty * 4 + tx] = acc;
}
"""
NAME = "gemm"
GRID, BLOCK, SHARED_MEM = (1, 1, 1), (4, 4, 1), 128
ARGS = [
    {"name": "A", "dtype": "float32", "shape": (4, 4), "value": "np.full((4, 4), 2.0)"},
    {"name": "B", "dtype": "float32", "shape": (4, 4), "value": "np.full((4, 4), 3.0)"},
    {"name": "C", "dtype": "float32", "shape": (4, 4), "value": "zeros", "out": True},
]
OPTIONS = ("--std=c++17",)
EXPECT = {
    "kind": "wrong-result",
    "right": "np.full((4, 4), 24.0)",
    "observed": "np.full((4, 4), 36.0)",
    "fix": "one extern array, float* Bs = As + 16",
    "message": "lint: more than one extern __shared__ array in a kernel start at the same address",
}
SOURCE_REF = [
    "forums.developer.nvidia.com/t/shared-memory-acces/1475",
    "CUDA C++ Programming Guide, dynamic shared memory",
]
