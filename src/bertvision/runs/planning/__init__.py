"""The planner: measures a machine, and chooses whether the states of a fit are streamed or stored."""
