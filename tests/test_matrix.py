"""Matrix instructions through inline PTX, as kernels use them.

Layouts are written here element by element as the PTX ISA states them ("Warp Level Matrix Multiply-Accumulate
Instructions"), products come from NumPy float64. Small integers are exact in every type, so they must come out equal.
"""

import numpy as np
import pytest

from gemmlab import emulator as cp

LANES = range(32)
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def own_architecture():
    before = cp.architecture()
    yield
    cp.use_architecture(before)


# ---- layouts, from the ISA's text: (lane, element) -> (row, column); g is groupID, t is threadID_in_group


def by_group(place):
    return lambda lane, i: place(lane // 4, lane % 4, i)


A_LAYOUTS = {
    ("m16n8k8", "16-bit"): by_group(lambda g, t, i: (g if i in (0, 1) else g + 8, 2 * t + (i & 1))),
    ("m16n8k16", "16-bit"): by_group(
        lambda g, t, i: (g if 0 <= i < 2 or 4 <= i < 6 else g + 8, 2 * t + (i & 1) + (0 if i < 4 else 8))
    ),
    ("m16n8k4", "tf32"): by_group(lambda g, t, i: (g if i == 0 else g + 8, t)),
    ("m16n8k8", "tf32"): by_group(lambda g, t, i: (g if i in (0, 2) else g + 8, t if i in (0, 1) else t + 4)),
    ("m8n8k16", "8-bit"): by_group(lambda g, t, i: (g, 4 * t + i)),
    ("m16n8k16", "8-bit"): by_group(lambda g, t, i: (g if i < 4 else g + 8, 4 * t + (i & 3))),
    ("m16n8k32", "8-bit"): by_group(
        lambda g, t, i: (g if 0 <= i < 4 or 8 <= i < 12 else g + 8, 4 * t + (i & 3) + (0 if i < 8 else 16))
    ),
}
B_LAYOUTS = {
    ("m16n8k8", "16-bit"): by_group(lambda g, t, i: (2 * t + i, g)),
    ("m16n8k16", "16-bit"): by_group(lambda g, t, i: (2 * t + (i & 1) + (0 if i < 2 else 8), g)),
    ("m16n8k4", "tf32"): by_group(lambda g, t, i: (t, g)),
    ("m16n8k8", "tf32"): by_group(lambda g, t, i: (t if i == 0 else t + 4, g)),
    ("m8n8k16", "8-bit"): by_group(lambda g, t, i: (4 * t + i, g)),
    ("m16n8k16", "8-bit"): by_group(lambda g, t, i: (4 * t + i, g)),
    ("m16n8k32", "8-bit"): by_group(lambda g, t, i: (4 * t + (i & 3) + (0 if i < 4 else 16), g)),
}
C_LAYOUTS = {
    8: by_group(lambda g, t, i: (g, 2 * t + i)),
    16: by_group(lambda g, t, i: (g if i in (0, 1) else g + 8, 2 * t + (i & 1))),
}
FAMILY = {"f16": "16-bit", "bf16": "16-bit", "tf32": "tf32", "s8": "8-bit", "u8": "8-bit"}
BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "f32": 4, "s8": 1, "u8": 1, "s32": 4}


def extents(shape):
    m, rest = shape[1:].split("n")
    return int(m), *map(int, rest.split("k"))


def raw(values, kind):
    """Elements as the bits that a register holds."""
    if kind == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    native = {"f16": np.float16, "tf32": np.float32, "f32": np.float32, "s8": np.int8, "u8": np.uint8, "s32": np.int32}
    return values.astype(native[kind]).view(f"u{BYTES[kind]}")


def pack(matrix, kind, layout):
    """Words (32, registers) of a matrix."""
    elements = matrix.size // 32
    held = np.array([[matrix[layout(lane, i)] for i in range(elements)] for lane in LANES])
    return np.ascontiguousarray(raw(held, kind)).view(np.uint32)


def unpack(words, kind, layout, shape):
    """The matrix that words (32, registers) hold."""
    native = {"f16": np.float16, "f32": np.float32, "s32": np.int32}[kind]
    held = np.ascontiguousarray(words).view(native)
    matrix = np.full(shape, np.nan)
    for lane in LANES:
        for i in range(held.shape[1]):
            matrix[layout(lane, i)] = held[lane, i]
    return matrix


def operands(first, count):
    return "{" + ", ".join(f"%{first + i}" for i in range(count)) + "}"


def kernel_of(opcode, d, a, b, c):
    """A kernel that runs one mma: lane l's registers are row l of A, B and C, and its results row l of D."""
    inputs = [f'"r"({name}[lane * {n} + {i}])' for name, n in (("A", a), ("B", b), ("C", c)) for i in range(n)]
    text = f"{opcode} {operands(0, d)}, {operands(d, a)}, {operands(d + a, b)}, {operands(d + a + b, c)};"
    outputs = ", ".join(f'"=r"(r[{i}])' for i in range(d))
    stores = " ".join(f"D[lane * {d} + {i}] = r[{i}];" for i in range(d))
    return f"""
extern "C" __global__ void product(const unsigned* A, const unsigned* B, const unsigned* C, unsigned* D) {{
    int lane = threadIdx.x;
    unsigned r[{d}];
    asm volatile("{text}" : {outputs} : {", ".join(inputs)});
    {stores}
}}
"""


def run(opcode, a, b, c, d_words, arch):
    cp.use_architecture(arch)
    d = cp.zeros((32, d_words), np.uint32)
    source = kernel_of(opcode, d_words, a.shape[1], b.shape[1], c.shape[1])
    cp.RawKernel(source, "product")((1,), (32,), (*map(cp.asarray, (a, b, c)), d))
    return cp.asnumpy(d)


def mma(shape, a_type, b_type, c_type, d_type, A, B, C, arch, extra=""):
    """D of one mma.sync whose operands are NumPy matrices."""
    family = FAMILY[a_type]
    opcode = f"mma.sync.aligned.{shape}.row.col{extra}.{d_type}.{a_type}.{b_type}.{c_type}"
    m, n, _ = extents(shape)
    words = run(
        opcode,
        pack(A, a_type, A_LAYOUTS[shape, family]),
        pack(B, b_type, B_LAYOUTS[shape, family]),
        pack(C, c_type, C_LAYOUTS[m]),
        m * n * BYTES[d_type] // 4 // 32,
        arch,
    )
    return unpack(words, d_type, C_LAYOUTS[m], (m, n))


FORMS = [
    ("m16n8k8", "f16", "f16", "f32", "sm_75"),
    ("m16n8k8", "f16", "f16", "f16", "sm_75"),
    ("m8n8k16", "s8", "s8", "s32", "sm_75"),
    ("m8n8k16", "u8", "s8", "s32", "sm_75"),
    ("m16n8k16", "f16", "f16", "f32", "sm_80"),
    ("m16n8k16", "f16", "f16", "f16", "sm_80"),
    ("m16n8k8", "bf16", "bf16", "f32", "sm_80"),
    ("m16n8k16", "bf16", "bf16", "f32", "sm_80"),
    ("m16n8k4", "tf32", "tf32", "f32", "sm_80"),
    ("m16n8k8", "tf32", "tf32", "f32", "sm_80"),
    ("m16n8k16", "s8", "u8", "s32", "sm_80"),
    ("m16n8k32", "s8", "s8", "s32", "sm_80"),
    ("m16n8k32", "u8", "u8", "s32", "sm_90"),
    ("m16n8k16", "bf16", "bf16", "f32", "sm_90"),
]


@pytest.mark.parametrize("form", FORMS, ids="-".join)
def test_every_element_of_a_and_b_stands_where_the_isa_puts_it(form):
    shape, a_type, b_type, c_type, arch = form
    m, n, k = extents(shape)
    # distinct values that every type holds exactly; the selector picks column j of A (or row j of B) into place j
    A = np.arange(m * k).reshape(m, k) % 121
    B = np.arange(k * n).reshape(k, n) % 127
    for start in range(0, k, n):
        chosen = np.zeros((k, n))
        for j in range(min(n, k - start)):
            chosen[start + j, j] = 1
        D = mma(shape, a_type, b_type, c_type, c_type, A, chosen, np.zeros((m, n)), arch)
        assert D[:, : k - start].tolist() == A[:, start : start + n].tolist()
    for start in range(0, k, m):
        chosen = np.zeros((m, k))
        for i in range(min(m, k - start)):
            chosen[i, start + i] = 1
        D = mma(shape, a_type, b_type, c_type, c_type, chosen, B, np.zeros((m, n)), arch)
        assert D[: k - start].tolist() == B[start : start + m].tolist()


@pytest.mark.parametrize("form", FORMS, ids="-".join)
def test_a_product_of_small_integers_is_exact(form):
    shape, a_type, b_type, c_type, arch = form
    m, n, k = extents(shape)
    low = 0 if "u8" in (a_type, b_type) else -4
    A, B, C = (RNG.integers(low, 5, s) for s in ((m, k), (k, n), (m, n)))
    D = mma(shape, a_type, b_type, c_type, c_type, A, B, C, arch)
    assert D.tolist() == (A @ B + C).tolist()


def test_accumulators_of_f16_and_f32_may_differ_in_type():
    A, B = RNG.integers(-3, 4, (16, 16)), RNG.integers(-3, 4, (16, 8))
    C = RNG.integers(-100, 100, (16, 8))
    D = mma("m16n8k8", "f16", "f16", "f16", "f16", A[:, :8], B[:8], C, "sm_80")
    assert D.tolist() == (A[:, :8] @ B[:8] + C).tolist()
    D = mma("m16n8k16", "f16", "f16", "f32", "f32", A, B, C + 0.5, "sm_80")
    assert D.tolist() == (A @ B + C + 0.5).tolist()


@pytest.mark.parametrize("kind", ["f16", "bf16", "tf32"])
def test_a_product_of_reals_is_within_one_rounding_of_float64(kind):
    shape = "m16n8k8"
    A, B, C = RNG.uniform(-1, 1, (16, 8)), RNG.uniform(-1, 1, (8, 8)), RNG.uniform(-1, 1, (16, 8))
    kept = {"f16": 10, "bf16": 7, "tf32": 10}[kind]
    # whole multiples of 2^-kept below 1 are exact in the type
    A, B, C = (np.trunc(x * 2**kept) / 2**kept for x in (A, B, C))
    D = mma(shape, kind, kind, "f32", "f32", A, B, C, "sm_80")
    exact = A @ B + C
    assert (np.abs(D - exact) <= 2.0**-24 * np.abs(exact)).all()


def test_tf32_ignores_the_lower_13_bits_of_its_operands():
    A, B, C = np.zeros((16, 8)), np.zeros((8, 8)), np.zeros((16, 8))
    A[0, 0], B[0, 0] = 1 + 2.0**-11, 3.0
    assert mma("m16n8k8", "tf32", "tf32", "f32", "f32", A, B, C, "sm_80")[0, 0] == 3.0
    A[0, 0] = 1 + 2.0**-10
    assert mma("m16n8k8", "tf32", "tf32", "f32", "f32", A, B, C, "sm_80")[0, 0] == 3.0 + 3 * 2.0**-10


def test_f16_results_that_are_too_large_are_infinite_and_nan_stays_nan():
    A, B, C = np.zeros((16, 16)), np.zeros((16, 8)), np.zeros((16, 8))
    A[0, 0], B[0, 0] = 60000.0, 2.0
    A[1, 0], B[0, 1] = np.inf, 0.0
    D = mma("m16n8k16", "f16", "f16", "f16", "f16", A, B, C, "sm_80")
    assert D[0, 0] == np.inf and np.isnan(D[1, 1]) and D[2, 2] == 0


def test_integers_wrap_unless_satfinite_clamps_them():
    A, B = np.full((16, 16), 100), np.full((16, 8), 100)
    C = np.full((16, 8), 2**31 - 1)
    wrapped = mma("m16n8k16", "s8", "s8", "s32", "s32", A, B, C, "sm_80")
    assert (wrapped == 2**31 - 1 + 160000 - 2**32).all()
    clamped = mma("m16n8k16", "s8", "s8", "s32", "s32", A, B, C, "sm_80", ".satfinite")
    assert (clamped == 2**31 - 1).all()
    lowest = mma("m16n8k16", "s8", "s8", "s32", "s32", -A, B, -C, "sm_80", ".satfinite")
    assert (lowest == -(2**31)).all()


# ---- mma.m8n8k4: four products at once, q of lanes 4q to 4q + 3 and 16 above them


def quad_lanes(q):
    return [4 * q + i for i in range(4)] + [16 + 4 * q + i for i in range(4)]


def quad_place(operand, order, kind):
    """(lane, i) -> (row, column) as the ISA writes it for .f16."""
    if operand == "a" and order == "row":
        return lambda lane, i: (lane % 4 if lane < 16 else lane % 4 + 4, i)
    if operand == "a":
        return lambda lane, i: (i % 4 if lane < 16 else i % 4 + 4, lane % 4)
    if operand == "b" and order == "row":
        return lambda lane, i: (lane % 4, i if lane < 16 else i + 4)
    if operand == "b":
        return lambda lane, i: (i, lane % 4 if lane < 16 else lane % 4 + 4)
    if kind == "f16":
        return lambda lane, i: (lane % 4 if lane < 16 else lane % 4 + 4, i)
    return lambda lane, i: (
        (lane & 0b1) + (i & 0b10) + (0 if lane < 16 else 4),
        (i & 0b100) + (lane & 0b10) + (i & 0b1),
    )


@pytest.mark.parametrize("orders", [("row", "col"), ("col", "row"), ("row", "row"), ("col", "col")], ids="-".join)
@pytest.mark.parametrize("accumulator", ["f16", "f32"])
def test_m8n8k4_takes_four_products_in_either_order(orders, accumulator):
    A, B, C = RNG.integers(-4, 5, (4, 8, 4)), RNG.integers(-4, 5, (4, 4, 8)), RNG.integers(-9, 10, (4, 8, 8))

    def spread(matrices, operand, order, kind):
        place = quad_place(operand, order, kind)
        count = {"a": 4, "b": 4, "c": 8}[operand]
        held = np.zeros((32, count))
        for q in range(4):
            for lane in quad_lanes(q):
                held[lane] = [matrices[q][place(lane, i)] for i in range(count)]
        return np.ascontiguousarray(raw(held, kind)).view(np.uint32)

    words = run(
        f"mma.sync.aligned.m8n8k4.{orders[0]}.{orders[1]}.{accumulator}.f16.f16.{accumulator}",
        spread(A, "a", orders[0], "f16"),
        spread(B, "b", orders[1], "f16"),
        spread(C, "c", None, accumulator),
        8 * BYTES[accumulator] // 4,
        "sm_75",
    )
    held = words.view({"f16": np.float16, "f32": np.float32}[accumulator])
    place = quad_place("c", None, accumulator)
    for q in range(4):
        want = A[q] @ B[q] + C[q]
        assert all(held[lane, i] == want[place(lane, i)] for lane in quad_lanes(q) for i in range(8))


# ---- ldmatrix, stmatrix, movmatrix


def matrix_kernel(count, trans, store):
    """Rows of 16 bytes go to shared memory at `offsets` and ldmatrix takes them to registers; stmatrix goes back."""
    registers = operands(0, count) if not store else operands(1, count)
    if store:
        inputs = ", ".join(f'"r"(r[{i}])' for i in range(count))
        body = f"""
    for (int i = 0; i < {count}; ++i) r[i] = out[lane * {count} + i];
    asm volatile("stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%0], {registers};"
                 :: "r"(where), {inputs} : "memory");
    __syncwarp();
    if (lane < 8 * {count})
        for (int i = 0; i < 4; ++i) rows[lane * 4 + i] = *(unsigned*)(pool + offsets[lane] + 4 * i);"""
    else:
        outputs = ", ".join(f'"=r"(r[{i}])' for i in range(count))
        body = f"""
    if (lane < 8 * {count})
        for (int i = 0; i < 4; ++i) *(unsigned*)(pool + offsets[lane] + 4 * i) = rows[lane * 4 + i];
    __syncwarp();
    asm volatile("ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {registers}, [%{count}];"
                 : {outputs} : "r"(where) : "memory");
    for (int i = 0; i < {count}; ++i) out[lane * {count} + i] = r[i];"""
    return f"""
extern "C" __global__ void move(const int* offsets, unsigned* rows, unsigned* out) {{
    __shared__ __align__(16) char pool[2048];
    int lane = threadIdx.x % 32;
    unsigned r[{count}];
    unsigned where = (unsigned)__cvta_generic_to_shared(pool) + offsets[lane];{body}
}}
"""


@pytest.mark.parametrize("trans", ["", ".trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
def test_ldmatrix_gives_each_lane_two_neighbours_of_a_row_or_of_a_column(count, trans, arch):
    cp.use_architecture(arch)
    rows = np.arange(8 * count * 8, dtype=np.uint16).reshape(8 * count, 8)
    offsets = (32 * RNG.permutation(32)).astype(np.int32)
    given = np.zeros((32, 4), np.uint32)
    given[: 8 * count] = rows.view(np.uint32)
    out = cp.zeros((32, count), np.uint32)
    kernel = cp.RawKernel(matrix_kernel(count, trans, store=False), "move")
    kernel((1,), (32,), (cp.asarray(offsets), cp.asarray(given), out))
    held = cp.asnumpy(out).view(np.uint16).reshape(32, count, 2)
    for lane in LANES:
        for m in range(count):
            block = rows[8 * m : 8 * m + 8]
            want = (block.T if trans else block)[lane // 4, 2 * (lane % 4) : 2 * (lane % 4) + 2]
            assert held[lane, m].tolist() == want.tolist()


@pytest.mark.parametrize("trans", ["", ".trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_stmatrix_undoes_ldmatrix(count, trans):
    cp.use_architecture("sm_90")
    rows = np.arange(8 * count * 8, dtype=np.uint16).reshape(8 * count, 8)
    held = np.zeros((32, count, 2), np.uint16)
    for lane in LANES:
        for m in range(count):
            block = rows[8 * m : 8 * m + 8]
            held[lane, m] = (block.T if trans else block)[lane // 4, 2 * (lane % 4) : 2 * (lane % 4) + 2]
    offsets = (32 * RNG.permutation(32)).astype(np.int32)
    stored = cp.zeros((32, 4), np.uint32)
    registers = cp.asarray(held.reshape(32, -1).view(np.uint32))
    kernel = cp.RawKernel(matrix_kernel(count, trans, store=True), "move")
    kernel((1,), (32,), (cp.asarray(offsets), stored, registers))
    assert cp.asnumpy(stored)[: 8 * count].tolist() == rows.view(np.uint32).tolist()


def test_movmatrix_transposes():
    source = """
extern "C" __global__ void turn(unsigned* words) {
    unsigned r = words[threadIdx.x];
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(r));
    words[threadIdx.x] = r;
}
"""
    rows = np.arange(64, dtype=np.uint16).reshape(8, 8)
    words = cp.asarray(rows.view(np.uint32).reshape(-1))
    cp.RawKernel(source, "turn")((1,), (32,), (words,))
    assert cp.asnumpy(words).view(np.uint16).reshape(8, 8).tolist() == rows.T.tolist()


LINE_OF_MMA = 6
WHOLE_WARP = """
extern "C" __global__ void guarded(int first, int last, unsigned* out) {{
    unsigned a = 0, b = 0, r = 0;
    int x = threadIdx.x;
    if (x >= first && x < last)
        asm volatile("{instruction}" : "+r"(a), "+r"(b) : "r"(r));
    out[x] = a + b;
}}
""".format(instruction="mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%2}, {%0, %1};")


@pytest.mark.parametrize(("block", "first", "last"), [(64, 0, 48), (64, 5, 64), (40, 0, 40), (8, 0, 8)])
def test_part_of_a_warp_cannot_run_mma(block, first, last):
    kernel = cp.RawKernel(WHOLE_WARP, "guarded")
    arguments = (np.int32(first), np.int32(last), cp.zeros(64, np.uint32))
    with pytest.raises(cp.KernelFault, match=rf"line {LINE_OF_MMA}: mma needs all 32 lanes") as caught:
        kernel((1,), (block,), arguments)
    assert caught.value.hazard.line == LINE_OF_MMA
    trace = cp.trace(kernel, (1,), (block,), arguments)
    assert [h.line for h in trace.hazards if h.kind == "divergent-barrier"] == [LINE_OF_MMA]


def test_a_whole_warp_may_run_mma_while_others_do_not():
    out = cp.zeros(96, np.uint32)
    cp.RawKernel(WHOLE_WARP, "guarded")((2,), (96,), (np.int32(32), np.int32(64), out))
    assert cp.asnumpy(out).tolist() == [0] * 96


LANES_WAIT_AT_MMA = """
extern "C" __global__ void tiles(unsigned* tickets, int* out) {
    int c0 = 0, c1 = 0;
    for (int tile = 0; tile < 60; ++tile) {
        unsigned a = 0x01010101u, ticket = atomicAdd(&tickets[threadIdx.x], 1);
        for (unsigned i = 0; i < (ticket + threadIdx.x) % 5; ++i)
            if (tickets[(threadIdx.x + i) % 64] == 0xffffffffu) a = 2;
        asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%2}, {%0, %1};"
                     : "+r"(c0), "+r"(c1) : "r"(a));
    }
    out[2 * threadIdx.x] = c0;
    out[2 * threadIdx.x + 1] = c1;
}
"""


def test_lanes_wait_at_mma_for_those_of_their_warp_that_still_loop():
    # many atomics make the machine give every lane a turn, so that some come to the mma first
    out = cp.zeros(128, np.int32)
    cp.RawKernel(LANES_WAIT_AT_MMA, "tiles")((1,), (64,), (cp.zeros(64, np.uint32), out))
    assert cp.asnumpy(out).tolist() == [60 * 16] * 128


MMA_OR_BARRIER = """
extern "C" __global__ void apart(unsigned* out) {
    unsigned a = 0, b = 0, r = 0;
    if (threadIdx.x < 16)
        asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%2}, {%0, %1};"
                     : "+r"(a), "+r"(b) : "r"(r));
    else
        __syncthreads();
    out[threadIdx.x] = a + b;
}
"""


def test_half_a_warp_at_mma_and_half_at_a_barrier_wait_for_ever():
    kernel = cp.RawKernel(MMA_OR_BARRIER, "apart")
    with pytest.raises(cp.KernelFault, match=r"waits for ever in mma\.sync\S* for lanes of its warp") as caught:
        kernel((1,), (32,), (cp.zeros(32, np.uint32),))
    assert caught.value.hazard.line == 5
    assert "of a matrix instruction all 32" in str(caught.value)


def refused(instruction, arch="sm_90"):
    cp.use_architecture(arch)
    source = f"""
extern "C" __global__ void refused(unsigned* out) {{
    unsigned d = 0;
    double x = out[0];
    asm volatile("{instruction}" : "+r"(d), "+d"(x) : "r"(d));
    out[0] = d + (unsigned)x;
}}
"""
    return cp.RawKernel(source, "refused")


@pytest.mark.parametrize(
    "instruction",
    [
        "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%0,%0,%0}, {%2,%2}, {%2,%2}, {%0,%0,%0,%0}, %2, 0;",
        "wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.s4.s32 {%0,%0}, {%2}, {%2}, {%0,%0};",
        "wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32 {%0,%0}, {%2}, {%2}, {%0,%0};",
    ],
)
def test_a_form_that_is_not_emulated_is_refused_with_its_name_and_line(instruction):
    with pytest.raises(cp.UnsupportedInstruction) as caught:
        refused(instruction).compile()
    assert str(caught.value).startswith(f"line 5: {instruction.split()[0]}")


@pytest.mark.parametrize(
    ("instruction", "arch", "reason"),
    [
        (
            "mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32 {%0,%0,%0,%0}, {%2,%2,%2,%2}, {%2,%2}, {%0,%0,%0,%0};",
            "sm_90",
            "Illegal blayout",
        ),
        (
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%0,%0,%0}, {%2,%2,%2,%2}, {%2,%2}, {%0,%0,%0,%0};",
            "sm_75",
            "requires .target sm_80 or higher",
        ),
        ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%2};", "sm_80", "requires .target sm_90 or higher"),
    ],
)
def test_what_the_assembler_refuses_is_refused_in_its_words_and_at_the_learners_line(instruction, arch, reason):
    with pytest.raises(cp.CompileError) as caught:
        refused(instruction, arch).compile()
    assert reason in str(caught.value) and "(5)" in str(caught.value)


# ---- wmma


def wmma_kernel(shape, a_type, c_type, orders, counts, body=""):
    """D = A @ B + C of one warp, each loaded and stored by wmma with a leading dimension of its own."""
    a, b, c = counts
    d_order = orders[2]
    mma_types = f"{c_type}.{c_type}" if a_type == "f16" else f"{c_type}.{a_type}.{a_type}.{c_type}"

    def load(name, count, order, kind, pointer, stride):
        outputs = ", ".join(f'"=r"({name}[{i}])' for i in range(count))
        return (
            f'asm volatile("wmma.load.{name}.sync.aligned.{order}.{shape}.{kind} {operands(0, count)}, [%{count}], '
            f'%{count + 1};" : {outputs} : "l"({pointer}), "r"({stride}) : "memory");'
        )

    outputs = ", ".join(f'"+r"(c[{i}])' for i in range(c))
    inputs = ", ".join([*(f'"r"(a[{i}])' for i in range(a)), *(f'"r"(b[{i}])' for i in range(b))])
    held = operands(0, c)
    return f"""
extern "C" __global__ void product(const void* A, const void* B, const void* C, void* D, int lda, int ldb, int ldc) {{
    unsigned a[{a}], b[{b}], c[{c}];
    {load("a", a, orders[0], a_type, "A", "lda")}
    {load("b", b, orders[1], a_type, "B", "ldb")}
    {load("c", c, d_order, c_type, "C", "ldc")}
    asm volatile("wmma.mma.sync.aligned.{orders[0]}.{orders[1]}.{shape}.{mma_types} {held}, {operands(c, a)}, "
        "{operands(c + a, b)}, {held};" : {outputs} : {inputs});
    {body}
    asm volatile("wmma.store.d.sync.aligned.{d_order}.{shape}.{c_type} [%0], {operands(1, c)}, %{c + 1};"
        :: "l"(D), {", ".join(f'"r"(c[{i}])' for i in range(c))}, "r"(ldc) : "memory");
}}
"""


WMMA = [
    (shape, a_type, c_type, arch)
    for a_type, c_type, arch in [("f16", "f32", "sm_75"), ("f16", "f16", "sm_75"), ("bf16", "f32", "sm_80")]
    for shape in ("m16n16k16", "m32n8k16", "m8n32k16")
] + [
    ("m16n16k8", "tf32", "f32", "sm_80"),
    ("m16n16k16", "s8", "s32", "sm_75"),
    ("m32n8k16", "u8", "s32", "sm_80"),
    ("m8n32k16", "s8", "s32", "sm_90"),
]


def wmma_counts(shape, a_type, c_type):
    """Registers of A, B and C (PTX ISA, "Matrix Fragments for WMMA")."""
    m, n, k = extents(shape)
    accumulators = 4 if c_type == "f16" else 8
    if a_type == "f16":
        return 8, 8, accumulators
    return m * k * BYTES[a_type] // 128, k * n * BYTES[a_type] // 128, accumulators


def stored(matrix, kind, order, padding):
    """Bytes of a matrix in memory and its leading dimension."""
    lines = matrix if order == "row" else matrix.T
    wide = np.zeros((lines.shape[0], lines.shape[1] + padding))
    wide[:, : lines.shape[1]] = lines
    return raw(wide, kind), wide.shape[1]


@pytest.mark.parametrize("orders", [("row", "col", "row"), ("col", "row", "col"), ("row", "row", "row")], ids="-".join)
@pytest.mark.parametrize("form", WMMA, ids="-".join)
def test_wmma_multiplies_in_every_shape_and_order(form, orders):
    shape, a_type, c_type, arch = form
    cp.use_architecture(arch)
    m, n, k = extents(shape)
    low = 0 if a_type == "u8" else -4
    A, B, C = (RNG.integers(low, 5, s) for s in ((m, k), (k, n), (m, n)))
    padding = 16 // BYTES[a_type]
    (a, lda), (b, ldb) = stored(A, a_type, orders[0], padding), stored(B, a_type, orders[1], padding)
    c, ldc = stored(C, c_type, orders[2], 16 // BYTES[c_type])
    d = cp.zeros(c.shape, c.dtype)
    kernel = cp.RawKernel(wmma_kernel(shape, a_type, c_type, orders, wmma_counts(shape, a_type, c_type)), "product")
    arguments = (cp.asarray(a), cp.asarray(b), cp.asarray(c), d, *(np.int32(x) for x in (lda, ldb, ldc)))
    kernel((1,), (32,), arguments)
    native = {"f16": np.float16, "f32": np.float32, "s32": np.int32}[c_type]
    found = cp.asnumpy(d).view(native)
    found = found[:, : n if orders[2] == "row" else m]
    assert (found if orders[2] == "row" else found.T).tolist() == (A @ B + C).tolist()


def test_an_operation_on_every_element_of_a_fragment_reaches_every_element_of_the_matrix():
    scale = "for (int i = 0; i < 8; ++i) c[i] = __float_as_uint(2.0f * __uint_as_float(c[i]));"
    A, B, C = RNG.integers(-4, 5, (16, 16)), RNG.integers(-4, 5, (16, 16)), RNG.integers(-4, 5, (16, 16))
    orders = ("row", "row", "row")
    kernel = cp.RawKernel(wmma_kernel("m16n16k16", "f16", "f32", orders, (8, 8, 8), scale), "product")
    d = cp.zeros((16, 16), np.uint32)
    arguments = [cp.asarray(raw(x, kind)) for x, kind in ((A, "f16"), (B, "f16"), (C, "f32"))]
    kernel((1,), (32,), (*arguments, d, *[np.int32(16)] * 3))
    assert cp.asnumpy(d).view(np.float32).tolist() == (2 * (A @ B + C)).tolist()


def test_wmma_moves_each_byte_of_a_matrix_once():
    kernel = cp.RawKernel(wmma_kernel("m16n16k16", "f16", "f32", ("row", "row", "row"), (8, 8, 8)), "product")
    half, single = cp.zeros((16, 16), np.uint16), cp.zeros((16, 16), np.uint32)
    trace = cp.trace(kernel, (1,), (32,), (half, half.copy(), single, single.copy(), *[np.int32(16)] * 3))
    # 16 rows of 32 bytes lie end to end: 512 bytes for A and B, 1024 for C and D
    assert sorted(a.sectors for a in trace.accesses if a.op == "ld.global") == [16, 16, 32]
    assert [a.sectors for a in trace.accesses if a.op == "st.global"] == [32]


# ---- a whole product, as a tensor-core kernel is written: tiles in shared memory, ldmatrix, mma

GEMM = """
extern "C" __global__ void gemm(int M, int N, int K, const unsigned short* A, const unsigned short* B, float* C) {
    // a warp makes 16 x 8 of C from bf16; the block's two warps stand side by side
    __shared__ __align__(16) unsigned short As[16][24], Bs[2][16][8];
    int lane = threadIdx.x, warp = threadIdx.y, row0 = blockIdx.y * 16, col0 = (blockIdx.x * 2 + warp) * 8;
    float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int k0 = 0; k0 < K; k0 += 16) {
        for (int i = warp * 32 + lane; i < 256; i += 64)
            As[i / 16][i % 16] = A[(row0 + i / 16) * K + k0 + i % 16];
        for (int i = lane; i < 128; i += 32)
            Bs[warp][i / 8][i % 8] = B[(k0 + i / 8) * N + col0 + i % 8];
        __syncthreads();
        unsigned a[4], b[2];
        unsigned from = (unsigned)__cvta_generic_to_shared(&As[lane % 16][8 * (lane / 16)]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(from));
        from = (unsigned)__cvta_generic_to_shared(&Bs[warp][lane % 16][0]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                     : "=r"(b[0]), "=r"(b[1]) : "r"(from));
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                     "{%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
        __syncthreads();
    }
    float* out = C + (row0 + lane / 4) * N + col0 + 2 * (lane % 4);
    *(float2*)out = make_float2(c[0], c[1]);
    *(float2*)(out + 8 * N) = make_float2(c[2], c[3]);
}
"""


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_a_tensor_core_gemm_equals_float64_on_integers(arch):
    cp.use_architecture(arch)
    M, N, K = 48, 64, 80
    A, B = RNG.integers(-8, 9, (M, K)), RNG.integers(-8, 9, (K, N))
    C = cp.empty((M, N), np.float32)
    arguments = (*map(np.int32, (M, N, K)), cp.asarray(raw(A, "bf16")), cp.asarray(raw(B, "bf16")), C)
    trace = cp.trace(cp.RawKernel(GEMM, "gemm"), (N // 16, M // 16), (32, 2), arguments)
    assert cp.asnumpy(C).tolist() == (A @ B).astype(np.float32).tolist()
    x4, x2 = (next(a for a in trace.accesses if a.op == f"ldmatrix.{n}") for n in ("x4", "x2"))
    # rows of As are 48 bytes apart, so 8 of them fall on distinct banks: 4 passes; Bs lies end to end: 2 passes
    steps = (M // 16) * (N // 8) * (K // 16)
    assert (x4.requests, x4.wavefronts, x4.ideal) == (steps, 4 * steps, 4 * steps)
    assert (x2.requests, x2.wavefronts, x2.ideal) == (steps, 2 * steps, 2 * steps)
