"""What being blocked adds to the price of a job, counted at the client."""

from joblane.aws.job.items import to_item
from joblane.job.moves import AttemptFacts
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import DESCRIPTOR, Cloud, OneEach
from tests.support.jobs import JOB, named
from tests.support.meter import Meter
from tests.support.recovery import TABLE, World

CONDITION = "http:https://api.example.com/health"
USAGE = '{"wall_s":0.012,"user_s":0.001,"system_s":0.002,"max_rss_mb":9.1}'


class TableMeter(Meter):
    """Counts what is written to one table."""

    def __init__(self, aws: Cloud, table: str) -> None:
        super().__init__()
        self._table = table
        self._counts = True
        self._kept = 0
        session = aws.session()
        emitter = session.get_component("event_emitter")
        for operation in ("PutItem", "UpdateItem", "DeleteItem"):
            emitter.register_first(f"provide-client-params.dynamodb.{operation}", self._looks)
            emitter.register_last(f"after-call.dynamodb.{operation}", self._forgets)
        self.attach(session, aws.clients.make("dynamodb"))
        self.clients = OneEach(session)

    def _looks(self, params: dict[str, str], **_: object) -> None:
        self._counts = params["TableName"] == self._table
        self._kept = self.write_units

    def _forgets(self, **_: object) -> None:
        if not self._counts:
            self.write_units = self._kept


def run(world: World, number: int, *, blocked: int) -> None:
    """A job's writes from its first claim to its end, recovery's own among them."""
    job_id = world.submit(number)
    (received,) = world.receive_all()
    for _ in range(blocked):
        world.http.allow = 0
        world.block(received, CONDITION)
        world.machine.run(60)
        world.recover()
        (received,) = world.receive_all()
    head = world.jobs.claim(named(job_id), "i-0123456789abcdef0", world.now_ms)
    step = Step(State.COMPLETED, world.now_ms, head.attempt, "exit code 0 after 0.0 s", records=0)
    facts = AttemptFacts(Outcome.SUCCEEDED, exit_code=0, usage_json=USAGE, expires_at=1_000_000)
    world.jobs.settle(head, step, facts)
    world.lane().delete(received.receipt)


def test_blocked_and_resubmitted_costs_the_jobs_table_what_was_promised(aws: Cloud):
    jobs = DESCRIPTOR.jobs_table
    meter = TableMeter(aws, jobs)
    world = World(aws, meter.clients)
    run(world, 1, blocked=0)
    simple = meter.write_units
    run(world, 2, blocked=1)
    once = meter.write_units - simple
    print(f"being blocked once adds {once - simple} write units to a job")
    assert 2 == simple  # beside the put with its index entry
    # block, unblock and the second claim, and the index `attention` put and deleted
    assert once - simple <= 5


def test_waiting_costs_the_conditions_table_by_the_round_and_not_by_the_job(aws: Cloud):
    meter = TableMeter(aws, TABLE)
    world = World(aws, meter.clients)
    world.submit_and_block(CONDITION, 25)
    joined = meter.write_units
    world.machine.run(20 + 200 + 600)
    rounds = world.http.asked
    print(f"25 jobs: {joined} units to join, {meter.write_units - joined} in {rounds} rounds")
    # A row each, the condition's own, the tenant's directory's, and the tenant's places.
    assert 25 + 3 == joined
    assert rounds + 1 == meter.write_units - joined  # Begin writes it as well


def test_a_job_that_blocks_again_and_again_does_not_grow(aws: Cloud):
    world = World(aws, aws.clients)
    run(world, 1, blocked=6)
    (head,) = world.jobs.heads([f"{JOB[:22]}0001"])
    states = [step.state for step in head.timeline]
    assert ["pending", "active", "blocked", "pending", "active", "completed"] == states
    assert (6, 7) == (head.timeline[2].times, head.epoch)
    assert len(str(to_item(head))) < 1500
