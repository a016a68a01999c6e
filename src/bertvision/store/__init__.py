"""Hidden states on disk: no padding, 16 or 8 bits, checksummed, resumable."""

from bertvision.store.manifest import Manifest, read_manifest
from bertvision.store.reader import StoreReader
from bertvision.store.writer import StoreWriter

__all__ = ["Manifest", "StoreReader", "StoreWriter", "read_manifest"]
