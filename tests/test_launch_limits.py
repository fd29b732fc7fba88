"""What a launch may ask of shared memory once max_dynamic_shared_size_bytes is set.

The numbers are an H200's (driver 580.159.04): cuFuncSetAttribute and cuLaunchKernel of a kernel with 1,024 static
bytes, asked for 1,024 to 231,425 dynamic ones. Of 232,448 bytes a block, 231,424 were left; more could not be set.
"""

import numpy as np
import pytest

from gemmlab import emulator as cp

SOURCE = """extern "C" __global__ void k(int* p) {
    volatile __shared__ int own[256];
    extern __shared__ int s[];
    own[0] = s[0] = 1;
    *p = own[0];
}"""


def said(most, dynamic):
    kernel = cp.RawKernel(SOURCE, "k")
    if most is not None:
        kernel.max_dynamic_shared_size_bytes = most
    hazards = cp.trace(kernel, (1,), (1,), (cp.zeros(1, np.int32),), shared_mem=dynamic).hazards
    assert {hazard.kind for hazard in hazards} <= {"launch"}
    return "".join(hazard.message for hazard in hazards)


@pytest.mark.parametrize(
    ("most", "dynamic"),
    [(None, 1024), (None, 48128), (1024, 1024), (2048, 1024), (48132, 48132), (231424, 60000), (231424, 231424)],
)
def test_a_launch_runs_that_an_h200_ran(most, dynamic):
    assert said(most, dynamic) == ""


@pytest.mark.parametrize(
    ("most", "dynamic", "message"),
    [
        (None, 48132, "48132 dynamic + 1024 static = 49156 > 49152 bytes of shared memory a block; set"),
        (16, 1024, "1024 bytes of dynamic shared memory > 16, to which kernel.max_dynamic_shared_size_bytes was set"),
        (1024, 2048, "set it to 2048"),
        (48128, 48132, "set it to 48132"),
        (231424, 231425, "231425 dynamic + 1024 static = 232449 > 232448 bytes"),
        (231425, 1024, "= 231425, but beside 1024 static bytes it can be 0 to 231424 on sm_90"),
        (1_000_000, 40000, "= 1000000, but beside 1024 static bytes it can be 0 to 231424 on sm_90"),
        (-1, 1024, "= -1, but beside 1024 static bytes it can be 0 to 231424 on sm_90"),
    ],
)
def test_a_launch_is_refused_that_an_h200_refused(most, dynamic, message):
    assert message in said(most, dynamic)


@pytest.mark.parametrize("most", ["49152", 49152.0, True])
def test_a_limit_that_is_no_number_of_bytes_is_a_type_error(most):
    with pytest.raises(TypeError, match=r"max_dynamic_shared_size_bytes is .*, but must be an int"):
        said(most, 1024)


@pytest.mark.parametrize(
    ("static", "padded"), [(1, 16), (4, 16), (16, 16), (17, 32), (100, 112), (128, 128), (130, 144), (1000, 1008)]
)
def test_static_memory_is_filled_up_to_where_the_dynamic_array_starts(static, padded):
    # the same H200: so many of 49,152 bytes were left to a kernel with a dynamic array, and all 49,152 - static without
    own = f"__shared__ char own[{static}];\n    own[threadIdx.x] = 1; __syncwarp(); *p = own[0];"
    args = ((1,), (1,), (cp.zeros(1, np.int32),))
    with_array = f'extern "C" __global__ void k(int* p) {{\n    extern __shared__ char s[]; s[0] = 1;\n    {own}\n}}'
    kernel = cp.RawKernel(with_array.replace("*p = own[0]", "*p = own[0] + s[0]"), "k")
    assert cp.trace(kernel, *args, 49152 - padded).ok
    (hazard,) = cp.trace(kernel, *args, 49152 - padded + 1).hazards
    assert f"{49153 - padded} dynamic + {padded} static = 49153 > 49152" in hazard.message
    without = cp.RawKernel(f'extern "C" __global__ void k(int* p) {{\n    {own}\n}}', "k")
    assert cp.trace(without, *args, 49152 - static).ok
