"""Every collective, with each dtype and reduction, for any number of ranks."""

from __future__ import annotations

import importlib
import os
import sys

torch = importlib.import_module(sys.argv[1] if len(sys.argv) > 1 else "flambeau")
dist = torch.distributed
functional = importlib.import_module(f"{torch.__name__}.distributed.nn.functional")
OTHER = torch.__name__ == "torch"

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, size = dist.get_rank(), dist.get_world_size()
everybody = range(size)
dtypes = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32,
          torch.int8, torch.uint8]


def reductions() -> None:
    for dtype in dtypes:
        for name, expected in (("SUM", sum(i + 1 for i in everybody)), ("MAX", size), ("MIN", 1)):
            x = torch.full((3, 2), rank + 1, dtype=dtype)
            assert dist.all_reduce(x, getattr(dist.ReduceOp, name)) is None
            assert x.tolist() == [[expected] * 2] * 3, (dtype, name, x)
    x = torch.tensor([rank + 1, 6])
    dist.all_reduce(x, dist.ReduceOp.PRODUCT)
    assert x[0].item() == torch.arange(1, size + 1).prod().item()
    y = torch.full((2,), 1 << rank)
    dist.all_reduce(y, dist.ReduceOp.BOR)
    assert y.tolist() == [(1 << size) - 1] * 2
    z = torch.tensor(2.0 * rank)
    dist.all_reduce(z, dist.ReduceOp.AVG)
    assert z.item() == size - 1
    large = torch.arange(300_001.0) + rank
    dist.all_reduce(large)
    assert torch.equal(large, torch.arange(300_001.0) * size + sum(everybody))
    w = torch.full((3,), rank + 1.0)
    dist.reduce(w, size - 1)
    assert rank != size - 1 or w.tolist() == [sum(i + 1 for i in everybody)] * 3
    dist.all_reduce(torch.empty(0))
    if not OTHER:
        flags = torch.tensor([rank == 0, False])
        dist.all_reduce(flags, dist.ReduceOp.MAX)
        assert flags.tolist() == [True, False]
        rows = torch.zeros(4, 3)
        rows[:, 1] = rank + 1
        dist.all_reduce(rows[:, 1])
        assert rows[:, 1].tolist() == [sum(i + 1 for i in everybody)] * 4


def movements() -> None:
    for dtype in dtypes if OTHER else [*dtypes, torch.bool, torch.complex64, torch.int16]:
        x = torch.full((2, 2), rank + 1).to(dtype)
        dist.broadcast(x, 1)
        assert torch.equal(x, torch.full((2, 2), 2).to(dtype)), dtype
        rows = [torch.zeros(2, dtype=dtype) for _ in everybody]
        dist.all_gather(rows, torch.full((2,), rank).to(dtype))
        assert [row[0].item() for row in rows] == [torch.tensor(i).to(dtype).item()
                                                   for i in everybody]
    whole = torch.zeros(size * 2)
    dist.all_gather_into_tensor(whole, torch.full((2,), float(rank)))
    assert whole[1::2].tolist() == list(everybody)
    rows = [torch.zeros(1) for _ in everybody]
    dist.gather(torch.tensor([rank * 2.0]), rows if rank == 0 else None)
    assert rank or [row.item() for row in rows] == [2 * i for i in everybody]
    x = torch.zeros(2)
    dist.scatter(x, [torch.full((2,), 5.0 + i) for i in everybody] if rank == 0 else None)
    assert x.tolist() == [5 + rank] * 2
    x = torch.zeros(2)
    dist.reduce_scatter(x, [torch.full((2,), 1.0 + i) for i in everybody])
    assert x.tolist() == [size * (1 + rank)] * 2
    x = torch.zeros(1)
    dist.reduce_scatter_tensor(x, torch.arange(float(size)))
    assert x.item() == size * rank
    if not OTHER:
        outputs = [torch.zeros(2) for _ in everybody]
        dist.all_to_all(outputs, [torch.full((2,), 10.0 * rank + i) for i in everybody])
        assert [y[0].item() for y in outputs] == [10 * i + rank for i in everybody]
    y = torch.zeros(size * (rank + 1))
    dist.all_to_all_single(y, torch.cat([torch.full((i + 1,), float(rank)) for i in everybody]),
                           [rank + 1] * size, [i + 1 for i in everybody])
    assert y.tolist() == [i for i in everybody for _ in range(rank + 1)]


def asynchronous() -> None:
    works = []
    tensors = [torch.full((1000,), rank + float(i)) for i in range(20)]
    for x in tensors:
        works.append(dist.all_reduce(x, async_op=True))
    assert all(work.wait() for work in works)
    assert all(work.is_completed() for work in works)
    assert [x[0].item() for x in tensors] == [sum(everybody) + size * i for i in range(20)]
    x = torch.ones(1)
    doubled = dist.all_reduce(x, async_op=True).get_future().then(lambda f: f.value()[0] * 2)
    assert doubled.wait().item() == 2 * size
    dist.barrier()
    assert dist.barrier(async_op=True).wait()


def point_to_point() -> None:
    after, before = (rank + 1) % size, (rank - 1) % size
    x, y = torch.full((70_000,), float(rank)), torch.zeros(70_000)
    receiving = dist.irecv(y, before)
    dist.isend(x, after).wait()
    receiving.wait()
    assert y.unique().tolist() == [before]
    a, b = torch.zeros(1), torch.zeros(1)  # the second tag is received first
    works = [dist.irecv(b, before, tag=2), dist.irecv(a, before, tag=1)]
    works += [dist.isend(torch.tensor([1.0 + rank]), after, tag=1),
              dist.isend(torch.tensor([2.0 + rank]), after, tag=2)]
    for work in works:
        work.wait()
    assert (a.item(), b.item()) == (1 + before, 2 + before)
    c = torch.zeros(2)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.ones(2) * rank, after),
                                        dist.P2POp(dist.irecv, c, before)]):
        work.wait()
    assert c.tolist() == [before] * 2
    if rank == 0:
        dist.send(torch.tensor([7.0]), 1)
    elif rank == 1:
        d = torch.zeros(1)
        assert dist.recv(d, 0) == 0
        assert d.item() == 7


def objects() -> None:
    actual: list[object] = [None] * size
    dist.all_gather_object(actual, {"rank": rank, "text": "x" * rank})
    assert actual == [{"rank": i, "text": "x" * i} for i in everybody]
    values: list[object] = [rank, "a"] if rank == 1 else [None, None]
    dist.broadcast_object_list(values, 1)
    assert values == [1, "a"]
    mine: list[object] = [None]
    dist.scatter_object_list(mine, [f"for {i}" for i in everybody] if rank == 0 else None, 0)
    assert mine == [f"for {rank}"]
    gathered: list[object] | None = [None] * size if rank == 0 else None
    dist.gather_object(rank, gathered, 0)
    assert rank or gathered == list(everybody)


def groups() -> None:
    pair = dist.new_group([0, 1])
    if rank < 2:
        x = torch.tensor([rank + 1.0])
        dist.all_reduce(x, group=pair)
        assert x.item() == 3
        assert dist.get_process_group_ranks(pair) == [0, 1]
    else:
        assert pair == dist.GroupMember.NON_GROUP_MEMBER
        assert dist.get_rank(pair) == -1
    last = dist.new_group([size - 1])
    mine, every = dist.new_subgroups(1)
    assert dist.get_world_size(mine) == 1
    assert len(every) == size
    if rank == size - 1:
        assert dist.get_group_rank(last, size - 1) == 0
        assert dist.get_global_rank(last, 0) == size - 1


def gradients() -> None:
    x = torch.tensor([rank + 1.0], requires_grad=True)
    total = functional.all_reduce(x)
    (total * total).sum().backward()
    s = sum(i + 1.0 for i in everybody)
    assert x.grad.item() == 2 * s * size
    y = torch.tensor([rank + 1.0], requires_grad=True)
    parts = functional.all_gather(y)
    sum((i + 1) * part for i, part in enumerate(parts)).sum().backward()
    assert y.grad.item() == (rank + 1) * size


def errors() -> None:
    x = torch.ones(2)
    for call, text in (
        (lambda: dist.all_gather([x], torch.ones(2)), "expected length"),
        (lambda: dist.all_reduce(x, dist.ReduceOp.BAND), "non-integral"),
        (lambda: dist.all_reduce([x]), "Expected parameter `tensor`"),
        (lambda: dist.broadcast(x), "Must specify"),
        (lambda: dist.send(x, rank), "should not be the same"),
        (lambda: dist.scatter(x, [x] if rank else None, 0), "Argument ``scatter_list`` must"),
    ):
        said = ""
        try:
            call()
        except (RuntimeError, ValueError, TypeError) as error:
            said = str(error)
        assert text in said, said


for part in (reductions, movements, asynchronous, point_to_point, objects, groups, gradients,
             errors):
    try:
        part()
    except BaseException:
        print(f"rank {rank} failed in {part.__name__}", file=sys.stderr)
        raise
    dist.barrier()
dist.destroy_process_group()
print(f"rank {rank} of {size} done")
