"""How figures look: colours that the colour-blind tell apart, and ink on opaque white under dark themes too."""

# The sequence petroff10 (Petroff, "Accessible Color Sequences for Data Visualization", 2021).
COLOURS = ("#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6", "#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
# Every colour that a dark theme might change is set, and backgrounds are opaque.
INK = ("text.color", "axes.labelcolor", "axes.titlecolor", "axes.edgecolor", "xtick.color", "ytick.color")
PAPER = ("figure.facecolor", "axes.facecolor", "savefig.facecolor")
STYLE = dict.fromkeys(INK, "black") | dict.fromkeys(PAPER, "white") | {"savefig.transparent": False, "font.size": 10}
