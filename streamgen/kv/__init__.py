"""The memory of a stream: pages, reference counts, stages, retention. Knows tensors; no model, no kernel."""

from streamgen.kv.arena import Arena as Arena
from streamgen.kv.arena import ArenaFullError as ArenaFullError
from streamgen.kv.cache import KVCache as KVCache
from streamgen.kv.counters import PoolCounters as PoolCounters
from streamgen.kv.errors import CacheStateError as CacheStateError
from streamgen.kv.errors import OutOfPagesError as OutOfPagesError
from streamgen.kv.errors import ReserveFullError as ReserveFullError
from streamgen.kv.geometry import Geometry as Geometry
from streamgen.kv.masks import Causal as Causal
from streamgen.kv.masks import Full as Full
from streamgen.kv.masks import Mask as Mask
from streamgen.kv.masks import Tree as Tree
from streamgen.kv.pool import PagePool as PagePool
from streamgen.kv.retention import KeepAll as KeepAll
from streamgen.kv.retention import Retention as Retention
from streamgen.kv.retention import SinkWindow as SinkWindow
from streamgen.kv.stage import Stage as Stage
from streamgen.kv.stage import stage_together as stage_together
from streamgen.kv.view import LayerKV as LayerKV
from streamgen.kv.view import View as View
