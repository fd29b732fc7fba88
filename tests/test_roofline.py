"""The formulas, against numbers worked by hand and the published examples."""

import pytest

from gemmlab import roofline
from gemmlab.gemm import Gemm

N1024 = Gemm(1024, 1024, 1024)
PEAK, BANDWIDTH = 60e12, 1000e9


def test_the_exact_count_leaves_out_one_addition_an_output():
    assert roofline.exact_flops(Gemm(M=3, N=4, K=5)) == 3 * 4 * (5 + 4)


def test_tiles_execute_their_whole_extent_at_the_edges():
    assert roofline.padded_flops(Gemm(M=65, N=128, K=17), BM=64, BN=128, BK=16) == 2 * 128 * 128 * 32
    assert roofline.padded_flops(Gemm(M=64, N=128, K=16), BM=64, BN=128, BK=16) == Gemm(M=64, N=128, K=16).flops
    with pytest.raises(ValueError, match="BK is 0"):
        roofline.padded_flops(Gemm(1, 1, 1), 1, 1, 0)


def test_the_direct_kernel_requests_each_operand_once_a_product():
    requested = roofline.requests(Gemm(M=3, N=4, K=5))
    assert (requested.A, requested.B, requested.C) == (60, 60, 12)
    assert requested.elements == 132
    assert requested.bytes == 528


def test_reading_C_for_beta_doubles_its_requests():
    assert roofline.requests(Gemm(M=3, N=4, K=5, beta=1.0)).C == 2 * 12


@pytest.mark.parametrize("K", [1, 10, 1000])
def test_the_direct_kernels_intensity_is_2K_minus_1_over_4_times_2K_plus_1(K):
    problem = Gemm(M=7, N=9, K=K)
    intensity = roofline.intensity(roofline.exact_flops(problem), roofline.requests(problem).bytes)
    assert intensity == pytest.approx((2 * K - 1) / (4 * (2 * K + 1)), rel=1e-15)


def test_the_direct_kernels_intensity_approaches_a_quarter():
    problem = Gemm(M=1, N=1, K=10**6)
    intensity = roofline.intensity(roofline.exact_flops(problem), roofline.requests(problem).bytes)
    assert intensity == pytest.approx(0.25, rel=2e-6)


def test_the_roofline_reader_at_1024_with_tiles_of_16():
    requested = roofline.requests(N1024, BM=16, BN=16)
    bound = roofline.bound(N1024.flops, requested.bytes, PEAK, BANDWIDTH)
    assert round(roofline.intensity(N1024.flops, requested.bytes), 3) == 3.969
    assert round(requested.bytes / 1e9, 3) == 0.541
    assert roofline.shared_bytes(16, 16, 16) / 1024 == 2.000
    assert round(bound.memory * 1e3, 4) == 0.5411
    assert round(bound.compute * 1e3, 4) == 0.0358
    assert bound.seconds == bound.memory
    assert bound.limited_by == "memory"


def test_a_tile_of_one_is_the_direct_kernel_and_the_tile_model_is_4_times_2_N_cubed_over_T_plus_N_squared():
    assert roofline.requests(N1024) == roofline.requests(N1024, BM=1, BN=1)
    assert roofline.requests(N1024).bytes == 4 * (2 * 1024**3 + 1024**2)
    assert roofline.requests(N1024, BM=32, BN=32).bytes == 4 * (2 * 1024**3 // 32 + 1024**2)


def test_a_wide_tile_saves_reads_of_A_and_a_tall_one_reads_of_B():
    requested = roofline.requests(Gemm(M=64, N=64, K=8), BM=16, BN=32)
    assert (requested.A, requested.B) == (64 * 8 * 2, 8 * 64 * 4)


def test_a_tile_that_does_not_divide_the_shape_reads_once_more():
    requested = roofline.requests(Gemm(M=17, N=19, K=23), BM=16, BN=16)
    assert (requested.A, requested.B) == (17 * 23 * 2, 23 * 19 * 2)


def test_reading_each_operand_once_gives_an_intensity_of_n_over_6():
    problem = Gemm(4092, 4092, 4092)
    requested = roofline.requests(problem, BM=4092, BN=4092)
    assert roofline.intensity(problem.flops, requested.bytes) == 682


def test_a_tile_below_one_is_refused():
    with pytest.raises(ValueError, match="BN is 0, but must be at least 1"):
        roofline.requests(N1024, BM=16, BN=0)


def test_shared_tiles_of_32_take_8_T_squared_bytes():
    assert roofline.shared_bytes(32, 32, 32) == 8 * 32**2


@pytest.mark.parametrize(
    ("TM", "TN", "loads"), [(1, 1, 2), (4, 1, 5 / 4), (8, 1, 9 / 8), (2, 2, 4 / 4), (8, 8, 16 / 64), (4, 16, 20 / 64)]
)
def test_TM_plus_TN_shared_loads_feed_TM_times_TN_multiply_adds(TM, TN, loads):
    assert roofline.shared_loads_per_fma(TM, TN) == roofline.shared_loads_per_fma(TN, TM) == loads


def test_a_thread_without_outputs_is_refused():
    with pytest.raises(ValueError, match="TN is 0, but must be at least 1"):
        roofline.shared_loads_per_fma(8, 0)


def test_sectors_carry_32_bytes_each():
    # A naive step of k moves 32 sectors of A and one of B, a coalesced one 1 and 4.
    assert roofline.moved_bytes(32 + 1) == 1056
    assert roofline.moved_bytes(1 + 4) == 160


def test_the_ridge_is_where_both_roofs_give_the_same():
    ridge = roofline.ridge(38.7e12, 768e9)  # RTX A6000
    assert round(ridge) == 50
    assert roofline.attainable(ridge, 38.7e12, 768e9) == pytest.approx(38.7e12)


@pytest.mark.parametrize(("intensity", "attainable"), [(0.25, 0.25e12), (59, 59e12), (61, 60e12)])
def test_below_the_ridge_bandwidth_limits_and_above_it_the_peak(intensity, attainable):
    assert roofline.attainable(intensity, PEAK, BANDWIDTH) == pytest.approx(attainable)


def test_one_kernel_can_be_bound_differently_at_each_level():
    found = roofline.bounds(6e12, PEAK, {"DRAM": 1e9, "shared": 1e12}, {"DRAM": 1e12, "shared": 5e12})
    assert {level: bound.limited_by for level, bound in found.items()} == {"DRAM": "compute", "shared": "memory"}
    assert found["DRAM"].seconds == pytest.approx(0.1)
    assert found["shared"].seconds == pytest.approx(0.2)


def test_a_level_without_a_bandwidth_is_refused_by_name():
    with pytest.raises(ValueError, match="no bandwidth is given for L2; given: DRAM"):
        roofline.bounds(1.0, PEAK, {"L2": 1.0}, {"DRAM": 1e12})


def test_speed_is_work_over_time():
    # cuBLAS at 4096^3 on an H200: 51.0 TFLOP/s is 2.695 ms.
    assert roofline.throughput(Gemm(4096, 4096, 4096).flops, 2.695) / 1e12 == pytest.approx(51.0, rel=1e-3)


def test_blocks_fill_multiprocessors_as_far_as_the_fullest_one_allows():
    assert roofline.busy(132, 132) == roofline.busy(264, 132) == 1
    assert roofline.busy(64, 132) == 64 / 132
    assert roofline.busy(133, 132) == 133 / 264


def test_a_clock_is_the_peak_over_two_flops_a_lane():
    # H200: 132 multiprocessors x 128 lanes x 2 x 1.98 GHz = 66.9 TFLOP/s
    assert roofline.clock(66.9e12, 132, 128) == pytest.approx(1.98e9, rel=1e-3)


def test_half_as_busy_takes_twice_as_long():
    assert roofline.least_time(10, 5) == 2
    assert roofline.least_time(10, 5, busy=0.5) == 4


def test_the_reader_gives_its_worked_example_exactly():
    reading = roofline.read(N1024, 16, BANDWIDTH, PEAK)
    assert reading.requested.bytes == 4 * (2 * 1024**3 // 16 + 1024**2)
    assert (round(reading.intensity, 3), reading.shared_bytes, reading.ridge) == (3.969, 2048, 60)
    assert (round(reading.bound.memory * 1e3, 4), round(reading.bound.compute * 1e3, 4)) == (0.5411, 0.0358)
    assert reading.speed == pytest.approx(2 * 1024**3 / 0.5411e-3, rel=1e-4)


def test_a_share_of_a_yardstick_is_in_percent():
    assert roofline.percent_of(21_779, 23_250) == pytest.approx(93.67, abs=0.01)  # Boehm's warp tiles beside cuBLAS


@pytest.mark.parametrize(
    ("l2_bytes", "beta", "flushed", "crossing"),
    [
        (0, 0.0, False, 4 * 3 * 64**2),  # A, B and C once
        (4 * 64**2, 0.0, False, 4 * 2 * 64**2),  # one of them stays
        (4 * 3 * 64**2, 0.0, False, 0),
        (0, 1.0, False, 4 * 4 * 64**2),  # C is read too
        (4 * 64**2, 1.0, False, 4 * 2 * 64**2),  # C stays, which saves both
        (4 * 3 * 64**2, 1.0, False, 0),
        (0, 0.0, True, 4 * 3 * 64**2),
        (4 * 3 * 64**2, 0.0, True, 4 * 2 * 64**2),  # C may stay as the launch ends
    ],
)
def test_what_l2_keeps_between_launches_does_not_cross_dram(l2_bytes, beta, flushed, crossing):
    assert roofline.dram_bytes(Gemm(64, 64, 64, beta=beta), l2_bytes, flushed) == crossing
