"""Programs of the images that tests run: `idle` waits, `echo` answers HTTP. Standard library only."""
