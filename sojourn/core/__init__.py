"""What decides: pure functions over frozen values, one verb or noun a file; no clock, randomness or I/O."""
