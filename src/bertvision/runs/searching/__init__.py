"""The best options, by trials; every task of GLUE."""
