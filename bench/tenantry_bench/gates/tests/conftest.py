"""What the commands under test do to their process is undone after each test."""

from tenantry_bench.simulator.tests.conftest import loud

__all__ = ["loud"]
