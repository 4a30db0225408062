"""The mount plan as a value: the root is complete and read-only on every kind of host."""

from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2_agent.sandbox import kernel, plan

names = st.sampled_from(["opt", "srv", "home", "usr", "root", "var", "a", "b", ".venv", "lib"])
programs = st.lists(
    st.lists(names, min_size=1, max_size=4).map(lambda parts: Path("/", *parts)), max_size=4
).map(tuple)


@st.composite
def hosts(draw: st.DrawFn, trees: tuple[Path, ...]) -> plan.SandboxHost:
    """Give a host: merged or split /usr, any of the files of /etc, the trees that are asked for."""
    links = {path: "usr" + path for path in plan.HOST_LINKS if draw(st.booleans())}
    directories = {"/usr", *map(str, trees)}
    directories |= {p for p in plan.HOST_LINKS if p not in links and draw(st.booleans())}
    files: set[str] = set()
    for path in plan.ETC:
        kind = draw(st.sampled_from(["missing", "file", "directory"]))
        if kind != "missing":
            (directories if kind == "directory" else files).add(path)
    return plan.SandboxHost(links, frozenset(directories), frozenset(files))


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
    allowed = {"/usr", *plan.HOST_LINKS, *plan.ETC, *plan.DEVICES}
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
    host = plan.SandboxHost({}, frozenset({name}), frozenset())
    plan.make_plan(host, (program,))
    with pytest.raises(ValueError, match="bundles of job types"):
        plan.make_plan(host, (program,), bundles=Path("/var/lib/bundles"))
