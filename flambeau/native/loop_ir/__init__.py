"""The loop IR: its nodes, verifier, printer, structural fingerprint and reference interpreter."""
