"""Which tests `make test` leaves to `make test-slow`: between them they run all.

`make test` runs every kind once, in about 8 minutes on 2 cores; here stands what takes long for what it adds.
By file, or a part of a test's id; of `SOME` every so many-th test stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

SLOW = (
    "tests/app/test_supervisor.py",
    "tests/bench/recovery/test_measured.py::test_one_kill_on_a_real_broker",
    "tests/bench/recovery/test_measured.py::test_what_takes_longer_than_x",
    "tests/bench/test_failover.py::test_one_kill_of_each_kind_on_a_real_broker",
    "tests/bench/test_latency.py::test_two_seconds_on_a_real_broker",
    "tests/bench/test_lost_input.py::test_five_seconds_of_silence_on_a_real_broker",
    "tests/bench/test_overhead.py",
    "tests/bench/test_scaling.py",
    "tests/bench/test_simulated.py::test_results_stay_in_time",
    "tests/bench/test_throughput.py::test_a_",
    "tests/broker/test_authorization.py",
    "tests/broker/test_broker.py",
    "tests/broker/test_fallback.py",
    "tests/broker/test_settings.py",
    "tests/chaos/test_chaos.py",
    "tests/chaos/test_elsewhere.py",
    "tests/cli/test_kept_elsewhere_with_broker.py",
    "tests/cli/test_foreign_with_broker.py::test_an_ingress",
    "tests/cli/test_foreign_with_broker.py::test_its_inputs",
    "tests/cli/test_functions_with_broker.py",
    "tests/cli/test_partitions_with_broker.py",
    "tests/cli/test_supervised_with_broker.py",
    "tests/cli/test_up_on_spark.py",
    "tests/cli/test_with_broker.py::test_several_apps_must_be_chosen_from",
    "tests/docs/test_pages.py::test_each_command_prints_what_the_page_shows",
    "tests/drills/test_crashes.py",
    "tests/drills/test_inputs.py",
    "tests/drills/test_retention.py",
    "tests/e2e/test_console_producers.py",
    "tests/e2e/test_grown_topic.py",
    "tests/e2e/test_join_of_topics.py",
    "tests/e2e/test_partition_without_leader.py",
    "tests/engine/test_extremes.py",
    "tests/engine/test_partitions.py",
    "tests/engine/test_proved.py",
    "tests/kafka/test_mending.py",
    "tests/kafka/test_outage.py",
    "tests/runtime/spark/test_class_archive.py",
    "tests/runtime/spark/test_local.py::test_a_driver_ends_in_order_while_it_starts_and_without_a_broker",
    "tests/runtime/spark/test_other_workers.py",
    "tests/runtime/spark/test_pages.py",
    "tests/runtime/spark/test_session.py",
    "tests/runtime/spark/test_shared_standbys.py",
    "tests/runtime/spark/test_standalone.py::test_a_replica_in_an_executor_survives",
    "tests/runtime/spark/test_standalone.py::test_a_cluster",
    "tests/runtime/spark/test_standalone.py::test_a_master",
    "tests/runtime/spark/test_two_apps.py",
    "tests/runtime/spark/test_waiting.py",
    "tests/runtime/spark/test_warming.py",
    "tests/runtime/test_taking_over.py::test_checkpoints_in_kafka",
    "tests/runtime/test_taking_over.py::test_nobody_notices",
    "tests/runtime/test_taking_over.py::test_the_way_changes",
    "tests/runtime/test_taking_over.py::test_when_both_die",
    "tests/runtime/test_taking_over.py::test_who_was_paused",
    "tests/soak/test_soak.py",
    "tests/spark/test_kafka.py",
    "tests/spark/test_redone_alike.py",
    "tests/testing/test_key_windows.py::test_a_world",
    "tests/testing/test_lookup.py::test_a_world",
    "tests/verify/test_command.py::test_a_running_app_is_clean",
)
SOME = {
    "tests/engine/test_slices.py": 6,
    "tests/engine/test_split.py": 3,
    "tests/engine/test_types.py::test_any_number_of_partitions": 4,
    "tests/simulation/test_ingress_seeds.py::test_a_rule_that_is_switched_off_is_found": 4,
    "tests/simulation/test_planted.py": 12,
}


class Item(Protocol):
    """A test, as pytest has collected it."""

    @property
    def nodeid(self) -> str: ...


def slow(items: Iterable[Item]) -> list[Item]:
    """Those that `make test` leaves out."""
    found, seen = [], dict.fromkeys(SOME, 0)
    for item in items:
        some = next((file for file in SOME if item.nodeid.startswith(file)), None)
        if some is not None:
            seen[some] += 1
        if item.nodeid.startswith(SLOW) or (some is not None and seen[some] % SOME[some]):
            found.append(item)
    return found
