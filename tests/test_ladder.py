"""The rungs: their launches, their refusals, and their kernels against float64 and against the hardware's counts."""

import re

import numpy as np
import pytest

from gemmlab import emulator, ladder, nvrtc
from gemmlab.gemm import FAMILIES, Gemm, inputs
from gemmlab.ladder import RUNGS, arguments, rung, rungs
from gemmlab.tolerance import initial_output, verdict

NAIVE, COALESCED = RUNGS[:2]
SQUARE_BLOCK = {"BX": 32, "BY": 32}
every_rung = pytest.mark.parametrize("each", RUNGS, ids=lambda each: each.name)
# Those whose threads read A and B straight from memory, in blocks of BX x BY; other rungs have tests of their own.
every_direct_rung = pytest.mark.parametrize("each", RUNGS[:2], ids=lambda each: each.name)


def kernel(each, tile=None):
    return emulator.RawKernel(each.source(), each.entry, options=each.options(tile))


def launch(each, problem, family="uniform", tile=None):
    """Inputs, and C as the emulator's launch of a rung leaves it."""
    A, B, C = inputs(problem, family)
    output = emulator.asarray(initial_output(problem, C))
    grid, block, shared_mem = each.geometry(problem, tile)
    kernel(each, tile)(
        grid, block, arguments(problem, emulator.asarray(A), emulator.asarray(B), output), shared_mem=shared_mem
    )
    return A, B, C, emulator.asnumpy(output)


def traffic(each, problem, tile=None):
    """The rows of a trace by what their source line reads or writes: 'A', 'B', 'C read', 'C written'."""
    arrays = map(emulator.asarray, inputs(problem))
    grid, block, shared_mem = each.geometry(problem, tile)
    trace = emulator.trace(kernel(each, tile), grid, block, arguments(problem, *arrays), shared_mem=shared_mem)
    assert trace.ok
    lines = each.source().splitlines()
    rows = {}
    for row in trace.accesses:
        matrix = re.search(r"\b([ABC])\[", lines[row.line - 1])[1]
        use = {"ld.global": " read", "st.global": " written"}[row.op] if matrix == "C" else ""
        assert matrix + use not in rows
        rows[matrix + use] = row
    return rows


def sectors_per_request(each, problem, tile=None):
    return {name: row.sectors / row.requests for name, row in traffic(each, problem, tile).items()}


# Launches.


@every_rung
def test_rungs_are_numbered_from_zero_and_named_as_their_file(each):
    assert RUNGS.index(each) == each.number
    assert each.source_file == f"{each.number:02d}_{each.name}.cu"
    assert each.entry == f"gemm_{each.name}"


@every_rung
def test_the_defaults_of_the_ladder_are_those_of_the_source(each):
    defaults = re.findall(r"#ifndef (\w+)\n#define \1 (\d+)\n#endif", each.source())
    assert {name: int(value) for name, value in defaults} == dict(each.tile)


@every_rung
def test_every_kernel_has_the_signature_that_all_rungs_share(each):
    signature = "(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)"
    assert f"{each.entry}{signature}" in each.source()


@every_rung
def test_a_source_explains_itself_in_its_first_line(each):
    assert each.source().startswith(f"// Rung {each.number}, {each.name}: ")


def test_rung_1_differs_from_rung_0_in_two_lines_beside_comments_its_name_and_the_default_block():
    def code(each):
        lines = each.source().replace(each.entry, "gemm").splitlines()
        return [line for line in lines if not line.startswith(("//", "#"))]

    changed = [line.strip() for line, other in zip(code(COALESCED), code(NAIVE), strict=True) if line != other]
    assert changed == [
        "const int row = blockIdx.x * BY + threadIdx.y;",
        "const int col = blockIdx.y * BX + threadIdx.x;",
    ]


def test_blocks_cover_the_rows_along_x_and_the_columns_along_y():
    problem = Gemm(M=100, N=200, K=3)
    assert NAIVE.geometry(problem, {"BX": 32, "BY": 16}) == ((4, 13, 1), (32, 16, 1), 0)
    assert COALESCED.geometry(problem, {"BX": 32, "BY": 16}) == ((7, 7, 1), (32, 16, 1), 0)


def test_a_tile_given_in_part_keeps_the_other_defaults():
    assert NAIVE.options({"BX": 8}) == ("-DBX=8", f"-DBY={NAIVE.tile['BY']}")
    assert NAIVE.geometry(Gemm(8, 8, 8), {"BX": np.int64(8)}).block == (8, NAIVE.tile["BY"], 1)


@pytest.mark.parametrize(
    ("tile", "message"),
    [
        ({"BX": 64, "BY": 32}, "BX = 64, BY = 32 makes a block of 2048 threads, but a GPU takes at most 1024"),
        ({"BX": 2048, "BY": 1}, "makes a block of 2048 threads along x, but a GPU takes at most 1024"),
        ({"BX": 0}, "BX is 0, but must be an integer of at least 1"),
        ({"BY": 2.0}, r"BY is 2\.0, but must be an integer of at least 1"),
        ({"BM": 64}, r"rung 0 \(naive\) has no tile parameter 'BM'; it has BX, BY"),
    ],
)
def test_an_illegal_tile_is_refused_with_the_rule_and_both_numbers(tile, message):
    with pytest.raises(ValueError, match=message):
        NAIVE.options(tile)
    with pytest.raises(ValueError, match=message):
        NAIVE.geometry(Gemm(8, 8, 8), tile)


def test_a_grid_that_no_gpu_launches_is_refused_with_its_size_and_the_limit():
    with pytest.raises(ValueError, match="makes a grid of 65536 blocks along y, but a GPU takes at most 65535"):
        NAIVE.geometry(Gemm(1, 65536, 1), {"BX": 32, "BY": 1})
    assert NAIVE.geometry(Gemm(1, 65535, 1), {"BX": 32, "BY": 1}).grid == (1, 65535, 1)


def test_a_tile_that_rounds_the_rows_past_a_32_bit_int_is_refused():
    tallest = Gemm(2**31 - 1, 1, 1)
    assert NAIVE.geometry(tallest, {"BX": 32}).grid[0] == 2**26
    with pytest.raises(ValueError, match="cover 2147483664 rows or columns, but a 32-bit int ends at 2147483647"):
        NAIVE.geometry(tallest, {"BX": 24})


def test_arguments_are_in_the_order_of_the_signature_with_scalars_of_its_types():
    problem = Gemm(2, 3, 4, alpha=0.5, beta=-1.0)
    given = tuple(map(emulator.asarray, inputs(problem)))
    M, N, K, alpha, A, B, beta, C = arguments(problem, *given)
    assert (M, N, K, alpha, beta) == (2, 3, 4, 0.5, -1.0)
    assert A is given[0] and B is given[1] and C is given[2]
    assert {type(size) for size in (M, N, K)} == {np.int32}
    assert {type(factor) for factor in (alpha, beta)} == {np.float32}


# Looking rungs up.


def test_a_rung_is_found_by_number_or_name():
    assert rung(1) is rung("1") is rung("coalesced") is COALESCED


def test_an_unknown_rung_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"no rung 'fast'; known: 0 \(naive\), 1 \(coalesced\)"):
        rung("fast")


@pytest.mark.parametrize(
    ("selection", "numbers"), [("0", [0]), ("0-1", [0, 1]), ("1, 0", [1, 0]), ("naive-coalesced", [0, 1]), ("1-1", [1])]
)
def test_a_selection_names_rungs_and_ranges(selection, numbers):
    assert [each.number for each in rungs(selection)] == numbers


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ("1-0", "'1-0' runs backwards: write 0-1"),
        ("-1", "'-1' is no range: write both ends"),
        ("0-", "'0-' is no range: write both ends"),
        ("0,,1", "'0,,1' selects no rung before or after a comma"),
        ("", "selects no rung"),
        ("0-9", r"no rung '9'; known: 0 \(naive\)"),
    ],
)
def test_a_selection_that_names_no_rung_is_refused(selection, message):
    with pytest.raises(ValueError, match=message):
        rungs(selection)


def test_a_source_is_found_inside_the_package_before_beside_it(tmp_path, monkeypatch):
    inside, beside = tmp_path / "gemmlab" / "kernels", tmp_path / "kernels"
    monkeypatch.setattr(ladder, "KERNEL_FOLDERS", (inside, beside))
    with pytest.raises(FileNotFoundError, match=r"00_naive\.cu is in none of .*: install gemmlab again"):
        NAIVE.source()
    for folder in (beside, inside):
        folder.mkdir(parents=True)
        (folder / NAIVE.source_file).write_text(folder.parent.name)
        assert NAIVE.source() == folder.parent.name


def test_a_rung_runs_on_its_own_and_newer_architectures():
    assert NAIVE.runs_on("sm_75") and NAIVE.runs_on("sm_120")
    assert not ladder.Rung(**{**vars(NAIVE), "requires": "sm_90"}).runs_on("sm_86")


@pytest.mark.parametrize("arch", ["sm_110", "sm_121", "sm_90a"])
def test_a_rung_runs_on_an_architecture_whose_limits_are_not_known(arch):
    assert NAIVE.runs_on(arch)


def test_what_is_no_architecture_is_refused_with_how_to_write_one():
    with pytest.raises(ValueError, match="'Hopper' is no architecture: write it as 'sm_90'"):
        NAIVE.runs_on("Hopper")


# What the kernels compute.


@every_direct_rung
@pytest.mark.parametrize("tile", [None, SQUARE_BLOCK, {"BX": 8, "BY": 4}, {"BX": 5, "BY": 3}], ids=str)
@pytest.mark.parametrize(
    "shape",
    [(1, 1, 1), (1, 70, 3), (70, 1, 3), (3, 5, 70), (31, 32, 33), (33, 31, 32), (32, 33, 31), (64, 64, 8)],
    ids=str,
)
def test_every_shape_is_right_and_C_is_not_read_without_beta(each, shape, tile):
    problem = Gemm(*shape)
    verdict(problem, *launch(each, problem, "distinct", tile)).require()


@every_rung
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_of_inputs_is_right(each, family):
    problem = Gemm(M=19, N=37, K=23)
    verdict(problem, *launch(each, problem, family)).require()


@every_rung
@pytest.mark.parametrize(("alpha", "beta"), [(0, 0), (2, 0), (0, 1), (1, 1), (-0.5, 2), (2, -0.5)])
def test_alpha_and_beta_are_applied(each, alpha, beta):
    problem = Gemm(33, 20, 17, alpha, beta)
    verdict(problem, *launch(each, problem)).require()


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90"])
@pytest.mark.parametrize("tile", [None, SQUARE_BLOCK], ids=str)
@every_direct_rung
def test_no_kernel_spills_or_takes_more_registers_than_its_block_may_have(each, tile, arch):
    used = nvrtc.resources(each.source(), each.entry, each.options(tile), arch)
    assert (used.spill_store_bytes, used.spill_load_bytes, used.stack_bytes, used.shared_bytes) == (0, 0, 0, 0)
    assert used.registers * 1024 <= 65536


# What the kernels move, in sectors of 32 bytes: 32 floats that lie a row apart are 32, one float that all lanes share
# is one, 32 floats side by side, 128 bytes, are four.


@pytest.mark.parametrize("tile", [None, SQUARE_BLOCK], ids=str)
def test_naive_moves_32_sectors_of_A_one_of_B_and_32_of_C(tile):
    assert sectors_per_request(NAIVE, Gemm(64, 64, 16), tile) == {"A": 32, "B": 1, "C written": 32}


@pytest.mark.parametrize("tile", [None, SQUARE_BLOCK], ids=str)
def test_coalesced_moves_one_sector_of_A_four_of_B_and_four_of_C(tile):
    assert sectors_per_request(COALESCED, Gemm(64, 64, 16), tile) == {"A": 1, "B": 4, "C written": 4}


@pytest.mark.parametrize(
    ("each", "load_sectors", "store_sectors"), [(NAIVE, 138_412_032, 262_144), (COALESCED, 20_971_520, 32_768)]
)
def test_the_sums_are_those_that_nsight_compute_counted_on_an_h200(each, load_sectors, store_sectors):
    # Counted at 512^3 with 32x32 blocks. An eighth of each side makes 8^3 times fewer loads and 8^2 times fewer stores.
    rows = traffic(each, Gemm(64, 64, 64), SQUARE_BLOCK)
    assert (rows["A"].requests + rows["B"].requests) * 8**3 == 8_388_608
    assert (rows["A"].sectors + rows["B"].sectors) * 8**3 == load_sectors
    assert rows["C written"].sectors * 8**2 == store_sectors


@pytest.mark.parametrize(("tile", "rows"), [({"BX": 8, "BY": 4}, 8), ({"BX": 16, "BY": 16}, 16), (SQUARE_BLOCK, 32)])
def test_the_naive_warp_touches_as_many_sectors_of_A_as_it_has_rows(tile, rows):
    assert sectors_per_request(NAIVE, Gemm(64, 64, 16), tile)["A"] == rows


def test_a_leading_dimension_of_33_costs_a_fifth_sector_in_seven_rows_of_eight():
    # Row k of B begins k floats past a sector's edge, for k = 0 to 7: 4 + 7 * 5 sectors for the first 32 columns, and
    # 8 for the last one; four rows of C ask for them.
    assert traffic(COALESCED, Gemm(M=4, N=33, K=8), {"BX": 32, "BY": 4})["B"].sectors == 4 * (4 + 7 * 5 + 8)


@every_direct_rung
def test_C_is_read_only_where_beta_asks_for_it(each):
    assert "C read" not in traffic(each, Gemm(32, 32, 8))
    rows = traffic(each, Gemm(32, 32, 8, beta=1.0))
    assert rows["C read"].sectors == rows["C written"].sectors
