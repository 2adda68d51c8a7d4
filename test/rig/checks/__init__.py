"""The checks of `selftest`."""
