"""The Celery application of `scripts/bench peers`, which runs in an environment of its own.

Set as its documentation advises for tasks that must not be lost: acknowledged after they ended,
given back if the worker is killed. No events are sent, which would cost it more, and what is stored
about a task is for `scripts/bench peers` to say.
"""

import json
import os
import subprocess
import time

from celery import Celery  # type: ignore[import-not-found] # in no environment of ours

SETTINGS = json.loads(os.environ["PEERS"])
"""`broker`: URL; `region`; `queue`: name and URL; `command`: of a task; `times`: file of
lines; `prefetch`: messages reserved for each process; `pause_s`: between requests that bring
nothing; `results`: where the state of tasks is stored, or None; `endpoint` of that."""

app = Celery("peers", broker=SETTINGS["broker"])
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        "region": SETTINGS["region"],
        "is_secure": False,
        "wait_time_seconds": SETTINGS["wait_s"],
        # The worker of Celery 5.7 waits for this also whenever it has reserved all that it may:
        # with its default, 1 s, and `prefetch` 1 it runs 4 jobs a second in 4 slots. Its documents
        # advise 0 beside long polls.
        "polling_interval": SETTINGS["pause_s"],
        "visibility_timeout": 3600,
        "predefined_queues": {"peers": {"url": SETTINGS["queue"]}},
    },
    task_default_queue="peers",
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    result_backend=SETTINGS["results"],
    dynamodb_endpoint_url=SETTINGS["endpoint"],
    task_ignore_result=SETTINGS["results"] is None,
    task_track_started=SETTINGS["results"] is not None,
    task_store_errors_even_if_ignored=False,
    worker_prefetch_multiplier=SETTINGS["prefetch"],
    worker_send_task_events=False,
    worker_hijack_root_logger=False,
)


def run() -> None:
    """Run the command, and append when it began and ended, in Unix seconds."""
    began = time.time()
    subprocess.run(SETTINGS["command"], check=True, stdout=subprocess.DEVNULL)
    line = f"{began:.6f} {time.time():.6f}\n".encode()
    times = os.open(SETTINGS["times"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(times, line)
    os.close(times)


task = app.task(name="peers.run")(run)

if __name__ == "__main__":  # submits as many as it is told
    with app.producer_pool.acquire() as producer:
        for _ in range(int(os.environ["PEERS_COUNT"])):
            task.apply_async(producer=producer)
