"""Answers to the exercises of lesson 07b, each in place of a cell tagged `exercise`."""

# %% 07b.1
h = theory.margin_witness(plane, 0).h
moved = plane.copy()
moved[1] = [1.6, 1.3]
margins_after = [theory.margin_witness(moved, i).margin for i in (0, 1)]
by_hand = (float(torch.atan2(h[1], h[0]).rad2deg()), *margins_after)

# %% 07b.1 wrong: the lead over the nearest rival alone
# says: elsewhere more
moved = plane.copy()
moved[1] = [1.6, 1.3]
margins_after = [theory.margin_witness(moved, i).margin for i in (0, 1)]
by_hand = (float(np.degrees(np.arctan2(*(plane[0] - plane[1])[::-1]))), *margins_after)

# %% 07b.1 wrong: radians
# says: is the angle in degrees?
h = theory.margin_witness(plane, 0).h
moved = plane.copy()
moved[1] = [1.6, 1.3]
margins_after = [theory.margin_witness(moved, i).margin for i in (0, 1)]
by_hand = (float(torch.atan2(h[1], h[0])), *margins_after)

# %% 07b.1 wrong: the margins before the rival moves
# says: these are the margins before the rival moves
h = theory.margin_witness(plane, 0).h
before = [theory.margin_witness(plane, i).margin for i in (0, 1)]
by_hand = (float(torch.atan2(h[1], h[0]).rad2deg()), *before)

# %% 07b.1 wrong: the distance for the margin
# says: a distance is no margin
h = theory.margin_witness(plane, 0).h
moved = plane.copy()
moved[1] = [1.6, 1.3]
far = neighbours.nearest_neighbours(moved)[0]
by_hand = (float(torch.atan2(h[1], h[0]).rad2deg()), far[0], far[1])

# %% 07b.1 wrong: the margins exchanged
# says: target first, then rival
h = theory.margin_witness(plane, 0).h
moved = plane.copy()
moved[1] = [1.6, 1.3]
margins_after = [theory.margin_witness(moved, i).margin for i in (1, 0)]
by_hand = (float(torch.atan2(h[1], h[0]).rad2deg()), *margins_after)


# %% 07b.2
def sharpened(q, m):
    return q * (1 + m * q - (m * q**2).sum())


# %% 07b.2 wrong: one margin for all
# says: whose m is in which term
def sharpened(q, m):
    return q * (1 + m[0] * (q - (q**2).sum()))


# %% 07b.2 wrong: the mean margin for all
# says: not for unequal margins: whose m is in which term
def sharpened(q, m):
    return q * (1 + m.mean() * (q - (q**2).sum()))


# %% 07b.2 wrong: flattened
# says: equal margins: which words become likelier
def sharpened(q, m):
    return q * (1 - m * q + (m * q**2).sum())


# %% 07b.2 wrong: the sum is not one
# says: with equal margins the sum of p is 1.0026
def sharpened(q, m):
    return q * (1 + m * q)


# %% 07b.2 wrong: the truth
# says: equal margins: which words become likelier
def sharpened(q, m):
    return q


# %% 07b.2 wrong: the margin taken from the logits
# says: equal margins: which words become likelier
def sharpened(q, m):
    return (q.log() - m).softmax(0)


# %% 07b.3
# ‖w_i − w_j‖² = 2r² − 2 w_iᵀw_j, so that (w_i − w_j)ᵀw_i / r = (r² − w_iᵀw_j) / r = D² / 2r.
def least(D, r):
    return D**2 / (2 * r)


# %% 07b.3 wrong: the bound from above
# says: the lead does not grow with D as this does
def least(D, r):
    return D


# %% 07b.3 wrong: half the way
# says: the lead does not grow with D as this does
def least(D, r):
    return D / 2


# %% 07b.3 wrong: the factor two
# says: that is 2 times the lead
def least(D, r):
    return D**2 / r


# %% 07b.3 wrong: not per unit of the context's length
# says: with r = 3 that is 3 times the lead
def least(D, r):
    return D**2 / 2


# %% 07b.3 wrong: not divided by r, which is 1 at first
# says: with r = 3 that is
def least(D, r):
    return D**2 / (2 * r**2)
