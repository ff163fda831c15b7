"""Random circuits, rows and weights: one family of hypothesis strategies for all tests.

All randomness is drawn through hypothesis, so that a failure can be replayed
and shrinks. Circuits are smooth and decomposable and stay small enough for the
enumeration of ``oracle``; the flags of ``circuits`` choose the rest.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from random import Random
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

import oracle
from fairpc.circuit import Circuit, CircuitBuilder

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Scope = tuple[int, ...]
Box = tuple[tuple[int, ...], ...]
"""Per variable of a scope, the values that are possible."""

MAX_STATES = 4096


def examples(n: int) -> int:
    """n examples in the profile "all", a tenth of them otherwise."""
    return n if os.environ.get("HYPOTHESIS_PROFILE") == "all" else max(n // 10, 1)


def many(n: int) -> int:
    """n rows; a hundredth of them where the kernels run as plain Python."""
    return n if os.environ.get("NUMBA_DISABLE_JIT") != "1" else n // 100


@dataclass(frozen=True)
class Case:
    """A circuit with rows (-1 = missing) and a weight per row."""

    circuit: Circuit
    codes: Codes
    weights: Floats


@dataclass
class Grower:
    """Grows a random circuit from the top down; equal scopes may meet in one node."""

    rnd: Random
    arities: tuple[int, ...]
    structured: bool
    max_nodes: int
    uneven: bool
    """Whether there are weights of zero, or close to it."""
    builder: CircuitBuilder = field(init=False)
    splits: dict[Scope, list[Scope]] = field(default_factory=dict)
    pool: dict[Any, list[int]] = field(default_factory=dict)
    ties: dict[int, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, rnd: Random, arities: tuple[int, ...], structured: bool, max_nodes: int) -> Self:
        return cls(rnd, arities, structured, max_nodes, uneven=rnd.randrange(4) == 0)

    def grow(self, deterministic: bool) -> Circuit:
        """A circuit over all variables."""
        scope = tuple(range(len(self.arities)))
        if deterministic:
            root = self.deterministic(scope, tuple(tuple(range(a)) for a in self.arities))
        else:
            root = self.free(scope)
        return self.builder.build(root)

    def __post_init__(self) -> None:
        self.builder = CircuitBuilder({f"X{j}": a for j, a in enumerate(self.arities)})

    def chance(self, one_in: int) -> bool:
        return self.rnd.randrange(one_in) == 0

    @property
    def large(self) -> bool:
        return len(self.builder) > self.max_nodes

    def weights(self, k: int) -> list[float]:
        """Positive weights as a rule; now and then some are zero, or far apart."""
        raw: list[float] = [self.rnd.randrange(1, 10) for _ in range(k)]
        if k > 1 and self.uneven and self.chance(3):
            raw[self.rnd.randrange(k)] *= self.rnd.choice((0.0, 1e-6))
        total = math.fsum(raw)
        return [w / total for w in raw]

    def mix(self, children: list[int]) -> int:
        """A sum, sometimes with the parameters of an earlier one."""
        k = len(children)
        known = self.ties.setdefault(k, [])
        if known and self.chance(3):
            return self.builder.sum(children, tie=self.rnd.choice(known))
        if self.chance(3):
            known.append(f"tie {k}.{len(known)}")
            return self.builder.sum(children, self.weights(k), tie=known[-1])
        return self.builder.sum(children, self.weights(k))

    def split(self, scope: Scope) -> list[Scope]:
        """Two or three parts of a scope; always the same ones where all follow one vtree."""
        if self.structured and scope in self.splits:
            return self.splits[scope]
        order = list(scope)
        self.rnd.shuffle(order)
        k = 3 if len(scope) > 2 and self.chance(3) else 2
        cuts = sorted(self.rnd.sample(range(1, len(scope)), k - 1))
        parts = [
            tuple(sorted(order[i:j])) for i, j in zip([0, *cuts], [*cuts, len(order)], strict=True)
        ]
        self.splits[scope] = parts
        return parts

    def shared(self, key: Any) -> int | None:
        """A node made before for the same key, now and then, and whenever there are many."""
        known = self.pool.get(key)
        return self.rnd.choice(known) if known and (self.large or self.chance(3)) else None

    def keep(self, key: Any, node: int) -> int:
        self.pool.setdefault(key, []).append(node)
        return node

    def free(self, scope: Scope) -> int:
        """Any smooth and decomposable node over a scope."""
        known = self.shared(scope)
        if known is not None:
            return known
        width = 1 if self.large else self.rnd.randrange(1, 4)
        if len(scope) == 1:
            children = [self.leaf(scope[0]) for _ in range(width)]
        else:
            children = [
                self.builder.product(*(self.free(part) for part in self.split(scope)))
                for _ in range(width)
            ]
        # A sum of one child is legal, and rare enough elsewhere to be worth a test.
        alone = width == 1 and not self.chance(5)
        return self.keep(scope, children[0] if alone else self.mix(children))

    def leaf(self, v: int) -> int:
        values = list(range(self.arities[v]))
        if self.chance(4):
            return self.builder.indicator(v, self.rnd.choice(values))
        return self.mix([self.builder.indicator(v, u) for u in values])

    def deterministic(self, scope: Scope, box: Box) -> int:
        """A deterministic node whose support lies inside a box."""
        known = self.shared((scope, box))
        if known is not None:
            return known
        if len(scope) == 1:
            node = self.value_of(scope[0], box[0])
        elif self.large or self.chance(3):
            node = self.factors(scope, box)
        else:
            node = self.mix(self.exclusive(scope, box))
        return self.keep((scope, box), node)

    def value_of(self, v: int, values: tuple[int, ...]) -> int:
        leaves = [self.builder.indicator(v, u) for u in values]
        return leaves[0] if len(leaves) == 1 and not self.chance(5) else self.mix(leaves)

    def factors(self, scope: Scope, box: Box) -> int:
        of = dict(zip(scope, box, strict=True))
        return self.builder.product(
            *(self.deterministic(part, tuple(of[v] for v in part)) for part in self.split(scope))
        )

    def exclusive(self, scope: Scope, box: Box) -> list[int]:
        """Nodes that exclude each other: told apart by one variable, or only by two together."""
        wide = [i for i, values in enumerate(box) if len(values) > 1]
        if not wide:
            return [self.narrowed(scope, box)]
        if len(scope) > 1 and len(wide) > 1 and self.chance(4):
            return self.crosswise(scope, box)
        i = self.rnd.choice(wide)
        groups = self.groups(box[i])
        return [self.narrowed(scope, (*box[:i], group, *box[i + 1 :])) for group in groups]

    def groups(self, values: tuple[int, ...]) -> list[tuple[int, ...]]:
        """The values dealt to at least two groups."""
        k = self.rnd.randrange(2, len(values) + 1)
        return [values[g::k] for g in range(k)]

    def narrowed(self, scope: Scope, box: Box) -> int:
        return self.value_of(scope[0], box[0]) if len(scope) == 1 else self.factors(scope, box)

    def crosswise(self, scope: Scope, box: Box) -> list[int]:
        """l₁r₁ + l₂r₂ and l₁r₂ + l₂r₁, for exclusive l and exclusive r: equal boxes, no overlap."""
        of = dict(zip(scope, box, strict=True))
        parts = self.split(scope)
        boxes = [tuple(of[v] for v in part) for part in parts]
        sides = [self.exclusive(p, b) for p, b in zip(parts, boxes, strict=True)]
        first, second, *rest = sides
        if min(len(first), len(second)) < 2:
            return [self.narrowed(scope, box)]
        others = [s[0] for s in rest]
        pair = [
            [self.builder.product(first[0], second[s], *others) for s in (0, 1)],
            [self.builder.product(first[1], second[1 - s], *others) for s in (0, 1)],
        ]
        return [self.mix([pair[0][s], pair[1][s]]) for s in (0, 1)]


def _arities(rnd: Random, max_states: int, max_variables: int) -> tuple[int, ...]:
    arities: list[int] = []
    for _ in range(rnd.randrange(1, max_variables + 1)):
        arity = rnd.choice((2, 2, 2, 3, 4, 5))
        if math.prod(arities) * arity > max_states:
            break
        arities.append(arity)
    return tuple(arities)


@st.composite
def circuits(
    draw: st.DrawFn,
    /,
    *,
    deterministic: bool | None = None,
    structured: bool | None = None,
    max_states: int = MAX_STATES,
    max_variables: int = 12,
    max_nodes: int = 60,
) -> Circuit:
    """Smooth, decomposable circuits; each flag may be left to chance."""
    rnd = draw(st.randoms(use_true_random=False))
    arities = _arities(rnd, max_states, max_variables)
    if structured is None:
        structured = rnd.randrange(3) == 0
    if deterministic is None:
        deterministic = rnd.randrange(2) == 0
    return Grower.of(rnd, arities, structured, max_nodes).grow(deterministic)


def deterministic_circuits(**flags: Any) -> st.SearchStrategy[Circuit]:
    """Deterministic circuits."""
    return circuits(deterministic=True, **flags)


def any_circuits(**flags: Any) -> st.SearchStrategy[Circuit]:
    """Circuits that are deterministic or not."""
    return circuits(**flags)


def _row(rnd: Random, circuit: Circuit, positive: Codes | None, complete: bool) -> list[int]:
    """A row of which nothing, something or everything is missing."""
    if positive is None:
        row = [rnd.randrange(a) for a in circuit.arities.tolist()]
    else:
        row = positive[rnd.randrange(len(positive))].tolist()
    if complete or rnd.randrange(4) == 0:
        return row
    return [-1 if rnd.randrange(2) == 0 else v for v in row]


@st.composite
def cases(
    draw: st.DrawFn,
    /,
    *,
    positive: bool = True,
    complete: bool = False,
    max_rows: int = 6,
    **flags: Any,
) -> Case:
    """A circuit, rows (of positive probability, if asked for) and weights that may be zero."""
    circuit = draw(circuits(**flags))
    rnd = draw(st.randoms(use_true_random=False))
    support = oracle.all_rows(circuit.graph)[oracle.joint(circuit) > 0] if positive else None
    n = rnd.randrange(1, max_rows + 1)
    codes = [_row(rnd, circuit, support, complete) for _ in range(n)]
    weights = [float(rnd.choice((0, 1, 1, 2, 0.5, 3.25))) for _ in range(n)]
    weights[rnd.randrange(n)] = 1.0
    return Case(circuit, np.array(codes, np.int64), np.array(weights))
