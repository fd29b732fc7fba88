"""What all tests share: the emulator, also beside a GPU, and how property tests search.

Property tests try the same examples on every run, so that a pass or a failure can be repeated; `make fuzz` searches at
random instead.
"""

import os

from hypothesis import settings

from gemmlab import backend

os.environ.setdefault(backend.VARIABLE, "emulator")

settings.register_profile("repeatable", derandomize=True)
settings.register_profile("search", derandomize=False)
settings.load_profile("repeatable")
