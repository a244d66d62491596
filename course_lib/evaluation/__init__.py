"""Evaluation of a trained model: perplexity, log P, adaptation, generated text, BLEU."""
