"""Run a command each morning, look at what became of it, and start it at once."""

from joblane import Client

with Client.from_env() as client:
    report = client.schedules.add(
        "morning-report",
        ["sh", "-c", 'echo "report of $JOBLANE_SCHEDULED_AT"'],
        cron="0 6 * * *",
        zone="Europe/Berlin",
        pause_on_failure=True,
        timeout_s=300,
    )
    print("next at", report.next_times[0].local)

    run = client.schedules.run("morning-report", reason="only an example")
    if run.job_id:
        print(client.wait(run.job_id).state)
    for each in client.schedules.results("morning-report"):
        print(each.outcome, each.cause)

    client.schedules.delete("morning-report")

# Output:
# next at ...T06:00:00+0...:00
# completed
# started run
