"""The figures that all rungs' notebooks draw, by one name. Each is returned; plt.show() shows it.

Modelled points are hollow and measured ones filled, and each label says which it is.
"""

from gemmlab.figures.request_figures import mapping, requests
from gemmlab.figures.roofline_figures import Measured, Modelled, roofline
from gemmlab.figures.timing_figures import samples

__all__ = ["Measured", "Modelled", "mapping", "requests", "roofline", "samples"]
