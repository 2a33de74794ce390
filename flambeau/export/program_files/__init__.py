"""Programs as JSON: the part of an archive that flambeau reads back exactly."""
