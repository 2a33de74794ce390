"""torch.fx.interpreter: importing its class works, using it does not."""

from ..tensor.absent import lacking

__getattr__ = lacking(__name__, ("Interpreter",))
