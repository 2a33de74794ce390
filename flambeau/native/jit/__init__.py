"""From loop IR to a callable address: compilation, the object file loader, compile workers."""
