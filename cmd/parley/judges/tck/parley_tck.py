"""Lets a2a-tck run with Debian's packages: what it imports for gRPC is replaced where it is
missing or too old, since no card of Parley declares gRPC. A pytest plugin; the suite itself
stays as it is."""

import importlib
import sys
from unittest.mock import MagicMock

for name in (
    "google.api", "google.api.field_behavior_pb2",
    "google.rpc", "google.rpc.error_details_pb2", "google.rpc.status_pb2",
    "specification.generated.a2a_pb2", "specification.generated.a2a_pb2_grpc",
):
    try:
        importlib.import_module(name)
    except Exception:  # not only ImportError: old versions raise others
        sys.modules[name] = MagicMock(name=name)
