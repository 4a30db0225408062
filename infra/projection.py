"""The projection stack: readers of the stream of the jobs table, `projector` and `sequel`."""

import json

from aws_cdk import aws_ssm as ssm
from constructs import Construct

from infra.assets import Assets
from infra.declared import alarms, kicks, metrics
from infra.exports import add_exporter
from infra.function import Function
from infra.notify import add_notifier
from infra.policies import PolicyGrant, table_grant
from infra.reserved import SEQUEL_RESERVED
from infra.resources import INBOXES, LANES
from infra.sequel import reading
from infra.stream import HEADS, Pattern, StreamReading, StreamStack, stream_grants
from infra.traces import add_tracer
from joblane.config import Config
from joblane.deployment.names import api_parameter_name, sequel_mapping_parameter_name

MAX_AGE_S = 3600
"""Older changes are in no window that is shown, and may belong to a minute that is closed
(`joblane.queue.usage.OPEN_MINUTES`)."""


def patterns() -> list[Pattern]:
    """Return the filters: every change of a job, since any may be one of its state.

    A filter compares no two images, and pairs of states would be more filters than Lambda allows. A
    job without a key or condition is written when it is submitted, claimed and ended, and deleted
    when it expires: these four are changes of its state.
    """
    return [{"dynamodb": HEADS}]


COUNTS = StreamReading(
    patterns=patterns(),
    batch=1000,
    # A batch is delivered when it is full or this old: rates lag by that, and a quiet queue costs
    # a call every 5 s at most.
    window_s=5,
    retries=5,
    max_age_s=MAX_AGE_S,
    # What comes again after its sequence numbers were forgotten would be counted twice.
    start="LATEST",
)


class ProjectionStack(StreamStack):
    """The projector and `sequel`, and `notifier`, `tracer` and `exporter` if they have work."""

    def __init__(self, scope: Construct, config: Config, assets: Assets) -> None:
        super().__init__(scope, config, assets, "projection", "counters of queues")
        stream, rules = self.stream(), config.notify_rules
        self.read(self._projector(stream), stream, COUNTS)
        ends = reading(notifies=rules is not None)
        mapping = self.read(self._sequel(stream), stream, ends, "Sequel")
        ssm.StringParameter(
            self,
            "SequelMapping",
            parameter_name=sequel_mapping_parameter_name(config.name),
            description="Mapping of sequel; dead_letter reads when it was created",
            string_value=mapping.ref,
        )
        if rules is not None:
            add_notifier(self, rules)
        if (traces := config.observability.traces) is not None:
            add_tracer(self, traces)
        if config.exporting:
            add_exporter(self)

    def _projector(self, stream: str) -> Function:
        resources, traces = self.resources, self.config.observability.traces
        scaler = resources.scaler_function()
        queues, optional = [resources.alternate()], dict[str, str]()
        if traces is not None:
            queues.append(resources.traces())
            optional["JOBLANE_SAMPLE"] = str(traces.sample)
        if exporting := self.config.exporting:
            queues.append(resources.exports())
            optional["JOBLANE_EXPORTING"] = json.dumps(exporting)
        return Function(
            self,
            "projector",
            tables=("counters",),
            environment={},
            declared={
                **metrics(self.config),
                **alarms(self.config),
                **kicks(self.config),
                **optional,
            },
            grants=[
                *stream_grants(stream),
                table_grant("GetItem Query UpdateItem", resources.table("counters")),
                PolicyGrant(("sqs:SendMessage",), queues),
                *(
                    [PolicyGrant(("lambda:InvokeFunction",), (scaler,))]
                    if self.config.fleets
                    else []
                ),
            ],
        )

    def _sequel(self, stream: str) -> Function:
        resources, environment, notify = self.resources, {}, []
        if self.config.notify_rules is not None:
            url = ssm.StringParameter.value_for_string_parameter(
                self, api_parameter_name(self.config.name)
            )
            environment["JOBLANE_API_URL"] = url
            mapping = resources.parameter(sequel_mapping_parameter_name(self.config.name))
            notify = [
                PolicyGrant(("sqs:SendMessage",), (resources.notify(),)),
                PolicyGrant(("ssm:GetParameter",), (mapping,)),
            ]
        return Function(
            self,
            "sequel",
            tables=("jobs", "keys"),
            environment=environment,
            declared={
                "JOBLANE_RETENTION": self.config.retention.model_dump_json(),
                "JOBLANE_NOTIFIES": "true" if notify else "false",
                **metrics(self.config),
            },
            reserved=SEQUEL_RESERVED,
            grants=[
                *stream_grants(stream),
                table_grant("GetItem PutItem", resources.table("keys")),
                table_grant("BatchGetItem GetItem PutItem UpdateItem", resources.table("jobs")),
                PolicyGrant(("sqs:SendMessage",), (resources.lanes(),), LANES),
                PolicyGrant(("sqs:SendMessage",), (resources.inboxes(),), INBOXES),
                PolicyGrant(("sqs:SendMessage",), (resources.alternate(),)),
                *notify,
            ],
        )
