"""What a trace shows beside the source, and one request in full: as rows, as text, as HTML and as a picture."""

import csv
import html
import io
import json
import re
import sys
from dataclasses import asdict, replace
from html.parser import HTMLParser
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import same_color

from gemmlab import emulator as cp
from gemmlab.figures import pictures

DATA = Path(__file__).parent / "data"
N = 64
ROW_BY_X = """extern "C" __global__ void naive(int N, const float* A, const float* B, float* C) {
    int row = blockIdx.x * 32 + threadIdx.x, col = blockIdx.y * 32 + threadIdx.y;
    float acc = 0.0f;
    for (int k = 0; k < N; ++k)
        acc += A[row * N + k]   // line 5
             * B[k * N + col];  // line 6
    if (row < N && col < N)
        C[row * N + col] = acc;  // line 8
}
"""
COLUMN_BY_X = ROW_BY_X.replace("threadIdx.x, col", "threadIdx.y, col").replace("32 + threadIdx.y;", "32 + threadIdx.x;")
SHARED = """extern "C" __global__ void turn(const float* in, float* out) {
    __shared__ float Square[32][32];
    __shared__ float Padded[32][33];
    int x = threadIdx.x, y = threadIdx.y;
    Square[y][x] = Padded[y][x] = in[32 * y + x];
    __syncthreads();
    out[32 * y + x] = Square[x][y] + Padded[x][y];  // line 7
}
"""
WRONG = """extern "C" __global__ void wrong(int n, float* out) {
    int i = threadIdx.x;
    if (i <= n && 0 < i + 1) out[i] = 1.0f;  // line 3, "one too many"
}
"""


def product(source):
    """(kernel, grid, block, arguments) of a product of N x N matrices of ones."""
    arrays = (cp.ones((N, N), np.float32), cp.ones((N, N), np.float32), cp.zeros((N, N), np.float32))
    return cp.RawKernel(source, "naive"), (N // 32, N // 32), (32, 32), (np.int32(N), *arrays)


def turn():
    return (
        cp.RawKernel(SHARED, "turn"),
        (1,),
        (32, 32),
        (cp.ones((32, 32), np.float32), cp.zeros((32, 32), np.float32)),
    )


def wrong():
    return cp.trace(cp.RawKernel(WRONG, "wrong"), (1,), (32,), (np.int32(31), cp.zeros(31, np.float32)))


# ---- text


def figures(text, number):
    """The cells of a line's first row, between its number and its source."""
    line = next(line for line in text.splitlines() if re.match(rf"\s*{number}\s", line))
    return re.split(r"\s{2,}", line.strip())


def test_each_line_of_source_stands_beside_what_it_asked_for():
    text = str(cp.trace(*product(ROW_BY_X)))
    # 2 x 2 blocks of 32 warps, 64 steps: 8192 requests; A takes a sector a lane, B one for all, C a sector a lane
    assert figures(text, 5)[1:7] == ["ld.global", "4", "8,192", "262,144", "32,768", "8.00"]
    assert figures(text, 6)[1:7] == ["ld.global", "4", "8,192", "8,192", "8,192", "1.00"]
    assert figures(text, 8)[1:7] == ["st.global", "4", "128", "4,096", "512", "8.00"]
    for line in ROW_BY_X.splitlines():
        assert line in text


def test_columns_of_text_stand_under_each_other():
    lines = str(cp.trace(*product(ROW_BY_X))).splitlines()
    at = lines[0].index("source")
    for number, source in enumerate(ROW_BY_X.splitlines(), start=1):
        assert lines[number][at:] == source
        assert lines[number][: lines[0].index("line") + 4].strip() == str(number)
    ends = [lines[0].index("requests") + len("requests"), lines[0].index("sectors") + len("sectors")]
    for number in (5, 6, 8):
        assert all(lines[number][end - 1].isdigit() and lines[number][end] == " " for end in ends)


def test_two_kinds_of_access_on_one_line_have_a_row_each():
    text = str(cp.trace(*turn()))
    first = next(i for i, line in enumerate(text.splitlines()) if "Square[y][x] =" in line)
    rows = [line.split()[-5:] for line in text.splitlines()[first : first + 2]]
    assert "ld.global" in text.splitlines()[first] and "st.shared" in text.splitlines()[first + 1]
    assert rows[1] == ["4", "64", "64", "64", "1.00"]


def test_columns_without_a_figure_are_left_out():
    assert "wavefronts" not in str(cp.trace(*product(ROW_BY_X))).splitlines()[0]
    assert "wavefronts" in str(cp.trace(*turn())).splitlines()[0]


def test_a_finding_stands_under_its_line():
    lines = str(wrong()).splitlines()
    at = next(i for i, line in enumerate(lines) if line.lstrip().startswith("3 "))
    assert lines[at + 1].startswith("  !! out-of-bounds: line 3: thread (31, 0, 0)")
    assert "1 hazard found" in lines


def test_the_totals_are_those_of_the_rows():
    trace = cp.trace(*turn())
    shared, local = (next((t for t in trace.totals if t.space == s), None) for s in ("shared", "local"))
    # 32 warps store a row to each array; they load a column of Square, 32 ways in conflict, and one of Padded
    assert (shared.requests, shared.units, shared.ideal) == (4 * 32, (1 + 1 + 32 + 1) * 32, 4 * 32)
    assert shared.useful_bytes == 4 * 32 * 128 and shared.moved_bytes == 128 * shared.units
    assert local is None
    assert f"shared memory: 128 requests, {shared.units:,} wavefronts, 8.75 x the ideal" in str(trace)
    # conflicts make wavefronts that carry little: their bytes are what they could carry, not what moved
    assert "16,384 bytes asked for by lanes, 143,360 that those" in " ".join(str(trace).split())


def test_a_trace_of_a_refused_launch_shows_source_and_finding():
    kernel, _, _, arguments = product(ROW_BY_X)
    trace = cp.trace(kernel, (1,), (2048,), arguments)
    assert "!! launch: " in str(trace) and "no hazard" not in str(trace)
    assert "&#9888; launch" in trace._repr_html_()


class Terminal(io.StringIO):
    def isatty(self):
        return True


def in_terminal(monkeypatch, columns, traced):
    """What a trace prints in a terminal so wide, as lines."""
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", Terminal())
        patched.setenv("COLUMNS", str(columns))
        return str(traced).splitlines()


def test_in_a_narrow_terminal_figures_stand_under_their_line_and_nothing_but_source_is_wider(monkeypatch):
    lines = in_terminal(monkeypatch, 80, cp.trace(*product(ROW_BY_X)))
    assert {line[6:] for line in lines if len(line) > 80} <= set(ROW_BY_X.splitlines())
    at = lines.index("   5          acc += A[row * N + k]   // line 5")
    assert lines[at + 1].split() == [">", "ld.global", "4", "8,192", "262,144", "32,768", "8.00"]
    assert lines[at + 2] == "   6               * B[k * N + col];  // line 6"
    header = lines[1]
    for name, figure in (("requests", "8,192"), ("sectors", "262,144"), ("x ideal", "8.00")):
        assert lines[at + 1].index(figure) + len(figure) == header.index(name) + len(name)
    assert all(len(line) <= 80 for line in in_terminal(monkeypatch, 80, wrong()))


def test_a_report_that_fits_into_its_terminal_stands_beside_the_source_as_it_does_in_a_file(monkeypatch):
    traced = cp.trace(*product(ROW_BY_X))
    beside = str(traced).splitlines()
    widest = max(map(len, beside))
    assert in_terminal(monkeypatch, widest, traced) == beside
    assert max(map(len, in_terminal(monkeypatch, widest - 1, traced))) < widest


def test_a_terminal_that_knows_only_ascii_shows_the_rest_of_a_source_as_escapes(monkeypatch):
    traced = cp.Trace((), (), source="// na\u00efve \u4f60")
    plain, screen = str(traced), io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", screen)
        print(traced)
        screen.flush()
    assert "// na\u00efve \u4f60" in plain
    assert b"   1  // na\\xefve \\u4f60\n" in screen.buffer.getvalue()


def test_text_names_each_counter_as_nsight_compute_does():
    words = [line.split() for line in str(cp.trace(*turn())).splitlines()]
    assert ["ld.global", "requests", "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] in words
    assert ["ld.global", "sectors", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] in words
    assert ["st.shared", "requests", "smsp__inst_executed_op_shared_st.sum"] in words
    assert ["st.shared", "wavefronts", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"] in words


def test_a_counter_that_takes_in_another_kind_of_access_is_said_to():
    (row,) = (access for access in cp.trace(*turn()).accesses if access.op == "ld.global")
    for op, said in (("ld.global", False), ("cp.async.global", True), ("ldmatrix.x4", True), ("stmatrix.x1", True)):
        trace = cp.Trace((replace(row, op=op),), (), source="int a;")
        for shown in (str(trace), html.unescape(trace._repr_html_())):
            assert ("counter of global loads takes in cp.async" in " ".join(shown.split())) == said


def test_a_kernel_that_asks_for_nothing_has_no_counters_and_no_note_on_them():
    trace = cp.trace(cp.RawKernel('extern "C" __global__ void idle() {}', "idle"), (1,), (32,), ())
    assert str(trace).splitlines() == [
        "line  source",
        '   1  extern "C" __global__ void idle() {}',
        "",
        "no hazard found",
    ]
    assert "Nsight" not in trace._repr_html_() and "Counts" not in trace._repr_html_()


# ---- lines as the compiler numbers them


LISTED = """extern "C" __global__ void twice(float* x) {{
{before}    x[2 * threadIdx.x] = 1.0f;
}}
"""


@pytest.mark.parametrize(
    ("before", "number"),
    [
        ("", 2),
        ("    // tabs\tand \x0b\x0c\x1c\x85\u2028\u2029 end no line of C\n", 3),
        ("    // na\u00efve, \u4f60\u597d\n", 3),
        ("#line 5000\n", 5000),
        ("#  line 12\n    // comment\n", 13),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_line_is_that_which_the_compiler_means_by_its_number(before, number, newline):
    source = LISTED.format(before=before).replace("\n", newline)
    trace = cp.trace(cp.RawKernel(source, "twice"), (1,), (32,), (cp.zeros(64, np.float32),))
    (access,) = trace.accesses
    assert (access.line, access.sectors) == (number, 8)
    assert figures(str(trace), number)[1:] == ["st.global", "4", "1", "8", "4", "2.00", "x[2 * threadIdx.x] = 1.0f;"]
    # no line more and no character that would break one, nor move a terminal's cursor
    rows = [row for row in Table(trace._repr_html_()).rows[1:] if row[0]]
    assert len(rows) == LISTED.format(before=before).count("\n")
    assert [row[-1].strip() for row in rows if row[1]] == ["x[2 * threadIdx.x] = 1.0f;"]
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\x85\u2028\u2029]", str(trace))


def test_what_lies_on_no_line_of_the_source_is_shown_apart():
    (row,) = cp.trace(*turn()).accesses[:1]
    for line in (0, 99):
        trace = cp.Trace((replace(row, line=line),), (cp.Hazard("race", line, "two threads meet"),), source="int a;")
        text, rows = str(trace).splitlines(), Table(trace._repr_html_()).rows[1:]
        at = next(i for i, each in enumerate(text) if "ld.global" in each)
        assert text[at].endswith("(on no line of this source)") and "!! race" in text[at + 1]
        assert (at < text.index(next(each for each in text if "int a;" in each))) == (line == 0)
        (shown,) = (each for each in rows if each[1] == "ld.global")
        assert shown[0] == str(line or "") and shown[-1] == "(on no line of this source)"


def test_a_finding_on_no_line_takes_no_empty_row():
    trace = cp.Trace((), (cp.Hazard("launch", 0, "too many threads"),), source="int a;")
    assert str(trace).splitlines()[:3] == ["line  source", "  !! launch: too many threads", "   1  int a;"]
    assert len(Table(trace._repr_html_()).rows) == 1 + 1 + 1


# ---- rows


def test_rows_become_a_table_of_plain_values():
    rows = [asdict(access) for access in cp.trace(*product(ROW_BY_X)).accesses]
    table = io.StringIO()
    writer = csv.DictWriter(table, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    read = list(csv.DictReader(io.StringIO(table.getvalue())))
    assert [(row["line"], row["op"], row["requests"], row["sectors"]) for row in read] == [
        ("5", "ld.global", "8192", "262144"),
        ("6", "ld.global", "8192", "8192"),
        ("8", "st.global", "128", "4096"),
    ]
    assert all(isinstance(value, int | str | None) for row in rows for value in row.values())
    assert json.loads(json.dumps([asdict(hazard) for hazard in wrong().hazards]))[0]["kind"] == "out-of-bounds"


# ---- HTML


class Table(HTMLParser):
    """Rows of cells, and every tag that was left open or closed twice."""

    VOID = ("br", "meta")

    def __init__(self, text):
        super().__init__()
        self.rows, self.open, self.wrong, self.cell = [], [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.cell = (int(dict(attrs).get("colspan", 1)), dict(attrs).get("title"))
            self.rows[-1] += [None] * (self.cell[0] - 1)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            at = max(i for i, cell in enumerate(self.rows[-1]) if cell is not None)
            self.rows[-1][at] += data


@pytest.fixture(params=[lambda: cp.trace(*product(ROW_BY_X)), lambda: cp.trace(*turn()), wrong])
def shown(request):
    return request.param()


def test_html_is_well_formed_and_every_row_is_as_wide(shown):
    table = Table(shown._repr_html_())
    assert not table.wrong and not table.open
    assert len({len(row) for row in table.rows}) == 1


def test_html_holds_the_source_unchanged(shown):
    rows = [row for row in Table(shown._repr_html_()).rows[1:] if row[0]]
    assert [row[-1] for row in rows] == shown.source.splitlines()
    assert [row[0] for row in rows] == [str(i) for i in range(1, len(rows) + 1)]


def test_html_names_each_counter_as_nsight_compute_does(shown):
    text = shown._repr_html_()
    for access in shown.accesses:
        assert f"title='{access.metric}'" in text and f"<code>{access.metric}</code>" in text
        assert f"title='{access.request_metric}'" in text


def test_html_fixes_no_colour_that_one_theme_could_not_read(shown):
    text = shown._repr_html_()
    declared = re.findall(r"([\w-]+)\s*:\s*([^;}']+)[;}']", text.split("<tbody>")[0])
    assert not [value for name, value in declared if name == "color"]
    for value in re.findall(r"background:\s*([^;}']+)", text):
        # every stop is transparent or lets at least half of the page shine through
        for alpha in re.findall(r"rgba\([^)]*,\s*([\d.]+)\)", value):
            assert float(alpha) <= 0.5
        assert not re.search(r"#[0-9a-f]{3}|white|black|rgb\(", value)


def test_a_bar_is_amber_only_past_the_ideal():
    text = cp.trace(*product(ROW_BY_X))._repr_html_()
    bars = {m[2]: m[1] for m in re.finditer(r"style='background: (linear[^']*)'>([\d,]+)<", text)}
    # A's 262,144 sectors are the most, so its bar is full, and an eighth of it is ideal
    assert "30) 12.5%" in bars["262,144"] and "45) 12.5% 100.0%" in bars["262,144"]
    assert "30) 3.1%" in bars["8,192"] and "45) 3.1% 3.1%" in bars["8,192"]


def test_html_shows_findings_and_escapes_what_the_learner_wrote():
    text = wrong()._repr_html_()
    assert "<b>&#9888; out-of-bounds</b>" in text
    assert html.escape('"one too many"') in text and "i <= n" not in text


# ---- one request


def test_the_naive_kernel_touches_a_sector_a_lane_and_the_coalesced_one_four():
    naive = cp.request(*product(ROW_BY_X), 5, iteration=3)
    assert (naive.count, naive.ideal) == (32, 4)
    # lane l asks for A[l, 3]: rows of 64 floats are 8 sectors apart
    assert naive.sectors == tuple((8 * lane,) for lane in range(32))
    assert naive.offsets == tuple(4 * (N * lane + 3) for lane in range(32))
    coalesced = cp.request(*product(COLUMN_BY_X), 6, iteration=3)
    assert (coalesced.count, coalesced.ideal) == (4, 4)
    assert coalesced.sectors == tuple((8 * 3 + lane // 8,) for lane in range(32))
    assert (naive.array, coalesced.array) == ("A", "B")


def test_a_request_is_chosen_by_block_warp_and_iteration():
    kernel, grid, block, arguments = product(COLUMN_BY_X)
    seen = cp.request(kernel, grid, block, arguments, 5, warp=7, of_block=(1, 1, 0), iteration=9)
    # blockIdx.x picks the rows here: block (1, 1), warp 7 is row 32 + 7, and every lane wants its element 9
    assert seen.offsets == (4 * (N * 39 + 9),) * 32
    assert (seen.block, seen.warp, seen.iteration, seen.total, seen.op, seen.bytes) == (
        (1, 1, 0),
        7,
        9,
        64,
        "ld.global",
        4,
    )


def test_the_request_of_the_last_block_is_found_where_blocks_do_not_run_together():
    count = 3 << 12
    source = 'extern "C" __global__ void one(float* x) { x[blockIdx.x * 32 + threadIdx.x] = 1.0f; }'
    kernel, x = cp.RawKernel(source, "one"), cp.zeros(32 * count, np.float32)
    seen = cp.request(kernel, (count,), (32,), (x,), 1, of_block=(count - 1, 0, 0))
    assert seen.offsets[0] == 4 * 32 * (count - 1)


def test_a_column_of_a_square_tile_lies_in_one_bank_and_a_padded_one_in_all():
    square, padded = (cp.request(*turn(), 7, array=name) for name in ("Square", "Padded"))
    assert (square.count, padded.count) == (32, 1)
    assert set(square.banks) == {(0,)}
    assert sorted(bank for (bank,) in padded.banks) == list(range(32))
    assert square.passes == padded.passes == (tuple(range(32)),)


VECTORS = """extern "C" __global__ void vectors(int active, float4* out) {
    extern __shared__ float4 pool[];
    if (threadIdx.x < active) out[threadIdx.x] = pool[threadIdx.x * 2];
}
"""


CHOSEN = """extern "C" __global__ void chosen(const float* A, const float* B, float* C) {
    int t = threadIdx.x;
    const float* p = t < 16 ? B : A;
    C[t] = p[t];
    C[t + 32] = B[t - 8];
}
"""


def test_lanes_that_ask_before_the_array_are_seen_and_drawn_too():
    arrays = tuple(cp.ones(64, np.float32) for _ in range(3))
    two, out = (cp.request(cp.RawKernel(CHOSEN, "chosen"), (1,), (32,), arrays, n, op="ld.global") for n in (4, 5))
    # half a warp is two sectors of each array; A begins before B
    assert two.array == "B" and two.count == 4 and len(set(two.sectors)) == 4
    assert two.sectors[:16] == ((0,),) * 8 + ((1,),) * 8 and all(sector < 0 for (sector,) in two.sectors[16:])
    # B[-8] to B[-1] are the sector before the array
    assert out.count == 4 and out.sectors == tuple((lane // 8 - 1,) for lane in range(32))
    figure = pictures.requests(two, out)
    assert [[label.get_text() for label in axis.get_yticklabels()] for axis in figure.axes] == [
        ["A[16]", "A[24]", "B[0]  sector 0", "B[8]  sector 1"],
        ["sector -1", "B[0]  sector 0", "B[8]  sector 1", "B[16]  sector 2"],
    ]
    plt.close(figure)


def test_lanes_that_take_no_part_have_none():
    arguments = (np.int32(5), cp.zeros((40, 4), np.float32))
    seen = cp.request(cp.RawKernel(VECTORS, "vectors"), (1,), (40,), arguments, 3, op="ld.shared", shared_mem=2048)
    assert seen.addresses[5:] == (None,) * 27 and seen.sectors[5:] == ((),) * 27 and seen.banks[5:] == ((),) * 27
    # 32 bytes apart, 16 each: lanes 0 and 4 want the same four banks
    assert seen.banks[0] == seen.banks[4] == (0, 1, 2, 3) and seen.passes == ((0, 1, 2, 3, 4),) and seen.count == 2


def test_16_bytes_a_lane_are_served_by_quarters_of_the_warp():
    arguments = (np.int32(32), cp.zeros((40, 4), np.float32))
    seen = cp.request(cp.RawKernel(VECTORS, "vectors"), (1,), (40,), arguments, 3, op="ld.shared", shared_mem=2048)
    assert seen.passes == tuple(tuple(range(8 * i, 8 * i + 8)) for i in range(4))
    assert (seen.count, seen.ideal) == (8, 4)
    stored = cp.request(cp.RawKernel(VECTORS, "vectors"), (1,), (40,), arguments, 3, op="st.global", shared_mem=2048)
    assert stored.sectors == tuple((lane // 2,) for lane in range(32))


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"line": 3}, r"makes no request on line 3; it makes some on lines 5, 7"),
        ({"line": 7}, r"several kinds of request \(ld.shared of Square, ld.shared of Padded, st.global of out\)"),
        (
            {"line": 7, "array": "Square", "iteration": 1},
            r"iteration is 1, but warp 0 of block \(0, 0, 0\) makes 1 request on line 7, ld.shared of Square: numbered",
        ),
        ({"line": 7, "array": "Square", "iteration": -1}, r"iteration is -1, but .* makes 1 request on line 7"),
        ({"line": 7, "op": "ld.global"}, r"line 7 makes no request ld.global; it makes ld.shared of Square"),
        ({"line": 7, "warp": 32}, r"warp is 32, but a block of 32 x 32 x 1 threads has 32 warps, numbered from 0"),
        ({"line": 7, "warp": -1}, r"warp is -1, but a block of 32 x 32 x 1 threads has 32 warps"),
        ({"line": 7, "of_block": (0, 1, 0)}, r"of_block is \(0, 1, 0\), but the grid has 1 x 1 x 1 blocks"),
        ({"line": 7, "of_block": (0, 0, -1)}, r"of_block is \(0, 0, -1\), but the grid has 1 x 1 x 1 blocks"),
    ],
)
def test_a_request_that_does_not_exist_is_refused_with_those_that_do(choice, message):
    with pytest.raises(ValueError, match=message):
        cp.request(*turn(), **choice)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"line": "7"}, r"line is '7', but must be an int"),
        ({"line": 7, "warp": 1.5}, r"warp is 1.5, but must be an int"),
        ({"line": 7, "iteration": None}, r"iteration is None, but must be an int"),
        ({"line": 7, "iteration": True}, r"iteration is True, but must be an int"),
        ({"line": 7, "of_block": 0}, r"of_block is 0, but must be the three ints of a block's index, \(x, y, z\)"),
        ({"line": 7, "of_block": (0, 0)}, r"of_block is \(0, 0\), but must be the three ints"),
        ({"line": 7, "of_block": (0, 0.5, 0)}, r"an index of of_block is 0.5, but must be an int"),
        ({"line": 7, "array": 3}, r"array is 3, but must be a string, such as 'A'"),
        ({"line": 7, "op": 5}, r"op is 5, but must be a string, such as 'ld.global'"),
    ],
)
def test_what_chooses_a_request_is_refused_where_it_is_of_another_type(choice, message):
    with pytest.raises(TypeError, match=message):
        cp.request(*turn(), **choice)


def test_numpys_integers_and_a_list_choose_a_request_too():
    kernel, grid, block, arguments = product(COLUMN_BY_X)
    seen = cp.request(
        kernel, grid, block, arguments, np.int64(5), warp=np.int32(7), of_block=[1, 1, 0], iteration=np.uint8(9)
    )
    assert (seen.line, seen.block, seen.warp, seen.iteration) == (5, (1, 1, 0), 7, 9)


def test_a_request_of_a_launch_that_is_refused_says_why_it_is():
    kernel, grid, _, arguments = product(ROW_BY_X)
    with pytest.raises(ValueError, match=r"before the launch was stopped: naive cannot .* 2048 > 1024"):
        cp.request(kernel, grid, (2048,), arguments, 5)
    with pytest.raises(ValueError, match=r"before the launch was stopped: argument A .* 1.5 was passed"):
        cp.request(kernel, grid, (32, 32), (arguments[0], 1.5, *arguments[2:]), 5)


def test_a_warp_that_makes_no_request_anywhere_is_told_so():
    source = 'extern "C" __global__ void none(float* x) { if (threadIdx.x < 32) x[threadIdx.x] = 1.0f; }'
    with pytest.raises(ValueError, match=r"warp 1 of block \(0, 0, 0\) asks memory for nothing"):
        cp.request(cp.RawKernel(source, "none"), (1,), (64,), (cp.zeros(32, np.float32),), 1, warp=1)


# ---- the picture


def boxes(axis, colour):
    return [p for p in axis.patches if same_color(p.get_facecolor(), colour)]


def test_the_picture_has_a_row_for_each_sector_and_a_number_for_each_lane():
    pair = cp.request(*product(ROW_BY_X), 5, iteration=3), cp.request(*product(COLUMN_BY_X), 6, iteration=3)
    figure = pictures.requests(*pair)
    naive, coalesced = figure.axes
    assert (len(boxes(naive, pictures.MOVED)), len(boxes(coalesced, pictures.MOVED))) == (32, 4)
    for axis in figure.axes:
        assert [t.get_text() for t in axis.texts] == [str(lane) for lane in range(32)]
        assert len(boxes(axis, pictures.WANTED)) == 32
    # one scale: a row is as high in both panels
    tall, low = (axis.get_window_extent().height for axis in figure.axes)
    assert tall == pytest.approx(8 * low)
    assert "1,024 bytes moved for 128 asked for" in figure.texts[0].get_text()
    assert "128 bytes moved for 128 asked for" in figure.texts[1].get_text()
    plt.close(figure)


def test_the_picture_stacks_the_words_that_wait_for_a_bank():
    figure = pictures.requests(*(cp.request(*turn(), 7, array=name) for name in ("Square", "Padded")))
    square, padded = figure.axes
    assert (len(boxes(square, pictures.SERVED)), len(boxes(square, pictures.WAITING))) == (1, 31)
    assert (len(boxes(padded, pictures.SERVED)), len(boxes(padded, pictures.WAITING))) == (32, 0)
    assert {p.get_x() for p in boxes(square, pictures.WAITING)} == {0}
    # what waits is hatched as well as coloured
    assert all(p.get_hatch() for p in boxes(square, pictures.WAITING))
    plt.close(figure)


def test_lanes_that_share_a_word_are_labelled_together():
    figure = pictures.requests(cp.request(*product(ROW_BY_X), 6, iteration=3))
    assert [t.get_text() for t in figure.axes[0].texts] == ["0-31"]
    plt.close(figure)


@pytest.mark.parametrize("name", ["global", "shared", "local"])
def test_everything_written_in_a_picture_lies_inside_it_and_apart(name):
    if name == "global":
        seen = [cp.request(*product(ROW_BY_X), 5, iteration=3), cp.request(*product(COLUMN_BY_X), 6, iteration=3)]
    elif name == "shared":
        seen = [cp.request(*turn(), 7, array=name) for name in ("Square", "Padded")]
    else:
        source = """extern "C" __global__ void own(int n, int* out) {
    int mine[16];
    for (int i = 0; i < 16; ++i) mine[i] = n * i;
    out[threadIdx.x] = mine[(threadIdx.x + n) & 15];
}"""
        seen = [
            cp.request(
                cp.RawKernel(source, "own"), (1,), (32,), (np.int32(1), cp.zeros(32, np.int32)), 4, op="ld.local"
            )
        ]
        assert seen[0].sectors == tuple((4 * ((lane + 1) % 16) + lane // 8,) for lane in range(32))
    figure = pictures.requests(*seen)
    figure.draw_without_rendering()
    page = figure.bbox
    for axis in figure.axes:
        labels = [axis.xaxis.label, *axis.get_xticklabels(), *axis.get_yticklabels()]
        written = [*labels, *axis.texts]
        extents = [t.get_window_extent() for t in written if t.get_text()]
        for extent in extents:
            assert page.x0 <= extent.x0 and extent.x1 <= page.x1 and page.y0 <= extent.y0 and extent.y1 <= page.y1
        for i, one in enumerate(extents):
            assert not any(one.overlaps(other) for other in extents[i + 1 :])
    titles = [t.get_window_extent() for t in figure.texts]
    assert all(page.x0 <= t.x0 and t.x1 <= page.x1 and t.y1 <= page.y1 for t in titles)
    for one, axis in zip(titles, figure.axes, strict=True):
        assert one.y0 >= axis.get_window_extent().y1
    assert not any(a.overlaps(b) for i, a in enumerate(titles) for b in titles[i + 1 :])
    plt.close(figure)


def of_lanes(op, space, width, addresses):
    """A request whose lanes have these addresses, None for a lane that takes no part."""
    return cp.Request(1, op, space, width, (0, 0, 0), 0, 0, 1, "x", 0, tuple(addresses), (None,) * 32)


def counted_patterns():
    """(op, space, bytes, addresses, count) of every 19th pattern of each file that Nsight Compute counted."""
    for name in ("memory_patterns.json", "memory_patterns_partial.json", "memory_patterns_other.json"):
        for row in json.loads((DATA / name).read_text(encoding="utf-8"))["rows"][::19]:
            given = int(row.get("active", "0xffffffff"), 16)
            given &= (1 << 8 * int(row["op"][-1])) - 1 if "matrix" in row["op"] else given
            addresses = [offset if given >> lane & 1 else None for lane, offset in enumerate(row["offsets"])]
            space = next((space for space in ("global", "local") if row["op"].endswith(space)), "shared")
            yield row["op"], space, row["bytes"], addresses, row.get("sectors", row.get("wavefronts"))


def test_a_picture_has_as_many_rows_as_the_h200_counted_and_lanes_in_each():
    seen = set()
    for op, space, width, addresses, counted in counted_patterns():
        figure = pictures.requests(of_lanes(op, space, width, addresses))
        (axis,) = figure.axes
        rows = {p.get_y() for p in axis.patches if not same_color(p.get_facecolor(), pictures.MOVED)}
        assert rows == set(range(counted)), (op, width, addresses)
        plt.close(figure)
        seen.add(op)
    assert {"ld.global", "ld.shared", "st.shared", "atom.global", "atom.shared", "ld.local", "ldmatrix.x4"} <= seen


def test_lanes_that_update_one_address_take_turns_in_the_picture():
    # lanes l and l + 4 share a word: eight turns of four lanes, of one sector or of four banks
    sectors, banks = (
        pictures.requests(of_lanes(f"atom.{space}", space, 4, [4 * (lane % 4) for lane in range(32)])).axes[0]
        for space in ("global", "shared")
    )
    for axis in (sectors, banks):
        places = {(p.get_x(), p.get_y()) for p in axis.patches if not same_color(p.get_facecolor(), pictures.MOVED)}
        assert places == {(column, turn) for column in range(4) for turn in range(8)}
        assert sorted(int(t.get_text()) for t in axis.texts) == list(range(32))
    plt.close("all")


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("sharing", [1, 2, 5, 32])
@pytest.mark.parametrize("space", ["global", "shared"])
def test_the_lanes_written_into_a_cell_fit_into_it(space, width, sharing):
    addresses = [width * (lane // sharing) for lane in range(32)]
    figure = pictures.requests(of_lanes(f"ld.{space}", space, width, addresses))
    figure.draw_without_rendering()
    (axis,) = figure.axes
    cells = [p.get_window_extent() for p in axis.patches if not same_color(p.get_facecolor(), pictures.MOVED)]
    for text, cell in zip([t.get_window_extent() for t in axis.texts], cells, strict=True):
        assert cell.x0 <= text.x0 and text.x1 <= cell.x1
    plt.close(figure)


@pytest.mark.parametrize("given", [(), (None,), ([],)])
def test_a_picture_of_what_is_no_request_is_refused_in_words(given):
    with pytest.raises(TypeError, match=r"is no request of a warp: give one or more that emulator\.request returned"):
        pictures.requests(*given)


def test_a_picture_is_read_on_a_dark_page_as_on_a_light_one():
    with plt.style.context("dark_background"):
        figure = pictures.requests(cp.request(*product(ROW_BY_X), 5))
    assert same_color(figure.get_facecolor(), "white")
    assert all(same_color(t.get_color(), "black") for t in figure.axes[0].get_yticklabels())
    plt.close(figure)
