"""Why a call of MLflow failed: what the server answered and what to do, or that it does not answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http import HTTPStatus

from tune_vfl.machine.passwords import hide_password
from tune_vfl.machine.places import embedded_uri

_LONGEST = 300
_OK = 200
# MLflow says a status in its sentences alone; where these change, its own code for the error is used.
_STATUS = re.compile(r"error code (\d{3})|too many (\d{3}) error responses")
_BODY = re.compile(r"Response body: '(.*)'", re.DOTALL)
_NOT_JSON = "not in a valid JSON format"
_TAG = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_ADVICE = {
    401: "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN",
    403: "let its administrator give this user the right to write, or name another user",
    407: "set the proxy's user, or NO_PROXY for this server",
    413: "let the server, or the proxy before it, take larger requests",
    429: "it is asked too often: let fewer searches write to it",
    502: "a proxy answers for it: start the server behind it",
    503: "wait until it is ready",
    507: "make room on its disk",
}


def explained(error: Exception, uri: str) -> str:
    """Return a sentence on a failed call of MLflow.

    Args:
        error: what the call raised.
        uri: the tracking URI.
    """
    shown = f"MLflow at {hide_password(uri)}"
    if not uri.startswith(("http://", "https://")):
        return f"{shown} cannot be used ({_first_line(error)}); {_advice_for_silence(uri)}"
    status = _status(error)
    if status is None and not _is_silence(error):
        return f"{shown} failed ({type(error).__name__}: {_first_line(error)})"
    if status is None:
        *_, innermost = _chain(error)
        reason = getattr(innermost, "strerror", None) or _first_line(innermost)
        return f"{shown} does not answer ({reason}); {_advice_for_silence(uri)}"
    said = _said(error)
    answer = f"{status} {_phrase(status)}" + (f": {said}" if said else "")
    return f"{shown} answers, but refuses ({answer}); {_advice(status)}"


def _advice(status: int) -> str:
    if status in _ADVICE:
        return _ADVICE[status]
    if status < HTTPStatus.BAD_REQUEST or status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
        return "this is no address of an MLflow server: correct MLFLOW_TRACKING_URI, or the spec's tracking"
    return "its log says more" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "correct what it names"


def _advice_for_silence(uri: str) -> str:
    if uri == embedded_uri():
        return "'tune-vfl doctor --repair' rebuilds it from the ledger where it is damaged, or was moved away"
    return "start it, or unset MLFLOW_TRACKING_URI and the spec's tracking to use the embedded one"


def _status(error: Exception) -> int | None:
    """Return the status of a server's answer; None where there was no answer."""
    for one in _chain(error):
        found = _STATUS.search(str(one))
        if found:
            return int(found[1] or found[2])
        status = getattr(getattr(one, "response", None), "status_code", None)
        if isinstance(status, int):
            return status
    if _NOT_JSON in str(error):
        return _OK
    code = None if _is_silence(error) else getattr(error, "get_http_status_code", None)
    return int(code()) if code is not None else None


def _is_silence(error: Exception) -> bool:
    """Return whether an error of a connection is behind an error that has no status."""
    return any(isinstance(one, OSError) for one in _chain(error))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those that it was raised from, the innermost last."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "of no known meaning"


def _said(error: Exception) -> str:
    """Return what the server said in its own words; empty where that is not known."""
    text = str(error)
    found = _BODY.search(text)
    if found is None and (_STATUS.search(text) or isinstance(error, OSError)):
        return ""
    return " ".join(_TAG.sub(" ", found[1] if found else text).split())[:_LONGEST]


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:_LONGEST]
