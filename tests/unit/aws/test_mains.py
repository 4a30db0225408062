"""What the entry points of functions answer to Lambda."""

from types import ModuleType, SimpleNamespace

import pytest

from functions.dead_letter import handler as dead_letter
from functions.notifier import handler as notifier


@pytest.mark.parametrize("module", [dead_letter, notifier], ids=lambda each: each.__name__)
def test_messages_that_could_not_be_handled_come_again(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
):
    """Lambda deletes those that the answer does not name."""
    application = SimpleNamespace(
        handle=lambda records: [each["messageId"] for each in records[1:]]
    )
    monkeypatch.setattr(module, "_application", lambda: application)
    event = {"Records": [{"messageId": "m1"}, {"messageId": "m2"}]}
    assert {"batchItemFailures": [{"itemIdentifier": "m2"}]} == module.main(event, None)
