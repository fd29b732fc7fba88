import math
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from cuda import pathfinder

from gemmlab import gpus
from gemmlab.resources import occupancy


# 100 registers: floor(65536 / 100) = 655 threads before rounding to whole blocks of 256: 2 blocks, 512 of 2048 threads.
def test_hundred_registers_and_256_threads_give_a_quarter():
    result = occupancy("sm_90", threads=256, registers=100, shared_bytes=8192)
    assert 65536 // 100 == 655
    assert (result.blocks, result.warps, result.threads) == (2, 16, 512)
    assert result.fraction == 0.25
    assert result.limited_by == ("registers",)


# 32 x 32 = 1024 registers a warp, 64 warps in 65536; 2048 threads are 2 blocks of 1024.
def test_32_registers_a_thread_fill_a_multiprocessor_of_2048_threads():
    result = occupancy("sm_90", threads=1024, registers=32)
    assert (result.blocks, result.fraction) == (2, 1.0)
    assert result.limited_by == ("threads", "registers")


# 33 x 32 = 1056, in units of 256: 1280. A subpartition's 16384 registers hold 12 such warps, four of them 48: one
# block of 32.
def test_one_register_more_costs_a_whole_block():
    result = occupancy("sm_90", threads=1024, registers=33)
    assert (result.blocks, result.fraction) == (1, 0.5)
    assert result.limited_by == ("registers",)


# 88 x 32 = 2816 registers a warp. 65536 / 2816 would be 23 warps, but each of four subpartitions holds
# floor(16384 / 2816) = 5: 20 warps.
def test_registers_left_over_in_a_subpartition_are_lost():
    result = occupancy("sm_90", threads=32, registers=88)
    assert result.blocks == 20
    assert result.blocks_allowed["registers"] == 20


# sm_90 has 228 KiB = 233472 bytes. 57344 + 1024 reserved = 58368, four times 58368 = 233472 exactly; one byte more
# rounds to 58496, and 233472 / 58496 = 3.99.
def test_each_block_pays_a_reserved_kibibyte_and_whole_allocation_units_of_shared_memory():
    assert occupancy("sm_90", 64, 32, shared_bytes=57344).blocks_allowed["shared memory"] == 4
    one_more = occupancy("sm_90", 64, 32, shared_bytes=57345)
    assert one_more.blocks == 3
    assert one_more.limited_by == ("shared memory",)


# 64 KiB in all, nothing reserved: exactly two blocks of 32 KiB.
def test_turing_reserves_no_shared_memory():
    assert occupancy("sm_75", 256, 32, shared_bytes=32768).blocks_allowed["shared memory"] == 2


def test_blocks_of_one_warp_are_limited_by_the_number_of_blocks():
    result = occupancy("sm_90", threads=32, registers=32)
    assert (result.blocks, result.fraction) == (32, 0.5)
    assert result.limited_by == ("blocks",)


# 1536 / 1024 = 1: a third of the multiprocessor stays empty.
def test_a_block_of_1024_threads_leaves_a_third_of_an_sm_86_empty():
    result = occupancy("sm_86", threads=1024, registers=32, shared_bytes=8192)
    assert result.blocks == 1
    assert result.fraction == pytest.approx(2 / 3)
    assert result.limited_by == ("threads",)


# 100 threads take 4 warps; 64 warps / 4 = 16 blocks, 1600 threads in 64 warps.
def test_a_partly_filled_warp_counts_as_a_warp():
    result = occupancy("sm_90", threads=100, registers=32)
    assert (result.blocks, result.warps, result.threads) == (16, 64, 1600)
    assert result.fraction == 1.0


# What NVIDIA's own cuda_occupancy.h (CUDA 13.0), compiled in C, answered: active blocks and limiting factors.
@pytest.mark.parametrize(
    ("architecture", "threads", "registers", "shared_bytes", "blocks", "limited_by"),
    [
        ("sm_75", 256, 128, 8192, 2, ("registers",)),
        ("sm_75", 96, 40, 3000, 10, ("threads",)),
        ("sm_80", 256, 128, 16384, 2, ("registers",)),
        ("sm_80", 512, 168, 0, 0, ("registers",)),
        ("sm_86", 128, 56, 20480, 4, ("shared memory",)),
        ("sm_86", 1024, 64, 8192, 1, ("threads", "registers")),
        ("sm_87", 64, 24, 50000, 3, ("shared memory",)),
        ("sm_89", 33, 17, 100, 24, ("threads", "blocks")),
        ("sm_89", 192, 80, 33792, 2, ("shared memory",)),
        ("sm_90", 256, 255, 0, 1, ("registers",)),
        ("sm_90", 160, 90, 73728, 3, ("shared memory",)),
        ("sm_90", 128, 168, 100000, 2, ("shared memory",)),
        ("sm_90", 384, 88, 0, 1, ("registers",)),
        ("sm_90", 1024, 65, 0, 0, ("registers",)),
        ("sm_100", 416, 70, 57345, 2, ("registers",)),
        ("sm_103", 32, 200, 1000, 8, ("registers",)),
        ("sm_120", 224, 72, 25600, 3, ("shared memory",)),
        ("sm_120", 1000, 48, 0, 1, ("threads", "registers")),
    ],
)
def test_occupancy_is_what_nvidias_header_computes(architecture, threads, registers, shared_bytes, blocks, limited_by):
    result = occupancy(architecture, threads, registers, shared_bytes)
    assert result.blocks == blocks
    assert result.limited_by == limited_by


# NVIDIA's own worked examples, CUDA C++ Best Practices Guide, "Calculating Occupancy": of compute capability 7.0, whose
# 65,536 registers and 64 warps a multiprocessor sm_80, sm_90 and sm_100 have too. 37 registers a thread.
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize(("threads", "blocks", "percent"), [(128, 12, 75), (320, 4, 63)])
def test_occupancy_is_that_of_nvidias_worked_examples(architecture, threads, blocks, percent):
    result = occupancy(architecture, threads, registers=37)
    assert result.blocks == blocks
    assert math.ceil(100 * result.fraction) == percent


def cuda_occupancy_header() -> Path | None:
    """Where NVIDIA's header is installed, with a C compiler to build it; it comes with CUDA's runtime."""
    folder = pathfinder.find_nvidia_header_directory("cudart")
    header = Path(folder or "") / "cuda_occupancy.h"
    return header if folder and header.is_file() and shutil.which("c++") else None


PROGRAM = """
#include <cstdio>
#include <cuda_occupancy.h>
int main()
{
    int major, minor, threads, registers, per_sm, optin, reserved, most_threads, most_blocks;
    size_t shared;
    while (std::scanf("%d %d %d %d %zu %d %d %d %d %d", &major, &minor, &threads, &registers, &shared, &per_sm, &optin,
                      &reserved, &most_threads, &most_blocks) == 10) {
        cudaOccDeviceProp device;
        device.computeMajor = major; device.computeMinor = minor;
        device.maxThreadsPerBlock = 1024; device.maxThreadsPerMultiprocessor = most_threads;
        device.regsPerBlock = 65536; device.regsPerMultiprocessor = 65536; device.warpSize = 32;
        device.sharedMemPerBlock = 49152; device.sharedMemPerMultiprocessor = per_sm;
        device.numSms = 1; device.sharedMemPerBlockOptin = optin; device.reservedSharedMemPerBlock = reserved;
        cudaOccFuncAttributes kernel;
        kernel.maxThreadsPerBlock = 1024; kernel.numRegs = registers; kernel.sharedSizeBytes = shared;
        kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN; kernel.maxDynamicSharedSizeBytes = 0;
        cudaOccDeviceState state;
        cudaOccResult result;
        cudaOccError error = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads, 0);
        std::printf("%d\\n", error == CUDA_OCC_SUCCESS ? result.activeBlocksPerMultiprocessor : -1);
    }
}
"""


# On a machine with the header, a thousand random settings of every architecture, not only those of the table above.
@pytest.mark.skipif(
    cuda_occupancy_header() is None, reason="NVIDIA's cuda_occupancy.h, or a C++ compiler, is not there"
)
def test_occupancy_is_what_nvidias_header_computes_for_random_settings(tmp_path):
    (tmp_path / "ask.cpp").write_text(PROGRAM)
    program = tmp_path / "ask"
    include = cuda_occupancy_header().parent
    subprocess.run(["c++", "-w", f"-I{include}", str(tmp_path / "ask.cpp"), "-o", str(program)], check=True)
    chance, questions, answers = random.Random(0), [], []
    for name, limits in gpus.ARCHITECTURES.items():
        major, minor = divmod(int(name.removeprefix("sm_")), 10)
        for _ in range(1000):
            threads, registers = chance.randint(1, 1024), chance.randint(16, 255)
            shared = chance.choice((0, chance.randint(1, 49152)))
            questions.append(
                f"{major} {minor} {threads} {registers} {shared} {limits.shared_bytes_per_multiprocessor} "
                f"{limits.shared_bytes_per_block_optin} {limits.reserved_shared_bytes} "
                f"{limits.max_threads_per_multiprocessor} {limits.max_blocks_per_multiprocessor}"
            )
            answers.append(occupancy(name, threads, registers, shared).blocks)
    said = subprocess.run([program], input="\n".join(questions), capture_output=True, text=True, check=True).stdout
    theirs = [int(line) for line in said.split()]
    differing = [(q, a, b) for q, a, b in zip(questions, answers, theirs, strict=True) if a != b]
    assert not differing, f"{len(differing)} of {len(answers)} differ, such as {differing[:3]}"


def test_the_sentence_names_the_occupancy_and_its_limit():
    assert occupancy("sm_90", 256, 100).sentence == (
        "2 blocks of 256 threads on a multiprocessor of sm_90: 16 warps, 25% occupancy, limited by registers."
    )


# 96 x 1024 = 98304 registers of 65536.
@pytest.mark.parametrize(
    ("threads", "registers", "shared_bytes", "limit"),
    [
        (1024, 96, 0, r"98304 in all.*65536 registers"),
        (1, 256, 0, r"256 registers each.*255 a thread"),
        (1025, 16, 0, r"1025 threads.*1024 threads"),
        (256, 32, 232449, r"232449 bytes.*232448 bytes"),
    ],
)
def test_a_block_that_cannot_run_has_no_occupancy_and_says_which_limit_it_breaks(
    threads, registers, shared_bytes, limit
):
    result = occupancy("sm_90", threads, registers, shared_bytes)
    assert (result.blocks, result.fraction) == (0, 0.0)
    assert re.search(limit, result.sentence)


@pytest.mark.parametrize(("threads", "registers", "shared_bytes"), [(0, 32, 0), (256, 0, 0), (256, 32, -1)])
def test_numbers_that_no_kernel_has_are_refused(threads, registers, shared_bytes):
    with pytest.raises(ValueError, match="at least 1 thread"):
        occupancy("sm_90", threads, registers, shared_bytes)


def test_an_unknown_architecture_is_refused():
    with pytest.raises(ValueError, match="sm_70"):
        occupancy("sm_70", 256, 32)
