"""A trained model is evaluated: perplexity, log-probabilities, adaptation, generated text, BLEU."""
