"""Toys on record: their columns, in memory or as Parquet parts in a folder that survives anything."""
