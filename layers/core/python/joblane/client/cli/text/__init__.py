"""Text for a terminal: tables, formats, live views."""
