"""torch.optim._multi_tensor: the optimizers with foreach=True, which older libraries ask for."""

from __future__ import annotations

from functools import partialmethod
from typing import Any

from .. import adadelta, adagrad, adam, adamax, adamw, asgd, nadam, radam, rmsprop, rprop, sgd


def partialclass(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Return a subclass, named NewCls as in PyTorch, with these arguments of `__init__` set."""
    constructor: Any = partialmethod(cls.__init__, *args, **kwargs)
    return type("NewCls", (cls,), {"__init__": constructor, "__module__": __name__})


Adadelta = partialclass(adadelta.Adadelta, foreach=True)
Adagrad = partialclass(adagrad.Adagrad, foreach=True)
Adam = partialclass(adam.Adam, foreach=True)
AdamW = partialclass(adamw.AdamW, foreach=True)
Adamax = partialclass(adamax.Adamax, foreach=True)
ASGD = partialclass(asgd.ASGD, foreach=True)
NAdam = partialclass(nadam.NAdam, foreach=True)
RAdam = partialclass(radam.RAdam, foreach=True)
RMSprop = partialclass(rmsprop.RMSprop, foreach=True)
Rprop = partialclass(rprop.Rprop, foreach=True)
SGD = partialclass(sgd.SGD, foreach=True)
