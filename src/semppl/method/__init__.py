"""The paper, as pure tensors: no config, files, devices or ranks."""
