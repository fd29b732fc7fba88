"""Reading what Nsight Compute prints, in the form that its release 2025.3 has."""

import pytest

from gemmlab.profiling import nsight_compute

LD_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
SHARED_LD = "smsp__inst_executed_op_shared_ld.sum"
COLUMNS = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",'
    '"CC","Section Name","Metric Name","Metric Unit","Metric Value"'
)


def csv_row(number, kernel, block, grid, metric, value):
    return (
        f'"{number}","4242","python3","127.0.0.1","{kernel}","1","7","{block}","{grid}","0","9.0",'
        f'"Command line profiler metrics","{metric}","","{value}"'
    )


LOG = "\n".join(
    (
        "==PROF== Connected to process 4242 (/usr/bin/python3)",
        '==PROF== Profiling "gemm_naive" - 0: 0%....50%....100% - 4 passes',
        "==PROF== Disconnected from process 4242",
        COLUMNS,
        csv_row(0, "gemm_naive", "(32, 4, 1)", "(8, 64, 1)", LD_SECTORS, "17,301,504"),
        csv_row(0, "gemm_naive", "(32, 4, 1)", "(8, 64, 1)", SHARED_LD, "0"),
        csv_row(1, "void fill<float>(float *, int)", "(256, 1, 1)", "(4, 1, 1)", SHARED_LD, "n/a"),
    )
)


def test_csv_gives_each_launch_its_name_extents_and_counts_past_remarks_and_commas():
    naive, fill = nsight_compute.read(LOG)
    assert naive.launch == ("gemm_naive", (8, 64, 1), (32, 4, 1))
    assert naive.counts == {LD_SECTORS: 17_301_504, SHARED_LD: 0}
    assert fill.launch == ("fill<float>", (4, 1, 1), (256, 1, 1))
    assert fill.counts == {SHARED_LD: None}


REPORT = """
  gemm_naive (8, 64, 1)x(32, 4, 1), Context 1, Stream 7, Device 0, CC 9.0
    Warning: Data collection happened without fixed GPU frequencies. Profiling results may be inconsistent.
    Section: Memory Workload Analysis Tables
    OPT   Est. Speedup: 79.91%
          The memory access pattern for global loads from L1TEX might not be optimal.

    Section: Launch Statistics
    -------------------------------- --------------- ---------------
    Metric Name                          Metric Unit    Metric Value
    -------------------------------- --------------- ---------------
    Cluster Scheduling Policy                           PolicySpread
    Registers Per Thread             register/thread              32
    # SMs                                         SM             132
    Threads                                   thread          65,536
    Waves Per SM                                                0.24
    -------------------------------- --------------- ---------------

    OPT   Est. Speedup: 93.94%
          The grid   for this launch
"""


def test_a_report_has_its_figures_by_section_and_name_and_no_advice():
    assert nsight_compute.read_report(REPORT) == {
        "Memory Workload Analysis Tables": {},
        "Launch Statistics": {
            "Cluster Scheduling Policy": "PolicySpread",
            "Registers Per Thread": "32 register/thread",
            "# SMs": "132 SM",
            "Threads": "65,536 thread",
            "Waves Per SM": "0.24",
        },
    }
    assert nsight_compute.read_report("Segmentation fault") == {}


def test_an_excerpt_has_the_figures_that_are_asked_for_and_a_dash_for_what_is_not_there():
    asked = {"Launch Statistics": ("# SMs", "Grid Size"), "Occupancy": ("Achieved Occupancy",)}
    assert nsight_compute.excerpt(REPORT, asked).splitlines() == [
        "Launch Statistics",
        "  # SMs               132 SM",
        "  Grid Size           -",
        "",
        "Occupancy",
        "  Achieved Occupancy  -",
    ]


def test_a_report_of_no_kernel_is_empty():
    assert nsight_compute.read("==PROF== Connected to process 1\n==WARNING== No kernels were profiled.\n") == []


@pytest.mark.parametrize("named", [r"regex:^sm__made_up\.(sum|avg|min|max)$", "sm__made_up.sum"])
def test_a_metric_that_the_gpu_lacks_is_left_out_as_nsight_compute_names_it(named):
    log = f"==PROF== Connected to process 1\n==ERROR== Failed to find metric {named}\n"
    assert nsight_compute.known_metrics({LD_SECTORS, "sm__made_up.sum"}, log) == {LD_SECTORS}
    assert nsight_compute.known_metrics({LD_SECTORS}, "") == {LD_SECTORS}


GEMM, FILL = ("gemm", (1, 1, 1), (16, 16, 1)), ("fill", (1, 1, 1), (32, 1, 1))


def profiled(launch, count):
    return nsight_compute.Profiled(launch, {SHARED_LD: count})


def test_launches_that_look_alike_are_told_apart_by_their_order_and_others_passed_over():
    made = {"first": GEMM, "other": FILL, "second": GEMM}
    reported = [profiled(GEMM, 1), profiled(("memset", (1, 1, 1), (1, 1, 1)), 5), profiled(FILL, 2), profiled(GEMM, 3)]
    found = nsight_compute.assign(made, reported)
    assert {name: one[SHARED_LD] for name, one in found.items()} == {"first": 1, "other": 2, "second": 3}


def test_of_launches_that_look_alike_none_is_given_a_count_when_one_is_missing():
    made = {"first": GEMM, "other": FILL, "second": GEMM}
    assert set(nsight_compute.assign(made, [profiled(GEMM, 1), profiled(FILL, 2)])) == {"other"}
