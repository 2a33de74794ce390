"""What a step finds on classes: through new objects, `super()`, metaclasses and descriptors."""

from __future__ import annotations

import pytest

from .source_scenes import compare_source

SCENES = {
    "a_class_attribute_of_a_new_object": (
        """
        class A: k = 2.0
        def f(x): a = A(); return x * a.k
        """,
        'A.k = 5.0',
    ),
    "an_attribute_of_a_base_of_a_new_object": (
        """
        class B: k = 2.0
        class A(B): pass
        def f(x): a = A(); return x * a.k
        """,
        'A.k = 5.0',
    ),
    "a_list_of_the_class_of_a_new_object": (
        """
        class A: l = [1.0]
        def f(x):
            a = A()
            for v in a.l: x = x * v
            return x
        """,
        'A.l.append(7.0)',
    ),
    "a_class_variable_of_a_dataclass": (
        """
        @dataclasses.dataclass
        class A:
            k: float = 2.0
            t: typing.ClassVar[float] = 3.0
        def f(x): a = A(); return x * a.k * a.t
        """,
        'A.t = 5.0',
    ),
    "an_attribute_that_an_instance_may_hide": (
        """
        class A:
            k = 2.0
            def __init__(s, own):
                if own: s.k = 3.0
        c = types.SimpleNamespace(own=False)
        def f(x): return x * A(c.own).k
        """,
        'A.k = 5.0',
    ),
    "a_new_object_as_an_argument": (
        """
        class A: k = 2.0
        def g(x, a): return x * a.k
        def f(x): return g(x, A())
        """,
        'A.k = 5.0',
    ),
    "a_class_attribute_of_a_named_tuple": (
        """
        class P(typing.NamedTuple):
            a: typing.Any
        P.k = 2.0
        def f(x): p = P(x); return p.a * p.k
        """,
        'P.k = 5.0',
    ),
    "a_method_of_a_named_tuple": (
        """
        class P(typing.NamedTuple):
            a: typing.Any
            b: float = 2.0
            def m(self): return self.a * self.b
        def f(x): return P(x).m()
        """,
        'P.m = lambda self: self.a - self.b',
    ),
    "an_init_of_a_named_tuple": (
        """
        log = []
        P = collections.namedtuple('P', 'a b')
        class Q(P):
            def __init__(s, *a): log.append(len(a))
        def f(x): q = Q(x, 2.0); return q.a * q.b
        """,
        'pass',
    ),
    "an_init_that_comes_to_a_named_tuple": (
        """
        log = []
        class P(typing.NamedTuple):
            a: typing.Any
            b: float = 2.0
        class Q(P): pass
        def f(x): q = Q(x); return q.a * q.b
        """,
        'def init(s, *a): log.append(len(a))\nQ.__init__ = init',
    ),
    "a_field_that_a_property_hides": (
        """
        P = collections.namedtuple('P', 'a b')
        class Q(P): pass
        def f(x): q = Q(x, 2.0); return q.a * q.b
        """,
        'Q.b = property(lambda s: 9.0)',
    ),
    "an_attribute_of_an_enum_class": (
        """
        class E(enum.Enum): A = 1; B = 2
        E.scale = 2.0
        c = types.SimpleNamespace(m=E.A)
        def f(x): return x * c.m.scale
        """,
        'E.scale = 9.0',
    ),
    "an_attribute_that_comes_to_a_member": (
        """
        class E(enum.Enum): A = 1; B = 2
        E.scale = 2.0
        c = types.SimpleNamespace(m=E.A)
        def f(x): return x * c.m.scale
        """,
        'E.A.scale = 9.0',
    ),
    "a_property_of_a_metaclass": (
        """
        log = []
        class M(type):
            @property
            def k(cls): log.append(1); return 3.0
        class A(metaclass=M): k = 2.0
        def f(x): return x * A.k
        """,
        'M.k = property(lambda cls: 7.0)',
    ),
    "a_lookup_of_a_metaclass": (
        """
        log = []
        class M(type):
            def __getattribute__(cls, n):
                if n == 'k': log.append(n)
                return type.__getattribute__(cls, n)
        class A(metaclass=M): k = 2.0
        def f(x): return x * A.k
        """,
        'A.k = 5.0',
    ),
    "a_property_of_the_class": (
        """
        log = []
        class cp:
            def __init__(s, f): s.f = f
            def __get__(s, o, t=None): log.append('g'); return s.f(t)
        class A:
            v = 2.0
            @cp
            def k(cls): return cls.v
        def f(x): return x * A.k
        """,
        'A.v = 5.0',
    ),
    "a_counting_property_of_the_class": (
        """
        class cp:
            n = 0
            def __get__(s, o, t=None): cp.n += 1; return float(cp.n)
        class A: k = cp()
        def f(x): return x * A.k
        """,
        'pass',
        'cp.n',
    ),
    "a_class_method_of_a_property": (
        """
        log = []
        class A:
            v = 2.0
            @classmethod
            @property
            def k(cls): log.append(1); return cls.v
        def f(x): return x * A.k
        """,
        'A.v = 4.0',
    ),
    "a_property_of_super": (
        """
        log = []
        class A:
            @property
            def k(s): log.append(1); return s.v
        class B(A):
            v = 2.0
            def get(s): return super().k
        b = B()
        def f(x): return x * b.get()
        """,
        'b.v = 5.0',
    ),
    "a_descriptor_of_super": (
        """
        log = []
        class D:
            def __get__(s, o, t=None): log.append(1); return 2.0
        class A: k = D()
        class B(A):
            def get(s): return super().k
        b = B()
        def f(x): return x * b.get()
        """,
        'A.k = 7.0',
    ),
    "a_base_between": (
        """
        class A: k = 2.0
        class B(A): pass
        class C(B):
            k = 3.0
            def get(s): return super().k
        b = C()
        def f(x): return x * b.get()
        """,
        'B.k = 7.0',
    ),
    "a_method_of_a_base_between": (
        """
        class A:
            def k(s, x): return x * 2.0
        class B(A): pass
        class C(B):
            def k(s, x): return super().k(x) + 1
        b = C()
        def f(x): return b.k(x)
        """,
        'B.k = lambda s, x: x * 9',
    ),
    "static_and_class_methods_of_super": (
        """
        class A:
            v = 2.0
            @staticmethod
            def st(x): return x * 2
            @classmethod
            def cl(cls, x): return x * cls.v
        class B(A):
            def get(s, x): return super().st(x) + super().cl(x)
        b = B()
        def f(x): return b.get(x)
        """,
        'B.v = 7.0',
    ),
    "a_list_of_super": (
        """
        class A: l = [1.0]
        class B(A):
            l = []
            def get(s): return sum(super().l)
        b = B()
        def f(x): return x * b.get()
        """,
        'A.l.append(5.0)',
    ),
    "a_lazy_attribute": (
        """
        log = []
        class lazy:
            def __init__(s, f): s.f = f
            def __set_name__(s, o, n): s.n = n
            def __get__(s, o, t=None):
                log.append('get')
                if o is None: return s
                v = s.f(o); o.__dict__[s.n] = v; return v
        class A:
            k0 = 2.0
            @lazy
            def k(s): return s.k0
        a = A()
        def f(x): return x * a.k
        """,
        'del a.k; A.k0 = 5.0',
    ),
}


@pytest.mark.parametrize("name", SCENES)
def test_a_class_that_changes(name: str) -> None:
    compare_source(*SCENES[name])
