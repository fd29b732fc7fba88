"""One kernel of this field's means, as NVRTC compiles it for every architecture that it has, optimised and not."""

import numpy as np
import pytest
from ptx_programs import execute

from gemmlab import nvrtc

SOURCE = r"""
struct Split { long long whole, rest; unsigned char low[3]; };

__device__ __noinline__ Split split(long long a, long long b) {
    Split s{a / b, a % b, {}};
    for (int i = 0; i < 3; ++i) s.low[i] = (unsigned char)(a >> 8 * i);
    return s;
}

__constant__ int weights[4] = {3, -5, 7, 11};

extern "C" __global__ void k(const float4* x, float* soft, signed char* quantized, const int* codes, int* chosen,
                             int* dots, long long* quotients, unsigned* histogram) {
    __shared__ unsigned bins[8];
    __shared__ float tile[4][33];
    int lane = threadIdx.x, row = threadIdx.y, i = (blockIdx.x * blockDim.y + row) * 32 + lane;
    if (row == 0 && lane < 8) bins[lane] = 0;
    float4 v = x[i];
    tile[row][lane] = fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w));
    __syncthreads();
    float most = tile[row][lane], sum;
    for (int step = 16; step; step >>= 1) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
    sum = expf(v.x - most) + expf(v.y - most) + expf(v.z - most) + expf(v.w - most);
    for (int step = 16; step; step >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, step);
    sum = __shfl_sync(0xffffffffu, sum, 0);
    float part[4] = {v.x, v.y, v.z, v.w};
    for (int j = 0; j < 4; ++j) {
        int at = (j + lane) & 3;
        soft[4 * i + at] = expf(part[at] - most) / sum;
        quantized[4 * i + at] = (signed char)max(-128, min(127, __float2int_rn(part[at] * 40.0f)));
    }
    int code = codes[i], other = codes[i ^ 1];
    atomicAdd(&bins[code & 7], 1);
    switch ((unsigned)code % 6) {
        case 0: chosen[i] = code * weights[lane & 3]; break;
        case 1: chosen[i] = ~code; break;
        case 2: chosen[i] = __popc(code) + __clz(other); break;
        case 3: chosen[i] = __mulhi(code, other); break;
        case 4: chosen[i] = (int)(__brev(code) ^ __byte_perm(code, other, 0x2715)); break;
        default: chosen[i] = (int)__funnelshift_l(code, other, lane); break;
    }
    int dot = i;
    #pragma unroll
    for (int j = 0; j < 32; j += 8) dot += (signed char)(code >> j) * (signed char)(other >> j);
    dots[i] = dot;
    Split s = split((long long)code * 0x12345678ll, other | 1);
    quotients[i] = s.whole * 3 + s.rest + s.low[lane % 3];
    __syncthreads();
    if (row == 0 && lane < 8) atomicAdd(&histogram[lane], bins[lane]);
}
"""


def choice(code: int, other: int, lane: int) -> int:
    """What the switch chooses, as an int of 32 bits."""
    a, b = code % 2**32, other % 2**32
    octets = a.to_bytes(4, "little") + b.to_bytes(4, "little")
    value = [
        code * (3, -5, 7, 11)[lane & 3],
        ~code,
        a.bit_count() + 32 - b.bit_length(),
        code * other >> 32,
        int(f"{a:032b}"[::-1], 2) ^ int.from_bytes(bytes(octets[i] for i in (5, 1, 7, 2)), "little"),
        (b << 32 | a) << lane >> 32,
    ][a % 6]
    return (value + 2**31) % 2**32 - 2**31


def dot(code: int, other: int, start: int) -> int:
    a, b = (np.array([v], np.int32).view(np.int8).astype(int) for v in (code, other))
    return start + int(a @ b)


def quotient(code: int, other: int, lane: int) -> int:
    a, b = code * 0x12345678, other | 1
    whole = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return (whole * 3 + a - whole * b + (a >> 8 * (lane % 3)) % 256 + 2**63) % 2**64 - 2**63


@pytest.mark.parametrize("options", [(), ("-G",)], ids=["optimised", "for debuggers"])
@pytest.mark.parametrize("arch", nvrtc.supported_architectures())
def test_a_kernel_means_the_same_on_every_architecture(arch, options):
    rng, lanes = np.random.default_rng(1), 2 * 4 * 32
    x = rng.normal(0, 2, (lanes // 32, 128)).astype(np.float32)
    codes = rng.integers(-(2**31), 2**31, lanes, dtype=np.int32)
    outputs = [np.zeros(4 * lanes, t) for t in (np.float32, np.int8)]
    integers = [np.zeros(n, t) for n, t in ((lanes, np.int32), (lanes, np.int32), (lanes, np.int64), (8, np.uint32))]
    text = nvrtc.compile_ptx(SOURCE, options, arch)
    arrays = execute(text, [x, *outputs, codes, *integers], (2, 1, 1), (32, 4, 1))
    _, soft, quantized, _, chosen, dots, quotients, histogram = arrays
    exact = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    # an expf and a sum of 128 in float32, each within a few units in the last place
    np.testing.assert_allclose(soft.reshape(x.shape), exact / exact.sum(axis=1, keepdims=True), rtol=2e-6)
    assert quantized.tolist() == np.clip(np.rint(x * np.float32(40)), -128, 127).ravel().tolist()
    every = [(int(codes[i]), int(codes[i ^ 1]), i) for i in range(lanes)]
    assert chosen.tolist() == [choice(a, b, i % 32) for a, b, i in every]
    assert dots.tolist() == [dot(*one) for one in every]
    assert quotients.tolist() == [quotient(a, b, i % 32) for a, b, i in every]
    assert histogram.tolist() == np.bincount(codes & 7, minlength=8).tolist()
