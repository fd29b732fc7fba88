"""Instructions of a whole warp, wherever its lanes stand, and barriers with numbers and counts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemmlab import emulator as cp

KERNEL = 'extern "C" __global__ void k'
FULL = 0xFFFFFFFF


def run(body: str, out: int, threads: int = 32, blocks: int = 1, inputs: tuple = (), options: tuple = ()) -> np.ndarray:
    """What a kernel with `unsigned* o` and arrays of unsigned `a`, `b`, ... leaves in o."""
    parameters = "".join(f", const unsigned* {name}" for name, _ in zip("abcd", inputs, strict=False))
    source = f"{KERNEL}(unsigned* o{parameters}) {{ unsigned t = threadIdx.x; {body} }}"
    result = cp.zeros(out, np.uint32)
    arrays = [cp.asarray(np.asarray(v, np.uint32)) for v in inputs]
    cp.RawKernel(source, "k", options)((blocks,), (threads,), (result, *arrays))
    return result.get()


WARP = st.lists(st.integers(0, FULL), min_size=32, max_size=32)


@settings(max_examples=25, deadline=None)
@given(values=WARP, delta=st.integers(0, 40), width=st.sampled_from([1, 2, 4, 8, 16, 32]))
def test_a_shuffle_asks_a_lane_of_its_own_segment(values, delta, width):
    found = run(
        f"""o[t] = __shfl_sync(~0u, a[t], {delta}, {width}); o[32+t] = __shfl_up_sync(~0u, a[t], {delta}, {width});
        o[64+t] = __shfl_down_sync(~0u, a[t], {delta}, {width}); o[96+t] = __shfl_xor_sync(~0u, a[t], {delta},
        {width});""",
        128,
        inputs=(values,),
    ).reshape(4, 32)
    # the hardware takes the distance modulo 32; a lane that asks past its segment keeps its own value
    step = delta % 32
    for lane in range(32):
        start, end = lane // width * width, lane // width * width + width
        asked = [start + delta % width, lane - step, lane + step, lane ^ step]
        # an exclusive or may ask a segment below, which lies inside the bound
        inside = [True, asked[1] >= start, asked[2] < end, asked[3] < end]
        assert found[:, lane].tolist() == [values[a if ok else lane] for a, ok in zip(asked, inside, strict=True)]


@settings(max_examples=25, deadline=None)
@given(values=WARP, cut=st.lists(st.integers(0, 3), min_size=32, max_size=32))
def test_votes_matches_and_reductions_are_among_the_lanes_of_a_mask(values, cut):
    values = [v % 5 for v in values]
    groups = [[lane for lane in range(32) if cut[lane] == g] for g in cut]
    masks = [sum(1 << lane for lane in group) for group in groups]
    found = run(
        """unsigned m = b[t], x = a[t]; int p;
        o[t] = __ballot_sync(m, x & 1); o[32+t] = __any_sync(m, x == 3); o[64+t] = __all_sync(m, x < 4);
        o[96+t] = __match_any_sync(m, x); o[128+t] = __match_all_sync(m, x, &p); o[160+t] = p;
        o[192+t] = __reduce_add_sync(m, x); o[224+t] = __reduce_max_sync(m, (int)x - 2);
        o[256+t] = __reduce_min_sync(m, x); o[288+t] = __reduce_xor_sync(m, x); o[320+t] = __reduce_and_sync(m, x);
        o[352+t] = __reduce_or_sync(m, x);""",
        384,
        inputs=(values, masks),
    ).reshape(12, 32)
    for lane, group in enumerate(groups):
        mine = [values[i] for i in group]
        same = len(set(mine)) == 1
        exclusive = 0
        for value in mine:
            exclusive ^= value
        assert found[:, lane].tolist() == [
            sum(1 << i for i in group if values[i] & 1),
            int(3 in mine),
            int(max(mine) < 4),
            sum(1 << i for i in group if values[i] == values[lane]),
            masks[lane] if same else 0,
            int(same),
            sum(mine),
            (max(mine) - 2) % 2**32,
            min(mine),
            exclusive,
            int(np.bitwise_and.reduce(mine)),
            int(np.bitwise_or.reduce(mine)),
        ]


def test_64_bits_are_shuffled_as_two_words_and_matched_as_one():
    source = f"""{KERNEL}(unsigned long long* o) {{ unsigned long long x = (threadIdx.x & 1ull) << 40 | threadIdx.x;
        o[threadIdx.x] = __shfl_xor_sync(~0u, x, 1); o[32 + threadIdx.x] = __match_any_sync(~0u, x >> 40); }}"""
    out = cp.zeros(64, np.uint64)
    cp.RawKernel(source, "k")((1,), (32,), (out,))
    lanes = np.arange(32) ^ 1
    assert out.get()[:32].tolist() == [(lane & 1) << 40 | lane for lane in lanes.tolist()]
    assert out.get()[32:].tolist() == [0x55555555, 0xAAAAAAAA] * 16


def test_a_lane_that_is_not_there_gives_zero_as_on_an_h200():
    # 20 threads: lanes 20 to 31 never were; lanes 10 to 13 have returned
    found = run("if (t >= 10 && t < 14) return; o[t] = __shfl_down_sync(~0u, t + 100, 4);", 20, threads=20)
    assert found.tolist() == [104, 105, 106, 107, 108, 109, 0, 0, 0, 0, 0, 0, 0, 0, 118, 119, 0, 0, 0, 0]


def test_lanes_meet_in_a_shuffle_from_both_sides_of_a_branch():
    # asm keeps the compiler from merging the two; an H200 gives these values
    body = """unsigned r;
    if (t < 16) { r = __shfl_sync(~0u, t + 100, t ^ 16); asm volatile("" ::: "memory"); o[t] = r; }
    else { r = __shfl_sync(~0u, 7 * (t + 100), t ^ 16); o[t] = r + 1; }"""
    assert run(body, 32).tolist() == [7 * (t + 116) for t in range(16)] + [t + 101 for t in range(16)]


def test_lanes_vote_from_both_sides_of_a_branch():
    body = "if (t & 1) o[t] = __ballot_sync(~0u, t > 8); else o[t] = 1 + __ballot_sync(~0u, t < 5) - 1;"
    expected = sum(1 << t for t in range(32) if (t > 8 if t & 1 else t < 5))
    assert run(body, 32).tolist() == [expected] * 32


def test_a_warp_barrier_joins_both_sides_of_a_branch():
    body = """__shared__ volatile unsigned s[32]; s[t] = 0; __syncwarp();
    if (t < 16) { s[t] = t + 5; __syncwarp(); o[t] = s[t + 16]; } else { s[t] = 9 * t; __syncwarp(); o[t] = s[t -
    16]; }"""
    assert run(body, 32).tolist() == [9 * (t + 16) for t in range(16)] + [t + 5 for t in range(16)]


def test_lanes_that_leave_a_loop_at_different_times_meet_after_it():
    body = "unsigned x = t; while (x % 7 != 6) x++; o[t] = __shfl_xor_sync(~0u, x, 1);"
    last = [next(x for x in range(t, t + 8) if x % 7 == 6) for t in range(32)]
    assert run(body, 32).tolist() == [last[t ^ 1] for t in range(32)]


def test_lanes_wait_for_those_who_give_the_same_mask_and_not_for_any_who_wait_elsewhere():
    # even lanes come to their shuffle from two sides, while the odd ones stand at the next: a full mask waits for both
    body = """unsigned first = a[t], then;
        if (t % 2 == 0) {
            if (t < 8) asm volatile("shfl.sync.bfly.b32 %0, %1, 16, 31, 0x55555555;" : "=r"(first) : "r"(a[t] + 1));
            else asm volatile("shfl.sync.bfly.b32 %0, %1, 16, 31, 0x55555555;" : "=r"(first) : "r"(a[t] + 2));
        }
        asm volatile("shfl.sync.bfly.b32 %0, %1, 1, 31, 0xffffffff;" : "=r"(then) : "r"(first));
        o[t] = then;"""
    values = [100 * t for t in range(32)]
    given = [v + 1 if t < 8 else v + 2 for t, v in enumerate(values)]
    first = [given[t ^ 16] if t % 2 == 0 else values[t] for t in range(32)]
    assert run(body, 32, inputs=(values,)).tolist() == [first[t ^ 1] for t in range(32)]


def test_a_shuffle_in_a_branch_that_part_of_its_mask_does_not_take_is_a_deadlock():
    with pytest.raises(cp.KernelFault, match=r"waits for ever in shfl\.sync\.idx\.b32 for lanes of its warp") as fault:
        run("if (t < 8) o[t] = __shfl_sync(~0u, t, 0); __syncthreads(); o[t] += 1;", 32, threads=64)
    hazard = fault.value.hazard
    assert (hazard.kind, hazard.block, hazard.threads) == ("divergent-barrier", (0, 0, 0), ((0, 0, 0),))


def test_the_same_shuffle_with_its_own_lanes_in_the_mask_is_right():
    found = run("if (t % 32 < 8) o[t] = __shfl_sync(0xff, t, 3); __syncthreads(); o[t] += 1;", 64, threads=64)
    assert found.tolist() == [4] * 8 + [1] * 24 + [36] * 8 + [1] * 24


def test_activemask_names_the_lanes_that_stand_there():
    assert run("if (t % 3 == 1) o[t] = __activemask();", 32).tolist() == [
        0x92492492 if t % 3 == 1 else 0 for t in range(32)
    ]


def test_elect_names_the_lowest_lane_of_the_mask():
    body = """unsigned leader, mine;
    asm volatile("{.reg .pred p; elect.sync %0|p, %2; selp.u32 %1, 1, 0, p;}" : "=r"(leader), "=r"(mine) : "r"(~0u));
    o[t] = leader * 2 + mine;"""
    assert run(body, 32).tolist() == [1] + [0] * 31


def test_a_vote_may_negate_its_predicate():
    body = """asm volatile("{.reg .pred p; setp.gt.u32 p, %1, 3; vote.sync.ballot.b32 %0, !p, 0xffffffff;}"
        : "=r"(o[t]) : "r"(t));"""
    assert run(body, 32).tolist() == [0xF] * 32


def test_warp_sums_of_many_blocks_and_warps_stay_apart():
    body = (
        "unsigned x = blockIdx.x * 1000 + t; for (int d = 16; d; d /= 2) x += __shfl_xor_sync(~0u, x, d); "
        "o[blockIdx.x * 96 + t] = x;"
    )
    found = run(body, 3 * 96, threads=96, blocks=3).reshape(3, 3, 32)
    for block in range(3):
        for warp in range(3):
            assert set(found[block, warp]) == {sum(block * 1000 + warp * 32 + lane for lane in range(32))}


def test_reductions_over_a_block_count_and_combine():
    body = """o[t] = __syncthreads_count(t % 3 == 0); o[96+t] = __syncthreads_and(t < 96); o[192+t] =
    __syncthreads_or(t == 95);
    o[288+t] = __syncthreads_and(t < 95);"""
    found = run(body, 384, threads=96).reshape(4, 96)
    assert [set(row) for row in found] == [{32}, {1}, {1}, {0}]


def test_a_numbered_barrier_waits_for_as_many_threads_as_it_names():
    body = """unsigned r = 0; if (t < 64)
    asm volatile("{.reg .pred p; setp.gt.u32 p, %1, 10; bar.red.popc.u32 %0, 1, 64, p;}" : "=r"(r) : "r"(t));
    o[t] = r;"""
    assert run(body, 96, threads=96).tolist() == [53] * 64 + [0] * 32


def test_threads_that_arrive_do_not_wait_and_are_counted():
    body = """__shared__ unsigned s[96]; s[t] = t + 1; o[t] = 0;
    if (t < 32) { asm volatile("bar.sync 2, 96;"); o[t] = s[95 - t]; } else asm volatile("bar.arrive 2, 96;");"""
    assert run(body, 96, threads=96).tolist() == [96 - t for t in range(32)] + [0] * 64


def test_barrier_cta_is_the_same_barrier_under_its_newer_name():
    body = """__shared__ unsigned s[96]; s[t] = t + 1; unsigned r;
    asm volatile("barrier.cta.sync 3;"); o[t] = s[95 - t]; asm volatile("barrier.sync.aligned 4, 96;"); s[t] = 10 * t;
    asm volatile("{.reg .pred p; setp.lt.u32 p, %1, 7; barrier.cta.red.popc.u32 %0, 5, p;}" : "=r"(r) : "r"(t));
    o[96 + t] = r;
    if (t < 32) { asm volatile("barrier.cta.sync 6, 96;"); o[t] += s[95 - t]; }
    else asm volatile("barrier.cta.arrive 6, 96;");"""
    found = run(body, 192, threads=96)
    assert found[:96].tolist() == [96 - t + (10 * (95 - t) if t < 32 else 0) for t in range(96)]
    assert set(found[96:]) == {7}


def test_the_number_of_a_barrier_may_differ_between_warps():
    body = """__shared__ unsigned s[128]; s[t] = t; unsigned half = t / 64;
    asm volatile("bar.sync %0, 64;" :: "r"(half + 1)); o[t] = s[t ^ 32];"""
    assert run(body, 128, threads=128).tolist() == [t ^ 32 for t in range(128)]


def test_blocks_may_wait_for_one_another_through_a_counter():
    # a barrier of the whole grid: every block adds one and spins until all have
    body = """__shared__ unsigned seen; if (t == 0) { atomicAdd(o, 1); while (atomicAdd(o, 0) < gridDim.x); seen =
    o[0]; }
    __syncthreads(); o[1 + blockIdx.x * 32 + t] = seen;"""
    assert run(body, 129, blocks=4).tolist() == [4] + [4] * 128


def test_a_lock_that_blocks_spin_on_is_held_by_one_at_a_time():
    body = """if (t == 0) { while (atomicCAS(o, 0, 1)); unsigned x = *(volatile unsigned*)(o + 1); __threadfence();
    *(volatile unsigned*)(o + 1) = x + 1; __threadfence(); atomicExch(o, 0); }"""
    assert run(body, 2, blocks=16).tolist() == [0, 16]


def test_a_lock_that_the_lanes_of_one_warp_spin_on_is_let_go():
    body = """bool done = false; while (!done) { if (atomicCAS(o, 0, 1) == 0) { o[1] = o[1] + t; __threadfence();
    atomicExch(o, 0); done = true; } }"""
    assert run(body, 2).tolist() == [0, sum(range(32))]


def test_special_registers_say_where_a_thread_stands():
    names = ["laneid", "warpid", "nwarpid", "lanemask_eq", "lanemask_lt", "lanemask_le", "lanemask_gt", "lanemask_ge"]
    body = "".join(f'asm("mov.u32 %0, %%{n};" : "=r"(o[{70 * i} + t]));' for i, n in enumerate(names))
    found = run(body, 70 * len(names), threads=70).reshape(-1, 70)
    for t in range(70):
        bit = 1 << t % 32
        above = FULL & ~(2 * bit - 1)
        assert found[:, t].tolist() == [t % 32, t // 32, 3, bit, bit - 1, 2 * bit - 1, above, above | bit]


def test_the_emulated_gpu_has_one_multiprocessor_and_its_clocks_go_forward():
    body = """asm volatile("mov.u32 %0, %%smid;" : "=r"(o[0])); asm volatile("mov.u32 %0, %%nsmid;" : "=r"(o[1]));
    long long a = clock64(), b = clock64(); o[2] = b > a; unsigned long long c, d;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(c)); asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(d));
    o[3] = d >= c;"""
    assert run(body, 4, threads=1).tolist() == [0, 1, 1, 1]
