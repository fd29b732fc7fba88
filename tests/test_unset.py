"""Variables in registers that are read before they have a value: told where a result depends on them, not elsewhere."""

import numpy as np
import pytest

from gemmlab import emulator as cp
from gemmlab import nvrtc
from gemmlab.emulator import unset
from gemmlab.emulator.code import compile_kernel
from gemmlab.emulator.memory import GlobalMemory
from gemmlab.emulator.parser import parse
from gemmlab.exercises import Refused, shared_tile_exercises
from gemmlab.ladder import RUNGS

HEADER = 'extern "C" __global__ void k(const float* x, float* y, int n) {'


def traced(body, n=7):
    y = cp.asarray(np.full(32, -1, np.float32))
    args = cp.asarray(np.arange(64, dtype=np.float32)), y, np.int32(n)
    return cp.trace(cp.RawKernel(f"{HEADER}\n{body}\n}}", "k"), (1,), (32,), args), cp.asnumpy(y)


def the(trace):
    (hazard,) = trace.hazards
    assert hazard.kind == "uninitialized"
    return hazard


def test_a_variable_without_any_value_is_told_by_the_compiler_which_drops_the_store():
    trace, y = traced("    float v;\n    y[threadIdx.x] = v;")
    assert the(trace).line == 3 and "v is used before it has a value" in the(trace).message
    assert not trace.accesses and (y == -1).all()


# The compiler calculates with what has no value: even the code for debuggers shows nothing of it.
@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("float v; y[threadIdx.x] = v * x[0];", "v is"),
        ("int i; y[threadIdx.x] = i * 2;", "i is"),
        ("float v; int i; y[threadIdx.x] = v + 1 + (i & 7);", "i and v are"),
    ],
)
def test_what_the_compiler_calculates_from_no_value_is_told_in_its_words(body, names):
    trace, _ = traced(body)
    assert the(trace).line == 2 and f"{names} used before" in the(trace).message


SUM = """    float sum;
    for (int i = 0; i < n; ++i)
        sum += x[i];
    y[threadIdx.x] = sum;"""


def test_a_sum_that_nobody_set_to_zero_is_told_where_it_is_read():
    trace, y = traced(SUM)
    assert the(trace).line == 4
    assert "has no value yet, and the results depend on it" in the(trace).message
    assert np.isnan(y).all()  # as the launch that was traced left it, not its repetition


def test_sums_of_a_register_tile_that_nobody_set_to_zero_are_told_once():
    body = """    float sums[2][2];
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < 4; ++j)
            sums[j / 2][j % 2] += x[i + j];
    y[threadIdx.x] = sums[0][0] + sums[0][1] + sums[1][0] + sums[1][1];"""
    assert the(traced(body)[0]).line == 5


EXTREMES = ["fmaxf(m, v)", "fminf(m, v)", "v > m ? v : m", "v <= m ? m : v", "v < m ? v : m", "v >= m ? m : v"]


VALUES = ["x[i] + 1", "-1 - x[i]", "x[i] - 3"]


@pytest.mark.parametrize(
    ("kind", "extreme", "value"),
    [("float", extreme, value) for extreme in EXTREMES for value in VALUES]
    + [("int", f"{of}(m, v)", value) for of in ("max", "min") for value in VALUES]
    + [("unsigned", f"{of}(m, v)", "x[i] + 1") for of in ("max", "min")],
)
def test_no_largest_or_smallest_value_hides_that_the_first_had_none_to_compare_with(kind, extreme, value):
    body = f"    {kind} m;\n    for (int i = 0; i < n; ++i) {{ {kind} v = (int)({value}); m = {extreme}; }}"
    assert the(traced(f"{body}\n    y[threadIdx.x] = m;")[0]).line == 3


# NVRTC makes each of these a constant NaN, without a word.
@pytest.mark.parametrize(
    "body",
    [
        "float sum; for (int i = 0; i < 8; ++i) sum += x[i]; y[threadIdx.x] = sum;",
        "double sum; for (int i = 0; i < 8; ++i) sum += x[i]; y[threadIdx.x] = sum;",
        "float sums[2]; for (int i = 0; i < 8; ++i) sums[i % 2] += x[i]; y[threadIdx.x] = sums[0] + sums[1];",
        "float4 v; v.x += x[0]; v.y = x[1]; y[threadIdx.x] = v.x + v.y;",
        # also a NaN would stay: beta == 0 does not help
        "float old; if (n > 9) old = y[threadIdx.x]; y[threadIdx.x] = x[0] + 0.0f * old;",
    ],
)
def test_a_variable_that_the_compiler_made_a_nan_is_told(body):
    trace, y = traced(body)
    assert the(trace).line == 2 and np.isnan(y).all()


def test_what_is_printed_may_not_depend_on_a_variable_without_a_value_either(capsys):
    body = SUM.replace("y[threadIdx.x] = sum;", 'if (threadIdx.x == 0) printf("%f\\n", sum);\n    y[threadIdx.x] = 1;')
    assert the(traced(body)[0])
    assert capsys.readouterr().out == "nan\n"


@pytest.mark.parametrize(
    "body",
    [
        SUM.replace("float sum;", "float sum = 0.0f;"),
        # The first of many is compared with what has no value, and the outcome is thrown away.
        """    float best; bool have = false;
    for (int i = 0; i < n; ++i)
        if (x[i] > 3.0f) { best = have ? fmaxf(best, x[i]) : x[i]; have = true; }
    y[threadIdx.x] = have ? best : 0.0f;""",
        """    float v;
    if (threadIdx.x < n) v = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < n) y[threadIdx.x] = v;""",
        # Two times differ whatever v is.
        """    float v; long long start = clock64();
    if (threadIdx.x < n) v = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = threadIdx.x < n ? v : clock64() - start;""",
        # A register tile of which a part is used, and values that are fetched a step ahead.
        """    float next[4], sum = 0.0f;
    if (n > 0) for (int j = 0; j < 4; ++j) next[j] = x[j];
    for (int i = 1; i <= n; ++i) {
        for (int j = 0; j < 3; ++j) sum += next[j];
        if (i < n) for (int j = 0; j < 4; ++j) next[j] = x[i + j];
    }
    y[threadIdx.x] = sum;""",
        # PTX writes all of v, which C++ calls reading and writing it; NVRTC warns.
        """    float v;
    asm volatile("mov.f32 %0, 0f3F800000;" : "+f"(v));
    y[threadIdx.x] = v;""",
        # NVRTC warns of what never runs here, and of a copy of which nothing is used.
        "    float v; if (n < 0) y[0] = v; y[threadIdx.x] = 1;",
        "    struct { float a, b; } p; auto q = p; q.b = x[0]; y[threadIdx.x] = q.b;",
        # It is NaN on purpose.
        "    float v; if (n > 3) v = x[0]; y[threadIdx.x] = n > 3 ? v : __int_as_float(0x7fc00000);",
    ],
)
def test_a_variable_whose_value_nothing_depends_on_is_no_hazard(body):
    assert traced(body)[0].ok


OTHER = 'extern "C" __global__ void other(float* y) { float v; y[0] = v; }\n'


@pytest.mark.parametrize("body", ["y[threadIdx.x] = 1;", "__trap();"])
def test_a_warning_of_another_kernel_is_not_a_hazard_of_this_one(body):
    source, y = f"{OTHER}{HEADER} {body} }}", cp.empty(32, np.float32)
    assert nvrtc.used_before_set(source) == ((1, "v"),)
    trace = cp.trace(cp.RawKernel(source, "k"), (1,), (32,), (cp.zeros(64, np.float32), y, np.int32(7)))
    assert {hazard.kind for hazard in trace.hazards} <= {"trap"}


def test_a_launch_that_stops_is_not_repeated_and_what_the_compiler_says_is_told():
    trace, _ = traced("    float v;\n    y[threadIdx.x] = v;\n    __trap();")
    assert [(hazard.kind, hazard.line) for hazard in trace.hazards] == [("trap", 4), ("uninitialized", 3)]
    trace, _ = traced(f"{SUM}\n    __trap();")
    assert [hazard.kind for hazard in trace.hazards] == ["trap"]


@pytest.mark.parametrize(("body", "told"), [(SUM, []), ("    float v;\n    y[threadIdx.x] = v;", [3])])
def test_of_what_cannot_be_repeated_in_time_only_the_compilers_words_are_told(monkeypatch, body, told):
    monkeypatch.setattr(unset, "SECONDS", 0.0)
    y = cp.zeros(32, np.float32)
    launching = cp.RawKernel(f"{HEADER}\n{body}\n}}", "k"), (1,), (32,), (cp.zeros(64, np.float32), y, np.int32(7)), 0
    suspects = unset.suspects(launching[0])
    assert suspects
    assert [hazard.line for hazard in unset.findings(suspects, launching, unset.contents(), took=0.0)] == told
    assert (cp.asnumpy(y) == 0).all()


def test_a_launch_that_is_repeated_prints_once(capsys):
    traced(SUM + '\n    if (threadIdx.x == 0) printf("end\\n");')
    assert capsys.readouterr().out == "end\n"


def test_a_launch_that_is_repeated_leaves_all_memory_as_it_was():
    other = cp.zeros(4, np.float32)
    source = f"__device__ int launches;\n{HEADER}\n{SUM}\nif (threadIdx.x == 0) y[0] = ++launches; }}"
    kernel, y = cp.RawKernel(source, "k"), cp.empty(32, np.float32)
    for launches in (1, 2):
        trace = cp.trace(kernel, (1,), (32,), (cp.zeros(64, np.float32), y, np.int32(7)))
        assert [hazard.line for hazard in trace.hazards] == [5]
        assert cp.asnumpy(y)[0] == launches
    assert (cp.asnumpy(other) == 0).all()


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_no_rung_may_read_a_register_that_nobody_wrote(rung):
    assert cp.RawKernel(rung.source(), rung.entry, rung.options()).program.kernel.early_reads == ()


PTX = """.version 8.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p0) {
.reg .pred %p<3>;
.reg .b32 %r<6>;
.reg .b64 %d<2>;
.file 1 "kernel.cu"
.loc 1 1 0
ld.param.u64 %d0, [p0];
setp.eq.u64 %p0, %d0, 0;
.loc 1 2 0
@%p0 bra THERE;
.loc 1 3 0
mov.u32 %r0, 1;
THERE:
.loc 1 4 0
add.u32 %r1, %r0, 1;
.loc 1 5 0
@%p0 mov.u32 %r2, 3;
.loc 1 6 0
st.global.u32 [%d0], %r2;
.loc 1 7 0
mov.b64 {%r3, %r4}, %d0;
.loc 1 8 0
st.global.v2.u32 [%d0], {%r3, %r4};
.loc 1 9 0
@!%p1 st.global.u32 [%d0], %r1;
.loc 1 10 0
bra END;
.loc 1 11 0
mov.u32 %r5, %r5;
END:
ret;
}"""


def test_reads_are_early_where_one_way_comes_to_them_without_a_write():
    # Line 4: the jump leaves %r0 out. 6: the write is guarded. 9: nobody writes %p1. 11: no way leads there.
    assert compile_kernel(parse(PTX), "k", GlobalMemory()).kernel.early_reads == (4, 6, 9)


def test_nvrtc_names_the_lines_of_variables_that_are_used_before_they_are_set():
    source = f"{HEADER}\n    float a, b = x[0];\n    int i;\n    y[i] = a + b; }}"
    for options in ((), ("--no-display-error-number",)):
        assert sorted(nvrtc.used_before_set(source, options)) == [(4, "a"), (4, "i")]
    assert nvrtc.used_before_set(f"{HEADER} y[0] = x[0]; }}") == ()


def test_an_attempt_that_forgets_to_set_its_sum_is_refused_with_the_line():
    forgetful = shared_tile_exercises.PLAIN.replace("float sum = 0.0f;", "float sum;")
    line = forgetful[: forgetful.index("sum = fmaf")].count("\n") + 1
    with pytest.raises(Refused, match=rf"uninitialized: line {line}: a variable is read here"):
        shared_tile_exercises.any_shape(forgetful)


def test_a_variable_without_a_value_is_told_in_a_kernel_of_cooperative_groups():
    source = """#include <cooperative_groups.h>
extern "C" __global__ void k(const float* x, float* y) {
    float sum;
    cooperative_groups::this_thread_block().sync();
    y[threadIdx.x] = x[threadIdx.x] + sum;
}"""
    args = cp.asarray(np.arange(32, dtype=np.float32)), cp.zeros(32, np.float32)
    trace = cp.trace(cp.RawKernel(source, "k"), (1,), (32,), args)
    assert the(trace).line == 5 and "sum is used before it has a value" in the(trace).message
    # what -G compiles reads registers of PTX that no other code does
    right = cp.RawKernel(source.replace("sum;", "sum = 1;", 1), "k", ("-G",))
    right((1,), (32,), args)
    assert args[1].get().tolist() == [float(i + 1) for i in range(32)]
