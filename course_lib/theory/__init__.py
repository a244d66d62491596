"""The papers' theorems as functions whose claims can be checked on numbers."""

from course_lib.theory.bottleneck import HiddenSize, hidden_size, rank_bound
from course_lib.theory.gao2019 import (
    Hull,
    Merikoski,
    layer_norm_condition,
    layer_norm_direction,
    log_rest,
    merikoski,
    non_appearing_loss,
    rare_word_bound,
    uniformly_negative_direction,
)
from course_lib.theory.inan2017 import (
    Tying,
    augmented_gradient,
    matched_gradient,
    tying_map,
    zero_loss_map,
)
from course_lib.theory.wang2019 import (
    Witness,
    adversarial_probability,
    energy,
    margin_witness,
    recognition_bound,
    worst_perturbation,
)
from course_lib.theory.wang2020 import Gap, generalisation_gap

__all__ = ["Gap", "HiddenSize", "Hull", "Merikoski", "Tying", "Witness"]
__all__ += ["adversarial_probability", "hidden_size"]
__all__ += ["augmented_gradient", "energy", "generalisation_gap", "layer_norm_condition"]
__all__ += ["layer_norm_direction", "log_rest", "margin_witness", "matched_gradient", "merikoski"]
__all__ += ["non_appearing_loss", "rank_bound", "rare_word_bound", "recognition_bound", "tying_map"]
__all__ += ["uniformly_negative_direction", "worst_perturbation", "zero_loss_map"]
