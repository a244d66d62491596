"""What a trained model says: perplexity, log-probabilities, adaptation, generated text, BLEU."""
