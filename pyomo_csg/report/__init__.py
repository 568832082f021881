"""Reports of a policy: text, an HTML page, and plots."""
