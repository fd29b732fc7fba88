"""The rules of tiles against the kernels' own static_asserts and against the compiler."""

import math
import random
import re

import pytest

from gemmlab import nvrtc, tuning
from gemmlab.ladder import RUNGS, rung

# Most values are powers of two, as in every sweep; the others are there to break the rules.
CHOICES = {
    "BX": (1, 8, 24, 32, 64, 256),
    "BY": (1, 4, 8, 32, 33),
    "TILE": (1, 5, 8, 16, 31, 32, 33),
    "BM": (16, 32, 48, 64, 128, 256),
    "BN": (16, 32, 64, 96, 128, 256),
    "BK": (4, 6, 8, 16, 24, 32, 64),
    "WM": (16, 32, 48, 64, 128),
    "WN": (16, 32, 64, 128, 256),
    "TM": (2, 4, 8, 16),
    "TN": (4, 8, 12, 16),
    "PAD": (2, 4, 8),
}
MOST_SUMS = 16  # of a thread that is compiled to machine code, so that a test takes a fraction of a second
STATIC = 49_152  # bytes of shared memory that a kernel may declare, 48 KiB, on every card


def rule(of_rung, tile):
    """What the rung says of a full tile; None where it is legal."""
    try:
        of_rung.full_tile(tile)
    except ValueError as error:
        return str(error)
    return None


def legal_tiles(of_rung):
    return tuning.tiles(of_rung, {name: CHOICES[name] for name in of_rung.tile})


def sample(of_rung, count, seed=0):
    """Full tiles of a rung: some legal, and as many with one or two parameters changed, most of which are not."""
    chance = random.Random(seed)
    legal = chance.sample(legal_tiles(of_rung), count)
    changed = []
    for tile in legal:
        names = chance.sample(list(tile), chance.randint(1, 2))
        changed.append(tile | {name: chance.choice(CHOICES[name]) for name in names})
    return legal + changed


def declared_bytes(tile):
    return 4 * tile["BK"] * (tile["BM"] + tile.get("PAD", 0) + tile["BN"])


def options(tile):
    return tuple(f"-D{name}={value}" for name, value in tile.items())


def asserted(of_rung, tile):
    """Whether the kernel's own static_asserts hold at a tile, by the compiler, which is given nothing else of it."""
    lines = re.findall(r"^(?:#define (?:THREADS|A_ROWS|B_ROWS) |static_assert).*$", of_rung.source(), re.MULTILINE)
    try:
        nvrtc.compile_ptx("\n".join([*lines, 'extern "C" __global__ void nothing() {}']), options(tile))
    except nvrtc.CompileError:
        return False
    return True


@pytest.mark.parametrize("number", [5, 6])
def test_a_tile_is_legal_exactly_where_the_static_asserts_hold_and_a_block_fits(number):
    of_rung = rung(number)
    tiles = sample(of_rung, 60)
    refused = []
    for tile in tiles:
        holds = asserted(of_rung, tile)
        fits = holds and math.prod(of_rung.block(tile)) <= 1024 and declared_bytes(tile) <= STATIC
        said = rule(of_rung, tile)
        assert (said is None) == fits, f"{tile}: the static_asserts {'hold' if holds else 'fail'}; the rule: {said}"
        refused.append(said)
    assert refused.count(None) >= 60 and sum(said is not None for said in refused) >= 30


@pytest.mark.parametrize("of_rung", RUNGS, ids=lambda each: each.name)
def test_what_the_rules_admit_compiles_with_the_shared_memory_that_they_reckon(of_rung):
    small = [tile for tile in legal_tiles(of_rung) if tile.get("TM", 1) * tile.get("TN", 1) <= MOST_SUMS]
    for tile in random.Random(1).sample(small, 6):
        used = nvrtc.resources(of_rung.source(), of_rung.entry, of_rung.options(tile), "sm_90")
        assert used.shared_bytes == of_rung.shared_bytes(tile), tile


# 128 x 128 outputs, a thread for every 16: 1024 threads. With BK = 64 the tiles take 4 * 64 * (128 + 128) = 65,536
# bytes, and 1,024 more with a PAD of 4.
@pytest.mark.parametrize("number, declared", [(3, 65_536), (4, 65_536), (5, 66_560), (6, 66_560)])
def test_more_static_shared_memory_than_48_kib_is_refused_with_both_numbers_as_the_compiler_does(number, declared):
    of_rung = rung(number)
    small = {"BM": 128, "BN": 128, "BK": 64, "WM": 16, "WN": 32, "TM": 4, "TN": 4, "PAD": 4}
    tile = {name: value for name, value in small.items() if name in of_rung.tile} | ({"TM": 16} if number == 3 else {})
    with pytest.raises(ValueError, match=f"BK = 64.* makes tiles of {declared} bytes .* at most {STATIC} for a block"):
        of_rung.options(tile)
    with pytest.raises(nvrtc.CompileError, match=f"declares {declared} bytes"):
        nvrtc.resources(of_rung.source(), of_rung.entry, options(tile), "sm_90")


def test_exactly_48_kib_are_legal():
    tile = {"BM": 128, "BN": 256, "BK": 32, "TM": 8, "TN": 8}
    assert declared_bytes(tile) == STATIC
    assert rung(4).full_tile(tile) == tile


@pytest.mark.parametrize(
    "tile, message",
    [
        # 16 threads have 16 quads: a row of B's tile has 128 / 4 = 32.
        (
            {"BM": 16, "BN": 128, "BK": 16, "TM": 16, "TN": 8, "PAD": 8},
            r"16 threads, not a multiple of the 32 .* of B'",
        ),
        # 8 threads, and 64 / 4 = 16 quads.
        (
            {"BM": 16, "BN": 64, "BK": 32, "TM": 8, "TN": 16},
            r"8 threads, not a multiple of the 16 .* of B's tile, BN = 64",
        ),
        (
            {"BM": 16, "BN": 64, "BK": 4, "TM": 8, "TN": 16},
            r"8 threads, not a multiple of the 16 .* of B's tile, BN = 64",
        ),
        # 4 threads, and 32 / 4 = 8 quads of a row of A's tile.
        (
            {"BM": 16, "BN": 32, "BK": 32, "TM": 8, "TN": 16},
            r"4 threads, not a multiple of the 8 .* of A's tile, BK = 32",
        ),
        # 96 threads, of which 4 load a row of A's tile: 24 rows at a time, and 64 are no multiple of that.
        ({"BM": 64, "BN": 96, "BK": 16, "TM": 8, "TN": 8}, r"96 threads, which load 24 rows of A's tile .* BM = 64"),
    ],
)
def test_threads_that_load_parts_of_rows_are_refused_with_both_numbers(tile, message):
    assert re.search(message, rule(rung(5), tile))
    assert not asserted(rung(5), rung(5).tile | tile)


def test_a_warp_that_is_half_a_row_wide_is_refused_too():
    # 32 threads, and 256 / 4 = 64 quads of a row of B's tile.
    tile = {"BM": 32, "BN": 256, "BK": 16, "WM": 32, "WN": 256, "TM": 16, "TN": 16, "PAD": 4}
    assert re.search(r"32 threads, not a multiple of the 64 .* of B's tile, BN = 256", rule(rung(6), tile))
    assert not asserted(rung(6), tile)
