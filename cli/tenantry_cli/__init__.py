"""The program `tenantry`, which is `kubectl tenantry` as well: one word, then a command.

Read `main`: a table of commands. Each command is a function from its arguments to an exit code and
lives with what it does; `serve` alone is at home here, because it starts an engine and needs no
part.
"""
