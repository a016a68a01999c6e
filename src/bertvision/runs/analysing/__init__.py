"""What runs left → where models fail, and which layers they read."""
