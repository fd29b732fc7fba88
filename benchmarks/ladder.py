"""Write README's ladder of an H200 from the shipped record: the table between its two marks, and the figure.

    python benchmarks/ladder.py

Run it after a new record of all rungs at 4096 x 4096 x 4096 has been shipped; a test notices when it was not.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from gemmlab import ladder_table, measured, published
from gemmlab.figures import ladder_figure
from gemmlab.gemm import Gemm
from gemmlab.ladder import RUNGS
from gemmlab.records import Record

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
FIGURE = ROOT / "gemmlab" / "data" / "figures" / "ladder.png"
FIRST, LAST = "<!-- the ladder, as benchmarks/ladder.py writes it -->\n", "<!-- end of the ladder -->\n"
LADDERS = (published.H200, published.A6000)


def record() -> Record:
    """Return the newest shipped record of an H200 that timed every rung at 4096 x 4096 x 4096."""
    return next(seen for seen in measured.shipped(RUNGS, Gemm(4096, 4096, 4096)) if seen.card == "NVIDIA H200")


def with_ladder(readme: str, seen: Record) -> str:
    """Return the text of a README with the ladder of a record between its marks."""
    before, rest = readme.split(FIRST)
    _, after = rest.split(LAST)
    image = f"![Each rung's speed as a share of cuBLAS: {seen.label}]({FIGURE.relative_to(ROOT).as_posix()})"
    return f"{before}{FIRST}\n{ladder_table.markdown(seen, published.A6000)}\n\n{image}\n\n{LAST}{after}"


def main() -> None:
    """Write both files."""
    seen = record()
    README.write_text(with_ladder(README.read_text(encoding="utf-8"), seen), encoding="utf-8")
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure = ladder_figure.shares([seen], LADDERS)
    figure.savefig(FIGURE, dpi=110, metadata={"Source": ladder_figure.digest([seen], LADDERS), "Software": None})


if __name__ == "__main__":
    main()
