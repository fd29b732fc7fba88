# float4 loads need a 16-byte boundary; rows are 18 floats = 72 bytes apart.
# By hand: byte offset = 72*ty + 16*tx; 72 mod 16 = 8, so odd rows are off by 8. BLOCK (4,4):
# rows 1 and 3 -> 8 of 16 threads fault, the first is thread (0,1,0) at byte 72. Even rows are fine,
# so a one-row test passes.
SOURCE = r"""extern "C" __global__ void quad_sums(const float* A, float* y, int K) {
    int tx = threadIdx.x, ty = threadIdx.y;
    float4 v = *reinterpret_cast<const float4*>(A + ty * K + 4 * tx);
    y[ty * 4 + tx] = v.x + v.y + v.z + v.w;
}
"""
NAME = "quad_sums"
GRID, BLOCK, SHARED_MEM = (1, 1, 1), (4, 4, 1), 0
ARGS = [
    {"name": "A", "dtype": "float32", "shape": (4, 18), "value": "ones"},
    {"name": "y", "dtype": "float32", "shape": (4, 4), "value": "zeros", "out": True},
    {"name": "K", "dtype": "int32", "value": 18},
]
OPTIONS = ("--std=c++17",)
EXPECT = {
    "kind": "misaligned",
    "right": "A[:, :16].reshape(4, 4, 4).sum(axis=2)",
    "observed": None,
    "misaligned": {
        "memory": "global",
        "array": "A",
        "line": 3,
        "access": "read",
        "bytes": 16,
        "offset_mod": 8,
        "count": 8,
        "first_thread": (0, 1, 0),
        "byte_offset": 72,
    },
    "fix": "K % 4 == 0 (pad the rows) or scalar loads",
    "message": "names the array, byte offset 72, wanted alignment 16 and K=18",
}
SOURCE_REF = ["PaddlePaddle/Paddle PR#23090", "ggml-org/llama.cpp PR#18799", "NVIDIA/cutlass#831"]
