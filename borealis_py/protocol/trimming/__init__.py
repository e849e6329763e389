"""How far topics may be deleted, from what replicas say that they may still read (R16). Pure."""

from borealis_py.protocol.trimming.fold import AckFold as AckFold
from borealis_py.protocol.trimming.limit import Graph as Graph
from borealis_py.protocol.trimming.limit import NodeReads as NodeReads
from borealis_py.protocol.trimming.limit import Retain as Retain
from borealis_py.protocol.trimming.limit import TrimLimit as TrimLimit
from borealis_py.protocol.trimming.limit import source_limit as source_limit
from borealis_py.protocol.trimming.limit import stream_limit as stream_limit
from borealis_py.protocol.trimming.need import KeptCheckpoint as KeptCheckpoint
from borealis_py.protocol.trimming.need import Need as Need
from borealis_py.protocol.trimming.need import Needs as Needs
from borealis_py.protocol.trimming.need import ReplicaName as ReplicaName
from borealis_py.protocol.trimming.need import least as least
from borealis_py.protocol.trimming.plan import Trimming as Trimming
