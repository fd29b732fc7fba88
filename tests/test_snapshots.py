"""What shared arrays hold at barriers, against kernels that say themselves what they put there."""

import numpy as np
import pytest

from gemmlab import snapshots
from gemmlab.gemm import Gemm
from gemmlab.ladder import Geometry
from gemmlab.launch import Kernel

SIGNATURE = "(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)"
# A row of A and a column of B a block, each word by its own thread; between the barriers one word of each is replaced.
ROWS = f"""extern "C" __global__ void rows{SIGNATURE}
{{
    __shared__ float row[4];
    __shared__ float column[4];
    const int k = threadIdx.x;
    row[k] = k < K ? A[blockIdx.y * K + k] : 0.0f;
    column[k] = k < K ? B[k * N + blockIdx.x] : 0.0f;
    __syncthreads();
    if (k == 0)
        row[0] = A[0];
    __syncthreads();
    if (k == 0)
        C[blockIdx.y * N + blockIdx.x] = row[0] + column[0];
}}
"""
SHAPES = {"row": (1, 4), "column": (4, 1)}
PROBLEM = Gemm(M=2, N=3, K=3)


def kernel(source: str = ROWS) -> Kernel:
    return Kernel(source, "rows", (), lambda problem: Geometry((problem.N, problem.M, 1), (4, 1, 1), 0))


def line_of(text: str) -> list[int]:
    return [number for number, line in enumerate(ROWS.splitlines(), start=1) if text in line]


def test_a_snapshot_holds_the_words_of_one_block_at_each_of_its_barriers():
    A, B = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(10, 19, dtype=np.float32).reshape(3, 3)
    C = np.zeros((2, 3), np.float32)
    first, second = snapshots.at_barriers(kernel(), PROBLEM, (A, B, C), block=(2, 1, 0))
    assert [first.line, second.line] == line_of("__syncthreads")
    assert first.arrays["row"].tolist() == [3, 4, 5, 0] and first.arrays["column"].tolist() == [12, 15, 18, 0]
    assert second.arrays["row"].tolist() == [0, 4, 5, 0]


def test_a_word_that_nobody_wrote_is_nan():
    source = ROWS.replace("    row[k] = k < K", "    if (k != 2) row[k] = k < K")
    matrices = (np.ones((2, 3), np.float32), np.ones((3, 3), np.float32), np.zeros((2, 3), np.float32))
    first, _ = snapshots.at_barriers(kernel(source), PROBLEM, matrices)
    assert np.isnan(first.arrays["row"]).tolist() == [False, False, True, False]


def test_chunks_say_which_elements_the_words_are_and_which_stand_for_none():
    first, second = snapshots.chunks(kernel(), PROBLEM, SHAPES, block=(2, 1, 0))
    row, column = first["row"], first["column"]
    assert (row.matrix, row.valid, row.corner) == ("A", (1, 3), (1, 0))
    assert (column.matrix, column.valid, column.corner) == ("B", (3, 1), (0, 2))
    assert row.row[row.filled].tolist() == [1, 1, 1] and row.column[row.filled].tolist() == [0, 1, 2]
    assert column.row[column.filled].tolist() == [0, 1, 2] and column.column[column.filled].tolist() == [2, 2, 2]
    assert row.filled.tolist() == [[True, True, True, False]]
    assert (second["row"].row[0, 0], second["row"].column[0, 0]) == (0, 0)


def test_stops_at_which_the_arrays_hold_the_same_are_one_chunk_and_those_not_yet_written_are_none():
    twice = ROWS.replace("    if (k == 0)\n        row[0] = A[0];\n", "")
    before = twice.replace("    row[k] =", "    __syncthreads();\n    row[k] =")
    assert len(snapshots.chunks(kernel(twice), PROBLEM, SHAPES)) == 1
    assert len(snapshots.chunks(kernel(before), PROBLEM, SHAPES)) == 1


def test_a_block_that_the_launch_does_not_have_is_refused():
    with pytest.raises(ValueError, match=r"there is no block \(3, 0, 0\) in a launch of \(3, 2, 1\) blocks"):
        snapshots.chunks(kernel(), PROBLEM, SHAPES, block=(3, 0, 0))


def test_an_array_that_the_kernel_does_not_have_is_refused_with_those_that_it_has():
    with pytest.raises(ValueError, match="the kernel has no shared array As; it has row, column"):
        snapshots.chunks(kernel(), PROBLEM, {"As": (2, 2)})


def test_matrices_with_more_elements_than_float32_tells_apart_are_refused():
    with pytest.raises(
        ValueError, match=f"A and B have {2 * 2**24} elements, but float32 tells fewer than {2**24} apart"
    ):
        snapshots.chunks(kernel(), Gemm(1, 1, 2**24), SHAPES)
