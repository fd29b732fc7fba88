"""Other layouts of rung 5's kernel, to count beside its own: the source with a part of it rewritten.

Each function takes the source, the rung's own unless given, and raises ValueError where it does not find what it
rewrites, as in a source that was edited.
"""

import re

from gemmlab import launch
from gemmlab.ladder import Rung, rung
from gemmlab.launch import Kernel

VECTORIZED = rung("vectorized")
PLACE = "return (i / 4 * threads + t) * 4 + i % 4;"
IN_A_ROW = "return t * (threads == BM / TM ? TM : TN) + i;"
DECLARED, SCATTER, READ = (
    r"float As\[BK\]\[BM \+ PAD\];  // transposed",
    r"As\[a_k \+ 0\].*\n.*\n.*\n +As\[a_k \+ 3\].*",
    r"for \(int i = 0; i < TM; i \+= 4\)\n( +)store_quad\(&a\[i\], load_quad\(&As\[k\]\[(.*)\]\)\);",
)
UNROLLED = r"#pragma unroll\n( +for \(int k = 0)"
SCALAR, VECTOR = "gemm<false>(", "gemm<true>("


def side_by_side(source: str | None = None) -> str:
    """A thread owns TM neighbouring rows and TN neighbouring columns, in place of quads that are dealt out."""
    return _rewritten(source, (re.escape(PLACE), IN_A_ROW))


def untransposed(source: str | None = None) -> str:
    """A's tile lies as A does, As[BM][BK]: four floats are stored at once, and read one by one down a column."""
    return _rewritten(
        source,
        (DECLARED, "float As[BM][BK];"),
        (SCATTER, "store_quad(&As[a_row + i * A_ROWS][a_k], a4[i]);"),
        (READ, r"for (int i = 0; i < TM; ++i)\n\1a[i] = As[\2][k];"),
    )


def step_by_step(source: str | None = None) -> str:
    """The steps of k stay a loop, so that the compiler cannot make one load of what several steps need."""
    return _rewritten(source, (UNROLLED, r"#pragma unroll 1\n\1"))


def padded_B(source: str | None = None) -> str:
    """Rows of B's tile are four floats longer than they need be."""
    return _rewritten(source, (re.escape("float Bs[BK][BN];"), "float Bs[BK][BN + 4];"))


def always_vector(source: str | None = None) -> str:
    """Every access to global memory is one of 16 bytes, whatever the length of a row."""
    return _rewritten(source, (re.escape(SCALAR), VECTOR))


def padded(by: int, source: str | None = None, of: Rung = VECTORIZED) -> Kernel:
    """Return the kernel with rows of A's transposed tile longer by any number of floats, 0 too."""
    kernel = launch.of(of, source=source)
    others = tuple(option for option in kernel.options if not option.startswith("-DPAD="))
    return Kernel(kernel.source, kernel.entry, (*others, f"-DPAD={by}"), kernel.geometry)


def _rewritten(source: str | None, *changes: tuple[str, str]) -> str:
    text = source or VECTORIZED.source()
    for pattern, new in changes:
        text, times = re.subn(pattern, new, text)
        if times != 1:
            raise ValueError(f"the source holds {pattern!r} {times} times, not once: start from rung 5's own")
    return text
