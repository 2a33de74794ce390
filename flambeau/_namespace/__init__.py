"""Parts of torch's top level: settings, assertions, legacy types, symbolic numbers."""
