import html

import pytest

from gemmlab import launch
from gemmlab.figures import tile_sliders
from gemmlab.gemm import Gemm
from gemmlab.ladder import rung

SHARED = rung("shared_tiles")
CHOICES = {"TILE": (8, 16, 32, 64)}
REFUSED = (
    "not run: TILE = 64 makes a block of 4096 threads, but a GPU takes at most 1024: choose a tile of fewer threads"
)
CUBE = Gemm(64, 64, 64)


@pytest.mark.parametrize("T", (8, 16, 32))
def test_a_report_counts_what_a_tile_moves(T):
    report = tile_sliders.report(SHARED, {"TILE": T}, problem=CUBE)
    blocks, chunks = (64 // T) ** 2, 64 // T
    loads = 2 * blocks * chunks * T * T // 32  # requests: two tiles a chunk, 32 lanes each; 4 sectors a request
    assert f"blocks of {T} x {T} = {T * T} threads, {blocks} of them" in report
    rows = {line.split()[0]: line.split()[1:] for line in report.splitlines() if line.startswith(("ld.", "st."))}
    assert rows["ld.global"] == ["4", f"{loads:,}", f"{4 * loads:,}", f"{4 * loads:,}"]
    reads = 2 * 64**3 // 32
    assert rows["ld.shared"] == ["4", f"{reads:,}", f"{reads:,}", f"{reads:,}"]
    intensity = 2 * 64**3 / (4 * (2 * 64**3 / T + 64**2))
    assert f"{intensity:.3g} FLOP a byte requested, 2 shared loads an FMA" in report


def test_a_report_has_the_checks_registers_spills_shared_memory_and_occupancy():
    report = tile_sliders.report(SHARED, {"TILE": 16}, problem=CUBE)
    assert "correct: 33 x 34 x 35" in report
    assert "registers a thread, 0 bytes spilled, 2,048 bytes of shared memory a block" in report
    assert "blocks of 256 threads on a multiprocessor of sm_" in report and "occupancy, limited by" in report


def test_an_illegal_tile_is_refused_with_the_rule_and_both_numbers_and_not_run(monkeypatch):
    monkeypatch.setattr(launch, "run", lambda *_: pytest.fail("it must not run"))
    assert tile_sliders.shown(SHARED, {"TILE": 64}) == REFUSED


def test_more_shared_memory_than_a_block_may_have_is_refused_by_the_compiler_with_both_numbers():
    source = SHARED.source().replace("As[TILE][TILE];", "As[TILE][TILE], more[12288];")
    source = source.replace("float sum = 0.0f;", "more[tx] = 0.0f;\n    float sum = more[ty];")
    # 12288 floats are 48 KiB, all that there is, so that 8 KiB of tiles are too much: 0xe000 of 0xc000 bytes.
    assert "0xe000 bytes, 0xc000 max" in tile_sliders.refused(SHARED, {"TILE": 32}, source)


def test_a_block_that_no_multiprocessor_holds_is_refused_with_both_numbers():
    source = SHARED.source().replace("__launch_bounds__(TILE * TILE)", "__launch_bounds__(64)")
    source = source.replace(
        "float sum = 0.0f;",
        "float sum = 0.0f, many[80];\n#pragma unroll\nfor (int i = 0; i < 80; ++i) many[i] = C[i * N];",
    )
    source = source.replace(
        "float value = alpha * sum;",
        "#pragma unroll\nfor (int i = 0; i < 80; ++i) sum += many[i] * many[(i * i) % 80];\nfloat value = alpha * sum;",
    )
    refusal = tile_sliders.refused(SHARED, {"TILE": 32}, source)
    assert "1024 threads" in refusal and "65536 registers" in refusal


def test_a_wrong_kernel_is_not_reported_as_if_it_were_right():
    source = SHARED.source().replace("float value = alpha * sum;", "float value = TILE == 8 ? 0.0f : alpha * sum;")
    assert "correct" in tile_sliders.shown(SHARED, {"TILE": 16}, source, CUBE)
    with pytest.raises(AssertionError, match="outside the error bound"):
        tile_sliders.shown(SHARED, {"TILE": 8}, source, CUBE)


def test_a_race_is_reported_although_the_numbers_are_right():
    source = SHARED.source().replace("__syncthreads();  // nobody reads", ";  // nobody reads")
    assert "race: line" in tile_sliders.report(SHARED, {"TILE": 16}, source, CUBE)


def test_the_sliders_start_at_the_rungs_tile_and_each_move_reports_refuses_or_says_what_went_wrong():
    source = SHARED.source() + "\n#if TILE == 16\n#error no sixteen\n#endif\n"
    slider, text, _ = tile_sliders.sliders(SHARED, CHOICES, source, CUBE).children
    assert slider.value == SHARED.tile["TILE"] and not slider.continuous_update
    assert "TILE = 32: blocks of 32 x 32" in text.value
    slider.value = 64
    assert REFUSED in html.unescape(text.value)
    slider.value = 16
    assert "no sixteen" in text.value
    slider.value = 8
    assert "TILE = 8: blocks of 8 x 8" in text.value
