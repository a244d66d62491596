"""A finished run as a folder that Hugging Face's programs and this course read, with a model card.

`export` writes the folder, `card` its README.md, `tokenizer` its tokenizer.json. `model` is what
transformers makes of the weights; it alone needs that package.
"""
