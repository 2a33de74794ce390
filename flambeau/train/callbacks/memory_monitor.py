"""Log a run's memory, and warn before it runs out."""

from __future__ import annotations

from typing import Any

from ...native.foundation.user_frames import warn
from ..events.order import Band
from ..reporting.memory import PeakMemory, read_available_bytes, import_psutil, read_resident_bytes

_MIB = 2**20


class MemoryMonitor:
    """Log the memory of the process and its peak in each epoch: `memory_mb`, `memory_peak_mb`.

    Warns once if less than `warn_below_mb` MiB are free, and once if memory has grown in each of
    `leak_epochs` epochs: something is kept from step to step, such as a loss with its graph.
    Needs psutil (`pip install 'flambeau[memory]'`).

    >>> from flambeau.train import Trainer
    >>> x, monitor = torch.zeros(4, 2), MemoryMonitor()
    >>> trainer = Trainer(nn.Linear(2, 1), "sgd", "mse", compile=False, callbacks=[monitor])
    >>> history = trainer.fit((x, x[:, :1]), epochs=1, progress=False)
    >>> history[0]["memory_peak_mb"] >= history[0]["memory_mb"] > 0
    True
    """

    band = Band.METRICS

    def __init__(self, *, warn_below_mb: float = 500, leak_epochs: int = 5) -> None:
        import_psutil("MemoryMonitor")
        self.warn_below_mb, self.leak_epochs = warn_below_mb, leak_epochs
        self._peak = PeakMemory(0.05)
        self._sizes: list[int] = []
        self._warned: set[str] = set()

    def on_epoch_start(self, run: Any) -> None:
        """Start sampling the epoch's peak."""
        self._peak.start()

    def on_epoch_end(self, run: Any) -> None:
        """Log, and warn."""
        size = read_resident_bytes()
        peak = max(self._peak.stop(), size)
        run.log(memory_mb=size / _MIB, memory_peak_mb=peak / _MIB)
        free_mb = read_available_bytes() / _MIB
        if free_mb < self.warn_below_mb:
            self._warn("left", f"{free_mb:.0f} MiB of memory are left, the process has "
                               f"{size / _MIB:.0f}: a smaller batch or gradient_checkpointing "
                               "takes less")
        self._sizes.append(size)
        latest = self._sizes[-self.leak_epochs - 1 :]
        rising = all(b > a + _MIB for a, b in zip(latest, latest[1:], strict=False))
        if len(latest) > self.leak_epochs and rising:
            self._warn("leak", f"memory grew in each of {self.leak_epochs} epochs, from "
                               f"{latest[0] / _MIB:.0f} to {size / _MIB:.0f} MiB: is a tensor "
                               "with its graph kept, `total += loss` for instance?")

    def on_run_end(self) -> None:
        """Stop sampling."""
        self._peak.stop()

    def on_run_error(self) -> None:
        """Stop sampling."""
        self._peak.stop()

    def _warn(self, topic: str, text: str) -> None:
        if topic not in self._warned:
            self._warned.add(topic)
            warn(f"MemoryMonitor: {text}")
