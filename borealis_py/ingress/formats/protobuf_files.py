"""The descriptor of a Protobuf file, with all that it imports: from the registry, or from the packages installed here.

The registry's serializers register no file of `google/protobuf`, `google/type` or `confluent`: those are to be had
wherever Protobuf and the registry's client are.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from borealis_py.ingress.formats.avro_schema import UnusableSchema

WELL_KNOWN = (
    "any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type",
    "wrappers",
)  # fmt: skip
"""Protobuf's own files, by name in `google/protobuf`."""
_STANDARD = re.compile(r"(google/protobuf|google/type|confluent(?:/types?)?)/([a-z_]+)\.proto")
_MAIN = "borealis/main.proto"


def file_of(text: str, references: Iterable[tuple[str, str]]) -> Any:
    """The file of this descriptor.

    Its pool has all that may be within a `google.protobuf.Any`, too.

    Args:
        text: descriptor of the file, in base64.
        references: (name, text) of the files that it imports, each after its own imports.

    Raises:
        UnusableSchema: these are no descriptors, or an import is missing.
        ImportError: protobuf is not installed.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool

    pool = descriptor_pool.DescriptorPool()
    registered, standard = set[str](), set[str]()

    def add(name: str) -> None:
        if name in registered or name in standard or (file := _standard(name)) is None:
            return  # if it is missing, the pool says so
        for imported in file.dependency:
            add(imported)
        pool.AddSerializedFile(file.SerializeToString())
        standard.add(name)

    try:
        for name, one in (*references, (_MAIN, text)):
            file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(one, validate=True))
            if name in standard:
                continue
            file.name = name
            for imported in file.dependency:
                add(imported)
            pool.AddSerializedFile(file.SerializeToString())
            registered.add(name)
        found = pool.FindFileByName(_MAIN)
    except (binascii.Error, UnicodeError) as exc:
        raise UnusableSchema(f"the registry gives no descriptor of it: {exc}") from None
    except Exception as exc:  # whatever is wrong with a descriptor that others wrote
        raise UnusableSchema(f"it is no descriptor: {type(exc).__name__}: {exc}") from None
    for name in WELL_KNOWN:
        try:
            add(f"google/protobuf/{name}.proto")
        except TypeError:
            continue  # a registered file declares the same messages
    return found


def _standard(name: str) -> Any:
    """The descriptor of a file that producers do not register; None: it is another one, or not installed here."""
    from google.protobuf import descriptor_pb2

    parts = _STANDARD.fullmatch(name)
    if parts is None:
        return None
    within = "" if parts[1].startswith("google") else "confluent_kafka/schema_registry/"
    try:
        module = import_module(f"{within}{parts[1]}/{parts[2]}_pb2".replace("/", "."))
    except ImportError:
        return None
    file = descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    file.name = name
    return file
