"""The colours of all figures and pictures: one palette for light and dark.

Every colour has a contrast of at least 3:1 on both backgrounds (WCAG 2.2, 1.4.11), and neighbours
differ for the common forms of colour blindness.
"""

from __future__ import annotations

BLUE = "#1f7fd0"
ORANGE = "#d9650b"
GREEN = "#0e8f7c"
PURPLE = "#8a63d2"
RED = "#d6402f"
GREY = "#8a8f98"
