"""Each mistake in joblane.toml is reported in one line: file, key, what is allowed."""

import runpy
from pathlib import Path

import aws_cdk
import pytest

from infra.config import load_config
from infra.errors import ConfigError
from infra.setup_files import setup_files
from tests.infra.conftest import CERTIFICATE, TRUSTSTORE
from tests.infra.synthesis import ROOT, new_app

GOOD = """
name = "tiny"
[tenants.main]
[queues.default]
"""

ISSUER = """
[access]
issuer = "https://id.acme.example"
audience = ["joblane"]
tenant_claim = "team"
"""


def lines_for(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "joblane.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        load_config(file)
    assert all(line.startswith(f"{file}: ") for line in raised.value.lines)
    return [line.removeprefix(f"{file}: ") for line in raised.value.lines]


def test_a_good_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "joblane.toml"
    file.write_text(GOOD, encoding="utf-8")

    config = load_config(file)

    assert (
        config.name,
        list(config.queues),
        list(config.tenants),
    ) == ("tiny", ["default"], ["main"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            GOOD + 'moves_to = "default"\n',
            "queues.default.moves_to: is allowed with retired = true only",
        ),
        (
            GOOD + '[queues.old]\nretired = true\nmoves_to = "absent"\n',
            "queues.old.moves_to names 'absent', which [queues] lacks",
        ),
        (
            GOOD + '[queues.old]\nretired = true\nmoves_to = "old"\n',
            "queues.old.moves_to names the queue itself; name a queue that takes jobs",
        ),
        (
            GOOD
            + '[queues.old]\nretired = true\nmoves_to = "older"\n[queues.older]\nretired = true\n',
            (
                "queues.old.moves_to names 'older', which is retired, too; name a queue that takes "
                "jobs"
            ),
        ),
        (
            GOOD + "retired = true\n",
            (
                "default_queue names 'default', which is retired and takes no jobs; name another "
                "queue"
            ),
        ),
        (
            GOOD + "thread = 3\n",
            (
                "queues.default.thread: unknown key; allowed here: deadline_s, filter, "
                "filter_order, moves_to, notify, retired, tenants, threads"
            ),
        ),
        (
            "colour = 1\n" + GOOD,
            (
                "colour: unknown key; allowed here: access, alerts, concurrency, console, "
                "default_queue, domain, events, events_members, export_jobs, fleets, functions, "
                "limits, name, network, notify, observability, platform, queues, recovery, "
                "removal, retention, schedules, tenants"
            ),
        ),
        (
            GOOD + "threads = -1\n",
            "queues.default.threads: input should be greater than or equal to 0; it is -1",
        ),
        (
            GOOD + "threads = 'many'\n",
            (
                "queues.default.threads: input should be a valid integer, unable to parse string "
                "as an integer; it is 'many'"
            ),
        ),
        (
            "removal = 'keep'\n" + GOOD,
            "removal: input should be 'retain' or 'destroy'; it is 'keep'",
        ),
        ("[tenants.main]\n", "queues: is missing; it must be set"),
        (
            "default_queue = 'fast'\n" + GOOD,
            "default_queue names 'fast', which [queues] lacks",
        ),
        (
            GOOD.replace("[tenants.main]", "[tenants.main]\ndefault_queue = 'fast'"),
            "tenants.main.default_queue names 'fast', which [queues] lacks",
        ),
        (
            GOOD.replace("[tenants.main]", "[tenants.b]\n[tenants.main]\ndefault_queue = 'bulk'")
            + "[queues.bulk]\ntenants = ['b']\n",
            (
                "tenants.main.default_queue names 'bulk', which is for other tenants; this one may "
                "use default"
            ),
        ),
        (
            GOOD.replace("[tenants.main]", "[tenants.main]\ndefault_queue = 'old'")
            + "[queues.old]\nretired = true\n",
            (
                "tenants.main.default_queue names 'old', which is retired and takes no jobs; name "
                "another queue"
            ),
        ),
        (
            GOOD + "[queues.'Über']\n",
            "queues.Über: string should match pattern '^[a-z][a-z0-9-]{0,30}$'; it is 'Über'",
        ),
        (
            GOOD.replace("[tenants.main]", "[tenants.main.machines]\nci = 'owner'"),
            (
                "tenants.main.machines.ci: input should be 'reader', 'developer', 'operator' or "
                "'admin'; it is 'owner'"
            ),
        ),
        (
            GOOD.replace(
                "[tenants.main]",
                "[tenants.main.machines]\n" + "".join(f"m{n} = 'reader'\n" for n in range(50)),
            ),
            "there are 50 machines; 49 are allowed",
        ),
        (
            GOOD.replace(
                "[tenants.main]",
                "[platform]\nmachines = ['ops']\n[tenants.main.machines]\n"
                + "".join(f"m{n} = 'reader'\n" for n in range(49)),
            ),
            "there are 50 machines; 49 are allowed",
        ),
        (
            GOOD + "[tenants.main.iam]\n'arn:aws:iam::111122223333:user/ci' = 'reader'\n",
            (
                "tenants.main.iam.arn:aws:iam::111122223333:user/ci: must be the ARN of a role, "
                "arn:aws:iam::ACCOUNT:role/NAME; it is 'arn:aws:iam::111122223333:user/ci'"
            ),
        ),
        (
            GOOD
            + "[tenants.main.iam]\n'arn:aws:iam::111122223333:role/ci' = 'reader'\n"
            + "[tenants.other.iam]\n'arn:aws:iam::111122223333:role/x/ci' = 'admin'\n",
            (
                "tenants.other.iam: the role arn:aws:iam::111122223333:role/x/ci is in "
                "tenants.main.iam already"
            ),
        ),
        (
            GOOD
            + "[tenants.main.iam]\n'arn:aws:iam::111122223333:role/ci' = 'reader'\n"
            + "[domain]\nname = 'jobs.acme.example'\n"
            + f"certificate_arn = '{CERTIFICATE}'\ntruststore = '{TRUSTSTORE}'\n",
            (
                "tenants.main.iam: is not allowed with [domain]: its API asks for no client "
                "certificate"
            ),
        ),
        (
            GOOD + "[tenants.platform]\n",
            "tenants.platform: is the name of a role; use another name",
        ),
        (
            GOOD.replace("[tenants.main]", "[tenants.main.machines]\nci = 'platform'"),
            (
                "tenants.main.machines.ci: input should be 'reader', 'developer', 'operator' or "
                "'admin'; it is 'platform'"
            ),
        ),
        (
            GOOD + "[platform]\nmachines = ['ops']\n" + ISSUER,
            "platform.machines: clients are made at the issuer of [access]",
        ),
        (GOOD + ISSUER.replace("https:", "http:"), "access.issuer: string should match"),
        (
            GOOD + ISSUER + "scope = 'jobs.read'",
            (
                "access.scope: unknown key; allowed here: audience, client_id, issuer, role_claim, "
                "tenant_claim, token_origins"
            ),
        ),
        (
            GOOD.replace("[tenants.main]", "[tenants.main.machines]\nci = 'reader'") + ISSUER,
            "tenants.main.machines: clients are made at the issuer of [access]",
        ),
        (
            GOOD + "[domain]\nname = 'jobs.acme.example'\ncertificate_arn = 'arn:aws:acm:x:1:y'\n"
            "truststore = 'authorities.pem'\n",
            "domain.truststore: string should match",
        ),
        (
            GOOD + "[fleets.a]\nqueues = ['default']\n[fleets.b]\nqueues = ['default']\n"
            "max = {cpus = 2, memory_mb = 1024}\n",
            "fleets of queue 'default' differ in max.cpus; only max.memory_mb may",
        ),
        (
            GOOD + "[fleets.a]\nqueues = ['default']\nmax = {cores = 2}\n"
            "[fleets.b]\nqueues = ['default']\nmax = {cores = 4}\n",
            "fleets of queue 'default' differ in max.cores; only max.memory_mb may",
        ),
        (
            GOOD + "[limits]\njobs_waiting = 0\n",
            "limits.jobs_waiting: input should be greater than or equal to 1; it is 0",
        ),
        (
            GOOD + "[tenants.main.limits]\nrunning_jobs = 5\n",
            (
                "tenants.main.limits.running_jobs: unknown key; allowed here: input_mb_per_job, "
                "jobs_running, jobs_waiting, output_files_mb_per_day, output_files_mb_per_job, "
                "output_files_per_job, output_mb_per_day, output_mb_per_job, recovery_executions, "
                "upload_mb_per_day"
            ),
        ),
        (
            GOOD + "[tenants.main.limits]\noutput_mb_per_job = 'much'\n",
            (
                "tenants.main.limits.output_mb_per_job: input should be a valid integer, unable to "
                "parse string as an integer; it is 'much'"
            ),
        ),
        (
            GOOD + "[fleets.a]\nqueues = ['default']\n"
            "[fleets.a.state]\nbackend = 'dynamodb'\nsync_interval = 2\n",
            "fleets.a.state: sync_interval is of the backend local only; the backend is 'dynamodb'",
        ),
        (
            GOOD + "[fleets.a]\nqueues = ['default']\n[fleets.a.state]\nbackend = 's3'\n",
            "fleets.a.state.backend: input should be 'memory', 'local' or 'dynamodb'; it is 's3'",
        ),
        (
            GOOD + "[fleets.a]\nqueues = ['default']\nmax = {memory_mb = 256}\n",
            "fleets.a.max.memory_mb: input should be greater than or equal to 512; it is 256",
        ),
        (
            GOOD + "[fleets.a]\nqueues = ['default']\n[fleets.a.facts.kernel]\ncommand = ['x']\n",
            (
                "fleets.a.facts.kernel: kernel is a fact that the agent gives itself; "
                "choose another name"
            ),
        ),
        (
            GOOD + "[fleets.a]\nqueues = ['default']\n[fleets.a.facts.b]\ncommand = []\n",
            (
                "fleets.a.facts.b.command: tuple should have at least 1 item after validation, "
                "not 0; it is []"
            ),
        ),
        (
            GOOD + "[fleets.a]\nqueues = ['default']\negress_mbps = 0\n",
            "fleets.a.egress_mbps: input should be greater than or equal to 1; it is 0",
        ),
        (
            GOOD + "[fleets.a]\nqueues = ['default']\nlabels = {group = 'web..dev'}\n",
            (
                "fleets.a.labels: label 'group' must have a value of segments with dots between "
                "them, such as web.dev: each of a-z, A-Z, 0-9, _ and -, and at most "
                "255 characters in all"
            ),
        ),
        (
            GOOD + "[fleets.a]\nqueues = ['default']\nlabels = {host = 'web'}\n",
            (
                "fleets.a.labels: label 'host' must have another key than host, which stands for "
                "the agent's name"
            ),
        ),
        (
            GOOD
            + "[fleets.a]\nqueues = ['default']\nlabels = {"
            + ", ".join(f"k{n} = 'v'" for n in range(6))
            + "}\n",
            "fleets.a.labels: an agent has at most 5 labels; these are 6",
        ),
        (
            GOOD + "[network]\nvpc_id = 'main'\nsubnets = ['subnet-00000000']\n",
            "network.vpc_id: string should match",
        ),
        (
            GOOD + "[network]\nvpc_id = 'vpc-00000000'\nsubnets = ['subnet-00000000', 'a']\n",
            "network.subnets.1: string should match",
        ),
        (
            GOOD + "[network]\nvpc_id = 'vpc-00000000'\nsubnets = []\n",
            (
                "network.subnets: tuple should have at least 1 item after validation, not 0; "
                "it is []"
            ),
        ),
        (
            GOOD + "[queues.late]\ndeadline_s = 0\n",
            "queues.late.deadline_s: input should be greater than or equal to 1; it is 0",
        ),
        (
            GOOD + "[alerts]\ndigest_at = '7 am'\n",
            "alerts.digest_at: string should match",
        ),
        (
            GOOD + "[alerts]\nemail = 'operators'\n",
            "alerts.email: string should match",
        ),
        (
            GOOD + "[console.links]\nlogs = 'http://logs.example.com'\n",
            "console.links.logs: must begin with https:// (or http://localhost)",
        ),
        (
            GOOD + "[console.links]\nlogs = 'https://logs.example.com/{job}'\n",
            (
                "console.links.logs: has the unknown placeholder {job}; allowed are {job_id}, "
                "{tenant}, {type}, {queue}, {agent}, {trace_id}"
            ),
        ),
        (
            GOOD + "[fleets.main]\nqueues = ['default']\nspot_percent = 50\n",
            (
                "fleets.main: spot_percent needs at least 3 instance_types, better ten, so that "
                "EC2 can choose those that it reclaims least; there are 1"
            ),
        ),
        (
            GOOD + "[fleets.main]\nqueues = ['default']\nidle_s = 0\n",
            "fleets.main.idle_s: must be 60 to 86400 seconds, or 'never'",
        ),
        (
            GOOD + "[fleets.main]\nqueues = ['default']\nidle_s = 'always'\n",
            "fleets.main.idle_s: must be 60 to 86400 seconds, or 'never'",
        ),
        (
            GOOD + "[fleets.main]\nqueues = ['default']\nspot_percent = 101\n",
            ("fleets.main.spot_percent: input should be less than or equal to 100; it is 101"),
        ),
        (
            GOOD + "[fleets.main]\nqueues = ['default']\non_demand_base = 1\n",
            "fleets.main: on_demand_base is allowed with spot_percent only",
        ),
        (
            GOOD
            + "[fleets.main]\nqueues = ['default']\nspot_percent = 50\non_demand_base = 5\n"
            + "instance_types = ['a', 'b', 'c']\n",
            "fleets.main: on_demand_base 5 is above max_size 4",
        ),
        (
            GOOD + "[fleets.main]\nqueues = ['default']\nprice_per_hour = {'m7g.large' = 0.1}\n",
            "fleets.main: price_per_hour names 'm7g.large', which instance_types lacks",
        ),
        (
            GOOD.replace("tiny", "ssm-jobs"),
            "name: 'ssm-jobs' begins with 'ssm': SSM reserves it for parameters; use another name",
        ),
        (
            GOOD.replace("tiny", "ssm"),
            "name: 'ssm' begins with 'ssm': SSM reserves it for parameters; use another name",
        ),
        (
            GOOD.replace("tiny", "amzn-jobs"),
            "name: 'amzn-jobs' begins with 'amzn': AWS reserves it; use another name",
        ),
        (
            GOOD.replace("tiny", "sthree-x"),
            "name: 'sthree-x' begins with 'sthree-': S3 reserves it for buckets; use another name",
        ),
        (
            GOOD.replace("tiny", "xn--jobs"),
            "name: 'xn--jobs' begins with 'xn--': S3 reserves it for buckets; use another name",
        ),
        (
            GOOD.replace("tiny", "aws"),
            (
                "name: 'aws' contains 'aws'; use a name without amazon, aws, cognito "
                "(Cognito's domain begins so)"
            ),
        ),
        (
            GOOD.replace("tiny", "my-aws-jobs"),
            (
                "name: 'my-aws-jobs' contains 'aws'; use a name without amazon, aws, cognito "
                "(Cognito's domain begins so)"
            ),
        ),
    ],
)
def test_a_mistake_names_its_key_and_what_is_allowed(tmp_path: Path, text: str, expected: str):
    (line,) = lines_for(tmp_path, text)
    assert line.startswith(expected) if expected.endswith(" should match") else line == expected


SOFTWARE = GOOD + '[fleets.main]\nqueues = ["default"]\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('ami = "ubuntu"', "fleets.main.ami: must be the id of an image, ami- and 17 hexadecimal "),
        ('ami = "ami-0123"', "it is 'ami-0123'"),
        ('ami = "/a b"', "or the name of an SSM parameter that contains one, which begins with a "),
        ('ami = "/tiny/main/image"', "fleets.main.ami: parameters below /tiny/ are of tenants"),
        (
            'ami = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-6.12-x86_64"',
            "al2023-ami-kernel-6.12-x86_64', which is for x86_64, but architecture is 'arm64'",
        ),
        (
            'architecture = "x86_64"',
            (
                "fleets.main: instance_types names 'c7g.large', which is arm64 by its name, but "
                "architecture is 'x86_64'"
            ),
        ),
        (
            'instance_types = ["c7g.large", "g6.xlarge"]',
            "names 'g6.xlarge', which is x86_64 by its name, but architecture is 'arm64'",
        ),
        (
            'packages = ["git; reboot"]',
            "fleets.main.packages.0: must be the name of a package for ",
        ),
        ('packages = ["git", "--nogpgcheck"]', "fleets.main.packages.1: must be the name of a "),
        ('packages = ["$(id)"]', "it is '$(id)'"),
        ('packages = ["@development"]', "it is '@development'"),
        ('packages = ["https://a.example/x.rpm"]', "it is 'https://a.example/x.rpm'"),
        ("packages = ['a\\'b']", "is not TOML"),
        ('packages = ["a\'b"]', """it is "a\'b\""""),
        ('packages = ["a\\nb"]', "it is 'a\\nb'"),
        ('etc = ["/etc/odbc.ini"]', "fleets.main.etc.0: must be the name of a file or directory "),
        ('etc = ["a/../shadow"]', "it is 'a/../shadow'"),
        ('etc = ["a/**"]', "it is 'a/**'"),
        ('etc = ["*"]', "it is '*'"),
        ('etc = ["odbc.ini", "passwd"]', "fleets.main.etc.1: /etc/passwd is the sandbox's own"),
        (f"etc = {['x'] * 51}", "fleets.main.etc: tuple should have at most 50 items "),
        (f"packages = {['git'] * 51}", "fleets.main.packages: tuple should have at most 50 items "),
        ('setup = "/etc/passwd"', "fleets.main.setup: must be the path of a file in or below the "),
        ('setup = "../setup.sh"', "it is '../setup.sh'"),
        ('setup = "a/../../setup.sh"', "it is 'a/../../setup.sh'"),
        ('setup = ""', "it is ''"),
    ],
)
def test_software_that_no_instance_could_have_is_refused(tmp_path: Path, text: str, expected: str):
    (line,) = lines_for(tmp_path, SOFTWARE + text)
    assert expected in line


@pytest.mark.parametrize(
    "text",
    [
        'ami = "ami-0123456789abcdef0"',
        'ami = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-6.12-arm64"',
        'ami = "/images/for-x86_64-and-arm64"',
        'packages = ["python3.12-3.12.4", "gcc-c++", "glibc.aarch64", "ffmpeg-free"]',
        'setup = "fleet/setup.sh"',
        'instance_types = ["a1.large", "t4g.nano", "im4gn.large", "g5g.xlarge", "is4gen.large"]',
        'architecture = "x86_64"\ninstance_types = ["g4dn.large", "u-3tb1.56xlarge", "p5.4xlarge"]',
    ],
)
def test_software_is_read(tmp_path: Path, text: str) -> None:
    file = tmp_path / "joblane.toml"
    file.write_text(SOFTWARE + text, encoding="utf-8")
    assert ["main"] == list(load_config(file).fleets)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "no such file"),
        (b"", "must begin with the program that runs it, such as #!/bin/bash"),
        (b"apt-get install x\n", "must begin with the program that runs it"),
        (b"#!/bin/sh\r\ntrue\r\n", "has the line ends of Windows"),
        (b"#!/bin/sh\n" + b"#" * 65_536, "is larger than 64 KiB; have it fetch what is large"),
    ],
)
def test_a_setup_file_that_cannot_run_is_refused(
    tmp_path: Path, content: bytes | None, expected: str
) -> None:
    file = tmp_path / "joblane.toml"
    file.write_text(SOFTWARE + 'setup = "fleet/setup.sh"\n', encoding="utf-8")
    (tmp_path / "fleet").mkdir()
    setup = tmp_path / "fleet" / "setup.sh"
    if content is not None:
        setup.write_bytes(content)
    with pytest.raises(ConfigError) as refusal:
        setup_files(file, load_config(file))
    (line,) = refusal.value.lines
    assert line.startswith(f"{file}: fleets.main.setup: {setup}: ")
    assert expected in line
    setup.write_bytes(b"#!/bin/sh\n" + b"#" * 65_526)
    assert {"main": setup} == setup_files(file, load_config(file))


def test_every_mistake_gets_its_line(tmp_path: Path) -> None:
    text = "removal = 'keep'\n" + GOOD + "threads = -1\nthread = 1\n"
    assert len(lines_for(tmp_path, text)) == 3


def test_what_is_not_toml_or_not_there_is_said(tmp_path: Path) -> None:
    assert (lines_for(tmp_path, "what is this")) == [
        "is not TOML: Expected '=' after a key in a key/value pair (at line 1, column 6)"
    ]
    with pytest.raises(ConfigError, match="no such file"):
        load_config(tmp_path / "absent.toml")


def test_the_app_ends_with_1_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process: Node, which is running, has read the context of `cdk` when it started."""
    file = tmp_path / "joblane.toml"
    file.write_text(GOOD + "threads = -1\n", encoding="utf-8")
    monkeypatch.setattr(aws_cdk, "App", lambda: new_app(tmp_path / "cdk.out", config=str(file)))

    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "app.py"), run_name="__main__")

    assert 1 == ended.value.code
    assert [
        f"{file}: queues.default.threads: input should be greater than or equal to 0; it is -1"
    ] == capsys.readouterr().err.splitlines()
