"""Recovery time by table 3 of the paper (H 99-107): what its analysis gives, beside both simulations.

The arithmetic is that of `borealis_py.recovery.predict`, which predicts for users: so the model tries it, too.
"""

from __future__ import annotations

from benchmarks.recovery.operators import QueryNetwork
from benchmarks.recovery.runs import PaperCase
from benchmarks.recovery.setting import PaperSetting
from borealis_py.engine.operators.classes import OperatorClass
from borealis_py.query.recovery import RecoveryWay
from borealis_py.recovery.predict import NodeLoad, predict

SECOND_US = 1_000_000


def recovery_ms(case: PaperCase) -> float:
    """K + Q p; 0 for active standby, whose time is "negligible", and for amnesia. Of a network of one operator.

    In the paper's terms: from where N' knows of the failure, and amnesia does not wait since it recreates nothing.
    """
    way = RecoveryWay(case.way.replace(" ", "-"))
    if way is RecoveryWay.AMNESIA:
        return 0.0
    load = load_of(case)
    return 1000 * (predict(way, load, OperatorClass.CONVERGENT).still_s - load.detect_s)


def load_of(case: PaperCase) -> NodeLoad:
    """The case as what a prediction needs. Sizes of results and the speed of writing a state: the paper has none."""
    setting, network = case.setting, case.network
    state = network.window if network.kind == "aggregate" else 0
    return NodeLoad(
        rows_per_s=setting.rate_per_s,
        row_us=tuple_us(network, setting),
        window_s=state / setting.rate_per_s,
        state_bytes=state * setting.tuple_bytes,
        keys=state,
        result_bytes_per_s=0,
        sync_s=setting.interval_us / SECOND_US,
        position_bytes=setting.id_bytes,
        detect_s=setting.detect_us / SECOND_US,
        start_s=setting.redirect_us / SECOND_US,
        delay_s=setting.delay_us / SECOND_US,
        switch_s=0,
        bytes_per_core_s=1,
    )


def tuple_us(network: QueryNetwork, setting: PaperSetting) -> float:
    """p, of table 5: a filter's time; of an aggregate, times its window, over its advance."""
    return setting.filter_us * (network.window / network.advance if network.kind == "aggregate" else 1)
