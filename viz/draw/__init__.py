"""Drawing primitives for sheets and videos."""
