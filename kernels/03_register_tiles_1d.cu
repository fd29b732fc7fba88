// Rung 3, register_tiles_1d: as rung 2, but a thread computes TM outputs, and keeps them in registers.
//
//   C = alpha * A @ B + beta * C        A: M x K, B: K x N, C: M x N, float32, row-major, contiguous
//
// Mapping: a block owns a BM x BN tile of C and walks along K in steps of BK. Thread (tx, ty) owns column tx of the
// tile, and the TM rows from ty * TM down. In each step of k it reads one value of B, which serves all its outputs, and
// TM values of A: TM + 1 shared loads for TM FMAs, where rung 2 needs 2 * TM. Loading is apart from computing: the
// threads, counted in one line, take the elements of each tile in turn, so that each takes as many as the others.
//
// Launch: block (BN, BM / TM), grid (ceil(N / BN), ceil(M / BM)), 4 * BK * (BM + BN) bytes of shared memory.

#ifndef BM
#define BM 64
#endif
#ifndef BN
#define BN 64
#endif
#ifndef BK
#define BK 8
#endif
#ifndef TM
#define TM 8
#endif

#define THREADS (BN * (BM / TM))

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_register_tiles_1d(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
{
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int row0 = blockIdx.y * BM;
    const int col0 = blockIdx.x * BN;
    const unsigned thread = ty * BN + tx;

    float sum[TM] = {};
    for (unsigned k0 = 0; k0 < K; k0 += BK) {  // unsigned, so that k0 can step past the largest K
        for (int i = 0; i < BM * BK; i += THREADS) {
            const int row = (thread + i) / BK, k = (thread + i) % BK;
            As[row][k] = row0 + row < M && k0 + k < K ? A[(row0 + row) * K + k0 + k] : 0.0f;
        }
        for (int i = 0; i < BK * BN; i += THREADS) {
            const int k = (thread + i) / BN, col = (thread + i) % BN;
            Bs[k][col] = k0 + k < K && col0 + col < N ? B[(k0 + k) * N + col0 + col] : 0.0f;
        }
        __syncthreads();  // nobody reads a tile before all of it is written

        #pragma unroll 2  // unrolled further, a thread takes more registers, and fewer blocks fit
        for (int k = 0; k < BK; ++k) {
            const float b = Bs[k][tx];
            for (int i = 0; i < TM; ++i)
                sum[i] = fmaf(As[ty * TM + i][k], b, sum[i]);
        }
        __syncthreads();  // nobody overwrites a tile that somebody still reads
    }

    #pragma unroll  // sum stays in registers only if every index is known when the kernel is compiled
    for (int i = 0; i < TM; ++i) {
        const int row = row0 + ty * TM + i;
        const int col = col0 + tx;
        if (row < M && col < N) {
            float value = alpha * sum[i];
            if (beta != 0.0f)  // with beta == 0, C is not read: a NaN left in it must not survive
                value = fmaf(beta, C[row * N + col], value);
            C[row * N + col] = value;
        }
    }
}
