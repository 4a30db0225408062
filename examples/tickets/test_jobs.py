import pytest

from joblane import Job, PermanentError
from tickets.jobs import SyncTickets, sync_tickets


def test_all_tickets_are_copied() -> None:
    assert sync_tickets(SyncTickets(origin="acme", tickets=[1, 2]), Job()).synced == 2


def test_a_closed_account_fails() -> None:
    with pytest.raises(PermanentError):
        sync_tickets(SyncTickets(origin="closed", tickets=[]), Job())
