"""Receipts of the inbox's messages that this process holds, on the host's disk.

A process that is killed leaves its messages hidden for two minutes, and only the next process of
its name may run their jobs, whose `reply_timeout_s` is a minute unless the caller says otherwise:

    process 1                    inbox                      process 2
    receives, writes the receipt
    (killed)                     hidden for 120 s
                                 visible          <------   shows what process 1 held
                                 message          ------>   receives it within a second
"""

import hashlib
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path


class InboxReceipts:
    """One file for each receipt. A disk that takes none costs time only, so errors are ignored."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def add(self, receipt: str) -> None:
        """Write down a message that is held from now on."""
        with suppress(OSError):
            self._directory.mkdir(mode=0o700, exist_ok=True)
            self._file(receipt).write_text(receipt, encoding="utf-8")

    def remove(self, receipt: str) -> None:
        """Strike out a message that is not held any more."""
        with suppress(OSError):
            self._file(receipt).unlink(missing_ok=True)

    def take_over(self, held: Collection[str]) -> list[str]:
        """Strike out what an earlier process held, but for what this one holds; returns it."""
        left: list[str] = []
        with suppress(OSError):
            for file in self._directory.iterdir():
                with suppress(OSError, UnicodeDecodeError):
                    receipt = file.read_text(encoding="utf-8")
                    if receipt not in held:
                        file.unlink()
                        left += [receipt] if receipt else []
        return left

    def _file(self, receipt: str) -> Path:
        return self._directory / hashlib.sha256(receipt.encode()).hexdigest()[:32]
