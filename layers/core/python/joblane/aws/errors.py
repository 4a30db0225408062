"""What botocore raises, as errors of Joblane: adapters and agents read them as they were."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from joblane.errors import Unavailable

P = ParamSpec("P")
T = TypeVar("T")


class AwsRefused(Unavailable, ClientError):
    """AWS answered a call with an error."""

    @property
    def code(self) -> str | None:
        """The name of the error, such as `ThrottlingException`."""
        return self.response.get("Error", {}).get("Code")


class AwsSilent(Unavailable, BotoCoreError):
    """A call had no answer, or could not be made."""

    fmt = "{error}"


def translated(call: Callable[P, T]) -> Callable[P, T]:
    """The call with Unavailable in place of what botocore raises."""

    def made(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except Unavailable:
            raise
        except ClientError as error:
            raise AwsRefused(error.response, error.operation_name) from error
        except BotoCoreError as error:
            raise AwsSilent(error=error) from error

    return made


def translate(client: Any) -> None:
    """Have all calls of a client raise Unavailable; paginators and waiters make the same calls."""
    for name in (*client.meta.method_to_api_mapping, "generate_presigned_url"):
        setattr(client, name, translated(getattr(client, name)))
