"""The words that a policy chooses from. Each value is what stands in the document."""

from enum import StrEnum


class Sharing(StrEnum):
    """How a replica holds its GPU."""

    EXCLUSIVE = "Exclusive"
    MPS = "MPS"
    TIME_SLICING = "TimeSlicing"
    MIG = "MIG"


class Mode(StrEnum):
    """What Tenantry does inside the engine."""

    ENFORCE = "Enforce"
    OBSERVE = "Observe"
    OFF = "Off"


class Fairness(StrEnum):
    """What is divided between tenants."""

    GPU_TIME = "GPUTime"
    TOKENS = "Tokens"
    NONE = "None"


class Ordering(StrEnum):
    """Whose turn it is inside a tenant."""

    COST = "Cost"
    FIFO = "FIFO"
    PRIORITY = "Priority"
    WEIGHTED = "Weighted"
    SJF = "SJF"
    AGING_PRIORITY = "AgingPriority"
    SVF = "SVF"
    SVF_1BIT = "SVF1Bit"
    DEADLINE = "Deadline"


class Eviction(StrEnum):
    """Which cached block of a tenant goes first."""

    LRU = "LRU"
    LFU = "LFU"
    SIZE = "Size"
    HYBRID = "Hybrid"


class Isolation(StrEnum):
    """Who may hit whose prefix cache."""

    TENANT = "Tenant"
    GROUP = "Group"
    SHARED = "Shared"


class Tier(StrEnum):
    """The band of a tenant in the engine."""

    CRITICAL = "Critical"
    STANDARD = "Standard"
    BATCH = "Batch"


class UnknownTenant(StrEnum):
    """What happens to a request of a tenant that the policy does not name."""

    DEFAULT = "Default"
    REFUSE = "Refuse"
