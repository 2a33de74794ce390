"""Special methods that a class gets after a step was recorded, where C code did without them."""

from __future__ import annotations

import pytest

from .source_scenes import compare_source

SCENES = {
    "addition_in_place": (
        """
        class A:
            def __init__(s): s.v = 1.0
            def __add__(s, o): r = A(); r.v = s.v + o; return r
        def f(x): a = A(); a += 1; return x * a.v
        """,
        'def ia(s, o): s.v = 50.0; return s\nA.__iadd__ = ia',
    ),
    "addition_from_the_right": (
        """
        class A:
            def __add__(s, o): return 2.0
        class B(A): pass
        def f(x): return x * (A() + B())
        """,
        'B.__radd__ = lambda s, o: 9.0',
    ),
    "equality": (
        """
        class A: pass
        def f(x): return x * 2 if A() == A() else x * 3
        """,
        'A.__eq__ = lambda s, o: True',
    ),
    "inequality": (
        """
        class A:
            def __eq__(s, o): return True
        def f(x): return x * 2 if A() != A() else x * 3
        """,
        'A.__ne__ = lambda s, o: True',
    ),
    "a_reflected_order": (
        """
        class A:
            def __lt__(s, o): return True
        class B(A): pass
        def f(x): return x * 2 if A() < B() else x * 3
        """,
        'B.__gt__ = lambda s, o: False',
    ),
    "equality_of_a_subclass": (
        """
        class A:
            def __eq__(s, o): return True
        class B(A): pass
        def f(x): return x * 2 if A() == B() else x * 3
        """,
        'B.__eq__ = lambda s, o: False',
    ),
    "truth": (
        """
        class A: pass
        def f(x): a = A(); return x * 2 if a else x * 3
        """,
        'A.__bool__ = lambda s: False',
    ),
    "length_as_truth": (
        """
        class A: pass
        def f(x): return x * 2 if not A() else x * 3
        """,
        'A.__len__ = lambda s: 0',
    ),
    "truth_instead_of_length": (
        """
        class A:
            def __len__(s): return 1
        def f(x): return x * 2 if A() else x * 3
        """,
        'A.__bool__ = lambda s: False',
    ),
    "truth_by_call": (
        """
        class A: pass
        def f(x): return x * 2 if bool(A()) else x * 3
        """,
        'A.__bool__ = lambda s: False',
    ),
    "truth_by_all": (
        """
        class A: pass
        def f(x): return x * 2 if all([A()]) and any([A(), 0]) else x * 3
        """,
        'A.__bool__ = lambda s: False',
    ),
    "truth_by_or": (
        """
        class A: k = 2.0
        def f(x): a = A() or None; return x * a.k if a is not None else x
        """,
        'A.__bool__ = lambda s: False',
    ),
    "truth_of_an_outside_object": (
        """
        class A: pass
        a = A()
        def f(x): return x * 2 if a else x * 3
        """,
        'A.__bool__ = lambda s: False',
    ),
    "membership": (
        """
        class A:
            def __iter__(s): return iter([1, 2])
        def f(x): return x * 2 if 2 in A() else x * 3
        """,
        'A.__contains__ = lambda s, v: False',
    ),
    "iteration": (
        """
        class A:
            def __getitem__(s, i):
                if i > 2: raise IndexError
                return float(i)
        def f(x):
            for v in A(): x = x + v
            return x
        """,
        'A.__iter__ = lambda s: iter([9.0])',
    ),
    "text": (
        """
        class A:
            def __repr__(s): return 'ab'
        def f(x): return x * len(str(A())), f'{A()}'
        """,
        "A.__str__ = lambda s: 'abcde'",
    ),
    "a_format": (
        """
        class A:
            def __str__(s): return 'ab'
        def f(x): return x, f'{A():}', format(A())
        """,
        "A.__format__ = lambda s, p: 'zz'",
    ),
    "reversal": (
        """
        class A:
            def __len__(s): return 2
            def __getitem__(s, i): return float(i + 1)
        def f(x): return x * list(reversed(A()))[0]
        """,
        'A.__reversed__ = lambda s: iter([9.0])',
    ),
    "numbers": (
        """
        class A:
            def __index__(s): return 2
        def f(x): return x * float(A()) + int(A()) + [1, 2, 3][A()]
        """,
        'A.__float__ = lambda s: 9.0; A.__int__ = lambda s: 7',
    ),
    "a_call": (
        """
        class A: pass
        def f(x): return x * 2 if callable(A()) else x
        """,
        'A.__call__ = lambda s: 1',
    ),
    "deletion": (
        """
        class A: pass
        def f(x):
            a = A(); a.k = 2.0; del a.k
            return x * (3 if hasattr(a, 'k') else 4)
        """,
        'A.__delattr__ = lambda s, n: None',
    ),
    "an_instance_check": (
        """
        class M(type): pass
        class A(metaclass=M): pass
        o = A()
        class B(metaclass=M): pass
        def f(x): return x * 2 if isinstance(o, B) else x * 3
        """,
        'M.__instancecheck__ = lambda cls, o: True',
    ),
    "a_subclass_check": (
        """
        class M(type): pass
        class A(metaclass=M): pass
        class B(metaclass=M): pass
        def f(x): return x * 2 if issubclass(A, B) else x * 3
        """,
        'M.__subclasscheck__ = lambda cls, o: True',
    ),
}


@pytest.mark.parametrize("name", SCENES)
def test_a_special_method_that_comes(name: str) -> None:
    compare_source(*SCENES[name])
