"""Sparse gradients of embeddings, and the optimizers, files and copies that take them."""

import copy
import io
import pickle
import warnings

import pytest

import flambeau

TABLES = {
    "embedding": lambda F, w, i: F.embedding(i, w, sparse=True),
    "padding": lambda F, w, i: F.embedding(i, w, padding_idx=1, sparse=True),
    "sum": lambda F, w, i: F.embedding_bag(i, w, mode="sum", sparse=True),
    "mean": lambda F, w, i: F.embedding_bag(i, w, mode="mean", sparse=True, padding_idx=1),
    "frequency": lambda F, w, i: F.embedding(i, w, sparse=True, scale_grad_by_freq=True),
}

OPTIMIZERS = {
    "SGD": {"lr": 0.1}, "SGD momentum": {"lr": 0.1, "momentum": 0.9},
    "SGD nesterov": {"lr": 0.1, "momentum": 0.9, "nesterov": True},
    "SGD decay": {"lr": 0.1, "weight_decay": 0.1}, "Adagrad": {"lr": 0.1, "lr_decay": 0.1},
    "Adagrad decay": {"weight_decay": 0.1}, "SparseAdam": {"lr": 0.1},
    "SparseAdam maximize": {"lr": 0.1, "maximize": True}, "Adam": {}, "AdamW": {}, "NAdam": {},
    "RMSprop": {},
}


def told(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def gradient(lib, table):
    w = lib.arange(10.0).reshape(5, 2).requires_grad_()
    seen = []
    for rows in ([[0, 1], [3, 0]], [[2, 1], [4, 0]]):
        y = TABLES[table](lib.nn.functional, w, lib.tensor(rows))
        (y * lib.arange(float(y.numel())).reshape(y.shape)).sum().backward()
        seen.append((repr(w.grad), w.grad.is_coalesced()))
    return seen


@pytest.mark.parity
@pytest.mark.parametrize("table", TABLES)
def test_gradient_of_a_table(table):
    torch = pytest.importorskip("torch")
    assert told(gradient, flambeau, table) == told(gradient, torch, table)


def steps(lib, name):
    w = lib.nn.Parameter(lib.arange(10.0).reshape(5, 2))
    optimizer = getattr(lib.optim, name.split()[0])([w], **OPTIMIZERS[name])
    for row in range(3):
        optimizer.zero_grad()
        (lib.nn.functional.embedding(lib.tensor([0, row, 3]), w, sparse=True) ** 2).sum().backward()
        optimizer.step()
    state = optimizer.state_dict()["state"].get(0, {})
    shown = {k: v.to_dense() if hasattr(v, "to_dense") else v for k, v in state.items()}
    return repr((w.detach(), shown))


@pytest.mark.parity
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps(name):
    torch = pytest.importorskip("torch")
    assert told(steps, flambeau, name) == told(steps, torch, name)


def test_dense_and_sparse_gradients_add_up():
    w = flambeau.ones(3, 2, requires_grad=True)
    rows = flambeau.nn.functional.embedding(flambeau.tensor([0, 0]), w, sparse=True)
    (rows.sum() + w.sum()).backward()
    assert w.grad.tolist() == [[3, 3], [1, 1], [1, 1]]
    rows = flambeau.nn.functional.embedding(flambeau.tensor([1]), w, sparse=True)
    rows.sum().backward()
    assert w.grad.tolist() == [[3, 3], [2, 2], [1, 1]]


def test_dense_tensors_take_up_sparse_ones_where_they_are_stored():
    table = flambeau.zeros(4, 2)
    before = table._version
    table.add_(flambeau.sparse_coo_tensor([[3, 3]], flambeau.ones(2, 2), (4, 2)), alpha=2)
    assert table.tolist() == [[0, 0], [0, 0], [0, 0], [4, 4]]
    assert table._version == before + 1


def objects(lib):
    places, values = lib.tensor([[1, 0, 1], [2, 0, 2]]), lib.tensor([3.0, 4.0, 5.0])
    s = lib.sparse_coo_tensor(places, values, (2, 3))
    hybrid = lib.sparse_coo_tensor([[1, 0]], lib.arange(4.0).reshape(2, 2), (2, 2)).coalesce()
    return {"coo": s, "hybrid": hybrid, "csr": s.to_sparse_csr(), "csc": s.to_sparse_csc(),
            "bsr": lib.eye(4).to_sparse_bsr((2, 2)), "parameter": lib.nn.Parameter(s)}


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
def test_files_go_both_ways():
    torch = pytest.importorskip("torch")
    for source, target in ((torch, flambeau), (flambeau, torch)):
        for weights_only in (True, False):
            file = io.BytesIO()
            source.save(objects(source), file)
            file.seek(0)
            actual = target.load(file, weights_only=weights_only)
            assert repr(actual) == repr(objects(target))
            assert actual["hybrid"].is_coalesced() and not actual["coo"].is_coalesced()


@pytest.mark.parametrize("name", objects(flambeau))
def test_copies(name):
    x = objects(flambeau)[name]
    for copied in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert repr(copied) == repr(x) and type(copied) is type(x)
    changed = copy.deepcopy(x).detach().mul_(2)
    assert repr(changed) != repr(x.detach())


def test_a_hostile_file_is_checked():
    from flambeau._utils import _rebuild_sparse_tensor

    outside = (flambeau.tensor([[7]]), flambeau.ones(1), (3,))
    with pytest.raises(RuntimeError, match="size is 3 but found index 7"):
        _rebuild_sparse_tensor(flambeau.sparse_coo, outside)
    rows = (flambeau.tensor([0, 9]), flambeau.tensor([0]), flambeau.ones(1), (1, 1))
    with pytest.raises(RuntimeError, match="is not satisfied"):
        _rebuild_sparse_tensor(flambeau.sparse_csr, rows)


def test_legacy_constructor():
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        tensor = flambeau.sparse.FloatTensor(flambeau.tensor([[0, 2]]), flambeau.ones(2), (3,))
    assert tensor.to_dense().tolist() == [1, 0, 1]


def test_gradcheck_of_sparse_functions():
    x = flambeau.eye(3, dtype=flambeau.float64).to_sparse().requires_grad_()
    y = flambeau.rand(3, 2, dtype=flambeau.float64).requires_grad_()
    for function in (lambda x, y: flambeau.sparse.mm(x, y), lambda x, y: x * x,
                     lambda x, y: flambeau.sparse.softmax(x, 1)):
        assert flambeau.autograd.gradcheck(function, (x, y), masked=True)


@pytest.mark.filterwarnings("ignore:.*stays eager")
def test_a_compiled_step_with_sparse_gradients_stays_eager():
    def train(compiled):
        flambeau.manual_seed(0)
        table = flambeau.nn.Embedding(9, 2, sparse=True)
        optimizer = flambeau.optim.SparseAdam(table.parameters(), lr=0.1)

        def step(rows):
            optimizer.zero_grad()
            loss = (table(rows) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        run = flambeau.compile(step) if compiled else step
        return [run(flambeau.tensor([k, k + 1, 4])).item() for k in range(5)]

    assert train(True) == train(False)


def test_sparse_gradient_of_a_table_without_columns():
    table = flambeau.nn.Embedding(10, 0, sparse=True)
    table(flambeau.tensor([[0, 2], [4, 3]])).sum().backward()
    grad = table.weight.grad
    assert grad.is_sparse
    assert grad.shape == (10, 0)
    assert grad._nnz() == 0


def test_gradients_of_a_sampled_product_come_from_the_samples_only(torch):
    a = torch.arange(6.0, dtype=torch.float64).reshape(2, 3).requires_grad_()
    b = torch.ones(3, 2, dtype=torch.float64, requires_grad=True)
    pattern = torch.eye(2, dtype=torch.float64).to_sparse_csr().requires_grad_()
    y = torch.sparse.sampled_addmm(pattern, a, b, alpha=0.5, beta=0.25)
    y.backward(torch.tensor([[1.0, 100.0], [100.0, 3.0]], dtype=torch.float64))
    assert a.grad.tolist() == [[0.5, 0.5, 0.5], [1.5, 1.5, 1.5]]
    assert b.grad.tolist() == [[0, 4.5], [0.5, 6], [1, 7.5]]
