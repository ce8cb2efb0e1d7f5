"""Mutants: a hundred faults made by hand, and whether the tests catch each of them.

A fault is what a careless change would make: a boundary off by one, a role that is not checked, a limit not applied, an await
forgotten. `faults/` lists them by package, each with what it would do to users. `python -m tests.mutants` puts them, one
at a time, into copies of the tree, and runs the tests that may notice.

The tests of the fault's package in `make test` come first, those without a server before the others, and of these the ones whose place
mirrors that of the fault. For a fault that none of them notices, the other tests of the package are run.

A fault that is equivalent to the code has no place here. If its text occurs no longer, or more than once, the list is stale.
"""
