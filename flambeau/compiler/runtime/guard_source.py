"""Guards of a call as Python source: arguments, ambient modes, states, aliasing, indices."""

from __future__ import annotations

import operator
import types
from typing import TYPE_CHECKING, Any

from ...native.foundation.generated_code import SourceBuilder
from ...native.loop_ir.numpy_forms import dtype_of
from ...native.target.compile_costs import MAX_INLINE_GUARDS
from ..proof.guards import Guard
from ..trace.bindings import ANY_GRAD, OuterMemory
from ..trace.carried_values import (
    Carried, find_space_reader, is_grad_place, list_leaves,
)
from ..trace.host_numbers import Place
from ..trace.operands import flatten_call, is_named_tuple
from ..trace.plain_values import write_mismatch
from .argument_layout import ArrayLayout, ObjectArgument, TensorLayout

if TYPE_CHECKING:
    import numpy as np

    from ...tensor.tensor import Tensor
    from .guarded_call import Program


class GuardWriter:
    """Writes the tests of a call; if one fails, the call returns MISS with nothing changed.

    The arguments are descriptions (argument_layout.py).
    """

    def __init__(
        self, program: Program, source: SourceBuilder, args: tuple, kwargs: dict[str, Any],
        carried: list[Carried],
    ) -> None:
        self.program, self.bindings = program, program.bindings
        self.args, self.kwargs, self.carried = args, kwargs, carried
        self.names, self.lines, self.name = source.names, source.lines, source.name
        self.leaves = 0
        self.arguments = len(flatten_call(args, kwargs))
        self.tensors: list[int] = []  # leaves that are tensors or arrays
        self.reachable = program.reachable.list_memory()
        guards = program.proof.guards if carried else []
        self.guards_on_carried = [guard for guard in guards if self._reads_carried(guard)]

    def write(self) -> list[int]:
        """Write all guards; return the indices of leaves that are tensors or arrays."""
        self.guard_structure("args", self.args)
        if self.kwargs:
            self.guard_structure("kwargs", self.kwargs)
        else:
            self.return_miss_if("kwargs")
        self.guard_ambient()
        self.guard_carried()
        self.guard_states()
        self.guard_aliasing()
        self.guard_indices()
        self.guard_gradients()
        return self.tensors

    def return_miss_if(self, condition: str) -> None:
        """Return MISS if the expression `condition` is true."""
        self.lines += [f"    if {condition}:", "        return MISS"]

    def guard_structure(self, place: str, value: Any) -> None:
        """Guard the structure of an argument and each leaf."""
        kind = value.__class__
        if kind in (tuple, list, dict) or is_named_tuple(value):
            name = self.name(kind) if is_named_tuple(value) else kind.__name__
            self.return_miss_if(f"{place}.__class__ is not {name} or len({place}) != {len(value)}")
            if kind is dict:
                self.return_miss_if(f"list({place}) != {self.name(list(value))}")
            keys = value if kind is dict else range(len(value))
            for key in keys:
                inner = f"a{len(self.lines)}"
                self.lines.append(f"    {inner} = {place}[{key!r}]")
                self.guard_structure(inner, value[key])
            return
        leaf, self.leaves = self.leaves, self.leaves + 1
        if isinstance(value, TensorLayout):
            self.guard_tensor(leaf, place, value)
        elif isinstance(value, ArrayLayout):
            self.tensors.append(leaf)
            self.lines.append(f"    t{leaf} = b{leaf} = {place}")
            self.guard_array(leaf, value)
        elif isinstance(value, ObjectArgument):
            self.guard_object(leaf, place, value)
        else:
            self.guard_plain(leaf, place, value)

    def guard_tensor(self, leaf: int, place: str, tensor: TensorLayout) -> None:
        """Guard the class, layout and flags of a tensor."""
        self.tensors.append(leaf)
        self.lines.append(f"    t{leaf} = {place}")
        self.return_miss_if(f"t{leaf}.__class__ is not {self.name(tensor.kind)}")
        self.lines.append(f"    b{leaf} = t{leaf}._array")
        self.guard_array(leaf, tensor.array)
        if id(tensor.array.owner()) in self.reachable:
            self.return_miss_if(f"b{leaf} is not {self.name(tensor.array.array())}")
        self.guard_flags(leaf, tensor)

    def guard_plain(self, leaf: int, place: str, value: Any) -> None:
        """Guard a number or another plain value; of a number that is free, only the class."""
        proof = self.program.proof
        if leaf not in proof.numbers:
            self.return_miss_if(write_mismatch(place, value, self.name))
            return
        self.lines.append(f"    t{leaf} = {place}")
        self.return_miss_if(
            f"t{leaf}.__class__ is not {value.__class__.__name__}" if proof.is_free(leaf)
            else write_mismatch(f"t{leaf}", value, self.name))

    def guard_object(self, leaf: int, place: str, argument: ObjectArgument) -> None:
        """Guard an object: its identity, or its class if any object of it will do."""
        if argument.value is not None:
            self.return_miss_if(f"{place} is not {self.name(argument.value)}")
            return
        self.lines.append(f"    t{leaf} = {place}")
        self.return_miss_if(f"t{leaf}.__class__ is not {self.name(argument.kind)}")

    def guard_flags(self, leaf: int, tensor: TensorLayout) -> None:
        """Guard whether a tensor requires grad and whether it was made in inference mode."""
        t, is_not = f"t{leaf}", "is not" if tensor.is_inference else "is"
        self.return_miss_if(f"({t}._tracked and requires({t})) is not {tensor.requires_grad} or "
                            f"({t} if {t}._base is None else {t}._base)._stamp {is_not} INFERENCE")
        if tensor.requires_grad and leaf >= self.arguments:
            is_not = "is" if tensor.has_history else "is not"
            self.return_miss_if(f"{t}._history() {is_not} None")

    def guard_array(self, leaf: int, array: ArrayLayout) -> None:
        """Guard the layout of an array."""
        b, kind = f"b{leaf}", self.name(array.dtype)
        self.return_miss_if(
            f"{b}.__class__ is not ndarray or {b}.shape != {array.shape} or "
            f"{b}.strides != {array.strides} or ({b}.dtype is not {kind} and {b}.dtype != {kind})"
        )

    def guard_ambient(self) -> None:
        """Guard ambient modes, hooks, and the outside state that the proof names."""
        modes = self.program.modes
        self.return_miss_if(
            f"MODE.grad is not {modes.grad} or MODE.inference is not {modes.inference}"
        )
        self.return_miss_if(f"CHOSEN.parts != {modes.matmul_parts}")
        if modes.autocast is None:
            self.return_miss_if("AUTOCAST.count and autocast() is not None")
        else:
            self.return_miss_if(f"autocast() != {self.name(modes.autocast)}")
        self.return_miss_if(
            "(CHANGES.count != program.changes or HANDLES.count != program.handles "
            "or AMBIENT.changes != program.ambient) and not program.recheck()"
        )
        self.names.update(self.program.proof.constants)
        self.guard_proof([guard for guard in self.program.proof.guards
                          if guard not in self.guards_on_carried])

    def guard_proof(self, guards: list[Guard]) -> None:
        """Guard outside state that the proof names."""
        if not guards:
            return
        # If a guard raises, what it reads is gone: a miss.
        self.lines.append("    try:")
        for guard in guards:
            self.lines += [f"        if {guard.failure(self.name)}:", "            return MISS"]
        self.lines += ["    except Exception:", "        return MISS"]

    def guard_carried(self) -> None:
        """Guard what the call takes over from the call before. It comes after the guards on how
        its places are looked up, which may run code otherwise."""
        for each in self.carried:
            if each.value is None:  # its reads, if any, have guards of their own
                self.leaves += 1
                continue
            inner = f"a{len(self.lines)}"
            self.lines += ["    try:", f"        {inner} = {self.write_place(each.place)}",
                           "    except Exception:", "        return MISS"]
            self.guard_structure(inner, each.value)
        self.guard_proof(self.guards_on_carried)

    def write_place(self, place: Place) -> str:
        """Return the expression that reads a place."""
        owner, key = self.name(place.owner), self.name(place.key)
        if is_grad_place(place):
            return f"{owner}.{place.key}"
        if place.is_attribute:
            return f"{self.name(find_space_reader(place.owner))}({owner})[{key}]"
        if isinstance(place.owner, types.CellType):
            return f"{owner}.cell_contents"
        if isinstance(place.owner, dict):  # a defaultdict would add what is missing
            return f"{owner}.get({key})"
        return f"{owner}[{key}]"

    def _reads_carried(self, guard: Guard) -> bool:
        """Whether a guard is about a leaf after those of the arguments."""
        return any(leaf >= self.arguments for leaf in guard.list_leaves())

    def _flatten(self) -> list[Any]:
        """Return the descriptions of all leaves."""
        return [*flatten_call(self.args, self.kwargs), *list_leaves(self.carried)]

    def guard_states(self) -> None:
        """Guard the memory and flags of parameters, buffers and grads."""
        of_optimizers = {
            id(state) for ticker in self.program.tickers
            for _, states in ticker.rows for state in states.values()
        }
        states = [s for s in self.program.reachable.states if id(s[0]) not in of_optimizers]
        if 0 < len(states) <= MAX_INLINE_GUARDS:
            self.return_miss_if(" or ".join(self.write_state_mismatch(*state) for state in states))
        elif states:
            get = operator.attrgetter("_array", "_requires_grad")
            self.names["get"], self.names["tensors"] = get, [tensor for tensor, _, _ in states]
            self.names["recorded"] = [(array, flag) for _, array, flag in states]
            self.lines += ["    try:", "        if list(map(get, tensors)) != recorded:",
                           "            return MISS", "    except ValueError:",
                           "        return MISS"]

    def guard_gradients(self) -> None:
        """Guard the leaves' incoming gradients, and which arguments are leaves."""
        arguments = {leaf.id: i for i, leaf in enumerate(self._flatten())
                     if isinstance(leaf, TensorLayout)}
        accesses = (*self.bindings.incoming_grads, *self.bindings.grads)
        touched = {id(leaf): leaf for leaf, _ in accesses}
        for key, leaf in touched.items():
            if key in arguments:
                self.return_miss_if(f"t{arguments[key]} is not {self.name(leaf)}")
        for leaf, before in self.bindings.incoming_grads:
            if before is ANY_GRAD:
                self.return_miss_if(f"{self.name(leaf)}._grad is None")
                continue
            grad = "None" if before is None else self.name(before)
            self.return_miss_if(f"{self.name(leaf)}._grad is not {grad}")

    def write_state_mismatch(self, tensor: Tensor, array: np.ndarray, requires_grad: bool) -> str:
        """Return an expression that is true if a tensor's memory or requires_grad changed."""
        name = self.name(tensor)
        return (f"{name}._array is not {self.name(array)} or "
                f"{name}._requires_grad is not {self.name(requires_grad)}")

    def guard_aliasing(self) -> None:
        """Guard which arguments share memory that the step writes."""
        bindings = self.bindings
        for i, j, gap in bindings.overlapping_leaves:
            self.return_miss_if(f"not overlap_at(b{i}, b{j}, {gap})")
        for i, j, kind in bindings.aliasing:
            is_same_object = kind[0]
            self.return_miss_if(
                f"t{i} is not t{j}" if is_same_object else f"aliasing(t{i}, t{j}) != {kind}"
            )
        for i, j in bindings.disjoint_leaves:
            self.return_miss_if(f"not are_disjoint(b{i}, b{j})")
        holds = self.name(OuterMemory([*bindings.owners, *bindings.readers]).holds)
        written = self.name(OuterMemory(bindings.owners).holds)
        for i in self.tensors:
            if i in bindings.written_leaves and (bindings.owners or bindings.readers):
                self.return_miss_if(f"{holds}(b{i})")
            elif bindings.owners:
                self.return_miss_if(f"{written}(b{i})")

    def guard_indices(self) -> None:
        """Check indices. If one is out of bounds, the function itself runs, which raises."""
        for check in self.bindings.checks:
            if check.leaf is not None:
                node = check.bound.node
                quick = check.bound.quick(dtype_of(node.type), 0 in node.shape)
                holds = f"{self.name(quick)}(b{check.leaf})"
            else:
                arrays = ", ".join(f"{i}: b{i}" for i in self.tensors)
                holds = f"{self.name(check.test)}({{{arrays}}})"
            self.lines += [f"    if not {holds}:", "        return DIRECT"]
