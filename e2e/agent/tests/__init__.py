"""Tests of the agent's pure parts; they need no cluster."""
