"""Rung 2 with one defect each, for tools that look for such; every line stays where the rung has it."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gemmlab import launch
from gemmlab.gemm import Gemm
from gemmlab.ladder import rung
from gemmlab.launch import Kernel

RUNG = rung("shared_tiles")
PROBLEM = Gemm(33, 34, 70)  # three chunks, and blocks with one row and two columns of C


@dataclass(frozen=True)
class Defect:
    """A text of the source and what stands in its place, the emulator's `kind` of hazard, and the tool of
    compute-sanitizer that looks for it.
    """

    right: str
    wrong: str
    kind: str
    tool: str

    @property
    def source(self) -> str:
        """The defective source. Raises ValueError where the rung no longer has the text."""
        source = RUNG.source()
        if source.count(self.right) != 1:
            raise ValueError(f"{RUNG.source_file} has {self.right!r} {source.count(self.right)} times, not once")
        return source.replace(self.right, self.wrong)

    @property
    def kernel(self) -> Kernel:
        """The defective kernel, with the rung's tile."""
        return launch.of(RUNG, source=self.source)


DEFECTS: Mapping[str, Defect] = MappingProxyType(
    {
        "no first barrier": Defect(
            "__syncthreads();  // nobody overwrites", "// nobody overwrites", "race", "racecheck"
        ),
        "no second barrier": Defect("__syncthreads();  // nobody reads", "// nobody reads", "race", "racecheck"),
        "no edge of A": Defect("a_k < left ? *a : 0.0f", "*a", "out-of-bounds", "memcheck"),
        "early return": Defect(
            "float sum = 0.0f;", "if (row >= M || col >= N) return; float sum = 0.0f;", "divergent-barrier", "synccheck"
        ),
    }
)
