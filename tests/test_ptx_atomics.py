"""Atomics: lanes take their turns one by one, in global and shared memory, in every type."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemmlab import emulator as cp

KERNEL = 'extern "C" __global__ void k'
CALLS = {
    "atomicAdd": lambda old, v: old + v,
    "atomicSub": lambda old, v: old - v,
    "atomicMin": min,
    "atomicMax": max,
    "atomicAnd": lambda old, v: old & v,
    "atomicOr": lambda old, v: old | v,
    "atomicXor": lambda old, v: old ^ v,
    "atomicExch": lambda old, v: v,
    "atomicInc": lambda old, v: 0 if old >= v else old + 1,
    "atomicDec": lambda old, v: v if old == 0 or old > v else old - 1,
}
TYPES = {"int": np.int32, "unsigned": np.uint32, "unsigned long long": np.uint64}


def wrap(value: int, dtype: type) -> int:
    bits = 8 * np.dtype(dtype).itemsize
    value %= 1 << bits
    return value - (1 << bits) if np.dtype(dtype).kind == "i" and value >> bits - 1 else value


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize(
    ("call", "type_"),
    [
        (c, t)
        for c in CALLS
        for t in TYPES
        if (c not in ("atomicInc", "atomicDec") or t == "unsigned") and (c, t) != ("atomicSub", "unsigned long long")
    ],
)
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_each_lane_finds_what_the_lanes_before_it_left(call, type_, space, data):
    dtype = TYPES[type_]
    limits = np.iinfo(dtype)
    values = data.draw(
        st.lists(st.integers(max(limits.min, -9), 9) | st.integers(limits.min, limits.max), min_size=1, max_size=40)
    )
    places = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=7))
    values, places = np.resize(np.array(values, dtype), 64), np.resize(places, 64)
    start = np.arange(5, dtype=dtype)
    body = f"found[t] = {call}(&m[p[t]], v[t]);"
    if space == "shared":
        body = (
            f"__shared__ {type_} m[5]; if (t < 5) m[t] = o[t]; __syncthreads(); {body} __syncthreads(); if (t < "
            f"5) o[t] = m[t];"
        )
    else:
        body = f"{type_}* m = o; {body}"
    source = f"{KERNEL}({type_}* o, {type_}* found, const {type_}* v, const int* p) {{ int t = threadIdx.x; {body} }}"
    out, found = cp.asarray(start), cp.zeros(64, dtype)
    cp.RawKernel(source, "k")((1,), (64,), (out, found, cp.asarray(values), cp.asarray(places.astype(np.int32))))
    memory, olds = [int(v) for v in start], []
    for value, place in zip(values.tolist(), places.tolist(), strict=True):
        olds.append(memory[place])
        memory[place] = wrap(CALLS[call](memory[place], value), dtype)
    assert found.get().tolist() == olds
    assert out.get().tolist() == memory


def test_a_compare_and_swap_succeeds_for_the_first_lane_alone():
    source = f"{KERNEL}(int* o, int* found) {{ found[threadIdx.x] = atomicCAS(o, 7, threadIdx.x); }}"
    out, found = cp.asarray(np.array([7], np.int32)), cp.zeros(64, np.int32)
    cp.RawKernel(source, "k")((1,), (64,), (out, found))
    assert out.get().tolist() == [0]
    assert found.get().tolist() == [7] + [0] * 63


def test_a_swap_of_16_bits_leaves_its_neighbours():
    source = f"{KERNEL}(unsigned short* o) {{ atomicCAS(o + 1, (unsigned short)2, (unsigned short)9); }}"
    out = cp.asarray(np.array([1, 2, 3], np.uint16))
    cp.RawKernel(source, "k")((1,), (32,), (out,))
    assert out.get().tolist() == [1, 9, 3]


def test_float_sums_are_added_in_order_of_blocks_and_threads_with_a_rounding_each():
    rng = np.random.default_rng(5)
    for dtype, type_ in ((np.float32, "float"), (np.float64, "double")):
        values = rng.standard_normal(256).astype(dtype)
        source = f"{KERNEL}({type_}* o, const {type_}* v) {{ atomicAdd(o, v[blockIdx.x * blockDim.x + threadIdx.x]); }}"
        out = cp.zeros(1, dtype)
        cp.RawKernel(source, "k")((4,), (64,), (out, cp.asarray(values)))
        total = dtype(0)
        for value in values:
            total += value
        assert out.get()[0] == total


def test_a_float_sum_in_global_memory_flushes_subnormals_and_in_shared_memory_does_not():
    source = f"""{KERNEL}(float* o) {{ __shared__ float s; s = 1e-40f; atomicAdd(&s, 1e-40f); o[0] = s;
        atomicAdd(o + 1, 1e-40f); }}"""
    out = cp.asarray(np.array([0, 1e-40], np.float32))
    cp.RawKernel(source, "k")((1,), (1,), (out,))
    # an H200 gives these as well
    assert out.get().tolist() == [float(np.float32(1e-40) + np.float32(1e-40)), 0.0]


def test_a_float_sum_of_many_lanes_flushes_in_between():
    # 2^-126 - 1.5 * 2^-126 is subnormal and becomes -0, so that what follows starts from nothing
    source = f"{KERNEL}(float* o, const float* v) {{ atomicAdd(o, v[threadIdx.x]); }}"
    tiny = np.float32(2.0**-126)
    values = np.array([tiny, -1.5 * tiny, 4 * tiny, 0], np.float32)
    out = cp.zeros(1, np.float32)
    cp.RawKernel(source, "k")((1,), (4,), (out, cp.asarray(values)))
    assert out.get()[0] == 4 * tiny


def test_vectors_and_halves_are_added_element_by_element():
    asm = {
        "red.global.add.v2.f32 [%0], {%1, %2};": (np.float32, [1.0, 2.0], "f", ("1.0f", "2.0f")),
        "red.global.add.v4.f32 [%0], {%1, %2, %1, %2};": (np.float32, [1.0, 2.0, 1.0, 2.0], "f", ("1.0f", "2.0f")),
        "red.global.add.noftz.f16x2 [%0], %1;": (np.float16, [1.0, 2.0], "r", ("0x40003c00u", "0u")),
        "red.global.add.noftz.v2.f16x2 [%0], {%1, %2};": (
            np.float16,
            [1.0, 2.0, 0.0, 0.5],
            "r",
            ("0x40003c00u", "0x38000000u"),
        ),
        "red.global.max.noftz.v2.f16x2 [%0], {%1, %2};": (
            np.float16,
            [1 / 32, 2 / 32, 0.0, 0.5 / 32],
            "r",
            ("0x40003c00u", "0x38000000u"),
        ),
    }
    for text, (dtype, each, letter, values) in asm.items():
        given = ", ".join(f'"{letter}"({v})' for v in values)
        source = f'struct V; {KERNEL}(V* o) {{ asm volatile("{text}" :: "l"(o), {given}); }}'
        out = cp.zeros(len(each), dtype)
        cp.RawKernel(source, "k")((2,), (16,), (out,))
        assert out.get().tolist() == [32 * v for v in each], text


def test_bfloat16_sums_round_to_8_bits_each_time():
    source = f"""{KERNEL}(unsigned* o) {{ unsigned one = 0x3f803f80u;
        asm volatile("red.global.add.noftz.bf16x2 [%0], %1;" :: "l"(o), "r"(one)); }}"""
    out = cp.zeros(1, np.uint32)
    cp.RawKernel(source, "k")((1,), (300,), (out,))
    # 256 + 1 lies half-way and goes to the even neighbour, 256: the sum stays there
    assert hex(out.get()[0]) == "0x43804380"


def test_generic_addresses_find_global_and_shared_memory():
    source = f"""{KERNEL}(int* o, int which) {{ __shared__ int s[1]; s[0] = 10; __syncthreads();
        int* m = (threadIdx.x + which) % 2 ? s : o; atomicAdd(m, 1); __syncthreads(); if (threadIdx.x == 0) o[1] =
        s[0]; }}"""
    out = cp.zeros(2, np.int32)
    cp.RawKernel(source, "k")((1,), (64,), (out, np.int32(0)))
    assert out.get().tolist() == [32, 42]


def test_an_atomic_outside_its_array_is_reported_once_and_the_others_are_done():
    source = f"{KERNEL}(int* o) {{ atomicAdd(o + threadIdx.x, 1); }}"
    out = cp.zeros(8, np.int32)
    kernel = cp.RawKernel(source, "k")
    (hazard,) = [h for h in cp.trace(kernel, (1,), (10,), (out,)).hazards if h.kind == "out-of-bounds"]
    assert hazard.count == 2
    assert out.get().tolist() == [1] * 8
    with pytest.raises(cp.KernelFault, match=r"updates 4 bytes at byte 32 \(o\[8\]\) of o"):
        kernel((1,), (10,), (out,))


def test_every_lane_takes_a_turn_though_all_add_the_same():
    source = f"{KERNEL}(unsigned long long* o) {{ atomicAdd(o, 1ull); }}"
    out = cp.zeros(1, np.uint64)
    cp.RawKernel(source, "k")((100, 3), (32, 4), (out,))
    assert out.get().tolist() == [100 * 3 * 128]
