"""Datasets, samplers, batch samplers, collate functions of nested data, workers, subsets."""

import collections

import torch
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    default_collate,
    get_worker_info,
)

torch.manual_seed(24)
Point = collections.namedtuple("Point", "x y")


class Nested(Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, i):
        return {
            "id": i,
            "p": Point(torch.tensor([float(i)]), i * 0.5),
            "name": f"n{i}",
            "l": [i, (i + 1, torch.ones(2) * i)],
        }


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        start, step = (info.id, info.num_workers) if info else (0, 1)
        return iter(range(start, 12, step))


class ByLength(Sampler):
    def __init__(self, lengths):
        self.lengths = lengths

    def __iter__(self):
        return iter(sorted(range(len(self.lengths)), key=self.lengths.__getitem__))

    def __len__(self):
        return len(self.lengths)


def worker_init(i):
    torch.manual_seed(i)


def basics():
    for batch in DataLoader(Nested(), 4):
        print(batch)
        break
    print([b.tolist() for b in DataLoader(Stream(), 4)])
    print(
        sorted(
            x
            for b in DataLoader(Stream(), 4, num_workers=2, worker_init_fn=worker_init)
            for x in b.tolist()
        )
    )
    print(
        [
            b["id"].tolist()
            for b in DataLoader(
                Nested(), batch_sampler=BatchSampler(ByLength([3, 1, 2, 0]), 3, False)
            )
        ]
    )
    print([b["id"].tolist() for b in DataLoader(Subset(Nested(), [5, 3, 1]), 2, shuffle=True)])
    print(len(ConcatDataset([Nested(), Nested()])), ConcatDataset([Nested(), Nested()])[12]["id"])
    print(
        list(RandomSampler(range(5))),
        list(SubsetRandomSampler([7, 8, 9])),
        list(SequentialSampler(range(3))),
    )
    print(list(RandomSampler(range(5), replacement=True, num_samples=7)))
    print(
        default_collate([("a", 1), ("b", 2)]),
        default_collate([{"k": torch.zeros(2)}, {"k": torch.ones(2)}]),
    )


def workers_and_splits():
    loader = DataLoader(
        Nested(),
        3,
        shuffle=True,
        generator=torch.Generator().manual_seed(5),
        num_workers=2,
        persistent_workers=True,
        prefetch_factor=2,
        pin_memory=False,
    )
    for _ in range(2):
        print([b["id"].tolist() for b in loader])
    try:
        DataLoader(Nested(), 3, shuffle=True, sampler=[1])
    except ValueError as e:
        print(e)
    a, b, c = torch.utils.data.random_split(range(10), [0.5, 0.3, 0.2])
    print(list(a), list(b), list(c))


if __name__ == "__main__":
    basics()
    workers_and_splits()
