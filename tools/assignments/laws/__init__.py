"""The laws of each assignment, and what laws have in common."""
