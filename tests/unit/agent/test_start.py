"""Starting an agent: what cannot work is said in one line, before any job is taken."""

from pathlib import Path

import pytest

from ec2_agent import start
from ec2_agent.command_line import EX_UNAVAILABLE, main
from tests.support.aws import Cloud


@pytest.fixture(name="_deployment")
def _deployment(aws: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents start in the deployment in memory."""
    monkeypatch.setattr(start, "LazyClients", lambda: aws.clients)


@pytest.mark.usefixtures("_deployment")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--deployment", "nowhere"], "/nowhere/descriptor"),
        (["--queue", "gpu"], "--queue gpu: this deployment has default, bulk"),
    ],
)
def test_what_an_agent_cannot_serve_is_said_in_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
):
    assert EX_UNAVAILABLE == main(["run", "--isolation", "namespaces", *arguments])
    (line,) = [x for x in capsys.readouterr().err.splitlines() if x.startswith("joblane: ")]
    assert said in line


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["group"], "must be KEY=VALUE, such as group=web.dev"),
        (["group=a", "group=b"], "has the key group twice"),
        (["host=a"], "label 'host' must have another key than host"),
        (["a b=c"], "label 'a b' must have a key of 1 to 63 of a-z, A-Z, 0-9, _ and -"),
        (["group=web..dev"], "label 'group' must have a value of segments with dots between"),
        ([f"k{n}=v" for n in range(6)], "an agent has at most 5 labels; these are 6"),
    ],
)
def test_a_wrong_label_is_wrong_usage(
    labels: list[str], said: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as exited:
        main(["run", *(f"--label={label}" for label in labels)])
    assert 2 == exited.value.code
    assert f"argument --label: {said}" in capsys.readouterr().err


@pytest.mark.usefixtures("_deployment")
def test_labels_of_file_and_command_line_together_are_too_many(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "agent.toml"
    file.write_text("[labels]\n" + "".join(f'k{n} = "v"\n' for n in range(5)))
    labels = ("--label=group=web", "--label=k0=w")
    assert EX_UNAVAILABLE == main(["run", "--config", str(file), *labels])
    assert "an agent has at most 5 labels; these are 6" in capsys.readouterr().err


@pytest.mark.usefixtures("_deployment")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--isolation", "namespaces", "--cgroup", "/"], "--cgroup needs --isolation full"),
        (["--cgroup", "/nowhere"], "cgroup /nowhere does not exist; its unit must be active"),
        (["--cgroup", "/usr"], "/usr is not a cgroup"),
    ],
)
def test_a_cgroup_that_cannot_be_had_is_said_in_one_line(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    assert EX_UNAVAILABLE == main(["run", *arguments])
    (line,) = [x for x in capsys.readouterr().err.splitlines() if x.startswith("joblane: ")]
    assert said in line


@pytest.mark.usefixtures("_deployment")
def test_a_descriptor_of_another_version_says_what_to_do(
    aws: Cloud, capsys: pytest.CaptureFixture[str]
):
    aws.clients.make("ssm").put_parameter(
        Name="/joblane/descriptor", Value="{}", Type="String", Overwrite=True
    )
    assert EX_UNAVAILABLE == main(["run"])
    assert "another version" in capsys.readouterr().err


@pytest.mark.parametrize("bad", [["--threads", "0"], ["--name", "a/b"], ["--isolation", "vm"]])
def test_a_wrong_option_is_wrong_usage(bad: list[str]):
    with pytest.raises(SystemExit) as stopped:
        main(["run", *bad])
    assert 2 == stopped.value.code
