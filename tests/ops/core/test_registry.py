"""Every operator of the registry against its oracle, its derivatives against differences, and what
must hold of all of them: strides, empty tensors, in-place twins, out=, examples."""

from __future__ import annotations

import doctest
import inspect

import numpy as np
import pytest

import flambeau
from flambeau.autograd.forward_ad import get_tangent, give, pop_level, push_level
from flambeau.ops.core.operator import OPERATORS, PUBLIC, Kind
from flambeau.tensor import Tensor, wrap

STEP = 1e-6
NARROW = {"f": np.float32, "c": np.complex64}


def mapped(value, change):
    """`value` with `change` applied to the arrays in it, in lists and tuples too."""
    if isinstance(value, np.ndarray | np.generic):
        return change(np.asarray(value))
    if isinstance(value, list | tuple) and any(isinstance(v, np.ndarray) for v in value):
        return type(value)(mapped(v, change) for v in value)
    return value


def narrowed(array):
    """float64 as float32, complex128 as complex64."""
    return array.astype(NARROW[array.dtype.kind]) if array.dtype.kind in "fc" else array


def rounded(array):
    """The float64 numbers that float32 can hold."""
    return narrowed(array).astype(array.dtype)


def tensors(operator, args, kwargs, change=lambda array: array):
    """A sample with its arrays changed; those that the operator takes as tensors made tensors."""
    names = operator.names

    def place(i, name, value):
        position = names.index(name) if name in names else min(i, len(names) - 1)
        if position in operator.tensor_positions:
            return mapped(value, lambda array: wrap(change(array.copy())))
        return mapped(value, change)

    args = [place(i, None, value) for i, value in enumerate(args)]
    return args, {name: place(0, name, value) for name, value in kwargs.items()}


def called(operator, args, kwargs, change=lambda array: array):
    """The operator's result on a sample."""
    args, kwargs = tensors(operator, args, kwargs, change)
    return operator.function(*args, **kwargs)


def outputs(result):
    """The tensors of a result, whether it is one or several."""
    return [result] if isinstance(result, Tensor) else [y for y in result if y is not None]


def compare(result, expected, rtol, atol):
    """An oracle may know all outputs, or the first ones alone."""
    expected = expected if isinstance(expected, list | tuple) else [expected]
    actual = outputs(result)[: len(expected)]
    assert len(actual) == len(expected)
    for y, wanted in zip(actual, expected, strict=True):
        assert y._array.shape == np.shape(wanted)
        np.testing.assert_allclose(y._array, wanted, rtol=rtol, atol=atol)


# ------------------------------------------------------------------------------ declarations


def test_declaration_is_complete(declared):
    assert declared.doc, "an operator needs a docstring"
    first = declared.doc.splitlines()[0]
    assert first.endswith((".", ":")), f"the docstring's first line is no sentence: {first}"
    if declared.kind is not Kind.COMPOSITE and declared.expose:
        assert declared.samples is not None, "an operator needs samples"
        assert declared.ref is not None, "an operator needs an oracle"


def examples():
    """Every public function with an example in its docstring, once."""
    seen = {}
    for space, names in PUBLIC.items():
        for name, function in names.items():
            text = getattr(function, "__doc__", None) or ""
            if ">>>" in getattr(text, "own", text):
                seen.setdefault(id(function), (f"{space}.{name}", function))
    return sorted(seen.values(), key=lambda pair: pair[0])


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")  # of old names
@pytest.mark.parametrize(("name", "function"), [pytest.param(n, f, id=n) for n, f in examples()])
def test_example(name, function):
    test = doctest.DocTestParser().get_doctest(
        function.__doc__, {"torch": flambeau}, name, None, None
    )
    report = []
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    runner = doctest.DocTestRunner(optionflags=options)
    runner.run(test, out=report.append)
    assert not runner.failures, "".join(report)


# ------------------------------------------------------------------------------ values


def test_value(compared, rng):
    for args, kwargs in compared.samples(rng):
        expected = compared.ref(*args, **kwargs)
        compare(called(compared, args, kwargs), expected, rtol=1e-7, atol=1e-8)


def test_value_in_float32(compared, rng):
    for args, kwargs in compared.samples(rng):
        args = [mapped(v, rounded) for v in args]
        kwargs = {name: mapped(v, rounded) for name, v in kwargs.items()}
        result = called(compared, args, kwargs, change=narrowed)
        expected = compared.ref(*args, **kwargs)
        compare(result, expected, rtol=2e-4, atol=2e-4)
        for y in outputs(result):
            assert y._array.dtype not in (np.float64, np.complex128), "float32 was widened"


def test_strided_inputs(sampled, rng):
    for args, kwargs in sampled.samples(rng):
        flambeau.manual_seed(1)
        expected = outputs(called(sampled, args, kwargs))
        flambeau.manual_seed(1)
        try:
            actual = outputs(called(sampled, args, kwargs, change=spread_out))
        except RuntimeError:
            assert sampled.kind is Kind.VIEW, "only a view may refuse strides"
            continue
        for y, wanted in zip(actual, expected, strict=True):
            rtol = 1e-5 if y._array.dtype == np.float32 else 1e-12  # sums in another order
            np.testing.assert_allclose(y._array, wanted._array, rtol=rtol, atol=1e-14)


def spread_out(array):
    """The same elements, every second of a larger array and the axes' order in memory reversed."""
    if not array.ndim:
        return array
    wide = np.zeros((*array.shape[::-1][:-1], array.shape[0] * 2), array.dtype)
    window = wide.T[::2]
    window[...] = array
    return window


def test_large_arrays(pointwise, rng):
    """Bodies may treat large arrays otherwise than small ones: the elements must agree."""
    for args, kwargs in pointwise.samples(rng):
        if not all(isinstance(v, np.ndarray) and v.size for v in args):
            continue
        shape = np.broadcast_shapes(*(v.shape for v in args))
        if not shape:
            continue
        small = [np.broadcast_to(v, shape) for v in args]
        large = [np.tile(v.reshape(-1), -(-40000 // v.size)) for v in small]
        for change in (lambda a: a, narrowed):
            expected = called(pointwise, small, kwargs, change)._array.reshape(-1)
            actual = called(pointwise, large, kwargs, change)._array
            rtol = 1e-12 if change is not narrowed else 1e-6
            np.testing.assert_allclose(actual[: expected.size], expected, rtol=rtol, atol=rtol)
            np.testing.assert_allclose(actual[-expected.size :], expected, rtol=rtol, atol=rtol)
        return


def test_empty_tensors(pointwise, rng):
    args, kwargs = next(iter(pointwise.samples(rng)))

    def emptied(array):
        return np.empty((2, 0), array.dtype)

    y = called(pointwise, args, kwargs, change=emptied)
    assert y._array.shape == (2, 0)
    assert y._array.dtype == called(pointwise, args, kwargs)._array.dtype


def test_meta_tensors(pointwise, rng):
    for args, kwargs in pointwise.samples(rng):
        expected = called(pointwise, args, kwargs)
        inputs, options = tensors(pointwise, args, kwargs)
        inputs = [v.to("meta") if isinstance(v, Tensor) else v for v in inputs]
        y = pointwise.function(*inputs, **options)
        assert y.is_meta
        assert (y.shape, y.dtype) == (expected.shape, expected.dtype)


# ------------------------------------------------------------------------------ writing


def test_in_place_twin(in_place, rng):
    for args, kwargs in in_place.samples(rng):
        y = called(in_place, args, kwargs)
        (first, *rest), options = tensors(in_place, args, kwargs)
        if not isinstance(first, Tensor) or (y.shape, y.dtype) != (first.shape, first.dtype):
            continue
        version, address = first._version, first.data_ptr()
        result = in_place.twin(first, *rest, **options)
        assert result is first
        assert result.data_ptr() == address
        assert result._version == version + 1
        np.testing.assert_allclose(result._array, y._array, rtol=1e-12, atol=1e-14)


def test_in_place_twin_of_a_recorded_tensor(in_place, rng):
    if not in_place.differentiable or not (in_place.vjps or in_place.joint):
        pytest.skip("has no derivative")
    if in_place.joint is None and in_place.names[0] not in in_place.vjps:
        pytest.skip("has no derivative in its first input")
    for args, kwargs in in_place.samples(rng):
        (first, *rest), options = tensors(in_place, args, kwargs)
        if not isinstance(first, Tensor) or first._array.dtype.kind not in "fc":
            continue
        y = in_place.function(first, *rest, **options)
        if (y.shape, y.dtype) != (first.shape, first.dtype):
            continue
        first.requires_grad_()
        cotangent = wrap(np.asarray(rng.normal(size=y.shape)).astype(y._array.dtype))
        y = in_place.function(first, *rest, **options)
        (expected,) = flambeau.autograd.grad(y, [first], [cotangent])
        written = first * 1
        in_place.twin(written, *rest, **options)
        (gradient,) = flambeau.autograd.grad(written, [first], [cotangent])
        np.testing.assert_allclose(gradient._array, expected._array, rtol=1e-12, atol=1e-14)


def test_out(sampled, rng):
    if sampled.kind is Kind.VIEW:
        pytest.skip("a view has no memory of its own")
    for args, kwargs in sampled.samples(rng):
        flambeau.manual_seed(1)
        y = called(sampled, args, kwargs)
        if not isinstance(y, Tensor):
            return
        target = wrap(np.zeros_like(y._array))
        flambeau.manual_seed(1)
        inputs, options = tensors(sampled, args, kwargs)
        assert sampled.function(*inputs, **options, out=target) is target
        # A kernel that takes over between the two calls rounds otherwise.
        np.testing.assert_allclose(target._array, y._array, rtol=1e-6, atol=1e-12)


# ------------------------------------------------------------------------------ derivatives


class Probe:
    """A sample of an operator as a real function of its differentiable inputs.

    The function is the inner product of the outputs with fixed weights, and its derivative along
    a fixed direction is compared with central differences.
    """

    def __init__(self, operator, args, kwargs, rng):
        self.operator, self.kwargs = operator, kwargs
        self.args = [mapped(v, np.copy) for v in args]
        names = operator.names
        self.places = []
        for i, value in enumerate(self.args):
            known = i < len(names) and (operator.joint is not None or names[i] in operator.vjps)
            if not known:
                continue
            parts = value if isinstance(value, list | tuple) else [value]
            for k, part in enumerate(parts):
                if isinstance(part, np.ndarray) and part.dtype.kind in "fc":
                    self.places.append((i, k if part is not value else None))
        self.weights = None
        self.rng = rng
        self.directions = [self.random(self.array(place)) for place in self.places]
        for k, (i, _) in enumerate(self.places):
            if i < len(names) and names[i] == "L":  # a factor: nothing above its diagonal is read
                self.directions[k] = np.tril(self.directions[k])

    def leave_out_constants(self):
        """Leaves out the inputs for which a vjp of all inputs answers None."""
        is_used = [g is not None for g in self.gradient()[0]]
        self.places, self.directions = (
            [x for x, keep in zip(every, is_used, strict=True) if keep]
            for every in (self.places, self.directions)
        )

    def array(self, place):
        i, k = place
        return self.args[i] if k is None else self.args[i][k]

    def random(self, like):
        v = self.rng.normal(size=like.shape)
        return v + 1j * self.rng.normal(size=like.shape) if like.dtype.kind == "c" else v

    def inputs(self, shift=0.0):
        """Tensors at the sample moved along the direction, and those that are differentiated."""
        inputs, self.options = tensors(self.operator, self.args, self.kwargs)
        leaves = []
        for place, direction in zip(self.places, self.directions, strict=True):
            i, k = place
            leaf = wrap(self.array(place) + shift * direction).requires_grad_()
            leaves.append(leaf)
            if k is None:
                inputs[i] = leaf
            else:
                parts = list(inputs[i])
                parts[k] = leaf
                inputs[i] = type(inputs[i])(parts)
        return inputs, leaves

    def outputs(self, inputs):
        flambeau.manual_seed(2)
        results = outputs(self.operator.function(*inputs, **self.options))
        constant = self.operator.constant_outputs
        return [y for i, y in enumerate(results)
                if y._array.dtype.kind in "fc" and i not in constant]

    def cotangents(self, outputs):
        if self.weights is None:
            self.weights = [self.random(y._array) for y in outputs]
        return [wrap(np.asarray(w)).requires_grad_() for w in self.weights]

    def value(self, shift):
        """The function at the sample moved by `shift` along the direction."""
        values = [y.detach()._array for y in self.outputs(self.inputs(shift)[0])]
        self.cotangents([wrap(y) for y in values])
        return sum(inner(w, y) for w, y in zip(self.weights, values, strict=True))

    def gradient(self, shift=0.0, create_graph=False):
        """(gradients at the inputs, the inputs, the cotangents)."""
        inputs, leaves = self.inputs(shift)
        outputs = self.outputs(inputs)
        weights = self.cotangents(outputs)
        pairs = [(y, w) for y, w in zip(outputs, weights, strict=True) if y.requires_grad]
        assert pairs, "no output requires grad"
        grads = flambeau.autograd.grad(
            [y for y, _ in pairs], leaves, [w for _, w in pairs], create_graph=create_graph,
            allow_unused=True,
        )
        return grads, leaves, weights


def inner(a, b):
    return float(np.sum(np.conj(a) * b).real)


def along(grads, directions):
    return sum(inner(g._array, v) for g, v in zip(grads, directions, strict=True) if g is not None)


def agree(actual, expected, scale, what):
    error = abs(actual - expected)
    assert error <= 1e-5 * (1 + scale), f"{what}: {actual} by the vjp, {expected} by differences"


def probes(operator, rng):
    for args, kwargs in operator.samples(rng):
        if "padding_idx" in operator.names[: len(args)] or "padding_idx" in kwargs:
            continue  # the row of padding gets no gradient, whatever the derivative is
        probe = Probe(operator, args, kwargs, rng)
        if operator.joint is not None:
            probe.leave_out_constants()
        if probe.places:
            yield probe


def test_first_derivative(differentiable, rng):
    for probe in probes(differentiable, rng):
        grads, leaves, _ = probe.gradient()
        for g, leaf in zip(grads, leaves, strict=True):
            if g is not None:
                assert (g.shape, g.dtype) == (leaf.shape, leaf.dtype)
        expected = (probe.value(STEP) - probe.value(-STEP)) / (2 * STEP)
        agree(along(grads, probe.directions), expected, abs(expected), "first derivative")


def test_second_derivative(twice_differentiable, rng):
    for probe in probes(twice_differentiable, rng):
        grads, leaves, _ = probe.gradient(create_graph=True)
        targets = [probe.random(leaf._array) for leaf in leaves]

        def projected(gradients, targets=targets):
            return along(gradients, targets)

        recorded = [(g, wrap(np.asarray(t))) for g, t in zip(grads, targets, strict=True)
                    if g is not None and g.requires_grad]
        actual = 0.0
        if recorded:
            second = flambeau.autograd.grad(
                [g for g, _ in recorded], leaves, [t for _, t in recorded], allow_unused=True
            )
            actual = along(second, probe.directions)
        ahead, behind = (projected(probe.gradient(s)[0]) for s in (STEP, -STEP))
        expected = (ahead - behind) / (2 * STEP)
        agree(actual, expected, abs(expected) + abs(ahead), "second derivative")


def test_derivative_is_linear_in_the_cotangent(twice_differentiable, rng):
    """The gradient differentiated by the cotangent, which second derivatives pass through."""
    for probe in probes(twice_differentiable, rng):
        grads, _, weights = probe.gradient(create_graph=True)
        recorded = [g for g in grads if g is not None and g.requires_grad]
        if not recorded:
            continue
        targets = [wrap(np.asarray(probe.random(g._array))) for g in recorded]
        by_weight = flambeau.autograd.grad(recorded, weights, targets, allow_unused=True)
        actual = along(by_weight, [w._array for w in weights])
        value = sum(inner(t._array, g._array) for t, g in zip(targets, recorded, strict=True))
        agree(actual, value, abs(value), "linearity")


def test_forward_derivative(twice_differentiable, rng):
    """The tangents of the outputs, pushed along the direction in which differences are taken."""
    for probe in probes(twice_differentiable, rng):
        expected = (probe.value(STEP) - probe.value(-STEP)) / (2 * STEP)
        inputs, leaves = probe.inputs()
        directions = {id(leaf): v for leaf, v in zip(leaves, probe.directions, strict=True)}
        level = push_level()
        try:
            pushed = [get_tangent(y, level) for y
                      in probe.outputs(duals(inputs, directions, level))]
        finally:
            pop_level(level)
        actual = sum(inner(w, t._array)
                    for w, t in zip(probe.weights, pushed, strict=True) if t is not None)
        agree(actual, expected, abs(expected), "tangent")


def duals(values, directions, level):
    """The tensors that are differentiated as duals, in tuples and lists too."""
    if isinstance(values, list | tuple) and any(isinstance(v, Tensor | list) for v in values):
        return type(values)([duals(v, directions, level) for v in values])
    if id(values) not in directions:
        return values
    plain = values.detach()
    return give({level: (None, wrap(np.asarray(directions[id(values)])))}, plain)


def test_every_operator_is_known_by_name():
    assert all(operator.name == name for name, operator in OPERATORS.items())


@pytest.mark.parametrize(
    "name", ["sort", "argsort", "squeeze", "nansum", "nanmean", "var", "std", "amax", "logsumexp"]
)
def test_numpys_names_of_parameters_are_taken(name):
    x = wrap(np.arange(6.0).reshape(1, 2, 3))
    function = getattr(flambeau, name)
    keep = "keepdim" in inspect.signature(function).parameters
    expected = function(x, dim=0, **({"keepdim": True} if keep else {}))
    for results in (
        function(x, axis=0, **({"keepdims": True} if keep else {})),
        getattr(x, name)(axis=0, **({"keepdims": True} if keep else {})),
    ):
        for a, b in zip(results, expected, strict=True):
            assert flambeau.equal(a, b) or (a.isnan() & b.isnan()).all()


def test_numpys_names_where_other_arguments_are_required():
    x = wrap(np.arange(6.0).reshape(2, 3))
    assert flambeau.equal(x.repeat_interleave(2, axis=1), x.repeat_interleave(2, 1))
    assert [c.shape for c in x.chunk(2, axis=1)] == [(2, 2), (2, 1)]
    assert flambeau.linalg.norm(x, axis=1).shape == (2,)
    assert flambeau.std_mean(x, axis=1, keepdims=True)[1].shape == (2, 1)
    with pytest.raises(TypeError, match="multiple values|unexpected keyword"):
        x.sort(dim=0, axis=1)


def test_the_method_split_calls_its_lengths_split_size():
    x = flambeau.arange(5)
    assert [p.tolist() for p in x.split(split_size=[1, 4])] == [[0], [1, 2, 3, 4]]
    assert [len(p) for p in flambeau.split(x, split_size_or_sections=2)] == [2, 2, 1]
