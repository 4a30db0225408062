# Run a command for each line of its input, wait for all, and say which failed.
seq 3 | joblane run --each - --attempts 1 -- test 3 -gt 2>&1 | tail -n 1

# Output:
# joblane: 2 of 3 jobs completed, 1 dead
