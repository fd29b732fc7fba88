"""Controls of a rung's tile: each move compiles, checks and counts again. What they call are plain functions."""

import ipywidgets

from gemmlab import backend, launch, nvrtc, warp
from gemmlab.figures import controls, request_figures
from gemmlab.gemm import Gemm
from gemmlab.gpus import architecture
from gemmlab.ladder import Rung
from gemmlab.resources import occupancy

EXTENTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
PICTURED = Gemm(32, 32, 32)
STEP = 10  # of k, in the middle of a sector
CHECKED = (Gemm(33, 34, 35), Gemm(1, 40, 9), Gemm(40, 1, 9))


def block_shape(rung: Rung, source: str | None = None) -> ipywidgets.Widget:
    """Return sliders of a rung's block, BX and BY, above its report and a picture; `source` may be an edited one.

    Raises what `block_report` raises for the block that the sliders start at. What a later move raises is shown in
    place of the report.
    """
    sliders = {
        name: ipywidgets.SelectionSlider(
            options=EXTENTS, value=rung.tile[name], description=name, continuous_update=False
        )
        for name in ("BX", "BY")
    }
    return controls.over(sliders, lambda BX, BY: block_view(rung, BX, BY, source))


def block_view(rung: Rung, BX: int, BY: int, source: str | None = None) -> tuple[str, bytes]:
    """Return a block's report, and a PNG of its first warp's requests; for one refused, the reason and no picture."""
    refusal = refused(rung, BX, BY)
    if refusal:
        return refusal, b""
    report = block_report(rung, BX, BY, source)
    kernel = launch.of(rung, {"BX": BX, "BY": BY}, source)
    steps = {f"BX = {BX}, BY = {BY}": warp.one_step(kernel, PICTURED, STEP)}
    return report, controls.png(request_figures.requests(steps, PICTURED))


def refused(rung: Rung, BX: int, BY: int) -> str | None:
    """Return why no GPU launches the block, with the rule and both numbers, or None for one that runs."""
    try:
        rung.full_tile({"BX": BX, "BY": BY})
    except ValueError as error:
        return f"not run: {error}"
    return None


def block_report(rung: Rung, BX: int, BY: int, source: str | None = None) -> str:
    """Return what a block costs: what its first warp covers and asks for, the checks it passed, registers, occupancy.

    Raises what a check or a compilation raises, and ValueError for a block that `refused` refuses.
    """
    kernel = launch.of(rung, {"BX": BX, "BY": BY}, source)
    launch.require(launch.check(kernel, CHECKED, ["distinct", "uniform"]))
    arch = backend.architecture()
    used = nvrtc.resources(kernel.source, kernel.entry, kernel.options, arch)
    step = warp.one_step(kernel, PICTURED, STEP)
    sectors = {name: len(request.sectors) for name, request in step.items()}
    rows, columns = step["C"].extent
    return "\n".join(
        (
            f"block: {BX} x {BY} = {BX * BY} threads, {-(-BX * BY // architecture(arch).warp_size)} warps",
            f"the first warp: {len(step['C'].elements)} lanes on {rows} x {columns} outputs (rows x columns) of C",
            f"sectors of its requests: A {sectors['A']}, B {sectors['B']}, C {sectors['C']}; a step of k moves "
            f"{step['A'].moved_bytes + step['B'].moved_bytes} bytes",
            f"correct: {', '.join(f'{p.M} x {p.N} x {p.K}' for p in CHECKED)}, within the error bound",
            f"{used.registers} registers a thread, {used.spill_store_bytes + used.spill_load_bytes} bytes spilled",
            occupancy(arch, BX * BY, used.registers, used.shared_bytes).sentence,
        )
    )
