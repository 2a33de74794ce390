"""What a profile notes while it is on, and the forms in which it is handed over."""
