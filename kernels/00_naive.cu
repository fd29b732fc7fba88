// Rung 0, naive: one thread computes one output, the dot product of a row of A and a column of B.
//
//   C = alpha * A @ B + beta * C        A: M x K, B: K x N, C: M x N, float32, row-major, contiguous
//
// Mapping: threadIdx.x picks the row, threadIdx.y the column. The lanes of a warp differ in threadIdx.x first, so
// with BX = 32 they stand in 32 rows of one column. Each step of k reads 32 floats of A that lie K floats apart, and
// one float of B that all lanes share; the store to C is as scattered as the reads of A.
//
// Launch: block (BX, BY), grid (ceil(M / BX), ceil(N / BY)), no shared memory.

#ifndef BX
#define BX 32
#endif
#ifndef BY
#define BY 4
#endif

extern "C" __global__ void __launch_bounds__(BX * BY)
gemm_naive(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
{
    const int row = blockIdx.x * BX + threadIdx.x;
    const int col = blockIdx.y * BY + threadIdx.y;
    if (row >= M || col >= N)
        return;

    float sum = 0.0f;
    for (int k = 0; k < K; ++k) {
        const float a = A[row * K + k];
        const float b = B[k * N + col];
        sum = fmaf(a, b, sum);
    }

    float value = alpha * sum;
    if (beta != 0.0f)  // with beta == 0, C is not read: a NaN left in it must not survive
        value = fmaf(beta, C[row * N + col], value);
    C[row * N + col] = value;
}
