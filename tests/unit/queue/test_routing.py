"""Which queue takes a job: name, filters, default; and what is said of each queue."""

from hypothesis import given
from hypothesis import strategies as st

from joblane.queue.routing import QueueFilter, choose, explain

ALLOWED = ["default", "big", "night", "plain"]
FILTERS = (
    QueueFilter("other", 30, "o"),
    QueueFilter("night", 20, "n"),
    QueueFilter("big", 10, "b"),
)

Results = dict[str, bool | str]


def choice(results: Results, named: str | None = None, default: str = "default"):
    return choose(named, ALLOWED, default, FILTERS, lambda each: results[each.queue])


def said(results: Results, named: str | None = None, default: str = "default"):
    found = explain(choice(results, named, default), named, ALLOWED, default, FILTERS)
    return [(each.queue, each.verdict, each.reason) for each in found]


def test_the_first_true_filter_takes_the_job_and_the_next_are_not_evaluated():
    assert "night" == choice({"night": True}).queue  # a KeyError if big or other were evaluated
    assert said({"night": True}) == [
        ("night", "takes", "its filter is the first that is true"),
        ("big", "not_reached", "queue night is before it, and its filter is true"),
        (
            "default",
            "no_filter",
            "it has no filter, so it takes jobs only by name, or if no filter is true",
        ),
        ("plain", "no_filter", "it has no filter, so it takes jobs only by name"),
    ]


def test_a_filter_that_is_false_or_fails_leaves_the_job_to_the_next():
    assert said({"night": "no such key", "big": True})[:2] == [
        ("night", "error", "its filter cannot be evaluated: no such key"),
        ("big", "takes", "its filter is the first that is true"),
    ]


def test_the_default_queue_takes_what_no_filter_takes():
    nothing: Results = {"night": False, "big": False}
    taken = ("default", "takes", "no filter is true, and it is the default queue")
    assert taken == said(nothing)[2]
    own = said(nothing, default="night")
    assert ("night", "takes", "no filter is true, and it is the default queue") == own[0]
    assert choice(nothing, default="other").queue is None
    assert {"false", "no_filter"} == {verdict for _, verdict, _ in said(nothing, default="other")}


def test_a_named_queue_is_taken_without_a_filter_being_evaluated():
    assert said({}, named="plain") == [
        ("plain", "takes", "the submission, or the job type, names it"),
        ("night", "not_reached", "the submission names queue plain"),
        ("big", "not_reached", "the submission names queue plain"),
        ("default", "not_reached", "the submission names queue plain"),
    ]


def test_a_queue_of_another_tenant_reads_as_one_that_is_not_there():
    expected = "is unknown, or is not a queue of this tenant"
    for named in ("other", "absent"):
        found = said({}, named=named)
        assert (named, "not_allowed", expected) == found[0]
        assert choice({}, named=named).queue is None
        assert "other" not in {queue for queue, _, _ in found[1:]}


QUEUES = [f"q{number}" for number in range(5)]


@given(
    allowed=st.sets(st.sampled_from(QUEUES)).map(sorted),
    filtered=st.permutations(QUEUES).map(lambda queues: queues[:3]),
    results=st.fixed_dictionaries(
        {queue: st.sampled_from([True, False, "broken"]) for queue in QUEUES}
    ),
    named=st.none() | st.sampled_from([*QUEUES, "absent"]),
    default=st.sampled_from(QUEUES),
)
def test_what_is_explained_is_what_is_chosen(
    allowed: list[str],
    filtered: list[str],
    results: Results,
    named: str | None,
    default: str,
):
    filters = [QueueFilter(queue, 9 - rank, "") for rank, queue in enumerate(filtered)]
    chosen = choose(named, allowed, default, filters, lambda each: results[each.queue])
    found = explain(chosen, named, allowed, default, filters)

    assert [chosen.queue] * (chosen.queue is not None) == [
        each.queue for each in found if each.verdict == "takes"
    ]
    assert chosen.queue is None or chosen.queue in allowed
    assert {*allowed, *([named] if named else [])} == {each.queue for each in found}
    assert len(found) == len({each.queue for each in found})
    true = [queue for queue in filtered if queue in allowed and results[queue] is True]
    expected = named or next(iter([*true, default]))
    assert (expected if expected in allowed else None) == chosen.queue
