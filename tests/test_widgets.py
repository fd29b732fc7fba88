import html

import ipywidgets
import matplotlib
import matplotlib.pyplot as plt
import pytest

from gemmlab import launch
from gemmlab.figures import request_figures, widgets
from gemmlab.ladder import rung

matplotlib.use("agg")

NAIVE, COALESCED = rung("naive"), rung("coalesced")
PNG = b"\x89PNG"


def parts(box: ipywidgets.Widget) -> tuple[ipywidgets.Widget, ipywidgets.Widget, str, bytes]:
    """Return the sliders of BX and BY, the text and the picture of `block_shape`."""
    BX, BY, report, picture = box.children
    return BX, BY, html.unescape(report.value), bytes(picture.value)


@pytest.mark.parametrize("x", [1, 2, 4, 8, 16, 32])
def test_a_warp_of_the_naive_kernel_covers_x_rows_and_a_asks_for_x_sectors(x):
    report = widgets.block_report(NAIVE, x, 32)
    assert f"32 lanes on {x} x {32 // x} outputs" in report
    # B: 32 / x floats side by side, 8 to a sector.
    B = max(1, 32 // x // 8)
    C = x * B
    assert f"A {x}, B {B}, C {C}; a step of k moves {32 * (x + B)} bytes" in report


def test_a_wider_block_than_a_warp_changes_nothing_for_the_warp():
    assert "32 lanes on 32 x 1 outputs" in widgets.block_report(NAIVE, 256, 1)


def test_a_block_smaller_than_a_warp_leaves_lanes_idle():
    assert "block: 4 x 2 = 8 threads, 1 warps\nthe first warp: 8 lanes on 4 x 2" in widgets.block_report(NAIVE, 4, 2)


def test_the_report_has_registers_spills_and_occupancy():
    report = widgets.block_report(COALESCED, 32, 32)
    assert "registers a thread, 0 bytes spilled" in report
    assert "of 1024 threads on a multiprocessor of sm_" in report and "occupancy, limited by" in report


def test_a_block_that_no_gpu_launches_is_refused_with_the_rule_and_both_numbers_and_not_run(monkeypatch):
    monkeypatch.setattr(launch, "run", lambda *_: pytest.fail("it must not run"))
    text, picture = widgets.block_view(NAIVE, 64, 32)
    assert text.startswith(
        "not run: BX = 64, BY = 32 makes a block of 2048 threads, but a GPU takes at most 1024: choose a tile"
    )
    assert picture == b""


def test_a_kernel_that_is_wrong_at_a_block_is_not_reported_as_if_it_were_right():
    source = NAIVE.source().replace("float value = alpha * sum;", "float value = BX == 8 ? 0.0f : alpha * sum;")
    assert "correct" in widgets.block_report(NAIVE, 32, 4, source)
    with pytest.raises(AssertionError, match="outside the error bound"):
        widgets.block_report(NAIVE, 8, 4, source)


def test_the_sliders_start_at_the_rungs_block_and_show_it():
    BX, BY, report, picture = parts(widgets.block_shape(NAIVE))
    assert {"BX": BX.value, "BY": BY.value} == dict(NAIVE.tile)
    assert not BX.continuous_update and not BY.continuous_update
    assert "A 32, B 1, C 32" in report and picture.startswith(PNG)


def test_a_move_compiles_checks_and_counts_again_and_a_refused_one_says_why():
    box = widgets.block_shape(NAIVE)
    BX, BY, *_ = parts(box)
    BX.value = 8
    assert "A 8, B 1, C 8" in parts(box)[2]
    BX.value, BY.value = 1024, 2
    assert "2048 threads" in parts(box)[2] and parts(box)[3] == b""
    BY.value = 1
    assert "A 32, B 1, C 32" in parts(box)[2] and parts(box)[3].startswith(PNG)


def test_what_a_move_raises_is_shown():
    box = widgets.block_shape(NAIVE, NAIVE.source() + "\n#if BX == 16\n#error no sixteen\n#endif\n")
    BX, *_ = parts(box)
    BX.value = 16
    assert "CompileError" in parts(box)[2] and "no sixteen" in parts(box)[2]
    BX.value = 8
    assert "A 8, B 1, C 8" in parts(box)[2]


def test_a_source_that_fails_at_the_start_stops_the_cell():
    with pytest.raises(AssertionError, match="never written"):
        widgets.block_shape(NAIVE, NAIVE.source().replace("C[row * N + col] = value;", ""))


def test_fifty_moves_leave_no_figure_open(monkeypatch):
    monkeypatch.setattr(widgets, "block_report", lambda *_: "")
    monkeypatch.setattr(request_figures, "requests", lambda *_: plt.figure(figsize=(1, 1)))
    before = plt.get_fignums()
    BX, *_ = parts(widgets.block_shape(NAIVE))
    for move in range(50):
        BX.value = (8, 16)[move % 2]
    assert plt.get_fignums() == before
