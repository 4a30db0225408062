"""Who is served next: between a delivered message and a running attempt."""
