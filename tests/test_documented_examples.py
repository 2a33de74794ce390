"""Behaviours that PyTorch's own documentation shows and that once differed."""

import io

import numpy as np
import pytest


def test_post_accumulate_grad_hook_may_return_its_tensor(torch):
    v = torch.zeros(3, requires_grad=True)
    handle = v.register_post_accumulate_grad_hook(lambda p: p.add_(p.grad, alpha=-0.01))
    v.backward(torch.tensor([1.0, 2.0, 3.0]))
    assert torch.allclose(v, torch.tensor([-0.01, -0.02, -0.03]))
    handle.remove()
    v.register_post_accumulate_grad_hook(lambda p: p.grad)
    with pytest.raises(RuntimeError, match="hooks should return None"):
        v.backward(torch.ones(3))


def test_post_accumulate_grad_hook_returns_a_number(torch):
    v = torch.zeros(3, requires_grad=True)
    v.register_post_accumulate_grad_hook(lambda p: 3)
    with pytest.raises(TypeError, match="expected Variable, but hook returned 'int'"):
        v.backward(torch.ones(3))


@pytest.mark.filterwarnings("ignore:torch.asarray")
def test_asarray_keeps_the_graph_unless_told(torch):
    b = torch.ones(2, requires_grad=True) + 2
    assert torch.asarray(b) is b
    assert not torch.asarray(b, requires_grad=False).requires_grad
    assert torch.asarray(b, requires_grad=True).grad_fn is not None
    assert torch.asarray(b, copy=True).requires_grad
    leaf = torch.ones(2, requires_grad=True)
    assert torch.asarray(leaf, requires_grad=False) is leaf and not leaf.requires_grad
    assert not torch.asarray(np.ones(2)).requires_grad


def test_dim_order_checks_ambiguity(torch):
    x = torch.empty(1, 2, 3, 4)
    assert x.dim_order() == (0, 1, 2, 3)
    with pytest.raises(RuntimeError, match="does not have unique dim order"):
        x.dim_order(ambiguity_check=True)
    formats = [torch.contiguous_format, torch.channels_last]
    assert x.dim_order(ambiguity_check=formats) == (0, 1, 2, 3)
    with pytest.raises(RuntimeError, match="cannot map to exact one"):
        x.dim_order(ambiguity_check=[torch.channels_last])
    with pytest.raises(TypeError, match="must be a bool or a list of memory formats"):
        x.dim_order(ambiguity_check="ILLEGAL")


@pytest.mark.parametrize("driver", ["gelsy", "gelsd", "gelss"])
def test_lstsq_ranks_belong_to_the_matrices(torch, driver):
    A, B = torch.randn(2, 1, 4, 3), torch.randn(1, 5, 4, 2)
    result = torch.linalg.lstsq(A, B, driver=driver)
    assert result.solution.shape == (2, 5, 3, 2) and result.rank.tolist() == [[3], [3]]


@pytest.mark.parametrize("layout", ["bsr", "bsc"])
def test_blocks_of_tensors_with_dense_axes(torch, layout):
    dense = torch.zeros(4, 3, 1)
    dense[0:2, 0] = dense[0:2, 2] = dense[2:4, 1] = 1
    blocks = getattr(dense, f"to_sparse_{layout}")((2, 1), 1)
    assert blocks.values().shape == (3, 2, 1, 1) and torch.equal(blocks.to_dense(), dense)


def test_pooling_and_normalization_of_quantized_tensors(torch):
    q = torch.quantize_per_tensor(torch.arange(16.0).reshape(1, 2, 2, 4), 0.5, 3, torch.quint8)
    assert torch.quantized_max_pool2d(q, [2, 2]).dequantize().flatten().tolist() == [5, 7, 13, 15]
    assert torch.quantized_max_pool1d(q.reshape(2, 2, 4), [4]).dequantize().flatten().tolist() == [
        3, 7, 11, 15]
    mean, var = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0])
    y = torch.quantized_batch_norm(q, torch.ones(2), torch.zeros(2), mean, var, 0.0, 0.5, 10)
    expected = (torch.arange(16.0).reshape(1, 2, 8) - mean.reshape(2, 1)) / var.sqrt().reshape(2, 1)
    assert torch.allclose(y.dequantize().reshape(1, 2, 8), expected, atol=0.26)
    with pytest.raises(NotImplementedError, match="quantized_max_pool2d"):
        torch.quantized_max_pool2d(torch.ones(1, 2, 2, 2), [2, 2])


def test_saving_without_data(torch):
    file = io.BytesIO()
    with torch.serialization.skip_data():
        torch.save({"w": torch.ones(2, 3)}, file)
    file.seek(0)
    assert torch.load(file)["w"].tolist() == [[0, 0, 0], [0, 0, 0]]


def test_schema_with_its_namespace(torch):
    library = torch.library.Library("documented", "FRAGMENT")
    library.define("documented::plus(Tensor x) -> Tensor")
    library.impl("plus", lambda x: x + 1, "CPU")
    assert torch.ops.documented.plus(torch.ones(1)).item() == 2
    with pytest.raises(RuntimeError, match=r"Explicitly provided namespace \(other\)"):
        library.define("other::plus(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="expected arrow but found 'eof'"):
        library.define("minus(Tensor x)")


def test_redispatch_within_a_mode(torch):
    overrides, calls = torch.overrides, []

    def scaled(a, b):
        if overrides.has_torch_function((a, b)):
            return overrides.handle_torch_function(scaled, (a, b), a, b)
        return a * b + 1

    class Logging(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args, kwargs=None):
            calls.append(func.__name__)
            with self:
                return overrides.redispatch_function(func, types, args, kwargs)

    with Logging():
        result = scaled(torch.tensor([3.0]), torch.tensor([4.0]))
    assert result.item() == 13 and calls[-3:] == ["scaled", "mul", "add"]


def test_windows_round_in_their_own_dtype(torch):
    window = torch.signal.windows.blackman(5)
    assert window[0].item() == pytest.approx(-1.4901161193847656e-08, rel=1e-6)
    assert torch.signal.windows.hann(4, requires_grad=True).requires_grad
    assert torch.signal.windows.kaiser(1).tolist() == [1]
    assert torch.signal.windows.gaussian(0).shape == (0,)


def test_logs_are_checked(torch):
    torch._logging.set_logs(graph_breaks=True)
    with pytest.raises(TypeError, match="unexpected keyword argument 'unknown'"):
        torch._logging.set_logs(unknown=3)
    with pytest.raises(ValueError, match="Expected bool to enable artifact graph_code"):
        torch._logging.set_logs(graph_code=3)
    torch._logging.set_logs(graph_breaks=False)


def test_powsum(torch):
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert torch.linalg._powsum(x, 2).item() == 30
    sums = torch.linalg._powsum(x, 3, dim=0, keepdim=True, dtype=torch.float64)
    assert sums.tolist() == [[28.0, 72.0]] and sums.dtype == torch.float64


@pytest.mark.parametrize("factory", ["zeros", "ones", "empty", "rand", "randn"])
def test_axes_have_no_names(torch, factory):
    with pytest.raises(TypeError, match="names"):
        getattr(torch, factory)(2, names=("N",))
    with pytest.raises(TypeError, match="names"):
        torch.tensor([1.0], names=("N",))
    assert not hasattr(torch.zeros(2), "names")


def test_grad_mode_shows_itself(torch):
    with torch.no_grad():
        shown = repr(torch.set_grad_enabled(True))
    assert shown == "torch.autograd.grad_mode.set_grad_enabled(mode=True)"


def test_gradient_of_a_product_with_infinity_first(torch):
    x = torch.tensor([float("inf"), 2.0, 3.0], requires_grad=True)
    x.prod().backward()
    assert x.grad[1:].tolist() == [float("inf")] * 2
