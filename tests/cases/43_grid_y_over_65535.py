# gridDim.y and .z stop at 65535 (x goes to 2^31-1). 65536 rows, one block each along y -> refused:
# CUDA_ERROR_INVALID_VALUE ("invalid configuration argument" in the runtime API). A CPU emulator accepts it
# happily unless told.
SOURCE = r"""extern "C" __global__ void fill(float* C, int M) {
    int row = blockIdx.y;
    if (row < M && threadIdx.x == 0) C[row] = 1.0f;
}
"""
NAME = "fill"
GRID, BLOCK, SHARED_MEM = (1, 65536, 1), (32, 1, 1), 0
ARGS = [
    {"name": "C", "dtype": "float32", "shape": (65536,), "value": "zeros", "out": True},
    {"name": "M", "dtype": "int32", "value": 65536},
]
OPTIONS = ("--std=c++17",)
EXPECT = {
    "kind": "launch-error",
    "cuda_error": "CUDA_ERROR_INVALID_VALUE",
    "grid_y": 65536,
    "limit": 65535,
    "right": "np.ones(65536)",
    "observed": None,
    "fix": "put the long side on x",
    "message": "gridDim.y = 65536 > 65535",
}
SOURCE_REF = ["ml-explore/mlx#2267", "triton-lang/triton#580", "us4useu/arrus PR#359"]
