"""How answers are judged: numbers beside what was counted, and words one by one."""

from collections.abc import Callable, Collection, Mapping, Sequence
from numbers import Real
from typing import Any

from gemmlab.quoting import shown

NOT_ATTEMPTED = "not attempted"
LONGEST = 1e15  # beyond it a number is written with an exponent


class Refused(AssertionError):
    """A wrong answer; the message is the evidence."""

    def _render_traceback_(self) -> list[str]:
        # IPython prints this in place of a traceback, whose frames say nothing about the answer.
        return [f"Refused: {self}"]


def answers(given: Any) -> Mapping[Any, Any]:
    """Return a dictionary of answers as it is, an empty one for `...`. Raises Refused for anything else."""
    if given is ...:
        return {}
    if not isinstance(given, Mapping):
        raise Refused(f"{shown(given)} is no dictionary: keep the names as they stand, and put answers behind them")
    return given


def answers_to(asked: Collection[Any], given: Any) -> dict[Any, Any]:
    """Return the answer to each name that was asked for, `...` where there is none. Raises Refused for what is no
    dictionary, and for a name that was not asked for.
    """
    given = answers(given)
    for name in given:
        if name not in asked:
            raise Refused(f"{shown(name)} is no name of this exercise; the names are: {'; '.join(map(str, asked))}")
    return {name: given.get(name, ...) for name in asked}


def compare(predicted: Mapping[str, Any], found: Mapping[str, float | str], how: str = "counted") -> str:
    """Return predictions beside what was found, a line each; `how` heads its column: 'counted', or 'measured'.

    A prediction may be `...`, and none in a dictionary is refused. What was found is a number, or one written to the
    digits that were asked for, such as '1.50', which is shown and compared as it stands.
    """
    predicted, width = answers(predicted), max(map(len, found))
    lines = [f"{'':<{width}}  {'predicted':>13}  {how:>9}"]
    for name, count in found.items():
        guess, said = predicted.get(name, ...), count if isinstance(count, str) else _written(count)
        lines.append(f"{name:<{width}}  {_written(guess):>13}  {said:>9}  {_remark(guess, float(count))}".rstrip())
    return "\n".join(lines)


def judge_numbers(
    predicted: Mapping[str, Any], counted: Mapping[str, int], lesson: str, source: str = "the emulator counted"
) -> str:
    """Return how far predictions got, with the lesson once all are as counted; `...` stands for one not yet made.

    Raises Refused with the predictions that differ, beside what was counted.
    """
    missing = [name for name, guess in predicted.items() if guess is ...]
    wrong = {name: guess for name, guess in predicted.items() if guess is not ... and not _equal(guess, counted[name])}
    if wrong:
        raise Refused(
            f"what was predicted differs from what {source}, in {len(wrong)} of {len(counted)}\n"
            + compare(wrong, {name: counted[name] for name in wrong})
        )
    if len(missing) == len(counted):
        return f"{NOT_ATTEMPTED}: put numbers in place of the dots"
    if missing:
        return f"{NOT_ATTEMPTED}: {', '.join(missing)}; the rest is as counted"
    return f"accepted: {len(counted)} of {len(counted)} as counted. {lesson}"


def judge_answers(given: Any, asked: Sequence[str], against: Callable[[str, Any], str | None], lesson: str = "") -> str:
    """Return how far answers got, given by what was asked, with the lesson once all are right; `...` stands for one not
    yet given, or for all of them.

    `against` returns the evidence against an answer, None where it is right. Raises Refused with all the evidence, and
    for what is no dictionary or has another name.
    """
    said = {name: answer for name, answer in answers_to(asked, given).items() if answer is not ...}
    evidence = [text for name, answer in said.items() if (text := against(name, answer))]
    if evidence:
        raise Refused("\n".join(evidence))
    missing = [name for name in asked if name not in said]
    if missing:
        return f"{NOT_ATTEMPTED}: {', '.join(missing)}" + ("; the rest is right" if said else "")
    return f"accepted: {len(asked)} of {len(asked)}. {lesson}"


def same(answer: Any, right: str | float) -> bool:
    """Say whether an answer, of whatever type, is the right text or number."""
    return (isinstance(answer, str) or _is_number(answer)) and bool(answer == right)


def _equal(guess: Any, count: float) -> bool:
    return _is_number(guess) and bool(guess == count)


def _is_number(answer: Any) -> bool:
    return isinstance(answer, Real) and not isinstance(answer, bool)  # Python's True would pass for 1


def _remark(guess: Any, count: float) -> str:
    if guess is ...:
        return ""
    if not _is_number(guess):
        return "write a number"
    if guess == count:
        return "as predicted"
    return f"{float(guess) / count:.3g} times as much" if count != 0 and abs(guess) < LONGEST else "differs"


def _written(value: Any) -> str:
    if value is ...:
        return NOT_ATTEMPTED
    if not _is_number(value):
        return shown(value)
    if abs(value) < LONGEST:
        return f"{float(value):,.0f}" if float(value).is_integer() else f"{float(value):,.6g}"
    return f"{value:.6g}" if isinstance(value, float) else f"over {LONGEST:g}"
