"""What runs left → scores, intervals, comparisons and ensembles."""
