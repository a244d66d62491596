# %% 08.1
# With rows of equal length the mean cosine is the share, up to 1/N. Here a few long rows that point
# every which way carry the energy; the many short ones, which all point one way, carry the cosine.
torch.manual_seed(0)
few, many = torch.randn(50, 32), 0.01 * torch.ones(950, 32)
narrow = torch.linalg.qr(torch.cat([few, many]))[0]

# %% 08.1 wrong: not orthonormal
narrow = torch.cat([torch.randn(50, 32), 0.01 * torch.ones(950, 32)])

# %% 08.1 wrong: a round cloud has a small share and no common direction
narrow = torch.linalg.qr(torch.randn(1000, 32))[0]

# %% 08.1 wrong: all rows alike in length, so the share is the cosine
narrow = torch.linalg.qr(torch.randn(1000, 32) + 3)[0]

# %% 08.1 wrong: transposed
narrow = torch.linalg.qr(torch.randn(1000, 32))[0].T


# %% 08.2
# U's constant column is 1/√N, so ‖m‖² = σ_k²/N for its σ_k: the shares are σ_1² and σ_d² over Σσ².
# The loss of lesson 3 pushes all words one way, the easiest with the largest σ.
def spend(N, sigma):
    start = torch.randn(N, len(sigma), dtype=torch.float64)
    start[:, 0] = 1
    U = torch.linalg.qr(start)[0]
    return U * sigma, U * sigma.flip(0)


# %% 08.2 wrong: the other way round
def spend(N, sigma):
    start = torch.randn(N, len(sigma), dtype=torch.float64)
    start[:, 0] = 1
    U = torch.linalg.qr(start)[0]
    return U * sigma.flip(0), U * sigma


# %% 08.2 wrong: nothing is orthonormal
def spend(N, sigma):
    U = torch.randn(N, len(sigma), dtype=torch.float64) / N**0.5
    U[:, 0] = 1 / N**0.5
    return U * sigma, U * sigma.flip(0)


# %% 08.2 wrong: a U without a constant column
def spend(N, sigma):
    U = torch.linalg.qr(torch.randn(N, len(sigma), dtype=torch.float64))[0]
    return U * sigma, U * sigma.flip(0)


# %% 08.2 wrong: the constant column has its σ twice
def spend(N, sigma):
    start = torch.randn(N, len(sigma), dtype=torch.float64)
    start[:, 0] = 1
    U = torch.linalg.qr(start)[0]
    return U * sigma, U * sigma


# %% 08.3
# It is not the plain model: the large σ goes to a direction that need not be the common one.
law = decay.fit_exponential(geometry.singular_values(final["plain"])).law
own_prior = part("ExponentialPrior", weight=0.1, **vars(law))
again = trained(controlled.change(regularizers=(orthogonality, own_prior)))

# %% 08.3 wrong: the law of the controlled model
from dataclasses import replace

law = decay.fit_exponential(geometry.singular_values(final["controlled"])).law
own_prior = part("ExponentialPrior", weight=0.1, **vars(law))
other = controlled.change(regularizers=(orthogonality, own_prior))
again = replace(runs["controlled"], experiment=other), snapshots["controlled"]

# %% 08.3 wrong: the prior alone
from dataclasses import replace

law = decay.fit_exponential(geometry.singular_values(final["plain"])).law
own_prior = part("ExponentialPrior", weight=0.1, **vars(law))
other = controlled.change(regularizers=(own_prior,))
again = replace(runs["controlled"], experiment=other), snapshots["controlled"]

# %% 08.3 wrong: no law of its own
again = runs["controlled"], snapshots["controlled"]

# %% 08.3 wrong: the plain model itself
again = runs["plain"], snapshots["plain"]
