"""Readers of the stream: which changes invoke them, and where those go that they cannot handle."""

import json
from typing import Any

import pytest

from infra.projection import MAX_AGE_S, patterns
from infra.sequel import patterns as patterns_of_ends
from joblane.aws.job.ends import LeftGroup, read_end, read_left
from joblane.aws.job.group_items import group_value
from joblane.aws.notify.stream import read_changes
from joblane.aws.table import encode
from joblane.group.record import Group
from joblane.notify.event_names import EVENT_NAMES, name_event
from joblane.queue.usage import OPEN_MINUTES
from joblane.state.lifecycle import ENDED, TABLE, State
from tests.infra.synthesis import Deployment


def reader(deployment: Deployment, function: str) -> dict[str, Any]:
    """The mapping of the stream to a function."""
    found = deployment.properties("AWS::Lambda::EventSourceMapping", "projection")
    (mapping,) = (each for each in found if each["FunctionName"]["Ref"].startswith(function))
    return mapping


def test_lambda_takes_no_more_filters() -> None:
    assert 5 >= len(patterns())
    assert 5 >= len(patterns_of_ends(notifies=True))


def test_the_projector_is_called_for_every_change_of_a_job_and_for_nothing_else() -> None:
    def called(sk: str, before: State | None, after: State | None) -> bool:
        change = record(before, after, follows=None, sk=sk)
        return any(lets_pass(pattern, change) for pattern in patterns())

    changes: list[tuple[State | None, State | None]] = [(None, State.PENDING)]
    changes += [(before, after) for (before, _), after in TABLE.items()]
    changes += [(state, None) for state in State]
    assert all(called("JOB", *change) for change in changes)
    assert not any(called(sk, *change) for change in changes for sk in ("DATA", "KEY"))


def test_a_minute_is_closed_when_the_projector_has_given_up_its_changes() -> None:
    margin_s = 10 * 60  # of clocks, and of a call that runs
    assert OPEN_MINUTES * 60 >= MAX_AGE_S + margin_s


def test_only_heads_are_looked_at(production: Deployment) -> None:
    for mapping in production.properties("AWS::Lambda::EventSourceMapping", "projection"):
        for entry in mapping["FilterCriteria"]["Filters"]:
            assert json.loads(entry["Pattern"])["dynamodb"]["Keys"] == {"sk": {"S": ["JOB"]}}


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        pytest.param("Projector", (1000, 5, True, 5, 3600, "LATEST"), id="given up after an hour"),
        pytest.param(
            "Sequel", (100, 0, True, -1, 6 * 3600, "TRIM_HORIZON"), id="at once and for hours"
        ),
    ],
)
def test_a_batch_that_fails_is_cut_and_given_up_in_time(
    production: Deployment, function: str, expected: tuple[int, ...]
) -> None:
    mapping = reader(production, function)
    assert expected == tuple(
        mapping[name]
        for name in (
            "BatchSize",
            "MaximumBatchingWindowInSeconds",
            "BisectBatchOnFunctionError",
            "MaximumRetryAttempts",
            "MaximumRecordAgeInSeconds",
            "StartingPosition",
        )
    )
    destination = mapping["DestinationConfig"]["OnFailure"]["Destination"]
    assert "joblane-alternate" in str(destination)


def test_when_the_mapping_of_sequel_was_made_is_the_time_of_a_parameter(
    production: Deployment,
) -> None:
    """CloudFormation writes it when the mapping is another one, and at no other update."""
    (found,) = (
        each
        for each in production.properties("AWS::SSM::Parameter", "projection")
        if each["Name"] == "/joblane/sequel-mapping"
    )
    mappings = production.resources("AWS::Lambda::EventSourceMapping", "projection")
    (name,) = (name for name in mappings if name.startswith("SequelStream"))
    assert {"Ref": name} == found["Value"]


def record(
    before: State | None, after: State | None, *, follows: str | None, sk: str = "JOB"
) -> dict[str, Any]:
    """A record of the stream."""

    def image(state: State) -> dict[str, Any]:
        named = {"k": "command#0af1", "g": "01J#7"}
        of = {} if follows is None else {"follows": {"M": {follows: {"S": named[follows]}}}}
        base = {"job_id": {"S": "J"}, "tenant": {"S": "acme"}, "slot": {"N": "7"}}
        base["epoch"] = {"N": "1"}
        return {**base, "state": {"S": state.value}, **of}

    images = {"OldImage": before, "NewImage": after}
    name = "INSERT" if before is None else "REMOVE" if after is None else "MODIFY"
    return {
        "eventName": name,
        "dynamodb": {
            "Keys": {"job_id": {"S": "J"}, "sk": {"S": sk}},
            "SequenceNumber": "7",
            **{which: image(state) for which, state in images.items() if state is not None},
        },
    }


def lets_pass(pattern: Any, value: Any) -> bool:
    """Whether a filter lets a record pass, as Lambda documents it: `exists` knows leaves only."""
    if isinstance(pattern, dict):
        return isinstance(value, dict) and all(
            lets_pass(each, value.get(name)) for name, each in pattern.items()
        )
    return any(
        isinstance(value, str) if each == {"exists": True} else each == value for each in pattern
    )


def test_sequel_is_called_for_ends_of_jobs_with_a_key_or_a_group_and_nothing_else() -> None:
    """What it reads of any record is what its filter lets pass."""
    called: set[tuple[State | None, State | None]] = set()
    of_groups: set[tuple[State | None, State | None]] = set()
    for before in (None, *State):
        for after in (None, *State):
            for follows in (None, "k", "g"):
                for sk in ("JOB", "DATA"):
                    each = record(before, after, follows=follows, sk=sk)
                    # Jobs that notify nobody are looked at no more than in other deployments.
                    filters = [patterns_of_ends(notifies=notifies) for notifies in (False, True)]
                    passing = any(lets_pass(pattern, each) for pattern in filters[0])
                    assert passing == any(lets_pass(pattern, each) for pattern in filters[1])
                    # A filter compares no two images: who was skipped before its start passes, too.
                    skipped = follows == "k" and after is State.SKIPPED is not before
                    dropped = passing and skipped and before is not State.ACTIVE
                    dropped |= (
                        follows is None and after is None
                    )  # any job is deleted before its end
                    found = read_end(each) is not None
                    assert found == (passing and not dropped), (before, after, follows, sk)
                    if found:
                        assert follows is not None
                        assert sk == "JOB"
                        (of_groups if follows == "g" else called).add((before, after))
    assert (State.WAITING, None) in called
    assert (State.ACTIVE, State.DEAD) in called
    assert (State.DEAD, State.DISMISSED) not in called
    assert (State.COMPLETED, None) not in called
    assert (State.PENDING, State.SKIPPED) not in called
    assert (State.ACTIVE, State.BLOCKED) not in called
    assert {
        (before, after) for before in set(State) - ENDED for after in (*ENDED, None)
    } == of_groups


def test_a_group_with_members_left_to_place_passes_the_filter() -> None:
    for goes_on in (False, True):
        each = record(State.PROCESSING, State.PROCESSING, follows=None, sk="JOB")
        group = group_value(Group(3, "01J", begun=3, goes_on=goes_on))
        each["dynamodb"]["NewImage"] |= encode({"group": group})
        passing = any(lets_pass(pattern, each) for pattern in patterns_of_ends(notifies=False))
        assert goes_on == passing == (read_left(each) == LeftGroup("J"))


def test_what_a_job_notifies_about_passes_the_filter() -> None:
    """What sequel reads of any record is what its filter lets pass, but for other changes."""
    for before in (None, *State):
        for after in (None, *State):
            for sk in ("JOB", "DATA"):
                each = record(before, after, follows=None, sk=sk)
                if after is not None:
                    on = json.dumps({"eventbridge": True, "on": EVENT_NAMES})
                    image = each["dynamodb"]["NewImage"]
                    image |= {"tells": {"S": "notify"}, "notify": {"S": on}}
                passing = any(lets_pass(p, each) for p in patterns_of_ends(notifies=True))
                deleted = after is None and before is not None and before not in ENDED
                expected = sk == "JOB" and (after is not None or deleted)
                assert passing == expected, (before, after, sk)
                told = read_changes(each)
                name = None if after is None else name_event(before, after, claimed=False)
                assert bool(told) == (passing and name is not None), (before, after)
                others = any(lets_pass(p, each) for p in patterns_of_ends(notifies=False))
                assert others == (sk == "JOB" and deleted)
