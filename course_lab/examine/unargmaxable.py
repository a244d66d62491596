"""Words that no context can make the most likely one.

Word i is argmaxable if some context h puts it ahead of all others: w_iᵀh + b_i > w_jᵀh + b_j for
every j ≠ i. A word whose row is inside the convex hull of the others' is not, whatever the model
learns (Demeter et al. 2020; Grivas et al. 2022). With rows (w, b) and contexts (g, s), h = g/s,
s > 0, the question is whether linear inequalities A x > 0 have a solution, and either answer has a
certificate that is checked by itself:

- a context, at which the word is ahead by more than rounding can have added;
- convex weights λ over the other words with Σ λ_j w_j = w_i and Σ λ_j b_j ≥ b_i: the combination
  never scores less than word i, so some word in it does not either. `ceiling` gives what rounding
  leaves of this.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import linprog
from torch import Tensor
from tqdm import tqdm

from course_lib.errors import CourseError
from course_lib.metrics.inputs import as_matrix, as_numbers
from course_lib.theory.hulls import nearest_in_hull

BLOCK = 1 << 24  # logits held at once: 128 MiB
ASKED = 4000  # words of a large vocabulary that an examination asks about
STEPS = 200  # of all words together, at most
PATIENCE = 20  # steps of all words together without a word solved
ROWS = 64  # inequalities added to a linear programme at a time
TOLERANCE = 1e-9  # of the largest logit's scale: a lead below it is none


@dataclass(frozen=True)
class Verdicts:
    """For each of `words` (n,) a witness, a certificate against it, or neither."""

    words: np.ndarray
    contexts: np.ndarray  # (n, d): a context that puts the word first, else nan
    leads: np.ndarray  # (n,): by how much, rounding deducted, else nan
    weights: dict[int, tuple[np.ndarray, np.ndarray]]  # unargmaxable word: others, convex weights

    @property
    def argmaxable(self) -> np.ndarray:
        """Words with a context that puts them first."""
        return self.words[~np.isnan(self.leads)]

    @property
    def unargmaxable(self) -> np.ndarray:
        """Words that no context puts first."""
        return np.array([i for i in self.words if int(i) in self.weights], dtype=int)

    @property
    def undecided(self) -> np.ndarray:
        """Words for which time ran out, or that are too close to call in float64."""
        return np.setdiff1d(self.words, np.concatenate([self.argmaxable, self.unargmaxable]))


class Ceiling(NamedTuple):
    """No context h puts the word ahead by more than offset + slope ‖h‖∞."""

    slope: float
    offset: float


class FirstPlaces(NamedTuple):
    """Words (n,) that no context puts first, how many stay open, and of how many was asked.

    weights: by word the others and their convex weights, which are the proof.
    """

    never: np.ndarray
    open: int
    asked: int
    weights: dict[int, tuple[np.ndarray, np.ndarray]]


def first_places(
    W, seconds: float, bias=None, asked: int = ASKED, progress: bool = True
) -> FirstPlaces:
    """Return the words that no context puts first, among those nearest to the middle.

    W: (N, d), a word a row. bias: (N,) or none. seconds: how long the search may take; a word that
        is not decided by then is open. asked: how many words, at most. progress:
        whether a bar is shown.

    All words are rivals of those that are asked about. These are the words whose rows lie nearest
    to the mean row once the cloud is stretched to be round: what is inside the others' hull lies
    there.
    """
    rows = as_matrix(W)
    centred = rows - rows.mean(0)
    middle = (centred @ _whitening(centred)).norm(dim=1)
    words = middle.argsort()[:asked].tolist()
    verdicts = argmaxable_words(W, bias, words=words, time_limit=seconds, progress=progress)
    return FirstPlaces(verdicts.unargmaxable, len(verdicts.undecided), len(words), verdicts.weights)


def _whitening(centred: Tensor) -> Tensor:
    """Return the matrix (D, D) after which a cloud is round, given its rows less their mean."""
    squares, axes = torch.linalg.eigh(centred.T @ centred / len(centred))
    return axes / squares.clamp_min(1e-10 * float(squares[-1]) or 1.0).sqrt()


def ceiling(W, i: int, weights, bias=None) -> Ceiling:
    """Return what convex weights over the other words prove about word i, for every context h.

        lead ≤ (w_i − Σ λ_j w_j)ᵀh + b_i − Σ λ_j b_j ≤ slope ‖h‖∞ + offset,

    slope = ‖w_i − Σ λ_j w_j‖₁.

    W: (N, d), a word a row.
    i: the word.
    weights: a pair (others, λ) as in `Verdicts.weights`.
    bias: (N,) or none.
    Raises CourseError if they are not convex weights over other words.
    """
    W = as_matrix(W).cpu().numpy()
    b = np.zeros(len(W)) if bias is None else _bias(bias, len(W))
    others, share = (np.asarray(part) for part in weights)
    if i in others or (share < 0).any() or not np.isclose(share.sum(), 1, atol=1e-9):
        raise CourseError(f"the certificate of word {i} needs convex weights over other words")
    share = share / share.sum()
    return Ceiling(float(np.abs(W[i] - share @ W[others]).sum()), float(b[i] - share @ b[others]))


def argmaxable_words(
    W,
    bias=None,
    words: Sequence[int] | None = None,
    time_limit: float = np.inf,
    progress: bool = False,
) -> Verdicts:
    """Decide for `words` (all by default) whether some context makes them the argmax.

    W (N, d); bias (N,) or none. Three stages, each for what the one before leaves:

    1. Words whose row another word has too, with a bias no less.
    2. All words together, on W's device: x = C⁻¹ (w_i − mean), C the rows' covariance, is one
       product and puts most words first; then up to `STEPS` steps of Gilbert's algorithm to the
       point nearest 0 of the hull of the w_i − w_j, each towards the word j that is ahead, until
       20 solve no word. 2 N² d operations for the first step, 2 N d for each further of a word.
    3. A programme for each word, over the few inequalities that came nearest to being violated;
       those that its solution violates join, until there are none or the weights prove that
       there is no solution. Solved as non-negative least squares, then, if that leaves it open, as
       a linear programme by HiGHS.

    A word counts as unargmaxable if its `ceiling` is below 1e-9 of the logits' scale. What
    `time_limit`, in seconds, leaves is undecided.

    CourseError if W or bias is not finite or does not fit, or a word is not in 0 … N−1.
    """
    # what is asked, and how much time there is
    problem = _Problem(W, bias)
    asked = np.arange(problem.n) if words is None else np.unique(np.asarray(words, dtype=int))
    if len(asked) and not 0 <= asked[0] <= asked[-1] < problem.n:
        raise CourseError(f"words are numbers from 0 to {problem.n - 1}")
    deadline = time.monotonic() + time_limit
    contexts = np.full((problem.n, problem.d), np.nan)
    leads = np.full(problem.n, np.nan)
    with tqdm(total=len(asked), disable=not progress, unit="word") as bar:
        # 1: words that share their row with another
        weights = problem.twins(asked)
        bar.update(len(weights))

        # 2: all others together
        rest = np.setdiff1d(asked, list(weights))
        starts = {}  # where the search ended for words that it did not solve
        for begin in range(0, len(rest), problem.block):
            if time.monotonic() < deadline:
                ids = rest[begin : begin + problem.block]
                solved, witnesses, ahead, ends = problem.approach(ids, deadline)
                contexts[solved] = witnesses
                leads[solved] = ahead
                starts |= ends
                bar.update(len(solved))

        # 3: a programme for each word that is open still
        for i, start in sorted(starts.items()):
            if time.monotonic() < deadline:
                verdict = problem.programme(i, start, deadline)
                if isinstance(verdict, tuple):
                    weights[i] = verdict
                elif verdict is not None:
                    contexts[i] = verdict
                    leads[i] = problem.leads(verdict[None], [i])[0]
                bar.update(verdict is not None)
    return Verdicts(asked, contexts[asked], leads[asked], weights)


class _Problem:
    """Rows and bias; contexts x (D,) are h, or with a bias (g, s) with h = g/s."""

    def __init__(self, W, bias):
        self.W = as_matrix(W)
        self.n, self.d = self.W.shape
        if self.n < 2:
            raise CourseError("a word is ahead of others: at least two rows are needed")
        self.b = None if bias is None else torch.tensor(_bias(bias, self.n)).to(self.W)
        self.block = max(1, BLOCK // self.n)
        self.norms = self.W.norm(dim=1)
        self.X = self.W if self.b is None else torch.cat([self.W, self.b[:, None]], 1)
        self.mean = self.X.mean(0)
        centred = self.X - self.mean
        self.scale = float(centred[:, : self.d].abs().max()) or 1.0
        self.scale_b = 0.0 if self.b is None else float(centred[:, -1].abs().max())
        self.whiten = _whitening(centred)
        # With a bias there is an inequality besides the words': s > 0.
        self.extras = self.W.new_zeros(0 if self.b is None else 1, self.X.shape[1])
        self.extras[:, -1] = 1.0

    def logits(self, h: Tensor) -> Tensor:
        return h @ self.W.T if self.b is None else torch.addmm(self.b, h, self.W.T)

    def context(self, x: Tensor) -> Tensor:
        """Return contexts h (n, d) of x (n, D), as long as they may be where s is not above 0."""
        if self.b is None:
            return x / x.abs().amax(1, keepdim=True).clamp_min(1e-300)
        g, s = x[:, : self.d], x[:, self.d :]
        reach = 1e6 * max(self.scale_b, 1e-9) / self.scale
        return g / torch.maximum(s, g.abs().amax(1, keepdim=True) / reach).clamp_min(1e-300)

    def rivals(self, h: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the leads (n,) of words at contexts h (n, d), less rounding, and the rivals."""
        logits, at = self.logits(h), torch.arange(len(ids), device=ids.device)
        own = logits[at, ids]
        logits[at, ids] = -torch.inf
        best, rival = logits.max(1)
        size = self.norms.max() * h.norm(dim=1) + (0 if self.b is None else self.b.abs().max())
        return own - best - 2 * (self.d + 4) * torch.finfo(h.dtype).eps * size, rival

    def leads(self, h, ids) -> np.ndarray:
        h = torch.as_tensor(h, device=self.W.device)
        return self.rivals(h, torch.as_tensor(ids, device=h.device))[0].cpu().numpy()

    def twins(self, words: np.ndarray) -> dict:
        """Return words whose row another has too, with a bias no less, which is the proof."""
        _, group, count = torch.unique(self.W, dim=0, return_inverse=True, return_counts=True)
        group, count = group.cpu().numpy(), count.cpu().numpy()
        b = np.zeros(self.n) if self.b is None else self.b.cpu().numpy()
        order = np.lexsort((-b, group))  # by group, the largest bias first
        first = np.searchsorted(group[order], np.arange(len(count)))
        weights = {}
        for i in words[count[group[words]] > 1]:
            best, second = order[first[group[i]] : first[group[i]] + 2]
            other = second if i == best else best
            if b[other] >= b[i]:
                weights[int(i)] = np.array([other]), np.ones(1)
        return weights

    def approach(self, words: np.ndarray, deadline: float):
        """Return the words solved, their contexts and leads, and where others stopped {word: x}.

        Gilbert's algorithm for all words at once: y moves towards the corner w_i − w_j of the hull
        whose word j is ahead, as far as the point nearest 0 on the way.
        """
        ids = torch.as_tensor(words, device=self.W.device)
        y = (self.X[ids] - self.mean) @ self.whiten
        solved = []
        witnesses = []
        ahead = []
        idle = 0
        for _ in range(STEPS):
            # words that their context puts first are solved
            h = self.context(y @ self.whiten.T)
            leads, rival = self.rivals(h, ids)
            won = leads > 0
            for parts, part in ((solved, ids), (witnesses, h), (ahead, leads)):
                parts.append(part[won].cpu().numpy())
            ids = ids[~won]
            y = y[~won]
            rival = rival[~won]
            idle = 0 if won.any() else idle + 1
            if not len(ids) or idle == PATIENCE or time.monotonic() > deadline:
                break

            # a step towards the rival's corner
            corner = (self.X[ids] - self.X[rival]) @ self.whiten
            if self.b is not None:  # s > 0 is an inequality as the others
                last = self.whiten[-1]
                corner = torch.where(y @ last[:, None] > 0, corner, last / last.norm())
            way = corner - y
            share = -(y * way).sum(1) / way.square().sum(1).clamp_min(1e-300)
            y += share.clamp(0, 1)[:, None] * way
        rest = {int(i): x for i, x in zip(ids, y @ self.whiten.T, strict=True)}
        return *(np.concatenate(part) for part in (solved, witnesses, ahead)), rest

    def programme(self, i: int, x: Tensor, deadline: float):
        """Return a context (d,), a certificate (others, weights), or None where time ran out.

        The programme takes the few inequalities that x comes nearest to violating, and those that
        its solution violates, until there are none or its weights prove that there is no solution.
        """
        for solve in SOLVERS:
            chosen = torch.zeros(self.n + len(self.extras), dtype=torch.bool, device=x.device)
            violated = self._add(chosen, i, x, self.X.shape[1])
            while violated and (seconds := deadline - time.monotonic()) > 0:
                rows = chosen.nonzero()[:, 0]
                A = self._inequalities(i, rows) @ self.whiten
                size = A.norm(dim=1, keepdim=True)
                solution = solve((A / size).cpu().numpy(), seconds)
                if solution is None:
                    break
                y, weights = solution
                weights = weights / size[:, 0].cpu().numpy()
                if (weights := self._certificate(i, rows.cpu().numpy(), weights)) is not None:
                    return weights
                x = self.whiten @ torch.as_tensor(y, device=x.device)
                h = self.context(x[None])
                if self.leads(h, [i])[0] > 0:
                    return h[0].cpu().numpy()
                violated = self._add(chosen, i, x, ROWS)
        return None

    def _inequalities(self, i: int, rows: Tensor) -> Tensor:
        words = rows[rows < self.n]
        return torch.cat([self.X[i] - self.X[words], self.extras[rows[len(words) :] - self.n]])

    def _add(self, chosen: Tensor, i: int, x: Tensor, count: int) -> bool:
        """Choose the `count` inequalities that x comes nearest to violating; False if all are."""
        slack = torch.cat([(self.X[i] @ x) - self.X @ x, self.extras @ x])
        slack[chosen] = torch.inf
        slack[i] = torch.inf
        worst = slack.topk(min(count, len(slack)), largest=False)
        fresh = worst.indices[worst.values < torch.inf]
        chosen[fresh] = True
        return len(fresh) > 0

    def _certificate(self, i: int, rows: np.ndarray, shares: np.ndarray):
        """The weights, if they prove that the word is never ahead."""
        words = (rows < self.n) & (shares > 0)
        if not words.any():
            return None
        weights = rows[words], shares[words] / shares[words].sum()
        slope, offset = ceiling(self.W, i, weights, self.b)
        reach = 0.0 if self.b is None else float(self.b.abs().max())
        small = slope <= TOLERANCE * self.scale and offset <= TOLERANCE * reach
        return weights if small else None


def _nearest(A: np.ndarray, seconds: float = np.inf) -> tuple[np.ndarray, np.ndarray]:
    """The point y of the hull of A's rows that is nearest 0, and its convex weights: A y ≥ ‖y‖²."""
    weights = nearest_in_hull(A)
    return weights @ A, weights


def _deepest(A: np.ndarray, seconds: float = np.inf) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the y with ‖y‖∞ ≤ 1 that maximises t in A y ≥ t, and the dual, by HiGHS.

    The dual are convex weights of A's rows. Where t is 0 to the solver's precision, y is `_nearest`
    of the rows that the weights single out. None if the solver gives up or the seconds are over.
    """
    programme = linprog(
        np.append(np.zeros(A.shape[1]), -1.0),
        A_ub=np.hstack([-A, np.ones((len(A), 1))]),
        b_ub=np.zeros(len(A)),
        bounds=[(-1, 1)] * A.shape[1] + [(0, None)],
        method="highs",
        options={"time_limit": seconds} if np.isfinite(seconds) else {},
    )
    if not programme.success:
        return None
    y, weights = programme.x[:-1], -programme.ineqlin.marginals
    support = weights > 0
    if programme.x[-1] < 1e-6 and support.any():
        y, weights[support] = _nearest(A[support])
    return y, weights


# Least squares are ten to twenty times faster than the simplex method at 400 dimensions, and exact
# to rounding; HiGHS has the last word where they leave a word undecided.
SOLVERS = (_nearest, _deepest)


def _bias(bias, n: int) -> np.ndarray:
    bias = as_numbers(bias, "bias")
    if len(bias) != n:
        raise CourseError(f"a bias of {n} numbers is needed, one a row, got {len(bias)}")
    return bias
