"""Pick the jobs of a batch of the stream that are exported, and send them to the exporter.

    table                     projector              queue exports        exporter        S3
    completed  ------------>  counts, then picks
                              send  -------------->  message  --------->  put  ------->  object
    (its retention is over)
    deleted by its TTL  --->  send  -------------->  message  --------->  put  ------->  object

The stream allows two readers, and both are there already, so the projector does it. What cannot be
sent fails the batch, which Lambda delivers again: every write of it may be repeated. A batch that
is given up after an hour takes its ends along; each of its jobs comes again, with the same content,
when its row expires.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from joblane.aws.export.queue import ExportQueue
from joblane.aws.export.stream import read_exported
from joblane.service.log import Log
from joblane.service.put_aside import Record


@dataclass(frozen=True)
class Exports:
    """Sends what is exported."""

    queue: ExportQueue
    tenants: Collection[str]
    """Tenants whose jobs are exported."""
    log: Log

    def send(self, records: Iterable[Record]) -> None:
        """Send what is exported of records of the stream. Raises Unavailable."""
        found = []
        for record in records:
            try:
                exported = read_exported(record, self.tenants)
            except Exception:
                # The projector has put such a record aside, for an operator.
                self.log.exception("a record cannot be exported")
                continue
            if exported is not None:
                found.append(exported)
        messages = self.queue.send(found)
        if messages:
            self.log.info("jobs sent to the export", jobs=len(found), messages=messages)
