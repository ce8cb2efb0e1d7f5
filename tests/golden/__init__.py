"""Golden files: what every face shows of the same runs, as text that a change of a face has to change too."""
