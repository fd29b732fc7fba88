import functools
import os
import random
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import fake_nvml
import numpy as np
import pynvml
import pytest
from emulated_gpu import CARD, EmulatedGpu

from gemmlab import context, costs, ladder, timing, tuning, tuning_cache
from gemmlab.backend import Backend
from gemmlab.gemm import Gemm
from gemmlab.ladder import rung
from gemmlab.tuning_cache import Measurement

RUNG2, RUNG4 = rung(2), rung(4)
OTHER = "Tesla T4"
PROBLEM = Gemm(64, 64, 32)
CHOICES = {"BM": (32, 64, 128), "BN": (32, 64, 128), "TM": (4, 8), "TN": (4, 8)}
FEW = [{"BM": BM, "BN": BN} for BM in (64, 128) for BN in (64, 128, 256)]


# What processes are given to measure with: functions of a module, whose times follow from the tile alone.


def found_of(tile):
    return Measurement(tile, tile["BM"] + tile["BN"] / 1000, (), 100, 0, CARD)


def the_card():
    return CARD


def measured(number, problem, tile):
    return found_of(tile)


def measured_in_any_order(number, problem, tile):
    time.sleep(random.random() / 50)
    return found_of(tile)


def wrong_at_64_x_128(number, problem, tile):
    if (tile["BM"], tile["BN"]) == (64, 128):
        raise AssertionError("wrong: of 4096 outputs, 1 outside the error bound")
    return found_of(tile)


def out_of_memory_at_64_x_128(number, problem, tile):
    if (tile["BM"], tile["BN"]) == (64, 128):
        raise RuntimeError("out of memory")
    return found_of(tile)


def never_measured(number, problem, tile):
    raise AssertionError("nothing should be measured")


def other_card():
    return OTHER


def dying_at_64_x_128(number, problem, tile):
    if (tile["BM"], tile["BN"]) == (64, 128):
        os.kill(os.getpid(), signal.SIGKILL)
    return found_of(tile)


two_processes = functools.partial(ProcessPoolExecutor, 2)


def sweep(path, **arguments):
    return tuning.sweep(RUNG4, PROBLEM, FEW, path, **({"measure": measured, "card": the_card} | arguments))


def times(found):
    return {(each.tile["BM"], each.tile["BN"]): each.milliseconds for each in found}


ALL = {(BM, BN): BM + BN / 1000 for BM in (64, 128) for BN in (64, 128, 256)}


# The settings.


def test_the_tiles_of_a_sweep_are_those_that_the_rungs_rules_admit():
    found = tuning.tiles(RUNG4, CHOICES)
    assert len(found) == len({tuple(tile.values()) for tile in found})
    admitted = {tuple(tile[name] for name in CHOICES) for tile in found}
    for BM in CHOICES["BM"]:
        for BN in CHOICES["BN"]:
            for TM in CHOICES["TM"]:
                for TN in CHOICES["TN"]:
                    threads = (BM // TM) * (BN // TN)
                    legal = threads <= 1024 and BM * 8 % threads == 0 and BN * 8 % threads == 0
                    assert ((BM, BN, TM, TN) in admitted) == legal


# 256 sums do not fit in 255 registers; 256 x 256 tiles of BK = 32 are 64 KiB of static shared memory, of 48.
def test_tiles_that_spill_or_do_not_compile_are_not_affordable():
    spilling, too_large, good = (
        {"BM": 256, "BN": 256, "TM": 16, "TN": 16},
        {"BM": 256, "BN": 256, "BK": 32},
        {"BM": 64, "BN": 64},
    )
    assert tuning.affordable(RUNG4, [spilling, too_large, good], "sm_90") == [good]
    assert "65536 bytes" in costs.refused(RUNG4, too_large, "sm_90")


# Over an executor, or none.


@pytest.mark.parametrize("executor", [None, two_processes, functools.partial(ThreadPoolExecutor, 3)])
def test_a_sweep_finds_the_same_whatever_it_runs_over(tmp_path, executor):
    found = sweep(tmp_path / "cache.json", executor=executor)
    assert times(found) == ALL
    assert tuning_cache.load(tmp_path / "cache.json", RUNG4, PROBLEM) == found


def test_an_executor_itself_will_do(tmp_path):
    with ProcessPoolExecutor(2) as executor:
        assert times(sweep(tmp_path / "cache.json", executor=executor)) == ALL
        assert executor.submit(sum, [1, 2]).result() == 3  # it is left open


def test_what_is_found_does_not_depend_on_the_order_in_which_it_comes(tmp_path):
    shuffled = sweep(tmp_path / "one.json", executor=two_processes, measure=measured_in_any_order)
    assert shuffled == sweep(tmp_path / "two.json")
    assert (tmp_path / "one.json").read_text() == (tmp_path / "two.json").read_text()


@pytest.mark.parametrize("executor", [None, two_processes])
def test_a_setting_that_fails_loses_only_itself_and_says_why(tmp_path, executor):
    found = sweep(tmp_path / "cache.json", executor=executor, measure=wrong_at_64_x_128)
    assert times(found) == ALL | {(64, 128): None}
    (failed,) = (each for each in found if each.milliseconds is None)
    assert failed.error == "AssertionError: wrong: of 4096 outputs, 1 outside the error bound"
    assert tuning_cache.load(tmp_path / "cache.json", RUNG4, PROBLEM) == found


def test_a_process_that_is_killed_loses_only_its_setting(tmp_path):
    found = sweep(tmp_path / "cache.json", executor=two_processes, measure=dying_at_64_x_128)
    assert times(found) == ALL | {(64, 128): None}
    (failed,) = (each for each in found if each.milliseconds is None)
    assert failed.error == "its process died"


def test_a_broken_executor_that_cannot_be_made_anew_keeps_what_is_done_and_says_how_to_go_on(tmp_path):
    path = tmp_path / "cache.json"
    with ProcessPoolExecutor(1) as executor, pytest.raises(RuntimeError, match=r"5 of 6 tiles left.*call again"):
        sweep(path, executor=executor, measure=dying_at_64_x_128)
    assert times(tuning_cache.load(path, RUNG4, PROBLEM)) == {(64, 64): 64.064}
    assert times(sweep(path, executor=two_processes)) == ALL


def test_a_sweep_goes_on_where_it_was_stopped(tmp_path):
    path, asked = tmp_path / "cache.json", []

    def interrupted(number, problem, tile):
        if len(asked) == 4:
            raise KeyboardInterrupt
        asked.append((tile["BM"], tile["BN"]))
        return found_of(tile)

    assert len(sweep(path, measure=interrupted)) == 4
    assert times(tuning_cache.load(path, RUNG4, PROBLEM)) == dict(list(ALL.items())[:4])
    done = list(asked)
    progress = []

    def count(number, problem, tile):
        asked.append((tile["BM"], tile["BN"]))
        return found_of(tile)

    assert times(sweep(path, measure=count, progress=progress.append)) == ALL
    assert asked == [*done, (128, 128), (128, 256)] == list(ALL)[:4] + list(ALL)[4:]
    assert progress == [4, 1, 1]


def test_an_interrupt_of_a_sweep_over_an_executor_keeps_what_is_done(tmp_path):
    going, path = threading.Event(), tmp_path / "cache.json"

    def measure(number, problem, tile):
        if (tile["BM"], tile["BN"]) != (64, 64):
            going.wait(10)
        return found_of(tile)

    def interrupt(done):
        if done:
            going.set()
            raise KeyboardInterrupt

    with ThreadPoolExecutor(1) as executor:
        found = sweep(path, executor=executor, measure=measure, progress=interrupt)
    assert times(found) == {(64, 64): 64.064}
    assert tuning_cache.load(path, RUNG4, PROBLEM) == found


def test_an_interrupt_before_anything_is_found_is_passed_on(tmp_path):
    def interrupted(number, problem, tile):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(tmp_path / "cache.json", measure=interrupted)


def test_a_time_from_another_card_is_no_time_of_this_sweep(tmp_path):
    def on_two_cards(number, problem, tile):
        device = OTHER if tile["BN"] == 128 else CARD
        return Measurement(tile, 1.0, device=device)

    found = sweep(tmp_path / "cache.json", measure=on_two_cards)
    assert [each.error for each in found if each.milliseconds is None] == 2 * [
        f"it was measured on Tesla T4, but this sweep is of {CARD}; {tuning.NOT_KEPT}"
    ]
    again = times(sweep(tmp_path / "cache.json"))
    assert [again[64, BN] for BN in (64, 128, 256)] == [1.0, ALL[64, 128], 1.0]


@pytest.mark.parametrize("executor", [None, two_processes])
def test_a_cache_of_another_card_is_refused_before_any_tile_is_measured_with_both_names(tmp_path, executor):
    path = tmp_path / "cache.json"
    tuning.sweep(RUNG4, PROBLEM, FEW[:2], path, measure=measured, card=the_card)
    before = path.read_text()
    with pytest.raises(ValueError, match=f"cache.json holds the times of {CARD}, and this sweep .* on {OTHER}"):
        sweep(path, executor=executor, measure=never_measured, card=other_card)
    assert path.read_text() == before


# A cache that has all that is asked for needs no card: it is read on a machine without a GPU.
def test_what_is_known_needs_no_card(tmp_path):
    sweep(tmp_path / "cache.json")
    assert times(sweep(tmp_path / "cache.json", measure=pytest.fail, card=pytest.fail)) == ALL


@pytest.mark.parametrize("executor", [None, two_processes])
def test_an_error_that_may_pass_is_told_and_not_kept(tmp_path, executor):
    path = tmp_path / "cache.json"
    found = sweep(path, executor=executor, measure=out_of_memory_at_64_x_128)
    assert times(found) == ALL | {(64, 128): None}
    (failed,) = (each for each in found if each.milliseconds is None)
    assert failed.error == f"RuntimeError: out of memory; {tuning.NOT_KEPT}"
    assert (64, 128) not in times(tuning_cache.load(path, RUNG4, PROBLEM))
    assert times(sweep(path, executor=executor)) == ALL


def test_an_error_before_the_first_time_is_kept_under_the_cards_name(tmp_path):
    path = tmp_path / "cache.json"
    tuning.sweep(RUNG4, PROBLEM, [{"BM": 64}], path, measure=wrong_at_64_x_128, card=the_card)
    (kept,) = tuning_cache.load(path, RUNG4, PROBLEM)
    assert (kept.milliseconds, kept.device) == (None, CARD) and kept.error.startswith("AssertionError: wrong")


@pytest.mark.parametrize("executor", [None, two_processes])
def test_what_progress_raises_ends_the_sweep_and_is_no_tiles_error(tmp_path, executor):
    def stop(done):
        if done:
            raise TimeoutError("time is up")

    with pytest.raises(TimeoutError, match="time is up"):
        sweep(tmp_path / "cache.json", executor=executor, progress=stop)
    (kept,) = tuning_cache.load(tmp_path / "cache.json", RUNG4, PROBLEM)
    assert kept.milliseconds is not None


def test_an_illegal_tile_is_refused_before_anything_is_measured(tmp_path):
    with pytest.raises(ValueError, match="BM = 100 is not a multiple of TM = 8"):
        tuning.sweep(RUNG4, PROBLEM, [{}, {"BM": 100}], tmp_path / "cache.json", measure=pytest.fail)


def test_a_tile_given_twice_is_measured_once(tmp_path):
    asked = []
    tuning.sweep(
        RUNG4,
        PROBLEM,
        [{}, {"BM": 128}, {"TM": 8}],
        tmp_path / "cache.json",
        measure=lambda number, problem, tile: asked.append(tile) or found_of(tile),
        card=the_card,
    )
    assert asked == [RUNG4.full_tile()]


# On a GPU.


@pytest.fixture
def gpu(monkeypatch):
    """A GPU on which a launch takes as many milliseconds as its block has warps."""
    fake = EmulatedGpu(lambda grid, block: np.prod(block) / 32)
    monkeypatch.setattr(tuning.backend, "choose", lambda name: Backend(name, fake, "asked for"))
    tuning._bench.cache_clear()
    yield fake
    tuning._bench.cache_clear()


def test_a_tile_is_checked_and_timed_on_the_gpu(gpu):
    found = tuning.time_tile(2, PROBLEM, {"TILE": 16})
    assert (found.milliseconds, found.device, found.error) == (8.0, CARD, None)
    assert len(found.samples_ms) == tuning.SAMPLES
    assert found.registers > 0 and found.local_bytes == 0
    assert set(gpu.compiled) == {("-DTILE=16",)}


def test_what_the_gpu_reported_while_a_tile_was_timed_stays_with_it(gpu, monkeypatch, tmp_path):
    fake_nvml.install(monkeypatch, sm=1200, reasons=pynvml.nvmlClocksEventReasonSwPowerCap)
    path = tmp_path / "cache.json"
    (found,) = tuning.sweep(RUNG2, PROBLEM, [{"TILE": 16}], path)
    assert [reading.sm_mhz for reading in found.readings] == [1200] * tuning.SAMPLES
    assert found.remarks == (f"throttled in {tuning.SAMPLES} of {tuning.SAMPLES} samples: power cap",)
    assert tuning_cache.load(path, RUNG2, PROBLEM) == [found]


def test_a_result_that_is_wrong_after_the_timing_is_refused(gpu, monkeypatch):
    def spoil(submit, **_):
        time_ = timing.time_kernel(submit, **_)
        next(reversed(gpu.launched.values())).fill(7.0)
        return time_

    monkeypatch.setattr(tuning, "time_kernel", spoil)
    with pytest.raises(AssertionError, match="after it was timed"):
        tuning.time_tile(2, PROBLEM, {"TILE": 16})


@pytest.fixture
def edit(monkeypatch, tmp_path):
    """Return a function that replaces text in rung 2."""
    monkeypatch.setattr(ladder, "KERNEL_FOLDERS", (tmp_path,))
    source = (ladder.PACKAGE.parent / "kernels" / RUNG2.source_file).read_text()

    def replace(old, new):
        assert old in source
        (tmp_path / RUNG2.source_file).write_text(source.replace(old, new))

    return replace


@pytest.mark.parametrize("condition", ["M == 64", "M == 193"])
def test_a_wrong_result_at_either_shape_is_not_timed(gpu, edit, tmp_path, condition):
    edit("float value = alpha * sum;", f"float value = {condition} && TILE == 16 ? 0.0f : alpha * sum;")
    found = tuning.sweep(RUNG2, PROBLEM, [{"TILE": 8}, {"TILE": 16}], tmp_path / "cache.json")
    assert [each.milliseconds for each in found] == [2.0, None]
    assert "outside the error bound" in found[1].error


def test_a_lost_context_ends_the_sweep_and_blames_the_tile_that_ended_it(gpu, monkeypatch, tmp_path):
    def lose(number, problem, tile):
        if tile["TILE"] == 16:
            raise context.ContextLost("gemm_shared_tiles", "an illegal memory access was encountered")
        return Measurement(tile, 1.0, device=CARD)

    tiles = [{"TILE": 8}, {"TILE": 16}, {"TILE": 32}]
    with pytest.raises(context.ContextLost):
        tuning.sweep(RUNG2, PROBLEM, tiles, tmp_path / "cache.json", measure=lose, card=the_card)
    kept = tuning_cache.load(tmp_path / "cache.json", RUNG2, PROBLEM)
    assert [(each.tile["TILE"], each.milliseconds) for each in kept] == [(8, 1.0), (16, None)]
