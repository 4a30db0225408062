"""The fleet stack: instances without inbound access that install their agent themselves."""

import configparser
import hashlib
import json
import os
import re
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ec2_agent.agent import EX_TEMPFAIL, FLUSH_S
from ec2_agent.attempt.preparation import GRACE_S
from ec2_agent.attempt.run import GONE_S, SHIP_TIMEOUT_S
from infra.agent_install import Installation, fill
from infra.assets import archive
from infra.errors import AssetError
from tests.infra.synthesis import Deployment, synthesize

FLEET = "fleet-main"


def template_data(deployment: Deployment) -> dict[str, Any]:
    data: dict[str, Any] = deployment.one("AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    return data


def test_a_deployment_without_fleets_has_no_stack_for_one(
    production: Deployment, tmp_path: Path
) -> None:
    stacks = ("data", "lanes", "identity", "api", "upkeep", "recovery", "projection")
    core = {f"joblane-{stack}" for stack in stacks}
    assert core | {"joblane-fleet-main"} == set(production.templates)
    without = production.config.model_copy(update={"fleets": {}})
    assert core == set(synthesize(without, tmp_path).templates)


def test_instances_guard_their_credentials(production: Deployment) -> None:
    assert (template_data(production)["MetadataOptions"]) == {
        "HttpTokens": "required",
        "HttpPutResponseHopLimit": 1,
    }


def test_volumes_are_encrypted_gp3(production: Deployment) -> None:
    (device,) = template_data(production)["BlockDeviceMappings"]
    assert tuple(
        device["Ebs"][key] for key in ("Encrypted", "VolumeType", "DeleteOnTermination")
    ) == (True, "gp3", True)


def test_the_image_is_resolved_when_an_instance_starts(production: Deployment) -> None:
    assert (
        template_data(production)["ImageId"]
        == "resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64"
    )


def test_nothing_can_connect_in(production: Deployment) -> None:
    assert "SecurityGroupIngress" not in production.one("AWS::EC2::SecurityGroup")
    assert not production.resources("AWS::EC2::SecurityGroupIngress")
    assert "KeyName" not in template_data(production)


def test_the_network_costs_nothing_when_idle(production: Deployment) -> None:
    assert len(production.resources("AWS::EC2::Subnet")) == 2
    assert not production.resources("AWS::EC2::NatGateway")
    assert not production.resources("AWS::EC2::EIP")
    assert [
        endpoint["VpcEndpointType"] for endpoint in production.properties("AWS::EC2::VPCEndpoint")
    ] == ["Gateway", "Gateway"]


def test_the_group_has_the_declared_sizes_and_types_and_no_desired_size(
    production: Deployment,
) -> None:
    group = production.one("AWS::AutoScaling::AutoScalingGroup")
    policy = group["MixedInstancesPolicy"]

    assert (group["MinSize"], group["MaxSize"]) == ("0", "4")
    assert "DesiredCapacity" not in group  # the reconciler's; a deployment must not reset it
    assert [override["InstanceType"] for override in policy["LaunchTemplate"]["Overrides"]] == [
        "c7g.large",
        "c6g.large",
    ]
    assert policy["InstancesDistribution"]["OnDemandAllocationStrategy"] == "prioritized"
    assert {"Key": "joblane:fleet", "PropagateAtLaunch": True, "Value": "joblane-main"} in (
        group["Tags"]
    )


def test_state_manager_installs_on_the_fleets_instances(production: Deployment) -> None:
    association = production.one("AWS::SSM::Association")

    assert association["Name"] == "AWS-RunShellScript"
    assert association["Targets"] == [{"Key": "tag:joblane:fleet", "Values": ["joblane-main"]}]
    script = json.dumps(association["Parameters"]["commands"])
    for needed in (
        "KillMode=process",
        "RestartKillSignal=SIGHUP",
        "OOMScoreAdjust=-1000",
        "Restart=on-failure",
        (
            "ExecStart=/bin/sh -c 'exec /opt/joblane/bin/joblane agent "
            '--name \\"$(cat /var/lib/cloud/data/instance-id)\\" '
            "--deployment joblane --fleet main --queue default --threads 8 --isolation full "
            "--cgroup /sys/fs/cgroup/system.slice/joblane-jobs.service --max-memory-mb 3072'"
        ),
        "s3://",
    ):
        assert needed in script


def installation(tmp_path: Path, release: str, **changes: Any) -> Installation:
    values: dict[str, Any] = {
        "deployment": "joblane",
        "fleet": "main",
        "queues": ("default",),
        "threads": 8,
        "allow_host_network": False,
        "egress_allow": (),
        "egress_refuse": ("203.0.113.0/24",),
        "egress_mbps": None,
        "max_memory_mb": None,
        "release": release,
        "bundle_url": "s3://bucket/bundle.zip",
        "bundle_sha256": hashlib.sha256().hexdigest(),  # of the stand-in's, which is empty
        "region": "eu-west-1",
        "home": str(tmp_path / "opt"),
        "units": str(tmp_path),
    }
    return Installation(**{**values, **changes})


def install(tmp_path: Path, script: list[str], *, failed: bool = False) -> list[str]:
    """Run the script with stand-ins for the system's programs; return what it asked of them."""
    tools = tmp_path / "tools"
    asked = tmp_path / "asked"
    asked.write_text("", encoding="utf-8")
    if not tools.exists():
        tools.mkdir()
        stand_ins = {
            "dnf": "",
            "systemctl": f'[ "$2" != is-failed ] || [ -e {tmp_path}/failed ]',
            # `aws s3 cp ... URL FILE`
            "aws": 'for file; do :; done; : >"$file"',
            # `python -m venv --without-pip DIR` and `python -m zipfile -e ZIP DIR`
            "python3.12": 'for dir; do :; done; case "$2" in\n'
            'venv) mkdir -p "$dir/bin" "$dir/lib/python3.12/site-packages" ;;\n'
            'zipfile) mkdir -p "$dir/lib/client" ;; esac',
        }
        for name, body in stand_ins.items():
            tool = tools / name
            tool.write_text(f'#!/bin/sh\necho {name} "$@" >>{asked}\n{body}\n', encoding="utf-8")
            tool.chmod(0o755)
    if failed:
        (tmp_path / "failed").touch()
    done = subprocess.run(
        ["/bin/sh", "-c", "\n".join(script)],
        env={"PATH": f"{tools}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return asked.read_text(encoding="utf-8").splitlines()


def test_the_script_installs_then_changes_nothing_then_upgrades(tmp_path: Path) -> None:
    first = install(tmp_path, installation(tmp_path, "one").script())
    again = install(tmp_path, installation(tmp_path, "one").script())
    second = install(tmp_path, installation(tmp_path, "two").script())

    restart = "systemctl restart joblane-agent"
    assert "dnf install --quiet --assumeyes python3.12 libseccomp nftables" in first
    assert restart == first[-1]
    assert (again) == [
        "systemctl --quiet enable joblane-agent",
        "systemctl --quiet is-failed joblane-agent",
    ]
    assert restart == second[-1]
    home = tmp_path / "opt"
    assert home / "releases/two" == (home / "current").resolve()
    assert (home / "current/lib/python3.12/site-packages/client").is_dir()
    assert (
        (home / "bin/joblane")
        .read_text(encoding="utf-8")
        .startswith(f"#!{home}/current/bin/python\n")
    )
    assert {"one", "two"} == {release.name for release in (home / "releases").iterdir()}


def test_a_forged_bundle_is_not_installed(tmp_path: Path) -> None:
    install(tmp_path, installation(tmp_path, "one").script())
    forged = installation(tmp_path, "two", bundle_sha256=hashlib.sha256(b"ours").hexdigest())
    with pytest.raises(AssertionError, match="NOT match"):
        install(tmp_path, forged.script())
    asked = (tmp_path / "asked").read_text(encoding="utf-8")
    assert "systemctl" not in asked
    assert "zipfile" not in asked
    releases = tmp_path / "opt" / "releases"
    assert ["one"] == [path.name for path in releases.iterdir()]
    assert releases / "one" == (tmp_path / "opt" / "current").resolve()


def test_the_archive_of_a_bundle_is_the_same_whenever_it_is_made(tmp_path: Path) -> None:
    made = []
    for name, at_s in (("one", 1e9), ("two", 1.5e9)):
        (tmp_path / name / "lib").mkdir(parents=True)
        for file in ("b.py", "a.py"):
            (tmp_path / name / "lib" / file).write_text(file, encoding="utf-8")
            os.utime(tmp_path / name / "lib" / file, (at_s, at_s))
        made.append(archive(tmp_path / name))
    assert made[0].sha256 == made[1].sha256
    with zipfile.ZipFile(made[0].path) as bundle:
        assert ["lib/a.py", "lib/b.py"] == bundle.namelist()


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


def test_an_agent_that_failed_is_started_and_one_that_was_told_to_leave_is_not(
    tmp_path: Path,
) -> None:
    script = installation(tmp_path, "one").script()
    install(tmp_path, script)
    restart = "systemctl restart joblane-agent"
    assert restart not in install(tmp_path, script)
    assert restart == install(tmp_path, script, failed=True)[-1]


def test_an_instance_ends_when_its_agent_has_left(production: Deployment) -> None:
    hook = production.one("AWS::AutoScaling::LifecycleHook")
    assert (
        "joblane-leaving",
        "autoscaling:EC2_INSTANCE_TERMINATING",
        "CONTINUE",
        300,
    ) == (
        hook["LifecycleHookName"],
        hook["LifecycleTransition"],
        hook["DefaultResult"],
        hook["HeartbeatTimeout"],
    )


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


def test_a_place_without_a_value_is_refused() -> None:
    with pytest.raises(AssetError, match="@SIZE@ has no value"):
        fill("size=@SIZE@", {"NAME": "x"})
