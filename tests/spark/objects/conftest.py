"""A real S3 server, for queries in processes of their own."""

from __future__ import annotations

from tests.harness.object_stores import s3, s3_server, toll

__all__ = ["s3", "s3_server", "toll"]
