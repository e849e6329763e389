"""Bounds on what one value can make the engine do: checks that stand in front of arguments, written into the tree.

The engine's JSON functions recurse as deep as a text is nested, until the process's stack is used up; others build as
much as an argument says, or take time by the product of two lengths. No error that could be told would come of that. So
such arguments pass through functions of ours that refuse what is beyond a bound: an error of the row. The bounds are
part of what a query's results are: every replica has the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Tree = dict[str, Any]

NESTING_MAX = 100
"""Brackets within brackets in a text that is parsed (JSON, lists, structs, maps)."""
PATTERN_BYTES_MAX = 1_000
"""Of a pattern or path that is not written in the query."""
WORK_MAX = 64_000_000
"""Bytes that one call may build, or the product of two texts' lengths where it takes time by that."""

_WIDE = re.compile(r"[0-9]{5}|\{[^}]*\{|%[-+ #0]*\*|%[-+ #0]*[0-9]*\.\*")
_RECURSIVE = re.compile(r"\.\..*\.\.", re.DOTALL)


class TooMuch(ValueError):
    """A value is beyond a bound; the message says which."""


# What runs in the engine -------------------------------------------------------------------------------------------


def nesting(text: bytes) -> int:
    """How deep [ and { stand within each other, those between double quotes left out."""
    unescaped = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    raw = np.frombuffer(b"".join(unescaped.split(b'"')[::2]), dtype=np.uint8)
    opens = (raw == ord("[")) | (raw == ord("{"))
    closes = (raw == ord("]")) | (raw == ord("}"))
    depth = np.cumsum(opens.astype(np.int64) - closes.astype(np.int64))
    return int(depth.max(initial=0))


def _nested(texts: pa.Array) -> pa.Array:
    if (pc.max(pc.binary_length(texts)).as_py() or 0) <= NESTING_MAX:
        return texts
    opened = pc.add(pc.count_substring(texts, "["), pc.count_substring(texts, "{"))
    for text in texts.filter(pc.fill_null(pc.greater(opened, NESTING_MAX), False)).to_pylist():
        if nesting(text.encode()) > NESTING_MAX:
            raise TooMuch(f"the text is nested more than {NESTING_MAX} levels deep")
    return texts


def _short(texts: pa.Array) -> pa.Array:
    if (pc.max(pc.binary_length(texts)).as_py() or 0) > PATTERN_BYTES_MAX:
        raise TooMuch(f"the pattern is longer than {PATTERN_BYTES_MAX} bytes")
    return texts


def _path(texts: pa.Array) -> pa.Array:
    for text in set(_short(texts).to_pylist()):
        if text is not None and _RECURSIVE.search(text):
            raise TooMuch("the path has more than one '..'")
    return texts


def _narrow(texts: pa.Array) -> pa.Array:
    for text in set(_short(texts).to_pylist()):
        if text is not None and _WIDE.search(text):
            raise TooMuch("the format asks for a width of more than 9999, or for one that an argument says")
    return texts


def _times(counts: pa.Array, units: pa.Array) -> pa.Array:
    for count, unit in zip(counts.to_pylist(), units.to_pylist(), strict=True):
        if count is not None and unit is not None and count * max(unit, 1) > WORK_MAX:
            raise TooMuch(f"the result would take more than {WORK_MAX} bytes")
    return counts


def _product(texts: pa.Array, others: pa.Array) -> pa.Array:
    lengths = (pc.fill_null(pc.binary_length(a), 0).to_numpy().astype(np.int64) for a in (texts, others))
    first, second = lengths
    if int((first * second).max(initial=0)) > WORK_MAX:
        raise TooMuch(f"the lengths of the two texts, multiplied, are beyond {WORK_MAX}")
    return texts


_TEXT, _COUNT = "VARCHAR", "BIGINT"
_GUARDS: tuple[tuple[str, Callable[..., pa.Array], list[str], str], ...] = (
    ("__nested", _nested, [_TEXT], _TEXT),
    ("__short", _short, [_TEXT], _TEXT),
    ("__path", _path, [_TEXT], _TEXT),
    ("__narrow", _narrow, [_TEXT], _TEXT),
    ("__times", _times, [_COUNT, _COUNT], _COUNT),
    ("__product", _product, [_TEXT, _TEXT], _TEXT),
)


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the checks known to a connection."""
    for name, function, parameters, result in _GUARDS:
        connection.create_function(name, function, parameters, result, type="arrow")  # type: ignore[call-overload]


def reason_of(line: str) -> str:
    """An error's line without the engine's words about Python functions."""
    _, marked, ours = line.partition("executing the UDF: TooMuch: ")
    return ours if marked else line


# What is written into the tree --------------------------------------------------------------------------------------

_JSON_TEXTS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(
        ("->>", "from_json", "from_json_strict", "json_array_length", "json_exists", "json_extract",
         "json_extract_path", "json_extract_path_text", "json_extract_string", "json_keys", "json_pretty",
         "json_structure",
         "json_transform", "json_transform_strict", "json_type", "json_valid", "json_value"), (0,),
    ),
    "json_contains": (0, 1),
    "json_merge_patch": tuple(range(16)),
}  # fmt: skip
_JSON_PATHS = {"->>", "json_array_length", "json_exists", "json_extract", "json_extract_path", "json_extract_path_text",
               "json_extract_string", "json_keys", "json_type", "json_value"}  # fmt: skip
_PATTERNS = {"~~", "!~~", "~~*", "!~~*", "~~~", "like_escape", "not_like_escape", "ilike_escape", "not_ilike_escape",
             "regexp_extract", "regexp_extract_all", "regexp_full_match", "regexp_matches", "regexp_replace",
             "regexp_split_to_array", "str_split_regex", "string_split_regex"}  # fmt: skip
_ZONES = {"timezone": 0, "make_timestamptz": 6}
"""Names of time zones: of an unknown one the engine looks for the most similar, which takes time by its length."""
_DISTANCES = {"damerau_levenshtein", "editdist3", "jaro_similarity", "jaro_winkler_similarity", "levenshtein"}
_CONSTANTS = {"range": 0, "generate_series": 0, "equi_width_bins": 2}
"""From which argument on they must be written in the query: how much they build follows from several of them."""
_SIZES: dict[str, tuple[int, int, str]] = {
    "lpad": (1, 4, "INTEGER"),
    "rpad": (1, 4, "INTEGER"),
    "bitstring": (1, 1, "INTEGER"),
    "list_resize": (1, 8, "BIGINT"),
    "array_resize": (1, 8, "BIGINT"),
}
"""Which argument says how much is built, the bytes of one, the argument's type."""
PARSED = {"JSON", "LIST", "ARRAY", "STRUCT", "MAP", "UNION"}
"""Types that text is parsed into."""


def objection(call: Tree) -> str | None:
    """Why a call cannot be bounded, so that it cannot be used; None: it can."""
    name = call["function_name"].lower()
    if name in _CONSTANTS and any(not _constant(child) for child in call["children"][_CONSTANTS[name] :]):
        which = "arguments" if name != "equi_width_bins" else "number of bins"
        return f"the {which} of {name}() must be written in the query, or one row could ask for any number of values"
    return None


def guarded(tree: Tree, kind: Callable[[Tree], str]) -> Tree:
    """The same expression with a check in front of each argument that needs one.

    Args:
        kind: the engine's type of a part of it.
    """

    def go(value: Any) -> Any:
        if isinstance(value, list):
            return [go(v) for v in value]
        if not isinstance(value, dict):
            return value
        inner = {name: go(v) for name, v in value.items()}
        if value.get("class") == "CAST" and PARSED & set(_top(value["cast_type"])):
            return {**inner, "child": _call("__nested", inner["child"])} if kind(value["child"]) == _TEXT else inner
        return _checked(value, inner, kind) if value.get("class") == "FUNCTION" else inner

    return go(tree)  # type: ignore[no-any-return]


def _top(type_: Tree) -> Iterable[str]:
    info = type_.get("type_info") or {}
    return type_["id"], str(info.get("name", "")).upper()


def _checked(before: Tree, call: Tree, kind: Callable[[Tree], str]) -> Tree:
    """`before` as written, `call` with its own arguments checked already."""
    name, children = call["function_name"].lower(), list(call["children"])

    def put(at: int, make: Callable[[Tree], Tree], constants: bool = False) -> None:
        if at < len(children) and (constants or not _constant(before["children"][at])):
            children[at] = make(children[at])

    for at in _JSON_TEXTS.get(name, ()):
        put(at, lambda text: _call("__nested", text))
    if name in _JSON_PATHS and len(children) > 1 and kind(before["children"][1]) == _TEXT:
        put(1, lambda text: _call("__path", text))
    if name in _PATTERNS:
        put(1, lambda text: _call("__short", text))
    if name in _ZONES and len(children) > _ZONES[name] and kind(before["children"][_ZONES[name]]) == _TEXT:
        put(_ZONES[name], lambda text: _call("__short", text))
    if name in ("format", "printf"):
        put(0, lambda text: _call("__narrow", text))
    if name in _SIZES:
        at, unit, type_ = _SIZES[name]
        put(at, lambda count: _cast(_call("__times", _cast(count, "BIGINT"), _number(unit)), type_), constants=True)
    if name in _DISTANCES and len(children) == 2:
        children[0] = _call("__product", children[0], children[1])
    if name in ("replace", "regexp_replace") and len(children) > 2:
        put(2, lambda text: _call("__product", text, children[0]))
    if name == "repeat" and len(children) == 2:
        size = _call(_LENGTH.get(kind(before["children"][0]), "len"), children[0])
        children[1] = _call("__times", _cast(children[1], "BIGINT"), size)
    return {**call, "children": children}


_LENGTH = {_TEXT: "strlen", "BLOB": "octet_length"}


def _constant(tree: Tree) -> bool:
    """Written in the query: no column is in it."""
    if isinstance(tree, list):
        return all(map(_constant, tree))
    return not isinstance(tree, dict) or (tree.get("class") != "COLUMN_REF" and all(map(_constant, tree.values())))


def _call(name: str, *arguments: Tree) -> Tree:
    return {
        "class": "FUNCTION", "type": "FUNCTION", "alias": "", "query_location": 0, "function_name": name, "schema": "",
        "children": list(arguments), "filter": None, "order_bys": {"type": "ORDER_MODIFIER", "orders": []},
        "distinct": False, "is_operator": False, "export_state": False, "catalog": "",
    }  # fmt: skip


def _cast(tree: Tree, type_: str) -> Tree:
    return {
        "class": "CAST", "type": "OPERATOR_CAST", "alias": "", "query_location": 0, "child": tree,
        "cast_type": {"id": type_, "type_info": None}, "try_cast": False,
    }  # fmt: skip


def _number(value: int) -> Tree:
    return {
        "class": "CONSTANT", "type": "VALUE_CONSTANT", "alias": "", "query_location": 0,
        "value": {"type": {"id": "BIGINT", "type_info": None}, "is_null": False, "value": value},
    }  # fmt: skip
