"""What every encoder-decoder of translation shares: one call for both sides, states by column."""

from typing import Any

from torch import Tensor, nn

from course_lib.models.state import map_state


class EncoderDecoder(nn.Module):
    """A stack of layers that reads a source, and one that goes on with its targets.

    `encode(x, padding)` returns memory, `decode(y, memory, padding, state)` contexts and a state.
    A call does both.

    x: word vectors of the source, (S, B, d).
    padding: (S, B), True at what no position may see. Every column needs a word that may be seen.
    memory: what `encode` makes of the source, (S, B, u).
    y: word vectors of the targets, (T, C, d). C is B or a multiple of it: then C/B columns one
        after the other are targets of the same source.
    state: (what belongs to the columns of y, what belongs to those of x), tensors with columns
        first. Given one, y continues its targets, and x and memory may be None. Targets piece by
        piece give what they give in one call.
    """

    def forward(
        self, x: Tensor | None, y: Tensor, padding: Tensor, state: Any = None
    ) -> tuple[Tensor, Any]:
        """Return contexts (T, C, u) and the state after them."""
        memory = self.encode(x, padding) if state is None else None
        return self.decode(y, memory, padding, state)

    @staticmethod
    def select(state: Any, columns: Tensor, sources: Tensor | None = None) -> Any:
        """Return the state of these columns of y (C',), and of x (B',) or all of x, in order."""
        past, source = state
        if sources is not None:
            source = map_state(lambda t: t.index_select(0, sources), source)
        return map_state(lambda t: t.index_select(0, columns), past), source
