"""Documents that are no policy, with what is said about each.

One table for two readers: the unit tests ask `parse`, the cluster tests ask the API server, and
both must refuse every one of them.
"""

from tenantry_api import parse
from tenantry_api.tests.broken_rules import RULES
from tenantry_api.tests.broken_values import TYPES, VALUES

REFUSALS = (*TYPES, *RULES, *VALUES)

BAD_NAMES = ("Chat", "1chat", "chat.v2", "c" * 64, "chat-")
NAME_MESSAGE = f"metadata.name {parse.NAME_MESSAGE}"
