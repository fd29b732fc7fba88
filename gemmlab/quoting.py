"""How a message repeats an odd value or another error: no longer than a reader needs to know it again."""

from typing import Any

MOST_SHOWN = 80  # characters of a value that a message repeats


def shown(value: Any) -> str:
    """Return any value as text, shortened to MOST_SHOWN characters."""
    try:
        text = repr(value)
    except ValueError:  # of integers with thousands of digits, which Python writes none of
        return "a number of thousands of digits"
    except Exception:  # of an object that cannot be written
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def first_line(error: Exception) -> str:
    """Return the first line of what an error says or, where it says nothing, what kind of error it is."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
