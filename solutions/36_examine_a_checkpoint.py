# %% 36.1
# A disease of strength s brings s/(1 − s) times the energy of a healthy cloud, and the sum holds
# two such clouds: at s = 0.5 each disease has 1 of 4 parts only.
drifting = examine.diseased("drift", 0.9, N, d, 0).W
twice_ill = drifting + examine.diseased("rogue", 0.95, N, d, 1).W

# %% 36.1 wrong: each takes too little of the other's whole
drifting, rogue = (
    examine.diseased(name, 0.5, N, d, seed).W for seed, name in enumerate(("drift", "rogue"))
)
twice_ill = drifting + rogue

# %% 36.1 wrong: one disease
twice_ill = examine.diseased("drift", 0.8, N, d, 0).W

# %% 36.1 wrong: the drift hides the other
twice_ill = examine.diseased("drift", 0.95, N, d, 0).W + examine.diseased("rogue", 0.5, N, d, 1).W

# %% 36.1 wrong: another pair
twice_ill = examine.diseased("drift", 0.8, N, d, 0).W + examine.diseased("low_rank", 0.8, N, d, 1).W

# %% 36.2
# Its mean is 0, so there is no drift; it is found as one direction with too much energy, low rank.
import torch

hidden = examine.diseased("healthy", 0.0, N, d, 0).W
v = torch.randn(d, dtype=hidden.dtype, generator=torch.Generator().manual_seed(1))
v *= 10 / v.norm()
hidden[::2] += v
hidden[1::2] -= v

# %% 36.2 wrong: a drift, all rows alike
hidden = examine.diseased("drift", 0.8, N, d, 0).W

# %% 36.2 wrong: too short to be seen
hidden = examine.diseased("healthy", 0.0, N, d, 0).W
hidden[::2] += 0.1
hidden[1::2] -= 0.1

# %% 36.2 wrong: the halves are the frequent and the rare words
hidden = examine.diseased("healthy", 0.0, N, d, 0).W
hidden[: N // 2] += 1.0
hidden[N // 2 :] -= 1.0

# %% 36.2 wrong: healthy
hidden = examine.diseased("healthy", 0.0, N, d, 0).W

# %% 36.2 wrong: low rank without two clumps
hidden = examine.diseased("low_rank", 0.8, N, d, 0).W
