"""Hazards of memory and barriers: small kernels, right and wrong, whose facts are derived by hand beside them."""

import functools

import numpy as np
import pytest

from gemmlab import emulator as cp
from gemmlab.emulator import device
from gemmlab.emulator.machine import Machine

OPTIONS = ("--std=c++17",)


def traced(source, grid, block, *args, shared_mem=0):
    """Trace kernel k of a source whose first line holds its signature, after any #include."""
    return cp.trace(cp.RawKernel(source, "k", OPTIONS), (grid,), (block,), args, shared_mem)


def ramp(n, dtype=np.float32):
    return cp.asarray(np.arange(n, dtype=dtype))


def zeros(n, dtype=np.float32):
    return cp.zeros(n, dtype)


def the(trace):
    """The only hazard."""
    (hazard,) = trace.hazards
    return hazard


def pairs(trace):
    """Races as (array, scope, count)."""
    assert {hazard.kind for hazard in trace.hazards} <= {"race"}
    return [(hazard.array, hazard.scope, hazard.count) for hazard in trace.hazards]


# Races in shared memory


REVERSE = """extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    SYNC
    y[threadIdx.x] = s[63 - threadIdx.x];
}"""


def test_a_read_of_what_another_warp_wrote_needs_a_barrier():
    hazard = the(traced(REVERSE.replace("SYNC", ""), 1, 64, ramp(64), zeros(64)))
    assert (hazard.kind, hazard.array, hazard.scope, hazard.count) == ("race", "s", "crosswarp", 64)
    assert hazard.accesses == ((3, "write"), (5, "read"))
    assert hazard.line == 5 and hazard.lines == (3,) and hazard.block == (0, 0, 0)
    # thread 63 - i reads what thread i wrote
    assert sum(thread[0] for thread in hazard.threads) == 63
    assert "__syncthreads()" in hazard.message


@pytest.mark.parametrize(
    "barrier",
    [
        "__syncthreads();",
        "if (__syncthreads_count(1) != 64) return;",
        'asm volatile("bar.sync 3;");',
        'asm volatile("barrier.sync 4, 64;");',
    ],
)
def test_any_barrier_of_the_whole_block_orders_them(barrier):
    y = zeros(64)
    assert traced(REVERSE.replace("SYNC", barrier), 1, 64, ramp(64), y).ok
    np.testing.assert_array_equal(y.get(), np.arange(64)[::-1])


def test_a_warp_level_barrier_does_not_join_warps():
    trace = traced(REVERSE.replace("SYNC", "__syncwarp();"), 1, 64, ramp(64), zeros(64))
    assert pairs(trace) == [("s", "crosswarp", 64)]


def test_a_race_that_only_some_blocks_have_is_found_in_those():
    source = """extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[32];
    s[threadIdx.x] = x[threadIdx.x];
    if (blockIdx.x != 2) __syncwarp();
    y[32 * blockIdx.x + threadIdx.x] = s[31 - threadIdx.x];
}"""
    hazard = the(traced(source, 4, 32, ramp(32), zeros(128)))
    assert (hazard.block, hazard.count, hazard.scope) == ((2, 0, 0), 32, "samewarp")
    assert "__syncwarp()" in hazard.message


def test_lanes_of_one_store_that_meet_at_a_byte_race():
    source = """extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[8];
    s[threadIdx.x % 8] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x % 8];
}"""
    hazard = the(traced(source, 1, 32, ramp(32), zeros(32)))
    assert (hazard.count, hazard.scope, hazard.accesses) == (8, "samewarp", ((3, "write"), (3, "write")))
    assert "one thread" in hazard.message


HALVES = """extern "C" __global__ void k(const unsigned short* x, unsigned* y) {
    __shared__ __align__(4) unsigned short s[64];
    s[threadIdx.x] = x[threadIdx.x];
    READ
}"""


def test_neighbouring_halves_of_a_word_are_different_bytes():
    source = HALVES.replace("READ", "y[threadIdx.x] = s[threadIdx.x] + 1;")
    assert traced(source, 1, 64, ramp(64, np.uint16), zeros(64, np.uint32)).ok


def test_a_word_read_over_halves_that_others_wrote_races_byte_by_byte():
    source = HALVES.replace("READ", "if (threadIdx.x < 32) y[threadIdx.x] = ((unsigned*)s)[threadIdx.x];")
    hazard = the(traced(source, 1, 64, ramp(64, np.uint16), zeros(32, np.uint32)))
    # thread t reads halves 2t and 2t + 1; of the 64 halves only half 0 is read by the thread that wrote it
    assert (hazard.count, hazard.bytes, hazard.scope) == (63, 2, "crosswarp")


def test_what_a_thread_wrote_itself_it_may_read():
    source = """extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[64];
    for (int i = 0; i < 4; ++i) {
        s[threadIdx.x] = x[threadIdx.x] + i;
        y[64 * i + threadIdx.x] = s[threadIdx.x];
    }
}"""
    assert traced(source, 1, 64, ramp(64), zeros(256)).ok


# Races inside a warp


def test_a_partial_warp_barrier_orders_its_members():
    source = """extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[16];
    int l = threadIdx.x;
    if (l < 16) { s[l] = x[l]; __syncwarp(0xffff); y[l] = s[15 - l]; }
}"""
    assert traced(source, 1, 32, ramp(32), zeros(32)).ok


def test_a_partial_warp_barrier_does_not_order_the_others():
    source = """extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[32];
    int l = threadIdx.x;
    s[l] = x[l];
    if (l < 16) { __syncwarp(0xffff); y[l] = s[31 - l]; }
}"""
    assert pairs(traced(source, 1, 32, ramp(32), zeros(32))) == [("s", "samewarp", 16)]


def test_lanes_that_took_different_sides_meet_at_their_own_warp_barriers():
    source = """extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[32];
    int l = threadIdx.x;
    if (l < 16) { s[l] = x[l] * 2; __syncwarp(); y[l] = s[31 - l]; }
    else { s[l] = x[l] * 3; __syncwarp(); y[l] = s[31 - l]; }
}"""
    y = zeros(32)
    assert traced(source, 1, 32, ramp(32), y).ok
    np.testing.assert_array_equal(y.get(), (np.arange(32) * np.where(np.arange(32) < 16, 2, 3))[::-1])


# Barriers with a number and a thread count


PRODUCER = """extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[32];
    int warp = threadIdx.x / 32, l = threadIdx.x % 32;
    if (warp == 0)
        for (int i = 0; i < 4; ++i) { s[l] = x[32 * i + l]; FILLED FREE }
    else
        for (int i = 0; i < 4; ++i) { WAIT y[32 * i + l] = s[31 - l]; DRAINED }
}"""


def pipeline(filled, free, wait, drained):
    source = PRODUCER
    for name, text in (("FILLED", filled), ("FREE", free), ("WAIT", wait), ("DRAINED", drained)):
        source = source.replace(name, f'asm volatile("{text}");' if text else "")
    return source


def test_a_producer_and_a_consumer_warp_are_ordered_by_two_named_barriers():
    y = zeros(128)
    source = pipeline("bar.arrive 1, 64;", "bar.sync 2, 64;", "bar.sync 1, 64;", "bar.arrive 2, 64;")
    assert traced(source, 1, 64, ramp(128), y).ok
    np.testing.assert_array_equal(y.get().reshape(4, 32), np.arange(128).reshape(4, 32)[:, ::-1])


def test_without_the_barrier_that_frees_the_buffer_the_producer_overwrites_it():
    trace = traced(pipeline("bar.sync 1, 64;", "", "bar.sync 1, 64;", ""), 1, 64, ramp(128), zeros(128))
    # the writes of steps 1 to 3 meet the reads of the step before, all in the same 32 words
    assert pairs(trace) == [("s", "crosswarp", 32)]
    assert the(trace).accesses == ((7, "read"), (5, "write"))


def test_one_that_only_arrives_learns_nothing():
    source = """extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    if (threadIdx.x < 32) asm volatile("bar.arrive 1, 64;");
    else asm volatile("bar.sync 1, 64;");
    y[threadIdx.x] = s[63 - threadIdx.x];
}"""
    hazard = the(traced(source, 1, 64, ramp(64), zeros(64)))
    # only the reads by warp 0 of what warp 1 wrote
    assert (hazard.scope, hazard.count, hazard.threads[0][0] < 32) == ("crosswarp", 32, True)


def test_a_barrier_number_may_differ_between_the_groups_of_a_block():
    source = """extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[128];
    int t = threadIdx.x, group = t / 64;
    s[t] = x[t];
    asm volatile("bar.sync %0, 64;" ::"r"(group + 1));
    y[t] = s[64 * group + 63 - t % 64];
}"""
    y = zeros(128)
    assert traced(source, 1, 128, ramp(128), y).ok
    np.testing.assert_array_equal(y.get(), np.arange(128).reshape(2, 64)[:, ::-1].reshape(-1))


def test_reducing_barriers_count_and_combine_the_votes_of_the_block():
    source = """extern "C" __global__ void k(const int* x, int* y) {
    int t = threadIdx.x, i = 64 * blockIdx.x + t;
    y[i] = __syncthreads_count(x[i] % 3 == 0);
    y[128 + i] = 2 * __syncthreads_or(x[i] == 70) + __syncthreads_and(x[i] < 100);
}"""
    y = zeros(256, np.int32)
    assert traced(source, 2, 64, ramp(128, np.int32), y).ok
    # multiples of 3 among 0..63 and 64..127: 22 and 21; 70 is in the second block, and so are 100..127
    np.testing.assert_array_equal(y.get().reshape(4, 64)[:, 0], [22, 21, 1, 2])


def test_blocks_that_stand_at_different_reducing_barriers_get_each_its_own_answer():
    # Threads leave the loop one by one, so one block is at the last barrier while another is at the first.
    source = """extern "C" __global__ void k(const int* x, int* turns, int* y) {
    int seen = *turns, was = ~seen;
    while (was != seen) { was = seen; seen = atomicCAS(turns, was, was + 1); }
    int i = 33 * blockIdx.x + threadIdx.x;
    y[i] = __syncthreads_or(x[i]) + 2 * __syncthreads_and(x[i]) + 4 * __syncthreads_count(x[i]);
}"""
    votes = np.zeros((4, 33), np.int32)
    votes[1], votes[2, ::2], votes[3, 5] = 1, 1, 1
    turns, y = zeros(1, np.int32), zeros(132, np.int32)
    cp.RawKernel(source, "k")((4,), (33,), (cp.asarray(votes), turns, y))
    # none of 33 votes, all of them, every second and one: 4 times their number, and 1 for any and 2 for all
    assert y.get().reshape(4, 33).tolist() == [[4 * n + e] * 33 for n, e in ((0, 0), (33, 3), (17, 1), (1, 1))]
    assert turns.get() == 132


# Barriers that part of a block does not reach


def test_loops_of_different_lengths_leave_threads_behind_at_the_barrier():
    source = """extern "C" __global__ void k(float* y) {
    __shared__ float s[64];
    for (int i = 0; i <= threadIdx.x / 32; ++i) {
        s[threadIdx.x] = i;
        __syncthreads();
    }
    y[threadIdx.x] = s[threadIdx.x];
}"""
    hazard = the(traced(source, 1, 64, zeros(64)))
    assert (hazard.kind, hazard.line, hazard.count) == ("divergent-barrier", 5, 32)


def test_threads_that_go_round_a_barrier_did_not_return():
    source = """extern "C" __global__ void k(float* y) {
    if (threadIdx.x < 40) {
        y[threadIdx.x] = 1.0f;
        __syncthreads();
    }
    y[threadIdx.x] += 1.0f;
}"""
    hazard = the(traced(source, 1, 64, zeros(64)))
    assert (hazard.kind, hazard.line, hazard.lines, hazard.count) == ("divergent-barrier", 4, (7,), 24)
    assert "24 of 64 threads of block (0, 0, 0) went round this barrier and ended at line 7" in hazard.message
    assert "take it out of the branch or loop" in hazard.message


def test_a_named_barrier_that_too_few_reach_is_a_deadlock():
    source = """extern "C" __global__ void k(float* y) {
    if (threadIdx.x < 32)
        asm volatile("bar.sync 1, 64;");
    y[threadIdx.x] = 1;
}"""
    trace = traced(source, 1, 64, zeros(64))
    hazard = the(trace)
    assert (hazard.kind, hazard.line, hazard.count) == ("divergent-barrier", 3, 32)
    assert "32 threads arrived at barrier 1, which wants 64" in hazard.message


def test_whole_warps_may_wait_at_different_named_barriers_but_not_one_warp():
    source = """extern "C" __global__ void k(float* y) {
    if (threadIdx.x / DIVISOR % 2)
        asm volatile("bar.sync 1, 64;");
    else
        asm volatile("bar.sync 2, 64;");
    y[threadIdx.x] = 1;
}"""
    assert traced(source.replace("DIVISOR", "64"), 1, 128, zeros(128)).ok
    split = traced(source.replace("DIVISOR", "16"), 1, 64, zeros(64))
    assert {hazard.kind for hazard in split.hazards} == {"divergent-barrier"}


# Races in global memory


def test_threads_of_one_block_race_in_global_memory_as_in_shared():
    source = """extern "C" __global__ void k(float* g) {
    g[threadIdx.x] = 1;
    SYNC
    g[64 + threadIdx.x] = g[(threadIdx.x + 1) % 64];
}"""
    trace = traced(source.replace("SYNC", ""), 1, 64, zeros(128))
    assert pairs(trace) == [("g", "crosswarp", 64)]
    assert traced(source.replace("SYNC", "__syncthreads();"), 1, 64, zeros(128)).ok


def test_a_barrier_does_not_join_blocks():
    source = """extern "C" __global__ void k(float* g) {
    g[32 * blockIdx.x + threadIdx.x] = 1;
    __syncthreads();
    g[128 + 32 * blockIdx.x + threadIdx.x] = g[32 * ((blockIdx.x + 1) % 4) + threadIdx.x];
}"""
    hazard = the(traced(source, 4, 32, zeros(256)))
    assert (hazard.scope, hazard.count, hazard.accesses) == ("interblock", 128, ((2, "write"), (4, "read")))
    assert "no barrier joins" in hazard.message


def test_blocks_race_however_far_apart_they_run():
    source = """extern "C" __global__ void k(float* g) {
    if (threadIdx.x == 0) g[blockIdx.x % 1999] = 1;
}"""
    # of 2000 blocks only the first and the last write the same element, and 16 blocks of 1024 threads run at a time
    hazard = the(traced(source, 2000, 1024, zeros(1999)))
    assert (hazard.count, hazard.offset, hazard.scope) == (1, 0, "interblock")
    assert "block (1999, 0, 0)" in hazard.message and "block (0, 0, 0)" in hazard.message


def test_reads_before_the_first_write_are_not_forgotten():
    source = """extern "C" __global__ void k(float* g, float* y) {
    y[32 * blockIdx.x + threadIdx.x] = g[threadIdx.x];
    if (blockIdx.x == 999) g[threadIdx.x] = 1;
}"""
    hazard = the(traced(source, 1000, 32, zeros(32), zeros(32000)))
    assert (hazard.array, hazard.count, hazard.accesses) == ("g", 32, ((2, "read"), (3, "write")))


HANDOVER = """extern "C" __global__ void k(float* data, volatile int* flag, float* y) {
    if (blockIdx.x == 0) {
        data[threadIdx.x] = threadIdx.x;
        __syncthreads();
        if (threadIdx.x == 0) { FENCE flag[0] = 1; }
    } else {
        if (threadIdx.x == 0) while (flag[0] == 0);
        __syncthreads();
        y[threadIdx.x] = data[threadIdx.x];
    }
}"""


def test_a_fence_and_a_flag_hand_data_from_block_to_block():
    y = zeros(32)
    assert traced(HANDOVER.replace("FENCE", "__threadfence();"), 2, 32, zeros(32), zeros(1, np.int32), y).ok
    np.testing.assert_array_equal(y.get(), np.arange(32))


@pytest.mark.parametrize("fence", ["", "__threadfence_block();"])
def test_a_flag_without_a_fence_of_the_gpu_hands_over_nothing(fence):
    trace = traced(HANDOVER.replace("FENCE", fence), 2, 32, zeros(32), zeros(1, np.int32), zeros(32))
    assert pairs(trace) == [("data", "interblock", 32)]


LAST_BLOCK = """__device__ unsigned finished; extern "C" __global__ void k(const float* x, float* part, float* y) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        part[blockIdx.x] = x[blockIdx.x];
        FENCE
        last = atomicInc(&finished, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        float sum = 0;
        for (int i = 0; i < gridDim.x; ++i) sum += part[i];
        y[0] = sum;
        finished = 0;
    }
}"""


def test_the_last_block_may_add_up_what_all_blocks_published():
    y = zeros(1)
    assert traced(LAST_BLOCK.replace("FENCE", "__threadfence();"), 40, 32, ramp(40), zeros(40), y).ok
    assert y.get()[0] == 39 * 40 / 2


def test_the_last_block_may_not_add_up_what_was_not_published():
    trace = traced(LAST_BLOCK.replace("FENCE", ""), 40, 32, ramp(40), zeros(40), zeros(1))
    (race,) = [hazard for hazard in trace.hazards if hazard.array == "part"]
    assert (race.scope, race.count) == ("interblock", 39)


# Atomics


def test_atomics_on_one_address_do_not_race():
    source = """extern "C" __global__ void k(int* y) {
    __shared__ int sum;
    if (threadIdx.x == 0) sum = 0;
    SYNC
    atomicAdd(&sum, threadIdx.x);
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(y, sum);
}"""
    y = zeros(1, np.int32)
    assert traced(source.replace("SYNC", "__syncthreads();"), 5, 64, y).ok
    assert y.get()[0] == 5 * 63 * 64 / 2
    early = traced(source.replace("SYNC", ""), 5, 64, zeros(1, np.int32))
    assert [race.accesses for race in early.hazards] == [((3, "write"), (5, "atomic"))]


def test_a_plain_read_beside_atomics_races():
    source = """extern "C" __global__ void k(int* count, int* y) {
    atomicAdd(count, 1);
    if (threadIdx.x == 0) y[blockIdx.x] = count[0];
}"""
    hazard = the(traced(source, 2, 32, zeros(1, np.int32), zeros(2, np.int32)))
    assert (hazard.array, hazard.scope, hazard.accesses) == ("count", "interblock", ((2, "atomic"), (3, "read")))


# Warp-wide instructions


def test_a_reduction_by_shuffles_needs_one_barrier():
    source = """extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[2];
    float v = x[threadIdx.x];
    for (int i = 16; i > 0; i /= 2) v += __shfl_down_sync(~0u, v, i);
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x == 0) y[0] = s[0] + s[1];
}"""
    y = zeros(1)
    assert traced(source, 1, 64, ramp(64), y).ok
    assert y.get()[0] == 63 * 64 / 2


def test_a_shuffle_puts_its_warp_in_step():
    source = """extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[32];
    int l = threadIdx.x;
    s[l] = x[l];
    float v = __shfl_sync(~0u, x[l], 0);
    y[l] = s[31 - l] + v;
}"""
    assert traced(source, 1, 32, ramp(32), zeros(32)).ok


SPREAD = """extern "C" __global__ void k(const float* x, float* y, float* z, int last) {
    __shared__ float s[64];
    for (int i = 0; i < 3 + (blockIdx.x == last); i++) {
        s[threadIdx.x] = x[threadIdx.x];
        y[blockIdx.x * 64 + threadIdx.x] = s[63 - threadIdx.x];
    }
    if (blockIdx.x == last) z[threadIdx.x] = 1;
    else y[blockIdx.x * 64 + threadIdx.x] = z[threadIdx.x];
}"""


@pytest.mark.parametrize("lanes", [64, 640, 1 << 14])
def test_the_words_of_a_race_are_counted_once_however_many_blocks_iterations_and_batches_have_it(monkeypatch, lanes):
    monkeypatch.setattr(device, "Machine", functools.partial(Machine, lanes=lanes))
    trace = traced(SPREAD, 40, 64, ramp(64), zeros(64 * 40), zeros(64), np.int32(39))
    assert sorted(pairs(trace)) == [("s", "crosswarp", 64), ("z", "interblock", 64)]


def test_the_words_of_a_race_are_counted_alike_where_another_line_looks_at_single_bytes():
    source = """extern "C" __global__ void k(int* y, int n) {
    __shared__ int s[64];
    for (int i = 0; i < n; i++) {
        s[threadIdx.x] = i;
        y[threadIdx.x] = s[63 - threadIdx.x];
        __syncthreads();
        if (i == 0) ((char*)y)[threadIdx.x] = ((char*)s)[threadIdx.x];
        __syncthreads();
    }
}"""
    assert ("s", "crosswarp", 64) in [
        (race.array, race.scope, race.count)
        for race in traced(source, 1, 64, zeros(64, np.int32), np.int32(3)).hazards
        if race.accesses == ((4, "write"), (5, "read"))
    ]


def test_one_barrier_for_two_numbers_of_threads_is_told():
    source = """extern "C" __global__ void k(float* y) {
    if (threadIdx.x < 32)
        asm volatile("bar.sync 1, 64;" ::: "memory");
    else
        asm volatile("bar.sync 1, 96;" ::: "memory");
    y[threadIdx.x] = 1;
}"""
    hazard = the(traced(source, 1, 96, zeros(96)))
    assert (hazard.kind, {hazard.line, *hazard.lines}) == ("divergent-barrier", {3, 5})
    assert "barrier 1 for 64 threads while 64 wait at it for 96 on line 5" in hazard.message
    assert "one thread count" in hazard.message


def test_a_barrier_for_as_many_threads_as_the_block_has_is_that_of_the_whole_block():
    source = """extern "C" __global__ void k(float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = 1;
    asm volatile("bar.sync 0, 64;" ::: "memory");
    y[threadIdx.x] = s[63 - threadIdx.x];
    __syncthreads();
    s[threadIdx.x] = 2;
    asm volatile("bar.sync 0;" ::: "memory");
    y[threadIdx.x] += s[63 - threadIdx.x];
}"""
    assert traced(source, 1, 64, zeros(64)).ok


def test_blocks_may_use_one_barrier_for_different_numbers_of_threads():
    source = """extern "C" __global__ void k(float* y) {
    __shared__ float s[96];
    s[threadIdx.x] = 1;
    __syncthreads();
    if (blockIdx.x % 2 && threadIdx.x >= 32) return;
    asm volatile("bar.sync 1, %0;" :: "r"(blockIdx.x % 2 ? 32 : 96) : "memory");
    y[96 * blockIdx.x + threadIdx.x] = s[threadIdx.x ^ 1];
}"""
    assert traced(source, 6, 96, zeros(96 * 6)).ok


ARRIVES = """extern "C" __global__ void k(const float* x, float* y, int n) {
    __shared__ float s[32];
    int lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        for (int i = 0; i < n; i++) {
            asm volatile("bar.sync 2, 64;" ::: "memory");
            s[lane] = x[32 * i + lane];
            asm volatile("bar.arrive 1, 64;" ::: "memory");
        }
    } else {
        asm volatile("bar.arrive 2, 64;" ::: "memory");
        for (int i = 0; i < n; i++) {
            asm volatile("bar.sync 1, 64;" ::: "memory");
            BEFORE
            y[32 * i + lane] = s[31 - lane];
            AFTER
        }
    }
}"""
FREE = 'if (i + 1 < n) asm volatile("bar.arrive 2, 64;" ::: "memory");'


def test_who_arrives_before_it_reads_frees_the_buffer_too_early():
    right = ARRIVES.replace("BEFORE", "").replace("AFTER", FREE)
    assert traced(right, 1, 64, ramp(128), zeros(128), np.int32(4)).ok
    wrong = ARRIVES.replace("BEFORE", FREE).replace("AFTER", "")
    hazard = the(traced(wrong, 1, 64, ramp(128), zeros(128), np.int32(4)))
    assert (hazard.kind, hazard.array, hazard.count) == ("race", "s", 32)
    assert set(hazard.accesses) == {(7, "write"), (15, "read")}


def test_barriers_apart_are_told_while_another_block_spins():
    source = """extern "C" __global__ void k(unsigned* flag, float* y) {
    if (blockIdx.x == 0) {
        if (threadIdx.x == 0) while (atomicAdd(flag, 0u) == 0);
    } else {
        if (threadIdx.x < 32) {
            y[threadIdx.x] = 1;
            __syncthreads();
        } else {
            y[threadIdx.x] = 2;
            __syncthreads();
        }
        if (threadIdx.x == 0) atomicExch(flag, 1u);
    }
}"""
    hazard = the(traced(source, 2, 64, zeros(1, np.uint32), zeros(64)))
    assert (hazard.kind, {hazard.line, *hazard.lines}) == ("divergent-barrier", {7, 10})
    assert hazard.block == (1, 0, 0)


# Masks of warp-wide instructions


MASKS = """#include <cooperative_groups.h>
extern "C" __global__ void k(float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = threadIdx.x;
    SYNC
    y[threadIdx.x] = s[threadIdx.x ^ APART];
}"""


@pytest.mark.parametrize(
    ("sync", "members"),
    [
        ("__syncwarp(threadIdx.x & 16 ? 0xffff0000 : 0x0000ffff);", 16),
        ("__syncwarp(3u << (threadIdx.x & 30));", 2),
        ("__shfl_sync(255u << (threadIdx.x & 24), 1, 0, 8);", 8),
        ("cooperative_groups::tiled_partition<16>(cooperative_groups::this_thread_block()).sync();", 16),
    ],
)
def test_a_barrier_of_a_warp_joins_those_of_one_mask_only(sync, members):
    source = MASKS.replace("SYNC", sync)
    assert traced(source.replace("APART", str(members - 1)), 1, 64, zeros(64)).ok
    hazard = the(traced(source.replace("APART", str(members)), 1, 64, zeros(64)))
    assert (hazard.kind, hazard.scope, hazard.count) == ("race", "samewarp", 64)
    assert hazard.accesses == ((4, "write"), (6, "read"))


@pytest.mark.parametrize("sync", ["__syncwarp(1);", "y[threadIdx.x] = __shfl_sync(1, 1.f, 0);"])
def test_a_mask_that_does_not_name_the_lane_is_told(sync):
    source = MASKS.replace("SYNC", f"if (threadIdx.x == 0 || threadIdx.x == 20) {{ {sync} }} __syncthreads();")
    trace = traced(source.replace("APART", "0"), 1, 64, zeros(64))
    hazards = [hazard for hazard in trace.hazards if hazard.kind == "divergent-barrier"]
    assert [(hazard.line, hazard.threads, hazard.count) for hazard in hazards] == [(5, ((20, 0, 0),), 1)]
    assert "with a mask that does not name it; let the mask name every lane" in hazards[0].message
