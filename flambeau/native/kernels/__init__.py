"""Builders of loop IR for what eager operators run natively."""
