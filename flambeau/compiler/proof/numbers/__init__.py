"""Outside numbers of a watched call: what it decides by them, and what operators take."""
