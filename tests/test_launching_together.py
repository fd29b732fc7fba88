"""Launches from several threads, launches that are interrupted, and what goes from one process to another."""

import copy
import pickle
import signal
import sys
import threading
import timeit

import numpy as np
import pytest

from gemmlab import emulator as cp
from gemmlab.emulator.memory import GlobalMemory

# each thread adds its block's 64 values, in an order of its own
SUM = cp.RawKernel(
    """extern "C" __global__ void sum(float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = y[blockIdx.x * 64 + threadIdx.x];
    __syncthreads();
    float a = 0;
    for (int i = 0; i < 64; i++) a += s[(threadIdx.x + i) & 63];
    y[blockIdx.x * 64 + threadIdx.x] = a;
}""",
    "sum",
)


def summed(seed: int, traced: bool) -> bool:
    """Whether one launch with integers of this seed gives each block's sum."""
    values = np.random.default_rng(seed).integers(0, 9, (4, 64)).astype(np.float32)
    y = cp.asarray(values)
    if traced:
        assert cp.trace(SUM, (4,), (64,), (y,)).ok
    else:
        SUM((4,), (64,), (y,))
    return np.array_equal(y.get(), np.repeat(values.sum(axis=1, keepdims=True), 64, axis=1))


def test_threads_may_launch_and_allocate_at_once():
    right = []

    def work(seed):
        for n in range(4):
            right.append(summed(100 * seed + n, traced=seed % 2 == 0))
            [cp.empty(n, np.float32) for n in range(20)]

    threads = [threading.Thread(target=work, args=[seed]) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 12


def test_an_address_is_found_while_others_allocate_and_free():
    memory, found, interval = GlobalMemory(), [], sys.getswitchinterval()

    def churn():
        try:
            for _ in range(1000):
                array = memory.allocate(8, "mine")
                found.append(memory.below(array.base + 4) is array)
        except Exception as error:
            found.append(error)

    threads = [threading.Thread(target=churn) for _ in range(4)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert found == [True] * 4000


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer that signals")
@pytest.mark.parametrize("traced", [False, True])
def test_after_an_interrupt_at_any_moment_the_next_launch_is_right(traced):
    def interrupt(*_):
        raise KeyboardInterrupt

    assert summed(0, traced)
    whole = min(timeit.repeat(lambda: summed(0, traced), number=1))
    before = signal.signal(signal.SIGALRM, interrupt)
    interrupted = 0
    try:
        for moment in range(1, 41):
            try:
                signal.setitimer(signal.ITIMER_REAL, whole * moment / 40)
                summed(moment, traced)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupted += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert summed(moment, not traced)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert interrupted > 1


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda array: pickle.loads(pickle.dumps(array))])
def test_a_copy_of_an_array_has_memory_of_its_own(copied):
    values = np.arange(256, dtype=np.float32).reshape(4, 64)
    array = cp.asarray(values)
    other = copied(array)
    SUM((4,), (64,), (other,))
    np.testing.assert_array_equal(array.get(), values)
    # 64 numbers from 64 b on: 64 * 64 b + 64 * 63 / 2
    np.testing.assert_array_equal(other.get()[:, 0], [64 * 64 * b + 2016 for b in range(4)])


def test_an_error_goes_through_a_pickle_whole():
    with pytest.raises(cp.KernelFault) as fault:
        SUM((1,), (2048,), (cp.zeros(64, np.float32),))
    with pytest.raises(cp.KernelNotFound) as absent:
        cp.RawKernel(SUM.code, "sun").compile()
    with pytest.raises(cp.CompileError) as refused:
        cp.RawKernel("nonsense", "sum").compile()
    again = [pickle.loads(pickle.dumps(error.value)) for error in (fault, absent, refused)]
    assert [str(error) for error in again] == [str(error.value) for error in (fault, absent, refused)]
    assert (again[0].hazard, again[1].kernels, again[2].log) == (fault.value.hazard, ("sum",), refused.value.log)


def test_an_array_without_dimensions_has_no_length():
    with pytest.raises(TypeError, match="without dimensions"):
        len(cp.asarray(np.float32(1)))
