"""How Python finds attributes and methods: classes, descriptors, properties, metaclasses."""

from __future__ import annotations

import dataclasses
import functools
import typing

import pytest

import flambeau as torch

from .scenario import compare
from .state_scenes import MOSTLY_SLOW, Scenes, delete, namespace, put

SCENES = Scenes()
scene = SCENES.add


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
        scale = config.scale
        return scale if isinstance(scale, float) else 1.0

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
        instance = object.__new__(cls)
        instance.value = 5.0
        return instance

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
    class Point(typing.NamedTuple):
        x: float = 2.0

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


@pytest.mark.parametrize(("mode", "change_at"), MOSTLY_SLOW)
@pytest.mark.parametrize("name", SCENES)
def test_what_attributes_give(name, mode, change_at):
    compare(SCENES[name], mode, change_at)
