import re
import sys

import pytest

from gemmlab import nvrtc

KERNEL = """extern "C" __global__ void scale(float* x, float a) {
    x[threadIdx.x] *= a;
}
"""

# 64 accumulators a thread live through the loop, and no two threads' are alike, so that none can be a uniform register.
OUTER_PRODUCT = """extern "C" __global__ void outer(const float* A, const float* B, float* C, int K) {
    int t = threadIdx.x;
    float acc[8][8] = {};
    for (int k = 0; k < K; ++k)
        for (int i = 0; i < 8; ++i)
            for (int j = 0; j < 8; ++j) acc[i][j] += A[8 * (k + t) + i] * B[8 * (k + t) + j];
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 8; ++j) C[64 * t + 8 * i + j] = acc[i][j];
}
"""

TILES = """extern "C" __global__ void tiles(float* C) {
    __shared__ float As[32][32];
    __shared__ float Bs[32][33];
    extern __shared__ float dynamic[];
    As[threadIdx.y][threadIdx.x] = C[threadIdx.x];
    Bs[threadIdx.y][threadIdx.x] = C[threadIdx.y];
    dynamic[threadIdx.x] = C[0];
    __syncthreads();
    C[threadIdx.x] = As[threadIdx.x][0] + Bs[0][threadIdx.y] + dynamic[threadIdx.y];
}
"""


@pytest.fixture
def fresh_compiler():
    """Forget what is cached about the installation before a test changes it, and after."""
    caches = (nvrtc._bindings, nvrtc._include_options, nvrtc._compile, nvrtc.supported_architectures)
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


def test_ptx_has_the_entry_the_target_and_the_source_lines():
    ptx = nvrtc.compile_ptx(KERNEL, arch="sm_80")
    assert ".visible .entry scale(" in ptx
    assert ".target sm_80" in ptx
    assert re.search(r"\.loc\s+1 2 ", ptx), "line 2 holds the only statement"


def test_real_and_virtual_names_of_an_architecture_give_the_same_ptx():
    assert nvrtc.compile_ptx(KERNEL, arch="sm_90") == nvrtc.compile_ptx(KERNEL, arch="compute_90")


def test_an_architecture_with_its_own_features_is_accepted():
    assert ".target sm_90a" in nvrtc.compile_ptx(KERNEL, arch="sm_90a")


def test_cplusplus_17_is_the_default_and_an_option_overrides_it():
    source = KERNEL + 'static_assert(__cplusplus == STANDARD, "");\n'
    nvrtc.compile_ptx(source, ("-DSTANDARD=201703L",))
    nvrtc.compile_ptx(source, ("-DSTANDARD=202002L", "--std=c++20"))
    nvrtc.compile_ptx(source, ("-DSTANDARD=202002L", "-std=c++20"))


def test_options_may_repeat_what_is_passed_anyway():
    assert nvrtc.compile_ptx(KERNEL, ("-lineinfo", "-std=c++17")) == nvrtc.compile_ptx(KERNEL)


def test_a_list_of_options_is_taken_as_a_tuple_is():
    assert nvrtc.compile_ptx(KERNEL, ["-DUNUSED=1"]) == nvrtc.compile_ptx(KERNEL, ("-DUNUSED=1",))


@pytest.mark.parametrize("options", [("-arch=sm_80",), ("--gpu-architecture=compute_80",), ("-arch", "sm_80")])
def test_an_option_that_sets_the_architecture_is_refused(options):
    with pytest.raises(ValueError, match=r"leave '.*arch.*' out of the options"):
        nvrtc.compile_ptx(KERNEL, options)


def test_a_string_of_options_is_refused_with_the_cure():
    with pytest.raises(TypeError, match=re.escape("write ('-DBM=64',)")):
        nvrtc.compile_ptx(KERNEL, "-DBM=64")


def test_an_option_that_is_no_string_is_refused():
    with pytest.raises(TypeError, match="64 is of type int"):
        nvrtc.compile_ptx(KERNEL, (64,))


def test_an_option_that_nvrtc_does_not_know_is_reported_in_its_words():
    with pytest.raises(nvrtc.CompileError, match="unrecognized option --no-such-option"):
        nvrtc.compile_ptx(KERNEL, ("--no-such-option",))


def test_an_option_that_leaves_no_ptx_is_refused():
    with pytest.raises(ValueError, match="something other than PTX"):
        nvrtc.compile_ptx(KERNEL, ("-dlto",))


@pytest.mark.parametrize("arch", ["sm_91", "90", "sm_1000", "", "sm_90x"])
def test_an_unknown_architecture_is_refused_with_the_known_ones(arch):
    with pytest.raises(ValueError, match=rf"does not compile for '{arch}', only for .*sm_90"):
        nvrtc.compile_ptx(KERNEL, arch=arch)


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("", ValueError, "empty"),
        (" \n\t\n", ValueError, "empty"),
        ("int a;\nint b;\0\n", ValueError, "line 2 .*NUL"),
        ("int a;\nint b; // \ud83d\n", ValueError, r"line 2 .*'\\ud83d', half of a character"),
        (None, TypeError, "NoneType"),
        (KERNEL.encode(), TypeError, "bytes"),
    ],
)
@pytest.mark.parametrize("call", [nvrtc.compile_ptx, lambda source: nvrtc.resources(source, "scale")])
def test_what_is_no_source_is_refused(call, source, error, message):
    with pytest.raises(error, match=message):
        call(source)


@pytest.mark.parametrize("odd", ["\0", "\ud83d"])
def test_an_option_that_no_compiler_takes_is_refused_with_what_is_odd_in_it(odd):
    with pytest.raises(ValueError, match=re.escape(f"the compiler option {f'-DX={odd}'!r} holds {odd!r}")):
        nvrtc.compile_ptx(KERNEL, (f"-DX={odd}",))


def test_compiling_again_returns_what_is_cached():
    assert nvrtc.compile_ptx(KERNEL) is nvrtc.compile_ptx(KERNEL)


def test_a_failure_is_not_remembered_as_a_success():
    for _ in range(2):
        with pytest.raises(nvrtc.CompileError):
            nvrtc.compile_ptx("__global__ void broken( {}")


def test_a_syntax_error_shows_nvrtcs_message_and_the_line():
    source = KERNEL.replace("*= a;", "*= b;")
    with pytest.raises(nvrtc.CompileError) as raised:
        nvrtc.compile_ptx(source)
    assert 'kernel.cu(2): error: identifier "b" is undefined' in str(raised.value)
    assert str(raised.value).count("x[threadIdx.x] *= b;") == 1
    assert raised.value.source == source
    assert 'identifier "b" is undefined' in raised.value.log


def test_where_there_is_an_error_no_warning_is_shown_and_the_log_keeps_them():
    source = "__global__ void f(int* p)\n{\n    int unused = 1;\n    int sum = 0\n    p[0] = sum;\n}\n"
    with pytest.raises(nvrtc.CompileError) as raised:
        nvrtc.compile_ptx(source)
    assert "kernel.cu(5): error" in str(raised.value) and "1 error detected" in str(raised.value)
    assert "warning" not in str(raised.value) and "never referenced" in raised.value.log


def test_a_notebook_shows_the_compilers_words_and_the_line_of_the_cell_without_frames():
    cell = compile("nvrtc.compile_ptx('int f( {')", "ipykernel_7/1234.py", "exec")
    with pytest.raises(nvrtc.CompileError) as raised:
        exec(cell, {"nvrtc": nvrtc})
    said, where = raised.value._render_traceback_()
    assert said.startswith("CompileError: kernel.cu(1): error") and where.startswith("line 1 of the cell")


def test_a_located_message_without_its_line_gets_it():
    with pytest.raises(nvrtc.CompileError) as raised:
        nvrtc.compile_ptx(KERNEL.replace("*= a;", "*= b;"), ("--brief-diagnostics=true",))
    assert "x[threadIdx.x]" not in raised.value.log
    assert 'identifier "b" is undefined\n  kernel.cu(2): x[threadIdx.x] *= b;' in str(raised.value)


def test_an_error_of_ptxas_in_inline_ptx_names_the_line_of_the_source():
    source = KERNEL.replace("x[thr", 'asm("no_such.instruction;");\n    x[thr')
    with pytest.raises(nvrtc.CompileError) as raised:
        nvrtc.resources(source, "scale")
    assert "no_such" in raised.value.log
    assert '  kernel.cu(2): asm("no_such.instruction;");' in str(raised.value)


def test_a_missing_header_is_reported_with_the_packages_that_hold_cudas():
    with pytest.raises(nvrtc.CompileError, match=r"no_such_header\.h(.|\n)*pip install nvidia-cuda-runtime"):
        nvrtc.compile_ptx("#include <no_such_header.h>\n" + KERNEL)


# As and Bs: (32 x 32 + 32 x 33) x 4 bytes = 4096 + 4224; the dynamic array is the launch's to size.
def test_shared_bytes_are_those_declared():
    assert nvrtc.resources(TILES, "tiles").shared_bytes == 8320


# 128 x 128 floats are 65536 bytes; static shared memory ends at 48 KiB = 49152 on every architecture.
@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_too_much_static_shared_memory_is_a_compile_error_with_both_numbers(arch):
    source = """extern "C" __global__ void big(float* C) {
    __shared__ float As[128][128];
    As[threadIdx.x][0] = C[threadIdx.x];
    __syncthreads();
    C[threadIdx.x] = As[0][threadIdx.x];
}
"""
    with pytest.raises(nvrtc.CompileError) as raised:
        nvrtc.resources(source, "big", arch=arch)
    message = str(raised.value)
    assert "uses too much shared data (0x10000 bytes, 0xc000 max)" in message
    assert "65536 bytes" in message and "49152" in message
    assert "ptxas info" not in message


def test_64_accumulators_take_more_than_64_registers_and_do_not_spill():
    taken = nvrtc.resources(OUTER_PRODUCT, "outer")
    assert 64 < taken.registers <= 255
    assert (taken.stack_bytes, taken.spill_store_bytes, taken.spill_load_bytes) == (0, 0, 0)
    assert taken.shared_bytes == 0


# At most 40 registers for 64 accumulators of 4 bytes: at least 24 of them, 96 bytes, must live in local memory.
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_a_register_limit_below_the_accumulators_spills_the_rest(arch):
    taken = nvrtc.resources(OUTER_PRODUCT, "outer", ("-maxrregcount=40",), arch)
    assert taken.registers <= 40
    assert taken.stack_bytes >= 96
    assert taken.spill_store_bytes >= 96
    assert taken.spill_load_bytes >= 96


# 65536 registers / 1024 threads = 64.
def test_launch_bounds_of_1024_threads_hold_registers_to_64():
    source = OUTER_PRODUCT.replace("void outer", "void __launch_bounds__(1024) outer")
    taken = nvrtc.resources(source, "outer")
    assert taken.registers <= 64
    assert taken.spill_store_bytes > 0


# 64 floats that are written where a run-time index says cannot be registers: 256 bytes of local memory, and no spill.
def test_an_array_indexed_at_run_time_is_stack_and_no_spill():
    source = """extern "C" __global__ void histogram(const int* bins, float* x, int n) {
    float local[64] = {};
    for (int k = 0; k < n; ++k) local[bins[k] & 63] += x[k];
    for (int k = 0; k < 64; ++k) x[64 * threadIdx.x + k] = local[k];
}
"""
    taken = nvrtc.resources(source, "histogram")
    assert taken.stack_bytes == 256
    assert (taken.spill_store_bytes, taken.spill_load_bytes) == (0, 0)


def test_each_kernel_of_a_source_has_its_own_resources():
    source = OUTER_PRODUCT + TILES
    assert nvrtc.resources(source, "tiles") == nvrtc.resources(TILES, "tiles")
    assert nvrtc.resources(source, "outer") == nvrtc.resources(OUTER_PRODUCT, "outer")


def test_macros_change_the_shared_bytes():
    source = TILES.replace("32][32]", "BM][BM]")
    assert nvrtc.resources(source, "tiles", ("-DBM=16",)).shared_bytes == 16 * 16 * 4 + 32 * 33 * 4


# NVRTC reads its own header before the source, and that header has templates over a type T.
def test_a_macro_that_breaks_nvrtcs_own_header_is_named_as_the_cause():
    with pytest.raises(nvrtc.CompileError, match=r"-DT=16.*choose another name"):
        nvrtc.compile_ptx(KERNEL, ("-DBM=64", "-DT=16"))


def test_a_kernel_without_extern_c_is_not_found_and_the_message_says_so():
    with pytest.raises(nvrtc.KernelNotFound, match=r'_Z5scalePff.*extern "C" __global__ void scale') as raised:
        nvrtc.resources(KERNEL.replace('extern "C" ', ""), "scale")
    assert raised.value.kernels == ("_Z5scalePff",)


def test_a_misspelt_kernel_is_not_found_and_the_message_lists_the_kernels():
    with pytest.raises(nvrtc.KernelNotFound, match="defines scale; did you mean 'scale'") as raised:
        nvrtc.resources(KERNEL, "scael")
    assert (raised.value.entry, raised.value.kernels) == ("scael", ("scale",))


def test_another_name_is_not_found_and_the_message_gives_both_causes():
    with pytest.raises(nvrtc.KernelNotFound, match='defines scale; is the name misspelt, or extern "C" missing'):
        nvrtc.resources(KERNEL, "gemm")


def test_a_source_without_kernels_says_what_a_kernel_is():
    with pytest.raises(nvrtc.KernelNotFound, match="defines none; a kernel is a function declared __global__ void"):
        nvrtc.resources("__device__ int nothing;", "scale")


def test_version_is_a_cuda_13_toolkit_that_still_compiles_for_turing():
    assert nvrtc.version() >= (13, 0)
    assert nvrtc.supported_architectures()[0] == "sm_75"
    assert "sm_90" in nvrtc.supported_architectures()


def test_without_the_bindings_the_error_says_what_to_install(monkeypatch, fresh_compiler):
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(nvrtc.CompilerUnavailable, match=r"pip install cuda-bindings nvidia-cuda-nvrtc(.|\n)*macOS"):
        nvrtc.compile_ptx(KERNEL)


def test_without_the_library_the_error_says_what_to_install(monkeypatch, fresh_compiler):
    from cuda.bindings import nvrtc as bindings
    from cuda.pathfinder import DynamicLibNotFoundError

    def missing():
        raise DynamicLibNotFoundError("no libnvrtc.so.13")

    monkeypatch.setattr(bindings, "nvrtcVersion", missing)
    with pytest.raises(nvrtc.CompilerUnavailable, match=r"no libnvrtc\.so\.13.*pip install"):
        nvrtc.version()


def test_without_cudas_headers_a_kernel_that_needs_none_compiles(monkeypatch, fresh_compiler):
    from cuda import pathfinder

    monkeypatch.setattr(pathfinder, "find_nvidia_header_directory", lambda name: None)
    assert ".entry scale(" in nvrtc.compile_ptx(KERNEL)
    with pytest.raises(nvrtc.CompileError, match=r"cuda_fp16\.h(.|\n)*pip install nvidia-cuda-runtime"):
        nvrtc.compile_ptx("#include <cuda_fp16.h>\n" + KERNEL)


def test_cudas_headers_are_found_where_they_are_installed(monkeypatch, fresh_compiler, tmp_path):
    from cuda import pathfinder

    (tmp_path / "cuda_example.h").write_text("#define EXAMPLE 1\n")
    monkeypatch.setattr(pathfinder, "find_nvidia_header_directory", lambda name: str(tmp_path))
    assert ".entry scale(" in nvrtc.compile_ptx("#include <cuda_example.h>\n#if EXAMPLE\n" + KERNEL + "#endif\n")


def test_an_include_directory_of_the_options_comes_before_cudas(monkeypatch, fresh_compiler, tmp_path):
    from cuda import pathfinder

    for name, value in (("mine", 1), ("cudas", 0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same.h").write_text(f"#define MINE {value}\n")
    monkeypatch.setattr(pathfinder, "find_nvidia_header_directory", lambda name: str(tmp_path / "cudas"))
    source = "#include <same.h>\n#if MINE\n" + KERNEL + "#endif\n"
    assert ".entry scale(" in nvrtc.compile_ptx(source, (f"-I{tmp_path / 'mine'}",))


@pytest.mark.parametrize(("version", "options"), [((12, 8), []), ((12, 9), ["--no-cache"]), ((13, 0), ["--no-cache"])])
def test_ptxas_is_asked_anew_where_nvrtc_would_answer_from_its_cache_without_a_log(monkeypatch, version, options):
    asked = []
    compile_ = nvrtc._compile

    def record(source, given, arch):
        asked.extend(given)
        return compile_(source, given, arch)

    monkeypatch.setattr(nvrtc, "version", lambda: version)
    monkeypatch.setattr(nvrtc, "_compile", record)
    assert nvrtc.resources(KERNEL, "scale").registers > 0
    assert [option for option in asked if "cache" in option] == options
