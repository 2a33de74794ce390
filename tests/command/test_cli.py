"""The command: a program under it sees flambeau as torch, and ends as it would under `python`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from flambeau.command import torch_alias


def run(*args, code=None, name="program.py", cwd, stdin="", flambeau=True):
    """Runs `python -m flambeau ARGS`, or plain python, with a program written to `name` first."""
    if code is not None:
        (cwd / name).write_text(textwrap.dedent(code))
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p)}
    command = [sys.executable, *(["-m", "flambeau"] if flambeau else []), *args]
    return subprocess.run(
        command, cwd=cwd, env=environment, input=stdin, capture_output=True, text=True,
        timeout=60, check=False,
    )


def test_torch_is_flambeau(tmp_path):
    done = run("program.py", cwd=tmp_path, code="""\
        import importlib.metadata
        import torch
        import torch.autograd as autograd
        from torch.utils.data import DataLoader
        import torch.utils.data.dataset
        import flambeau.utils.data, flambeau.autograd
        assert torch is flambeau and autograd is flambeau.autograd
        assert torch.utils.data is flambeau.utils.data
        assert DataLoader is flambeau.utils.data.DataLoader
        assert flambeau.autograd.__name__ == flambeau.autograd.__spec__.name == "flambeau.autograd"
        assert callable(torch.tensor)
        for name in ("torch.nothing.at.all", "torch.tensor"):
            try:
                __import__(name)
            except ModuleNotFoundError as error:
                print(error)
            else:
                raise AssertionError(name)
        try:
            from torch import nothing_at_all
        except ImportError:
            print("no name")
        assert callable(torch.tensor)
        print(importlib.metadata.version("torch"))
        """)
    assert done.stderr == ""
    first, second, third, version = done.stdout.splitlines()
    assert "torch.nothing" in first
    assert "flambeau" in first
    assert "torch.tensor" in second
    assert third == "no name"
    assert version == torch_alias.TORCH_VERSION


SURROUNDINGS = """\
    import os, sys, pickle
    class A: pass
    print(sys.argv, os.path.samefile(sys.path[0] or ".", "."), __name__, __spec__, __package__)
    print(os.path.basename(globals().get("__file__", "none")), sys.stdin.readline())
    print(type(pickle.loads(pickle.dumps(A()))) is A, sys.modules["__main__"].A is A)
    sys.exit(int(sys.argv[1]))
    """


def test_functorch_is_there_too(tmp_path):
    done = run("program.py", cwd=tmp_path, code="""\
        import warnings
        warnings.simplefilter("ignore")
        import functorch
        import torch
        from functorch.experimental.control_flow import cond, map
        from functorch import make_functional, vmap
        function, parameters = make_functional(torch.nn.Linear(2, 1))
        shape = function(parameters, torch.ones(3, 2)).shape
        print(vmap(torch.sin)(torch.zeros(2)).tolist(), shape,
              functorch.__version__ == torch.__version__)
        try:
            import functorch.dim
        except ModuleNotFoundError as error:
            print(error.name)
        """)
    assert done.stdout.splitlines() == ["[0.0, 0.0] torch.Size([3, 1]) True", "functorch.dim"]


def test_surroundings_are_those_of_python(tmp_path):
    answers = [
        run("program.py", "7", "--x", cwd=tmp_path, code=SURROUNDINGS, stdin="in", flambeau=f)
        for f in (True, False)
    ]
    assert answers[0].returncode == 7
    assert answers[0].stdout == answers[1].stdout
    assert answers[0].stderr == answers[1].stderr == ""


ENDINGS = {
    "error": "def f():\n    raise ValueError('boo')\nf()",
    "syntax": "x = = 1",
    "cause": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e",
    "exit text": "import sys; sys.exit('bye')",
    "exit": "raise SystemExit",
    "hook": "import sys\nsys.excepthook = lambda t, v, tb: print(t, tb.tb_lineno)\n1 / 0",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_endings_are_those_of_python(ending, tmp_path):
    ours = run("program.py", cwd=tmp_path, code=ENDINGS[ending])
    theirs = run("program.py", cwd=tmp_path, flambeau=False)
    assert ours.returncode == theirs.returncode
    assert ours.stdout == theirs.stdout
    assert ours.stderr == theirs.stderr


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_interrupt(tmp_path):
    code = "import atexit; atexit.register(print, 'done')\nraise KeyboardInterrupt"
    done = run("program.py", cwd=tmp_path, code=code)
    assert done.returncode == -signal.SIGINT
    assert done.stdout == "done\n"
    assert done.stderr.count("Traceback") == 1
    assert done.stderr.endswith("KeyboardInterrupt\n")
    assert "cli.py" not in done.stderr


def test_module_code_and_stdin(tmp_path):
    code = "import sys, torch; print(torch.__spec__.name, sys.argv[1:], __name__)"
    expected = "flambeau ['a'] __main__\n"
    assert run("-m", "program", "a", cwd=tmp_path, code=code).stdout == expected
    assert run("-c", code, "a", cwd=tmp_path).stdout == expected
    assert run("-", "a", cwd=tmp_path, stdin=code).stdout == expected
    (tmp_path / "app").mkdir()
    assert run("app", "a", cwd=tmp_path, code=code, name="app/__main__.py").stdout == expected


def test_spawned_processes_see_it_too(tmp_path):
    done = run("program.py", cwd=tmp_path, code="""\
        import multiprocessing, torch
        def f(x): return x + 1, torch.__spec__.name
        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(f, [1]))
        """)
    assert done.stdout == "[(2, 'flambeau')]\n"


OPTIONS = {
    "unbuffered": ["-u"],
    "joined": ["-OBb"],
    "twice": ["-OO"],
    "warnings": ["-W", "error::UserWarning", "-Wignore::DeprecationWarning"],
    "development": ["-X", "utf8", "-Xfrozen_modules=off"],
    "isolated": ["-I"],
    "environment": ["-E", "-s"],
    "safe path": ["-P"],
    "end": ["-u", "--"],
    "hashes": ["--check-hash-based-pycs", "always"],
}
FLAGS = """\
    import os, sys, warnings
    assert "torch" not in sys.modules
    print(sys.flags, sys.warnoptions, sys._xoptions, sys.argv, __name__, bool(__debug__))
    print(sys.path, sys.stdout.write_through, __doc__)
    """


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_options_of_python_come_before_the_program(options, tmp_path):
    ours, theirs = (
        run(*options, "program.py", "-u", "a", cwd=tmp_path, code=FLAGS, flambeau=f)
        for f in (True, False)
    )
    assert (ours.stderr, ours.returncode) == ("", 0)
    assert ours.stdout == theirs.stdout


def test_options_come_before_modules_code_and_stdin(tmp_path):
    code = "import sys, torch; print(torch.__spec__.name, sys.flags.optimize, sys.argv[1:])"
    expected = "flambeau 1 ['-u']\n"
    assert run("-O", "-m", "program", "-u", cwd=tmp_path, code=code).stdout == expected
    assert run("-BOmprogram", "-u", cwd=tmp_path).stdout == expected
    assert run("-Oc", code, "-u", cwd=tmp_path).stdout == expected
    assert run("-O", "-", "-u", cwd=tmp_path, stdin=code).stdout == expected
    assert run("-O", cwd=tmp_path, stdin=code).stdout == expected.replace("'-u'", "")


def test_minus_i_asks_for_more_in_the_names_of_the_program(tmp_path):
    for ending in ("", "raise SystemExit(3)", "1 / 0"):
        done = run("-i", "program.py", cwd=tmp_path, code=f"import torch\nx = 3\n{ending}",
                   stdin="print(x + 1, torch.__name__)")
        assert done.stdout == "4 torch\n"
        assert ending.partition(" ")[0] in done.stderr


def test_own_messages(tmp_path):
    shown = run(cwd=tmp_path)
    assert shown.returncode == 0
    assert len(shown.stdout.splitlines()) <= 20
    assert run("--help", cwd=tmp_path).stdout == shown.stdout
    assert f"(PyTorch {torch_alias.TORCH_VERSION})" in run("--version", cwd=tmp_path).stdout
    missing = run("none.py", cwd=tmp_path)
    assert missing.returncode == 2
    assert "can't open file" in missing.stderr
    assert "No such file or directory" in missing.stderr
    module = run("-m", "none_such", cwd=tmp_path)
    assert module.returncode == 1
    assert "No module named none_such" in module.stderr
    assert run("--wrong", cwd=tmp_path).returncode == 2
    assert run("-m", cwd=tmp_path).returncode == 2
    assert "Argument expected for the -W option" in run("-W", cwd=tmp_path).stderr
    assert "unknown option -z" in run("-uz", "x", cwd=tmp_path).stderr


def test_tensors_say_that_they_are_pytorchs(tmp_path):
    actual = subprocess.run(
        [sys.executable, "-m", "flambeau", "-c",
         "import torch; print(torch.__name__, type(torch.ones(1)), type(torch.float32), "
         "torch.nn.Parameter)"],
        capture_output=True, text=True, check=True,
    )
    parameter = "<class 'torch.nn.parameter.Parameter'>"
    assert actual.stdout == f"torch <class 'torch.Tensor'> <class 'torch.dtype'> {parameter}\n"
