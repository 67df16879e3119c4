"""The HTTP surface: routes, schemas, middleware, and the one table from error reason to status."""
