"""Which key a job has: that of its type, one in its submission, or a policy of joblane.toml."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from joblane.aws.key.keys import StoredKey
from joblane.contract.problems import Problem, wrong
from joblane.job.head import Head
from joblane.key.policy import KeyLimits
from joblane.key.request import COMMAND, KeyRequest, Policies, policy_scope
from joblane.key.segments import NoSegment, fill_in

if TYPE_CHECKING:  # commands need no definitions of types
    from joblane.typed.definition import TypeKey

TypeKeyOf = Callable[[str, str, int], "TypeKey | None"]


@dataclass(frozen=True)
class KeyRules:
    """Finds the keys of jobs."""

    policies: Policies
    of_type: TypeKeyOf
    """Returns the key of a version of a type, by tenant, name and number."""

    def of_new(self, head: Head) -> KeyRequest | None:
        """The key of a job that is being submitted; None for a job without one.

        Raises Invalid for a policy that is unknown, for a pointer of it that leads to nothing
        in the submission, or to no string and no number, for such a pointer of a type into the
        params, and for `concurrency`, `array` or `target` where the type has a
        key.
        """
        key = self._type_key(head)
        if key is not None and head.spec.concurrency is not None:
            raise wrong("concurrency", f"must be left out: the type {head.spec.type} has a key")
        if key is not None and head.spec.array is not None:
            has = f"the type {head.spec.type} has a key"
            raise wrong("array", f"must be left out: {has}; submit its jobs one by one")
        if key is not None and head.spec.target is not None:
            has = f"the type {head.spec.type} has a key, whose slots any agent may use"
            raise wrong("target", f"must be left out: {has}")
        match head.spec.concurrency:
            case None:
                return None if key is None else _of_type(head, key)
            case str() as name:
                return self._of_policy(head, name)
            case written_out:
                return KeyRequest.from_submission(written_out)

    def of_stored(self, head: Head) -> KeyRequest:
        """The key of a job that was accepted before, and is admitted later or again.

        Its name does not change. If its policy was changed later so that it names another key, or
        was removed, the request has no segments (`with_latest`); nor if it takes params that are
        not read here.
        """
        if head.key is None:
            raise ValueError(f"job {head.job_id} has no key")
        try:
            found = self.of_new(head)
        except Problem:
            found = None
        if found is None:
            key = self._type_key(head)
            return KeyRequest(head.key, (), KeyLimits() if key is None else key.limits)
        return found if found.name == head.key else KeyRequest(head.key, (), found.limits)

    def with_latest(self, request: KeyRequest, seen: StoredKey) -> KeyRequest:
        """Complete a request without segments from the key's row, which has the latest limits.

        A stored job of a type has the limits of its own version, which may be an earlier one; those
        of the row are not older.
        """
        if not seen.version or (request.segments and not _is_of_type(request)):
            return request
        segments = request.segments or tuple(json.loads(seen.segments))
        return replace(request, segments=segments, limits=seen.state.limits)

    def _type_key(self, head: Head) -> "TypeKey | None":
        """The key of a job's type."""
        if head.spec.type is None or head.type_version is None:
            return None
        return self.of_type(head.tenant, head.spec.type, head.type_version)

    def _of_policy(self, head: Head, name: str) -> KeyRequest:
        template = self.policies.get(name)
        if template is None:
            known = ", ".join(sorted(self.policies)) or "none"
            raise wrong("concurrency", f"names an unknown policy; this deployment has {known}")
        try:
            document = head.spec.model_dump(mode="json")
            return KeyRequest.from_template(policy_scope(name), template, document)
        except NoSegment as problem:
            field = problem.pointer[1:].replace("/", ".")
            raise wrong(
                field, f"is part of the key of the concurrency policy {name}: {problem}"
            ) from None


def _of_type(head: Head, key: "TypeKey") -> KeyRequest:
    name = str(head.spec.type)
    try:
        return KeyRequest.of(name, fill_in(key.segments, head.spec.params), key.limits)
    except NoSegment as problem:
        field = f"params{problem.pointer}".replace("/", ".")
        raise wrong(field, f"is part of the key of the type {name}: {problem}") from None


def _is_of_type(request: KeyRequest) -> bool:
    """Whether a key is that of a type: the scopes of others have a dot, or are `command`."""
    return request.name.scope != COMMAND and "." not in request.name.scope
