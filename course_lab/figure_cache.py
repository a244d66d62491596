"""A cache of final figures: some take hours, and a run may pause between two of them."""

import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from course_lib.errors import DAMAGED, Paused
from course_lib.training.checkpoint import write_atomically


class FigureCache:
    """The figures of one model by name, each written down as soon as it is computed.

    path: the file; None for a cache that only remembers, and never pauses.
    of: what they are figures of, as plain data; a file with figures of something else is ignored.
    deadline: seconds as time.time() counts. Past it no figure is begun but the first, so that every
        call brings a run further.
    starts: the origins of the run's starts. Those that the file knows from earlier calls come
        before the last of them, which is this call's.
    """

    def __init__(
        self, path: Path | None, of: dict, deadline: float | None = None, starts: Sequence = ()
    ):
        self.path = path
        self.of = json.loads(json.dumps(of))  # as it will be read back
        self.starts = list(starts)
        self.deadline = math.inf if deadline is None or path is None else deadline
        self.known = {}
        self.begun = False
        if path is not None:
            self._remember(path)

    def _remember(self, path: Path) -> None:
        """Take over the figures of a file of the same; a damaged one costs time, nothing else."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            figures = dict(content["figures"])
            earlier = list(content["starts"])
            of = content["of"]
        except (*DAMAGED, KeyError, TypeError):
            return
        if of == self.of:
            self.known = figures
            now = self.starts[-1:]
            self.starts = [start for start in earlier if start not in now] + [
                start for start in self.starts if start not in earlier or start in now
            ]

    def __call__(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return the figure of that name, as known or else as computed now; it is plain data.

        `Paused` where it would have to be computed past the deadline.
        """
        if name not in self.known:
            if self.begun and time.time() > self.deadline:
                have = f"{len(self.known)} final figures noted"
                raise Paused(f"paused at its deadline with {have}; run it again")
            self.begun = True
            self.known[name] = compute()
            self._write()
        return self.known[name]

    def _write(self) -> None:
        if self.path is not None:
            content = {"of": self.of, "starts": self.starts, "figures": self.known}
            # a figure may be infinite, where a setting diverged
            write_atomically(self.path, json.dumps(content, indent=2).encode())

    def forget(self) -> None:
        """Remove the file, once all figures are in the result."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
