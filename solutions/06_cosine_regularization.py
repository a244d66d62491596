"""Answers to the exercises of lesson 06: each block takes the place of a cell tagged `exercise`."""


# %% 06.1
def turn(rho, theta, eta, gamma, m_length, N):
    return 2 * eta * gamma * m_length * np.sin(theta) / (N * rho**2)


# %% 06.1 wrong: how far it moves
# says: how far the word moves, not the angle
def turn(rho, theta, eta, gamma, m_length, N):
    return 2 * eta * gamma * m_length * np.sin(theta) / (N * rho)


# %% 06.1 wrong: no N
# says: m is a mean of N words
def turn(rho, theta, eta, gamma, m_length, N):
    return 2 * eta * gamma * m_length * np.sin(theta) / rho**2


# %% 06.1 wrong: no 2
# says: R is a square
def turn(rho, theta, eta, gamma, m_length, N):
    return eta * gamma * m_length * np.sin(theta) / (N * rho**2)


# %% 06.1 wrong: towards m
# says: it turns away from m
def turn(rho, theta, eta, gamma, m_length, N):
    return -2 * eta * gamma * m_length * np.sin(theta) / (N * rho**2)


# %% 06.1 wrong: the part along the word
# says: only the part of m across the word
def turn(rho, theta, eta, gamma, m_length, N):
    return 2 * eta * gamma * m_length * np.cos(theta) / (N * rho**2)


# %% 06.1 wrong: in degrees
# says: these are degrees
def turn(rho, theta, eta, gamma, m_length, N):
    return np.degrees(2 * eta * gamma * m_length * np.sin(theta) / (N * rho**2))


# %% 06.1 wrong: the square of the length of m
# says: one factor ‖m‖, not two
def turn(rho, theta, eta, gamma, m_length, N):
    return 2 * eta * gamma * m_length**2 * np.sin(theta) / (N * rho**2)


# %% 06.1 wrong: two mistakes at once
# says: for a ρ of 1 it is 5 times the angle
def turn(rho, theta, eta, gamma, m_length, N):
    return eta * gamma * m_length * np.sin(theta) / rho**2


# %% 06.2
def in_a_cone(W):
    longest = W.norm(dim=1).max()
    return W + 10 * longest * F.normalize(torch.ones(W.shape[1]).double(), dim=0)


# %% 06.2 wrong: the mean direction vanishes
# says: this is no cone
def in_a_cone(W):
    return W - W.mean(0)


# %% 06.2 wrong: too short for long words
# says: where the longest word has
def in_a_cone(W):
    return W + 30


# %% 06.2 wrong: one row for all
# says: all words have become one word
def in_a_cone(W):
    return W.mean(0).expand_as(W)


# %% 06.2 wrong: longer words
# says: some context gets other probabilities
def in_a_cone(W):
    return 10 * W


# %% 06.2 wrong: the directions are moved, not the words
# says: some context gets other probabilities
def in_a_cone(W):
    return F.normalize(W, dim=1) + 10
