# Run an array of jobs, and say which failed and why.
joblane run --array 1-5 -- sh -c 'test "$JOBLANE_ARRAY_INDEX" -ne 3' 2>&1 | tail -n 2

# Output:
# joblane: failed: 3
# joblane: 1 dead, exit code 1 (index 3): nothing on stderr
