"""What the installation of an agent writes: units of systemd, and the agent's options and facts."""

import configparser
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2_agent.agent import EX_TEMPFAIL, FLUSH_S
from ec2_agent.attempt.run import GONE_S, SHIP_TIMEOUT_S
from ec2_agent.command_line import make_parser
from ec2_agent.configuration import Configuration, read
from infra.agent_install import INSTALL_TIMEOUT_S, agent_file, fill
from infra.errors import AssetError
from joblane.config.fleet import FleetState
from joblane.job.fields import GRACE_S
from joblane.target.fact_command import FactCommand
from joblane.target.match import parse_labels
from tests.infra.test_install import install, installation, prepare
from tests.support.depth import budget

WORDS = st.text(
    st.characters(exclude_categories=["Cs"]).filter(lambda c: c >= " " and c != "\x7f"),
    min_size=1,
    max_size=20,
)
FACT_COMMANDS = st.builds(
    FactCommand,
    command=st.lists(WORDS, min_size=1, max_size=4).map(tuple),
    timeout_s=st.floats(0.1, 60),
    every_s=st.floats(60, 86_400),
    host=st.booleans(),
)


def sections(unit: Path) -> configparser.ConfigParser:
    # systemd adds up the values of a setting that is given twice.
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[method-assign, assignment]
    parser.read_string(unit.read_text(encoding="utf-8"))
    return parser


def test_what_has_the_jobs_is_never_stopped_and_the_agent_has_none(tmp_path: Path) -> None:
    asked = install(tmp_path, installation(tmp_path, "one").script())
    (tmp_path / "joblane-jobs.service").write_text("[Service]\n", encoding="utf-8")
    asked += install(tmp_path, installation(tmp_path, "two").script())

    assert not [line for line in asked if "joblane-jobs" in line]
    agent = sections(tmp_path / "joblane-agent.service")
    jobs = sections(tmp_path / "joblane-jobs.service")
    # Systemd can start a process in a cgroup as long as its children have no controllers.
    assert ("Delegate" in jobs["Service"], "Delegate" in agent["Service"]) == (True, False)
    assert "joblane-jobs.service" in agent["Unit"]["Wants"]
    assert "joblane-jobs.service" in agent["Unit"]["After"]


def test_systemd_waits_for_a_drain_and_comes_back_after_a_hand_over(tmp_path: Path) -> None:
    install(tmp_path, installation(tmp_path, "one").script())
    service = sections(tmp_path / "joblane-agent.service")["Service"]
    drain_s = 60  # the default of --drain-s, which the unit keeps
    assert "--drain-s" not in service["ExecStart"]
    assert int(service["TimeoutStopSec"]) > drain_s + GRACE_S + SHIP_TIMEOUT_S + GONE_S + FLUSH_S
    assert service["RestartForceExitStatus"] == service["SuccessExitStatus"] == str(EX_TEMPFAIL)


def test_a_start_ends_with_the_first_heartbeat_and_one_that_hangs_costs_no_job(
    tmp_path: Path,
) -> None:
    install(tmp_path, installation(tmp_path, "one").script())
    service = sections(tmp_path / "joblane-agent.service")["Service"]
    assert ("notify", "kill") == (service["Type"], service["TimeoutStartFailureMode"])
    # Before State Manager ends the script, which waits for it.
    assert int(service["TimeoutStartSec"]) < INSTALL_TIMEOUT_S / 2


def test_an_agent_that_failed_is_started_and_one_that_was_told_to_leave_is_not(
    tmp_path: Path,
) -> None:
    script = installation(tmp_path, "one").script()
    install(tmp_path, script)
    restart = "systemctl restart joblane-agent"
    assert restart not in install(tmp_path, script)
    assert restart not in install(tmp_path, script, state="inactive")
    for state in ("activating", "failed"):
        assert restart == install(tmp_path, script, state=state)[-1]


FACTS = {
    "rack": FactCommand(command=("cat", "/usr/local/share/rack")),
    "odd.name": FactCommand(
        command=("printf", "'\"\\$(id) `id` @HOME@ {{ ssm:x }} END %n \u2028\xe9"),
        timeout_s=0.5,
        every_s=86_400,
        host=True,
    ),
}


def test_fact_commands_reach_the_agent_as_they_are_written(tmp_path: Path) -> None:
    script = installation(tmp_path, "one", facts=FACTS).script()
    install(tmp_path, script)
    home = tmp_path / "opt"
    assert FACTS == read(home / "agent.toml").facts
    assert {"agent.toml", "bin", "current", "disk.sh", "lock", "prepared", "releases"} == {
        f.name for f in home.iterdir()
    }
    service = sections(tmp_path / "joblane-agent.service")["Service"]
    assert f"--config {home}/agent.toml" in service["ExecStart"]
    assert "{{" not in "\n".join(script), "Systems Manager replaces what stands in two braces"
    assert "restart" not in " ".join(install(tmp_path, script))
    changed = installation(tmp_path, "one").script()
    assert "systemctl restart joblane-agent" == install(tmp_path, changed)[-1]
    assert {} == read(home / "agent.toml").facts


NAMES = st.from_regex(rf"\Ac[a-zA-Z0-9_.-]{{0,{budget(7, 62)}}}\Z")


@given(st.dictionaries(NAMES, FACT_COMMANDS, max_size=budget(2, 5)))
def test_the_agents_file_holds_any_fact_commands(facts: dict[str, FactCommand]) -> None:
    assert facts == Configuration.model_validate(tomllib.loads(agent_file(facts))).facts


def test_where_records_are_kept_reaches_the_agents_file(tmp_path: Path) -> None:
    state = FleetState(backend="local", sync_interval=2.5)
    install(tmp_path, installation(tmp_path, "one", state=state, facts=FACTS).script())
    configuration = read(tmp_path / "opt" / "agent.toml")
    assert ("local", 2.5) == (configuration.state.backend, configuration.state.sync_interval)
    assert FACTS == configuration.facts


def test_names_of_etc_reach_the_agents_file(tmp_path: Path) -> None:
    named = installation(tmp_path, "one", etc=("odbc.ini", "java-*"))
    prepare(tmp_path)
    install(tmp_path, named.script())
    assert ("odbc.ini", "java-*") == read(tmp_path / "opt" / "agent.toml").etc
    assert named.fingerprint() != installation(tmp_path, "one").fingerprint()


def test_a_changed_unit_restarts_the_agent(tmp_path: Path) -> None:
    install(tmp_path, installation(tmp_path, "one").script())

    changed = installation(tmp_path, "one", allow_host_network=True, egress_mbps=50)
    asked = install(tmp_path, changed.script())

    assert "systemctl daemon-reload" in asked
    assert asked[-1] == "systemctl restart joblane-agent"
    unit = (tmp_path / "joblane-agent.service").read_text(encoding="utf-8")
    options = "--allow-host-network --egress-refuse 203.0.113.0/24 --egress-mbps 50"
    assert f"joblane-jobs.service {options}'\n" in unit
    assert not re.search(r"@[A-Z_]+@", unit)  # groups of system calls begin with one


def test_labels_of_a_fleet_are_options_of_its_agents(tmp_path: Path) -> None:
    labelled = installation(tmp_path, "one", labels={"role": "cache", "-group": "web.dev"})
    (command,) = [line for line in labelled.script() if line.startswith("ExecStart=/bin/sh -c")]
    given = make_parser().parse_args(["run", *command.partition(" agent ")[2].split()[3:]])
    assert {"role": "cache", "-group": "web.dev"} == parse_labels(given.labels)


def test_a_place_without_a_value_is_refused() -> None:
    with pytest.raises(AssetError, match="@SIZE@ has no value"):
        fill("size=@SIZE@", {"NAME": "x"})


def test_an_instance_without_its_disk_installs_its_agent_all_the_same(tmp_path: Path) -> None:
    prepare(tmp_path)
    tool = tmp_path / "tools" / "systemctl"
    tool.write_text(
        tool.read_text(encoding="utf-8").replace("\n[", '\n[ "$2" != joblane-disk ] && [', 1),
        encoding="utf-8",
    )
    asked = install(tmp_path, installation(tmp_path, "one", disk_gb=50).script())
    assert asked[-1] == "systemctl restart joblane-agent"
    service = sections(tmp_path / "joblane-agent.service")
    assert "joblane-disk.service" in service["Unit"]["After"].split()
    assert "-/var/lib/joblane-disk" == service["Service"]["ReadWritePaths"]
    assert Path("/var/lib/joblane-disk") == read(tmp_path / "opt" / "agent.toml").work_dir
