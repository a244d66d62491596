# %% 04.1
def to_gain(truth):
    """The entropy of the frequencies minus that of the language."""
    return -(truth.unigram @ truth.unigram.log()) - truth.entropy


# %% 04.1 wrong: against a model that knows nothing
# says: know the words' frequencies
def to_gain(truth):
    return np.log(len(truth.unigram)) - truth.entropy


# %% 04.1 wrong: the wrong sign
# says: a gain is positive
def to_gain(truth):
    return truth.entropy + (truth.unigram @ truth.unigram.log())


# %% 04.1 wrong: as if each context came equally often
def to_gain(truth):
    own = -(truth.matrix.exp() * truth.matrix).sum(1).mean()
    return -(truth.unigram @ truth.unigram.log()) - own


# %% 04.1 wrong: bits
# says: these are bits, not nats
def to_gain(truth):
    nats = -(truth.unigram @ truth.unigram.log()) - truth.entropy
    return nats * 1.4427


# %% 04.1 wrong: the difference of perplexities
def to_gain(truth):
    own = -(truth.unigram @ truth.unigram.log())
    return own.exp() - np.exp(truth.entropy)


# %% 04.2
# The mixture: 200 × 12 words, 200 biases, 4 × 52 for its weights, 48 × 52 + 48 for its contexts,
# 80 × 52 from the encoder, 9,512 in all. A softmax: 200 d + 200 + 80 d.
fair = (9512 - 200) // 280

# %% 04.2 wrong: the same d
# says: would still have no more numbers
fair = 12

# %% 04.2 wrong: without the contexts
fair = (5352 - 200) // 200

# %% 04.2 wrong: as many numbers from the encoder
fair = 52

# %% 04.2 wrong: rounded up
# says: may choose more numbers
fair = (9512 - 200) // 280 + 1

# %% 04.2 wrong: the words alone
fair = 48

# %% 04.3
# matrix_rank takes rounding in the 16th digit for none, hidden_size any noise that leaves a gap of
# ten.
decimals = 11, 1

# %% 04.3 wrong: the other way round
# says: matrix_rank does not see it with 1
decimals = 1, 11

# %% 04.3 wrong: more than needed
# says: could do with fewer
decimals = 12, 3

# %% 04.3 wrong: whole numbers
# says: hidden_size does not see it with 0
decimals = 11, 0

# %% 04.3 wrong: what is asked in passing
decimals = 3, 3

# %% 04.3 wrong: one of them
# says: assign two integers
decimals = 1
