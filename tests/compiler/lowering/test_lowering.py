"""Every operator of the registry, lowered and evaluated, against what it gives eagerly.

One capture runs all the operators' samples with their first and second derivatives, so that the
operators of backward are met with the arguments that they get.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest

import flambeau
from flambeau.compiler.capture import capture as capturing
from flambeau.compiler.trace import operands
from flambeau.compiler.ir.interpreter import evaluate, type_of
from flambeau.native.loop_ir.numpy_forms import dtype_of
from flambeau.compiler.ir.graph import (
    COMPARISONS, Graph, Node, Op, Source, SourceKind, sort_topologically,
)
from flambeau.compiler.fusion.fusion_group import ATTENTIONS
from flambeau.compiler.lowering import NotLowered, is_lowered_by_hand, lower, writes
from flambeau.native.loop_ir.ir import ReduceOp, Scalar, Type
from flambeau.ops.core.operator import OPERATORS, Kind
from flambeau.tensor import Tensor, wrap

from ..tangent_calls import push_tangents

# Operators that programs call as they are, by what stands in the way.
WITHOUT_SCALAR_OPERATION = """
    airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 digamma erfcx erfinv gcd i0 i0e i1 i1e igamma
    igammac lcm lgamma log_ndtr modified_bessel_i0 modified_bessel_i1 modified_bessel_k0
    modified_bessel_k1 ndtri nextafter frexp _polygamma scaled_modified_bessel_k0
    scaled_modified_bessel_k1 zeta _standard_gamma_grad _dirichlet_grad hash_tensor
"""
BY_SORTING = """
    _median_all _median_dim _nanmedian_all _nanmedian_dim _sort kthvalue mode topk histogram
"""
BY_DECOMPOSITION = """
    _householder_product _linalg_eigvalsh _linalg_inv_ex _linalg_lstsq _linalg_pinv _linalg_qr
    _linalg_solve _linalg_solve_triangular _linalg_svd _linalg_svdvals _lu_factor_ex _matrix_exp
    _matrix_rank _cholesky_ex _ldl_factor_ex _ldl_solve _linalg_eigh cholesky_inverse
    cholesky_solve geqrf linalg_det linalg_lu linalg_slogdet _permutation_matrix
"""
BY_DEGREES_IN_DATA = """
    chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w
    hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p
    shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v
    shifted_chebyshev_polynomial_w
"""
OTHERS = """_neg_view
    _ctc_loss _ctc_loss_backward _masked_select _embedding_bag_rows _pixels_adjoint logcumsumexp
    _grid_sampler_image_backward _embedding_bag_spread _embedding_bag_gather _embedding_bag_max_rows
"""
# Rounding has no gradient that differences could check, so fake quantization has no samples.
_QUANTIZE = (
    *(f"_fake_quantize_{x}" for x in ("by_number", "by_tensor", "by_channel", "mask")),
    *(f"_learned_fake_quantize_{x}"
      for x in ("by_tensor", "by_channel", "scale_slope", "zero_point_slope")),
)
# Called in forward mode only.
_TANGENTS = ("_layer_norm_tangent", "_log_softmax_tangent", "_max_pool_tangent",
             "_recurrent_tangent")
# `_strided_window`: in second derivatives of as_strided only.
UNMET = {"_embedding_sparse", "_linalg_eig", "_repeat_indices", "_segment_reduce",
         "_strided_window", *_QUANTIZE,
         *_TANGENTS}
NOT_LOWERED = frozenset(" ".join((
    WITHOUT_SCALAR_OPERATION, BY_SORTING, BY_DECOMPOSITION, BY_DEGREES_IN_DATA, OTHERS,
)).split())
POSITIONS = ("index", "index_adjoint", "_index_put")  # have arrays of positions as attributes
TOLERANCE = {8: 1e-9, 4: 3e-5, 2: 2e-2}


# ------------------------------------------------------------------------------ meeting operators


def copy_values(x, positions):
    """A copy of an argument; arrays of positions become tensors, as a capture knows them."""
    if isinstance(x, Tensor):
        return wrap(x._array.copy())
    if isinstance(x, np.ndarray):
        return wrap(x.copy()) if positions else x.copy()
    if isinstance(x, tuple | list):
        values = [copy_values(v, positions) for v in x]
        return type(x)(*values) if hasattr(x, "_fields") else tuple(values)
    return x


def signature(x):
    """What makes one case like another."""
    if isinstance(x, Tensor):
        return x._array.shape, x._array.dtype
    if isinstance(x, tuple | list):
        return tuple(signature(v) for v in x)
    return x.tobytes() if isinstance(x, np.ndarray) else x


class Spy(capturing.Recorder):
    """Keeps (operator, arguments, results) instead of a trace."""

    def __init__(self, values=True):
        super().__init__(values)
        self.cases, self.seen = [], Counter()
        Spy.last = self

    def operator(self, operator, swapped=False):
        def record(original, args, kwargs):
            if not self.on:
                return original(*args, **kwargs)
            ordered = (args[1], args[0]) if swapped and len(args) == 2 else args
            options = {k: v for k, v in kwargs.items() if k != "out"}
            bound = operands.bind(operator, ordered, options)
            key = None if bound is None else (operator.name, repr(signature(bound)))
            if key is None or self.seen[key] > 0:
                return original(*args, **kwargs)
            before = copy_values(bound, operator.name in POSITIONS)
            with self.silence():
                result = original(*args, **kwargs)
            if result is not NotImplemented:
                self.seen[key] += 1
                outputs = list(result) if isinstance(result, tuple | list) else [result]
                outputs += [bound[i] for i in writes(operator)]
                self.cases.append((operator, before, [
                    None if y is None else y._array.copy() for y in outputs]))
            return result

        return record

    def checked(self, name, function):
        return lambda original, args, kwargs: original(*args, **kwargs)


def met(work):
    """The cases that a piece of work meets."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(capturing, "Recorder", Spy)
        capturing.capture(work, (), {})
    return Spy.last.cases


def tensor_of(x, kind, leaves):
    """A sample's argument as the operator takes it, in another floating dtype."""
    if isinstance(x, np.ndarray | np.generic):
        x = np.array(x)
        tensor = wrap(x.astype(kind) if x.dtype.kind == "f" else x)
        if x.dtype.kind in "fc":
            leaves.append(tensor.requires_grad_())
        return tensor
    return type(x)(tensor_of(v, kind, leaves) for v in x)


def sample_tensors(operator, args, kwargs, kind):
    """A sample's arguments, and the tensors to differentiate by."""
    leaves = []
    names = operator.names

    def place(i, x):
        sequence = type(x) in (list, tuple) and any(isinstance(v, np.ndarray) for v in x)
        at = min(i, len(names) - 1)
        if at in operator.tensor_positions and (
            isinstance(x, np.ndarray | np.generic) or sequence
        ):
            return tensor_of(x, kind, leaves)
        return x

    tensors = [place(i, x) for i, x in enumerate(args)]
    return tensors, {n: place(names.index(n), x) for n, x in kwargs.items()}, leaves


def random_like(ys, rng):
    return [wrap(rng.normal(size=y.shape).astype(y._array.dtype)).requires_grad_() for y in ys]


def differentiated(operator, args, kwargs, kind, rng):
    """Runs a sample with its first and second derivatives."""
    args, kwargs, leaves = sample_tensors(operator, args, kwargs, kind)
    result = operator.function(*args, **kwargs)
    ys = [result] if isinstance(result, Tensor) else list(result)
    ys = [y for y in ys if y is not None and y.requires_grad]
    if not ys:
        return
    weights = random_like(ys, rng)
    for again in (False, True):
        gs = flambeau.autograd.grad(ys, leaves, weights, create_graph=again, allow_unused=True,
                                    retain_graph=True)
        gs = [g for g in gs if g is not None and g.requires_grad]
        if again and gs:
            flambeau.autograd.grad(gs, leaves + weights, random_like(gs, rng), allow_unused=True)


def all_samples(kinds=(np.float64, np.float32)):
    rng = np.random.default_rng(0)
    for operator in list(OPERATORS.values()):
        if operator.kind is Kind.COMPOSITE or operator.samples is None:
            continue
        for kind in kinds:
            for args, kwargs in operator.samples(rng):
                try:
                    differentiated(operator, args, kwargs, kind, rng)
                except (RuntimeError, NotImplementedError, TypeError, IndexError):
                    continue  # not differentiable twice, or not in this dtype


def by_hand():
    """Operators that have no samples, or other arguments than those of their samples."""
    x = flambeau.randn(4, 5, requires_grad=True)
    y = x * 1
    y[flambeau.tensor([0, 2, 0])] = flambeau.randn(3, 5)
    y[:, 1] = flambeau.ones(4, requires_grad=True) * 2
    z = y.masked_scatter(x > 0, flambeau.randn(20, requires_grad=True))
    strided = x.detach().as_strided((3, 3), (5, 2), 1)
    overlapping = flambeau.arange(12.0).unfold(0, 4, 2)
    z.sum().backward()
    put = flambeau.zeros(6).index_put((flambeau.tensor([1, 1]),), flambeau.ones(2), True)
    bits = flambeau.ones(4).view(flambeau.int32)
    integers = flambeau.arange(-4, 5)
    counts = [integers * 3, integers // 2, integers % 4, integers << 1, integers >> 1, ~integers,
              integers.sum(), integers.prod(), integers.cumsum(0), (integers > 0).any(),
              integers.clamp(-2, 2), integers.float(), integers / 2, integers**2, -integers,
              integers.abs(), integers == 3, integers.bool().all(), integers & 3]
    at = flambeau.tensor([[0, 1, 0], [1, 1, 0]])
    for how in ("sum", "mean"):
        for included in (True, False):
            values = flambeau.randn(2, 3)
            flambeau.zeros(2, 3).scatter_reduce(0, at, values, how, include_self=included)
    leaf = flambeau.randn(4, 3, requires_grad=True)
    flambeau.nn.functional.batch_norm(leaf, flambeau.zeros(3), flambeau.ones(3)).sum().backward()
    leaf.as_strided((3, 2), (3, 1), 1).sum().backward()
    flambeau.bernoulli(leaf.sigmoid())
    for draw in (flambeau._standard_gamma, flambeau._sample_dirichlet):
        draw(leaf.exp()).sum().backward()
    square = leaf.detach().t() @ leaf.detach() + flambeau.eye(3)
    flambeau.linalg.cholesky(square), flambeau.linalg.eigh(square), flambeau.linalg.ldl_solve(
        *flambeau.linalg.ldl_factor(square), square)
    logs, f = flambeau.randn(5, 1, 4, requires_grad=True), flambeau.nn.functional
    lengths = flambeau.tensor([5]), flambeau.tensor([2])
    f.ctc_loss(logs.log_softmax(2), flambeau.tensor([[1, 2]]), *lengths).backward()
    images = f.max_pool2d(flambeau.randn(1, 2, 5, 5), 3, 2, 1, 1, True)
    push_tangents(leaf.detach())
    return strided, overlapping, put, bits, counts, images


@pytest.fixture(scope="module")
def cases():
    flambeau.manual_seed(0)
    cases_of = defaultdict(list)
    for operator, args, results in met(lambda: (all_samples(), by_hand())):
        cases_of[operator.name].append((operator, args, results))
    return cases_of


# ------------------------------------------------------------------------------ comparing


class Inputs:
    """Nodes in place of tensors, and their values."""

    def __init__(self):
        self.sources, self.nodes, self.values = [], [], []

    def place(self, x):
        if isinstance(x, Tensor):
            array = x._array
            node = Node(Op.INPUT, (), array.shape, type_of(array.dtype), {"slot": len(self.nodes)})
            self.sources.append(Source(SourceKind.ARGUMENT, array.shape, node.type, lambda: None))
            self.nodes.append(node)
            self.values.append(array)
            return node
        if isinstance(x, tuple | list):
            values = [self.place(v) for v in x]
            return type(x)(*values) if hasattr(x, "_fields") else type(x)(values)
        return x


def is_complex(args, results):
    arrays = [x._array for x in args if isinstance(x, Tensor)]
    return any(a is not None and a.dtype.kind == "c" for a in (*arrays, *results))


def check_types(node):
    """Operands have the types that the operation of a node asks for."""
    types = [operand.type for operand in node.inputs]
    if node.op is Op.APPLY:
        operation = node.operation
        assert {len(operand.shape) for operand in node.inputs} == {len(node.shape)}, node
        if operation in (Scalar.CAST, Scalar.BITCAST):
            return
        assert types[-1] not in (Type.F16, Type.BF16), f"{node} computes in half precision"
        if operation is Scalar.WHERE:
            assert types == [Type.BOOL, node.type, node.type], (node, types)
        elif operation in COMPARISONS:
            assert len({*types}) == 1, (node, types)
            assert node.type is Type.BOOL, node
        else:
            assert {*types} == {node.type}, (node, types)
    elif node.op is Op.REDUCE and node.fold in (ReduceOp.ARGMAX, ReduceOp.ARGMIN):
        assert (len(node.axes), node.type) == (1, Type.I64)
    elif node.op in (Op.TAKE, Op.TAKE_ALONG):
        assert types == [node.type, Type.I64], (node, types)
    elif node.op is Op.ADD_ROWS:
        assert types == [Type.I64, node.type], (node, types)
    elif types:
        if node.op in ATTENTIONS and types[-1] is Type.BOOL:  # a mask
            types.pop()
        assert {*types} == {node.type}, (node, types)


def compare(operator, args, results, tolerance=TOLERANCE):
    """Lowers, evaluates, and compares with what was given eagerly; the number of nodes."""
    inputs = Inputs()
    lowered = lower(operator, tuple(map(inputs.place, args)), {})
    lowered = lowered if isinstance(lowered, tuple) else (lowered,)
    assert len(lowered) == len(results)
    assert [n is None for n in lowered] == [y is None for y in results]
    roots = [n for n in lowered if n is not None]
    nodes = sort_topologically(roots)
    for node in nodes:
        assert node.op is not Op.INPUT or node in inputs.nodes
        check_types(node)
    actual, _ = evaluate(Graph(inputs.sources, inputs.nodes, roots, []), inputs.values)
    for node, y, wanted in zip(roots, actual, (y for y in results if y is not None), strict=True):
        assert (node.shape, dtype_of(node.type)) == (wanted.shape, wanted.dtype)
        if wanted.dtype.kind in "fV":
            rtol = tolerance[wanted.dtype.itemsize]
            wide = [np.asarray(v, np.float64) for v in (y, wanted)]
            np.testing.assert_allclose(*wide, rtol=rtol, atol=rtol)
        else:
            np.testing.assert_array_equal(y, wanted)
    return len(nodes)


def operators():
    """All but those of detection, which come with torchvision and are called as they are."""
    return [o for o in OPERATORS.values() if o.kind is not Kind.COMPOSITE
            and not o.body.__module__.startswith("flambeau.ops.detection")]


@pytest.mark.parametrize("name", [o.name for o in operators()])
def test_lowered_as_eager(cases, name):
    if not cases[name]:
        pytest.skip("is met by no sample")
    compared = 0
    for operator, args, results in cases[name]:
        if is_complex(args, results):
            continue
        if name in NOT_LOWERED:
            with pytest.raises(NotLowered):
                lower(operator, tuple(map(Inputs().place, args)), {})
        else:
            compare(operator, args, results)
        compared += 1
    if not compared:
        pytest.skip("only complex numbers")


def test_coverage(cases):
    """How many operators are lowered, by hand or from their bodies; those not met are few."""
    groups = defaultdict(list)
    for operator in operators():
        kind = "not met" if not cases[operator.name] else \
            "called as they are" if operator.name in NOT_LOWERED else \
            "only complex" if all(is_complex(a, r) for _, a, r in cases[operator.name]) else \
            "by hand" if is_lowered_by_hand(operator) else "from their bodies"
        groups[kind].append(operator.name)
    assert len(groups["from their bodies"]) >= 170
    assert len(groups["from their bodies"]) + len(groups["by hand"]) >= 277
    assert set(groups["not met"]) <= UNMET, groups["not met"]


# ------------------------------------------------------------------------------ settings


def convolutions(rng):
    f = flambeau.nn.functional
    for _ in range(24):
        n, h, w = (int(v) for v in rng.integers(1, 9, 3))
        kernel = tuple(int(v) for v in rng.integers(1, 4, 2))
        stride, dilation = (tuple(int(v) for v in rng.integers(1, 4, 2)) for _ in range(2))
        padding = tuple(int(v) for v in rng.integers(0, 3, 2))
        groups, each = (int(v) for v in rng.integers(1, 3, 2))
        channels, out = groups * each, groups * int(rng.integers(1, 4))
        x = flambeau.randn(n, channels, h + 4, w + 4, requires_grad=True)
        weight = flambeau.randn(out, each, *kernel, requires_grad=True)
        bias = flambeau.randn(out, requires_grad=True)
        try:
            f.conv2d(x, weight, bias, stride, padding, dilation, groups).sum().backward()
            x, weight = (t.detach()[..., 0, :].requires_grad_() for t in (x, weight))
            f.conv1d(x, weight, bias, stride[1], padding[1], dilation[1], groups).sum().backward()
            turned = flambeau.randn(channels, each, *kernel, requires_grad=True)
            x = flambeau.randn(n, channels, h, w, requires_grad=True)
            extra = tuple(s - 1 for s in stride)
            y = f.conv_transpose2d(x, turned, None, stride, padding, extra, groups, dilation)
            y.sum().backward()
        except RuntimeError:
            continue  # the kernel does not fit
    for stride, padding, dilation in ((1, 0, 1), (2, 1, 1), ((2, 1, 3), (1, 0, 2), (1, 2, 1))):
        x = flambeau.randn(2, 4, 5, 6, 7, requires_grad=True)
        weight = flambeau.randn(6, 2, 2, 3, 2, requires_grad=True)
        bias = flambeau.randn(6, requires_grad=True)
        y = f.conv3d(x, weight, bias, stride, padding, dilation, 2)
        f.conv_transpose3d(y, weight, None, stride, padding, 0, 2, dilation).sum().backward()


def pools(rng):
    f = flambeau.nn.functional
    for _ in range(24):
        kernel = [int(v) for v in rng.integers(1, 4, 2)]
        stride = [int(v) for v in rng.integers(1, 4, 2)]
        padding = [int(rng.integers(0, k // 2 + 1)) for k in kernel]
        h, w = (int(v) for v in rng.integers(5, 10, 2))
        ceil = bool(rng.integers(2))
        x = flambeau.randn(2, 3, h, w).round(decimals=1).requires_grad_()  # with ties
        f.max_pool2d(x, kernel, stride, padding, int(rng.integers(1, 3)), ceil).sum().backward()
        f.max_pool2d(x, kernel).sum().backward()
        f.max_pool2d(x, kernel, stride, padding, 1, ceil, return_indices=True)
        f.avg_pool2d(x, kernel, stride, padding, ceil, bool(rng.integers(2))).sum().backward()
        f.avg_pool2d(x, kernel).sum().backward()
        f.adaptive_avg_pool2d(x, kernel).sum().backward()
        f.adaptive_max_pool2d(x, kernel).sum().backward()


def indices(rng):
    for _ in range(12):
        x = flambeau.randn(4, 5, 6, requires_grad=True)
        rows, columns = (flambeau.tensor(rng.integers(-4, 4, 3)) for _ in range(2))
        grid = flambeau.tensor(rng.integers(0, 4, (2, 3)))
        ys = [x[rows], x[:, columns], x[rows, columns], x[:, rows, columns], x[rows, :, columns],
              x[grid], x[:, :, grid], x[1:, ::2, None, -3:], x[..., -1], x.gather(1, grid[None]),
              x.index_select(2, grid[0]), x.take_along_dim(grid[:1, None], 2), x.unfold(1, 3, 2),
              x.flip(0, 2), x.roll((2, -1), (0, 2)), x.diagonal(1, 0, 2), x.tril(-1)]
        sum(y.sum() for y in ys).backward()
        y = x * 1
        y[:, 1:3] = y[:, :2] * 2
        y[rows] = 1.5
        y[:, grid[0], grid[1]] += 1
        y.index_add(1, grid[0], x[:, :3], alpha=2).sum().backward()
        x.detach().index_copy(0, grid[0], x.detach()[:3])
        x.detach().scatter(1, grid[None], x.detach())
        x.detach().scatter_add(1, grid[None], x.detach())
        x.detach().index_fill(2, grid[1], 3)
        x.detach().put(grid, x.detach()[0, :2, :3])


def sequences(rng):
    for name in ("LSTM", "GRU", "RNN"):
        for sizes in ({}, {"bidirectional": True, "num_layers": 2}):
            layer = getattr(flambeau.nn, name)(3, 4, **sizes)
            x = flambeau.randn(5, 2, 3, requires_grad=True)
            layer(x)[0].sum().backward()
            packed = flambeau.nn.utils.rnn.pack_padded_sequence(x.detach(), [5, 3])
            layer(packed)[0].data.sum().backward()


def borders(rng):
    f = flambeau.nn.functional
    for mode in ("reflect", "replicate", "circular", "constant"):
        for pad in ((2, 1, 0, 3), (-1, 2, 1, -1)):
            x = flambeau.randn(1, 2, 5, 6, requires_grad=True)
            f.pad(x, pad, mode).sum().backward()
    for mode in ("nearest", "bilinear", "bicubic", "area"):
        for size in ((10, 12), (3, 4)):
            x = flambeau.randn(1, 2, 5, 6, requires_grad=True)
            f.interpolate(x, size, mode=mode).sum().backward()
    columns = f.unfold(flambeau.randn(1, 2, 5, 6, requires_grad=True), (2, 3), 2, 1, 2)
    f.fold(columns, (5, 6), (2, 3), 2, 1, 2).sum().backward()


def losses(rng):
    f = flambeau.nn.functional
    for shape in ((5,), (4, 5), (2, 5, 3)):
        x = flambeau.randn(*shape, requires_grad=True)
        where = (*shape[:-1], ) if len(shape) < 3 else (shape[0], shape[2])
        target = flambeau.tensor(np.asarray(rng.integers(0, 5, where if len(shape) > 1 else ())))
        some = flambeau.where(target == target.reshape(-1)[0], -100, target)
        weight = flambeau.rand(5)
        for reduction in ("none", "mean", "sum"):
            for t in (target, some):
                for w in (None, weight):
                    y = f.cross_entropy(x, t, w, reduction=reduction)
                    y = y + f.nll_loss(x, target, w, reduction=reduction, ignore_index=2)
                    y.nan_to_num().sum().backward()
    q, k, v = (flambeau.randn(2, 3, 4, 5, requires_grad=True) for _ in range(3))
    mask = flambeau.rand(4, 4) > 0.5
    for options in ({}, {"is_causal": True}, {"attn_mask": mask}, {"attn_mask": mask.float()}):
        f.scaled_dot_product_attention(q, k, v, **options).sum().backward()


def empties(rng):
    f = flambeau.nn.functional
    for shape in ((0, 5), (3, 0)):
        x = flambeau.randn(*shape, requires_grad=True)
        y = (x * 2 + 1).exp().sum() + x.sum(0).sum() + x.mean(1).nan_to_num().sum()
        y = y + (x @ flambeau.randn(shape[1], 2)).sum() + flambeau.cat([x, x], 1).sum()
        y = y + x.t().reshape(-1).sum() + x[:, :1].sum() + x.cumsum(0).sum()
        y = y + f.linear(x, flambeau.randn(4, shape[1]), flambeau.randn(4)).sum()
        y = y + x.softmax(0).sum() + f.log_softmax(x, 1).sum() + f.mse_loss(x, x).nan_to_num()
        y.backward()
    x = flambeau.randn(0, 2, 6, 6, requires_grad=True)
    w = flambeau.randn(4, 2, 3, 3, requires_grad=True)
    y = f.conv2d(x, w, stride=2, padding=1)
    (y.sum() + f.avg_pool2d(y, 2).sum() + f.relu(y).sum()).backward()
    table = flambeau.randn(5, 3, requires_grad=True)
    f.embedding(flambeau.zeros(0, dtype=flambeau.int64), table).sum().backward()


def norms(rng):
    nn = flambeau.nn
    for shape in ((4, 6), (4, 6, 5), (2, 6, 3, 3)):
        x = flambeau.randn(*shape, dtype=flambeau.float64, requires_grad=True)
        layers = [nn.BatchNorm1d(6), nn.BatchNorm1d(6, affine=False, momentum=0.3),
                  nn.BatchNorm1d(6, track_running_stats=False), nn.GroupNorm(3, 6),
                  nn.GroupNorm(2, 6, affine=False), nn.LayerNorm(shape[1:]),
                  nn.LayerNorm(shape[-1], elementwise_affine=False), nn.RMSNorm(shape[-1])]
        if len(shape) == 4:
            layers[:3] = [nn.BatchNorm2d(6), nn.InstanceNorm2d(6), nn.BatchNorm2d(6, affine=False)]
        for layer in layers:
            layer = layer.double()
            layer(x).square().sum().backward()
            layer.eval()(x).square().sum().backward()


def networks(rng):
    nn = flambeau.nn
    images, words = flambeau.randn(4, 1, 8, 8), flambeau.tensor(rng.integers(0, 7, (4, 5)))
    convolutional = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 3, stride=2, padding=1), nn.Dropout(0.2), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(4, 3), nn.LogSoftmax(1),
    )
    convolutional(images)[:, 0].mean().backward()
    layer = nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True)
    transformer = nn.Sequential(nn.Embedding(7, 8), layer, nn.Linear(8, 7))
    nn.functional.cross_entropy(transformer(words).flatten(0, 1), words.flatten()).backward()
    recurrent = nn.LSTM(8, 6, batch_first=True)
    nn.functional.mse_loss(recurrent(transformer[0](words))[0], flambeau.randn(4, 5, 6)).backward()
    for model in (convolutional, transformer):
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)


def test_networks_need_no_calls():
    """What usual training steps are made of is lowered, all of it."""
    flambeau.manual_seed(0)
    calls = met(lambda: networks(np.random.default_rng(0)))
    assert not {o.name for o, _, _ in calls} & NOT_LOWERED
    for operator, args, results in calls:
        compare(operator, args, results)


@pytest.mark.parametrize("work", [
    convolutions, pools, indices, sequences, borders, losses, norms, empties,
])
def test_settings(work):
    """Families at many settings, forward and backward."""
    flambeau.manual_seed(0)
    calls = met(lambda: work(np.random.default_rng(0)))
    compared = Counter()
    for operator, args, results in calls:
        if operator.name not in NOT_LOWERED:
            compare(operator, args, results)
            compared[operator.name] += 1
    assert len(compared) > 4


# ------------------------------------------------------------------------------ other dtypes


def half_cases(kind):
    rng = np.random.default_rng(0)

    def work():
        for name in ("_add", "mul", "exp", "gelu", "sigmoid", "softmax", "log_softmax", "sum",
                     "mean", "_var", "linear", "matmul", "_cross_entropy", "_where", "cumsum",
                     "_max_pool2d", "_convolution", "_embedding", "cat", "stack", "tril", "gather",
                     "_clamp", "relu_only", "_layer_norm", "amax", "index"):
            operator = OPERATORS[name]
            for args, kwargs in operator.samples(rng):
                try:
                    differentiated(operator, args, kwargs, kind, rng)
                except (RuntimeError, NotImplementedError, TypeError):
                    continue

    return met(work)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_precision_is_computed_in_float32(name):
    calls = half_cases(getattr(flambeau, name).numpy)
    assert len(calls) > 100
    for operator, args, results in calls:
        if operator.name not in NOT_LOWERED:
            compare(operator, args, results)


def node(shape, type=Type.F32, **attributes):
    return Node(Op.INPUT, (), shape, type, {"slot": 0, **attributes})


SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 3e38, -2.5, 0.5, 1.0, -1.0, 7.0])


def special(rng):
    """Every pointwise operator on unusual numbers, and on each with each."""
    grid = np.meshgrid(SPECIAL, SPECIAL)
    for operator in operators():
        if operator.kind is not Kind.POINTWISE or operator.samples is None:
            continue
        args, kwargs = next(iter(operator.samples(rng)))
        tensors = [i for i in operator.tensor_positions
                   if i < len(args) and isinstance(args[i], np.ndarray | np.generic)]
        if len(tensors) > 2 or any(np.asarray(args[i]).dtype.kind != "f" for i in tensors):
            continue
        values = [SPECIAL] if len(tensors) == 1 else grid
        values_at = dict(zip(tensors, values, strict=True))
        try:
            operator.function(*(wrap(values_at[i].astype(np.float32)) if i in values_at else v
                                for i, v in enumerate(args)), **kwargs)
        except (RuntimeError, NotImplementedError, ValueError):
            continue


@pytest.mark.filterwarnings("ignore")
def test_unusual_numbers():
    calls = met(lambda: special(np.random.default_rng(0)))
    assert len(calls) > 100
    for operator, args, results in calls:
        if operator.name not in NOT_LOWERED:
            compare(operator, args, results)


def large(operator, args):
    """Nodes of many elements in place of a sample's arrays."""
    kinds = {"b": Type.BOOL, "i": Type.I64, "f": Type.F32}
    return [
        node((512, 512), kinds[v.dtype.kind])
        if i in operator.tensor_positions and isinstance(v, np.ndarray | np.generic) else v
        for i, v in enumerate(args)
    ]


def test_large_arrays_are_lowered_too():
    """Bodies may serve large arrays by machine code: it has to make way for symbols."""
    rng = np.random.default_rng(0)
    others = ("matmul", "linear", "_rows_product", "addmm", "sum", "mean", "amax", "softmax",
              "log_softmax", "cumsum", "cat", "stack", "clone", "_mse_loss", "_var")
    for operator in operators():
        chosen = operator.kind is Kind.POINTWISE or operator.name in others
        if not chosen or operator.samples is None or operator.name in NOT_LOWERED:
            continue
        args, kwargs = next(iter(operator.samples(rng)))
        if any(isinstance(v, np.ndarray) and v.dtype.kind == "c" for v in args):
            continue
        lower(operator, tuple(large(operator, args)), kwargs)


def test_a_number_of_the_step_does_not_widen():
    """A Python number that is read at each call promotes as a number, not as a float64 tensor."""
    rate = node((), Type.F64, weak=float)
    mul = OPERATORS["mul"]
    assert lower(mul, (node(()), rate), {}).type is Type.F32
    assert lower(mul, (node((), Type.I64), rate), {}).type is Type.F32
    assert lower(mul, (node(()), node((), Type.F64)), {}).type is Type.F64


def test_lowering_is_pure_and_says_where_nodes_come_from():
    x = node((3, 4))
    before = dict(x.attributes)
    y = lower(OPERATORS["gelu"], (x, "tanh"), {})
    assert (x.attributes, x.origin, x.inputs) == (before, "", ())
    assert {n.origin for n in sort_topologically([y]) if n is not x} == {"gelu"}


def test_statistics_are_further_results():
    batch_norm = OPERATORS["_batch_norm"]
    x, c = node((2, 3, 4)), node((3,))
    outputs = lower(batch_norm, (x, c, c, c, None, c, c, 0.1, 1e-5), {})
    assert writes(batch_norm) == (3, 4, 5, 6)
    assert [n if n is None else n.shape for n in outputs] == [(2, 3, 4), (3,), None, (3,), (3,)]


def test_what_draws_random_numbers_is_refused():
    with pytest.raises(NotLowered, match="random"):
        lower(OPERATORS["native_dropout"], (node((3,)), 0.5, True), {})


def test_graphs_are_lean():
    """No copies, expansions or layouts beyond what an operator is."""
    x, w, b = node((8, 16)), node((4, 16)), node((4,))
    linear = sort_topologically([lower(OPERATORS["linear"], (x, w, b), {})])
    ops = Counter(n.op for n in linear)
    assert ops == {Op.INPUT: 3, Op.PERMUTE: 1, Op.MATMUL: 1, Op.RESHAPE: 1, Op.APPLY: 1}
    relu = sort_topologically([lower(OPERATORS["relu_only"], (x,), {})])
    assert [n.op for n in relu] == [Op.INPUT, Op.CONSTANT, Op.APPLY]
    half = sort_topologically([lower(OPERATORS["_add"], (x, 1.5), {})])
    assert [n.op for n in half] == [Op.INPUT, Op.CONSTANT, Op.APPLY]
