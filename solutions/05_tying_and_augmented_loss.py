"""Answers to the exercises of lesson 05: each block takes the place of a cell tagged `exercise`."""

# %% 05.1
four = [corpus.index[word] for word in ("a", "an", "the", "<unk>")]
given = {}
for name, run in live.items():
    blocks = log_prob_blocks(run.model, corpus.test, corpus.eos, progress=False)
    shares = torch.cat([block[:, four].exp().sum(1) for block in blocks])
    given[name] = float(shares.mean())

# %% 05.1 wrong: the mean of the logarithms
four = [corpus.index[word] for word in ("a", "an", "the", "<unk>")]
given = {}
for name, run in live.items():
    blocks = log_prob_blocks(run.model, corpus.test, corpus.eos, progress=False)
    given[name] = float(torch.cat([block[:, four] for block in blocks]).mean().exp())

# %% 05.1 wrong: of one word
four = [corpus.index[word] for word in ("a", "an", "the", "<unk>")]
given = {}
for name, run in live.items():
    blocks = log_prob_blocks(run.model, corpus.test, corpus.eos, progress=False)
    given[name] = float(torch.cat([block[:, four].exp() for block in blocks]).mean())

# %% 05.1 wrong: how often the words come
four = [corpus.index[word] for word in ("a", "an", "the", "<unk>")]
share = float(torch.isin(corpus.test, torch.tensor(four)).double().mean())
given = dict.fromkeys(live, share)
