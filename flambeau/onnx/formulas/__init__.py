"""Formulas of operators that ONNX lacks, in terms of operators that have conversions."""
