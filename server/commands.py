"""`dragoman serve`, `reload` and `api-key`: their options. Imports nothing heavy, for every `--help`."""

from typing import Annotated

import typer

from server import flags


def serve(
    bundle: flags.ServedBundle = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.", show_default="8000")] = None,
    workers: flags.Workers = None,
    device: flags.Device = None,
    max_rows: flags.MaxRows = None,
    max_kv_cache_mib: flags.MaxKvCacheMib = None,
    beam_size: flags.DefaultBeamSize = None,
    shortlist: flags.Shortlist = None,
    api_keys: flags.ApiKeys = None,
    requests_per_minute: flags.RequestsPerMinute = None,
    cors_origins: flags.CorsOrigins = None,
    admin_port: flags.AdminPort = None,
    log_level: flags.LogLevel = None,
) -> None:
    """Serve a bundle over HTTP.

    Every setting is also a variable, DRAGOMAN_PORT for instance; docs/operations.md lists them all.
    """
    from server import cli

    settings = {
        "bundle": bundle,
        "host": host,
        "port": port,
        "workers": workers,
        "device": device,
        "max_rows": max_rows,
        "max_kv_cache_mib": max_kv_cache_mib,
        "default_beam_size": beam_size,
        "shortlist": shortlist,
        "api_keys_file": api_keys,
        "requests_per_minute": requests_per_minute,
        "cors_origins": cors_origins,
        "admin_port": admin_port,
        "log_level": log_level,
    }
    raise typer.Exit(cli.serve(settings))


def reload(
    admin_port: Annotated[
        int | None,
        typer.Option(help="Admin port of the server.", show_default="DRAGOMAN_ADMIN_PORT", min=1, max=65535),
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the outcome.", min=0.1)] = 600.0,
) -> None:
    """Make a running server serve the bundle that is at its path now, without a pause.

    The new model is loaded and proven beside the old one. Exit code 3: the bundle is refused, and the old
    model goes on.
    """
    from server import reload_command

    raise typer.Exit(reload_command.reload({"admin_port": admin_port}, timeout))


def api_key(
    name: Annotated[
        str, typer.Argument(help="Whose key it is; shown in metrics and in the log. A name may have several.")
    ],
    requests_per_minute: Annotated[
        int | None, typer.Option(min=1, help="Requests a minute.", show_default="no limit")
    ] = None,
    characters_per_day: Annotated[
        int | None, typer.Option(min=1, help="Characters to translate a day.", show_default="no limit")
    ] = None,
) -> None:
    """Make an API key: shows it once on standard error, and its line for the file on standard output.

    The server reads its file again when it changes. To take a key away, delete its line.
    """
    from server.service.api_keys import ClientLimits, key_line, new_key

    key = new_key()
    try:
        line = key_line(name, key, ClientLimits(requests_per_minute, characters_per_day))
    except ValueError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    typer.echo(f"The key of {name}, which is kept nowhere else:\n{key}", err=True)
    typer.echo(line)
