"""The type of the field `notify`, whose model is made with the first submission.

Every function imports the model of submissions in its cold start, and few jobs notify anybody.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

    from joblane.notify.request import Notify as NotifyField
else:

    class NotifyField:
        """Stands for `joblane.notify.request.Notify` until a schema with it is built."""

        @classmethod
        def __get_pydantic_core_schema__(
            cls, _source: object, handler: "GetCoreSchemaHandler"
        ) -> "CoreSchema":
            from joblane.notify.request import Notify

            return handler.generate_schema(Notify)


__all__ = ["NotifyField"]
