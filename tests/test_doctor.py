import importlib.metadata
import json
import platform
import re
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
from fake_cupy import fake_cupy, install_broken_cupy, raising

from gemmlab import backend, doctor, emulator, nvrtc
from gemmlab.__main__ import main

UNPRIVILEGED = "Name:\tpython\nCapEff:\t0000000000000000\n"
ADMINISTRATOR = "Name:\tpython\nCapEff:\t0000000000200000\n"  # bit 21, CAP_SYS_ADMIN (capability.h)


@pytest.fixture
def no_driver(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda program: None)


@pytest.fixture
def nvidia_smi(monkeypatch):
    """Return a function that makes nvidia-smi answer with given text and exit status."""

    def answer(text: str, status: int = 0):
        monkeypatch.setattr(shutil, "which", lambda program: f"/bin/{program}")
        done = subprocess.CompletedProcess(["nvidia-smi"], status, stdout=text, stderr="")
        monkeypatch.setattr(subprocess, "run", lambda *command, **options: done)

    return answer


@pytest.fixture
def h200(nvidia_smi):
    nvidia_smi("NVIDIA H200, 9.0, 580.159.04\n")


@pytest.fixture
def counters(monkeypatch, tmp_path):
    """Return a function that writes what the driver and the kernel say of this process's rights."""

    def write(parameters: str, status: str):
        for name, text in (("DRIVER_PARAMETERS", parameters), ("PROCESS_STATUS", status)):
            (tmp_path / name).write_text(text)
            monkeypatch.setattr(doctor, name, tmp_path / name)

    return write


def install(monkeypatch, *names: str):
    """Make these the installed distributions."""
    found = [SimpleNamespace(metadata={"Name": name}) for name in names]
    monkeypatch.setattr(importlib.metadata, "distributions", lambda: found)


def use(monkeypatch, cupy, *wheels: str):
    install(monkeypatch, "numpy", *wheels)
    monkeypatch.setitem(sys.modules, "cupy", cupy)


def test_a_python_within_the_bound_is_ok(monkeypatch):
    monkeypatch.setattr(platform, "python_version", lambda: "3.14.0rc1")
    assert doctor.check_python() == doctor.Check("Python", True, "3.14.0rc1")


def test_a_python_that_is_too_old_fails(monkeypatch):
    monkeypatch.setattr(platform, "python_version", lambda: "3.10.12")
    check = doctor.check_python()
    assert (check.ok, check.detail) == (False, "3.10.12, but gemmlab needs >=3.11")
    assert "make lab PYTHON=python3.12" in check.cure


def test_packages_within_their_bounds_are_ok_and_extras_are_not_asked_for(monkeypatch):
    needs = ["numpy>=2.0,<3", "tqdm>=4.66,<5; sys_platform != 'nowhere'", "cupy-cuda13x<15,>=14; extra == 'cuda13'"]
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: needs)
    monkeypatch.setattr(importlib.metadata, "version", {"numpy": "2.4.6", "tqdm": "4.70.1"}.__getitem__)
    assert doctor.check_packages() == doctor.Check("packages", True, "2, all within their bounds")


def test_packages_outside_their_bounds_or_missing_fail_with_the_command_that_cures_them(monkeypatch):
    def version(name):
        if name == "tqdm":
            raise importlib.metadata.PackageNotFoundError(name)
        return "1.26.4"

    monkeypatch.setattr(importlib.metadata, "requires", lambda name: ["numpy<3,>=2.0", "tqdm<5,>=4.66"])
    monkeypatch.setattr(importlib.metadata, "version", version)
    check = doctor.check_packages()
    assert not check.ok
    assert check.detail == "numpy is 1.26.4, outside <3,>=2.0; tqdm is missing"
    assert check.cure == "pip install 'numpy<3,>=2.0' 'tqdm<5,>=4.66'"


@pytest.fixture
def broken_widgets(monkeypatch, tmp_path):
    """An ipywidgets that is installed, as its metadata say, and does not import."""
    (tmp_path / "ipywidgets.py").write_text("raise ImportError('comm is too old\\nand more')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "ipywidgets", raising=False)


def test_packages_that_import_are_ok():
    assert doctor.check_imports().ok


def test_a_package_that_does_not_import_fails_and_is_to_be_installed_again(monkeypatch, tmp_path, broken_widgets):
    monkeypatch.setattr(doctor, "_ENVIRONMENT", tmp_path / "none")
    assert doctor.check_imports() == doctor.Check(
        "imports",
        False,
        "ipywidgets does not import: comm is too old",
        "pip install --force-reinstall ipywidgets",
    )


def test_the_command_fails_where_notebooks_cannot_import_what_they_need(monkeypatch, capsys, no_driver, broken_widgets):
    use(monkeypatch, None)
    assert main(["doctor"]) == 1
    printed = capsys.readouterr().out
    assert "[OK]   packages" in printed and "[OK]   backend" in printed and "[FAIL] imports" in printed


def test_nvrtc_that_compiles_is_ok():
    check = doctor.check_nvrtc()
    assert check.ok, check
    assert re.fullmatch(r"\d+\.\d+, and it compiles", check.detail)


def test_nvrtc_that_does_not_load_fails(monkeypatch):
    def compile_ptx(source):
        raise nvrtc.CompilerUnavailable("NVRTC cannot be loaded (no libnvrtc.so.13)")

    monkeypatch.setattr(nvrtc, "compile_ptx", compile_ptx)
    check = doctor.check_nvrtc()
    assert (check.ok, check.detail) == (False, "NVRTC cannot be loaded (no libnvrtc.so.13)")
    assert "pip install cuda-bindings nvidia-cuda-nvrtc" in check.cure


def test_an_emulator_that_computes_is_ok():
    assert doctor.check_emulator() == doctor.Check("emulator", True, "its kernels run")


def test_an_emulator_that_computes_nothing_fails(monkeypatch):
    monkeypatch.setattr(emulator, "RawKernel", lambda source, name: lambda grid, block, arguments: None)
    (check,) = (check for check in doctor.examine() if check.name == "emulator")
    assert (check.ok, check.detail) == (
        False,
        "RuntimeError: a kernel for 2x + 1 of 0, 1, 2, 3, 4 gave [0.0, 0.0, 0.0, 0.0, 0.0]",
    )
    assert "pip install" in check.cure


def test_no_cupy_is_ok_where_there_is_no_nvidia_driver(monkeypatch, no_driver):
    use(monkeypatch, None)
    assert doctor.check_cupy() == doctor.Check("CuPy", True, "not installed, and none is needed without an NVIDIA GPU")


def test_no_cupy_fails_where_there_is_an_nvidia_driver(monkeypatch, h200):
    use(monkeypatch, None)
    check = doctor.check_cupy()
    assert (check.ok, check.detail) == (False, "CuPy is not installed")
    assert "pip install 'cupy-cuda13x[ctk]'" in check.cure


def test_a_cupy_whose_kernels_run_is_ok(monkeypatch, h200):
    use(monkeypatch, fake_cupy(), "cupy-cuda13x")
    assert doctor.check_cupy() == doctor.Check("CuPy", True, "14.2.0, and its kernels run")


def test_two_cupy_wheels_at_once_fail_even_when_kernels_run(monkeypatch, h200):
    use(monkeypatch, fake_cupy(), "cupy-cuda12x", "cupy-cuda13x")
    check = doctor.check_cupy()
    assert not check.ok
    assert "2 are installed" in check.detail
    assert check.cure.startswith("pip uninstall cupy-cuda12x cupy-cuda13x")


def test_packages_that_only_begin_like_cupy_are_not_a_second_one(monkeypatch, h200):
    use(monkeypatch, fake_cupy(), "cupy-cuda13x", "cupy-xarray", "cupyx-stubs")
    assert doctor.check_cupy().ok


@pytest.mark.parametrize(
    "state, detail, cure",
    [
        (
            dict(driver=12040),
            "CuPy is built for CUDA 13.2, but the driver runs CUDA 12.4",
            "Install a driver of CUDA 13",
        ),
        (dict(devices=raising("cudaErrorNoDevice: none")), "CuPy finds no CUDA device", "CUDA_VISIBLE_DEVICES"),
        (dict(driver=0), "there is no NVIDIA driver", "install its driver"),
    ],
    ids=["toolkit newer than the driver", "no device", "no driver"],
)
def test_a_cupy_that_cannot_run_fails(monkeypatch, h200, state, detail, cure):
    use(monkeypatch, fake_cupy(**state), "cupy-cuda13x")
    check = doctor.check_cupy()
    assert not check.ok
    assert detail in check.detail
    assert cure in check.cure


def test_a_cupy_that_does_not_import_fails(monkeypatch, tmp_path, h200):
    install(monkeypatch, "cupy-cuda13x")
    install_broken_cupy(tmp_path, monkeypatch)
    check = doctor.check_cupy()
    assert not check.ok
    assert "wrong ELF class" in check.detail
    assert "Uninstall every CuPy wheel" in check.cure


def test_a_gpu_that_nvrtc_compiles_for_is_ok(h200):
    assert doctor.check_gpu() == doctor.Check("GPU", True, "NVIDIA H200, sm_90, driver 580.159.04")


def test_further_gpus_are_counted(nvidia_smi):
    nvidia_smi("NVIDIA H200, 9.0, 580.159.04\n" * 3)
    assert doctor.check_gpu().detail == "NVIDIA H200, sm_90, driver 580.159.04, and 2 more"


def test_a_card_may_have_a_comma_in_its_name(nvidia_smi):
    nvidia_smi("Card, made up, 12.0, 580.159.04\n")
    assert doctor.list_cards() == (doctor.Card("Card, made up", "sm_120", "580.159.04"),)


def test_a_driver_that_does_not_answer_fails(monkeypatch, h200):
    def hang(command, **options):
        raise subprocess.TimeoutExpired(command, options["timeout"])

    monkeypatch.setattr(subprocess, "run", hang)
    check = doctor.check_gpu()
    assert (check.ok, check.detail) == (False, "nvidia-smi: it has not answered for 60 s")


def test_no_gpu_is_ok(no_driver):
    check = doctor.check_gpu()
    assert check.ok
    assert "the emulator runs every notebook" in check.detail


def test_a_gpu_too_old_for_nvrtc_fails(nvidia_smi):
    nvidia_smi("Tesla K80, 3.7, 470.256.02\n")
    check = doctor.check_gpu()
    assert not check.ok
    assert check.detail.startswith("Tesla K80, sm_37, driver 470.256.02, but NVRTC ")
    assert "GEMMLAB_BACKEND=emulator" in check.cure


@pytest.mark.parametrize(
    "text, status, detail",
    [
        (
            "NVIDIA-SMI has failed: it could not communicate with the driver.\n",
            9,
            "could not communicate with the driver",
        ),
        ("", 0, "it lists no GPU"),
        ("mkdir: no space\nno GPU here\n", 0, "nvidia-smi: mkdir: no space no GPU here"),
        ("NVIDIA H200, [N/A], 580.159.04\n", 0, "nvidia-smi: NVIDIA H200, [N/A], 580.159.04"),
    ],
)
def test_a_driver_that_lists_no_gpu_fails(nvidia_smi, text, status, detail):
    nvidia_smi(text, status)
    check = doctor.check_gpu()
    assert not check.ok
    assert detail in check.detail
    assert "Restart the machine" in check.cure


def test_counters_that_everyone_may_read_are_ok(h200, counters):
    counters("RmProfilingAdminOnly: 0\n", UNPRIVILEGED)
    assert doctor.check_profiler().ok


def test_counters_kept_for_an_administrator_are_ok_for_one(h200, counters):
    counters("RmProfilingAdminOnly: 1\n", ADMINISTRATOR)
    assert doctor.check_profiler().ok


def test_counters_kept_for_an_administrator_fail_for_others(h200, counters):
    counters("ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 1\n", UNPRIVILEGED)
    check = doctor.check_profiler()
    assert not check.ok
    assert "NVreg_RestrictProfilingToAdminUsers=0" in check.cure


def test_without_a_gpu_there_is_no_permission_to_ask_for(no_driver, counters):
    counters("RmProfilingAdminOnly: 1\n", UNPRIVILEGED)
    assert doctor.check_profiler().ok


def test_the_backend_line_says_which_one_and_why(monkeypatch):
    monkeypatch.delenv(backend.VARIABLE, raising=False)
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert doctor.check_backend() == doctor.Check("backend", True, "emulator: CuPy is not installed")


@pytest.mark.parametrize(
    "requested, detail", [("cuda", "CuPy is not installed"), ("gpu", "must be one of emulator, cuda")]
)
def test_a_forced_backend_that_cannot_be_had_fails(monkeypatch, requested, detail):
    monkeypatch.setenv(backend.VARIABLE, requested)
    monkeypatch.setitem(sys.modules, "cupy", None)
    check = doctor.check_backend()
    assert not check.ok
    assert detail in check.detail
    assert "Unset GEMMLAB_BACKEND" in check.cure


def test_a_check_that_cannot_even_be_made_fails_and_the_others_are_still_made(monkeypatch, tmp_path):
    def requires(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", requires)
    monkeypatch.setattr(doctor, "_ENVIRONMENT", tmp_path / "none")
    checks = doctor.examine()
    assert [check.name for check in checks] == list(doctor.CHECKS)
    (packages,) = (check for check in checks if check.name == "packages")
    assert not packages.ok
    assert packages.cure == "Install gemmlab again, with all that it needs: pip install --editable ."


def test_the_report_has_a_line_a_check_and_a_cure_under_each_failure():
    checks = (doctor.Check("GPU", True, "none"), doctor.Check("backend", False, "no NVRTC", "pip install it"))
    assert doctor.report(checks).splitlines() == [
        "[OK]   GPU      none",
        "[FAIL] backend  no NVRTC",
        "                cure: pip install it",
    ]


def test_the_command_succeeds_on_the_emulator_alone(monkeypatch, capsys, no_driver):
    monkeypatch.delenv(backend.VARIABLE, raising=False)
    use(monkeypatch, None)
    assert main(["doctor", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["ok"] is True
    assert [check["name"] for check in printed["checks"]] == list(doctor.CHECKS)
    assert all(set(check) == {"name", "ok", "detail", "cure"} for check in printed["checks"])


def test_the_command_succeeds_when_cuda_fails_and_the_emulator_runs(monkeypatch, capsys, h200):
    monkeypatch.delenv(backend.VARIABLE, raising=False)
    use(monkeypatch, fake_cupy(driver=12040), "cupy-cuda13x")
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "[FAIL] CuPy" in printed
    assert "[OK]   backend   emulator: CuPy is built for CUDA 13.2" in printed


def test_the_command_fails_when_neither_backend_runs(monkeypatch, capsys, no_driver):
    monkeypatch.delenv(backend.VARIABLE, raising=False)
    use(monkeypatch, None)
    monkeypatch.setattr(emulator, "RawKernel", raising("no NVRTC"))
    assert main(["doctor"]) == 1
    assert "[FAIL] backend   none: CuPy is not installed, and the emulator does not run" in capsys.readouterr().out


def test_a_python_beside_the_one_that_make_set_up_is_told_which_to_use(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "_ENVIRONMENT", tmp_path)
    assert "source .venv/bin/activate" in doctor.missing_cure() and sys.executable in doctor.missing_cure()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert doctor.missing_cure().endswith("pip install --editable .")


def test_a_command_without_its_packages_says_what_to_do_and_not_a_traceback(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert main(["climb", "--rungs", "0"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("gemmlab: there is no module 'tqdm' here. ")


def test_a_command_whose_packages_do_not_import_says_which_and_not_a_traceback(monkeypatch, tmp_path, capsys):
    (tmp_path / "tqdm.py").write_text("raise ImportError('colorama is broken\\nand more')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tqdm", raising=False)
    assert main(["climb", "--rungs", "0"]) == 1
    said = capsys.readouterr().err
    assert said == "gemmlab: a package does not import: colorama is broken. Ask the doctor: make doctor\n"
