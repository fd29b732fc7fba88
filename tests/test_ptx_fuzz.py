"""Text that is no PTX, and kernels that make no sense: an error of the emulator's own, or an answer, and nothing
else.
"""

import random
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_programs import HEADER, execute

from gemmlab import emulator as cp
from gemmlab.emulator.parser import parse
from gemmlab.emulator.ptx import PtxError

KERNEL = r"""
.global .align 4 .b8 tab[16] = {1, 2, 3, 4};
.func (.param .b32 rv) foo(.param .b32 x) { .reg .b32 %r<3>; ld.param.b32 %r1, [x]; add.s32 %r2, %r1, 1; st.param.b32
[rv], %r2; ret; }
.visible .entry k(.param .u64 p0, .param .u64 p1)
{
.reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %q<8>; .reg .f32 %f<8>; .reg .f64 %fd<4>; .reg .b16 %h<4>;
.shared .align 16 .b8 s[512]; .local .align 8 .b8 l[32];
mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 2; ld.param.u64 %q0, [p0]; cvt.u64.u32 %q1, %r1; add.u64 %q2, %q0, %q1;
ld.global.u32 %r2, [%q2];
mov.u32 %r3, s; add.u32 %r4, %r3, %r1; st.shared.u32 [%r4], %r2; bar.sync 0; ld.shared.u32 %r5, [%r4];
cvt.rn.f32.u32 %f1, %r5; fma.rn.f32 %f2, %f1, %f1, 0f3F800000; sqrt.rn.f32 %f3, %f2; div.rz.f32 %f4, %f3, %f1;
ex2.approx.f32 %f5, %f4;
cvt.f64.f32 %fd1, %f5; mul.f64 %fd2, %fd1, %fd1; cvt.rn.f16.f32 %h1, %f2; add.f16 %h2, %h1, %h1;
shfl.sync.bfly.b32 %r6|%p1, %r5, 1, 31, -1; vote.sync.ballot.b32 %r7, %p1, -1; match.any.sync.b32 %r8, %r5, -1;
atom.global.add.u32 %r9, [%q0], 1; red.shared.max.u32 [%r3], %r0;
{ .param .b32 param0; .param .b32 retval0; st.param.b32 [param0], %r9; call.uni (retval0), foo, (param0);
ld.param.b32 %r10, [retval0]; }
mov.u64 %q4, l; st.local.v2.u32 [%q4], {%r10, %r9}; ld.local.u32 %r11, [%q4+4];
setp.lt.u32 %p2, %r0, 16; @%p2 bra L1; add.u32 %r12, %r11, 3; bra.uni L2;
L1: mul.lo.u32 %r12, %r11, 5;
L2: mov.u32 %r13, 0;
L3: add.u32 %r13, %r13, 1; setp.lt.u32 %p3, %r13, 4; @%p3 bra L3;
brx.idx %r13, T;
T: .branchtargets L4, L4, L4, L4, L5;
L4: mov.u32 %r12, 7;
L5: prmt.b32 %r14, %r12, %r13, 0x5410; lop3.b32 %r15, %r14, %r12, %r1, 0x96; bfe.u32 %r16, %r15, 3, 7; add.cc.u32
%r17, %r15, %r16; addc.u32 %r18, 0, 0;
dp4a.u32.u32 %r19, %r17, %r18, %r1; st.global.u32 [%q2], %r19; bar.warp.sync -1; membar.gl; mov.b64 %q5, {%r1, %r2};
mov.b64 {%r1, %r2}, %q5;
selp.b32 %r1, %r2, %r3, %p3; set.gt.u32.f32 %r2, %f1, %f2; slct.u32.s32 %r2, %r3, %r4, %r5; cvta.shared.u64 %q6, %q1;
isspacep.shared %p1, %q6;
min.f32 %f1, %f2, %f3; rem.s32 %r1, %r2, %r3; vadd4.u32.u32.u32.sat %r1, %r2, %r3, %r4; redux.sync.add.s32 %r1, %r2,
-1; nanosleep.u32 10;
testp.normal.f32 %p1, %f1; cvt.rni.s32.f32 %r1, %f1; activemask.b32 %r2; bar.red.popc.u32 %r1, 0, %p1; bar.arrive 2, 64;
ret;
}
"""
WORDS = (
    sorted(set(re.findall(r"[\w%$]+", KERNEL)))
    + "f16 bf16x2 u64 s16 rz sat ftz cc wide hi x2 v4 -1 4294967296 { } ; , [ ] @! _ 017 0b1 1e5 abs tanh trap".split()
)
ALLOWED = (PtxError, cp.KernelFault)
"""What PTX text may raise; UnsupportedInstruction is a PtxError."""


def attempt(text: str) -> None:
    values = np.arange(1024, dtype=np.uint32)
    try:
        execute(HEADER + text, [values, values.copy()], (2, 1, 1), (64, 1, 1), seconds=0.5)
    except ALLOWED:
        pass


def changed(text: str, rng: random.Random) -> str:
    """The text with one to three tokens replaced, left out, doubled, swapped or damaged."""
    tokens = re.findall(r"[%\w$]+|\s+|.", text)
    for _ in range(rng.randint(1, 3)):
        i, j = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        kind = rng.randrange(5)
        if kind == 0:
            tokens[i] = rng.choice(WORDS)
        elif kind == 1:
            tokens[i] = ""
        elif kind == 2:
            tokens[i] += rng.choice(WORDS)
        elif kind == 3:
            tokens[i], tokens[j] = tokens[j], tokens[i]
        else:
            tokens[i] = tokens[i][:1] + chr(rng.randint(32, 126)) + tokens[i][2:]
    return "".join(tokens)


def test_the_kernel_that_is_damaged_below_runs_as_it_stands():
    values = np.arange(1024, dtype=np.uint32)
    out, _ = execute(HEADER + KERNEL, [values, values.copy()], (2, 1, 1), (64, 1, 1))
    assert not np.array_equal(out, values)


@settings(max_examples=400, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_damaged_ptx_gives_an_error_of_the_emulator_or_an_answer(seed):
    attempt(changed(KERNEL, random.Random(seed)))


@settings(max_examples=300, deadline=None)
@given(line=st.integers(0, 10**6), word=st.sampled_from(WORDS), place=st.integers(0, 10**6))
def test_a_changed_operand_or_opcode_gives_an_error_of_the_emulator_or_an_answer(line, word, place):
    statements = KERNEL.split(";")
    number = 12 + line % (len(statements) - 13)
    tokens = re.findall(r"[%\w$]+|.", statements[number], re.S)
    words = [i for i, token in enumerate(tokens) if re.match(r"[%\w$]", token)]
    if words:
        tokens[words[place % len(words)]] = word
    statements[number] = "".join(tokens)
    attempt(";".join(statements))


@settings(max_examples=300, deadline=None)
@given(
    text=st.text(alphabet=st.characters(codec="ascii"), max_size=200)
    | st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join)
)
def test_any_text_is_read_or_refused(text):
    for form in (text, f".visible .entry k()\n{{\n{text}\n}}"):
        try:
            parse(form)
        except PtxError:
            pass


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("}", "a '}' without its '{'"),
        (".visible .entry k() {", "the PTX ends inside .visible .entry k"),
        (".visible .entry k() { .reg .b32 %r<99999999999>; }", "registers"),
        (".visible .entry k() { ld.global.u32 %r1, [%r1 * 4]; }", "cannot read the address"),
        (".global .align 4 .x99 v;", "unknown PTX type"),
        (".visible .entry k(.param .u32) { }", "cannot read the parameter"),
        (".visible .entry k() { @ add.u32 %r1, %r2, %r3; }", "cannot read the instruction"),
        (".global .u32 v = {a+b+c};", "cannot read the initial value"),
    ],
)
def test_a_refusal_quotes_what_could_not_be_read(text, why):
    with pytest.raises(PtxError, match=re.escape(why)):
        parse(text)


@pytest.mark.parametrize(
    "operands",
    [
        "0f3F800000, %f1, %f1, %f1",
        "{%f1, %f2}, %f1, %f1, %f1",
        "[%q1], %f1, %f1, %f1",
        "%f1, %f1",
        "",
        "%f1, %f2, %f3, L",
    ],
)
def test_an_fma_whose_operands_make_no_sense_is_refused_with_its_name(operands):
    body = f".reg .f32 %f<4>; .reg .b64 %q<2>; fma.rn.f32 %f2, %f1, %f1, %f1; fma.rn.f32 {operands}; ret;"
    with pytest.raises(PtxError, match="fma"):
        execute(f"{HEADER}.visible .entry k(.param .u64 p0, .param .u64 p1) {{ {body} }}", [], (1, 1, 1), (32, 1, 1))


EXPRESSIONS = [
    "x", "y", "threadIdx.x", "blockIdx.x", "i", "7", "-3", "0",
        "s[threadIdx.x & 63]", "A[i & 255]", "loc[x & 3]", "A[x]", "s[y]",
    "__popc({0})", "min({0}, {1})", "__ballot_sync(~0u, {0})", "__shfl_xor_sync(~0u, {0}, {1})", "f({0})",
        "atomicAdd(&A[({0}) & 255], {1})",
    "({0} + {1})", "({0} * {1})", "({0} / {1})", "({0} % {1})", "({0} << {1})", "({0} < {1})", "({0} && {1})",
        "({0} ? {1} : x)",
    "(int)((float){0} / {1})", "(int)sqrt((double){0})", "__byte_perm({0}, {1}, x)", "__any_sync(0xffff, {0})",
]  # fmt: skip
STATEMENTS = [
    "x = {0};", "y += {0};", "s[({0}) & 63] = {1};",
        "A[({0}) & 511] = {1};", "A[{0}] = {1};", "__syncthreads();", "__syncwarp();",
    "if ({0}) {{ {s} }}", "if ({0}) {{ {s} }} else {{ {s} }}",
        "for (int q = 0; q < ({0} & 7); q++) {{ {s} }}", "return;",
    "while ({0}) {{ {s} if (y++ > 20) break; }}", "if (x == 77) __trap();", "loc[{0} & 3] = y;",
]  # fmt: skip


def kernel_source(rng: random.Random) -> str:
    def expression(depth: int) -> str:
        form = rng.choice(EXPRESSIONS[:13] if depth > 2 else EXPRESSIONS)
        return form.format(*(expression(depth + 1) for _ in range(2))) if "{" in form else form

    def statement(depth: int) -> str:
        form = rng.choice(STATEMENTS[:6] if depth > 2 else STATEMENTS)
        return form.format(*(expression(0) for _ in range(2)), s=statement(depth + 1) if "{s}" in form else "")

    body = "\n".join(statement(0) for _ in range(rng.randint(1, 6)))
    return f"""__device__ __noinline__ int f(int v) {{ return v * 3 + 1; }}
extern "C" __global__ void k(int* A)
{{
    __shared__ int s[64];
    int loc[4] = {{1, 2, 3, 4}}, i = blockIdx.x * blockDim.x + threadIdx.x, x = i, y = threadIdx.x;
    s[threadIdx.x & 63] = x;
{body}
    A[i] = x + y;
}}
"""


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), threads=st.sampled_from([33, 48, 64]))
def test_a_kernel_that_makes_no_sense_gives_a_fault_or_an_answer(seed, threads):
    limit = cp.time_limit()
    cp.time_limit(0.5)
    try:
        kernel = cp.RawKernel(kernel_source(random.Random(seed)), "k")
        array = cp.asarray(np.arange(512, dtype=np.int32))
        cp.trace(kernel, (2,), (threads,), (array,))
        kernel((2,), (threads,), (array,))
    except (*ALLOWED, cp.CompileError):
        pass
    finally:
        cp.time_limit(limit)
