"""gao2019, "Representation Degeneration Problem": cosine regularisation, γ = 1 everywhere."""

from course_lab.parts import part
from course_lab.recipes.baselines import (
    AWD_LSTM_WT2,
    CACHE_WT2,
    ET_ASGD,
    adapted,
    finetuned,
    transformer,
)
from course_lab.recipes.registry import add

COSINE = part("CosineRegularizer", weight=1.0)

# Table 1: AWD-LSTM on WikiText-2. The later papers quote these rows.
_softmax = add(
    AWD_LSTM_WT2,
    name="wikitext-2/awd-lstm/softmax",
    source="gao2019, Table 1; wang2019, Table 2; wang2020, Tables 1, 6, 7; "
    "parthiban2021, Table S11: AWD-LSTM, not finetuned, NT-ASGD",
)
_cosine = add(
    AWD_LSTM_WT2,
    name="wikitext-2/awd-lstm/cosine",
    source="gao2019, Table 1; wang2020, Table 1: MLE-CosReg, not finetuned",
    regularizers=(*AWD_LSTM_WT2.regularizers, COSINE),
)
add(  # `softmax/et-asgd` is parthiban2021's
    _cosine,
    name="wikitext-2/awd-lstm/cosine/et-asgd",
    source="the course's own: averaged from the same epoch on as wang2020's models, beside them",
    optimisation=ET_ASGD,
)
_source = "gao2019, Table 1; wang2019, Table 2; wang2020, Table 1: AWD-LSTM, finetuned"
_softmax_finetuned = finetuned(_softmax, _source)
_cosine_finetuned = finetuned(_cosine, "gao2019, Table 1; wang2020, Table 1: MLE-CosReg, finetuned")
for _base, _start in ((_softmax, _softmax_finetuned), (_cosine, _cosine_finetuned)):
    _source = "gao2019, Table 1; wang2020, Table 1: continuous cache, after finetuning"
    adapted(_base, "continuous-cache", _source, CACHE_WT2, start=_start)

# Table 2: the Transformer of Vaswani et al. on WMT 2014.
_to_german = transformer("wmt14", "en-de", "base")
_to_english = transformer("wmt14", "de-en", "base")
_big = transformer("wmt14", "en-de", "big")
for _base, _softmax_tables, _cosine_tables in (
    (_to_german, "; wang2019, Table 4; wang2020, Tables 5, 7", "; wang2020, Table 5"),
    (_big, "; wang2019, Table 4; wang2020, Table 5", "; wang2019, Table 4; wang2020, Table 5"),
    (_to_english, "", ""),
):
    _source = f"gao2019, Table 2{_softmax_tables}: Transformer"
    add(_base, name=f"{_base.name}/softmax", source=_source)
    _source = f"gao2019, Table 2{_cosine_tables}: MLE-CosReg"
    add(_base, name=f"{_base.name}/cosine", source=_source, regularizers=(COSINE,))
