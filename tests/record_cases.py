"""What the tests of records share: kernels right and wrong, and data of a record as if a card had been timed."""

import copy
import json

from gemmlab import emulator, launch, record
from gemmlab.backend import Backend
from gemmlab.gemm import Gemm
from gemmlab.ladder import rung

EMULATOR = Backend("emulator", emulator, "asked for")
SMALL = Gemm(M=64, N=32, K=16)
NAIVE, COALESCED = launch.of(rung("naive")), launch.of(rung("coalesced"))
BOTH = {"naive": NAIVE, "coalesced": COALESCED}


def edited(name, old, new):
    """A rung's kernel with a piece of its source replaced."""
    source = rung(name).source()
    assert old in source
    return launch.of(rung(name), source=source.replace(old, new))


WRONG = edited("naive", "alpha * sum", "alpha * sum + (row == 3 ? 1.0f : 0.0f)")
RACY = edited("shared_tiles", "        __syncthreads();  // nobody reads a tile before all of it is written\n", "")
BROKEN = edited("naive", "int row", "itn row")
WILD = edited("naive", "C[row * N + col] = value", "C[row * N + col + (row == 0) * (1 << 20)] = value")
# An array that is indexed by what only the launch knows cannot stay in registers, but that is stack and no spill: this
# many values alive at once are more than the 32 registers that the bounds leave a thread.
SPILLING = edited("register_tiles_2d", "__global__ void", "__global__ void __launch_bounds__(256, 6)")
# Samples in milliseconds, made up.
FAST, NEAR, SLOW = [1.0, 1.01, 1.02, 1.03, 1.04], [1.02, 1.03, 1.04, 1.05, 1.06], [1.5, 1.51, 1.52, 1.53, 9.0]


def write_pair(folder):
    """Record rungs 0 and 1 on the emulator."""
    expected = {"coalesced": "A costs a warp 1 sector a step in place of 32"}
    record.write(folder, BOTH, [SMALL], expected=expected, note="one change", where=EMULATOR, seed=3)


def page_of(folder):
    """The page's text, with plain spaces."""
    return (folder / "README.md").read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")


def timed(data, **samples):
    """Data of a record as if a card had been timed; the samples, in milliseconds, are made up."""
    data = copy.deepcopy(data)
    data["environment"] |= {"backend": "cuda", "card": "NVIDIA H200", "driver": "580.159.04", "date": "2026-11-30"}
    for run in data["runs"]:
        how = {"batch": 5, "warmup": 3, "cache": "warm L2", "boundary": "CUDA events", "readings": []}
        run["timing"] = {"samples_ms": samples[run["kernel"]], **how}
    return data


def spoil(folder, *path, value):
    """Set a field of record.json; `...` takes it out."""
    file = folder / "record.json"
    data = json.loads(file.read_text())
    place = data
    for step in path[:-1]:
        place = place[step]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    file.write_text(json.dumps(data))
