"""Assignments that are marked by laws: editions, sandbox, marking, feedback, exports."""
