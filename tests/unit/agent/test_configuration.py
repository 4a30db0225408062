"""The agent's configuration file: its defaults, and what is said of a wrong one."""

from pathlib import Path

import pytest

from ec2_agent.command_line import EX_UNAVAILABLE, main
from ec2_agent.configuration import Configuration, read, state_directory
from ec2_agent.errors import CannotStart
from ec2_agent.state.settings import StateSettings
from joblane.target.fact_command import FactCommand


def test_the_defaults_are_the_ones_that_are_documented():
    documented = {
        "backend": "local",
        "sync_interval": 0.0,
        "region": None,
        "pool_size": 20,
        "read_timeout": 10.0,
        "dial_timeout": 5.0,
        "idle_after": 30.0,
        "idle_timeout": 0.5,
        "shutdown_timeout": 5.0,
        "retries": 3,
        "retry_min": 0.1,
        "retry_max": 2.0,
        "buffer": 10_000,
        "start_tries": 30,
        "start_interval": 1.0,
        "reconnect": 5.0,
    }
    assert documented == read(None).state.model_dump()
    page = (Path(__file__).parents[3] / "docs" / "reference" / "configuration.md").read_text()
    for name in documented:
        assert f"| `{name}` |" in page


def test_a_file_sets_what_it_names(tmp_path: Path):
    path = tmp_path / "agent.toml"
    path.write_text('[state]\nbackend = "memory"\npool_size = 4\n')
    assert Configuration(state=StateSettings(backend="memory", pool_size=4)) == read(path)
    path.write_text('[labels]\ngroup = "web.dev"\n')
    assert {"group": "web.dev"} == read(path).labels


def test_fact_commands_have_defaults(tmp_path: Path):
    path = tmp_path / "agent.toml"
    path.write_text('[facts.rack]\ncommand = ["cat", "/usr/share/rack"]\n')
    wanted = FactCommand(command=("cat", "/usr/share/rack"), timeout_s=5, every_s=300)
    assert {"rack": wanted} == read(path).facts


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[state]\npol_size = 4\n", "state.pol_size: unknown setting"),
        ("[stat]\n", "stat: unknown setting"),
        ('[state]\nbackend = "redis"\n', "state.backend: Input should be 'memory', 'local' or"),
        ("[state]\npool_size = 0\n", "state.pool_size: Input should be greater than or equal to 1"),
        ("[state\n", "not TOML"),
        ("[facts.a]\n", "facts.a.command: Field required"),
        ("[facts.a]\ncommand = []\n", "facts.a.command: Tuple should have at least 1 item"),
        ('[facts.a]\ncommand = ["x\\u0000"]\n', "facts.a.command.0: String should match"),
        ('[facts.a]\ncommand = ["x"]\nevery_s = 59\n', "facts.a.every_s: Input should be greater"),
        ('[facts.a]\ncommand = ["x"]\ntimeout_s = 61\n', "facts.a.timeout_s: Input should be less"),
        ('[facts.a]\ncommand = ["x"]\nshell = true\n', "facts.a.shell: unknown setting"),
        ('[facts.kernel]\ncommand = ["x"]\n', "kernel is a fact that the agent gives itself"),
        ('[facts."a b"]\ncommand = ["x"]\n', "facts.a b.[key]: String should match"),
        (
            "".join(f'[facts.a{n}]\ncommand = ["x"]\n' for n in range(21)),
            "facts: Dictionary should have at most 20 items",
        ),
        ('[labels]\nhost = "a"\n', "labels: label 'host' must have another key than host"),
        ('[labels]\n"a b" = "c"\n', "labels: label 'a b' must have a key of 1 to 63 of a-z, A-Z"),
        ('[labels]\ngroup = "web..dev"\n', "labels: label 'group' must have a value of segments"),
        ("[labels]\ngroup = 1\n", "labels.group: Input should be a valid string"),
        (
            "[labels]\n" + "".join(f'k{n} = "v"\n' for n in range(6)),
            "labels: an agent has at most 5 labels; these are 6",
        ),
    ],
)
def test_a_wrong_file_is_refused_by_name_and_field(tmp_path: Path, text: str, said: str):
    path = tmp_path / "agent.toml"
    path.write_text(text)
    with pytest.raises(CannotStart) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)


def test_a_missing_file_stops_the_agent_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert EX_UNAVAILABLE == main(["run", "--config", str(tmp_path / "none.toml")])
    assert f"joblane: {tmp_path / 'none.toml'}: No such file or directory\n" == (
        capsys.readouterr().err
    )


def test_agents_of_one_host_keep_their_files_apart(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/private/joblane:/other")
    assert Path("/var/lib/private/joblane/prod/a-1") == state_directory("prod", "a-1", 0)
    monkeypatch.delenv("STATE_DIRECTORY")
    assert Path("/var/lib/joblane/prod/a-2") == state_directory("prod", "a-2", 0)
    monkeypatch.setenv("XDG_STATE_HOME", "/home/ada/.state")
    assert Path("/home/ada/.state/joblane/prod/a-2") == state_directory("prod", "a-2", 1000)
