"""One traced launch: the machine with its observers, as rows by source line."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from . import report, unset
from .absent import Absent
from .aliasing import aliased_arrays
from .device import REPORTS, RawKernel, launch
from .divergence import Divergence
from .faults import Hazard, KernelFault
from .hazards import Hazards
from .initialized import Initialized, Output
from .observer import Observer
from .races import Races
from .touches import Touches
from .traffic import Access, Total, Traffic, total, totals


@dataclass(frozen=True)
class Trace:
    """What a traced launch showed: `accesses` one row a source line and kind of access, `hazards` what was wrong,
    `outputs` what the kernel wrote of each array that it may write (none where the launch was stopped).

    Printed, or shown by a notebook, it is the kernel's `source` with both beside each line. Rows are dataclasses:
    `pandas.DataFrame(trace.accesses)` makes a table of them, `dataclasses.asdict(row)` a dictionary of one.
    """

    accesses: tuple[Access, ...]
    hazards: tuple[Hazard, ...]
    outputs: tuple[Output, ...] = ()
    source: str = field(default="", repr=False)

    @property
    def ok(self) -> bool:
        """True when there is no hazard."""
        return not self.hazards

    @property
    def totals(self) -> tuple[Total, ...]:
        """Traffic summed over each memory: global, shared, local."""
        return totals(self.accesses)

    def total(self, space: str) -> Total:
        """Traffic summed over one memory, 'global', 'shared' or 'local'; zeros where it was not used."""
        return total(self.accesses, space)

    def __str__(self) -> str:
        return report.text(self.source, self.accesses, self.hazards)

    def _repr_html_(self) -> str:
        return report.html(self.source, self.accesses, self.hazards)


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
    nvrtc.CompileError as a plain launch does.
    """
    traffic, hazards, touches, absent = Traffic(), Hazards(), Touches(), Absent()
    initialized = Initialized(hazards.report, touches)
    divergence = Divergence(hazards.report, report.by_number(kernel.code))
    watching = (traffic, divergence, Races(hazards.report, touches), initialized, absent, *observers)
    suspects: tuple[unset.Suspect, ...] = ()
    try:
        suspects = unset.suspects(kernel)
        repeatable = suspects or kernel.program.kernel.shuffles
        before, begun = unset.contents() if repeatable else [], time.monotonic()
        launch(kernel, grid, block, args, shared_mem, hazards.report, watching)
        took, launching = time.monotonic() - begun, (kernel, grid, block, args, shared_mem)
        found = tuple(unset.findings((*suspects, *absent.suspects(kernel.program)), launching, before, took))
    except KernelFault as stopped:
        hazards.report(stopped.hazard)
        found = tuple(hazard for suspect in suspects if suspect.said for hazard in suspect.hazards)
    except REPORTS as stopped:
        raise stopped.with_traceback(None) from None
    for each in (*found, aliased_arrays(kernel.program.shared, kernel.code)):
        if each:
            hazards.report(each)
    return Trace(traffic.rows(), hazards.rows, initialized.outputs, kernel.code)
