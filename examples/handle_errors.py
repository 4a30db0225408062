"""Find out which field of a submission was refused."""

from joblane import Client, RequestError

with Client.from_env() as client:
    try:
        client.submit(["make"], timeout_s=-1)
    except RequestError as error:
        for problem in error.fields:
            print(problem.field, problem.problem)

# Output:
# timeout_s ...
