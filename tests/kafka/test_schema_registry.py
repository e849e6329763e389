"""The client of a schema registry, against the mock of confluent-kafka and an HTTP server of the test's own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from borealis_py.kafka.schema_registry import ConfluentRegistry, RegistryUnusable
from borealis_py.log.schema_registry import NoSuchSchema, RegisteredSchema
from tests.support.registry_server import NO_SCHEMA, RegistryServer

NEEDS = "the client of schema registries is not installed: pip install 'borealis-py[registry]'"
for package in ("httpx2", "authlib", "cachetools"):
    pytest.importorskip(package, reason=NEEDS)

from confluent_kafka.schema_registry import (  # noqa: E402
    Schema,
    SchemaReference,
    SchemaRegistryClient,
)

PLACE = '{"type":"record","name":"Place","fields":[{"name":"city","type":"string"}]}'
ORDER = '{"type":"record","name":"Order","fields":[{"name":"at","type":"Place"}]}'


class Clock:
    """Seconds that pass when the test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def answer(registry: ConfluentRegistry, schema_id: int, until: Callable[[], bool] | None = None) -> Any:
    """What it says once it says something, or `until`."""
    waiting = threading.Event()
    for _ in range(1_000):
        found = registry.ask(schema_id)
        if found is not None or (until is not None and until()):
            return found
        waiting.wait(0.01)
    raise AssertionError(f"no answer: {registry.trouble}")


@pytest.fixture
def mock(monkeypatch: pytest.MonkeyPatch) -> SchemaRegistryClient:
    client = SchemaRegistryClient.new_client({"url": "mock://registry"})
    monkeypatch.setattr(SchemaRegistryClient, "new_client", staticmethod(lambda _: client))
    return client


def test_a_schema_is_told_with_what_it_refers_to(mock: SchemaRegistryClient) -> None:
    mock.register_schema("place-value", Schema(PLACE, "AVRO"))
    (version,) = mock.get_versions("place-value")
    schema_id = mock.register_schema(
        "order-value", Schema(ORDER, "AVRO", [SchemaReference("Place", "place-value", version)])
    )
    registry = ConfluentRegistry({"url": "mock://registry"})
    assert registry.ask(schema_id) is None
    assert answer(registry, schema_id) == RegisteredSchema("AVRO", ORDER, (("Place", PLACE),))
    registry.close()


class Server(RegistryServer):
    """Answers with `status` and `body` for each path; as a registry that knows nothing for others."""

    def __init__(self, port: int = 0) -> None:
        self.told: dict[str, tuple[int, Any]] = {}
        self.asked: list[str] = []
        super().__init__(port)

    def answer(self, path: str) -> tuple[int, Any]:
        self.asked.append(path)
        return self.told.get(path, NO_SCHEMA)


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.end()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def registry(server: Server, clock: Clock) -> Iterator[ConfluentRegistry]:
    made = ConfluentRegistry({"url": f"http://127.0.0.1:{server.server_port}"}, clock)
    yield made
    made.close()


def passing(clock: Clock, registry: ConfluentRegistry, schema_id: int) -> Any:
    """Its answer, while time passes."""

    def pass_time() -> bool:
        clock.now += 0.5
        with registry._changed:
            registry._changed.notify()  # which waits in real time
        return False

    return answer(registry, schema_id, pass_time)


def test_a_schema_is_asked_for_once(server: Server, registry: ConfluentRegistry) -> None:
    server.told["/schemas/ids/7"] = 200, {"schema": ORDER, "schemaType": "AVRO"}
    assert answer(registry, 7) == RegisteredSchema("AVRO", ORDER)
    assert answer(registry, 7) == RegisteredSchema("AVRO", ORDER)
    assert server.asked == ["/schemas/ids/7"]
    assert registry.trouble == ""


def test_an_id_is_unknown_once_the_registry_has_said_so_for_a_while(
    server: Server, registry: ConfluentRegistry, clock: Clock
) -> None:
    assert answer(registry, 7, lambda: bool(server.asked)) is None
    found = passing(clock, registry, 7)
    assert found == NoSuchSchema("Schema not found")
    assert len(server.asked) >= 2
    assert registry.trouble == ""
    server.told["/schemas/ids/7"] = 200, {"schema": ORDER}
    assert registry.ask(7) == found
    clock.now += 61
    assert registry.ask(7) is None
    assert answer(registry, 7) == RegisteredSchema("AVRO", ORDER)


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (500, {"error_code": 50001, "message": "Error in the backend"}, "gives no schemas: Error in the backend"),
        (401, {"error_code": 401, "message": "Unauthorized"}, "gives no schemas: Unauthorized"),
        (404, b"<html>no such page</html>", "gives no schemas"),
        (404, {"error_code": 404, "message": "HTTP 404 Not Found"}, "gives no schemas: HTTP 404 Not Found"),
        (200, b"<html>a login page</html>", "does not answer"),
    ],
)
def test_an_answer_that_says_nothing_of_the_schema_is_waited_out(
    server: Server, registry: ConfluentRegistry, clock: Clock, status: int, body: Any, why: str
) -> None:
    server.told["/schemas/ids/7"] = status, body
    assert answer(registry, 7, lambda: bool(registry.trouble)) is None
    assert why in registry.trouble
    assert f"http://127.0.0.1:{server.server_port}" in registry.trouble
    clock.now += 600
    server.told["/schemas/ids/7"] = 200, {"schema": ORDER, "schemaType": "AVRO"}
    assert passing(clock, registry, 7) == RegisteredSchema("AVRO", ORDER)
    assert registry.trouble == ""


def test_a_registry_that_is_gone_is_waited_for(clock: Clock) -> None:
    server = Server()
    server.end()
    registry = ConfluentRegistry({"url": f"http://127.0.0.1:{server.server_port}"}, clock)
    assert answer(registry, 7, lambda: bool(registry.trouble)) is None
    assert "does not answer" in registry.trouble
    again = Server(server.server_port)
    again.told["/schemas/ids/7"] = 200, {"schema": ORDER, "schemaType": "AVRO"}
    assert passing(clock, registry, 7) == RegisteredSchema("AVRO", ORDER)
    registry.close()
    again.end()


@pytest.mark.parametrize("properties", [{}, {"url": "registry:8081"}, {"url": "http://r:1", "usr": "x"}])
def test_properties_that_make_no_client_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(RegistryUnusable, match="schema_registry: no client can be made of these properties"):
        ConfluentRegistry(properties)


def test_an_id_that_the_registry_cannot_answer_holds_up_no_other(
    server: Server, registry: ConfluentRegistry, clock: Clock
) -> None:
    server.told["/schemas/ids/7"] = 500, {"error_code": 50001, "message": "Error in the backend"}
    server.told["/schemas/ids/9"] = 200, {"schema": ORDER, "schemaType": "AVRO"}
    with registry._changed:  # asked for together, as the records of one poll are
        assert [registry.ask(schema_id) for schema_id in (7, 8, 9)] == [None] * 3
    assert passing(clock, registry, 9) == RegisteredSchema("AVRO", ORDER)
    assert passing(clock, registry, 8) == NoSuchSchema("Schema not found")
    assert registry.ask(7) is None


def test_what_cannot_be_had_of_a_reference_says_nothing_of_the_schema(
    server: Server, registry: ConfluentRegistry, clock: Clock
) -> None:
    place = {"name": "Place", "subject": "place-value", "version": 1}
    server.told["/schemas/ids/7"] = 200, {"schema": ORDER, "schemaType": "AVRO", "references": [place]}
    assert answer(registry, 7, lambda: "refers to one that cannot be had" in registry.trouble) is None
    clock.now += 600
    version = {"subject": "place-value", "version": 1, "id": 3, "schema": PLACE, "schemaType": "AVRO"}
    server.told["/subjects/place-value/versions/1"] = 200, version
    assert passing(clock, registry, 7) == RegisteredSchema("AVRO", ORDER, (("Place", PLACE),))


def test_a_login_in_the_url_is_not_told(clock: Clock) -> None:
    server = Server()
    server.end()
    url = f"http://user:secret@127.0.0.1:{server.server_port}"
    registry = ConfluentRegistry({"url": url}, clock)
    assert answer(registry, 7, lambda: bool(registry.trouble)) is None
    assert f"http://127.0.0.1:{server.server_port}" in registry.trouble
    assert "secret" not in registry.trouble
    registry.close()
