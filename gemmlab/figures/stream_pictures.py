"""Time lines of the model of a stream: host above, device below, and what a way of timing counts."""

from collections.abc import Sequence

import ipywidgets
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from gemmlab import stream_model
from gemmlab.figures import controls
from gemmlab.figures.style import COLOURS, STYLE
from gemmlab.stream_model import DEVICE, HOST, Story

ROWS = {HOST: 1.0, DEVICE: 0.0}
LOOKS = {
    "submit": (COLOURS[1], ""),
    "wait": ("white", "...."),
    "compile": (COLOURS[6], "xx"),
    "earlier kernel": (COLOURS[3], "//"),
    "kernel": (COLOURS[0], ""),
}
KERNELS_MS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
SUBMISSIONS_MS = (0.005, 0.01, 0.02)
BATCHES = (1, 2, 5, 10, 20)


def timelines(stories: Sequence[Story]) -> Figure:
    """Return a time line a story, one under another on one scale; an arrow spans what is counted."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            len(stories), 1, figsize=(10, 0.9 + 1.75 * len(stories)), sharex=True, squeeze=False, layout="constrained"
        )
        for axis, story in zip(axes[:, 0], stories, strict=True):
            _draw(axis, story)
        axes[-1, 0].set_xlabel("time in the model (ms); not measured")
        used = dict.fromkeys(span.what for story in stories for span in story.spans)
        handles = [_patch(what) for what in LOOKS if what in used]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    return figure


def batch_player() -> ipywidgets.Widget:
    """Return sliders of a kernel's duration, of the host's submission, and of a batch, above its time line."""
    choices = {
        "kernel_ms": (KERNELS_MS, 0.002),
        "submit_ms": (SUBMISSIONS_MS, 0.01),
        "launches": (BATCHES, 5),
    }
    sliders = {
        name: ipywidgets.SelectionSlider(options=options, value=value, description=name, continuous_update=False)
        for name, (options, value) in choices.items()
    }
    return controls.over(sliders, batch_view)


def batch_view(kernel_ms: float, submit_ms: float, launches: int) -> tuple[str, bytes]:
    """Return what a batch reports for one launch in the model, beside the kernel's own time, and a PNG of it."""
    story = stream_model.batch(kernel_ms, launches, submit_ms)
    reported = story.counted_ms / launches
    text = (
        f"in the model, a launch takes {reported:.4g} ms by the batch, and the kernel {kernel_ms:g} ms: "
        f"{reported / kernel_ms:.3g} times as long"
    )
    return text, controls.png(timelines([story]))


def _draw(axis: Axes, story: Story) -> None:
    for span in story.spans:
        colour, hatch = LOOKS[span.what]
        axis.barh(
            ROWS[span.where],
            span.end - span.begin,
            left=span.begin,
            height=0.6,
            color=colour,
            hatch=hatch,
            edgecolor="0.3",
            linewidth=0.6,
        )
    axis.annotate(
        "", (story.begin, 1.75), (story.end, 1.75), arrowprops={"arrowstyle": "<->", "color": COLOURS[2], "lw": 1.8}
    )
    axis.text(story.end, 1.75, f"  counted: {story.counted_ms:.4g} ms", color=COLOURS[2], va="center", ha="left")
    for moment in (story.begin, story.end):
        axis.axvline(moment, color=COLOURS[2], linewidth=0.8, linestyle=":", zorder=0)
    last = max(span.end for span in story.spans)
    axis.set(yticks=list(ROWS.values()), yticklabels=list(ROWS), ylim=(-0.5, 2.2), xlim=(0, 1.25 * last))
    axis.set_title(story.title, loc="left", fontsize=10)


def _patch(what: str) -> Patch:
    colour, hatch = LOOKS[what]
    return Patch(facecolor=colour, hatch=hatch, edgecolor="0.3", label=what)
