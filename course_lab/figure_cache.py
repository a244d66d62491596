"""Final figures that take hours, such as a search on validation data, need not be had at once."""

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from course_lib.errors import Paused
from course_lib.training.checkpoint import write_atomically


class FigureCache:
    """Figures of one model by name, each written down as soon as it is there. Without a path
    nothing is, and there is no pause.

    `of` says what they are figures of, as plain data; those of something else are forgotten. Past
    the `deadline`, in seconds as time.time() counts, none is begun but the first: every call brings
    a run further. `starts`, the origins of the run's starts, are noted with them; those of earlier
    calls come before the last of them, which is this one's.
    """

    def __init__(
        self, path: Path | None, of: dict, deadline: float | None = None, starts: list = ()
    ):
        self.path, self.of, self.starts = path, json.loads(json.dumps(of)), list(starts)
        self.deadline = math.inf if deadline is None or path is None else deadline
        self.known, self.begun = {}, False
        if path is not None:
            self._remember()

    def _remember(self) -> None:
        """What the file knows of the same."""
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            known, before = dict(content["figures"]), list(content["starts"])
            if content["of"] == self.of:
                self.known = known
                now = self.starts[-1:]
                self.starts = [start for start in before if start not in now] + [
                    start for start in self.starts if start not in before or start in now
                ]
        except (OSError, ValueError, KeyError, TypeError):
            pass  # damaged notes cost time, nothing else

    def __call__(self, name: str, compute: Callable[[], Any]) -> Any:
        """The figure of that name, as noted or else as computed now: plain data.

        `Paused` where it would have to be computed past the deadline.
        """
        if name not in self.known:
            if self.begun and time.time() > self.deadline:
                have = f"{len(self.known)} final figures noted"
                raise Paused(f"paused at its deadline with {have}; run it again")
            self.begun = True
            self.known[name] = compute()
            if self.path is not None:
                notes = {"of": self.of, "starts": self.starts, "figures": self.known}
                notes = json.dumps(notes, indent=2)  # inf, too, where a setting diverged
                write_atomically(self.path, notes.encode())
        return self.known[name]

    def forget(self) -> None:
        """Remove the notes, once all figures are there."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
