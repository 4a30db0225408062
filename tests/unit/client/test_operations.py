"""Each operation of the API has its method in the SDK (decision 1616)."""

from operator import attrgetter

from joblane import Client
from joblane.client.files.calls import Files
from joblane.client.groups import Groups
from joblane.client.schedules import Schedules
from joblane.contract.routes import ROUTES

METHODS = {
    "backfillSchedule": "schedules.backfill",
    "cancelGroup": "groups.cancel",
    "cancelJob": "cancel",
    "cancelJobs": "cancel_jobs",
    "clearKey": "clear_key",
    "cordonAgent": "cordon",
    "createSchedule": "schedules.add",
    "declareCondition": "declare",
    "deleteJob": "delete",
    "deleteJobs": "delete_jobs",
    "deleteSchedule": "schedules.delete",
    "deleteType": "delete_type",
    "dismissJob": "dismiss",
    "dismissJobs": "dismiss_jobs",
    "downloadJobOutput": "download",
    "drainAgent": "drain",
    "editJob": "edit",
    "editSchedule": "schedules.edit",
    "explainJob": "why",
    "explainQueue": "explain_queue",
    "getAgent": "agent",
    "getGroup": "groups.get",
    "getHealth": "health",
    "getJob": "get",
    "getJobLogs": "logs",
    "getKey": "key",
    "getQueue": "queue",
    "getQueueActivity": "queue_activity",
    "getSchedule": "schedules.get",
    "getSummary": "summary",
    "getType": "type",
    "hideJob": "hide",
    "listAgents": "list_agents",
    "listAudit": "list_audit",
    "listConditions": "list_conditions",
    "listDeadLetters": "list_dead_letters",
    "listFleets": "fleets",
    "listJobAudit": "list_audit",
    "listJobOutputs": "outputs",
    "listJobs": "list",
    "listKeys": "list_keys",
    "listQueues": "queues",
    "listScheduleResults": "schedules.results",
    "listSchedules": "schedules.list",
    "listTypes": "types",
    "pauseSchedule": "schedules.pause",
    "prepareBundle": "bundle",
    "prepareFiles": "files.put",
    "previewSchedule": "schedules.preview",
    "pushType": "put_type",
    "replayJob": "replay",
    "replayJobs": "replay_jobs",
    "requeueJobs": "requeue",
    "restartFailedJobs": "restart_failed",
    "resubmitJob": "resubmit",
    "resubmitJobs": "resubmit_jobs",
    "resumeSchedule": "schedules.resume",
    "retryGroup": "groups.retry",
    "retryJob": "retry",
    "retryJobs": "retry_jobs",
    "runSchedule": "schedules.run",
    "setAgentLogLevel": "set_log_level",
    "setQueueSettings": "set_queue",
    "submitJob": "submit",
    "submitJobs": "submit_batch",
    "uncordonAgent": "uncordon",
    "unhideJob": "unhide",
}

WITHOUT = {
    "getLogin": "the login reads it before there is a token",
    "getOpenapi": "the SDK is written from it",
    "getQueueSettings": "`queue` has them, and `set_queue` reads them for its If-Match",
}


def test_each_operation_has_a_method():
    assert {route.operation for route in ROUTES} == {*METHODS, *WITHOUT}
    for path in METHODS.values():
        room, _, name = path.rpartition(".")
        owner = {"groups": Groups, "schedules": Schedules, "files": Files, "": Client}[room]
        assert callable(attrgetter(name)(owner)), path
