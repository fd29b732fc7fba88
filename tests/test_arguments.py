"""Arguments that do not fit what the source declares, whatever way it does so, and none refused that does fit."""

import numpy as np
import pytest

from gemmlab import emulator as cp


def told(before, parameter, value):
    kernel = cp.RawKernel(f'{before}\nextern "C" __global__ void k({parameter}) {{}}', "k")
    return [hazard.message for hazard in cp.trace(kernel, (1,), (1,), (value,)).hazards]


def doubles():
    return cp.zeros(4, np.float64)


NAMED = ["using T = float;", "typedef float T;", "#define T float", "typedef float base; using T = const base;"]


@pytest.mark.parametrize("before", NAMED)
def test_a_type_is_known_by_another_name_of_it(before):
    (message,) = told(before, "T* A", doubles())
    assert "the kernel reads float32 there, but a float64 array" in message
    assert told(before, "T* A", cp.zeros(4, np.float32)) == []


@pytest.mark.parametrize(
    "before",
    [
        # -DT=double would have its way
        "#ifndef T\n#define T float\n#endif",
        "#if !defined(T)\n#define T float\n#endif",
        "#ifdef SINGLE\nusing T = float;\n#else\nusing T = double;\n#endif",
    ],
)
def test_a_name_with_two_meanings_is_not_guessed(before):
    assert told(before, "T* A", doubles()) == []


def test_a_kernel_that_is_written_twice_is_judged_by_what_both_say():
    twice = """#ifdef SINGLE
extern "C" __global__ void k(const float* A, int n) { }
#else
extern "C" __global__ void k(const double* A, int n) { }
#endif"""
    args = (doubles(), np.int32(1))
    assert cp.trace(cp.RawKernel(twice, "k"), (1,), (1,), args).ok
    (hazard,) = cp.trace(cp.RawKernel(twice, "k"), (1,), (1,), (doubles(), np.float32(1))).hazards
    assert "argument n (int n) of k" in hazard.message


def test_a_declaration_before_the_kernel_takes_no_name_from_it():
    before = 'extern "C" __global__ void k(const float*);'
    (message,) = told(before, "const float* A", doubles())
    assert message.startswith("argument A (const float* A) of k")


PAIR = "struct Pair { int a; float b; };"


def test_a_struct_wants_all_its_bytes():
    (message,) = told(PAIR, "Pair p", np.int32(1))
    assert "np.int32(1) has 4 bytes, but the parameter has 8, and the rest would be garbage" in message
    assert "structured dtype" in message
    pair = np.zeros(1, np.dtype([("a", np.int32), ("b", np.float32)]))[0]
    assert told(PAIR, "Pair p", pair) == []


def test_pairs_of_halves_are_halves():
    before = "#include <cuda_fp16.h>"
    assert told(before, "const half2* A", cp.zeros(4, np.float16)) == []
    (message,) = told(before, "const __half2* A", cp.zeros(4, np.float32))
    assert "the kernel reads float16 there, but a float32 array" in message


@pytest.mark.parametrize("value", [2 + 3j, np.complex64(2 + 3j)])
def test_the_cure_for_a_complex_number_is_one_that_runs(value):
    (message,) = told("", "float x", value)
    assert message.endswith("pass np.float32(2.0)")


@pytest.mark.parametrize("value", [np.str_("1"), np.bytes_(b"1"), np.datetime64("2020"), np.timedelta64(1)])
def test_a_numpy_scalar_that_is_no_number_is_a_type_error(value):
    with pytest.raises(TypeError, match="argument x: Unsupported type <class 'numpy"):
        told("", "int x", value)
