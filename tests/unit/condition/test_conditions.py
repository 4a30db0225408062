"""Names of conditions and the policies that space out their tests. Pure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from joblane.condition.names import (
    KINDS,
    MAX_NAME,
    MOST_S,
    Address,
    Condition,
    default_condition,
    http_address,
    parse,
    scope_name,
    tcp_address,
    unscope_name,
)
from joblane.condition.policies import (
    DEFAULT_POLICY,
    AnyPolicy,
    Constant,
    DelayStep,
    Exponential,
    Policy,
    Stepwise,
)
from joblane.job.fields import ConditionName

POLICIES: TypeAdapter[Policy] = TypeAdapter(AnyPolicy)

delays = st.integers(1, 86_400)
policies = st.one_of(
    st.builds(Constant, every_s=delays),
    st.builds(Exponential, first_s=delays, factor=st.floats(1, 10), longest_s=delays),
    st.lists(st.tuples(st.integers(1, 50), delays), max_size=5).map(
        lambda steps: Stepwise(
            steps=tuple(
                DelayStep(times=times, every_s=every)
                for (times, _), every in zip(steps, sorted(e for _, e in steps), strict=True)
            ),
            then_s=86_400,
        )
    ),
)


@pytest.mark.parametrize(
    ("name", "kind", "parameter"),
    [
        ("http:https://api.example.com/health?x=1", "http", "https://api.example.com/health?x=1"),
        ("http:http://[2001:db8::1]:8080/", "http", "http://[2001:db8::1]:8080/"),
        ("tcp:db.example.com:5432", "tcp", "db.example.com:5432"),
        ("tcp:[2001:db8::1]:5432", "tcp", "[2001:db8::1]:5432"),
        ("quota:team-a", "quota", "team-a"),
        ("capacity:main", "capacity", "main"),
        ("app:default", "app", "default"),
        ("app:Billing.v2_x", "app", "Billing.v2_x"),
    ],
)
def test_a_name_is_kind_and_parameter(name: str, kind: str, parameter: str):
    condition = parse(name)
    assert (kind, parameter, name) == (condition.kind, condition.parameter, condition.name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "http",
        "ftp:x",
        "http:",
        "http:example.com",
        "http:ftp://example.com",
        "http:http://",
        "http:http://user:secret@example.com/",
        "http:http://example.com/#part",
        "http:http://example.com:0/",
        "http:http://example.com:99999/",
        "http:http://exa mple.com/",
        "http:http://[::1/",
        "http:http://example.com/\nHost: evil",
        "http:http://exämple.com/",
        "http:http://example.com/" + "x" * MAX_NAME,
        "tcp:example.com",
        "tcp:example.com:",
        "tcp:example.com:http",
        "tcp:::1:80",
        "tcp:-x:80",
        "quota:",
        "quota:Team",
        "capacity:a b",
        "app:",
        "app:../x",
        "app:" + "x" * 65,
    ],
)
def test_a_wrong_name_is_refused_without_being_repeated(name: str):
    with pytest.raises(ValueError, match="must ") as refusal:
        parse(name)
    assert "secret" not in str(refusal.value)
    assert "evil" not in str(refusal.value)


def test_an_application_is_its_tenants_own_and_looks_like_it_only_inside():
    inside = scope_name("app:billing", "acme")
    assert "app:acme/billing" == inside
    assert "app:billing" == unscope_name(inside)
    assert Condition("app", "acme/billing") == parse(inside)
    assert "tcp:a.example.com:1" == unscope_name(scope_name("tcp:a.example.com:1", "acme"))
    with pytest.raises(ValidationError, match="must name an application"):
        TypeAdapter(ConditionName).validate_python(inside)


@given(st.text(max_size=600) | st.builds("{}:{}".format, st.sampled_from([*KINDS]), st.text()))
def test_any_text_is_a_condition_or_refused_with_what_it_must_be(name: str):
    try:
        condition = parse(name)
    except ValueError as refusal:
        assert str(refusal).startswith("must ")  # noqa: PT017 - most texts are refused, some not
    else:
        assert name == condition.name


def test_addresses_have_their_default_ports_and_no_brackets():
    assert Address("example.com", 443) == http_address("https://example.com/x")
    assert Address("example.com", 80) == http_address("http://example.com")
    assert Address("2001:db8::1", 8080) == http_address("http://[2001:db8::1]:8080")
    assert Address("2001:db8::1", 5432) == tcp_address("[2001:db8::1]:5432")


def test_a_job_that_names_no_condition_waits_for_its_queue():
    assert "app" == parse(default_condition("default")).kind


def rounds(policy: Policy) -> int:
    """How many tests a policy makes before its time is up."""
    waited = number = 0
    while waited < policy.most_s:
        waited += policy.delay_s(number)
        number += 1
    return number


def test_the_default_is_two_tens_ten_twenties_ten_sixties_a_hundred_120s_then_300s():
    found = [DEFAULT_POLICY.delay_s(number) for number in range(124)]
    assert [10] * 2 + [20] * 10 + [60] * 10 + [120] * 100 + [300] * 2 == found
    assert 48 * 3600 == DEFAULT_POLICY.most_s == MOST_S
    assert 656 == rounds(DEFAULT_POLICY)


@given(policies, st.integers(0, 2000))
def test_delays_are_whole_seconds_that_never_shrink(policy: Policy, number: int):
    now, after = policy.delay_s(number), policy.delay_s(number + 1)
    assert isinstance(now, int)
    assert 1 <= now <= after <= 86_400


def test_exponential_doubles_up_to_its_longest():
    policy = Exponential(first_s=10, factor=2, longest_s=300)
    assert [10, 20, 40, 80, 160, 300, 300] == [policy.delay_s(n) for n in range(7)]
    assert 300 == policy.delay_s(10**9)


def test_constant_is_constant():
    assert {7} == {Constant(every_s=7).delay_s(n) for n in range(100)}


@pytest.mark.parametrize(
    "wrong",
    [
        {"policy": "random"},
        {"policy": "constant", "every_s": 0},
        {"policy": "constant", "most_s": MOST_S + 1},
        {"policy": "constant", "evry_s": 5},
        {"policy": "exponential", "factor": 0.5},
        {"policy": "stepwise", "steps": [{"times": 1, "every_s": 60}], "then_s": 10},
    ],
)
def test_a_wrong_policy_is_refused(wrong: dict[str, object]):
    with pytest.raises(ValidationError):
        POLICIES.validate_python(wrong)


@given(policies)
def test_a_policy_survives_its_way_through_the_environment(policy: Policy):
    assert policy == POLICIES.validate_json(policy.model_dump_json())
