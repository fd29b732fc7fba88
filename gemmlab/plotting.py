"""Figures that several notebooks share, by one name, and how all figures look. Each is returned; plt.show() shows it.

Modelled points are hollow and measured ones filled, and each label says which it is.
"""

from gemmlab.request_figures import GAP, MOVED, WANTED, mapping, requests
from gemmlab.roofline_figures import Measured, Modelled, roofline
from gemmlab.style import COLOURS, MARKERS, STYLE
from gemmlab.timing_figures import samples

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
