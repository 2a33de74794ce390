"""Worker processes of a DataLoader: their memory, their messages, their start and end."""
