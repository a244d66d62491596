# %% 08.1
# With rows of equal length the mean cosine is the share, up to 1/N. Here a few long rows that point
# every which way carry the energy; the many short ones, which all point one way, carry the cosine.
torch.manual_seed(0)
few, many = torch.randn(50, 32), 0.01 * torch.ones(950, 32)
narrow = torch.linalg.qr(torch.cat([few, many]))[0]

# %% 08.1 wrong: not orthonormal
# says: UᵀU is not I
narrow = torch.cat([torch.randn(50, 32), 0.01 * torch.ones(950, 32)])

# %% 08.1 wrong: a round cloud has a small share and no common direction
# says: the mean cosine is only
narrow = torch.linalg.qr(torch.randn(1000, 32))[0]

# %% 08.1 wrong: all rows alike in length, so the share is the cosine
# says: do the long rows point one way
narrow = torch.linalg.qr(torch.randn(1000, 32) + 3)[0]

# %% 08.1 wrong: transposed
# says: at least 8 columns and 10 d rows
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
# says: in the other order
def spend(N, sigma):
    start = torch.randn(N, len(sigma), dtype=torch.float64)
    start[:, 0] = 1
    U = torch.linalg.qr(start)[0]
    return U * sigma.flip(0), U * sigma


# %% 08.2 wrong: nothing is orthonormal
# says: is U orthonormal
def spend(N, sigma):
    U = torch.randn(N, len(sigma), dtype=torch.float64) / N**0.5
    U[:, 0] = 1 / N**0.5
    return U * sigma, U * sigma.flip(0)


# %% 08.2 wrong: a U without a constant column
# says: is a column of U constant
def spend(N, sigma):
    U = torch.linalg.qr(torch.randn(N, len(sigma), dtype=torch.float64))[0]
    return U * sigma, U * sigma.flip(0)


# %% 08.2 wrong: the constant column has its σ twice
# says: both matrices have σ₁ at the constant column
def spend(N, sigma):
    start = torch.randn(N, len(sigma), dtype=torch.float64)
    start[:, 0] = 1
    U = torch.linalg.qr(start)[0]
    return U * sigma, U * sigma
