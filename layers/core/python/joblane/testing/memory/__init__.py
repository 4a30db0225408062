"""AWS in memory, as far as Joblane uses it. One clock, no network, no threads."""
