# %% 02.1
# All logits of a context fall by the same number. The cloud is less of a cone, but far from round.
moved = after - after.mean(0)

# %% 02.1 wrong: nothing done
# says: do not add up to zero
moved = after

# %% 02.1 wrong: a number from each row, not a vector from all
# says: do not add up to zero
moved = after - after.mean(1, keepdim=True)

# %% 02.1 wrong: the mean of the unit rows
# says: do not add up to zero
moved = after - axis * unit.mean(0).norm()

# %% 02.1 wrong: each column scaled, too
# says: the probabilities have changed
moved = (after - after.mean(0)) / after.std(0)

# %% 02.1 wrong: the mean itself
# says: its shape is
moved = after.mean(0)

# %% 02.2
# A rare row's gradients are minute, and by SGD its steps are so, too: it stays where it began.
plain = recipe.change(
    optimisation={
        "optimizer": "sgd",
        "learning_rate": 0.5,
        "weight_decay": 0.0,
    }
)
plain = course_lab.profile(plain, PROFILE, seed=SEED)
with tempfile.TemporaryDirectory() as folder:
    plainly = course_lab.run(plain, folder=folder, progress=False)
by_sgd = plainly.model.words.matrix().detach().cpu()

# %% 02.2 wrong: Adam's
# says: went far
by_sgd = after

# %% 02.2 wrong: before training
# says: as short as before
by_sgd = before

# %% 02.2 wrong: after a few steps of Adam
by_sgd = snapshots[moments[10]]

# %% 02.3
# Rows s + u: inner product |u|² on average, squared length |u|² + d init².
predicted = lambda init: u @ u / (u @ u + len(u) * init**2)

# %% 02.3 wrong: the start has d numbers
predicted = lambda init: u @ u / (u @ u + init**2)

# %% 02.3 wrong: lengths for squares
# says: how long are they at the start
predicted = lambda init: u.norm() / (u.norm() + len(u) ** 0.5 * init)

# %% 02.3 wrong: the cosine of a row with u
predicted = lambda init: u.norm() / (u @ u + len(u) * init**2) ** 0.5

# %% 02.3 wrong: the sine for the cosine
predicted = lambda init: 1 - u @ u / (u @ u + len(u) * init**2)

# %% 02.3 wrong: no dependence on the start
predicted = lambda init: geometry.mean_cosine(after[rare])
