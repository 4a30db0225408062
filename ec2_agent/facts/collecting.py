"""Collects the facts of this agent: reads the host, and runs the configured commands in turn."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from ec2_agent.calls import NoThread, in_thread
from ec2_agent.facts.command import CommandFailed
from ec2_agent.facts.host import HostFacts
from ec2_agent.facts.known import KnownFacts
from ec2_agent.logging import events
from joblane.target.fact_command import FactCommand
from joblane.target.facts import Facts, UnusableOutput, read_output

HOST_EVERY_S = 60.0
"""Seconds between two readings of the host."""

AT_ONCE = 2
"""Fact commands that run at the same time."""


@dataclass
class FactCollector:
    """Keeps the facts of one agent up to date."""

    known: KnownFacts
    host: HostFacts
    commands: Mapping[str, FactCommand]
    run: Callable[[FactCommand], bytes]
    """Runs a command to its end, and returns its output. Blocking. Raises CommandFailed."""

    def __post_init__(self) -> None:
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def keep(self) -> None:
        """Collect until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_host())
            for name, command in self.commands.items():
                tasks.create_task(self._keep_command(name, command))

    async def _keep_host(self) -> None:
        while True:
            with contextlib.suppress(NoThread):  # the facts that are known stay
                self.known.host(await self.host.read())
            await asyncio.sleep(HOST_EVERY_S)

    async def _keep_command(self, name: str, command: FactCommand) -> None:
        failed = False
        while True:
            try:
                facts = await self._output(name, command)
            except (CommandFailed, UnusableOutput, NoThread) as why:
                self.known.lack(name)
                if not failed:
                    events.fact_command_failed(name, why)
                failed = True
            else:
                self.known.custom(name, facts)
                if failed:
                    events.fact_command_works(name)
                failed = False
            await asyncio.sleep(command.every_s)

    async def _output(self, name: str, command: FactCommand) -> Facts:
        async with self._turns:
            output = await in_thread(partial(self.run, command), "fact")
        return read_output(name, output)
