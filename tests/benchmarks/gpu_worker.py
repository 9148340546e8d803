"""Parts of benchmarks/gpu.py that go wrong: PART says how."""

import subprocess
import sys
import time
from pathlib import Path

CHILD_FILE = "child"


def main() -> None:
    """Do a part as it is named."""
    folder, part = Path(sys.argv[1]), sys.argv[2]
    if part == "memory":
        import torch

        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
    if part == "late":
        sleep = [sys.executable, "-c", "import time; time.sleep(300)"]
        child = subprocess.Popen(sleep, start_new_session=True)
        (folder / CHILD_FILE).write_text(str(child.pid), encoding="utf-8")
        time.sleep(300)


if __name__ == "__main__":
    main()
