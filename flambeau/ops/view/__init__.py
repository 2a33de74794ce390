"""Views and rearrangements: shapes, strides, slices, joins, padding."""
