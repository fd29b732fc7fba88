"""What one thread of a register-tile kernel reads and owns, the pictures of it, and what a launch is held down by."""

import matplotlib.pyplot as plt
import pytest

from gemmlab import hierarchy, launch, levels, operands
from gemmlab.costs import cost
from gemmlab.figures import micro_tiles
from gemmlab.gemm import Gemm
from gemmlab.gpus import gpu
from gemmlab.ladder import rung
from gemmlab.operands import Element

SHAPES = {"As": (16, 4), "Bs": (4, 16)}
ONE_TILE = Gemm(16, 16, 4)
STRIP = launch.of(rung("register_tiles_1d"), {"BM": 16, "BN": 16, "BK": 4, "TM": 4})
MICRO = launch.of(rung("register_tiles_2d"), {"BM": 16, "BN": 16, "BK": 4, "TM": 4, "TN": 4})
PLAIN = launch.of(rung("shared_tiles"), {"TILE": 16})


@pytest.fixture(scope="module")
def strip():
    return operands.watch(STRIP, ONE_TILE, SHAPES, thread=(5, 1))


@pytest.fixture(scope="module")
def micro():
    return operands.watch(MICRO, ONE_TILE, SHAPES, thread=(1, 2))


# What a thread reads and owns: rung 3's owns 4 rows from 4 * ty in column tx, rung 4's every fourth row and column.


def test_a_strip_is_read_as_one_value_of_B_then_four_of_A_in_each_step(strip):
    assert (strip.rows, strip.columns) == ((4, 5, 6, 7), (5,))
    expected = [read for k in range(4) for read in [("Bs", k, 5), *(("As", row, k) for row in (4, 5, 6, 7))]]
    assert list(strip.reads) == expected


def test_a_micro_tile_is_read_as_four_values_of_A_then_four_of_B_in_each_step(micro):
    assert (micro.rows, micro.columns) == ((2, 6, 10, 14), (1, 5, 9, 13))
    first = [("As", row, 0) for row in (2, 6, 10, 14)] + [("Bs", 0, column) for column in (1, 5, 9, 13)]
    assert list(micro.reads[:8]) == first and len(micro.reads) == 4 * 8


def test_the_plain_tile_reads_two_values_for_its_one_output():
    work = operands.watch(PLAIN, Gemm(16, 16, 16), {"As": (16, 16), "Bs": (16, 16)}, thread=(3, 2))
    assert work.outputs == (Element("C", 2, 3),)
    assert sorted(work.reads[:2]) == [("As", 2, 0), ("Bs", 0, 3)] and len(work.reads) == 16 * 2


@pytest.mark.parametrize(
    ("problem", "thread", "shapes", "message"),
    [
        (Gemm(17, 16, 4), (0, 0), SHAPES, r"takes \(1, 2, 1\) blocks"),
        (Gemm(16, 16, 5), (0, 0), SHAPES, "5 steps of k: choose one that a single block finishes in the 4 steps"),
        (ONE_TILE, (16, 0), SHAPES, r"no thread \(16, 0\) in a block of \(16, 4, 1\)"),
        (ONE_TILE, (0, 0), {"tile": (16, 4), "Bs": (4, 16)}, "reads a shared array As, not one of tile, Bs"),
    ],
)
def test_what_cannot_be_watched_is_refused_with_the_numbers(problem, thread, shapes, message):
    with pytest.raises(ValueError, match=message):
        operands.watch(STRIP, problem, shapes, thread)


# Where it stands after each read: an FMA is possible once a value of A and one of B are both there.


def test_each_value_of_A_feeds_one_multiply_add_of_a_strip_and_the_value_of_B_none_by_itself(strip):
    fed = [len(micro_tiles.state(strip, step).fed) for step in range(len(strip.reads))]
    assert fed == [0, 1, 1, 1, 1] * 4
    last = micro_tiles.state(strip, 19)
    assert (last.loads, last.fmas) == (4 * 5, 4 * 4)


def test_each_value_of_B_feeds_a_column_of_the_micro_tile(micro):
    fed = [len(micro_tiles.state(micro, step).fed) for step in range(len(micro.reads))]
    assert fed == [0, 0, 0, 0, 4, 4, 4, 4] * 4
    at = micro_tiles.state(micro, 14)  # in step 1, the third value of B
    assert (at.k, at.last, at.loads, at.fmas) == (1, ("Bs", 1, 9), 15, 16 + 3 * 4)
    assert at.fed == tuple((row, 9) for row in (2, 6, 10, 14))


def test_a_step_that_the_thread_does_not_make_is_refused(strip):
    for step in (-1, 20):
        with pytest.raises(IndexError, match=f"no step {step}: the thread makes 20 reads"):
            micro_tiles.state(strip, step)


def test_a_picture_says_what_is_read_and_shows_each_sum_with_its_terms(strip, micro):
    for work in (strip, micro):
        for step in (0, 7, len(work.reads) - 1):
            figure = micro_tiles.picture(work, step)
            array, row, column = work.reads[step]
            assert f"{array}[{row}][{column}] is read" in figure.get_suptitle()
            plt.close(figure)
    figure = micro_tiles.picture(micro, 14)
    written = [text.get_text() for text in figure.axes[1].texts]
    assert written.count("C[2][9]\n2 of 4") == written.count("C[2][13]\n1 of 4") == 1
    assert (
        sum(text.endswith("2 of 4") for text in written) == 12 and sum(text.endswith("1 of 4") for text in written) == 4
    )
    assert "28 FMAs; the plain tile makes 56" in figure.get_suptitle()
    plt.close(figure)


# What a launch is held down by. An H200 starts 128 FMAs, 256 FLOPs, and serves 128 bytes of shared memory a cycle.


def test_shared_memory_delivers_half_a_byte_for_each_flop_of_an_h200s_peak_and_a_whole_one_on_an_a100():
    for name, bytes_per_flop in (("H200", 128 / 256), ("A100 40GB", 128 / 128)):
        card = gpu(name)
        assert levels.bandwidths(card)["shared memory"] == pytest.approx(card.peak_fp32 * bytes_per_flop, rel=1e-12)


def test_shared_memory_has_one_rate_in_both_models_of_the_levels():
    card, problem = gpu("H200"), Gemm(64, 64, 64)
    of_kernel = hierarchy.of(launch.of(rung("shared_tiles")), problem, card)
    (banks,) = (level for level in of_kernel.levels if level.name == "L1 and shared")
    assert banks.unit == "wavefronts"  # of 128 bytes
    assert 128 * banks.rate == levels.bandwidths(card)["shared memory"] == pytest.approx(132 * 128 * 1.98e9, rel=1e-3)


def test_the_plain_tile_is_held_to_an_eighth_of_the_peak_by_its_two_loads_and_its_stores():
    problem, card = Gemm(64, 64, 64), gpu("H200")
    bounds = levels.bounds(launch.trace(launch.of(rung("shared_tiles")), problem), problem, card)
    wavefronts = 2 * 64**3 // 32 + 2 * 4 * 2 * 32  # loads; stores of 4 blocks x 2 chunks, 32 warps and two tiles
    assert bounds["shared memory"].memory == pytest.approx(128 * wavefronts / (card.peak_fp32 / 2), rel=1e-12)
    assert levels.slowest(bounds) == "shared memory"
    assert levels.speed(bounds, problem) / card.peak_fp32 == pytest.approx(1 / 8, rel=0.04)


def test_a_launch_that_no_memory_holds_down_is_held_down_by_arithmetic():
    problem = Gemm(128, 128, 8)
    bounds = levels.bounds(launch.trace(launch.of(rung("register_tiles_2d"), {"TM": 16}), problem), problem, gpu("T4"))
    assert levels.slowest(bounds) == "DRAM"  # 8 steps of k read as much as they write of C
    free = {level: type(bound)(compute=1.0, memory=0.5) for level, bound in bounds.items()}
    assert levels.slowest(free) == "arithmetic" and levels.speed(free, problem) == problem.flops


def test_a_cost_names_threads_registers_spills_and_occupancy():
    taken = cost(launch.of(rung("register_tiles_2d")), "sm_90")
    assert taken.threads == 256 and taken.registers > 80 and taken.spilled_bytes == 0
    assert taken.occupancy.blocks == 2  # 65536 / (256 * 128) at the most registers that still give two
    assert str(taken).strip() == f"256 threads, {taken.registers:>3} registers,     0 bytes spilled,  25% occupancy"


def test_more_sums_than_registers_spill():
    assert cost(launch.of(rung("register_tiles_2d"), {"TM": 16, "TN": 16}), "sm_90").spilled_bytes > 0
