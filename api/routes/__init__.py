"""The routes of docs/http-api.md: one module per section, each with a table `ROUTES`."""
