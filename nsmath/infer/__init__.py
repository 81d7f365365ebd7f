"""Toys, test statistics, hypothesis tests."""
