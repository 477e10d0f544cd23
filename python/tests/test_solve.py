"""linchpin.solve: the equation as a function of arrays."""

import json
import subprocess

import numpy as np
import pytest
from conftest import SOURCE

import linchpin

PROBLEMS = [path for path in sorted((SOURCE / "tests/regression/instants").glob("*.json")) if ".expected" not in path.name]


def random_problem(rng, n, m):
    L = rng.normal(size=(n, n))
    return L @ L.T + n * np.eye(n), rng.normal(size=n), rng.normal(size=(m, n)), rng.normal(size=m), rng.normal(size=n)


def test_equals_the_formula_of_udwadia_and_kalaba():
    rng = np.random.default_rng(1)
    for n, m in ((1, 1), (3, 2), (6, 4), (12, 5)):
        M, Q, A, b, c = random_problem(rng, n, m)
        w, V = np.linalg.eigh(M)
        root = V @ np.diag(w**-0.5) @ V.T
        a = np.linalg.solve(M, Q)
        B = np.linalg.pinv(A @ root)
        ideal = np.linalg.inv(root) @ B @ (b - A @ a)
        nonideal = np.linalg.inv(root) @ (np.eye(n) - B @ (A @ root)) @ root @ c
        s = linchpin.solve(M, Q, A, b, c)
        np.testing.assert_allclose(s.acceleration, np.linalg.solve(M, Q + ideal + nonideal), atol=1e-11)
        np.testing.assert_allclose(s.ideal_force, ideal, atol=1e-10)
        np.testing.assert_allclose(s.nonideal_force, nonideal, atol=1e-10)
        np.testing.assert_allclose(A.T @ s.multipliers, s.ideal_force, atol=1e-11)
        assert s.rank == m and s.status == "ok" and s.residual < 1e-11
        assert s.redundant == s.contradictory == s.undetermined == []


def test_names_redundant_and_contradictory_rows():
    A = [[1.0, 0, 0], [0, 1, 0], [2, 0, 0]]
    s = linchpin.solve(np.ones(3), [1.0, 2, 3], A, [1.0, 0, 2])
    assert s.status == "redundant" and s.rank == 2 and s.redundant == [0, 2]
    np.testing.assert_allclose(s.acceleration, [1, 0, 3], atol=1e-14)
    s = linchpin.solve(np.ones(3), [1.0, 2, 3], A, [1.0, 0, 5])
    assert s.status == "contradictory" and s.contradictory == [0, 2]
    s = linchpin.solve(np.ones(3), [1.0, 2, 3], A, [1.0, 0, 5], groups=[0, 0, 1])
    assert s.contradictory == [0, 1]


@pytest.mark.parametrize("backend", ["auto", "dense", "sparse"])
def test_takes_every_form_of_a_matrix(backend):
    scipy = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(2)
    blocks = [np.diag(rng.uniform(1, 2, 3)), np.array([[2.0]]), np.array([[2.0, 0.5], [0.5, 1.0]])]
    M = np.zeros((6, 6))
    M[:3, :3], M[3:4, 3:4], M[4:, 4:] = blocks
    Q, b, A = rng.normal(size=6), rng.normal(size=3), rng.normal(size=(3, 6))
    A[np.abs(A) < 0.5] = 0
    expected = linchpin.solve(M, Q, A, b, backend=backend).acceleration
    for mass in (blocks, tuple(blocks), scipy.csr_matrix(M), scipy.coo_array(M), M.tolist(), np.asfortranarray(M)):
        for rows in (A, scipy.csr_matrix(A), scipy.csc_array(A), A.tolist(), A.astype(np.float64, order="F")):
            np.testing.assert_array_equal(linchpin.solve(mass, Q, rows, b, backend=backend).acceleration, expected)
    diagonal = rng.uniform(1, 2, 6)
    np.testing.assert_array_equal(
        linchpin.solve(diagonal, Q, A, b).acceleration, linchpin.solve(np.diag(diagonal), Q, A, b).acceleration
    )
    np.testing.assert_allclose(linchpin.solve(np.ones(6), Q, np.zeros((0, 6)), []).acceleration, Q)
    np.testing.assert_allclose(linchpin.solve(np.ones(6), Q, [], []).acceleration, Q)
    assert linchpin.solve([1, 1], [1, 2], [[1, 1]], [0]).acceleration.dtype == np.float64


@pytest.mark.parametrize("path", PROBLEMS, ids=lambda path: path.stem)
def test_equals_the_command_bit_for_bit(path, command):
    problem = json.loads(path.read_text())
    n = len(problem["Q"])
    A = np.zeros((len(problem["rows"]), n))
    names = []
    groups = []
    for i, row in enumerate(problem["rows"]):
        for column, value in row["entries"]:
            A[i, column] = value
        if not names or names[-1] != row["constraint"]:
            names.append(row["constraint"])
        groups.append(len(names) - 1)
    s = linchpin.solve(
        [np.array(block) for block in problem["mass_blocks"]],
        problem["Q"],
        A,
        [row["b"] for row in problem["rows"]],
        problem.get("c"),
        groups=groups,
    )
    run = subprocess.run([command, "solve", path, "--json"], capture_output=True, text=True, check=True)
    expected = json.loads(run.stdout)
    assert s.status == expected["status"] and s.rank == expected["rank"]
    np.testing.assert_array_equal(s.acceleration, expected["vdot"])
    np.testing.assert_array_equal(s.multipliers, expected["lambda"])


M, Q, A, b = np.eye(2), [0.0, 1.0], [[1.0, 0.0]], [0.0]


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        ((np.eye(3), Q, A, b), ValueError, r"M must be 2 by 2.*\(3, 3\)"),
        (([np.eye(1)], Q, A, b), ValueError, r"blocks of M have 1 rows together, but Q has 2"),
        (([np.ones((1, 2))], Q, A, b), ValueError, r"M\[0\] must be a square block"),
        (([[1, 2], [2]], Q, A, b), ValueError, r"M is no array"),
        (("abc", Q, A, b), TypeError, r"M must be an array of real numbers, not 'abc'"),
        ((M, "abc", A, b), TypeError, r"Q must be an array of real numbers"),
        ((M, [[0.0, 1.0]], A, b), ValueError, r"Q must be a vector"),
        ((M, [0.0, np.nan], A, b), ValueError, r"Q\[1\] is nan"),
        ((M, Q, [[np.inf, 0]], b), ValueError, r"A\[0, 0\] is inf"),
        ((M, Q, [[1.0, 0, 0]], b), ValueError, r"A must be a matrix with 2 columns.*\(1, 3\)"),
        ((M, Q, [1.0, 0], b), ValueError, r"A must be a matrix"),
        ((M, Q, A, [0.0, 1.0]), ValueError, r"b must be a vector of 1 \(because A has 1 row\)"),
        ((M, Q, A, b, [1.0]), ValueError, r"c must be a vector of 2"),
        ((M, Q, A, [1j]), TypeError, r"b must be an array of real numbers, not list of complex128"),
        ((M, Q, A, [None]), TypeError, r"b must be an array of real numbers"),
        ((-np.eye(2), Q, A, b), ValueError, r"positive definite"),
        ((np.array([[1, 2.0], [0, 1]]), Q, A, b), ValueError, r"symmetric"),
    ],
)
def test_refuses_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        linchpin.solve(*arguments)


@pytest.mark.parametrize(
    "keys, text",
    [
        ({"backend": "gpu"}, "backend must be"),
        ({"rank_tolerance": 0}, "rank_tolerance must be between 0 and 1, not 0"),
        ({"consistency_tolerance": float("nan")}, "consistency_tolerance must be"),
        ({"groups": [1]}, "groups must begin with 0"),
        ({"groups": [0, 1]}, "groups must be 1 whole number"),
        ({"groups": [0.5]}, "groups must be 1 whole number"),
    ],
)
def test_refuses_bad_options(keys, text):
    with pytest.raises(ValueError, match=text):
        linchpin.solve(M, Q, A, b, **keys)


def test_refuses_a_sparse_array_that_is_not_valid():
    sparse = pytest.importorskip("scipy.sparse")
    bad = sparse.csr_array(np.eye(2))
    bad.indices[0] = 7
    for arguments in ((bad, Q, A, b), (M, Q, bad, [0, 0])):
        with pytest.raises(ValueError, match="[MA] is no valid sparse array: "):
            linchpin.solve(*arguments)
