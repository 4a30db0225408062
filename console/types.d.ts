// Types of the API's objects, made from the OpenAPI document by scripts/console-types.
export * from 'joblane-api';
