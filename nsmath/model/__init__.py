"""What a workspace means: named parameters, data, auxiliary data, and the tensors that a machine needs of them."""
