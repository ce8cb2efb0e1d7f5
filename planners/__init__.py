"""The reference deployment's planners: code that decides, or a model (see `models`).

A turn of that code may run again on another machine, so nothing is kept between turns: each turn
walks its flow from the top, with what the transcript holds, up to the first thing that is not
there yet. That thing is the plan.
"""
