"""Tasks side by side: in order, whatever their number, and also within each other."""

from __future__ import annotations

import threading

import pytest

from fairpc.core import map_in_order, thread_count
from fairpc.errors import OptionError


def test_results_come_in_the_order_of_the_tasks() -> None:
    first = threading.Event()

    def slow(k: int) -> int:
        # The first task ends after the second one, which only another thread can begin.
        if k == 0:
            assert first.wait(30)
        first.set()
        return k * k

    assert list(map_in_order(slow, range(5), 2)) == [0, 1, 4, 9, 16]


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_tasks_of_tasks_do_not_wait_for_each_other(n_threads: int) -> None:
    def inner(k: int) -> tuple[int, str]:
        return k, threading.current_thread().name

    def outer(k: int) -> list[tuple[int, str]]:
        return list(map_in_order(inner, range(k, k + 3), n_threads))

    found = list(map_in_order(outer, range(8), n_threads))
    assert [[k for k, _ in each] for each in found] == [[k, k + 1, k + 2] for k in range(8)]
    # What a task asks for is done by its own thread.
    assert all(len({name for _, name in each}) == 1 for each in found)


def test_an_error_of_a_task_is_raised_in_its_turn() -> None:
    def odd(k: int) -> int:
        if k % 2:
            raise ValueError(str(k))
        return k

    found = iter(map_in_order(odd, range(4), 2))
    assert next(found) == 0
    with pytest.raises(ValueError, match="1"):
        next(found)


def test_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRPC_THREADS", "7")
    assert thread_count() == 7
    assert thread_count(3) == 3
    monkeypatch.setenv("FAIRPC_THREADS", "many")
    assert thread_count() >= 1
    with pytest.raises(OptionError, match="n_threads is 0"):
        thread_count(0)
