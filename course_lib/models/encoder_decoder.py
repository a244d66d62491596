"""What every encoder-decoder of translation shares: one call for both sides, states by column."""

from typing import Any

from torch import Tensor, nn

from course_lib.models.state import map_state


class EncoderDecoder(nn.Module):
    """`encode(x, padding)` reads the source, `decode(y, memory, padding, state)` the target.

    A state is (what belongs to the columns of y, what belongs to those of x), tensors with columns
    first.
    """

    def forward(
        self, x: Tensor | None, y: Tensor, padding: Tensor, state: Any = None
    ) -> tuple[Tensor, Any]:
        """Return contexts (T, C, output_size), state of x (S, B, d), y (T, C, d), padding (S, B).

        With a state the source has been read, and x may be None.
        """
        memory = self.encode(x, padding) if state is None else None
        return self.decode(y, memory, padding, state)

    @staticmethod
    def select(state: Any, columns: Tensor, sources: Tensor | None = None) -> Any:
        """Return the state of these columns of y (C',), and of x (B',) or all of x, in order."""
        past, source = state
        if sources is not None:
            source = map_state(lambda t: t.index_select(0, sources), source)
        return map_state(lambda t: t.index_select(0, columns), past), source
