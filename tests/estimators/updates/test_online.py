"""Observations that keep arriving: partial_fit, forget, revise and fold_in against a fresh fit."""

from __future__ import annotations

import operator
import pickle

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import kronfill as kf
from kronfill.errors import (
    DataError,
    DuplicateEntryError,
    EmptyDataError,
    IndexRangeError,
    KernelError,
    ParameterError,
    ShapeError,
)
from kronfill.estimators.gaussian_process.regressor import gaussian_process
from kronfill.estimators.updates import dual as onlinedual
from kronfill.selection import leave_out

N, L = 8, 6
RNG = np.random.default_rng(0)
ROW, COL = RNG.standard_normal((N + 1, 2)), RNG.standard_normal((L + 1, 2))
X = RNG.permutation(np.argwhere(np.ones((N, L))))
Y = np.sin(ROW[X[:, 0], 0]) * COL[X[:, 1], 0] + 2.0 + 0.1 * RNG.standard_normal(len(X))
W = RNG.uniform(0.5, 2.0, len(X))
CENTERS = [None, "mean", "rows", "cols", "both"]
SOLVERS = {
    "dense": kf.Cholesky(),
    "warm": kf.PCG(tol=1e-12),
    "anew": kf.PrimalDirect(),
    "auto": "auto",
}


def rbf(points, identity=0.0):
    kernel = kf.kernels.rbf(points, length_scale=1.5)
    return kernel + identity * kf.kernels.identity(len(points)) if identity else kernel


def kkmcex(center=None, solver="auto", identity=0.0, sizes=(N, L), mu=0.2):
    row, col = rbf(ROW[: sizes[0]], identity), rbf(COL[: sizes[1]], identity)
    return kf.KKMCEX(row, col, mu=mu, center=center, solver=solver)


def rrmcex(center=None, mu=0.2):
    return kf.RRMCEX(rbf(ROW[:N]), rbf(COL[:L]), row_rank=4, col_rank=3, mu=mu, center=center)


def make(method, center):
    return kkmcex(center) if method == "kkmcex" else rrmcex(center)


def forget(est, part):
    if isinstance(est, kf.KKMCEX):
        return est.forget(X[part])
    return est.forget(X[part], Y[part], W[part])


def revise(est, part, values):
    if isinstance(est, kf.KKMCEX):
        return est.revise(X[part], values)
    return est.revise(X[part], values, Y[part], W[part])


def agree(est, fresh, atol=1e-10):
    """What is learnt, predicted and said about uncertainty is that of a fresh fit."""
    assert_allclose(est.predict_matrix(), fresh.predict_matrix(), atol=atol)
    if isinstance(est, kf.KKMCEX):
        assert_allclose(est.dual_coef_, fresh.dual_coef_, atol=atol)
        assert est.observations_ == fresh.observations_
    else:
        assert_allclose(est.coef_, fresh.coef_, atol=atol)
    for name in ("mean_", "row_effects_", "col_effects_"):
        assert_allclose(getattr(est, name), getattr(fresh, name), atol=atol)
    new = ROW[N:]
    assert_allclose(est.extrapolate(rows=new), fresh.extrapolate(rows=new), atol=atol)
    if gaussian_process(fresh).dof > 0:
        assert_allclose(est.signal_variance_, fresh.signal_variance_, rtol=1e-7)
        grid = np.argwhere(np.ones((N, L)))[::5]
        assert_allclose(est.predict_std(grid), fresh.predict_std(grid), atol=max(atol, 1e-7))
        found, wanted = est.extrapolate_std(rows=new), fresh.extrapolate_std(rows=new)
        assert_allclose(found, wanted, atol=max(atol, 1e-7))


@pytest.mark.parametrize("center", CENTERS)
@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
@pytest.mark.parametrize("identity", [0.0, 0.3])
def test_kkmcex_is_the_batch_solution(center, solver, identity):
    est = kkmcex(center, solver, identity)
    atol = 1e-8 if isinstance(solver, kf.PCG) else 1e-10
    for last in (1, 2, 7, 8, 20, 40):
        first = 0 if last == 1 else len(est.observations_)
        est.partial_fit(X[first:last], Y[first:last], W[first:last])
    fresh = clone(est).fit(X[:40], Y[:40], W[:40])
    agree(est, fresh, atol)
    est.forget(X[[3, 39, 0]])
    left = np.delete(np.arange(40), [3, 39, 0])
    agree(est, clone(est).fit(X[left], Y[left], W[left]), atol)
    est.revise(X[[5, 11]], [0.0, 1.0])
    y = Y.copy()
    y[[5, 11]] = 0.0, 1.0
    agree(est, clone(est).fit(X[left], y[left], W[left]), atol)


@pytest.mark.parametrize("center", CENTERS)
def test_rrmcex_is_the_batch_solution(center):
    est = rrmcex(center)
    for first, last in ((0, 1), (1, 3), (3, 40)):
        est.partial_fit(X[first:last], Y[first:last], W[first:last])
        fresh = rrmcex(center).fit(X[:last], Y[:last], W[:last])
        agree(est, fresh, 1e-9)
    for k in (3, 39, 0):
        est.forget(X[[k]], Y[[k]], W[[k]])
    left = np.delete(np.arange(40), [3, 39, 0])
    agree(est, rrmcex(center).fit(X[left], Y[left], W[left]), 1e-9)
    est.revise(X[[5, 11]], [0.0, 1.0], Y[[5, 11]], W[[5, 11]])
    y = Y.copy()
    y[[5, 11]] = 0.0, 1.0
    agree(est, rrmcex(center).fit(X[left], y[left], W[left]), 1e-9)
    assert est.solution_.solver == "RecursiveLeastSquares"
    assert "37 observations" in est.solution_.reason


class Stream(RuleBasedStateMachine):
    """Any sequence of arrivals, removals and corrections, in any batches."""

    @initialize(
        method=st.sampled_from(["kkmcex", "rrmcex"]), center=st.sampled_from(CENTERS),
        seed=st.integers(0, 10**6), first=st.integers(1, 9), fitted=st.booleans(),
    )  # fmt: skip
    def begin(self, method, center, seed, first, fitted):
        self.rng = np.random.default_rng(seed)
        self.y = Y.copy()
        self.live, self.free = list(range(first)), list(range(first, len(X)))
        self.est, self.center = make(method, center), center
        start = self.est.fit if fitted else self.est.partial_fit
        start(X[self.live], self.y[self.live], W[self.live])

    def draw(self, count):
        return [self.live[k] for k in self.rng.permutation(len(self.live))[:count]]

    @rule(count=st.integers(1, 12))
    @precondition(lambda self: self.free)
    def arrive(self, count):
        new, self.free = self.free[:count], self.free[count:]
        self.est.partial_fit(X[new], self.y[new], W[new])
        self.live += new

    @rule(count=st.integers(1, 6))
    @precondition(lambda self: len(self.live) > 6)
    def forget(self, count):
        gone = self.draw(count)
        more = () if isinstance(self.est, kf.KKMCEX) else (self.y[gone], W[gone])
        self.est.forget(X[gone], *more)
        self.live = [k for k in self.live if k not in gone]
        self.free += gone

    @rule(count=st.integers(1, 4))
    def revise(self, count):
        changed = self.draw(count)
        values = self.rng.standard_normal(len(changed))
        more = () if isinstance(self.est, kf.KKMCEX) else (self.y[changed], W[changed])
        self.est.revise(X[changed], values, *more)
        self.y[changed] = values

    @invariant()
    def is_the_batch_solution(self):
        fresh = clone(self.est).fit(X[self.live], self.y[self.live], W[self.live])
        assert_allclose(self.est.predict_matrix(), fresh.predict_matrix(), atol=1e-9)


Stream.TestCase.settings = settings(max_examples=12, stateful_step_count=10, deadline=None)
TestStream = Stream.TestCase


@pytest.mark.parametrize("method", ["kkmcex", "rrmcex"])
def test_explanations_suggestions_and_what_is_left_out(method):
    est = make(method, "mean").partial_fit(X[:20], Y[:20]).partial_fit(X[20:25], Y[20:25])
    fresh = make(method, "mean").fit(X[:25], Y[:25])
    if method == "rrmcex":
        for call in (lambda: est.explain(0, 0), lambda: est.suggest(1), lambda: est.observations_):
            with pytest.raises(AttributeError, match="partial_fit adds them to sums") as caught:
                call()
            assert "a table that is not in memory" not in str(caught.value)
        with pytest.raises(AttributeError, match=r"^'RRMCEX' object has no attribute 'no'$"):
            operator.attrgetter("no")(est)
        with pytest.raises(DataError, match="were not kept"):
            _large_block(est).sample_posterior()
        return
    assert_allclose(est.explain(0, 0).contributions, fresh.explain(0, 0).contributions, atol=1e-10)
    assert_allclose(np.asarray(est.suggest(3)), np.asarray(fresh.suggest(3)))
    assert_allclose(
        leave_out(est, est.observations_), leave_out(fresh, fresh.observations_), atol=1e-10
    )


def _large_block(est):
    k = kf.kernels.rbf(np.linspace(0, 1, 50), length_scale=0.5)
    where = np.argwhere(np.eye(50))
    return kf.RRMCEX(k, k, row_rank=3, col_rank=3).partial_fit(where, np.ones(50))


def test_samples_of_a_stream():
    est = rrmcex().partial_fit(X[:30], Y[:30])
    drawn = est.sample_posterior(n_samples=4000, random_state=1)
    grid = np.argwhere(np.ones((N, L)))
    assert_allclose(drawn.std(axis=0).ravel(), est.predict_std(grid), rtol=0.1)


def test_at_scale_the_solver_starts_from_the_last_solution(monkeypatch):
    monkeypatch.setattr(onlinedual, "DENSE_UPDATES", 0)
    rng = np.random.default_rng(1)
    k = kf.kernels.rbf(rng.random((120, 2)), length_scale=0.5)
    where = np.argwhere(rng.random((120, 120)) < 0.3)
    y = rng.standard_normal(len(where))
    est = kf.KKMCEX(k, k, mu=0.5, solver=kf.Auto(tol=1e-9)).fit(where[:-1], y[:-1])
    assert est.solution_.solver == "PCG"
    est.partial_fit(where[-1:], y[-1:])  # from nothing: the first solution was not kept
    cold = est.solution_.iterations
    est.revise(where[-1:], [0.5])
    assert est.solution_.iterations < cold
    y[-1] = 0.5
    fresh = kf.KKMCEX(k, k, mu=0.5, solver=kf.PCG(tol=1e-11)).fit(where, y)
    assert_allclose(est.dual_coef_, fresh.dual_coef_, atol=1e-6)
    new, index, values = [[0.3, 0.4]], [3, 50, 99], [1.0, 2.0, 3.0]
    folded = est.fold_in(new, index, values)
    monkeypatch.undo()
    exact = fresh.set_params(solver=kf.Cholesky()).fold_in(new, index, values)
    assert_allclose(folded, exact, atol=1e-6)


@pytest.mark.parametrize("center", CENTERS)
@pytest.mark.parametrize("axis", ["row", "col"])
@pytest.mark.parametrize("identity", [0.0, 0.3])
def test_fold_in_is_a_refit_with_the_item_in_the_table(center, axis, identity):
    est = kkmcex(center, "auto", identity).fit(X[:30], Y[:30], W[:30])
    before = est.predict_matrix()
    row = axis == "row"
    item, index = (ROW[N:], [0, 4, 2]) if row else (COL[L:], [0, 7, 2])
    values, weights = [1.0, 3.0, -1.0], [1.0, 0.5, 2.0]
    found = est.fold_in(item, index, values, axis=axis, sample_weight=weights)
    new = np.column_stack([np.full(3, N), index] if row else [index, np.full(3, L)])
    larger = kkmcex(center, "auto", identity, (N + row, L + (not row)))
    table = larger.fit(
        np.vstack([X[:30], new]), np.append(Y[:30], values), np.append(W[:30], weights)
    ).predict_matrix()
    assert_allclose(found, table[-1] if row else table[:, -1], atol=1e-10)
    assert_allclose(est.predict_matrix(), before, rtol=0)
    cold = est.fold_in(item, [], [], axis=axis)
    plain = est.extrapolate(rows=item)[0] if row else est.extrapolate(cols=item)[:, 0]
    assert_allclose(cold, plain, atol=1e-10)
    # And once more after the stream has moved on.
    est.partial_fit(X[30:33], Y[30:33], W[30:33])
    again = est.fold_in(item, index, values, axis=axis, sample_weight=weights)
    fresh = clone(est).fit(X[:33], Y[:33], W[:33])
    wanted = fresh.fold_in(item, index, values, axis=axis, sample_weight=weights)
    assert_allclose(again, wanted, atol=1e-10)


@pytest.mark.parametrize("center", CENTERS)
@pytest.mark.parametrize("axis", ["row", "col"])
def test_fold_in_of_rrmcex_keeps_its_eigenvectors(center, axis):
    """It is KKMCEX with the factor of the table, and of the new item, in place of the kernel."""
    est = rrmcex(center).fit(X[:30], Y[:30])
    row = axis == "row"
    item, index = (ROW[N:], [0, 4, 2]) if row else (COL[L:], [0, 7, 2])
    values = [1.0, 3.0, -1.0]
    found = est.fold_in(item, index, values, axis=axis)
    phis = [basis.known(None) for basis in est._bases]
    side = 0 if row else 1
    phis[side] = np.vstack([phis[side], est._bases[side].new(item)])
    larger = kf.KKMCEX(
        kf.kernels.linear(phis[0]), kf.kernels.linear(phis[1]), mu=0.2, center=center,
        solver=kf.PrimalDirect(),
    )  # fmt: skip
    new = np.column_stack([np.full(3, N), index] if row else [index, np.full(3, L)])
    table = larger.fit(np.vstack([X[:30], new]), np.append(Y[:30], values)).predict_matrix()
    assert_allclose(found, table[-1] if row else table[:, -1], atol=1e-8)
    assert "observations_" in vars(est)  # nothing was changed


def test_fold_in_with_given_kernels():
    kw, kh = rbf(ROW).to_array(), rbf(COL[:L]).to_array()
    est = kf.KKMCEX(kw[:N, :N], kh, mu=0.2).fit(X[:30], Y[:30])
    with pytest.raises(KernelError, match="pair"):
        est.fold_in(kw[N:, :N], [0], [1.0])
    found = est.fold_in((kw[N:, :N], kw[[N], [N]]), [0], [1.0])
    whole = kf.KKMCEX(kw, kh, mu=0.2).fit(np.vstack([X[:30], [N, 0]]), np.append(Y[:30], 1.0))
    assert_allclose(found, whole.predict_matrix()[-1], atol=1e-10)
    cut = kf.RRMCEX(kw[:N, :N], kh, row_rank=4, col_rank=3).fit(X[:30], Y[:30])
    assert cut.fold_in(kw[N:, :N], [0], [1.0]).shape == (L,)


@pytest.mark.parametrize("method", ["kkmcex", "rrmcex"])
def test_one_row_one_column_one_observation(method):
    cls = kf.KKMCEX if method == "kkmcex" else kf.RRMCEX
    for shape in ((1, 4), (4, 1), (1, 1)):
        kernels = [rbf(ROW[:size]) for size in shape]
        where = np.argwhere(np.ones(shape))
        for center in CENTERS:
            est = cls(*kernels, mu=0.5, center=center)
            for k in range(len(where)):
                est.partial_fit(where[[k]], [k + 1.0])
            fresh = cls(*kernels, mu=0.5, center=center).fit(where, np.arange(len(where)) + 1.0)
            assert_allclose(est.predict_matrix(), fresh.predict_matrix(), atol=1e-9)


def test_a_singular_kernel_and_a_tiny_mu():
    """The factorisation breaks down: the batch solver takes over, and says so in the same words."""
    kernel = kf.kernels.constant(N)
    est = kf.KKMCEX(kernel, kf.kernels.constant(L), mu=1e-18).fit([[0, 0]], [1.0])
    with pytest.warns(kf.errors.IllConditionedWarning):
        est.partial_fit(X[(X != 0).any(axis=1)][:6], np.ones(6))
    assert_allclose(est.predict_matrix(), 1.0, atol=1e-6)


def test_entries_of_no_weight():
    weights = np.where(np.arange(20) % 4 == 3, 0.0, 1.0)
    est = kkmcex("mean").partial_fit(X[:10], Y[:10], weights[:10])
    est.partial_fit(X[10:20], Y[10:20], weights[10:20])
    agree(est, kkmcex("mean").fit(X[:20], Y[:20], weights))
    est.forget(X[[3, 4, 0]])
    left = np.delete(np.arange(20), [3, 4, 0])
    agree(est, kkmcex("mean").fit(X[left], Y[left], weights[left]))
    cut = rrmcex("rows").partial_fit(X[:10], Y[:10], weights[:10])
    cut.partial_fit(X[10:20], Y[10:20], weights[10:20])
    agree(cut, rrmcex("rows").fit(X[:20], Y[:20], weights), 1e-9)


def test_weights_may_come_later():
    est = kkmcex().partial_fit(X[:10], Y[:10]).partial_fit(X[10:15], Y[10:15], W[10:15])
    weights = np.append(np.ones(10), W[10:15])
    agree(est, kkmcex().fit(X[:15], Y[:15], weights))


def test_labels_and_observations_stay():
    labels = {"row_labels": list("abcdefgh"), "col_labels": list("uvwxyz")}
    obs = kf.Observations(X[:20, 0], X[:20, 1], Y[:20], (N, L), **labels)
    est = kkmcex().partial_fit(obs.take(slice(0, 12))).partial_fit(obs.take(slice(12, 20)))
    assert est.observations_ == obs
    assert est.forget(obs.take([0, 5])).observations_ == obs.take(np.delete(np.arange(20), [0, 5]))
    with pytest.raises(ShapeError, match="describes 8"):
        est.partial_fit(kf.Observations([0], [0], [1.0], (N + 1, L)))


@pytest.mark.parametrize("method", ["kkmcex", "rrmcex"])
def test_copies_go_on_by_themselves(method):
    est = make(method, "mean").partial_fit(X[:12], Y[:12], W[:12])
    est.partial_fit(X[12:14], Y[12:14], W[12:14])
    other = pickle.loads(pickle.dumps(est))
    other.partial_fit(X[14:20], Y[14:20], W[14:20])
    est.partial_fit(X[20:22], Y[20:22], W[20:22])
    agree(other, make(method, "mean").fit(X[:20], Y[:20], W[:20]), 1e-9)
    both = np.r_[0:14, 20:22]
    agree(est, make(method, "mean").fit(X[both], Y[both], W[both]), 1e-9)


@pytest.mark.parametrize("method", ["kkmcex", "rrmcex"])
def test_model_files(method, tmp_path):
    """KKMCEX goes on from its observations; the sums of RRMCEX are not in a file."""
    est = make(method, "rows").partial_fit(X[:12], Y[:12]).partial_fit(X[12:14], Y[12:14])
    est.save(tmp_path / "model.kf")
    read = kf.load(tmp_path / "model.kf")
    assert_allclose(read.predict_matrix(), est.predict_matrix(), rtol=0)
    if method == "kkmcex":
        read.partial_fit(X[14:20], Y[14:20])
        agree(read, kkmcex("rows").fit(X[:20], Y[:20]))
        return
    for call in (
        lambda: read.partial_fit(X[14:15], Y[14:15]),
        lambda: read.fold_in(ROW[N:], [0], [1.0]),
        lambda: read.predict_std(X[:1]),
    ):
        with pytest.raises(DataError, match="sums over its observations were not kept") as caught:
            call()
        assert "was read from a file" in str(caught.value)
        assert "not in memory" not in str(caught.value)
    assert not hasattr(read, "observations_")


@pytest.mark.parametrize("method", ["kkmcex", "rrmcex"])
def test_a_fit_begins_anew(method):
    est = make(method, "mean").partial_fit(X[:12], Y[:12]).partial_fit(X[12:14], Y[12:14])
    est.fit(X[20:30], Y[20:30]).partial_fit(X[30:31], Y[30:31])
    agree(est, make(method, "mean").fit(X[20:31], Y[20:31]), 1e-9)


@pytest.mark.parametrize("method", ["kkmcex", "rrmcex"])
def test_mu_is_chosen_once(method):
    est = make(method, None).set_params(mu="auto").partial_fit(X[:25], Y[:25])
    chosen = est.mu_
    est.partial_fit(X[25:40], Y[25:40])
    assert est.mu_ == chosen
    agree(est, make(method, None).set_params(mu=chosen).fit(X[:40], Y[:40]), 1e-8)
    with pytest.raises(ParameterError, match="cannot tell it"):
        make(method, None).set_params(mu="auto").partial_fit(X[:3], Y[:3])
    est.set_params(mu=7.0)
    with pytest.raises(ParameterError, match="mu was changed"):
        est.partial_fit(X[40:41], Y[40:41])
    est.set_params(mu="auto", center="mean")
    with pytest.raises(ParameterError, match="center was changed"):
        est.partial_fit(X[40:41], Y[40:41])


def test_what_is_observed_already():
    est = kkmcex().partial_fit(X[:10], Y[:10])
    with pytest.raises(DuplicateEntryError, match=r"revise\(X, y\)"):
        est.partial_fit(X[8:12], Y[8:12])
    agree(est, kkmcex().fit(X[:10], Y[:10]))
    with pytest.raises(DuplicateEntryError):
        est.partial_fit(X[[12, 12]], Y[[12, 12]])
    # RRMCEX keeps no entries: once more is one more measurement, twice the weight.
    cut = rrmcex().partial_fit(X[:10], Y[:10]).partial_fit(X[:10], Y[:10])
    assert_allclose(cut.coef_, rrmcex().fit(X[:10], Y[:10], np.full(10, 2.0)).coef_, atol=1e-10)


@pytest.mark.parametrize("method", ["kkmcex", "rrmcex"])
def test_bad_input(method):
    est = make(method, None)
    for call in (lambda: forget(est, [0]), lambda: est.fold_in(ROW[N:], [0], [1.0])):
        with pytest.raises(NotFittedError):
            call()
    est.partial_fit(X[:10], Y[:10], W[:10])
    kept = est.predict_matrix()
    with pytest.raises(ParameterError, match="one target at a time"):
        est.partial_fit(X[10:12], np.ones((2, 2)))
    with pytest.raises(ParameterError, match="requires y"):
        est.partial_fit(X[10:12])
    with pytest.raises(IndexRangeError, match="outside the fitted matrix"):
        est.partial_fit([[N, 0]], [1.0])
    with pytest.raises(EmptyDataError):
        est.partial_fit(np.zeros((0, 2)), [])
    with pytest.raises(kf.errors.NonFiniteError):
        est.partial_fit(X[10:11], [np.nan])
    with pytest.raises(DataError):
        forget(est, slice(0, 10))
    with pytest.raises(ParameterError, match="axis must be"):
        est.fold_in(ROW[N:], [0], [1.0], axis="rows")
    with pytest.raises(ShapeError):
        est.fold_in(ROW[:2], [0], [1.0])
    with pytest.raises(ShapeError):
        est.fold_in(ROW[N:], [0, 1], [1.0])
    with pytest.raises(ShapeError, match="one value per entry"):
        est.fold_in(ROW[N:], [], [1.0])
    with pytest.raises(DuplicateEntryError):
        est.fold_in(ROW[N:], [1, 1], [1.0, 2.0])
    with pytest.raises(IndexRangeError):
        est.fold_in(ROW[N:], [L], [1.0])
    assert_allclose(est.predict_matrix(), kept, rtol=0)
    est.partial_fit(X[10:12], Y[10:12], W[10:12])
    agree(est, make(method, None).fit(X[:12], Y[:12], W[:12]), 1e-9)


def test_kkmcex_knows_what_it_has():
    est = kkmcex().partial_fit(X[:10], Y[:10])
    with pytest.raises(DataError, match="not among the observed"):
        est.forget(X[[3, 12]])
    with pytest.raises(DataError, match="not among the observed"):
        est.revise(X[[12]], [1.0])
    with pytest.raises(DuplicateEntryError, match="more than once"):
        est.forget(X[[3, 3]])
    several = kkmcex().fit(X[:10], np.ones((10, 2)))
    for call in (
        lambda: several.partial_fit(X[10:11], [1.0]),
        lambda: several.forget(X[:1]),
        lambda: several.fold_in(ROW[N:], [0], [1.0]),
    ):
        with pytest.raises(ParameterError, match="one target"):
            call()
