// Rung 4, register_tiles_2d: as rung 3, but a thread computes TM x TN outputs, an outer product a step.
//
//   C = alpha * A @ B + beta * C        A: M x K, B: K x N, C: M x N, float32, row-major, contiguous
//
// Mapping: a block owns a BM x BN tile of C and walks along K in steps of BK. Its BM / TM rows and BN / TN columns of
// threads lie over the tile like the teeth of a comb: thread (tx, ty) owns rows ty, ty + BM / TM, ... and columns tx,
// tx + BN / TN, ..., so that neighbouring lanes read and write neighbouring columns. In each step of k it reads TM
// values of A and TN of B into registers: TM + TN shared loads for TM * TN FMAs, where rung 3 needs TM + 1 for TM.
//
// Launch: block (BN / TN, BM / TM), grid (ceil(N / BN), ceil(M / BM)), 4 * BK * (BM + BN) bytes of shared memory.

#ifndef BM
#define BM 128
#endif
#ifndef BN
#define BN 128
#endif
#ifndef BK
#define BK 8
#endif
#ifndef TM
#define TM 8
#endif
#ifndef TN
#define TN 8
#endif

#define THREADS ((BN / TN) * (BM / TM))

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_register_tiles_2d(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
{
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int row0 = blockIdx.y * BM;
    const int col0 = blockIdx.x * BN;
    const unsigned thread = (ty * (BN / TN) + tx) % THREADS;  // % tells the compiler that it is below THREADS

    float sum[TM][TN] = {};
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

        for (int k = 0; k < BK; ++k) {
            float a[TM], b[TN];
            for (int i = 0; i < TM; ++i)
                a[i] = As[ty + i * (BM / TM)][k];
            for (int j = 0; j < TN; ++j)
                b[j] = Bs[k][tx + j * (BN / TN)];
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j)
                    sum[i][j] = fmaf(a[i], b[j], sum[i][j]);
        }
        __syncthreads();  // nobody overwrites a tile that somebody still reads
    }

    #pragma unroll  // sum stays in registers only if every index is known when the kernel is compiled
    for (int i = 0; i < TM; ++i)
        #pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int row = row0 + ty + i * (BM / TM);
            const int col = col0 + tx + j * (BN / TN);
            if (row < M && col < N) {
                float value = alpha * sum[i][j];
                if (beta != 0.0f)  // with beta == 0, C is not read: a NaN left in it must not survive
                    value = fmaf(beta, C[row * N + col], value);
                C[row * N + col] = value;
            }
        }
}
