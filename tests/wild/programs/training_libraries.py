"""Libraries that train: lightning, ignite, poutyne, accelerate, skorch, Trainer, peft,
sentence-transformers, torchmetrics, stable-baselines3. Each a small training with the numbers that
it ends with."""

import tempfile

import torch
from cases import case, run
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def data():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(64, 8, generator=generator)
    return TensorDataset(x, (x.sum(1) > 0).long())


def network():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))


def weights(model):
    return [p.detach() for p in model.parameters()]


@case
def lightning():
    import lightning as L

    class Module(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = network()

        def training_step(self, batch, _):
            loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-2)

    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(max_epochs=2, accelerator="cpu", default_root_dir=folder, logger=False,
                            enable_progress_bar=False, enable_model_summary=False)
        module = Module()
        trainer.fit(module, DataLoader(data(), 16))
        return [*weights(module), trainer.callback_metrics["loss"]]


@case
def ignite():
    from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
    from ignite.metrics import Accuracy, Loss

    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    trainer = create_supervised_trainer(model, optimizer, nn.functional.cross_entropy)
    metrics = {"accuracy": Accuracy(), "loss": Loss(nn.functional.cross_entropy)}
    evaluator = create_supervised_evaluator(model, metrics)
    loader = DataLoader(data(), 16)
    trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda: evaluator.run(loader))
    trainer.run(loader, max_epochs=2)
    return [*weights(model), *evaluator.state.metrics.values()]


@case
def poutyne():
    from poutyne import Model

    net = network()
    model = Model(net, "adam", "cross_entropy", batch_metrics=["accuracy"], device="cpu")
    history = model.fit_generator(DataLoader(data(), 16), epochs=2, verbose=False)
    return [*weights(net), history[-1]["loss"], history[-1]["acc"]]


@case
def accelerate():
    from accelerate import Accelerator

    accelerator, model = Accelerator(cpu=True), network()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data(), 16))
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    return [*weights(model), accelerator.gather(loss)]


@case
def skorch():
    from skorch import NeuralNetClassifier

    x, y = (t.numpy() for t in data().tensors)
    net = NeuralNetClassifier(network(), criterion=nn.CrossEntropyLoss, max_epochs=3, lr=0.1,
                              verbose=0, iterator_train__shuffle=False,
                              train_split=None)
    net.fit(x, y)
    return [torch.from_numpy(net.predict_proba(x)), net.history[-1]["train_loss"], net.score(x, y)]


def tiny_bert():
    import transformers

    return transformers.BertConfig(
        vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=64,
    )


@case
def transformers_trainer():
    import transformers

    model = transformers.BertForSequenceClassification(tiny_bert())
    rows = [{"input_ids": torch.randint(3, 90, (12,)), "labels": i % 2} for i in range(16)]
    with tempfile.TemporaryDirectory() as folder:
        options = transformers.TrainingArguments(
            folder, num_train_epochs=2, per_device_train_batch_size=4, report_to=[], use_cpu=True,
            disable_tqdm=True, save_strategy="no", logging_strategy="no",
        )
        result = transformers.Trainer(model, options, train_dataset=rows).train()
    return [result.training_loss, *weights(model)[:4]]


@case
def peft():
    import transformers
    from cases import losses
    from peft import LoraConfig, get_peft_model

    model = transformers.BertForSequenceClassification(tiny_bert())
    model = get_peft_model(model, LoraConfig(task_type="SEQ_CLS", r=4, target_modules=["query"]))
    tokens, labels = torch.randint(3, 90, (2, 12)), torch.tensor([0, 1])
    return losses(model, lambda m: m(input_ids=tokens, labels=labels).loss)


@case
def sentence_transformers():
    from sentence_transformers import SentenceTransformer, models

    words = models.WordEmbeddings(
        tokenizer=models.tokenizer.WhitespaceTokenizer(vocab=["a", "small", "house", "tree"]),
        embedding_weights=torch.randn(4, 8).numpy(),
    )
    model = SentenceTransformer(modules=[words, models.Pooling(8)], device="cpu")
    result = model.encode(["a small house", "a tree"], show_progress_bar=False)
    return torch.from_numpy(result)


@case
def torchmetrics():
    import torchmetrics as tm

    scores, labels = torch.randn(50, 4).softmax(1), torch.randint(0, 4, (50,))
    metrics = tm.MetricCollection([
        tm.classification.MulticlassAccuracy(4), tm.classification.MulticlassF1Score(4),
        tm.classification.MulticlassAUROC(4), tm.classification.MulticlassCalibrationError(4),
        tm.classification.MulticlassAveragePrecision(4),
    ])
    for part in range(0, 50, 10):
        metrics.update(scores[part : part + 10], labels[part : part + 10])
    x, y = torch.randn(50), torch.randn(50)
    regression = [tm.PearsonCorrCoef()(x, y), tm.SpearmanCorrCoef()(x, y), tm.R2Score()(x, y)]
    images = torch.rand(2, 3, 32, 32), torch.rand(2, 3, 32, 32)
    return [*metrics.compute().values(), *regression,
            tm.image.StructuralSimilarityIndexMeasure()(*images)]


@case
def stable_baselines3():
    from stable_baselines3 import PPO

    model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=32, seed=0, device="cpu")
    model.learn(128)
    return weights(model.policy)


run()
