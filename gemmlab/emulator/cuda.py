"""`cp.cuda` of the emulated GPU: as much of it as code that runs on both backends asks for."""

from __future__ import annotations

from . import device


class Device:
    """The one emulated GPU; launches have always finished, so there is nothing to synchronize."""

    def __init__(self, device_id: int = 0) -> None:
        if device_id != 0:
            raise ValueError(f"the emulator has one device, number 0, not {device_id}")
        self.id = device_id

    @property
    def compute_capability(self) -> str:
        """Such as '90'."""
        return device.architecture().removeprefix("sm_")

    def synchronize(self) -> None:
        pass


class Stream:
    """The default stream."""

    null: Stream

    def synchronize(self) -> None:
        pass


Stream.null = Stream()


def get_current_stream() -> Stream:
    """The null stream, the only one here."""
    return Stream.null


class Event:
    """There are no events here: the emulator has no clock of a GPU."""

    def __init__(self, *_: object, **__: object) -> None:
        raise RuntimeError(
            "the emulator times nothing: its speed says nothing about a GPU's. Measured times come from "
            "a machine with a GPU, or from the shipped records"
        )
