"""Commands of the exporter as the command line shows them; they import nothing heavy, for every `--help`."""
