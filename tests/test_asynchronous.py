"""Asynchronous copies: bytes are not there before their group is waited for, nor for others before a later barrier."""

import numpy as np
import pytest

from gemmlab import emulator as cp

HEAD = """#define SHARED(p) "r"((int)__cvta_generic_to_shared(p))
#define COPY(to, from) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: SHARED(to), "l"(from) : "memory")
#define COMMIT asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT(n) asm volatile("cp.async.wait_group " #n ";" ::: "memory")
"""
LINE = 5
"""Line of the source that follows HEAD."""


def traced(source, *args, threads=64, blocks=1):
    kernel = cp.RawKernel(HEAD + source, "k", ("--std=c++17",))
    return cp.trace(kernel, (blocks,), (threads,), args)


def ramp(n):
    return cp.asarray(np.arange(n, dtype=np.float32))


def zeros(n):
    return cp.zeros(n, np.float32)


def one_copy(between, read):
    return f"""extern "C" __global__ void k(const float* x, float* y) {{
    __shared__ float s[64];
    int t = threadIdx.x;
    COPY(&s[t], &x[t]); COMMIT;
    {between}
    y[t] = s[{read}];
}}"""


@pytest.mark.parametrize(
    ("between", "read"),
    [
        ("WAIT(0);", "t"),
        ("WAIT(0); __syncthreads();", "63 - t"),
        ('asm volatile("cp.async.wait_all;"); __syncthreads();', "63 - t"),
        ("COMMIT; COMMIT; WAIT(2); __syncthreads();", "63 - t"),
    ],
    ids=["by itself", "by all", "wait_all", "behind two empty groups"],
)
def test_bytes_that_were_waited_for_are_there(between, read):
    y = zeros(64)
    assert traced(one_copy(between, read), ramp(64), y).ok
    np.testing.assert_array_equal(y.get(), np.arange(64)[:: -1 if "63" in read else 1])


@pytest.mark.parametrize(
    ("between", "read", "group"),
    [
        ("", "t", "it is in group 1 of 1"),
        ("__syncthreads();", "63 - t", "it is in group 1 of 1"),
        ("WAIT(1); __syncthreads();", "63 - t", "it is in group 1 of 1"),
        ("COMMIT; WAIT(2); __syncthreads();", "63 - t", "it is in group 1 of 2"),
    ],
    ids=["no wait", "a barrier is no wait", "one group may stay", "two groups may stay"],
)
def test_bytes_that_were_not_waited_for_are_not_there(between, read, group):
    y = zeros(64)
    (hazard,) = traced(one_copy(between, read), ramp(64), y).hazards
    assert (hazard.kind, hazard.scope, hazard.array, hazard.count) == ("race", "async", "s", 64)
    assert hazard.accesses == ((LINE + 3, "async write"), (LINE + 5, "read"))
    assert group in hazard.message
    # shared memory that nobody wrote reads NaN
    assert np.isnan(y.get()).all()


def test_a_copy_that_was_never_committed_is_in_no_group():
    source = one_copy("WAIT(0); __syncthreads();", "63 - t").replace(" COMMIT;", "", 1)
    (hazard,) = traced(source, ramp(64), zeros(64)).hazards
    assert hazard.scope == "async" and "it was not committed" in hazard.message


@pytest.mark.parametrize("between", ["WAIT(0);", "__syncthreads(); WAIT(0);"], ids=["no barrier", "barrier too early"])
def test_other_threads_need_a_barrier_after_the_wait(between):
    y = zeros(64)
    (hazard,) = traced(one_copy(between, "63 - t"), ramp(64), y).hazards
    assert (hazard.scope, hazard.count) == ("crosswarp", 64)
    assert hazard.accesses == ((LINE + 3, "async write"), (LINE + 5, "read"))
    assert "__syncthreads()" in hazard.message


def test_a_copy_may_not_land_where_others_still_read():
    source = """extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = 0; __syncthreads();
    float v = s[63 - t];
    FREE
    COPY(&s[t], &x[t]); COMMIT; WAIT(0); __syncthreads();
    y[t] = v + s[63 - t];
}"""
    assert traced(source.replace("FREE", "__syncthreads();"), ramp(64), zeros(64)).ok
    (hazard,) = traced(source.replace("FREE", ""), ramp(64), zeros(64)).hazards
    assert hazard.accesses == ((LINE + 4, "read"), (LINE + 6, "async write"))
    assert (hazard.scope, hazard.count) == ("crosswarp", 64)


def test_a_wait_lets_only_the_older_groups_land():
    source = """extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[3][32];
    int t = threadIdx.x;
    for (int i = 0; i < 3; ++i) { COPY(&s[i][t], &x[32 * i + t]); COMMIT; }
    WAIT(1);
    for (int i = 0; i < 3; ++i) y[32 * i + t] = s[i][t];
}"""
    y = zeros(96)
    (hazard,) = traced(source, ramp(96), y, threads=32).hazards
    assert "it is in group 3 of 3" in hazard.message and hazard.count == 32
    np.testing.assert_array_equal(y.get()[:64], np.arange(64))
    assert np.isnan(y.get()[64:]).all()


def test_threads_count_their_own_groups():
    source = """extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[2][64];
    int t = threadIdx.x;
    COPY(&s[0][t], &x[t]); COMMIT;
    if (t < 32) { COPY(&s[1][t], &x[64 + t]); COMMIT; }
    WAIT(1);
    y[t] = s[0][t];
}"""
    y = zeros(64)
    (hazard,) = traced(source, ramp(128), y).hazards
    # warp 0 has two groups, so its first has landed; warp 1 has one, which may still be in flight
    assert hazard.count == 32 and hazard.threads[0][0] >= 32
    np.testing.assert_array_equal(y.get()[:32], np.arange(32))
    assert np.isnan(y.get()[32:]).all()


def test_a_source_size_fills_the_rest_with_zeros_and_reads_no_further():
    source = """extern "C" __global__ void k(const float* x, float* y, int n) {
    __shared__ __align__(16) float s[64];
    int t = threadIdx.x, left = 4 * (n - 4 * t), bytes = left < 0 ? 0 : left > 16 ? 16 : left;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
        :: SHARED(&s[4 * t]), "l"(x + 4 * t), "r"(bytes) : "memory");
    COMMIT; WAIT(0);
    for (int i = 0; i < 4; ++i) y[4 * t + i] = s[4 * t + i];
}"""
    y = zeros(64)
    assert traced(source, ramp(42), y, np.int32(42), threads=16).ok
    np.testing.assert_array_equal(y.get(), [*range(42), *[0] * 22])


def test_an_ignored_source_gives_zeros_and_is_not_read():
    source = """extern "C" __global__ void k(const float* x, float* y, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    asm volatile("{ .reg .pred p; setp.ge.s32 p, %2, %3; cp.async.ca.shared.global [%0], [%1], 4, p; }"
        :: SHARED(&s[t]), "l"(x + t), "r"(t), "r"(n) : "memory");
    COMMIT; WAIT(0);
    y[t] = s[t];
}"""
    y = zeros(64)
    assert traced(source, ramp(40), y, np.int32(40)).ok
    np.testing.assert_array_equal(y.get(), [*range(40), *[0] * 24])


def test_both_ends_of_a_copy_are_held_to_their_arrays():
    source = """extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[48];
    int t = threadIdx.x;
    COPY(&s[t], &x[t]); COMMIT; WAIT(0); __syncthreads();
    if (t < 32) y[t] = s[t];
}"""
    trace = traced(source, ramp(60), zeros(32))
    assert {(h.kind, h.space, h.array, h.offset, h.count) for h in trace.hazards} == {
        ("out-of-bounds", "global", "x", 240, 4),
        ("out-of-bounds", "shared", "s", 192, 16),
    }


def test_a_ring_of_three_stages_is_right():
    source = """extern "C" __global__ void k(const float* x, float* y, int n) {
    __shared__ float s[3][64];
    int t = threadIdx.x;
    for (int i = 0; i < 2; ++i) { if (i < n) COPY(&s[i][t], &x[64 * i + t]); COMMIT; }
    for (int i = 0; i < n; ++i) {
        WAIT(1);
        __syncthreads();
        int next = i + 2;
        if (next < n) COPY(&s[next % 3][t], &x[64 * next + t]);
        COMMIT;
        y[64 * i + t] = s[i % 3][63 - t];
    }
}"""
    y = zeros(448)
    assert traced(source, ramp(448), y, np.int32(7)).ok
    np.testing.assert_array_equal(y.get().reshape(7, 64), np.arange(448).reshape(7, 64)[:, ::-1])
    plain = zeros(448)
    cp.RawKernel(HEAD + source, "k", ("--std=c++17",))((1,), (64,), (ramp(448), plain, np.int32(7)))
    np.testing.assert_array_equal(plain.get(), y.get())


def test_a_copy_counts_in_both_memories():
    trace = traced(one_copy("WAIT(0);", "t"), ramp(64), zeros(64))
    copies = {access.op: (access.requests, access.units) for access in trace.accesses if access.line == LINE + 3}
    # two warps; 32 floats in a row are 4 sectors and 1 wavefront
    assert copies == {"cp.async.global": (2, 8), "cp.async.shared": (2, 2)}
