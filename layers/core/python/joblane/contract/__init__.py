"""The API contract: routes, request and response models, problems, access rules."""
