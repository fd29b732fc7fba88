"""CUTLASS's FP32 GEMM without tensor cores: its shapes in the words of rungs 4 to 6, and a kernel launched as theirs.

Of NVIDIA's two packages `nvidia-cutlass` carries CUTLASS's C++ headers (BSD 3-clause), and in them the SIMT GEMM that
is compared with the rungs; `nvidia-cutlass-dsl` is a language to write kernels in, and holds none. NVRTC compiles a
kernel from the headers as it does a rung, so that nothing is needed but the extra `cutlass`.

CUTLASS names three shapes, M x N x K: of a block of threads (BM, BN, BK), of a warp (WM, WN, BK), of an instruction,
which is 1 x 1 x 1, one FMA of one lane. A lane's tile follows: the warp's 32 lanes stand 8 x 4 where the warp's tile is
taller than wide, else 4 x 8 (default_mma_core_simt.h).
"""

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from gemmlab import roofline
from gemmlab.emulator.lanes import WARP
from gemmlab.gemm import Gemm
from gemmlab.ladder import Geometry
from gemmlab.launch import Kernel

CURE = "install its headers, in gemmlab's own folder, with: .venv/bin/python -m pip install --editable '.[cutlass]'"

SOURCE = r"""
#include <cutlass/cutlass.h>
#undef CUDA_STD_HEADER  // it names a folder of CUDA 13 alone; CuPy brings the same headers without that folder
#define CUDA_STD_HEADER(header) <cuda/std/header>
#include <cutlass/epilogue/thread/linear_combination.h>
#include <cutlass/gemm/kernel/default_gemm.h>
#include <cutlass/gemm/threadblock/threadblock_swizzle.h>

using Rows = cutlass::layout::RowMajor;
using Product = cutlass::gemm::kernel::DefaultGemm<
    float, Rows, 1, float, Rows, 1, float, Rows, float, cutlass::arch::OpClassSimt, cutlass::arch::MAINLOOP,
    cutlass::gemm::GemmShape<BM, BN, BK>, cutlass::gemm::GemmShape<WM, WN, BK>, cutlass::gemm::GemmShape<1, 1, 1>,
    cutlass::epilogue::thread::LinearCombination<float, 1, float, float>,
    cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<>, STAGES, false,
    cutlass::arch::OpMultiplyAdd>::GemmKernel;

extern "C" __global__ void __launch_bounds__(Product::kThreadCount)
gemm_cutlass(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
{
    __shared__ typename Product::SharedStorage storage;
    const typename Product::Params params(
        {M, N, K}, {(M + BM - 1) / BM, (N + BN - 1) / BN, 1}, {const_cast<float*>(A), K}, {const_cast<float*>(B), N},
        {C, N}, {C, N}, {alpha, beta});
    Product()(params, storage);
}
"""


@dataclass(frozen=True)
class Simt:
    """One setting of CUTLASS's SIMT GEMM: shapes as (M, N, K), and how many tiles of A and B a block keeps.

    With 2 stages the next tile waits in registers (CUTLASS's MmaPipelined, since sm_50); with more, further tiles are
    on their way into shared memory by cp.async (MmaMultistage, since sm_80).
    """

    threadblock: tuple[int, int, int]
    warp: tuple[int, int, int]
    stages: int
    instruction: tuple[int, int, int] = (1, 1, 1)

    @property
    def lanes(self) -> tuple[int, int]:
        """The rows and columns in which a warp's lanes stand."""
        rows = 8 if self.warp[0] > self.warp[1] else 4
        return rows, WARP // rows

    @property
    def tile(self) -> dict[str, int]:
        """The setting in rung 6's parameters; PAD is what CUTLASS adds to a row of A's transposed tile."""
        (BM, BN, BK), (WM, WN, _), (rows, columns) = self.threadblock, self.warp, self.lanes
        PAD = WARP // BK if self.stages == 2 else 0
        return {"BM": BM, "BN": BN, "BK": BK, "WM": WM, "WN": WN, "TM": WM // rows, "TN": WN // columns, "PAD": PAD}

    @property
    def threads(self) -> int:
        """Threads of a block: a warp for every warp's tile."""
        return WARP * (self.threadblock[0] // self.warp[0]) * (self.threadblock[1] // self.warp[1])

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory that the tiles of A and B take in a block, every stage's together."""
        tile = self.tile
        return self.stages * roofline.shared_bytes(tile["BM"] + tile["PAD"], tile["BN"], tile["BK"])

    @property
    def requires(self) -> str:
        """The oldest architecture that runs it."""
        return "sm_75" if self.stages == 2 else "sm_80"

    def __str__(self) -> str:
        return f"{_written(self.threadblock)}, warps of {_written(self.warp)}, {self.stages} stages"


# The FP32 SIMT tiles that CUTLASS itself instantiates (cutlass_library/generator.py of CUTLASS 4.2.0, GenerateSM50_Simt
# and GenerateSM80_Simt_f32); the first is what DefaultGemmConfiguration gives who names none.
SETTINGS = (
    Simt((128, 128, 8), (32, 64, 8), 2),
    Simt((128, 64, 8), (64, 32, 8), 2),
    Simt((64, 128, 8), (32, 64, 8), 2),
    Simt((256, 128, 8), (64, 64, 8), 4),
    Simt((128, 256, 8), (64, 64, 8), 4),
    Simt((128, 128, 8), (32, 64, 8), 4),
    Simt((128, 128, 8), (32, 64, 8), 5),
    Simt((64, 128, 8), (32, 64, 8), 5),
)


def headers() -> Path:
    """Return the folder of CUTLASS's headers. Raises FileNotFoundError that says how to install them."""
    package = importlib.util.find_spec("cutlass_library")
    for folder in package.submodule_search_locations or () if package else ():
        include = Path(folder) / "source" / "include"
        if (include / "cutlass" / "cutlass.h").is_file():
            return include
    raise FileNotFoundError(f"CUTLASS is not installed: {CURE}")


def kernel(setting: Simt) -> Kernel:
    """Return CUTLASS's GEMM at a setting, with the rungs' signature. Raises FileNotFoundError as `headers` does.

    CUTLASS builds its launch parameters on the host; here each thread does, in some instructions at its start.
    """
    from cuda import pathfinder

    tile = setting.tile
    macros = {name: tile[name] for name in ("BM", "BN", "BK", "WM", "WN")} | {
        "STAGES": setting.stages,
        "MAINLOOP": "Sm50" if setting.stages == 2 else "Sm80",
    }
    # CUDA's own headers too, which CuPy looks for elsewhere than gemmlab does.
    cuda = [folder for name in ("cudart", "cccl") if (folder := pathfinder.find_nvidia_header_directory(name))]
    # A toolkit keeps CCCL inside its own headers, among them crt/mma.h, which the wheel of cudart does not bring.
    cuda += [str(Path(folder).parent) for folder in cuda if Path(folder).name == "cccl"]
    return Kernel(
        SOURCE,
        "gemm_cutlass",
        (
            "-std=c++17",
            "-default-device",  # some constexpr functions of the headers name no side
            "-w",
            *(f"-I{folder}" for folder in (headers(), *cuda)),
            *(f"-D{name}={value}" for name, value in macros.items()),
        ),
        lambda problem: _geometry(setting, problem),
    )


def shapes_table() -> str:
    """Return CUTLASS's settings as text: its shapes, what they make of a block, warp and lane, and what they cost."""
    lines = [
        f"{'block M x N x K':<16}{'warp M x N':<12}{'stages':>6}{'lanes':>8}{'TM x TN':>9}{'threads':>9}"
        f"{'shared (B)':>12}"
    ]
    for each in SETTINGS:
        tile = each.tile
        lines.append(
            f"{_written(each.threadblock):<16}{_written(each.warp[:2]):<12}{each.stages:>6}{_written(each.lanes):>8}"
            f"{_written((tile['TM'], tile['TN'])):>9}{each.threads:>9}{each.shared_bytes:>12,}"
        )
    return "\n".join(lines)


def _geometry(setting: Simt, problem: Gemm) -> Geometry:
    rows, columns, _ = setting.threadblock
    # Its identity swizzle lets x count the blocks along M.
    return Geometry((-(-problem.M // rows), -(-problem.N // columns), 1), (setting.threads, 1, 1), 0)


def _written(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
