"""Which tests run when: the tiers, what `make test` leaves out, and the third of that which CI runs in a rotation.

A tier is what runs in one pytest: tests of pure code, tests with a Kafka broker, tests with Spark (or broker, Spark and
processes together). `make test` runs every kind of test once; what takes long for what it adds is left out (`SLOW`, by
file or a part of a test's id) or shared (`SHARED`: of a family every so many-th test stays, other ones each rotation).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar
from zlib import crc32

from tests.tiers.durations import Durations

TIERS = ("pure", "broker", "spark")
THIRDS = 3
PROCESSES = (
    "tests/app/test_replicas.py",
    "tests/app/test_supervisor.py",
    "tests/config/test_logfile.py",
    "tests/harness/test_links.py",
    "tests/harness/test_tidy.py",
    "tests/runtime/test_process.py",
)
"""Files of the pure tier that start processes all the same."""
SLOW = (
    "tests/app/test_supervisor.py",
    "tests/benchmarks/recovery/test_measured.py::test_one_kill_on_a_real_broker",
    "tests/benchmarks/recovery/test_measured.py::test_what_takes_longer_than_x",
    "tests/benchmarks/test_failover.py::test_one_kill_of_each_kind_on_a_real_broker",
    "tests/benchmarks/test_latency.py::test_two_seconds_on_a_real_broker",
    "tests/benchmarks/test_lost_input.py::test_five_seconds_of_silence_on_a_real_broker",
    "tests/benchmarks/test_overhead.py",
    "tests/benchmarks/test_publish.py::test_a_file_is_published_into_kafka",
    "tests/benchmarks/test_scaling.py",
    "tests/benchmarks/test_simulated.py::test_results_stay_in_time",
    "tests/benchmarks/test_throughput.py::test_a_",
    "tests/broker/test_authorization.py",
    "tests/broker/test_broker.py",
    "tests/broker/test_fallback.py",
    "tests/broker/test_plain_consumers.py",
    "tests/broker/test_settings.py",
    "tests/broker/test_timing.py",
    "tests/chaos/test_chaos.py",
    "tests/chaos/test_elsewhere.py",
    "tests/cli/test_chain_with_broker.py",
    "tests/cli/test_changing.py",
    "tests/cli/test_containers_with_broker.py",
    "tests/cli/test_ended_with_broker.py",
    "tests/cli/test_foreign_with_broker.py::test_an_app_without",
    "tests/cli/test_foreign_with_broker.py::test_an_ingress",
    "tests/cli/test_foreign_with_broker.py::test_its_inputs",
    "tests/cli/test_foreign_with_broker.py::test_what_is_set",
    "tests/cli/test_functions_with_broker.py",
    "tests/cli/test_kept_elsewhere_with_broker.py",
    "tests/cli/test_moved_clock_with_broker.py",
    "tests/cli/test_partitions_with_broker.py",
    "tests/cli/test_registry_with_broker.py",
    "tests/cli/test_seen_with_broker.py",
    "tests/cli/test_supervised_with_broker.py",
    "tests/cli/test_up_on_spark.py",
    "tests/cli/test_with_broker.py::test_several_apps_must_be_chosen_from",
    "tests/docs/test_pages.py::test_each_command_prints_what_the_page_shows",
    "tests/drills/test_crashes.py",
    "tests/drills/test_inputs.py",
    "tests/drills/test_redo.py",
    "tests/drills/test_retention.py",
    "tests/e2e/test_console_producers.py",
    "tests/e2e/test_foreign_topics.py",
    "tests/e2e/test_grown_topic.py",
    "tests/e2e/test_join_of_topics.py",
    "tests/e2e/test_partition_without_leader.py",
    "tests/e2e/test_whole_windows.py",
    "tests/engine/test_extremes.py",
    "tests/engine/test_partitions.py",
    "tests/engine/test_proved.py",
    "tests/guards/test_whole_run.py::test_ctrl_c_in_the_middle_of_up",
    "tests/ingress/test_broker.py",
    "tests/kafka/test_expired_ids.py",
    "tests/ingress/test_session.py::test_rows_of_a_busy_topic",
    "tests/kafka/test_mending.py",
    "tests/kafka/test_outage.py",
    "tests/runtime/spark/test_class_archive.py",
    "tests/runtime/spark/test_local.py",
    "tests/runtime/spark/test_other_workers.py",
    "tests/runtime/spark/test_pages.py",
    "tests/runtime/spark/test_session.py",
    "tests/runtime/spark/test_shared_standbys.py",
    "tests/runtime/spark/test_standalone.py::test_a_cluster",
    "tests/runtime/spark/test_standalone.py::test_a_master",
    "tests/runtime/spark/test_standalone.py::test_a_replica_in_an_executor_survives",
    "tests/runtime/spark/test_two_apps.py",
    "tests/runtime/spark/test_waiting.py",
    "tests/runtime/spark/test_warming.py",
    "tests/runtime/test_kept_too_short.py",
    "tests/runtime/test_taking_over.py",
    "tests/runtime/test_trimming.py",
    "tests/simulation/test_seeds.py::test_no_seed_breaks_an_oracle",
    "tests/simulation/test_seeds.py::test_no_seed_of_the_first",
    "tests/soak/test_soak.py",
    "tests/spark/test_kafka.py",
    "tests/spark/test_redone_alike.py",
    "tests/testing/test_key_windows.py::test_a_world",
    "tests/testing/test_lookup.py::test_a_world",
    "tests/testing/test_same_as_run.py",
    "tests/testing/test_standbys.py::test_a_silent_standby",
    "tests/verify/test_command.py",
    "tests/verify/test_types_with_broker.py",
)
SHARED = {
    "tests/app/functions/test_check.py": 8,
    "tests/benchmarks/recovery/test_ways.py": 2,
    "tests/broker/test_bad_input.py": 5,
    "tests/broker/test_clocks.py": 6,
    "tests/cli/test_foreign_without_broker.py": 2,
    "tests/cli/test_places.py": 4,
    "tests/cli/test_without_broker.py": 2,
    "tests/engine/applied/test_apply.py": 2,
    "tests/engine/keyed/test_join.py": 2,
    "tests/engine/keyed/test_key_windows.py": 3,
    "tests/engine/keyed/test_lookup.py": 2,
    "tests/engine/keyed/test_lost_side.py": 3,
    "tests/engine/test_chain.py": 3,
    "tests/engine/sql/test_exact.py::test_no_function_rounds": 6,
    "tests/engine/operators/test_grouped_sums.py": 5,
    "tests/engine/sql/test_guards.py": 4,
    "tests/engine/operators/test_increments.py": 4,
    "tests/engine/test_rebuilding.py": 4,
    "tests/engine/test_slices.py": 9,
    "tests/engine/test_split.py": 10,
    "tests/engine/test_types.py::test_any_number_of_partitions": 16,
    "tests/engine/test_wholeness.py": 2,
    "tests/engine/test_zone_windows.py": 3,
    "tests/ingress/test_topic_life.py::test_an_owner_that_ends_soon": 6,
    "tests/reconcile/test_audit.py": 3,
    "tests/reconcile/test_kernel.py": 2,
    "tests/runtime/test_lean_imports.py": 3,
    "tests/simulation/test_faults.py::test_every_kind_of_fault_alone": 8,
    "tests/simulation/test_ingress_seeds.py::test_a_rule_that_is_switched_off_is_found": 4,
    "tests/simulation/test_ingress_seeds.py::test_no_seed": 6,
    "tests/simulation/test_planted.py": 16,
    "tests/simulation/test_resets.py": 4,
    "tests/simulation/test_seeds.py::test_no_seed_of_a_tenth": 2,
    "tests/simulation/test_seeds.py::test_worlds": 8,
    "tests/simulation/test_ways.py": 6,
    "tests/testing/test_standbys.py::test_nodes_of_one_chain": 3,
    "tests/testing/test_standbys.py::test_while_nobody_runs": 3,
    "tests/testing/test_world.py": 5,
    "tests/tiers/test_stages.py": 3,
    "tests/types/test_repeated.py": 3,
}


@dataclass(frozen=True)
class Budget:
    """What the tests of a tier in `make test`, and the longest of its thirds, may take.

    Attributes:
        cpu_s, third_cpu_s: CPU seconds, of tests that compute: it is the same however busy the machine is.
        wall_s, third_wall_s: seconds, one after the other, of tests that wait for processes with CPU of their own.
    """

    cpu_s: float = 0.0
    third_cpu_s: float = 0.0
    wall_s: float = 0.0
    third_wall_s: float = 0.0


BUDGETS = {
    "pure": Budget(cpu_s=650, third_cpu_s=400),
    "broker": Budget(wall_s=800, third_wall_s=900),
    "spark": Budget(wall_s=250, third_wall_s=500),
}
LONGEST_S = 10.0
"""CPU seconds that a pure test in `make test` may take, with what its file sets up once."""


class Item(Protocol):
    """A test, as pytest has collected it."""

    @property
    def nodeid(self) -> str: ...


T = TypeVar("T", bound=Item)


def file_of(nodeid: str) -> str:
    """The file of a test."""
    return nodeid.partition("::")[0]


def tier_of(marks: Collection[str]) -> str:
    """Where a test with these marks runs."""
    if {"spark", "e2e"} & set(marks):
        return "spark"
    return "broker" if "broker" in marks else "pure"


def slow(items: Iterable[T], rotation: int) -> list[T]:
    """Those that `make test` leaves out. Which ones of a shared family stay changes from rotation to rotation."""
    found, seen = [], dict.fromkeys(SHARED, 0)
    for item in items:
        family = next((prefix for prefix in SHARED if item.nodeid.startswith(prefix)), None)
        if family is None:
            left_out = item.nodeid.startswith(SLOW)
        else:
            left_out = seen[family] % SHARED[family] != rotation % SHARED[family]
            seen[family] += 1
        if left_out:
            found.append(item)
    return found


def due(nodeid: str, tier: str, rotation: int, durations: Durations) -> bool:
    """Whether a slow test is of this rotation's third; by file where tests may share an app."""
    if tier == "pure":
        return crc32(nodeid.encode()) % THIRDS == rotation % THIRDS
    return thirds(tier, durations).get(file_of(nodeid), crc32(file_of(nodeid).encode()) % THIRDS) == rotation % THIRDS


def thirds(tier: str, durations: Durations) -> dict[str, int]:
    """Slow files -> their third: the longest file first, each to the third that is the shortest so far."""
    walls = {file: tiers[tier].slow_wall_s for file, tiers in durations.items() if tier in tiers}
    taken = [0.0] * THIRDS
    found: dict[str, int] = {}
    for file in sorted((file for file, wall_s in walls.items() if wall_s), key=lambda file: (-walls[file], file)):
        found[file] = taken.index(min(taken))
        taken[found[file]] += walls[file]
    return found


def may_run_again(file: str, tier: str) -> bool:
    """Whether a red file is run once more: it stands on processes, which a busy machine may starve."""
    return tier != "pure" or file in PROCESSES
