"""The program that the suite starts as the client: it passes the scenario on to the test, which has Sojourn imported already."""

import json
import os
import socket
import sys

port, url = sys.argv[1:]
with socket.create_connection(("127.0.0.1", int(port))) as test:
    context = os.environ.get("MCP_CONFORMANCE_CONTEXT", "")
    test.sendall(json.dumps([url, context]).encode() + b"\n")
    fault = test.makefile().read()
sys.exit(fault or None)
