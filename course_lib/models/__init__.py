"""Context encoders, and the language and translation models that put words around them."""

from course_lib.models.awd_lstm import AWDLSTM
from course_lib.models.input_embedding import InputEmbedding
from course_lib.models.language_model import LanguageModel, OutputModel, Step, TranslationModel
from course_lib.models.llama import Llama, LlamaShape
from course_lib.models.lstm import VariationalLSTM
from course_lib.models.lstm_translator import LSTMTranslator
from course_lib.models.qrnn import QRNN
from course_lib.models.rhn import RHN
from course_lib.models.state import detach
from course_lib.models.transformer import Transformer
from course_lib.models.transformer_xl import TransformerXL

__all__ = ["AWDLSTM", "QRNN", "RHN", "LSTMTranslator", "LanguageModel", "OutputModel", "Step"]
__all__ += ["InputEmbedding", "Transformer", "TransformerXL", "TranslationModel"]
__all__ += ["Llama", "LlamaShape", "VariationalLSTM", "detach"]
