"""torch's generator, of which there is one for the whole process."""

from __future__ import annotations

import threading

#: Whoever seeds torch's generator for a while holds this, so that threads do not draw from each other's seeds.
GENERATOR_LOCK = threading.RLock()
