"""torch.testing._internal.optests: checks of custom operators, and tests made of them.

torch.library.opcheck runs the checks on arguments; `generate_opcheck_tests` on each call of an
operator in existing tests.
"""

from ...operator_checks import OpCheckError, opcheck
from .aot_autograd import aot_autograd_check
from .generate_tests import (
    dontGenerateOpCheckTests, generate_opcheck_tests, is_inside_opcheck_mode,
)
from .registration_checks import autograd_registration_check, fake_check, make_fx_check

__all__ = [
    "OpCheckError", "aot_autograd_check", "autograd_registration_check",
    "dontGenerateOpCheckTests", "fake_check", "generate_opcheck_tests", "is_inside_opcheck_mode",
    "make_fx_check", "opcheck",
]
