"""Pictures of single requests: which lane of a warp touched which 32-byte sector, or which of the 32 banks.

Global and local memory are drawn as they move: a row for each sector that the warp touches, eight words wide, lanes'
numbers where lanes asked and hatching where bytes come along that nobody wants. Shared memory is drawn as it serves: a
column for each bank and a row for each wavefront, so that words which wait for their bank stack up. Lanes whose atomics
update one address take turns, and each turn has a row of its own.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from gemmlab.emulator import Request
from gemmlab.emulator.wavefronts import BANKS, SECTOR, WORD, is_atomic
from gemmlab.figures.request_figures import MOVED, WANTED
from gemmlab.figures.style import COLOURS, STYLE

WORDS = SECTOR // WORD
SERVED, WAITING = COLOURS[0], COLOURS[1]
ROW, SECTOR_WORD, BANK = 0.21, 0.45, 0.29  # inches: a row's height, the width of a word in a sector, and in a bank
SECTOR_LABEL, BANK_LABEL = 1.6, 1.0  # inches of what is written left of the rows
TITLE, TICKS, LEGEND, MARGIN = 0.72, 0.5, 0.35, 0.12  # inches
NARROWEST = 6.6  # inches that the legend takes
INCH = 72  # points
FONT, SMALLEST_FONT = 7, 5.5  # points, of the lanes' numbers
CHARACTER = 0.7  # a digit's width in those of its font, with room on both sides
LEGENDS = {
    WANTED: Patch(facecolor=WANTED, edgecolor="white", label="asked for by the lanes numbered"),
    MOVED: Patch(facecolor=MOVED, hatch="///", edgecolor="white", label="moved with it, asked for by nobody"),
    SERVED: Patch(facecolor=SERVED, edgecolor="white", label="first word wanted from its bank, by the lanes numbered"),
    WAITING: Patch(facecolor=WAITING, hatch="\\\\\\", edgecolor="white", label="conflict: waits for its bank"),
}


def requests(*requests: Request) -> Figure:
    """Return a figure with a panel for each request, all to one scale: fewer rows are less to move or to wait for.

    Requests of shared memory stand under each other, others side by side. Raises TypeError for what is no Request.
    """
    for each in requests or (None,):
        if not isinstance(each, Request):
            raise TypeError(f"{each!r:.80} is no request of a warp: give one or more that emulator.request returned")
    stacked = any(request.space == "shared" for request in requests)
    sizes = [_size(request) for request in requests]
    widths, heights = zip(*sizes, strict=True)
    width = max(NARROWEST, max(widths) if stacked else sum(widths))
    height = LEGEND + (sum(heights) if stacked else max(heights))
    with plt.rc_context(STYLE | {"hatch.linewidth": 0.6}):
        figure = plt.figure(figsize=(width, height))
        left, top, used = 0.0, height, []
        for request, (across, down) in zip(requests, sizes, strict=True):
            used += _draw(figure, request, left, top)
            left, top = (left, top - down) if stacked else (left + across, top)
        handles = [LEGENDS[colour] for colour in dict.fromkeys(used)]
        figure.legend(handles=handles, loc="lower center", ncols=len(handles), frameon=False)
    return figure


def _size(request: Request) -> tuple[float, float]:
    """Width and height of a panel, in inches, with all that is written around it."""
    across = BANK_LABEL + BANKS * BANK if request.space == "shared" else SECTOR_LABEL + WORDS * SECTOR_WORD
    return across + 2 * MARGIN, TITLE + ROW * request.count + TICKS


def _draw(figure: Figure, request: Request, left: float, top: float) -> list[str]:
    """Draw a panel at a place in inches from the figure's lower left, and return the colours used."""
    (width, height), (across, _) = figure.get_size_inches(), _size(request)
    shared = request.space == "shared"
    label = MARGIN + (BANK_LABEL if shared else SECTOR_LABEL)
    rows = ROW * request.count
    place = (left + label) / width, (top - TITLE - rows) / height, (across - label - MARGIN) / width, rows / height
    axis = figure.add_axes(place)
    axis.tick_params(length=0)
    unit, note, colours = (_draw_banks if shared else _draw_sectors)(axis, request)
    figure.text(
        (left + MARGIN) / width,
        (top - 0.06) / height,
        f"line {request.line}: {request.op} of {request.array}, {request.bytes} byte{_plural(request.bytes)} a lane\n"
        f"warp {request.warp} of block {request.block}, request {request.iteration} of {request.total}, from 0\n"
        f"{request.count} {unit}{_plural(request.count)}, {request.ideal} at best; {note}",
        va="top",
    )
    return colours


def _draw_sectors(axis: Axes, request: Request) -> tuple[str, str, list[str]]:
    """Draw the touched sectors from the top; return what a row is, a note and the colours used."""
    wanted = _rows_of_sectors(request)
    axis.set(xlim=(0, WORDS), ylim=(len(wanted), 0), xticks=range(WORDS + 1), xticklabels=range(0, SECTOR + 1, WORD))
    axis.set(xlabel="byte of the sector", yticks=[row + 0.5 for row in range(len(wanted))])
    axis.set_yticklabels([_sector_label(request, sector, pieces) for sector, pieces in wanted])
    for row, (_, pieces) in enumerate(wanted):
        axis.add_patch(Rectangle((0, row), WORDS, 1, facecolor=MOVED, hatch="///", edgecolor="white"))
        for (byte, width), lanes in pieces.items():
            _box(axis, byte / WORD, row, width / WORD, SECTOR_WORD, WANTED, lanes, "white")
    moved, asked = SECTOR * request.count, sum(width for _, pieces in wanted for _, width in pieces)
    note = f"{moved:,} bytes moved for {asked:,} asked for"
    return "sector", note, [WANTED, MOVED] if moved > asked else [WANTED]


def _rows_of_sectors(request: Request) -> list[tuple[int, Mapping[tuple[int, int], Sequence[int]]]]:
    """The sectors that move, by number and in order, each with its pieces: once, or for atomics once for each turn."""
    rows = []
    for sector, pieces in _pieces_of_sectors(request).items():
        if not is_atomic(request.op):
            rows.append((sector, pieces))
            continue
        for turn in range(max(map(len, pieces.values()))):
            taking = {piece: lanes[turn : turn + 1] for piece, lanes in pieces.items() if turn < len(lanes)}
            rows.append((sector, taking))
    return rows


def _pieces_of_sectors(request: Request) -> dict[int, dict[tuple[int, int], list[int]]]:
    """By sector in order, its pieces (byte within the sector, bytes) and the lanes that want each."""
    found: dict[int, dict[tuple[int, int], list[int]]] = defaultdict(lambda: defaultdict(list))
    for lane, (offset, sectors) in enumerate(zip(request.offsets, request.sectors, strict=True)):
        for sector in sectors:
            # local memory is drawn as the warp's: a lane has one word of each sector that it touches
            piece = (lane % WORDS * WORD, WORD) if request.space == "local" else (offset % SECTOR, request.bytes)
            found[sector][piece].append(lane)
    return {sector: dict(sorted(found[sector].items())) for sector in sorted(found)}


def _sector_label(request: Request, sector: int, pieces: Mapping[tuple[int, int], Sequence[int]]) -> str:
    """'A[3, 8]' of the first element wanted, and the sector's number within the request's array."""
    first = request.elements[next(iter(pieces.values()))[0]] or ""
    within = not first or first.startswith(f"{request.array}[")
    return "  ".join(filter(None, [first, f"sector {sector:,}" if within else ""]))


def _draw_banks(axis: Axes, request: Request) -> tuple[str, str, list[str]]:
    """Draw wavefronts from the top, each with the word that it takes from each bank; return as `_draw_sectors` does."""
    rows = range(request.count)
    axis.set(xlim=(0, BANKS), ylim=(request.count, 0), xlabel="bank of shared memory (4 bytes wide)")
    axis.set_xticks([bank + 0.5 for bank in range(BANKS)], range(BANKS), fontsize=8)
    axis.set_yticks([row + 0.5 for row in rows], [f"wavefront {row + 1}" for row in rows])
    # a copy of 16 bytes a lane was never seen to conflict: each of its passes is one wavefront
    alone = request.op == "cp.async.shared" and request.bytes == 16
    colours, top = [SERVED], 0
    for lanes in request.passes:
        stacks = _words_of_banks(request, lanes)
        for bank, words in stacks.items():
            for level, wanting in enumerate([list(chain(*words))] if alone else words):
                colours.append(WAITING if level else SERVED)
                _box(axis, bank, top + level, 1, BANK, colours[-1], wanting, "black" if level else "white")
        top += 1 if alone else max(map(len, stacks.values()))
        axis.axhline(top, color="black", linewidth=1)
    passes = len(request.passes)
    note = f"lanes in {passes} passes, between the black lines" if passes > 1 else "all lanes in one pass"
    return "wavefront", note, colours


def _words_of_banks(request: Request, lanes: Iterable[int]) -> dict[int, list[list[int]]]:
    """By bank, what it serves in turn: the lanes that want each of its words, or for atomics each lane alone."""
    found: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for lane in lanes:
        for step, bank in enumerate(request.banks[lane]):
            found[bank][request.addresses[lane] // WORD + step].append(lane)
    by_bank = {bank: [words[word] for word in sorted(words)] for bank, words in found.items()}
    if is_atomic(request.op):
        return {bank: [[lane] for lane in chain(*words)] for bank, words in by_bank.items()}
    return by_bank


def _box(
    axis: Axes, left: float, top: float, width: float, unit: float, colour: str, lanes: Sequence[int], ink: str
) -> None:
    """Draw a cell of `width` columns, `unit` inches each, and write the lanes into it."""
    hatch = LEGENDS[colour].get_hatch()
    axis.add_patch(Rectangle((left, top), width, 1, facecolor=colour, edgecolor="white", hatch=hatch))
    box = {"facecolor": colour, "edgecolor": "none", "pad": 0.5} if hatch else None
    label, size = _label(lanes, width * unit * INCH)
    axis.text(left + width / 2, top + 0.5, label, ha="center", va="center", fontsize=size, color=ink, bbox=box)


def _plural(count: int) -> str:
    return "" if count == 1 else "s"


def _label(lanes: Sequence[int], room: float) -> tuple[str, float]:
    """'5', '0-31', '0,16', or 'x8' for lanes too many to list in a cell `room` points wide; and the font's points."""
    adjacent = len(lanes) > 1 and list(lanes) == list(range(lanes[0], lanes[-1] + 1))
    label = f"{lanes[0]}-{lanes[-1]}" if adjacent else ",".join(map(str, lanes))
    if CHARACTER * SMALLEST_FONT * len(label) > room and len(lanes) > 1:
        label = f"x{len(lanes)}"
    return label, min(FONT, room / (CHARACTER * len(label)))
