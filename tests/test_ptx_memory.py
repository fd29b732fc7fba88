"""Loads and stores in every state space, of every width, plain and through generic addresses."""

import numpy as np
import pytest
from ptx_programs import HEADER, execute

from gemmlab import emulator as cp
from gemmlab.emulator.ptx import PtxError

KERNEL = 'extern "C" __global__ void k'


def kernel(body: str, declarations: str = "") -> str:
    """A kernel of one parameter whose threads have %q0, the address of 16 bytes of their own, and their number in
    %r0.
    """
    return (
        HEADER
        + declarations
        + """
.visible .entry k(.param .u64 p0)
{
.reg .pred %p<4>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %q<8>; .reg .f32 %f<8>; .reg .f64 %d<4>;
mov.u32 %r0, %tid.x; mul.wide.u32 %q1, %r0, 16; ld.param.u64 %q0, [p0]; add.u64 %q0, %q0, %q1;
"""
        + body
        + "\nret;\n}"
    )


def run(body: str, declarations: str = "") -> np.ndarray:
    """The 16 bytes of each of 32 threads, which start as 0, 1, ..., 15, once the body has run."""
    (out,) = execute(kernel(body, declarations), [np.tile(np.arange(16, dtype=np.uint8), (32, 1))])
    return out


def words(*values: int) -> list[int]:
    return list(np.array(values, np.uint32).view(np.uint8))


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        ("ld.global.u8 %r1, [%q0+3]; st.global.u32 [%q0], %r1;", words(3)),
        (
            "mov.u32 %r1, 0xFE; st.global.u8 [%q0], %r1; ld.global.s8 %r2, [%q0]; st.global.u32 [%q0], %r2;",
            words(0xFFFFFFFE),
        ),
        ("ld.global.u16 %h1, [%q0+2]; st.global.u16 [%q0], %h1;", [2, 3]),
        ("ld.global.nc.b32 %r1, [%q0+4]; st.global.b32 [%q0], %r1;", [4, 5, 6, 7]),
        ("ldu.global.u32 %r1, [%q0+4]; st.global.u32 [%q0], %r1;", [4, 5, 6, 7]),
        ("ld.global.u64 %q2, [%q0+8]; st.global.u64 [%q0], %q2;", [8, 9, 10, 11, 12, 13, 14, 15]),
        ("ld.global.v2.u16 {%h1, %h2}, [%q0+4]; st.global.v2.u16 [%q0], {%h2, %h1};", [6, 7, 4, 5]),
        ("ld.global.v4.u8 {%h1, %h2, %h3, %h4}, [%q0]; st.global.v4.u8 [%q0], {%h4, %h3, %h2, %h1};", [3, 2, 1, 0]),
        ("ld.global.v4.b32 {%r1, _, _, %r2}, [%q0]; st.global.v2.b32 [%q0], {%r2, %r1};", [12, 13, 14, 15, 0, 1, 2, 3]),
        ("ld.volatile.global.u32 %r1, [%q0+4]; st.volatile.global.u32 [%q0], %r1;", [4, 5, 6, 7]),
        ("ld.relaxed.gpu.global.u32 %r1, [%q0+4]; st.release.gpu.global.u32 [%q0], %r1;", [4, 5, 6, 7]),
        ("ld.global.L1::no_allocate.L2::128B.b32 %r1, [%q0+4]; st.global.cg.b32 [%q0], %r1;", [4, 5, 6, 7]),
        ("ld.b32 %r1, [%q0+4]; st.b32 [%q0], %r1;", [4, 5, 6, 7]),
        ("ld.const.b32 %r1, [c+4]; st.global.b32 [%q0], %r1;", words(22)),
        ("mov.u64 %q2, c; ld.const.b32 %r1, [%q2+8]; st.global.b32 [%q0], %r1;", words(33)),
        ("st.shared.u32 [s+8], 77; ld.shared::cta.u32 %r1, [s+8]; st.global.u32 [%q0], %r1;", words(77)),
        ("mov.u32 %r1, s; st.shared.u32 [%r1+-0], 5; ld.shared.u32 %r2, [s]; st.global.u32 [%q0], %r2;", words(5)),
        ("st.local.v2.u32 [l], {1, 2}; ld.local.u64 %q2, [l]; st.global.u64 [%q0], %q2;", words(1, 2)),
    ],
    ids=lambda v: v.split(" ")[0] if isinstance(v, str) else None,
)
def test_a_load_gives_the_bytes_that_lie_there(load, expected):
    declarations = ".const .align 4 .b32 c[3] = {11, 22, 33};"
    body = ".shared .align 16 .b8 s[64]; .local .align 8 .b8 l[16];\n" + load
    for thread in run(body, declarations):
        assert thread[: len(expected)].tolist() == expected
        assert thread[len(expected) :].tolist() == list(range(len(expected), 16))


def test_generic_addresses_find_each_space_lane_by_lane():
    """Lanes 0, 3, 6, ... load from shared memory, 1, 4, 7, ... from local, the others from global, in one
    instruction.
    """
    body = """
.shared .align 16 .b8 s[256]; .local .align 8 .b8 l[16];
shl.b32 %r1, %r0, 2; mov.u32 %r2, s; add.u32 %r2, %r2, %r1; add.u32 %r3, %r0, 1000; st.shared.u32 [%r2], %r3;
add.u32 %r4, %r0, 2000; st.local.u32 [l+4], %r4; add.u32 %r5, %r0, 3000; st.global.u32 [%q0+12], %r5;
cvt.u64.u32 %q2, %r2; cvta.shared.u64 %q2, %q2; mov.u64 %q3, l; cvta.local.u64 %q3, %q3; add.u64 %q3, %q3, 4;
add.u64 %q4, %q0, 12; cvta.global.u64 %q4, %q4;
rem.u32 %r6, %r0, 3; setp.eq.u32 %p1, %r6, 0; setp.eq.u32 %p2, %r6, 1;
selp.b64 %q5, %q3, %q4, %p2; selp.b64 %q5, %q2, %q5, %p1;
ld.u32 %r7, [%q5]; add.u32 %r7, %r7, 10; st.u32 [%q5], %r7;
ld.shared.u32 %r8, [%r2]; ld.local.u32 %r9, [l+4]; ld.global.u32 %r10, [%q0+12];
st.global.v4.u32 [%q0], {%r7, %r8, %r9, %r10};
"""
    found = run(body).view(np.uint32)
    for lane in range(32):
        shared, local, there = lane + 1000, lane + 2000, lane + 3000
        if lane % 3 == 0:
            loaded = shared = shared + 10
        elif lane % 3 == 1:
            loaded = local = local + 10
        else:
            loaded = there = there + 10
        assert found[lane].tolist() == [loaded, shared, local, there]


def test_a_value_narrower_than_its_register_is_extended_by_its_type():
    body = """mov.u32 %r1, 0x8081; st.global.u16 [%q0], %r1; ld.global.s16 %r2, [%q0]; ld.global.u16 %r3, [%q0];
    ld.global.b8 %h1, [%q0]; cvt.u32.u16 %r4, %h1; ld.global.s8 %q2, [%q0]; cvt.u32.u64 %r5, %q2;
    st.global.v4.u32 [%q0], {%r2, %r3, %r4, %r5};"""
    assert set(map(tuple, run(body).view(np.uint32))) == {(0xFFFF8081, 0x8081, 0x81, 0xFFFFFF81)}


def test_dynamic_shared_memory_follows_the_static_arrays():
    source = f"""extern __shared__ int dynamic[]; {KERNEL}(int* o) {{ __shared__ int fixed[32]; int t = threadIdx.x;
    fixed[t] = t; dynamic[t] = 100 + t; __syncthreads(); o[t] = fixed[t ^ 1] + dynamic[t ^ 2]; }}"""
    out = cp.zeros(32, np.int32)
    cp.RawKernel(source, "k")((1,), (32,), (out,), shared_mem=128)
    assert out.get().tolist() == [(t ^ 1) + 100 + (t ^ 2) for t in range(32)]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("ld.global.v4.b64 {%q1, %q2, %q3, %q4}, [%q0];", "more than 16 bytes"),
        ("ld.global.v2.u32 %r1, [%q0];", "expected 2 registers, found 1"),
        ("ld.param.u64 {%q1, %q2}, [p0];", "expected 1 registers, found 2"),
        ("st.global.u32 [%q0], {%r1, %r2};", "expected 1 registers, found 2"),
        ("ld.shared::cluster.u32 %r1, [%r0];", r"ld\.shared::cluster\.u32"),
        ("ld.global.u32 %r1, [0];", "in no array"),
        ("ld.global.u32 %r1, [nowhere];", "does not know the name nowhere"),
        ("ld.param.u32 %r1, [p0+6];", "p0 is no parameter that has bytes 6 to 9"),
        ("ld.global.u32 %x, [%q0];", "no register %x"),
        ("tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%q0, {%r1}];", r"tex\.1d"),
        ("mbarrier.init.shared.b64 [%r0], 1;", r"mbarrier\.init"),
        ("atom.local.add.u32 %r1, [%r0], 1;", r"atom\.local"),
        ("mapa.u64 %q1, %q2, %r1;", "mapa"),
        ("shfl.idx.b32 %r1, %r2, 0, 31;", "before Volta"),
        ("add.f128 %r1, %r2, %r3;", r"add\.f128"),
        ("bar.sync;", r"bar\.sync"),
        ("fma.rn.f32 %f1, %f2;", "source operands"),
        ("mov.u32 %r1, %smem_of_another_age;", "no register %smem_of_another_age"),
    ],
    ids=lambda v: v.split(" ")[0],
)
def test_what_is_not_emulated_is_refused_by_name(body, why):
    with pytest.raises(PtxError, match=why):
        run(body)


def test_an_array_of_pointers_leads_to_other_arrays():
    source = f"{KERNEL}(float* o, const float* const* a) {{ o[threadIdx.x] = a[0][threadIdx.x] - a[1][threadIdx.x]; }}"
    first, second = (cp.asarray(np.arange(32, dtype=np.float32) * scale) for scale in (5, 2))
    out = cp.zeros(32, np.float32)
    addresses = cp.asarray(np.array([first.address, second.address], np.uint64))
    cp.RawKernel(source, "k")((1,), (32,), (out, addresses))
    assert out.get().tolist() == [3.0 * t for t in range(32)]
