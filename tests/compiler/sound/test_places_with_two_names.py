"""Places that code reaches under two names, names that look like others, and unseen contents."""

from __future__ import annotations

import pytest

from .source_scenes import compare_source

SCENES = {
    "nothing_from_two_places": (
        """
        c = types.SimpleNamespace(a=2.5, n=None)
        def f(x): return x * 2 if c.a is c.n else x * 3
        """,
        'c.n = c.a',
    ),
    "keywords_of_a_partial": (
        """
        def g(x, k=1.0): return x * k
        p = functools.partial(g)
        def f(x): return p(x)
        """,
        "p.keywords['k'] = 5.0",
    ),
    "the_state_of_a_partial": (
        """
        def g(*a): return sum(a)
        p = functools.partial(g, 1.0)
        def f(x): return p(x)
        """,
        'p.__setstate__((g, (1.0, 2.0), {}, None))',
    ),
    "the_state_of_an_empty_partial": (
        """
        def g(*a): return sum(a)
        p = functools.partial(g)
        def f(x): return p(x)
        """,
        'p.__setstate__((g, (2.0,), {}, None))',
    ),
    "an_attribute_and_an_entry": (
        """
        class O: pass
        o = O(); o.n = 1
        d = o.__dict__
        def f(x):
            d['n'] = d['n'] + 1
            o.n += 2
            return x
        """,
        'o.n = 3',
        'o.n',
    ),
    "an_attribute_and_all_entries": (
        """
        class O: pass
        o = O(); o.n = 1; d = o.__dict__
        def f(x):
            o.n += 1
            return x * sum(d.values())
        """,
        'o.n = 10',
        'o.n',
    ),
    "an_index_from_the_end": (
        """
        l = [0, 1, 2]
        def f(x):
            l[-1] += 1
            return x * l[2]
        """,
        'l[2] = 7',
        'list(l)',
    ),
    "a_key_called_length": (
        """
        d = {'length': 3.0}
        def f(x): return x * d['length'] + len(d)
        """,
        "d['z'] = 1",
    ),
    "a_key_called_length_after_the_length": (
        """
        d = {'length': 3.0}
        def f(x): return x * len(d) + d['length']
        """,
        "d['length'] = 5.0",
    ),
    "a_key_called_content": (
        """
        d = {'content': 2.0, 'b': 1.0}
        def f(x): return x * d['content'] + sum(d.values())
        """,
        "d['b'] = 6.0",
    ),
    "an_attribute_called_type": (
        """
        class A:
            def m(s): return 2.0
        class B(A):
            def m(s): return 3.0
        a = A(); a.type = 'x'
        def f(x):
            if a.type == 'x': x = x + 1
            return x * a.m()
        """,
        'a.__class__ = B',
    ),
    "an_attribute_called_type_after_the_type": (
        """
        class A: pass
        a = A(); a.type = 2.0
        def f(x): return x * a.type if isinstance(a, A) else x
        """,
        'a.type = 9.0',
    ),
    "an_attribute_called_type_after_a_missing_one": (
        """
        class A: pass
        a = A(); a.type = 2.0
        def f(x): return x * getattr(a, 'zz', 1.0) * a.type
        """,
        'a.type = 9.0',
    ),
    "a_list_that_can_be_called": (
        """
        class C(list):
            def __call__(self): return 1
        c = C([1.0])
        def f(x): return x * len(c) + sum(c)
        """,
        'c.append(5.0)',
    ),
    "the_truth_of_a_list_that_can_be_called": (
        """
        class C(list):
            def __call__(self): return 1
        c = C([])
        def f(x): return (x * 2 if c else x) + (5 in c)
        """,
        'c.append(5)',
    ),
    "a_set_that_can_be_called": (
        """
        class C(set):
            def __call__(self): return 1
        c = C([1])
        def f(x): return x * len(c) + (7 in c)
        """,
        'c.add(7)',
    ),
    "stars_of_a_list_that_can_be_called": (
        """
        class C(list):
            def __call__(self): return 1
        c = C([1.0])
        def f(x): return x + sum([*c]) + max(*c, 0)
        """,
        'c.append(5.0)',
    ),
    "a_module_that_computes": (
        """
        class PM(types.ModuleType):
            @property
            def k(s): log.append(1); return 3.0
        log = []
        mod = types.ModuleType('pm'); mod.k = 2.0
        def f(x): return x * mod.k
        """,
        'mod.__class__ = PM',
    ),
    "a_name_from_a_submodule": (
        """
        def make(name, **values):
            module = sys.modules[name] = types.ModuleType(name)
            vars(module).update(values)
            return module
        m = make('pkg_of_scene.part', k=2.0)
        make('pkg_of_scene', k=5.0, part=m, __path__=[])
        def f(x):
            from pkg_of_scene.part import k
            return x * k
        """,
        'm.k = 9.0',
    ),
}


@pytest.mark.parametrize("name", SCENES)
def test_a_place_that_changes_under_another_name(name: str) -> None:
    compare_source(*SCENES[name])
