"""vmap: operators see all examples at once; what they give is what a loop over examples gives."""

from __future__ import annotations

import pytest


def batch(torch):
    torch.manual_seed(0)
    return torch.randn(5, 3, 4)


def looped(torch, function, x):
    return torch.stack([function(example) for example in x])


def same_as_loop(torch, function, x):
    actual = torch.vmap(function)(x)
    wanted = looped(torch, function, x)
    assert actual.shape == wanted.shape
    assert actual.dtype == wanted.dtype
    assert torch.allclose(actual, wanted, atol=1e-5)


FUNCTIONS = {
    "pointwise": lambda torch, x: x.sin() * 2 + x[0] - x[:, :1] / 3,
    "scalars promote": lambda torch, x: x.sum().double() * x + x.sum() * torch.ones(()).double(),
    "views": lambda torch, x: x.t().unsqueeze(1).expand(4, 2, 3).reshape(8, 3).permute(1, 0),
    "slices": lambda torch, x: torch.cat([x[1:, ::2], x[None, 2, :2], x.narrow(1, 1, 2)]),
    "splits": lambda torch, x: torch.stack([a.sum() for a in (*x.unbind(1), x.chunk(2, 1)[1])]),
    "diagonal": lambda torch, x: x.diagonal(1).diag_embed(),
    "reductions": lambda torch, x: x.sum() + x.mean(0) + x.amax(-1, True)[:1] + x.std(0),
    "all axes": lambda torch, x: x.argmax() + x.prod() + x.logsumexp((0, 1)),
    "of a number": lambda torch, x: x.sum().softmax(0) + x.sum().cumsum(0) + x.sum().amax(),
    "scans": lambda torch, x: x.cumsum(0) + x.flip(1) + x.roll(1, 0) + x.sort(1)[0],
    "softmax": lambda torch, x: x.softmax(0) + x.log_softmax(1),
    "products": lambda torch, x: x @ x.t() @ x + (x[0] @ x.t())[:, None] + x[0] @ x[1],
    "linear": lambda torch, x: torch.nn.functional.linear(x, x, x[:, 0]),
    "linalg": lambda torch, x: torch.inverse(x @ x.t() + torch.eye(3)) * x[:, :3].det(),
    "gather": lambda torch, x: x.gather(1, x.argsort(1)) + x.take_along_dim(x.argmin(1, True), 1),
    "joins": lambda torch, x: torch.stack([x, torch.zeros(3, 4)], 1).repeat(1, 2, 1),
    "norms": lambda torch, x: torch.layer_norm(x, (4,)) * x.norm() + x.norm(dim=1, keepdim=True),
    "no rule": lambda torch, x: torch.trace(x[:, :3]) + torch.cdist(x, x),
    "creation": lambda torch, x: x.new_zeros(4).add_(x[0]) + torch.zeros_like(x) + torch.ones(3, 4),
    "writes": lambda torch, x: x.clone().mul_(2).add_(x).clamp_(max=1).t().contiguous(),
    "writes to views": lambda torch, x: write_to_views(x.clone()),
    "where": lambda torch, x: torch.where(x > 0, x, -x.double()).masked_fill(x > 1, 0),
}


def write_to_views(y):
    y[0] = y[1] * 2
    y[:, 1:3] += 1
    y.t()[3].zero_()
    y[[0, 2], 0] = 5
    return y


@pytest.mark.parametrize("name", FUNCTIONS)
def test_examples_are_computed_as_one_by_one(torch, name):
    same_as_loop(torch, lambda x: FUNCTIONS[name](torch, x), batch(torch))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_examples(torch, name):
    def total(x):
        return FUNCTIONS[name](torch, x).double().pow(2).sum()

    same_as_loop(torch, torch.func.grad(total), batch(torch))


@pytest.mark.parametrize("name", ["pointwise", "products", "writes to views", "norms"])
def test_gradients_through_a_vmap(torch, name):
    x = batch(torch)
    w = torch.rand(3, 4)

    def total(w, run):
        return run(lambda a: FUNCTIONS[name](torch, a * w), x).pow(2).sum()

    actual = torch.func.grad(lambda w: total(w, lambda f, x: torch.vmap(f)(x)))(w)
    wanted = torch.func.grad(lambda w: total(w, lambda f, x: looped(torch, f, x)))(w)
    assert torch.allclose(actual, wanted, rtol=1e-4)


def test_transforms_nest(torch):
    f, x = torch.func, batch(torch)[:, 0]
    cube = lambda a: (a**3).sum()  # noqa: E731
    assert torch.allclose(f.vmap(f.hessian(cube))(x), torch.diag_embed(6 * x), atol=1e-5)
    assert torch.allclose(f.vmap(lambda a, t: f.jvp(torch.sin, (a,), (t,))[1])(x, x), x.cos() * x)
    w = torch.rand(4)
    pushed = f.jvp(lambda w: f.vmap(lambda a: (a * w).sin().sum())(x), (w,), (w,))[1]
    assert torch.allclose(pushed, ((x * w).cos() * x * w).sum(1), atol=1e-5)
    twice = f.vmap(f.vmap(lambda a, b: a * b, (0, None)), (None, 0))(x[0], x[1])
    assert torch.equal(twice, x[1][:, None] * x[0])
    _, pull = f.vjp(lambda a: a * w, x[0])
    rows, = f.vmap(pull)(torch.eye(4))
    assert torch.equal(rows, torch.diag(w))
    assert not rows.requires_grad


def test_an_index_of_each_example(torch):
    x, i = batch(torch), torch.tensor([2, 0, -1, 1, 0])
    wanted = torch.stack([a[k] for a, k in zip(x, i.tolist(), strict=True)])
    assert torch.equal(torch.vmap(lambda a, k: a[k])(x, i), wanted)
    assert torch.equal(torch.vmap(lambda a, k: a[:, k])(x, i),
                       torch.stack([a[:, k] for a, k in zip(x, i.tolist(), strict=True)]))
    assert torch.equal(torch.vmap(lambda k: x[0][k])(i), x[0][i])


def test_randomness(torch):
    x = torch.zeros(2, 3)

    def drawn(function, mode):
        torch.manual_seed(0)
        return torch.vmap(function, randomness=mode)(x)

    torch.manual_seed(0)
    wanted = torch.rand(2, 3)
    for function in (lambda a: a + torch.rand(3), torch.rand_like, lambda a: a.clone().uniform_()):
        assert torch.equal(drawn(function, "different"), wanted)
        assert torch.equal(drawn(function, "same"), wanted[:1].expand(2, 3))
        with pytest.raises(RuntimeError, match="called random operation while in randomness error"):
            drawn(function, "error")
    torch.manual_seed(0)
    wanted = torch.nn.functional.dropout(x + 1, 0.5)
    assert torch.equal(drawn(lambda a: torch.dropout(a + 1, 0.5, True), "different"), wanted)
    with pytest.raises(RuntimeError, match="does not currently support same randomness"):
        drawn(lambda a: torch.bernoulli(a), "same")


def test_what_reads_values_is_refused(torch):
    x = batch(torch)
    for function, text in (
        (lambda a: a.sum().item(), "calling .item"),
        (lambda a: float(a.sum()), "calling .item"),
        (lambda a: a if a.sum() > 0 else -a, "data-dependent control flow"),
        (lambda a: a[a > 0], "support dynamic shape"),
        (lambda a: a.nonzero(), "output dynamic shape"),
        (lambda a: torch.allclose(a, a), "vmap over torch.allclose isn't supported"),
        (lambda a: torch.tensor(a.tolist()), "Cannot access data pointer"),
    ):
        with pytest.raises(RuntimeError, match=text):
            torch.vmap(function)(x)


def test_chunks_and_places_of_results(torch):
    x, sizes = batch(torch), []

    def function(a):
        sizes.append(None)
        return a.sum(0), a.t()

    whole = torch.vmap(function, out_dims=(1, 2))(x)
    assert len(sizes) == 1
    parts = torch.vmap(function, out_dims=(1, 2), chunk_size=2)(x)
    assert len(sizes) == 4
    assert torch.equal(whole[0], x.sum(1).t())
    assert [torch.equal(a, b) for a, b in zip(whole, parts, strict=True)] == [True, True]
    with pytest.raises(ValueError, match="can not return a BatchedTensor when out_dim is None"):
        torch.vmap(torch.sin, out_dims=None)(x)


def test_models_side_by_side(torch):
    """The ensembling and per-sample-gradients tutorials of functorch."""
    models = [torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
        torch.nn.Linear(18, 3)) for _ in range(3)]
    params, buffers = torch.func.stack_module_state(models)
    x, y = torch.randn(4, 1, 8, 8), torch.tensor([0, 2, 1, 0])

    def predict(params, buffers, x):
        return torch.func.functional_call(models[0], (params, buffers), (x,))

    actual = torch.vmap(predict, in_dims=(0, 0, None))(params, buffers, x)
    assert torch.allclose(actual, torch.stack([model(x) for model in models]), atol=1e-5)

    def loss(params, x, y):
        scores = torch.func.functional_call(models[0], params, (x.unsqueeze(0),))
        return torch.nn.functional.cross_entropy(scores, y.unsqueeze(0))

    own = {k: v.detach() for k, v in models[0].named_parameters()}
    grads = torch.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(own, x, y)
    for i in range(4):
        wanted = torch.func.grad(loss)(own, x[i], y[i])
        for name, g in wanted.items():
            assert torch.allclose(grads[name][i], g, atol=1e-5)


def test_a_write_of_examples_into_a_shared_tensor(torch):
    with pytest.raises(RuntimeError, match="inplace arithmetic|doesn't match the broadcast shape"):
        torch.vmap(lambda a: torch.zeros(4).add_(a))(torch.ones(2, 4))


def test_a_bias_of_each_example(torch):
    x, w, b = torch.randn(1, 2, 4, 4), torch.randn(3, 2, 3, 3), torch.randn(5, 3)
    conv = torch.nn.functional.conv2d
    actual = torch.vmap(lambda b: conv(x, w, b))(b)
    assert torch.allclose(actual, torch.stack([conv(x, w, row) for row in b]), atol=1e-5)


def test_derivatives_that_read_elements_run_example_by_example(torch):
    x = torch.tensor([[1.0, 2.0, 0.0], [3.0, 4.0, 5.0]])
    vmap, grad, hessian, jvp = torch.vmap, torch.func.grad, torch.func.hessian, torch.func.jvp
    product = vmap(grad(lambda x: x.prod()))(x)
    assert product.tolist() == [[0.0, 0.0, 2.0], [20.0, 15.0, 12.0]]
    second = vmap(hessian(lambda x: x.cumprod(0).sum()))(x)
    assert second.tolist() == [[[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]],
                               [[0.0, 6.0, 4.0], [6.0, 0.0, 3.0], [4.0, 3.0, 0.0]]]
    inside = vmap(lambda x: jvp(grad(lambda x: x.prod()), (x,), (torch.ones(3),))[1])(x)
    assert torch.allclose(inside, torch.tensor([[2.0, 1.0, 3.0], [9.0, 8.0, 7.0]]))


def test_a_function_that_writes_its_argument_and_then_reads_is_refused():
    import flambeau
    from flambeau.ops.interception import batching

    def write_and_read(x):
        x.add_(1)
        return x if x.sum() > 0 else -x

    def handle(x):
        return batching._run_composite("write_and_read", write_and_read, write_and_read, (x,), {})

    with pytest.raises(NotImplementedError, match="write_and_read writes into its arguments"):
        flambeau.vmap(handle)(flambeau.ones(2, 3))


def test_an_index_outside_of_its_axis_is_no_other_element(torch):
    x, i, j = torch.arange(12.0).reshape(2, 2, 3), torch.tensor([0, 1]), torch.tensor([2, -1])
    assert torch.vmap(lambda x, i, j: x[i, j])(x, i, j).tolist() == [2.0, 11.0]
    with pytest.raises(IndexError, match="out of (bounds|range)"):
        torch.vmap(lambda x, i, j: x[i, j])(x, i, j + 1)


def test_lazy_layers_can_be_built_after_a_vmap(torch):
    torch.vmap(lambda x: x * 2)(torch.ones(2))
    assert torch.nn.LazyLinear(3)(torch.ones(1, 2)).shape == (1, 3)


def test_chunks_draw_the_same_numbers_where_all_examples_do(torch):
    x = torch.zeros(5, 3)
    torch.manual_seed(3)
    whole = torch.vmap(lambda v: v + torch.rand(3), randomness="same")(x)
    torch.manual_seed(3)
    parts = torch.vmap(lambda v: v + torch.rand(3), randomness="same", chunk_size=2)(x)
    assert parts.tolist() == whole.tolist()


def test_axes_are_a_number_or_a_tuple(torch):
    x = torch.ones(3)
    with pytest.raises(ValueError, match="expected `in_dims` to be int or a"):
        torch.vmap(torch.mul, [0, 0])(x, x)
    with pytest.raises(ValueError, match="Expected at least one Tensor to vmap over"):
        torch.vmap(lambda v: torch.ones(2), (None,))(1)


def test_an_example_is_printed_with_all_of_them(torch):
    texts = []
    torch.vmap(lambda v: texts.append(repr(v)) or v)(torch.tensor([[1.0, 2.0]]))
    assert texts == ["BatchedTensor(lvl=1, bdim=0, value=\n    tensor([[1., 2.]])\n)"]


def test_values_of_each_example_are_put_into_a_copy_of_what_all_share(torch):
    shared, at = torch.zeros(3), torch.tensor([[0], [2]])
    put = torch.vmap(lambda i, v: torch.index_put(shared, [i], v, accumulate=True))
    actual = put(at, torch.tensor([[1.0], [5.0]]))
    assert actual.tolist() == [[1.0, 0.0, 0.0], [0.0, 0.0, 5.0]]
    assert shared.tolist() == [0.0, 0.0, 0.0]


def test_an_index_put_in_place_into_what_all_share_is_refused_before_it_writes(torch):
    shared, at = torch.zeros(3), torch.tensor([[0], [2]])
    with pytest.raises(RuntimeError, match="is not possible because there exists a Tensor"):
        torch.vmap(lambda i, v: shared.index_put_([i], v))(at, torch.ones(2, 1))
    assert shared.tolist() == [0.0, 0.0, 0.0]


def test_a_function_that_fills_a_tensor_of_its_own(torch):
    rows = torch.vmap(lambda v: torch.slice_scatter(torch.zeros(3, 2), v, 0, 1, 2))
    assert rows(torch.ones(2, 1, 2)).tolist() == [[[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]] * 2


def test_a_jacobian_through_views_of_what_is_written(torch):
    def f(y):
        x = torch.zeros(2, 3)
        older, corner = x[0], x[:, 1:]
        x.copy_(y * y)
        return older, corner.sum(1)

    y = torch.arange(6.0).view(2, 3) + 1
    forward, backward = torch.func.jacfwd(f)(y), torch.func.jacrev(f)(y)
    assert all(torch.equal(a, b) for a, b in zip(forward, backward, strict=True))
    assert backward[0][2].tolist() == [[0.0, 0.0, 6.0], [0.0, 0.0, 0.0]]
    assert backward[1][1].tolist() == [[0.0, 0.0, 0.0], [0.0, 10.0, 12.0]]


def test_dims_of_another_structure(torch):
    x = torch.rand(4, 5)
    with pytest.raises(ValueError, match="out_dims is not compatible with the structure of `outp"):
        torch.vmap(torch.sin, out_dims=(0, 0))(x)
    with pytest.raises(ValueError, match="out_dims is not compatible with the structure of `outp"):
        torch.vmap(torch.sin, out_dims=(0, 0), chunk_size=2)(x)
    with pytest.raises(ValueError, match="(?s)in_dims is not compatible with the structure of `inp"
                                         r".*has structure TreeSpec\(tuple, None, \[\*\]\)"):
        torch.vmap(torch.sin, in_dims=((0, 0),))(x)
    with pytest.raises(ValueError, match="`out_dims` must be an int, None or a python collection"):
        torch.vmap(torch.sin, out_dims="a")(x)
    assert torch.vmap(torch.sin, out_dims=(1,))(x).shape == (5, 4)


def test_a_numbers_own_rmod(torch):
    x = torch.rand(4, 5) + 1
    assert torch.Tensor.__rmod__(7.5, x).equal(x % 7.5)
    assert torch.vmap(lambda x: torch.Tensor.__rmod__(7.5, x))(x).equal(x % 7.5)


def test_empty_tensors_with_strides(torch):
    x = torch.ones(7)
    for size, stride, per_example in (((2, 3, 5), (0, 5, 1), 15), ((2, 3, 4), (2, 4, 6), 29),
                                      ((0, 2, 0), (2, 4, 6), 0)):
        y = torch.vmap(lambda x, s=size, t=stride: x.new_empty_strided(s, t))(x)
        assert y.shape == (7, *size)
        assert y.stride() == (per_example, *stride)


def test_a_transposed_number_is_itself(torch):
    x = torch.ones(3)
    assert torch.vmap(lambda y: y.transpose(0, -1))(x) is x


def test_backward_is_refused_inside_of_transforms(torch):
    weight = torch.ones(2, requires_grad=True)

    def train(x):
        loss = (x * weight).sum()
        loss.backward()
        return loss

    for run in (torch.vmap(train), torch.func.grad(train),
                lambda x: torch.func.vjp(train, x), lambda x: torch.func.jvp(train, (x,), (x,))):
        with pytest.raises(RuntimeError, match=r"backward\(\) called inside a functorch transform"):
            run(torch.ones(2, 2))
    with pytest.raises(RuntimeError, match="inside a functorch transform"):
        torch.vmap(lambda x: torch.autograd.backward((x * weight).sum()))(torch.ones(2, 2))
    train(torch.ones(2))  # and works behind them
    assert weight.grad.tolist() == [1, 1]


def test_in_place_draws_by_probabilities_of_examples(torch):
    p = torch.tensor([[0.0, 1.0], [1.0, 0.0]])

    def fresh(p):
        return torch.zeros(2).bernoulli_(p)

    with pytest.raises(RuntimeError, match="inplace bernoulli.* more elements than `self`"):
        torch.vmap(fresh, randomness="different")(p)
    with pytest.raises(RuntimeError, match="same randomness with a batched tensor input"):
        torch.vmap(fresh, randomness="same")(p)
    drawn = torch.vmap(lambda x, p: x.bernoulli_(p), randomness="different")(torch.zeros(2, 2), p)
    assert drawn.tolist() == p.tolist()


@pytest.mark.parametrize("rows", [0, 4])
def test_linear_with_weights_per_example(torch, rows):
    x, weight, bias = torch.randn(2, rows, 3), torch.randn(2, 5, 3), torch.randn(2, 5)
    linear = torch.nn.functional.linear
    for dims in ((0, 0, 0), (None, 0, None), (0, 0, None), (0, None, 0)):
        args = [t if d == 0 else t[0] for t, d in zip((x, weight, bias), dims, strict=True)]
        y = torch.vmap(linear, in_dims=dims)(*args)
        expected = [linear(*[t[i] if d == 0 else t for t, d in zip(args, dims, strict=True)])
                    for i in range(2)]
        assert y.shape == (2, rows, 5)
        assert torch.allclose(y, torch.stack(expected), atol=1e-6)


def test_indices_of_two_levels(torch):
    x = torch.randn(2, 3, 4, 5, 6)
    i, j = torch.randint(0, 4, (2, 3, 7)), torch.randint(0, 6, (2, 3, 7))
    y = torch.vmap(torch.vmap(lambda x, i, j: x[i, :, j]))(x, i, j)
    assert torch.equal(y[1, 2], x[1, 2][i[1, 2], :, j[1, 2]])


def test_index_put_at_places_of_examples(torch):
    target, values = torch.randn(5, 5), torch.randn(3, 3)
    rows, columns = torch.tensor([[[0], [1], [2]], [[2], [4], [2]]]), torch.tensor([[0, 1, 1]])
    y = torch.vmap(lambda r: target.index_put((r, columns), values, True))(rows)
    for i in range(2):
        expected = target.index_put((rows[i], columns), values, True)
        assert torch.allclose(y[i], expected)


def test_unbind_of_numbers_raises(torch):
    with pytest.raises(IndexError):
        torch.vmap(torch.unbind)(torch.ones(3))
    assert len(torch.vmap(lambda x: x.unbind(-1))(torch.ones(2, 3, 4))) == 4


@pytest.mark.parametrize("shared", ["weight", "input", "nothing"])
def test_convolutions_of_no_images(torch, shared):
    x = torch.zeros(0, 2, 5) if shared == "input" else torch.zeros(3, 0, 2, 5)
    w = torch.randn(4, 2, 3) if shared == "weight" else torch.randn(3, 4, 2, 3)
    dims = {"weight": (0, None), "input": (None, 0), "nothing": (0, 0)}[shared]
    for convolve, length in ((torch.conv1d, 3), (torch.conv_transpose1d, 7)):
        weight = w if convolve is torch.conv1d else w.transpose(-2, -3)
        y = torch.vmap(convolve, dims)(x, weight)
        assert y.shape == (3, 0, 4, length)


ROLLS = [(1,), ((2,),), (-7, ()), (1, 0), ((1, -2), (0, 1)), ((1, 2, 0), (0, -1, 0))]


@pytest.mark.parametrize("arguments", ROLLS)
def test_elements_of_an_example_roll_among_themselves(torch, arguments):
    """Without axes the elements roll as one row, which is each example's own."""
    x = torch.arange(24.0).reshape(2, 3, 4)
    expected = torch.stack([torch.roll(example, *arguments) for example in x])
    assert torch.vmap(lambda example: torch.roll(example, *arguments))(x).equal(expected)
    gradients = torch.vmap(torch.func.grad(lambda e: (torch.roll(e, *arguments) * e).sum()))(x)
    expected = torch.stack([
        torch.func.grad(lambda e: (torch.roll(e, *arguments) * e).sum())(e) for e in x])
    assert gradients.equal(expected)


OTHERS = [
    (lambda x: (x, "a"), (0, None)), (lambda x: (None, 3), (None, None)), (lambda x: 3, None),
    (lambda x: {"a": x, "b": 3}, {"a": 0, "b": None}), (lambda x: [x, (x, 5)], [0, (1, None)]),
]


@pytest.mark.parametrize("case", range(len(OTHERS)))
def test_what_is_no_tensor_passes_where_out_dims_is_none(torch, case):
    function, out_dims = OTHERS[case]
    x = torch.arange(6.0).reshape(2, 3)
    result = torch.vmap(function, out_dims=out_dims)(x)
    expected = [(x, "a"), (None, 3), 3, {"a": x, "b": 3}, [x, (x.t(), 5)]][case]
    assert str(result) == str(expected)
    with pytest.raises(ValueError, match="must only return Tensors, got type <class 'str'>"):
        torch.vmap(lambda example: (example, "a"))(x)


def test_casts_lay_out_examples():
    import flambeau as torch  # PyTorch's vmap refuses such a cast to another dtype

    x = torch.arange(48.0).view(2, 2, 3, 2, 2)
    y = torch.func.vmap(lambda x: x.to(torch.float64, memory_format=torch.channels_last))(x)
    assert torch.equal(y, x.double())
    assert y[1].is_contiguous(memory_format=torch.channels_last)
    with pytest.raises(RuntimeError, match="required rank 4 tensor"):
        torch.func.vmap(lambda x: x.to(torch.float64, memory_format=torch.channels_last))(x[0])


def test_reductions_of_no_examples(torch):
    """Batches may be empty: sizes that follow from others are computed, not inferred."""
    x = torch.ones(0, 3, 4)
    assert torch.vmap(lambda a: a.sum())(x).shape == (0,)
    assert torch.vmap(torch.func.grad(lambda a: (a * a).sum()))(x).shape == (0, 3, 4)
    assert torch.vmap(lambda a: torch.nn.functional.mse_loss(a, a))(x).shape == (0,)


def test_libraries_replace_parts_of_vmap(torch, monkeypatch):
    """tensordict assigns functions to torch._functorch.vmap, to map over its dictionaries."""
    from importlib import import_module

    parts = import_module(f"{torch.__name__}._functorch.vmap")
    names = ("_process_batched_inputs", "_create_batched_inputs", "_unwrap_batched")
    process, create, unwrap = (getattr(parts, name) for name in names)
    seen = []

    def process_box(in_dims, args, func):
        seen.append("process")
        return process(in_dims, (args[0]["x"],), func)

    def create_box(flat_in_dims, flat_args, vmap_level, args_spec):
        seen.append(f"create {vmap_level}")
        return ({"x": create(flat_in_dims, flat_args, vmap_level, args_spec)[0]},)

    def unwrap_box(batched_outputs, out_dims, vmap_level, batch_size, func):
        seen.append(f"unwrap {batch_size}")
        return {"y": unwrap(batched_outputs["y"], out_dims, vmap_level, batch_size, func)}

    for name, part in zip(names, (process_box, create_box, unwrap_box), strict=True):
        monkeypatch.setattr(parts, name, part)
    result = torch.vmap(lambda box: {"y": box["x"].sum()})({"x": torch.ones(3, 2)})
    assert result["y"].tolist() == [2.0] * 3
    assert seen == ["process", "create 1", "unwrap 3"]
    monkeypatch.undo()
    assert torch.vmap(torch.sum)(torch.ones(3, 2)).tolist() == [2.0] * 3


@pytest.mark.parametrize(("draw", "shape"), [
    (lambda torch, x: torch.normal(x, torch.tensor(0.1)), (5, 3, 4)),
    (lambda torch, x: torch.normal(torch.zeros(2, 3, 4), x.abs()), (5, 2, 3, 4)),
    (lambda torch, x: torch.normal(torch.zeros(4), std=x.abs()[0, 0]), (5, 4)),
    (lambda torch, x: torch.normal(torch.zeros(2, 4), x.abs()[0]), (5, 2, 4)),
])
def test_normal_broadcasts_examples_of_other_ranks(torch, draw, shape):
    results = torch.vmap(lambda x: draw(torch, x), randomness="different")(batch(torch))
    assert results.shape == shape
    assert not torch.equal(results[0], results[1])


def test_normal_takes_each_examples_mean(torch):
    means = torch.tensor([0.0, 100.0])
    drawn = torch.vmap(lambda m: torch.normal(m, torch.full((3,), 0.1)), randomness="different")(
        means)
    assert drawn.shape == (2, 3) and (drawn - means[:, None]).abs().max() < 5


def test_the_axis_of_examples_is_the_callers(torch):
    texts = []
    x = torch.tensor([[1.0, 2.0]])
    nested = torch.vmap(lambda v: texts.append(repr(v)) or v)
    torch.vmap(nested, in_dims=-1)(x)
    inner = "    BatchedTensor(lvl=1, bdim=1, value=\n        tensor([[1., 2.]])\n    )"
    assert texts == [f"BatchedTensor(lvl=2, bdim=0, value=\n{inner}\n)"]

    class Identity(torch.autograd.Function):
        forward = staticmethod(lambda x: x.clone())
        setup_context = staticmethod(lambda context, inputs, output: None)

        @staticmethod
        def vmap(info, in_dims, x):
            assert in_dims == (1,)
            assert x.shape == (1, 2)
            return x.clone(), 1

    assert torch.vmap(Identity.apply, -1)(x).tolist() == [[1], [2]]


def test_a_function_without_a_rule_is_refused(torch):
    class Plain(torch.autograd.Function):
        forward = staticmethod(lambda x: x.clone())
        setup_context = staticmethod(lambda context, inputs, output: None)

    with pytest.raises(RuntimeError, match="vmap over Plain, but it does not have vmap support"):
        torch.vmap(Plain.apply)(torch.ones(2))
