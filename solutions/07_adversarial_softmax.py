"""Answers to the exercises of lesson 07: each block takes the place of a cell tagged `exercise`."""

# %% 07.1
h = theory.margin_witness(plane, 0).h
moved = plane.copy()
moved[1] = [1.6, 1.3]
margins_after = [theory.margin_witness(moved, i).margin for i in (0, 1)]
by_hand = (float(torch.atan2(h[1], h[0]).rad2deg()), *margins_after)

# %% 07.1 wrong: the lead over the nearest rival alone
moved = plane.copy()
moved[1] = [1.6, 1.3]
margins_after = [theory.margin_witness(moved, i).margin for i in (0, 1)]
by_hand = (float(np.degrees(np.arctan2(*(plane[0] - plane[1])[::-1]))), *margins_after)

# %% 07.1 wrong: radians
h = theory.margin_witness(plane, 0).h
moved = plane.copy()
moved[1] = [1.6, 1.3]
margins_after = [theory.margin_witness(moved, i).margin for i in (0, 1)]
by_hand = (float(torch.atan2(h[1], h[0])), *margins_after)

# %% 07.1 wrong: the margins before the rival moves
h = theory.margin_witness(plane, 0).h
before = [theory.margin_witness(plane, i).margin for i in (0, 1)]
by_hand = (float(torch.atan2(h[1], h[0]).rad2deg()), *before)

# %% 07.1 wrong: the distance for the margin
h = theory.margin_witness(plane, 0).h
moved = plane.copy()
moved[1] = [1.6, 1.3]
far = neighbours.nearest_neighbours(moved)[0]
by_hand = (float(torch.atan2(h[1], h[0]).rad2deg()), far[0], far[1])

# %% 07.1 wrong: the margins exchanged
h = theory.margin_witness(plane, 0).h
moved = plane.copy()
moved[1] = [1.6, 1.3]
margins_after = [theory.margin_witness(moved, i).margin for i in (1, 0)]
by_hand = (float(torch.atan2(h[1], h[0]).rad2deg()), *margins_after)

# %% 07.2
h, target = seen_by["adversarial"]
length, noise = h.norm(dim=1), ALPHA * W["adversarial"][target].norm(dim=1)
constant = float((noise * length).mean() / length.mean())

# %% 07.2 wrong: the share, not the noise
constant = ALPHA

# %% 07.2 wrong: over the vocabulary
constant = ALPHA * float(W["adversarial"].norm(dim=1).mean())

# %% 07.2 wrong: the margin in nats
constant = ALPHA * float(product["adversarial"])

# %% 07.2 wrong: the norm without the share
constant = figures.loc["mean ‖w‖, targets", "adversarial"]


# %% 07.3
def sharpened(q, m):
    return q * (1 + m * q - (m * q**2).sum())


# %% 07.3 wrong: one margin for all
def sharpened(q, m):
    return q * (1 + m * (q - (q**2).sum()))


# %% 07.3 wrong: the mean margin for all
def sharpened(q, m):
    return q * (1 + m.mean() * (q - (q**2).sum()))


# %% 07.3 wrong: flattened
def sharpened(q, m):
    return q * (1 - m * q + (m * q**2).sum())


# %% 07.3 wrong: the sum is not one
def sharpened(q, m):
    return q * (1 + m * q)


# %% 07.3 wrong: the truth
def sharpened(q, m):
    return q


# %% 07.3 wrong: the margin taken from the logits
def sharpened(q, m):
    return (q.log() - m).softmax(0)
