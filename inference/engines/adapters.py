"""The names under which engines serve components, and the component folders that ship."""

from pathlib import Path
from typing import Final

RAS_ADAPTER = "ras"
T2T_ADAPTER = "t2t"
EXTRACTOR_ADAPTER = "tri_rag"
READER_ADAPTER: Final = "read"
SHIPPED = Path(__file__).resolve().parents[2] / "checkpoints"
DEFAULT_CHECKPOINTS = {
    RAS_ADAPTER: SHIPPED / "ras_smollm2",
    T2T_ADAPTER: SHIPPED / "t2t_smollm2",
    EXTRACTOR_ADAPTER: SHIPPED / "tri_rag_smollm2",
    READER_ADAPTER: SHIPPED / "read_smollm2",
}
