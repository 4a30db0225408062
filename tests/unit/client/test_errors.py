"""Every wrong input and every wrong answer is one line and a documented exit code."""

import json
import py_compile
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from httpx_retries import Retry

from joblane import Client, InputError
from joblane.client.cli import exit_codes
from joblane.client.cli.command_table import COMMANDS, GROUPS, LoadedCommands
from tests.support.client.command import Joblane, Spawn
from tests.support.client.fake_api import CUT, FakeApi, Fault, gateway, ok, problem

if TYPE_CHECKING:
    from collections.abc import Callable

HTML: Fault = (200, {"Content-Type": "text/html"}, b"<html>Please log in</html>")
DEEP: Fault = (200, {"Content-Type": "application/json"}, b"[" * 100_000)


def one_line(said: str) -> str:
    """Take the message of a single line on stderr."""
    found = re.fullmatch(r"joblane: (.+)\n", said)
    assert found, said
    return found[1]


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        (
            problem(404, "Not Found", detail="there is no such job"),
            66,
            r"404 Not Found: there is no such job",
        ),
        (gateway(404, "Not Found"), 66, r"404 Not Found; is http://.+ a Joblane API\?"),
        (gateway(401, "Unauthorized"), 77, r"401 Unauthorized; has JOBLANE_TOKEN expired.*"),
        (gateway(403, "Forbidden"), 77, r"403 Forbidden: this needs the role reader; .*scope\?"),
        (problem(400, "Bad Request", detail="limit is wrong"), 64, r"400 Bad Request: limit is.+"),
        (problem(409, "Conflict"), 64, "409 Conflict"),
        ((418, {}, b""), 64, r"418 I'm a [Tt]eapot"),
        ((499, {}, b"what"), 64, "499 error"),
        (
            (302, {"Location": "https://sso"}, b""),
            76,
            r".+ answered 302, as no Joblane API does;.+",
        ),
        (HTML, 76, r"the answer of .+ is not JSON; check JOBLANE_URL"),
        (DEEP, 76, r"the answer of .+ is not JSON.+"),
        ((200, {}, b"[]"), 76, "the API's answer is not a job"),
        ((200, {}, b"{}"), 76, "the API's answer is not a job: it has no id or no state"),
        ((200, {}, b"\xff\xfe"), 76, r"the answer of .+ is not JSON.+"),
        ((200, {"Content-Encoding": "gzip"}, b"no"), 76, r"the answer of .+ cannot be decoded.+"),
        (problem(400, "a\nb\x1b[2J", detail="c\rd"), 64, r"400 a\\nb\\x1b\[2J: c\\rd"),
    ],
)
def test_a_wrong_answer(api: FakeApi, joblane: Joblane, fault: Fault, code: int, said: str) -> None:
    api.faults.append(fault)
    ran = joblane("get", "01J")
    assert re.fullmatch(said, one_line(ran.said)), ran.said
    assert (ran.code, ran.stdout) == (code, b"")


@pytest.mark.parametrize("page", [{}, {"entries": 5}, {"entries": [5]}, []])
@pytest.mark.parametrize("args", [("ls",), ("agents",), ("queues",), ("logs", "x")])
def test_a_list_that_is_none(api: FakeApi, joblane: Joblane, args: tuple[str, ...], page: object):
    api.before = lambda _: api.faults.append((200, {}, json.dumps(page).encode()))
    ran = joblane(*args)
    assert ran.code == 76
    assert one_line(ran.said).startswith("the API's answer is not a")


@pytest.mark.parametrize("entry", [{"base64": "?"}, {"base64": 5}, {"text": 5}])
def test_a_log_record_that_is_none(api: FakeApi, joblane: Joblane, entry: object) -> None:
    api.faults.append((200, {}, json.dumps({"entries": [entry]}).encode()))
    ran = joblane("logs", "-f", "01J")
    assert ran.code == 76
    assert one_line(ran.said).startswith("a log record cannot be read")


def test_each_wrong_field_is_a_line(api: FakeApi, joblane: Joblane) -> None:
    api.faults.append(
        problem(
            400,
            "Bad Request",
            detail="env.1A: wrong; timeout_s: too low",
            errors=[
                {"field": "env.1A", "problem": "wrong"},
                {"field": "timeout_s", "problem": "too low"},
            ],
        )
    )
    ran = joblane("submit", "--", "x")
    assert ran.code == 64
    assert ran.said == (
        "joblane: 400 Bad Request\njoblane:   env.1A: wrong\njoblane:   timeout_s: too low\n"
    )


@pytest.mark.parametrize("fault", [CUT, gateway(500, "x"), gateway(503, "x"), gateway(429, "x")])
def test_reads_are_tried_again(api: FakeApi, joblane: Joblane, fault: Fault) -> None:
    api.add()
    api.faults += [fault, fault]
    ran = joblane("get", "01J")
    assert (ran.code, ran.said) == (0, "")
    assert len(api.requests) == 3


def test_an_api_that_stays_ill_names_the_request(api: FakeApi, joblane: Joblane) -> None:
    ill = problem(500, "Internal Server Error", detail="see the log", instance="req-7")
    api.answers["/v1/jobs/01J"] = ill
    ran = joblane("get", "01J")
    assert ran.code == 69
    assert one_line(ran.said) == "500 Internal Server Error: see the log (request req-7)"
    assert len(api.requests) == 5


@pytest.mark.parametrize(
    ("method", "call"),
    [
        ("POST", lambda client: client.cancel("01J")),
        ("PUT", lambda client: client.declare("app:billing", "up")),
        ("PATCH", lambda client: client.edit("01J", priority="high")),
        ("DELETE", lambda client: client.delete("01J")),
    ],
)
def test_what_no_api_has_seen_is_sent_again(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, method: str, call: "Callable[[Client], object]"
) -> None:
    """Whatever it changes: no connection could be made. The API comes during the first pause."""
    api.more = lambda _request: ok({"id": "01J", "state": "pending"})
    api.down()
    monkeypatch.setattr(Retry, "sleep", lambda *_: api.up())
    with Client(api.url) as client:
        call(client)
    assert [method] == [request.method for request in api.requests]


def test_an_api_that_is_not_there(api: FakeApi, joblane: Joblane) -> None:
    api.down()
    ran = joblane("ls")
    assert ran.code == 69
    assert one_line(ran.said).startswith(f"cannot reach the API at {api.url}: ")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "ftp://x",
        "http://",
        "http://[",
        "https://x?a=b",
        "https://x:99999",
        "https://name:password@x",
        "http://\x01",
    ],
)
def test_a_url_that_is_none(joblane: Joblane, url: str) -> None:
    ran = joblane("--url", url, "ls")
    assert ran.code == 78
    assert "JOBLANE_URL" in one_line(ran.said)


def test_no_url_says_where_it_comes_from(joblane: Joblane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JOBLANE_URL")
    ran = joblane("ls")
    assert ran.code == 78
    assert one_line(ran.said) == (
        "JOBLANE_URL is not set and there is no profile; create one with: "
        "joblane --url URL login (for the local deployment: . .local/env)"
    )


def test_no_token_is_told_when_the_api_wants_one(
    api: FakeApi, joblane: Joblane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JOBLANE_TOKEN")
    api.faults.append(gateway(401, "Unauthorized"))
    ran = joblane("ls")
    assert (ran.code, one_line(ran.said)) == (
        77,
        "401 Unauthorized; not logged in: run `joblane login` or set JOBLANE_URL and JOBLANE_TOKEN",
    )


@pytest.mark.parametrize("token", ["a b", "é", "x\ny"])
def test_a_token_that_is_none_is_not_repeated(joblane: Joblane, token: str) -> None:
    ran = joblane("--token", token, "ls")
    assert ran.code == 78
    assert token not in ran.said
    assert "JOBLANE_TOKEN" in one_line(ran.said)


@pytest.mark.parametrize(
    "args",
    [
        ["bogus"],
        ["--bogus"],
        ["run"],
        ["run", "--"],
        ["run", "--bogus", "--", "x"],
        ["run", "--cpus", "many", "--", "x"],
        ["run", "--priority", "urgent", "--", "x"],
        ["run", "--network", "all", "--", "x"],
        ["run", "--env", "A", "--", "x"],
        ["run", "--env", "=1", "--", "x"],
        ["run", "--label", "A", "--", "x"],
        ["run", "--give-up-s", "-1", "--", "x"],
        ["ls", "-n", "0"],
        ["ls", "-n", "x"],
        ["get"],
        ["why", "a", "b"],
        ["logs"],
    ],
)
def test_a_wrong_command_line(joblane: Joblane, args: list[str]) -> None:
    ran = joblane(*args)
    assert (ran.code, ran.stdout) == (2, b"")
    assert one_line(ran.said).endswith(" --help)")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["run", "--", "x", "\udcff"], r"command\[1\], '\\udcff', is not UTF-8 text"),
        (["run", "-e", "SECRET=\udcff", "--", "x"], "env.SECRET is not UTF-8 text"),
        (["run", "-e", "\udcff=1", "--", "x"], "a name in env is not UTF-8 text"),
        (["run", "--cpus", "nan", "--", "x"], "resources.cpus is nan, which is no number in JSON"),
        (["ls", "--name", "\udcff"], "name is not UTF-8 text"),
        (["ls", "--state", "failed", "--state", "\udcff"], "state is not UTF-8 text"),
        (["ls", "--next", "\udcff"], "next is not UTF-8 text"),
        (["audit", "--action", "\udcff"], "action is not UTF-8 text"),
        (["get", ""], "'' is not the id of a job: .+"),
        (["get", ".."], "'..' is not the id of a job: .+"),
        (["logs", "-f", "\udcff"], r"'\\udcff' is not the id of a job: .+"),
    ],
)
def test_what_cannot_be_sent_is_not(api: FakeApi, joblane: Joblane, args: list[str], said: str):
    ran = joblane(*args)
    assert ran.code == 64
    assert re.fullmatch(said, one_line(ran.said))
    assert api.requests == []


ODD = ("01J/logs", "../agents", "x?limit=1", "%2e%2e", "a%2Fb", "a;b", "é", " ", "x\n")
"""API Gateway decodes a path before it looks for the route: none of these may become a part."""


@pytest.mark.parametrize(
    "command",
    [
        *(["get"], ["logs"], ["logs", "-f"], ["why"], ["wait"], ["cancel"], ["retry"], ["audit"]),
        *(["outputs"], ["download"], ["delete"], ["resubmit"], ["dlq", "replay"]),
        *(["queues", "show"], ["queues", "pause"], ["requeue"], ["types", "get"]),
        *(["agents", "get"], ["agents", "drain"], ["keys", "ls"], ["conditions", "down"]),
    ],
)
def test_an_id_stays_one_part_of_the_path(
    api: FakeApi, joblane: Joblane, command: list[str]
) -> None:
    ran = joblane(*command, ODD[0])
    assert (64, b"") == (ran.code, ran.stdout)
    assert re.match(rf"{re.escape(repr(ODD[0]))} is not the ", one_line(ran.said))
    assert api.requests == []


def test_an_id_of_the_sdk_stays_one_part_of_the_path(api: FakeApi) -> None:
    client = Client(api.url, "t")
    calls: tuple[Callable[[str], object], ...] = (
        *(client.get, client.why, client.wait, client.cancel, client.retry, client.delete),
        *(client.hide, client.unhide, client.resubmit, client.replay, client.dismiss),
        *(client.log_page, client.outputs, client.audit, client.groups.get, client.queue),
        *(client.agent, client.drain, client.cordon, client.uncordon, client.type),
        *(client.delete_type, client.keys),
        lambda odd: client.key(odd, "x"),
        lambda odd: list(client.requeue(odd)),
        lambda odd: client.declare(odd, "down"),
    )
    for call in calls:
        for odd in ODD:
            with pytest.raises(InputError, match=re.escape(f"{odd!r} is not the ")):
                call(odd)
    assert api.requests == []


def test_a_bug_is_one_line_too(joblane: Joblane, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(Client, "health", broken)
    ran = joblane("health")
    assert ran.code == 1
    assert one_line(ran.said).startswith("internal error: ZeroDivisionError: oops")
    monkeypatch.setenv("JOBLANE_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        joblane("health")


@pytest.mark.parametrize(
    "verb", ["", "run", "submit", "ls", "get", "logs", "queues", "agents", "health"]
)
def test_help_is_plain_and_needs_nothing(
    joblane: Joblane, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.delenv("JOBLANE_URL")
    ran = joblane(*verb.split(), "--help")
    assert ran.code == 0
    assert ran.stdout.startswith(b"Usage: joblane")
    assert ran.stdout.isascii()
    assert b"\x1b" not in ran.stdout
    assert ran.said == ""


def test_nothing_at_all_is_the_help(joblane: Joblane) -> None:
    assert joblane().stdout == joblane("--help").stdout


def test_every_exit_code_is_in_the_help() -> None:
    documented = set(
        map(int, re.findall(r"^ +(\d+)", exit_codes.EPILOG + exit_codes.RUN_EPILOG, re.MULTILINE))
    )
    codes = {value for value in vars(exit_codes).values() if isinstance(value, int)}
    assert codes - {exit_codes.SIGNAL} <= documented


def test_help_of_agent_and_doctor_is_the_agents_own(spawn: Spawn, tmp_path: Path) -> None:
    """Handed over with all arguments; a module in the current directory is not taken for it."""
    (tmp_path / "ec2_agent.py").write_text("print('hijacked')")
    (tmp_path / "random.py").write_text("print('hijacked')")
    for verb in ("agent", "doctor"):
        process = spawn(verb, "--help", cwd=tmp_path)
        stdout, _ = process.communicate(timeout=20)
        assert b"hijacked" not in stdout


def test_the_agent_runs_without_docstrings_where_bytecode_without_them_is_installed(
    tmp_path: Path,
) -> None:
    """Without that bytecode, each start would compile everything."""
    package = tmp_path / "ec2_agent" / "__init__.py"
    package.parent.mkdir()
    package.touch()
    spy = (
        "import os, sys\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "os.execv = lambda program, argv: (print(program, *argv), sys.exit(5))\n"
        "from joblane.client.cli import main\n"
        "main()\n"
    )
    for flags in ("-P -X no_debug_ranges", "-P -X no_debug_ranges -OO"):
        for verb, handed in (("agent", "run"), ("doctor", "doctor")):
            args = [verb, "--help", "--json", "-x", "--url", "y", "z"]
            run = subprocess.run(
                [sys.executable, "-c", spy, *args], capture_output=True, text=True, check=False
            )
            assert run.returncode == 5
            wanted = f"{flags} -m ec2_agent {handed} --help --json -x --url y z"
            assert run.stdout == f"{sys.executable} {sys.executable} {wanted}\n"
        py_compile.compile(str(package), optimize=2)


MODULES = 400
"""Modules that a command imports at most, of which Python's own, typer and httpx are 310. Each 10
take 3 ms of CPU: with pydantic and all commands there were 489."""


def test_the_command_line_starts_without_what_it_does_not_need() -> None:
    """Help imports no HTTP and no tables; a verb imports httpx without its own command line."""
    code = (
        "import sys; sys.argv = ['joblane', *{args}]\n"
        "import atexit, json\n"
        "atexit.register(lambda: print(json.dumps(sorted(sys.modules))))\n"
        "from joblane.client.cli import main; main()"
    )

    def imported(*args: str) -> set[str]:
        done = subprocess.run(
            [sys.executable, "-c", code.format(args=list(args))],
            capture_output=True,
            text=True,
            check=False,
        )
        return set(json.loads(done.stdout.splitlines()[-1]))

    heavy = {"httpx", "rich", "click", "pydantic", "pygments", "ec2_agent", "boto3"}
    assert not imported("--help") & heavy
    verb = imported("--url", "http://127.0.0.1:9", "get", "..")
    assert {"httpx"} == verb & heavy
    commands = {f"joblane.client.cli.{module}" for module in {**COMMANDS, **GROUPS}.values()}
    assert {"joblane.client.cli.job.read", "joblane.client.cli.group.groups"} <= verb & commands
    assert len(verb & commands) <= 4  # beside them what completes, and files
    assert len(verb) <= MODULES


def test_the_table_names_the_commands_of_each_module() -> None:
    for module in sorted({*COMMANDS.values()}):
        found = import_module(f"joblane.client.cli.{module}").commands.registered_commands
        names = [command.name or command.callback.__name__.replace("_", "-") for command in found]
        assert [name for name, where in COMMANDS.items() if where == module] == names
    loaded = LoadedCommands()
    assert [*COMMANDS, *GROUPS] == list(loaded)
    assert len(loaded) == len({id(command) for command in loaded.values()})
    assert "pa" not in loaded
    assert loaded.get("pa") is None
