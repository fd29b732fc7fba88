"""The step-through pictures: what each step says, and the control that plays them."""

import matplotlib
import matplotlib.pyplot as plt
import pytest

from gemmlab import launch, snapshots
from gemmlab.figures import stepping
from gemmlab.gemm import Gemm
from gemmlab.ladder import rung

matplotlib.use("agg")

SEVEN = Gemm(M=7, N=7, K=10)


@pytest.fixture(scope="module")
def walk() -> stepping.Walk:
    """The last block of 7 x 7 outputs in tiles of 4 x 4: three chunks along k, of 4, 4 and 2 steps."""
    kernel = launch.of(rung("shared_tiles"), {"TILE": 4})
    chunks = snapshots.chunks(kernel, SEVEN, {"As": (4, 4), "Bs": (4, 4)}, block=(1, 1, 0))
    return stepping.Walk(SEVEN, corner=(4, 4), chunks=chunks)


def words(figure: plt.Figure) -> list[str]:
    """Every text of a figure, its title first."""
    found = [figure.get_suptitle()]
    for axis in figure.axes:
        found += [axis.get_title(), *(text.get_text() for text in axis.texts)]
    plt.close(figure)
    return found


def test_each_chunk_has_five_steps(walk):
    assert walk.steps == 3 * len(("load", "barrier", "store", "barrier", "compute"))


def test_every_step_names_its_chunk_and_its_steps_of_k(walk):
    titles = [words(stepping.walk(walk, step))[0] for step in range(walk.steps)]
    for chunk, k in enumerate(("k = 0 to 3", "k = 4 to 7", "k = 8 to 9")):
        assert all(title.startswith(f"chunk {chunk + 1} of 3, {k}: ") for title in titles[5 * chunk : 5 * chunk + 5])
    assert ["barrier: " in title for title in titles] == [False, True, False, True, False] * 3


def test_terms_are_added_when_a_chunk_is_computed(walk):
    terms = [next(text for text in words(stepping.walk(walk, step)) if "terms" in text) for step in range(walk.steps)]
    assert terms == [f"{done} of 10 terms" for done in [0, 0, 0, 0, 4, 4, 4, 4, 4, 8, 8, 8, 8, 8, 10]]


def test_shared_memory_is_empty_at_first_and_then_holds_the_chunk_before_until_the_stores(walk):
    first, loading, storing = (set(words(stepping.walk(walk, step))) for step in (1, 5, 7))
    assert "As: not written yet" in first and "4,0" not in first
    assert {"4,3", "3,4", "As: may still be read"} <= loading and "4,7" not in loading
    assert {"4,7", "7,4", "As: being written"} <= storing and "4,3" not in storing


def test_zeros_past_the_edges_are_drawn_as_such(walk):
    # As: 3 rows of 2 elements in 16 words; Bs: 2 rows of 3.
    assert words(stepping.walk(walk, walk.steps - 1)).count("0") == (16 - 6) + (16 - 6)


def test_a_tile_too_large_for_numbers_has_none():
    kernel = launch.of(rung("shared_tiles"), {"TILE": 16})
    odd = Gemm(17, 19, 23)
    chunks = snapshots.chunks(kernel, odd, {"As": (16, 16), "Bs": (16, 16)}, block=(1, 1, 0))
    assert "0" not in words(stepping.walk(stepping.Walk(odd, (16, 16), chunks), 3))


def test_the_player_and_the_slider_move_together_and_each_picture_is_drawn_once():
    drawn = []

    def draw(step):
        drawn.append(step)
        return plt.figure(figsize=(1, 1))

    player, under = stepping.play(draw, 4).children
    slider, _, picture = under.children
    assert (player.min, player.max, slider.min, slider.max) == (0, 3, 0, 3)
    images = []
    for step in (1, 2, 1, 0, 3):
        player.value = step
        assert slider.value == step
        images.append(bytes(picture.value))
    assert drawn == [0, 1, 2, 3] and all(image.startswith(b"\x89PNG") for image in images)
    assert plt.get_fignums() == []
