"""The 15 corruptions of ImageNet-C, made from any image."""
