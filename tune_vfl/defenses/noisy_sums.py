"""Defense of sums over batches: they are clipped, and Gaussian noise is added, before a passive party is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pydantic import Field
from torch import Tensor
from torch.linalg import vector_norm

from tune_vfl.defenses.base import Defense, DefenseCapabilities, defense
from tune_vfl.spec import SUMS, Strict
from tune_vfl.statistics.privacy import DELTA, composed, epsilon_of


class NoisySumsParams(Strict):
    """Parameters of :class:`NoisySums`."""

    sigma: float = Field(
        1e-2, ge=0, allow_inf_nan=False, description="standard deviation of the noise on each entry; 0 adds none"
    )
    clip: float = Field(1.0, gt=0, allow_inf_nan=False, description="largest norm of what a batch tells a party")


@defense("noisy_sums")
class NoisySums(Defense[NoisySumsParams]):
    """Clips what a batch tells a passive party and adds ``N(0, sigma²)`` to each entry, as who decrypts sums can do.

    Both are in units of the batch's mean of residual times column, so that the same ``sigma`` hides more of a larger
    batch's rows. The party's weights step by what it is told. The privacy budget is logged as ``epsilon``, at
    delta 1e-5: two trainings that differ in any labels differ by at most twice ``clip`` in what a step
    tells, so that the budget counts all steps, whatever the label party's own weights have learned meanwhile. It is
    that of all labels together, and accordingly large.
    """

    summary = "clip what a batch tells a passive party, and add Gaussian noise"
    reference = "Abadi et al. 2016, Deep Learning with Differential Privacy (carried over to sums over a batch)"
    Params = NoisySumsParams
    paper_attacks = ("residual_sums",)
    capabilities = DefenseCapabilities(stackable=True, protects=("sums",), scale_sensitive=True, federations=SUMS)
    weakest = {"sigma": 0.0, "clip": 1e9}  # noqa: RUF012 - read only, as its declaration in the base says

    def begin(self) -> None:
        """H0: count steps from 0."""
        self._steps: Counter[int] = Counter()

    def send_sums(self, sums: Tensor, *, party: int) -> Tensor:
        """Return ``sums`` ``(*trials, K, d)``, clipped as a whole, with noise added."""
        self._steps[party] += 1
        norm: Tensor = vector_norm(sums, dim=(-2, -1), keepdim=True)
        sums = sums / (norm / self.number(lambda p: p.clip)).clamp_min(1).to(sums.dtype)
        noise = self.streams[f"sums/{party}"].normal(*sums.shape[-2:])
        return sums + (noise * self.number(lambda p: p.sigma)).to(sums.dtype)

    def logged(self) -> dict[str, Sequence[float]]:
        """Return ``epsilon`` of all that one party was told, at delta 1e-5; infinite without noise."""
        steps = max(self._steps.values(), default=0)
        mus = [composed(steps, sensitivity=2 * p.clip, sigma=p.sigma) for p in self.members]
        return {"epsilon": [epsilon_of(mu) for mu in mus]}

    def notes(self, member: int = 0) -> list[str]:
        """Return a note on the privacy budget."""
        return [f"noisy_sums: epsilon, at delta {DELTA:g}, is of all labels together and of what one party was told"]
