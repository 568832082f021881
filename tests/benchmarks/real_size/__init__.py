"""Models of the size that users have: what a fit takes, and what its decisions cost."""
