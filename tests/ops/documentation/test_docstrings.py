"""Docstrings of operators: every parameter, the result and the errors, composed when read."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import subprocess
import sys
import types

import numpy as np
import pytest

import flambeau as torch
from flambeau.ops.core.operator import OPERATORS, PUBLIC, Kind
from flambeau.ops.documentation.family_parameters import FAMILIES
from flambeau.ops.documentation.general_parameters import GENERAL
from flambeau.ops.documentation.docstring import compose
from flambeau.ops.documentation.lazy_docstring import LazyDocstring, Stubs
from flambeau.ops.documentation.parameter_table import describe, read_entries
from flambeau.ops.documentation.result_sentences import RESULTS
from flambeau.ops.interception.code_patching import swap_of

ENTRY = re.compile(r"^    \*{0,2}(\w+)(?: \(([^)]*(?:\([^)]*\)[^)]*)*)\))?: (.*)$", re.MULTILINE)


def public() -> list[tuple[str, types.FunctionType]]:
    """Every public function of the namespaces of operators, once; none of `torch.ops`."""
    seen = {}
    for space, names in PUBLIC.items():
        for name, function in names.items():
            plain = isinstance(function, types.FunctionType) and space not in ("aten", "prim")
            if plain and not name.startswith("_"):
                seen.setdefault(id(function), (f"{space}.{name}", function))
    return sorted(seen.values(), key=lambda pair: pair[0])


def section(text: str, title: str) -> str:
    """What stands below a title, up to the next one."""
    match = re.search(rf"^{title}:\n((?:    .*\n?)*)", text, re.MULTILINE)
    return match[1] if match else ""


@pytest.mark.parametrize(("name", "function"), [pytest.param(n, f, id=n) for n, f in public()])
def test_docstring_names_every_parameter_and_the_result(name, function):
    text = inspect.getdoc(function)
    entries = section(text, "Args") + section(text, "Keyword args")
    described = {match[1]: match[3] for match in ENTRY.finditer(entries)}
    assert list(described) == _parameters(function)
    for parameter, sentence in described.items():
        assert re.match(r"(?!Default).*\w{2}", sentence), f"nothing is said of {parameter}"
    assert re.fullmatch(r"    [^\n]+: [^\n]+\n?(        .*\n?)*", section(text, "Returns")), text
    for entry in section(text, "Raises").splitlines():
        assert re.match(r"    \w+: \S|        \S", entry), entry
    assert max(len(line) for line in entries.splitlines() or [""]) <= 100


def _parameters(function) -> list[str]:
    """Names in the order of the docstring: keyword-only ones last."""
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in sorted(parameters, key=lambda p: p.kind is p.KEYWORD_ONLY)]


@pytest.mark.parametrize(
    "table", [GENERAL, FAMILIES, RESULTS], ids=["general", "families", "results"]
)
def test_sentences_of_the_tables_end_with_a_full_stop(table):
    rows = [r for r in table.replace("\n    ", " ").splitlines() if r and r[0] != "["]
    assert rows
    for row in rows:
        name, kind, sentence = row.split(" | ")
        assert name and kind and sentence.endswith("."), row


def test_no_name_stands_twice_in_a_table():
    for text in [GENERAL, *FAMILIES.split("\n[")]:
        names = [line.split(" | ")[0] for line in text.splitlines() if " | " in line]
        assert len(set(names)) == len(names), sorted(n for n in names if names.count(n) > 1)


def test_every_sentence_is_used():
    """What no operator has any more leaves the tables."""
    supplied = {p for _, f in public() for p in inspect.signature(f).parameters}
    for name in [line.split(" | ")[0] for line in GENERAL.splitlines() if line]:
        assert name in supplied, name


def test_own_text_comes_first_and_its_entries_win():
    assert torch.softmax.__doc__.startswith("exp(input) divided by its sum along an axis.\n\n>>>")
    text = inspect.getdoc(torch.mm)
    assert "input (Tensor): The first matrix, (n, m)." in text
    assert text.count("Args:") == 1


def test_an_entry_of_the_block_replaces_type_and_sentence():
    own = read_entries(["    dim (int or str): The one.", "        Goes on.", "    eps: Small."])
    module = "flambeau.ops.reduction.reduce"
    assert describe("dim", module, own) == ("int or str", "The one. Goes on.")
    assert describe("eps", module, own) == ("float", "Small.")
    assert describe("strange", module, {}).sentence == ""


def test_errors_are_those_of_the_declaration_and_of_its_checks():
    text = inspect.getdoc(torch.bitwise_and)
    assert "TypeError: `input` and `other` must be Tensors or numbers." in text
    assert "RuntimeError: The shapes do not broadcast." in text
    assert "NotImplementedError: The dtype is floating or complex." in text
    raises = " ".join(section(inspect.getdoc(torch.cat), "Raises").split())
    assert "RuntimeError: Tensors must have same number of dimensions: got ... and ..." in raises


def test_refused_dtypes_are_refused_with_the_error_that_is_told():
    with pytest.raises(NotImplementedError):
        torch.bitwise_and(torch.ones(1), torch.ones(1))


def shape_keeping() -> list[str]:
    """Operators whose result, it is told, has the shape of `input`."""
    told = re.compile(r"    Tensor: Of the shape(?: and dtype)? of `input`[.;,]")
    other = re.compile("without|longer|less|long along|of length")
    names = []
    for name, operator in OPERATORS.items():
        if operator.kind is Kind.COMPOSITE or operator.samples is None or not operator.expose:
            continue
        returned = section(inspect.getdoc(operator.function) or "", "Returns")
        if told.match(returned) and not other.search(returned):
            names.append(name)
    return names


@pytest.mark.parametrize("name", shape_keeping())
def test_results_have_the_shape_that_is_told(name):
    operator = OPERATORS[name]
    told = " ".join(section(inspect.getdoc(operator.function), "Returns").split())
    for args, kwargs in operator.samples(np.random.default_rng(0)):
        args = [torch.as_tensor(a) if isinstance(a, np.ndarray | np.generic) else a for a in args]
        result = operator.function(*args, **kwargs)
        assert result.shape == args[0].shape, told
        if "and dtype" in told and "integers" not in told and args[0].is_floating_point():
            assert result.dtype == args[0].dtype, told


def test_a_docstring_is_composed_once_and_acts_as_the_whole_text():
    calls = []
    docstring = LazyDocstring("own", lambda: calls.append(0) or "own\n\nwhole")
    assert docstring.own == "own"
    assert not calls
    assert docstring == "own\n\nwhole"
    assert f"{docstring}" == "own\n\nwhole"
    assert ">" + docstring + "<" == ">own\n\nwhole<"
    assert "whole" in docstring
    assert docstring.splitlines()[-1] == "whole"
    assert type(pickle.loads(pickle.dumps(docstring))) is str
    assert copy.copy(docstring) == "own\n\nwhole"
    assert calls == [0]


def test_import_composes_nothing():
    program = (
        "import sys, flambeau; "
        "assert 'flambeau.ops.documentation.lazy_docstring' in sys.modules; "
        "print([n for n in sys.modules if n.startswith('flambeau.ops.documentation.') "
        "and not n.endswith(('lazy_docstring', 'stub_removal', 'source_listing'))])"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("function", [torch.bmm, torch.exp, torch.Tensor.contiguous])
def test_a_stub_hides_nothing_from_the_docstring(function: types.FunctionType) -> None:
    """Stubs stay on from the first sparse tensor on; texts may be read after that."""
    before = compose(function, "Own text.", ["torch.name"])
    swap = swap_of(function, lambda original, args, kwargs: original(*args, **kwargs))
    swap.start()
    try:
        assert compose(Stubs.take_off(function), "Own text.", ["torch.name"]) == before
    finally:
        swap.restore()
