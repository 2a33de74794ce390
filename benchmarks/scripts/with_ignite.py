"""An ignite program: trainer, evaluator and metrics on digits, two epochs."""

import torch
from data import digits
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Accuracy, Loss
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)
net = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
criterion = nn.CrossEntropyLoss()
trainer = create_supervised_trainer(net, optimizer, criterion)
evaluator = create_supervised_evaluator(net, {"accuracy": Accuracy(), "loss": Loss(criterion)})
test = DataLoader(digits("test", 2000), batch_size=256)


@trainer.on(Events.EPOCH_COMPLETED)
def validate(engine):
    evaluator.run(test)


trainer.run(DataLoader(digits("train", 10000), batch_size=64, shuffle=True), max_epochs=2)
print(f"accuracy {evaluator.state.metrics['accuracy']:.2f}")
