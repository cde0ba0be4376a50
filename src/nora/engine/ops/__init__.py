"""The operations that programs are made of: one file per kind."""
