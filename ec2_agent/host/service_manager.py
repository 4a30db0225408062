"""Tells systemd that the agent works, as sd_notify(3) describes."""

import socket


def notify_ready(address: str | None) -> None:
    """Say so at the socket that NOTIFY_SOCKET names; None: no service manager asks."""
    if address is None:
        return
    name = f"\0{address[1:]}" if address.startswith("@") else address  # an abstract socket
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.connect(name)
        manager.send(b"READY=1")
