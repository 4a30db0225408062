"""The mount plan as a value: the root is complete and read-only on every kind of host."""

import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2_agent.sandbox import kernel, plan, root
from joblane.fleet import etc_names

names = st.sampled_from(["opt", "srv", "home", "usr", "root", "var", "a", "b", ".venv", "lib"])
programs = st.lists(
    st.lists(names, min_size=1, max_size=4).map(lambda parts: Path("/", *parts)), max_size=4
).map(tuple)


@st.composite
def hosts(draw: st.DrawFn, trees: tuple[Path, ...]) -> plan.SandboxHost:
    """Give a host: merged or split /usr, any of the names of /etc, the trees that are asked for."""
    links = {path: "usr" + path for path in plan.HOST_LINKS if draw(st.booleans())}
    directories = {"/usr", *map(str, trees)}
    directories |= {p for p in plan.HOST_LINKS if p not in links and draw(st.booleans())}
    etc = draw(st.sets(st.sampled_from([f"/etc/{name}" for name in plan.ETC])))
    return plan.SandboxHost(links, frozenset(directories), tuple(sorted(etc)))


@given(st.data(), programs)
def test_every_plan_can_be_carried_out_in_order(data: st.DataObject, trees: tuple[Path, ...]):
    host = data.draw(hosts(trees))
    privileged = data.draw(st.booleans())
    steps = plan.make_plan(host, trees, ("10.0.0.2",), privileged=privileged)
    assert steps[0][:2] == ("tmpfs", "/")
    made: dict[str, str] = {"/": "dir"}
    bound: list[str] = []
    for kind, path, *rest in steps[1:]:
        assert isinstance(path, str)
        parent = str(PurePosixPath(path).parent)
        inside = any(PurePosixPath(path).is_relative_to(tree) for tree in bound if tree != path)
        assert not inside, f"{kind!r} {path} would write into the host's own tree"
        if kind == "bind":
            assert made[path] in ("dir", "file"), f"nothing to mount {path} on"
            bound.append(path)
            assert rest[0] == path
            assert int(rest[1]) & kernel.ATTR_RDONLY
            assert int(rest[1]) & kernel.ATTR_NOSUID
        else:
            assert path not in made, f"{path} is made twice"
            assert made[parent] == "dir", f"{parent} is no directory yet"
            made[path] = str(kind)
    for tree in trees:
        assert any(PurePosixPath(tree).is_relative_to(shown) for shown in bound) or any(
            PurePosixPath(tree).is_relative_to(link) for link in host.links
        )


@given(st.data())
def test_nothing_of_the_host_is_shown_but_the_list(data: st.DataObject) -> None:
    host = data.draw(hosts(()))
    allowed = {"/usr", *plan.HOST_LINKS, *host.etc, *plan.DEVICES}
    shown = {step[2] for step in plan.make_plan(host) if step[0] in ("bind", "copy")}
    assert shown <= allowed


def test_devices_cannot_be_executed_and_files_hold_no_devices() -> None:
    for step in plan.make_plan(plan.look(())):
        if step[0] == "bind":
            wanted = kernel.ATTR_NOEXEC if str(step[1]).startswith("/dev/") else kernel.ATTR_NODEV
            assert int(step[3]) & wanted


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        ("/", "absolute path"),
        ("opt/x", "absolute path"),
        ("/opt/../etc", "absolute path"),
        ("/proc/1", "of its own"),
        ("/etc", "of its own"),
        ("/tmp/x", "of its own"),
        ("/run/docker", "of its own"),
        ("/no/such/place", "not a directory"),
    ],
)
def test_a_tree_that_cannot_be_shown_is_refused(tree: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        plan.make_plan(plan.look((Path(tree),)), (Path(tree),))


def test_the_resolvers_are_the_jobs() -> None:
    steps = plan.make_plan(plan.look(()), (), ("10.0.0.2", "10.0.0.3"))
    content = next(step[2] for step in steps if step[1] == "/etc/resolv.conf")
    assert content == b"nameserver 10.0.0.2\nnameserver 10.0.0.3\n"


@pytest.mark.parametrize("name", ["/opt", "/opt/joblane", "/opt/joblane/type/x"])
def test_programs_do_not_lie_where_bundles_are(name: str) -> None:
    program = Path(name)
    host = plan.SandboxHost({}, frozenset({name}), ())
    plan.make_plan(host, (program,))
    with pytest.raises(ValueError, match="bundles of job types"):
        plan.make_plan(host, (program,), bundles=Path("/var/lib/bundles"))


@pytest.fixture(name="etc")
def _etc() -> Iterator[Path]:
    """A directory like /etc, which every user may read: not so those of pytest."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def place(path: Path, mode: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x", encoding="utf-8")
    path.chmod(mode)
    return path


def test_names_of_etc_are_those_of_the_list_and_of_the_fleet(etc: Path) -> None:
    for name in ("java-17-openjdk/security/java.security", "ssl/certs/a.pem", "odbc.ini", "fstab"):
        place(etc / name, 0o644)
    assert plan.look((), (), etc).etc == (f"{etc}/java-17-openjdk", f"{etc}/ssl/certs")
    assert plan.look((), ("odbc.ini", "no*"), etc).etc[1:] == (
        f"{etc}/odbc.ini",
        f"{etc}/ssl/certs",
    )
    assert plan.look((), ("no*",), etc).left_out == (f"{etc}/no*: nothing is there",)


def test_a_directory_is_copied_once(etc: Path) -> None:
    place(etc / "ssl/certs/a.pem", 0o644)
    place(etc / "ssl/mine.cnf", 0o644)
    assert plan.look((), ("ssl", "ssl/mine.cnf", "s*"), etc).etc == (f"{etc}/ssl",)


@pytest.mark.parametrize(
    ("mode", "above"), [(0o640, 0o755), (0o600, 0o755), (0o644, 0o750), (0o644, 0o754)]
)
@pytest.mark.parametrize("linked", [False, True])
def test_what_not_every_user_may_read_is_left_out(
    etc: Path,
    mode: int,
    above: int,
    linked: bool,
) -> None:
    secret = place(etc / "own/secret", mode)
    secret.parent.chmod(above)
    name = "own/secret"
    if linked:
        (etc / "link").symlink_to(secret)
        name = "link"
    found = plan.look((), (name,), etc)
    assert found.etc == ()
    assert found.left_out == (f"{etc}/{name}: not every user may read it",)


def test_a_device_is_left_out(etc: Path) -> None:
    (etc / "null").symlink_to("/dev/null")
    assert plan.look((), ("null",), etc).etc == ()


def test_a_copy_leaves_out_what_not_every_user_may_read(etc: Path) -> None:
    source, target = etc / "ssl", etc / "copy"
    place(source / "public", 0o444)
    place(source / "secret", 0o640)
    place(source / "private/key", 0o644)
    (source / "private").chmod(0o710)
    place(source / "inner/public", 0o755)
    (source / "link").symlink_to("/etc/shadow")
    root.copy(str(source), str(target))
    found = {str(path.relative_to(target)) for path in target.rglob("*")}
    assert found == {"inner", "inner/public", "link", "public"}
    assert str((target / "link").readlink()) == "/etc/shadow"
    assert (target / "public").stat().st_mode & 0o777 == 0o444


def test_own_files_of_a_sandbox_are_not_the_hosts() -> None:
    assert {f"/etc/{name}" for name in etc_names.OWN} == plan.OWN_PATHS
    hosts_own = plan.look((), ("passwd", "group*", "host*", "nsswitch.conf", "resolv.conf")).etc
    assert not plan.OWN_PATHS & set(hosts_own)
