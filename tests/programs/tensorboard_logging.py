"""TensorBoard: scalars, histograms, images, text, graphs of numbers, hyperparameters."""

import glob
import os
import tempfile

import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

torch.manual_seed(23)
with tempfile.TemporaryDirectory() as folder:
    writer = SummaryWriter(folder, comment="run")
    net = nn.Linear(3, 1)
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for step in range(4):
        loss = net(torch.randn(8, 3)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        writer.add_scalar("loss/train", loss, step)
        writer.add_scalars("both", {"a": loss.item(), "b": 1.0}, step)
        for n, p in net.named_parameters():
            writer.add_histogram(n, p, step)
            writer.add_histogram(f"{n}.grad", p.grad, step)
        print(step, f"{loss.item():.5f}")
    writer.add_image("img", torch.rand(3, 4, 4))
    writer.add_images("imgs", torch.rand(2, 1, 4, 4))
    writer.add_text("note", "hello")
    writer.add_pr_curve("pr", torch.randint(0, 2, (10,)), torch.rand(10))
    writer.add_embedding(torch.randn(4, 2), metadata=list("abcd"))
    writer.add_hparams({"lr": 0.1}, {"hparam/loss": loss.item()})
    writer.flush()
    writer.close()
    print(len(glob.glob(os.path.join(folder, "**", "events*"), recursive=True)) > 0)
