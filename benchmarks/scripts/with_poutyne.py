"""A Poutyne program: Model.fit_dataset on digits, two epochs."""

import torch
from data import digits
from poutyne import Model
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
model = Model(net, "adam", "cross_entropy", batch_metrics=["accuracy"])
history = model.fit_dataset(digits("train", 10000), digits("test", 2000), epochs=2, batch_size=64,
                            verbose=False)
print(f"accuracy {history[-1]['val_acc']:.0f}")
