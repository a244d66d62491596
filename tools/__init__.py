"""The making of the course: environment, notebooks, exercises, website."""
