"""Hidden states on disk: no padding, 16 or 8 bits, checksummed, resumable."""
