"""A kernel from anywhere cannot hang the process, exhaust its memory or reach what is not its own."""

import time

import numpy as np
import pytest

from gemmlab import emulator as cp
from gemmlab.emulator.machine import ON_CHIP_BYTES, STEPS_PER_LOOK, WATCHED_BYTES
from gemmlab.emulator.memory import CAPACITY, GlobalMemory
from gemmlab.emulator.observer import Observer
from gemmlab.emulator.shadow import Shadow


@pytest.fixture
def limit():
    """Restore the time limit, whatever a test makes of it."""
    before = cp.time_limit()
    yield cp.time_limit
    cp.time_limit(before)


def kernel(body, parameters="float* y"):
    return cp.RawKernel(f'extern "C" __global__ void k({parameters}) {{ {body} }}', "k", ("--std=c++17",))


def fault(body, *args, parameters="float* y", grid=1, block=32, shared_mem=0):
    with pytest.raises(cp.KernelFault) as stopped:
        kernel(body, parameters)((grid,), (block,), args, shared_mem=shared_mem)
    return stopped.value.hazard


def floats(n):
    return cp.zeros(n, np.float32)


LARGEST_GRID = (2**31 - 1, 65535, 65535)


@pytest.mark.parametrize("body", ["", "if (blockIdx.x == 1u << 30) y[threadIdx.x] = 1;"])
def test_the_time_limit_holds_from_batch_to_batch_of_the_largest_grid(limit, body):
    limit(0.2)
    with pytest.raises(cp.KernelFault, match=r"stopped after 0\.2 s"):
        kernel(body)(LARGEST_GRID, (1,), (floats(1),))
    trace = cp.trace(kernel(body), LARGEST_GRID, (1,), (floats(1),))
    assert [hazard.kind for hazard in trace.hazards] == ["timeout"]


@pytest.mark.parametrize(
    "body",
    [
        "for (;;) __syncthreads();",
        "while (*(volatile float*)y == 0);",
        "if (threadIdx.x == 0) while (*(volatile float*)y == 0); __syncthreads();",
        'for (;;) printf("%d ", threadIdx.x);',
    ],
)
def test_a_kernel_that_never_ends_is_stopped(limit, body, capsys):
    limit(0.3)
    assert fault(body, floats(1), block=64).kind == "timeout"


class Slow(Observer):
    """Each access takes a second of a clock of its own."""

    now = 0.0

    def access(self, site, frame, address, mask):
        self.now += 1

    def monotonic(self):
        return self.now


def test_the_time_limit_holds_where_single_instructions_are_slow_and_no_block_ends(limit, monkeypatch):
    limit(50)
    slow = Slow()
    monkeypatch.setattr("gemmlab.emulator.machine.time", slow)
    body = "".join(f"y[{i}] = {i};" for i in range(1000))
    trace = cp.trace(kernel(body, "volatile float* y"), (1,), (1,), (floats(1000),), observers=(slow,))
    assert [hazard.kind for hazard in trace.hazards] == ["timeout"]
    assert 50 < slow.now <= 50 + STEPS_PER_LOOK


def test_launches_that_share_a_budget_of_time_end_together_and_the_limit_of_each_is_back_after_it(limit):
    limit(60)
    spin, begin = kernel("while (*(volatile float*)y == 0);"), time.process_time()
    with cp.time_budget(0.3):
        for _ in range(3):
            with pytest.raises(cp.KernelFault, match=r"the time for all launches together is up"):
                spin((1,), (1,), (floats(1),))
    assert time.process_time() - begin < 10  # and not 60 each
    kernel("y[0] = 1.0f;")((1,), (1,), (floats(1),))
    limit(0.2)
    with pytest.raises(cp.KernelFault, match=r"stopped after 0\.2 s"):
        spin((1,), (1,), (floats(1),))


FLOOD = 'for (int i = 0; i < 100; ++i) printf("%.50d", 7);'
# of 400 texts of 50 digits, 20 are 1000 characters
SHOWN = "".join(
    [
        ("0" * 49 + "7") * 20,
        "\n(printf stops here: a launch shows 1,000 characters at most)\n",
        "(printf: 380 more calls, each by one thread, were left out)\n",
    ]
)


def test_a_flood_of_output_ends_and_says_how_much_was_left_out(capsys, monkeypatch):
    monkeypatch.setattr("gemmlab.emulator.printf.MOST_PRINTED", 1000)
    for _ in range(2):  # each launch has its own share
        kernel(FLOOD)((1,), (4,), (floats(1),))
        assert capsys.readouterr().out == SHOWN


def test_a_flood_of_output_that_a_fault_stops_says_how_much_was_left_out_too(capsys, monkeypatch):
    monkeypatch.setattr("gemmlab.emulator.printf.MOST_PRINTED", 1000)
    assert fault(f"{FLOOD} y[7] = 1.0f;", floats(1), block=4).kind == "out-of-bounds"
    assert capsys.readouterr().out == SHOWN


def test_output_that_just_fits_is_whole(capsys, monkeypatch):
    monkeypatch.setattr("gemmlab.emulator.printf.MOST_PRINTED", 1000)
    kernel(FLOOD.replace("100", "5"))((1,), (4,), (floats(1),))
    assert capsys.readouterr().out == ("0" * 49 + "7") * 20


def test_a_million_threads_that_print_fill_a_mebibyte_and_no_more(capsys):
    kernel('printf("%.19d\\n", blockIdx.x);')((4096,), (256,), (floats(1),))
    printed = capsys.readouterr().out
    # 2**20 characters hold 52,428 lines of 20; 2**20 threads are 996,148 more
    assert printed.count("\n") == 52_428 + 3 and "996,148 more calls" in printed and len(printed) < 2**20 + 200


LONG_STRINGS = "char b[4096]; for (int i = 0; i < 4096; ++i) b[i] = 'A';"  # of which none ends


def test_thousands_of_threads_that_print_long_strings_of_their_own_take_seconds(capsys):
    begin = time.process_time()  # of this process alone, whatever else the machine does
    kernel(f'{LONG_STRINGS} printf("%s|", b);')((4,), (1024,), (floats(1),))
    assert time.process_time() - begin < 10
    # 2**20 characters hold 255 texts of 4097
    shown, _, rest = capsys.readouterr().out.partition("\n")
    assert shown == ("A" * 4096 + "|") * 255 and "3,841 more calls" in rest


@pytest.mark.parametrize("form", ['"%s|", b', "b", "b + threadIdx.x"])
def test_the_time_limit_holds_while_strings_are_printed(limit, form):
    limit(0.2)
    assert fault(f"{LONG_STRINGS} printf({form});", floats(1), grid=16, block=1024).kind == "timeout"


@pytest.mark.parametrize("shape", [1 << 40, 1 << 62, 1 << 70, (1 << 40, 1 << 40), (1 << 32, 1 << 30)])
def test_more_memory_than_the_gpu_has_is_refused_with_both_numbers(shape):
    with pytest.raises(MemoryError, match=rf"cannot allocate [\d,]+ bytes: the emulated GPU has {CAPACITY:,}"):
        cp.empty(shape, np.float32)


def test_memory_that_is_no_longer_held_is_free_again(monkeypatch):
    memory = GlobalMemory()
    monkeypatch.setattr("gemmlab.emulator.memory.CAPACITY", 1000)
    held = memory.allocate(700, "held")
    with pytest.raises(
        MemoryError, match="cannot allocate 400 bytes: the emulated GPU has 1,000, of which 700 are in use"
    ):
        memory.allocate(400, "more")
    del held
    memory.allocate(1000, "all")


def test_local_memory_of_a_thread_is_limited():
    body = "volatile float a[200000]; for (int i = 0; i < n; ++i) a[i * 7919 % 200000] = i; y[threadIdx.x] = a[n];"
    refused = fault(body, floats(32), np.int32(3), parameters="float* y, int n")
    assert refused.kind == "launch" and "800000 > 524288 bytes of local memory a thread" in refused.message


class Largest(Observer):
    """The most bytes that the blocks of one batch hold."""

    held = 0

    def start(self, frame):
        rows = frame.batch.blocks * frame.shared.nbytes, frame.batch.blocks * frame.batch.threads * frame.local.nbytes
        self.held = max(self.held, sum(rows))


def test_blocks_with_much_memory_run_few_at_a_time():
    source = kernel("extern __shared__ float s[]; s[blockIdx.x] = 1; y[blockIdx.x] = s[blockIdx.x];")
    source.max_dynamic_shared_size_bytes = shared_mem = 200_000
    largest = Largest()
    trace = cp.trace(source, (300,), (1,), (floats(300),), shared_mem, (largest,))
    # 300 such blocks have 60 MB
    assert trace.ok and shared_mem < largest.held <= WATCHED_BYTES < ON_CHIP_BYTES


def test_stores_that_run_wild_change_no_array():
    arrays = [cp.asarray(np.arange(100, dtype=np.float32)) for _ in range(5)]
    body = "for (int i = 1; i < n; ++i) y[(long long)i * i * i * 1234567891ll + 100] = 7;"
    trace = cp.trace(kernel(body, "float* y, int n"), (4,), (256,), (arrays[2], np.int32(300)))
    (hazard,) = [h for h in trace.hazards if h.array == "y"]
    assert hazard.kind == "out-of-bounds"
    for array in arrays:
        np.testing.assert_array_equal(array.get(), np.arange(100))


@pytest.mark.parametrize(
    ("number", "count", "said"),
    [(16, 32, "barrier 16 for 32 threads"), (1, 40, "barrier 1 for 40 threads"), (-1, 32, "barrier 4294967295")],
)
def test_a_barrier_that_does_not_exist_is_a_fault(number, count, said):
    body = 'asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(count));'
    parameters = "float* y, int number, int count"
    stopped = fault(body, floats(1), np.int32(number), np.int32(count), parameters=parameters)
    assert stopped.kind == "divergent-barrier" and said in stopped.message


def test_a_call_without_end_is_refused():
    source = """__device__ __noinline__ int f(volatile int* p) { return f(p) + p[0]; }
extern "C" __global__ void k(int* y) { y[0] = f(y); }"""
    with pytest.raises(cp.UnsupportedInstruction, match="calls itself"):
        cp.RawKernel(source, "k")((1,), (1,), (cp.zeros(1, np.int32),))


def test_a_block_copy_that_runs_out_of_its_array_is_few_findings():
    trace = cp.trace(kernel("memset(y, 0, 1024);"), (1,), (1,), (floats(64),))
    (found,) = [hazard for hazard in trace.hazards if hazard.kind == "out-of-bounds"]
    # 1024 bytes less the 64 floats, one by one
    assert (found.offset, found.count) == (256, 1024 - 256)


def test_a_race_is_told_of_more_accesses_than_16_bits_count():
    pair = Shadow(16).pair("readers")
    at, lane = np.array([0]), np.array([3])
    concurrent = lambda who, when, at, now: np.ones(at.shape, bool)  # noqa: E731
    pair.add(at, lane, lane, 1, 40_000, concurrent)
    pair.add(at, lane + 1, lane + 1, 2, 40_001, concurrent)
    assert [record.take(at) for record in (pair.low, pair.high)] == [(3, 1, 40_000), (4, 2, 40_001)]


@pytest.mark.parametrize("text", ["}", "{", ".reg .b32 zz<0>", "ret; }"])
def test_inline_ptx_that_breaks_the_form_of_its_kernel_is_refused_by_ptxas(text):
    with pytest.raises(cp.CompileError, match="ptxas"):
        kernel(f'asm volatile("{text}");')((1,), (1,), (floats(1),))


def test_more_registers_than_there_can_be_are_refused():
    with pytest.raises(cp.PtxError, match="1048577 registers zz are more than"):
        kernel('asm volatile(".reg .b32 zz<1048577>;");')((1,), (1,), (floats(1),))


def test_more_ptx_than_the_emulator_reads_is_refused(monkeypatch):
    monkeypatch.setattr("gemmlab.emulator.device.MOST_PTX", 100)
    with pytest.raises(cp.CompileError, match=r"makes [\d,]+ characters of PTX of this source, more than the 100"):
        kernel("y[0] = 3.25f;")((1,), (1,), (floats(1),))


def test_a_large_variable_of_a_kernel_begins_as_its_initial_values_and_zeros():
    source = """__device__ int table[5000000] = {7, 8};
extern "C" __global__ void k(const int* at, int* y) { y[threadIdx.x] = table[at[threadIdx.x]]; }"""
    y = cp.zeros(4, np.int32)
    cp.RawKernel(source, "k")((1,), (4,), (cp.asarray(np.array([0, 1, 2, 4_999_999], np.int32)), y))
    np.testing.assert_array_equal(y.get(), [7, 8, 0, 0])


@pytest.mark.parametrize("update", ["atomicMax(s + 100000, 7);", "atomicAdd((int*)y - 100000, 7);"])
def test_an_atomic_of_which_no_lane_is_in_bounds_is_a_finding_and_the_rest_of_the_kernel_runs(update):
    y = floats(32)
    trace = cp.trace(kernel(f"__shared__ int s[4]; {update} y[threadIdx.x] = 3;"), (1,), (32,), (y,))
    assert [(hazard.kind, hazard.count) for hazard in trace.hazards] == [("out-of-bounds", 32)]
    np.testing.assert_array_equal(y.get(), np.full(32, 3))
