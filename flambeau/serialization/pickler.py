"""The pickler behind `save`: writes tensors as references to numbered storages and flambeau's
objects under their PyTorch names, so that PyTorch can load the file."""

from __future__ import annotations

import pickle
from types import FunctionType
from typing import Any, ClassVar

from ..tensor import Size, Tensor
from ..tensor.dtypes import dtype
from ..tensor.layout import layout
from ..tensor.quantizers import qscheme
from ..tensor.storage import TypedStorage, UntypedStorage
from . import names
from .location import location_tag
from .rebuild import STORAGE_NAMES, STORAGE_TYPES, StorageType, get_parameter_class, reduce_tensor


class StorageTable:
    """The storages seen so far, numbered and kept alive until the file is written."""

    def __init__(self) -> None:
        self.storages: dict[str, UntypedStorage] = {}
        self.itemsizes: dict[str, int] = {}
        self._keys: dict[tuple[int, int], str] = {}
        self._dtypes: dict[int, str] = {}

    def reference(self, stored: TypedStorage | UntypedStorage) -> tuple[Any, ...]:
        """Return ('storage', class, number, location, element count).

        Raises RuntimeError if the same memory is saved under two dtypes.
        """
        if isinstance(stored, TypedStorage):
            storage, dtype_name = stored._untyped_storage, stored.dtype.name
            storage_type: Any = STORAGE_TYPES[STORAGE_NAMES[dtype_name]]
            count = storage.nbytes() // stored.dtype.itemsize
        else:
            storage, dtype_name, storage_type = stored, "uint8", UntypedStorage
            count = storage.nbytes()
        key = str(len(self.storages))
        if storage.nbytes():
            address = storage.data_ptr()
            if self._dtypes.setdefault(address, dtype_name) != dtype_name:
                raise RuntimeError(
                    "Cannot save multiple tensors or storages that view the same data as "
                    f"different types ({self._dtypes[address]} and {dtype_name})"
                )
            key = self._keys.setdefault((address, storage.nbytes()), key)
        storage = self.storages.setdefault(key, storage)
        self.itemsizes.setdefault(key, storage.nbytes() // count if count else 1)
        return ("storage", storage_type, key, location_tag(storage), count)


class _Hooks:
    """Handling of tensors, storages and dtypes, shared by both picklers."""

    table: StorageTable

    def persistent_id(self, obj: Any) -> tuple[Any, ...] | None:
        if isinstance(obj, (TypedStorage, UntypedStorage)):
            return self.table.reference(obj)
        return None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            return self._reduce_tensor(obj)
        if isinstance(obj, Size):
            return Size, (tuple(obj),)
        if isinstance(obj, layout):
            return names._get_layout, (str(obj),)
        function = names.find_function_name(obj)
        if function is not None and function[0] == "torch":
            return getattr, (names.FUNCTIONS, function[1])
        following = getattr(super(), "reducer_override", None)  # cloudpickle defines it
        return NotImplemented if following is None else following(obj)

    @staticmethod
    def _reduce_tensor(tensor: Tensor) -> Any:
        reduce = type(tensor).__reduce_ex__
        if reduce not in (Tensor.__reduce_ex__, get_parameter_class().__reduce_ex__):
            return NotImplemented  # the class has its own pickling
        return reduce_tensor(tensor)


_NUMBERS = frozenset((int, float, bool, type(None)))
_PLAIN = _NUMBERS | {str, tuple, list, dict}


_PythonPickler: Any = pickle._Pickler


class NamingPickler(_Hooks, _PythonPickler):  # type: ignore[misc]  # typeshed has half of it
    """Pickler that writes PyTorch's names. Only the pure-Python pickler can rename globals."""

    def __init__(self, file: Any, protocol: int, table: StorageTable) -> None:
        super().__init__(file, protocol=protocol)
        self.table = table

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        """Write one object; skip the storage and tensor checks for plain data."""
        if type(obj) not in _PLAIN:
            super().save(obj, save_persistent_id)
            return
        self.framer.commit_frame()
        memoized = self.memo.get(id(obj))
        if memoized is not None:
            self.write(self.get(memoized[0]))
        else:
            self.dispatch[type(obj)](self, obj)

    def save_list(self, obj: list[Any]) -> None:
        """Write a list. A long list of numbers is written by the faster C pickler."""
        if len(obj) < 100 or self.proto >= 4 or not _NUMBERS.issuperset(map(type, obj)):
            _PythonPickler.save_list(self, obj)
            return
        self.write(pickle.EMPTY_LIST)
        self.memoize(obj)
        # Numbers are not memoized: the bytes between the list and STOP are the same.
        self.write(pickle.dumps(obj, self.proto)[5:-1])

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (dtype, StorageType, qscheme)) or obj is names.FUNCTIONS:
            return "named"  # save_global looks up the name
        return super().reducer_override(obj)

    def save_global(self, obj: Any, name: str | None = None) -> None:
        """Write a class, function or named constant by reference."""
        result = names.find_torch_name(obj)
        if result is None:
            _PythonPickler.save_global(self, obj, name)
            return
        module, qualname = result
        _check_resolves(obj, module, qualname)
        if self.proto >= 4:
            self.save(module)
            self.save(qualname)
            self.write(pickle.STACK_GLOBAL)
        elif "." in qualname:
            outer, _, last = qualname.rpartition(".")
            self.save_reduce(getattr, (names.resolve(module, outer), last))
        else:
            self.write(pickle.GLOBAL + f"{module}\n{qualname}\n".encode())
        self.memoize(obj)

    dispatch: ClassVar[dict[type, Any]] = {
        **_PythonPickler.dispatch, FunctionType: save_global, list: save_list,
    }


def _check_resolves(obj: Any, module: str, qualname: str) -> None:
    try:
        result = names.resolve(module, qualname)
    except (ImportError, AttributeError) as error:
        raise pickle.PicklingError(f"Can't pickle {obj!r}: {error}") from None
    if result is not obj:
        raise pickle.PicklingError(
            f"Can't pickle {obj!r}: it's not the same object as {module}.{qualname}"
        )


def get_pickler(pickle_module: Any, file: Any, protocol: int, table: StorageTable) -> Any:
    """Return a pickler with PyTorch's names, or a foreign one (dill, ...) with flambeau's."""
    if pickle_module is pickle:
        return NamingPickler(file, protocol, table)
    result = type("ForeignPickler", (_Hooks, pickle_module.Pickler), {})(file, protocol=protocol)
    result.table = table
    return result
