"""Client library of the process tests: sockets, frames, HTTP, server processes and checkers.

Used by tests/process only. It shares no code with the server and needs nothing beyond the
Python standard library, so that a fault in the server's codec cannot hide in its twin.
"""
