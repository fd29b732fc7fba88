"""mma.sync in f64, in FP8, in 4-bit integers and in single bits, and wmma in f64, through inline PTX.

Layouts are written element by element as the PTX ISA states them ("Matrix Fragments for mma.m8n8k4 with .f64
floating point type" and its neighbours). Small integers are exact in every type, so products must come out equal; they
are random, so that an element in another's place shows.
"""

import numpy as np
import pytest

from gemmlab import emulator as cp

RNG = np.random.default_rng(7)
BITS = {"b1": 1, "s4": 4, "u4": 4, "e4m3": 8, "e5m2": 8, "f16": 16, "f32": 32, "s32": 32, "f64": 64}

# (lane's group, lane within it, element) -> (row, column) of A and of B
LAYOUTS = {
    ("m8n8k4", 64): (lambda g, t, i: (g, t), lambda g, t, i: (t, g)),
    ("m16n8k4", 64): (lambda g, t, i: (g + 8 * (i == 1), t), lambda g, t, i: (t, g)),
    ("m16n8k8", 64): (
        lambda g, t, i: (g if i in (0, 2) else g + 8, t if i in (0, 1) else t + 4),
        lambda g, t, i: (t + 4 * i, g),
    ),
    ("m16n8k16", 64): (
        lambda g, t, i: (g, i * 2 + t) if i % 2 == 0 else (g + 8, i * 2 - 2 + t),
        lambda g, t, i: (t + i * 4, g),
    ),
    ("m16n8k16", 8): (lambda g, t, i: (g if i < 4 else g + 8, t * 4 + (i & 3)), lambda g, t, i: (t * 4 + i, g)),
    ("m16n8k32", 8): (
        lambda g, t, i: (g if 0 <= i < 4 or 8 <= i < 12 else g + 8, t * 4 + (i & 3) + (0 if i < 8 else 16)),
        lambda g, t, i: (t * 4 + (i & 3) + (0 if i < 4 else 16), g),
    ),
    ("m8n8k32", 4): (lambda g, t, i: (g, t * 8 + i), lambda g, t, i: (t * 8 + i, g)),
    ("m16n8k32", 4): (lambda g, t, i: (g if i < 8 else g + 8, t * 8 + (i & 7)), lambda g, t, i: (t * 8 + i, g)),
    ("m16n8k64", 4): (
        lambda g, t, i: (g if 0 <= i < 8 or 16 <= i < 24 else g + 8, t * 8 + (i & 7) + (0 if i < 16 else 32)),
        lambda g, t, i: (t * 8 + (i & 7) + (0 if i < 8 else 32), g),
    ),
    ("m8n8k128", 1): (lambda g, t, i: (g, t * 32 + i), lambda g, t, i: (t * 32 + i, g)),
    ("m16n8k128", 1): (lambda g, t, i: (g if i < 32 else g + 8, t * 32 + (i & 31)), lambda g, t, i: (t * 32 + i, g)),
    ("m16n8k256", 1): (
        lambda g, t, i: (g if 0 <= i < 32 or 64 <= i < 96 else g + 8, t * 32 + (i & 31) + (0 if i < 64 else 128)),
        lambda g, t, i: (t * 32 + (i & 31) + (0 if i < 32 else 128), g),
    ),
}


def accumulator(g, t, i):
    return g if i < 2 else g + 8, t * 2 + (i & 1)


@pytest.fixture(autouse=True)
def own_architecture():
    before = cp.architecture()
    yield
    cp.use_architecture(before)


def extents(shape):
    m, rest = shape[1:].split("n")
    return int(m), *map(int, rest.split("k"))


def fp8(value, kind):
    """The code of a small integer: 1 sign, 4 or 5 bits of exponent of bias 7 or 15, 3 or 2 of fraction."""
    if value == 0:
        return 0
    fraction, bias = (3, 7) if kind == "e4m3" else (2, 15)
    exponent = int(np.log2(abs(value)))
    mantissa = abs(value) / 2**exponent - 1
    assert mantissa * 2**fraction % 1 == 0, "not a number of this type"
    return (value < 0) << 7 | exponent + bias << fraction | int(mantissa * 2**fraction)


def codes(values, kind):
    """Elements as unsigned integers of the type's width."""
    if kind in ("e4m3", "e5m2"):
        return [fp8(int(v), kind) for v in values]
    if kind in ("f16", "f32", "f64"):
        width = BITS[kind] // 8
        return [int(v) for v in values.astype(f"f{width}").view(f"u{width}")]
    return [int(v) % (1 << BITS[kind]) for v in values]


def registers(matrix, kind, layout):
    """Each lane's registers, the first element in the lowest bits."""
    bits, word = BITS[kind], 64 if kind == "f64" else 32
    lanes = []
    for lane in range(32):
        held = np.array([matrix[layout(lane // 4, lane % 4, i)] for i in range(matrix.size // 32)])
        whole = sum(code << bits * i for i, code in enumerate(codes(held, kind)))
        lanes.append([whole >> word * r & (1 << word) - 1 for r in range(len(held) * bits // word)])
    return np.array(lanes, np.uint64 if word == 64 else np.uint32)


def braces(first, count):
    return "{" + ", ".join(f"%{first + i}" for i in range(count)) + "}"


def product(opcode, a, b, c, d_type, shape, arch):
    """D of one mma whose operands are registers (32, n)."""
    cp.use_architecture(arch)
    m, n, _ = extents(shape)
    d = np.zeros((32, m * n * BITS[d_type] // 32 // (64 if d_type == "f64" else 32)), c.dtype)
    kinds = {np.dtype(np.uint32): ("unsigned", "r"), np.dtype(np.uint64): ("double", "d")}
    (element, _), (wide, letter) = kinds[a.dtype], kinds[d.dtype]
    given = [
        f'"{kinds[v.dtype][1]}"({name}[threadIdx.x * {v.shape[1]} + {i}])'
        for name, v in (("A", a), ("B", b), ("C", c))
        for i in range(v.shape[1])
    ]
    counts = [v.shape[1] for v in (d, a, b, c)]
    text = ", ".join(braces(sum(counts[:i]), counts[i]) for i in range(4))
    results = ", ".join(f'"={letter}"(r[{i}])' for i in range(counts[0]))
    source = f"""
extern "C" __global__ void product(const {element}* A, const {element}* B, const {wide}* C, {wide}* D) {{
    {wide} r[{counts[0]}];
    asm volatile("{opcode} {text};" : {results} : {", ".join(given)});
    for (int i = 0; i < {counts[0]}; ++i) D[threadIdx.x * {counts[0]} + i] = r[i];
}}
"""
    typed = [v.view(np.float64) if v.dtype == np.uint64 else v for v in (a, b, c, d)]
    arrays = [cp.asarray(v) for v in typed]
    cp.RawKernel(source, "product")((1,), (32,), tuple(arrays))
    held = cp.asnumpy(arrays[3]).view(
        {"f16": np.float16, "f32": np.float32, "s32": np.int32, "f64": np.float64}[d_type]
    )
    matrix = np.full((m, n), np.nan)
    for lane in range(32):
        for i in range(held.shape[1]):
            matrix[accumulator(lane // 4, lane % 4, i)] = held[lane, i]
    return matrix


def mma(shape, types, A, B, C, arch, combine=""):
    d_type, a_type, b_type, c_type = types
    of_a, of_b = LAYOUTS[shape, BITS[a_type]]
    opcode = f"mma.sync.aligned.{shape}.row.col.{'.'.join(types)}{combine}"
    packed = registers(A, a_type, of_a), registers(B, b_type, of_b), registers(C, c_type, accumulator)
    return product(opcode, *packed, d_type, shape, arch)


RANGES = {"s4": (-8, 8), "u4": (0, 16), "b1": (0, 2)}
FORMS = [
    ("m8n8k4", "f64", "f64", "f64", "f64", "sm_80"),
    ("m16n8k4", "f64", "f64", "f64", "f64", "sm_90"),
    ("m16n8k8", "f64", "f64", "f64", "f64", "sm_90"),
    ("m16n8k16", "f64", "f64", "f64", "f64", "sm_90"),
    ("m16n8k32", "f32", "e4m3", "e4m3", "f32", "sm_89"),
    ("m16n8k32", "f32", "e5m2", "e4m3", "f32", "sm_90"),
    ("m16n8k16", "f32", "e5m2", "e5m2", "f32", "sm_89"),
    ("m16n8k32", "f16", "e4m3", "e5m2", "f16", "sm_89"),
    ("m8n8k32", "s32", "s4", "s4", "s32", "sm_75"),
    ("m8n8k32", "s32", "u4", "s4", "s32", "sm_75"),
    ("m16n8k32", "s32", "s4", "u4", "s32", "sm_80"),
    ("m16n8k64", "s32", "u4", "u4", "s32", "sm_80"),
    ("m16n8k64", "s32", "s4", "s4", "s32", "sm_90"),
]


@pytest.mark.parametrize("form", FORMS, ids="-".join)
def test_a_product_of_small_integers_is_exact(form):
    shape, *types, arch = form
    m, n, k = extents(shape)
    (a, b), C = (RANGES.get(t, (-4, 5)) for t in types[1:3]), RNG.integers(-9, 9, (m, n))
    A, B = RNG.integers(*a, (m, k)), RNG.integers(*b, (k, n))
    assert mma(shape, types, A, B, C, arch).tolist() == (A @ B + C).tolist()


@pytest.mark.parametrize(
    ("shape", "arch", "combine"),
    [
        ("m8n8k128", "sm_75", ".xor.popc"),
        ("m8n8k128", "sm_80", ".and.popc"),
        ("m16n8k128", "sm_80", ".xor.popc"),
        ("m16n8k256", "sm_80", ".and.popc"),
        ("m16n8k256", "sm_90", ".xor.popc"),
    ],
)
def test_single_bits_are_counted_where_they_differ_or_where_both_are_set(shape, arch, combine):
    m, n, k = extents(shape)
    A, B, C = RNG.integers(0, 2, (m, k)), RNG.integers(0, 2, (k, n)), RNG.integers(-9, 9, (m, n))
    logic = np.bitwise_xor if combine == ".xor.popc" else np.bitwise_and
    expected = C + logic(A[:, :, None], B[None]).sum(axis=1)
    assert mma(shape, ("s32", "b1", "b1", "s32"), A, B, C, arch, combine).tolist() == expected.tolist()


def test_f64_keeps_what_float32_would_lose():
    A, B, C = np.zeros((8, 4)), np.zeros((4, 8)), np.zeros((8, 8))
    A[0, 0], B[0, 0], C[0, 0] = 1 + 2.0**-40, 3.0, 2.0**-45
    assert mma("m8n8k4", ("f64",) * 4, A, B, C, "sm_80")[0, 0] == 3 + 3 * 2.0**-40 + 2.0**-45


WMMA_F64 = r"""
extern "C" __global__ void product(const double* A, const double* B, const double* C, double* D) {
    double a, b, c[2];
    asm volatile("wmma.load.a.sync.aligned.row.m8n8k4.global.f64 {%0}, [%1], 4;" : "=d"(a) : "l"(A));
    asm volatile("wmma.load.b.sync.aligned.col.m8n8k4.f64 {%0}, [%1], 4;" : "=d"(b) : "l"(B));
    asm volatile("wmma.load.c.sync.aligned.row.m8n8k4.f64 {%0, %1}, [%2], 8;" : "=d"(c[0]), "=d"(c[1]) : "l"(C));
    asm volatile("wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(c[0]), "+d"(c[1]) : "d"(a), "d"(b));
    asm volatile("wmma.store.d.sync.aligned.col.m8n8k4.f64 [%0], {%1, %2}, 8;"
                 :: "l"(D), "d"(c[0]), "d"(c[1]) : "memory");
}
"""


def test_wmma_multiplies_f64():
    cp.use_architecture("sm_80")
    A, B, C = (RNG.integers(-9, 9, s).astype(np.float64) for s in ((8, 4), (4, 8), (8, 8)))
    D = cp.zeros((8, 8), np.float64)
    arrays = (cp.asarray(A), cp.asarray(np.ascontiguousarray(B.T)), cp.asarray(C), D)
    cp.RawKernel(WMMA_F64, "product")((1,), (32,), arrays)
    assert cp.asnumpy(D).T.tolist() == (A @ B + C).tolist()
