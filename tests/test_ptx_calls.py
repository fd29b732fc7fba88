"""Functions that were not inlined, printf, assert and trap."""

import numpy as np
import pytest
from ptx_programs import HEADER, execute

from gemmlab import emulator as cp

KERNEL = 'extern "C" __global__ void k'


def run(source: str, *arrays: np.ndarray, threads: int = 32, blocks: int = 1, scalars: tuple = ()) -> list[np.ndarray]:
    placed = [cp.asarray(a) for a in arrays]
    cp.RawKernel(source, "k")((blocks,), (threads,), (*placed, *scalars))
    return [a.get() for a in placed]


def test_a_function_gets_its_arguments_and_returns_a_value():
    source = (
        f"__device__ __noinline__ int f(int a, short b, long long c) {{ return a * b - (int)c; }} {KERNEL}(int* "
        f"o) {{ int t = threadIdx.x; o[t] = f(t, (short)-3, 1ll << 32 | 5); }}"
    )
    (out,) = run(source, np.zeros(32, np.int32))
    assert out.tolist() == [-3 * t - 5 for t in range(32)]


def test_a_function_writes_through_a_pointer_to_its_callers_local_memory():
    source = f"""__device__ __noinline__ float twice(float x, int* n) {{ *n += 1; return 2 * x; }}
    {KERNEL}(float* o) {{ int n = 0; float x = twice(threadIdx.x, &n); x += twice(x, &n); o[threadIdx.x] = x + n; }}"""
    (out,) = run(source, np.zeros(32, np.float32))
    assert out.tolist() == [6 * t + 2 for t in range(32)]


def test_structures_are_passed_and_returned_by_value():
    source = f"""struct P {{ int a; float b[5]; double c; char e[3]; }};
    __device__ __noinline__ float4 f(float4 v, P p) {{ v.x += p.b[p.a]; v.w = p.c + p.e[1]; return v; }}
    {KERNEL}(float4* o) {{ P p = {{(int)threadIdx.x % 5, {{1, 2, 3, 4, 5}}, 2.5, {{7, 8, 9}}}}; o[threadIdx.x] =
    f(make_float4(10, 20, 30, 40), p); }}"""
    (out,) = run(source, np.zeros((32, 4), np.float32))
    assert out.tolist() == [[10 + t % 5 + 1, 20, 30, 2.5 + 8] for t in range(32)]


def test_lanes_that_call_in_a_branch_return_there():
    source = f"""__device__ __noinline__ int f(int x) {{ if (x % 2) return 3 * x; int s = 0; for (int i = 0; i < x;
    ++i) s += i; return s; }}
    {KERNEL}(int* o) {{ int t = threadIdx.x; o[t] = t < 20 ? f(t) : -f(t + 1); }}"""
    (out,) = run(source, np.zeros(32, np.int32))
    value = lambda x: 3 * x if x % 2 else x * (x - 1) // 2  # noqa: E731
    assert out.tolist() == [value(t) if t < 20 else -value(t + 1) for t in range(32)]


def test_a_barrier_inside_a_function_joins_the_whole_block():
    source = f"""__device__ __noinline__ void fetch(float* s, const float* g) {{ s[threadIdx.x] = g[threadIdx.x];
    __syncthreads(); }}
    {KERNEL}(float* o, const float* g) {{ __shared__ float s[128]; fetch(s, g); o[threadIdx.x] = s[127 - threadIdx.x];
    __syncthreads(); fetch(s, g + 128); o[128 + threadIdx.x] = s[127 - threadIdx.x]; }}"""
    given = np.arange(256, dtype=np.float32)
    out, _ = run(source, np.zeros(256, np.float32), given, threads=128)
    assert out.tolist() == [*given[127::-1], *given[:127:-1]]


def test_a_shuffle_inside_a_function_reaches_the_lanes_that_called():
    source = (
        f"__device__ __noinline__ int f(int x) {{ return __shfl_xor_sync(~0u, x, 1); }} {KERNEL}(int* o) {{ "
        f"o[threadIdx.x] = f(threadIdx.x); }}"
    )
    (out,) = run(source, np.zeros(32, np.int32))
    assert out.tolist() == [t ^ 1 for t in range(32)]


def test_a_pointer_to_a_function_calls_what_each_lane_holds():
    source = f"""typedef int (*fn)(int); __device__ int f(int x) {{ return x + 1; }} __device__ int g(int x) {{
    return x * 2; }}
    __device__ fn table[2] = {{f, g}}; {KERNEL}(int* o) {{ int t = threadIdx.x; o[t] = table[t & 1](t); }}"""
    (out,) = run(source, np.zeros(32, np.int32))
    assert out.tolist() == [2 * t if t & 1 else t + 1 for t in range(32)]


def test_a_virtual_function_is_found_through_its_object():
    source = f"""struct A {{ __device__ virtual float f(float x) = 0; }}; struct B : A {{ __device__ float f(float x)
    override {{ return x + 1; }} }};
    struct C : A {{ __device__ float f(float x) override {{ return 3 * x; }} }};
    {KERNEL}(float* o) {{ B b; C c; A* a = threadIdx.x % 2 ? (A*)&b : (A*)&c; o[threadIdx.x] = a->f(threadIdx.x); }}"""
    (out,) = run(source, np.zeros(32, np.float32))
    assert out.tolist() == [t + 1 if t % 2 else 3 * t for t in range(32)]


def test_a_call_through_a_pointer_to_no_function_stops_the_launch():
    source = (
        f"typedef int (*fn)(int); __device__ int f(int x) {{ return x; }} __device__ fn used = f; "
        f"{KERNEL}(unsigned long long* p, int* o) {{ o[0] = ((fn)p[0])(1) + used(1); }}"
    )
    with pytest.raises(cp.KernelFault, match=r"line 1: thread \(0, 0, 0\) of block \(0, 0, 0\)") as fault:
        run(source, np.array([1234], np.uint64), np.zeros(1, np.int32), threads=1)
    assert fault.value.hazard.kind == "trap"


def test_a_function_that_calls_itself_is_refused_by_name():
    source = (
        f"__device__ __noinline__ int fib(int n) {{ return n < 2 ? n : fib(n - 1) + fib(n - 2); }} {KERNEL}(int* "
        f"o) {{ o[0] = fib(o[1]); }}"
    )
    with pytest.raises(cp.UnsupportedInstruction, match=r"line 1: call\.uni: _Z3fibi\(\) calls itself"):
        cp.RawKernel(source, "k").compile()


def test_a_function_without_a_body_is_refused_by_name():
    with pytest.raises(cp.UnsupportedInstruction, match=r"malloc\(\) has no body here"):
        cp.RawKernel(f"{KERNEL}(int** o) {{ o[0] = (int*)malloc(o[1] - o[2]); }}", "k").compile()


def test_static_and_constant_variables_and_their_addresses_start_as_written():
    source = f"""__constant__ float w[4] = {{1, 2, 3}}; __constant__ struct {{ int a; float b; }} pair = {{3, 4.5f}};
    __device__ float g[3] = {{5, 6, 7}}; __device__ float* middle = &g[1];
    {KERNEL}(float* o, int n) {{ const float* p = w; o[0] = w[n]; o[1] = pair.a * pair.b; o[2] = *middle; o[3] = p[n
    + 1]; o[4] = middle[1]; }}"""
    (out,) = run(source, np.zeros(5, np.float32), threads=1, scalars=(np.int32(1),))
    assert out.tolist() == [2, 13.5, 6, 3, 7]


def test_a_parameter_that_is_indexed_by_a_variable_is_read_by_address():
    source = (
        f"struct P {{ int a; float b[5]; }}; {KERNEL}(float* o, const __grid_constant__ P p) {{ o[threadIdx.x] = "
        f"p.b[threadIdx.x % 5] + p.a; }}"
    )
    raw = np.array([3], np.int32).tobytes() + np.arange(10, 15, dtype=np.float32).tobytes()
    (out,) = run(source, np.zeros(32, np.float32), scalars=(np.frombuffer(raw, "V24")[0],))
    assert out.tolist() == [10 + t % 5 + 3 for t in range(32)]


def test_a_parameter_indexed_past_its_end_is_out_of_bounds():
    source = f"struct P {{ float b[5]; }}; {KERNEL}(float* o, const __grid_constant__ P p, int n) {{ o[0] = p.b[n]; }}"
    with pytest.raises(cp.KernelFault, match="reads 4 bytes"):
        run(source, np.zeros(1, np.float32), threads=1, scalars=(np.frombuffer(bytes(20), "V20")[0], np.int32(900)))


PRINTED = r"""extern "C" __global__ void k(int n, float f)
{
    int t = threadIdx.x;
    printf("t=%d %5d|%-5d|%05d|%+d|%x %X %#x %o %u %c %s %%\n", t, t, t, t, t, t + 250, t + 250, t + 250, t + 8, -t,
    65 + t, "str");
    printf("%f %.2f %10.3e %g %G %e|%a\n", f * t, f * t, f * t, f * t, f * t, f, f);
    if (t == 1) printf("%lld %llu %ld %hd %p\n", -5ll, 7ull, -9l, (short)-3, (void*)16);
    printf("no args\n");
    int r = printf("%d %d\n", 1, 2);
    if (t == 0) printf("r=%d %*d\n", r, 6, t);
    printf("%s|%10s|%-10s|%.2s\n", "ab", "cd", "ef", "ghij");
    printf("%i %5.1f%%\n", n, (double)f);
}
"""


def test_printf_writes_what_an_h200_wrote_in_order_of_threads(capsys):
    cp.RawKernel(PRINTED, "k")((2,), (2,), (np.int32(42), np.float32(3.14159)))
    first = [
        "t=0     0|0    |00000|+0|fa FA 0xfa 10 0 A str %",
        "t=1     1|1    |00001|+1|fb FB 0xfb 11 4294967295 B str %",
    ]
    second = [
        "0.000000 0.00  0.000e+00 0 0 3.141590e+00|0x1.921fap+1",
        "3.141590 3.14  3.142e+00 3.14159 3.14159 3.141590e+00|0x1.921fap+1",
    ]
    expected = [*first * 2, *second * 2, *["-5 7 -9 -3 0x10"] * 2, *["no args"] * 4, *["1 2"] * 4, *["r=2      0"] * 2]
    expected += [*["ab|        cd|ef        |gh"] * 4, *["42   3.1%"] * 4]
    assert capsys.readouterr().out.splitlines() == expected


def test_printf_writes_thousands_of_lanes_each_in_its_own_form(capsys):
    source = (
        KERNEL
        + """() {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    printf(t % 2 ? "odd %d\\n" : "even %d %g\\n", t, t * 0.5); }"""
    )
    cp.RawKernel(source, "k")((16,), (128,), ())
    expected = [f"odd {t}" if t % 2 else f"even {t} {t * 0.5:g}" for t in range(2048)]
    assert capsys.readouterr().out.splitlines() == expected


def test_printf_bounds_widths_and_reads_strings_of_each_space(capsys):
    source = (
        KERNEL
        + """(int n) { char mine[4] = {'a', (char)('a' + threadIdx.x), 0, 0}; __shared__ char ours[4];
    if (threadIdx.x == 0) { ours[0] = 's'; ours[1] = 0; } __syncthreads();
    printf("%s %s|%*d|%-*d|%#o|%s\\n", mine, ours, n, 5, -3, 7, 8, (const char*)0); }"""
    )
    cp.RawKernel(source, "k")((1,), (2,), (np.int32(4),))
    assert capsys.readouterr().out == "aa s|   5|7  |010|(null)\nab s|   5|7  |010|(null)\n"
    cp.RawKernel(source, "k")((1,), (1,), (np.int32(2**31 - 1),))
    assert len(capsys.readouterr().out) < 5000


def test_an_assertion_that_fails_stops_the_launch_with_its_text_and_line():
    source = 'extern "C" __global__ void k(int* o)\n{\n    assert(o[threadIdx.x] >= 0);\n}\n'
    where = r"line 3: thread \(5, 0, 0\) of block \(0, 0, 0\): the assertion `o\[threadIdx.x\] >= 0` failed in"
    with pytest.raises(cp.KernelFault, match=where) as fault:
        run(source, np.array([0] * 5 + [-1] + [0] * 26, np.int32))
    assert fault.value.hazard.kind == "trap"
    run(source, np.zeros(32, np.int32))


def test_a_trap_stops_the_launch_and_names_line_and_thread():
    source = 'extern "C" __global__ void k(int* o)\n{\n    if (threadIdx.x == 3)\n        __trap();\n}\n'
    with pytest.raises(
        cp.KernelFault, match=r"line 4: thread \(3, 0, 0\) of block \(0, 0, 0\): the kernel stopped itself by trap"
    ):
        run(source, np.zeros(1, np.int32))
    (hazard,) = cp.trace(cp.RawKernel(source, "k"), (1,), (32,), (cp.zeros(1, np.int32),)).hazards
    assert (hazard.kind, hazard.line) == ("trap", 4)


def test_a_guarded_call_is_made_by_its_lanes_alone():
    text = (
        HEADER
        + """
.func (.param .b32 r) twice(.param .b32 x) { .reg .b32 %r<3>; .reg .pred %p<2>; ld.param.b32 %r1, [x];
setp.gt.u32 %p1, %r1, 20; mul.lo.u32 %r2, %r1, 2; st.param.b32 [r], %r2; @%p1 ret;
add.u32 %r2, %r2, 1; st.param.b32 [r], %r2; ret; }
.visible .entry k(.param .u64 p0)
{
.reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %q<4>;
mov.u32 %r0, %tid.x; mul.wide.u32 %q1, %r0, 4; ld.param.u64 %q0, [p0]; add.u64 %q0, %q0, %q1;
mov.u32 %r1, 7; and.b32 %r2, %r0, 1; setp.eq.u32 %p1, %r2, 1; mov.u64 %q2, twice;
{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r0; @%p1 call.uni (b), twice, (a); @%p1 ld.param.b32 %r1, [b]; }
{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; @!%p1 call (b), %q2, (a), P; @!%p1 ld.param.b32 %r1, [b]; }
P: .callprototype (.param .b32 _) _ (.param .b32 _);
st.global.u32 [%q0], %r1;
ret;
}"""
    )
    (out,) = execute(text, [np.zeros(32, np.uint32)])
    # an odd thread calls with its number, which returns early above 20; an even one through the pointer, with 7
    assert out.tolist() == [(2 * t + (t <= 20)) if t % 2 else 15 for t in range(32)]


def test_a_table_of_branches_sends_each_lane_to_its_label():
    text = (
        HEADER
        + """
.visible .entry k(.param .u64 p0)
{
.reg .b32 %r<4>; .reg .b64 %q<3>;
mov.u32 %r0, %tid.x; mul.wide.u32 %q1, %r0, 4; ld.param.u64 %q0, [p0]; add.u64 %q0, %q0, %q1;
and.b32 %r1, %r0, 3;
brx.idx %r1, TABLE;
TABLE: .branchtargets ZERO, ONE, TWO, ONE;
ZERO: mov.u32 %r2, 100; bra END;
ONE: mov.u32 %r2, 200; bra END;
TWO: mov.u32 %r2, 300;
END: st.global.u32 [%q0], %r2;
}"""
    )
    (out,) = execute(text, [np.zeros(32, np.uint32)])
    assert out.tolist() == [100, 200, 300, 200] * 8


def test_a_switch_of_twenty_cases_runs_each_lane_in_its_own():
    cases = "".join(f"case {i}: x = {i * i} + o[t]; break;" for i in range(20))
    (out,) = run(
        f"{KERNEL}(int* o) {{ int t = threadIdx.x, x; switch (o[t]) {{ {cases} default: x = -1; }} o[t] = x; }}",
        np.arange(32, dtype=np.int32),
    )
    assert out.tolist() == [t * t + t if t < 20 else -1 for t in range(32)]
