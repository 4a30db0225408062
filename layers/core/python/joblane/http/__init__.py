"""API Gateway events to service calls and back. In the Lambda layer only."""
