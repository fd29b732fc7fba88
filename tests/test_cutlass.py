import json
from types import SimpleNamespace

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
    with pytest.raises(FileNotFoundError, match=r"--editable '\.\[cutlass\]'"):
        cutlass.kernel(DEFAULT)


@pytest.fixture
def package(monkeypatch, tmp_path):
    """A folder in the form of the package that carries the headers, with the one file by which they are known."""
    include = tmp_path / "source" / "include"
    (include / "cutlass").mkdir(parents=True)
    (include / "cutlass" / "cutlass.h").touch()
    found = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(cutlass.importlib.util, "find_spec", lambda name: {"cutlass_library": found}[name])
    return include


def test_a_setting_goes_to_the_compiler_as_macros_beside_the_headers(package):
    kernel = cutlass.kernel(SETTINGS[3])  # 256 x 128 x 8 in warps of 64 x 64, 4 stages
    assert f"-I{package}" in kernel.options
    macros = {option for option in kernel.options if option.startswith("-D")}
    assert macros == {"-DBM=256", "-DBN=128", "-DBK=8", "-DWM=64", "-DWN=64", "-DSTAGES=4", "-DMAINLOOP=Sm80"}
    assert "-DMAINLOOP=Sm50" in cutlass.kernel(DEFAULT).options


# 513 rows are three blocks of 256, 129 columns two of 128; (256 / 64) x (128 / 64) warps are 256 threads.
def test_blocks_go_down_C_in_x(package):
    grid, block, dynamic = cutlass.kernel(SETTINGS[3]).geometry(Gemm(513, 129, 8))
    assert (tuple(grid), tuple(block), dynamic) == ((3, 2, 1), (256, 1, 1), 0)


def test_a_package_without_headers_is_not_taken_for_them(package):
    (package / "cutlass" / "cutlass.h").unlink()
    with pytest.raises(FileNotFoundError, match="CUTLASS is not installed"):
        cutlass.headers()


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
    environment["conditions"] = dict.fromkeys(("boundary", "cache", "clocks", "batch", "cublas_milliseconds")) | {
        "family": "uniform",
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
        "remarks": [],
        "cublas_remarks": [],
    }
    return {"environment": environment, "rows": [row | fields]}


CUBE = Gemm(4096, 4096, 4096)


def test_the_newest_run_counts_and_in_it_the_fastest_right_setting():
    newest = run("2026-12-02")
    newest["rows"] += run(milliseconds=[3.0])["rows"] + run(milliseconds=[1.0], correct=False)["rows"]
    assert cutlass_runs.best([newest, run(milliseconds=[0.1])], CARD, CUBE)["milliseconds"] == [3.0]


@pytest.mark.parametrize(
    "runs", [[], [run(card="Tesla T4")], [run(shape=[1024] * 3)], [run(correct=False)], [run(milliseconds=None)]]
)
def test_of_what_nobody_has_measured_there_is_no_row(runs):
    assert cutlass_runs.timed(runs, CARD, CUBE) == [] and cutlass_runs.best(runs, CARD, CUBE) is None


def written(path, made):
    path.write_text(json.dumps(made), encoding="utf-8")
    return path


def test_a_run_is_loaded_as_it_was_written_and_shipped_ones_by_the_names_of_their_files(monkeypatch, tmp_path):
    other = run(card="NVIDIA A100", milliseconds=None)
    assert cutlass_runs.load(written(tmp_path / "b.json", run())) == run()
    written(tmp_path / "a.json", other)
    monkeypatch.setattr(cutlass_runs, "FOLDER", tmp_path)
    assert cutlass_runs.shipped() == (other, run())


@pytest.mark.parametrize(
    "wrong, field",
    [
        (run(stages="2"), "stages"),
        (run(milliseconds=[4.0, "fast"]), "milliseconds"),
        (run(shape=4096), "shape"),
        (run(more=1), "more"),
        ({"environment": {}, "rows": []}, "environment"),
        ({"environment": run()["environment"]}, "rows"),
    ],
)
def test_a_file_of_another_form_is_refused_by_its_name_and_the_field(monkeypatch, tmp_path, wrong, field):
    path = written(tmp_path / "other.json", wrong)
    with pytest.raises(ValueError, match=rf"other.json is no run of CUTLASS: .*{field}"):
        cutlass_runs.load(path)
    monkeypatch.setattr(cutlass_runs, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match=r"other.json is no run of CUTLASS"):
        cutlass_runs.shipped()


def test_every_run_that_comes_with_gemmlab_can_be_read():
    for path in cutlass_runs.FOLDER.glob("*.json"):
        assert cutlass_runs.load(path)["rows"]
