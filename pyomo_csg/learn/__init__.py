"""Learning which scenarios to plan for, from contexts and what then happened."""
