"""Times of Numba's CUDA simulator on the kernels of `emulator.py`, which runs this file and reads its JSON."""

import json
import os
import sys
import time

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"  # read when numba is imported

import numpy as np
from numba import cuda, float32

TILE = 32


@cuda.jit
def naive(M, N, K, A, B, C):
    """C = A @ B, one thread an output; threadIdx.x picks the row."""
    row = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    col = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    if row >= M or col >= N:
        return
    total = float32(0)
    for k in range(K):
        total += A[row, k] * B[k, col]
    C[row, col] = total


@cuda.jit
def shared_tile(M, N, K, A, B, C):
    """C = A @ B by tiles of A and B in shared memory, one thread an output."""
    a = cuda.shared.array((TILE, TILE), float32)
    b = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    row, col = cuda.blockIdx.y * TILE + y, cuda.blockIdx.x * TILE + x
    total = float32(0)
    for start in range(0, K, TILE):
        a[y, x] = A[row, start + x] if row < M and start + x < K else 0
        b[y, x] = B[start + y, col] if start + y < K and col < N else 0
        cuda.syncthreads()
        for k in range(TILE):
            total += a[y, k] * b[k, x]
        cuda.syncthreads()
    if row < M and col < N:
        C[row, col] = total


def seconds(kernel, block, size: int, repeats: int) -> list[float]:
    """Return the seconds of each launch on size^3. Raises AssertionError when the result is wrong."""
    rng = np.random.default_rng(0)
    A, B = (rng.random((size, size), np.float32) for _ in range(2))
    blocks = tuple(-(-size // threads) for threads in block)
    kernel[1, block](1, 1, 1, A, B, np.zeros((1, 1), np.float32))
    samples = []
    for _ in range(repeats):
        C = np.zeros((size, size), np.float32)
        start = time.perf_counter()
        kernel[blocks, block](size, size, size, A, B, C)
        samples.append(time.perf_counter() - start)
        np.testing.assert_allclose(C, A @ B, rtol=1e-4)
    return samples


if __name__ == "__main__":
    size, repeats, names = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    kernels = {"naive": (naive, (32, 4)), "shared tile": (shared_tile, (TILE, TILE))}
    print(json.dumps({name: seconds(*kernels[name], size, repeats) for name in names}))
