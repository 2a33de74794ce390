"""Functions that take a series, on vectors of lanes: exp, log, tanh, erf, sin, pow and their kin.

Float32 to 2 units in the last place. exp, the logarithms, tanh and erf are worked out in float32
(erfc with AVX-512); the others in float64 inside, rounded once. On float64 they are series to 2
units, exp to 1, erf by interval with AVX-512; in exact kernels, and erfc, pow and the inverses of
hyperbolic functions anywhere, they are the C library's, called lane by lane.
"""
