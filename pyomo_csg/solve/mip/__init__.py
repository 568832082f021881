"""Programs with integer variables: branching on the first stage, exact leaves."""
