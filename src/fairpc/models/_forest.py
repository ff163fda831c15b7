"""Forest circuits: Df meets X only through an additive score and boxes, both made to tell D.

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

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, ClassVar, Final, Self

import numpy as np
import numpy.typing as npt

from fairpc.circuit import WEIGHT_TOLERANCE, Circuit, CircuitBuilder, refuse_impossible
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
from fairpc.models._distribution import FairDistribution, Outcome
from fairpc.models._rows import Rows
from fairpc.models._top import Layout, TopRates, build

CHUNK: Final = 16_384
"""Rows that the kernel is given at once."""
EXTENDED: Final = 256
"""Rows whose boxes are multiplied with those of every value at once."""
TURNED_CELLS: Final = 2**22
"""Most numbers P(s, f, d | row) at once."""
MAX_CELLS: Final = 2**28
"""Most numbers P(x_j in the box | c, s): all are in memory."""
LEAST_MASS: Final = 1e-290
"""Least P(x in a box): below it numbers lose their digits, and quotients become infinite."""
_PRIME: Final = 2**31 - 1
_DRAWS: Final = 3
"""Numbers below the prime can be multiplied, and thousands of products added, in 64 bits."""


@dataclass(frozen=True, eq=False)
class Forest:
    """Boxes of trees, the density that they restrict, and how often each (f, s) is in each.

    Attributes:
        tree: tree of each box.
        allowed: of each feature, whether a box allows a value; boxes × values.
        shares: P(c | f, s), groups × classes × clusters.
        values: of each feature P(x_j = v | c, f, s), groups × classes × clusters × values.
        leaf_rate: P_k(l | f, s), groups × classes × boxes; sums to 1 over the boxes of a tree.
    """

    tree: Ints
    allowed: tuple[Bools, ...]
    shares: Floats
    values: tuple[Floats, ...]
    leaf_rate: Floats

    def __post_init__(self) -> None:
        # Sums go by how arrays lie in memory: a forest that was read has the bits of the saved one.
        for name in ("tree", "shares", "leaf_rate"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name)))
        for name in ("allowed", "values"):
            laid = tuple(np.ascontiguousarray(array) for array in getattr(self, name))
            object.__setattr__(self, name, laid)
        n, (n_groups, n_classes, n_clusters) = len(self.tree), self._sizes()
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
        if not (self._shapes_fit() and self._numbers_fit()):
            raise LearningError("the arrays of a forest do not fit together: fit it again")
        if not self._boxes_fit():
            raise LearningError(
                "boxes of a tree overlap, or leave rows out: each row must be in one; fit it again"
            )

    def _sizes(self) -> tuple[int, int, int]:
        """Groups, classes and clusters."""
        if self.shares.ndim != 3:
            raise LearningError("the arrays of a forest do not fit together: fit it again")
        n_groups, n_classes, n_clusters = self.shares.shape
        return n_groups, n_classes, n_clusters

    def _shapes_fit(self) -> bool:
        """Whether all arrays are over the same groups, classes, clusters and boxes."""
        n = len(self.tree)
        fits = self.tree.ndim == 1 and n > 0 and len(self.values) > 0
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
        """Whether some row can be in each box: one that is empty has no density within it.

        Every box has at least the mass of its least likely x. Where that is enough, for a box
        that allows some value of each feature, the masses need not be computed.
        """
        least = self.shares
        for value in self.values:
            least = least * value.min(axis=3)
        enough = least.sum(axis=2).min() >= LEAST_MASS
        if enough and all(box.any(axis=1).all() for box in self.allowed):
            return True
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
    def mass(self) -> Floats:
        """P(x_j in the box | c, f, s): groups × classes × boxes × features × clusters."""
        return box_masses(self.sets)

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
        from fairpc.models import _forest_kernels as _kernels

        kernels: Any = _kernels
        codes = np.ascontiguousarray(x.T, np.int16)
        groups = np.ascontiguousarray(s, np.int16)
        out = np.empty((len(groups), self.leaf_rate.shape[1]))
        known = self._scoring

        def work(first: int) -> None:
            last = min(first + CHUNK, len(groups))
            some = np.ascontiguousarray(codes[:, first:last])
            kernels.box_densities(
                readonly(some), readonly(groups[first:last]), *known, out[first:last]
            )

        for _ in map_in_order(work, range(0, len(groups), CHUNK)):
            pass
        return out

    def extended(self, s: int, f: int, x: Codes, later: Sequence[int]) -> tuple[Floats, Floats]:
        """P(x, x_j = v | f, s) of every value of later features, and P(x | f, s)."""
        values = [np.zeros((len(x), self.values[j].shape[3])) for j in later]
        alone = np.zeros(len(x))
        for c in range(self.n_clusters):
            mass, rate = self.mass[s, f, :, :, c], [value[s, f, c] for value in self.values]
            boxes = np.tile(self.weight[s, :, f] * self.cluster_mass[s, f, :, c], (len(x), 1))
            for j, codes in enumerate(x.T):
                known = np.flatnonzero(codes >= 0)
                if len(known):
                    v = codes[known]
                    boxes[known] *= rate[j][v, None] * (self.holds[j] / mass[:, j])[v]
            for j, value in zip(later, values, strict=True):
                value += boxes / mass[:, j] @ self.holds[j].T * rate[j]
            alone += boxes.sum(axis=1)
        return np.concatenate([np.empty((len(x), 0)), *values], axis=1), alone

    @cached_property
    def holds(self) -> tuple[Floats, ...]:
        """Of each feature 1 where a box allows a value; values × boxes."""
        return tuple(np.ascontiguousarray(box.T, np.float64) for box in self.allowed)

    def tree_decisions(self, x: Codes, s: npt.ArrayLike, rate: Floats) -> Floats:
        """P_k(f | x, s) of complete rows by each tree alone; rows × trees × classes.

        ``rate`` is P(f), of each row or of all.
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
        joint = joint * (rate if rate.ndim == 1 else rate[:, None])
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
    """The different sets of values that boxes allow of one feature: there are far fewer of them.

    Attributes:
        allowed: whether a set has a value, sets × values.
        of_box: number of each box's set.
        mass: P(x_j in the set | c, f, s), groups × sets × classes × clusters.
    """

    allowed: Bools
    of_box: Ints
    mass: Floats

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
        raise LearningError("what boxes allow is no bit for each value of each box: fit it again")
    return box


@dataclass(frozen=True, eq=False, init=False)
class ForestDistribution(FairDistribution):
    """The distribution of a forest: queries go straight to the boxes that hold a row.

    Every query of its circuit gives the same, and takes a thousand times as long; the circuit is
    made when it is asked for. With other parameters (:meth:`with_parameters`) it is a circuit like
    any other.
    """

    forest: Forest
    rates: TopRates

    is_forest: ClassVar[bool] = True

    def __init__(self, layout: Layout, forest: Forest, rates: TopRates) -> None:
        """The layout is told how many (leaf, cluster) there are."""
        rates.check(layout)
        n_components = len(forest.tree) * forest.n_clusters
        object.__setattr__(self, "model", "FairPC")
        object.__setattr__(self, "layout", replace(layout, n_components=n_components))
        object.__setattr__(self, "forest", forest)
        object.__setattr__(self, "rates", rates)

    @cached_property  # type: ignore[misc]  # other models have it from the start
    def circuit(self) -> Circuit:
        return forest_circuit(self.layout, self.forest, self.rates)

    def with_parameters(self, parameters: npt.ArrayLike) -> FairDistribution:
        circuit = self.circuit.with_parameters(parameters)
        return FairDistribution(self.model, self.layout, circuit)

    def sums(self) -> Floats:
        starts = np.flatnonzero(np.diff(self.forest.tree, prepend=-1))
        return np.asarray(np.add.reduceat(self.forest.leaf_rate, starts, axis=2).ravel())

    @property
    def top_rates(self) -> TopRates:
        return self.rates

    @property
    def subgroup_decision_rate(self) -> Floats:
        return np.stack([np.atleast_2d(self.rates.decision_rate)] * self.layout.n_groups)

    def log_likelihood(self, s: npt.ArrayLike | None, d: npt.ArrayLike | None, x: Codes) -> Floats:
        joint = self._log_joint(s, x)
        label = self._log_label(d, len(x))
        return _log_sum(joint + label)

    def decision(self, s: npt.ArrayLike | None, x: Codes) -> Floats:
        groups, features = self._subgroups(s, x)
        if (groups >= 0).all():
            with np.errstate(divide="ignore"):
                joint = self.forest.log_densities(features, groups)
                joint += np.log(self._decision_rate_of(groups))
            refuse_impossible(joint.max(axis=1))
            return _normalised(joint)
        shared: Floats = self._posterior(s, x).sum(axis=1)
        return shared

    def observed(self, s: npt.ArrayLike | None, x: Codes) -> Floats:
        posterior = self._posterior(s, x)
        result: Floats = np.einsum("rsf,sfd->rd", posterior, self._mechanism)
        return result

    def posterior(self, s: npt.ArrayLike | None, d: npt.ArrayLike | None, x: Codes) -> Floats:
        shared: Floats = self._posterior(s, x, d).sum(axis=1)
        return shared

    def group(self, x: Codes) -> Floats:
        by_subgroup = self._posterior(None, x).sum(axis=2)
        shape = len(x), self.layout.n_groups, self.layout.strata.n
        shared: Floats = by_subgroup.reshape(shape).sum(axis=2)
        return shared

    def joint_with_values(self, x: Codes, first: int, of: Outcome, positive: int) -> Floats:
        """By matrix products: P(x_j = v | x, box, c, s) does not depend on x beyond the box."""
        layout, strata = self.layout, self.layout.strata
        start = np.append(0, np.cumsum(layout.arities))
        begin = int(start[first])
        result = np.zeros((len(x), layout.n_groups, 2, int(start[-1]) - begin))
        rest = strata.rest(len(layout.names))
        # Of the features that make no strata, those from the first on, and where their values are.
        later = [i for i, j in enumerate(rest) if j >= first]
        places = [np.arange(start[j], start[j + 1]) - begin for j in rest if j >= first]
        at = np.concatenate([np.empty(0, np.int64), *places])
        for g in range(layout.n_subgroups):
            s, a = divmod(g, strata.n)
            everyone = np.full(len(x), -1)
            here = np.flatnonzero(strata.allows(everyone, x, np.full(len(x), g)))
            values, alone = self._extended(g, x[here][:, rest], later, of, positive)
            for outcome in range(2):
                result[here[:, None], s, outcome, at] += values[:, outcome]
            for j, value in zip(strata.columns, strata.values(a), strict=True):
                if j >= first:
                    result[here, s, :, start[j] - begin + value] += alone
        return result

    def _extended(
        self, g: int, x: Codes, later: Sequence[int], of: Outcome, positive: int
    ) -> tuple[Floats, Floats]:
        """P(g, x, x_j = v) of the values of a subgroup's later features, and P(g, x), each
        whatever the outcome and with it being positive."""
        forest, group_rate = self.forest, float(self.rates.group_rate[g])
        rate, mechanism = self.rates.of_subgroup(g, self.layout.strata)
        share = mechanism[:, positive] if of == "label" else np.eye(len(rate))[positive]
        n_values = sum(forest.values[j].shape[3] for j in later)
        values, alone = np.zeros((len(x), 2, n_values)), np.zeros((len(x), 2))
        for f in range(len(rate)):
            outcome = np.array([1.0, share[f]])
            for start in range(0, len(x), EXTENDED):
                here = slice(start, start + EXTENDED)
                each, every = forest.extended(g, f, x[here], later)
                values[here] += group_rate * rate[f] * each[:, None] * outcome[:, None]
                alone[here] += group_rate * rate[f] * every[:, None] * outcome
        return values, alone

    @property
    def fingerprint(self) -> str:
        """Of boxes and rates, without the circuit."""
        said = {"layout": repr(self.layout)} | self.forest.to_dict() | self.rates.to_dict()
        return f"sha256:{hashlib.sha256(json.dumps(said).encode()).hexdigest()}"

    @property
    def n_edges(self) -> int:
        """Counted without the circuit."""
        layout, forest = self.layout, self.forest
        n_cells, n_boxes = layout.n_subgroups * layout.n_classes, len(forest.tree)
        sizes = np.stack([box.sum(axis=1) for box in forest.allowed])
        wide = [box[size > 1] for box, size in zip(forest.allowed, sizes, strict=True)]
        sums = forest.n_clusters * sum(int(np.unique(box, axis=0).sum()) for box in wide)
        # The product of a box that holds one x alone is made of indicators: all cells share it.
        shared = int((sizes == 1).all(axis=0).sum())
        n_products = forest.n_clusters * (n_cells * (n_boxes - shared) + shared)
        n_factors = len(forest.values) + (layout.component is not None)
        products = n_products * n_factors if n_factors > 1 else 0
        each = forest.n_trees + n_boxes + n_boxes * forest.n_clusters + sums
        # A cell is a product of an indicator, the mechanism and its trees.
        above = n_cells * (1 + 3) + layout.n_subgroups * (1 + 2 + len(layout.strata.columns))
        return n_cells * each + products + above + layout.n_mechanisms * layout.n_classes**2

    @property
    def extension_work(self) -> float:
        n_terms = len(self.forest.tree) * self.forest.n_clusters
        n_cells = self.layout.n_subgroups * self.layout.n_classes
        return n_cells * n_terms * float(self.forest.start[-1])

    def _posterior(
        self, s: npt.ArrayLike | None, x: Codes, d: npt.ArrayLike | None = None
    ) -> Floats:
        """P(s, f | what is known): rows × subgroups × classes."""
        joint = self._log_joint(s, x) + self._log_label(d, len(x))
        refuse_impossible(joint.max(axis=(1, 2)))
        return _normalised(joint)

    def _turned(self, rows: Rows) -> tuple[Floats, float]:
        layout = self.layout
        n = max(TURNED_CELLS // (layout.n_subgroups * layout.n_classes**2), 1)
        chunks = [np.arange(i, min(i + n, len(rows.d))) for i in range(0, len(rows.d), n)]
        parts = [self._turned_of(rows.take(chunk)) for chunk in chunks]
        return np.sum([counts for counts, _ in parts], axis=0), sum(logs for _, logs in parts)

    def _turned_of(self, rows: Rows) -> tuple[Floats, float]:
        joint = self._log_joint(rows.s, rows.x)
        if rows.f is not None:
            known = np.arange(rows.n_classes) == rows.f[:, None]
            joint = np.where((known | (rows.f < 0)[:, None])[:, None], joint, -np.inf)
        unlabelled = np.broadcast_to(self._mechanism, (len(rows.d), *self._mechanism.shape))
        label = np.where(
            (np.arange(rows.n_classes) == rows.d[:, None])[:, None, None]
            | (rows.d < 0)[:, None, None, None],
            unlabelled,
            0.0,
        )
        with np.errstate(divide="ignore"):
            whole = joint[..., None] + np.log(label)
        n = len(rows.d)
        posterior = _normalised(whole.reshape(n, -1, 1)).reshape(whole.shape)
        logs = _log_sum(whole.reshape(n, -1, 1))
        counts = np.tensordot(rows.weights, posterior, axes=1)
        return counts, float(rows.weights @ logs)

    def _log_joint(self, s: npt.ArrayLike | None, x: Codes) -> Floats:
        """log P(s, f, x): rows × subgroups × classes; −∞ in those that a row is not from."""
        n_groups, strata = self.layout.n_subgroups, self.layout.strata
        groups, features = self._subgroups(s, x)
        rates = self.rates
        joint = np.full((len(x), n_groups, self.layout.n_classes), -np.inf)
        with np.errstate(divide="ignore"):
            known = np.flatnonzero(groups >= 0)
            if len(known):
                of = groups[known]
                some = features if len(known) == len(x) else features[known]
                dense = self.forest.log_densities(some, of)
                joint[known, of] = dense + np.log(rates.group_rate)[of, None]
            unknown = np.flatnonzero(groups < 0)
            given = np.full(len(x), -1) if s is None else np.broadcast_to(s, len(x))
            for g in range(n_groups if len(unknown) else 0):
                of = np.full(len(unknown), g)
                here = unknown
                if strata:
                    here = unknown[strata.allows(given[unknown], x[unknown], of)]
                dense = self.forest.log_densities(features[here], of[: len(here)])
                joint[here, g] = dense + np.log(rates.group_rate[g])
            joint += np.log(self._decision_rate_of(np.arange(n_groups)))
        return joint

    def _subgroups(self, s: npt.ArrayLike | None, x: Codes) -> tuple[Array, Codes]:
        """Subgroup of each row, -1 where it is not known, and its features beside the strata."""
        groups = np.full(len(x), -1) if s is None else np.broadcast_to(s, len(x))
        strata = self.layout.strata
        if not strata:
            return groups, x
        return strata.subgroups(groups, x), x[:, strata.rest(len(self.layout.names))]

    def _decision_rate_of(self, groups: Array) -> Floats:
        """P(f) in each of some subgroups; one for all without strata."""
        rate, strata = self.rates.decision_rate, self.layout.strata
        return rate[groups % strata.n] if strata else rate

    @property
    def _mechanism(self) -> Floats:
        """P(D = d | Df = f) in each subgroup."""
        layout = self.layout
        rates: Floats = self.rates.mechanism[layout.mechanism_of(np.arange(layout.n_subgroups))]
        return rates

    def _log_label(self, d: npt.ArrayLike | None, n: int) -> Floats:
        """log P(d | f, s): rows × subgroups × classes; 0 where the label is missing."""
        labels = np.full(n, -1) if d is None else np.broadcast_to(d, n)
        with np.errstate(divide="ignore"):
            logs = np.log(self._mechanism)
        padded = np.concatenate([logs, np.zeros((*logs.shape[:2], 1))], axis=2)
        result: Floats = padded.transpose(2, 0, 1)[labels]
        return result


def _log_sum(logs: Floats) -> Floats:
    """log Σ exp over all axes but the first."""
    flat = logs.reshape(len(logs), math.prod(logs.shape[1:]))
    top = flat.max(axis=1)
    safe = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        result: Floats = safe + np.log(np.exp(flat - safe[:, None]).sum(axis=1))
    return result


def _normalised(logs: Floats) -> Floats:
    """Shares of all axes but the first; zeros in rows of probability zero."""
    total = _log_sum(logs)
    safe = np.where(np.isneginf(total), 0.0, total)
    shares: Array = np.exp(logs - safe.reshape(-1, *[1] * (logs.ndim - 1)))
    return shares


def forest_circuit(layout: Layout, forest: Forest, rates: TopRates) -> Circuit:
    """The circuit of a forest: each leaf a product over the cells of its box, per cluster."""
    grafted = _Leaves(layout, forest)
    rate = np.tile(rates.decision_rate, (layout.n_groups, 1))
    return build(layout, grafted.graft, rates.group_rate, rate, rates.mechanism)


@dataclass(eq=False)
class _Leaves:
    """Adds the leaves of a forest to a builder."""

    layout: Layout
    forest: Forest

    def graft(self, b: CircuitBuilder, f: int, s: int, columns: Sequence[int]) -> int:
        forest = self.forest
        leaves = self._leaves(b, f, s, columns)
        trees = []
        for k in range(forest.n_trees):
            here = np.flatnonzero(forest.tree == k)
            rate = forest.leaf_rate[s, f, here]
            trees.append(
                b.sum(
                    [leaves[i] for i in here], (rate / rate.sum()).tolist(), tie=("leaf", k, f, s)
                )
            )
        return b.sum(trees, [1 / forest.n_trees] * forest.n_trees, tie="tree")

    def _leaves(self, b: CircuitBuilder, f: int, s: int, columns: Sequence[int]) -> list[int]:
        """A node per box: the clusters of the class and group, restricted to it."""
        forest, component = self.forest, self.layout.component
        n_clusters = forest.n_clusters
        cells = [self._cells(b, f, s, j, column) for j, column in enumerate(columns)]
        nodes = []
        for i in range(len(forest.tree)):
            parts = []
            for c in range(n_clusters):
                factors = [of_feature[c][i] for of_feature in cells]
                if component is not None:
                    factors.append(b.indicator(component, i * n_clusters + c))
                parts.append(b.product(*factors))
            mass = forest.cluster_mass[s, f, i]
            nodes.append(b.sum(parts, (mass / mass.sum()).tolist(), tie=("cluster", i, f, s)))
        return nodes

    def _cells(self, b: CircuitBuilder, f: int, s: int, j: int, column: int) -> list[list[int]]:
        """P(x_j | c, f, s) within each box, clusters × boxes; a node for all boxes alike."""
        boxes, which = self._boxes[j]
        values = [b.indicator(column, v) for v in range(self.forest.allowed[j].shape[1])]
        inside = [[values[v] for v in box] for box in boxes]
        result = []
        for c, rate in enumerate(self.forest.values[j][s, f]):
            nodes = []
            for k, (box, leaves) in enumerate(zip(boxes, inside, strict=True)):
                within = rate[box] / rate[box].sum()
                alone = len(leaves) == 1
                tie = "within", f, s, c, j, k
                nodes.append(leaves[0] if alone else b.sum(leaves, within.tolist(), tie=tie))
            result.append([nodes[k] for k in which])
        return result

    @cached_property
    def _boxes(self) -> list[tuple[list[list[int]], list[int]]]:
        """Of each feature the values in boxes that differ, and which of these each box is."""
        found = []
        for allowed in self.forest.allowed:
            boxes, which = np.unique(allowed, axis=0, return_inverse=True)
            values = [np.flatnonzero(box).tolist() for box in boxes]
            found.append((values, which.ravel().tolist()))
        return found
