"""Builders of loop IR for eager operators that run natively."""
