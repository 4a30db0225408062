"""Domain: text formats that everything shares: times and job ids."""
