# Two buffers, one barrier per tile. The barrier of step i does double duty: it publishes buffer i%2, and it
# proves that everybody has finished reading buffer (i+1)%2 in step i-1, so it may be refilled.
# By hand (K = 48, 3 tiles): write buf 0 | B | write buf 1, read buf 0 | B | write buf 0, read buf 1 | B | read buf 0.
# Between two barriers the buffer written and the buffer read are never the same, so a rule "two barriers per loop" is
# wrong.
SOURCE = r"""#define T 16
extern "C" __global__ void gemm(const float* A, const float* B, float* C, int N, int K) {
    __shared__ float As[2][T][T];
    __shared__ float Bs[2][T][T];
    int tx = threadIdx.x, ty = threadIdx.y;
    int tiles = K / T;
    As[0][ty][tx] = A[ty * K + tx];
    Bs[0][ty][tx] = B[ty * N + tx];
    float acc = 0.0f;
    for (int i = 0; i < tiles; ++i) {
        __syncthreads();
        int now = i & 1, next = now ^ 1;
        if (i + 1 < tiles) {
            As[next][ty][tx] = A[ty * K + (i + 1) * T + tx];
            Bs[next][ty][tx] = B[((i + 1) * T + ty) * N + tx];
        }
        for (int k = 0; k < T; ++k) acc += As[now][ty][k] * Bs[now][k][tx];
    }
    C[ty * N + tx] = acc;
}
"""
NAME = "gemm"
GRID, BLOCK, SHARED_MEM = (1, 1, 1), (16, 16, 1), 0
ARGS = [
    {"name": "A", "dtype": "float32", "shape": (16, 48), "value": "np.arange(768).reshape(16, 48) % 5"},
    {"name": "B", "dtype": "float32", "shape": (48, 16), "value": "np.arange(768).reshape(48, 16) % 3"},
    {"name": "C", "dtype": "float32", "shape": (16, 16), "value": "zeros", "out": True},
    {"name": "N", "dtype": "int32", "value": 16},
    {"name": "K", "dtype": "int32", "value": 48},
]
OPTIONS = ("--std=c++17",)
EXPECT = {"kind": "correct", "right": "A @ B", "observed": "A @ B"}
SOURCE_REF = ["csarofeen/pytorch PR#383 (write-after-read rule)", "ORNL/HeCBench#253 (the broken relative)"]
