"""White-box gradient inversion: the server searches for the rows behind a client's uploaded gradients."""

from __future__ import annotations

from functools import partial

from pydantic import Field

from tune_vfl.attacks.base import Attack, AttackCapabilities, TargetRequest, attack
from tune_vfl.attacks.parts.gradient_matching import Prior
from tune_vfl.attacks.parts.inversion import NonNegative
from tune_vfl.attacks.parts.single_steps import SingleStep, as_trained
from tune_vfl.attacks.parts.uploaded_rows import GradientInversionParams, Search
from tune_vfl.protocol.uploaded import KnownClient, UploadedAt
from tune_vfl.protocol.view import Reconstruction, View
from tune_vfl.spec import HORIZONTAL


class WgiParams(GradientInversionParams):
    """Parameters of :class:`Wgi`."""

    tv: NonNegative = Field(1e-3, description="weight of total variation beside 1 - cosine; images only")


@attack("wgi")
class Wgi(Attack[WgiParams]):
    """Descends on rows and labels until a step of the known client network matches the uploaded one.

    Each batch under attack is what the client takes one step of SGD on (FedSGD), from the starting weights (``first``)
    or from the trained ones (``last``). ``dlg`` is Zhu et al.'s: the squared distance of gradients, by L-BFGS on rows
    and soft labels at once. ``idlg`` reads the labels off the last layer's gradient first. ``cosine`` is Geiping et
    al.'s for ReLU nets. Of several starts the one counts whose gradient is nearest; the share of the gradient that it
    explains is the attacker's own estimate, by which it chooses. A single row that passed a linear layer first is read
    off that layer's gradient, through noise as far as it goes (``read_off``); searches start there once. Clients that
    train by Adam upload about the signs of a gradient at first, which are much larger than it: those of the row are
    read off them (``signs``). What a defense keeps secret of the network is guessed anew at each start.
    """

    summary = "find the rows whose gradients a client uploaded, through its network, which the server knows"
    reference = (
        "Zhu et al. 2019, Deep Leakage from Gradients; Zhao et al. 2020, iDLG: Improved Deep Leakage from Gradients; "
        "Geiping et al. 2020, Inverting Gradients - How Easy Is It to Break Privacy in Federated Learning?; Gu et "
        "al. 2024, FedAdOb: Privacy-Preserving Federated Deep Learning with Adaptive Obfuscation (WGI)"
    )
    Params = WgiParams
    capabilities = AttackCapabilities(
        goal="features",
        who="active",
        sees=frozenset({"client_gradients", "client_model"}),
        federations=HORIZONTAL,
        stackable=False,
    )
    quick = {"iterations": 60, "steps": 60, "restarts": 1}  # noqa: RUF012 - a constant

    def target_request(self) -> TargetRequest:
        """Return the numbers of rows to reconstruct and of rows in a batch."""
        return TargetRequest(self.params.rows, 0, self.params.batch)

    def run(self, view: View) -> dict[str, Reconstruction]:
        """Return rows ``(M, ...)`` and their labels by method and moment, as ``idlg_first``, ``read_off_last``."""
        search = Search(view, view.granted("client_gradients"), self.params)
        # Squared distances need no prior: they fall to nothing.
        priors = {"cosine": Prior(self.params.tv)}
        answers: dict[str, Reconstruction] = {}
        for moment in self.params.moments:
            step_of = partial(_step_of, view.granted("client_model"), moment)
            answers |= search.read_off(step_of(0), moment)
            for method in self.params.methods:
                name = f"{method}_{moment}"
                answers[name] = search.answer(search.run(step_of, moment, method, name, priors.get(method, Prior())))
        return answers


def _step_of(known: KnownClient, moment: UploadedAt, restart: int) -> SingleStep:
    return SingleStep(as_trained(known.network(moment, f"client/{restart}")), known.shared_from)
