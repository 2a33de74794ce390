"""What names stand for: enums, globals, modules, closures and functions."""

from __future__ import annotations

import builtins
import enum
import functools
import importlib
import operator
import sys
import types

import pytest


from .scenario import compare
from .state_scenes import MOSTLY_SLOW, Scenes, module_of, namespace

SCENES = Scenes()
scene = SCENES.add


# ----------------------------------------------------------------------------------- enums


class Mode(enum.Enum):
    A = 1.0
    B = 2.0


class Flags(enum.Flag):
    A = enum.auto()
    B = enum.auto()


class Lists(enum.Enum):
    A = [1.0]  # noqa: RUF012


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
def a_reloaded_module():
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


@pytest.mark.parametrize(("mode", "change_at"), MOSTLY_SLOW)
@pytest.mark.parametrize("name", SCENES)
def test_what_names_stand_for(name, mode, change_at):
    compare(SCENES[name], mode, change_at)
