"""Whether states are computed again or stored: measured, then chosen."""
