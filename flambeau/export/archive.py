"""Archives of exported programs: a graph in JSON plus its tensors. Loading one runs no code.

The graph refers to flambeau's operators by public path; any other callee is refused.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from contextlib import nullcontext
from typing import Any

from .._subclasses.fake_tensor import is_fake
from ..fx.qualified_names import torch_module
from ..native.foundation.user_frames import warn
from ..serialization import load as load_tensors
from ..serialization import save as save_tensors
from ..serialization.archive import ArchiveReader, ArchiveWriter
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree
from .errors import ArchiveError
from .exported_program import ExportedProgram
from .program_files.reading import rebuild_program
from .program_files.writing import describe_program
from .pytorch_files import reading
from .pytorch_files.writing import Unwritable, describe_tensor, write_document

__all__ = ["ArchiveError", "load", "save"]

_VERSION = 1
_OWN = "flambeau/program.json"


# ------------------------------------------------------------------------------------- writing


def save(
    ep: ExportedProgram, f: Any, *, extra_files: dict[str, Any] | None = None,
    opset_version: Any = None, pickle_protocol: int = 2,
) -> None:
    """Write an exported program to a path or file. PyTorch's torch.export.load can read it too.

    If aten has no operator for a call, write a flambeau-only file and warn with the call's name.
    `extra_files`: additional entries, text or bytes by name. `opset_version` and
    `pickle_protocol` are ignored.
    """
    own = json.dumps(describe_program(ep))
    try:
        document = json.dumps(write_document(ep))
        tensors = _collect_payloads("weights", "model_weights_config.json", "weight", ep.state_dict)
        tensors |= _collect_payloads(
            "constants", "model_constants_config.json", "tensor", ep.constants
        )
    except Unwritable as error:
        warn(f"torch.export.save: PyTorch will not read this file, which has {error}")
        _save_own(ep, f, own, extra_files)
        return
    is_path = isinstance(f, (str, os.PathLike))
    stem = os.path.splitext(os.path.basename(os.fspath(f)))[0] if is_path else "archive"
    with open(f, "wb") if is_path else nullcontext(f) as opened:
        writer = ArchiveWriter(opened, stem)
        records = {"archive_format": b"pt2", "archive_version": b"0", "byteorder": b"little",
                   "models/model.json": document, _OWN: own, **tensors,
                   "data/sample_inputs/model.pt": _serialize_example(ep)}
        records |= {f"extra/{name}": content for name, content in (extra_files or {}).items()}
        for name, content in records.items():
            writer.record(name, content.encode() if isinstance(content, str) else content)
        writer.close()


def _collect_payloads(
    folder: str, config: str, prefix: str, tensors: dict[str, Tensor]
) -> dict[str, Any]:
    """Return the archive records of tensors: one with the bytes of each, and their index."""
    records: dict[str, Any] = {}
    paths: dict[Any, str] = {}
    entries = {}
    for name, tensor in tensors.items():
        if type(tensor) not in (Tensor, torch_module().nn.Parameter) or tensor.is_meta:
            raise Unwritable(f"{name}, a tensor of {type(tensor)} on {tensor.device}")
        flat = tensor.detach().contiguous()
        key = tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype
        path = paths.setdefault(key, f"{prefix}_{len(paths)}")
        records[f"data/{folder}/{path}"] = flat._array.tobytes()
        meta = describe_tensor(flat)
        meta["requires_grad"] = tensor.requires_grad
        entries[name] = {"path_name": path, "is_param": type(tensor) is not Tensor,
                         "use_pickle": False, "tensor_meta": meta}
    records[f"data/{folder}/{config}"] = json.dumps({"config": entries})
    return records


def _serialize_example(ep: ExportedProgram) -> bytes:
    """Serialize the example inputs; return b"" if there are none or some are fake."""
    leaves = pytree.tree_leaves(ep.example_inputs)
    if ep.example_inputs is None or any(is_fake(leaf) for leaf in leaves):
        return b""
    buffer = io.BytesIO()
    save_tensors(pytree.tree_map(
        lambda v: v.detach().requires_grad_(v.requires_grad) if isinstance(v, Tensor) else v,
        ep.example_inputs), buffer)
    return buffer.getvalue()


def _save_own(ep: ExportedProgram, f: Any, text: str, extra_files: dict[str, Any] | None) -> None:
    """Write a file that only flambeau can read."""
    with zipfile.ZipFile(f, "w") as archive:
        archive.writestr("version", str(_VERSION))
        archive.writestr("program.json", text)
        for name, tensors in (("state.pt", ep.state_dict), ("constants.pt", ep.constants)):
            buffer = io.BytesIO()
            save_tensors({k: v.detach() for k, v in tensors.items()}, buffer)
            archive.writestr(name, buffer.getvalue())
        for name, content in (extra_files or {}).items():
            archive.writestr(f"extra/{name}", content)


# ------------------------------------------------------------------------------------- reading


def load(
    f: Any, *, extra_files: dict[str, Any] | None = None,
    expected_opset_version: Any = None,
) -> ExportedProgram:
    """Read an exported program without running code from the file.

    `extra_files`: its keys name entries of the file; `load` stores their text as the values.
    Raises RuntimeError if the file is damaged or not such an archive.
    """
    try:
        program = _read_pytorch_program(f, extra_files)
        if program is not None:
            return program
        with zipfile.ZipFile(f) as archive:
            if archive.testzip() is not None:
                raise ArchiveError("torch.export.load: the archive is damaged")
            if archive.read("version").strip() != str(_VERSION).encode():
                raise ArchiveError("torch.export.load: the archive has an unknown version")
            program = json.loads(archive.read("program.json"))
            state, constants = (
                load_tensors(io.BytesIO(archive.read(name)), weights_only=True)
                for name in ("state.pt", "constants.pt")
            )
            for name in extra_files or {}:
                extra_files[name] = archive.read(f"extra/{name}").decode()  # type: ignore[index]
        return rebuild_program(program, state, constants)
    except (ArchiveError, OSError, NotImplementedError):
        raise
    except Exception as error:
        raise ArchiveError(f"torch.export.load: no archive of a program: {error}") from error


def _read_pytorch_program(f: Any, extra_files: dict[str, Any] | None) -> ExportedProgram | None:
    """Read the program in one of PyTorch's `.pt2` files; return None for any other file."""
    is_path = isinstance(f, (str, os.PathLike))
    with open(f, "rb") if is_path else nullcontext(f) as opened:
        start = opened.tell()
        try:
            archive = ArchiveReader(opened)
            if not archive.has("models/model.json"):
                return None
            for name in extra_files or {}:
                extra_files[name] = archive.read(f"extra/{name}").decode()  # type: ignore[index]
            if archive.has(_OWN):
                state, constants = (
                    reading.read_tensors(archive, kind, f"model_{kind}_config.json")
                    for kind in ("weights", "constants"))
                return rebuild_program(json.loads(archive.read(_OWN)), state, constants,
                                        _read_example(archive))
            return reading.load(archive)
        except RuntimeError as error:
            if isinstance(error, NotImplementedError) or "models/model.json" in str(error):
                raise
            if "PytorchStreamReader" in str(error):
                return None
            raise
        finally:
            opened.seek(start)


def _read_example(archive: ArchiveReader) -> Any:
    """Read a file's example inputs; return None if it has none."""
    name = "data/sample_inputs/model.pt"
    if not archive.size(name):
        return None
    args, kwargs = load_tensors(io.BytesIO(archive.read(name)), weights_only=True)
    return tuple(args), dict(kwargs)
