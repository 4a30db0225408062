"""The field `notify` of a submission or of a queue: whom to notify, and of which events."""

import re
from typing import Annotated, Final, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    model_validator,
)

from joblane.notify.event_names import DEFAULT, EVENT_NAMES, EventName

_TOPIC: Final = r"arn:aws:sns:[a-z0-9-]{1,30}:[0-9]{12}:[A-Za-z0-9_-]{1,256}"


def _topic(arn: str) -> str:
    if re.fullmatch(_TOPIC, arn, re.ASCII) is None:  # the name of a FIFO topic ends in `.fifo`
        raise ValueError(
            "must be the ARN of a standard SNS topic, not a FIFO topic, such as "
            "arn:aws:sns:eu-west-1:123456789012:jobs"
        )
    return arn


def _url(text: str) -> str:
    from joblane.notify.addresses import parse_url  # few jobs have a URL

    parse_url(text)
    return text


def _unique(events: tuple[EventName, ...]) -> tuple[EventName, ...]:
    if len(set(events)) < len(events):
        raise ValueError("must name each event once")
    return events


def _true(value: bool) -> bool:  # noqa: FBT001 - the value of a field
    if not value:
        raise ValueError("must be true, or be left out")
    return value


Topic = Annotated[str, AfterValidator(_topic)]
"""ARN of a standard SNS topic."""


class Notify(BaseModel):
    """Whom to notify about a job: exactly one of `url`, `sns` and `eventbridge`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    url: Annotated[str, AfterValidator(_url)] | None = None
    """URL that gets a signed POST (docs/reference/events.md), with `https://`, at most 1,000
    characters."""
    sns: Topic | None = None
    """ARN of an SNS topic that joblane.toml allows this tenant."""
    eventbridge: Annotated[bool, AfterValidator(_true)] | None = None
    """An event on the account's default EventBridge bus."""
    on: Annotated[
        tuple[EventName, ...],
        Field(min_length=1, max_length=len(EVENT_NAMES)),
        AfterValidator(_unique),
    ] = DEFAULT
    """Events to notify about (docs/reference/events.md); by default every end except `dismissed`,
    and `blocked`."""
    members: bool = False
    """Of a group: whether to notify of these events of each of its jobs as well."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(value is not None for value in (self.url, self.sns, self.eventbridge)) != 1:
            raise ValueError("must have exactly one of url, sns and eventbridge")
        return self
