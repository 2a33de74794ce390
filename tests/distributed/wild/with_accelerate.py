"""accelerate: two processes share a data set; rank 0 prints the mean losses."""

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True)
set_seed(0)
x = torch.randn(64, 8)
y = (x.sum(1) > 0).long()
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(x, y), batch_size=8)
net, opt, loader = accelerator.prepare(net, opt, loader)
losses = []
for _ in range(2):
    for inputs, labels in loader:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(inputs), labels)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        losses.append(accelerator.gather(loss.detach().reshape(1)).mean().item())
if accelerator.is_main_process:
    print(type(net).__name__, accelerator.num_processes, *losses)
accelerator.end_training()
