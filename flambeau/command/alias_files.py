"""The files of the distribution `torch`: a package that delegates to flambeau, stubs, metadata.

pip and editors read these files; `importlib.metadata` finds the version in them.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from pathlib import Path

from .torch_alias import INSTALLER, TORCH_VERSION

PACKAGE = "torch"
DIST_INFO = f"torch-{TORCH_VERSION}.dist-info"
CONSTRAINTS = f"{DIST_INFO}/constraints.txt"
# The first line of the package, which identifies the alias's files.
MARK = '"""torch stands for flambeau here: `flambeau alias status` says more."""\n'

_MODULE = MARK + """
try:
    from flambeau.command.torch_alias import replace_torch
except ModuleNotFoundError as error:
    if error.name != "flambeau":
        raise
    raise ImportError(
        "torch stands for flambeau in this environment, and flambeau is not installed: install "
        "it, or remove torch with `pip uninstall torch`"
    ) from None
replace_torch()
"""
_METADATA = f"""\
Metadata-Version: 2.1
Name: torch
Version: {TORCH_VERSION}
Summary: flambeau under the name torch, written by `flambeau alias install`
"""
_WHEEL = """\
Wheel-Version: 1.0
Generator: flambeau
Root-Is-Purelib: true
Tag: py3-none-any
"""
# Folders and modules of flambeau that are not in torch's namespace.
_INTERNAL = frozenset(
    {"native", "tensor", "ops", "command", "train", "doctor", "_namespace", "__main__", "_absent"}
)


def build_contents(flambeau: Path) -> dict[str, bytes]:
    """Return each file's content by its path below site-packages, RECORD included.

    flambeau: the folder of the package flambeau, whose modules get a stub each.
    """
    sources = {f"{PACKAGE}/__init__.py": _MODULE, f"{PACKAGE}/py.typed": ""}
    sources.update(_generate_stubs(flambeau))
    sources[f"{DIST_INFO}/METADATA"] = _METADATA
    sources[f"{DIST_INFO}/WHEEL"] = _WHEEL
    sources[f"{DIST_INFO}/INSTALLER"] = INSTALLER + "\n"
    sources[f"{DIST_INFO}/REQUESTED"] = ""
    sources[f"{DIST_INFO}/top_level.txt"] = "torch\n"
    sources[CONSTRAINTS] = f"torch=={TORCH_VERSION}\n"
    files = {path: source.encode() for path, source in sources.items()}
    record = f"{DIST_INFO}/RECORD"
    rows = [f"{path},{hash_content(data)},{len(data)}" for path, data in files.items()]
    files[record] = "\n".join([*rows, f"{record},,", ""]).encode()
    return files


def build_torchrun(interpreter: str) -> bytes:
    """Return the command `torchrun` for an environment."""
    return (f"#!{interpreter}\n" + MARK + "\nfrom torch.distributed.run import main\n\nmain()\n"
            ).encode()


def hash_content(data: bytes) -> str:
    """Return a file's hash in RECORD's format."""
    raw = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
    return "sha256=" + raw.decode().rstrip("=")


def _generate_stubs(flambeau: Path) -> Iterator[tuple[str, str]]:
    """Return a file per module that tells editors its exports; the finder loads flambeau's modules.

    They are not `.pyi`: pyright warns about stubs without a source file.
    """
    modules = sorted({path.with_suffix("") for path in flambeau.rglob("*.py*")
                      if path.suffix in (".py", ".pyi")})
    private = []
    for module in modules:
        path_parts = module.relative_to(flambeau).parts
        if path_parts[0] in _INTERNAL or path_parts == ("__init__",):
            continue
        dotted = path_parts[:-1] if path_parts[-1] == "__init__" else path_parts
        name = ".".join(dotted)
        if len(dotted) == 1 and name.startswith("_"):
            private.append(name)
        yield f"{PACKAGE}/{'/'.join(path_parts)}.py", f"from flambeau.{name} import *\n"
    names = ["__version__", *private]
    exports = "".join(f"from flambeau import {name} as {name}\n" for name in names)
    yield f"{PACKAGE}/__init__.pyi", f"from flambeau import *\n{exports}"
