"""The hierarchical roofline: counts against arithmetic, and bounds against the times of every shipped record."""

from dataclasses import replace
from math import inf

import pytest

from gemmlab import columns, emulator, hierarchy, hierarchy_table, launch, nvrtc, records
from gemmlab.gemm import Gemm
from gemmlab.gpus import GPUS
from gemmlab.hierarchy import Counts
from gemmlab.ladder import RUNGS, Geometry, rung
from gemmlab.timing import FLUSHED, WARM

CUBE = Gemm(4096, 4096, 4096)
H200 = GPUS["H200"]
FMAS = 4096**3 // 32
OF_WHOLE_TILES = [record for record in records.shipped() if record.rungs[0]["shape"][0] % 256 == 0]
(AT_4096,) = (record for record in OF_WHOLE_TILES if record.rungs[0]["shape"][0] == 4096)


def level(bounds, name):
    return next(each for each in bounds.levels if each.name == name)


def test_what_the_naive_kernel_needs_at_4096():
    blocks, warps = 128 * 1024, 4 * 128 * 1024
    counted = hierarchy.counts(launch.of(rung("naive")), CUBE)
    assert (counted.blocks, counted.fmas) == (blocks, FMAS)
    assert counted.requests == warps * (2 * 4096 + 1)
    # A: 32 rows a multiple of 128 bytes apart, so 32 words of one bank; B: one word for all lanes
    assert counted.wavefronts == warps * 4096 * (32 + 1)
    # a block reads 32 rows of A, half a sector of each row of B, and writes half of each of 32 sectors
    assert counted.sectors == blocks * (32 * 4096 // 8 + 4096 + 32)


def test_what_shared_tiles_need_at_4096():
    blocks, warps, chunks = 128**2, 32 * 128**2, 4096 // 32
    counted = hierarchy.counts(launch.of(rung("shared_tiles")), CUBE)
    # a chunk: two loads, two shared stores, and of 64 shared loads 32 from a row of A, which merge by fours
    assert counted.requests == warps * (chunks * (2 + 2 + 8 + 32) + 1)
    # 16 bytes for all lanes alike take two wavefronts
    assert counted.wavefronts == warps * chunks * (2 + 2 + 2 * 8 + 32)
    assert counted.sectors == blocks * (2 * 32 * 4096 // 8 + 32 * 4)


def test_what_2d_register_tiles_need_at_4096():
    blocks, warps, chunks = 32**2, 8 * 32**2, 4096 // 8
    counted = hierarchy.counts(launch.of(rung("register_tiles_2d")), CUBE)
    # a chunk: a thread loads and stores 8 values, and in each of 8 steps reads 8 and 8; at last it stores 64 outputs
    assert counted.requests == warps * (chunks * (8 + 8 + 8 * 16) + 64)
    assert counted.sectors == blocks * (2 * 128 * 4096 // 8 + 128 * 16)


@pytest.mark.parametrize("problem", [Gemm(384, 256, 128), Gemm(299, 411, 141, beta=2.0)])
@pytest.mark.parametrize("name", ["coalesced", "shared_tiles", "warp_tiles"])
def test_counts_of_small_launches_extend_to_larger_ones_exactly(monkeypatch, name, problem):
    kernel = launch.of(rung(name))
    monkeypatch.setattr(hierarchy, "CHUNKS", 32)
    assert hierarchy.counts(kernel, problem) == hierarchy._traced(kernel, problem)


def test_columns_that_end_right_after_a_tile_are_extended_from_rows_that_share_no_sector():
    kernel, problem = launch.of(rung("coalesced")), Gemm(48, 161, 48)  # 161 = 5 x 32 + 1
    assert hierarchy.counts(kernel, problem) == hierarchy._traced(kernel, problem)


def test_a_tile_that_is_no_power_of_two_is_extended_along_its_own_edge():
    kernel, problem = launch.of(rung("shared_tiles"), {"TILE": 24}), Gemm(100, 336, 40)
    assert hierarchy.counts(kernel, problem) == hierarchy._traced(kernel, problem)
    assert hierarchy.counts(kernel, Gemm(4096, 4096, 64)).blocks == 171**2


def test_a_grid_that_does_not_grow_with_C_is_refused():
    kernel = replace(launch.of(rung("naive")), geometry=lambda problem: Geometry((2, 2, 1), (32, 4, 1), 0))
    with pytest.raises(ValueError, match="takes 4 blocks, but its parts of 256 x 256 come to 64: the grid must grow"):
        hierarchy.counts(kernel, Gemm(1024, 1024, 8))


def test_a_kernel_with_a_hazard_is_refused_with_the_hazard():
    source = rung("naive").source().replace("C[row * N + col] =", "C[row * N + col + 1] =")
    kernel = launch.of(rung("naive"), source=source)
    with pytest.raises(
        ValueError, match=r"nothing is bounded of a launch with a hazard: line 36: .* writes 4 bytes at byte 4096"
    ):
        hierarchy.counts(kernel, Gemm(32, 32, 32))


def test_levels_charge_counts_against_what_a_card_can_do():
    counted = Counts(blocks=132, uncut=132, fmas=10**6, requests=10**6, wavefronts=10**6, sectors=10**6, requested=0)
    bounds = hierarchy.bounds(counted, CUBE, H200)
    cycles = 132 * 66.9e12 / (2 * 132 * 128)  # a second, of all multiprocessors
    assert [each.name for each in bounds.levels] == ["DRAM", "L2", "L1 and shared", "issue", "FMA"]
    # A, B and C are 192 MiB, of which L2 keeps 60; 4.8 TB/s are published
    assert level(bounds, "DRAM").seconds == pytest.approx((192 - 60) * 2**20 / 4800e9)
    assert level(bounds, "L2").seconds == pytest.approx(32e6 / 8160e9)
    assert level(bounds, "L1 and shared").seconds == pytest.approx(1e6 / cycles)  # a wavefront a cycle
    assert level(bounds, "issue").seconds == pytest.approx(2e6 / 4 / cycles)
    assert level(bounds, "FMA").seconds == pytest.approx(1e6 / 4 / cycles)
    assert bounds.seconds == max(each.seconds for each in bounds.levels if each.name != "L2") == bounds.binding.seconds


def test_a_block_more_than_multiprocessors_takes_on_chip_levels_twice_as_long():
    counted = Counts(blocks=133, uncut=133, fmas=133, requests=0, wavefronts=133, sectors=133, requested=0)
    one, two = (
        hierarchy.bounds(replace(counted, blocks=n, uncut=n, fmas=n, wavefronts=n), CUBE, H200) for n in (132, 133)
    )
    assert level(two, "FMA").seconds == pytest.approx(2 * level(one, "FMA").seconds)
    assert level(two, "L1 and shared").seconds == pytest.approx(2 * level(one, "L1 and shared").seconds)


def test_blocks_that_the_edge_cuts_are_not_waited_for_as_they_may_need_less():
    # 11 x 12 blocks of 32 x 4 outputs lie inside C, one for each multiprocessor; the edge cuts 11 more, of which one
    # warp of four works. Any 11 multiprocessors may take these too, and the bound is that of an even share.
    bounds = hierarchy.of(launch.of(rung("naive")), Gemm(352, 49, 512), H200)
    warps = 4 * 132 + 11
    assert level(bounds, "L1 and shared").amount == 33 * 512 * warps
    assert level(bounds, "L1 and shared").seconds == pytest.approx(33 * 512 * warps / (132 * 1.98e9), rel=1e-3)
    assert hierarchy.counts(launch.of(rung("naive")), Gemm(352, 49, 512)).uncut == 132


SLOW_EDGES = """extern "C" __global__ void
gemm_naive(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
{
    const int row = blockIdx.y * 32 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    const bool cut = blockIdx.y == M / 32 || blockIdx.x == N / 32;
    const float* a = A + min(row, M - 1) * K;
    const volatile float* b = B + min(col, N - 1);
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) {
        sum = fmaf(a[k], b[k * N], sum);
        if (cut)  // in vain, as often as it is asked
            for (int again = 0; again < AGAIN; ++again)
                sum += 0.0f * b[k * N];
    }
    if (row < M && col < N)
        C[row * N + col] = sum;
}
"""


@pytest.mark.parametrize("again", [0, 2])
def test_blocks_that_the_edge_cuts_may_need_more_and_the_fullest_multiprocessor_have_none_of_them(again):
    # 12 x 12 blocks of 32 warps lie inside C, so that one of 132 multiprocessors has two; the edge cuts 25 more.
    kernel = replace(
        launch.of(rung("naive")),
        source=SLOW_EDGES.replace("AGAIN", str(again)),
        geometry=lambda problem: Geometry((-(-problem.N // 32), -(-problem.M // 32), 1), (32, 32, 1), 0),
    )
    (found,) = (each for each in hierarchy.of(kernel, Gemm(385, 385, 64), H200).levels if each.name == "L1 and shared")
    # In each step of k, a warp inside takes a wavefront of A and one of B, a warp at the edge `again` more of B.
    uncut, cut = 32 * 64 * 2, 32 * 64 * (2 + again)
    assert found.amount == 144 * uncut + 25 * cut
    assert found.seconds == pytest.approx(2 * uncut / 1.98e9, rel=1e-3)


def test_blocks_of_a_side_shorter_than_a_tile_are_all_alike_and_waited_for():
    # 64 x 128 outputs a block: 33 blocks in a row, each with one row of C, for 132 multiprocessors
    counted = hierarchy.counts(launch.of(rung("vectorized")), Gemm(1, 33 * 128, 64))
    assert (counted.blocks, counted.uncut) == (33, 33)
    bounds = hierarchy.bounds(counted, Gemm(1, 33 * 128, 64), H200)
    assert [each.busy for each in bounds.levels] == [1, 1, 0.25, 0.25, 0.25]
    # one FMA for each of 33 x 128 outputs and 64 steps, 128 a cycle on each of 33 multiprocessors
    assert level(bounds, "FMA").seconds == pytest.approx(64 / 1.98e9, rel=1e-3)


def test_a_turing_card_starts_two_warps_of_fmas_a_cycle_and_its_L2_is_not_known():
    counted = Counts(blocks=40, uncut=40, fmas=10**6, requests=0, wavefronts=0, sectors=0, requested=0)
    bounds = hierarchy.bounds(counted, CUBE, GPUS["T4"])
    assert [each.name for each in bounds.levels] == ["DRAM", "L1 and shared", "issue", "FMA"]
    assert level(bounds, "FMA").seconds == pytest.approx(2 * level(bounds, "issue").seconds)


@pytest.mark.parametrize("record", OF_WHOLE_TILES, ids=lambda record: str(record.rungs[0]["shape"][0]))
def test_no_sample_of_the_h200_is_faster_than_the_bound(record):
    rows = hierarchy_table.against(record)
    assert len(rows) == len(record.rungs)
    for row in rows:
        assert 1e3 * row.bounds.seconds < row.shortest_ms, row.rung


@pytest.mark.parametrize(
    ("record", "row"),
    [
        pytest.param(record, row, id=f"{row['shape'][0]}-{row['name']}")
        for record in records.shipped()
        if record not in OF_WHOLE_TILES
        for row in record.rungs
    ],
)
def test_no_sample_at_a_size_that_no_tile_divides_is_faster_than_the_bound(record, row):
    (held,) = hierarchy_table.against(replace(record, rungs=(row,)))
    assert 1e3 * held.bounds.seconds < held.shortest_ms


THIN = Gemm(1, 16896, 512)  # 33.1 MiB of B, and little more: an H200's L2 holds it


def test_what_a_warm_l2_holds_need_not_cross_dram_and_after_a_flush_it_must():
    counted = Counts(blocks=132, uncut=132, fmas=THIN.flops // 64, requests=0, wavefronts=0, sectors=0, requested=0)
    warm, flushed = (hierarchy.bounds(counted, THIN, H200, cache) for cache in (WARM, FLUSHED))
    assert level(warm, "DRAM").seconds == 0 and warm.binding.name == "issue"
    assert warm.intensity(level(warm, "DRAM")) == warm.allowed(level(warm, "DRAM")) == inf
    # what is read crosses; C may stay in L2 as the launch ends
    assert level(flushed, "DRAM").seconds == pytest.approx(4 * (512 + 512 * 16896) / 4800e9)
    assert flushed.binding.name == "DRAM"


def test_l2_never_binds_for_its_charge_and_its_rate_may_both_be_passed():
    counted = Counts(blocks=132, uncut=132, fmas=1, requests=0, wavefronts=1, sectors=10**9, requested=0)
    bounds = hierarchy.bounds(counted, THIN, H200)
    assert max(bounds.levels, key=lambda each: each.seconds).name == "L2" != bounds.binding.name


def test_the_bound_is_within_twice_the_measured_time_of_every_rung_at_4096():
    rows = hierarchy_table.against(AT_4096)
    assert [row.rung for row in rows] == [each.name for each in RUNGS]
    assert all(1 < row.ratio < 2 for row in rows)


def test_the_naive_kernel_is_bound_by_33_wavefronts_a_step_and_measured_so():
    (row, *_) = hierarchy_table.against(AT_4096)
    # 33 cycles for each of 4096^3 / 32 warp steps, over 132 multiprocessors at 1.98 GHz: 271.2 ms
    assert 1e3 * row.bounds.seconds == pytest.approx(33 * FMAS / (132 * 1.98e9) * 1e3, rel=1e-3)
    assert row.ratio == pytest.approx(1, rel=0.05)


def test_the_model_names_shared_memory_until_2d_register_tiles_and_issue_from_there_on():
    binding = {row.rung: row.bounds.binding.name for row in hierarchy_table.against(AT_4096)}
    assert binding == dict.fromkeys(("naive", "coalesced", "shared_tiles", "register_tiles_1d"), "L1 and shared") | (
        dict.fromkeys(("register_tiles_2d", "vectorized", "warp_tiles"), "issue")
    )


def test_a_kernel_that_was_counted_is_not_traced_or_compiled_again_however_often_it_is_asked_for(monkeypatch):
    first = hierarchy.counts(launch.of(rung("coalesced")), Gemm(64, 64, 64))
    monkeypatch.setattr(emulator, "trace", None)
    monkeypatch.setattr(nvrtc, "compile_ptx", None)
    assert hierarchy.counts(launch.of(rung("coalesced")), Gemm(64, 64, 64)) == first


def test_progress_adds_up_to_one():
    done = []
    hierarchy.counts(launch.of(rung("coalesced")), Gemm(99, 161, 9), done.append)
    assert len(done) > 1 and sum(done) == pytest.approx(1)


def test_the_table_of_levels_says_that_it_is_a_model_and_marks_the_level_that_binds():
    text = hierarchy_table.levels(hierarchy.of(launch.of(rung("shared_tiles")), CUBE, H200))
    assert text.startswith("model: ")
    (marked,) = (line for line in text.splitlines() if "<- binds" in line)
    assert marked.startswith("L1 and shared") and "13.45" in marked  # 52 wavefronts a warp and chunk, 125 blocks


def test_a_level_that_nobody_measured_is_a_dash():
    assert "L2: -" in hierarchy_table.levels(hierarchy.of(launch.of(rung("naive")), Gemm(32, 32, 32), GPUS["T4"]))


def test_every_line_of_a_record_fits_the_page_and_models_and_measurements_share_none():
    small = next(record for record in OF_WHOLE_TILES if record.rungs[0]["shape"][0] == 256)
    lines = hierarchy_table.held(hierarchy_table.against(small), small).splitlines()
    assert max(map(len, lines)) <= columns.WIDTH
    assert "model: at least, ms, warm L2" in lines[0] and f"measured: {small.label}" in lines[len(small.rungs) + 3]


@pytest.mark.parametrize("card", GPUS)
def test_every_line_of_levels_fits_the_page(card):
    text = hierarchy_table.levels(hierarchy.of(launch.of(rung("coalesced")), Gemm(64, 64, 64), GPUS[card]))
    assert max(map(len, text.splitlines())) <= columns.WIDTH


def test_l1_is_counted_in_wavefronts_and_the_two_peaks_are_told_apart():
    text = hierarchy_table.levels(hierarchy.of(launch.of(rung("shared_tiles")), CUBE, H200))
    (line,) = (line for line in text.splitlines() if line.startswith("L1 and shared"))
    # 52 wavefronts for each of 32 x 128^2 warps and 128 chunks; one a cycle of 132 multiprocessors at 1.98 GHz
    assert line.split()[3:6] == ["wavefronts", f"{52 * 32 * 128**2 * 128:,}", "2.613e+11"]
    assert "published 66.9 TFLOP/s" in text and "not the 61.7 TFLOP/s that were measured" in text


def test_the_bounds_of_a_record_are_of_its_alpha_and_beta():
    rows = tuple(row for row in AT_4096.rungs if row["name"] == "shared_tiles")
    scaled = replace(AT_4096, rungs=rows, conditions={**AT_4096.conditions, "beta": 1.0})
    (plain,), (read_too,) = (hierarchy_table.against(replace(each, rungs=rows)) for each in (AT_4096, scaled))
    # a wavefront for each warp that reads its 32 outputs of C
    assert level(read_too.bounds, "L1 and shared").amount - level(plain.bounds, "L1 and shared").amount == 4096**2 // 32


def test_a_time_is_the_newest_of_its_card_and_none_is_taken_from_a_card_that_is_not_known(monkeypatch):
    rows = tuple(row for row in AT_4096.rungs if row["name"] == "naive")
    older, newer, foreign = (
        replace(AT_4096, card=card, date=date, rungs=({**rows[0], "milliseconds": [ms]},))
        for card, date, ms in (
            ("NVIDIA H200", "2026-01-01", 301.0),
            ("NVIDIA H200", "2026-01-02", 302.0),
            ("NVIDIA Imaginary 9", "2026-01-03", 303.0),
        )
    )
    kernel = launch.of(rung("naive"), rows[0]["tile"])
    bounds = hierarchy.of(kernel, CUBE, H200)
    monkeypatch.setattr(records, "shipped", lambda: (newer, older, foreign))
    assert hierarchy_table.recorded(kernel, bounds).milliseconds == 302.0
    monkeypatch.setattr(records, "shipped", lambda: (foreign,))
    assert hierarchy_table.recorded(kernel, bounds) is None


def test_records_of_sizes_on_both_sides_of_a_tile_are_shipped():
    assert {4095, 4097} <= {record.rungs[0]["shape"][0] for record in records.shipped()}
