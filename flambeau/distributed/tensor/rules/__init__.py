"""The sharding rules of operators, a file per family; `table` has them all."""
