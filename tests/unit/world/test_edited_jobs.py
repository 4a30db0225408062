"""Jobs that are edited while all else happens to them: agents die, calls fail, processes end."""

from collections import Counter

import pytest

from joblane.formats.times import rfc3339
from tests.support.depth import budget
from tests.support.life import NAMES, Life
from tests.support.world import World

SEEDS = range(41, 41 + budget(2, 12))
STEPS = 120


class EditedLife(Life):
    """A life in which every other operation is an edit, of a job that waits if there is one."""

    edits: Counter[int]

    def _operate(self) -> None:
        if self.rng.random() < 0.5:
            super()._operate()
            return
        waiting = [job_id for job_id, head in self.promises.seen.items() if not head.ended]
        if not waiting:
            return
        rng, now_ms = self.rng, int(self.world.clock.now * 1000)
        changes: dict[str, object] = {
            "priority": rng.choice(["high", "default", "low"]),
            "resources": {"memory_mb": rng.choice([64, 512, 1024])},
            "labels": {"edit": str(rng.random())},
            "deadline": rng.choice([None, rfc3339(now_ms + rng.randint(60, 900) * 1000)]),
        }
        chosen = rng.sample(sorted(changes), rng.randint(1, 2))
        body = {name: changes[name] for name in chosen}
        status, _ = self._ask(self.world.api, "PATCH", f"/v1/jobs/{rng.choice(waiting)}", body)
        self.edits[status] += 1


@pytest.mark.parametrize("seed", SEEDS)
def test_edits_lose_no_job_and_start_none_twice(seed: int):
    life = EditedLife(World(seed), seed)
    life.edits = Counter()
    for name in NAMES:
        life.world.join(name)
    for _ in range(STEPS):
        life.step()
        life.world.tick()
        life.promises.look()
    life.calm_down()
    states = Counter(head.edit > 0 for head in life.promises.seen.values())
    print(f"JOBLANE_SEED={seed}", dict(life.edits), dict(states))
    assert life.edits[200] > 5
