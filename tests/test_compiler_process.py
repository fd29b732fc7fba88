"""The compiler runs apart: whatever a source makes it do, this process goes on."""

import io
import os
import pickle
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from gemmlab import compiler_process, nvrtc

KERNEL = 'extern "C" __global__ void k(float* y) { y[0] = %d; }'
# each level holds two of the next: 2^40 templates, which take seconds until they fill the compiler's memory
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


@pytest.fixture
def answering(monkeypatch):
    """Let a function answer for the compiler: it is called with the compiler's pipe once a source has gone there."""

    def instead(answer):
        monkeypatch.setattr(compiler_process, "pickle", SimpleNamespace(**vars(pickle) | {"load": answer}))

    return instead


def while_compiling(answering, act):
    """Do something a moment after a source has gone to the compiler."""

    def answer(pipe):
        threading.Timer(0.3, act).start()
        return pickle.load(pipe)

    answering(answer)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
def test_an_interrupt_stops_a_compilation_and_the_next_one_is_right(answering, monkeypatch):
    nvrtc.compile_ptx(fresh())
    compiling = compiler_process._process(os.getpid())
    while_compiling(answering, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        nvrtc.compile_ptx(ENDLESS)
    assert compiling.returncode == -signal.SIGKILL  # and it did not end by itself
    monkeypatch.undo()
    assert ".entry k(" in nvrtc.compile_ptx(fresh())
    assert number() != compiling.pid


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
def test_a_compiler_that_dies_is_an_error_that_names_the_signal_and_the_next_one_is_right(answering, monkeypatch):
    nvrtc.compile_ptx(fresh())
    while_compiling(answering, compiler_process._process(os.getpid()).kill)
    with pytest.raises(nvrtc.CompileError, match="NVRTC crashed with SIGKILL; it may have 2,048 MiB"):
        nvrtc.compile_ptx(ENDLESS)
    monkeypatch.undo()
    assert ".entry k(" in nvrtc.compile_ptx(fresh())


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
def test_an_answer_that_breaks_off_is_a_compiler_that_died(answering, monkeypatch):
    nvrtc.compile_ptx(fresh())
    process = compiler_process._process(os.getpid())

    def half(pipe):
        process.kill()
        return pickle.load(io.BytesIO(pickle.dumps(("", "", "ptx"))[:-4]))

    answering(half)
    with pytest.raises(nvrtc.CompileError, match="NVRTC crashed with SIGKILL"):
        nvrtc.compile_ptx(fresh())
    monkeypatch.undo()
    assert ".entry k(" in nvrtc.compile_ptx(fresh())


def test_a_compiler_that_ends_by_itself_is_not_taken_for_one_that_was_killed():
    with pytest.raises(compiler_process.CompilerStopped, match=r"^ended with status 1; "):
        compiler_process.compiled("k.cu", fresh(), ("\ud800",), 60.0)  # an option that it cannot encode
    assert ".entry k(" in nvrtc.compile_ptx(fresh())


def test_a_path_among_the_directories_of_modules_stops_no_compilation(monkeypatch):
    compiler_process._end(compiler_process._process(os.getpid()))
    monkeypatch.setattr(sys, "path", [*sys.path, Path("elsewhere")])
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


@pytest.mark.skipif(not os.path.exists("/proc"), reason="limits memory on Linux")
def test_where_no_process_may_have_so_much_the_compiler_has_what_it_may():
    program = (
        "import resource, runpy; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)); "
        f"runpy.run_path({compiler_process.__file__!r})['_limit_memory'](); "
        "print(resource.getrlimit(resource.RLIMIT_AS))"
    )
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert said.strip() == f"({2**30}, {2**30})"


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
def test_a_process_forked_while_another_thread_compiles_compiles_too():
    source = fresh()
    with compiler_process._turn(os.getpid()):  # as a thread holds it that compiles
        child = os.fork()
        if child == 0:
            try:
                right = ".entry k(" in nvrtc.compile_ptx(source)
            finally:
                os._exit(0 if right else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


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
