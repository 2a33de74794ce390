"""Generate an operator's function as Python source, with its body's signature.

The function turns parameters into arrays, runs the body, and wraps and records its results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...autograd.tape import record, requires
from ...native.foundation.generated_code import SourceBuilder
from ...native.target.eager_costs import MAX_NUMPY_COSTLY_ELEMENTS
from ...tensor.dtypes import FLOATS, as_dtype
from ...tensor.narrow_dtypes import refuse_eight_bit
from ...tensor.size import Size
from ...tensor.storage import get_version
from ...tensor.tensor import Tensor, creation, view_of, wrap
from ...tensor.windows.view_origins import IN_SEVERAL
from ..native.pointwise import try_kernel_with
from .arguments.checks import check_bool, check_integer, check_sequence
from .arguments.legacy_order import OLD_ORDERED, in_order
from .autocast import AUTOCAST, cast_inputs
from .errors import MISSING, NUMPY_NAMES, Overriding, explain
from .operator import Kind, Operator, Promotion
from .out import write_out
from .out_dtypes import require_out_dtype
from .output_layout import FORMATS, Layout, is_row_major, lay_out
from .promotion import compute_pointwise

_NUMPY_NUMBERS = frozenset(np.dtype(code).type for code in "?bhilqBHILQefd")

_NAMES: dict[str, Any] = {
    "compute_pointwise": compute_pointwise, "explained": explain, "view_of": view_of, "wrap": wrap,
    "record": record, "requires": requires, "write_out": write_out, "Tensor": Tensor,
    "MISSING": MISSING, "Overriding": Overriding, "SEQUENCES": (tuple, list, Size),
    "new": object.__new__, "ndarray": np.ndarray, "errstate": np.errstate, "AUTOCAST": AUTOCAST,
    "cast_inputs": cast_inputs, "creation": creation, "FAST": FLOATS,
    "MAX_NUMPY_COSTLY_ELEMENTS": MAX_NUMPY_COSTLY_ELEMENTS,
    "try_kernel_with": try_kernel_with, "laid_out": lay_out, "check_sequence": check_sequence,
    "check_integer": check_integer, "check_bool": check_bool,
    "require_out_dtype": require_out_dtype, "NUMBERS": _NUMPY_NUMBERS,
    "as_dtype": as_dtype, "refuse_eight_bit": refuse_eight_bit, "in_order": in_order,
    "__name__": __name__,
}


def write_function(operator: Operator) -> tuple[str, Callable]:
    """Return the source of an operator's function, and the function."""
    source = SourceBuilder({
        **_NAMES, "operator": operator, "body": operator.body, "several": wrap_several,
        "are_row_major": are_row_major, "is_row_major": is_row_major,
        "have_single_format": have_single_format,
        "call_with_numbers": call_with_numbers,
        "LAYOUT": operator.layout, "policy": operator.autocast,
        "MAX_NUMPY_COSTLY_ELEMENTS": MAX_NUMPY_COSTLY_ELEMENTS,
        "new_tuple": tuple.__new__, "NAMED": operator.result_type,
    })
    signature = _Signature(operator, source)
    head = f"{operator.name}({signature.write_parameters()})"
    signature.write_prologue()
    _Computation(operator, source).write()
    return source.define(head, f"<flambeau operator {operator.name}>")


def wrap_several(operator: Operator, arrays: Any, source: Any) -> tuple[Tensor | None, ...]:
    """Wrap the results of an operator with several outputs as tensors."""
    if operator.kind is Kind.VIEW:
        views = tuple([view_of(source, y) for y in arrays])
        if not source._requires_grad and views and views[0]._stamp is None:
            stamp = get_version(source) << 2 | IN_SEVERAL
            for view in views:
                view._stamp = stamp
        return views
    return tuple([None if y is None else wrap(y) for y in arrays])  # faster than a generator


def are_row_major(arrays: Any) -> bool:
    """Whether arrays have exactly the strides of row-major order."""
    return all(map(is_row_major, arrays))


def have_single_format(arrays: Any) -> bool:
    """Whether arrays are in row-major order and have no axes for channels to come last in."""
    return are_row_major(arrays) and max(y.ndim for y in arrays) <= 3


def call_with_numbers(operator: Operator, error: Exception, values: tuple, out: Any = None) -> Any:
    """Retry an operator whose body raised TypeError, with 0-d tensors in place of numbers
    converted, as PyTorch's argument parser does. Return MISSING if there are none."""
    if not isinstance(error, TypeError):
        return MISSING
    plain = dict(zip(operator.names, values, strict=True))
    numbers = {
        name: value.item() for i, (name, value) in enumerate(plain.items())
        if i not in operator.tensor_positions and isinstance(value, Tensor)
        and not value._array.ndim and not value.requires_grad
    }
    if not numbers or any(p.kind is p.VAR_POSITIONAL for p in operator.parameters):
        return MISSING
    options = {} if out is None else {"out": out}
    return operator.function(**plain | numbers | options)


def _write_tuple(names: Iterable[str]) -> str:
    return "(" + "".join(f"{name}, " for name in names) + ")"


class _Signature:
    """Writes the `def` line and the code that resolves deprecated, starred and NumPy parameters."""

    def __init__(self, operator: Operator, source: SourceBuilder) -> None:
        self.operator, self.source = operator, source
        known = set(operator.names)
        self.aliases = [(name, alias) for name, alias in NUMPY_NAMES.items()
                        if name in known and alias not in known]

    def write_parameters(self) -> str:
        """Return the parameters of the `def` line."""
        parts, extra, starred = [], [], False
        for i, p in enumerate(self.operator.parameters):
            if p.kind is p.VAR_POSITIONAL:
                parts.append(f"*{p.name}_")
                self.source.names[f"default_{i}"] = None
                extra.append(f"{p.name}=default_{i}")
                starred = True
                continue
            text = p.name
            if p.default is not p.empty:
                self.source.names[f"default_{i}"] = p.default
                text += f"=default_{i}"
            if p.kind is p.KEYWORD_ONLY and not starred:
                parts.append("*")
                starred = True
            parts.append(text)
        for name, alias in self.aliases:
            extra.append(f"{alias}=MISSING")
            if self._is_required(name):
                parts = self._make_optional(parts, name)
        if self.operator.kind is not Kind.VIEW and "out" not in self.operator.names:
            extra.append("out=None")
        if self.operator.name in OLD_ORDERED:
            parts[parts.index("*")] = "*old_"
        if extra and not starred:
            parts.append("*")
        return ", ".join([*parts, *extra])

    def _takes_number(self, p: Any) -> bool:
        """Whether a parameter is a number that is no operand."""
        if p.name in self.operator.tensor_names or p.kind is p.VAR_POSITIONAL:
            return False
        text = str(p.annotation)
        return "float" in text or "Number" in text \
            or text == "Any" and self.operator.kind is Kind.POINTWISE

    def _is_required(self, name: str) -> bool:
        return any(p.name == name and p.default is p.empty and p.kind is not p.VAR_POSITIONAL
                   for p in self.operator.parameters)

    def _make_optional(self, parts: list[str], name: str) -> list[str]:
        position = parts.index(name)
        if any(p != "*" and "=" not in p and not p.startswith("*") for p in parts[position + 1 :]):
            return parts  # no alias: a required parameter follows
        return [f"{p}=MISSING" if p == name else p for p in parts]

    def write_prologue(self) -> None:
        """Resolve aliases and starred parameters to plain values; cast for autocast."""
        operator, add = self.operator, self.source.add
        if operator.name in OLD_ORDERED:
            add("if old_:", f"    return {self._call_in_order()}")
        for p in operator.parameters:
            if p.kind is not p.VAR_POSITIONAL:
                continue
            n = p.name
            if operator.requires_axes:
                add(f"if {n} is None and not {n}_:",
                    f"    raise TypeError('{operator.name}() missing 1 required positional "
                    f"arguments: \"{n}\"')")
            add(f"if {n} is None:", f"    {n} = {n}_",
                f"if len({n}) == 1 and ({n}[0].__class__ in SEQUENCES"
                f" or isinstance({n}[0], list)):", f"    {n} = tuple({n}[0])")
        for name, alias in self.aliases:
            add(f"if {alias} is not MISSING:", f"    {name} = {alias}")
        for i, p in enumerate(operator.parameters):
            # Axes are checked where they are counted from the front.
            if p.annotation == "int" and not p.name.startswith("dim") \
                    and not operator.name.startswith("_"):
                add(f"if {p.name}.__class__ is not int:",
                    f"    check_integer(operator, {i}, {p.name})")
            elif p.annotation == "bool" and p.kind is not p.VAR_POSITIONAL:
                add(f"if {p.name}.__class__ is not bool:",
                    f"    check_bool(operator, {i}, {p.name})")
            elif self._takes_number(p):  # NumPy's would promote float32 arrays
                add(f"if {p.name}.__class__ in NUMBERS:", f"    {p.name} = {p.name}.item()")
        if "dtype" in operator.names:
            add("if dtype.__class__ is type:", "    dtype = as_dtype(dtype)")
        if operator.dtype_of_out:
            add("if out is not None and isinstance(out, Tensor):",
                "    if dtype is None:", "        dtype = out.dtype",
                "    else:", "        require_out_dtype(as_dtype(dtype), out.dtype)")
        if operator.autocast is not None:
            names = _write_tuple(operator.names)
            add("if AUTOCAST.count:", f"    {names} = cast_inputs(policy, {names})")

    def _call_in_order(self) -> str:
        """The call of the public function with reordered arguments, as interception may watch."""
        operator = self.operator
        first = [p.name for p in operator.parameters if p.kind is not p.KEYWORD_ONLY]
        keyword_names = [p.name for p in operator.parameters if p.kind is p.KEYWORD_ONLY]
        options = ", ".join(f"{n!r}: {n}" for n in [*keyword_names, "out"])
        return (f"in_order(operator.function, {operator.name!r}, ({', '.join(first)}, *old_), "
                f"{{{options}}})")


class _Operand:
    """A tensor parameter in expressions: `Array`, `Array | None`, `Array | Number`, a sequence."""

    def __init__(self, operator: Operator, position: int) -> None:
        self.name, self.position = operator.names[position], position
        note = str(operator.parameters[position].annotation)
        self.is_sequence = position in operator.sequence_positions
        self.may_be_number, self.may_be_none = "Number" in note, "None" in note

    def read_array(self) -> str:
        """The expression for the body's array. AttributeError unless the argument is a tensor."""
        n = self.name
        if self.is_sequence:
            return self.read_window() if self.may_be_none else f"[v._array for v in {n}]"
        if self.may_be_number:
            return f"({n}._array if isinstance({n}, Tensor) else {n})"
        return f"(None if {n} is None else {n}._array)" if self.may_be_none else f"{n}._array"

    def read_window(self) -> str:
        """The expression for the tensor's array, or for the value passed in its place."""
        n = self.name
        if self.is_sequence:
            return f"[None if v is None else v._array for v in {n}]"
        if self.may_be_number or self.may_be_none:
            return f"{n}._array if isinstance({n}, Tensor) else {n}"
        return f"{n}._array"

    def is_tracked(self) -> str:
        """The test whether to record; for a view, whether it requires grad now."""
        n = self.name
        if self.is_sequence:
            return f"any(v is not None and v._tracked for v in {n})"
        needs_gradient = f"{n}._tracked and ({n}._requires_grad or requires({n}))"
        if self.may_be_number:
            return f"(isinstance({n}, Tensor) and {needs_gradient})"
        if self.may_be_none:
            return f"({n} is not None and {needs_gradient})"
        return f"({needs_gradient})"

    def is_row_major(self) -> str:
        """The test for row-major order."""
        n = self.name
        if self.is_sequence:
            return f"all([v is None or v._array.flags.c_contiguous for v in {n}])"
        if self.may_be_number or self.may_be_none:
            return f"(not isinstance({n}, Tensor) or {n}._array.flags.c_contiguous)"
        return f"{n}._array.flags.c_contiguous"

    def has_dtype(self, array: str) -> str:
        """The test that its array needs no cast to the first operand's floating dtype."""
        tests = [f"{array} is None"] if self.may_be_none else []
        if self.may_be_number:
            tests += [f"{array}.__class__ is float", f"{array}.__class__ is int"]
        if not tests:
            return f"kind_ is {array}.dtype"
        return f"({' or '.join(tests)} or kind_ is {array}.dtype)"


class _Computation:
    """Writes the body's call and wraps its result in tensors."""

    def __init__(self, operator: Operator, source: SourceBuilder) -> None:
        self.operator, self.source = operator, source
        self.operands = {i: _Operand(operator, i) for i in operator.tensor_positions}
        self.every = _write_tuple(operator.names)  # the arguments as recorded on the tape
        self.is_view = operator.kind is Kind.VIEW
        self.takes_out = not self.is_view and "out" not in operator.names

    def write(self) -> None:
        """Write the whole computation, up to the return."""
        operator, add = self.operator, self.source.add
        compute = f"    y = body({', '.join(self._pass_arrays())})"
        from_class = "answer if out is None else Overriding.into(out, answer)" if self.takes_out \
            else "answer"
        first = next(iter(operator.tensor_names), "None")
        steps = self._compute_pointwise() if operator.kind is Kind.POINTWISE else [compute]
        out = ", out" if self.takes_out else ""
        add("try:", *self._refuse_dtype(), *steps,
            # NumPy's floating-point errors, or its warnings where the user's filters raise them.
            "except (RuntimeWarning, FloatingPointError):",
            "    with errstate(all='ignore'):", *["    " + step for step in steps],
            "except Exception as error:",
            f"    if (answer := Overriding.ask(operator, {self.every})) is not MISSING:",
            f"        return {from_class}",
            f"    again = call_with_numbers(operator, error, {self.every}{out})",
            "    if again is not MISSING:", "        return again",
            f"    raise explained(operator, error, {self.every}) from None",
            "if y.__class__ is ndarray:", *self._lay_out_result(), *self._wrap_inline(),
            "elif y.__class__ is tuple or y.__class__ is list:", *self._lay_out_results(),
            f"    made = several(operator, y, {first})",
            "else:", f"    made = {self._wrap()}")
        if operator.differentiable and self.operands:
            tracked = " or ".join(operand.is_tracked() for operand in self.operands.values())
            add(f"if {tracked}:", f"    record(operator, made, {self.every})")
        result = "made" if operator.result_type is None else "new_tuple(NAMED, made)"
        if self.takes_out:
            add("if out is not None:",
                f"    return write_out(operator, {result}, out, {self.every})")
        add(f"return {result}")

    def _refuse_dtype(self) -> list[str]:
        """Reject 8-bit floats if PyTorch's kernel does, unless `dtype=` casts them first."""
        operator = self.operator
        if not operator.kernel:
            return []
        array = self.operands[operator.tensor_positions[0]].read_array()
        is_cast = " and dtype is None" if "dtype" in operator.names else ""
        return [f"    if {array}.itemsize == 1{is_cast}:",
                f"        refuse_eight_bit({array}, operator.kernel)"]

    def _pass_arrays(self) -> list[str]:
        """The body's arguments: arrays for tensors, other values unchanged."""
        result = []
        for i, p in enumerate(self.operator.parameters):
            operand = self.operands.get(i)
            if operand is not None and operand.is_sequence:
                self.source.add(f"if {p.name}.__class__ not in SEQUENCES:",
                                f"    check_sequence(operator, {i}, {p.name})")
            text = p.name if operand is None else operand.read_array()
            result.append(f"*{text}" if p.kind is p.VAR_POSITIONAL else
                          f"{p.name}={text}" if p.kind is p.KEYWORD_ONLY else text)
        return result

    def _compute_pointwise(self) -> list[str]:
        """Write the computation: direct for arrays of one floating dtype, else with promotion."""
        operator = self.operator
        tensors = "".join(f"{n}, " for n in operator.tensor_names)
        rest = [p for p in operator.parameters if p.name not in operator.tensor_names]
        plain = "".join(f"{p.name}, " for p in rest if p.kind is not p.KEYWORD_ONLY)
        keyword_names = [p.name for p in rest if p.kind is p.KEYWORD_ONLY]
        options = ", ".join(f"{n!r}: {n}" for n in keyword_names)
        general = f"y = compute_pointwise(operator, ({tensors}), ({plain}), {{{options}}})"
        operands = {f"a{i}_": operand for i, operand in self.operands.items()}
        arrays = ", ".join(operands)
        supplied = f"{arrays}, {plain}" + "".join(f"{n}={n}, " for n in keyword_names)
        lines = [f"    {a} = {operand.read_window()}" for a, operand in operands.items()]
        if operator.promotion is Promotion.NONE:
            return [*lines, f"    y = body({supplied})"]
        (first, operand), *others = operands.items()
        if operand.may_be_number or operand.may_be_none:
            return [f"    {general}"]
        same = "".join(f" and {other.has_dtype(a)}" for a, other in others)
        return [
            *lines,
            f"    kind_ = {first}.dtype",
            f"    if kind_ in FAST{same}:",
            f"        if {first}.size <= MAX_NUMPY_COSTLY_ELEMENTS "
            f"or (y := try_kernel_with(body, ({arrays},), ({plain}), "
            f"{{{options}}})) is None:",
            f"            y = body({supplied})",
            "    else:",
            f"        {general}",
        ]

    def _lay_out_result(self) -> list[str]:
        """Give the result the strides of the operator's layout rule."""
        layout = self.operator.layout
        if layout is Layout.FREE:
            return []
        if layout is Layout.CONTIGUOUS:
            test = "not y.flags.c_contiguous"
        elif layout is Layout.ITERATOR:
            row_major = [operand.is_row_major() for operand in self.operands.values()]
            test = f"y.ndim > 1 and not ({' and '.join(row_major) or 'True'})"
        elif layout in FORMATS:  # up to three axes have the format of rows alone
            test = "y.ndim > 3 or y.ndim > 1 and not is_row_major(y)"
        else:
            test = "y.ndim > 1"
        return [f"    if {test}:", f"        y = laid_out(LAYOUT, y, ({self._write_windows()},))"]

    def _lay_out_results(self) -> list[str]:
        if self.operator.layout is Layout.FREE:
            return []
        step = f"y = [laid_out(LAYOUT, v, ({self._write_windows()},)) for v in y]"
        if self.operator.layout in FORMATS:
            return ["    if not have_single_format(y):", f"        {step}"]
        if self.operator.layout not in (Layout.CONTIGUOUS, Layout.ITERATOR, Layout.PRESERVE):
            return [f"    {step}"]
        tests = ["are_row_major(y)"]
        if self.operator.layout is not Layout.CONTIGUOUS:
            tests = [operand.is_row_major() for operand in self.operands.values()] + tests
        return [f"    if not ({' and '.join(tests)}):", f"        {step}"]

    def _write_windows(self) -> str:
        """The arrays of all tensor parameters, or the numbers passed in their place."""
        return ", ".join(operand.read_window() for operand in self.operands.values())

    def _wrap_inline(self) -> list[str]:
        """Create the tensor inline, slot by slot: small operators depend on its speed."""
        if self.is_view:
            return [f"    made = {self._wrap()}"]
        return ["    made = new(Tensor)", "    made._array = y",
                "    made._requires_grad = made._tracked = False",
                "    made._node = made._grad = made._counter = made._base = None",
                "    made._stamp = creation.stamp"]

    def _wrap(self) -> str:
        first = next(iter(self.operator.tensor_names), "None")
        return f"view_of({first}, y)" if self.is_view else "wrap(y)"
