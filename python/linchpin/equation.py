"""The equation of Udwadia and Kalaba as a function of NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _core

__all__ = ["Solution", "solve"]

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Solution:
    """The result of :func:`solve`: M a = Q + ideal_force + nonideal_force, with n columns and m rows."""

    acceleration: Vector
    """[n] The acceleration a that meets A a = b and is nearest to the free one in the metric of M."""
    ideal_force: Vector
    """[n] Aᵀ λ, the constraint force that does no work in any virtual displacement."""
    nonideal_force: Vector
    """[n] The part of the prescribed force c that the constraints do not cancel: c − Aᵀ G⁺ A M⁻¹ c, G = A M⁻¹ Aᵀ."""
    multipliers: Vector
    """[m] λ, the multipliers of least norm in the rows as given."""
    rank: int
    """Rank of A."""
    residual: float
    """The largest component of A a − b."""
    status: Literal["ok", "redundant", "contradictory"]
    """``contradictory``: no acceleration meets all rows, and this one has the least squares of A a − b."""
    redundant: list[int]
    """Indices of rows that follow from other rows. With `groups`, indices of groups."""
    contradictory: list[int]
    """Indices of rows that contradict other rows. With `groups`, indices of groups."""
    undetermined: list[int]
    """Indices of rows whose multipliers are not unique. With `groups`, indices of groups."""
    backend: Literal["dense", "sparse"]
    """The solver that was used."""


def solve(
    M: ArrayLike | Sequence[ArrayLike],
    Q: ArrayLike,
    A: Any,
    b: ArrayLike,
    c: ArrayLike | None = None,
    *,
    groups: Sequence[int] | None = None,
    backend: Literal["auto", "dense", "sparse"] = "auto",
    rank_tolerance: float = 1e-6,
    consistency_tolerance: float = 1e-9,
) -> Solution:
    """Computes accelerations and constraint forces from M a = Q + Aᵀ λ + … and A a = b.

    Rows of A may be redundant or contradictory. The function finds the rank and names these rows.

    :param M: Mass matrix, symmetric positive definite. It may have these forms: an array [n, n]; a vector [n], which is
        its diagonal; a list of square arrays, which are its diagonal blocks; or a SciPy sparse array. M may be singular
        where the rows of A complete it.
    :param Q: [n] Applied force, with gravity and gyroscopic terms.
    :param A: [m, n] Constraint matrix, an array or a SciPy sparse array.
    :param b: [m] Right-hand side.
    :param c: [n] Prescribed nonideal force, such as friction. Default: zero.
    :param groups: [m] The constraint to which each row belongs: 0, 1, 2, … in ascending order. Default: each row is a
        constraint of its own.
    :param backend: ``dense`` is the reference solver. ``sparse`` and ``auto`` factor over the graph of the constraints.
    :param rank_tolerance: Singular values of A M^-½ with rows of unit length count as zero below this fraction of the
        largest one.
    :param consistency_tolerance: Relative size of the part of b − A M⁻¹ Q outside the range of A above which rows are
        contradictory.
    :raises ValueError: for a wrong shape, a number that is not finite, or an M that is not symmetric positive definite.
    :raises TypeError: for an argument that is no array of real numbers.
    """
    Q_ = _vector("Q", Q)
    n = len(Q_)
    sizes, mass = _blocks(M, n)
    values, columns, row_start = _rows(A, n)
    m = len(row_start) - 1
    b_ = _vector("b", b, m, "A has", "row")
    c_ = np.zeros(n) if c is None else _vector("c", c, n, "Q has", "component")
    group = np.arange(m) if groups is None else np.asarray(groups)
    if group.shape != (m,) or (m and not np.issubdtype(group.dtype, np.integer)):
        raise ValueError(f"groups must be {m} whole numbers, one for each row of A, not {groups!r}")
    steps = np.diff(group, prepend=0)
    if m and (group[0] != 0 or np.any((steps != 0) & (steps != 1))):
        raise ValueError(f"groups must begin with 0 and grow by 0 or 1 from row to row, not {groups!r}")
    if backend not in ("auto", "dense", "sparse"):
        raise ValueError(f"backend must be 'auto', 'dense' or 'sparse', not {backend!r}")
    for name, tolerance in (("rank_tolerance", rank_tolerance), ("consistency_tolerance", consistency_tolerance)):
        if not 0 < float(tolerance) < 1:
            raise ValueError(f"{name} must be between 0 and 1, not {tolerance!r}")
    result = _core.solve_arrays(
        sizes,
        mass,
        Q_,
        c_,
        values,
        columns,
        row_start,
        b_,
        group.astype(np.int64),
        int(group[-1]) + 1 if m else 0,
        backend,
        float(rank_tolerance),
        float(consistency_tolerance),
    )
    return Solution(**result)


def _real(name: str, value: Any) -> NDArray[np.float64]:
    """The argument as a contiguous array of double precision with finite numbers."""
    try:
        array = np.asarray(value)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name} is no array: {error}") from None
    if array.size == 0:
        array = array.astype(np.float64)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be an array of real numbers, not {_kind(value, array)}")
    array = np.ascontiguousarray(array, dtype=np.float64)
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        place = ", ".join(str(i) for i in bad[0])
        raise ValueError(f"{name}[{place}] is {array[tuple(bad[0])]}; all numbers must be finite")
    return array


def _kind(value: Any, array: NDArray[Any]) -> str:
    return repr(value) if isinstance(value, str) else f"{type(value).__name__} of {array.dtype}"


def _vector(name: str, value: Any, size: int | None = None, by: str = "", what: str = "") -> Vector:
    array = _real(name, value)
    if array.ndim != 1 or (size is not None and len(array) != size):
        wanted = "a vector" if size is None else f"a vector of {size} (because {by} {size} {what}{'s' * (size != 1)})"
        raise ValueError(f"{name} must be {wanted}, but its shape is {array.shape}")
    return array


def _is_sparse(value: Any) -> bool:
    return hasattr(value, "tocsr") and hasattr(value, "nnz")


def _csr(name: str, value: Any) -> tuple[Vector, NDArray[np.int64], NDArray[np.int64]]:
    csr = value.tocsr()
    try:
        csr.check_format(full_check=True)
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{name} is no valid sparse array: {error}") from None
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return _real(name, csr.data), csr.indices.astype(np.int64), csr.indptr.astype(np.int64)


def _rows(A: Any, n: int) -> tuple[Vector, NDArray[np.int64], NDArray[np.int64]]:
    """The entries of A, their columns, and where each row starts."""
    if _is_sparse(A):
        if A.shape[1] != n:
            raise ValueError(f"A must have {n} columns (because Q has {n} components), but its shape is {A.shape}")
        return _csr("A", A)
    array = _real("A", A)
    if array.size == 0 and array.shape in ((0,), (0, n)):
        array = array.reshape(0, n)
    if array.ndim != 2 or array.shape[1] != n:
        raise ValueError(f"A must be a matrix with {n} columns (because Q has {n} components), but its shape is {array.shape}")
    row, column = np.nonzero(array)
    row_start = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=len(array)))))
    return np.ascontiguousarray(array[row, column]), column.astype(np.int64), row_start.astype(np.int64)


def _blocks(M: Any, n: int) -> tuple[NDArray[np.int64], Vector]:
    """Sizes of the diagonal blocks of M, and the blocks one after the other, row by row."""
    if _is_sparse(M):
        if M.shape != (n, n):
            raise ValueError(f"M must be {n} by {n} (because Q has {n} components), but its shape is {M.shape}")
        data, columns, start = _csr("M", M)
        dense_rows = np.repeat(np.arange(n), np.diff(start))
        return _connected_blocks(dense_rows, columns, data, n)
    if isinstance(M, (list, tuple)) and any(np.ndim(block) == 2 for block in M):
        blocks = [_real(f"M[{k}]", block) for k, block in enumerate(M)]
        for k, block in enumerate(blocks):
            if block.ndim != 2 or block.shape[0] != block.shape[1] or not len(block):
                raise ValueError(f"M[{k}] must be a square block, but its shape is {block.shape}")
        sizes = np.array([len(block) for block in blocks], dtype=np.int64)
        if sizes.sum() != n:
            raise ValueError(f"the blocks of M have {sizes.sum()} rows together, but Q has {n} components")
        return sizes, np.concatenate([block.ravel() for block in blocks])
    array = _real("M", M)
    if array.shape == (n,):
        return np.ones(n, dtype=np.int64), array
    if array.shape != (n, n):
        raise ValueError(
            f"M must be {n} by {n}, or its diagonal of {n} (because Q has {n} components), but its shape is {array.shape}"
        )
    row, column = np.nonzero(array)
    return _connected_blocks(row, column, array[row, column], n)


def _connected_blocks(row: Any, column: Any, data: Vector, n: int) -> tuple[NDArray[np.int64], Vector]:
    """Divides a matrix into the smallest diagonal blocks of consecutive rows that have all of its entries."""
    last = np.arange(n)  # the last row or column that the entries of a row reach
    np.maximum.at(last, np.minimum(row, column), np.maximum(row, column))
    ends = np.flatnonzero(np.maximum.accumulate(last) == np.arange(n)) + 1
    starts = np.concatenate(([0], ends[:-1])).astype(np.int64)
    sizes = (ends - starts).astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(sizes**2)))
    mass = np.zeros(offsets[-1])
    block = np.searchsorted(ends, row, side="right")
    mass[offsets[block] + (row - starts[block]) * sizes[block] + (column - starts[block])] = data
    return sizes, mass
