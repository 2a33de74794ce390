"""`flambeau alias`: installs flambeau in an environment under the name torch, and removes it.

Afterwards `import torch` means flambeau in every program of that environment, and pip takes torch
for installed.
"""

from __future__ import annotations

import os
import shutil
import site
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path

from . import alias_files
from .alias_files import DIST_INFO, MARK, PACKAGE
from .torch_alias import INSTALLER, TORCH_VERSION

# Where --force keeps a real torch of the same folder until `uninstall` puts it back.
_ASIDE = "torch.set-aside-by-flambeau"
_OPTIONS = """\
  --user          the user's own site-packages instead of the environment's
  --target DIR    the folder DIR, which must be on sys.path to have an effect"""
SUMMARY = f"""\
flambeau alias install     `import torch` means flambeau in this environment, for pip too
flambeau alias uninstall   removes what install wrote
flambeau alias status      what `import torch` means here; the exit code is 0 for flambeau
options:
{_OPTIONS}
  --force         install although the real PyTorch is there; uninstall puts it back
  --constraints FILE
                  write the constraints for pip to FILE too"""


class AliasError(Exception):
    """What keeps the alias from being installed or removed, in words for the user."""


def main(args: list[str]) -> int:
    """Run `flambeau alias ARGS`; returns the exit code."""
    import argparse

    parser = argparse.ArgumentParser(prog="flambeau alias", add_help=False, usage=SUMMARY)
    parser.add_argument("action", choices=("install", "uninstall", "status"))
    parser.add_argument("--user", action="store_true")
    parser.add_argument("--target", type=Path)
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--constraints", type=Path)
    if not args or args[0] in ("-h", "--help"):
        print(SUMMARY)
        return 0
    options = parser.parse_args(args)
    try:
        folder = _choose_folder(options.user, options.target)
        if options.action == "install":
            return install(folder, options.force, options.constraints)
        if options.action == "uninstall":
            chosen = options.user or options.target is not None
            return uninstall([folder] if chosen else [folder, *_search_path()])
        return report_status()
    except AliasError as error:
        print(f"flambeau alias: {error}", file=sys.stderr)
        return 1


def _choose_folder(user: bool, target: Path | None) -> Path:
    if target is not None:
        return target.absolute()
    if not user:
        return Path(sysconfig.get_path("purelib"))
    if not site.ENABLE_USER_SITE:
        raise AliasError("--user: this interpreter has no user site-packages (in a virtual "
                         "environment leave --user out)")
    return Path(site.getusersitepackages())


# ------------------------------------------------------------------- installed files


def is_alias(package: Path) -> bool:
    """Whether the folder `torch` is the one that `install` writes."""
    try:
        return (package / "__init__.py").read_text(encoding="utf-8").startswith(MARK)
    except (OSError, UnicodeDecodeError):
        return False


def _own_metadata(folder: Path) -> Iterator[Path]:
    for info in folder.glob("torch-*.dist-info"):
        with suppress(OSError):
            if (info / "INSTALLER").read_text(encoding="utf-8").strip() == INSTALLER:
                yield info


def _find_real_files(folder: Path) -> list[Path]:
    """What belongs to another torch than the alias in `folder`."""
    alias_metadata = set(_own_metadata(folder))
    metadata = [info for info in folder.glob("torch-*.dist-info") if info not in alias_metadata]
    modules = [path for path in (folder / PACKAGE, folder / "torch.py")
               if path.exists() and not is_alias(path)]
    return modules + metadata


def _search_path() -> list[Path]:
    folders = [Path(entry or os.curdir).absolute() for entry in sys.path]
    return list(dict.fromkeys(folders))


def find_imported_torch(path: list[Path] | None = None) -> Path | None:
    """The file or folder that `import torch` reads, by the folders of `path` or sys.path."""
    spec = PathFinder.find_spec("torch", None if path is None else [str(p) for p in path])
    if spec is None:
        return None
    if spec.origin is None:  # a folder without __init__.py
        return Path(next(iter(spec.submodule_search_locations or ()), "torch"))
    origin = Path(spec.origin)
    return origin.parent if origin.name.startswith("__init__.") else origin


def _version(package: Path) -> str:
    from importlib.metadata import distributions

    for distribution in distributions(name="torch", path=[str(package.parent)]):
        if (distribution.read_text("INSTALLER") or "").strip() != INSTALLER:
            return distribution.version
    return "(version unknown)"


# ----------------------------------------------------------------------- the actions


def install(folder: Path, force: bool = False, constraints: Path | None = None) -> int:
    """Write the distribution torch into `folder`, in place of an older alias there.

    Raises AliasError if the real PyTorch is installed, unless `force`, or if `folder` cannot be
    written.
    """
    real = _find_real_files(folder)
    imported = find_imported_torch()
    shadowed = real[0] if real else imported
    if shadowed is not None and not is_alias(shadowed) and not force:
        raise AliasError(
            f"the real PyTorch {_version(shadowed)} is installed: {shadowed}\n"
            "`pip uninstall torch` removes it; --force installs the alias all the same, and "
            "`flambeau alias uninstall` puts back what that sets aside"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".flambeau-alias-", dir=folder))
    except OSError as error:
        raise AliasError(
            f"cannot write to {folder}: {error.strerror}; choose another folder with --user or "
            "--target DIR"
        ) from None
    try:
        _fill(staging)
        for info in list(_own_metadata(folder)):
            _remove(folder, info)
        if real:
            _set_aside(folder, real)
        for entry in (PACKAGE, DIST_INFO):
            os.rename(staging / entry, folder / entry)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    _write_torchrun(folder)
    print(f"`import torch` means flambeau (PyTorch {TORCH_VERSION}) for what reads {folder}")
    _describe_constraints(folder, constraints)
    if folder not in _search_path():
        print(f"{folder} is not on sys.path: add it to PYTHONPATH")
    elif not is_alias(find_imported_torch() or folder):
        print(f"but the PyTorch in {find_imported_torch()} comes first on sys.path")
    return 0


def _fill(staging: Path) -> None:
    package = Path(__file__).resolve().parent.parent
    for path, data in alias_files.build_contents(package).items():
        target = staging / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    os.chmod(staging / PACKAGE, 0o755)


def _write_torchrun(folder: Path) -> None:
    """The command `torchrun`, where `folder` belongs to an environment that has no other."""
    command = Path(sysconfig.get_path("scripts")) / "torchrun"
    if folder != Path(sysconfig.get_path("purelib")) or command.exists():
        return
    data = alias_files.build_torchrun(sys.executable)
    try:
        command.write_bytes(data)
        command.chmod(0o755)
    except OSError:  # a folder that the user may not write to: `python -m torch.distributed.run`
        return
    row = f"{os.path.relpath(command, folder)},{alias_files.hash_content(data)},{len(data)}\n"
    with open(folder / DIST_INFO / "RECORD", "a", encoding="utf-8") as record:
        record.write(row)


def _describe_constraints(folder: Path, copy: Path | None) -> None:
    path = folder / alias_files.CONSTRAINTS
    if copy is not None:
        try:
            shutil.copyfile(path, copy)
        except OSError as error:
            raise AliasError(f"cannot write to {copy}: {error.strerror}") from None
        path = copy.absolute()
    print("Libraries that need torch are installed without downloading it by\n"
          f"  pip install -c {path} LIBRARY ...")


def _set_aside(folder: Path, real: list[Path]) -> None:
    aside = folder / _ASIDE
    if aside.exists():
        raise AliasError(f"{aside} holds a PyTorch that was set aside before: remove it first")
    aside.mkdir()
    for path in real:
        os.rename(path, aside / path.name)
    print(f"The real PyTorch is set aside in {aside}")


def uninstall(folders: list[Path]) -> int:
    """Remove the alias from each of `folders`, and restore the files set aside there.

    Files changed since `install` wrote them are left alone.
    """
    removed = False
    for folder in dict.fromkeys(folders):
        for info in list(_own_metadata(folder)):
            try:
                _remove(folder, info)
            except OSError as error:
                raise AliasError(f"cannot remove {info}: {error.strerror}") from None
            print(f"Removed the alias from {folder}")
            removed = True
        removed |= _put_back(folder)
    if not removed:
        print("flambeau alias: not installed here", file=sys.stderr)
    return 0 if removed else 1


def _remove(folder: Path, info: Path) -> None:
    """Remove the files that RECORD lists and that nobody has changed, and empty folders."""
    parents = {info}
    for row in (info / "RECORD").read_text(encoding="utf-8").splitlines():
        name, expected, _ = row.rsplit(",", 2)
        path = folder / name
        if not path.is_file():
            continue
        if expected and alias_files.hash_content(path.read_bytes()) != expected:
            continue
        parents.update(p for p in path.parents if folder in p.parents)
        path.unlink()
        if path.suffix == ".py":
            for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
                compiled.unlink()
            parents.add(path.parent / "__pycache__")
    for parent in sorted(parents, key=lambda p: len(p.parts), reverse=True):
        with suppress(OSError):  # a folder with other files in it stays
            parent.rmdir()


def _put_back(folder: Path) -> bool:
    backup = folder / _ASIDE
    if not backup.is_dir():
        return False
    entries = list(backup.iterdir())
    if any((folder / entry.name).exists() for entry in entries) or _find_real_files(folder):
        print(f"Another PyTorch is in {folder}: the one set aside stays in {backup}")
        return False
    for entry in entries:
        os.rename(entry, folder / entry.name)
    backup.rmdir()
    print(f"The real PyTorch is back in {folder}")
    return True


def report_status() -> int:
    """Say what `import torch` means; the exit code is 0 if it means flambeau."""
    imported = find_imported_torch()
    aliases = [info for folder in _search_path() for info in _own_metadata(folder)]
    if imported is not None and is_alias(imported):
        folder = imported.parent
        versions = [info.name.split("-")[1].removesuffix(".dist-info") for info in aliases]
        print(f"`import torch` means flambeau (PyTorch {TORCH_VERSION}): {imported}")
        if folder / DIST_INFO not in aliases:
            found_versions = ", ".join(versions) or "missing"
            print(f"Its metadata is not that of PyTorch {TORCH_VERSION} ({found_versions}): run "
                  "`flambeau alias install`")
        else:
            _describe_constraints(folder, None)
        return 0
    if imported is None:
        print("`import torch` finds nothing: `flambeau alias install` makes it mean flambeau")
    else:
        print(f"`import torch` means the real PyTorch {_version(imported)}: {imported}")
    for info in aliases:
        print(f"The alias in {info.parent} has no effect: another torch was installed after it "
              "or comes first on sys.path")
    return 1
