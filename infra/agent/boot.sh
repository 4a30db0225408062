#!/bin/sh
# User data of a fleet's instances. At the first boot it installs the fleet's packages, runs its setup
# file, and then installs the agent, by the script of the SSM document that State Manager runs to
# upgrade it. Other packages, or another setup file, are another launch template, which replaces the
# instances. No line here depends on a release: a new release replaces none.
# The stack replaces the words between at signs.
set -u

booted_ms=$(date +%s%3N)
agent=$(cat '@INSTANCE_ID@')
home='@HOME@'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# report WHAT: writes the row of this instance's agent, which `joblane agents` shows until the agent
# writes its own. A lease of 0 s: no reader takes it for a live agent.
report() {
  python3 - "$agent" "$booted_ms" "$1" >"$work/row" <<'END' &&
import json
import sys
import zlib

agent, booted_ms, what = sys.argv[1:]
text = {
    "shard": f"{zlib.crc32(agent.encode()) % 16:02d}",
    "agent": agent,
    "isolation": "none",
    "version": "none",
    "trouble": "".join(c if c.isprintable() else " " for c in what)[:300],
}
number = {
    "since": booted_ms,
    "beat": booted_ms,
    "lease": "0",
    "threads": "0",
    "running": "0",
    "expires_at": str(int(booted_ms) // 1000 + 86_400),
}
row = {name: {"S": value} for name, value in text.items()}
row |= {name: {"N": value} for name, value in number.items()}
print(json.dumps({**row, "queues": {"L": []}, "jobs": {"L": []}}))
END
    aws dynamodb put-item --region '@REGION@' --table-name '@AGENTS_TABLE@' \
      --item "file://$work/row" \
      --condition-expression 'attribute_not_exists(#agent) OR #lease = :none' \
      --expression-attribute-names '{"#agent": "agent", "#lease": "lease"}' \
      --expression-attribute-values '{":none": {"N": "0"}}'
}

# say WHAT: has it in the agent's row and on the console, which can be read for an hour after the
# instance is gone.
say() {
  echo "joblane: this instance $1" | tee -a '@CONSOLE@'
  report "$1"
}

last_line() {
  grep -v '^[[:space:]]*$' "$work/log" | tail -n 1
}

# The packages and the setup have this long together. An instance without an agent is replaced after
# ten minutes, and then nobody would know why it has none.
end_s=$(($(date +%s) + @SOFTWARE_S@))

# limited COMMAND...: runs it within what is left of that time.
limited() {
  left_s=$((end_s - $(date +%s)))
  [ "$left_s" -gt 0 ] || left_s=1
  code=0
  timeout --kill-after=10 "$left_s" "$@" </dev/null >"$work/log" 2>&1 || code=$?
  cat "$work/log"
  return "$code"
}

# retry COMMAND...: tries five times.
retry() {
  for pause_s in 2 5 10 20; do
    limited "$@" && return
    sleep "$pause_s"
  done
  limited "$@"
}

# fail WHAT CODE: says what the instance failed, and ends. What a setup has half done cannot be
# repeated: the instance stays without an agent, and the function instance_watch replaces it.
fail() {
  why="exit code $2"
  [ "$(date +%s)" -lt "$end_s" ] || why='not done after @SOFTWARE_S@ s'
  said=$(last_line)
  say "failed $1: $why${said:+: $said}"
  exit 1
}

mkdir -p "$home"
rm -f "$home/prepared" # an image may have been made of a prepared instance
set -- @PACKAGES@
if [ "$#" -gt 0 ]; then
  retry dnf install --quiet --assumeyes "$@" || fail 'to install its packages' "$?"
fi
setup='@SETUP_URL@'
if [ -n "$setup" ]; then
  retry aws s3 cp --only-show-errors --region '@REGION@' "$setup" "$home/setup" ||
    fail 'to fetch its setup' "$?"
  # Whoever may write to the bucket may not choose what runs as root here.
  echo '@SETUP_DIGEST@  '"$home/setup" >"$work/digest"
  limited sha256sum --check --quiet "$work/digest" || fail 'to fetch its setup' "$?"
  chmod 700 "$home/setup"
  limited "$home/setup" || fail 'its setup' "$?"
fi
# From now on State Manager may install the agent as well.
: >"$home/prepared"

install_agent() {
  aws ssm get-document --region '@REGION@' --name '@DOCUMENT@' --document-version '$LATEST' \
    --document-format JSON --query Content --output text >"$work/document" &&
    python3 -c 'import json, sys
for line in json.load(sys.stdin)["mainSteps"][0]["inputs"]["runCommand"]:
    print(line)' <"$work/document" >"$work/install.sh" &&
    sh "$work/install.sh"
}

for pause_s in 5 15 30 60 60 0; do
  if install_agent >"$work/log" 2>&1; then
    cat "$work/log"
    exit 0
  fi
  cat "$work/log"
  say "failed to install its agent: $(last_line)"
  sleep "$pause_s"
done
echo "joblane: gave up; State Manager tries again within 30 minutes" | tee -a '@CONSOLE@'
exit 1
