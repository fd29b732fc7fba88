"""Figures that several notebooks share, by one name, and how all figures look. Each is returned; plt.show() shows it.

Modelled points are hollow and measured ones filled, and each label says which it is.
"""

from gemmlab.figures.request_figures import GAP, MOVED, WANTED, mapping, requests
from gemmlab.figures.roofline_figures import Measured, Modelled, roofline
from gemmlab.figures.style import COLOURS, MARKERS, STYLE
from gemmlab.figures.timing_figures import samples

__all__ = [
    "COLOURS",
    "GAP",
    "MARKERS",
    "MOVED",
    "STYLE",
    "WANTED",
    "Measured",
    "Modelled",
    "mapping",
    "requests",
    "roofline",
    "samples",
]
