"""Tests of the local cluster, and the tests that need it (marker `cluster`)."""
