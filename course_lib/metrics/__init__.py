"""The measures of a word matrix. Plain arrays or tensors in, NumPy arrays or floats out."""
