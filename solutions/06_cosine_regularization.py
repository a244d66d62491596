"""Answers to the exercises of lesson 06: each block takes the place of a cell tagged `exercise`."""


# %% 06.1
def turn(rho, theta, eta, gamma, m_length, N):
    return 2 * eta * gamma * m_length * np.sin(theta) / (N * rho**2)


# %% 06.1 wrong: how far it moves
def turn(rho, theta, eta, gamma, m_length, N):
    return 2 * eta * gamma * m_length * np.sin(theta) / (N * rho)


# %% 06.1 wrong: no N
def turn(rho, theta, eta, gamma, m_length, N):
    return 2 * eta * gamma * m_length * np.sin(theta) / rho**2


# %% 06.1 wrong: no 2
def turn(rho, theta, eta, gamma, m_length, N):
    return eta * gamma * m_length * np.sin(theta) / (N * rho**2)


# %% 06.1 wrong: towards m
def turn(rho, theta, eta, gamma, m_length, N):
    return -2 * eta * gamma * m_length * np.sin(theta) / (N * rho**2)


# %% 06.1 wrong: the part along the word
def turn(rho, theta, eta, gamma, m_length, N):
    return 2 * eta * gamma * m_length * np.cos(theta) / (N * rho**2)


# %% 06.1 wrong: in degrees
def turn(rho, theta, eta, gamma, m_length, N):
    return np.degrees(2 * eta * gamma * m_length * np.sin(theta) / (N * rho**2))


# %% 06.1 wrong: the square of the length of m
def turn(rho, theta, eta, gamma, m_length, N):
    return 2 * eta * gamma * m_length**2 * np.sin(theta) / (N * rho**2)


# %% 06.2
def opened(gamma):
    """Mean cosine of the rare words after 100 steps of gradient descent on γ R."""
    words = FullWords(*W["without"].shape)
    words.weight.data.copy_(W["without"])
    optimizer = torch.optim.SGD(words.parameters(), 0.5)
    for _ in range(100):
        optimizer.zero_grad()
        CosineRegularizer(gamma)(words).backward()
        optimizer.step()
    return geometry.mean_cosine(words.weight.detach()[rare])


enough = geometry.mean_cosine(W["without"][rare]) / 2
strong = next(10.0**k for k in range(9) if opened(10.0**k) < enough)

# %% 06.2 wrong: the paper's
strong = 1.0

# %% 06.2 wrong: more than enough
strong = 1e6

# %% 06.2 wrong: no power of ten
strong = float(len(W["without"]))

# %% 06.2 wrong: the exponent
strong = 2


# %% 06.3
def in_a_cone(W):
    longest = W.norm(dim=1).max()
    return W + 10 * longest * F.normalize(torch.ones(W.shape[1]).double(), dim=0)


# %% 06.3 wrong: the mean direction vanishes
def in_a_cone(W):
    return W - W.mean(0)


# %% 06.3 wrong: too short for long words
def in_a_cone(W):
    return W + 30


# %% 06.3 wrong: one row for all
def in_a_cone(W):
    return W.mean(0).expand_as(W)


# %% 06.3 wrong: longer words
def in_a_cone(W):
    return 10 * W


# %% 06.3 wrong: the directions are moved, not the words
def in_a_cone(W):
    return F.normalize(W, dim=1) + 10
