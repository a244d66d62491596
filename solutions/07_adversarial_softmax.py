"""Answers to the exercises of lesson 07: each block takes the place of a cell tagged `exercise`."""

# %% 07.1
h = theory.margin_witness(plane, 0).h
moved = plane.copy()
moved[1] = [1.6, 1.3]
margins_after = [theory.margin_witness(moved, i).margin for i in (0, 1)]
by_hand = (float(torch.atan2(h[1], h[0]).rad2deg()), *margins_after)

# %% 07.1 wrong: the lead over the nearest rival alone
# says: elsewhere more
moved = plane.copy()
moved[1] = [1.6, 1.3]
margins_after = [theory.margin_witness(moved, i).margin for i in (0, 1)]
by_hand = (float(np.degrees(np.arctan2(*(plane[0] - plane[1])[::-1]))), *margins_after)

# %% 07.1 wrong: radians
# says: is the angle in degrees?
h = theory.margin_witness(plane, 0).h
moved = plane.copy()
moved[1] = [1.6, 1.3]
margins_after = [theory.margin_witness(moved, i).margin for i in (0, 1)]
by_hand = (float(torch.atan2(h[1], h[0])), *margins_after)

# %% 07.1 wrong: the margins before the rival moves
# says: these are the margins before the rival moves
h = theory.margin_witness(plane, 0).h
before = [theory.margin_witness(plane, i).margin for i in (0, 1)]
by_hand = (float(torch.atan2(h[1], h[0]).rad2deg()), *before)

# %% 07.1 wrong: the distance for the margin
# says: a distance is no margin
h = theory.margin_witness(plane, 0).h
moved = plane.copy()
moved[1] = [1.6, 1.3]
far = neighbours.nearest_neighbours(moved)[0]
by_hand = (float(torch.atan2(h[1], h[0]).rad2deg()), far[0], far[1])

# %% 07.1 wrong: the margins exchanged
# says: target first, then rival
h = theory.margin_witness(plane, 0).h
moved = plane.copy()
moved[1] = [1.6, 1.3]
margins_after = [theory.margin_witness(moved, i).margin for i in (1, 0)]
by_hand = (float(torch.atan2(h[1], h[0]).rad2deg()), *margins_after)


# %% 07.2
def constant(h, w, alpha):
    length = h.norm(dim=1)
    return float(alpha * (w.norm(dim=1) * length).mean() / length.mean())


# %% 07.2 wrong: the share, not the noise
# says: alpha is a share: of which norm?
def constant(h, w, alpha):
    return alpha


# %% 07.2 wrong: the mean norm, though long words come after long contexts
# says: a long word after a long context has the largest margin
def constant(h, w, alpha):
    return float(alpha * w.norm(dim=1).mean())


# %% 07.2 wrong: the margin in nats
# says: this is the mean margin; ε is yet to be multiplied by ‖h‖
def constant(h, w, alpha):
    return float(alpha * (w.norm(dim=1) * h.norm(dim=1)).mean())


# %% 07.2 wrong: the norm without the share
# says: the share alpha of the norm is missing
def constant(h, w, alpha):
    length = h.norm(dim=1)
    return float((w.norm(dim=1) * length).mean() / length.mean())
