"""Which key a job has: what its submission says, and the policies of joblane.toml."""

import json
from dataclasses import dataclass, replace

from joblane.aws.keys import StoredKey
from joblane.contract.problems import Problem, wrong
from joblane.job.head import Head
from joblane.key.policy import KeyLimits
from joblane.key.request import KeyRequest, Policies, policy_scope
from joblane.key.segments import NoSegment


@dataclass(frozen=True)
class KeyRules:
    """Finds the keys of jobs."""

    policies: Policies

    def of_new(self, head: Head) -> KeyRequest | None:
        """The key of a job that is being submitted; None for a job without one.

        Raises Problem 400 for a policy that is unknown, and for a pointer of it that leads to
        nothing in the submission, or to no string and no number.
        """
        match head.spec.concurrency:
            case None:
                return None
            case str() as name:
                return self._of_policy(head, name)
            case written_out:
                return KeyRequest.written_out(written_out)

    def of_stored(self, head: Head) -> KeyRequest:
        """The key of a job that was accepted before, and is admitted later or again.

        Its name is that of then. If its policy was changed since so that it names another key, or
        was removed, the request has no segments (`with_latest`).
        """
        if head.key is None:
            raise ValueError(f"job {head.job_id} has no key")
        try:
            found = self.of_new(head)
        except Problem:
            found = None
        if found is None:
            return KeyRequest(head.key, (), KeyLimits())
        return found if found.name == head.key else KeyRequest(head.key, (), found.limits)

    def with_latest(self, request: KeyRequest, seen: StoredKey) -> KeyRequest:
        """Complete a request without segments from the key's row, which has the latest limits."""
        if request.segments or not seen.version:
            return request
        return replace(request, segments=tuple(json.loads(seen.segments)), limits=seen.state.limits)

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
