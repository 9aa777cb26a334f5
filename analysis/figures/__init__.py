"""The interactive figures of the report, by plotly."""
