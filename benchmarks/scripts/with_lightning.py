"""A Lightning program: a LightningModule and a Trainer on digits, two epochs."""

import logging
import warnings

import lightning
import torch
import torch.nn.functional as F
from data import digits
from torch import nn
from torch.utils.data import DataLoader

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.simplefilter("ignore")


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))

    def training_step(self, batch, _):
        images, labels = batch
        loss = F.cross_entropy(self.net(images), labels)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, _):
        images, labels = batch
        self.log("accuracy", (self.net(images).argmax(1) == labels).float().mean())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


lightning.seed_everything(0, verbose=False)
trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False,
                            enable_checkpointing=False, enable_progress_bar=False,
                            enable_model_summary=False)
trainer.fit(Classifier(), DataLoader(digits("train", 10000), batch_size=64, shuffle=True),
            DataLoader(digits("test", 2000), batch_size=256))
print(f"accuracy {float(trainer.callback_metrics['accuracy']):.1f}")
