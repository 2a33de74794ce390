"""Coefficients of the single-precision log, sin and cos of Moshier's Cephes library.

PyTorch draws normal numbers with these polynomials; array code and kernels do the same.
"""

LOG = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)
LN2_LOW, LN2_HIGH = -2.12194440e-4, 0.693359375  # ln 2 in two parts
SIN = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
COS = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
QUARTER_PI = (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)  # -pi / 4 in parts
FOUR_OVER_PI = 1.27323954473516
SQRT_HALF = 0.707106781186547524
