"""What a launch may ask of the chosen architecture (CUDA C++ Programming Guide, "Compute Capabilities")."""

from __future__ import annotations

from math import prod

from gemmlab.gpus import Architecture

Extent = tuple[int, int, int]

LOCAL_BYTES_PER_THREAD = 512 << 10


def extent(value: object, what: str) -> Extent:
    """A grid or block as (x, y, z); TypeError or ValueError for what is none."""
    if not isinstance(value, tuple) or not 1 <= len(value) <= 3:
        raise TypeError(f"{what} is {value!r}, but must be a tuple of one to three ints: (x,), (x, y) or (x, y, z)")
    numbers = []
    for item in value:
        if isinstance(item, bool) or not hasattr(item, "__index__"):
            raise TypeError(f"{what} is {value!r}: {item!r} is no int; use integer division (//) to compute it")
        numbers.append(item.__index__())
    return tuple(numbers + [1] * (3 - len(numbers)))


def shape_problem(arch: Architecture, grid: Extent, block: Extent) -> str | None:
    """Why the architecture refuses this grid and block, or None."""
    for what, extents, limits in (("grid", grid, arch.max_grid), ("block", block, arch.max_block)):
        for axis, n, most in zip("xyz", extents, limits, strict=True):
            if n < 1:
                return f"{what}.{axis} = {n}, but every extent must be at least 1"
            if n > most:
                cure = "put the long side on x" if what == "grid" else "use a smaller block"
                return f"{what}.{axis} = {n} > {most}, the most on {arch.name}; {cure}"
    threads = prod(block)
    if threads > arch.max_threads_per_block:
        shape = " x ".join(map(str, block))
        return f"{threads} threads a block ({shape}) > {arch.max_threads_per_block}; use a smaller block"
    return None


def bounds_problem(threads: int, max_threads: int | None) -> str | None:
    """Why `__launch_bounds__` forbids this many threads a block, or None."""
    if max_threads is not None and threads > max_threads:
        return f"{threads} threads a block > {max_threads}, the kernel's own __launch_bounds__"
    return None


def register_problem(arch: Architecture, threads: int, registers: int) -> str | None:
    """Why the register file cannot hold one block, or None. Registers are handed out a warp at a time."""
    most = most_threads(arch, registers)
    if threads <= most:
        return None
    return (
        f"{registers} registers a thread x {threads} threads = {registers * threads} > {arch.registers_per_block}, the "
        f"registers that one block may have; the largest block that fits has {most} threads, or use "
        f"__launch_bounds__({threads}), which spills"
    )


def most_threads(arch: Architecture, registers: int) -> int:
    """Threads of the largest block whose registers fit, a multiple of the warp."""
    unit = arch.register_allocation_unit
    per_warp = -(-max(registers, 1) * arch.warp_size // unit) * unit
    return min(arch.registers_per_block // per_warp * arch.warp_size, arch.max_threads_per_block)


def local_problem(local_bytes: int) -> str | None:
    """Why a thread may not have this much local memory, or None (CUDA C++ Programming Guide, "Compute Capabilities":
    512 KiB on every architecture).
    """
    if local_bytes <= LOCAL_BYTES_PER_THREAD:
        return None
    return (
        f"{local_bytes} > {LOCAL_BYTES_PER_THREAD} bytes of local memory a thread; make the arrays of a thread "
        "smaller, or keep them in global memory"
    )


def shared_problem(arch: Architecture, static: int, dynamic: int, opted_in: int) -> str | None:
    """Why one block may not have this much shared memory, or None. `opted_in` is the kernel's
    max_dynamic_shared_size_bytes, 0 when it was never set. Once it is set, that many dynamic bytes are the most, be
    they few: the driver refuses more with CUDA_ERROR_INVALID_VALUE, and it refuses to set more than static memory
    leaves (seen on an H200). Raises TypeError where it is no int.
    """
    if dynamic < 0:
        return f"shared_mem = {dynamic}, but must be at least 0"
    if isinstance(opted_in, bool) or not hasattr(opted_in, "__index__"):
        raise TypeError(f"kernel.max_dynamic_shared_size_bytes is {opted_in!r}, but must be an int")
    most, total = arch.shared_bytes_per_block_optin, static + dynamic
    text = f"{dynamic} dynamic + {static} static = {total} > {{}} bytes of shared memory a block"
    if total > most:
        text = text.format(most if opted_in else arch.shared_bytes_per_block)
        return f"{text}; {arch.name} has at most {most}: use smaller tiles"
    if not 0 <= opted_in <= most - static:
        return (
            f"kernel.max_dynamic_shared_size_bytes = {opted_in}, but beside {static} static bytes it can be 0 to "
            f"{most - static} on {arch.name}"
        )
    if opted_in and dynamic > opted_in:
        return (
            f"{dynamic} bytes of dynamic shared memory > {opted_in}, to which kernel.max_dynamic_shared_size_bytes was "
            f"set; set it to {dynamic}"
        )
    if not opted_in and total > arch.shared_bytes_per_block:
        text = text.format(arch.shared_bytes_per_block)
        return f"{text}; set kernel.max_dynamic_shared_size_bytes = {dynamic} first"
    return None
