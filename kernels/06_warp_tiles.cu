// Rung 6, warp_tiles: as rung 5, but a block's tile is cut into tiles of warps, and those into threads'.
//
//   C = alpha * A @ B + beta * C        A: M x K, B: K x N, C: M x N, float32, row-major, contiguous
//
// Mapping: a block owns a BM x BN tile of C, a warp a WM x WN tile of that, and a lane TM x TN outputs of that, in
// quads. A warp is what reads shared memory at once: in rung 5 the lanes of a warp stand in two rows of threads and
// reach over the whole width of the block's tile; here they stand in WM / TM rows and WN / TN columns, near a square,
// so a warp needs fewer different values for as many FMAs. All loading is as in rung 5.
//
// A 16-byte access needs a 16-byte address. Where a row's length is no multiple of 4, or a pointer is not aligned, the
// same four floats travel one by one: both ways are compiled, and a launch takes one of them.
//
// Launch: block (32 * (BM / WM) * (BN / WN)), grid (ceil(N / BN), ceil(M / BM)), 4 * BK * (BM + PAD + BN) bytes of
// shared memory.

#ifndef BM
#define BM 64
#endif
#ifndef BN
#define BN 128
#endif
#ifndef BK
#define BK 16
#endif
#ifndef WM
#define WM 32
#endif
#ifndef WN
#define WN 64
#endif
#ifndef TM
#define TM 8
#endif
#ifndef TN
#define TN 8
#endif
#ifndef PAD
#define PAD 4
#endif

#define THREADS (32 * (BM / WM) * (BN / WN))
#define A_ROWS (THREADS / (BK / 4))  // rows of A's tile that the threads load at a time, four floats each
#define B_ROWS (THREADS / (BN / 4))  // rows of B's tile

static_assert(TM % 4 == 0 && TN % 4 == 0 && BK % 4 == 0 && PAD % 4 == 0, "tiles must hold whole quads");
static_assert(BM % WM == 0 && BN % WN == 0, "a block's tile must hold whole warp tiles");
static_assert((WM / TM) * (WN / TN) == 32 && WM % TM == 0 && WN % TN == 0, "a warp's tile must hold 32 thread tiles");
static_assert(WM / TM % 2 == 0, "the lanes stand in pairs of rows");
static_assert(THREADS % (BK / 4) == 0 && BM % A_ROWS == 0, "the threads must cover whole rows of A's tile, evenly");
static_assert(THREADS % (BN / 4) == 0 && BK % B_ROWS == 0, "the threads must cover whole rows of B's tile, evenly");

__device__ bool aligned(const float* p) { return reinterpret_cast<size_t>(p) % 16 == 0; }

__device__ float4 load_quad(const float* p) { return *reinterpret_cast<const float4*>(p); }

__device__ void store_quad(float* p, float4 v) { *reinterpret_cast<float4*>(p) = v; }

// Four floats of a row that holds `left` more from p on; zero past its end.
template <bool VECTOR>
__device__ float4 load(const float* p, int left)
{
    if (VECTOR)
        return left > 0 ? load_quad(p) : float4{};
    return {left > 0 ? p[0] : 0.0f, left > 1 ? p[1] : 0.0f, left > 2 ? p[2] : 0.0f, left > 3 ? p[3] : 0.0f};
}

template <bool VECTOR>
__device__ void store(float* p, float4 v, int left)
{
    if (VECTOR) {
        if (left > 0)
            store_quad(p, v);
        return;
    }
    if (left > 0) p[0] = v.x;
    if (left > 1) p[1] = v.y;
    if (left > 2) p[2] = v.z;
    if (left > 3) p[3] = v.w;
}

// The place of value i of thread t of so many: quads lie side by side, and the threads take them in turn.
__device__ int place(int i, int t, int threads) { return (i / 4 * threads + t) * 4 + i % 4; }

__shared__ alignas(16) float As[BK][BM + PAD];  // transposed
__shared__ alignas(16) float Bs[BK][BN];

template <bool VECTOR>
__device__ void gemm(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
{
    const int tid = threadIdx.x;
    const int warp = tid / 32, lane = tid % 32;
    const int warp_row = warp / (BN / WN) * WM;  // where the warp's tile lies in the block's
    const int warp_col = warp % (BN / WN) * WN;
    const int tx = lane % (2 * WN / TN) / 2;  // lanes zigzag down pairs of rows: eight in a line stand 2 x 4
    const int ty = lane / (2 * WN / TN) * 2 + lane % 2;
    const int row0 = blockIdx.y * BM;
    const int col0 = blockIdx.x * BN;
    const int a_row = tid / (BK / 4), a_k = tid % (BK / 4) * 4;  // where this thread loads A
    const int b_k = tid / (BN / 4), b_col = tid % (BN / 4) * 4;  // where it loads B

    float sum[TM][TN] = {};
    for (unsigned k0 = 0; k0 < K; k0 += BK) {  // unsigned, so that k0 can step past the largest K
        float4 a4[BM / A_ROWS], b4[BK / B_ROWS];
        for (int i = 0; i < BM / A_ROWS; ++i) {
            const unsigned row = row0 + a_row + i * A_ROWS, k = k0 + a_k;
            a4[i] = load<VECTOR>(&A[row * K + k], row < M ? K - k : 0);
        }
        for (int i = 0; i < BK / B_ROWS; ++i) {
            const unsigned k = k0 + b_k + i * B_ROWS, col = col0 + b_col;
            b4[i] = load<VECTOR>(&B[k * N + col], k < K ? N - col : 0);
        }
        __syncthreads();  // nobody overwrites a tile that somebody still reads

        for (int i = 0; i < BM / A_ROWS; ++i) {
            As[a_k + 0][a_row + i * A_ROWS] = a4[i].x;
            As[a_k + 1][a_row + i * A_ROWS] = a4[i].y;
            As[a_k + 2][a_row + i * A_ROWS] = a4[i].z;
            As[a_k + 3][a_row + i * A_ROWS] = a4[i].w;
        }
        for (int i = 0; i < BK / B_ROWS; ++i)
            store_quad(&Bs[b_k + i * B_ROWS][b_col], b4[i]);
        __syncthreads();  // nobody reads a tile before all of it is written

        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            alignas(16) float a[TM], b[TN];
            for (int i = 0; i < TM; i += 4)
                store_quad(&a[i], load_quad(&As[k][warp_row + place(i, ty, WM / TM)]));
            for (int j = 0; j < TN; j += 4)
                store_quad(&b[j], load_quad(&Bs[k][warp_col + place(j, tx, WN / TN)]));
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j)
                    sum[i][j] = fmaf(a[i], b[j], sum[i][j]);
        }
    }

    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        #pragma unroll
        for (int j = 0; j < TN; j += 4) {
            const int row = row0 + warp_row + place(i, ty, WM / TM);
            const int col = col0 + warp_col + place(j, tx, WN / TN);
            if (row >= M || col >= N)
                continue;
            float* const c = &C[row * N + col];
            float4 value = {alpha * sum[i][j], alpha * sum[i][j + 1], alpha * sum[i][j + 2], alpha * sum[i][j + 3]};
            if (beta != 0.0f) {  // with beta == 0, C is not read: a NaN left in it must not survive
                const float4 old = load<VECTOR>(c, N - col);
                value = {fmaf(beta, old.x, value.x), fmaf(beta, old.y, value.y),
                         fmaf(beta, old.z, value.z), fmaf(beta, old.w, value.w)};
            }
            store<VECTOR>(c, value, N - col);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_warp_tiles(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
{
    if (K % 4 == 0 && N % 4 == 0 && aligned(A) && aligned(B) && aligned(C))
        gemm<true>(M, N, K, alpha, A, B, beta, C);
    else
        gemm<false>(M, N, K, alpha, A, B, beta, C);
}
