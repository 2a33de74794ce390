"""The messages of the checker, as PyTorch words them, and the errors that carry them."""

from __future__ import annotations

import ast
from typing import Any, NamedTuple

from .source import Source

__all__ = [
    "MESSAGES", "Call", "FrontendError", "NotSupportedError", "Refusal", "UnsupportedNodeError",
]


class FrontendError(Exception):
    """A function has syntax that TorchScript lacks."""


class NotSupportedError(FrontendError):
    """A construct that TorchScript supports only in other forms."""


class UnsupportedNodeError(NotSupportedError):
    """A statement or expression that TorchScript lacks."""


MESSAGES = {
    "annotated-elsewhere": "Type annotations on instance attributes must be declared in __init__, "
                           "not '{function}'",
    "argument": "{schema}:\nExpected a value of type '{expected}' for argument '{name}' but "
                "instead found type '{actual}'.\n{hint}",
    "argument-count": "{schema}:\nExpected at most {most} arguments but found {actual} positional "
                      "arguments.\n",
    "argument-missing": "{schema}:\nArgument {name} not provided.\n",
    "argument-unknown": "{schema}:\nKeyword argument {name} unknown.\n",
    "arguments": "Arguments for call are not valid.\nThe following variants are available:\n"
                 "  {operator}:\n  Expected a value of type '{expected}' for argument '{name}' but "
                 "instead found type '{actual}'.\nThe original call is",
    "attribute": "'{kind}' object has no attribute or method '{name}'.{hint}",
    "attribute-set": "Tried to set nonexistent attribute: {name}. Did you forget to initialize it "
                     "in __init__()?",
    "attribute-type": "Wrong type for attribute assignment. Expected {expected} but got {actual}",
    "attribute-in-branch": "assignment cannot be in a control-flow block",
    "augmented-tuple": "'{kind}' does not support augmented assignment",
    "branch-type": "Type mismatch: {name} is set to type {first} in the true branch and type "
                   "{second} in the false branch",
    "branch-undefined": "{name} is not defined in the {branch} branch",
    "call": "cannot call a value of type '{kind}'",
    "condition": "expected a bool expression for condition but found {kind}",
    "delete-slice": "del statement only supports deletion at a single index, slicing is not "
                    "supported (see https://github.com/pytorch/pytorch/issues/31430)",
    "dictionary-keys": "Cannot create dict for key type '{kind}', only int, float, complex, "
                       "Tensor, device and string keys are supported",
    "dictionary-literal": "Dict keys must contain only a single type. Expected: {first} but found "
                          "{second} instead",
    "dictionary-value": "Dict type annotation `{annotated}` did not match the type of an actual "
                        "{part} type `{actual}`",
    "dictionary-mixed": "Dicts may only contain homogeneous keys, but the type of the first "
                        "generated key was {actual}",
    "context": "Object does not define __enter__ and __exit__ methods",
    "context-object": "With item expression must return an object",
    "enter-arguments": "__enter__ must have only one argument and one return value",
    "exit-arguments": "__exit__ must have four arguments",
    "exit-types": "argument {number} of __exit__ must have Any type; TorchScript does not "
                  "currently support passing exception type, value, or traceback to the __exit__ "
                  "function.",
    "default": "Mutable default parameters are not supported because Python binds them to the "
               "function and they persist across function calls.\nAs a workaround, make the "
               "default None and instantiate the default parameter within the body of the "
               "function. Found {kind} on parameter {name}",
    "exception-value": "exception cannot be used as a value",
    "no-delitem": "Class does not define __delitem__",
    "element": "aten::{method}.t(t[](a!) self, t(c -> *) el):\nCould not match type {actual} to t "
               "in argument 'el': Type variable 't' previously matched to type {expected} is "
               "matched to type {actual}.\n",
    "enum-member": "type object '{kind}' has no attribute '{name}'",
    "format": "The specifier %{letter} is not supported in TorchScript format strings",
    "getattr-tuple": "getattr's first argument must be a class or NamedTuple, but got a normal "
                     "Tuple type instead",
    "hasattr": "hasattr's second argument must be a string literal",
    "hasattr-object": "hasattr's first argument must be an object or NamedTuple, but got a normal "
                      "{kind} instead",
    "if-expression": "if-expression's true branch has type {first} but false branch has type "
                     "{second}",
    "iterable": "'{kind}' object is not iterable",
    "iterables": "List of iterables is not supported currently",
    "union-container": "Expected an Union type annotation with an inner {name} type, but got "
                       "{annotated}",
    "union-empty-list": "Cannot assign an empty list to a Union: there are multiple possible List "
                        "type candidates in the Union annotation `{annotated}`",
    "union-list": "Union type annotation `{annotated}` can hold {candidates}, but none of those "
                  "types match the types of the given list elements, which were unified to "
                  "{actual}",
    "union-dict": "Union type annotation `{annotated}` can hold {candidates}, but none of those "
                  "dict types can hold the types of the given keys and values, which were unified "
                  "to Dict[{key}, {value}]",
    "union-dict-call": "Union type annotation `{annotated}` can hold {candidates}, but full type "
                       "inference is not yet supported for this call of dict()",
    "dict-elements": "Type annotation was inferred to be `{annotated}`, but the type of values "
                     "given by the dict literal is {value}",
    "operator": "{reason}\n",
    "operators": "Arguments for call are not valid.\nThe following variants are available:\n"
                 "{reasons}\nThe original call is",
    "list-annotation": "Expected an annotation of type List or a Union with a List, but got "
                       "{annotated}",
    "list-elements": "List type annotation `{annotated}` did not match the types of the given list "
                     "elements, which were unified to {actual}",
    "module-index": "Index {index} out of range of length {length}",
    "module-index-literal": "Unable to extract string literal index. ModuleDict indexing is only "
                            "supported with string literals. For example, 'i = \"a\"; "
                            "self.layers[i](x)' will fail because i is not a literal.",
    "module-index-number": "Expected integer literal for index but got a variable or non-integer. "
                           "ModuleList/Sequential indexing is only supported with integer literals."
                           " For example, 'i = 4; self.layers[i](x)' will fail because i is not a "
                           "literal. Enumeration is supported, e.g. 'for index, v in "
                           "enumerate(self): out = v(inp)'",
    "module-key": "Key Error, {key}",
    "module-attribute": "Module '{kind}' has no attribute '{name}' {hint}",
    "reannotated": "Attempting to declare and annotate the type of variable '{name}' that is "
                   "already defined in an outer block",
    "reassigned": "Variable '{name}' previously had type {previous} but is now being assigned to a "
                  "value of type {actual}\n",
    "return-missing": "Function was not annotated as having type None, but does not return along "
                      "all paths",
    "return-type": "Return value was annotated as having type {annotated} but is actually of type "
                   "{actual}",
    "return-types": "Previous return statement returned a value of type {first} but this return "
                    "statement returns a value of type {second}",
    "script-module": "Cannot call a ScriptModule that is not a submodule of the caller",
    "slice-keyword": "Slice does not accept any keyword arguments",
    "special-arguments": "expected exactly 1 argument, found {actual}",
    "subscripted-tuple": "'{kind}' does not support subscripted assignment",
    "tuple": "{kind} cannot be used as a tuple",
    "tolist": "Expected type hint for result of tolist()",
    "tolist-element": "{kind} is not one of the supported element types for tolist: int, float, "
                      "complex, bool",
    "tuple-arguments": "tuple expected exactly 1 argument, but found {actual}",
    "tuple-size": "cannot statically infer the expected size of a list in this context",
    "tuple-index": "Tuple index out of range. Tuple is length {length} and index is {index}",
    "undefined": "undefined value {name}",
    "unpack-few": "need {need} values to unpack but found only {actual}",
    "unpack-many": "too many values to unpack: need {need} but found {actual}",
    "variable-annotation": "Variable '{name}' is annotated with type {annotated} but is being "
                           "assigned to a value of type {actual}",
}


class Call(NamedTuple):
    """Where the program calls the function that is being checked."""

    errors: Refusal  # of the calling function
    node: ast.Call


class Refusal:
    """Raises the errors of one function. While `muted`, it says nothing."""

    def __init__(self, source: Source, call: Call | None = None, name: str = "") -> None:
        self.source, self.call, self.muted = source, call, 0
        self.name = name or source.tree.name

    def report(self, code: str, node: ast.AST,
               **values: Any) -> None:
        """Raise the error of a code in MESSAGES, marking the node."""
        if not self.muted:
            raise RuntimeError(self._format(MESSAGES[code].format(**values), node, None))

    def report_syntax(self, kind: type[Exception], message: str, node: ast.AST,
                      width: int | None = None) -> None:
        """Raise an error about syntax, marking a node or the first `width` columns of it."""
        raise kind(self._format(message, node, width))

    def _format(self, message: str, node: ast.AST, width: int | None) -> str:
        text = f"\n{message}:\n{self.source.excerpt(node, width)}"
        errors: Refusal = self
        while errors.call is not None:
            caller, node_of_call = errors.call
            text += (f"'{errors.name}' is being compiled since it was called from "
                     f"'{caller.name}'\n{caller.source.excerpt(node_of_call)}")
            errors = caller
        return text
