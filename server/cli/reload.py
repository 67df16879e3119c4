"""What `dragoman reload` does: asks a running server on its admin port. Imports nothing of a server."""

import http.client
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from server.cli.exit_codes import EXIT_BAD_BUNDLE, EXIT_FAILED, EXIT_USAGE, fail, show
from server.cli.given_settings import read_settings
from server.errors import BundleRefusedError, GlossaryRefusedError

_PATH = "/admin/reload"

_KEPT = {
    BundleRefusedError.reason: "the old model goes on serving",
    GlossaryRefusedError.reason: "the old glossaries and models go on serving",
}


def reload(flags: Mapping[str, Any], timeout_s: float, model: str | None = None) -> int:
    """Make a server on this machine serve what is at its bundles' paths now, and wait for it.

    Args:
        flags: `admin_port`, or None where it was not given.
        timeout_s: how long to wait.
        model: name of the model to exchange; None exchanges all.

    Returns:
        The exit code: `EXIT_BAD_BUNDLE` if the server refused the bundle and serves the old one.
    """
    settings = read_settings("reload", flags)
    if settings is None:
        return EXIT_USAGE
    if settings.admin_port is None:
        return fail("reload", EXIT_USAGE, "which server? give --admin-port, or set DRAGOMAN_ADMIN_PORT")
    host, port = settings.admin_host, settings.admin_port
    path = _PATH if model is None else f"{_PATH}?{urlencode({'model': model})}"
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request("POST", path)
        response = connection.getresponse()
        answer = json.loads(response.read())
        if response.status != 200:
            kept = _KEPT.get(answer["code"])
            said = f"{answer['error']} ({kept})" if kept else answer["error"]
            return fail("reload", EXIT_BAD_BUNDLE if kept else EXIT_FAILED, said)
        served = [
            f"serving {bundle['name']} {bundle['version']} ({bundle['sha256'][:12]}), "
            f"loaded in {bundle['load_duration_s']} s\n"
            for bundle in answer["bundles"]
        ]
    except TimeoutError:
        return fail(
            "reload",
            EXIT_FAILED,
            f"no answer within {timeout_s:g} s, see --timeout; the server may still be reloading",
        )
    except (OSError, http.client.HTTPException, ValueError) as error:
        return fail("reload", EXIT_FAILED, f"no server of dragoman answers on {host} port {port}: {error}")
    except (LookupError, TypeError):
        other = f"another program answers on {host} port {port} ({response.status}); see --admin-port"
        return fail("reload", EXIT_FAILED, other)
    finally:
        connection.close()
    return show("reload", "".join(served))
