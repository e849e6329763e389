"""What operators of a fragment have in common, and those that need no index by key: statements and windows."""
