"""A schema registry by confluent-kafka's client. A thread asks it; who wants a schema looks for the answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from borealis_py.log.base import LogError
from borealis_py.log.schema_registry import NoSuchSchema, RegisteredSchema

URL = "url"
"""The one property that a registry must have."""
DEFAULTS: Mapping[str, float] = {"timeout": 5.0, "max.retries": 0}
"""Of the client. It need not try again: this does."""
NUMBERS = ("timeout", "max.retries", "retries.wait.ms", "retries.max.wait.ms", "cache.capacity", "cache.latest.ttl.sec")
"""Properties that its client wants as numbers."""
AGAIN_S = 1.0
"""Pause before a registry that gives no answer is asked again."""
UNKNOWN_S = 2.0
"""An id is unknown when the registry has said so for this long: its replicas learn of a new schema one by one."""
FORGET_UNKNOWN_S = 60.0
"""An unknown id is asked for again after this long, if it comes again."""
REFERENCES_MAX = 1_000
"""Schemas to which one refers."""
_SERIALIZED = "serialized"
"""Format in which a registry gives Protobuf's descriptors instead of their text; it says nothing to other kinds."""


class RegistryUnusable(LogError):
    """The properties make no client, or its package is not installed. The message says what to do."""


class ConfluentRegistry:
    """Thread-safe.

    Args:
        properties: of confluent-kafka's SchemaRegistryClient, by dotted names: `url` and, if needed, how to log in.
        monotonic: a clock, in seconds.

    Raises:
        RegistryUnusable: no client can be made of them.
    """

    def __init__(self, properties: Mapping[str, str], monotonic: Callable[[], float] = time.monotonic) -> None:
        self.url = ",".join(map(_without_login, properties.get(URL, "").split(",")))
        """For people."""
        self._client, self._error = _client(properties)
        self._monotonic = monotonic
        self._changed = threading.Condition()
        self._answers: dict[int, tuple[RegisteredSchema | NoSuchSchema, float | None]] = {}
        """What is known of an id, and until when it counts; None: for ever."""
        self._wanted: dict[int, float] = {}
        """When an id is asked for next."""
        self._unknown_since: dict[int, float] = {}
        self._trouble = ""
        self._closed = False
        self._thread: threading.Thread | None = None

    @property
    def trouble(self) -> str:
        """See `SchemaRegistry.trouble`."""
        return self._trouble

    def ask(self, schema_id: int) -> RegisteredSchema | NoSuchSchema | None:
        """See `SchemaRegistry.ask`."""
        with self._changed:
            found = self._answers.get(schema_id)
            if found is not None and (found[1] is None or self._monotonic() < found[1]):
                return found[0]
            if schema_id not in self._wanted:
                self._wanted[schema_id] = 0.0
                self._changed.notify()
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="schema-registry", daemon=True)
                self._thread.start()
        return None

    def close(self) -> None:
        """Ask nothing more."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _run(self) -> None:
        while (schema_id := self._next()) is not None:
            try:
                answer: RegisteredSchema | NoSuchSchema | None = self._look_up(schema_id)
                trouble = ""
            except Exception as exc:  # its client raises what HTTP, TLS and JSON do
                answer, trouble = self._refused(schema_id, exc)
            with self._changed:
                self._trouble = trouble
                if answer is not None:
                    self._take(schema_id, answer)
                elif trouble:
                    due = self._monotonic() + AGAIN_S  # of the others it would say nothing, either
                    others = [other for other in self._wanted if other != schema_id]
                    self._wanted = dict.fromkeys([*others, schema_id], due)  # it may be about this one alone: last
                else:
                    self._wanted[schema_id] = self._monotonic() + AGAIN_S

    def _next(self) -> int | None:
        """The id to ask for now; waits until there is one. None: it is closed."""
        with self._changed:
            while not self._closed:
                if not self._wanted:
                    self._changed.wait()
                    continue
                schema_id, due = min(self._wanted.items(), key=lambda one: one[1])
                left = due - self._monotonic()
                if left <= 0:
                    return schema_id
                self._changed.wait(left)
        return None

    def _take(self, schema_id: int, answer: RegisteredSchema | NoSuchSchema) -> None:
        now = self._monotonic()
        del self._wanted[schema_id]
        self._unknown_since.pop(schema_id, None)
        self._answers = {i: one for i, one in self._answers.items() if one[1] is None or now < one[1]}
        self._answers[schema_id] = answer, now + FORGET_UNKNOWN_S if isinstance(answer, NoSuchSchema) else None

    def _refused(self, schema_id: int, exc: Exception) -> tuple[NoSuchSchema | None, str]:
        """What an error says: (an answer, or trouble); (None, ""): that it must be asked again."""
        if not isinstance(exc, self._error):
            return None, f"the registry at {self.url} does not answer: {type(exc).__name__}: {exc}"
        status, code = exc.http_status_code, exc.error_code
        if status != 404 or not isinstance(code, int) or not 40400 <= code < 40500:
            return None, f"the registry at {self.url} gives no schemas: {exc}"
        now = self._monotonic()
        if now - self._unknown_since.setdefault(schema_id, now) < UNKNOWN_S:
            return None, ""
        return NoSuchSchema(str(exc.error_message)), ""

    def _look_up(self, schema_id: int) -> RegisteredSchema:
        found = self._client.get_schema(schema_id, fmt=_SERIALIZED)
        references: dict[str, str] = {}
        try:
            self._refer(found, references)
        except self._error as exc:  # that says nothing of this id, which the registry knows
            raise RuntimeError(f"schema {schema_id} refers to one that cannot be had: {exc}") from exc
        return RegisteredSchema(str(found.schema_type), str(found.schema_str), tuple(references.items()))

    def _refer(self, schema: Any, found: dict[str, str]) -> None:
        """Collect what a schema refers to, each after its own references."""
        for one in schema.references or ():
            if one.name in found:
                continue
            if len(found) >= REFERENCES_MAX:
                raise RuntimeError(f"it refers to more than {REFERENCES_MAX} schemas")
            told = self._client.get_version(one.subject, one.version, deleted=True, fmt=_SERIALIZED).schema
            self._refer(told, found)
            found[one.name] = str(told.schema_str)


def _without_login(url: str) -> str:
    """A URL may hold a name and a password, which are nobody's business."""
    parts = urlsplit(url.strip())
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _client(properties: Mapping[str, str]) -> tuple[Any, type[Any]]:
    """A client of these properties, and its error."""
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
        from confluent_kafka.schema_registry.error import SchemaRegistryError
    except ImportError as exc:
        raise RegistryUnusable(
            f"a schema registry needs {exc.name or exc}, which is not installed here: pip install "
            "'borealis-py[registry]', on every machine that runs an ingress"
        ) from exc
    try:
        numbers = {name: float(value) for name, value in properties.items() if name in NUMBERS}
        return SchemaRegistryClient.new_client({**DEFAULTS, **properties, **numbers}), SchemaRegistryError
    except (ValueError, TypeError, OSError) as exc:
        raise RegistryUnusable(f"schema_registry: no client can be made of these properties: {exc}") from exc
