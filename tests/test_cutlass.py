import json

import pytest

from gemmlab import cutlass, cutlass_runs, launch, nvrtc
from gemmlab.cutlass import SETTINGS, Simt
from gemmlab.gemm import Gemm
from gemmlab.ladder import rung

DEFAULT = SETTINGS[0]
CARD = "NVIDIA H200"


def installed() -> bool:
    try:
        cutlass.headers()
    except FileNotFoundError:
        return False
    return True


needs_headers = pytest.mark.skipif(not installed(), reason="CUTLASS's headers are not installed")


# 32 x 64 is wider than tall: 4 x 8 lanes, of 32 / 4 x 64 / 8. 128 x 128 in such tiles is 4 x 2 warps, 256 threads.
# 32 / 8 = 4 floats of padding: 2 x 8 x (128 + 4 + 128) x 4 bytes.
def test_the_default_shapes_are_rung_6s_with_a_chunk_of_8():
    assert DEFAULT.lanes == (4, 8)
    assert DEFAULT.tile == rung("warp_tiles").full_tile({"BM": 128, "BK": 8})
    assert DEFAULT.threads == 256
    assert DEFAULT.shared_bytes == 16640


def test_a_warps_tile_taller_than_wide_turns_its_lanes():
    tall = Simt((128, 64, 8), (64, 32, 8), 2)
    assert tall.lanes == (8, 4)
    assert (tall.tile["TM"], tall.tile["TN"], tall.threads) == (8, 8, 128)


# 64 x 64 is not taller than wide: 4 x 8 lanes of 16 x 8. Tiles on their way by cp.async are not padded.
def test_more_stages_take_more_shared_memory_and_no_padding():
    wide = Simt((256, 128, 8), (64, 64, 8), 4)
    assert (wide.tile["TM"], wide.tile["TN"], wide.tile["PAD"]) == (16, 8, 0)
    assert wide.shared_bytes == 4 * 8 * (256 + 128) * 4
    assert (wide.requires, DEFAULT.requires) == ("sm_80", "sm_75")


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_each_setting_covers_its_block_by_whole_warps_of_32_lanes(setting):
    tile = setting.tile
    assert setting.threads * tile["TM"] * tile["TN"] == tile["BM"] * tile["BN"]
    assert setting.lanes[0] * setting.lanes[1] == 32
    assert setting.lanes[0] * tile["TM"] == tile["WM"] and setting.lanes[1] * tile["TN"] == tile["WN"]


def test_the_table_has_a_line_a_setting_under_its_header():
    lines = cutlass.shapes_table().splitlines()
    assert len(lines) == 1 + len(SETTINGS)
    assert lines[1].split() == "128 x 128 x 8 32 x 64 2 4 x 8 8 x 8 256 16,640".split()


def test_missing_headers_are_told_with_the_cure(monkeypatch):
    monkeypatch.setattr(cutlass.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match=r"gemmlab\[cutlass\]"):
        cutlass.kernel(DEFAULT)


@needs_headers
@pytest.mark.parametrize("setting", (DEFAULT, SETTINGS[5]), ids=str)
def test_cutlass_is_right_on_the_emulator_and_takes_the_shared_memory_that_its_shapes_say(setting):
    kernel = cutlass.kernel(setting)
    used = nvrtc.resources(kernel.source, kernel.entry, kernel.options, "sm_90")
    assert used.shared_bytes == setting.shared_bytes
    problems = [Gemm(130, 129, 33), Gemm(1, 1, 1), Gemm(17, 19, 23, alpha=-0.5, beta=2.0)]
    launch.require(launch.check(kernel, problems, ["uniform"]))


# Runs.


def run(date="2026-12-01", card=CARD, **fields):
    environment = dict.fromkeys(cutlass_runs.ENVIRONMENT, "x") | {"card": card, "date": date}
    environment["conditions"] = dict.fromkeys(("boundary", "cache", "clocks")) | {
        **dict.fromkeys(("seed", "warmup", "samples"), 0),
        **dict.fromkeys(("alpha", "beta"), 1.0),
    }
    row = {
        "version": "4.2.0.0",
        "threadblock": [128, 128, 8],
        "warp": [32, 64, 8],
        "stages": 2,
        "shape": [4096, 4096, 4096],
        "correct": True,
        "registers": 142,
        "spill_bytes": 0,
        "shared_bytes": 16640,
        "milliseconds": [4.0, 3.9, 4.1],
        "cublas_milliseconds": [2.0, 2.0, 2.1],
    }
    return {"environment": environment, "rows": [row | fields]}


CUBE = Gemm(4096, 4096, 4096)


# 2 x 4096^3 FLOPs in 4 ms are 34.36 TFLOP/s; cuBLAS's 2 ms are half.
def test_the_ladders_row_is_of_the_median_and_of_cublas_beside_it():
    assert cutlass_runs.ladder_row([run()], CARD, CUBE) == {
        "kernel": "CUTLASS 4.2.0.0 SIMT",
        "TFLOP/s": "34.36",
        "% of cuBLAS": "50.0",
        "setting": "128 x 128 x 8, 2 stages",
        "measured": "NVIDIA H200, 2026-12-01",
    }


def test_the_newest_run_counts_and_in_it_the_fastest_right_setting():
    newest = run("2026-12-02")
    newest["rows"] += run(milliseconds=[3.0])["rows"] + run(milliseconds=[1.0], correct=False)["rows"]
    assert cutlass_runs.best([newest, run(milliseconds=[0.1])], CARD, CUBE)["milliseconds"] == [3.0]


@pytest.mark.parametrize(
    "runs", [[], [run(card="Tesla T4")], [run(shape=[1024] * 3)], [run(correct=False)], [run(milliseconds=None)]]
)
def test_what_nobody_has_measured_is_a_dash(runs):
    row = cutlass_runs.ladder_row(runs, CARD, CUBE)
    assert {row[name] for name in ("TFLOP/s", "% of cuBLAS", "setting", "measured")} == {"-"}


def test_every_shipped_run_has_the_form_of_one():
    assert isinstance(cutlass_runs.shipped(), tuple)


def test_a_file_of_another_form_is_refused_by_name(tmp_path):
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"environment": {}}))
    with pytest.raises(ValueError, match=r"other.json is no run of CUTLASS"):
        cutlass_runs.load(path)
