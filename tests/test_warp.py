import pytest

from gemmlab import launch, warp
from gemmlab.gemm import Gemm
from gemmlab.ladder import rung

BLOCK = {"BX": 32, "BY": 4}
NAIVE, COALESCED = launch.of(rung("naive"), BLOCK), launch.of(rung("coalesced"), BLOCK)
SQUARE = Gemm(32, 32, 16)


def test_the_lanes_of_the_naive_kernel_stand_in_32_rows_of_one_column():
    seen = warp.watch(NAIVE, SQUARE)
    assert [len(seen[name]) for name in "ABC"] == [16, 16, 1]
    assert seen["A"][5].elements == tuple((lane, 5) for lane in range(32))
    assert seen["B"][5].elements == ((5, 0),) * 32
    assert seen["C"][0].elements == tuple((lane, 0) for lane in range(32))


def test_the_lanes_of_the_coalesced_kernel_stand_in_32_columns_of_one_row():
    seen = warp.watch(COALESCED, SQUARE, warp=3)
    assert seen["A"][5].elements == ((3, 5),) * 32
    assert seen["B"][5].elements == tuple((5, lane) for lane in range(32))
    assert seen["C"][0].elements == tuple((3, lane) for lane in range(32))


def test_a_request_counts_its_sectors_and_the_bytes_moved_and_used():
    step = warp.one_step(NAIVE, SQUARE, k=9)
    # Rows of A are 16 floats, two sectors; column 9 lies in the second.
    assert step["A"].sectors == tuple(range(1, 64, 2))
    assert (step["A"].moved_bytes, step["A"].used_bytes) == (32 * 32, 32 * 4)
    assert (step["B"].sectors, step["B"].moved_bytes, step["B"].used_bytes) == ((9 * 4,), 32, 4)
    assert step["A"].extent == (32, 1) and step["C"].extent == (32, 1)


def test_a_row_that_starts_inside_a_sector_costs_a_fifth():
    steps = warp.watch(COALESCED, Gemm(1, 33, 9))["B"]
    # Row k starts at float 33 * k, so k mod 8 floats into a sector.
    assert [len(request.sectors) for request in steps] == [4, 5, 5, 5, 5, 5, 5, 5, 4]


def test_the_sectors_of_all_warps_are_those_that_a_trace_counts():
    problem = Gemm(8, 33, 8)
    grid, block, _ = COALESCED.geometry(problem)
    assert (grid, block) == ((2, 2, 1), (32, 4, 1))
    by_line = {access.op: 0 for access in launch.trace(COALESCED, problem).accesses}
    for x in range(2):
        for y in range(2):
            for number in range(4):
                seen = warp.watch(COALESCED, problem, block=(x, y, 0), warp=number)
                by_line["ld.global"] += sum(len(request.sectors) for name in "AB" for request in seen[name])
                by_line["st.global"] += sum(len(request.sectors) for request in seen["C"])
    traced = launch.trace(COALESCED, problem).accesses
    assert by_line == {op: sum(each.sectors for each in traced if each.op == op) for op in by_line}


def test_lanes_beyond_the_edge_ask_for_nothing():
    seen = warp.watch(COALESCED, Gemm(1, 33, 2), block=(0, 1, 0))
    assert seen["B"][1].elements == ((1, 32),)
    assert list(seen["B"][1].offsets[1:]) == [warp.INACTIVE] * 31
    assert warp.watch(COALESCED, Gemm(1, 33, 2), block=(0, 1, 0), warp=1)["A"] == ()


@pytest.mark.parametrize("block, number", [((2, 0, 0), 0), ((0, 0, 1), 0), ((0, 0, 0), 4), ((-1, 0, 0), 0)])
def test_a_warp_that_the_launch_does_not_have_is_refused(block, number):
    with pytest.raises(ValueError, match=r"there is no warp .* in a launch of \(1, 8, 1\) blocks of 4 warps"):
        warp.watch(NAIVE, SQUARE, block=block, warp=number)


def test_a_step_that_the_kernel_does_not_make_is_refused():
    with pytest.raises(ValueError, match="there is no step 16: the first warp asks A 16 times, K is 16"):
        warp.one_step(NAIVE, SQUARE, k=16)
