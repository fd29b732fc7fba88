// Rung 2, shared_tiles: as rung 1, but a block loads what it needs of A and B once for all of its threads.
//
//   C = alpha * A @ B + beta * C        A: M x K, B: K x N, C: M x N, float32, row-major, contiguous
//
// Mapping: a block owns a TILE x TILE tile of C that stays, while a tile of A and a tile of B walk along K. At each
// stop every thread loads one value of each tile and puts it into shared memory, zero where the tile reaches past its
// matrix; then every thread takes TILE steps of its own dot product from there. A value loaded serves TILE threads.
//
// Launch: block (TILE, TILE), grid (ceil(N / TILE), ceil(M / TILE)), 8 * TILE * TILE bytes of static shared memory.

#ifndef TILE
#define TILE 32
#endif

extern "C" __global__ void __launch_bounds__(TILE * TILE)
gemm_shared_tiles(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
{
    __shared__ float As[TILE][TILE];
    __shared__ float Bs[TILE][TILE];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int row = blockIdx.y * TILE + ty;
    const int col = blockIdx.x * TILE + tx;

    const float* a = A + (size_t)row * K + tx;  // where this thread loads its value of A's tile
    const float* b = B + (size_t)ty * N + col;  // and its value of B's
    const int a_k = row < M ? tx : K;  // the step of the tile that its value belongs to; K, past an edge, never comes
    const int b_k = col < N ? ty : K;

    float sum = 0.0f;
    for (int left = K; left > 0; left -= TILE) {  // steps of k that are left
        const float a_value = a_k < left ? *a : 0.0f;
        const float b_value = b_k < left ? *b : 0.0f;
        a += TILE;
        b += (size_t)TILE * N;
        __syncthreads();  // nobody overwrites a tile that somebody still reads
        As[ty][tx] = a_value;
        Bs[ty][tx] = b_value;
        __syncthreads();  // nobody reads a tile before all of it is written

        for (int k = 0; k < TILE; ++k)
            sum = fmaf(As[ty][k], Bs[k][tx], sum);
    }

    if (row >= M || col >= N)
        return;
    float value = alpha * sum;
    if (beta != 0.0f)  // with beta == 0, C is not read: a NaN left in it must not survive
        value = fmaf(beta, C[row * N + col], value);
    C[row * N + col] = value;
}
