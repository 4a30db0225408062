"""An instance of a fleet: a machine with systemd, on which install.sh installs the agent.

systemd, the units and the script are the real ones. Stand-ins give the script what AWS and dnf
would: a release is whatever command runs in place of its Python.
"""

import hashlib
import sys
from collections.abc import Mapping

from infra.agent_install import AGENT_UNIT, JOBS_CGROUP, Installation
from infra.assets import AGENT_PYTHON
from joblane.config.fleet import FleetState
from tests.kernel.architectures import REPOSITORY
from tests.kernel.vm import Machine

NAME = "i-0123456789abcdef0"

_PREPARE = """
set -e
mkdir -p /run/tools /run/opt /var/lib/cloud/data /etc/systemd/system/{agent}.d
echo {name} >/var/lib/cloud/data/instance-id
touch /run/opt/prepared
echo nameserver 10.0.2.3 >/run/resolv.conf
mount --bind /run/resolv.conf /etc/resolv.conf
cat >/etc/systemd/system/{agent}.d/local.conf <<END
[Service]
{environment}
BindReadOnlyPaths={places}
StandardOutput=append:/run/agent.log
StandardError=append:/run/agent.log
END
cd /run/tools
printf '#!/bin/sh\\n' >dnf
printf '#!/bin/sh\\nfor file; do :; done; : >"$file"\\n' >aws
cat >python{version} <<'END'
#!/bin/sh
for dir; do :; done
case $2 in
venv)
  mkdir -p "$dir/bin" "$dir/lib/python{version}/site-packages"
  printf '#!/bin/sh\\nexec {command} "$@"\\n' >"$dir/bin/python"
  chmod 755 "$dir/bin/python" ;;
zipfile) mkdir -p "$dir/lib/client" ;;
esac
END
chmod 755 *
"""


class Instance:
    """What an operator and State Manager do on it."""

    def __init__(
        self, machine: Machine, command: str, environment: Mapping[str, str], threads: int
    ) -> None:
        """Prepare the machine; no agent yet.

        `command` takes the arguments of a release's Python: the script `joblane`, and its own.
        """
        self._machine = machine
        self._threads = threads
        variables = "\n".join(f"Environment={key}={value}" for key, value in environment.items())
        self(
            _PREPARE.format(
                agent=AGENT_UNIT,
                name=NAME,
                environment=variables,
                # A checkout and its Python may be below /tmp or a home.
                places=f"{REPOSITORY} {sys.base_prefix}",
                version=AGENT_PYTHON,
                command=command,
            )
        )

    def __call__(self, script: str) -> str:
        """Run a script as root; give what it wrote. It must succeed."""
        done = self._machine(script)
        if done.exit_code != 0:
            log = self._machine("dmesg | tail -60; cat /run/agent.log").output
            raise AssertionError(f"{script}\n{done.output}\n{log}")
        return done.output

    def install(self, release: str, *, works: bool = True) -> None:
        """Do what State Manager does for a release, whose agent works or does not."""
        script = Installation(
            deployment="joblane",
            fleet="main",
            queues=("default",),
            threads=self._threads,
            allow_host_network=False,
            egress_allow=(),
            egress_refuse=(),
            egress_mbps=None,
            labels={},
            max_memory_mb=None,
            disk_gb=None,
            etc=(),
            facts={},
            state=FleetState(),
            release=release,
            bundle_url="s3://bucket/bundle.zip",
            bundle_sha256=hashlib.sha256().hexdigest(),  # of an empty file
            region="us-east-1",
            home="/run/opt",
        ).script()
        lines = "\n".join(("export PATH=/run/tools:$PATH", *script))
        self(lines if works else f"! (\n{lines}\n)")

    def show(self, unit: str, name: str) -> str:
        """Give a property of a unit."""
        return self(f"systemctl show --value -p {name} {unit}").strip()

    def rooms(self) -> list[str]:
        """The launchers whose cgroups there are."""
        return self(f"cd {JOBS_CGROUP} && ls -d joblane-*").split()

    def tell_jobs_to_stop(self) -> None:
        """Make the file that they wait for: /tmp/stop."""
        self(
            f"for pid in $(cat {JOBS_CGROUP}/joblane-*/*/cgroup.procs); do\n"
            "touch /proc/$pid/root/tmp/stop || kill -0 $pid || continue; done 2>/dev/null"
        )
