#!/bin/sh
# Installs or upgrades the Joblane agent on Amazon Linux 2023. User data (boot.sh) runs it while an
# instance boots; State Manager runs it on a new instance too, after every deployment that changes
# it, and every 30 minutes. A repeated run changes nothing.
# The stack replaces the words between at signs.
set -eu

home=@HOME@
release=$home/releases/@RELEASE@
python=python@PYTHON@
units=@UNITS@

# User data first installs what the fleet's jobs need, and then runs this script itself. On an
# instance where that has failed no agent may start.
if [ ! -e "$home/prepared" ]; then
  echo "the user data has not prepared this instance, or has failed: nothing is installed"
  exit 0
fi
mkdir -p "$home/releases" "$home/bin"
# A new instance has two callers at once.
exec 9>"$home/lock"
flock 9

# retry COMMAND...: tries five times. State Manager itself does not try again before its next run.
retry() {
  for pause_s in 2 5 10 20; do
    "$@" && return
    sleep "$pause_s"
  done
  "$@"
}

if [ ! -d "$release" ]; then
  echo "installing release @RELEASE@"
  rm -rf "$home/releases"/.installing-*
  retry dnf install --quiet --assumeyes "$python" libseccomp nftables e2fsprogs xfsprogs
  aside=$(mktemp -d "$home/releases/.installing-XXXXXX")
  trap 'rm -rf "$aside"' EXIT
  retry aws s3 cp --only-show-errors --region '@REGION@' '@BUNDLE_URL@' "$aside/bundle.zip"
  # Whoever may write to the bucket may not choose what runs as root here.
  echo '@BUNDLE_DIGEST@  '"$aside/bundle.zip" | sha256sum --check --quiet
  "$python" -m venv --without-pip "$aside/release"
  "$python" -m zipfile -e "$aside/bundle.zip" "$aside/bundle"
  cp -R "$aside/bundle/lib/." "$aside/release/lib/$python/site-packages/"
  # The agent's unit may not write here, so that each start would compile everything. -o 2: the agent
  # runs without docstrings (`joblane agent` adds -OO).
  "$python" -m compileall -q -o 0 -o 2 --invalidation-mode unchecked-hash \
    -s "$aside/release" -p "$release" "$aside/release/lib" || echo "some modules have no bytecode"
  # By `current`, so that the script of an old release never runs code of a new one.
  cat >"$aside/release/bin/joblane" <<END
#!$home/current/bin/python
import sys

from joblane.client.cli import main

sys.exit(main())
END
  chmod 755 "$aside/release" "$aside/release/bin/joblane"
  mv "$aside/release" "$release"
fi

changed=no
if [ "$(readlink "$home/current" || true)" != "$release" ]; then
  # A rename over the old link: the agent has a release at every moment.
  ln -sfn "$release" "$home/current.new"
  mv -T "$home/current.new" "$home/current"
  ln -sfn "$home/current/bin/joblane" "$home/bin/joblane"
  changed=yes
fi

# put FILE COMMAND...: writes standard input to the file, and runs the command if that changes it.
put() {
  cat >"$1.new"
  if cmp -s "$1.new" "$1"; then
    rm "$1.new"
    return
  fi
  mv "$1.new" "$1"
  changed=yes
  shift
  "$@"
}
disk=start
find_disk_again() { disk=restart; }
put "$home/disk.sh" find_disk_again <<'END'
@DISK_SCRIPT@
END
put "$units/joblane-disk.service" systemctl daemon-reload <<'END'
@DISK_UNIT@
END
put "$units/joblane-jobs.service" systemctl daemon-reload <<'END'
@JOBS_UNIT@
END
put "$units/joblane-agent.service" systemctl daemon-reload <<'END'
@AGENT_UNIT@
END
echo '@SETTINGS@' | base64 -d >"$home/agent.toml.given"
put "$home/agent.toml" : <"$home/agent.toml.given"
rm "$home/agent.toml.given"

# Jobs without disk_mb run on an instance whose disk is broken, too.
systemctl "$disk" joblane-disk || echo "the disk of @WORK_DIR@ is missing: see its journal"
systemctl --quiet enable joblane-agent
# An agent that was told to drain stays stopped until its release changes; one that does not work is
# started again every few seconds (activating). A restart hands running jobs over; the agent starts
# joblane-jobs, which is never stopped here, because it has the jobs. The restart waits for the first
# heartbeat: without one this run fails, and State Manager stops before all instances have the release.
case $changed:$(systemctl is-active joblane-agent) in
yes:* | *:activating | *:failed)
  systemctl restart joblane-agent || {
    why=$(journalctl --quiet --output cat --lines 1 _SYSTEMD_UNIT=joblane-agent.service || :)
    echo "the agent of release @RELEASE@ does not work: ${why:-see journalctl -u joblane-agent}"
    exit 1
  }
  ;;
esac
echo "joblane-agent runs release @RELEASE@"
