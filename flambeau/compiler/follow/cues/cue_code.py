"""Write the inline cache of a call that has just run: an operator, a view, a composite, new memory
or a draw. The code compares the arguments with those of this call and creates the results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ....ops.core.autocast import AUTOCAST
from ....ops.core.operator import Kind, Operator
from ....tensor.dtypes import dtype
from ....tensor.tensor import Tensor
from ...trace.trace import CONSTANT, DRAW, EMPTY, Value, collect_values
from ..following import Following
from ..foreign_tensors import has_foreign
from ..holder_census import HELD_BY_LIST
from ..hooks import Hook
from ..segment import INPUT, Entry
from .composite_code import Piece, join_pieces
from .cue_writer import CueWriter, as_sequence, create_window, is_comparable
from .inline_cache import Cue, drop_inner, find_inner_cues

if TYPE_CHECKING:
    from ..session import Session


def write_cue(hook: Hook, session: Session, following: Following, number: int, args: tuple,
              kwargs: dict[str, Any], result: Any) -> Cue:
    """Return a cue for an intercepted function that has just run, starting at event `number`."""
    cue = Cue(hook, following.segment)
    if not following.segment.is_fixed(number, following.owners, (args, kwargs)):
        return cue
    if hook.plain is not None:
        if following.pos != number or not _write_composite_view(cue, following, args, kwargs,
                                                                result):
            _write_call(cue, following, number, args, kwargs, result)
    elif hook.operator is not None and hook.binder is not None:
        layout = _find_layout(hook, args, kwargs)
        if layout is not None:
            if following.pos == number + 1 and (
                    hook.operator.values is None
                    or _has_checked_values(hook.operator, following, number)
                    or following.segment.has_legal_indices(number)):
                _write_operator(cue, following, number, layout, args, kwargs, result)
            elif following.pos == number and hook.operator.kind is Kind.VIEW \
                    and hook.operator.values is None:
                _write_view(cue, following, layout, args, kwargs, result)
    elif hook.always:
        _write_draw(cue, following, number, args, kwargs)
    elif hook.makes_constants:
        _write_constant(cue, following, number, args, kwargs, result)
    elif following.pos > number:
        _write_allocation(cue, following, number, args, kwargs, result)
    return cue


def _has_checked_values(operator: Operator, following: Following, number: int) -> bool:
    """Whether the values that an operator validates are known before event `number`."""
    segment = following.segment
    args = segment.entries[number].event.args
    if segment.entries[number].operator is not operator:
        return False
    values = collect_values([args[operator.names.index(name)]
                             for name in operator.values.parameters])
    computed = [segment.memory[value.storage].computed for value in values]
    return all(event is None or event >= number for event in computed)


def _write_allocation(cue: Cue, following: Following, number: int, args: tuple,
                      kwargs: dict[str, Any],
                      result: Any) -> None:
    """Write the cue of a function that only allocates memory, such as `empty_like`."""
    entries = following.segment.entries[number : following.pos]
    results = as_sequence(result)
    if kwargs or len(results) != len(entries) or any(
        entry.kind != EMPTY or len(entry.allocated) != 1 or y.__class__ is not Tensor
        or y._array is not following.owners[entry.allocated[0]] or y._requires_grad
        for entry, y in zip(entries, results, strict=True)
    ):
        return
    writer = CueWriter(cue, following)
    writer.tests.insert(0, f"f.next is not {writer.constant(entries[0])}")
    unpack = writer.unpack(args, kwargs)
    compare = [_write_layout_test(writer, f"a{i}", x) if isinstance(x, Tensor)
               else writer.expect(f"a{i}", x, x) for i, x in enumerate(args)]
    body: list[str] = []
    for k, entry in enumerate(entries):
        body += writer.memory(entry) + writer.tensor(f"r{k}", "owner")
    writer.add_piece(args, kwargs, [], body, results)
    made_of = "".join(f"r{k}, " for k in range(len(entries)))
    body += [f"f.pos = {following.pos}", f"f.next = {writer.constant(following.next)}",
             "ACTIVE.cue = CUE.next",
             f"return ({made_of})" if result.__class__ is tuple else "return r0"]
    cue.take = writer.compile(unpack, compare, body)


def _write_layout_test(writer: CueWriter, name: str, x: Tensor) -> str:
    """Return a test that is true if a tensor differs in what memory like it depends on."""
    kind, dtype = writer.constant(x.__class__), writer.constant(x._array.dtype)
    layout = writer.constant((x._array.shape, x._array.strides))
    return (f"{name}.__class__ is not {kind} or {name}._array.dtype is not {dtype} "
            f"or ({name}._array.shape, {name}._array.strides) != {layout}")


def _write_constant(cue: Cue, following: Following, number: int, args: tuple,
                    kwargs: dict[str, Any],
                    result: Any) -> None:
    """Write the cue of a function that fills new memory from plain arguments, such as `zeros`."""
    entry = following.segment.entries[min(number, following.segment.count - 1)]
    recorded = entry.event.array
    if following.pos != number + 1 or entry.kind != CONSTANT or recorded is None \
            or len(entry.allocated) != 1 or not all(map(is_comparable, (*args, *kwargs.values()))):
        return
    array: np.ndarray = result._array
    template = np.array(recorded)
    if result.__class__ is not Tensor or result._tracked or result._base is not None \
            or array is not following.owners[entry.allocated[0]] \
            or (array.shape, array.strides) != following.segment.recycled.geometries[
                entry.allocated[0]][:2]:
        return
    writer = CueWriter(cue, following)
    writer.tests.insert(0, f"f.next is not {writer.constant(entry)}")
    unpack = writer.unpack(args, kwargs)
    compare = [writer.expect(name, x, x) for name, x in (
        *((f"a{i}", x) for i, x in enumerate(args)), *((f"k_{k}", x) for k, x in kwargs.items()))]
    body = [*writer.memory(entry), f"copyto(owner, {writer.constant(template)})",
            *writer.tensor("r0", "owner")]
    writer.add_piece(args, kwargs, [], body, (result,))
    body += [
        f"f.pos = {number + 1}", f"f.next = {writer.constant(following.next)}",
        "ACTIVE.cue = CUE.next", "return r0",
    ]
    cue.take = writer.compile(unpack, compare, body)


def _write_draw(cue: Cue, following: Following, number: int, args: tuple, kwargs: dict[str, Any]
               ) -> None:
    """Write the cue of a function that fills this call's memory with random numbers."""
    entry = following.segment.entries[min(number, following.segment.count - 1)]
    if following.pos != number + 1 or entry.kind != DRAW or kwargs or entry.event.kwargs:
        return
    into, *rest = entry.event.args
    if into.storage not in entry.allocated or len(rest) + 1 != len(args):
        return
    writer = CueWriter(cue, following)
    entry_name = writer.constant(entry)
    writer.tests.insert(0, f"f.next is not {entry_name}")
    unpack = writer.unpack(args, kwargs)
    compare = [writer.expect(f"a{i}", e, args[i]) for i, e in enumerate(rest, 1)]
    compare.append(f"not f.begins({entry_name}, {writer.constant(into)}, a0)")
    body = [
        f"f.pos = {number + 1}", f"f.next = {writer.constant(following.next)}",
        "session = ACTIVE.session", "ACTIVE.cue = None", "session.quiet += 1",
        "try:", f"    {entry_name}.buffer.fill()", "finally:", "    session.quiet -= 1",
        "ACTIVE.cue = CUE.next", "return a0",
    ]
    cue.take = writer.compile(unpack, compare, body)


def _find_layout(hook: Hook, args: tuple, kwargs: dict[str, Any]) -> list[Any] | None:
    """Return the source of each parameter's value, or (default,); None if not supported."""
    operator: Operator = hook.operator
    if not hook.binder.plain:
        return _find_variadic_layout(operator, args, kwargs)
    if hook.policy and AUTOCAST.count or any(
        name not in operator.names and (name != "out" or x is not None)
        for name, x in kwargs.items()
    ):
        return None
    result: list[Any] = [(default,) for default in hook.binder.defaults]
    if len(args) > hook.binder.positional:
        return None
    for i in range(len(args)):
        result[i] = f"a{1 - i if hook.swapped and len(args) == 2 else i}"
    for name in _select_named(operator, kwargs):
        result[operator.names.index(name)] = f"k_{name}"
    return result


def _find_variadic_layout(operator: Operator, args: tuple, kwargs: dict[str, Any]
                         ) -> list[Any] | None:
    """Return the layout of variadic operators such as `permute(input, *dims)`, or None."""
    kinds = [p.kind for p in operator.parameters]
    if operator.kind is not Kind.VIEW or kwargs or len(kinds) != 2 or len(args) < 2 \
            or kinds[1] is not operator.parameters[1].VAR_POSITIONAL \
            or any(x.__class__ is not int for x in args[1:]):
        return None
    return ["a0", "(" + "".join(f"a{i}, " for i in range(1, len(args))) + ")"]


def _select_named(operator: Operator, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments that are parameters of the operator."""
    return {name: x for name, x in kwargs.items() if name in operator.names}


def _name_operands(writer: CueWriter, layout: list[Any]) -> list[str]:
    return [writer.constant(n[0]) if isinstance(n, tuple) else n for n in layout]


def _write_comparisons(writer: CueWriter, layout: list[Any], expected: tuple, bound: tuple
                      ) -> list[str]:
    return [writer.expect(name, e, x) for name, e, x in zip(layout, expected, bound, strict=True)
            if isinstance(name, str)]


def _write_value_test(writer: CueWriter, operator: Operator, names: list[str], bound: tuple) -> str:
    """Return a test that the operator raises for the operands' values."""
    assert operator.values is not None
    passed = ", ".join(f"{n}._array" if isinstance(x, Tensor) else n
                       for n, x in zip(names, bound, strict=True))
    return f"not {writer.constant(operator.values.holds)}({passed})"


def _write_operator(cue: Cue, following: Following, number: int, layout: list[Any], args: tuple,
                    kwargs: dict[str, Any], result: Any) -> None:
    """Write the cue of a listed operator."""
    segment, hook = following.segment, cue.hook
    entry: Entry = segment.entries[number]
    bound = hook.binder((args[1], args[0]) if hook.swapped and len(args) == 2 else args,
                        _select_named(hook.operator, kwargs))
    if bound is None or entry.operator is not hook.operator or len(bound) != len(layout):
        return
    writer = CueWriter(cue, following)
    entry_name = writer.constant(entry)
    writer.tests.insert(0, f"f.next is not {entry_name}")
    unpack = writer.unpack(args, kwargs)
    compare = _write_comparisons(writer, layout, entry.event.args, bound)
    names = _name_operands(writer, layout)
    rule = ""
    if hook.operator.values is not None and _has_checked_values(hook.operator, following, number):
        rule = _write_value_test(writer, hook.operator, names, bound)
    every_test = [*compare, rule] if rule else compare
    body = writer.memory(entry)
    arrays = _find_arrays(writer, following, entry, result, body)
    if arrays is None:
        operands = "(" + "".join(f"{n}, " for n in names) + ")"
        body = [f"made = f.produce({entry_name}, {operands})", "if is_followed(f):",
                "    ACTIVE.cue = CUE.next", "return made"]
        cue.take = writer.compile(unpack, every_test, body)
        return
    variables = []
    for k, array in enumerate(arrays):
        variables.append(f"r{k}")
        body += [f"r{k} = None"] if array is None else writer.tensor(f"r{k}", array)
    several = entry.results is not None and entry.returns_several
    returned = "made" if hook.operator.result_type is None else \
        f"{writer.constant(hook.operator.result_type)}(*made)"
    body.append("made = (" + "".join(f"{r}, " for r in variables) + ")" if several else "made = r0")
    history = writer.write_history(result, variables, names, bound, returned)
    if hook.operator.result_type is None:
        writer.add_piece(args, kwargs, compare, body, as_sequence(result), rule)
    body += [
        f"f.pos = {number + 1}", f"f.next = {writer.constant(following.next)}", *history,
        "ACTIVE.cue = CUE.next", f"return {returned}",
    ]
    cue.take = writer.compile(unpack, every_test, body)


def _find_arrays(writer: CueWriter, following: Following, entry: Entry, new: Any, body: list[str]
                ) -> list[str | None] | None:
    """Return the source of each result's array. Appends the lines that create windows to `body`.

    Returns None if a result is a view or lies on older memory.
    """
    if entry.results is None:
        return ["owner"]
    if entry.operator is None or entry.operator.kind is Kind.VIEW or any(
        value is not None and value.storage not in entry.allocated for value, _ in entry.results
    ):
        return None
    result: list[str | None] = []
    views: list[np.ndarray | None] = []
    storages: list[int] = []  # of the windows
    lines: list[str] = []
    for (value, part), y in zip(entry.results, as_sequence(new), strict=True):
        if value is None:
            result.append(None)
            continue
        owner = following.owners[value.storage]
        assert owner is not None
        if not part:
            result.append(f"owners[{value.storage}]")
            continue
        window = create_window(owner, value)
        if window.base is not owner:
            return None
        y._array = window  # the same window, with the owner itself as its base
        k = len(views)
        views.append(window)
        storages.append(value.storage)
        result.append(f"w{k}")
        lines += [
            f"w{k} = views[{k}]",
            f"if w{k} is None or w{k}.base is not owners[{value.storage}] "
            f"or count(w{k}) > {HELD_BY_LIST}:",
            f"    w{k} = views[{k}] = "
            f"create_window(owners[{value.storage}], {writer.constant(value)})",
            "    memory.generation += 1",
        ]
    if views:
        writer.cue.views, writer.cue.storages = views, storages
        writer.names["memory"] = following.segment.recycled
        body += ["views = CUE.views", *lines]
    return result


def _write_composite_view(cue: Cue, following: Following, args: tuple, kwargs: dict[str, Any],
                          new: Any) -> bool:
    """Write the cue of a composite, such as `reshape`, that returned a view. Return False if it did
    not."""
    operator = getattr(cue.hook.function, "views_as", None)
    source = args[0] if args else None
    if operator is None or kwargs or new.__class__ is not Tensor or new is source \
            or not isinstance(source, Tensor) or new._array.dtype != source._array.dtype \
            or any(x.__class__ is dtype or not is_comparable(x) for x in args[1:]):
        return False
    shape = new._array.shape
    expected = [(f"a{i}", x) for i, x in enumerate(args[1:], 1)]
    layout: list[Any] = ["a0", (shape,)]
    _write_views(cue, following, operator, layout, (source, shape), expected, args, kwargs, new)
    if cue.views is None:
        return False
    drop_inner(following.cues or [None])
    return True


def _write_view(cue: Cue, following: Following, layout: list[Any], args: tuple,
                kwargs: dict[str, Any], new: Any) -> None:
    """Write the cue of an operator that returns views of its first operand."""
    operator, hook = cue.hook.operator, cue.hook
    bound = hook.binder((args[1], args[0]) if hook.swapped and len(args) == 2 else args,
                        _select_named(hook.operator, kwargs))
    if bound is None or len(bound) != len(layout) or operator.result_type is not None:
        return
    if not isinstance(bound[0], Tensor) or any(isinstance(x, Tensor) for x in bound[1:]):
        return
    expected = [(n, x) for n, x in zip(layout[1:], bound[1:], strict=True) if isinstance(n, str)]
    _write_views(cue, following, operator, layout, bound, expected, args, kwargs, new)


def _write_views(cue: Cue, following: Following, operator: Operator, layout: list[Any],
                 bound: tuple, plain: list[tuple[str, Any]], args: tuple, kwargs: dict[str, Any],
                 new: Any) -> None:
    """Write the cue of a function that returns views of its first operand.

    layout, bound: the sources and values of the operator's operands. plain: the function's other
    arguments, as (source, value).
    """
    result = _find_window(following, bound[0]._array)
    if result is None:
        return
    several = new.__class__ is tuple
    views = [t._array for t in (new if several else (new,))]
    owner = following.owners[result.storage]
    if not views or any(v.base is not owner for v in views):
        return
    cue.views, cue.storages = views, [result.storage] * len(views)
    writer = CueWriter(cue, following, operator)
    unpack = writer.unpack(args, kwargs)
    compare = [writer.expect(layout[0], result, bound[0])] if isinstance(layout[0], str) else []
    compare += [writer.expect(name, x, x) for name, x in plain]
    names = _name_operands(writer, layout)
    test = " or ".join(["views[0] is None", f"views[0].base is not owners[{result.storage}]",
                        *[f"count(views[{k}]) > 2" for k in range(len(views))]])
    results = [f"r{k}" for k in range(len(views))]
    make = [f"{r} = view_of({names[0]}, views[{k}])" for k, r in enumerate(results)]
    make.append("made = (" + "".join(f"{r}, " for r in results) + ")" if several else "made = r0")
    history = writer.write_history(new, results, names, bound, "made")
    passed = "".join(f"a{i}, " for i in range(len(args)))
    kwargs_text = ", ".join(f"{name!r}: k_{name}" for name in kwargs)
    targets = "".join(f"{r}, " for r in results)
    lines = ["views = CUE.views", f"if {test}:",
             f"    made = CUE.renew_views(({passed}), {{{kwargs_text}}})",
             f"    {targets}= {'made' if several else '(made,)'}", "else:",
             *[f"    {line}" for line in (*make, *writer.certain)]]
    writer.certain = []
    writer.add_piece(args, kwargs, compare, lines, new if several else (new,))
    body = ["views = CUE.views", f"if {test}:", "    return renew(args, kwargs)", *make, *history,
            "ACTIVE.cue = CUE.next", "return made"]
    cue.take = writer.compile(unpack, compare, body)


def _find_window(following: Following, array: np.ndarray) -> Value | None:
    """Describe an array as a window on a storage of the segment; None for inputs and the rest."""
    for s, owner in enumerate(following.owners):
        if owner is None or following.segment.memory[s].kind == INPUT:
            continue
        if array is owner or array.base is owner:
            start = array.ctypes.data - owner.ctypes.data
            return Value(s, start, array.shape, array.strides, array.dtype)
    return None


def _write_call(cue: Cue, following: Following, number: int, args: tuple, kwargs: dict[str, Any],
                result: Any) -> None:
    """Write the cue of a composite. If its plain arguments are the same it runs normally, unless
    the results of its operators can be created without running it."""
    assert cue.hook.plain is not None
    key = cue.hook.plain(args, kwargs)
    plain, named = key if kwargs else (key, ())
    writer = CueWriter(cue, following)
    writer.tests.insert(0, f"f.pos != {number}")
    unpack = writer.unpack(args, kwargs)
    expected = [*((f"a{i}", x) for i, x in enumerate(plain)), *((f"k_{k}", x) for k, x in named)]
    compare = [
        f"{name}.__class__ is not {writer.constant(x)}" if isinstance(x, type)
        else writer.expect(name, x, x) for name, x in expected
    ]
    writer.names["has_foreign"] = has_foreign
    compare.append("ACTIVE.session.is_guarded and has_foreign(args, kwargs)")
    passed = "*args, **kwargs" if kwargs else ", ".join(f"a{i}" for i in range(len(args)))
    body = [*_repeat(writer, cue, following, number, args, kwargs, result), "ACTIVE.cue = CUE.next",
            f"return {writer.constant(cue.hook.original)}({passed})"]
    cue.take = writer.compile(unpack, compare, body)


def _repeat(writer: CueWriter, cue: Cue, following: Following, number: int, args: tuple,
            kwargs: dict[str, Any], result: Any) -> list[str]:
    """Return lines that create a composite's results without running it if its arguments are the
    expected ones; no lines if that is not possible."""
    cue.piece = Piece()
    if not cue.hook.repeats_operators or not following.segment.has_one_length:
        return []
    inner = find_inner_cues(following.cues or [])
    arguments = {**{f"a{i}": x for i, x in enumerate(args)},
                 **{f"k_{name}": x for name, x in kwargs.items()}}
    joined = join_pieces(inner, arguments, result, writer.names, writer.expect, is_comparable)
    if joined is None:
        return []
    tests, lines, source = joined
    tests += [f"{writer.constant(read)}() is not {writer.constant(read())}"
              for read in cue.hook.settings]
    if following.pos != number:
        lines = [*lines, f"f.pos = {following.pos}",
                 f"f.next = {writer.constant(following.next)}"]
    return [f"if not ({' or '.join(tests)}):", *[f"    {line}" for line in lines],
            f"    ACTIVE.cue = {writer.constant(inner[-1])}.next", f"    return {source}"]
