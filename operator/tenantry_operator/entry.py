"""The program `tenantry-operator`; `main` is what it does."""

from tenantry_api import program


def main() -> int:
    """Run it, or say which package it lacks. Returns the exit code."""
    return program.run("tenantry-operator", "tenantry_operator.main", "operator")
