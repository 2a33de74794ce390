"""What storages are built of: their conversions, and numbers that identify their memory."""
