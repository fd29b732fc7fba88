import json

import pytest
from kernel_tuner import util

from gemmlab import tuning_cache
from gemmlab.gemm import Gemm
from gemmlab.ladder import rung
from gemmlab.tuning_cache import Measurement, configuration, load, parameters, save

RUNG6, RUNG4, RUNG2 = rung(6), rung(4), rung(2)
PROBLEM = Gemm(512, 256, 128)
FOUND = [
    Measurement(RUNG6.full_tile(), 3.0, (2.9, 3.0, 3.2), 127, 0, "NVIDIA H200"),
    Measurement(RUNG6.full_tile({"BM": 128}), None, device="NVIDIA H200", error="wrong: of 4 outputs, 1 NaN"),
    Measurement(RUNG6.full_tile({"BK": 8}), 4.0, (4.0,), None, None, "NVIDIA H200"),
]


@pytest.fixture
def path(tmp_path):
    save(tmp_path / "cache.json", RUNG6, PROBLEM, FOUND)
    return tmp_path / "cache.json"


def test_what_is_saved_is_loaded(path):
    assert load(path, RUNG6, PROBLEM) == FOUND


def test_kernel_tuner_reads_the_file_and_knows_the_setting_that_failed(path):
    data = util.read_cache(str(path), open_cache=False)
    assert (data["device_name"], data["kernel_name"]) == ("NVIDIA H200", RUNG6.entry)
    # 64 x 128 in warp tiles of 32 x 64 is 4 warps.
    first = data["cache"]["64,128,16,32,64,8,8,4,128,1"]
    assert (first["time"], first["times"], first["registers"]) == (3.0, [2.9, 3.0, 3.2], 127)
    failed = data["cache"]["128,128,16,32,64,8,8,4,256,1"]
    assert isinstance(failed["__error__"], util.RuntimeFailedConfig) and "time" not in failed


def test_kernel_tuner_goes_on_writing_where_the_file_ends(path):
    util.read_cache(str(path), open_cache=True)
    entry = json.loads(json.dumps(configuration(RUNG6, {"BM": 128, "BK": 8}) | {"time": 5.0}))
    util.store_cache("128,128,8,32,64,8,8,4,256,1", entry, str(path), {})
    for _ in range(2):  # while it is open, and closed
        assert load(path, RUNG6, PROBLEM)[:3] == FOUND
        assert load(path, RUNG6, PROBLEM)[3].milliseconds == 5.0
        util.close_cache(str(path))
    assert len(json.loads(path.read_text())["cache"]) == 4


def test_a_file_cut_off_within_a_setting_keeps_the_settings_before_it(path):
    util.read_cache(str(path), open_cache=True)
    whole = path.read_text().rstrip()
    path.write_text(whole + '\n"128,128,8,32,64,8,8,4,256,1": {"BM": 128, "BN')
    assert load(path, RUNG6, PROBLEM) == FOUND


def test_no_file_holds_nothing(tmp_path):
    assert load(tmp_path / "none.json", RUNG6, PROBLEM) == []


@pytest.mark.parametrize(
    ("of_rung", "problem"), [(RUNG4, PROBLEM), (RUNG6, Gemm(512, 256, 129)), (RUNG6, Gemm(256, 512, 128))]
)
def test_the_times_of_another_rung_or_problem_are_refused(path, of_rung, problem):
    with pytest.raises(ValueError, match="holds times of"):
        load(path, of_rung, problem)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cache": 3}', "not JSON"])
def test_a_file_that_is_no_cache_is_refused_by_name(tmp_path, text):
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(ValueError, match=r"other.json is no cache of kernel_tuner for gemm_warp_tiles"):
        load(tmp_path / "other.json", RUNG6, PROBLEM)


def test_times_of_two_cards_are_not_mixed(tmp_path):
    other = Measurement(RUNG6.full_tile({"BK": 8}), 1.0, device="Tesla T4")
    with pytest.raises(ValueError, match="one card, not of 2: NVIDIA H200, Tesla T4"):
        save(tmp_path / "mixed.json", RUNG6, PROBLEM, [FOUND[0], other])


def test_the_axes_are_the_values_of_the_tiles_and_of_the_blocks_they_make():
    # Rung 4: 128 x 128 by 8 x 8 is 16 x 16 threads, 64 x 128 is 16 x 8.
    assert parameters(RUNG4, [{}, {"BM": 64}]) == {
        "BM": [64, 128],
        "BN": [128],
        "BK": [8],
        "TM": [8],
        "TN": [8],
        "block_size_x": [16],
        "block_size_y": [8, 16],
    }
    assert tuning_cache.configuration(RUNG2, {"TILE": 16}) == {"TILE": 16, "block_size_x": 16, "block_size_y": 16}
