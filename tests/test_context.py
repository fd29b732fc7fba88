"""What a learner is told after a launch that ended the GPU's context, in a notebook and in a program."""

from types import SimpleNamespace

import pytest
from fake_cupy import ILLEGAL_ADDRESS, breaking_cupy
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from gemmlab import backend, context, emulator

WILD = 'extern "C" __global__ void wild(float* x) { x[1 << 30] = 0.0f; }'


class CUDARuntimeError(RuntimeError):
    """As CuPy's."""


@pytest.fixture(autouse=True)
def no_context_has_ended(monkeypatch):
    monkeypatch.setattr(context, "_ended", [])


@pytest.fixture
def cupy():
    """A CuPy whose context the first launch ends, so that later calls raise its own kind of error."""
    broken = breaking_cupy(at=1)
    copy_home = broken.asnumpy

    def asnumpy(array):
        try:
            return copy_home(array)
        except RuntimeError as error:
            raise CUDARuntimeError(str(error)) from None

    broken.asnumpy = asnumpy
    broken.cuda.runtime.CUDARuntimeError = CUDARuntimeError
    broken.cuda.driver = SimpleNamespace(CUDADriverError=CUDARuntimeError)
    return broken


@pytest.fixture
def shell(cupy, monkeypatch):
    """IPython as a notebook's kernel has it, with CuPy as `cp`."""
    own = InteractiveShell(
        config=Config({"HistoryManager": {"hist_file": ":memory:"}, "InteractiveShell": {"colors": "nocolor"}})
    )
    monkeypatch.setattr("IPython.get_ipython", lambda: own)
    own.push({"cp": cupy, "WILD": WILD})
    context.explain_in_notebook(cupy)
    return own


def test_a_cell_whose_launch_ended_the_context_is_named_with_what_to_do(shell, capsys):
    shell.run_cell("x = cp.asarray([0.0])", store_history=True)
    shell.run_cell("cp.RawKernel(WILD, 'wild')((1,), (1,), (x,))\ncp.asnumpy(x)", store_history=True)
    said = capsys.readouterr().out
    assert ILLEGAL_ADDRESS in said and "cp.asnumpy(x)" in said, "the traceback is shown as ever"
    assert "a launch of cell [2], or one before it, ended this process's CUDA context" in said
    assert "Restart the notebook's kernel (Kernel > Restart Kernel)" in said and "xp=emulator" in said


def test_later_cells_name_the_first_cell_again_and_variables_stay(shell, capsys):
    shell.run_cell("x, kept = cp.asarray([0.0]), 42", store_history=True)
    shell.run_cell("cp.RawKernel(WILD, 'wild')((1,), (1,), (x,))\ncp.asnumpy(x)", store_history=True)
    capsys.readouterr()
    shell.run_cell("cp.asnumpy(x)", store_history=True)
    assert "a launch of cell [2], or one before it, ended" in capsys.readouterr().out
    assert shell.user_ns["kept"] == 42


def test_a_cuda_error_that_the_context_survives_gets_no_advice(shell, cupy, capsys):
    shell.push({"CUDARuntimeError": CUDARuntimeError})
    shell.run_cell("raise CUDARuntimeError('cudaErrorInvalidValue: invalid argument')")
    said = capsys.readouterr().out
    assert "invalid argument" in said and "Restart" not in said


def test_a_cell_with_another_error_shows_its_traceback_alone(shell, capsys):
    shell.run_cell("1 / 0")
    said = capsys.readouterr().out
    assert "ZeroDivisionError" in said and "Restart" not in said


def test_choosing_cuda_tells_the_notebook_and_choosing_the_emulator_does_not(monkeypatch, cupy):
    told = []
    monkeypatch.setattr(context, "explain_in_notebook", told.append)
    for name, module in (("emulator", emulator), ("cuda", cupy)):
        monkeypatch.setattr(
            backend, "choose", lambda _, name=name, module=module: backend.Backend(name, module, "asked")
        )
        backend._chosen.cache_clear()
        assert backend.name == name
    backend._chosen.cache_clear()
    assert told == [cupy]


def test_outside_a_notebook_there_is_nothing_to_tell(monkeypatch, cupy):
    monkeypatch.setattr("IPython.get_ipython", lambda: None)
    context.explain_in_notebook(cupy)
