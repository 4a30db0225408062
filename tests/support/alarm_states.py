"""When CloudWatch would put an alarm into the state ALARM, from its properties in a template.

The local AWS knows no metric math and no missing data, and counts no periods. This does, as far as
alarms of Joblane need it, by AWS's pages "Alarm evaluation", "Configuring how CloudWatch alarms
treat missing data" and "Using math expressions with CloudWatch metrics".
"""

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

Samples = Mapping[int, Sequence[float]]
"""Values of a metric by minute: 0 is the last one, -1 the one before. A minute without any is
missing."""

State = Literal["ALARM", "OK"]

MORE = 2
"""Periods that CloudWatch looks at beyond those of the alarm, if some have no value. Its page has
two in its example, and says that the number depends on the period."""

_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "GreaterThanThreshold": operator.gt,
    "GreaterThanOrEqualToThreshold": operator.ge,
    "LessThanThreshold": operator.lt,
}
_OPERATORS: Mapping[type[ast.AST], Callable[[float, float], float]] = {
    ast.And: lambda one, other: bool(one and other),
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Sub: operator.sub,
    ast.Gt: operator.gt,
    ast.Lt: operator.lt,
}


def state(alarm: Mapping[str, Any], data: Mapping[str, Samples]) -> State:
    """Return the state of an alarm.

    `data` has the samples of each metric by its id in the expression; `m` if there is none.
    """
    periods: int = alarm["EvaluationPeriods"]
    values = [_value(alarm, data, number) for number in range(periods + MORE)]
    found = [value for value in values if value is not None][:periods]
    breaches = _COMPARISONS[alarm["ComparisonOperator"]]
    breaching = sum(breaches(value, alarm["Threshold"]) for value in found)
    if alarm["TreatMissingData"] == "breaching":
        breaching += periods - len(found)
    return "ALARM" if breaching >= alarm["DatapointsToAlarm"] else "OK"


def composite_state(rule: str, states: Mapping[str, State]) -> State:
    """Return the state of a composite alarm whose rule needs all of some alarms, by their names.

    Raises ValueError for another rule.
    """
    alarm = r'ALARM\("([^"]+)"\)'
    if re.sub(alarm, "x", rule) != "(x AND x)":
        raise ValueError(f"{rule}: the test knows no such rule")
    return "ALARM" if all(states[name] == "ALARM" for name in re.findall(alarm, rule)) else "OK"


def _value(alarm: Mapping[str, Any], data: Mapping[str, Samples], number: int) -> float | None:
    """The value of a period, 0 being the last one; None if it has none."""
    if "MetricName" in alarm:
        statistic = alarm.get("ExtendedStatistic") or alarm["Statistic"]
        return _statistic(statistic, data["m"], alarm["Period"], number)
    at: dict[str, float | None] = {}
    expression = ""
    for metric in alarm["Metrics"]:
        if "Expression" in metric:
            expression = metric["Expression"]
        else:
            stat = metric["MetricStat"]
            at[metric["Id"]] = _statistic(stat["Stat"], data[metric["Id"]], stat["Period"], number)
    tree = ast.parse(expression.replace(" AND ", " and "), mode="eval")
    return _compute(tree.body, at)


def _statistic(name: str, samples: Samples, period_s: int, number: int) -> float | None:
    minutes = period_s // 60
    last = -number * minutes
    values = [v for minute in range(last - minutes + 1, last + 1) for v in samples.get(minute, ())]
    if not values:
        return None
    if (rank := re.fullmatch(r"PR\(:([0-9.]+)\)", name)) is not None:
        return 100 * sum(value <= float(rank[1]) for value in values) / len(values)
    return {
        "Sum": sum(values),
        "Minimum": min(values),
        "Maximum": max(values),
        "Average": sum(values) / len(values),
    }[name]


def _compute(node: ast.AST, at: Mapping[str, float | None]) -> float | None:
    """The value of an expression in a period; None if a metric in it has none.

    Raises ValueError for an expression that this does not know.
    """
    match node:
        case ast.Name(id=name):
            return at[name]
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Call(func=ast.Name(id=function), args=arguments):
            return _call(function, arguments, at)
        case ast.BoolOp(op=ast.And() as how, values=[left, right]):
            pass
        case ast.Compare(left=left, ops=[how], comparators=[right]):
            pass
        case ast.BinOp(left=left, op=how, right=right):
            pass
        case _:
            raise ValueError(f"{ast.unparse(node)}: the test knows no such expression")
    one, other = _compute(left, at), _compute(right, at)
    if one is None or other is None or (isinstance(how, ast.Div) and not other):
        return None
    return float(_OPERATORS[type(how)](one, other))


def _call(
    function: str, arguments: Sequence[ast.AST], at: Mapping[str, float | None]
) -> float | None:
    first = _compute(arguments[0], at)
    if function == "FILL":
        return _compute(arguments[1], at) if first is None else first
    if function == "IF":
        return None if first is None else _compute(arguments[1 if first else 2], at)
    raise ValueError(f"{function}: the test knows no such function")
