#!/bin/sh
# Installs or upgrades the Joblane agent on Amazon Linux 2023. State Manager runs it on a new
# instance, after every deployment that changes it, and once a day; doing it again changes nothing.
# The stack fills in the words between at signs.
set -eu

home=@HOME@
release=$home/releases/@RELEASE@
python=python@PYTHON@
units=@UNITS@

if [ ! -d "$release" ]; then
  echo "installing release @RELEASE@"
  dnf install --quiet --assumeyes "$python" libseccomp nftables
  mkdir -p "$home/releases" "$home/bin"
  aside=$(mktemp -d "$home/releases/.installing-XXXXXX")
  trap 'rm -rf "$aside"' EXIT
  aws s3 cp --only-show-errors --region '@REGION@' '@BUNDLE_URL@' "$aside/bundle.zip"
  "$python" -m venv --without-pip "$aside/release"
  "$python" -m zipfile -e "$aside/bundle.zip" "$aside/bundle"
  cp -R "$aside/bundle/lib/." "$aside/release/lib/$python/site-packages/"
  # Named through `current`, so the script of an old release never runs a new one's code halfway.
  cat >"$aside/release/bin/joblane" <<END
#!$home/current/bin/python
import sys

from client.cli import main

sys.exit(main())
END
  chmod 755 "$aside/release" "$aside/release/bin/joblane"
  mv "$aside/release" "$release"
fi

changed=no
if [ "$(readlink "$home/current" || true)" != "$release" ]; then
  # A rename over the old link: no moment at which the agent has no release.
  ln -sfn "$release" "$home/current.new"
  mv -T "$home/current.new" "$home/current"
  ln -sfn "$home/current/bin/joblane" "$home/bin/joblane"
  changed=yes
fi

# put_unit NAME: makes standard input that unit's file.
put_unit() {
  cat >"$units/$1.new"
  if cmp -s "$units/$1.new" "$units/$1"; then
    rm "$units/$1.new"
  else
    mv "$units/$1.new" "$units/$1"
    systemctl daemon-reload
    changed=yes
  fi
}
put_unit joblane-jobs.service <<'END'
@JOBS_UNIT@
END
put_unit joblane-agent.service <<'END'
@AGENT_UNIT@
END

systemctl --quiet enable joblane-agent
# An agent that left because it was told to stays away until its release changes. A restart hands
# running jobs over; the agent starts joblane-jobs, which nothing here ever stops: it has the jobs.
if [ "$changed" = yes ] || systemctl --quiet is-failed joblane-agent; then
  systemctl restart joblane-agent
fi
echo "joblane-agent runs release @RELEASE@"
