"""Forks Lambda workers from a process that has imported what their layers hold.

    worker_server.py DESCRIPTOR LAYER...

The descriptor is a socket with a message for each worker: its program, folder and environment as
JSON, its three streams, and a connection that gets its process id and ends with it. So a start
imports the function's own modules and not the layer's, which takes half a second.
"""

import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

LONGEST = 1 << 17
"""Bytes of a message: Lambda's environment holds 4 KB."""
DESCRIPTORS = 4
NOT_OF_FUNCTIONS = "joblane.client"


def preload(layers: list[str]) -> None:
    """Import what a layer has of ours, but for the command line.

    What fails here fails again in the worker that needs it, which reports it.
    """
    sys.path[:0] = [str(Path(layer, "python")) for layer in layers]
    try:
        package = importlib.import_module("joblane")
    except ImportError:  # it is somebody else's layer
        return
    for module in pkgutil.walk_packages(package.__path__, "joblane.", onerror=lambda _: None):
        if not module.name.startswith(NOT_OF_FUNCTIONS):
            with suppress(Exception):
                importlib.import_module(module.name)
    with suppress(Exception):
        read_models()


def read_models() -> None:
    """Read the models of all services in use, which a process keeps."""
    loader = importlib.import_module("joblane.aws.models").Models()
    for service in importlib.import_module("joblane.deployment.services").SERVICES:
        for kind in ("service-2", "endpoint-rule-set-1"):
            loader.load_service_model(service, kind)
    for name in ("endpoints", "partitions", "sdk-default-configuration"):
        loader.load_data(name)


def next_worker(requests: socket.socket) -> tuple[dict[str, str], str, str, list[int]]:
    """Return in a process that is to be a worker: environment, folder, program, descriptors."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, LONGEST, DESCRIPTORS)
        if not message:
            sys.exit()  # MiniStack has ended
        if not os.fork():
            requests.close()
            return *json.loads(message), descriptors
        for descriptor in descriptors:
            os.close(descriptor)


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system collects workers that have ended
    paths = list(sys.path)
    preload(sys.argv[2:])
    gc.collect()
    gc.freeze()
    environment, folder, program, streams = next_worker(socket.socket(fileno=int(sys.argv[1])))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    connection = socket.socket(fileno=streams.pop())
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv[:] = [program]
    sys.path[:] = [str(Path(program).parent), *paths]
    connection.sendall(os.getpid().to_bytes(4, sys.byteorder))
    runpy.run_path(program, run_name="__main__")
