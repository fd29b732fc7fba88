"""How long the compiler takes for a setting of the resource explorer, rung by rung. No GPU is needed.

    python benchmarks/explorer.py

Compiled is every legal setting that differs from a rung's own tile by one slider, each once and by itself; nothing is
compiled ahead. Printed are the settings one step away and those further, which the explorer compiles ahead in this
order: how many, and the median and the largest time in milliseconds. Nothing else should run meanwhile.
"""

import statistics
import time

from gemmlab import nvrtc
from gemmlab.compilations import Compilations, setting, steps
from gemmlab.figures.resource_explorer import EXPLORED, choices
from gemmlab.ladder import Rung

ARCH = "sm_90"


def changes(of_rung: Rung) -> dict[str, list[dict[str, int]]]:
    """Return the legal tiles that differ from a rung's own by one slider, by how far: 'one step' and 'further'."""
    own = of_rung.full_tile()
    near = steps(of_rung, own, choices(of_rung))
    found: dict[str, list[dict[str, int]]] = {"one step": [], "further": []}
    for name, values in choices(of_rung).items():
        for value in values:
            try:
                tile = of_rung.full_tile({**own, name: value})
            except ValueError:
                continue
            if value != own[name]:
                found["one step" if (name, value) in near else "further"].append(tile)
    return found


def milliseconds(of_rung: Rung, tile: dict[str, int]) -> float:
    """Return how long a setting takes that was not compiled before; one that the compiler refuses counts too."""
    begin = time.perf_counter()
    try:
        Compilations().cost(setting(of_rung, tile, ARCH))
    except nvrtc.CompileError:
        pass
    return (time.perf_counter() - begin) * 1e3


def main() -> None:
    """Print the table."""
    milliseconds(EXPLORED[0], {})  # loads the compiler
    print(f"NVRTC {'.'.join(map(str, nvrtc.version()))}, {ARCH}; milliseconds of one compilation")
    print(f"{'rung':>4}  {'changes':<10}{'settings':>9}{'median':>9}{'largest':>9}")
    for each in EXPLORED:
        for far, tiles in changes(each).items():
            times = [milliseconds(each, tile) for tile in tiles]
            middle, largest = (f"{statistics.median(times):.0f}", f"{max(times):.0f}") if times else ("-", "-")
            print(f"{each.number:>4}  {far:<10}{len(tiles):>9}{middle:>9}{largest:>9}", flush=True)


if __name__ == "__main__":
    main()
