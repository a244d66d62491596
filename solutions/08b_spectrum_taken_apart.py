"""Answers to the exercises of lesson 08b, each in place of a cell tagged `exercise`."""

# %% 08b.1
# It is not the plain model: the large σ goes to a direction that need not be the common one.
law = decay.fit_exponential(spectra["plain"]).law
own_prior = part("ExponentialPrior", weight=0.1, **vars(law))
before = controlled.experiment()
again = trained(before.change(regularizers=(before.regularizers[0], own_prior)))

# %% 08b.1 wrong: the law of the controlled model
# says: off the plain fit
from dataclasses import replace

law = decay.fit_exponential(spectra["control"]).law
own_prior = part("ExponentialPrior", weight=0.1, **vars(law))
before = controlled.experiment()
other = before.change(regularizers=(before.regularizers[0], own_prior))
again = replace(runs["control"], experiment=other)

# %% 08b.1 wrong: the prior alone
# says: the penalties for orthogonality are to stay
from dataclasses import replace

law = decay.fit_exponential(spectra["plain"]).law
own_prior = part("ExponentialPrior", weight=0.1, **vars(law))
other = controlled.experiment().change(regularizers=(own_prior,))
again = replace(runs["control"], experiment=other)

# %% 08b.1 wrong: the recipe's own prior
# says: off the plain fit
from dataclasses import replace

again = replace(runs["control"], experiment=controlled.experiment())

# %% 08b.1 wrong: the plain model itself
# says: this model has no factors
again = runs["plain"]
