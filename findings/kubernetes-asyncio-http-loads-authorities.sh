#!/bin/sh
# kubernetes-asyncio loads the certificate authorities of the system for a client of a plain http server, too.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" --quiet --disable-pip-version-check install kubernetes-asyncio==36.1.0
"$folder/env/bin/python" - <<'PYTHON'
import asyncio
import importlib.metadata
import ssl

from kubernetes_asyncio.client import ApiClient, Configuration

print("kubernetes-asyncio", importlib.metadata.version("kubernetes-asyncio"))
loaded = []
original = ssl.SSLContext.load_default_certs
ssl.SSLContext.load_default_certs = lambda self, *given: (loaded.append(1), original(self, *given))[1]


async def main():
    async with ApiClient(Configuration(host="http://127.0.0.1:8001")):
        pass


asyncio.run(main())
print("expected: 0 loads, since no certificate is ever looked at")
print(f"seen:     {len(loaded)} load(s) of the system's authorities")
assert len(loaded) == 1
PYTHON
