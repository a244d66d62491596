"""A small image classifier, whose softmax weights lessons compare with word vectors."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

SEEN = 1500  # images that the network is trained on; the others test it


class Classifier(NamedTuple):
    """A trained classifier of handwritten digits."""

    states: Tensor  # (images, 32), the last hidden states
    labels: Tensor  # (images,), the digits
    weights: Tensor  # (10, 32), the rows of the softmax
    accuracy: float  # on images that it was not trained on


def train(seed: int, passes: int = 15) -> Classifier:
    """Train two convolutions and a softmax on the digits that come with scikit-learn.

    seed: of the weights and of the order of the images.
    passes: over the images.
    """
    from sklearn.datasets import load_digits

    # The images and the network.
    digits: Any = load_digits()
    images = torch.tensor(digits.images[:, None] / 16, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    torch.manual_seed(seed)
    convolutions = [nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU()]
    features = nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(512, 32))
    classes = nn.Linear(32, 10, bias=False)
    optimizer = torch.optim.AdamW([*features.parameters(), *classes.parameters()], lr=3e-3)

    # The training, and what has come of it.
    for _ in range(passes):
        for batch in torch.randperm(SEEN).split(50):
            loss = F.cross_entropy(classes(features(images[batch])), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        states = features(images)
        right = classes(states).argmax(1) == labels
    accuracy = right[SEEN:].float().mean().item()
    return Classifier(states, labels, classes.weight.detach(), accuracy)
