"""Functions that take a series, on vectors of lanes: exp, log, tanh, erf, sin, pow and their kin.

Float32 to 2 units in the last place. exp, log, tanh and erf are worked out in float32; the others
in float64 inside, rounded once. On float64 exp is a series to 1 unit, but in exact
kernels; the others are the C library's, called lane by lane.
"""
