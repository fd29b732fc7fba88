"""What all tests share: the emulator, also beside a GPU, a record, and how property tests search.

Property tests try the same examples on every run, so that a pass or a failure can be repeated; `make fuzz` searches at
random instead. Neither minds how long an example takes, which the machine's load decides.
"""

import os
import shutil

import pytest
from hypothesis import settings

from gemmlab import backend

os.environ.setdefault(backend.VARIABLE, "emulator")

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("search", derandomize=False, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def pair(tmp_path_factory):
    """A record of rungs 0 and 1 on the emulator: its folder. Tests that change it work on a copy."""
    from record_cases import write_pair  # here, as most tests need no record

    folder = tmp_path_factory.mktemp("records") / "pair"
    write_pair(folder)
    return folder


@pytest.fixture
def folder(pair, tmp_path):
    """A copy of the record that a test may spoil."""
    return shutil.copytree(pair, tmp_path / "copy")
