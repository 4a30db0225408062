"""`submit --each` and `run --each`: what is checked, sent, repeated and said."""

import io
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from joblane.client.cli.job import each_submit
from tests.support.client.command import Joblane, Spawn, wait_until
from tests.support.client.fake_api import CUT, FakeApi, Fault, Request, ok, problem


class Batches:
    """The route of batches: what it was sent, and the jobs of each key."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.sent: list[tuple[str, list[dict[str, Any]]]] = []
        self.entries: dict[tuple[str, int], dict[str, Any]] = {}
        self.refuse: dict[int, dict[str, Any]] = {}
        """Entries by the number of the job, used up."""
        api.more = self

    def __call__(self, request: Request) -> Fault | None:
        """Answer a batch, and nothing else."""
        if (request.method, request.path) != ("POST", "/v1/jobs/batch"):
            return None
        key, jobs = request.headers["Idempotency-Key"], request.body["jobs"]
        self.sent.append((key, jobs))
        return ok({"entries": [self.entry(key, n, job) for n, job in enumerate(jobs)]})

    def entry(self, key: str, number: int, job: dict[str, Any]) -> dict[str, Any]:
        """Make a job, or answer with the one that the key has made."""
        if (refused := self.refuse.pop(number, None)) is not None:
            return refused
        if (key, number) not in self.entries:
            made = self.api.add(f"01J{len(self.api.jobs)}", **job)
            self.entries[key, number] = {"status": 202, "job": {**made.data}}
            self.api.on_submit(made)
        return self.entries[key, number]

    @property
    def commands(self) -> list[list[str]]:
        """The commands of all requests, in their order."""
        return [job["command"] for _, jobs in self.sent for job in jobs]


@pytest.fixture(name="batches")
def _batches(api: FakeApi) -> Batches:
    return Batches(api)


@pytest.fixture(name="file")
def _file(tmp_path: Path) -> Path:
    return tmp_path / "jobs.txt"


def without_key(said: str) -> list[str]:
    """The lines of stderr but for the first one, which has the key."""
    first, *others = said.splitlines()
    assert first.startswith("joblane: after an interruption, repeat the command with --idem")
    return others


def test_a_thousand_commands_are_ten_requests_and_their_ids_are_printed_in_order(
    joblane: Joblane, batches: Batches, file: Path
) -> None:
    file.write_text("".join(f"echo {n} 'two words' \"a|b\" c\\ d\n" for n in range(1000)))
    ran = joblane("submit", "--queue", "bulk", "--each", str(file))
    assert (0, []) == (ran.code, without_key(ran.said))
    assert [f"01J{n}" for n in range(1000)] == ran.stdout.decode().split()
    assert [100] * 10 == [len(jobs) for _, jobs in batches.sent]
    assert [["echo", str(n), "two words", "a|b", "c d"] for n in range(1000)] == batches.commands
    assert {"bulk"} == {job["queue"] for _, jobs in batches.sent for job in jobs}
    (key,) = {name.rpartition("-")[0] for name, _ in batches.sent}
    assert [f"{key}-{n}" for n in range(1, 11)] == [name for name, _ in batches.sent]


def test_a_line_is_a_command_a_document_or_a_list_and_adds_to_the_options(
    joblane: Joblane, batches: Batches, file: Path
) -> None:
    lines = [
        "",
        "# a comment",
        "./run.sh a b",
        '  ["echo", "a | b"]  ',
        '{"command": ["x"], "labels": {"n": "1"}, "priority": "low", "env": {"A": "2"}}',
    ]
    file.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    options = ("--label", "team=web", "--priority", "high", "-e", "A=1", "-e", "B=1")
    assert 0 == joblane("submit", *options, "--each", str(file)).code
    common = {"priority": "high", "env": {"A": "1", "B": "1"}, "labels": {"team": "web"}}
    assert [
        {**common, "command": ["./run.sh", "a", "b"]},
        {**common, "command": ["echo", "a | b"]},
        {
            "command": ["x"],
            "labels": {"team": "web", "n": "1"},
            "priority": "low",
            "env": {"A": "2", "B": "1"},
        },
    ] == batches.sent[0][1]


def test_the_words_after_the_dashes_come_first(joblane: Joblane, batches: Batches, file: Path):
    file.write_text('a.csv\n["b c.csv"]\n{"name": "third"}\n')
    assert 0 == joblane("submit", "--each", str(file), "--", "./run.sh", "-v").code
    assert [["./run.sh", "-v", "a.csv"], ["./run.sh", "-v", "b c.csv"], ["./run.sh", "-v"]] == (
        batches.commands
    )


def test_with_a_type_lines_are_params(joblane: Joblane, batches: Batches, file: Path) -> None:
    file.write_text('{"origin": "a"}\n{"origin": "b"}\n')
    assert 0 == joblane("submit", "--type", "sync", "--each", str(file)).code
    assert [{"type": "sync", "params": {"origin": name}} for name in "ab"] == batches.sent[0][1]
    file.write_text("echo 1\n")
    ran = joblane("submit", "--type", "sync", "--each", str(file))
    assert 64 == ran.code
    assert f"{file} line 1: must be the params of the type, a JSON object" in ran.said


def test_standard_input_is_a_file_too(
    joblane: Joblane, batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"echo 1\necho 2")))
    assert 0 == joblane("submit", "--each", "-").code
    assert [["echo", "1"], ["echo", "2"]] == batches.commands


WRONG = {
    '{"command": ["x"], "cpus": 1}': "cpus: unknown field",
    '{"command": ["x"], "resources": {"cpus": -1}}': "resources.cpus: should be greater than 0",
    '{"command": [], "queue": "Q!"}': "command: ",
    '{"comand": ["x"]}': "comand: unknown field",
    '{"command": ["x"]': "is not JSON",
    '{"command": ["x"], "command": ["y"]}': "has the field command twice",
    '["a", 1]': "command.1: ",
    "[]": "command: ",
    "echo 'unterminated": "is not a command: no closing quotation",
    "echo a | wc -l": "has |, which only a shell understands: write sh -c '...', or quote it",
    "make && make test": "has &&, which only a shell understands",
    "run > out.txt": "has >, which only a shell understands",
    "echo \x00": "command.1: ",
    '{"command": ["x"], "target": "_all"}': "target: must name one agent here",
    '{"command": ["x"], "deadline": "2020-01-01T00:00:00Z"}': "deadline: must be in the future",
    '{"command": ["x"], "deadline": "+5m"}': "deadline: must be a time in UTC",
    '{"command": ["x"], "env": {"A": "' + "x" * 3_000_000 + '"}}': "",
}


@pytest.mark.parametrize("line", WRONG, ids=range(len(WRONG)))
@pytest.mark.parametrize("command", ["run", "submit"])
def test_nothing_is_sent_if_one_line_is_wrong(
    api: FakeApi, joblane: Joblane, file: Path, command: str, line: str
) -> None:
    file.write_text("echo 1\n" * 150 + line + "\n" + "echo 2\n" * 49)  # in the second batch
    ran = joblane(command, "--each", str(file))
    assert (64, b"", []) == (ran.code, ran.stdout, api.requests)
    (said,) = ran.said.splitlines()
    assert said.startswith(f"joblane: {file} line 151: ")
    assert WRONG[line] in said
    assert said.endswith("; nothing was submitted")


def test_all_wrong_lines_are_named_up_to_twenty(api: FakeApi, joblane: Joblane, file: Path) -> None:
    file.write_bytes(b"echo \xff\n" * 2 + b"echo 1\n" + b"a | b\n" * 30)
    ran = joblane("submit", "--each", str(file))
    assert (64, []) == (ran.code, api.requests)
    *lines, last = ran.said.splitlines()
    assert f"joblane: {file} line 1: is not UTF-8" == lines[0]
    assert [1, 2, *range(4, 22)] == [int(line.split()[3].strip(":")) for line in lines]
    assert (
        "joblane: 32 of 33 lines are wrong, 12 more than are shown; nothing was submitted" == last
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "has no jobs"), (b"\n# none\n", "has no jobs"), (None, "No such file")],
)
def test_a_file_without_jobs_is_refused(
    api: FakeApi, joblane: Joblane, file: Path, content: bytes | None, said: str
) -> None:
    if content is not None:
        file.write_bytes(content)
    ran = joblane("submit", "--each", str(file))
    assert ran.code in {2, 64}
    assert said in ran.said
    assert (b"", []) == (ran.stdout, api.requests)


@pytest.mark.parametrize(
    "more", [("--type", "t", "--params", "p.json"), ("--type", "t", "--", "x"), ("--cpus", "x")]
)
def test_options_that_do_not_fit_are_refused(
    api: FakeApi, joblane: Joblane, file: Path, more: tuple[str, ...]
) -> None:
    file.write_text("{}\n")
    ran = joblane("submit", "--each", str(file), *more)
    assert (2, b"", []) == (ran.code, ran.stdout, api.requests)
    assert 1 == len(ran.said.splitlines())


def test_requests_are_split_by_bytes_too(joblane: Joblane, batches: Batches, file: Path) -> None:
    large = json.dumps({"command": ["x"], "env": {"A": "x" * 100_000}})
    file.write_text(f"{large}\n" * 60)
    assert 0 == joblane("submit", "--each", str(file)).code
    assert [28, 28, 4] == [len(jobs) for _, jobs in batches.sent]


def test_refused_jobs_are_named_by_their_lines_and_the_others_are_submitted(
    joblane: Joblane, batches: Batches, file: Path
) -> None:
    file.write_text("# first\n" + "echo 1\n" * 5)
    errors = [{"field": "queue", "problem": "there is no such queue"}]
    batches.refuse = {
        1: {"status": 400, "detail": "d", "errors": errors},
        3: {"status": 409, "detail": "key is full"},
    }
    ran = joblane("submit", "--each", str(file), "--json")
    assert 64 == ran.code
    assert [
        "joblane: line 3: queue: there is no such queue",
        "joblane: line 5: key is full",
        "joblane: 3 of 5 jobs submitted, 2 were refused",
    ] == without_key(ran.said)
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [2, 3, 4, 5, 6] == [line["line"] for line in lines]
    assert ["submitted", "refused", "submitted", "refused", "submitted"] == [
        next(iter(line.keys() - {"line"})) for line in lines
    ]


def test_a_job_that_was_not_accepted_for_now_is_sent_again_with_the_same_key(
    joblane: Joblane, batches: Batches, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(each_submit, "PAUSES_S", (0.0, 0.0))
    file.write_text("echo 1\necho 2\n")
    batches.refuse = {0: {"status": 503, "detail": "was not accepted"}}
    ran = joblane("submit", "--each", str(file))
    assert (0, b"01J1\n01J0\n") == (ran.code, ran.stdout)
    first, second = batches.sent
    assert first == second


def test_an_answer_that_is_lost_makes_no_second_job(
    api: FakeApi, joblane: Joblane, batches: Batches, file: Path
) -> None:
    file.write_text("echo 1\n" * 150)
    api.faults += [CUT, problem(503, "Service Unavailable")]
    assert 0 == joblane("submit", "--each", str(file)).code
    assert 150 == len(api.jobs)
    assert 2 == len({key for key, _ in batches.sent})


def test_a_run_with_the_key_of_an_interrupted_one_submits_the_rest(
    api: FakeApi, joblane: Joblane, batches: Batches, file: Path
) -> None:
    file.write_text("echo 1\n" * 300)

    def cut(_request: object) -> None:
        if len(batches.sent) == 2:
            api.faults.append(problem(503, "Service Unavailable"))

    api.before = cut
    ran = joblane("submit", "--each", str(file), "--run-at", "+5h")
    assert 69 == ran.code
    last = ran.said.splitlines()[-1]
    assert "joblane: 200 of 300 jobs submitted; submit the others, and none twice, by " in last
    options = last.partition(" by the same command with ")[2].split()
    assert ["--idempotency-key", "--run-at"] == options[::2]
    api.before = lambda _request: None
    again = joblane("submit", "--each", str(file), *options)
    assert (0, "") == (again.code, again.said)
    assert 300 == len(api.jobs) == len(set(again.stdout.split()))


def test_a_key_that_was_used_for_another_file_is_refused_by_the_api(
    api: FakeApi, joblane: Joblane, file: Path
) -> None:
    file.write_text("echo 1\n")
    api.faults.append(
        problem(422, "Unprocessable Content", detail="this key was used with another")
    )
    ran = joblane("submit", "--each", str(file), "--idempotency-key", "night-7")
    assert (64, b"") == (ran.code, ran.stdout)
    assert ["joblane: 422 Unprocessable Content: this key was used with another"] == (
        ran.said.splitlines()
    )
    assert "night-7-1" == api.requests[0].headers["Idempotency-Key"]


def test_a_run_waits_for_all_and_is_0_only_if_all_completed(
    api: FakeApi, joblane: Joblane, batches: Batches, file: Path
) -> None:
    del batches
    file.write_text("echo 1\n" * 30)
    ran = joblane("run", "--each", str(file))
    assert (0, b"") == (ran.code, ran.stdout)
    assert ["joblane: 30 of 30 jobs completed"] == without_key(ran.said)
    assert {"max_attempts": 1} == api.jobs["01J0"].data["retry"]
    api.on_submit = lambda job: (
        job.end("dead", reason="exit code 3") if job.data["id"] == "01J44" else job.end()
    )
    ran = joblane("run", "--each", str(file), "--json")
    assert 1 == ran.code
    assert ["joblane: 29 of 30 jobs completed, 1 dead"] == without_key(ran.said)
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert 30 == sum("submitted" in line for line in lines)
    assert [15] == [n["line"] for n in lines if n.get("ended", {}).get("state") == "dead"]


def test_a_job_that_fails_is_named_by_its_line_and_refused_ones_count(
    api: FakeApi, joblane: Joblane, batches: Batches, file: Path
) -> None:
    file.write_text("echo 1\n" * 3)
    batches.refuse = {1: {"status": 409, "detail": "key is full"}}
    api.on_submit = lambda job: job.end("dead", reason="exit code 3")
    ran = joblane("run", "--each", str(file))
    assert 64 == ran.code
    assert [
        "joblane: line 2: key is full",
        "joblane: 2 of 3 jobs submitted, 1 were refused",
        "joblane: line 1: job 01J0 dead: exit code 3",
        "joblane: line 3: job 01J1 dead: exit code 3",
        "joblane: 0 of 2 jobs completed, 2 dead",
    ] == without_key(ran.said)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_leaves_the_jobs_and_says_how_to_wait_for_them(
    api: FakeApi, spawn: Spawn, batches: Batches, file: Path, number: signal.Signals, code: int
) -> None:
    del batches
    file.write_text("sleep 1\n" * 3)
    api.on_submit = lambda _job: None
    process = spawn("run", "--each", str(file), start_new_session=True)
    wait_until(lambda: api.count("GET", "/v1/jobs/01J2") > 0)
    process.send_signal(number)
    _, said = process.communicate()
    assert code == process.returncode
    last = said.decode().splitlines()[-1]
    assert "3 of 3 jobs continue; wait for all by the same command with --idempotency-key" in last


def test_a_warning_of_many_jobs_is_said_once(
    api: FakeApi, joblane: Joblane, batches: Batches, file: Path
) -> None:
    file.write_text("true\ntrue\nfalse\n")

    def warn(job: Any) -> None:
        if job.data["command"] == ["true"]:
            batches.entries[next(reversed(batches.entries))]["job"]["warning"] = "nobody is alive"

    api.on_submit = warn
    ran = joblane("submit", "--each", str(file))
    assert (0, 3) == (ran.code, len(ran.stdout.split()))
    assert ["joblane: 2 of the jobs: nobody is alive"] == without_key(ran.said)
