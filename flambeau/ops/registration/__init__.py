"""What libraries register: operators of the user's own, compiled libraries, dispatch keys."""
