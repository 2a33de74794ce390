"""Parse and link the ELF x86-64 object files that LLVM writes for kernels.

This avoids LLVM's loader, whose library takes 40 MB and 40 ms to load. It handles functions,
constants, zeroed variables, PC-relative relocations, calls and GOT slots, and raises
UnsupportedObject for anything else. Reference: System V ABI, AMD64 supplement, section 4.4.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..target.cache_sizes import PAGE_BYTES

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_OBJECT, _X86_64 = 1, 62  # e_type, e_machine
_PROGBITS, _SYMTAB, _RELA, _NOBITS, _X86_64_UNWIND = 1, 2, 4, 8, 0x70000001  # sh_type
_WRITABLE, _ALLOCATED = 1, 2  # sh_flags
_PC32, _PLT32, _GOTPCREL_KINDS = 2, 4, (9, 41, 42)  # kinds of relocations
_KNOWN_RELOCATIONS = frozenset((_PC32, _PLT32, *_GOTPCREL_KINDS))
_UNDEFINED_SECTION, _RESERVED_SECTION = 0, 0xFF00  # indices of sections
_JUMP = b"\xff\x25\x02\x00\x00\x00\x00\x00"  # jmp [rip + 2]: to the address after these bytes


class UnsupportedObject(Exception):
    """The file contains something that only LLVM can handle."""


class Section(NamedTuple):
    """A section; `bytes` is None if it is all zeros. `written`: the code writes to it."""

    bytes: bytes | None
    size: int
    align: int
    written: bool


class Relocation(NamedTuple):
    """Four bytes of a section that will hold the distance to a symbol or to its address slot."""

    section: int
    offset: int
    symbol: int
    addend: int
    kind: int


@dataclass(frozen=True)
class ObjectFile:
    """`sections` by their number in the file; `symbols`: (name, section or None, offset)."""

    sections: dict[int, Section]
    symbols: list[tuple[str, int | None, int]]
    relocations: list[Relocation]


def parse_object(data: bytes) -> ObjectFile:
    """Parse an object file. Raises UnsupportedObject."""
    try:
        header = _HEADER.unpack_from(data)
        if header[0][:6] != b"\x7fELF\x02\x01" or header[1:3] != (_OBJECT, _X86_64):
            raise UnsupportedObject("not an object file for x86-64")
        table_offset, size, count = header[6], header[11], header[12]
        rows = [_SECTION.unpack_from(data, table_offset + i * size) for i in range(count)]
        return _parse_sections(data, rows)
    except (struct.error, IndexError, ValueError) as error:
        raise UnsupportedObject(f"damaged: {error}") from None


def _parse_sections(data: bytes, rows: list[tuple]) -> ObjectFile:
    sections: dict[int, Section] = {}
    symbols: list[tuple[str, int | None, int]] = []
    relocations: list[Relocation] = []
    for i, (_, kind, flags, _, offset, size, _, _, align, _) in enumerate(rows):
        if not flags & _ALLOCATED or kind == _X86_64_UNWIND:
            continue
        if kind not in (_PROGBITS, _NOBITS):
            raise UnsupportedObject(f"a section of kind {kind}")
        content = data[offset : offset + size] if kind == _PROGBITS else None
        sections[i] = Section(content, size, max(align, 1), bool(flags & _WRITABLE))
    for _, kind, _, _, offset, size, link, info, _, _ in rows:
        content = data[offset : offset + size]
        if kind == _SYMTAB:
            names = data[rows[link][4] : rows[link][4] + rows[link][5]]
            symbols += [_parse_symbol(names, entry) for entry in _SYMBOL.iter_unpack(content)]
        elif kind == _RELA and info in sections:
            relocations += [Relocation(info, offset, info_word >> 32, addend,
                                       info_word & 0xFFFFFFFF)
                            for offset, info_word, addend in _RELOCATION.iter_unpack(content)]
    for relocation in relocations:
        section = symbols[relocation.symbol][1]
        is_known = relocation.kind in _KNOWN_RELOCATIONS
        if not is_known or not (section is None or section in sections):
            raise UnsupportedObject(f"a relocation of kind {relocation.kind}")
    return ObjectFile(sections, symbols, relocations)


def _parse_symbol(names: bytes, entry: tuple) -> tuple[str, int | None, int]:
    name_offset, _, _, section, value, _ = entry
    name = names[name_offset : names.index(0, name_offset)].decode()
    if section >= _RESERVED_SECTION:
        section = -1  # file names and the like; nothing may refer to them
    return name, None if section == _UNDEFINED_SECTION else section, value


@dataclass(frozen=True)
class LinkedImage:
    """Linked memory: the first `executed` bytes hold code and constants, the rest is writable.

    `functions`: for each file, symbol offsets by name. `offsets`: where eight bytes hold an offset
    that must be turned into an address.
    """

    bytes: bytearray
    executed: int
    functions: list[dict[str, int]]
    offsets: list[int]


def link(files: Sequence[ObjectFile], find_external: Callable[[str], int]) -> LinkedImage:
    """Lay files out from a page boundary and link them. Raises UnsupportedObject.

    `find_external(name)` returns the address of a symbol that no file defines, or raises.
    """
    starts, size = _lay_out(files, False, 0)
    slots: dict[tuple, int] = {}  # 16 bytes each: a jump, then the address it reads
    for i, file in enumerate(files):
        for relocation in file.relocations:
            section = file.symbols[relocation.symbol][1]
            if section is None or relocation.kind in _GOTPCREL_KINDS:
                slots.setdefault(_make_slot_key(i, file, relocation), size + 16 * len(slots))
    executed = -(-(size + 16 * len(slots)) // PAGE_BYTES) * PAGE_BYTES
    written, size = _lay_out(files, True, executed)
    starts |= written
    memory, offsets = bytearray(size), []
    for (i, k), start in starts.items():
        content = files[i].sections[k].bytes
        if content is not None:
            memory[start : start + len(content)] = content
    for key, slot in slots.items():
        if len(key) == 1:
            address = find_external(key[0])
        else:
            _, section, offset = files[key[0]].symbols[key[1]]
            address = starts[key[0], section] + offset
            offsets.append(slot + 8)
        memory[slot : slot + 16] = _JUMP + address.to_bytes(8, "little")
    for i, file in enumerate(files):
        _relocate(memory, i, file, starts, slots)
    functions = [
        {name: starts[i, section] + offset for name, section, offset in file.symbols
         if name and section in file.sections} for i, file in enumerate(files)
    ]
    return LinkedImage(memory, executed, functions, offsets)


def _make_slot_key(i: int, file: ObjectFile, relocation: Relocation) -> tuple:
    """Return the key of an address slot: (name,) for external symbols, else (file, symbol)."""
    name, section, _ = file.symbols[relocation.symbol]
    return (name,) if section is None else (i, relocation.symbol)


def _lay_out(files: Sequence[ObjectFile], written: bool, size: int
            ) -> tuple[dict[tuple[int, int], int], int]:
    """Place sections one after another from `size` on. Return their starts and the end."""
    starts = {}
    for i, file in enumerate(files):
        for k, section in file.sections.items():
            if section.written is written:
                size = -(-size // section.align) * section.align
                starts[i, k] = size
                size += section.size
    return starts, -(-size // 16) * 16


def _relocate(
    memory: bytearray, i: int, file: ObjectFile, starts: dict[tuple[int, int], int],
    slots: dict[tuple, int],
) -> None:
    """Fill in a file's relocations."""
    for relocation in file.relocations:
        _, section, offset = file.symbols[relocation.symbol]
        address = starts[i, relocation.section] + relocation.offset
        if relocation.kind in _GOTPCREL_KINDS:
            target = slots[_make_slot_key(i, file, relocation)] + 8
        elif section is not None:
            target = starts[i, section] + offset
        elif relocation.kind == _PLT32:
            target = slots[_make_slot_key(i, file, relocation)]
        else:
            raise UnsupportedObject(f"{file.symbols[relocation.symbol][0]} is said to be near")
        struct.pack_into("<i", memory, address, target + relocation.addend - address)
