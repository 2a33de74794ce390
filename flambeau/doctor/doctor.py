"""Doctor: a session as a context manager, and `check`, which runs a few training steps itself."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from . import report
from .finding import Finding, Level
from .session import Session


class Doctor:
    """Watches the training that runs inside: `with flambeau.doctor() as d: train()`.

    `off`: ids of checks to skip. `strict`: raise `doctor.Mistake` at the line that shows the
    first certain finding. `quiet`: print nothing; read `findings` instead.

    >>> from flambeau import doctor
    >>> net = nn.Linear(2, 1)
    >>> with doctor(quiet=True) as d:
    ...     loss = F.mse_loss(net(torch.ones(4, 2)), torch.ones(4, 1))
    >>> d.findings
    []
    """

    def __init__(
        self, *, off: Iterable[str] = (), strict: bool = False, quiet: bool = False,
        steps: int | None = None,
    ) -> None:
        self.quiet = quiet
        self.session = Session(off, strict, None if quiet else report.announce, steps)

    def __enter__(self) -> Doctor:
        self.session.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.session.stop(error)
        if not self.quiet:
            self.report()

    @property
    def findings(self) -> list[Finding]:
        """All findings, sorted after the session: certain, then likely, then hints."""
        return self.session.findings

    @property
    def mistakes(self) -> list[Finding]:
        """The certain and likely findings."""
        return [f for f in self.session.findings if f.level is not Level.HINT]

    @property
    def summary(self) -> str:
        """One line: findings, passed checks, undecided checks, cost."""
        return report.format_summary(self.session)

    def report(self) -> None:
        """Print the summary to standard error."""
        import sys

        print(self.summary, file=sys.stderr)

    def json(self, path: str | Path | None = None) -> str:
        """Return all results as JSON, and write them to `path` if given."""
        text = report.as_json(self.session)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def html(self, path: str | Path) -> None:
        """Write a self-contained HTML page: findings in their source, curves, checks."""
        from .page import render_page

        Path(path).write_text(render_page(self.session), encoding="utf-8")


def check(
    model: Any, optimizer: Any = None, loss: Callable[..., Any] | str | None = None,
    batch: Any = None, *, steps: int = 8, off: Iterable[str] = (),
) -> list[Finding]:
    """Run a few training steps on copies of a model and its optimizer and return the findings.
    The model, the optimizer and the random state of the caller do not change.

    `batch` is (input, target); `loss` takes (output, target), or is a name in nn.functional.

    >>> from flambeau import doctor
    >>> net = nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1))
    >>> optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    >>> batch = torch.randn(8, 4), torch.randint(0, 3, (8,))
    >>> [f.id for f in doctor.check(net, optimizer, "cross_entropy", batch)]
    ['softmax-before-cross-entropy']
    """
    from .. import get_rng_state, set_rng_state
    from ..nn import functional

    if batch is None:
        raise TypeError("check() needs a batch: (input, target)")
    if isinstance(loss, str):
        loss = getattr(functional, loss)
    x, y = batch
    state = get_rng_state()
    pair = copy.deepcopy((model, optimizer))
    doctor = Doctor(off=off, quiet=True)
    try:
        with doctor:
            _run_steps(*pair, loss, x, y, steps)
    finally:
        set_rng_state(state)
    return doctor.findings


def _run_steps(model: Any, optimizer: Any, loss: Any, x: Any, y: Any, steps: int) -> None:
    if optimizer is not None:
        from .patches import session

        assert session is not None
        session.adopt(optimizer)
    for _ in range(steps):
        output = model(x)
        value = output.sum() if loss is None else loss(output, y)
        if optimizer is not None:
            optimizer.zero_grad()
        value.backward()
        if optimizer is not None:
            optimizer.step()
