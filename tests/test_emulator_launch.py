"""The emulator as a learner meets it: sources and arrays in, results, refusals and faults out."""

import re
import signal
import traceback
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemmlab import emulator as cp
from gemmlab import nvrtc
from gemmlab.emulator import machine
from gemmlab.emulator.arrays import MEMORY
from gemmlab.emulator.lanes import Batch
from gemmlab.gemm import Gemm
from gemmlab.ladder import RUNGS, arguments

SCALE = """extern "C" __global__ void scale(int n, float x, const float* A, float* C)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        C[i] = A[i] * x;
}
"""
A_LINE = C_LINE = 5
ONE, TWO = np.float32(1), np.float32(2)


@pytest.fixture
def limit():
    """Restore the time limit, whatever a test makes of it."""
    before = cp.time_limit()
    yield cp.time_limit
    cp.time_limit(before)


@pytest.fixture
def architecture():
    """Restore the architecture likewise."""
    before = cp.architecture()
    yield cp.use_architecture
    cp.use_architecture(before)


def kernel(body, parameters="int* p", name="k", **more):
    return cp.RawKernel(f'extern "C" __global__ void {name}({parameters})\n{{\n{body}\n}}', name, **more)


def scale(n, x, A, C, grid=(1,), block=(32,)):
    cp.RawKernel(SCALE, "scale")(grid, block, (n, x, A, C))


def floats(*values):
    return cp.asarray(np.array(values, np.float32))


def require_alive():
    """Raise unless the emulator still computes."""
    C = cp.zeros(3, np.float32)
    scale(3, TWO, floats(1, 2, 3), C)
    assert C.get().tolist() == [2, 4, 6]


# Sources.


def test_a_syntax_error_shows_the_compilers_message_with_the_learners_line():
    broken = cp.RawKernel(SCALE.replace("A[i] * x;", "A[i] * x"), "scale")
    with pytest.raises(cp.CompileError, match=r'kernel\.cu\(6\): error: expected a ";"'):
        broken((1,), (32,), ())
    require_alive()


def test_a_name_that_is_not_declared_is_named_with_its_line_and_its_text():
    broken = cp.RawKernel(SCALE.replace("A[i] * x;", "A[j] * x;"), "scale")
    with pytest.raises(cp.CompileError, match=r'kernel\.cu\(5\): error: identifier "j" is undefined\n.*A\[j\]'):
        broken.compile()


def test_a_kernel_of_another_name_is_not_found():
    with pytest.raises(cp.KernelNotFound, match="no kernel 'scales': the source defines scale; did you mean 'scale'"):
        cp.RawKernel(SCALE, "scales")((1,), (1,), ())


def test_options_reach_the_compiler_and_the_architecture_its_macro(architecture):
    architecture("sm_80")
    p = cp.zeros(2, np.int32)
    kernel("p[0] = BM; p[1] = __CUDA_ARCH__;", options=("-DBM=64",))((1,), (1,), (p,))
    assert p.get().tolist() == [64, 800]


# Arrays.


@pytest.mark.parametrize(
    "use",
    [
        np.asarray,
        np.sum,
        np.sqrt,
        np.linalg.norm,
        lambda A: np.add(A, 1),
        lambda A: np.allclose(A, 1),
        lambda A: np.testing.assert_array_equal(A, 1),
        lambda A: np.ones(3) @ A,
        lambda A: np.ones(3) + A,
        lambda A: A @ A,
        lambda A: 2 * A,
        lambda A: A == A,
        lambda A: A[0],
        lambda A: A.__setitem__(0, 1),
        float,
        bool,
        list,
    ],
)
def test_numpy_and_python_refuse_a_device_array_and_say_how_to_bring_it_home(use):
    with pytest.raises(TypeError, match=r"cp\.asnumpy\(array\)"):
        use(cp.ones(3, np.float32))


def test_what_cupy_has_and_the_emulator_has_not_is_refused_with_the_way_round():
    with pytest.raises(AttributeError, match=r"no cp\.linalg.*Bring an array home with cp\.asnumpy\(array\)"):
        cp.linalg.norm(floats(1))


def test_a_numpy_array_for_a_scalar_is_refused_with_the_scalar_to_pass():
    with pytest.raises(TypeError, match=r"argument x: Unsupported type.*float x takes a scalar.*pass np\.float32"):
        scale(1, np.array(2, np.float32), floats(1), floats(1))


def test_a_kernel_refuses_a_numpy_array_and_says_how_to_send_it():
    with pytest.raises(TypeError, match=r"argument A: Unsupported type.*copy the array there with cp\.asarray\(A\)"):
        scale(3, TWO, np.ones(3, np.float32), cp.zeros(3, np.float32))


@pytest.mark.parametrize("value", [None, "3", [1.0], (1, 2)])
def test_what_no_kernel_takes_is_a_type_error_that_names_the_argument(value):
    with pytest.raises(TypeError, match="argument A: Unsupported type"):
        scale(3, TWO, value, cp.zeros(3, np.float32))


def test_an_array_is_a_copy_and_comes_home_as_a_copy():
    home = np.arange(6, dtype=np.float32).reshape(2, 3)
    A = cp.asarray(home)
    home[:] = 9
    back = cp.asnumpy(A)
    assert back.tolist() == [[0, 1, 2], [3, 4, 5]]
    back[:] = 7
    assert A.get().tolist() == [[0, 1, 2], [3, 4, 5]]


def test_an_array_that_nobody_wrote_reads_nan():
    assert np.isnan(cp.empty((2, 2), np.float32).get()).all()


# Arguments.


def problem_of(*args, grid=(1,), block=(32,)):
    """The message of the bad argument for which a launch of SCALE is refused."""
    with pytest.raises(cp.KernelFault) as refused:
        scale(*args, grid=grid, block=block)
    assert refused.value.hazard.kind == "bad-argument"
    return str(refused.value)


def test_a_transposed_view_is_refused_with_its_name_dtype_strides_and_the_cure():
    A = cp.asarray(np.zeros((4, 6), np.float32))
    message = problem_of(24, TWO, A.T, cp.zeros(24, np.float32))
    for part in (
        "argument A (const float* A)",
        "float32",
        "shape (6, 4)",
        "strides (4, 24)",
        "pass cp.ascontiguousarray(A)",
    ):
        assert part in message
    C = cp.zeros(24, np.float32)
    scale(24, TWO, cp.ascontiguousarray(A.T), C)


def test_a_float64_array_is_refused_with_its_name_dtype_strides_and_the_cure():
    message = problem_of(3, TWO, cp.zeros(3), cp.zeros(3, np.float32))
    for part in ("argument A (const float* A)", "float64 array", "strides (8,)", "pass A.astype(np.float32)"):
        assert part in message


def test_an_integer_array_is_no_float_array():
    assert "the kernel reads float32 there, but" in problem_of(3, TWO, floats(1, 2, 3), cp.zeros(3, np.int32))


def test_a_python_float_is_reported_and_arrives_as_the_first_half_of_a_double():
    C = cp.zeros(1, np.float32)
    assert "pass np.float32(2.0)" in problem_of(1, 2.0, floats(1), C)
    for value, arrives in ((2.0, 0.0), (0.1, np.array([0.1]).view(np.float32)[0])):
        trace = cp.trace(cp.RawKernel(SCALE, "scale"), (1,), (1,), (1, value, floats(1), C))
        assert [hazard.kind for hazard in trace.hazards] == ["bad-argument"]
        assert C.get()[0] == arrives


@pytest.mark.parametrize("n", [3, -1, 2**31 - 1, -(2**31), np.int32(3), np.int64(3), np.uint32(3)])
def test_an_int_in_range_is_fine_for_an_int(n):
    p = cp.zeros(1, np.int32)
    kernel("*p = n;", "int* p, int n")((1,), (1,), (p, n))
    assert p.get()[0] == n


@pytest.mark.parametrize(
    ("n", "message"),
    [
        (2**31, "2147483648 is outside int32's range of -2147483648 to 2147483647"),
        (np.int8(3), "has 1 bytes, but the parameter has 4"),
        (True, "True is one byte, but the parameter has 4"),
        (3.0, "the float 3.0 is sent as its own bytes and arrives as 0"),
        (np.float32(1), "arrives as 1065353216"),  # 0x3F800000
    ],
)
def test_a_scalar_that_would_arrive_as_something_else_is_refused(n, message):
    assert message in problem_of(n, TWO, floats(1, 2, 3), cp.zeros(3, np.float32))


def test_scalars_and_arrays_are_not_taken_for_each_other():
    assert "the kernel takes a scalar here" in problem_of(floats(1), TWO, floats(1), floats(1))
    assert "the kernel takes a pointer, but" in problem_of(1, TWO, ONE, floats(1))


def test_a_missing_argument_is_told_with_the_whole_list():
    with pytest.raises(cp.KernelFault) as refused:
        cp.RawKernel(SCALE, "scale")((1,), (1,), (1, TWO, floats(1)))
    wanted = "scale takes 4 arguments (int n, float x, const float* A, float* C), but 3 were passed"
    assert str(refused.value) == wanted


# Faults.


def test_a_write_past_C_names_line_block_and_thread_and_touches_nothing():
    A, C, other = cp.ones(24, np.float32), cp.zeros(20, np.float32), cp.ones(4, np.float32)
    with pytest.raises(cp.KernelFault) as fault:
        scale(24, TWO, A, C, grid=(3,), block=(8,))  # element 20 is thread 4 of block 2
    hazard = fault.value.hazard
    assert (hazard.kind, hazard.line, hazard.block, hazard.threads) == (
        "out-of-bounds",
        C_LINE,
        (2, 0, 0),
        ((4, 0, 0),),
    )
    for part in (f"line {C_LINE}", "thread (4, 0, 0) of block (2, 0, 0)", "writes 4 bytes", "byte 80", " C, "):
        assert part in str(fault.value)
    assert other.get().tolist() == [1, 1, 1, 1]
    require_alive()


def test_a_fault_in_two_dimensions_and_a_late_batch_is_found_where_it_is():
    body = "    int i = (blockIdx.y * gridDim.x + blockIdx.x) * 32 + threadIdx.y * 8 + threadIdx.x;\n    p[i] = i;"
    blocks = 40 * 50  # more than run together
    p = cp.zeros(blocks * 32 - 1, np.int32)
    with pytest.raises(cp.KernelFault) as fault:
        kernel(body)((40, 50), (8, 4), (p,))
    assert (fault.value.hazard.block, fault.value.hazard.threads) == ((39, 49, 0), ((7, 3, 0),))
    assert fault.value.hazard.line == 4


@pytest.mark.parametrize("index", [-1, 2**31 - 1, -(2**31)])
def test_an_index_that_ran_wild_is_a_fault_and_never_another_array(index):
    arrays = [cp.zeros(8, np.int32) for _ in range(3)]
    with pytest.raises(cp.KernelFault) as fault:
        kernel("p[i] = 7;", "int* p, int i")((1,), (1,), (arrays[1], index))
    assert fault.value.hazard.kind == "out-of-bounds" and f"writes 4 bytes at byte {4 * index}" in str(fault.value)
    assert all(array.get().tolist() == [0] * 8 for array in arrays)


def test_a_null_pointer_is_in_no_array():
    with pytest.raises(cp.KernelFault, match="address 0x0, which is in no array"):
        kernel("*p = 1;")((1,), (1,), (0,))


def test_the_memory_of_an_array_that_is_gone_is_no_array():
    address = cp.zeros(4, np.int32).address
    with pytest.raises(cp.KernelFault) as fault:
        kernel("*p = 1;")((1,), (1,), (address,))
    assert fault.value.hazard.kind == "out-of-bounds"


def test_lanes_find_their_arrays_though_another_array_dies_meanwhile():
    first, second, third = (cp.zeros(4, np.int32) for _ in range(3))
    lanes = np.array([second.address, third.address], np.uint64).reshape(1, 1, 1, 1, 1, 2)
    found = MEMORY.split(Batch((1, 1, 1), (1, 1, 2), (0, 0, 0), (1, 1, 1)), lanes, None, 4, pytest.fail)
    owners = [next(found)[0].base]
    del first  # as the garbage collector may do at any moment
    owners += [owner.base for owner, *_ in found]
    assert owners == [second.address, third.address]


def test_a_misaligned_vector_load_is_named():
    body = "    float4 v = *(const float4*)(A + 1);\n    *C = v.x + v.y + v.z + v.w;"
    with pytest.raises(cp.KernelFault, match=r"line 3: .* reads 16 bytes at byte 4 .*a multiple of 16"):
        kernel(body, "const float* A, float* C")((1,), (1,), (cp.ones(8, np.float32), cp.ones(1, np.float32)))


def test_a_trace_collects_faults_and_goes_on():
    A, C = floats(*range(24)), cp.zeros(20, np.float32)
    trace = cp.trace(cp.RawKernel(SCALE, "scale"), (3,), (8,), (24, TWO, A, C))
    (hazard,) = trace.hazards
    assert not trace.ok and (hazard.kind, hazard.line, hazard.count) == ("out-of-bounds", C_LINE, 4)
    assert C.get().tolist() == [2.0 * i for i in range(20)]


# Loops that never end.

ENDLESS = {
    "a spin on memory": "    while (*(volatile int*)p == 0) {}",
    "nothing in it": "    for (;;) {}",
    "one lane of many": "    if (threadIdx.x == 3) while (*(volatile int*)p == 0) {}",
    "a barrier in it": "    while (*(volatile int*)p == 0) __syncthreads();",
    "an end out of reach": "    for (long long i = 0; i < 1000000000000LL; ++i) *(volatile int*)p = 0;",
}


@pytest.mark.parametrize("body", ENDLESS.values(), ids=ENDLESS)
def test_an_endless_loop_is_stopped_by_the_limit_and_its_line_named(limit, body):
    looping = kernel(body)
    looping.compile()
    limit(0.05)
    with pytest.raises(
        cp.KernelFault, match=r"line 3: the launch was stopped after 0\.05 s.*emulator\.time_limit"
    ) as fault:
        looping((2,), (64,), (cp.zeros(1, np.int32),))
    assert fault.value.hazard.kind == "timeout"
    limit(60)
    require_alive()


def test_a_trace_reports_an_endless_loop_and_keeps_what_it_counted(limit):
    looping = kernel("    p[0] = 1;\n    while (*(volatile int*)p) {}")
    looping.compile()
    limit(0.05)
    trace = cp.trace(looping, (1,), (1,), (cp.zeros(1, np.int32),))
    assert [hazard.kind for hazard in trace.hazards] == ["timeout"]
    assert (trace.accesses[0].line, trace.accesses[0].op, trace.accesses[0].requests) == (3, "st.global", 1)


def test_a_loop_that_runs_long_says_so_once_with_its_line_before_the_limit(limit, monkeypatch, capsys):
    looping = kernel("    while (*(volatile int*)p == 0) {}")
    looping.compile()
    limit(0.3)
    monkeypatch.setattr(machine, "NOTICE_SECONDS", 0.05)
    with pytest.raises(cp.KernelFault, match="stopped after"):
        looping((1,), (1,), (cp.zeros(1, np.int32),))
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("line 3: the same blocks still run after 0.05 s") and said.endswith("the limit of 0.3 s")


def test_a_trace_of_a_loop_out_of_bounds_ends_at_the_notice_with_what_it_found(limit, monkeypatch, capsys):
    looping = kernel("    while (*(volatile int*)(p + 1) == 0) {}")
    looping.compile()
    limit(60)
    monkeypatch.setattr(machine, "NOTICE_SECONDS", 0.05)
    trace = cp.trace(looping, (1,), (1,), (cp.zeros(1, np.int32),))
    assert [hazard.kind for hazard in trace.hazards] == ["out-of-bounds", "timeout"]
    assert "mend the other findings first" in trace.hazards[1].message and capsys.readouterr().err == ""


def test_a_wide_access_that_begins_inside_an_array_says_how_long_the_array_is():
    wide = kernel("    p[0] = (int)*(volatile long long*)p;")
    with pytest.raises(cp.KernelFault, match=r"reads 8 bytes at byte 0 .*of p, which has 4 bytes"):
        wide((1,), (1,), (cp.zeros(1, np.int32),))


def test_a_grid_of_many_blocks_is_stopped_by_the_limit(limit):
    looping = kernel("    if (threadIdx.x == 2000) p[0] = 1;")
    looping.compile()
    limit(0.05)
    with pytest.raises(cp.KernelFault, match=r"stopped after 0\.05 s"):
        looping((2**31 - 1,), (1024,), (cp.zeros(1, np.int32),))


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_time_limit_is_more_than_nothing(limit, seconds):
    with pytest.raises(ValueError, match="must be more than 0 seconds"):
        limit(seconds)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no interval timer")
@pytest.mark.parametrize("body", ENDLESS.values(), ids=ENDLESS)
def test_an_interrupt_stops_a_launch_and_leaves_the_emulator_usable(body):
    def interrupt(*_):
        raise KeyboardInterrupt

    looping = kernel(body)
    looping.compile()
    handler = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt, match=r"line [1-9]\d*: the launch was interrupted"):
            looping((2,), (64,), (cp.zeros(1, np.int32),))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    require_alive()


# Launch limits.


@pytest.mark.parametrize(
    ("grid", "block", "message"),
    [
        ((1, 65536), (32,), "grid.y = 65536 > 65535"),
        ((1, 1, 65536), (32,), "grid.z = 65536 > 65535"),
        ((2**31,), (1,), "grid.x = 2147483648 > 2147483647"),
        ((1,), (1025,), "block.x = 1025 > 1024"),
        ((1,), (1, 1025), "block.y = 1025 > 1024"),
        ((1,), (1, 1, 65), "block.z = 65 > 64"),
        ((1,), (64, 32), "2048 threads a block (64 x 32 x 1) > 1024"),
        ((0,), (32,), "grid.x = 0, but every extent must be at least 1"),
        ((1,), (4, -1), "block.y = -1, but every extent must be at least 1"),
    ],
)
def test_a_launch_outside_the_limits_is_refused_with_both_numbers(grid, block, message):
    with pytest.raises(cp.KernelFault) as refused:
        scale(0, TWO, floats(1), floats(1), grid, block)
    assert refused.value.hazard.kind == "launch" and f"scale cannot be launched: {message}" in str(refused.value)


@pytest.mark.parametrize("grid", [(64 / 32,), (1, 1, 1, 1), (), "1", (True,), 2, [2, 1]])
def test_a_grid_that_is_no_triple_of_ints_is_a_type_error(grid):
    with pytest.raises(TypeError, match=r"grid is "):
        scale(0, TWO, floats(1), floats(1), grid)


def test_a_raw_kernel_takes_its_options_as_a_tuple_and_no_keyword_that_cupy_has_not():
    with pytest.raises(TypeError, match=r"options is \['-DX=1'\], but must be a tuple"):
        cp.RawKernel(SCALE, "scale", ["-DX=1"])
    with pytest.raises(TypeError, match="unexpected keyword argument 'option'"):
        cp.RawKernel(SCALE, "scale", option=("-DX=1",))


@pytest.mark.parametrize(("arch", "optin"), [("sm_75", 65536), ("sm_80", 166912), ("sm_86", 101376), ("sm_90", 232448)])
def test_shared_memory_above_48_kib_needs_the_opt_in_and_ends_at_the_architectures_limit(architecture, arch, optin):
    # CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": 64, 163, 99 and 227 KiB a block.
    architecture(arch)
    own = kernel("    extern __shared__ int s[];\n    s[threadIdx.x] = 1;\n    *p = s[threadIdx.x];")
    args = (cp.zeros(1, np.int32),)
    own((1,), (32,), args, shared_mem=49152)
    with pytest.raises(cp.KernelFault, match=r"49153 dynamic .* > 49152 .*max_dynamic_shared_size_bytes = 49153 first"):
        own((1,), (32,), args, shared_mem=49153)
    own.max_dynamic_shared_size_bytes = optin
    own((1,), (32,), args, shared_mem=optin)
    with pytest.raises(cp.KernelFault, match=f"{optin + 1} dynamic .* {arch} has at most {optin}"):
        own((1,), (32,), args, shared_mem=optin + 1)


def test_static_and_dynamic_shared_memory_add_up():
    own = kernel(
        "    volatile __shared__ int a[1024]; extern __shared__ int b[];\n    a[0] = b[0] = 1;\n    *p = a[0];"
    )
    own((1,), (1,), (cp.zeros(1, np.int32),), shared_mem=49152 - 4096)
    with pytest.raises(cp.KernelFault, match=r"45057 dynamic .* 4096 static = 49153 > 49152"):
        own((1,), (1,), (cp.zeros(1, np.int32),), shared_mem=45057)


def test_a_block_larger_than_its_launch_bounds_is_refused_with_both_numbers():
    bounded = cp.RawKernel('extern "C" __global__ void __launch_bounds__(128) k(int* p) { *p = 1; }', "k")
    bounded((1,), (128,), (cp.zeros(1, np.int32),))
    with pytest.raises(cp.KernelFault, match="129 threads a block > 128, the kernel's own __launch_bounds__"):
        bounded((1,), (129,), (cp.zeros(1, np.int32),))


HUNGRY = """    float v[100];
    #pragma unroll
    for (int i = 0; i < 100; ++i) v[i] = A[i * n];
    #pragma unroll
    for (int i = 0; i < 100; ++i) C[i * n] = v[99 - i] * v[i];"""


def test_a_block_whose_registers_do_not_fit_is_refused_with_both_numbers():
    hungry = kernel(HUNGRY, "int n, const float* A, float* C")
    used = hungry.num_regs
    assert used > 64, "a kernel of 64 registers or fewer fits at 1024 threads, which is no test"
    with pytest.raises(cp.KernelFault) as refused:
        hungry((1,), (1024,), (1, cp.ones(100, np.float32), cp.ones(100, np.float32)))
    assert f"{used} registers a thread x 1024 threads = {used * 1024} > 65536" in str(refused.value)
    # Registers come in units of 8 a thread, and threads in warps of 32.
    most = 65536 // (-(-used // 8) * 8 * 32) * 32
    assert f"the largest block that fits has {most} threads" in str(refused.value)
    assert hungry.max_threads_per_block == most


def test_a_refused_launch_is_traced_as_a_hazard_and_moves_nothing():
    trace = cp.trace(cp.RawKernel(SCALE, "scale"), (1,), (2048,), (1, TWO, floats(1), floats(1)))
    assert [hazard.kind for hazard in trace.hazards] == ["launch"] and trace.accesses == ()


# What CuPy's attributes say.


def test_the_attributes_are_those_of_ptxas():
    body = """    __shared__ float tile[8][32];
    float local[64];
    for (int i = 0; i < 64; ++i) local[i] = p[i];
    tile[threadIdx.y][threadIdx.x] = local[p[64] & 63];
    __syncthreads();
    p[0] = tile[threadIdx.x & 7][threadIdx.y] + local[p[65] & 63];"""
    own = kernel(body, options=("--maxrregcount=32",))
    own.compile()
    ptxas = nvrtc.resources(own.code, "k", own.options, "sm_90")
    assert (own.num_regs, own.local_size_bytes) == (ptxas.registers, ptxas.stack_bytes)
    assert own.local_size_bytes >= 64 * 4, "an array that is indexed by a value lies in local memory"
    assert own.shared_size_bytes == 8 * 32 * 4
    assert own.num_regs <= 32 and own.max_threads_per_block == 1024


def test_launch_bounds_show_in_max_threads_per_block():
    assert cp.RawKernel('extern "C" __global__ void __launch_bounds__(96) k() {}', "k").max_threads_per_block == 96


# What a trace counts.


@pytest.mark.parametrize(
    ("rung", "moved"),
    [(RUNGS[0], 32 * 32 + 32), (RUNGS[1], 32 + 4 * 32)],
    ids=lambda each: getattr(each, "name", None) or str(each),
)
def test_the_bytes_of_an_inner_step_follow_from_the_trace(rung, moved):
    # Naive: 32 sectors of A and one of B, 1056 bytes a warp and step. Coalesced: one of A and four of B, 160.
    problem = Gemm(M=32, N=64, K=24)
    arrays = [cp.zeros(shape, np.float32) for shape in problem.shapes.values()]
    grid, block, _ = rung.geometry(problem)
    trace = cp.trace(cp.RawKernel(rung.source(), rung.entry, rung.options()), grid, block, arguments(problem, *arrays))
    loads = [access for access in trace.accesses if access.op == "ld.global"]
    warps_and_steps = 32 * 64 // 32 * 24
    assert [access.requests for access in loads] == [warps_and_steps] * 2
    assert sum(access.moved_bytes for access in loads) == moved * warps_and_steps
    assert [access.useful_bytes for access in loads] == [32 * 4 * warps_and_steps] * 2


def test_a_fault_shows_the_call_that_launched_and_none_of_the_emulators_frames():
    with pytest.raises(cp.KernelFault) as fault:
        scale(2, TWO, floats(1), floats(1))
    assert [frame.name for frame in traceback.extract_tb(fault.value.__traceback__)][1:] == ["scale", "__call__"]


def test_a_compile_error_shows_the_call_that_launched_and_none_of_the_emulators_frames():
    with pytest.raises(cp.CompileError) as refused:
        cp.RawKernel(SCALE.replace("A[i] * x;", "A[i] * x"), "scale")((1,), (1,), ())
    assert [frame.name for frame in traceback.extract_tb(refused.value.__traceback__)][1:] == ["__call__"]


# What kernels compute.


def test_a_sum_that_was_never_set_to_zero_is_not_a_number():
    summing = kernel("    float sum;\n    for (int i = 0; i < n; ++i) sum += p[i];\n    p[0] = sum;", "float* p, int n")
    p = floats(1, 2, 3)
    summing((1,), (1,), (p, 3))
    assert np.isnan(p.get()[0])


def test_the_names_of_types_are_numpys_as_in_cupy():
    assert (cp.float32, cp.int32) == (np.float32, np.int32)


@settings(deadline=None, max_examples=60)
@given(
    shape=st.tuples(*[st.integers(1, 40)] * 3),
    block=st.sampled_from([(32, 4), (32, 32), (1, 1), (7, 5), (64, 2)]),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_shape_and_block_gives_the_exact_product_of_integers(shape, block, seed):
    # Sums of at most 40 products of at most 64 in size are exact in float32, in whatever order.
    problem = Gemm(*shape, alpha=2.0)
    rng = np.random.default_rng(seed)
    A, B = (rng.integers(-8, 9, problem.shapes[name]) for name in "AB")
    for rung in RUNGS[:2]:
        tile = dict(zip(rung.tile, block, strict=True))
        C = cp.full(problem.shapes["C"], np.nan, np.float32)
        args = arguments(problem, cp.asarray(A.astype(np.float32)), cp.asarray(B.astype(np.float32)), C)
        grid, threads, _ = rung.geometry(problem, tile)
        cp.RawKernel(rung.source(), rung.entry, rung.options(tile))(grid, threads, args)
        np.testing.assert_array_equal(C.get(), 2 * (A @ B))


def fma_bits(a, b, c):
    """Bits of a * b + c rounded once to float32, half to even: the definition of IEEE 754, in fractions."""
    if not np.isfinite([a, b, c]).all():
        with np.errstate(invalid="ignore"):
            # The product is exact in float64 and no finite one overflows it, so only infinities meet here.
            special = np.float64(a) * np.float64(b) + np.float64(c)
        return 0x7FFFFFFF if np.isnan(special) else int(np.float32(special).view(np.uint32))
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if exact == 0:
        product_negative = np.signbit(a) != np.signbit(b)
        return 0x80000000 if product_negative and np.signbit(c) else 0
    sign = 0x80000000 if exact < 0 else 0
    exact = abs(exact)
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    exponent = max(exponent - (exact < Fraction(2) ** exponent), -126)
    steps = round(exact / Fraction(2) ** (exponent - 23))  # of 2^(exponent - 23); Python rounds halves to even
    # A normal number has 2^23 <= steps <= 2^24; its leading bit and a carry both belong to the exponent field.
    bits = steps if exponent == -126 else steps + (exponent + 126 << 23)
    return sign | min(bits, 0x7F800000)


def fma(a, b, c):
    a, b, c = (np.asarray(values, np.float32) for values in (a, b, c))
    out = cp.zeros(a.size, np.float32)
    body = "    int i = blockIdx.x * 128 + threadIdx.x;\n    if (i < n) out[i] = fmaf(a[i], b[i], c[i]);"
    own = kernel(body, "int n, const float* a, const float* b, const float* c, float* out")
    own((-(-a.size // 128),), (128,), (a.size, *map(cp.asarray, (a, b, c)), out))
    return out.get().view(np.uint32)


def require_single_rounding(a, b, c):
    got = fma(a, b, c)
    for index, (x, y, z) in enumerate(zip(*(np.asarray(values, np.float32) for values in (a, b, c)), strict=True)):
        want = fma_bits(x, y, z)
        assert got[index] == want, f"fmaf({x!r}, {y!r}, {z!r}) is {got[index]:#010x}, not {want:#010x}"


LARGEST, SMALLEST = float(np.finfo(np.float32).max), 2.0**-149
TIES = [
    # (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24 lies half-way between two floats; the last term decides, past float64's 53 bits.
    *((1 + 2**-12, 1 + 2**-12, c) for c in (0.0, 2.0**-60, -(2.0**-60), 2.0**-149, -(2.0**-149))),
    *((-1 - 2**-12, 1 + 2**-12, c) for c in (0.0, 2.0**-60, -(2.0**-60))),
    # 2^-150 is half of the smallest subnormal, a tie with zero.
    *((2.0**-75, 2.0**-75, c) for c in (0.0, SMALLEST, -SMALLEST, 2.0**-126)),
    *((2.0**-75 * (1 + 2**-23), 2.0**-75, c) for c in (0.0, SMALLEST, -SMALLEST)),
    *((2.0**-100, sign * 2.0**-140, c) for c in (SMALLEST, -SMALLEST, 2.0**-126) for sign in (1, -1)),
    # At the edge between subnormal and normal, and at that of overflow: half of an ulp past the largest is a tie.
    (2.0**-63, 2.0**-63, -SMALLEST), (2.0**-126 - SMALLEST, 1.0, 2.0**-149), (1 - 2**-24, 2.0**-126, 0.0),
    (LARGEST, 1.0, 2.0**103), (LARGEST, 1.0, 2.0**102), (LARGEST, 1.0, 2.0**103 - 2.0**79), (LARGEST, 2.0, -LARGEST),
    (-LARGEST, 1.0, -(2.0**103)), (LARGEST, LARGEST, -LARGEST), (LARGEST, 1 + 2**-23, -(2.0**103)),
    # Exact zeros have the sign that the addends share, else plus.
    (0.0, 1.0, 0.0), (-0.0, 1.0, 0.0), (-0.0, 1.0, -0.0), (0.0, 1.0, -0.0), (3.0, -1.0, 3.0), (-3.0, 1.0, 3.0),
    *product((np.inf, -np.inf, np.nan, 0.0, 2.0), (np.inf, 0.0, -1.0), (np.inf, -np.inf, 1.0)),
]  # fmt: skip


def test_fma_rounds_once_on_ties_subnormals_overflow_and_nan():
    require_single_rounding(*zip(*TIES, strict=True))


def any_bits(rng):
    return rng.integers(0, 2**32, (3, 2000), np.uint32).view(np.float32)


def nearly_ties(rng):
    """Products of 12 and 13 odd bits, half of which are half-way between two floats, and addends far below them."""
    a = (2 * rng.integers(2**10, 2**11, 2000) + 1).astype(np.float32)
    b = (2 * rng.integers(2**11, 2**12, 2000) + 1).astype(np.float32)
    c = rng.choice([-1, 1], 2000) * 2.0 ** rng.integers(-149, -10, 2000)
    return a, b, c


def nearly_ties_of_subnormals(rng):
    """Products next to half of the smallest subnormal, and addends so far above them that float64 drops the rest."""
    k = rng.integers(1, 100, 2000)
    a, b = 2.0**-75 * (1 + k * 2.0**-23), 2.0**-75 * (1 + rng.choice([-1, 1], 2000) * k * 2.0**-23)
    return a, b, rng.choice([-1, 1], 2000) * rng.integers(2**18, 2**24, 2000) * SMALLEST


def nearly_overflowing(rng):
    """Sums that end within a few units of the largest float, on both sides."""
    a = LARGEST * (1 - rng.integers(0, 3, 2000) * 2.0**-24)
    return a, np.ones(2000), rng.integers(-3, 4, 2000) * 2.0**102 * (1 + rng.integers(-1, 2, 2000) * 2.0**-23)


@pytest.mark.parametrize("operands", [any_bits, nearly_ties, nearly_ties_of_subnormals, nearly_overflowing])
def test_fma_rounds_once_on_random_operands(operands):
    require_single_rounding(*operands(np.random.default_rng(1)))


def test_the_independent_fma_knows_a_double_rounding_when_it_sees_one():
    a, b, c = np.float32(1 + 2**-12), np.float32(1 + 2**-12), np.float32(2.0**-60)
    twice = np.float32(np.float64(a) * np.float64(b) + np.float64(c))
    assert fma_bits(a, b, c) == int(twice.view(np.uint32)) + 1


def test_a_sum_of_fmas_is_that_of_fractions():
    # One output of rung 0 with K = 50, operand by operand.
    problem = Gemm(1, 1, 50)
    rng = np.random.default_rng(5)
    A, B = rng.standard_normal((1, 50), np.float32), rng.standard_normal((50, 1), np.float32)
    total = np.float32(0)
    for a, b in zip(A[0], B[:, 0], strict=True):
        total = np.array(fma_bits(a, b, total), np.uint32).view(np.float32)[()]
    for rung in RUNGS:
        C = cp.zeros((1, 1), np.float32)
        grid, block, _ = rung.geometry(problem)
        args = arguments(problem, cp.asarray(A), cp.asarray(B), C)
        cp.RawKernel(rung.source(), rung.entry, rung.options())(grid, block, args)
        assert C.get()[0, 0] == total


def test_every_line_of_a_message_speaks_of_the_learners_source_and_of_no_generated_code():
    with pytest.raises(cp.KernelFault) as fault:
        scale(4, TWO, floats(1), cp.zeros(4, np.float32))
    assert not re.search(r"%r\d|ptx|\.py", str(fault.value), re.IGNORECASE)
