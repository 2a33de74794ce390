"""torch.futures and torch.monitor: errors of callbacks, handlers, windows of statistics."""

import pickle
import threading
from datetime import datetime, timedelta

import pytest

import flambeau as torch
from flambeau import monitor

MARKED = "Got the following error when running the callback: ValueError: no"


def refuse(future):
    raise ValueError("no")


def test_then_wraps_what_its_callback_raises():
    done = torch.futures.Future()
    done.set_result(1)
    with pytest.raises(RuntimeError, match=MARKED):
        done.then(refuse).wait()
    with pytest.raises(RuntimeError, match=MARKED):
        torch.futures.wait_all([done, done.then(refuse)])


def test_set_exception_is_raised_as_it_is():
    failed = torch.futures.Future()
    failed.set_exception(ValueError("no"))
    for _ in range(2):
        with pytest.raises(ValueError, match="^no$"):
            failed.wait()
    with pytest.raises(AssertionError, match="not an Exception"):
        torch.futures.Future().set_exception(3)


def test_done_callbacks_do_not_disturb_who_sets_the_value(caplog):
    future = torch.futures.Future()
    future.add_done_callback(refuse)
    future.set_result(3)
    assert future.wait() == 3
    assert MARKED in caplog.text


def test_a_value_of_another_thread():
    future = torch.futures.Future()
    doubled = future.then(lambda done: 2 * done.wait())
    thread = threading.Thread(target=future.set_result, args=(3,))
    thread.start()
    assert doubled.wait() == 6
    thread.join()


def test_refusals():
    with pytest.raises(RuntimeError, match="Can not pickle"):
        pickle.dumps(torch.futures.Future())
    for call in (torch.jit.wait, lambda f: torch.futures.wait_all((f,))):
        with pytest.raises(RuntimeError, match="Future can't be None"):
            call(None)


def test_fork_calls_at_once():
    assert torch.jit.wait(torch.jit.fork(max, 1, 2)) == 2


@pytest.fixture
def events():
    seen = []
    handle = monitor.register_event_handler(seen.append)
    yield seen
    monitor.unregister_event_handler(handle)


def test_events(events):
    event = monitor.Event("epoch", datetime(2026, 1, 2), {"ok": True, "step": 3, "name": "a"})
    monitor.log_event(event)
    assert events == [event]
    assert event.data == {"ok": 1.0, "step": 3, "name": "a"}
    with pytest.raises(TypeError, match="incompatible constructor arguments"):
        monitor.Event("epoch", 3, {})


def test_a_full_window_is_logged_and_takes_no_more(events):
    wanted = [monitor.Aggregation.SUM, monitor.Aggregation.MAX, monitor.Aggregation.VALUE]
    stat = monitor.Stat("loss", wanted, timedelta(hours=1), 2)
    assert stat.get() == {monitor.Aggregation.SUM: 0.0, monitor.Aggregation.MAX: 0.0}
    for value in (1, 2, 30):
        stat.add(value)
    assert [e.data for e in events] == [{"loss.sum": 3.0, "loss.max": 2.0}]
    assert stat.count == 0


def test_a_window_ends_with_its_time(events, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(monitor.time, "monotonic", lambda: now[0])
    stat = monitor.Stat("loss", [monitor.Aggregation.COUNT], timedelta(seconds=1))
    stat.add(1.0)
    now[0] = 1.5
    stat.add(2.0)
    assert [e.name for e in events] == ["torch.monitor.Stat"]
    assert stat.count == 1
