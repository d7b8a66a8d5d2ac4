"""The program `tenantry-extender`; `main` is what it does."""

from tenantry_api import program


def main() -> int:
    """Run it, or say which package it lacks. Returns the exit code."""
    return program.run("tenantry-extender", "tenantry_extender.main", "extender")
