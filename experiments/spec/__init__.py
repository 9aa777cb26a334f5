"""What a spec says: its files, sections and short forms."""
