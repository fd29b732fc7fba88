"""The rules that the repository keeps: its bounds, its layers, the form of its notebooks."""

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from gemmlab.ladder import RUNGS

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "gemmlab"
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
KERNELS = sorted((ROOT / "kernels").glob("*.cu"))
LONGEST_MODULE = 300

# From the ground up: a module imports only what stands before it.
LAYERS = (
    "gpus",
    "compiler_log",
    "compiler_process",
    "nvrtc",
    "quoting",
    "gemm",
    "schema",
    "columns",
    "records",
    "emulator.ptx",
    "emulator.locations",
    "emulator.parser",
    "emulator.calls",
    "emulator.liveness",
    "emulator.lanes",
    "emulator.datatypes",
    "emulator.special",
    "emulator.memory",
    "emulator.layout",
    "emulator.onchip",
    "emulator.arrays",
    "emulator.faults",
    "emulator.arguments",
    "emulator.limits",
    "emulator.instructions",
    "emulator.formats",
    "emulator.exact",
    "emulator.floats",
    "emulator.half",
    "emulator.integers",
    "emulator.approximations",
    "emulator.arithmetic",
    "emulator.independent",
    "emulator.bits",
    "emulator.comparisons",
    "emulator.conversions",
    "emulator.simd",
    "emulator.moves",
    "emulator.parameters",
    "emulator.loadstore",
    "emulator.atomics",
    "emulator.printf",
    "emulator.asynchronous",
    "emulator.fences",
    "emulator.fragments",
    "emulator.matrix",
    "emulator.wmma",
    "emulator.barriers",
    "emulator.shuffles",
    "emulator.warps",
    "emulator.code",
    "emulator.observer",
    "emulator.standing",
    "emulator.machine",
    "emulator.device",
    "emulator.wavefronts",
    "emulator.traffic",
    "emulator.merging",
    "emulator.reach",
    "emulator.report",
    "emulator.requests",
    "emulator.hazards",
    "emulator.touches",
    "emulator.initialized",
    "emulator.footprint",
    "emulator.ordering",
    "emulator.publications",
    "emulator.shadow",
    "emulator.watched",
    "emulator.conflict",
    "emulator.races",
    "emulator.divergence",
    "emulator.aliasing",
    "emulator.unset",
    "emulator.absent",
    "emulator.trace",
    "emulator.cuda",
    "emulator",
    "context",
    "backend",
    "tolerance",
    "diagnosis",
    "roofline",
    "resources",
    "sensors",
    "steadiness",
    "timing",
    "stream_model",
    "cublas",
    "tile_rules",
    "ladder",
    "sweeps",
    "tuned",
    "tuning_cache",
    "sweep_replay",
    "findings",
    "macros",
    "launch",
    "cutlass",
    "cutlass_runs",
    "correctness",
    "profiling.child",
    "profiling.child_launch",
    "profiling.nsight_compute",
    "profiling.counters",
    "costs",
    "compilations",
    "warp",
    "snapshots",
    "operands",
    "array_traffic",
    "block_work",
    "layouts",
    "lane_orders",
    "environment",
    "results",
    "climb",
    "tuning",
    "kernel_tuning",
    "table",
    "record.form",
    "record.recorded",
    "record.decisions",
    "record.plan",
    "record.recording",
    "record.pages",
    "record.comparison",
    "record",
    "published",
    "measured",
    "measurements",
    "experiments",
    "levels",
    "hierarchy",
    "hierarchy_table",
    "limits",
    "ladder_table",
    "exercises.judging",
    "exercises.attempts",
    "exercises",
    "exercises.shared_tile_exercises",
    "exercises.register_tile_exercises",
    "exercises.vector_load_exercises",
    "exercises.warp_tile_exercises",
    "exercises.roofline_exercises",
    "exercises.measuring_exercises",
    "exercises.ladder_exercises",
    "exercises.tuning_exercises",
    "figures.style",
    "figures.request_figures",
    "figures.timing_figures",
    "figures.roofline_figures",
    "figures.hierarchy_figures",
    "figures.plotting",
    "figures.ladder_figure",
    "figures.pictures",
    "figures.controls",
    "figures.widgets",
    "figures.stepping",
    "figures.micro_tiles",
    "figures.warp_tile_pictures",
    "figures.run_figures",
    "figures.roofline_explorer",
    "figures.tile_sliders",
    "figures.stream_pictures",
    "figures.sample_pictures",
    "figures.resource_explorer",
    "figures.tuning_figures",
    "doctor",
    "profiling.nvidia_tools",
    "profiling",
    "profiling.sanitizer_report",
    "profiling.sanitizer",
    "profiling.defects",
    "exercises.record_exercises",
    "profiling.captures",
    "profiling.predictions",
    "exercises.profiling_exercises",
    "figures.counter_pictures",
    "commands.options",
    "commands.roofline_commands",
    "commands.record_commands",
    "figures",
    "commands",
    "__main__",
    "__init__",
)
SEEN_BY_THE_EMULATOR = {"nvrtc", "gpus"}
PACKAGES = {"__init__", "emulator", "exercises", "profiling", "record", "figures", "commands"}
DRAWING = ("figures", "commands")
"""Folders that only notebooks and the command line import from."""


def module_name(path: Path) -> str:
    """Return 'emulator.ptx' for gemmlab/emulator/ptx.py, 'emulator' for its __init__.py, '__init__' for gemmlab's."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imported_modules(name: str, tree: ast.Module) -> Iterator[str]:
    """Yield the modules of gemmlab that one of them imports anywhere in its text, named as in LAYERS."""
    package = ["gemmlab", *name.split(".")]
    if name not in PACKAGES:
        package = package[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (_module(alias.name, "") for alias in node.names if alias.name.split(".")[0] == "gemmlab")
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *filter(None, [node.module])])
            if source.split(".")[0] == "gemmlab":
                yield from (_module(source, alias.name) for alias in node.names)


def _module(source: str, attribute: str) -> str:
    dotted = ".".join([*source.split(".")[1:], attribute])
    if dotted == "cp":
        return "backend"
    return next((name for name in (dotted, dotted.rpartition(".")[0]) if name in LAYERS), "__init__")


def test_imports_are_found_in_every_form_that_python_has():
    source = """
import gemmlab.roofline
from gemmlab import cp, gpus
from gemmlab.gemm import Gemm
from gemmlab import anything_else
def late():
    from . import timing
    from .emulator import device
    from .emulator.device import asarray
    import numpy
"""
    found = list(imported_modules("climb", ast.parse(source)))
    assert sorted(found) == sorted(
        ["roofline", "backend", "gpus", "gemm", "__init__", "timing", "emulator.device", "emulator.device"]
    )


def test_every_module_has_its_place_among_the_layers():
    assert set(MODULES) <= set(LAYERS), "give a new module its place in LAYERS"


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_only_what_stands_below_it(name):
    for imported in imported_modules(name, ast.parse(MODULES[name].read_text(encoding="utf-8"))):
        assert LAYERS.index(imported) < LAYERS.index(name), f"{name} imports {imported}, which stands above it"
        if name.startswith("emulator"):
            assert imported.startswith("emulator.") or imported in SEEN_BY_THE_EMULATOR, f"{name} imports {imported}"
        if not name.startswith((*DRAWING, "__")):
            assert not imported.startswith(DRAWING), f"{name} imports {imported}, which only notebooks and commands may"


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_no_longer_than_300_lines(name):
    lines = len(MODULES[name].read_text(encoding="utf-8").splitlines())
    assert lines <= LONGEST_MODULE, f"{name} has {lines} lines: give a part of it a module of its own"


def bounds(lines: list[str]) -> dict[str, str]:
    """Return each requirement's version bounds by name, the bounds in one order."""
    return {each.name: ",".join(sorted(str(each.specifier).split(","))) for each in map(Requirement, lines)}


@pytest.fixture
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture
def conda():
    return yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]


def test_every_dependency_is_bounded_on_both_sides(project):
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    for name, bound in bounds(project["dependencies"] + extras).items():
        assert "==" in bound or (">=" in bound and "<" in bound), f"{name} is bounded by {bound!r} alone"


def test_conda_gets_what_pip_gets_within_the_same_bounds(project, conda):
    (by_pip,) = (entry["pip"] for entry in conda if isinstance(entry, dict))
    by_conda = [entry for entry in conda if isinstance(entry, str) and entry != "pip"]
    given = bounds(by_conda + [line for line in by_pip if not line.startswith("-")])
    extras = project["optional-dependencies"]
    (cuda12,), (cuda13,) = bounds(extras["cuda12"]).values(), bounds(extras["cuda13"]).values()
    assert given.pop("python") == project["requires-python"]
    assert given.pop("cupy") == cuda12 == cuda13
    assert given == bounds(project["dependencies"] + extras["test"])


def test_conda_itself_gives_the_packages_that_the_course_names(conda):
    named = {"jupyterlab", "cupy", "numpy", "matplotlib", "ipywidgets", "nbval"}
    assert named <= {Requirement(entry).name for entry in conda if isinstance(entry, str)}


def test_cuda_packages_are_left_out_on_macos_which_has_none(project):
    markers = {each.name: each.marker for each in map(Requirement, project["dependencies"])}
    for name in ("cuda-bindings", "nvidia-cuda-nvrtc"):
        assert markers[name].evaluate({"sys_platform": "linux"})
        assert not markers[name].evaluate({"sys_platform": "darwin"})


def test_each_rung_has_one_kernel_and_one_notebook_of_its_number_and_name():
    rungs = [Path(rung.source_file).stem for rung in RUNGS]
    assert [path.stem for path in KERNELS] == rungs
    # Numbers from 20 are notebooks that belong to no rung.
    assert [path.stem for path in NOTEBOOKS if int(path.stem[:2]) < 20] == rungs


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert "widgets" not in notebook["metadata"], "clear it with: make format"
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert not cell["outputs"] and cell["execution_count"] is None, "clear it with: make format"


def strings(notebook: dict) -> Iterator[str]:
    """Yield every string literal in a notebook's code."""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            code = re.sub(r"^\s*[%!].*$", "", "".join(cell["source"]), flags=re.MULTILINE)
            for node in ast.walk(ast.parse(code)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda path: path.stem)
def test_a_notebook_embeds_exactly_the_source_of_its_kernel(kernel):
    notebook = json.loads((ROOT / "notebooks" / f"{kernel.stem}.ipynb").read_text(encoding="utf-8"))
    source = kernel.read_text(encoding="utf-8").strip()
    assert source in {text.strip() for text in strings(notebook)}, f"no string of the notebook equals {kernel.name}"
