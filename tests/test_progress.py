"""One printer: over one line on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import io

import numpy as np
import pytest

import kronfill as kf
from kronfill._progress import EVERY, ProgressPrinter, TimeLeft, silent


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_has_one_line_that_changes(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    now = iter([0.0, 4.0, 8.0])
    show = ProgressPrinter("Work", clock=lambda: next(now))
    for done in (0, 1000, 2000):
        show("lines", done, 2000)
    parts = screen.getvalue().split("\r\x1b[K")[1:]
    assert parts == [
        "Work: lines: 0 of 2,000",
        "Work: lines: 1,000 of 2,000, about 4 s left",
        "Work: lines: 2,000 of 2,000\n",
    ]


def test_a_pipe_has_a_line_now_and_then(monkeypatch):
    pipe = io.StringIO()
    monkeypatch.setattr("sys.stderr", pipe)
    now = [0.0]
    show = ProgressPrinter("Work", clock=lambda: now[0])
    for done in range(21):
        now[0] = done * EVERY / 5
        show("steps", done, None)
    show.line("done", last=True)
    told = pipe.getvalue().splitlines()
    assert told == [f"Work: steps: {done}" for done in (0, 5, 10, 15, 20)] + ["Work: done"]


def test_time_is_counted_anew_for_each_piece_of_work():
    now = iter([0.0, 10.0, 11.0, 12.0])
    left = TimeLeft(lambda: next(now))
    assert left("a", 0, 4) is None
    assert left("a", 1, 4) == 30.0
    assert left("b", 5, 9) is None  # begun before with 5 of them done
    assert left("b", 6, 9) == 3.0
    assert silent("a", 1, None) is None


@pytest.mark.parametrize("terminal", [True, False])
def test_a_fit_shows_its_iterations(monkeypatch, terminal):
    screen = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr("sys.stderr", screen)
    k = kf.kernels.rbf(np.linspace(0, 1, 30), length_scale=0.2)
    est = kf.KKMCEX(k, k, mu=0.1, solver=kf.PCG(progress=True)).fit(
        np.argwhere(np.eye(30)), np.ones(30)
    )
    shown = screen.getvalue()
    assert "PCG: iteration 1, residual" in shown
    assert f"PCG: iteration {est.n_iter_}, residual" in shown
    assert shown.endswith("\n")
    assert shown.count("\n") == (1 if terminal else 2)
