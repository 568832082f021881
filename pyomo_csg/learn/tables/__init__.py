"""Tables and arrays of the user: columns, contexts and histories as numbers."""
