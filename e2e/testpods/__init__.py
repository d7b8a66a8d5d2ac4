"""Programs of the tests' images: `idle` waits, `echo` answers HTTP. Standard library only."""
