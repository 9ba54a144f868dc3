"""What a checkpointer promises, as tests: a backend's proof is a subclass that says how to make its storage.

    class TestMyStorage(CheckpointerContract):
        @pytest.fixture
        def make_storage(self, tmp_path):
            return lambda: MyStorage(tmp_path / "data")

`make_storage()` gives a new object; within one test all of them are on one medium, which no other test uses. Every rule
runs twice, on the checkpointer and on its sync twin. Needs pytest with pytest-asyncio in auto mode.
"""

from __future__ import annotations

from locus.memory.testing.concurrency_rules import ConcurrencyRules
from locus.memory.testing.copy_rules import CopyRules
from locus.memory.testing.damage_rules import DamageRules
from locus.memory.testing.delete_rules import DeleteRules
from locus.memory.testing.delta_rules import DeltaRules
from locus.memory.testing.find_rules import FindRules
from locus.memory.testing.id_rules import IdRules
from locus.memory.testing.medium import CheckpointerFixtures
from locus.memory.testing.save_rules import SaveRules
from locus.memory.testing.time_rules import TimeRules

__all__ = ["CheckpointerContract"]


class CheckpointerContract(
    SaveRules,
    DeleteRules,
    FindRules,
    IdRules,
    TimeRules,
    CopyRules,
    DeltaRules,
    DamageRules,
    ConcurrencyRules,
    CheckpointerFixtures,
):
    """Every rule of a durable checkpointer, once."""
