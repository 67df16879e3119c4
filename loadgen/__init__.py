"""Load for a server of translations: what `dragoman bench-http` sends, measures, prints and draws."""
