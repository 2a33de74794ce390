"""How Python finds names and attributes: classes, descriptors, properties, metaclasses, modules."""

from __future__ import annotations

import abc
import builtins
import collections.abc
import dataclasses
import enum
import functools
import importlib
import operator
import sys
import types
import typing

import pytest

import flambeau as torch

from .scenario import compare
from .state_scenes import WHEN, Scenes, put

SCENES = Scenes()
scene = SCENES.add


def namespace(**values):
    return types.SimpleNamespace(**values)


def delete(owner, name):
    """A change that deletes an attribute."""
    return lambda: delattr(owner, name)


def module_of(name, source):
    """A module of a source."""
    module = types.ModuleType(name)
    exec(compile(source, f"{name}.py", "exec"), module.__dict__)
    return module


# ------------------------------------------------------------------------------ attributes


@scene
def an_attribute_that_comes_to_the_class():
    class Config:
        pass

    config = Config()
    return lambda: getattr(config, "scale", 1.0), lambda: setattr(Config, "scale", 3.0)


@scene
def an_attribute_that_comes_to_a_base_class():
    class Base:
        pass

    class Config(Base):
        pass

    config = Config()
    return lambda: 3.0 if hasattr(config, "scale") else 1.0, lambda: setattr(Base, "scale", 3.0)


@scene
def a_getattr_that_is_patched():
    class Config:
        def __getattr__(self, name):
            return 2.0

    config = Config()
    return lambda: config.scale, lambda: setattr(Config, "__getattr__", lambda self, name: 3.0)


@scene
def a_getattr_that_comes():
    class Config:
        pass

    config = Config()

    def factor():
        try:
            return config.scale
        except AttributeError:
            return 1.0

    return factor, lambda: setattr(Config, "__getattr__", lambda self, name: 3.0)


@scene
def a_getattribute_that_comes():
    class Config:
        scale = 2.0

    config = Config()
    return (lambda: config.scale,
            lambda: setattr(Config, "__getattribute__", lambda self, name: 3.0))


@scene
def an_attribute_that_hides_getattr():
    class Config:
        def __getattr__(self, name):
            return 2.0

    config = Config()
    return lambda: config.scale, lambda: setattr(config, "scale", 5.0)


@scene
def a_class_attribute_that_hides_getattr():
    class Config:
        def __getattr__(self, name):
            return 2.0

    config = Config()
    return lambda: config.scale, lambda: setattr(Config, "scale", 5.0)


@scene
def the_code_of_a_getter():
    class Config:
        @property
        def scale(self):
            return 2.0

    config = Config()

    def other(self):
        return 3.0

    return lambda: config.scale, lambda: setattr(Config.scale.fget, "__code__", other.__code__)


@scene
def a_property_that_comes_over_an_attribute():
    class Config:
        def __init__(self):
            self.scale = 2.0

    config = Config()
    return lambda: config.scale, lambda: setattr(Config, "scale", property(lambda self: 7.0))


@scene
def a_property_that_reads_a_closure():
    value = [2.0]

    class Config:
        @property
        def scale(self):
            return value[0]

    config = Config()
    return lambda: config.scale, lambda: value.__setitem__(0, 4.0)


@scene
def a_cached_property():
    class Config:
        base = 2.0

        @functools.cached_property
        def scale(self):
            return self.base

    config = Config()

    def change():
        Config.base = 4.0
        del config.__dict__["scale"]

    return lambda: config.scale, change


@scene
def a_slot_that_is_deleted():
    class Config:
        __slots__ = ("scale",)

    config = Config()
    config.scale = 2.0

    def factor():
        try:
            return config.scale
        except AttributeError:
            return 5.0

    return factor, delete(config, "scale")


@scene
def an_attribute_that_is_deleted():
    config = namespace(scale=2.0)

    def factor():
        try:
            return config.scale
        except AttributeError:
            return 5.0

    return factor, delete(config, "scale")


@scene
def an_attribute_that_is_missing_raises():
    config = namespace(scale=2.0)
    return lambda: config.scale, delete(config, "scale")


@scene
def an_attribute_that_falls_back_to_the_class():
    class Config:
        scale = 2.0

    config = Config()
    config.scale = 3.0
    return lambda: config.scale, delete(config, "scale")


@scene
def another_type_of_number():
    config = namespace(scale=2)
    return lambda: config.scale / 4 if isinstance(config.scale, int) else 9.0, put(
        config, "scale", 2.0)


@scene
def true_instead_of_one():
    config = namespace(scale=1)
    return lambda: 5.0 if config.scale is True else 1.0, put(config, "scale", True)


@scene
def negative_zero():
    config = namespace(scale=0.0)
    return (None, put(config, "scale", -0.0), lambda x: torch.ones(2) / (x[0, 0] * 0 + config.scale)
            if config.scale == 0 else x)


@scene
def a_nan():
    config = namespace(scale=float("nan"))
    return lambda: 2.0 if config.scale != config.scale else 1.0, put(config, "scale", 1.0)


@scene
def a_subclass_of_float():
    class Scale(float):
        @property
        def twice(self):
            return self * 2

    config = namespace(scale=Scale(2.0))
    return lambda: config.scale.twice, put(config, "scale", Scale(3.0))


@scene
def a_subclass_of_int_with_state():
    class Scale(int):
        pass

    scale = Scale(2)
    scale.more = 1.0
    return lambda: scale + scale.more, lambda: setattr(scale, "more", 3.0)


@scene
def a_subclass_of_str():
    class Name(str):
        pass

    name = Name("a")
    name.scale = 2.0
    return lambda: name.scale, lambda: setattr(name, "scale", 3.0)


@scene
def an_instance_dict_replaced():
    class Config:
        pass

    config = Config()
    config.scale = 2.0
    return lambda: config.scale, lambda: setattr(config, "__dict__", {"scale": 4.0})


@scene
def a_write_past_the_class():
    class Config:
        pass

    config = Config()
    config.scale = 2.0
    return lambda: config.scale, lambda: config.__dict__.update(scale=4.0)


@scene
def a_write_by_object_setattr():
    @dataclasses.dataclass(frozen=True)
    class Config:
        scale: float = 2.0

    config = Config()
    return lambda: config.scale, lambda: object.__setattr__(config, "scale", 4.0)


@scene
def bases_exchanged():
    class A:
        scale = 2.0

    class B:
        scale = 3.0

    class Config(A):
        pass

    config = Config()
    return lambda: config.scale, lambda: setattr(Config, "__bases__", (B,))


@scene
def a_method_of_exchanged_bases():
    class A:
        def scale(self):
            return 2.0

    class B:
        def scale(self):
            return 3.0

    class Config(A):
        pass

    config = Config()
    return lambda: config.scale(), lambda: setattr(Config, "__bases__", (B,))


@scene
def a_super_call_of_exchanged_bases():
    class A:
        def scale(self):
            return 2.0

    class B:
        def scale(self):
            return 3.0

    class Config(A):
        def scale(self):
            return super().scale() + 1

    config = Config()
    return lambda: config.scale(), lambda: setattr(Config, "__bases__", (B,))


@scene
def an_attribute_of_a_metaclass():
    class Meta(type):
        @property
        def scale(cls):
            return cls.base

    class Config(metaclass=Meta):
        base = 2.0

    return lambda: Config.scale, lambda: setattr(Config, "base", 4.0)


@scene
def a_getattr_of_a_metaclass():
    table = {"scale": 2.0}

    class Meta(type):
        def __getattr__(cls, name):
            return table[name]

    class Config(metaclass=Meta):
        pass

    return lambda: Config.scale, lambda: table.update(scale=4.0)


@scene
def a_getitem_of_a_metaclass():
    table = {"scale": 2.0}

    class Meta(type):
        def __getitem__(cls, name):
            return table[name]

    class Config(metaclass=Meta):
        pass

    return lambda: Config["scale"], lambda: table.update(scale=4.0)


@scene
def a_class_getitem():
    table = {"scale": 2.0}

    class Config:
        def __class_getitem__(cls, name):
            return table[name]

    return lambda: Config["scale"], lambda: table.update(scale=4.0)


@scene
def an_instance_check_of_a_metaclass():
    known = [int]

    class Meta(type):
        def __instancecheck__(cls, x):
            return type(x) in known

    class Number(metaclass=Meta):
        pass

    return lambda: 2.0 if isinstance(3, Number) else 1.0, lambda: known.clear()


@scene
def an_abstract_class_that_registers():
    class Shape(abc.ABC):
        pass

    class Square:
        pass

    square = Square()
    return (lambda: 2.0 if isinstance(square, Shape) else 1.0, lambda: Shape.register(Square))


@scene
def a_subclass_check_that_registers():
    class Shape(abc.ABC):
        pass

    class Square:
        pass

    return (lambda: 2.0 if issubclass(Square, Shape) else 1.0, lambda: Shape.register(Square))


@scene
def a_runtime_protocol():
    @typing.runtime_checkable
    class Scaled(typing.Protocol):
        scale: float

    config = namespace()
    return (lambda: 2.0 if isinstance(config, Scaled) else 1.0,
            lambda: setattr(config, "scale", 1.0))


@scene
def a_collection_by_its_methods():
    class Bag:
        pass

    bag = Bag()
    return (lambda: 2.0 if isinstance(bag, collections.abc.Sized) else 1.0,
            lambda: setattr(Bag, "__len__", lambda self: 3))


@scene
def callable_or_not():
    class Config:
        pass

    config = Config()
    return (lambda: 2.0 if callable(config) else 1.0,
            lambda: setattr(Config, "__call__", lambda self: 3))


@scene
def a_truth_that_comes():
    class Config:
        pass

    config = Config()
    return (lambda: 2.0 if config else 1.0,
            lambda: setattr(Config, "__bool__", lambda self: False))


@scene
def a_length_that_comes():
    class Config:
        pass

    config = Config()
    return (lambda: 2.0 if config else 1.0,
            lambda: setattr(Config, "__len__", lambda self: 0))


@scene
def an_equality_that_comes():
    class Config:
        pass

    a, b = Config(), Config()
    return (lambda: 2.0 if a == b else 1.0,
            lambda: setattr(Config, "__eq__", lambda self, other: True))


@scene
def a_reflected_operator_that_comes():
    class Scale:
        def __add__(self, other):
            return 2.0

    class More(Scale):
        pass

    a, b = Scale(), More()
    return lambda: a + b, lambda: setattr(More, "__radd__", lambda self, other: 5.0)


@scene
def an_operator_that_is_patched():
    class Scale:
        def __mul__(self, other):
            return 2.0

    a = Scale()
    return lambda: a * 3, lambda: setattr(Scale, "__mul__", lambda self, other: 5.0)


@scene
def an_iteration_that_is_patched():
    class Bag:
        def __iter__(self):
            yield 2.0

    def other(self):
        yield 5.0

    bag = Bag()
    return lambda: sum(bag), lambda: setattr(Bag, "__iter__", other)


@scene
def a_containment_that_is_patched():
    class Bag:
        def __contains__(self, x):
            return False

    bag = Bag()
    return (lambda: 2.0 if 1 in bag else 1.0,
            lambda: setattr(Bag, "__contains__", lambda self, x: True))


@scene
def an_index_of_an_object():
    class At:
        where = 0

        def __index__(self):
            return self.where

    at, values = At(), [2.0, 3.0]
    return lambda: values[at], lambda: setattr(at, "where", 1)


@scene
def a_float_of_an_object():
    class Scale:
        value = 2.0

        def __float__(self):
            return self.value

    scale = Scale()
    return lambda: float(scale), lambda: setattr(scale, "value", 3.0)


@scene
def a_hash_of_an_object():
    class Key:
        def __init__(self, value):
            self.value = value

        def __hash__(self):
            return 1

        def __eq__(self, other):
            return self.value == other.value

    key = Key(1)
    table = {Key(1): 2.0, Key(2): 3.0}
    return lambda: table[key], lambda: setattr(key, "value", 2)


@scene
def a_format_of_an_object():
    class Scale:
        value = 2.0

        def __format__(self, spec):
            return str(self.value)

    scale = Scale()
    return lambda: float(f"{scale}"), lambda: setattr(scale, "value", 3.0)


@scene
def an_attribute_inside_a_format():
    class Scale:
        value = 2.0

        def __call__(self):
            return 1

    scale = Scale()
    return lambda: float("{0.value}".format(scale)), lambda: setattr(scale, "value", 3.0)


@scene
def an_attribute_of_a_function_inside_a_format():
    def scale():
        return 1

    scale.value = 2.0
    return lambda: float("{0.value}".format(scale)), lambda: setattr(scale, "value", 3.0)


@scene
def a_repr_of_an_object():
    class Scale:
        value = 2.0

        def __repr__(self):
            return str(self.value)

    scale = Scale()
    return lambda: float(repr(scale)), lambda: setattr(scale, "value", 3.0)


@scene
def a_data_descriptor_on_a_class():
    class Field:
        def __get__(self, owner, kind):
            return owner._scale

        def __set__(self, owner, value):
            owner._scale = value

    class Config:
        scale = Field()

    config = Config()
    config._scale = 2.0
    return lambda: config.scale, lambda: setattr(config, "scale", 3.0)


@scene
def a_descriptor_whose_get_comes():
    class Field:
        pass

    class Config:
        scale = Field()

    config = Config()
    Config.scale.value = 2.0

    def factor():
        found = config.scale
        return found if isinstance(found, float) else 1.0

    return factor, lambda: setattr(Field, "__get__", lambda self, owner, kind=None: 4.0)


@scene
def a_method_wrapped_in_place():
    class Config:
        def scale(self):
            return 2.0

    config, old = Config(), Config.scale
    return lambda: config.scale(), lambda: setattr(Config, "scale", lambda self: old(self) + 1)


@scene
def defaults_of_a_method():
    class Config:
        def scale(self, value=2.0):
            return value

    config = Config()
    return lambda: config.scale(), lambda: setattr(Config.scale, "__defaults__", (5.0,))


@scene
def keyword_defaults_that_come():
    def scale(*, value=2.0):
        return value

    return lambda: scale(), lambda: setattr(scale, "__kwdefaults__", {"value": 5.0})


@scene
def defaults_that_come():
    def scale(value=None):
        return 2.0 if value is None else value

    return lambda: scale(), lambda: setattr(scale, "__defaults__", (5.0,))


@scene
def a_default_of_init():
    class Config:
        def __init__(self, value=2.0):
            self.value = value

    return lambda: Config().value, lambda: setattr(Config.__init__, "__defaults__", (5.0,))


@scene
def an_init_that_comes():
    class Config:
        value = 2.0

    def other(self):
        self.value = 5.0

    return lambda: Config().value, lambda: setattr(Config, "__init__", other)


@scene
def a_new_that_comes():
    class Config:
        value = 2.0

    def new(cls):
        made = object.__new__(cls)
        made.value = 5.0
        return made

    return lambda: Config().value, lambda: setattr(Config, "__new__", new)


@scene
def a_setattr_that_comes():
    class Config:
        def __init__(self):
            self.value = 2.0

    def other(self, name, value):
        self.__dict__[name] = value * 2

    return lambda: Config().value, lambda: setattr(Config, "__setattr__", other)


@scene
def a_class_of_a_function_local():
    base = 2.0

    def factor():
        class Config:
            value = base

        return Config().value

    def change():
        nonlocal base
        base = 4.0

    return factor, change


@scene
def defaults_of_a_namedtuple():
    Point = typing.NamedTuple("Point", [("x", float)])
    Point.__new__.__defaults__ = (2.0,)
    return lambda: Point().x, lambda: setattr(Point.__new__, "__defaults__", (5.0,))


@scene
def a_default_of_a_dataclass():
    @dataclasses.dataclass
    class Config:
        scale: float = 2.0

    return lambda: Config().scale, lambda: setattr(Config.__init__, "__defaults__", (5.0,))


@scene
def a_default_factory_of_a_dataclass():
    value = [2.0]

    @dataclasses.dataclass
    class Config:
        scale: list = dataclasses.field(default_factory=lambda: [value[0]])

    return lambda: Config().scale[0], lambda: value.__setitem__(0, 5.0)


@scene
def a_post_init_of_a_dataclass():
    value = [2.0]

    @dataclasses.dataclass
    class Config:
        scale: float = 1.0

        def __post_init__(self):
            self.scale = value[0]

    return lambda: Config().scale, lambda: value.__setitem__(0, 5.0)


@scene
def fields_of_a_dataclass():
    @dataclasses.dataclass
    class Config:
        a: float = 1.0
        b: float = 2.0

    config = Config()
    return lambda: sum(dataclasses.asdict(config).values()), lambda: setattr(config, "b", 5.0)


# ----------------------------------------------------------------------------------- enums


class Mode(enum.Enum):
    A = 1.0
    B = 2.0


class Flags(enum.Flag):
    A = enum.auto()
    B = enum.auto()


class Lists(enum.Enum):
    A = [1.0]


@scene
def the_value_of_an_enum():
    config = namespace(mode=Mode.A)
    return lambda: config.mode.value, lambda: setattr(config, "mode", Mode.B)


@scene
def the_list_of_an_enum():
    def change():
        Lists.A.value[0] = 4.0
        return lambda: Lists.A.value.__setitem__(0, 1.0) and None

    return lambda: Lists.A.value[0], change


@scene
def an_attribute_put_on_an_enum():
    Mode.A.scale = 2.0

    return lambda: Mode.A.scale, lambda: setattr(Mode.A, "scale", 3.0)


@scene
def the_private_value_of_an_enum():
    class Own(enum.Enum):
        A = 2.0

    return lambda: Own.A.value, lambda: setattr(Own.A, "_value_", 3.0)


@scene
def a_method_of_an_enum():
    class Own(enum.Enum):
        A = 2.0

        def scale(self):
            return self.value

    return lambda: Own.A.scale(), lambda: setattr(Own, "scale", lambda self: 4.0)


@scene
def an_enum_by_its_name():
    config = namespace(name="A")
    return lambda: Mode[config.name].value, lambda: setattr(config, "name", "B")


@scene
def an_enum_by_its_value():
    config = namespace(value=1.0)
    return lambda: Mode(config.value).value, lambda: setattr(config, "value", 2.0)


@scene
def a_flag_in_flags():
    config = namespace(flags=Flags.A)
    return (lambda: 2.0 if Flags.B in config.flags else 1.0,
            lambda: setattr(config, "flags", Flags.A | Flags.B))


# ------------------------------------------------------------------------- names and modules

VALUE = 2.0


@scene
def a_global_that_is_deleted():
    name = sys.modules[__name__]

    def factor():
        try:
            return VALUE
        except NameError:
            return 5.0

    def change():
        del name.VALUE
        return lambda: setattr(name, "VALUE", 2.0)

    return factor, change


@scene
def a_global_that_hides_a_builtin():
    name = sys.modules[__name__]

    def change():
        name.abs = lambda x: 5.0
        return lambda: delattr(name, "abs")

    return lambda: abs(-2.0), change


@scene
def a_builtin_that_comes():
    def factor():
        try:
            return scale_of_nobody
        except NameError:
            return 1.0

    def change():
        builtins.scale_of_nobody = 3.0
        return lambda: delattr(builtins, "scale_of_nobody")

    return factor, change


@scene
def a_module_attribute():
    module = module_of("settings", "scale = 2.0")
    return lambda: module.scale, lambda: setattr(module, "scale", 4.0)


@scene
def a_getattr_of_a_module():
    module = module_of("settings", "table = {'scale': 2.0}\ndef __getattr__(name): "
                       "return table[name]")
    return lambda: module.scale, lambda: module.table.update(scale=4.0)


@scene
def a_module_attribute_that_hides_getattr():
    module = module_of("settings", "def __getattr__(name): return 2.0")
    return lambda: module.scale, lambda: setattr(module, "scale", 4.0)


@scene
def a_function_of_a_module_run_again():
    module = module_of("settings", "def scale(): return 2.0")

    def change():
        exec("def scale(): return 4.0", module.__dict__)

    return lambda: module.scale(), change


@scene
def a_global_of_another_module():
    module = module_of("settings", "value = 2.0\ndef scale(): return value")
    return lambda: module.scale(), lambda: setattr(module, "value", 4.0)


@scene
def a_reloaded_module(tmp=[]):
    import tempfile
    from pathlib import Path

    folder = Path(tempfile.mkdtemp())
    file = folder / "reloaded_settings_of_a_step.py"
    file.write_text("def scale(): return 2.0\n")
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    module = importlib.import_module("reloaded_settings_of_a_step")
    importlib.reload(module)

    def change():
        file.write_text("def scale(): return 4.0 + 0\n")
        importlib.invalidate_caches()
        importlib.reload(module)
        sys.dont_write_bytecode = before
        return lambda: sys.path.remove(str(folder))

    return lambda: module.scale(), change


@scene
def a_module_exchanged_in_sys_modules():
    first = module_of("own_settings_of_a_step", "scale = 2.0")
    sys.modules["own_settings_of_a_step"] = first

    def factor():
        import own_settings_of_a_step

        return own_settings_of_a_step.scale

    def change():
        sys.modules["own_settings_of_a_step"] = module_of("own_settings_of_a_step", "scale = 4.0")

    return factor, change


@scene
def a_name_from_a_module():
    sys.modules["settings_of_a_step"] = module_of("settings_of_a_step", "scale = 2.0")

    def factor():
        from settings_of_a_step import scale

        return scale

    return factor, lambda: setattr(sys.modules["settings_of_a_step"], "scale", 4.0)


@scene
def a_class_of_a_module_exchanged():
    module = types.ModuleType("settings")
    module.scale = 2.0

    class Lazy(types.ModuleType):
        @property
        def scale(self):
            return 4.0

    return lambda: module.scale, lambda: setattr(module, "__class__", Lazy)


@scene
def globals_written_by_exec():
    space = {"__name__": "own", "scale": 2.0}
    exec("def factor(): return scale", space)
    return space["factor"], lambda: exec("scale = 4.0", space)


@scene
def builtins_of_a_function():
    space = {"__builtins__": {"scale": 2.0}}
    exec("def factor(): return scale", space)
    return space["factor"], lambda: space["__builtins__"].update(scale=4.0)


@scene
def a_list_of_functions():
    steps = [lambda v: v + 1, lambda v: v * 2]

    def factor():
        value = 1.0
        for function in steps:
            value = function(value)
        return value

    return factor, lambda: steps.reverse()


@scene
def a_function_by_its_name():
    class Config:
        def one(self):
            return 2.0

        def two(self):
            return 3.0

    config, choice = Config(), namespace(name="one")
    return (lambda: getattr(config, choice.name)(), lambda: setattr(choice, "name", "two"))


@scene
def a_method_caller():
    class Config:
        def scale(self):
            return 2.0

    config, call = Config(), operator.methodcaller("scale")
    return lambda: call(config), lambda: setattr(Config, "scale", lambda self: 3.0)


@scene
def a_partial_method():
    class Config:
        def scale(self, value):
            return value

        twice = functools.partialmethod(scale, 2.0)

    config = Config()
    return lambda: config.twice(), lambda: setattr(Config, "scale", lambda self, value: 5.0)


@scene
def a_single_dispatch():
    @functools.singledispatch
    def scale(x):
        return 2.0

    return lambda: scale(1), lambda: scale.register(int, lambda x: 4.0) and None


@scene
def a_bound_method_kept():
    class Config:
        value = 2.0

        def scale(self):
            return self.value

    config = Config()
    bound = config.scale
    return lambda: bound(), lambda: setattr(config, "value", 3.0)


@scene
def a_cell_written_from_outside():
    value = 2.0

    def factor():
        return value

    return factor, lambda: setattr(factor.__closure__[0], "cell_contents", 3.0)


@scene
def a_cell_that_is_emptied():
    value = 2.0

    def factor():
        try:
            return value
        except NameError:
            return 5.0

    def change():
        nonlocal value
        del value

    return factor, change


@scene
def an_annotation():
    def scale(x: 2.0):
        return x

    return (lambda: 2.0 if scale.__annotations__["x"] in ("2.0", 2.0) else 4.0,
            lambda: scale.__annotations__.update(x=4.0))


@scene
def a_docstring_and_a_name():
    def scale():
        """2.0"""

    return lambda: float(scale.__doc__), lambda: setattr(scale, "__doc__", "4.0")


@scene
def the_name_of_a_class():
    class A:
        pass

    a = A()
    return (lambda: 2.0 if type(a).__name__ == "A" else 4.0, lambda: setattr(A, "__name__", "B"))


@scene
def the_dict_of_a_class():
    class A:
        scale = 2.0

    return lambda: vars(A)["scale"], lambda: setattr(A, "scale", 4.0)


@scene
def vars_of_an_object():
    config = namespace(a=1.0, b=2.0)
    return lambda: sum(vars(config).values()), lambda: setattr(config, "c", 4.0)


@scene
def dir_of_an_object():
    config = namespace(a=1.0, b=2.0)
    return (lambda: float(len([n for n in dir(config) if not n.startswith("_")])),
            lambda: setattr(config, "c", 4.0))


@pytest.mark.parametrize(("mode", "change_at"), WHEN)
@pytest.mark.parametrize("name", SCENES)
def test_what_names_and_attributes_give(name, mode, change_at):
    compare(SCENES[name], mode, change_at)
