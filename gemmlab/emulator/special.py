"""Special registers: where a thread stands, and clocks (PTX ISA, "Special Registers")."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from .lanes import Batch, uniform

SPECIAL_REGISTERS: dict[str, Callable[[Batch], np.ndarray]] = {
    "%tid.x": lambda b: b.index(5),
    "%tid.y": lambda b: b.index(4),
    "%tid.z": lambda b: b.index(3),
    "%ctaid.x": lambda b: b.index(2),
    "%ctaid.y": lambda b: b.index(1),
    "%ctaid.z": lambda b: b.index(0),
    "%ntid.x": lambda b: uniform(b.block[2], np.uint32),
    "%ntid.y": lambda b: uniform(b.block[1], np.uint32),
    "%ntid.z": lambda b: uniform(b.block[0], np.uint32),
    "%nctaid.x": lambda b: uniform(b.grid[2], np.uint32),
    "%nctaid.y": lambda b: uniform(b.grid[1], np.uint32),
    "%nctaid.z": lambda b: uniform(b.grid[0], np.uint32),
    "%laneid": lambda b: b.linear_thread % np.uint32(32),
    "%warpid": lambda b: b.linear_thread // np.uint32(32),
    "%nwarpid": lambda b: uniform(-(-b.threads // 32), np.uint32),
    "%smid": lambda b: uniform(0, np.uint32),
    "%nsmid": lambda b: uniform(1, np.uint32),
    "%gridid": lambda b: uniform(0, np.uint64),
    "%WARP_SZ": lambda b: uniform(32, np.uint32),
    "%lanemask_eq": lambda b: np.uint32(1) << (b.linear_thread % np.uint32(32)),
    "%lanemask_lt": lambda b: (np.uint32(1) << (b.linear_thread % np.uint32(32))) - np.uint32(1),
    "%lanemask_le": lambda b: (np.uint32(2) << (b.linear_thread % np.uint32(32))) - np.uint32(1),
    "%lanemask_gt": lambda b: ~((np.uint32(2) << (b.linear_thread % np.uint32(32))) - np.uint32(1)),
    "%lanemask_ge": lambda b: ~((np.uint32(1) << (b.linear_thread % np.uint32(32))) - np.uint32(1)),
}
"""PTX ISA, "Special Registers": those that depend on the launch alone. The emulated GPU has one multiprocessor."""

for _where in ("begin", "end", "cap", "0", "1"):
    # Code for debuggers reads them on its way. The emulated system keeps no shared memory for itself: they lie in none.
    SPECIAL_REGISTERS[f"%reserved_smem_offset_{_where}"] = lambda b: uniform(1 << 31, np.uint32)

CLOCKS: dict[str, Callable[[], int]] = {
    "%clock": time.perf_counter_ns,
    "%clock_hi": lambda: time.perf_counter_ns() >> 32,
    "%clock64": time.perf_counter_ns,
    "%globaltimer": time.time_ns,
    "%globaltimer_lo": time.time_ns,
    "%globaltimer_hi": lambda: time.time_ns() >> 32,
}
"""Registers that change while a kernel runs. They count nanoseconds of the machine that the emulator runs on, which say
nothing about a GPU."""
