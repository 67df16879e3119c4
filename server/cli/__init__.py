"""What the commands of the server do: serve, translate, inspect, reload, bench-http."""
