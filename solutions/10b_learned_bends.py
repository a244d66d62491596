"""Answers to the exercises of lesson 10b, each in place of a cell tagged `exercise`."""

# %% 10b.1
x = torch.linspace(-19.95, 19.95, 400).double()  # the middles of the pieces
gss_chain = torch.log(torch.expm1(1 + 1.5 * (-1.5 - x).sigmoid()))

# %% 10b.1 wrong: the slopes themselves
# says: undo it
x = torch.linspace(-19.95, 19.95, 400).double()
gss_chain = 1 + 1.5 * (-1.5 - x).sigmoid()

# %% 10b.1 wrong: steep above c
# says: the steep side lies below c
x = torch.linspace(-19.95, 19.95, 400).double()
gss_chain = torch.log(torch.expm1(1 + 1.5 * (x + 1.5).sigmoid()))

# %% 10b.1 wrong: the values of PL
# says: not its slopes
x = torch.linspace(-19.95, 19.95, 400).double()
gss_chain = PL(x, -1.5, 2.5)

# %% 10b.1 wrong: one number for each unit of x
# says: 400 numbers
gss_chain = torch.log(torch.expm1(1 + 1.5 * (-1.5 - torch.linspace(-19.5, 19.5, 40)).sigmoid()))

# %% 10b.2
level = raw["GSS"] - raw["GSS"].mean(1, keepdim=True) + raw["GSS"].mean()
fixed = perplexity(PL(level, -1.5, 2.5).log_softmax(1))

# %% 10b.2 wrong: the mean over all is lost, and the bend stands elsewhere
# says: c stands elsewhere
level = raw["GSS"] - raw["GSS"].mean(1, keepdim=True)
fixed = perplexity(PL(level, -1.5, 2.5).log_softmax(1))

# %% 10b.2 wrong: not bent
# says: not bent
level = raw["GSS"] - raw["GSS"].mean(1, keepdim=True) + raw["GSS"].mean()
fixed = perplexity(level.log_softmax(1))

# %% 10b.2 wrong: the model as it is
# says: the model as it is
fixed = perplexity(PL(raw["GSS"], -1.5, 2.5).log_softmax(1))

# %% 10b.2 wrong: the means of the columns, the words
# says: a context's mean is over its words
level = raw["GSS"] - raw["GSS"].mean(0, keepdim=True) + raw["GSS"].mean()
fixed = perplexity(PL(level, -1.5, 2.5).log_softmax(1))
