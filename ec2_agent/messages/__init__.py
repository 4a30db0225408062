"""Delivered messages: what they say, how they are held, and how they are given back."""
