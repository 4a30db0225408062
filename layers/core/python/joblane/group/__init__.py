"""Groups: the jobs of a broadcast as one value, and the state that follows from them."""
