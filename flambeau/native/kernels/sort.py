"""Sort rows fully or partly, with the same steps as the C++ library's algorithms.

The order of equal elements depends on the algorithm: introsort, introselect and heaps as in
libstdc++ (Musser, Introspective sorting and selection algorithms, 1997), and Hoare's quickselect
with a median of three. Keys are integers, sorted ascending; each carries its number along.
"""

from __future__ import annotations

from ..loop_ir.expression_builder import Value
from ..loop_ir.ir import (
    Affine, Apply, Buffer, Constant, Index, Kernel, Load, Loop, LoopKind, Scalar, Size,
    Store, Type,
)
from ..loop_ir.statement_program import StatementProgram, Variable
from ..target.eager_costs import MAX_INSERTION_SORT_LENGTH

_STACK_ENTRIES = 192  # ranges left to sort: more than 2 * log2 of any length


class _RowProgram(StatementProgram):
    """Emits the statements that work on one row: `keys` and `numbers` (I64), of `n` elements."""

    def __init__(self, type: Type) -> None:
        super().__init__()
        self.keys, self.numbers = Buffer(type, "keys"), Buffer(Type.I64, "numbers")
        self.row, self.rows, self.n = Index("row"), Size("rows"), Size("n")

    def kernel(self, name: str, others: list[Buffer], sizes: list[Size]) -> Kernel:
        """Return a kernel that runs the statements for each row."""
        nest = Loop(self.row, self.rows, self.body, LoopKind.PARALLEL)
        return Kernel(name, [self.keys, self.numbers, *others], [nest], [self.rows, self.n, *sizes])

    # Elements.

    def key(self, position: Value) -> Value:
        return Value(Load(self.keys, Affine(0, ((self.row, self.n),)), ((position.expression, 1),)))

    def number(self, position: Value) -> Value:
        return Value(Load(self.numbers, Affine(0, ((self.row, self.n),)),
                          ((position.expression, 1),)))

    def row_argument(self, buffer: Buffer) -> Value:
        """Load an integer argument of the row."""
        return Value(Load(buffer, Affine(0, ((self.row, 1),))))

    def keep(self, position: Value) -> _Element:
        """Copy an element."""
        element = _Element(Variable(self, "key", self.keys.type), Variable(self, "number"))
        element.key.put(self.key(position))
        element.number.put(self.number(position))
        return element

    def put(self, position: Value, key: Value, number: Value) -> None:
        """Write an element."""
        here = Affine(0, ((self.row, self.n),))
        self.write(Store(self.keys, here, key.expression, ((position.expression, 1),)))
        self.write(Store(self.numbers, here, number.expression, ((position.expression, 1),)))

    def move(self, to: Value, position: Value) -> None:
        self.put(to, self.key(position), self.number(position))

    def swap(self, a: Value, b: Value) -> None:
        saved = self.keep(a)
        self.move(a, b)
        self.put(b, saved.key.now, saved.number.now)

    # Algorithms.

    def insertion_sort(self, first: Value, last: Value) -> None:
        i = self.integer("i", first + 1)
        with self.while_(i.now < last):
            current, j = self.keep(i.now), self.integer("j", i.now)
            moving = self.integer("moving", 1)
            with self.while_(moving.now > 0):
                moving.put(0)
                with (self.where(j.now > first),
                      self.where(current.key.now < self.key(j.now - 1))):
                    self.move(j.now, j.now - 1)
                    j.put(j.now - 1)
                    moving.put(1)
            self.put(j.now, current.key.now, current.number.now)
            i.put(i.now + 1)

    def partition(self, first: Value, last: Value) -> Variable:
        """Partition a range by the median of three elements; return its second part's start."""
        a, c, end = first + 1, halve(last - first) + first, last - 1
        low, mid, high = self.key(a), self.key(c), self.key(end)
        median = (low < mid).chosen(
            (mid < high).chosen(c, (low < high).chosen(end, a)),
            (low < high).chosen(a, (mid < high).chosen(end, c)),
        )
        median_index = self.integer("median", median)
        self.swap(first, median_index.now)
        pivot = Variable(self, "pivot", self.keys.type)
        pivot.put(self.key(first))
        i, j, apart = (self.integer(n, v) for n, v in (("i", first + 1), ("j", last), ("apart", 1)))
        with self.while_(apart.now > 0):
            with self.while_(self.key(i.now) < pivot.now):
                i.put(i.now + 1)
            j.put(j.now - 1)
            with self.while_(pivot.now < self.key(j.now)):
                j.put(j.now - 1)
            apart.put(0)
            with self.where(i.now < j.now):
                self.swap(i.now, j.now)
                i.put(i.now + 1)
                apart.put(1)
        return i

    def sift(self, first: Value, hole: Value, count: Value, element: _Element) -> None:
        """Put an element into a heap with a hole: the hole sinks to a leaf, then the element rises.

        A heap has its greatest key first.
        """
        at, child = self.integer("at", hole), self.integer("child", hole)
        with self.while_(child.now < halve(count - 1)):
            child.put((child.now + 1) * 2)
            child_key = self.key(first + child.now - 1)
            with self.where(self.key(first + child.now) < child_key):
                child.put(child.now - 1)
            self.move(first + at.now, first + child.now)
            at.put(child.now)
        even = Value(Apply(Scalar.AND, (count.expression, Constant(Type.I64, 1)), Type.I64)) < 1
        with self.where(even & (child.now + child.now < count - 1) & (child.now >= halve(count - 2))
                        & (count > 1)):
            child.put((child.now + 1) * 2)
            self.move(first + at.now, first + child.now - 1)
            at.put(child.now - 1)
        rising = self.integer("rising", 1)
        with self.while_(rising.now > 0):
            rising.put(0)
            with self.where(at.now > hole):
                parent = halve(at.now - 1)
                with self.where(self.key(first + parent) < element.key.now):
                    self.move(first + at.now, first + parent)
                    at.put(parent)
                    rising.put(1)
        self.put(first + at.now, element.key.now, element.number.now)

    def heap_select(self, first: Value, middle: Value, last: Value) -> None:
        """Gather a range's least elements in front of `middle`, as a heap."""
        count = middle - first
        self.heap(first, count)
        i = self.integer("i", middle)
        with self.while_(i.now < last):
            with self.where(self.key(i.now) < self.key(first)):
                element = self.keep(i.now)
                self.move(i.now, first)
                self.sift(first, Value(Constant(Type.I64, 0)), count, element)
            i.put(i.now + 1)

    def heap(self, first: Value, count: Value) -> None:
        """Turn a range into a heap."""
        parent = self.integer("parent", halve(count - 2))
        with self.where(count < 2):
            parent.put(-1)
        with self.while_(parent.now >= 0):
            self.sift(first, parent.now, count, self.keep(first + parent.now))
            parent.put(parent.now - 1)

    def sort_heap(self, first: Value, last: Value) -> None:
        end = self.integer("end", last)
        with self.while_(end.now - first > 1):
            end.put(end.now - 1)
            element = self.keep(end.now)
            self.move(end.now, first)
            self.sift(first, Value(Constant(Type.I64, 0)), end.now - first, element)


class _Element:
    """A copy of an element."""

    def __init__(self, key: Variable, number: Variable) -> None:
        self.key, self.number = key, number


def halve(value: Value) -> Value:
    """Half of an integer, rounded down."""
    return Value(Apply(Scalar.SHR, (value.expression, Constant(Type.I64, 1)), Type.I64))


def introsort(type: Type) -> Kernel:
    """Sort the first elements of rows. Buffers: keys, numbers, settings (I64: number of elements,
    maximum number of splits). Sizes: rows, their length."""
    code, settings = _RowProgram(type), Buffer(Type.I64, "settings")
    count, depth = Value(Load(settings, Affine(0))), Value(Load(settings, Affine(1)))
    stacks = [Buffer(Type.I64, name, _STACK_ENTRIES) for name in ("first", "last", "left")]
    top = code.integer("top", 0)
    first, last, left = (Variable(code, name) for name in ("first", "last", "left"))

    def push(*values: Value) -> None:
        for stack, value in zip(stacks, values, strict=True):
            code.write(Store(stack, Affine(0), value.expression, ((top.now.expression, 1),)))
        top.put(top.now + 1)

    push(Value(Constant(Type.I64, 0)), count, depth)
    with code.while_(top.now > 0):
        top.put(top.now - 1)
        for stack, variable in zip(stacks, (first, last, left), strict=True):
            variable.put(Value(Load(stack, Affine(0), ((top.now.expression, 1),))))
        with code.while_((last.now - first.now > MAX_INSERTION_SORT_LENGTH) & (left.now > 0)):
            left.put(left.now - 1)
            cut = code.partition(first.now, last.now)
            push(cut.now, last.now, left.now)
            last.put(cut.now)
        with code.where(last.now - first.now > MAX_INSERTION_SORT_LENGTH):
            code.heap_select(first.now, last.now, last.now)
            code.sort_heap(first.now, last.now)
    code.insertion_sort(Value(Constant(Type.I64, 0)), count)
    return code.kernel("introsort", [settings], [])


def introselect(type: Type) -> Kernel:
    """Move the element of each row's rank into place, with lower ones before it.

    Buffers: keys, numbers, ranks (I64, per row), settings (I64: maximum number of splits), the
    rows' length (I64). Sizes: rows, their length.
    """
    code = _RowProgram(type)
    ranks, settings, length = (Buffer(Type.I64, name) for name in ("ranks", "settings", "length"))
    rank, n = code.row_argument(ranks), Value(Load(length, Affine(0)))
    first, last = code.integer("first", 0), code.integer("last", n)
    remaining = code.integer("left", Value(Load(settings, Affine(0))))
    with code.while_((last.now - first.now > 3) & (remaining.now > 0)):
        remaining.put(remaining.now - 1)
        cut = code.partition(first.now, last.now)
        upper = code.integer("upper", (cut.now <= rank).chosen(Value(Constant(Type.I64, 1)), 0))
        with code.where(upper.now > 0):
            first.put(cut.now)
        with code.where(upper.now < 1):
            last.put(cut.now)
    unit = Value(Constant(Type.I64, 1))
    is_long = code.integer("many", (last.now - first.now > 3).chosen(unit, 0))
    with code.where(is_long.now > 0):
        code.heap_select(first.now, rank + 1, last.now)
        code.swap(first.now, rank)
    with code.where(is_long.now < 1):
        code.insertion_sort(first.now, last.now)
    return code.kernel("introselect", [ranks, settings, length], [])


def partial_sort(type: Type) -> Kernel:
    """Find the least elements of rows, sorted, by a heap. Buffers: keys, numbers (both results),
    rows to choose from, settings (I64: their length, how many). Sizes: rows, how many, length."""
    code, settings = _RowProgram(type), Buffer(Type.I64, "settings")
    candidates, length = Buffer(type, "given"), Size("length")
    zero, count = Value(Constant(Type.I64, 0)), Value(Load(settings, Affine(1)))

    def there(position: Value) -> Value:
        return Value(Load(candidates, Affine(0, ((code.row, length),)),
                          ((position.expression, 1),)))

    i = code.integer("i", 0)
    with code.while_(i.now < count):
        code.put(i.now, there(i.now), i.now)
        i.put(i.now + 1)
    code.heap(zero, count)
    with code.while_(i.now < Value(Load(settings, Affine(0)))):
        with code.where(there(i.now) < code.key(zero)):
            element = _Element(Variable(code, "key", type), Variable(code, "number"))
            element.key.put(there(i.now))
            element.number.put(i.now)
            code.sift(zero, zero, count, element)
        i.put(i.now + 1)
    code.sort_heap(zero, count)
    return code.kernel("partial_sort", [candidates, settings], [length])


def quickselect(type: Type) -> Kernel:
    """Move the element of a rank into place. Buffers: keys, numbers, settings (I64: the rank, the
    rows' length). Sizes: rows, their length."""
    code, settings = _RowProgram(type), Buffer(Type.I64, "settings")
    rank = Value(Load(settings, Affine(0)))
    low = code.integer("low", 0)
    high = code.integer("high", Value(Load(settings, Affine(1))) - 1)

    def ordered(a: Value, b: Value) -> None:
        with code.where(code.key(a) > code.key(b)):
            code.swap(a, b)

    with code.while_(high.now > low.now + 1):
        start = low.now
        code.swap(halve(high.now + low.now), start + 1)
        ordered(start + 1, high.now)
        ordered(start, high.now)
        ordered(start + 1, start)
        pivot = Variable(code, "pivot", type)
        pivot.put(code.key(start))
        i, j, apart = (code.integer(n, v) for n, v in
                       (("i", start + 1), ("j", high.now), ("apart", 1)))
        with code.while_(apart.now > 0):
            i.put(i.now + 1)
            with code.while_(pivot.now > code.key(i.now)):
                i.put(i.now + 1)
            j.put(j.now - 1)
            with code.while_(code.key(j.now) > pivot.now):
                j.put(j.now - 1)
            apart.put((j.now < i.now).chosen(Value(Constant(Type.I64, 0)), 1))
            with code.where(apart.now > 0):
                code.swap(i.now, j.now)
        code.swap(low.now, j.now)
        with code.where(j.now <= rank):
            low.put(i.now)
        with code.where(j.now >= rank):
            high.put(j.now - 1)
    with code.where(high.now > low.now):
        ordered(low.now, high.now)
    return code.kernel("quickselect", [settings], [])
