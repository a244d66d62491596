# %% 03.1
def outside(M, d, draws):
    """Around M = 2 d the share falls from nearly 1 to nearly 0."""
    found = [
        theory.uniformly_negative_direction(torch.randn(M, d)).margin > 0 for _ in range(draws)
    ]
    return torch.tensor(found).float().mean()


# %% 03.1 wrong: the share with the origin inside
def outside(M, d, draws):
    found = [
        theory.uniformly_negative_direction(torch.randn(M, d)).margin > 0 for _ in range(draws)
    ]
    return 1 - sum(found) / draws


# %% 03.1 wrong: all on one side
def outside(M, d, draws):
    found = [theory.uniformly_negative_direction(torch.rand(M, d)).margin > 0 for _ in range(draws)]
    return sum(found) / draws


# %% 03.1 wrong: one a column
def outside(M, d, draws):
    found = [
        theory.uniformly_negative_direction(torch.randn(d, M)).margin > 0 for _ in range(draws)
    ]
    return sum(found) / draws


# %% 03.1 wrong: how many draws, not which share
def outside(M, d, draws):
    found = [
        theory.uniformly_negative_direction(torch.randn(M, d)).margin > 0 for _ in range(draws)
    ]
    return sum(found)


# %% 03.1 wrong: always three dimensions
# says: 61 draws of 12 vectors in 6
def outside(M, d, draws):
    found = [
        theory.uniformly_negative_direction(torch.randn(M, 3)).margin > 0 for _ in range(draws)
    ]
    return sum(found) / draws


# %% 03.1 wrong: always twenty draws
# says: vectors in
def outside(M, d, draws):
    found = [theory.uniformly_negative_direction(torch.randn(M, d)).margin > 0 for _ in range(20)]
    return sum(found) / 20


# %% 03.2
# b/g − c/d has entries that add up to 0, so b and every context change by −g c/d. Within the plane
# the contexts still lie to one side: the solver finds a direction.
gain, bias = (values.double() for values in top(trained))
rebiased = H - gain * (bias / gain).mean()

# %% 03.2 wrong: nothing done
rebiased = H

# %% 03.2 wrong: taken from b, not from b/g
gain, bias = (values.double() for values in top(trained))
rebiased = H - (bias / gain).mean()

# %% 03.2 wrong: such that the entries of b add up to 0
gain, bias = (values.double() for values in top(trained))
rebiased = H - gain * bias.mean()

# %% 03.2 wrong: the whole sum from every entry
gain, bias = (values.double() for values in top(trained))
rebiased = H - gain * (bias / gain).sum()

# %% 03.2 wrong: added
gain, bias = (values.double() for values in top(trained))
rebiased = H + gain * (bias / gain).mean()

# %% 03.2 wrong: no bias at all
gain, bias = (values.double() for values in top(trained))
rebiased = H - bias

# %% 03.2 wrong: contexts centred
rebiased = H - H.mean(0)

# %% 03.3
# A step is the rate times a gradient of small probabilities: the word hardly moves.
w, rows = torch.zeros_like(H[0], requires_grad=True), []
optimizer = torch.optim.SGD([w], lr=1e-3)
for _ in range(400):
    optimizer.zero_grad()
    never(w).backward()
    optimizer.step()
    rows.append(w.detach().clone())
slow = torch.stack(rows)

# %% 03.3 wrong: Adam's
slow = paths[0]

# %% 03.3 wrong: uphill
w, rows = torch.zeros_like(H[0], requires_grad=True), []
optimizer = torch.optim.SGD([w], lr=1e-3, maximize=True)
for _ in range(400):
    optimizer.zero_grad()
    never(w).backward()
    optimizer.step()
    rows.append(w.detach().clone())
slow = torch.stack(rows)

# %% 03.3 wrong: gradients add up
w, rows = torch.zeros_like(H[0], requires_grad=True), []
optimizer = torch.optim.SGD([w], lr=1e-3)
for _ in range(400):
    never(w).backward()
    optimizer.step()
    rows.append(w.detach().clone())
slow = torch.stack(rows)

# %% 03.3 wrong: the rows are one and the same tensor
w, rows = torch.zeros_like(H[0], requires_grad=True), []
optimizer = torch.optim.SGD([w], lr=1e-3)
for _ in range(400):
    optimizer.zero_grad()
    never(w).backward()
    optimizer.step()
    rows.append(w.detach())
slow = torch.stack(rows)

# %% 03.3 wrong: the last row only
slow = paths[0][-1]
