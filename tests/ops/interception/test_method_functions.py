"""Functions that `__torch_function__` is given: methods differ from functions of torch."""

from __future__ import annotations


def test_unbind_of_tensors_is_no_function_of_torch(torch):
    """MONAI splits its batches by torch.unbind where x.unbind() and iteration are asked for."""
    seen = []

    class Named(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func in (torch.unbind, torch.Tensor.unbind):
                seen.append("function" if func is torch.unbind else "method")
            return super().__torch_function__(func, types, args, kwargs or {})

    assert torch.unbind is not torch.Tensor.unbind
    x = torch.ones(2, 3).as_subclass(Named)
    x.unbind()
    torch.unbind(x)
    next(iter(x))
    assert seen == ["method", "function", "method"]
