"""Forest circuits: Df meets X only through an additive score and boxes, both made to predict D.

    P(x | f, s) = Σ_k w_k Σ_l P_k(l | f, s) P(x | x in box l, f, s)

The leaves l of tree k are disjoint boxes, so the sum over them is deterministic (Correia, Peharz
and de Campos 2020 turn forests into joint distributions in a like way).

All trees restrict *one* density of each (f, s), Σ_c P(c | f, s) ∏_j P(x_j | c, f, s), to their
boxes. These densities are that of the group, tilted: P(x | f, s) ∝ P(x | s) exp(Σ_j t_fsj(x_j)).
So the log odds of Df of a complete row are Σ_j t(x_j) and what the boxes add to it: for one tree
they are additive within a leaf, and for several nearly the average, as in any forest, and yet the
exact posterior of one circuit. Trees that hold more of the group's rows in the box than the
density expects weigh more. The weights w_k are free of f, or the identity of a tree would be
evidence. Without tilts X says nothing about Df inside a box.

The last variable of the circuit says which (leaf, cluster) a row is from, so every sum is
deterministic in it. Both independencies of the model hold whatever the parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from fairpc.circuit import WEIGHT_TOLERANCE
from fairpc.core import (
    ALTERED,
    Array,
    Bools,
    Codes,
    Floats,
    Ints,
    LearningError,
    Words,
    map_in_order,
    record,
)
from fairpc.data import MAX_ARITY, readonly

CHUNK: Final = 16_384
"""Rows that the kernel is given at once."""
MAX_CELLS: Final = 2**28
"""Most numbers P(x_j in the box | c, s): all are in memory."""
LEAST_MASS: Final = 1e-290
"""Least P(x in a box): below it numbers lose their digits, and quotients become infinite."""
UNFIT: Final = "the arrays of a forest do not fit together: fit it again"
_PRIME: Final = 2**31 - 1
_DRAWS: Final = 3
"""Numbers below the prime can be multiplied, and thousands of products added, in 64 bits."""


@dataclass(frozen=True, eq=False)
class Forest:
    """Boxes of trees, the density that they restrict, and how often each (f, s) is in each."""

    tree: Ints  #: of each box
    allowed: tuple[Bools, ...]  #: of each feature, whether a box allows a value; boxes × values
    shares: Floats  #: P(c | f, s), groups × classes × clusters
    #: of each feature P(x_j = v | c, f, s), groups × classes × clusters × values
    values: tuple[Floats, ...]
    leaf_rate: Floats  #: P_k(l | f, s), groups × classes × boxes; the sum over a tree is 1

    def __post_init__(self) -> None:
        # Sums go by how arrays lie in memory: a forest that was read has the bits of the saved one.
        for name in ("tree", "shares", "leaf_rate"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name)))
        for name in ("allowed", "values"):
            laid = tuple(np.ascontiguousarray(array) for array in getattr(self, name))
            object.__setattr__(self, name, laid)
        if not self._shapes_fit():
            raise LearningError(UNFIT)
        n, (n_groups, n_classes, n_clusters) = len(self.tree), self.shares.shape
        if n * n_clusters > MAX_ARITY:
            raise LearningError(
                f"the forest has {n} leaves of {n_clusters} clusters each: it may have "
                f"{MAX_ARITY} in all; grow fewer or smaller trees"
            )
        if n * n_clusters * n_groups * n_classes * len(self.values) > MAX_CELLS:
            raise LearningError(
                f"the forest has {n} leaves of {n_clusters} clusters each, {n_groups} groups, "
                f"{n_classes} classes and {len(self.values)} features: their product may be "
                f"{MAX_CELLS:,}; use fewer features or groups"
            )
        if not self._numbers_fit():
            raise LearningError(UNFIT)
        if not self._boxes_fit():
            raise LearningError(
                "boxes of a tree overlap, or leave rows out: each row must be in one; fit it again"
            )

    def _shapes_fit(self) -> bool:
        """Whether all arrays are over the same groups, classes, clusters and boxes."""
        n = len(self.tree)
        fits = self.tree.ndim == 1 and n > 0 and len(self.values) > 0 and self.shares.ndim == 3
        fits &= self.leaf_rate.shape == (*self.shares.shape[:2], n)
        for box, value in zip(self.allowed, self.values, strict=True):
            fits &= value.ndim == 4 and value.shape[:3] == self.shares.shape
            fits &= box.shape == (n, value.shape[-1])
        return fits

    def _numbers_fit(self) -> bool:
        """Whether trees are counted from 0 on, and all probabilities are some."""
        steps = np.diff(self.tree, prepend=-1)
        fits = steps[0] == 1 and bool(((steps == 0) | (steps == 1)).all())
        sums = (
            np.add.reduceat(self.leaf_rate, np.flatnonzero(steps), axis=2) if fits else np.zeros(1)
        )
        for share in (sums, self.shares.sum(axis=2), *(v.sum(axis=3) for v in self.values)):
            fits = fits and bool((np.abs(share - 1.0) < WEIGHT_TOLERANCE).all())
        fits = fits and all((a >= 0).all() for a in (self.shares, self.leaf_rate, *self.values))
        return fits and self._boxes_have_mass()

    def _boxes_have_mass(self) -> bool:
        """Whether some row can be in each box: one that is empty has no density within it."""
        possible = all((of.mass > 0).all() for of in self.sets)
        return possible and bool((self.box_mass >= LEAST_MASS).all())

    def _boxes_fit(self) -> bool:
        """Whether every x is in one box of each tree.

        Give each value a number. The numbers of x, multiplied, then summed over the boxes that hold
        x and over all x, are ∑_l ∏_j ∑_v, and ∏_j ∑_v where one box holds each x. Both are
        polynomials, so numbers drawn at random from a prime field tell two of them apart, but for
        one in 10^7 draws (Schwartz and Zippel); three draws leave one in 10^21. Integers do not
        round, and nobody knows the draw who makes a file.
        """
        draw = np.random.default_rng()
        starts = np.flatnonzero(np.diff(self.tree, prepend=-1))
        inside, whole = np.ones((len(self.tree), _DRAWS), np.int64), np.ones(_DRAWS, np.int64)
        for box in self.allowed:
            number = draw.integers(_PRIME, size=(box.shape[1], _DRAWS))
            # Sums of so few numbers are exact as floats, whose products are fast.
            held = (box.astype(np.float64) @ number.astype(np.float64)).astype(np.int64)
            inside = inside * (held % _PRIME) % _PRIME
            whole = whole * (number.sum(axis=0) % _PRIME) % _PRIME
        return bool((np.add.reduceat(inside, starts) % _PRIME == whole).all())

    @property
    def n_trees(self) -> int:
        return int(self.tree[-1]) + 1

    @property
    def n_clusters(self) -> int:
        return int(self.shares.shape[2])

    @cached_property
    def sets(self) -> tuple[BoxSets, ...]:
        """Of each feature the different sets of values that boxes allow."""
        return tuple(map(BoxSets.of, self.allowed, self.values))

    @cached_property
    def cluster_mass(self) -> Floats:
        """P(c, x in the box | f, s): groups × classes × boxes × clusters."""
        # Feature by feature: a file asks for no more memory than a few times its own size.
        each = (of.mass[:, of.of_box].transpose(0, 2, 1, 3) for of in self.sets)
        result: Floats = reduce(np.multiply, each) * self.shares[:, :, None, :]
        return np.ascontiguousarray(result)

    @cached_property
    def box_mass(self) -> Floats:
        """P(x in the box | f, s): groups × classes × boxes."""
        result: Floats = self.cluster_mass.sum(axis=3)
        return result

    @cached_property
    def weight(self) -> Floats:
        """w_k P_k(l | f, s) ÷ P(x in the box | f, s): groups × boxes × classes."""
        weight = self.leaf_rate / self.box_mass / self.n_trees
        return np.ascontiguousarray(weight.transpose(0, 2, 1))

    @cached_property
    def start(self) -> Ints:
        """Where the values of each feature start, and their number."""
        return np.append(0, np.cumsum([value.shape[3] for value in self.values]))

    @cached_property
    def bits(self) -> Words:
        """Words of the boxes that allow each value, values × words; the last of all boxes."""
        every = np.ones((len(self.tree), 1), np.bool_)
        return _words(np.concatenate([*self.allowed, every], axis=1).T)

    @cached_property
    def log_values(self) -> Floats:
        """log P(x_j = v | c, f, s) of all features: groups × values × classes × clusters."""
        with np.errstate(divide="ignore"):
            logs = np.log(np.concatenate(self.values, axis=3))
        return np.ascontiguousarray(logs.transpose(0, 3, 1, 2))

    @cached_property
    def _scoring(self) -> tuple[Array, ...]:
        """What the kernel is given beside rows, in its order; a term is a class and a cluster."""
        n_groups, n_classes, n_clusters = self.shares.shape
        shape = n_groups, -1, n_classes * n_clusters
        with np.errstate(divide="ignore"):
            log_share = np.log(self.shares).reshape(n_groups, -1)
        first = np.append(0, np.cumsum([len(of.allowed) for of in self.sets]))
        set_of = np.stack([of.of_box + n for of, n in zip(self.sets, first[:-1], strict=True)], 1)
        mass = np.concatenate([of.mass for of in self.sets], axis=1).reshape(shape)
        cuts = _words(np.stack([~box.all(axis=1) for box in self.allowed], axis=1))
        weight = np.repeat(self.weight, n_clusters, axis=2)
        values = self.start, self.bits, self.log_values.reshape(shape), log_share
        boxes = cuts, set_of.astype(np.int32), mass, weight
        return tuple(readonly(np.ascontiguousarray(a)) for a in (*values, *boxes))

    def log_densities(self, x: Codes, s: npt.ArrayLike) -> Floats:
        """log P(x | f, s) of rows whose group is known; rows × classes."""
        from fairpc.models._forest_kernels import box_densities

        codes = np.ascontiguousarray(x.T, np.int16)
        groups = np.ascontiguousarray(s, np.int16)
        out = np.empty((len(groups), self.leaf_rate.shape[1]))
        known = self._scoring

        def work(first: int) -> None:
            last = min(first + CHUNK, len(groups))
            some = readonly(np.ascontiguousarray(codes[:, first:last]))
            given = some, readonly(groups[first:last]), *known, out[first:last]
            box_densities(*given)

        for _ in map_in_order(work, range(0, len(groups), CHUNK)):
            pass
        return out

    def tree_decisions(self, x: Codes, s: npt.ArrayLike, rate: Floats) -> Floats:
        """P_k(f | x, s) of complete rows by each tree alone; rows × trees × classes.

        ``rate`` is P(f) of each row.
        Zeros where a tree holds the row to be impossible.
        """
        inside = np.ones((len(x), len(self.tree)), np.bool_)
        for codes, box in zip(x.T, self.allowed, strict=True):
            if not box.all():
                inside &= box.T[codes]
        groups = np.asarray(s)
        first = np.flatnonzero(np.diff(self.tree, prepend=-1))
        leaf = np.stack([part.argmax(axis=1) for part in np.split(inside, first[1:], axis=1)], 1)
        joint = self.weight[groups[:, None], leaf + first]
        joint = joint * rate[:, None]
        # What the densities say of a row is common to its trees.
        with np.errstate(divide="ignore"):
            logs = np.log(self.shares)[groups]
        for j, codes in enumerate(x.T):
            logs = logs + self.log_values[groups, self.start[j] + codes]
        top = logs.max(axis=(1, 2), keepdims=True)
        common = np.exp(logs - np.where(np.isneginf(top), 0.0, top)).sum(axis=2)
        joint = joint * common[:, None]
        total = joint.sum(axis=2, keepdims=True)
        shares: Floats = joint / np.where(total > 0, total, 1.0)
        return shares

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, for a file; boxes as the values that they allow."""
        return {
            "tree": self.tree.tolist(),
            "allowed": [_hex(box) for box in self.allowed],
            "shares": self.shares.tolist(),
            "values": [value.tolist() for value in self.values],
            "leaf_rate": self.leaf_rate.tolist(),
        }

    @classmethod
    def from_dict(cls, content: Any) -> Self:
        """The forest of a file."""
        own = record(_Boxes, content, "the forest", exact=True, repair=ALTERED)
        sizes = [value.shape[-1] if value.ndim else 0 for value in own.values]
        if len(own.allowed) != len(sizes):
            raise LearningError("the forest has not as many boxes as features: fit it again")
        allowed = [_from_hex(b, len(own.tree), n) for b, n in zip(own.allowed, sizes, strict=True)]
        return cls(own.tree, tuple(allowed), own.shares, own.values, own.leaf_rate)


@dataclass(frozen=True, eq=False)
class _Boxes:
    """A forest as a file has it: what boxes allow is a text of bits for each feature."""

    tree: Ints
    allowed: tuple[str, ...]
    shares: Floats
    values: tuple[Floats, ...]
    leaf_rate: Floats


@dataclass(frozen=True, eq=False)
class BoxSets:
    """The different sets of values that boxes allow of one feature: there are far fewer of them."""

    allowed: Bools  #: whether a set has a value, sets × values
    of_box: Ints  #: number of each box's set
    mass: Floats  #: P(x_j in the set | c, f, s), groups × sets × classes × clusters

    @classmethod
    def of(cls, allowed: Bools, values: Floats) -> Self:
        """Of what boxes allow, and P(x_j = v | c, f, s)."""
        packed = np.ascontiguousarray(np.packbits(allowed, axis=1))
        # Bytes of a row as one item: this sorts twenty times as fast as rows.
        rows = packed.view(f"V{packed.shape[1]}").ravel()
        _, first, of_box = np.unique(rows, return_index=True, return_inverse=True)
        mass = np.einsum("gfcv,lv->gflc", values, allowed[first]).transpose(0, 2, 1, 3)
        return cls(allowed[first], of_box, np.ascontiguousarray(mass))


def box_masses(sets: Sequence[BoxSets]) -> Floats:
    """P(x_j in the box | c, f, s): groups × classes × boxes × features × clusters."""
    masses = np.stack([of.mass[:, of.of_box] for of in sets], axis=2)
    return np.ascontiguousarray(masses.transpose(0, 3, 1, 2, 4))


def _words(bits: Bools) -> Words:
    """Each row as words of 64 bits."""
    padded = np.pad(bits, ((0, 0), (0, -bits.shape[1] % 64)))
    packed = np.packbits(padded, axis=1, bitorder="little")
    return np.ascontiguousarray(packed).view("<u8").astype(np.uint64)


def _hex(box: Bools) -> str:
    """One word for all boxes: a file may have many leaves, but not many words."""
    return np.packbits(box, axis=1).tobytes().hex()


def _from_hex(text: str, n_boxes: int, n_values: int) -> Bools:
    width = -(-n_values // 8)
    try:
        packed = np.frombuffer(bytes.fromhex(text), np.uint8).reshape(n_boxes, width)
    except ValueError:
        packed = np.zeros((n_boxes, 0), np.uint8)
    box = np.unpackbits(packed, axis=1, count=min(n_values, 8 * packed.shape[1])).astype(np.bool_)
    if box.shape[1] != n_values or _hex(box) != text:
        raise LearningError(
            "what boxes allow is not a bit for each value of each box: fit it again"
        )
    return box
