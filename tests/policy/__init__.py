"""Tests of what a policy does after its fit."""
