"""Context encoders, and the language model that puts one between two word matrices."""

from course_lib.models.awd_lstm import AWDLSTM
from course_lib.models.language_model import LanguageModel, Step
from course_lib.models.lstm import VariationalLSTM
from course_lib.models.qrnn import QRNN
from course_lib.models.reading import Reading
from course_lib.models.rhn import RHN
from course_lib.models.state import detach
from course_lib.models.transformer_xl import TransformerXL

__all__ = [
    "AWDLSTM",
    "QRNN",
    "RHN",
    "LanguageModel",
    "Reading",
    "Step",
    "TransformerXL",
    "VariationalLSTM",
    "detach",
]
