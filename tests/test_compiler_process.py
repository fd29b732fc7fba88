"""The compiler runs apart: whatever a source makes it do, this process goes on."""

import os
import shlex
import signal
import subprocess
import sys
import threading
import time

import pytest

from gemmlab import compiler_process, nvrtc

KERNEL = 'extern "C" __global__ void k(float* y) { y[0] = %d; }'
# each level holds two of the next: 2^40 templates
ENDLESS = """template <int N, long M>
struct S { static constexpr long v = S<N - 1, 2 * M>::v + S<N - 1, 2 * M + 1>::v; };
template <long M> struct S<0, M> { static constexpr long v = 0; };
extern "C" __global__ void k(long* y) { y[0] = S<40, 0>::v; }
"""
NUMBERS = iter(range(10**6))


def fresh():
    """A source that nothing has compiled before."""
    return KERNEL % next(NUMBERS)


def number():
    """The process that compiles."""
    return compiler_process._process(os.getpid()).pid


def test_one_process_compiles_one_source_after_the_other():
    nvrtc.compile_ptx(fresh())
    first = number()
    nvrtc.compile_ptx(fresh())
    assert number() == first != os.getpid()


def test_a_compilation_without_end_is_stopped_and_the_next_one_is_right(monkeypatch):
    monkeypatch.setattr(nvrtc, "SECONDS", 1.0)
    with pytest.raises(nvrtc.CompileError, match=r"NVRTC took more than 1 s\. .*templates"):
        nvrtc.compile_ptx(ENDLESS)
    monkeypatch.undo()
    assert ".entry k(" in nvrtc.compile_ptx(fresh())


def test_an_interrupt_stops_a_compilation_and_the_next_one_is_right():
    nvrtc.compile_ptx(fresh())
    compiling = number()
    interrupt = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    interrupt.start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        nvrtc.compile_ptx(ENDLESS)
    assert time.monotonic() - begun < 30
    assert ".entry k(" in nvrtc.compile_ptx(fresh())
    assert number() != compiling


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
def test_a_compiler_that_dies_is_an_error_that_names_the_signal_and_the_next_one_is_right():
    nvrtc.compile_ptx(fresh())
    killing = threading.Timer(0.5, os.kill, [number(), signal.SIGKILL])
    killing.start()
    with pytest.raises(nvrtc.CompileError, match="NVRTC crashed with SIGKILL; it may have 2,048 MiB"):
        nvrtc.compile_ptx(ENDLESS)
    assert ".entry k(" in nvrtc.compile_ptx(fresh())


def test_a_compiler_that_died_idle_is_no_fault_of_the_next_source():
    nvrtc.compile_ptx(fresh())
    idle = compiler_process._process(os.getpid())
    idle.kill()
    idle.wait()
    assert ".entry k(" in nvrtc.compile_ptx(fresh())
    assert number() != idle.pid


@pytest.mark.skipif(os.name != "posix", reason="closes standard error as a POSIX shell does")
def test_sources_compile_where_standard_error_is_closed():
    program = f"from gemmlab import nvrtc; print(nvrtc.compile_ptx({fresh()!r}))"
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(program)} 2>&-"
    assert ".entry k(" in subprocess.run(command, shell=True, check=True, capture_output=True, text=True).stdout


@pytest.mark.skipif(not os.path.exists("/proc"), reason="limits memory on Linux")
def test_the_compiler_may_have_so_much_memory():
    nvrtc.compile_ptx(fresh())
    with open(f"/proc/{number()}/limits") as limits:
        (line,) = (line for line in limits if line.startswith("Max address space"))
    assert int(line.split()[3]) == compiler_process.MEMORY_BYTES


def test_threads_that_compile_at_once_get_each_its_own():
    found = {}

    def compiled(value):
        found[value] = nvrtc.compile_ptx(KERNEL % value)

    threads = [threading.Thread(target=compiled, args=[value]) for value in (10**6 + i for i in range(4))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # 10^6 as a float has the bits 49742400 (IEEE 754), and sixteen of their last place make one more
    assert [str(0x49742400 + 16 * i) in found[10**6 + i] for i in range(4)] == [True] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_a_compiler_of_its_own():
    nvrtc.compile_ptx(fresh())
    before, source = number(), fresh()
    child = os.fork()
    if child == 0:
        try:
            right = ".entry k(" in nvrtc.compile_ptx(source) and number() != before
        finally:
            os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert number() == before and ".entry k(" in nvrtc.compile_ptx(fresh())
