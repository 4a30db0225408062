"""Which jobs of a tenant are told of on the event bus, unless they ask themselves."""

from typing import Literal

EventScope = Literal["jobs", "members"]
"""`jobs`: jobs and groups. `members`: the members of groups as well."""
