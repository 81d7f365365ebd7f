"""Studies in a file: workspaces, patches and mu values in, one result for each of them out."""
