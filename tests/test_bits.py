"""The emulator's results against the bits that a GPU wrote, from the shipped records."""

import hashlib

import pytest

from gemmlab import emulator, records
from gemmlab.gemm import Gemm, inputs
from gemmlab.ladder import arguments, rung
from gemmlab.tolerance import initial_output

SMALL = 300**3
MEASURED = [
    (record, row)
    for record in records.shipped()
    for row in record.rungs
    if row["shape"][0] * row["shape"][1] * row["shape"][2] <= SMALL
]


def test_a_gpu_s_bits_are_on_record():
    assert {row["name"] for _, row in MEASURED} >= {"naive", "coalesced"}


@pytest.mark.parametrize(("record", "row"), MEASURED, ids=lambda value: getattr(value, "label", None) or value["name"])
def test_the_emulator_writes_the_bits_that_the_gpu_wrote(record, row):
    problem = Gemm(*row["shape"])
    A, B, C = inputs(problem, record.conditions["family"], record.conditions["seed"])
    each = rung(row["name"])
    kernel = emulator.RawKernel(each.source(), each.entry, each.options(row["tile"]))
    grid, block, shared_mem = each.geometry(problem, row["tile"])
    device = [emulator.asarray(x) for x in (A, B, initial_output(problem, C))]
    kernel(grid, block, arguments(problem, *device), shared_mem=shared_mem)
    assert hashlib.sha256(emulator.asnumpy(device[2]).tobytes()).hexdigest() == row["sha256"]
