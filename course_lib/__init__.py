"""The output embedding of neural language models: a course and a laboratory.

Importing the package is light; torch and friends are imported by the modules that need them.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from course_lib.attachment import attach as attach

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`course_lib.attach`, imported only when it is asked for."""
    if name == "attach":
        from course_lib.attachment import attach

        return attach
    raise AttributeError(f"module 'course_lib' has no attribute {name!r}")
