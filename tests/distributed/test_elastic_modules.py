"""What torch.distributed.elastic offers to programs: events, metrics, stores, samplers."""

from __future__ import annotations

import importlib
import threading

import pytest


@pytest.fixture
def elastic(torch):
    return lambda name: importlib.import_module(f"{torch.__name__}.distributed.elastic.{name}")


def test_events_are_written_and_read(elastic):
    events = elastic("events")
    event = events.Event("start", events.EventSource.AGENT, 5, {"rank": 1})
    assert str(event) == ('{"name": "start", "source": "AGENT", "timestamp": 5, "metadata": '
                          '{"rank": 1}}')
    assert events.Event.deserialize(event.serialize()) == event
    seen = events.RdzvEvent("a", "run", "text", "host", 1, events.NodeState.FAILED)
    assert events.RdzvEvent.deserialize(str(seen)) == seen
    events.record(event)
    events.construct_and_record_rdzv_event("run", "text", events.NodeState.INIT)
    assert events.get_logging_handler("console").__class__.__name__ == "StreamHandler"


def test_metrics_reach_the_handler_of_their_group(elastic):
    metrics = elastic("metrics")
    seen = []

    class Handler(metrics.MetricHandler):
        def emit(self, metric_data):
            seen.append((metric_data.group_name, metric_data.name, metric_data.value))

    metrics.configure(Handler(), "here")

    @metrics.prof(group="here")
    def divide(x):
        return 1 // x

    assert divide(1) == 1
    with pytest.raises(ZeroDivisionError):
        divide(0)
    metrics.put_metric("other", 3)
    names = [name.rpartition("divide.")[2] for group, name, _ in seen]
    assert names == ["success", "duration.ms", "failure", "duration.ms"]
    assert {group for group, _, _ in seen} == {"here"}


def test_handlers_are_made_by_name(elastic):
    rendezvous = elastic("rendezvous")
    options = rendezvous.RendezvousParameters("mine", "", "job", 1, 2, flag="no", number="7")
    assert (options.get_as_bool("flag"), options.get_as_int("number")) == (False, 7)
    with pytest.raises(ValueError, match="'number' does not represent a valid boolean"):
        options.get_as_bool("number")
    with pytest.raises(ValueError, match="must be greater than zero"):
        rendezvous.RendezvousParameters("mine", "", "job", 0, 2)
    registry = rendezvous.RendezvousHandlerRegistry()
    with pytest.raises(ValueError, match="'mine' is not registered"):
        registry.create_handler(options)

    class Handler(rendezvous.RendezvousHandler):
        get_backend = is_closed = set_closed = num_nodes_waiting = get_run_id = shutdown = \
            next_rendezvous = lambda self: "mine"

    registry.register("mine", lambda params: Handler())
    assert registry.create_handler(options).get_backend() == "mine"
    with pytest.raises(ValueError, match="cannot be registered with"):
        registry.register("mine", abs)
    assert issubclass(rendezvous.RendezvousTimeoutError, rendezvous.RendezvousError)


def test_ranks_exchange_data_through_a_store(torch, elastic):
    if not torch.distributed.is_available():
        pytest.skip("torch.distributed is not built")
    stores = elastic("utils.store")
    port = elastic("utils.distributed").get_free_port()
    results = {}

    def run(rank):
        store = torch.distributed.TCPStore("localhost", port, 2, rank == 0,
                                           wait_for_workers=False)
        results[rank] = stores.synchronize(store, bytes([65 + rank]), rank, 2, "data", 20)
        stores.barrier(store, 2, "end", 20)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {0: [b"A", b"B"], 1: [b"A", b"B"]}


def test_samplers_begin_in_the_middle(elastic):
    data = elastic("utils.data")
    parts = [list(data.ElasticDistributedSampler(range(9), 2, rank, 4)) for rank in range(2)]
    assert sorted({*parts[0], *parts[1]}) == [4, 5, 6, 7, 8]
    assert [len(part) for part in parts] == [3, 3]
    assert list(data.CyclingIterator(3, lambda epoch: iter([epoch]), 1)) == [1, 2]
    with pytest.raises(ValueError, match="Start index 9 should be less than dataset size 9"):
        data.ElasticDistributedSampler(range(9), 1, 0, 9)
    with pytest.raises(ValueError, match="NO_SUCH expected, but not set"):
        elastic("utils.api").get_env_variable_or_raise("NO_SUCH")
