import re

import numpy as np
import pytest

from gemmlab import emulator, ladder, launch
from gemmlab.gemm import Gemm, inputs
from gemmlab.ladder import arguments, rung
from gemmlab.tolerance import SENTINEL

NAIVE = rung("naive")


def edited(old: str, new: str) -> launch.Kernel:
    source = NAIVE.source()
    assert old in source
    return launch.of(NAIVE, source=source.replace(old, new))


def test_a_rungs_kernel_has_the_tile_in_its_options_and_in_its_launch():
    kernel = launch.of(NAIVE, {"BX": 16, "BY": 8})
    assert kernel.options == ("-DBX=16", "-DBY=8")
    assert kernel.geometry(Gemm(33, 17, 5)) == ((3, 3, 1), (16, 8, 1), 0)


@pytest.mark.parametrize("number", range(7))
def test_equal_rungs_tiles_and_sources_make_equal_kernels_which_a_cache_may_hold(number):
    each = rung(number)
    first, again = launch.of(each), launch.of(each, dict(each.tile))
    assert first == again and len({first, again}) == 1
    assert first not in {launch.of(each, source="// mine"), launch.of(rung((number + 1) % 7))}


def test_another_tile_makes_another_kernel():
    assert launch.of(NAIVE) != launch.of(NAIVE, {"BX": 16}) == launch.of(NAIVE, {"BX": 16})


def test_a_launch_is_submitted_as_often_as_it_is_called_and_traced_where_it_lies():
    problem = Gemm(2, 3, 4, beta=1.0)
    A, B, C = inputs(problem, "ones")
    submit = launch.submission(launch.of(NAIVE), problem, (A, B, C))
    for times in (1, 2):
        submit()
        assert emulator.asnumpy(submit.C).tolist() == [[1.0 + 4 * times] * 3] * 2  # C of ones, and K = 4 each time
    assert submit.trace().ok
    assert emulator.asnumpy(submit.C).tolist() == [[13.0] * 3] * 2


def test_one_request_of_a_launch_is_that_of_the_line_and_array_asked_for():
    source = NAIVE.source()
    line = source[: source.index("A[row * K + k]")].count("\n") + 1
    submit = launch.submission(launch.of(NAIVE), Gemm(32, 32, 8), inputs(Gemm(32, 32, 8)))
    # Row 0 of the block: 32 rows of A, each in a sector of its own.
    assert submit.request(line, array="A").count == 32
    with pytest.raises(ValueError):
        submit.request(1)


def test_a_launch_that_is_watched_stops_at_the_first_hazard():
    unguarded = edited("row >= M || col >= N", "false")
    submit = launch.submission(unguarded, Gemm(33, 33, 8), inputs(Gemm(33, 33, 8)))
    with pytest.raises(emulator.KernelFault, match="guard the access"):
        submit.watch()


def test_an_edited_source_is_launched_as_it_is():
    assert launch.of(NAIVE, source="// mine").source == "// mine"


TILES = rung("shared_tiles")
GUARDED = "#ifndef TILE\n#define TILE 32\n#endif"


def tiles(definition: str, tile: int = 32) -> launch.Kernel:
    source = TILES.source()
    assert GUARDED in source
    return launch.of(TILES, {"TILE": tile}, source.replace(GUARDED, definition))


@pytest.mark.parametrize(
    "definition",
    [
        "#define TILE 16",
        "#undef TILE\n  # define TILE (16)  // mine",
        "#ifdef TILE\n#define TILE 16\n#endif",
        "%:define TILE\t16",
        "/* mine */ #define/**/TILE/**/16",
        "#if 0\n#else\n#define TILE 16\n#endif",
        "#ifndef TILE\n#elif !defined(TILE) || 1\n#define TILE 16\n#endif",
        "#define N16 16\n#if N16 == 16\n#define TILE N16\n#endif",
        # What looks like the beginning of a comment is in a string, or in a comment of its own.
        '__device__ const char* a = "/*";\n#define TILE 16\n__device__ const char* z = "*/";',
        "// /*\n#define TILE 16\n// */",
    ],
)
def test_a_source_that_defines_its_tile_against_the_options_is_refused_with_line_and_both_numbers(definition):
    lines = f"{TILES.source().partition(GUARDED)[0]}{definition}".splitlines()
    line = next(number for number, text in enumerate(lines, 1) if re.search(r"define\W+TILE", text))
    with pytest.raises(
        ValueError, match=rf"line {line} of the source, '#define TILE .*16.*overrides the option -DTILE=32"
    ):
        tiles(definition)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        # Two lines that a backslash joins; the first of them is named.
        (TILES.source().replace(GUARDED, "#define \\\nTILE 16"), "line 11 of the source, '#define TILE 16', overrides"),
        (TILES.source().replace(GUARDED, f"#undef TILE\n{GUARDED.replace('32', '16')}"), "line 13 .*'#define TILE 16'"),
        (
            TILES.source().replace(GUARDED, "#undef TILE\nconstexpr int TILE = 16;"),
            "line 11 .*'#undef TILE', takes away",
        ),
        (TILES.source().replace("    const int tx", "#undef TILE\n#define TILE 16\n    const int tx"), "line 22 of"),
    ],
)
def test_a_tile_of_ones_own_is_found_wherever_it_stands(source, said):
    assert source != TILES.source()
    with pytest.raises(ValueError, match=said):
        launch.of(TILES, source=source)


@pytest.mark.parametrize("behind", ["#undef TILE", "#undef TILE\n#define TILE 16\n__global__ void other() {}"])
def test_what_is_defined_behind_the_kernel_is_not_its_tile(behind):
    for definition in ("", GUARDED):
        source = TILES.source().replace(GUARDED, definition)
        (check,) = launch.check(launch.of(TILES, source=f"{source}\n{behind}"), [Gemm(33, 7, 20)], ["distinct"])
        assert check.verdict.correct


def test_text_that_is_no_cuda_is_searched_for_a_tile_in_no_time():
    for text in ("x" * 10**6, "/*" * 10**5, 'R"(' * 10**5, "\\\n" * 10**5, "gemm_shared_tiles(" * 10**4, "{" * 10**5):
        assert launch.of(TILES, source=f"#define TILE 32\n{text}").source.endswith(text)


@pytest.mark.parametrize(
    "definition",
    [
        GUARDED,
        GUARDED.replace("32", "16"),
        "#if !defined(TILE)\n#define TILE 16\n#endif",
        "#define TILE 32",
        "/* as before:\n#define TILE 16\n*/ #define WIDTH 7",
        "// #define TILE 16",
        "// \\\n#define TILE 16",
        "#define TILES 16",
        "#define TILE (8 * 0x4u)",
        "#undef TILE\n#define TILE (HALF + HALF)\n#define HALF 16",
        "#if 0\n#define TILE 16\n#endif",
        "#if 1\n#else\n#define TILE 16\n#endif",
        "#ifdef TILE\n#else\n#define TILE 16\n#endif",
        "#if TILE != 32\n#define TILE 16\n#endif",
        "#if __CUDA_ARCH__ < 700\n#define TILE 16\n#endif",
        '__device__ const char* text = R"(\n#define TILE 16\n)";',
        "#if 0\n#define TILE 16\n#endif",
    ],
)
def test_a_source_whose_tile_is_that_of_the_options_or_gives_way_to_them_is_launched(definition):
    problem = Gemm(33, 7, 20)
    (check,) = launch.check(tiles(definition), [problem], ["distinct"])
    assert check.verdict.correct


def test_a_tile_that_no_gpu_launches_is_refused():
    with pytest.raises(ValueError, match="2048 threads, but a GPU takes at most 1024"):
        launch.of(NAIVE, {"BX": 64, "BY": 32})


@pytest.mark.parametrize(
    "given", [((2, 3), (8, 8), 0), ((2, 3, 1), (8, 8, 1), 0), ((np.int64(2), np.int32(3)), (8, 8), np.int64(0))]
)
def test_a_launch_in_fewer_extents_or_numpys_integers_is_completed_to_three_ints(given):
    found = launch.geometry(launch.Kernel("", "mine", (), lambda problem: given), Gemm(24, 16, 1))
    assert found == ladder.Geometry((2, 3, 1), (8, 8, 1), 0)
    assert {type(extent) for extent in (*found.grid, *found.block, found.shared_mem)} == {int}


@pytest.mark.parametrize(
    "given", [None, ((1, 1, 1), (8, 8, 1)), ((0.5, 1, 1), (8, 8, 1), 0), ((1,) * 4, (8,), 0), (1, 8, 0)]
)
def test_a_launch_that_is_none_is_refused_with_what_was_given_and_where(given):
    with pytest.raises(TypeError, match=r"of mine at M=24, N=16, K=1 is .*, but must be Geometry\(grid, block"):
        launch.geometry(launch.Kernel("", "mine", (), lambda problem: given), Gemm(24, 16, 1))


def test_a_run_returns_the_product():
    A = np.array([[1, 2], [3, 4]], np.float32)
    B = np.array([[5], [6]], np.float32)
    result = launch.run(launch.of(NAIVE), Gemm(2, 1, 2), (A, B, np.zeros((2, 1), np.float32)))
    assert result.tolist() == [[17], [39]]


def test_what_a_kernel_does_not_write_stays_the_sentinel():
    problem = Gemm(2, 2, 1)
    result = launch.run(edited("C[row * N + col] = value;", "if (row == 0) C[col] = value;"), problem, inputs(problem))
    assert (result.view(np.uint32) == SENTINEL.view(np.uint32)).tolist() == [[False, False], [True, True]]


def test_with_beta_the_kernel_starts_from_C():
    problem = Gemm(1, 1, 1, alpha=2.0, beta=-1.0)
    one, three = np.ones((1, 1), np.float32), np.full((1, 1), 3, np.float32)
    assert launch.run(launch.of(NAIVE), problem, (one, three, one.copy())).item() == 2 * 1 * 3 - 1


def test_checks_cover_every_problem_with_every_family():
    checks = launch.check(launch.of(NAIVE), [Gemm(1, 2, 3), Gemm(3, 2, 1)], ["ones", "uniform"])
    assert [(each.problem.M, each.family) for each in checks] == [
        (1, "ones"),
        (1, "uniform"),
        (3, "ones"),
        (3, "uniform"),
    ]
    assert launch.require(checks) == checks


def test_the_first_wrong_result_is_named_with_its_shape_inputs_and_place():
    late = edited("sum = fmaf(a, b, sum);", "sum = fmaf(a, b, sum) + (row == 1 ? 1.0f : 0.0f);")
    with pytest.raises(
        AssertionError, match=r"1 of 2 results are wrong. M=2, N=1, K=3, inputs ones:\n.*\nworst at row 1"
    ):
        launch.require(launch.check(late, [Gemm(1, 1, 3), Gemm(2, 1, 3)], ["ones"]))


def test_a_table_of_checks_has_a_line_a_problem_with_its_worst_family():
    doubled = edited("float value = alpha * sum;", "float value = 2 * alpha * sum;")
    header, *lines = launch.check_table(
        launch.check(doubled, [Gemm(1, 1, 4), Gemm(2, 3, 4)], ["zeros", "ones"])
    ).splitlines()
    assert "worst error / bound" in header
    assert [line.split()[-3:] for line in lines] == [["M=1,", "N=1,", "K=4"], ["M=2,", "N=3,", "K=4"]]
    assert all("ones" in line for line in lines)  # with zeros, twice the result is the result


def test_a_trace_runs_on_the_emulator_and_counts_by_line():
    traced = launch.trace(launch.of(NAIVE), Gemm(32, 32, 8))
    assert isinstance(traced, emulator.Trace) and traced.ok
    # 32 warps make 8 steps: each asks 32 rows of A for a sector, and B for one; then 32 sectors of C.
    assert [(each.requests, each.sectors) for each in traced.accesses] == [(256, 8192), (256, 256), (32, 1024)]


def test_the_table_of_a_trace_shows_each_line_of_the_source_with_its_sectors():
    traced = launch.trace(launch.of(NAIVE), Gemm(32, 32, 8))
    header, a, b, c = launch.traffic_table(traced, NAIVE.source()).splitlines()
    assert header.split() == ["line", "access", "requests", "sectors", "a", "request", "bytes", "moved", "source"]
    assert a.endswith("const float a = A[row * K + k];") and "32.000" in a and "262,144" in a
    assert b.endswith("const float b = B[k * N + col];") and "1.000" in b
    assert c.endswith("C[row * N + col] = value;") and "st.global" in c


def test_the_table_of_a_trace_knows_the_numbers_that_a_source_gives_its_lines():
    renumbered = launch.of(NAIVE, source=f"#line 5000\n{NAIVE.source()}")
    line = 1 + next(i for i, text in enumerate(NAIVE.source().splitlines()) if "a = A[" in text)
    table = launch.traffic_table(launch.trace(renumbered, Gemm(32, 32, 8)), renumbered.source).splitlines()
    assert table[1].startswith(f"{4999 + line} ") and table[1].endswith("const float a = A[row * K + k];")


def test_the_table_of_a_trace_ends_with_what_went_wrong():
    unguarded = edited("row >= M || col >= N", "false")
    assert "thread" in launch.traffic_table(launch.trace(unguarded, Gemm(33, 33, 8)), unguarded.source).splitlines()[-1]


# Bad input: each is refused with what to do, and the next launch runs as if nothing had been.

BAD = {
    "a list": (lambda A, B, C: ([[0.0] * 4] * 4, B, C), TypeError, r"A is a list, but must be an array: pass asarray"),
    "float64": (
        lambda A, B, C: (A, B.astype(np.float64), C),
        TypeError,
        r"B has dtype float64, but kernels read float32: pass B.astype\(np.float32\)",
    ),
    "another shape": (lambda A, B, C: (A[:2], B, C), ValueError, r"A has shape \(2, 4\), but must be \(4, 4\)"),
    "a transpose": (
        lambda A, B, C: (A.T, B, C),
        ValueError,
        r"A has strides \(4, 16\), but must be row-major and contiguous .*: pass ascontiguousarray\(A\)",
    ),
    "every other column": (
        lambda A, B, C: (A, np.zeros((4, 8), np.float32)[:, ::2], C),
        ValueError,
        r"B has strides \(32, 8\), but must be row-major",
    ),
    "C is A": (lambda A, B, C: (A, B, A), ValueError, r"C shares memory with A, .*: give C memory of its own"),
    "C and B overlap": (
        lambda A, B, C: (A, *overlapping()),
        ValueError,
        "C shares memory with B",
    ),
}


def overlapping():
    """Two 4 x 4 arrays of which the second starts in the last row of the first."""
    memory = np.zeros(28, np.float32)
    return memory[:16].reshape(4, 4), memory[12:].reshape(4, 4)


@pytest.mark.parametrize("beta", [0.0, 1.0])
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_with_what_to_do_and_nothing_is_lost(name, beta):
    problem = Gemm(4, 4, 4, beta=beta)
    change, error, message = BAD[name]
    with pytest.raises(error, match=message):
        launch.run(launch.of(NAIVE), problem, change(*inputs(problem)))
    assert launch.checked(launch.of(NAIVE), problem, "uniform").verdict.correct


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda A, B, C: (A, B.astype(np.float64), C), TypeError, "B has dtype float64"),
        (lambda A, B, C: (A, emulator.zeros((2, 4), np.float32), C), ValueError, r"B has shape \(2, 4\)"),
        (lambda A, B, C: (A.T, B, C), ValueError, r"A has strides \(4, 16\)"),
        (lambda A, B, C: (A, B, A), ValueError, "C shares memory with A"),
    ],
)
def test_arrays_of_a_device_are_refused_as_numpys_are(change, error, message):
    problem = Gemm(4, 4, 4)
    with pytest.raises(error, match=message):
        arguments(problem, *change(*map(emulator.asarray, inputs(problem))))


def test_one_row_or_column_may_have_any_stride_along_it():
    problem = Gemm(1, 4, 1)
    A, B, C = inputs(problem)
    assert launch.run(launch.of(NAIVE), problem, (A.T, np.asfortranarray(B), C)).shape == (1, 4)
