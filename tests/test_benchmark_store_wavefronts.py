"""The kernels that benchmarks/store_wavefronts.py counts differ in their loads from global memory alone."""

import sys
from pathlib import Path

import pytest

from gemmlab import launch
from gemmlab.gemm import Gemm
from gemmlab.ladder import rung

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))

import store_wavefronts

PROBLEM = Gemm(128, 128, 16)


def counted(kernel, op):
    """Requests, and sectors or wavefronts, of each line with one kind of access."""
    traced = launch.trace(kernel, PROBLEM)
    assert traced.ok
    return [(access.requests, access.units) for access in traced.accesses if access.op == op]


@pytest.mark.parametrize("number", [3, 4])
def test_every_variant_stores_alike_and_loads_what_its_name_says(number):
    kernels = dict(store_wavefronts.variants(rung(number)))
    loads = {name: counted(kernel, "ld.global") for name, kernel in kernels.items()}
    as_it_is, from_l1 = loads["as it is"], loads.pop("loads of what L1 holds")
    assert len(as_it_is) == 2  # of A and of B
    assert loads == {
        "as it is": as_it_is,
        "no global loads": [],
        "loads of A alone": as_it_is[:1],
        "loads of B alone": as_it_is[1:],
        "loads past L1 (ld.cg)": as_it_is,
    }
    assert [requests for requests, _ in from_l1] == [requests for requests, _ in as_it_is]
    stores = [counted(kernel, "st.shared") for kernel in kernels.values()]
    assert stores == stores[:1] * len(kernels) and stores[0]


def test_a_kernel_whose_loads_are_written_otherwise_is_refused():
    with pytest.raises(ValueError, match=r"00_naive\.cu has no loads"):
        dict(store_wavefronts.variants(rung(0)))
