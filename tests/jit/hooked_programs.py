"""A module with hooks on its submodule, for flambeau and PyTorch."""



def hooked(nn):
    """Return the module; `nn` is the namespace of its layers."""
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.suffix = "_in"

        def forward(self, text: str):
            return text + self.suffix

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, text: str):
            return self.inner(text)

    module = Outer()
    module.inner.register_forward_pre_hook(_pre)
    module.inner.register_forward_hook(_post)
    module.inner.register_forward_hook(_post)
    return module


def _pre(self, input: tuple[str]) -> tuple[str]:
    assert self.suffix == "_in"
    return (input[0] + "_pre",)


def _post(self, input: tuple[str], output: str) -> str:
    return output + "_post"
