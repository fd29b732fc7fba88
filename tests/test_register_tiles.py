"""Rungs 3 and 4: every edge of their tiles, what they read, what they keep, and which tiles they refuse."""

import numpy as np
import pytest

from gemmlab import emulator, launch, levels, nvrtc
from gemmlab.gemm import Gemm, inputs
from gemmlab.ladder import arguments, rung
from gemmlab.tolerance import verdict

STRIPS, MICRO = rung("register_tiles_1d"), rung("register_tiles_2d")
both = pytest.mark.parametrize("each", [STRIPS, MICRO], ids=lambda each: each.name)
SIZES = (1, 7, 8, 31, 32, 33, 63, 64, 65, 127, 128, 129)
# Three Latin squares: each size stands three times in each place, and no two shapes share two places.
COVERING = [
    (M, SIZES[(i + 5 * shift) % 12], SIZES[(7 * i + shift) % 12]) for shift in (0, 1, 2) for i, M in enumerate(SIZES)
]
EXTREME = [(1, 1, 1), (1, 300, 9), (300, 1, 9), (129, 129, 1), (2, 3, 700)]


def run(each, problem, family="uniform", tile=None, C=None):
    A, B, given = inputs(problem, family)
    C = given if C is None else C
    verdict(problem, A, B, C, launch.run(launch.of(each, tile), problem, (A, B, C))).require()


def read(kernel, problem):
    """Accesses of a trace by what their line reads or writes: 'A', 'As', 'As written', ..."""
    traced = launch.trace(kernel, problem)
    assert traced.ok
    lines = kernel.source.splitlines()
    rows = {}
    for access in traced.accesses:
        text = lines[access.line - 1]
        array = ("A" if "A[" in text else "B" if "B[" in text else "C") if access.space == "global" else None
        array = array or ("As" if "As[" in text else "Bs")
        rows[array + (" written" if access.op.startswith("st") else "")] = access
    return rows


# What the kernels compute.


@both
@pytest.mark.parametrize("shape", COVERING + EXTREME, ids=str)
def test_every_edge_of_the_tiles_is_right(each, shape):
    run(each, Gemm(*shape), "distinct" if sum(shape) % 2 else "uniform")


def test_the_covering_shapes_put_every_size_in_every_place():
    assert [set(sizes) for sizes in zip(*COVERING, strict=True)] == [set(SIZES)] * 3
    assert len({(M, N) for M, N, _ in COVERING}) == len({(N, K) for _, N, K in COVERING}) == len(COVERING) == 36


@both
@pytest.mark.parametrize("alpha", [0, 1, -0.5, 2])
@pytest.mark.parametrize("beta", [0, 1, -0.5, 2])
def test_alpha_and_beta_are_applied_across_an_edge_of_the_tile(each, alpha, beta):
    run(each, Gemm(65, 130, 9, alpha, beta))


@both
def test_a_nan_left_in_C_does_not_survive_a_beta_of_zero(each):
    problem = Gemm(65, 130, 9)
    A, B, _ = inputs(problem)
    device_A, device_B, device_C = map(emulator.asarray, (A, B, np.full((65, 130), np.nan, np.float32)))
    grid, block, shared_mem = each.geometry(problem)
    kernel = emulator.RawKernel(each.source(), each.entry, each.options())
    kernel(grid, block, arguments(problem, device_A, device_B, device_C), shared_mem=shared_mem)
    verdict(problem, A, B, None, emulator.asnumpy(device_C)).require()


@pytest.mark.parametrize(
    ("each", "tile"),
    [
        (STRIPS, {"BM": 32, "BN": 16, "BK": 32, "TM": 1}),
        (STRIPS, {"BM": 60, "BN": 20, "BK": 10, "TM": 6}),  # no powers of two
        (STRIPS, {"TM": 64}),
        (MICRO, {"BM": 32, "BN": 64, "BK": 16, "TM": 2, "TN": 4}),
        (MICRO, {"BM": 72, "BN": 36, "BK": 12, "TM": 6, "TN": 3}),
        (MICRO, {"BM": 64, "BN": 64, "TM": 16, "TN": 16}),  # half a warp, and it spills
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_other_legal_tiles_are_right_at_their_edges(each, tile):
    for problem in (Gemm(65, 63, 11), Gemm(131, 3, 20, alpha=2, beta=-0.5)):
        run(each, problem, "distinct", tile)


@both
@pytest.mark.parametrize("shape", [(129, 130, 17), (1, 1, 1)], ids=str)
def test_no_thread_races_reads_what_nobody_wrote_or_leaves_an_output_unwritten(each, shape):
    traced = launch.trace(launch.of(each), Gemm(*shape))
    assert traced.hazards == ()
    (C,) = traced.outputs
    assert C.unwritten == 0


# What they take.


@both
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90"])
def test_the_sums_stay_in_registers_and_nothing_spills(each, arch):
    used = nvrtc.resources(each.source(), each.entry, each.options(), arch)
    assert (used.spill_store_bytes, used.spill_load_bytes, used.stack_bytes) == (0, 0, 0)
    tile = each.full_tile()
    TN = tile.get("TN", 1)
    assert tile["TM"] * TN + TN < used.registers <= 128
    assert used.shared_bytes == 4 * tile["BK"] * (tile["BM"] + tile["BN"])


# What they read.


@pytest.mark.parametrize("tile", [{}, {"BM": 32, "BN": 32, "TM": 4}, {"TM": 16}, {"TM": 64}], ids=str)
def test_a_strip_reads_one_value_of_B_and_TM_of_A_for_TM_multiply_adds(tile):
    problem, TM = Gemm(64, 64, 32), STRIPS.full_tile(tile)["TM"]
    rows = read(launch.of(STRIPS, tile), problem)
    assert rows["Bs"].lanes * TM == rows["As"].lanes == 64 * 64 * 32
    assert levels.shared_loads_per_fma(launch.trace(launch.of(STRIPS, tile), problem), problem) == (TM + 1) / TM


@pytest.mark.parametrize(
    "tile",
    [
        {},
        {"BM": 32, "BN": 32, "TM": 2, "TN": 2},
        {"TM": 4},
        {"TN": 4},
        {"BM": 64, "BN": 64, "TM": 4, "TN": 4},
        {"TM": 16},
    ],
    ids=str,
)
def test_a_micro_tile_reads_TM_plus_TN_values_for_TM_times_TN_multiply_adds(tile):
    problem, full = Gemm(128, 128, 16), MICRO.full_tile(tile)
    TM, TN = full["TM"], full["TN"]
    rows = read(launch.of(MICRO, tile), problem)
    assert rows["As"].lanes * TN == rows["Bs"].lanes * TM == 128 * 128 * 16
    assert levels.shared_loads_per_fma(launch.trace(launch.of(MICRO, tile), problem), problem) == (TM + TN) / (TM * TN)


@pytest.mark.parametrize(("each", "edge"), [(STRIPS, 64), (MICRO, 128)], ids=["1d", "2d"])
def test_global_memory_is_asked_once_a_tile_in_whole_sectors_and_no_bank_conflicts(each, edge):
    problem = Gemm(256, 128, 64)
    rows = read(launch.of(each), problem)
    assert rows["A"].lanes == 256 * 64 * (128 // edge) and rows["B"].lanes == 64 * 128 * (256 // edge)
    assert rows["C written"].lanes == 256 * 128
    # 32 lanes of 4 bytes, all of them wanted: 4 sectors of 32 bytes, or one wavefront
    assert {rows[name].sectors / rows[name].requests for name in ("A", "B", "C written")} == {4}
    shared = ("As", "Bs", "As written", "Bs written")
    assert {rows[name].wavefronts / rows[name].requests for name in shared} == {1}


def test_outputs_side_by_side_conflict_and_scatter_where_the_comb_does_not():
    # A warp is two rows of 16 threads. Side by side, its columns stand 8 words apart, so 16 words share 4 banks; its
    # rows stand 8 * BK = 64 words apart, so both share one; each lane stores to a sector of its own.
    source = MICRO.source().replace("ty + i * (BM / TM)", "ty * TM + i").replace("tx + j * (BN / TN)", "tx * TN + j")
    rows = read(launch.of(MICRO, source=source), Gemm(128, 128, 16))
    assert rows["Bs"].wavefronts / rows["Bs"].requests == 4
    assert rows["As"].wavefronts / rows["As"].requests == 2
    assert rows["C written"].sectors / rows["C written"].requests == 32


# Their tiles.


def test_a_block_has_a_thread_for_each_strip_or_micro_tile():
    assert STRIPS.geometry(Gemm(65, 64, 1)) == ((1, 2, 1), (64, 8, 1), 0)
    assert MICRO.geometry(Gemm(128, 129, 1)) == ((2, 1, 1), (16, 16, 1), 0)
    assert MICRO.geometry(Gemm(1, 1, 1), {"TM": 4}).block == (16, 32, 1)


@pytest.mark.parametrize(
    ("each", "tile", "message"),
    [
        (STRIPS, {"TM": 7}, "BM = 64 is not a multiple of TM = 7"),
        (MICRO, {"TN": 3}, "BN = 128 is not a multiple of TN = 3"),
        (MICRO, {"TM": 2, "TN": 2}, "makes a block of 4096 threads, but a GPU takes at most 1024"),
        (STRIPS, {"TM": 4}, r"tile of A of BM \* BK = 512 elements, not a multiple of the block's 1024 threads"),
        (
            MICRO,
            {"BM": 256, "BN": 64, "BK": 2},
            r"tile of B of BN \* BK = 128 elements, not a multiple of .* 256 threads",
        ),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_a_tile_that_the_kernel_cannot_work_with_is_refused_with_the_rule_and_both_numbers(each, tile, message):
    with pytest.raises(ValueError, match=message):
        each.options(tile)
    with pytest.raises(ValueError, match=message):
        each.geometry(Gemm(8, 8, 8), tile)


def test_rung_4_loads_its_tiles_as_rung_3_does_line_for_line():
    def loading(each):
        lines = each.source().splitlines()
        start = next(i for i, line in enumerate(lines) if "k0 += BK" in line)
        return lines[start : next(i for i, line in enumerate(lines) if "__syncthreads" in line) + 1]

    assert len(loading(STRIPS)) == 10
    assert loading(STRIPS) == loading(MICRO)
