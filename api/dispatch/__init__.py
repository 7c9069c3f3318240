"""The gateway's side of the dispatch protocol, without HTTP: demand, ready lists, lease requests, grants (docs/dispatch.md)."""
