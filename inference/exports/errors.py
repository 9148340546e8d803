"""What exports raise; apart, so that commands which only name it load no model library."""


class ExportError(RuntimeError):
    """A component cannot be exported as asked, or what was written differs from it."""
