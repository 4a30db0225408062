#!/bin/sh
# User data of a fleet's instances: installs the agent at the first boot, by the script of the SSM
# document that State Manager runs to upgrade it. No line here depends on a release: a new release
# changes no launch template, so it replaces no instance.
# The stack replaces the words between at signs.
set -u

booted_ms=$(date +%s%3N)
agent=$(cat '@INSTANCE_ID@')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

install_agent() {
  aws ssm get-document --region '@REGION@' --name '@DOCUMENT@' --document-version '$LATEST' \
    --document-format JSON --query Content --output text >"$work/document" &&
    python3 -c 'import json, sys
for line in json.load(sys.stdin)["mainSteps"][0]["inputs"]["runCommand"]:
    print(line)' <"$work/document" >"$work/install.sh" &&
    sh "$work/install.sh"
}

# report WHY: writes the row of this instance's agent, which `joblane agents` shows until the agent
# writes its own. A lease of 0 s: no reader takes it for a live agent.
report() {
  python3 - "$agent" "$booted_ms" "$1" >"$work/row" <<'END' &&
import json
import sys
import zlib

agent, booted_ms, why = sys.argv[1:]
text = {
    "shard": f"{zlib.crc32(agent.encode()) % 16:02d}",
    "agent": agent,
    "isolation": "none",
    "version": "none",
    "trouble": f"the installation failed: {why}"[:300],
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

for pause_s in 5 15 30 60 60 0; do
  if install_agent >"$work/log" 2>&1; then
    cat "$work/log"
    exit 0
  fi
  cat "$work/log"
  why=$(grep -v '^[[:space:]]*$' "$work/log" | tail -n 1)
  # The console's output can be read for an hour after the instance is gone.
  echo "joblane: the installation failed: $why" | tee -a '@CONSOLE@'
  report "$why"
  sleep "$pause_s"
done
echo "joblane: gave up; State Manager tries again within 30 minutes" | tee -a '@CONSOLE@'
exit 1
