import html

import ipywidgets
import matplotlib
import matplotlib.pyplot as plt
import pytest

from gemmlab.figures import controls

matplotlib.use("agg")
PNG = b"\x89PNG"


def over(view):
    slider = ipywidgets.IntSlider(value=1, min=0, max=9)
    return slider, controls.over({"n": slider}, view)


def text(box: ipywidgets.Widget) -> str:
    return html.unescape(box.children[-2].value)


def test_the_view_is_made_at_the_start_and_anew_with_every_move():
    slider, box = over(lambda n: (f"{n} < 10 & up", b""))
    assert "1 < 10 & up" in text(box)
    slider.value = 7
    assert "7 < 10 & up" in text(box)


def test_a_picture_is_shown_where_there_is_one():
    slider, box = over(lambda n: ("", controls.png(plt.figure(figsize=(1, 1))) if n > 5 else b""))
    picture = box.children[-1]
    assert picture.layout.display == "none"
    slider.value = 6
    assert bytes(picture.value).startswith(PNG) and picture.layout.display != "none"
    slider.value = 2
    assert bytes(picture.value) == b"" and picture.layout.display == "none"


def test_what_the_view_raises_at_the_start_is_raised_and_after_a_move_is_shown():
    def view(n):
        if n == 0:
            raise ValueError("n is 0")
        return f"n is {n}", b""

    slider, box = over(view)
    slider.value = 0
    assert "ValueError: n is 0" in text(box)
    slider.value = 3
    assert "n is 3" in text(box)
    with pytest.raises(ValueError, match="n is 0"):
        controls.over({"n": ipywidgets.IntSlider(value=0)}, view)


def test_a_picture_leaves_no_figure_open():
    before = plt.get_fignums()
    assert controls.png(plt.figure(figsize=(1, 1))).startswith(PNG)
    assert plt.get_fignums() == before
