"""Attends to a sequence that is cut over the processes; each prints what it saw as JSON.

The first argument is the library. PyTorch attends on GPUs only; buffers are cut anywhere.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any

library = sys.argv[1] if len(sys.argv) > 1 else "flambeau"
torch = importlib.import_module(library)
F = torch.nn.functional
dist = torch.distributed
cp = importlib.import_module(f"{library}.distributed.tensor.experimental._attention")
checkpoint = importlib.import_module(f"{library}.utils.checkpoint").checkpoint
dist.init_process_group(os.environ.get("BACKEND", "gloo"))
size, rank = dist.get_world_size(), dist.get_rank()
mesh = dist.init_device_mesh("cpu", (size,))
seen: dict[str, Any] = {}


def catch(name: str, call: Callable[[], Any]) -> None:
    try:
        seen[name] = call()
    except Exception as error:
        seen[name] = [type(error).__name__, str(error)]


def cut(*buffers: Any, dims: list[int], balance: bool = True, stay: Any = None) -> list[Any]:
    """The parts inside, then what is there afterwards."""
    cp._cp_options.enable_load_balance = balance
    with cp.context_parallel(mesh, buffers=list(buffers), buffer_seq_dims=dims,
                             no_restore_buffers=stay):
        parts = [x.tolist() for x in buffers]
    rejoined = [cp._cp_options.enable_load_balance, [x.tolist() for x in buffers]]
    cp._cp_options.enable_load_balance = True
    return [parts, *rejoined]


def see_buffers() -> None:
    n = 4 * size
    x, wide = torch.arange(float(n)), torch.arange(2 * n).reshape(2, n)
    catch("balanced", lambda: cut(x, wide, dims=[0, 1]))
    catch("in order", lambda: cut(x, wide, dims=[0, 1], balance=False))
    catch("stays", lambda: cut(x.clone(), dims=[0]))
    catch("odd", lambda: cut(torch.arange(3 * size), dims=[0]))
    catch("uneven", lambda: cut(torch.arange(2 * size + 1), dims=[0]))
    catch("more buffers", lambda: cut(x, dims=[]))
    catch("strangers", lambda: cut(x, dims=[0], stay={x.clone()}))
    catch("a parameter", lambda: cut(x.clone().requires_grad_(), dims=[0]))
    catch("no buffers", lambda: cut(dims=[]))
    catch("method", lambda: cp.set_rotate_method("ring"))
    y = wide.clone()
    catch("left cut", lambda: cut(y, dims=[1], stay={y}))
    catch("unshard", lambda: cp.context_parallel_unshard(mesh, [y], [1])[0].tolist())
    balancer = cp._HeadTailLoadBalancer(n, size, "cpu")
    catch("orders", lambda: [balancer._generate_indices(r).tolist() for r in (False, True)])
    catch("shard", lambda: cp._context_parallel_shard(
        mesh, {"a": wide}, {"a": 1}, balancer)["a"].tolist())
    catch("shard in order", lambda: cp._context_parallel_shard(mesh, [wide], [1])[0].tolist())
    catch("shard error", lambda: cp._context_parallel_shard(mesh, [wide], []))
    cp._cp_options.enable_load_balance = True


def attend(x: Any, weight: Any, keys: int = 4, **options: Any) -> Any:
    """Self-attention with `keys` heads of keys and values."""
    q, k, v = (y.transpose(1, 2) for y in (x @ weight).unflatten(-1, (4 + 2 * keys, 4)).split(
        [4, keys, keys], 2))
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=keys < 4, **options)


def attend_again(x: Any, weight: Any, keys: int, reentrant: bool, **options: Any) -> Any:
    """Self-attention that backward computes a second time."""
    return checkpoint(lambda a, b: attend(a, b, keys, **options), x, weight,
                      use_reentrant=reentrant)


def compare(causal: bool, balance: bool, keys: int = 4, length: int = 8, attend: Any = attend,
            **options: Any) -> float:
    """The largest difference to attention in one process: of the result and the gradients."""
    torch.manual_seed(0)
    x = torch.randn(2, length * size, 8)
    weight = torch.randn(8, 4 * (4 + 2 * keys)).requires_grad_()
    scales = torch.randn(2, 4, length * size, 4)
    inner = x.clone().requires_grad_()
    whole = attend(inner, weight, keys, is_causal=causal, **options)
    (whole * scales).sum().backward()
    wanted = inner.grad, weight.grad
    weight.grad = None
    cp._cp_options.enable_load_balance = balance
    with cp.context_parallel(mesh, buffers=[x, scales], buffer_seq_dims=[1, 2],
                             no_restore_buffers={x}):
        part = attend(x.requires_grad_(), weight, keys, is_causal=causal, **options)
        (part * scales).sum().backward()
        result, gradient = cp.context_parallel_unshard(mesh, [part, x.grad], [2, 1])
    cp._cp_options.enable_load_balance = True
    dist.all_reduce(weight.grad)
    pairs = ((result, whole), (gradient, wanted[0]), (weight.grad, wanted[1]))
    return max(((a - b).abs().max() / b.abs().max()).item() for a, b in pairs)


def see_attention() -> None:
    for method in "alltoall", "allgather":
        cp.set_rotate_method(method)
        for causal in True, False:
            for balance in True, False:
                seen[f"attention {method} {causal} {balance}"] = compare(causal, balance)
    seen["attention of shared keys"] = compare(True, True, keys=2, scale=0.3)
    seen["attention of odd parts"] = compare(True, True, length=3)
    for reentrant in True, False:
        seen[f"attention again {reentrant}"] = compare(True, True, attend=attend_again,
                                                       reentrant=reentrant)
    x = torch.randn(1, 1, 4 * size, 2)
    mha = torch.nn.MultiheadAttention(2, 1)
    with cp.context_parallel(mesh, buffers=[x], buffer_seq_dims=[2]):
        catch("masks", lambda: F.scaled_dot_product_attention(x, x, x, x[0, 0] @ x[0, 0].mT))
        catch("lengths", lambda: F.scaled_dot_product_attention(x, x[:, :, :2], x[:, :, :2],
                                                                is_causal=True))
        catch("ranks", lambda: F.scaled_dot_product_attention(x[0], x[0], x[0]).tolist())
        catch("dtypes", lambda: F.scaled_dot_product_attention(x, x, x.double()).tolist())
        catch("modules", lambda: mha(x[0, 0], x[0, 0], x[0, 0]))
        catch("fast modules", lambda: mha.eval()(x[0, 0], x[0, 0], x[0, 0], need_weights=False))
        parts = [torch.distributed.tensor.DTensor.from_local(
            x, mesh, [torch.distributed.tensor.Shard(d)], run_check=False) for d in (2, 0)]
        plain = F.scaled_dot_product_attention(x, x, x)
        seen["DTensors"] = (F.scaled_dot_product_attention(*[parts[0]] * 3) - plain).tolist()
        catch("other placements", lambda: F.scaled_dot_product_attention(*[parts[1]] * 3))
    y = torch.randn(1, 1, 2 * size + 1, 2)
    with cp.context_parallel(mesh, buffers=[y], buffer_seq_dims=[2]):
        catch("uneven parts", lambda: F.scaled_dot_product_attention(y, y, y).tolist())
    with_part = F.scaled_dot_product_attention(x, x, x)  # outside, attention is local again
    seen["afterwards"] = list(with_part.shape) == [1, 1, 4 * size, 2]


see_buffers()
if library == "flambeau":
    see_attention()
print(json.dumps(seen))
dist.barrier()
dist.destroy_process_group()
