"""The two ways in which a run can fail before it has results."""


class BadInputError(ValueError):
    """The caller can mend it; the message names the field or flag, the value and the way out."""


class UnavailableError(RuntimeError):
    """The endpoint or the cluster does not answer as it should; the message says what to do."""
