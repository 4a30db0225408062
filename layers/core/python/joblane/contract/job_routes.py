"""Routes of jobs and groups, behind the function `submission`."""

from http import HTTPStatus
from typing import Final

from joblane.contract.audit import AuditPage, Because, Restart
from joblane.contract.edits import Edited, EditJob
from joblane.contract.groups import GroupPage, GroupQuery, GroupRestart
from joblane.contract.job import Job
from joblane.contract.queries import ListJobs, LogQuery, MembersQuery, PageQuery, SelectJobs
from joblane.contract.queue_of_job import QueueChoice
from joblane.contract.route import FOLLOWING, SWEEPS, Route
from joblane.contract.route_kinds import change, sweep
from joblane.contract.submissions import BatchAnswer, Cancelled, Resubmission, Submitted
from joblane.contract.views import (
    JobPage,
    JobsCancelled,
    JobsDeleted,
    JobsResubmitted,
    JobsRetried,
    LogPage,
)
from joblane.job.spec import MAX_BODY_BYTES, Batch, Submission

_JOBS = "/v1/jobs"
_JOB = "/v1/jobs/{job_id}"
_GROUP = "/v1/groups/{group}"


JOB_ROUTES: Final = (
    Route(
        "submitJob",
        "POST",
        _JOBS,
        ("jobs.submit",),
        "Submit a job",
        Submitted,
        body=Submission,
        idempotent=True,
        traced=True,
        status=HTTPStatus.ACCEPTED,
        coalesces=True,
    ),
    Route(
        "submitJobs",
        "POST",
        "/v1/jobs/batch",
        ("jobs.submit",),
        "Submit up to 100 jobs",
        BatchAnswer,
        body=Batch,
        idempotent=True,
        traced=True,
        rate=SWEEPS,
    ),
    Route(
        "listJobs", "GET", _JOBS, ("jobs.read",), "List jobs, newest first", JobPage, query=ListJobs
    ),
    sweep(
        "cancelJobs",
        f"{_JOBS}/cancel",
        "cancel-jobs",
        "jobs.cancel",
        "Cancel the jobs that filters select, a page at a time",
        JobsCancelled,
        SelectJobs,
    ),
    sweep(
        "retryJobs",
        f"{_JOBS}/retry",
        "retry-jobs",
        "jobs.submit",
        "Retry the failed and dead jobs that filters select, a page at a time",
        JobsRetried,
        SelectJobs,
        body=Restart,
    ),
    Route(
        "resubmitJobs",
        "POST",
        f"{_JOBS}/resubmit",
        ("jobs.submit",),
        "Resubmit the ended jobs that filters select, a page at a time",
        JobsResubmitted,
        action="resubmit-jobs",
        body=Resubmission,
        largest_body=MAX_BODY_BYTES,
        query=SelectJobs,
        rate=SWEEPS,
    ),
    sweep(
        "deleteJobs",
        f"{_JOBS}/delete",
        "delete-jobs",
        "jobs.cancel",
        "Delete the jobs that filters select, a page at a time",
        JobsDeleted,
        SelectJobs,
    ),
    Route("getJob", "GET", _JOB, ("jobs.read",), "Show a job", Job),
    Route(
        "getJobLogs",
        "GET",
        f"{_JOB}/logs",
        ("jobs.read",),
        "Read a job's output",
        LogPage,
        query=LogQuery,
        errors=(HTTPStatus.CONFLICT,),
        rate=FOLLOWING,
        streams=True,
    ),
    Route(
        "deleteJob",
        "DELETE",
        _JOB,
        ("jobs.cancel",),
        "Delete a job",
        None,
        action="delete",
        body=Because,
        status=HTTPStatus.NO_CONTENT,
        errors=(HTTPStatus.CONFLICT,),
        conditional=True,
    ),
    Route(
        "editJob",
        "PATCH",
        _JOB,
        ("jobs.submit",),
        "Edit a job that waits",
        Edited,
        action="edit",
        body=EditJob,
        errors=(HTTPStatus.CONFLICT,),
        conditional=True,
    ),
    change(
        "cancelJob",
        _JOB,
        "cancel",
        "jobs.cancel",
        "Cancel a job; a running job is stopped",
        answer=Cancelled,
    ),
    change("retryJob", _JOB, "retry", "jobs.submit", "Retry a failed or dead job", body=Restart),
    Route(
        "resubmitJob",
        "POST",
        f"{_JOB}/resubmit",
        ("jobs.submit",),
        "Resubmit an ended job under a new id",
        Submitted,
        action="resubmit",
        body=Resubmission,
        largest_body=MAX_BODY_BYTES,
        idempotent=True,
        status=HTTPStatus.ACCEPTED,
        coalesces=True,
    ),
    change(
        "hideJob",
        _JOB,
        "hide",
        "jobs.cancel",
        "Hide an ended job from lists",
        status=HTTPStatus.OK,
        conditional=False,
    ),
    change(
        "unhideJob",
        _JOB,
        "unhide",
        "jobs.cancel",
        "Show a hidden job in lists again",
        status=HTTPStatus.OK,
        conditional=False,
    ),
    Route(
        "listJobAudit",
        "GET",
        f"{_JOB}/audit",
        ("jobs.read",),
        "Read the audit trail of a job, newest first",
        AuditPage,
        query=PageQuery,
    ),
    Route(
        "getGroup",
        "GET",
        _GROUP,
        ("jobs.read",),
        "Show a group and its members",
        GroupPage,
        query=GroupQuery,
    ),
    sweep(
        "cancelGroup",
        f"{_GROUP}/cancel",
        "cancel-group",
        "jobs.cancel",
        "Cancel a group: what has not begun, then its members, a page at a time",
        JobsCancelled,
        MembersQuery,
        errors=(HTTPStatus.CONFLICT,),
    ),
    sweep(
        "retryGroup",
        f"{_GROUP}/retry",
        "retry-group",
        "jobs.submit",
        "Retry the failed and dead members of a group, a page at a time",
        JobsRetried,
        MembersQuery,
        body=GroupRestart,
        errors=(HTTPStatus.CONFLICT,),
    ),
    Route(
        "explainQueue",
        "POST",
        "/v1/queues/explain",
        ("jobs.submit",),
        "Explain which queue would take a job; nothing is submitted",
        QueueChoice,
        body=Submission,
        reads=True,
    ),
)
