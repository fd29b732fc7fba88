import html
import re

import matplotlib.pyplot as plt
import pytest

from gemmlab import costs, resources
from gemmlab.compilations import Compilations
from gemmlab.costs import Cost
from gemmlab.figures import resource_explorer
from gemmlab.ladder import rung
from gemmlab.resources import occupancy

RUNG2, RUNG4, RUNG6 = rung(2), rung(4), rung(6)


@pytest.fixture(autouse=True)
def own_compilations(monkeypatch):
    """Give each test an explorer that has compiled nothing yet."""
    monkeypatch.setattr(resource_explorer, "compilations", Compilations())


def parts(widget):
    """Return the controls of a rung by their description, and the text under them."""
    *given, text, _ = widget.children
    return {control.description: control for control in given}, text


def cost_of(threads=256, registers=100, shared_bytes=8192, spilled=0):
    return Cost(threads, registers, spilled, occupancy("sm_90", threads, registers, shared_bytes))


# Rung 2 at TILE = 16: 256 threads; 2 x 16 x 16 floats are 2,048 bytes.
def test_a_view_says_what_a_tile_takes_and_what_limits_it():
    text, picture = resource_explorer.view(RUNG2, {"TILE": 16}, "sm_90")
    assert text.startswith("rung 2, shared_tiles, TILE = 16\n")
    assert "0 bytes spilled, 2,048 bytes of shared memory a block" in text
    assert re.search(r"\d+ registers a thread of at most 255", text)
    # 8 blocks of 256 threads are all 2,048 of them; an sm_90 holds 32 blocks; 2,048 + 1,024 reserved bytes go 76 times
    # into 228 KiB.
    assert re.search(r"blocks that each resource alone would allow: threads 8, blocks 32, .* shared memory 76", text)
    assert picture.startswith(b"\x89PNG")


def test_an_illegal_tile_has_the_rule_with_both_numbers_and_no_picture():
    text, picture = resource_explorer.view(RUNG2, {"TILE": 64}, "sm_90")
    assert text.startswith(
        "illegal: TILE = 64 makes a block of 4096 threads, but a GPU takes at most 1024: choose a tile of"
    )
    assert "legal one step away: TILE = 32" in text
    assert picture == b""


def test_more_shared_memory_than_a_kernel_may_declare_is_illegal_with_both_numbers():
    # As and Bs of 256 x 32 floats each are 65,536 bytes; a block may declare 48 KiB.
    text, picture = resource_explorer.view(RUNG4, {**RUNG4.tile, "BM": 256, "BN": 256, "BK": 32}, "sm_90")
    assert text.startswith("illegal: ") and "65536 bytes" in text and "49152" in text
    assert picture == b""


def test_a_block_that_no_multiprocessor_holds_is_illegal_with_both_numbers(monkeypatch):
    monkeypatch.setattr(costs, "cost", lambda kernel, arch: cost_of(threads=1024, registers=96))
    text, picture = resource_explorer.view(RUNG4, RUNG4.tile, "sm_90")
    assert "98304 in all" in text and "65536 registers" in text
    assert picture == b""


def test_illegal_steps_are_listed_each_with_its_rule():
    text, _ = resource_explorer.view(RUNG6, {**RUNG6.tile, "WM": 128}, "sm_90")
    assert text.startswith("illegal: BM = 64 is not a multiple of WM = 128")
    _, listed = text.split("illegal one step away:\n")
    assert all(re.fullmatch(r"  [BWT][MNK] = \d+: .*\d.*\d.*|  PAD.*", line) for line in listed.splitlines())
    assert "  BM = 32: BM = 32 is not a multiple of WM = 128" in listed


def test_fifty_moves_leave_no_figure_open_and_compile_each_setting_once(monkeypatch):
    asked = []

    def cost(kernel, arch):
        asked.append((kernel.options, arch))
        return cost_of()

    monkeypatch.setattr(costs, "cost", cost)
    before = plt.get_fignums()
    controls, text = parts(resource_explorer.sliders(RUNG4))
    for move in range(50):
        slider = controls[("BM", "TM", "BK", "arch" if "arch" in controls else "compiled for")[move % 4]]
        slider.value = slider.options[move // 4 % len(slider.options)]
    resource_explorer.compilations.wait()
    assert plt.get_fignums() == before
    assert len(asked) == len(set(asked))
    assert text.value


def test_a_step_to_a_neighbour_compiles_nothing_more(monkeypatch):
    asked = []
    monkeypatch.setattr(costs, "cost", lambda kernel, arch: asked.append(kernel.options) or cost_of())
    controls, text = parts(resource_explorer.sliders(RUNG4))
    resource_explorer.compilations.wait()
    ready = list(asked)
    moved = ("-DBM=64", "-DBN=128", "-DBK=8", "-DTM=8", "-DTN=8")
    assert moved in ready
    controls["BM"].value = 64
    resource_explorer.compilations.wait()
    assert asked.count(moved) == 1
    assert "BM = 64, BN = 128" in text.value


def test_the_explorer_holds_every_rung_from_2_to_6_and_keeps_the_settings_of_each():
    shown = resource_explorer.explorer(2)
    choice = shown.children[0]
    assert [number for _, number in choice.options] == [2, 3, 4, 5, 6]
    controls, _ = parts(shown.children[1])
    assert set(controls) == {"TILE", "compiled for"}
    controls["TILE"].value = 8
    choice.value = 3
    controls, text = parts(shown.children[1])
    assert set(controls) == {"BM", "BN", "BK", "TM", "compiled for"}
    assert "rung 3, register_tiles_1d" in text.value
    choice.value = 2
    controls, text = parts(shown.children[1])
    assert controls["TILE"].value == 8 and "TILE = 8" in text.value


@pytest.mark.parametrize("number", (2, 3, 4, 5, 6))
def test_the_sliders_offer_every_tile_parameter_and_its_default(number):
    offered = resource_explorer.choices(rung(number))
    assert set(offered) == set(rung(number).tile)
    assert all(default in offered[name] for name, default in rung(number).tile.items())


def test_what_a_move_raises_is_shown_and_not_lost(monkeypatch):
    controls, text = parts(resource_explorer.sliders(RUNG2))
    # Not what a compilation raises: the move may have been compiled ahead by now.
    monkeypatch.setattr(resource_explorer, "residency", lambda found: 1 / 0)
    controls["TILE"].value = 8
    assert "ZeroDivisionError" in html.unescape(text.value)


# 100 registers are 3,200 a warp, in units of 256 3,328; eight warps a block: 26,624. 8,192 + 1,024 bytes are 72 units.
def test_the_picture_draws_each_resident_blocks_share_of_every_resource():
    figure = resource_explorer.residency(cost_of())
    (axis,) = figure.axes
    written = [text.get_text() for text in axis.texts]
    assert written == [
        "2 x 256 of 2,048  ",
        "2 x 1 of 32  ",
        "2 x 26,624 of 65,536  full: no room for block 3",
        "2 x 9,216 of 233,472  ",
    ]
    widths = [bar.get_width() for bar in axis.patches]
    assert widths == pytest.approx(
        [100, *2 * [12.5], 100, *2 * [3.125], 100, *2 * [40.625], 100, *2 * [3.947]], abs=1e-3
    )
    plt.close(figure)


def test_what_blocks_take_is_what_the_number_of_blocks_follows_from():
    for arch in ("sm_75", "sm_86", "sm_90"):
        for threads, registers, shared in ((64, 40, 5000), (256, 128, 20000), (1000, 48, 0)):
            held = occupancy(arch, threads, registers, shared)
            for resource, (of_block, whole) in resources.taken(held).items():
                assert held.blocks * of_block <= whole
                if resource in held.limited_by and resource != "registers":  # which are dealt by subpartition
                    assert (held.blocks + 1) * of_block > whole


def test_the_cliff_stands_where_the_sums_alone_leave_no_register(monkeypatch):
    found = resource_explorer.spill_cliff("sm_90", ((2, 2), (8, 8), (16, 16)))
    assert found[2, 2].spilled_bytes == found[8, 8].spilled_bytes == 0
    # 256 sums do not fit in 255 registers.
    assert found[16, 16].spilled_bytes > 0 and found[16, 16].registers == 255
    assert all(cost.registers >= TM * TN + 1 for (TM, TN), cost in found.items() if TM * TN < 255)
    figure = resource_explorer.cliff(found, "sm_90")
    above, below = figure.axes
    assert list(above.lines[0].get_xdata()) == [4, 64, 256]
    assert list(above.lines[1].get_ydata()) == [8, 80, 288]
    assert list(above.lines[2].get_ydata()) == [255, 255]
    assert list(below.lines[0].get_ydata()) == [cost.spilled_bytes for cost in found.values()]
    plt.close(figure)
