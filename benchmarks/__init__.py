"""Speed and memory of the library, measured against plain PyTorch."""
