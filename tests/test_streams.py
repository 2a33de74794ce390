"""torch.Stream, torch.Event, torch.accelerator and torch.cpu where there is only a CPU."""

import pytest


def test_streams_of_the_cpu_are_empty(torch):
    stream = torch.Stream("cpu")
    assert stream.query() and stream == torch.Stream() and hash(stream) == hash(torch.Stream())
    assert repr(stream) == "torch.Stream device_type=cpu, device_index=-1, stream_id=0"
    stream.synchronize()
    stream.wait_event(torch.Event())
    with pytest.raises(RuntimeError, match="cpu backend doesn't support events"):
        stream.record_event()
    with pytest.raises(RuntimeError, match="not linked with support for cuda devices"):
        torch.Stream("cuda")


def test_events_of_the_cpu_cannot_be_recorded(torch):
    event = torch.Event(enable_timing=True)
    assert event.query() and event.wait() is None and event.synchronize() is None
    with pytest.raises(RuntimeError, match="cpu backend doesn't support events"):
        event.record()
    with pytest.raises(ValueError, match="must be recorded before calculating elapsed time"):
        event.elapsed_time(torch.Event(enable_timing=True))
    with pytest.raises(ValueError, match="must be created with argument 'enable_timing=True'"):
        torch.Event().elapsed_time(event)


@pytest.mark.parametrize("name", [
    "current_stream", "memory_allocated", "memory_stats", "empty_cache", "get_memory_info",
    "reset_peak_memory_stats", "current_device_index", "synchronize",
])
def test_there_is_no_accelerator(torch, name):
    with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is"):
        getattr(torch.accelerator, name)()


def test_device_index_of_nothing(torch):
    with torch.accelerator.device_index(None):
        pass
    with pytest.raises(RuntimeError, match="Cannot access accelerator"), \
            torch.accelerator.device_index(0):
        pass


def test_capabilities_of_the_processor(torch):
    capabilities = torch.cpu.get_capabilities()
    assert capabilities["num_logical_cores"] >= capabilities["num_physical_cores"] >= 1
    assert capabilities["l2_cache_size"] > capabilities["l1d_cache_size"] > 0
    if capabilities["architecture"] == "x86_64":
        assert capabilities["sse2"] is True
        assert capabilities["avx2"] >= capabilities["avx512_f"]


def test_cpu_events_have_happened(torch):
    event = torch.cpu.Event()
    event.record()
    assert event.query()
    assert torch.cpu.Stream().record_event() is None


def test_worker_threads_generator_is_absent_here(torch):
    generator = torch.random.thread_safe_generator()
    assert torch.randint(0, 10, (5,), generator=generator).shape == (5,)
