"""Bounds what one value can make the engine do, by checks inserted in front of arguments in the expression tree.

The engine's JSON functions recurse as deeply as a text is nested, until the process runs out of stack; others build as
much as an argument says, or take time that grows with the product of two lengths, or with a power of one. None of that
ends in a reportable error. So these arguments pass through functions of ours (`checks`) that refuse values beyond a
bound, which is an error of the row. The bounds affect a query's results: every replica has the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from borealis_py.engine.sql import clocks, exact
from borealis_py.engine.sql.checks import MOVED_MAX, WORK_MAX, looks_far, pattern_size
from borealis_py.engine.sql.functions import AGGREGATES, BY_NAME

Tree = dict[str, Any]
TEXT = "VARCHAR"
_TEXTS = {TEXT, "JSON"}
"""Types that a function of text accepts without a CAST."""

_JSON_TEXTS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(
        ("->>", "from_json", "from_json_strict", "json_array_length", "json_exists", "json_extract",
         "json_extract_path", "json_extract_path_text", "json_extract_string", "json_keys", "json_pretty",
         "json_structure",
         "json_transform", "json_transform_strict", "json_type", "json_valid", "json_value"), (0,),
    ),
    "json_contains": (0, 1),
}  # fmt: skip
_JSON_PATHS = {"->>", "json_array_length", "json_exists", "json_extract", "json_extract_path", "json_extract_path_text",
               "json_extract_string", "json_keys", "json_type", "json_value"}  # fmt: skip
_LIKES = {"~~": (False, False), "!~~": (True, False), "~~*": (False, True), "!~~*": (True, True),
          "like_escape": (False, False), "not_like_escape": (True, False),
          "ilike_escape": (False, True), "not_ilike_escape": (True, True)}  # fmt: skip
"""LIKE and its variants: (negated, whether case is ignored). The engine's own matcher backtracks at every %."""
_REGEXES = {"regexp_extract", "regexp_extract_all", "regexp_full_match", "regexp_matches", "regexp_replace",
            "regexp_split_to_array", "str_split_regex", "string_split_regex"}  # fmt: skip
_AGAIN = {"regexp_extract_all", "regexp_replace", "regexp_split_to_array", "str_split_regex", "string_split_regex"}
"""Functions that continue searching after each match."""
_ZONES = {"timezone": 0, "make_timestamptz": 6, "time_bucket": 2}
"""Arguments that are time zone names: for an unknown name the engine searches for the most similar one, which takes
time proportional to its length.
"""
_SHORT = {**dict.fromkeys(("date_part", "datepart", "date_trunc", "datetrunc", "date_diff", "datediff", "date_sub",
                           "datesub", "strptime", "parse_formatted_bytes"), 0), **_ZONES}  # fmt: skip
_DISTANCES = {"damerau_levenshtein": WORK_MAX // 8, "editdist3": WORK_MAX, "jaro_similarity": WORK_MAX,
              "jaro_winkler_similarity": WORK_MAX, "levenshtein": WORK_MAX}  # fmt: skip
"""The first of them builds a table of 8 bytes per pair."""
_SEARCHES = {"contains": 1, "instr": 1, "strpos": 1, "position": 1, "replace": 1, "split_part": 1, "split": 1,
             "str_split": 1, "string_split": 1, "string_to_array": 1}  # fmt: skip
"""Index of the argument that is searched for in the first one."""
_PATHS = {"parse_dirname", "parse_dirpath", "parse_filename"}
_CONSTANTS = {"range": 0, "generate_series": 0, "histogram": 1, "histogram_exact": 1}
"""Index of the first argument that must be a literal: the result's size follows from several of them."""
_SIZES: dict[str, tuple[int, int, str]] = {
    "lpad": (1, 4, "INTEGER"),
    "rpad": (1, 4, "INTEGER"),
    "bitstring": (1, 1, "INTEGER"),
}
"""Index of the argument that determines the size, bytes per unit, the argument's type."""
PARSED = {"JSON", "LIST", "ARRAY", "STRUCT", "MAP", "UNION"}
"""Types that text is parsed into."""
WHOLE = {TEXT, "BLOB", "BIT"}
"""Types that text of any length can be cast to."""
_MARKS = r"[^\x00-\x7f\pL\pN\pS\pP\pZ]{100}"
"""Possible combining characters: the engine sorts them by moving each past all others."""
_OPEN_SIZE = 64
"""A pattern up to this size may be searched for in a text of any length."""
_MAP_WORK = WORK_MAX // 4
_LENGTH = {TEXT: "strlen", "BLOB": "octet_length"}


_ZONED = "TIMESTAMP WITH TIME ZONE"
"""Its text may end in the name of a time zone (see `_ZONES`)."""
_UNREAD = re.compile(r'TIMESTAMP|DATETIME|"\s*(?:DATE|DECIMAL|NUMERIC|DEC)\b[^":]*"(?!\s*:)')
"""Types of a structure, in capitals, whose values the engine would read by other rules than a CAST of text."""
_STRUCTURES = {"from_json", "from_json_strict", "json_transform", "json_transform_strict"}


class Unbounded(ValueError):
    """The cost of an expression cannot be bounded; the message says why."""


def objection(call: Tree) -> str | None:
    """Why a call is refused because its cost cannot be bounded; None: it can be."""
    name = call["function_name"].lower()
    if name in _CONSTANTS and any(not constant(child) for child in call["children"][_CONSTANTS[name] :]):
        which = "arguments" if name not in ("histogram", "histogram_exact") else "bins"
        return f"the {which} of {name}() must be written in the query, or one row could ask for any number of values"
    return None


def guarded(tree: Tree, kind: Callable[[Tree], str]) -> Tree:
    """The expression with a check in front of each argument that needs one.

    Args:
        kind: the engine's type of a subexpression.

    Raises:
        Unbounded: a check is needed where none can be inserted.
        Inexact: an aggregate of decimals would round its result.
    """

    def go(value: Any) -> Any:
        if isinstance(value, list):
            return [go(v) for v in value]
        if not isinstance(value, dict):
            return value
        inner = {name: go(v) for name, v in value.items()}
        if value.get("class") == "CAST":
            return {**inner, "child": cast_checked(value, inner["child"], kind)}
        if value.get("class") == "COLLATE" and "nfc" in value["collation"].lower():
            return {**inner, "child": _marked(inner["child"])}
        return _checked(value, inner, kind) if value.get("class") == "FUNCTION" else inner

    return go(tree)  # type: ignore[no-any-return]


def cast_checked(before: Tree, child: Tree, kind: Callable[[Tree], str]) -> Tree:
    """The checked operand of a CAST, where `child` is its operand with parts already checked; `child` if no check is
    needed.
    """
    timed, digits = clocks.time_in(before["cast_type"]), exact.digits_kept(before["cast_type"])
    if constant(before["child"]) and timed is None and digits is None:
        return child
    top, of = names_of(before["cast_type"]), kind(before["child"])
    zoned = timed == _ZONED
    if timed and ((of != TEXT and (TEXT in of or "JSON" in of)) or (of == TEXT and top & PARSED)):
        raise Unbounded(f"a CAST to {timed} takes text, but nothing that texts are in: read each of them by itself")
    if of == TEXT and clocks.reads_text(before["cast_type"]):
        read = child if constant(before["child"]) else _call(_for("__short", before), child)
        if timed == clocks.DATE:
            if constant(before["child"]) and not clocks.has_offset(before["child"]):
                return child
            read = _call("trim", read)  # as the engine reads dates
        return {**_cast(read, _ZONED), "try_cast": before["try_cast"]}
    if digits is not None and of in (TEXT, "JSON"):
        return _number_read(before, child, digits, json=of == "JSON")
    if of == TEXT and timed == clocks.TIME:
        return _time_read(before, child)
    if constant(before["child"]):
        return child
    if top & WHOLE:
        return child
    if of != TEXT:
        return _if(_is(_call("__told", _cast(child, TEXT))), child) if TEXT in of else child
    if not top & PARSED:
        return _call(_for("__short", before), child)
    if zoned:
        return _call("__short", child)
    return _call("__nested", child if "JSON" in top else _call("__told", child))


def _number_read(before: Tree, child: Tree, digits: int, *, json: bool) -> Tree:
    """The operand of a CAST of text to an exact number, which is not rounded. Raises exact.Inexact."""
    type_ = exact.spelled(before["cast_type"])
    known = _literal(before["child"])
    if known is not None and not before["try_cast"] and exact.digits_of(known) > digits:
        raise exact.Inexact(exact.text_reason(known, digits, type_))
    text = child
    if json:  # a text in JSON has quotes; of a number the engine would take a double
        text = _call("nullif", _call("trim", _cast(child, TEXT), _text('"')), _text("null"))
    if not constant(before["child"]):
        text = _call(_for("__short", before), text)
    return _call(_for("__exact", before), text, _number(digits), _text(type_))


def _time_read(before: Tree, child: Tree) -> Tree:
    """The operand of a CAST of text to a time of day, which has no offset. Raises clocks.WrongClock."""
    known = _literal(before["child"])
    if known is not None and not before["try_cast"] and clocks.shows_zone(known):
        raise clocks.WrongClock(clocks.offset_reason(known))
    text = child if constant(before["child"]) else _call(_for("__short", before), child)
    return _call(_for("__clock", before), text)


def _for(check: str, cast: Tree) -> str:
    """The check to call for a CAST, or that which a TRY_CAST takes for null."""
    return f"{check}_or_none" if cast["try_cast"] else check


def names_of(type_: Tree) -> set[str]:
    """The names of a type, without those of its component types."""
    info = type_.get("type_info") or {}
    return {type_["id"], str(info.get("name", "")).upper()}


def inner_types(type_: Tree) -> dict[str, Tree]:
    """The component types of a type, by field name."""
    info = type_.get("type_info") or {}
    if "child_type" in info:
        return {"": info["child_type"]}
    return {child["first"].lower(): child["second"] for child in info.get("child_types", ())}


def _checked(before: Tree, call: Tree, kind: Callable[[Tree], str]) -> Tree:
    """Check a call: `before` is as written, `call` has its own arguments already checked."""
    name, children, written = call["function_name"].lower(), list(call["children"]), before["children"]
    if name in _LIKES and len(children) > 1:
        return _like(name, before, children)

    def put(at: int, make: Callable[[Tree], Tree], constants: bool = False) -> None:
        if at < len(children) and (constants or not constant(written[at])):
            children[at] = make(children[at])

    def of(at: int) -> str:
        return kind(written[at]) if at < len(written) else ""

    chosen = _literal(written[1]) if name in BY_NAME and len(written) > 1 else None
    if exact.interpolates(name, chosen) and (rounds := exact.objection(name, of(0), chosen)) is not None:
        raise exact.Inexact(rounds)
    for at in range(len(children)) if name == "json_merge_patch" else _JSON_TEXTS.get(name, ()):
        put(at, lambda text: _call("__nested", text))
    if name in _JSON_PATHS and of(1) in _TEXTS:
        put(1, lambda text: _call("__path", text))
    if name in _REGEXES:
        _regex(name, written, children)
    if name == "~~~":
        children[1] = _call("__stars", _call("__short", children[1]), children[0])
    if name in _SHORT and of(_SHORT[name]) in _TEXTS:
        put(_SHORT[name], lambda text: _call("__short", text))
    if name == "try_strptime":
        put(0, lambda text: _call("__short_or_none", text))
    if name in ("format", "printf"):
        values = _joined(children[1:]) if len(children) > 1 else _text("")
        put(0, lambda text: _call("__product", _call("__narrow", text), values, _number(WORK_MAX)))
    if name in _SIZES:
        at, unit, type_ = _SIZES[name]
        put(at, lambda count: _cast(_call("__times", _cast(count, "BIGINT"), _number(unit)), type_), constants=True)
    if name in _DISTANCES and len(children) == 2:
        children[0] = _call("__product", children[0], children[1], _number(_DISTANCES[name]))
    if name in ("replace", "regexp_replace") and len(children) > 2:
        put(2, lambda text: _call("__product", text, children[0], _number(WORK_MAX)))
    if name in _SEARCHES and of(0) in _TEXTS and of(1) in _TEXTS:
        put(1, lambda text: _call("__product", text, children[0], _number(MOVED_MAX)))
    if name in _PATHS:
        put(0, lambda text: _call("__product", text, text, _number(MOVED_MAX)))
    if name == "from_base64":
        put(0, lambda text: _call("__told", text))
    if name == "nfc_normalize":
        put(0, _marked)
    if name == "json_pretty":
        put(0, lambda text: _call("__indented", text))
    if name in ("json_contains", "json_merge_patch") and len(children) > 1:
        first, others = _joined(children[:1]), _joined(children[1:])
        children[0] = _if(_call("__entries", first, others), children[0])
    if name in _STRUCTURES:
        _check_structure(written)
    return {**call, "children": _built(name, children, of)}


def _check_structure(written: list[Tree]) -> None:
    structure = _literal(written[1]) if len(written) > 1 else None
    if structure is None or _UNREAD.search(structure.upper()):
        raise Unbounded(
            f"write the structure of the JSON as one text, without {clocks.TIMESTAMP}, DATE and DECIMAL: take such "
            "values as VARCHAR, and CAST each"
        )


def _built(name: str, children: list[Tree], of: Callable[[int], str]) -> list[Tree]:
    """Insert checks where one argument determines how often another is repeated."""
    if name == "repeat" and len(children) == 2:
        listed = _call("add", _number(16), _call("strlen", _cast(children[0], TEXT)))
        size = _call(_LENGTH[of(0)], children[0]) if of(0) in _LENGTH else listed
        return [children[0], _call("__times", _cast(children[1], "BIGINT"), size)]
    if name in ("list_resize", "array_resize") and len(children) > 1:
        size = _call("add", _number(16), _call("strlen", _joined(children[2:]))) if len(children) > 2 else _number(16)
        return [children[0], _call("__times", _cast(children[1], "BIGINT"), size), *children[2:]]
    if name in ("list_select", "array_select") and len(children) == 2:
        taken = _call(
            "__within", _call("len", children[1]), _call("__largest", _cast_list(children[0])), _number(WORK_MAX)
        )
        return [children[0], _if(taken, children[1])]
    if name == "map_concat" and len(children) > 1:
        total = _number(0)
        for child in children:
            total = _call("add", total, _or(_cast(_call("cardinality", child), "BIGINT"), _number(0)))
        return [_if(_call("__within", total, total, _number(_MAP_WORK)), children[0]), *children[1:]]
    return children


def _like(name: str, before: Tree, children: list[Tree]) -> Tree:
    """LIKE as a regular expression, unless its pattern is a simple literal."""
    negated, ignores_case = _LIKES[name]
    text, pattern, *escape = children
    known = _literal(before["children"][1])
    if not ignores_case and not escape and known is not None and "_" not in known:
        return {**before, "children": children}
    if not constant(before["children"][1]):
        pattern = _call("__product", _call("__short", pattern), text, _number(WORK_MAX))
    elif known is None or len(known) > _OPEN_SIZE:
        pattern = _call("__product", pattern, text, _number(WORK_MAX))
    if ignores_case:
        text, pattern = _call("lower", text), _call("lower", pattern)
    matched = _call("regexp_full_match", text, _call("__like", pattern, escape[0] if escape else _text("")))
    return (
        {"class": "OPERATOR", "type": "OPERATOR_NOT", "alias": "", "query_location": 0, "children": [matched]}
        if negated
        else matched
    )


def _regex(name: str, written: list[Tree], children: list[Tree]) -> None:
    known = _literal(written[1])
    text, pattern = children[0], children[1]
    if known is None:
        children[1] = _call("__pattern", pattern, text)
    elif pattern_size(known) > _OPEN_SIZE:
        children[0] = _call("__searched", text, _number(pattern_size(known)))
    options = _literal(written[3]) if len(written) > 3 else ""
    again = name in _AGAIN and (name != "regexp_replace" or options is None or "g" in options)
    if again and (known is None or looks_far(known)):
        children[0] = _call("__again", children[0], pattern)


def _marked(text: Tree) -> Tree:
    return _call("__marks", text, _call("regexp_matches", text, _text(_MARKS)))


def constant(tree: Tree) -> bool:
    """Whether it is a constant in the query: it contains no column, and no aggregate (which counts rows even without
    one).
    """
    if isinstance(tree, list):
        return all(map(constant, tree))
    if not isinstance(tree, dict):
        return True
    of_rows = tree.get("class") == "COLUMN_REF" or str(tree.get("function_name", "")).lower() in AGGREGATES
    return not of_rows and all(map(constant, tree.values()))


def _literal(tree: Tree) -> str | None:
    """The text of a string literal; None: not a string literal."""
    value = tree.get("value", {}).get("value") if tree["class"] == "CONSTANT" else None
    return value if isinstance(value, str) else None


def _call(name: str, *arguments: Tree) -> Tree:
    return {
        "class": "FUNCTION", "type": "FUNCTION", "alias": "", "query_location": 0, "function_name": name, "schema": "",
        "children": list(arguments), "filter": None, "order_bys": {"type": "ORDER_MODIFIER", "orders": []},
        "distinct": False, "is_operator": False, "export_state": False, "catalog": "",
    }  # fmt: skip


def _joined(values: list[Tree]) -> Tree:
    """All values concatenated as one text; nulls are skipped."""
    return _call("concat", *(_cast(value, TEXT) for value in values))


def _or(value: Tree, instead: Tree) -> Tree:
    return {
        "class": "OPERATOR", "type": "OPERATOR_COALESCE", "alias": "", "query_location": 0,
        "children": [value, instead],
    }  # fmt: skip


def _is(value: Tree) -> Tree:
    return {
        "class": "OPERATOR", "type": "OPERATOR_IS_NOT_NULL", "alias": "", "query_location": 0, "children": [value],
    }  # fmt: skip


def _if(condition: Tree, value: Tree) -> Tree:
    """The value, evaluated after a condition that raises if a check fails."""
    checks = [{"when_expr": condition, "then_expr": value}]
    return {
        "class": "CASE",
        "type": "CASE_EXPR",
        "alias": "",
        "query_location": 0,
        "case_checks": checks,
        "else_expr": NOTHING,
    }


def _cast(tree: Tree, type_: str, info: Tree | None = None) -> Tree:
    return {
        "class": "CAST", "type": "OPERATOR_CAST", "alias": "", "query_location": 0, "child": tree,
        "cast_type": {"id": type_, "type_info": info}, "try_cast": False,
    }  # fmt: skip


def _cast_list(tree: Tree) -> Tree:
    child = {"id": TEXT, "type_info": None}
    return _cast(tree, "LIST", {"type": "LIST_TYPE_INFO", "alias": "", "extension_info": None, "child_type": child})


def _number(value: int) -> Tree:
    return _value("BIGINT", value)


def _text(value: str) -> Tree:
    return _value(TEXT, value)


def _value(type_: str, value: object) -> Tree:
    return {
        "class": "CONSTANT", "type": "VALUE_CONSTANT", "alias": "", "query_location": 0,
        "value": {"type": {"id": type_, "type_info": None}, "is_null": False, "value": value},
    }  # fmt: skip


NOTHING = {**_text(""), "value": {"type": {"id": "NULL", "type_info": None}, "is_null": True}}
