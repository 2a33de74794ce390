


# Classes of arguments whose values may affect control flow.
_DECIDING = (bool, int, float, str, type(None))


def build_key(args: tuple, kwargs: dict[str, Any]) -> tuple:
    """Return a key: plain arguments by value, as they may affect control flow; others by class."""
    result = tuple([x if x.__class__ in _DECIDING else x.__class__ for x in args])
    if not kwargs:
        return result
    return result, tuple([(k, x if x.__class__ in _DECIDING else x.__class__)
                         for k, x in kwargs.items()])


def build_key_of_classes(args: tuple, kwargs: dict[str, Any]) -> tuple:
    """Return the classes of the arguments, for functions that use numbers only as operands."""
    result = (*map(type, args),)
    return (result, tuple([(k, type(x)) for k, x in kwargs.items()])) if kwargs else result
