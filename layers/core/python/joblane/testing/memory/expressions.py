"""DynamoDB's expressions: parsed, and checked as DynamoDB checks them.

What the product does not use, such as places in lists, raises AssertionError. What they do then is
in `joblane.testing.memory.evaluation`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from itertools import pairwise
from pathlib import Path

from botocore.exceptions import ClientError

from joblane.testing.memory.evaluation import (
    ORDERED,
    Action,
    Item,
    Names,
    Operand,
    Test,
    Values,
    compare,
    make_test,
    read_at,
    read_or,
    refusal,
    require,
    size_of,
)

_TOKEN = re.compile(r"\s*([#:]\w+|[A-Za-z_]\w*|<>|<=|>=|[=<>(),.+-])")
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_LARGEST_IN = 100


@cache
def reserved_words() -> frozenset[str]:
    """DynamoDB's own list (Reserved words in DynamoDB, Developer Guide)."""
    return frozenset(Path(__file__).with_name("reserved_words.txt").read_text("utf-8").split())


@dataclass
class Placeholders:
    """Those of one request, and which of them its expressions use."""

    names: Mapping[str, str]
    kinds: Mapping[str, str]
    """The types of the values."""
    used: set[str] = field(default_factory=set)

    def check_used(self) -> None:
        """Refuse what no expression uses."""
        for what, given in (("Names", self.names), ("Values", self.kinds)):
            if unused := given.keys() - self.used:
                raise refusal(
                    f"Value provided in ExpressionAttribute{what} unused in expressions:"
                    f" keys: {{{', '.join(sorted(unused))}}}"
                )


class Parser:
    """Parses one expression of a request."""

    def __init__(self, kind: str, text: str, placeholders: Placeholders) -> None:
        self.paths: list[Names] = []
        """The ways to attributes so far."""
        self._kind = kind
        self._placeholders = placeholders
        self._tokens = _TOKEN.findall(text)
        if not text.strip():
            raise self._refusal("The expression can not be empty;")
        if "".join(self._tokens) != re.sub(r"\s", "", text):
            raise self._refusal(f"Syntax error; near: {text!r}")

    def condition(self) -> Test:
        """A condition: comparisons, IN, BETWEEN, functions, NOT, AND, OR, parentheses."""
        found = self._any()
        self._end()
        return found

    def key_condition(self, keys: Mapping[str, str]) -> tuple[Operand, Test]:
        """A condition on keys: what the partition's is to be, and a test of all of them."""
        partition = next(iter(keys))
        wanted: dict[str, Operand] = {}
        tests: list[Test] = []
        while not tests or self._next_is("AND"):
            if tests:
                self._take()
            function = self._take() if self._next_is("begins_with") else ""
            operands, sign = self._arguments() if function else [self._operand()], function
            if not function:
                sign = self._take(*_COMPARISONS, "BETWEEN")
                operands.append(self._operand())
            if sign == "BETWEEN":
                self._take("AND")
                operands.append(self._operand())
            name = ".".join(operands[0].names)
            fits = name in keys and name not in wanted and sign != "<>"
            if not fits or (name == partition and sign != "="):
                raise refusal(f"Query key condition not supported: {sign} of {name}")
            if any(operand.kind != keys[name] for operand in operands[1:]):
                raise refusal(
                    "One or more parameter values were invalid:"
                    " Condition parameter type does not match schema type"
                )
            wanted[name] = operands[1]
            tests.append(make_test(sign, operands))
        self._end()
        if partition not in wanted:
            raise refusal(f"Query condition missed key schema element: {partition}")
        return wanted[partition], lambda item, values: all(test(item, values) for test in tests)

    def projection(self) -> list[Names]:
        """The attributes that are wanted."""
        paths = [self._path()]
        while self._tokens:
            self._take(",")
            paths.append(self._path())
        self._check_apart(paths)
        return paths

    def update(self) -> list[Action]:
        """What is to be changed."""
        actions: list[Action] = []
        seen = set[str]()
        while self._tokens:
            clause = self._take("SET", "REMOVE", "ADD", "DELETE")
            if clause in seen:
                raise self._refusal(
                    f'The "{clause}" section can only be used once in an update expression;'
                )
            seen.add(clause)
            actions.append(self._action(clause))
            while self._next_is(","):
                self._take()
                actions.append(self._action(clause))
        self._check_apart([action.names for action in actions])
        return actions

    def _action(self, clause: str) -> Action:
        names = self._path()
        if clause == "REMOVE":
            return Action(clause, names, None)
        if clause == "SET":
            self._take("=")
            operand = self._value()
            if self._next_is("+", "-"):
                operand = self._sum(operand, self._take(), self._value())
            return Action(clause, names, operand)
        operand = self._operand()
        wanted = {"N", "SS", "NS", "BS"} if clause == "ADD" else {"SS", "NS", "BS"}
        self._check_kind(f"operator: {clause}", operand, wanted)
        return Action(clause, names, operand)

    def _value(self) -> Operand:
        """What a SET may set."""
        if self._next_is("if_not_exists"):
            self._take()
            self._take("(")
            old = Operand(read_at(names := self._path()), names=names)
            self._take(",")
            new = self._value()
            self._take(")")
            return Operand(lambda item, values: read_or(old.read(item, values), new, item, values))
        if self._next_is("list_append"):
            self._take()
            self._take("(")
            first = self._value()
            self._take(",")
            second = self._value()
            self._take(")")
            for operand in (first, second):
                self._check_kind("operator or function: list_append", operand, {"L"})
            return Operand(
                lambda item, values: {
                    "L": [
                        *require(first.read(item, values), "L"),
                        *require(second.read(item, values), "L"),
                    ]
                },
                "L",
            )
        return self._operand()

    def _sum(self, first: Operand, sign: str, second: Operand) -> Operand:
        for operand in (first, second):
            self._check_kind(f"operator or function: {sign}", operand, {"N"})
        factor = 1 if sign == "+" else -1

        def read(item: Item, values: Values) -> Item:
            a = Decimal(require(first.read(item, values), "N"))
            b = Decimal(require(second.read(item, values), "N"))
            return {"N": str(a + factor * b)}

        return Operand(read, "N")

    def _any(self) -> Test:
        parts = [self._all()]
        while self._next_is("OR"):
            self._take()
            parts.append(self._all())
        if len(parts) == 1:
            return parts[0]
        return lambda item, values: any(part(item, values) for part in parts)

    def _all(self) -> Test:
        parts = [self._one()]
        while self._next_is("AND"):
            self._take()
            parts.append(self._one())
        if len(parts) == 1:
            return parts[0]
        return lambda item, values: all(part(item, values) for part in parts)

    def _one(self) -> Test:
        if self._next_is("NOT"):
            self._take()
            found = self._one()
            return lambda item, values: not found(item, values)
        if self._next_is("("):
            self._take()
            found = self._any()
            self._take(")")
            return found
        if self._tokens[1:2] == ["("] and not self._next_is("size"):
            return self._function(self._take())
        first = self._operand()
        match self._take(*_COMPARISONS, "IN", "BETWEEN"):
            case "IN":
                return self._in(first)
            case "BETWEEN":
                low, _, high = self._operand(), self._take("AND"), self._operand()
                for operand in (low, high):
                    self._check_kind("operator: BETWEEN", operand, ORDERED)
                return make_test("BETWEEN", (first, low, high))
            case sign:
                second = self._operand()
                if first.names and first.names == second.names:
                    raise self._refusal(
                        "The first operand must be distinct from the remaining operands for this"
                        f" operator or function; operator: {sign}, first operand: {first.names}"
                    )
                return make_test(sign, (first, second))

    def _in(self, first: Operand) -> Test:
        choices = self._arguments()
        if len(choices) > _LARGEST_IN:
            raise self._refusal(f"The IN operator has {len(choices)} operands; 100 are allowed")
        return lambda item, values: any(
            compare("=", first.read(item, values), choice.read(item, values)) for choice in choices
        )

    def _function(self, name: str) -> Test:
        arguments = self._arguments()
        first = arguments[0].read
        match name, len(arguments):
            case "attribute_exists", 1:
                self._check_path(name, arguments[0])
                return lambda item, values: first(item, values) is not None
            case "attribute_not_exists", 1:
                self._check_path(name, arguments[0])
                return lambda item, values: first(item, values) is None
            case "begins_with", 2:
                for operand in arguments:
                    self._check_kind(f"operator or function: {name}", operand, {"S", "B"})
                return make_test(name, arguments)
        raise self._refusal(f"Invalid function name; function: {name}")

    def _arguments(self) -> list[Operand]:
        self._take("(")
        found = [self._operand()]
        while self._take(",", ")") == ",":
            found.append(self._operand())
        return found

    def _operand(self) -> Operand:
        token = self._tokens[0] if self._tokens else ""
        if token.startswith(":"):
            self._take()
            if token not in self._placeholders.kinds:
                raise self._refusal(
                    "An expression attribute value used in expression is not defined; attribute"
                    f" value: {token}"
                )
            self._placeholders.used.add(token)
            return Operand(lambda _item, values: values[token], self._placeholders.kinds[token])
        if token == "size":
            self._take()
            (argument,) = self._arguments()
            return Operand(lambda item, values: size_of(argument.read(item, values)), "N")
        names = self._path()
        return Operand(read_at(names), names=names)

    def _path(self) -> Names:
        names = [self._name()]
        while self._next_is("."):
            self._take()
            names.append(self._name())
        self.paths.append(tuple(names))
        return self.paths[-1]

    def _name(self) -> str:
        token = self._take()
        if token.startswith("#"):
            if token not in self._placeholders.names:
                raise self._refusal(
                    "An expression attribute name used in the document path is not defined;"
                    f" attribute name: {token}"
                )
            self._placeholders.used.add(token)
            return self._placeholders.names[token]
        if not re.fullmatch(r"[A-Za-z]\w*", token):
            raise self._refusal(f'Syntax error; token: "{token}"')
        if token.upper() in reserved_words():
            raise self._refusal(f"Attribute name is a reserved keyword; reserved keyword: {token}")
        return token

    def _take(self, *wanted: str) -> str:
        token = self._tokens.pop(0) if self._tokens else "<EOF>"
        if (wanted and token not in wanted) or token == "<EOF>":
            raise self._refusal(f'Syntax error; token: "{token}"')
        return token

    def _next_is(self, *words: str) -> bool:
        return bool(self._tokens) and self._tokens[0] in words

    def _end(self) -> None:
        if self._tokens:
            raise self._refusal(f'Syntax error; token: "{self._tokens[0]}"')

    def _check_kind(self, where: str, operand: Operand, wanted: set[str]) -> None:
        if operand.kind is not None and operand.kind not in wanted:
            raise self._refusal(
                "Incorrect operand type for operator or function;"
                f" {where}, operand type: {operand.kind}"
            )

    def _check_path(self, function: str, operand: Operand) -> None:
        if not operand.names:
            raise self._refusal(
                f"Operator or function requires a document path; operator or function: {function}"
            )

    def _check_apart(self, paths: Sequence[Names]) -> None:
        ordered = sorted(paths)
        for one, two in pairwise(ordered):
            if two[: len(one)] == one:
                raise self._refusal(
                    "Two document paths overlap with each other; must remove or rewrite one of"
                    f" these paths; path one: {[*one]}, path two: {[*two]}"
                )

    def _refusal(self, message: str) -> ClientError:
        return refusal(f"Invalid {self._kind}: {message}")
