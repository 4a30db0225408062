"""Write the messages of the queue of exports to S3: an object for each tenant and day of a call.

    queue exports             exporter                            S3
    m1, m2  --------------->  put tenant a, 27th (m1, m2)  ---->  object
                              put tenant b, 27th (m2)      ---->  503
             <--------------  m2 failed, m1 is deleted
    (m2 again)  ----------->  put tenant a, 27th (m2)      ---->  a second object with lines of m2
                              put tenant b, 27th (m2)      ---->  object

So a line may be there twice, never missing: readers tell repetitions by `id` and `sequence`.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from joblane.aws.export.objects import ExportStore
from joblane.aws.export.queue import ExportBatch, encode_batch
from joblane.aws.export.stream import Exported
from joblane.aws.job.items import from_row, tenant_of
from joblane.aws.job.table import JobTable
from joblane.aws.table import decode
from joblane.contract.exported_job import ExportedJob, deleted_job, exported_job
from joblane.errors import Unavailable
from joblane.service.log import Log
from joblane.state.timeline import Step

_SOME_SPEC = {"spec": '{"command":["-"]}'}
"""Stands for a submission that was deleted."""


class Place(NamedTuple):
    """What an object is for."""

    tenant: str
    day: str
    """`2026-11-27`, in UTC."""


@dataclass(frozen=True)
class Exporter:
    """Writes objects."""

    jobs: JobTable
    store: ExportStore
    bury: Callable[[str], None]
    """Sends a message's body to the dead-letter queue. Raises Unavailable."""
    deployment: str
    log: Log

    def handle(self, records: Iterable[Mapping[str, Any]]) -> list[str]:
        """Write the records of an SQS event; returns the ids of those to be delivered again."""
        lines: defaultdict[Place, dict[tuple[str, str], str]] = defaultdict(dict)
        sources: defaultdict[Place, set[str]] = defaultdict(set)
        failed: set[str] = set()
        for record in records:
            message_id = str(record.get("messageId"))
            found = self._read(record, message_id)
            if found is None:
                failed.add(message_id)
                continue
            for line in found:
                place = Place(line.tenant, line.ended_at[:10])
                text = line.model_dump_json(exclude_none=True)
                lines[place][line.id, line.sequence] = text
                sources[place].add(message_id)
        for place, of_place in sorted(lines.items()):
            try:
                name = self.store.put(*place, [of_place[key] for key in sorted(of_place)])
            except Unavailable as error:
                self.log.warning("jobs not exported", problem=str(error), **place._asdict())
                failed |= sources[place]
            else:
                self.log.info("jobs exported", object=name, jobs=len(of_place))
        return sorted(failed)

    def _read(self, record: Mapping[str, Any], message_id: str) -> list[ExportedJob] | None:
        """The lines of a message; None if it has to be delivered again."""
        try:
            batch = ExportBatch.model_validate_json(record["body"])
            return [line for each in batch.exported if (line := self._line(each)) is not None]
        except Unavailable as error:
            self.log.warning("jobs not read", problem=str(error), message_id=message_id)
        except Exception:
            # SQS moves it to the dead-letter queue in the end; others do not wait for it.
            self.log.exception("message not read", message_id=message_id)
        return None

    def _line(self, exported: Exported) -> ExportedJob | None:
        """The line of a job; None if its row cannot be read and is kept for an operator.

        Reads the submission if it is not in the row. Raises Unavailable.
        """
        try:
            return self._of(exported)
        except (KeyError, TypeError, ValueError):
            job_id = exported.row.get("job_id")
            self.log.exception("a job cannot be exported", job_id=job_id)
            self.bury(encode_batch([exported]))
            return None

    def _of(self, exported: Exported) -> ExportedJob:
        row, sequence = decode(exported.row), exported.sequence
        if exported.record == "deleted":
            last_ms = Step.decode(row["timeline"][-1]).at_ms
            return deleted_job(tenant_of(row), row["job_id"], last_ms, sequence, self.deployment)
        head = self.jobs.head_of_image(row)
        return exported_job(
            head or from_row(row, _SOME_SPEC),
            exported.record,
            sequence,
            self.deployment,
            has_submission=head is not None,
        )
