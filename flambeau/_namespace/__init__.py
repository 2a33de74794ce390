"""What the top level of torch is made of: settings, assertions, legacy types, symbolic numbers."""
