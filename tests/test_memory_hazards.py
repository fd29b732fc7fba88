"""Accesses outside arrays, off their alignment, or of bytes that nobody wrote: each with its array, byte and thread."""

import numpy as np
import pytest

from gemmlab import emulator as cp
from gemmlab.emulator.layout import RED_ZONE, plain_name, shared_layout
from gemmlab.emulator.ptx import Variable

OPTIONS = ("--std=c++17",)


def kernel(source):
    return cp.RawKernel(source, "k", OPTIONS)


def traced(source, grid, block, *args, shared_mem=0):
    return cp.trace(kernel(source), (grid,), (block,), args, shared_mem)


def ramp(n, dtype=np.float32):
    return cp.asarray(np.arange(n, dtype=dtype))


def the(trace, kind):
    (hazard,) = trace.hazards
    assert hazard.kind == kind
    return hazard


# Where shared arrays lie


def shared(name, nbytes, align=4, extern=False):
    return Variable(name, "shared", nbytes, align, extern)


def test_shared_arrays_keep_their_banks_and_stand_apart():
    layout = shared_layout([shared("a", 132), shared("b", 4), shared("c", 64, 16), shared("d", 0, 16, extern=True)])
    # packed: a at 0, b at 132, c at 144, d at 208
    assert [layout.offsets[name] % 1024 for name in "abcd"] == [0, 132, 144, 208]
    assert layout.static_bytes == 208
    ends = {region.name: region.end for region in layout.regions(256)}
    for before, after in ("ab", "bc", "cd"):
        assert layout.offsets[after] - ends[before] >= RED_ZONE


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("_ZZ4gemmE2As", "As"),
        ("_ZZ4gemmE2As_0", "As"),
        ("_ZZ1kILi32EEvPKfE4tile", "tile"),
        ("_ZL5table", "table"),
        ("tile", "tile"),
        ("_Z", "_Z"),
    ],
)
def test_messages_call_an_array_by_the_name_in_the_source(mangled, name):
    assert plain_name(mangled) == name


def test_each_kernel_of_a_source_has_only_its_own_shared_arrays():
    source = """extern "C" __global__ void other(float* y) {
    __shared__ float big[8000]; big[threadIdx.x] = y[0]; __syncthreads(); y[threadIdx.x] = big[31 - threadIdx.x];
}
extern "C" __global__ void k(float* y) {
    __shared__ float big[8000]; big[threadIdx.x] = y[0]; __syncthreads(); y[threadIdx.x] = big[31 - threadIdx.x];
}"""
    # together they would be 64,000 bytes and pass the limit of 49,152
    assert not traced(source, 1, 32, ramp(32)).hazards[1:]


# Out of bounds


def test_an_index_past_a_shared_array_does_not_reach_the_next_one():
    source = """extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float a[32], b[32];
    a[threadIdx.x] = x[threadIdx.x]; b[threadIdx.x] = -x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = a[threadIdx.x + 1] + b[threadIdx.x];
}"""
    hazard = the(traced(source, 1, 32, ramp(32), cp.zeros(32, np.float32)), "out-of-bounds")
    assert (hazard.space, hazard.array, hazard.offset, hazard.count) == ("shared", "a", 128, 1)
    assert hazard.threads == ((31, 0, 0),) and hazard.line == 5
    assert "reads 4 bytes at byte 128 of a, which has 128 bytes" in hazard.message


def test_an_index_before_a_shared_array_is_outside_too():
    source = """extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float a[32], b[32];
    a[threadIdx.x] = x[threadIdx.x]; b[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = a[threadIdx.x] + b[(int)threadIdx.x - 2];
}"""
    hazard = the(traced(source, 1, 32, ramp(32), cp.zeros(32, np.float32)), "out-of-bounds")
    assert (hazard.array, hazard.offset, hazard.count) == ("b", -8, 2)


def test_dynamic_shared_memory_ends_at_the_bytes_of_the_launch():
    source = """extern "C" __global__ void k(const float* x, float* y) {
    extern __shared__ float tile[];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x];
}"""
    trace = traced(source, 1, 32, ramp(32), cp.zeros(32, np.float32), shared_mem=96)
    assert [(h.kind, h.array, h.line, h.offset, h.count) for h in trace.hazards] == [
        ("out-of-bounds", "tile", 3, 96, 8),
        ("out-of-bounds", "tile", 5, 96, 8),
    ]
    with pytest.raises(cp.KernelFault, match=r"line 3: thread \(24, 0, 0\) .* writes 4 bytes at byte 96 of tile"):
        kernel(source)((1,), (32,), (ramp(32), cp.zeros(32, np.float32)), shared_mem=96)


def test_a_negative_index_in_a_32_bit_register_finds_its_array():
    source = """extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[128];
    int t = threadIdx.x, half = t / 64;
    s[t] = x[t];
    __syncthreads();
    y[t] = s[64 * half - t % 64 + 63];
}"""
    y = cp.zeros(128, np.float32)
    assert traced(source, 1, 128, ramp(128), y).ok
    np.testing.assert_array_equal(y.get(), np.arange(128).reshape(2, 64)[:, ::-1].reshape(-1))


@pytest.mark.parametrize(("index", "offset", "count"), [("- 1", -1, 1), ("+ 2", 4, 2)])
def test_one_byte_before_or_after_a_global_array_is_outside(index, offset, count):
    reads = f"""extern "C" __global__ void k(const unsigned char* x, unsigned char* y) {{
    y[threadIdx.x] = x[(int)threadIdx.x {index}];
}}"""
    hazard = the(traced(reads, 1, 4, ramp(4, np.uint8), cp.zeros(4, np.uint8)), "out-of-bounds")
    assert (hazard.array, hazard.offset, hazard.count) == ("x", offset, count)
    writes = f"""extern "C" __global__ void k(unsigned char* y) {{ y[(int)threadIdx.x {index}] = 7; }}"""
    y = cp.zeros(4, np.uint8)
    assert the(traced(writes, 1, 4, y), "out-of-bounds").count == count
    assert (y.get() == 7).sum() == 4 - count


def test_a_pointer_to_nothing_is_in_no_array():
    source = """extern "C" __global__ void k(unsigned long long address, float* y) {
    y[threadIdx.x] = ((float*)address)[threadIdx.x];
}"""
    trace = traced(source, 1, 4, np.uint64(64), cp.zeros(4, np.float32))
    assert "address 0x40, which is in no array" in the(trace, "out-of-bounds").message


def test_an_array_of_a_thread_ends_too():
    source = """extern "C" __global__ void k(const float* x, float* y, int n) {
    float a[16];
    for (int i = 0; i < 16; ++i) a[i] = x[i];
    for (int i = 0; i < n; ++i) a[i * 7 % 16] += 1;
    y[threadIdx.x] = a[n];
}"""
    hazard = the(traced(source, 1, 32, ramp(16), cp.zeros(32, np.float32), np.int32(20)), "out-of-bounds")
    assert (hazard.space, hazard.line, hazard.offset, hazard.count) == ("local", 5, 80, 32)


def test_a_fault_is_counted_over_blocks_and_iterations_but_told_once():
    source = """extern "C" __global__ void k(const float* x, float* y, int n) {
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += x[i];
    y[32 * blockIdx.x + threadIdx.x] = sum;
}"""
    hazard = the(traced(source, 3, 32, ramp(10), cp.zeros(96, np.float32), np.int32(12)), "out-of-bounds")
    assert (hazard.count, hazard.offset) == (2 * 96, 40)
    assert "192 accesses in all" in hazard.message


# Misaligned


def test_a_misaligned_vector_in_shared_memory():
    source = """extern "C" __global__ void k(const float* x, float* y) {
    __shared__ __align__(16) float s[40];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < 8) { float4 v = *(float4*)&s[4 * threadIdx.x + 1]; y[threadIdx.x] = v.x + v.w; }
}"""
    hazard = the(traced(source, 1, 40, ramp(40), cp.zeros(8, np.float32)), "misaligned")
    assert (hazard.space, hazard.array, hazard.offset, hazard.bytes, hazard.count) == ("shared", "s", 4, 16, 8)


# Bytes that nobody wrote


PADDED = """extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[8][9];
    s[threadIdx.x / 8][threadIdx.x % 8] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x / 8][threadIdx.x % 8 + SHIFT];
}"""


def test_a_padding_column_that_nobody_wrote_may_not_be_read():
    hazard = the(traced(PADDED.replace("SHIFT", "1"), 1, 64, ramp(64), cp.zeros(64, np.float32)), "uninitialized")
    # thread 7 reads column 8 of row 0, at byte 32; 8 rows have such a thread
    assert (hazard.array, hazard.line, hazard.offset, hazard.count) == ("s", 5, 32, 8)
    assert hazard.threads == ((7, 0, 0),)


def test_a_padding_column_that_nobody_reads_is_no_hazard():
    assert traced(PADDED.replace("SHIFT", "0"), 1, 64, ramp(64), cp.zeros(64, np.float32)).ok


def test_every_block_starts_with_empty_shared_memory():
    source = """extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[32];
    if (blockIdx.x == 0) s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[32 * blockIdx.x + threadIdx.x] = s[threadIdx.x];
}"""
    hazard = the(traced(source, 3, 32, ramp(32), cp.zeros(96, np.float32)), "uninitialized")
    assert (hazard.block, hazard.count) == ((1, 0, 0), 64)


def test_three_bytes_of_a_word_are_not_the_word():
    source = """extern "C" __global__ void k(const unsigned char* x, unsigned* y) {
    __shared__ __align__(4) unsigned char s[4];
    if (threadIdx.x < 3) s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) y[0] = *(unsigned*)s;
}"""
    hazard = the(traced(source, 1, 32, ramp(3, np.uint8), cp.zeros(1, np.uint32)), "uninitialized")
    assert (hazard.offset, hazard.bytes, hazard.count) == (3, 4, 1)


def test_a_variable_of_a_thread_needs_a_value():
    source = """extern "C" __global__ void k(const float* x, float* y, int n) {
    float a[16];
    for (int i = 0; i < n; ++i) a[i] = x[i];
    y[threadIdx.x] = a[(threadIdx.x + n) % 16];
}"""
    hazard = the(traced(source, 1, 32, ramp(16), cp.zeros(32, np.float32), np.int32(8)), "uninitialized")
    # a[8..15] have no value: threads 0..7 and 16..23 read those
    assert (hazard.space, hazard.line, hazard.offset, hazard.count) == ("local", 4, 32, 16)


COPY = """extern "C" __global__ void k(const float* x, float* y, int n) {
    if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x];
}"""


def test_an_array_that_was_never_filled_may_not_be_read():
    hazard = the(traced(COPY, 1, 32, cp.empty(32, np.float32), cp.zeros(32, np.float32), np.int32(32)), "uninitialized")
    assert (hazard.array, hazard.count, hazard.line) == ("x", 32, 2)
    assert "x[0]" in hazard.message and "cp.zeros" in hazard.message


def test_an_array_that_was_never_filled_may_be_written_whole_but_not_in_part():
    assert traced(COPY, 1, 32, ramp(32), cp.empty(32, np.float32), np.int32(32)).ok
    hazard = the(traced(COPY, 1, 32, ramp(32), cp.empty(32, np.float32), np.int32(24)), "uninitialized")
    assert (hazard.array, hazard.count, hazard.offset) == ("y", 8, 96)
    assert "8 of 32 elements of y were never written, the first is y[24]" in hazard.message


def test_what_one_traced_launch_wrote_the_next_may_read():
    x = cp.empty(32, np.float32)
    traced(COPY, 1, 32, ramp(32), x, np.int32(24))
    hazard = the(traced(COPY, 1, 32, x, cp.zeros(32, np.float32), np.int32(32)), "uninitialized")
    assert (hazard.count, hazard.offset) == (8, 96)


def test_what_an_untraced_launch_wrote_is_taken_as_filled():
    x = cp.empty(32, np.float32)
    kernel(COPY)((1,), (32,), (ramp(32), x, np.int32(32)))
    assert traced(COPY, 1, 32, x, cp.zeros(32, np.float32), np.int32(32)).ok


@pytest.mark.parametrize("fill", [lambda x: x.fill(1), lambda x: x.set(np.ones(32, np.float32))])
def test_what_the_host_filled_may_be_read(fill):
    x = cp.empty(32, np.float32)
    fill(x)
    assert traced(COPY, 1, 32, x, cp.zeros(32, np.float32), np.int32(32)).ok


def test_outputs_are_counted_element_by_element():
    trace = traced(COPY, 1, 32, ramp(32), cp.zeros(32, np.float32), np.int32(5))
    (output,) = trace.outputs
    assert (output.array, output.elements, output.unwritten, output.first_unwritten) == ("y", 32, 27, "y[5]")


def test_an_array_without_elements_is_no_hazard():
    trace = traced(COPY, 1, 32, cp.empty(0, np.float32), cp.empty((3, 0), np.float32), np.int32(0))
    assert trace.ok
    assert [(output.elements, output.unwritten) for output in trace.outputs] == [(0, 0)]


# Whole requests at fault, and copies of a part


@pytest.mark.parametrize(
    ("start", "kind"), [("2 + 4 * threadIdx.x", "misaligned"), ("256 + 4 * threadIdx.x", "out-of-bounds")]
)
@pytest.mark.parametrize("result", ["", "*(int*)y = "])
def test_atomics_of_which_every_lane_is_at_fault_are_told_and_change_nothing(start, kind, result):
    source = f"""extern "C" __global__ void k(char* y) {{
    {result}atomicAdd((int*)(y + {start}), 1);
}}"""
    y = cp.zeros(256, np.int8)
    hazards = [h for h in traced(source, 1, 3, y).hazards if h.kind != "race"]
    assert [(h.kind, h.line, h.array, h.bytes, h.count) for h in hazards] == [(kind, 2, "y", 4, 3)]
    assert not y.get().any()


FILLED_UP = """#include <cuda_pipeline.h>
extern "C" __global__ void k(float* x, float* y, int n) {
    __shared__ __align__(16) float s[64];
    int t = threadIdx.x;
    if (t < n) x[t] = t;
    __syncthreads();
    int left = min(max(n - 4 * t, 0), 4);
    unsigned to = __cvta_generic_to_shared(&s[4 * t]);
    if (t < 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(&x[4 * t + SHIFT]), "r"(4 * left));
    if (t >= n) x[t] = 7;
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    y[t] = s[t];
}"""


@pytest.mark.parametrize("n", [61, 62, 63, 64])
def test_a_copy_that_is_filled_up_with_zeros_touches_the_bytes_of_its_size_alone(n):
    y = cp.empty(64, np.float32)
    trace = traced(FILLED_UP.replace("SHIFT", "0"), 1, 64, cp.empty(64, np.float32), y, np.int32(n))
    assert trace.ok
    np.testing.assert_array_equal(y.get(), np.where(np.arange(64) < n, np.arange(64), 0))
    # 16 lanes ask for 16 bytes each, in one request
    (access,) = [a for a in trace.accesses if a.op == "cp.async.global"]
    assert (access.requests, access.sectors) == (1, 8)


def test_a_copy_that_is_filled_up_must_be_aligned_all_the_same():
    trace = traced(
        FILLED_UP.replace("SHIFT", "1"), 1, 64, cp.empty(68, np.float32), cp.empty(64, np.float32), np.int32(61)
    )
    faults = [h for h in trace.hazards if h.kind == "misaligned"]
    assert [(h.line, h.array, h.bytes, h.offset, h.count) for h in faults] == [(10, "x", 16, 4, 16)]


def test_a_launch_that_forgets_its_dynamic_shared_memory_is_told_so():
    source = """extern "C" __global__ void k(float* y) {
    extern __shared__ float s[];
    s[threadIdx.x] = 1.0f;
    y[threadIdx.x] = 1.0f;
}"""
    hazard = the(traced(source, 1, 32, cp.zeros(32, np.float32)), "out-of-bounds")
    assert (hazard.line, hazard.space, hazard.array, hazard.offset, hazard.count) == (3, "shared", "s", 0, 32)
    assert "byte 0 of s, which has 0 bytes" in hazard.message and "shared_mem=bytes" in hazard.message
    assert traced(source, 1, 32, cp.zeros(32, np.float32), shared_mem=128).ok
