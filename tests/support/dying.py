"""Jobs that have ended, as an agent ends them."""

from joblane.job.head import Head
from joblane.job.moves import AttemptFacts
from joblane.service.job.wake_up import wake_up_message
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import Cloud


def end(aws: Cloud, job_id: str, state: State = State.DEAD) -> Head:
    """An agent claims a pending job by its message and ends it."""
    seen = aws.job(job_id)
    at_ms = seen.timeline[-1].at_ms + 1
    head = aws.jobs.claim(wake_up_message(seen), "agent-1", at_ms)
    step = Step(state, at_ms + 1, head.attempt, "exit code 1 after 0.1 s", records=0)
    outcome = Outcome.SUCCEEDED if state is State.COMPLETED else Outcome.FAILED
    facts = AttemptFacts(outcome, expires_at=at_ms // 1000 + 9_999_999)
    return aws.jobs.settle(head, step, facts)
