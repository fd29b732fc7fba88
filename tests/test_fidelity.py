"""The fidelity check without a GPU: comparing, and the whole run beside a stand-in for CuPy and one for ncu."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from test_nsight_compute import COLUMNS, LD_SECTORS, SHARED_LD, csv_row

from gemmlab import emulator
from gemmlab.emulator.traffic import Access, metrics
from gemmlab.profiling.counters import counts

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "benchmarks"))

import fidelity_gpu  # noqa: E402
from fidelity_cases import Case, Seen, cases, observe  # noqa: E402
from fidelity_table import Row, differing, largest_difference, save, summary, table  # noqa: E402

SHARED_LD_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"


def access(op, space, requests, units):
    """An Access whose every request is of 32 lanes of 16 bytes."""
    asked, moved = metrics(op, space)
    counted = {"sectors": None, "wavefronts": units} if space == "shared" else {"sectors": units, "wavefronts": None}
    return Access(
        line=1, op=op, bytes=16, requests=requests, lanes=32 * requests, ideal=units, metric=moved,
        request_metric=asked, space=space, **counted,
    )  # fmt: skip


def test_an_asynchronous_copy_is_one_instruction_whose_sectors_count_among_the_loads():
    total = counts(
        [
            access("ld.global", "global", 2, 8),
            access("cp.async.global", "global", 3, 48),
            access("cp.async.shared", "shared", 3, 12),
        ]
    )
    assert total[LD_SECTORS] == 8 + 48
    assert total["smsp__inst_executed_op_ldgsts.sum"] == 3


def test_wavefronts_of_ldmatrix_count_among_the_shared_loads_as_the_profiler_has_them():
    total = counts([access("ld.shared", "shared", 5, 7), access("ldmatrix.x4", "shared", 2, 8)])
    assert total[SHARED_LD_WAVEFRONTS] == 7 + 8
    assert total[SHARED_LD] == 5


def test_bits_differ_where_values_compare_equal_and_agree_where_a_nan_does_not_equal_itself():
    ours = np.array([0.0, np.nan, 1.0, np.inf], np.float32)
    theirs = np.array([-0.0, np.nan, 1.5, np.inf], np.float32)
    assert differing(ours, theirs) == 2
    assert largest_difference(ours, theirs) == 0.5
    assert largest_difference(ours[3:], theirs[3:]) is None


CASE = Case("tile", "", "gemm", (), (1, 1, 1), (16, 16, 1), 0, (), 0)


def ran(values, registers):
    return Seen("ran", "", registers, 2048, 0, np.array(values, np.float32))


def test_a_row_shows_what_is_equal_once_and_what_is_not_twice():
    row = Row(CASE, ran([1, 2], 26), ran([1, 2.5], 28), {SHARED_LD: 64, LD_SECTORS: 8}, {SHARED_LD: 40, LD_SECTORS: 8})
    header, line, *_ = table([row]).splitlines()
    assert header.split("  ")[0] == "kernel"
    assert "1 of 2 differ by at most 0.5" in line and "26 != 28" in line and "2,048  " in line
    assert line.endswith("1 of 2 equal; shared ld requests 64 != 40")
    assert not row.equal_bits
    assert summary([row]) == "0 of 1 results and 3 of 5 figures are equal"


def test_a_count_that_the_emulator_does_not_expect_is_unequal_to_zero():
    row = Row(CASE, ran([1], 26), ran([1], 26), {}, {SHARED_LD: 40, LD_SECTORS: 0})
    assert row.equal_bits
    assert row.figures[SHARED_LD] == (0, 40) and LD_SECTORS not in row.figures


@pytest.mark.parametrize(
    ("ours", "theirs", "equal", "said"),
    [
        (Seen("refused", "KernelFault: grid"), Seen("refused", "CUDADriverError: grid"), True, "both refuse it"),
        (Seen("compiled", "races", 26, 0, 0), Seen("compiled", "races", 26, 0, 0), True, "not launched"),
        (ran([1], 26), Seen("refused", "it hangs"), False, "ran != refused"),
        (Seen("refused", "no such instruction"), ran([1], 26), False, "refused != ran"),
    ],
)
def test_both_must_come_to_the_same_end_and_a_reason_is_given(ours, theirs, equal, said):
    row = Row(CASE, ours, theirs, None, None)
    assert row.equal_bits == equal
    text = table([row])
    assert said in text
    assert all(seen.message in text for seen in (ours, theirs))


def test_a_record_holds_digests_and_pairs_of_figures(tmp_path):
    row = Row(CASE, ran([1, 2], 26), ran([1, 2], 28), {SHARED_LD: 64}, None)
    save(tmp_path / "new" / "record.json", {"card": "NVIDIA H200"}, [row])
    record = json.loads((tmp_path / "new" / "record.json").read_text(encoding="utf-8"))
    assert record["environment"] == {"card": "NVIDIA H200"}
    (kernel,) = record["kernels"]
    assert kernel["emulator"]["sha256"] == kernel["gpu"]["sha256"]
    # printf '\x00\x00\x80\x3f\x00\x00\x00\x40' | sha256sum
    assert kernel["gpu"]["sha256"] == "b9c80b5adeca450753a16950c3cc655d271f7bef7a485bc83f112b72fef21d37"
    assert (kernel["elements"], kernel["differing"]) == (2, 0)
    assert kernel["figures"]["registers"] == [26, 28] and kernel["figures"][SHARED_LD] == [64, None]


def test_only_kernels_with_defined_values_are_launched_on_a_gpu():
    all_cases = {case.name: case for case in cases("sm_90")}
    unlaunched = {int(name[:2]) for name, case in all_cases.items() if case.unlaunched}
    # races 1, 31, 33, 37; undefined barriers 3, 5; out of bounds 9; misaligned 11; a float64 array for float* 27
    assert unlaunched == {1, 3, 5, 9, 11, 27, 31, 33, 37}
    assert sum(not name.startswith("rung") for name in all_cases) == 30


def test_every_rung_runs_at_256_and_at_three_shapes_that_no_tile_divides():
    names = [case.name for case in cases("sm_90") if case.name.startswith("rung0")]
    assert len(names) == 4 and "rung0_naive_256x256x256" in names


def test_the_emulators_readme_tells_how_much_of_the_shipped_record_is_equal():
    record = json.loads((ROOT / "gemmlab" / "data" / "fidelity" / "nvidia_h200.json").read_text(encoding="utf-8"))
    kernels = record["kernels"]
    ends = Counter((one["emulator"]["outcome"], one["gpu"]["outcome"]) for one in kernels)
    assert set(ends) == {("ran", "ran"), ("refused", "refused"), ("compiled", "compiled")}
    assert not any(one["differing"] for one in kernels if one["gpu"]["outcome"] == "ran")
    pairs = [pair for one in kernels for pair in one["figures"].values()]
    equal = sum(ours == theirs for ours, theirs in pairs)
    readme = " ".join((ROOT / "gemmlab" / "emulator" / "README.md").read_text(encoding="utf-8").split())
    assert (
        f"Of {len(kernels)} launches, {ends['ran', 'ran']} ran on both backends with equal bits, "
        f"{ends['refused', 'refused']} were refused by both, and {ends['compiled', 'compiled']} were compiled"
    ) in readme
    assert f"Of {len(pairs)} figures {equal} are equal" in readme
    assert f"explains {len(pairs) - equal - 2} of the {len(pairs) - equal} others" in readme
    for number, name in ((3, "register_tiles_1d"), (4, "register_tiles_2d")):
        (found,) = [one for one in kernels if one["kernel"] == f"rung{number}_{name}_256x256x256"]
        ours, theirs = found["figures"][metrics("st", "shared")[1]]
        assert f"{theirs:,} for {ours:,} in rung {number}" in readme
    assert all(one["figures"]["registers"][0] == one["figures"]["registers"][1] for one in kernels if one["figures"])


STAND_IN = """
import os
from types import SimpleNamespace

import numpy as np
from gemmlab import emulator
from gemmlab.emulator import asarray, zeros

__version__ = "14.2.0"
cuda = SimpleNamespace(
    Device=emulator.cuda.Device,
    nvrtc=SimpleNamespace(getVersion=lambda: (13, 0)),
    runtime=SimpleNamespace(
        driverGetVersion=lambda: 13000, runtimeGetVersion=lambda: 13000, getDeviceCount=lambda: 1, getDevice=lambda: 0,
        getDeviceProperties=lambda device: {"name": b"a stand-in"}, deviceGetPCIBusId=lambda device: "0000:00:00.0",
    ),
)
emulator.ndarray.__getitem__ = lambda array, index: emulator.asnumpy(array)[index]


def asnumpy(array):
    values = emulator.asnumpy(array)
    return values + np.float32(0.25) if values.shape == (32,) else values  # case 51


class RawKernel(emulator.RawKernel):
    def __call__(self, *launch, **options):
        if self.name == "row_sums":  # case 21
            os._exit(7)
        super().__call__(*launch, **options)
"""
PROFILER = """#!{python}
import subprocess, sys
if "--version" in sys.argv:
    sys.exit(print("NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion 2025.3.1.0 (build 1) (public-release)"))
options = dict(argument[2:].split("=", 1) for argument in sys.argv[1:] if "=" in argument)
program = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
log = open(options["log-file"], "w")
if {lacking!r} in options["metrics"].split(","):
    sys.exit(print("==ERROR== Failed to find metric", {lacking!r}, file=log))
done = subprocess.run(program)
log.write({csv!r})
sys.exit(done.returncode)
"""
COUNTED = "\n".join(
    (
        COLUMNS,
        csv_row(0, "spread", "(32, 1, 1)", "(1, 1, 1)", SHARED_LD, "3"),
        csv_row(0, "spread", "(32, 1, 1)", "(1, 1, 1)", SHARED_LD_WAVEFRONTS, "3"),
        csv_row(1, "gemm", "(16, 16, 1)", "(1, 1, 1)", SHARED_LD, "999"),
    )
)


@pytest.fixture
def stand_ins(tmp_path, monkeypatch):
    """A CuPy that is the emulator but for two cases, and the path of a profiler that knows two kernels."""
    (tmp_path / "cupy.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), str(ROOT))))
    profiler = tmp_path / "ncu"
    lacking = "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum"
    profiler.write_text(PROFILER.format(python=sys.executable, lacking=lacking, csv=COUNTED))
    profiler.chmod(0o755)
    return profiler


def named(*numbers):
    return [case for case in cases("sm_90") if case.name[:2] in numbers]


def test_a_kernel_that_takes_its_process_down_costs_no_other_its_answer(stand_ins, tmp_path):
    chosen = named("11", "21", "57")
    seen = fidelity_gpu.launch(chosen, "sm_90", tmp_path)
    assert [seen[case.name].outcome for case in chosen] == ["compiled", "refused", "ran"]
    assert "status 7" in seen[chosen[1].name].message
    assert seen[chosen[2].name].output.tolist() == [[6.0]]  # 2 * 3


def test_a_launch_that_a_backend_refuses_keeps_its_registers():
    (case,) = named("17")
    seen = observe(case, emulator)
    assert (seen.outcome, seen.registers, seen.output) == ("refused", 96, None)
    assert "98304 > 65536" in seen.message


def check(*arguments):
    command = [sys.executable, str(ROOT / "benchmarks" / "fidelity.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_whole_check_finds_what_the_stand_ins_do_otherwise(stand_ins, tmp_path):
    record = tmp_path / "record.json"
    done = check(f"--ncu={stand_ins}", "--json", record, "11_", "21_", "51_", "57_", "65_")
    assert done.returncode == 1, done.stderr
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert "not launched" in lines["11_misaligned_float4_global"]
    assert "ran != refused" in lines["21_padding_declared_not_used"]
    assert "32 of 32 differ by at most 0.25" in lines["51_ok_broadcast_reads"]
    assert lines["51_ok_broadcast_reads"].endswith("2 of 2 equal")
    # 16 steps of k read two values each, in 8 warps
    assert lines["57_ok_k1_m1_n1"].endswith("0 of 1 equal; shared ld requests 256 != 999")
    assert "equal bits" in lines["65_ok_empty_commit_groups"]
    saved = json.loads(record.read_text(encoding="utf-8"))
    assert saved["environment"]["card"] == "a stand-in"
    assert saved["environment"]["conditions"]["nsight_compute"] == "2025.3.1.0"
    assert [kernel["differing"] for kernel in saved["kernels"]] == [None, None, 32, 0, 0]


def test_without_a_gpu_the_check_says_what_is_missing_and_what_it_can_do(tmp_path, monkeypatch):
    (tmp_path / "cupy.py").write_text("raise ModuleNotFoundError(\"No module named 'cupy'\", name='cupy')")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), str(ROOT))))
    done = check("57_")
    assert done.returncode == 2
    assert "CuPy is not installed" in done.stderr and "--dry-run" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_dry_run_shows_the_emulators_half():
    done = check("--dry-run", "57_")
    assert done.returncode == 0, done.stderr
    assert "57_ok_k1_m1_n1  ran     32" in done.stdout and "no GPU's half" in done.stdout
