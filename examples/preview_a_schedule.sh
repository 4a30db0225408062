# Show when a schedule would be due over a change of clocks, and what is surprising about it.
joblane schedules preview --cron '30 2 * * *' --zone Europe/Berlin \
  --start 2037-03-28T00:00:00Z --next 3 2>&1

# Output:
# DUE IN EUROPE/BERLIN       STARTS                    IN
# 2037-03-28T02:30:00+01:00  2037-03-28T01:30:00.000Z  in ...d
# 2037-03-29T03:00:00+02:00  2037-03-29T01:00:00.000Z  in ...d
# 2037-03-30T02:30:00+02:00  2037-03-30T00:30:00.000Z  in ...d
# joblane: Europe/Berlin, ...: there is no time from 02:00 to 03:00; what is due then is due once, at 03:00
