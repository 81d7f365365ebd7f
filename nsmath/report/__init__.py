"""Reports: one HTML page of a workspace or a store of toys, with everything that it shows inside it."""
