# %% 37.1
angles = np.arange(8) * np.pi / 4
circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
inside = np.concatenate([circle, [[0.1, 0.05]]])

# %% 37.1 wrong: all nine are corners
angles = np.arange(9) * 2 * np.pi / 9
inside = np.stack([np.cos(angles), np.sin(angles)], axis=1)

# %% 37.1 wrong: two are inside
angles = np.arange(7) * 2 * np.pi / 7
circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
inside = np.concatenate([circle, [[0.1, 0.05], [0.0, 0.1]]])

# %% 37.1 wrong: two rows alike
angles = np.arange(8) * np.pi / 4
circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
inside = np.concatenate([circle, circle[:1]])


# %% 37.2
def keeps(W, g):
    basis = torch.linalg.qr(W).Q
    return (basis.T @ g).square().sum() / g.square().sum()


# %% 37.2 wrong: W is no orthonormal basis
def keeps(W, g):
    return (W.T @ g).square().sum() / g.square().sum()


# %% 37.2 wrong: the norm, not its square
def keeps(W, g):
    basis = torch.linalg.qr(W).Q
    return (basis.T @ g).norm() / g.norm()


# %% 37.2 wrong: what is lost
def keeps(W, g):
    basis = torch.linalg.qr(W).Q
    return 1 - (basis.T @ g).square().sum() / g.square().sum()
