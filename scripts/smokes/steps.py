"""The table of steps, in their order."""

from joblane.deployment.names import topic_name
from scripts.smokes import access, account, console, faults, jobs, load, targets, typed
from scripts.smokes.runner import Failure, Step
from scripts.smokes.site import Site

JOB = "joblane get ID and joblane logs ID say how the job named above ended"
AGENT_LOG = "journalctl -u joblane-agent on the instance (Session Manager) says why"


def _check(site: Site) -> str | None:
    return site.check()


def _deploy(site: Site) -> str | None:
    note = site.deploy()
    if len(site.agents()) < 2:
        raise Failure(f"two agents should be alive, not {sorted(site.agents())}")
    return note


def _check_refusals(site: Site) -> None:
    if refusals := site.refusals():
        raise Failure("; ".join(sorted(set(refusals))))


def _remove(site: Site) -> str | None:
    return site.remove()


STEPS = (
    Step(
        "preflight",
        "identity, region, bootstrap and quotas allow a deployment, and its names are free",
        _check,
        "change what it names, then start again: nothing was created",
        first=True,
        reads=True,
    ),
    Step(
        "deploy",
        "the stacks come up, and two agents report",
        _deploy,
        "the events of the stack in CloudFormation say why; for agents, State Manager and the "
        "instance's /var/log/cloud-init-output.log",
        first=True,
    ),
    Step(
        "roles",
        "each role may use its routes and no others",
        access.table,
        "compare with docs/reference/roles.md; `joblane audit` has what was refused",
    ),
    Step(
        "console",
        "the console's files are there, and its page may connect to where people log in",
        console.check_served,
        "GET /console by curl; `token_origins` in docs/how-to/log-in.md for another issuer",
    ),
    Step("exit codes", "each way to end leads to its state", jobs.exit_codes, JOB),
    Step("retry", "a job that fails once is run again", jobs.retry, JOB),
    Step("timeout", "a job that runs for too long is ended", jobs.timeout, JOB),
    Step("cancel", "a running job is stopped when it is cancelled", jobs.cancel, JOB),
    Step("output", "output comes in order and byte for byte", jobs.output, JOB),
    Step("large submission", "a submission of 1 MB arrives whole", jobs.large, JOB),
    Step("secrets", "secrets reach the job and no record", jobs.secrets, JOB),
    Step(
        "egress",
        "a job reaches the internet only with `egress`, and credentials never",
        jobs.egress,
        f"nftables on the instance; {AGENT_LOG}",
        missing="instances with nftables",
    ),
    Step(
        "memory",
        "a job that takes too much memory is killed, and nothing else is",
        jobs.memory,
        f"`joblane doctor` on the instance; {AGENT_LOG}",
        missing="instances with cgroups",
    ),
    Step(
        "condition",
        "a job waits while what it requires is down",
        jobs.condition,
        "`joblane conditions`, and the execution of the state machine in Step Functions",
    ),
    Step("run_at", "a job does not start before its time", jobs.run_at, JOB),
    Step(
        "key",
        "of two jobs with one key the second waits for the first one's slot",
        typed.key,
        "`joblane keys get command smoke 1`, and the log of the function sequel",
    ),
    Step(
        "job type",
        "a function is pushed with its dependencies, and its job gives its result",
        typed.job_type,
        JOB,
    ),
    Step(
        "broadcast",
        "a job runs on every agent with that agent's facts, and a group has its result",
        targets.broadcast,
        "`joblane get ID` shows each agent, `joblane agents` who is alive; then the log of sequel",
    ),
    Step("batch", "a batch of 100 jobs is accepted, and each of them ends", jobs.batch, JOB),
    Step("events", "events of the output go on after a lost connection", jobs.stream, JOB),
    Step(
        "poison",
        "a message that nobody can read reaches the operators' topic",
        faults.poison,
        f"the log of the function dead_letter, and the subscriptions of {topic_name('NAME')}",
    ),
    Step(
        "instance end",
        "a job whose instance ends is run again on another one",
        faults.run_terminated,
        "the log of the function instance_end",
    ),
    Step("upgrade", "a job goes on while its agent is upgraded", faults.run_upgraded, AGENT_LOG),
    Step(
        "refresh",
        "a changed launch template replaces every instance",
        account.refresh,
        "the group's instance refreshes in the EC2 console, or `aws autoscaling "
        "describe-instance-refreshes`, say why",
        missing="instances",
    ),
    Step(
        "load",
        "all jobs end that were accepted at a constant rate",
        load.run_sustained,
        "metrics of API Gateway, Lambda and DynamoDB of that minute; quotas in Service Quotas",
    ),
    Step(
        "permissions",
        "AWS refused nothing to the deployment's roles",
        _check_refusals,
        "add the action named above to the role's grants in infra/",
    ),
    Step(
        "destroy",
        "`scripts/cdk destroy` deletes the stacks, and only what holds data stays",
        account.destroy,
        "the events of the stack in CloudFormation say what cannot be deleted",
        missing="CloudFormation that adopts buckets",
    ),
    Step(
        "deploy again",
        "a deployment adopts what stayed: an earlier job is still there, and a new one runs",
        account.deploy_again,
        "docs/how-to/deploy.md says what a deployment adopts",
        missing="CloudFormation that adopts buckets",
    ),
    Step(
        "CloudTrail",
        "CloudTrail has no AccessDenied of the deployment's roles",
        account.trail,
        "add the action named above to the role's grants in infra/",
        missing="CloudTrail",
    ),
)

REMOVAL = Step(
    "remove",
    "everything is removed, and nothing is left",
    _remove,
    "delete what is named above by hand: it costs; `scripts/smoke --remove NAME` tries again",
)
