"""The kinds of steps a plan is made of: one file each."""
