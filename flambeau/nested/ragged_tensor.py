"""Base of both nested layouts: a dense tensor of values with its autograd history.

Autograd runs through the values: a function on a nested tensor runs, and is recorded, on its
values, and the result is wrapped again. Each layout has a table of rules by public function name.
Without a rule, elementwise functions run on the values, and composites run unchanged and dispatch
the functions that they call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from ..ops.core.axes import canonicalize_dim
from ..ops.core.dispatch import find_pointwise_operator
from ..ops.core.operator import OPERATORS, Kind
from ..ops.interception.subclass import DisableTorchFunctionSubclass
from ..overrides.modes import redispatch_function
from ..tensor.size import Size
from ..tensor.tensor import Tensor, _TensorType
from ..tensor.windows.opaque_window import OpaqueWindow, describe_missing_implementation

Rules = dict[str, Callable[..., Any]]

# Elementwise composites, and elementwise functions that are not operators.
ELEMENTWISE = frozenset("""
    _to_copy add alpha_dropout bernoulli bfloat16 bool byte cdouble celu cfloat char clamp clamp_max
    clamp_min conj conj_physical cpu div double dropout elu feature_alpha_dropout fill float
    float_power frexp gelu half hardshrink hardsigmoid hardswish hardtanh int isclose isfinite isinf
    isneginf isposinf isreal ldexp leaky_relu logit logsigmoid long masked_fill mish mvlgamma
    nan_to_num pin_memory polygamma positive pow relu relu6 relu_only resolve_conj resolve_neg rrelu
    rsub selu short sigmoid silu softplus softshrink softsign sub tanh tanhshrink threshold
    threshold_backward to true_divide type legacy_type type_as
""".split())


# Internal names that differ from the public name.
_OTHER_NAMES = {"view_method": "view", "_tensor_backward": "backward", "_to": "to"}


class RaggedWindow(OpaqueWindow):
    """The window of a nested tensor: the values' window with a ragged shape."""

    __slots__ = ("shape", "values")
    kind, backend = "nested", "NestedTensorCPU"
    dtype = property(lambda self: self.values.dtype)
    itemsize = property(lambda self: self.values.itemsize)
    nbytes = property(lambda self: self.values.nbytes)
    base = property(lambda self: self.values)

    def __init__(self, values: Any, shape: tuple) -> None:
        self.values, self.shape = values, shape


class RaggedTensor(Tensor):
    """A nested tensor on values; base class of the layouts."""

    RULES: ClassVar[Rules] = {}
    _values: Any
    _array: Any

    @classmethod
    def _new(cls, values: Tensor, shape: tuple) -> Any:
        """Create an object on the values, without any rows yet."""
        result = object.__new__(cls)
        _TensorType.instantiated(cls)
        result._array = RaggedWindow(values._array, shape)
        result._values = values
        return result

    def _build_like(self, values: Tensor) -> Any:
        """Return the rows of `self` on other values."""
        raise NotImplementedError

    def _operands(self, name: str, values: Iterable[Any]) -> list[Any]:
        """Convert an elementwise function's arguments for use with the values of `self`."""
        raise NotImplementedError

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the rule of the function's name, or the default for its kind."""
        keywords = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in ("__get__", "__set__", "__delete__"):
            with DisableTorchFunctionSubclass():
                return func(*args, **keywords)
        name = _OTHER_NAMES.get(name, name)
        rule = cls.RULES.get(name)
        if rule is not None:
            return rule(*args, **keywords)
        if name.endswith("_") and not name.startswith("__") and isinstance(args[0], cls):
            return _write(name, func, args, keywords)
        if name.strip("_") in ELEMENTWISE or _is_pointwise(func):
            return apply_elementwise(name, func, args, keywords)
        if _is_operator(func):
            raise NotImplementedError(describe_missing_implementation(name, RaggedWindow.backend))
        return redispatch_function(func, types, args, keywords)

    # ------------------------------------------------------------------- its place in the graph

    requires_grad = property(lambda self: self._values.requires_grad,
                             lambda self, value: self._values.requires_grad_(value))
    grad_fn = property(lambda self: self._values.grad_fn)
    is_leaf = property(lambda self: self._values.is_leaf)
    output_nr = property(lambda self: self._values.output_nr)
    _base = property(lambda self: self.__dict__.get("_viewed", self._values._base))
    _requires_grad = property(lambda self: self._values._requires_grad)
    _tracked = property(lambda self: self._values._tracked)
    _node = property(lambda self: self._values._node)
    _stamp = property(lambda self: self._values._stamp)
    _counter = property(lambda self: self._values._counter,
                        lambda self, counter: setattr(self._values, "_counter", counter))
    _version = property(lambda self: self._values._version)
    data = property(lambda self: self._build_like(self._values.data))
    real = property(lambda self: self._build_like(self._values.real))
    imag = property(lambda self: self._build_like(self._values.imag))

    @property
    def grad(self) -> Any:
        """The gradient, nested like the tensor."""
        g = self._values.grad
        return g if g is None or isinstance(g, RaggedTensor) else self._build_like(g)

    @grad.setter
    def grad(self, value: Any) -> None:
        self._values.grad = value._values if isinstance(value, RaggedTensor) else value

    @grad.deleter
    def grad(self) -> None:
        del self._values.grad

    # ---------------------------------------------------------------------------- properties

    is_nested = property(lambda self: True)
    is_cpu = property(lambda self: self._values.is_cpu)
    is_meta = property(lambda self: self._values.is_meta)
    device = property(lambda self: self._values.device)
    ndim = property(lambda self: len(self._array.shape))
    shape = property(lambda self: Size(self._array.shape))

    def axis(self, dim: int, extra: int = 0) -> int:
        """Return `dim` as a non-negative axis; IndexError if it is out of range."""
        return canonicalize_dim(dim, self.dim() + extra)

    def dim(self) -> int:
        """The number of axes, including the batch."""
        return len(self._array.shape)

    ndimension = dim

    def __len__(self) -> int:
        return self._array.shape[0]

    def _is_view(self) -> bool:
        """Whether the values are a view."""
        return self._base is not None


def as_number(key: Any) -> Any:
    """Return an index that is a tensor of one integer as a number; other indices unchanged."""
    if isinstance(key, Tensor) and key._array.ndim == 0 and key._array.dtype.kind in "iu":
        return int(key.item())
    return key


def _is_pointwise(func: Any) -> bool:
    if find_pointwise_operator(func) is not None:
        return True
    operator = _OPERATOR_OF.get(func)
    return operator is not None and operator.pointwise


def _is_operator(func: Any) -> bool:
    operator = _OPERATOR_OF.get(func)
    return operator is not None and operator.kind is not Kind.COMPOSITE


_OPERATOR_OF = {operator.function: operator for operator in OPERATORS.values()}


def find_first_nested(values: Iterable[Any]) -> Any:
    """Return the first nested tensor among the values."""
    return next(v for v in values if isinstance(v, RaggedTensor))


def _call_on_values(name: str, func: Any, args: tuple, keywords: dict) -> tuple[Any, Any]:
    """Call the function on values; return the nested tensor that defines rows, and the result."""
    operands_and_settings = (*args, *keywords.values())
    pattern = find_first_nested(operands_and_settings)
    operands = pattern._operands(name, operands_and_settings)
    result = func(*operands[:len(args)], **dict(zip(keywords, operands[len(args):], strict=True)))
    return pattern, result


def apply_elementwise(name: str, func: Any, args: tuple, keywords: dict) -> Any:
    """Call the function on the values; nest its results like the first nested argument."""
    pattern, result = _call_on_values(name, func, args, keywords)
    if isinstance(result, tuple):
        return tuple(pattern._build_like(value) for value in result)
    return pattern._build_like(result) if isinstance(result, Tensor) else result


def _write(name: str, func: Any, args: tuple, keywords: dict) -> Any:
    """Run an in-place function on the values of its first argument."""
    target = args[0]
    operands = target._operands(name, (*args, *keywords.values()))
    func(*operands[:len(args)], **dict(zip(keywords, operands[len(args):], strict=True)))
    return target


# ------------------------------------------------------------------------- rules of both layouts

SHARED: Rules = {}


def shared(function: Callable[..., Any]) -> Callable[..., Any]:
    """Declare a rule for both layouts under the function's name."""
    SHARED[function.__name__] = function
    return function


def _unwrap(x: Any) -> Any:
    return x._values if isinstance(x, RaggedTensor) else x


def _unwrap_all(xs: Any) -> Any:
    return _unwrap(xs) if isinstance(xs, Tensor) or xs is None else tuple(map(_unwrap, xs))


@shared
def requires_grad_(self: RaggedTensor, requires_grad: bool = True) -> RaggedTensor:
    """Set whether autograd records operations on the tensor."""
    self._values.requires_grad_(requires_grad)
    return self


@shared
def detach(self: RaggedTensor) -> Any:
    """Return the same rows without history."""
    return self._build_like(self._values.detach())


@shared
def detach_(self: RaggedTensor) -> RaggedTensor:
    """Remove the tensor's history."""
    self._values.detach_()
    return self


@shared
def retain_grad(self: RaggedTensor) -> None:
    """Keep the gradient of a non-leaf tensor."""
    self._values.retain_grad()


@shared
def register_hook(self: RaggedTensor, hook: Callable) -> Any:
    """Register a hook on the gradient; it receives the gradient as a nested tensor."""
    return self._values.register_hook(lambda g: _unwrap(hook(self._build_like(g))))


@shared
def backward(self: Any, gradient: Any = None, *args: Any, **named: Any) -> None:
    """`Tensor.backward`, and `torch.autograd.backward` of several tensors."""
    if isinstance(self, Tensor):
        if gradient is None and isinstance(self, RaggedTensor) and self._values.numel() != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        _unwrap(self).backward(_unwrap(gradient), *args, **named)
        return
    from ..autograd import backward

    backward(_unwrap_all(self), _unwrap_all(gradient), *args, **named)


@shared
def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, *args: Any, **named: Any) -> Any:
    """`torch.autograd.grad`: gradients of nested inputs are nested."""
    from ..autograd import grad

    targets = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    gradients = grad(_unwrap_all(outputs), _unwrap_all(targets), _unwrap_all(grad_outputs),
                     *args, **named)
    return tuple(x._build_like(g) if isinstance(x, RaggedTensor) and g is not None else g
                 for x, g in zip(targets, gradients, strict=True))


@shared
def is_same_size(input: Any, other: Any) -> bool:
    """Return whether the rows have the same lengths."""
    return bool(input.is_nested and other.is_nested and tuple(input._array.shape)
                == tuple(other._array.shape))


@shared
def equal(input: Any, other: Any) -> bool:
    """Return whether rows and elements are equal."""
    if not (input.is_nested and other.is_nested):
        return False
    rows, other_rows = input.unbind(), other.unbind()
    return len(rows) == len(other_rows) and all(
        a.equal(b) for a, b in zip(rows, other_rows, strict=True))


@shared
def allclose(input: Any, other: Any, *args: Any, **named: Any) -> bool:
    """Return whether the rows have the same lengths and close elements."""
    rows, other_rows = input.unbind(), other.unbind()
    return len(rows) == len(other_rows) and all(
        a.shape == b.shape and a.allclose(b, *args, **named)
        for a, b in zip(rows, other_rows, strict=True))


@shared
def item(self: RaggedTensor) -> Any:
    """Return the only element."""
    return self._values.item()


@shared
def tolist(self: RaggedTensor) -> list:
    """Return the rows as nested lists."""
    return [row.tolist() for row in self.unbind()]


@shared
def __iter__(self: RaggedTensor) -> Any:
    """Iterate over the rows."""
    return iter(self.unbind())


@shared
def numel(self: RaggedTensor) -> int:
    """Return the number of elements."""
    return self.numel()
