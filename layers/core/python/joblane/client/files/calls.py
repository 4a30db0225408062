"""Calls that concern files: uploading inputs, listing and downloading outputs."""

import os
import threading
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from joblane.client.calls import ApiCall, C, Call, Caller, Send, Work
from joblane.client.errors import DownloadError, InputError
from joblane.client.fields import array_fields, encode_fields, job_fields
from joblane.client.files.models import (
    Input,
    InputFile,
    NoProgress,
    Outputs,
    StandardInput,
    TransferProgress,
    Uploaded,
)

FIELDS = ("inputs", "stdin")
"""Fields of a submission that a call takes in other forms than the API does."""


class Files(Caller[C]):
    """The calls, as `client.files`."""

    def __init__(self, connection: C) -> None:
        self._connection = connection

    @ApiCall
    def put(
        self,
        inputs: Sequence[Input],
        *,
        exclude: Sequence[str] = (),
        progress: TransferProgress | None = None,
    ) -> Call[Uploaded]:
        """Upload the files that are not there yet.

        `inputs` as in `submit`. Below directories, what a glob of `exclude` matches is left out:
        its path in the job or, without a slash, its name, such as `node_modules` or `*.pyc`. The
        `files` of the result may be the `inputs` of many submissions, which then read and send
        nothing. An upload that was interrupted continues with the files that are missing. Raises
        `FileError`, which names the file.
        """
        if isinstance(exclude, str):
            raise InputError("exclude must be a list of globs")
        return _upload(inputs, progress or NoProgress(), exclude)

    @ApiCall
    def standard_input(
        self, given: StandardInput, *, progress: TransferProgress | None = None
    ) -> Call[dict[str, str]]:
        """Read a standard input as `submit` does, and upload it if it must be a file.

        Returns the field of a submission that it is: `stdin`, `stdin_file`, or none if it is empty.
        Raises `FileError`.
        """
        return stdin_fields(given, progress or NoProgress())


class FileCalls:
    """The calls that concern the outputs of a job."""

    @ApiCall
    def outputs(self, job_id: str) -> Call[Outputs]:
        """Read the list of a job's output files: those of its newest attempt that left any.

        Raises `NotFoundError`.
        """
        from joblane.client.files.download import list_outputs  # most calls have no files

        return list_outputs(job_id)

    @ApiCall
    def download(
        self,
        job_id: str,
        to: str | os.PathLike[str],
        paths: Sequence[str] = (),
        *,
        replace: bool = False,
        submitted: Mapping[str, Any] | None = None,
        progress: TransferProgress | None = None,
    ) -> Call[Outputs]:
        """Write output files of a job below the directory `to`, and return their list.

        `paths` are paths or globs of output files; without any, all are written. The directory is
        made; each file appears when its content has arrived and its SHA-256 is right. Nothing is
        written outside of it, and links below it are not followed. The job chose the names, so
        what is there stays unless `replace` is set, and so does what begins with a dot unless one
        of `paths` has that name; nothing is written below `.git`. `kept` of the result names what
        was not written.

        `submitted` is what this program submitted the job with: its `outputs` count as `paths` do,
        and files that are as its `inputs` has them are replaced.

        Raises `NotFoundError`; `FileError` when a path selects nothing or the directory cannot be
        made; `DownloadError` when files could not be written, after all others were.
        """
        from joblane.client.files import download as files

        if isinstance(paths, str):
            raise InputError("paths must be a list of paths")
        outputs = yield from files.list_outputs(job_id)
        chosen = files.select(outputs.files, paths)
        told, stop = progress or NoProgress(), threading.Event()
        care = files.Care.of(paths, submitted or {}, replace=replace)
        kept, failed = dict[str, str](), dict[str, str]()

        def run(send: Send) -> None:
            try:
                every = len(chosen) == len(outputs.files)
                links = files.Links(job_id, send, all_files=every)
                found = files.download(chosen, to, links, stop, told, care)
                kept.update(found.kept)
                failed.update(found.failed)
            finally:
                told.end()

        yield Work(run, stop.set)
        written = Outputs(
            [file for file in chosen if file.path not in kept.keys() | failed.keys()],
            outputs.unmatched,
            outputs.skipped,
            outputs.skipped_count,
            sorted(kept.items()),
            sorted(failed.items()),
        )
        if failed:
            raise DownloadError(written)
        return written


def build_submission(
    what: object, params: object, fields: Mapping[str, Any]
) -> Call[dict[str, Any]]:
    """Return a submission as the API takes it, after its files were uploaded.

    `what` is a command, a handler, or the name of a type. Raises `InputError` and `FileError`.
    """
    array = fields.get("array")
    if array is None:
        named = job_fields(what, params)
    elif isinstance(array, Mapping):
        named = array_fields(what, params, array)
    else:
        raise InputError('array must be a mapping, such as {"size": 100}')
    return {**(yield from with_uploads(encode_fields(fields))), **named}


def with_uploads(fields: Mapping[str, Any]) -> Call[dict[str, Any]]:
    """Upload the files that a submission names, and return its fields as the API takes them."""
    given = {name: value for name, value in fields.items() if name not in FIELDS}
    if isinstance(given.get("outputs"), str):
        raise InputError("outputs must be a list of globs")
    inputs: Sequence[Input] = fields.get("inputs") or ()
    if inputs:
        uploaded = yield from _upload(inputs, NoProgress())
        for name, why in uploaded.left_out:
            warnings.warn(f"{name} is left out of the job's inputs: {why}", stacklevel=2)
        given["inputs"] = [file.field() for file in uploaded.files]
    if fields.get("stdin") is not None:
        given |= yield from stdin_fields(fields["stdin"], NoProgress())
    return given


def stdin_fields(given: StandardInput, progress: TransferProgress) -> Call[dict[str, str]]:
    """Read a standard input, and upload it if it must be a file. Returns the field that it is."""
    from joblane.client.files.standard_input import standard_input
    from joblane.client.files.upload import digests, upload

    stop = threading.Event()

    def run(send: Send) -> dict[str, str]:
        found = standard_input(given, stop)
        if found is None:
            return {}
        if isinstance(found, str):
            return {"stdin": found}
        try:
            digest = digests([found], stop, progress)[0]
            upload({digest: found}, send, stop, progress)
        finally:
            found.close()
            progress.end()
        return {"stdin_file": digest}

    fields: dict[str, str] = yield Work(run, stop.set)
    return fields


def _upload(
    inputs: Sequence[Input], progress: TransferProgress, exclude: Sequence[str] = ()
) -> Call[Uploaded]:
    from joblane.client.files.scan import Named, scan
    from joblane.client.files.upload import digests, upload

    if isinstance(inputs, str | bytes | os.PathLike | Mapping):
        raise InputError('inputs must be a list, such as ["data.csv"]')
    there: list[InputFile] = []
    named: list[Named] = []
    for each in inputs:
        if isinstance(each, InputFile):
            there.append(each)
        elif isinstance(each, Mapping):
            there.append(_parse_stored(each))
        else:
            named.append(each)
    if not named:
        return Uploaded(there, 0)
    stop = threading.Event()

    def run(send: Send) -> Uploaded:
        found = scan(named, exclude)
        try:
            hashes = digests(found.files, stop, progress)
            sources = {hashes[at]: file for at, file in enumerate(found.files)}
            sent = upload(sources, send, stop, progress)
        finally:
            progress.end()
        files = [
            InputFile(file.remote, hashes[at], file.mode, file.size)
            for at, file in enumerate(found.files)
        ]
        return Uploaded([*there, *files], sent, found.empty, found.left_out)

    uploaded: Uploaded = yield Work(run, stop.set)
    return uploaded


def _parse_stored(entry: Mapping[str, Any]) -> InputFile:
    with suppress(KeyError):
        mode = entry.get("mode") or "0644"
        return InputFile(str(entry["path"]), str(entry["sha256"]), str(mode), 0)
    raise InputError("an input that was uploaded before has a path and a sha256")
