"""The client app of a project with a place to stop: a node whose config has `pause-at` waits before that message of a run."""

import time
from pathlib import Path

from fedsi.flower import client_app

app = client_app()


@app.lifespan()
def lifespan(context):
    """Counts the messages of each run in a file, since every message has a process of its own."""
    count = Path(str(context.node_config["count"]) + f"-{context.run_id}")
    number = int(count.read_text()) if count.exists() else 0
    count.write_text(str(number + 1))
    if context.node_config.get("pause-at") == number:
        # The test sees this file and kills the node; nobody who is not killed comes further.
        count.with_suffix(".paused").touch()
        time.sleep(600)
    yield
