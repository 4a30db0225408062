"""The tester function: tests http and tcp conditions, without any permission."""
