"""How property tests search: the same examples on every run, so that a pass or a failure can be repeated.

`make fuzz` searches at random instead.
"""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True)
settings.register_profile("search", derandomize=False)
settings.load_profile("repeatable")
