"""torch.library: opcheck finds what registrations get wrong; rules for vmap and autocast."""

from __future__ import annotations

import itertools

import pytest

_NUMBERS = itertools.count()


def _operator(torch, kernel, schema="(Tensor x) -> Tensor", fake=None, mutates_args=()):
    name = f"checks::op{next(_NUMBERS)}"
    operator = torch.library.custom_op(name, kernel, mutates_args=mutates_args, schema=schema)
    operator.register_fake(fake or (lambda x: torch.empty_like(x)))
    return operator


def _cube(torch):
    cube = _operator(torch, lambda x: x.detach() ** 3)
    cube.register_autograd(
        lambda ctx, g: g * 3 * ctx.saved_tensors[0] ** 2,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]))
    return cube


def test_a_right_operator_passes_every_check(torch):
    checks = ["test_schema", "test_autograd_registration", "test_faketensor"]
    if torch.__name__ == "flambeau":  # PyTorch's fails once a program was exported in the process
        checks.append("test_aot_dispatch_dynamic")
    for x in (torch.ones(3), torch.ones(3, requires_grad=True)):
        result = torch.library.opcheck(_cube(torch), (x,), test_utils=tuple(checks))
        assert result == dict.fromkeys(checks, "SUCCESS")


def test_a_hidden_write_fails_and_reaches_no_argument(torch):
    operator = _operator(torch, lambda x: x.sin_().clone())
    x = torch.ones(3)
    with pytest.raises(Exception, match=r"^opcheck\(op, ...\): test_schema failed with Argument x "
                                        "is not defined as mutable but was mutated"):
        torch.library.opcheck(operator, (x,), test_utils="test_schema")
    assert x.tolist() == [1, 1, 1]


def test_a_declared_write_passes(torch):
    def fill(x):
        x.fill_(3)

    operator = _operator(torch, fill, "(Tensor(a!) x) -> ()", lambda x: None, {"x"})
    assert torch.library.opcheck(operator, (torch.ones(3),), test_utils="test_schema")


def test_a_returned_alias_fails(torch):
    operator = _operator(torch, lambda x: x.view(-1))
    result = torch.library.opcheck(operator, (torch.ones(3),), test_utils=("test_schema",),
                                   raise_exception=False)
    assert isinstance(result["test_schema"], RuntimeError)


@pytest.mark.parametrize("fake", [
    lambda x: x.new_empty(7), lambda x: x.new_empty(2, 3).double(), lambda x: x.new_empty(3, 2),
])
def test_a_wrong_fake_kernel_fails(torch, fake):
    operator = _operator(torch, lambda x: x.clone(), fake=fake)
    result = torch.library.opcheck(operator, (torch.ones(2, 3),), test_utils="test_faketensor",
                                   raise_exception=False)
    assert isinstance(result["test_faketensor"], Exception)


def test_an_unknown_check_is_refused(torch):
    with pytest.raises(ValueError, match="expected test_utils to be subset of"):
        torch.library.opcheck(_cube(torch), (torch.ones(3),), test_utils="everything")


def test_vmap_uses_the_registered_rule(torch):
    cube, seen = _cube(torch), []

    def rule(info, in_dims, x):
        seen.append((info.batch_size, in_dims))
        return cube(x), in_dims[0]

    torch.library.register_vmap(cube, rule)
    assert torch.vmap(cube)(torch.arange(3.0)).tolist() == [0, 1, 8]
    assert torch.vmap(cube, in_dims=1)(torch.ones(2, 3)).shape == (3, 2)
    assert seen[0] == (3, (0,)) and seen[1][0] == 3
    with pytest.raises(RuntimeError, match="must override the setup_context staticmethod"):
        torch.vmap(torch.func.grad(cube))(torch.arange(3.0))


def test_a_gradient_passes_through_the_rule(torch):
    cube = _cube(torch)
    torch.library.register_vmap(cube, lambda info, in_dims, x: (cube(x), in_dims[0]))
    x = torch.arange(3.0, requires_grad=True)
    torch.vmap(cube)(x).sum().backward()
    assert x.grad.tolist() == [0, 3, 12]


def test_autocast_casts_what_is_registered(torch):
    cube = _cube(torch)
    torch.library.register_autocast(cube, "cpu", torch.bfloat16)
    with torch.autocast("cpu"):
        assert cube(torch.ones(2)).dtype == torch.bfloat16
    assert cube(torch.ones(2)).dtype == torch.float32
    with pytest.raises(RuntimeError):
        torch.library.register_autocast(cube, "nodevice", torch.bfloat16)
