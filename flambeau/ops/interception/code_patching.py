"""Swap: temporarily replaces a function's code, wherever the function was imported.

The function object keeps its identity; its `__code__` becomes a stub that calls a recorder with a
clone of the original. Several swaps can be stacked on one function, and end in any order.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from ...native.foundation.generated_code import define
from ..core.dispatch import run_unwritten as _unwritten
from ..core.function_writer import write_function
from ..core.operator import Operator
from ..documentation.stub_removal import Stubs

# recorder(clone, args, kwargs) runs in place of a swapped function.
Recorder = Callable[[Callable, tuple, dict], Any]

# By id of a stub's code: objects that restore functions in which followed calls left that stub.
STUBS: dict[int, Any] = {}
# Functions that remove swaps kept on after use to save the cost of installing them again.
LINGERING: list[Callable[[], None]] = []
# Functions that compute everything a followed call deferred, and make the rest of it eager.
ENDS: list[Callable[[], None]] = []

STUB_FILE = "<flambeau capture>"  # file name of stubs that record
FOLLOWING_STUB_FILE = "<flambeau follow>"  # file name of stubs that follow a call, or record it
_layers: dict[types.FunctionType, list[Swap]] = {}  # the swaps on each function, latest last
_observers: set[Swap] = set()  # active swaps that do more than check kinds of arguments


@functools.cache
def _create_stub(free: int, checked: bool, name: str) -> types.CodeType:
    """Return a stub's code with as many free variables as the code that it replaces.

    It also has that code's name, by which frame inspection identifies the function. If `checked`,
    a check can return another function to call.
    """
    names = [f"free{i}" for i in range(free)]
    recorder = "(_check(args, kwargs) or _record)" if checked else "_record"
    source = "\n".join([
        f"def outer({', '.join(names)}):",
        "    def stub(*args, _record=None, _check=None, **kwargs):",
        f"        {'; '.join(names) or 'pass'}",
        f"        return {recorder}(args, kwargs)",
        "    return stub",
    ])
    space: dict[str, Any] = {}
    define(source, STUB_FILE, space)
    code: types.CodeType = space["outer"](*names).__code__
    return code.replace(co_name=name, co_qualname=name)


def clone(
    function: types.FunctionType, closure: Any = None, names: dict[str, Any] | None = None
) -> types.FunctionType:
    """Return another function with the same code, to call while the original is swapped."""
    result = types.FunctionType(
        function.__code__, function.__globals__ if names is None else names,
        function.__name__, function.__defaults__,
        function.__closure__ if closure is None else closure,
    )
    result.__qualname__ = function.__qualname__  # errors about its arguments show it
    result.__kwdefaults__ = function.__kwdefaults__
    result.__annotations__ = function.__annotations__
    result.__dict__.update(function.__dict__)
    return result


def restore_stub(function: Any) -> None:
    """Remove the stub of a followed call, if the function has one."""
    hook = STUBS.get(id(function.__code__))
    if hook is not None:
        hook.restore()


def end_lingering() -> None:
    """Remove the swaps that are on but no longer in use."""
    while LINGERING:
        LINGERING[-1]()


def restore_stubs() -> None:
    """Remove lingering swaps and the stubs of followed calls, before other replacements."""
    if STUBS:
        end_followed_call()
    end_lingering()
    for hook in list(STUBS.values()):
        hook.restore()


def end_followed_call() -> None:
    """Compute all values that a followed call deferred, and make the rest of it eager."""
    for end in ENDS:
        end()


def is_anything_swapped() -> bool:
    """Return whether any function is swapped, after removing lingering swaps."""
    if LINGERING:
        end_lingering()
    return bool(_layers)


def is_anything_observed() -> bool:
    """Return whether any swap does more than check kinds of arguments."""
    if LINGERING:
        end_lingering()
    return bool(_observers)


def own_code(function: types.FunctionType) -> types.CodeType:
    """Return the code that a function has when nothing is swapped."""
    owner = _find_owner(function)
    code: types.CodeType = function.__code__ if owner is None else owner.code
    return code


def _find_owner(function: types.FunctionType) -> Any:
    """Return the object that stores a function's own code: its first swap, or the stub of a
    followed call."""
    layers = _layers.get(function)
    return layers[0] if layers else STUBS.get(id(function.__code__))


def own_function(function: types.FunctionType) -> types.FunctionType:
    """Return the function without its stubs, or the same one if it has none."""
    owner = _find_owner(function)
    if owner is None:
        return function
    result = clone(function)
    result.__code__, result.__defaults__ = owner.code, owner.defaults
    result.__kwdefaults__ = owner.kwdefaults
    result.__module__, result.__qualname__ = function.__module__, function.__qualname__
    return result


Stubs.take_off = staticmethod(own_function)


def write_aside(function: types.FunctionType) -> types.FunctionType:
    """Generate an operator's function as a separate object that shares its globals. Generating it
    in place would replace the stubs."""
    operator: Operator = function.operator  # type: ignore[attr-defined]
    written: Any
    operator.source, written = write_function(operator)
    function.__globals__.update(written.__globals__)
    return written


def show_original(function: types.FunctionType, original: Callable) -> None:
    """Make `inspect` see the original's signature and source behind a stub.

    An operator's `__wrapped__` is kept: it lists the operator's block.
    """
    below = function.__dict__.get("__wrapped__")
    if below is None or isinstance(below, types.FunctionType):
        function.__wrapped__ = original  # type: ignore[attr-defined]


def hide_original(function: types.FunctionType, original: Callable) -> None:
    """Undo `show_original`: restore the original's own `__wrapped__`."""
    if function.__dict__.get("__wrapped__") is not original:
        return
    below = original.__dict__.get("__wrapped__")
    if below is None:
        del function.__wrapped__  # type: ignore[attr-defined]
    else:
        function.__wrapped__ = below  # type: ignore[attr-defined]


class Swap:
    """One function that is swapped between `start` and `restore`.

    is_by_kind: the swap only affects calls with tensors of some kind or an overriding class.
    """

    __slots__ = ("check", "code", "defaults", "function", "is_by_kind", "kwdefaults", "original",
                 "record", "recorder", "stub", "worn", "written")

    def __init__(self, function: types.FunctionType, recorder: Recorder) -> None:
        if STUBS:
            end_followed_call()
            restore_stub(function)
        self.is_by_kind = False
        self.written: Any = None  # the operator's function, if a call through this swap wrote it
        self.function, self.recorder = function, recorder
        self.check: Callable[[tuple, dict], Callable | None] | None = None
        self.keep()
        self.wrap(clone(function))

    def start(self) -> None:
        """Replace the function's code by a stub; repeated calls do nothing."""
        if STUBS:
            if self not in _layers.get(self.function, ()) or id(self.function.__code__) in STUBS:
                end_followed_call()
            restore_stub(self.function)
        if not self.is_by_kind:
            _observers.add(self)
        layers = _layers.get(self.function)
        if layers is None:
            if self.function.__code__ is not self.code:  # it was generated meanwhile
                self.keep()
                self.wrap(clone(self.function))
            _layers[self.function] = [self]
            self._wear()
            return
        if self not in layers:
            # Swaps added since this one last ended run below it.
            self.keep()
            self.wrap(clone(self.function))
            layers.append(self)
        if layers[-1] is self:
            self._wear()

    @property
    def is_on(self) -> bool:
        """Whether the swap is between `start` and `restore`."""
        return self in _layers.get(self.function, ())

    def rebind(self, recorder: Recorder) -> None:
        """Set another recorder, between `restore` and the next `start`."""
        self.recorder = recorder
        self.wrap(self.original)

    def wrap(self, original: types.FunctionType) -> None:
        """Set the function below this swap, which is passed to the recorder."""
        self.original = original
        self.worn: dict[str, Any] | None = None  # the stub's keyword defaults, once installed
        is_written = original.__code__ is not _unwritten.__code__
        self.record: Callable = functools.partial(
            self.recorder, original if is_written else self._call_unwritten)

    def _call_unwritten(self, *args: Any, **kwargs: Any) -> Any:
        """Call an operator's own function, generating it first if needed."""
        if self.written is None:
            self.written = write_aside(self.function)
            self.code, self.defaults = self.written.__code__, self.written.__defaults__
            self.kwdefaults = self.written.__kwdefaults__
        return self.written(*args, **kwargs)

    def _wear(self) -> None:
        function, worn = self.function, self.worn
        if worn is None or worn["_check"] is not self.check:
            free = len(function.__code__.co_freevars)
            self.stub = _create_stub(free, self.check is not None, self.code.co_name)
            worn = self.worn = {"_record": self.record, "_check": self.check}
        function.__kwdefaults__ = worn
        function.__defaults__ = None
        function.__code__ = self.stub
        show_original(function, self.original)

    def keep(self) -> None:
        """Store the function's current code as its own."""
        function = self.function
        self.code, self.defaults = function.__code__, function.__defaults__
        self.kwdefaults = function.__kwdefaults__

    def restore(self) -> None:
        """Remove this swap from the function, also from below later ones.

        Ctrl-C may interrupt it anywhere; calling it again finishes.
        """
        _observers.discard(self)
        function = self.function
        layers = _layers.get(function, [])
        if self not in layers:
            return
        if STUBS:
            restore_stub(function)
        function.__code__, function.__defaults__ = self.code, self.defaults
        function.__kwdefaults__ = self.kwdefaults
        above = layers[layers.index(self) + 1 :]
        for swap in (*above[::-1], self):
            hide_original(function, swap.original)
        if len(layers) == 1:
            del _layers[function]
            return
        for swap in above:
            swap.keep()
            swap.wrap(clone(function))
            swap._wear()
        layers.remove(self)
        self._forget_below()

    def _forget_below(self) -> None:
        """Let go of the stubs of swaps below this one: a recording's hold all that it recorded."""
        own = own_function(self.function)
        self.code, self.defaults, self.kwdefaults = own.__code__, own.__defaults__, \
            own.__kwdefaults__
        self.wrap(own)


def swap_of(function: Any, recorder: Callable, is_by_kind: bool = False) -> Swap:
    """Create the swap of a public function."""
    restore_stub(function)
    swap = Swap(function, recorder)
    swap.is_by_kind = is_by_kind
    return swap
