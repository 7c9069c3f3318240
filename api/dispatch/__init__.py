"""The gateway's side of the dispatch protocol (docs/dispatch.md), without HTTP."""
