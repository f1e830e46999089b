"""``FakeServer`` as a process with vLLM's command line: ``python fake_vllm.py -m MODULE --model FOLDER --port N …``.

``PIDS`` names a file to which each process adds its id and port.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3]))

from tests.inference.serving.fake_server import FakeServer
from turnwise.inference.models import load_model


def main() -> None:
    """Serve until a signal ends it."""
    words = dict(zip(sys.argv[1::1], sys.argv[2::1], strict=False))
    model, tokenizer = load_model(words["--model"])
    server = FakeServer(model, tokenizer, root=words["--model"])
    server.host, server.port = words["--host"], int(words["--port"])
    server.start()
    if pids := os.environ.get("PIDS"):
        with Path(pids).open("a") as file:
            print(os.getpid(), server.port, file=file)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
