"""Scale-in protection in MiniStack's Auto Scaling, which has none, and what it means for stacks.

As the launcher, this runs under `.local/ministack-venv`. As on AWS, the deletion of a stack sets
the sizes of its groups to 0 and waits while an instance is protected. AWS gives up after an hour,
this after `LONGEST_S`.
"""

import asyncio
import importlib
import time
from typing import Any

LONGEST_S = 4.0
LOOK_EVERY_S = 0.05
MOST_IDS = 50
"""Of one call of SetInstanceProtection."""

_PROTECTED = "ProtectedFromScaleIn"
_PROTECTS_NEW = "NewInstancesProtectedFromScaleIn"
_GROUP = "AWS::AutoScaling::AutoScalingGroup"


def _module(name: str) -> Any:
    return importlib.import_module(f"ministack.{name}")


def keep_protection() -> None:
    """Answer SetInstanceProtection, take the group's setting, and have deletions of stacks wait."""
    answer_protection()
    make_instances()
    have_deletions_wait()


def answer_protection() -> None:
    """Change the protection of instances, and of those that a group launches."""
    service = _module("services.autoscaling")
    actions, update, value_of = service._ACTION_MAP, service._update_asg, service._p
    groups, ids_in = service._asgs, service._parse_member_list

    def protect(given: Any) -> Any:
        ids, group = (
            ids_in(given, "InstanceIds"),
            groups.get(value_of(given, "AutoScalingGroupName")),
        )
        there = {each["InstanceId"]: each for each in group["Instances"]} if group else {}
        if len(ids) > MOST_IDS or not there.keys() >= set(ids):
            return service._error("ValidationError", "too many ids, or one is not in the group")
        for each in ids:
            there[each][_PROTECTED] = value_of(given, _PROTECTED) == "true"
        return service._xml(200, "SetInstanceProtectionResponse", "<SetInstanceProtectionResult/>")

    def update_with_setting(given: Any) -> Any:
        group = groups.get(value_of(given, "AutoScalingGroupName"))
        if group is not None and (value := value_of(given, _PROTECTS_NEW)):
            group[_PROTECTS_NEW] = value == "true"
        return update(given)

    if "SetInstanceProtection" in actions:
        raise RuntimeError("MiniStack has scale-in protection of its own; see scripts/local")
    actions["SetInstanceProtection"] = protect
    actions["UpdateAutoScalingGroup"] = update_with_setting


def make_instances() -> None:
    """Launch the instances of a group that a stack creates."""
    service = _module("services.autoscaling")
    handlers = _module("services.cloudformation.provisioners")._RESOURCE_HANDLERS[_GROUP]
    create = handlers["create"]

    def create_with_instances(logical_id: str, declared: Any, stack: str) -> Any:
        name, attributes = create(logical_id, declared, stack)
        group = service._asgs[name]
        group[_PROTECTS_NEW] = str(group[_PROTECTS_NEW]).lower() == "true"
        service._reconcile_instances(group)
        return name, attributes

    handlers["create"] = create_with_instances


def have_deletions_wait() -> None:
    """Delete a stack once the instances of its groups have ended, or fail."""
    handlers, stacks = (
        _module("services.cloudformation.handlers"),
        _module("services.cloudformation"),
    )
    groups = _module("services.autoscaling")._asgs
    delete = handlers._delete_stack_async

    async def delete_when_empty(name: str, stack_id: str, *more: Any, **named: Any) -> None:
        stack = stacks._stacks.get(name) or {}
        resources = stack.get("_resources", {}).values()
        names = [r.get("PhysicalResourceId") for r in resources if r.get("ResourceType") == _GROUP]
        own = [groups[each] for each in names if each in groups]
        if own:
            stack["StackStatus"] = "DELETE_IN_PROGRESS"
        ends = time.monotonic() + LONGEST_S
        while sum(_scale_in(group) for group in own):
            if time.monotonic() > ends:
                stack["StackStatus"] = "DELETE_FAILED"
                stack["StackStatusReason"] = (
                    "a group has instances that are protected from scale-in"
                )
                return
            await asyncio.sleep(LOOK_EVERY_S)
        await delete(name, stack_id, *more, **named)

    handlers._delete_stack_async = delete_when_empty


def _scale_in(group: Any) -> int:
    """Set a group's sizes to 0, end what is not protected, and return how many instances stay."""
    group["MinSize"] = group["MaxSize"] = group["DesiredCapacity"] = 0
    group["Instances"] = [each for each in group["Instances"] if each[_PROTECTED]]
    return len(group["Instances"])
