"""Scenarios by topic; see harness/scenario.py."""
