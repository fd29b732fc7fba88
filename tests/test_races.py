"""The race detector against the definition: every pair of accesses compared, by vector clocks of single threads.

The detector keeps a few accesses for each byte; this shows that it keeps enough to find every byte that has a race, and
that what it reports is one.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from gemmlab.emulator.barriers import Meeting, Wait
from gemmlab.emulator.instructions import Site
from gemmlab.emulator.lanes import WARP, Batch
from gemmlab.emulator.layout import Region
from gemmlab.emulator.memory import GlobalMemory
from gemmlab.emulator.onchip import BlockMemory
from gemmlab.emulator.races import Races
from gemmlab.emulator.touches import Touches

BATCH = Batch((1, 1, 2), (1, 5, 8), (0, 0, 0), (1, 1, 2))
"""Two blocks of 40 threads: a whole warp and a part of one."""

WORDS = 6
OPS = ("ld", "st", "atom")


class Definition:
    """All accesses so far and what each thread knows of each other; `racy` holds the (block or 0, word) with a race."""

    def __init__(self, shared):
        n = BATCH.blocks * BATCH.threads
        self.shared, self.accesses, self.racy = shared, [], set()
        self.block, self.warp = np.divmod(np.arange(n), BATCH.threads)
        self.warp = self.block * 10 + self.warp // WARP
        self.known, self.clock = np.zeros((n, n), int), np.ones(n, int)
        self.fenced, self.published = np.zeros((n, n), int), np.zeros(n, int)
        self.brought = np.zeros((n, n), int)

    def access(self, op, word, active):
        now = [(thread, int(word[thread]), op, self.clock[thread]) for thread in np.flatnonzero(active)]
        for i, (thread, where, _, _) in enumerate(now):
            for other, at, other_op, time in [*self.accesses, *now[:i]]:
                apart = self.shared and self.block[other] != self.block[thread]
                weak = "st" in (op, other_op) or {op, other_op} == {"ld", "atom"}
                ordered = other == thread or time <= self.known[thread, other]
                if at == where and not apart and weak and not ordered:
                    self.racy.add((int(self.block[thread]) if self.shared else 0, where))
        self.accesses += now
        if op == "atom":
            self.published = np.maximum(self.published, self.fenced[active].max(axis=0))
            self.known[active] = np.maximum(self.known[active], self.published)

    def fence(self, active):
        """What these threads did and know lies behind a fence; their next atomic publishes it."""
        self.fenced[active] = np.maximum(self.fenced[active], self.known[active])
        self.fenced[active, active] = self.clock[active]
        self.clock[active] += 1

    def arrive(self, arrived):
        """These threads will have come to the next barrier, with what they know now."""
        self.brought[arrived] = self.known[arrived]
        self.brought[arrived, arrived] = self.clock[arrived]
        self.clock[arrived] += 1

    def meet(self, waited):
        """Those that wait learn what all who arrived brought."""
        self.known[waited] = np.maximum(self.known[waited], self.brought.max(axis=0))
        self.brought[:] = 0

    def join(self, arrived, waited):
        """The threads that waited know what those that arrived know, and what they did."""
        if arrived.any():
            known = self.known[arrived].max(axis=0)
            known[arrived] = np.maximum(known[arrived], self.clock[arrived])
            self.known[waited] = np.maximum(self.known[waited], known)
            self.fenced[waited] = np.maximum(self.fenced[waited], self.fenced[arrived].max(axis=0))
            self.clock[arrived] += 1


class Watched(Races):
    """The detector, keeping where it found races."""

    def __init__(self):
        super().__init__(lambda hazard: None, Touches())
        self.racy = set()

    def _tell(self, frame, watched, earlier, later, at, who, lane):
        rows, words = np.divmod(at, watched.shadow.length)
        self.racy |= set(zip(rows.tolist(), words.tolist(), strict=True))
        super()._tell(frame, watched, earlier, later, at, who, lane)


def lattice(lanes):
    """(blocks, threads) as the emulator holds values, with extent 1 along the grid where both blocks do alike."""
    full = lanes.reshape(BATCH.shape)
    return full[:, :, :1] if (full[:, :, :1] == full[:, :, 1:]).all() else full


def play(random, space, events, alike):
    """A launch of random accesses and synchronizations: what the detector found, and what there is."""
    memory = GlobalMemory()
    allocation = memory.allocate(4 * WORDS, "g")
    shared = BlockMemory(BATCH, (Region("s", 0, 4 * WORDS),))
    frame = SimpleNamespace(batch=BATCH, shared=shared, memory=memory)
    watched, definition = Watched(), Definition(space == "shared")
    watched.begin(())
    watched.start(frame)
    base = 0 if space == "shared" else allocation.base

    def lanes(likely):
        drawn = random.random((BATCH.blocks, BATCH.threads)) < likely
        return np.repeat(drawn[:1], 2, axis=0) if alike else drawn

    arrivals = []
    for _ in range(12):
        event = random.choice(events)
        if event == "access":
            op = OPS[random.integers(3)]
            word = np.repeat(random.integers(WORDS, size=(1, BATCH.threads)), 2, axis=0)
            active = lanes(random.choice([0.03, 0.2]))
            if not active.any():
                continue
            definition.access(op, word.reshape(-1), active.reshape(-1))
            address = lattice((base + 4 * word).astype(np.uint64))
            watched.access(Site(f"{op}.{space}", space, 4, 1), frame, address, lattice(active))
        elif event == "fence":
            active = lanes(0.1)
            definition.fence(np.flatnonzero(active))
            watched.fence(frame, 1, lattice(active), True)
        elif event == "barrier":
            for block in range(BATCH.blocks):
                everyone = definition.block == block
                definition.join(everyone, everyone)
            watched.met(frame, None)
        elif event in ("whole warp", "part of a warp"):
            members = definition.warp == random.choice(definition.warp)
            if event == "part of a warp":
                members = members & lanes(0.6).reshape(-1)
            if alike:
                members = np.tile(members.reshape(2, -1).any(axis=0), 2)
            for warp in np.unique(definition.warp):
                definition.join(members & (definition.warp == warp), members & (definition.warp == warp))
            watched.warp_met(frame, 1, lattice(members.reshape(BATCH.blocks, -1)))
        elif event == "arrive":
            came, waited = (np.zeros((BATCH.blocks, BATCH.threads), bool) for _ in range(2))
            side = random.integers(2)
            came[:, :WARP], waited[:, WARP:] = True, True
            if side:
                came, waited = waited, came
            watched.arrived(frame, [Wait(None, 1, 64, 0, lattice(came))])
            arrivals.append((came, waited))
            definition.arrive(np.flatnonzero(came))
            events = [e for e in events if e != "arrive"] + ["counted"]
        elif event == "counted":
            came, waited = arrivals.pop()
            both = came | waited
            for block in range(BATCH.blocks):
                mine = definition.block == block
                definition.join(mine & waited.reshape(-1), mine & waited.reshape(-1))
                others = definition.brought[~mine].copy()
                definition.brought[~mine] = 0
                definition.meet(np.flatnonzero(mine & waited.reshape(-1)))
                definition.brought[~mine] = others
            watched.met(frame, Meeting(both, waited, np.zeros(BATCH.blocks, bool), 1))
            events = [e for e in events if e != "counted"] + ["arrive"]
        else:
            arrived = np.repeat(random.random((BATCH.blocks, 2)) < 0.8, [WARP, BATCH.threads - WARP], axis=1)
            waited = arrived & np.repeat(random.random((BATCH.blocks, 2)) < 0.8, [WARP, BATCH.threads - WARP], axis=1)
            for block in range(BATCH.blocks):
                mine = definition.block == block
                definition.join(mine & arrived.reshape(-1), mine & waited.reshape(-1))
                for warp in np.unique(definition.warp[mine & waited.reshape(-1)]):
                    definition.join(definition.warp == warp, definition.warp == warp)
            watched.met(frame, Meeting(arrived, waited, waited.all(axis=1)))
    return watched.racy, definition.racy


@pytest.mark.parametrize("alike", [True, False], ids=["blocks alike", "blocks apart"])
@pytest.mark.parametrize("space", ["shared", "global"])
def test_every_byte_with_a_race_is_found_and_no_other_under_block_and_warp_barriers(space, alike):
    random = np.random.default_rng(0)
    racy = 0
    for _ in range(30):
        found, there = play(random, space, ["access", "access", "access", "barrier", "whole warp"], alike)
        if space == "shared" and alike:
            there = {(0, word) for _, word in there}
        assert found == there
        racy += len(there)
    assert racy > 25


@pytest.mark.parametrize("space", ["shared", "global"])
def test_no_race_is_reported_that_is_none_under_partial_and_named_barriers(space):
    random = np.random.default_rng(1)
    missed = racy = 0
    for _ in range(60):
        found, there = play(random, space, ["access", "access", "access", "barrier", "part of a warp", "named"], False)
        assert found <= there
        missed, racy = missed + len(there - found), racy + len(there)
    assert racy > 50 and missed <= racy / 50


@pytest.mark.parametrize("events", [["barrier"], ["barrier", "part of a warp", "named"]], ids=["whole", "partial"])
@pytest.mark.parametrize("space", ["shared", "global"])
def test_no_race_is_reported_of_what_a_fence_and_an_atomic_published_and_few_others_are_missed(space, events):
    random = np.random.default_rng(2)
    missed = racy = 0
    for _ in range(80):
        found, there = play(random, space, ["access", "access", "access", "fence", *events], False)
        assert found <= there
        missed, racy = missed + len(there - found), racy + len(there)
    assert racy > 50 and missed <= racy / 20


@pytest.mark.parametrize("space", ["shared", "global"])
def test_what_threads_do_after_they_arrived_is_not_behind_the_barrier(space):
    random = np.random.default_rng(3)
    racy = 0
    for _ in range(80):
        found, there = play(random, space, ["access", "access", "access", "arrive"], False)
        assert found == there
        racy += len(there)
    assert racy > 50
