# SPDX-License-Identifier: Apache-2.0
"""Routes, their longest match, and a small builder of the lookup's memories.

The longest match asks a dictionary for every length and knows nothing of tables. The builder is
this bench's own: it shares the layout of the memories with `crates/fib`, and no code. It makes a
change hitless in the simplest way: everything new goes to free places, one word leads to it, and
what was replaced is free after a drain marker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

V4_DIR, V4_LEAF, V4_GROUP, V4_HOST = 0, 1, 2, 3
V6_NODE, V6_LEAF, V6_HOST, V6_TCAM = 7, 15, 16, 20
REGISTER, SRAM22, SRAM22_NEXT_HOP, DRAIN = 22, 23, 24, 31
POLYNOMIALS = (0x04C11DB7, 0x1EDC6F41, 0x741B8CD7, 0x814141AB)
ESCAPE = 1 << 17

Write = tuple[int, int, int]
Prefix = tuple[int, int]  # first address, length
Routes = dict[Prefix, int]


def mask(length: int, width: int) -> int:
    """Return the netmask of a length."""
    return ((1 << length) - 1) << (width - length)


def longest_match(routes: Routes, key: int, width: int) -> int:
    """Return the leaf of the longest prefix that holds `key`, 0 without one."""
    for length in range(width, -1, -1):
        leaf = routes.get((key & mask(length, width), length))
        if leaf:
            return leaf
    return 0


def answer(leaf: int) -> int:
    """Return the lookup's answer to a leaf: hit, punt, discard, port, next hop."""
    port = leaf >> 12 & 31
    flags = (leaf != 0) << 18 | (port >= 16 and port != 17) << 17 | (port == 17) << 16
    return flags | (port & 15) << 12 | leaf & 0xFFF


def crc(polynomial: int, key: int, width: int) -> int:
    """Divide bit by bit, first bit first, from zero."""
    state = 0
    for bit in range(width - 1, -1, -1):
        top = state >> 31 ^ key >> bit & 1
        state = (state << 1 & 0xFFFFFFFF) ^ (polynomial if top else 0)
    return state


class Full(Exception):
    """No place; nothing was changed."""


class Space:
    """First-fit allocator whose places come free at the end of a change."""

    def __init__(self, size: int) -> None:
        self.used = bytearray(size)
        self.retired: list[tuple[int, int]] = []

    def take(self, count: int) -> int:
        """Return the first of `count` free words."""
        at = self.used.find(bytes(count))
        if at < 0:
            raise Full
        self.used[at : at + count] = b"\1" * count
        return at

    def retire(self, at: int, count: int) -> None:
        """Free words once lookups have drained."""
        self.retired.append((at, count))

    def drain(self) -> None:
        """Free what is retired."""
        for at, count in self.retired:
            self.used[at : at + count] = bytes(count)
        self.retired.clear()


class Hosts:
    """Exact match in four banks; an insertion may move one entry."""

    def __init__(self, memory: int, width: int, depth: int) -> None:
        self.memory, self.width, self.depth = memory, width, depth
        self.entries: dict[tuple[int, int], tuple[int, int]] = {}
        self.moves = 0

    def _places(self, key: int) -> list[tuple[int, int]]:
        return [(b, crc(p, key, self.width) % self.depth) for b, p in enumerate(POLYNOMIALS)]

    def _write(self, place: tuple[int, int], key: int, leaf: int) -> Write:
        if leaf:
            self.entries[place] = key, leaf
        else:
            self.entries.pop(place)
        return self.memory + place[0], place[1], (key << 18 | leaf) if leaf else 0

    def place_of(self, key: int) -> tuple[int, int] | None:
        """Return where a key is."""
        return next((p for p in self._places(key) if self.entries.get(p, (None,))[0] == key), None)

    def set(self, key: int, leaf: int) -> list[Write] | None:
        """Return the writes that put a key in or take it out; None if there is no place."""
        place = self.place_of(key)
        if place:
            return [self._write(place, key, leaf)]
        if not leaf:
            return None
        for place in self._places(key):
            if place not in self.entries:
                return [self._write(place, key, leaf)]
        for place in self._places(key):
            other, other_leaf = self.entries[place]
            for target in self._places(other):
                if target not in self.entries:
                    self.moves += 1
                    moved = self._write(target, other, other_leaf)
                    return [moved, self._write(place, key, leaf)]
        return None


def run_vector(leaves: list[int | None]) -> tuple[int, list[int]]:
    """Return the vector of changes over the slots that are not None, and the leaves."""
    vector, packed = 0, []
    for slot, leaf in enumerate(leaves):
        if leaf is not None and (not packed or leaf != packed[-1]):
            vector |= bool(packed) << slot
            packed.append(leaf)
    return vector, packed or [0]


class Table4:
    """IPv4: run vectors and exact match."""

    width = 32

    def __init__(self, leaves: int, groups: int, hosts: int) -> None:
        self.routes: Routes = {}
        self.table: Routes = {}  # without the hosts and the default route
        self.hosts = Hosts(V4_HOST, 32, hosts)
        self.leaves, self.groups = Space(leaves), Space(groups)
        self.words: dict[int, tuple[int, int, list[int]]] = {}
        self.long_words: Counter[int] = Counter()
        self.long_slots: Counter[int] = Counter()

    def change(self, prefix: Prefix, leaf: int) -> list[Write]:
        """Set a route, or withdraw it with leaf 0; return the writes, a drain marker last."""
        addr, length = prefix
        writes: list[Write] | None = None
        if length == 0:
            writes = [(REGISTER, 0, leaf)]
        elif length == 32 and prefix not in self.table:
            writes = self.hosts.set(addr, leaf)
        if writes is None:
            writes = self._change_table(prefix, leaf)
        self.routes.pop(prefix, None)
        if leaf:
            self.routes[prefix] = leaf
        return [*writes, (DRAIN, 0, 0)]

    def _set(self, prefix: Prefix, leaf: int) -> int:
        addr, length = prefix
        old = self.table.pop(prefix, 0)
        if leaf:
            self.table[prefix] = leaf
        step = bool(leaf) - bool(old)
        if length > 18:
            self.long_words[addr >> 14] += step
        if length > 24:
            self.long_slots[addr >> 8] += step
        return old

    def _change_table(self, prefix: Prefix, leaf: int) -> list[Write]:
        addr, length = prefix
        old = self._set(prefix, leaf)
        first = addr >> 14
        last = (addr | (1 << 32 - length) - 1) >> 14
        used = self.leaves.used[:], self.groups.used[:]
        words = dict(self.words)
        writes: list[Write] = []
        try:
            for word in range(first, last + 1):
                self._word(word, writes)
        except Full:
            self._set(prefix, old)
            self.leaves.used, self.groups.used = used
            self.words = words
            self.leaves.retired.clear()
            self.groups.retired.clear()
            raise
        self.leaves.drain()
        self.groups.drain()
        return writes

    def _best(self, addr: int, longest: int, shortest: int, other: int) -> int:
        for length in range(longest, shortest - 1, -1):
            leaf = self.table.get((addr & mask(length, 32), length))
            if leaf:
                return leaf
        return other

    def _word(self, word: int, writes: list[Write]) -> None:
        base_leaf = self._best(word << 14, 18, 1, 0)
        slots = [base_leaf] * 64
        groups: list[int] = []
        if self.long_words[word]:
            for slot in range(64):
                at = word << 14 | slot << 8
                slots[slot] = self._best(at, 24, 19, base_leaf)
                if self.long_slots[at >> 8]:
                    group = self.groups.take(1)
                    groups.append(group)
                    for low in range(256):
                        leaf = self._best(at | low, 32, 25, slots[slot])
                        writes.append((V4_GROUP, group << 8 | low, leaf))
                    slots[slot] = ESCAPE | group
        vector, packed = run_vector(list(slots))
        base = packed[0]
        if vector:
            base = self.leaves.take(len(packed))
            writes += [(V4_LEAF, base + i, leaf) for i, leaf in enumerate(packed)]
        writes.append((V4_DIR, word, base << 64 | vector))
        old_vector, old_base, old_groups = self.words.get(word, (0, 0, []))
        if old_vector:
            self.leaves.retire(old_base, old_vector.bit_count() + 1)
        for group in old_groups:
            self.groups.retire(group, 1)
        self.words[word] = vector, base, groups


class Table6:
    """IPv6: trie, TCAM and exact match."""

    width = 128
    bounds = tuple(range(16, 65, 6))

    def __init__(self, nodes: list[int], leaves: int, hosts: int, tcam: int) -> None:
        self.routes: Routes = {}
        self.table: Routes = {}
        self.tcam: list[tuple[int, int, int]] = []  # length, address, leaf; longest first
        self.tcam_size = tcam
        self.hosts = Hosts(V6_HOST, 128, hosts)
        self.nodes, self.leaves = [Space(size) for size in nodes], Space(leaves)
        self.deep: Counter[tuple[int, int]] = Counter()
        self.held: dict[int, list[Callable[[], None]]] = {}

    def change(self, prefix: Prefix, leaf: int) -> list[Write]:
        """Set a route, or withdraw it with leaf 0; return the writes, a drain marker last."""
        addr, length = prefix
        writes: list[Write] | None = None
        if length == 0:
            writes = [(REGISTER, 1, leaf)]
        elif length == 128 and not any((entry[:2] == (128, addr)) for entry in self.tcam):
            writes = self.hosts.set(addr, leaf)
        if writes is None:
            change = self._change_tcam if length > 64 else self._change_trie
            writes = change(prefix, leaf)
        self.routes.pop(prefix, None)
        if leaf:
            self.routes[prefix] = leaf
        return [*writes, (DRAIN, 0, 0)]

    def _change_tcam(self, prefix: Prefix, leaf: int) -> list[Write]:
        addr, length = prefix
        old = [entry for entry in self.tcam if entry[:2] != (length, addr)]
        if leaf and len(old) < len(self.tcam):
            # Its place stays: entries of one length that changed places would miss one meanwhile.
            new = [(*e[:2], leaf) if e[:2] == (length, addr) else e for e in self.tcam]
        else:
            new = sorted([*old, (length, addr, leaf)] if leaf else old, key=lambda e: -e[0])
        if len(new) > self.tcam_size:
            raise Full
        # Entries move away from the change, the farthest first, so that none is missing meanwhile.
        places = range(max(len(new), len(self.tcam)))
        changed = [i for i in places if new[i : i + 1] != self.tcam[i : i + 1]]
        if len(new) > len(self.tcam):
            changed.reverse()
        self.tcam = new
        writes = []
        for i in changed:
            word = 0
            if i < len(new):
                word = new[i][1] << 26 | new[i][0] << 18 | new[i][2]
            writes.append((V6_TCAM, i, word))
        return writes

    def _set(self, prefix: Prefix, leaf: int) -> int:
        addr, length = prefix
        old = self.table.pop(prefix, 0)
        if leaf:
            self.table[prefix] = leaf
        for bound in self.bounds:
            if length > bound:
                self.deep[bound, addr >> 128 - bound] += bool(leaf) - bool(old)
        return old

    def _change_trie(self, prefix: Prefix, leaf: int) -> list[Write]:
        addr, length = prefix
        old = self._set(prefix, leaf)
        last = addr | (1 << 128 - length) - 1
        spaces = [*self.nodes, self.leaves]
        used = [space.used[:] for space in spaces]
        held = {k: v[:] for k, v in self.held.items()}
        writes: list[Write] = []
        try:
            for top in range(addr >> 112, (last >> 112) + 1):
                base = self._best(top << 112, 16, 1, 0)
                retired = self.held.pop(top, [])
                self.held[top] = []
                word = self._node(0, top << 112, base, writes, self.held[top])
                writes.append((V6_NODE, top, word))
                for retire in retired:
                    retire()
        except Full:
            self._set(prefix, old)
            self.held = held
            for space, was in zip(spaces, used, strict=True):
                space.used = was
                space.retired.clear()
            raise
        for space in spaces:
            space.drain()
        return writes

    def _best(self, addr: int, longest: int, shortest: int, other: int) -> int:
        for length in range(longest, shortest - 1, -1):
            leaf = self.table.get((addr & mask(length, 128), length))
            if leaf:
                return leaf
        return other

    def _node(
        self,
        level: int,
        addr: int,
        inherited: int,
        writes: list[Write],
        held: list[Callable[[], None]],
    ) -> int:
        bound = self.bounds[level] + 6
        slots: list[int | None] = []
        children: list[tuple[int, int]] = []
        vector = 0
        for slot in range(64):
            at = addr | slot << 128 - bound
            leaf = self._best(at, bound, bound - 5, inherited)
            if self.deep[bound, at >> 128 - bound]:
                vector |= 1 << slot
                children.append((at, leaf))
                slots.append(None)
            else:
                slots.append(leaf)
        runs, packed = run_vector(slots)
        base, child_base = packed[0], 0
        if children:
            space, count = self.nodes[level], len(children)
            child_base = space.take(count)
            held.append(lambda: space.retire(child_base, count))
            for i, (at, leaf) in enumerate(children):
                word = self._node(level + 1, at, leaf, writes, held)
                writes.append((V6_NODE + level + 1, child_base + i, word))
        if runs:
            base = self.leaves.take(len(packed))
            held.append(lambda: self.leaves.retire(base, len(packed)))
            writes += [(V6_LEAF, base + i, leaf) for i, leaf in enumerate(packed)]
        return base << 148 | child_base << 128 | runs << 64 | vector


def sram22_word(routes: Routes, codes: dict[int, int], index: int) -> int:
    """Return the byte of the dissertation's SRAM at an index."""
    word = 0
    for segment in range(4):
        leaf = longest_match(routes, index << 10 | segment << 8, 32)
        word |= codes.get(leaf, 0) << 2 * segment
    return word
