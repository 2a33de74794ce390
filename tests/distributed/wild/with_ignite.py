"""ignite.distributed, which spawns its two processes; rank 0 prints the mean losses."""

import ignite.distributed as idist
import torch
from ignite.engine import Engine
from torch import nn
from torch.utils.data import TensorDataset


def training(local_rank):
    torch.manual_seed(0)
    x = torch.randn(64, 8)
    y = (x.sum(1) > 0).long()
    net = idist.auto_model(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)))
    opt = idist.auto_optim(torch.optim.SGD(net.parameters(), lr=0.1))
    loader = idist.auto_dataloader(TensorDataset(x, y), batch_size=16, shuffle=False)
    losses = []

    def step(_, batch):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(batch[0]), batch[1])
        loss.backward()
        opt.step()
        losses.append(idist.all_reduce(loss.item()) / idist.get_world_size())

    Engine(step).run(loader, max_epochs=2)
    if idist.get_rank() == 0:
        print(type(net).__name__, idist.get_world_size(), *losses)


if __name__ == "__main__":
    with idist.Parallel(backend="gloo", nproc_per_node=2, start_method="spawn") as parallel:
        parallel.run(training)
