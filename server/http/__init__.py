"""The socket: the connection protocol, the server, drain and load shedding."""
