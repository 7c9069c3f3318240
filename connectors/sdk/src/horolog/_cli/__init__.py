"""The `horolog` command, one module per noun; `horolog.cli` is its entrance.

`session` holds what every command needs (gateway, output), `exits` the exit codes, `screen` what is printed, `instants`
how times are read and written, `definitions` job definitions from options and files, `plan` what `apply` would do.
"""
