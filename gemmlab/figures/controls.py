"""Controls of a view: a text and a picture that are made anew from the values of sliders, whenever one moves."""

import html
import io
from collections.abc import Callable, Mapping

import ipywidgets
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

WIDEST = "1000px"


def over(controls: Mapping[str, ipywidgets.Widget], view: Callable[..., tuple[str, bytes]]) -> ipywidgets.Widget:
    """Return controls over what `view` makes of their values, given by name: a text and a PNG, either of them empty.

    Raises what `view` raises for the values that the controls start at. What a later move raises is shown in place of
    the text, since Jupyter hides an exception of a control's callback.
    """
    text, picture = ipywidgets.HTML(), ipywidgets.Image(format="png", layout={"max_width": WIDEST})

    def show(written: str, image: bytes) -> None:
        text.value = f"<pre>{html.escape(written)}</pre>" if written else ""
        picture.value, picture.layout.display = image, "" if image else "none"

    def values() -> dict[str, object]:
        return {name: control.value for name, control in controls.items()}

    def move(_: object) -> None:
        try:
            show(*view(**values()))
        except Exception as error:
            show(f"{type(error).__name__}: {error}", b"")

    show(*view(**values()))
    for control in controls.values():
        control.observe(move, "value")
    return ipywidgets.VBox([*controls.values(), text, picture])


def png(figure: Figure) -> bytes:
    """Return a figure as a PNG, and close it."""
    image = io.BytesIO()
    figure.savefig(image, format="png")
    plt.close(figure)
    return image.getvalue()
