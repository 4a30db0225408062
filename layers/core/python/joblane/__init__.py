"""Joblane's shared core: the job model, its lifecycle, and the AWS edge behind small classes."""
