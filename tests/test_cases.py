"""Thirty kernels that people got wrong, or that look wrong and are right: each behaves as its comments derive by hand.

A case is a file under `cases/`: a source, a launch, its arguments, and what is expected of them.
"""

import functools
import importlib.util
from pathlib import Path

import numpy as np
import pytest

from gemmlab import emulator as cp
from gemmlab import nvrtc
from gemmlab.emulator import device
from gemmlab.emulator.machine import Machine
from gemmlab.gemm import Gemm
from gemmlab.tolerance import SENTINEL, verdict

CASES = Path(__file__).parent / "cases"
VERBS = {"read": "ld", "write": "st"}


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ALL = {path.stem: load(path) for path in sorted(CASES.glob("*.py"))}


def case(number):
    return next(module for name, module in ALL.items() if name.startswith(f"{number:02d}_"))


def expecting(*fields, kind=None):
    """Parametrize over the cases that expect these fields, or that are of a kind, and are launched at all."""
    chosen = {
        name: module
        for name, module in ALL.items()
        if all(module.EXPECT.get(field) is not None for field in fields)
        and kind in (None, module.EXPECT["kind"])
        and "reject_before_launch" not in module.EXPECT
    }
    assert chosen
    return pytest.mark.parametrize("module", chosen.values(), ids=chosen)


class Launch:
    """The arguments of a case on the device, and the NumPy values that its expressions may name."""

    def __init__(self, module):
        self.module, self.values, self.args, self.out = module, {}, [], None
        self.kernel = cp.RawKernel(module.SOURCE, module.NAME, module.OPTIONS)
        for argument in module.ARGS:
            value = self._value(argument)
            self.values[argument["name"]] = value
            self.args.append(cp.asarray(value) if isinstance(value, np.ndarray) else value)
            if argument.get("out"):
                self.out = self.args[-1]

    @staticmethod
    def _value(argument):
        dtype, value = np.dtype(argument["dtype"]), argument["value"]
        if "shape" not in argument:
            return dtype.type(value)
        made = {"ones": 1, "zeros": 0}[value] if value in ("ones", "zeros") else eval(value, {"np": np})
        return np.ascontiguousarray(np.broadcast_to(made, argument["shape"]).astype(dtype))

    def trace(self):
        return cp.trace(self.kernel, self.module.GRID, self.module.BLOCK, tuple(self.args), self.module.SHARED_MEM)

    def run(self, block=None):
        self.kernel(self.module.GRID, block or self.module.BLOCK, tuple(self.args), shared_mem=self.module.SHARED_MEM)
        return self.out.get()

    def value_of(self, expression):
        return np.broadcast_to(eval(expression, {"np": np, **self.values}), self.out.shape).astype(self.out.dtype)


def found(trace, kind):
    return [hazard for hazard in trace.hazards if hazard.kind == kind]


def message(trace, kind):
    (hazard,) = found(trace, kind)
    return hazard.message


def test_there_are_thirty_cases():
    assert len(ALL) == 30


@expecting("observed", kind="correct")
def test_a_right_kernel_is_not_flagged_and_gives_the_right_values(module):
    launch = Launch(module)
    assert launch.trace().hazards == ()
    np.testing.assert_array_equal(launch.out.get(), launch.value_of(module.EXPECT["observed"]))
    np.testing.assert_array_equal(Launch(module).run(), launch.value_of(module.EXPECT["right"]))


@expecting("observed")
def test_a_kernel_gives_the_values_derived_by_hand_right_or_wrong(module):
    launch = Launch(module)
    np.testing.assert_array_equal(launch.run(), launch.value_of(module.EXPECT["observed"]))


@expecting("accesses")
def test_requests_and_wavefronts_or_sectors_are_those_counted_by_hand(module):
    trace = Launch(module).trace()
    for want in module.EXPECT["accesses"]:
        op = f"{VERBS[want['access']]}.{want['space']}"
        (access,) = [a for a in trace.accesses if (a.line, a.op, a.bytes) == (want["line"], op, want["bytes"])]
        assert (access.requests, access.units) == (want["requests"], want["total"])
        if want.get("degree", 1) > 1:
            assert access.units == want["degree"] * access.ideal


@expecting("accesses")
def test_slow_accesses_alone_are_no_hazard(module):
    assert Launch(module).trace().ok


@expecting("races")
def test_a_race_names_both_lines_the_array_and_how_far_apart_the_threads_are(module):
    races = found(Launch(module).trace(), "race")
    got = {(race.space, race.array, frozenset(race.accesses), race.scope) for race in races}
    want = {
        (race["memory"], race["array"], frozenset({race["first"], race["second"]}), race["scope"])
        for race in module.EXPECT["races"]
    }
    assert got == want
    for race in races:
        assert len(race.threads) == 2
        assert all(str(thread) in race.message for thread in race.threads)
        assert all(str(line) in race.message for line, _ in race.accesses)


def test_01_a_missing_second_barrier_touches_every_word_of_both_tiles_and_is_named():
    races = found(Launch(case(1)).trace(), "race")
    assert {race.array: race.count for race in races} == {"As": 256, "Bs": 256}
    assert all("__syncthreads()" in race.message for race in races)


def test_01_one_tile_has_no_race():
    launch = Launch(case(1))
    launch.args[-1] = np.int32(16)
    assert launch.trace().ok


def test_03_threads_that_returned_are_counted_at_each_barrier_and_sent_away_by_the_line_of_the_return():
    module = case(3)
    trace, want = Launch(module).trace(), module.EXPECT["barrier"]
    barriers = found(trace, "divergent-barrier")
    assert [hazard.line for hazard in barriers] == want["lines"]
    for hazard in barriers:
        assert hazard.lines == (want["exit_line"],)
        assert hazard.count == sum(want["exited"].values())
        assert hazard.block[:2] in want["exited"]
        assert "192 of 256 threads of block (1, 0, 0) returned at line 7 and never reach this barrier" in hazard.message
    empty = found(trace, "uninitialized")
    # of 16 terms 12 are missing: As in blocks (1, 0) and (1, 1), Bs in (0, 1) and (1, 1), where 64 and 16 threads live
    assert {hazard.array: (hazard.line, hazard.count) for hazard in empty} == dict.fromkeys(("As", "Bs"), (13, 12 * 80))


def test_05_two_barriers_in_the_branches_of_one_warp_are_told_apart():
    (hazard,) = Launch(case(5)).trace().hazards
    assert {hazard.line, *hazard.lines} == {6, 9}
    assert "32 of 64 threads" in hazard.message and "while 32 wait" in hazard.message


@pytest.mark.parametrize("number", [7, 19, 39, 41])
def test_a_wrong_result_alone_is_no_hazard(number):
    assert Launch(case(number)).trace().ok


def test_07_the_verdict_names_the_first_wrong_output():
    launch = Launch(case(7))
    result = launch.run()
    told = verdict(Gemm(1, 3, 2), launch.values["A"], launch.values["B"], None, result)
    assert not told.correct and (told.got, told.want) == (7.0, 9.0)
    assert "row 0, column 0" in told.message


def test_09_out_of_bounds_reads_are_counted_by_array_although_the_answer_is_right():
    module = case(9)
    launch = Launch(module)
    faults = found(launch.trace(), "out-of-bounds")
    assert {(f.array, f.line, f.count) for f in faults} == {
        (want["array"], want["line"], want["count"]) for want in module.EXPECT["oob_counts"]
    }
    np.testing.assert_array_equal(launch.out.get(), launch.value_of(module.EXPECT["observed_if_zero_behind"]))
    with pytest.raises(cp.KernelFault, match=r"line 9: thread .* reads 4 bytes at byte 1600 \(A\[20, 0\]\) of A"):
        Launch(module).run()


def test_11_a_misaligned_vector_load_names_array_byte_width_and_row_length():
    module = case(11)
    want = module.EXPECT["misaligned"]
    (fault,) = Launch(module).trace().hazards
    assert (fault.kind, fault.line, fault.space, fault.array) == ("misaligned", want["line"], "global", "A")
    assert (fault.bytes, fault.count, fault.offset) == (want["bytes"], want["count"], want["byte_offset"])
    assert fault.threads == (want["first_thread"],)
    assert fault.offset % fault.bytes == want["offset_mod"]
    assert all(part in fault.message for part in ("byte 72", "A[1, 0]", "multiple of 16", "K = 18"))


def test_13_too_much_static_shared_memory_gives_both_numbers_and_the_sizes_of_the_arrays():
    with pytest.raises(nvrtc.CompileError) as refused:
        Launch(case(13)).trace()
    text = str(refused.value)
    assert case(13).EXPECT["compiler_says"] in text
    assert "As 32768 + Bs 32768 = 65536" in text and "49152" in text


def test_15_dynamic_and_static_shared_memory_are_added_up_unless_opted_in():
    launch = Launch(case(15))
    assert "49152 dynamic + 128 static = 49280 > 49152" in message(launch.trace(), "launch")
    with pytest.raises(cp.KernelFault, match="max_dynamic_shared_size_bytes = 49152"):
        launch.run()
    launch.kernel.max_dynamic_shared_size_bytes = 49152
    np.testing.assert_array_equal(launch.run(), launch.value_of(case(15).EXPECT["right"]))


def test_17_registers_times_threads_are_held_to_the_register_file():
    launch = Launch(case(17))
    text = message(launch.trace(), "launch")
    assert "x 1024 threads" in text and "65536" in text and "672 threads" in text
    assert launch.kernel.num_regs == case(17).REGISTERS["sm_90"]


@pytest.mark.parametrize(("number", "text"), [(43, "grid.y = 65536 > 65535"), (17, "__launch_bounds__(1024)")])
def test_a_refused_launch_says_why_and_leaves_the_output_alone(number, text):
    launch = Launch(case(number))
    assert text in message(launch.trace(), "launch")
    assert not launch.out.get().any()


def test_27_a_float64_array_is_refused_before_the_launch():
    launch = Launch(case(27))
    text = message(launch.trace(), "bad-argument")
    assert all(part in text for part in ("argument A", "float64", "const float*", "A.astype(np.float32)"))
    assert not launch.out.get().any()


def test_29_a_mangled_name_is_explained():
    with pytest.raises(nvrtc.KernelNotFound) as missing:
        Launch(case(29)).run()
    assert case(29).EXPECT["mangled"] in str(missing.value) and 'extern "C"' in str(missing.value)


def test_31_every_step_of_an_unsynchronized_warp_reduction_races():
    races = found(Launch(case(31)).trace(), "race")
    # the first step reads 16 words written on line 4; the later ones read 8 + 4 + 2 + 1 written on line 6
    assert sorted((dict(race.accesses).get(4) is not None, race.count) for race in races) == [(False, 15), (True, 16)]
    assert all("__syncwarp()" in race.message for race in races)


def test_33_a_copy_that_was_not_waited_for_is_named_by_its_group_and_its_bytes_are_not_there():
    launch = Launch(case(33))
    (race,) = launch.trace().hazards
    assert (race.line, race.count) == (9, 256)
    assert "line 5 may still be in flight: it is in group 1 of 1" in race.message
    assert "__pipeline_wait_prior(0)" in race.message
    assert np.isnan(launch.out.get()).all()


def test_35_two_extern_arrays_are_said_to_be_one():
    (hazard,) = Launch(case(35)).trace().hazards
    assert (hazard.kind, hazard.line, hazard.lines) == ("aliasing", 3, (2,))
    assert "more than one extern __shared__ array in a kernel" in hazard.message
    assert "start at the same address" in hazard.message


def test_37_blocks_that_add_to_one_output_race_on_all_sixteen():
    races = found(Launch(case(37)).trace(), "race")
    assert [race.count for race in races] == [16, 16]
    for race in races:
        assert "block (0, 0, 0)" in race.message and "block (0, 0, 1)" in race.message and "C[0, 0]" in race.message
        assert "atomicAdd" in race.message


def test_39_the_verdict_counts_nan_first():
    launch = Launch(case(39))
    result = launch.run()
    told = verdict(Gemm(4, 4, 3), launch.values["A"][:, :3].copy(), launch.values["B"][:3], None, result)
    assert told.nan == 16 and told.message.startswith("wrong: of 16 outputs, 16 NaN")


def test_41_outputs_that_nobody_wrote_are_counted():
    module = case(41)
    launch = Launch(module)
    (output,) = launch.trace().outputs
    assert (output.array, output.elements, output.unwritten) == ("C", 1024, module.EXPECT["unwritten"])
    assert output.first_unwritten == "C[8, 0]"


def test_41_an_array_that_was_never_filled_makes_them_a_hazard():
    launch = Launch(case(41))
    launch.args[2] = cp.empty((32, 32), np.float32)
    (hazard,) = launch.trace().hazards
    assert (hazard.kind, hazard.array, hazard.count, hazard.line) == ("uninitialized", "C", 768, 7)
    assert "768 of 1,024 elements of C were never written, the first is C[8, 0]" in hazard.message


def test_41_the_verdict_counts_them_too():
    launch = Launch(case(41))
    launch.out.fill(SENTINEL)
    told = verdict(Gemm(32, 32, 8), launch.values["A"], launch.values["B"], None, launch.run())
    assert told.unwritten == 768


FIXES = {
    1: (("acc += As[ty][k] * Bs[k][tx];\n", "acc += As[ty][k] * Bs[k][tx];\n        __syncthreads();\n"),),
    3: (
        ("    if (row >= M || col >= N) return;\n", ""),
        ("A[row * K + t + tx]", "row < M ? A[row * K + t + tx] : 0.0f"),
        ("B[(t + ty) * N + col]", "col < N ? B[(t + ty) * N + col] : 0.0f"),
        ("    C[row * N + col] = acc", "    if (row < M && col < N) C[row * N + col] = acc"),
    ),
    5: (("__syncthreads();", ""), ("    if (t & 1) {", "    __syncthreads();\n    if (t & 1) {")),
    7: (("B[k * K + col]", "B[k * N + col]"),),
    9: (
        ("A[row * K + t + tx]", "row < M && t + tx < K ? A[row * K + t + tx] : 0.0f"),
        ("B[(t + ty) * N + col]", "t + ty < K && col < N ? B[(t + ty) * N + col] : 0.0f"),
    ),
    11: (
        ("*reinterpret_cast<const float4*>(A + ty * K + 4 * tx)", "at(A + ty * K + 4 * tx)"),
        (
            'extern "C"',
            '__device__ float4 at(const float* p) { return make_float4(p[0], p[1], p[2], p[3]); }\nextern "C"',
        ),
    ),
    21: (("r * 32 + lane] =", "r * 33 + lane] ="), ("lane * 32 + c", "lane * 33 + c")),
    31: (
        ("if (lane < off) s[lane] += s[lane + off];", "{ AFTER float v = s[(lane + off) % 32]; AFTER s[lane] += v; }"),
        ("AFTER", "__syncwarp();"),
    ),
    33: (("__pipeline_wait_prior(1)", "__pipeline_wait_prior(0)"),),
    35: (("extern __shared__ float Bs[];", "float* Bs = As + 16;"),),
    37: (("C[row * N + col] += acc", "atomicAdd(&C[row * N + col], acc)"),),
}


@pytest.mark.parametrize("number", FIXES)
def test_with_the_fix_that_a_case_names_nothing_is_left_to_find_and_the_values_are_right(number):
    launch = Launch(case(number))
    source = launch.kernel.code
    for old, new in FIXES[number]:
        assert old in source
        source = source.replace(old, new)
    launch.kernel = cp.RawKernel(source, launch.module.NAME, launch.module.OPTIONS)
    trace = launch.trace()
    assert trace.ok
    np.testing.assert_array_equal(launch.out.get(), launch.value_of(launch.module.EXPECT["right"]))
    if number == 21:
        (reads,) = [access for access in trace.accesses if access.op == "ld.shared"]
        assert reads.wavefronts == reads.ideal == 32


def test_37_blocks_one_after_the_other_give_the_right_sum_by_luck(monkeypatch):
    monkeypatch.setattr(device, "Machine", functools.partial(Machine, lanes=1))
    launch = Launch(case(37))
    np.testing.assert_array_equal(launch.run(), launch.value_of(launch.module.EXPECT["observed_in_order"]))


def test_63_copies_through_cuda_pipeline_are_right_on_older_cards_too(monkeypatch):
    monkeypatch.setitem(device._settings, "architecture", "sm_75")
    launch = Launch(case(63))
    assert launch.trace().ok
    np.testing.assert_array_equal(launch.out.get(), launch.value_of(launch.module.EXPECT["right"]))
