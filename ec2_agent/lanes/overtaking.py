"""Whether a job whose agent was lost gives its slot to the next one of its key. Pure.

Under the policy `fail-stale` it does if another job waits, so that a key does not run behind what
may hang. It ends as stale, and the agent that had it reports in vain:

    agent A (frozen)      keys                    jobs                      agent B
    runs J, slot 7        J has slot 7, K waits   active, epoch 3
                                                                            A's lease is over
                          read: K waits  <--------------------------------
                                                  stale          <--------  settle if epoch 3
                          K has slot 8   <------  (sequel)
    settle if epoch 3  ------------------------>  refused: stale_completion_ignored

What A does outside of Joblane is kept apart by JOBLANE_SLOT: K's is higher.
"""

from joblane.job.head import Head
from joblane.job.moves import AttemptFacts
from joblane.job.outcome import OutcomeTransition
from joblane.key.state import KeyState
from joblane.state.lifecycle import Outcome, State
from joblane.state.retention import Retention
from joblane.state.timeline import Step


def is_overtaken(head: Head, key: KeyState) -> bool:
    """Whether a job that would be taken over is to end as stale, by the state of its key."""
    has_slot = head.slot is not None and head.slot == key.active.get(head.job_id)
    return has_slot and key.limits.stale_policy == "fail-stale" and bool(key.queued)


def overtaken(head: Head, why: str, at_ms: int, retention: Retention) -> OutcomeTransition:
    """The end of such a job; `why` says what happened to its agent."""
    reason = f"{why}; not started again, because another job waits for its slot (fail-stale)"
    return OutcomeTransition(
        step=Step(State.STALE, at_ms, head.attempt, reason),
        facts=AttemptFacts(Outcome.LOST, expires_at=retention.expires_at(State.STALE, at_ms)),
        condition=None,
        hide_s=None,
    )
