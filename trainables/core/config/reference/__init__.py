"""Names and defaults of other libraries, and what becomes of them here."""
