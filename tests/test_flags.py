"""What one thread hands to another by a fence and a flag, in patterns that kernels use: right ones, and each with one
step left out.

A source marks its lines: /*w*/ writes what is handed over, /*r*/ reads it.
"""

import numpy as np
import pytest

from gemmlab import emulator as cp


def line_of(source, mark):
    return next(i for i, line in enumerate(source.split("\n"), 1) if f"/*{mark}*/" in line)


def traced(source, grid, block, *args):
    kernel = cp.RawKernel('extern "C" __global__ void k(' + source, "k", ("--std=c++17",))
    return cp.trace(kernel, (grid,), (block,), args)


def ramp(n):
    return cp.asarray(np.arange(n, dtype=np.float32))


def empty(n):
    return cp.empty(n, np.float32)


def flags(n=1):
    return cp.zeros(n, np.uint32)


def assert_one_race(trace, source, array, words, scope="interblock"):
    source = 'extern "C" __global__ void k(' + source
    (race,) = trace.hazards
    assert (race.kind, race.array, race.scope, race.count) == ("race", array, scope, words)
    assert {race.line, *race.lines} == {line_of(source, "w"), line_of(source, "r")}


FENCE, BARRIER = "__threadfence();", "__syncthreads();"

LAST_BLOCK = """const float* x, float* part, unsigned* count, float* out) {
    __shared__ bool last;
    int t = threadIdx.x;
    part[blockIdx.x * 64 + t] = x[blockIdx.x * 64 + t];  /*w*/
    HAND
    if (t == 0) { INNER last = atomicAdd(count, 1u) == gridDim.x - 1; }
    __syncthreads();
    if (last) {
        float sum = 0;
        for (int i = 0; i < gridDim.x; i++) sum += part[i * 64 + t];  /*r*/
        out[t] = sum;
    }
}"""


def last_block(hand, inner, blocks=300):
    source = LAST_BLOCK.replace("HAND", hand).replace("INNER", inner)
    return source, traced(source, blocks, 64, ramp(64 * blocks), empty(64 * blocks), flags(), empty(64))


@pytest.mark.parametrize(
    ("hand", "inner"), [(FENCE + BARRIER, ""), (BARRIER, FENCE)], ids=["each fences its own", "one fences for all"]
)
def test_the_last_block_may_read_what_all_threads_of_the_others_wrote(hand, inner):
    assert last_block(hand, inner)[1].ok


@pytest.mark.parametrize(
    ("hand", "inner", "writers"),
    [
        # the thread that counts has fenced what it wrote itself, and no more
        (FENCE, "", 63),
        ("", FENCE, 63),
        (BARRIER, "", 64),
        (BARRIER + "__threadfence_block();", "", 64),
        (BARRIER, "last = atomicAdd(count, 1u) == gridDim.x - 1; __threadfence(); if (0)", 64),
    ],
    ids=["no barrier after", "no barrier before", "no fence", "a fence of the block", "a fence too late"],
)
def test_the_last_block_may_not_read_what_was_not_handed_over(hand, inner, writers):
    source, trace = last_block(hand, inner)
    # the last block may read its own 64 words
    assert_one_race(trace, source, "part", 299 * writers)
    assert "__threadfence(), __syncthreads() where several threads wrote it" in trace.hazards[0].message


GRID_BARRIER = """float* a, float* b, unsigned* count) {
    int i = blockIdx.x * 64 + threadIdx.x, n = gridDim.x * 64;
    a[i] = i;  /*w*/
    BEFORE
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(count, 1u);
        while (*(volatile unsigned*)count < gridDim.x);
        __threadfence();
    }
    AFTER
    b[i] = a[n - 1 - i];  /*r*/
}"""


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (BARRIER, BARRIER, 0),
        # thread 0 has fenced a word for each block
        ("", BARRIER, 20 * 63),
        # thread 0 alone knows what the other blocks wrote: it reads a word in each block
        (BARRIER, "", 20 * 63),
    ],
    ids=["whole", "no barrier before", "no barrier after"],
)
def test_a_barrier_of_the_grid_takes_a_barrier_of_the_block_on_either_side(before, after, words):
    source = GRID_BARRIER.replace("BEFORE", before).replace("AFTER", after)
    trace = traced(source, 20, 64, empty(64 * 20), empty(64 * 20), flags())
    if words:
        assert_one_race(trace, source, "a", words)
    else:
        assert trace.ok


OWN_FLAGS = """const float* x, float* a, float* b, unsigned* flag) {
    int t = threadIdx.x;
    volatile unsigned* set = flag;
    if (blockIdx.x == 0) {
        a[t] = x[t];  /*w*/
        __threadfence();
        set[t] = 1;
    } else {
        while (set[WHOSE] == 0);
        b[64 * (blockIdx.x - 1) + t] = a[t];  /*r*/
    }
}"""


def test_each_thread_may_wait_for_the_flag_of_one_other():
    trace = traced(OWN_FLAGS.replace("WHOSE", "t"), 5, 64, ramp(64), empty(64), empty(256), flags(64))
    assert trace.ok


STREAM_K = """const float* x, float* C, float* part, unsigned* flag) {
    int t = threadIdx.x, b = blockIdx.x;
    float v = x[b * 64 + t];
    if (b % 2) {
        part[b / 2 * 64 + t] = v;  /*w*/
        asm volatile("bar.sync %0, %1;" :: "r"(1 + t / THREADS), "r"(THREADS) : "memory");
        if (t == 0) { __threadfence(); atomicExch(&flag[b / 2], 1u); }
    } else {
        if (t == 0) while (atomicAdd(&flag[b / 2], 0u) == 0);
        asm volatile("bar.sync 1, 64;" ::: "memory");
        C[b / 2 * 64 + t] = v + part[b / 2 * 64 + 63 - t];  /*r*/
    }
}"""


@pytest.mark.parametrize(("threads", "words"), [(64, 0), (32, 12 * 32)], ids=["all who wrote", "half of them"])
def test_a_named_barrier_gathers_those_who_meet_there(threads, words):
    source = STREAM_K.replace("THREADS", str(threads))
    trace = traced(source, 24, 64, ramp(64 * 24), empty(64 * 12), empty(64 * 12), flags(12))
    if words:
        assert_one_race(trace, source, "part", words)
    else:
        assert trace.ok


WARP_FLAG = """const float* x, float* a, float* b, unsigned* flag) {
    int t = threadIdx.x, lane = t % 32;
    if (blockIdx.x == 0) {
        a[t] = x[t];  /*w*/
        GATHER
        if (lane == 0) { __threadfence(); atomicExch(&flag[t / 32], 1u); }
    } else {
        if (lane == 0) while (atomicAdd(&flag[t / 32], 0u) == 0);
        __syncwarp();
        b[128 * (blockIdx.x - 1) + t] = a[t ^ 31];  /*r*/
    }
}"""


@pytest.mark.parametrize(("gather", "words"), [("__syncwarp();", 0), ("", 4 * 31)], ids=["gathered", "not gathered"])
def test_a_warp_gathers_before_its_first_lane_sets_the_flag(gather, words):
    source = WARP_FLAG.replace("GATHER", gather)
    trace = traced(source, 5, 128, ramp(128), empty(128), empty(512), flags(4))
    if words:
        assert_one_race(trace, source, "a", words)
    else:
        assert trace.ok


IN_BLOCK = """const float* x, float* y) {
    __shared__ unsigned flag;
    __shared__ float d[32];
    int t = threadIdx.x;
    if (t == 0) flag = 0;
    __syncthreads();
    if (t < 32) {
        d[t] = x[t];  /*w*/
        FENCE
        SET
    }
    if (t >= 64) {
        while (atomicAdd(&flag, 0u) != WANTED);
        y[t] = d[t - 64];  /*r*/
    }
}"""


@pytest.mark.parametrize(
    ("fence", "set_", "wanted", "words"),
    [
        ("__threadfence_block();", "atomicAdd(&flag, 1u);", 32, 0),
        ("__threadfence_block(); __syncwarp();", "if (t == 0) atomicAdd(&flag, 1u);", 1, 0),
        ("__threadfence_block();", "if (t == 0) atomicAdd(&flag, 1u);", 1, 31),
        ("", "atomicAdd(&flag, 1u);", 32, 32),
    ],
    ids=["each counts", "one for its warp", "one for itself", "no fence"],
)
def test_a_flag_in_shared_memory_hands_over_within_a_block(fence, set_, wanted, words):
    source = IN_BLOCK.replace("FENCE", fence).replace("SET", set_).replace("WANTED", str(wanted))
    trace = traced(source, 1, 96, ramp(32), cp.zeros(96, np.float32))
    if words:
        assert_one_race(trace, source, "d", words, "crosswarp")
    else:
        assert trace.ok


LOOKBACK = """const float* x, float* y, float* sums, float* before, unsigned* state, unsigned* ticket) {
    __shared__ float base;
    __shared__ unsigned mine;
    if (threadIdx.x == 0) mine = atomicAdd(ticket, 1u);
    __syncthreads();
    int b = mine, t = threadIdx.x;
    float v = x[b * 32 + t];
    for (int o = 1; o < 32; o *= 2) {
        float other = __shfl_up_sync(~0u, v, o);
        if (t >= o) v += other;
    }
    if (t == 31) {
        sums[b] = v;
        __threadfence();
        atomicExch(&state[b], 1u);
        float sum = 0;
        for (int j = b - 1; j >= 0;) {
            unsigned seen = atomicAdd(&state[j], 0u);
            if (seen == 0) continue;
            __threadfence();
            sum += seen == 2 ? before[j] : sums[j];
            j = seen == 2 ? -1 : j - 1;
        }
        before[b] = sum + v;
        __threadfence();
        atomicExch(&state[b], 2u);
        base = sum;
    }
    __syncthreads();
    y[b * 32 + t] = v + base;
}"""


def test_a_scan_in_one_pass_that_looks_back_over_flags_is_right():
    y, n = empty(32 * 30), 32 * 30
    trace = traced(LOOKBACK, 30, 32, ramp(n), y, empty(30), empty(30), flags(30), flags())
    assert trace.ok
    np.testing.assert_array_equal(y.get(), np.arange(n, dtype=np.float32) * np.arange(1, n + 1) / 2)


SERIAL = """const float* x, float* C, unsigned* turn) {
    int t = threadIdx.x, b = blockIdx.x;
    if (t == 0) while (atomicAdd(turn, 0u) != b);
    __syncthreads();
    C[t] = (b ? C[t] : 0) + x[b * 64 + t];  /*w*/
    __threadfence();
    AFTER
    if (t == 0) atomicAdd(turn, 1u);
}"""


def test_split_k_in_turns_needs_the_barrier_before_the_turn_is_passed_on():
    assert traced(SERIAL.replace("AFTER", BARRIER), 6, 64, ramp(64 * 6), empty(64), flags()).ok
    source = SERIAL.replace("AFTER", "")
    races = traced(source, 6, 64, ramp(64 * 6), empty(64), flags()).hazards
    assert {race.kind for race in races} == {"race"}
    assert {(race.array, race.line) for race in races} == {("C", line_of("\n" * 0 + source, "w"))}
    # thread 0 fenced its own word before it passed the turn on
    assert {race.count for race in races} == {63}
