"""A language model of the course as transformers knows it; needs that package.

    AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)

finds the two classes by way of the folder's modeling_course.py, which imports them from here. After
`import course_lab.hugging_face.model` the same call needs no trust in a folder's code.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    GenerationMixin,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers.modeling_outputs import CausalLMOutput

from course_lab.experiment import Experiment
from course_lib.errors import CourseError
from course_lib.evaluation.generation import CONTEXT
from course_lib.output_layers import IGNORE
from course_lib.protocols import WithMemory


class CourseConfig(PretrainedConfig):
    """The experiment of a run, and the size of its vocabulary."""

    model_type = "course-lab"

    def __init__(
        self,
        experiment: dict | None = None,
        vocab_size: int = 1,
        unknown: int | None = None,
        **options,
    ):
        """Keep what decides the model.

        experiment: the plain data of the run's experiment.
        vocab_size: N.
        unknown: the id of `<unk>`, which stands for the ids that only the tokenizer has.
        options: of every configuration.
        """
        self.experiment = experiment
        self.vocab_size = vocab_size
        self.unknown = unknown
        super().__init__(**options)


class CourseForCausalLM(PreTrainedModel, GenerationMixin):
    """A language model of the course, whose logits are log-probabilities.

    A softmax leaves them as they are, so whatever works with logits works with them, whatever the
    output layer is. Texts begin with `<eos>`, as the tokenizer has it.
    """

    config_class = CourseConfig
    base_model_prefix = "model"
    main_input_name = "input_ids"

    def __init__(self, config: CourseConfig):
        """Build the model of the experiment; its weights come afterwards."""
        super().__init__(config)
        experiment = Experiment.from_dict(config.experiment or {})
        # What is computed in a constructor must not be left on the meta device, and the numbers
        # that the constructor draws are nobody's.
        with torch.device("cpu"), torch.random.fork_rng(devices=[]):
            self.model = experiment.build(config.vocab_size)
        self._tied_weights_keys = _second_names(self)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Leave the weights as the experiment drew them."""

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        logits_to_keep: int = 0,
        num_items_in_batch: int | Tensor | None = None,
        **others,
    ) -> CausalLMOutput:
        """Return log P (B, T, N) of the word after each, and with labels the mean loss.

        input_ids: (B, T). labels: (B, T), of which label t + 1 is what position t predicts; -100
            does not count.
        attention_mask: (B, T); its zeros may stand at the right only, behind a shorter text.
        logits_to_keep: how many of the last positions are asked for; 0: all.
        num_items_in_batch: what the Trainer divides the summed loss by, where several batches make
            one update; None: the number of labels that count.
        others: what generation hands to every model, such as `use_cache`; this one has no cache.
        """
        if attention_mask is not None and (attention_mask[:, 1:] > attention_mask[:, :-1]).any():
            raise CourseError("pad on the right: this model reads on from the first word")
        hidden = self._hidden(self._known(input_ids))
        log_prob = self.model.output_layer.log_prob(hidden[:, -logits_to_keep:])
        loss = None
        if labels is not None:
            if logits_to_keep:
                raise CourseError("a loss needs all positions; leave logits_to_keep at 0")
            following = self._known(labels)[:, 1:]
            pairs = log_prob[:, :-1].flatten(0, 1), following.flatten()
            if num_items_in_batch is None:
                loss = F.nll_loss(*pairs)
            else:
                loss = F.nll_loss(*pairs, reduction="sum") / num_items_in_batch
        return CausalLMOutput(loss=loss, logits=log_prob)

    def _known(self, ids: Tensor) -> Tensor:
        """Return ids with `<unk>` in place of what the tokenizer knows and the model does not."""
        is_other = ids >= self.config.vocab_size
        if self.config.unknown is None or not is_other.any():
            return ids
        return ids.masked_fill(is_other, self.config.unknown)

    def _hidden(self, ids: Tensor) -> Tensor:
        """Return the contexts (B, T, d), read in pieces as `score` and `next` read them."""
        encoder = self.model.encoder
        short = isinstance(encoder, WithMemory) and encoder.memory < CONTEXT
        if short and not self.training:
            self.model.encoder = encoder.with_memory(CONTEXT, encoder.clamp)
        try:
            state = None
            parts = []
            for piece in ids.T.split(CONTEXT):
                _, _, hidden, state = self.model(piece, state)
                parts.append(hidden)
        finally:
            self.model.encoder = encoder
        return torch.cat(parts).transpose(0, 1)


def _second_names(model: nn.Module) -> dict[str, str]:
    """Return the first name of every parameter that has another one, by the other one."""
    first: dict[Tensor, str] = {}
    named = model.named_parameters(remove_duplicate=False)
    pairs = ((name, first.setdefault(parameter, name)) for name, parameter in named)
    return {name: origin for name, origin in pairs if name != origin}


assert IGNORE == -100  # as `nll_loss` has it, and transformers
AutoConfig.register(CourseConfig.model_type, CourseConfig, exist_ok=True)
AutoModelForCausalLM.register(CourseConfig, CourseForCausalLM, exist_ok=True)
