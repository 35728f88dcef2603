"""Epsilons of the Poisson-sampled Gaussian mechanism, by Google's dp-accounting 0.6.0, for tests/privacy_account.rs.

    pip install dp-accounting==0.6.0
    python epsilons.py > epsilons.json

Neighbours differ by one client added or removed. `lower` and `upper` come from an optimistic and a pessimistic
discretisation of the privacy loss, so that the true epsilon lies between them (above 700, where e^epsilon overflows,
both are upper bounds); `renyi` is that of dp-accounting's RDP accountant at the orders that fedsi uses, less those at
which its series does not converge. Takes nine minutes.
"""

import json
import sys

from dp_accounting import dp_event
from dp_accounting.pld import pld_privacy_accountant, privacy_loss_distribution
from dp_accounting.rdp import rdp_privacy_accountant

DELTA = 1e-5
ORDERS = (
    [1 + x / 10 for x in range(1, 100) if x % 10]
    + list(range(2, 64))
    + [72, 80, 96, 128, 192, 256, 512, 1024, 2048]
)


def pld(q, noise, rounds, interval, pessimistic):
    one = privacy_loss_distribution.from_gaussian_mechanism(
        noise,
        pessimistic_estimate=pessimistic,
        value_discretization_interval=interval,
        sampling_prob=q,
        use_connect_dots=pessimistic,
    )
    return float(one.self_compose(rounds).get_epsilon_for_delta(DELTA))


def renyi(q, noise, rounds):
    accountant = rdp_privacy_accountant.RdpAccountant(ORDERS)
    event = dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(noise))
    accountant.compose(event, rounds)
    return float(accountant.get_epsilon(DELTA))


def main():
    rows = []
    for q in [1.0, 0.5, 0.1, 0.01]:
        for noise in [0.5, 0.7, 1.0, 2.0, 4.0]:
            for rounds in [1, 15, 60, 200, 1000]:
                # Optimistic rounding errs by up to half an interval a round.
                interval = 1e-4 if rounds <= 60 else 1e-5 if noise >= 1.0 else 2e-5
                row = {
                    "q": q,
                    "noise": noise,
                    "rounds": rounds,
                    "lower": pld(q, noise, rounds, interval, False),
                    "upper": pld(q, noise, rounds, 1e-4, True),
                    "renyi": renyi(q, noise, rounds),
                }
                print(row, file=sys.stderr)
                rows.append(row)
    text = ",\n".join(json.dumps(row) for row in rows)
    print('{"delta": %g, "rows": [\n%s\n]}' % (DELTA, text))


main()
