"""Metrics of the server for Prometheus."""

from collections.abc import Callable
from typing import final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
JOBS = (1, 2, 4, 8, 16, 32, 64, 128)
"""Upper bounds of the histograms' buckets."""


@final
class Metrics:
    """Counters and histograms, in a registry of their own, so that several servers in one process count separately."""

    def __init__(self, waiting: Callable[[], int]) -> None:
        """Create all metrics.

        Args:
            waiting: function that gives the number of requests in the queue.
        """
        self._registry = CollectorRegistry()
        labels = ("path", "status")
        self._requests = Counter("bertvision_requests", "Requests.", labels, registry=self._registry)
        self._seconds = Histogram(
            "bertvision_request_seconds",
            "Seconds from a request to its reply.",
            ("path",),
            buckets=SECONDS,
            registry=self._registry,
        )
        self._batches = Histogram(
            "bertvision_batch_requests", "Requests that were computed together.", buckets=JOBS, registry=self._registry
        )
        queue = Gauge("bertvision_queue_requests", "Requests that wait for the model.", registry=self._registry)
        queue.set_function(waiting)

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a request by path and status, and its seconds."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def batch(self, jobs: int) -> None:
        """Count a pass with so many jobs."""
        self._batches.observe(jobs)

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self._registry)
