"""Recovery time by table 3 of the paper (H 99-107): what its analysis gives, beside both simulations."""

from __future__ import annotations

from borealis_py.bench.recovery.operators import QueryNetwork
from borealis_py.bench.recovery.published import ACTIVE, AMNESIA, PASSIVE
from borealis_py.bench.recovery.runs import PaperCase
from borealis_py.bench.recovery.setting import PaperSetting


def recovery_ms(case: PaperCase) -> float:
    """K + Q p; for amnesia, and for active standby, whose time is "negligible", 0.

    K is r + d, Q half an interval of tuples with passive standby, and |state| + M lambda + 2 d lambda with upstream
    backup. For a network of one operator.
    """
    setting, network = case.setting, case.network
    if case.way in (AMNESIA, ACTIVE):
        return 0.0
    in_interval = setting.interval_us * setting.rate_per_s / 1_000_000
    under_way = 2 * setting.delay_us * setting.rate_per_s / 1_000_000
    state = network.window if network.kind == "aggregate" else 0
    tuples = in_interval / 2 if case.way == PASSIVE else state + in_interval + under_way
    return (setting.redirect_us + setting.delay_us + tuples * tuple_us(network, setting)) / 1000


def tuple_us(network: QueryNetwork, setting: PaperSetting) -> float:
    """p, of table 5: a filter's time; of an aggregate, times its window, over its advance."""
    return setting.filter_us * (network.window / network.advance if network.kind == "aggregate" else 1)
