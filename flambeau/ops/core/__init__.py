"""The machinery of operators: registry, dispatch, promotion, in-place twins, errors, autocast."""
