"""Stage 1: an encoder learns, for one task or several, alone or from a teacher."""
