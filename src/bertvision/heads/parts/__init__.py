"""What heads are made of."""
