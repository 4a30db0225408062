from joblane import Client
from tickets.jobs import SyncTickets, sync_tickets

with Client.from_env() as client:
    ref = client.submit(sync_tickets, SyncTickets(origin="acme", tickets=[1, 2]))
    print(ref.wait(timeout_s=600).synced)
