// Rung 1, coalesced: as rung 0, but threadIdx.x and threadIdx.y change places.
//
//   C = alpha * A @ B + beta * C        A: M x K, B: K x N, C: M x N, float32, row-major, contiguous
//
// Mapping: threadIdx.y picks the row, threadIdx.x the column. The lanes of a warp differ in threadIdx.x first, so
// with BX = 32 they stand in 32 columns of one row. Each step of k reads one float of A that all lanes share, and 32
// floats of B that lie side by side, 128 bytes that travel together; so do the 32 floats stored to C.
//
// Launch: block (BX, BY), grid (ceil(M / BY), ceil(N / BX)), no shared memory.

#ifndef BX
#define BX 32
#endif
#ifndef BY
#define BY 16
#endif

extern "C" __global__ void __launch_bounds__(BX * BY)
gemm_coalesced(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
{
    const int row = blockIdx.x * BY + threadIdx.y;
    const int col = blockIdx.y * BX + threadIdx.x;
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
