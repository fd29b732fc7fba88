"""One traced launch: the machine with its observers, as rows by source line."""

from __future__ import annotations

from dataclasses import dataclass

from .device import RawKernel, launch
from .divergence import Divergence
from .faults import Hazard, KernelFault
from .hazards import Hazards
from .observer import Observer
from .traffic import Access, Traffic


@dataclass(frozen=True)
class Trace:
    """What a traced launch showed: `accesses` one row a source line and kind of access, `hazards` what was wrong."""

    accesses: tuple[Access, ...]
    hazards: tuple[Hazard, ...]

    @property
    def ok(self) -> bool:
        """True when there is no hazard."""
        return not self.hazards


def trace(
    kernel: RawKernel,
    grid: object,
    block: object,
    args: tuple[object, ...],
    shared_mem: int = 0,
    observers: tuple[Observer, ...] = (),
) -> Trace:
    """Launch a kernel and watch it, with further observers if any. Hazards are collected, not raised: a faulty load
    reads zero, a faulty store writes nothing, and the launch goes on where it can. Raises TypeError and
    nvrtc.CompileError as a plain launch does."""
    traffic, hazards = Traffic(), Hazards()
    watching = (traffic, Divergence(hazards.report), *observers)
    try:
        launch(kernel, grid, block, args, shared_mem, hazards.report, watching)
    except KernelFault as stopped:
        hazards.report(stopped.hazard)
    return Trace(traffic.rows(), hazards.rows)
