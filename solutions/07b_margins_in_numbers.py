"""Answers to the exercises of lesson 07b, each in place of a cell tagged `exercise`."""


# %% 07b.1
def sharpened(q, m):
    return q * (1 + m * q - (m * q**2).sum())


# %% 07b.1 wrong: one margin for all
# says: whose m is in which term
def sharpened(q, m):
    return q * (1 + m[0] * (q - (q**2).sum()))


# %% 07b.1 wrong: the mean margin for all
# says: not for unequal margins: whose m is in which term
def sharpened(q, m):
    return q * (1 + m.mean() * (q - (q**2).sum()))


# %% 07b.1 wrong: flattened
# says: equal margins: which words become likelier
def sharpened(q, m):
    return q * (1 - m * q + (m * q**2).sum())


# %% 07b.1 wrong: the sum is not one
# says: with equal margins the sum of p is 1.0026
def sharpened(q, m):
    return q * (1 + m * q)


# %% 07b.1 wrong: the truth
# says: equal margins: which words become likelier
def sharpened(q, m):
    return q


# %% 07b.1 wrong: the margin taken from the logits
# says: equal margins: which words become likelier
def sharpened(q, m):
    return (q.log() - m).softmax(0)


# %% 07b.2
# ‖w_i − w_j‖² = 2r² − 2 w_iᵀw_j, so that (w_i − w_j)ᵀw_i / r = (r² − w_iᵀw_j) / r = D² / 2r.
def least(D, r):
    return D**2 / (2 * r)


# %% 07b.2 wrong: the bound from above
# says: the lead does not grow with D as this does
def least(D, r):
    return D


# %% 07b.2 wrong: half the way
# says: the lead does not grow with D as this does
def least(D, r):
    return D / 2


# %% 07b.2 wrong: the factor two
# says: that is 2 times the lead
def least(D, r):
    return D**2 / r


# %% 07b.2 wrong: not per unit of the context's length
# says: with r = 3 that is 3 times the lead
def least(D, r):
    return D**2 / 2


# %% 07b.2 wrong: not divided by r, which is 1 at first
# says: with r = 3 that is
def least(D, r):
    return D**2 / (2 * r**2)
