"""torch.compiler.set_stance: what calls of compiled functions may do."""

import pytest

import flambeau
from flambeau.compiler.driver.stance import STANCE


@pytest.fixture(autouse=True)
def default_stance():
    yield
    flambeau.compiler.set_stance("default")


def compile_doubling():
    return flambeau.compile(lambda x: x * 2, mode="now")


def test_fail_on_recompile_raises_until_there_is_a_program():
    step, x = compile_doubling(), flambeau.ones(3)
    with flambeau.compiler.set_stance("fail_on_recompile"), \
            pytest.raises(RuntimeError, match="stance is 'fail_on_recompile'"):
        step(x)
    for _ in range(3):
        step(x)
    assert step.ready
    with flambeau.compiler.set_stance("fail_on_recompile"):
        assert step(x).tolist() == [2, 2, 2]
        with pytest.raises(RuntimeError, match="Detected recompile"):
            step(x.double())


def test_fail_on_recompile_lets_calls_pass_whose_program_is_not_ready():
    step = flambeau.compile(lambda x: x * 2)
    step(flambeau.ones(3))
    with flambeau.compiler.set_stance("fail_on_recompile"):
        assert step(flambeau.ones(3)).tolist() == [2, 2, 2]
        with pytest.raises(RuntimeError, match="Detected recompile"):
            step(flambeau.ones(4))


def test_eager_on_recompile_builds_nothing():
    step = compile_doubling()
    with flambeau.compiler.set_stance("eager_on_recompile"):
        for _ in range(4):
            assert step(flambeau.ones(3)).tolist() == [2, 2, 2]
    assert not step.ready


def test_force_eager_runs_python_although_there_is_a_program():
    step, x, calls = compile_doubling(), flambeau.ones(2), []
    for _ in range(3):
        step(x)
    assert step.ready
    with flambeau.compiler.set_stance("force_eager"):
        assert STANCE.forces_eager
        step._function = lambda x: calls.append(1) or x
        step(x)
    assert calls == [1]


def test_decorator_function_and_context_restore_the_stance():
    names = []

    @flambeau.compiler.set_stance("force_eager")
    def note():
        names.append(STANCE.stance.name)

    note()
    names.append(STANCE.stance.name)
    flambeau.compiler.set_stance("eager_on_recompile")
    with flambeau.compiler.set_stance("fail_on_recompile"):
        names.append(STANCE.stance.name)
    names.append(STANCE.stance.name)
    assert names == ["force_eager", "default", "fail_on_recompile", "eager_on_recompile"]


def test_bad_stances_are_refused(torch):
    with pytest.raises(RuntimeError, match="non-default stance cannot have force_backend set"):
        torch.compiler.set_stance("force_eager", force_backend="eager")


def test_unknown_stance_fails_where_it_matters():
    step = compile_doubling()
    with flambeau.compiler.set_stance("unknown"), \
            pytest.raises(RuntimeError, match="invalid torch.compile stance"):
        step(flambeau.ones(2))


def test_default_backend(torch):
    assert torch.compiler.get_default_backend() == "inductor"
    torch.compiler.set_default_backend("eager")
    try:
        assert torch.compiler.get_default_backend() == "eager"
        assert torch.compile(lambda x: x + 1)(torch.ones(1)).item() == 2
    finally:
        torch.compiler.set_default_backend(None)
    assert torch.compiler.get_default_backend() == "inductor"


def test_names_that_change_nothing(torch):
    assert torch.compiler.skip_all_guards_unsafe([1, 2]) == [False, False]
    assert torch.compiler.cudagraph_mark_step_begin() is None


def test_functions_of_arrays():
    doubled = flambeau.compiler.wrap_numpy(lambda a: a * 2)(flambeau.ones(2))
    assert doubled.tolist() == [2, 2]
