import ctypes
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_cupy import fake_cupy, install_broken_cupy, raising

from gemmlab import backend, emulator

INSUFFICIENT_DRIVER = "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version"
NO_DEVICE = "cudaErrorNoDevice: no CUDA-capable device is detected"

UNUSABLE = {
    "no driver": (
        dict(driver=0, devices=raising(INSUFFICIENT_DRIVER)),
        "there is no NVIDIA driver",
        "install its driver",
    ),
    "driver of CUDA 12, toolkit of 13": (
        dict(driver=12040, toolkit=13020, devices=raising(INSUFFICIENT_DRIVER)),
        "CuPy is built for CUDA 13.2, but the driver runs CUDA 12.4 at most",
        "Install a driver of CUDA 13, or replace CuPy by cupy-cuda12x[ctk]",
    ),
    "driver of CUDA 11, for which CuPy 14 has no wheel": (
        dict(driver=11080, toolkit=12090),
        "CuPy is built for CUDA 12.9, but the driver runs CUDA 11.8 at most",
        "Install a driver of CUDA 12.",
    ),
    "no device": (dict(devices=raising(NO_DEVICE)), NO_DEVICE, "CUDA_VISIBLE_DEVICES"),
    "a count of zero devices": (dict(devices=lambda: 0), "CuPy finds no CUDA device", "CUDA_VISIBLE_DEVICES"),
    "NVRTC not found": (
        dict(compiler=raising("Failure finding libnvrtc.so.13")),
        "libnvrtc.so.13",
        "cupy-cuda13x[ctk]",
    ),
    "NVRTC newer than the driver": (
        dict(driver=12040, toolkit=12090, compiler=lambda: (13, 5)),
        "CuPy compiles with NVRTC 13.5, whose code the driver (CUDA 12.4) does not load",
        "pip install nvidia-cuda-nvrtc-cu12",
    ),
    "a kernel that fails": (dict(run=raising("CUDA_ERROR_INVALID_IMAGE")), "CUDA_ERROR_INVALID_IMAGE", "[ctk]"),
    "a kernel that silently never runs": (dict(run=lambda *launch: None), "a kernel that stores 42 left 0", "[ctk]"),
}


@pytest.fixture
def no_system_nvrtc(monkeypatch):
    def refuse(library):
        raise OSError(f"{library}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", refuse)


def use(monkeypatch, cupy):
    monkeypatch.setitem(sys.modules, "cupy", cupy)


def run_python(code: str, path: Path | str = "", **environment: str) -> subprocess.CompletedProcess:
    clean = {name: value for name, value in os.environ.items() if name != backend.VARIABLE}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=clean | {"PYTHONPATH": str(path)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_gpu_on_which_a_kernel_ran_is_chosen(monkeypatch):
    cupy = fake_cupy()
    use(monkeypatch, cupy)
    chosen = backend.choose()
    assert (chosen.name, chosen.cp) == ("cuda", cupy)
    assert "ran on the GPU" in chosen.reason


def test_a_toolkit_newer_than_the_driver_by_a_minor_version_is_usable(monkeypatch):
    cupy = fake_cupy(driver=13000, toolkit=13020, compiler=lambda: (13, 5))
    use(monkeypatch, cupy)
    assert backend.find_cuda() is cupy


def test_without_cupy_the_emulator_is_chosen_and_says_so(monkeypatch):
    use(monkeypatch, None)
    chosen = backend.choose()
    assert (chosen.name, chosen.cp.__name__) == ("emulator", "gemmlab.emulator")
    assert chosen.reason == "CuPy is not installed"


def test_cuda_requested_without_cupy_names_the_wheel_to_install(monkeypatch):
    use(monkeypatch, None)
    with pytest.raises(backend.CudaUnavailable, match=r"CuPy is not installed\. .*pip install 'cupy-cuda13x\[ctk\]'"):
        backend.choose("cuda")


@pytest.mark.parametrize("state, missing, cure", UNUSABLE.values(), ids=UNUSABLE)
def test_cuda_requested_and_unusable_says_what_is_missing_and_the_cure(
    monkeypatch, no_system_nvrtc, state, missing, cure
):
    use(monkeypatch, fake_cupy(**state))
    with pytest.raises(backend.CudaUnavailable) as caught:
        backend.choose("cuda")
    assert missing in caught.value.missing
    assert cure in str(caught.value)


@pytest.mark.parametrize("state, missing, _cure", UNUSABLE.values(), ids=UNUSABLE)
def test_an_unusable_gpu_leaves_the_emulator_and_its_reason(monkeypatch, no_system_nvrtc, state, missing, _cure):
    use(monkeypatch, fake_cupy(**state))
    chosen = backend.choose()
    assert chosen.name == "emulator"
    assert missing in chosen.reason


def test_a_cupy_that_does_not_import_leaves_the_emulator_and_its_reason(monkeypatch, tmp_path):
    install_broken_cupy(tmp_path, monkeypatch)
    chosen = backend.choose()
    assert chosen.name == "emulator"
    assert chosen.reason == "CuPy is installed and does not import: libcupy.so: wrong ELF class"


def test_the_emulator_requested_does_not_even_import_cupy(tmp_path):
    (tmp_path / "cupy.py").write_text("raise SystemExit('CuPy was imported')\n")
    code = "from gemmlab import backend, cp; print(cp.__name__, backend.name, backend.reason)"
    answer = run_python(code, tmp_path, GEMMLAB_BACKEND="emulator")
    assert answer.stdout.split() == "gemmlab.emulator emulator GEMMLAB_BACKEND=emulator asks for it".split(), (
        answer.stderr
    )


def test_the_environment_variable_cuda_makes_a_missing_gpu_an_error(tmp_path):
    (tmp_path / "cupy.py").write_text("raise ImportError('libcudart.so is missing')\n")
    answer = run_python("from gemmlab import cp", tmp_path, GEMMLAB_BACKEND="cuda")
    assert answer.returncode == 1
    assert "CudaUnavailable: CuPy is installed and does not import: libcudart.so is missing" in answer.stderr


def test_another_name_is_refused_and_both_names_are_given():
    with pytest.raises(ValueError, match="GEMMLAB_BACKEND is 'gpu', but must be one of emulator, cuda, or not set"):
        backend.choose("gpu")


def test_on_a_driver_of_cuda_12_its_nvrtc_is_loaded_before_a_newer_one_can_be(monkeypatch):
    loaded = []
    wheel_file = SimpleNamespace(name="libnvrtc.so.12", locate=lambda: Path("nvidia/lib/libnvrtc.so.12"))
    monkeypatch.setattr(importlib.metadata, "files", lambda name: [wheel_file])
    monkeypatch.setattr(ctypes, "CDLL", loaded.append)
    cupy = fake_cupy(driver=12040, toolkit=12090, compiler=lambda: (12, 9) if loaded else (13, 5))
    use(monkeypatch, cupy)
    assert backend.find_cuda() is cupy
    assert loaded == [str(Path("nvidia/lib/libnvrtc.so.12"))]


def test_the_architecture_of_a_gpu_is_its_compute_capability(monkeypatch):
    monkeypatch.setattr(backend, "_chosen", lambda: backend.Backend("cuda", fake_cupy(), ""))
    assert backend.architecture() == "sm_90"


def test_the_architecture_of_the_emulator_is_the_one_that_it_stands_for(monkeypatch):
    before = emulator.architecture()
    monkeypatch.setattr(backend, "_chosen", lambda: backend.Backend("emulator", emulator, ""))
    try:
        emulator.use_architecture("sm_86")
        assert backend.architecture() == "sm_86"
    finally:
        emulator.use_architecture(before)


def test_importing_gemmlab_imports_no_array_module():
    code = "import sys, gemmlab; print(sorted({'numpy', 'cupy', 'cuda', 'matplotlib'} & set(sys.modules)))"
    assert run_python(code).stdout.strip() == "[]"


def test_an_unknown_name_of_the_package_is_an_attribute_error():
    import gemmlab

    with pytest.raises(AttributeError, match="no attribute 'np'"):
        _ = gemmlab.np
