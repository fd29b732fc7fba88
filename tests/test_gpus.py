import pytest

from gemmlab import gpus, nvrtc

KIB = 1024


# CUDA Programming Guide 13, appendix "Compute Capabilities": resident threads, resident blocks, shared KiB of a
# multiprocessor, shared KiB of one block with the opt-in.
@pytest.mark.parametrize(
    ("name", "threads", "blocks", "shared_kib", "optin_kib"),
    [
        ("sm_75", 1024, 16, 64, 64),
        ("sm_80", 2048, 32, 164, 163),
        ("sm_86", 1536, 16, 100, 99),
        ("sm_87", 1536, 16, 164, 163),
        ("sm_89", 1536, 24, 100, 99),
        ("sm_90", 2048, 32, 228, 227),
        ("sm_100", 2048, 32, 228, 227),
        ("sm_103", 2048, 32, 228, 227),
        ("sm_120", 1536, 24, 100, 99),
    ],
)
def test_limits_are_those_of_the_programming_guide(name, threads, blocks, shared_kib, optin_kib):
    limits = gpus.architecture(name)
    assert limits.name == name
    assert limits.max_threads_per_multiprocessor == threads
    assert limits.max_blocks_per_multiprocessor == blocks
    assert limits.shared_bytes_per_multiprocessor == shared_kib * KIB
    assert limits.shared_bytes_per_block_optin == optin_kib * KIB


# The same table, rows that are equal for every capability since 7.5.
@pytest.mark.parametrize("limits", gpus.ARCHITECTURES.values(), ids=gpus.ARCHITECTURES)
def test_limits_that_all_architectures_share(limits):
    assert limits.max_threads_per_block == 1024
    assert limits.max_block == (1024, 1024, 64)
    assert limits.max_grid == (2147483647, 65535, 65535)
    assert limits.registers_per_multiprocessor == 65536
    assert limits.registers_per_block == 65536
    assert limits.max_registers_per_thread == 255
    assert limits.shared_bytes_per_block == 49152
    assert limits.warp_size == 32
    assert limits.shared_bytes_per_cycle == 32 * 4  # banks, bytes of each
    assert limits.source


# cuda_occupancy.h of CUDA 13.0: shared memory in units of 256 bytes up to capability 7, of 128 bytes from 8 on, where
# the driver also reserves 1 KiB a block; registers in units of 256 a warp.
@pytest.mark.parametrize("limits", gpus.ARCHITECTURES.values(), ids=gpus.ARCHITECTURES)
def test_allocation_units_are_those_of_the_occupancy_header(limits):
    before_ampere = limits.name == "sm_75"
    assert limits.shared_allocation_unit == (256 if before_ampere else 128)
    assert limits.reserved_shared_bytes == (0 if before_ampere else 1024)
    assert limits.register_allocation_unit == 256
    assert limits.subpartitions == 4


def test_the_compiler_knows_every_architecture_listed():
    assert set(gpus.ARCHITECTURES) <= set(nvrtc.supported_architectures())


def test_an_unknown_architecture_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"'sm_70'; known: sm_75, sm_80, .*sm_120"):
        gpus.architecture("sm_70")


# FP32 lanes of a multiprocessor (64 on Turing and GA100, 128 on the others) and boost clock in GHz, from the
# architecture white papers; each lane does one FMA, which is 2 FLOPs, a cycle.
@pytest.mark.parametrize(
    ("name", "lanes", "boost_ghz"),
    [
        ("T4", 64, 1.59),
        ("A100 40GB", 64, 1.41),
        ("A100 80GB", 64, 1.41),
        ("RTX A6000", 128, 1.80),
        ("RTX 3090", 128, 1.695),
        ("RTX 4090", 128, 2.52),
        ("H100", 128, 1.98),
        ("H200", 128, 1.98),
        ("B200", 128, 1.965),
    ],
)
def test_published_fp32_is_multiprocessors_times_lanes_times_two_times_clock(name, lanes, boost_ghz):
    card = gpus.gpu(name)
    assert gpus.architecture(card.architecture).fp32_lanes == lanes
    assert card.peak_fp32 == pytest.approx(card.multiprocessors * lanes * 2 * boost_ghz * 1e9, rel=0.01)


# Width of the memory bus in bits and data rate of a pin in Gbit/s, from the same papers.
@pytest.mark.parametrize(
    ("name", "bus_bits", "gbit_per_pin"),
    [
        ("T4", 256, 10.0),
        ("A100 40GB", 5120, 2.43),
        ("A100 80GB", 5120, 3.186),
        ("RTX A6000", 384, 16.0),
        ("RTX 3090", 384, 19.5),
        ("RTX 4090", 384, 21.0),
        ("H100", 5120, 5.238),
        ("B200", 7680, 7.992),
    ],
)
def test_published_bandwidth_is_bus_width_times_pin_rate(name, bus_bits, gbit_per_pin):
    assert gpus.gpu(name).dram_bandwidth == pytest.approx(bus_bits / 8 * gbit_per_pin * 1e9, rel=0.01)


def test_every_card_names_its_source_and_a_known_architecture():
    for card in gpus.GPUS.values():
        assert card.source
        assert card.architecture in gpus.ARCHITECTURES


# Measured on an H200 on 2026-11-29: 61.7 TFLOP/s, 4,180 to 4,280 GB/s of DRAM, 8,100 to 8,160 GB/s of L2, 60 MiB L2.
def test_h200_ceilings_are_the_measured_ones_at_their_high_end():
    h200 = gpus.gpu("H200")
    assert h200.multiprocessors == 132
    assert h200.l2_bytes == 60 * 1024 * 1024
    assert h200.measured.fp32 == 61.7e12
    assert h200.measured.dram_bandwidth == 4280e9
    assert h200.measured.l2_bandwidth == 8160e9
    assert "2026-11-29" in h200.measured.source
    assert "580.159.04" in h200.measured.source


def test_measured_ceilings_stay_below_the_published_ones():
    for card in gpus.GPUS.values():
        if card.measured:
            assert card.measured.fp32 < card.peak_fp32
            assert card.measured.dram_bandwidth < card.dram_bandwidth


def test_only_the_h200_has_measured_ceilings():
    assert [card.name for card in gpus.GPUS.values() if card.measured] == ["H200"]


@pytest.mark.parametrize(
    ("reported", "name"),
    [
        ("NVIDIA H200", "H200"),
        ("Tesla T4", "T4"),
        ("NVIDIA A100-SXM4-40GB", "A100 40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB"),
        ("NVIDIA RTX A6000", "RTX A6000"),
        ("NVIDIA GeForce RTX 3090", "RTX 3090"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA B200", "B200"),
        ("h200", "H200"),
        ("A6000", "RTX A6000"),
    ],
)
def test_a_card_is_found_by_the_name_its_driver_reports(reported, name):
    assert gpus.gpu(reported).name == name


@pytest.mark.parametrize(
    "other_card",
    [
        "NVIDIA H100 PCIe",
        "NVIDIA H200 NVL",
        "NVIDIA A100 80GB PCIe",
        "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "A100",
        "",
    ],
)
def test_a_near_name_is_another_card_and_is_refused(other_card):
    with pytest.raises(ValueError, match=r"known: T4, .*B200"):
        gpus.gpu(other_card)


def test_the_tables_cannot_be_changed():
    with pytest.raises(TypeError):
        gpus.ARCHITECTURES["sm_90"] = None
    with pytest.raises(TypeError):
        gpus.GPUS["H200"] = None
    with pytest.raises(AttributeError):
        gpus.gpu("H200").peak_fp32 = 0.0
